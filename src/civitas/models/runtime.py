"""llama.cpp in this process: loaded once, when first used; its slots shared by all callers.

The runtime's calls block, so each runs in a thread of ours, as many as there are slots; prompts
that are in slots at the same time are computed in one batch. What is generated comes piece by
piece, because that is when a generation can be stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from civitas.errors import ContextOverflow, ModelError
from civitas.models import llama
from civitas.models.protocol import ReasoningPiece, TextPiece
from civitas.text import one_line

# A prompt can only be abandoned between two batches of it. At 128 tokens that is some tenths of a
# second for small models, at 97 in 100 of the speed of much larger batches.
BATCH_TOKENS = 128
_JSON_STARTS = frozenset('{["-0123456789tfn')


@dataclass(frozen=True, slots=True)
class Generated:
    """What the runtime made of a prompt; `finish_reason` is `stop` or `length`."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str
    reasoning: str = ""


@dataclass(slots=True, eq=False)
class _Job:
    body: dict[str, Any]
    schema: dict[str, Any] | None
    deliver: Callable[[Generated | None, BaseException | None], None]
    on_piece: Callable[[TextPiece | ReasoningPiece], None] | None = None
    cancelled: bool = False
    pieces: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    is_json: bool = True

    def take(self, raw: bytes) -> bool:
        """Keep a piece of what is generated; whether that is enough.

        It must not raise: what the runtime does then is not said anywhere.
        """
        if self.cancelled:
            return True
        chunk = json.loads(raw)
        if "error" in chunk:
            self.error = chunk["error"]
            return True
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta", {})
            if thought := delta.get("reasoning_content"):
                self.reasoning.append(thought)
                if self.on_piece is not None:
                    self.on_piece(ReasoningPiece(thought))
            if piece := delta.get("content"):
                # A grammar that the runtime cannot keep to is dropped by it without a word.
                if self.schema is not None and not self.pieces and piece[0] not in _JSON_STARTS:
                    self.is_json = False
                    return True
                self.pieces.append(piece)
                if self.on_piece is not None:
                    self.on_piece(TextPiece(piece))
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.usage = chunk.get("usage") or self.usage
        return False


class Runtime:
    """One model in memory, its slots, and the threads that wait for them."""

    def __init__(
        self, path: Path, name: str, slots: int, context_tokens: int, threads: int | None
    ) -> None:
        self._path = path
        self._name = name
        self._slots = slots
        self._context_tokens = context_tokens
        self._cores = threads
        self._begin()
        _LIVE.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._active: set[_Job] = set()
        self._server: Any = None
        self._closed = False

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._server is not None

    async def generate(
        self, body: dict[str, Any], schema: dict[str, Any] | None, pieces: bool
    ) -> AsyncGenerator[TextPiece | ReasoningPiece | Generated, None]:
        """Have a chat completed: what is generated, piece by piece if wanted, and then the whole.

        If closed or cancelled, a generation ends with its next token, a prompt with its next batch;
        this call does not wait for either.
        """
        loop = asyncio.get_running_loop()
        # It holds one answer at most. A caller that takes its time is not waited for, because the
        # slot would be kept from others meanwhile.
        came: asyncio.Queue[TextPiece | ReasoningPiece | Generated | BaseException] = (
            asyncio.Queue()
        )

        def deliver(done: Generated | None, error: BaseException | None) -> None:
            last = error if error is not None else done
            if last is not None:
                _tell(loop, came.put_nowait, last)

        def show(piece: TextPiece | ReasoningPiece) -> None:
            _tell(loop, came.put_nowait, piece)

        job = _Job(body, schema, deliver, show if pieces else None)
        self._submit(job)
        try:
            while True:
                part = await came.get()
                if isinstance(part, BaseException):
                    raise part
                yield part
                if isinstance(part, Generated):
                    return
        finally:
            job.cancelled = True

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise ModelError(f"{self._name} is closed")
            self._active.add(job)
            if len(self._threads) < min(self._slots, len(self._active)):
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._jobs.put(job)

    def close(self, tell: bool = True) -> None:
        """End what is being generated and give the memory back; a second time it does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for job in self._active:
                job.cancelled = True
                if tell:
                    job.deliver(None, ModelError(f"{self._name} was closed while it was answering"))
            for _ in self._threads:
                self._jobs.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(llama.EXIT_S)
        if any(thread.is_alive() for thread in self._threads):
            # Taken apart under a thread that is inside it, it would take the process along.
            self._abandon()
        self._server = None

    def _abandon(self) -> None:
        llama.abandon(self._server)
        self._server = None

    def after_fork(self) -> None:
        """Forget, in a child process, the threads and the runtime that stayed with the parent."""
        self._abandon()
        closed = self._closed
        self._begin()
        self._closed = closed

    # -- in the threads ----------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            error: BaseException | None = None
            done: Generated | None = None
            try:
                if not job.cancelled:
                    done = self._run(job)
            except BaseException as raised:
                error = raised
            with self._lock:
                self._active.discard(job)
            job.deliver(done, error)
            # Nothing of the last job is kept while waiting for the next.
            del job, done, error

    def _run(self, job: _Job) -> Generated | None:
        server = self._load()
        body = {**job.body, "stream": True, "stream_options": {"include_usage": True}}
        # Progress comes with every batch of the prompt: a chance to stop before the first token.
        body["return_progress"] = True
        try:
            if job.schema is not None:
                body["grammar"] = self._grammar(job.schema)
            data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"{self._name}: what it was given is not JSON: {error}") from error
        try:
            server.handle_chat_completions(data, job.take)
        except (RuntimeError, ValueError) as error:
            raise self._refused(str(error)) from error
        if job.cancelled:
            return None
        if job.error is not None:
            raise self._failed(job.error)
        text = "".join(job.pieces)
        if job.schema is not None and job.finish_reason == "stop":
            try:
                json.loads(text)
            except ValueError:
                job.is_json = False
        if not job.is_json:
            raise ModelError(
                f"{self._name}: the runtime cannot hold answers to this schema; "
                "simplify it (bounds that exclude each other and references are likely reasons)"
            )
        if job.finish_reason is None:
            raise ModelError(f"{self._name}: the runtime broke the answer off")
        return Generated(
            text,
            job.usage.get("prompt_tokens", 0),
            job.usage.get("completion_tokens", 0),
            job.finish_reason,
            "".join(job.reasoning),
        )

    def _grammar(self, schema: dict[str, Any]) -> str:
        import jsonschema

        xllamacpp = llama.library()
        json.dumps(schema, allow_nan=False)  # told apart from what the runtime cannot read
        try:
            jsonschema.validators.validator_for(schema).check_schema(schema)
        except jsonschema.SchemaError as error:
            raise self._refused(
                f"that is no JSON schema: {error.json_path}: {error.message:.200}"
            ) from error
        # Without free whitespace, which small models do not come back from. Lenient: what a
        # grammar cannot say (`uniqueItems`, unknown formats) is for the caller to check.
        options = {
            "whitespace_flexible": False,
            "item_separator": ", ",
            "key_separator": ": ",
            "lenient": True,
        }
        try:
            return str(xllamacpp.json_schema_to_grammar({**schema, "x-guidance": options}))
        except (RuntimeError, ValueError) as error:
            raise self._refused(str(error)) from error

    def _refused(self, reason: str) -> ModelError:
        return ModelError(f"{self._name}: {one_line(reason, 1000)}")

    def _failed(self, error: dict[str, Any]) -> ModelError:
        if error.get("type") == "exceed_context_size_error":
            return ContextOverflow(
                f"{self._name}: the prompt has {error.get('n_prompt_tokens')} tokens, and the "
                f"context holds {error.get('n_ctx')}; nothing was cut. Give less, or a larger "
                "context_tokens="
            )
        return self._refused(str(error.get("message", error)))

    def _load(self) -> Any:
        with self._loading:
            if self._server is None:
                llama.read_through(self._path)
                server = llama.started(
                    self._path,
                    slots=self._slots,
                    context_tokens=self._context_tokens,
                    batch_tokens=BATCH_TOKENS,
                    cores=self._cores,
                )
                server.handle_completions({"prompt": "a", "max_tokens": 1, "cache_prompt": False})
                self._server = server
            return self._server


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., None], *about: Any) -> None:
    """Call something on a loop, from another thread."""
    try:
        loop.call_soon_threadsafe(what, *about)
    except RuntimeError:
        pass  # the loop has ended, and with it whoever waited


_LIVE: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _after_fork() -> None:
    for runtime in list(_LIVE):
        runtime.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
