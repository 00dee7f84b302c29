"""llama.cpp in this process: the weights of one file, loaded once, for chat or for embedding."""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import tempfile
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from moothall.actions.signature.schema import SchemaValidator, WrongSchema, map_schemas
from moothall.foundation.errors import ContextOverflow, ModelError, WeightsError
from moothall.foundation.text import one_line
from moothall.foundation.threads import guard
from moothall.models.calling.choice import GUIDANCE
from moothall.models.chat_stream import AnswerStream
from moothall.models.local import weights
from moothall.models.local.engine import InferenceEngine, Job, patient_threads
from moothall.models.protocol import ModelReply, ReasoningPiece, TextPiece, Usage
from moothall.models.refusal import Refusal, refuses_content

SPIN_TURNS: Final = 3_000
"""Spin turns that take about as long as a slow wake-up of a thread.

Tokens a second on two cores (both idle, one busy, both busy): 77, 40, 31 with 400 turns; 103, 31,
39 with 1,000; 107, 23, 42 with 4,000; 101, 8, 37 with 100,000, near the runtime's own number.
"""
BATCH_TOKENS: Final = 128
"""A prompt can only be abandoned between two batches. 128 tokens take some tenths of a second on
small models, at 97% of the speed of much larger batches."""
IMAGE_TOKENS: Final = 512
"""Some weights must read an image in one batch, such as the 256 tokens of Gemma's."""
_LARGEST_INT = 2**53 - 1  # the largest integer that every JSON reader reads exactly
_LARGEST_RUNTIME_INT = 2**63 - 1024  # the largest float below the 64 bits that it reads
_READ_BYTES = 1 << 22
_JSON_STARTS = frozenset('{["-0123456789tfn')


@dataclass(eq=False)
class Llama(InferenceEngine):
    """The runtime with the weights of a file; if `pooling` is set, it embeds."""

    path: Path
    context_tokens: int
    cores: int | None
    pooling: str | None = None
    thinks: bool = False
    mmproj: Path | None = None  # the vision projector of weights that see

    def __post_init__(self) -> None:
        super().__post_init__()
        self._load_lock = guard(threading.Lock())
        self._server: Any = None

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._server is not None

    def server(self) -> Any:
        """Return the runtime's server, loading it if needed."""
        with self._load_lock:
            if self._server is None:
                weights.check_gguf(self.path)
                # The runtime holds the interpreter's lock until the model is loaded. Reading the
                # file first puts it into the system's cache and makes that time short.
                buffer = bytearray(_READ_BYTES)
                with self.path.open("rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass
                server = self._start()
                # Destroyed before its loop runs, it would hang.
                if self.pooling is None:
                    server.handle_completions(
                        {"prompt": "a", "max_tokens": 1, "cache_prompt": False}
                    )
                else:
                    server.handle_embeddings({"input": ["a"]})
                self._server = server
            return self._server

    def unload(self, is_safe: bool) -> None:
        """Free the memory; if not `safe`, leak it, since freeing it would crash the process."""
        if not is_safe and self._server is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))
        self._server = None

    def _start(self) -> Any:
        xllamacpp = _library()
        params = xllamacpp.CommonParams()
        params.model.path = str(self.path)
        if self.pooling is not None:
            params.embedding = True
            kind = f"LLAMA_POOLING_TYPE_{self.pooling.upper()}"
            params.pooling_type = getattr(xllamacpp.llama_pooling_type, kind)
        params.n_parallel = self.slots
        params.n_ctx = self.slots * self.context_tokens
        # What is embedded at once is one batch.
        batch_tokens = BATCH_TOKENS if self.pooling is None else self.context_tokens
        if self.mmproj is not None:
            params.mmproj.path, batch_tokens = str(self.mmproj), IMAGE_TOKENS
        params.n_batch = params.n_ubatch = batch_tokens
        params.ctx_shift = False  # a full context ends an answer; nothing of its beginning is cut
        # Besides the prompts in its slots it caches as many tokens of others, so a conversation is
        # not read again because others came between. The cache allocates memory as it grows.
        params.cache_ram_mib = 0 if self.slots == 1 else -1
        params.enable_reasoning = int(self.thinks)
        params.fit_params = params.warmup = False
        params.verbosity = 9 if os.environ.get("MOOTHALL_DEBUG", "") not in ("", "0") else -1
        if self.cores is not None:
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.cores
        # The runtime always opens an HTTP server, which must not be usable: it requires a random
        # key, and on POSIX it listens on a Unix socket that is removed.
        params.ui = params.endpoint_slots = False
        params.n_threads_http = 1
        params.cors_origins = ""
        params.api_keys = [secrets.token_urlsafe(32)]
        with tempfile.TemporaryDirectory(prefix="moothall-", ignore_cleanup_errors=True) as folder:
            if os.name == "posix":
                params.hostnames = [f"{folder}/llama.sock"]
            try:
                return xllamacpp.Server(params)
            except RuntimeError as error:
                pair = "" if self.mmproj is None else f" with {self.mmproj} as mmproj="
                raise WeightsError(
                    f"{self.path}: could not be loaded{pair}: incomplete, damaged, of a kind that "
                    "the runtime does not know, or too large for the memory: fetch or download it "
                    "again, or take a smaller one (MOOTHALL_DEBUG=1 shows more)"
                ) from error


class ChatEngine(Llama):
    """Completes chats; a request is a chat's body, and the schema of the text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._begins_with_thought = self.thinks

    def run(self, job: Job) -> ModelReply | None:
        """Complete a chat under the grammar of its schema."""
        try:
            return self._complete_chat(job)
        except _UnexpectedReasoning:  # whatever it is told, as the template of some weights has it
            self._begins_with_thought = True
            return self._complete_chat(job)

    def _complete_chat(self, job: Job) -> ModelReply | None:
        server = self.server()
        body, schema = job.request
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        # Every batch of the prompt reports progress: a chance to stop before the first token.
        body["return_progress"] = True
        try:
            if schema is not None:
                grammar = self._grammar(schema)
                body["grammar"] = _after_thought(grammar) if self._begins_with_thought else grammar
            data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"{self.name}: its input is not JSON: {error}") from error
        reader = _ChunkReader(job, AnswerStream(self.name, 0), is_constrained=schema is not None)
        reader.allows_reasoning = self._begins_with_thought or schema is None
        try:
            server.handle_chat_completions(data, reader.take)
        except (RuntimeError, ValueError) as error:
            raise self._make_error(str(error)) from error
        if job.is_cancelled:
            return None
        if reader.has_unexpected_reasoning:
            raise _UnexpectedReasoning
        if reader.fault is not None:
            raise reader.fault
        if reader.error is not None:
            raise self._server_error(reader.error)
        if not reader.has_wrong_start:
            reply: Any = reader.answer.end()[-1]
            if schema is None or reply.finish_reason != "stop" or _is_json(reply.text):
                # What this process had cached costs nothing, and differs from run to run.
                usage = Usage(reply.usage.input_tokens, reply.usage.output_tokens)
                return replace(reply, usage=usage)  # type: ignore[no-any-return]
        raise ModelError(
            f"{self.name}: the runtime cannot hold answers to this schema; "
            "simplify it (bounds that exclude each other and references are likely reasons)"
        )

    def _grammar(self, schema: dict[str, Any]) -> str:
        # Its error differs from one of the runtime.
        text = json.dumps(schema, allow_nan=False)
        try:
            return _grammar_of(text)
        except WrongSchema as error:
            raise self._make_error(f"that is not a JSON schema: {error}") from error
        except (RuntimeError, ValueError) as error:
            raise self._make_error(str(error)) from error

    def _make_error(self, reason: str) -> ModelError:
        error = ModelError(f"{self.name}: {one_line(reason, 1000)}")
        error.refusal = Refusal(reason)
        return error

    def _server_error(self, error: dict[str, Any]) -> ModelError:
        if error.get("type") == "exceed_context_size_error":
            return ContextOverflow(
                f"{self.name}: the prompt has {error.get('n_prompt_tokens')} tokens, and the "
                f"context holds {error.get('n_ctx')}; nothing was cut: give less, or make the "
                "model by LocalModel with a larger context_tokens="
            )
        model_error = self._make_error(str(error.get("message", error)))
        model_error.of_content = refuses_content({"error": error})
        return model_error


@dataclass(eq=False)
class _ChunkReader:
    """Delivers what the runtime generates; if constrained, unless it begins as no JSON does."""

    job: Job
    answer: AnswerStream
    is_constrained: bool
    has_wrong_start: bool = False
    allows_reasoning: bool = True  # whether reasoning may come before the text
    has_unexpected_reasoning: bool = False
    error: dict[str, Any] | None = None
    fault: Exception | None = None

    def take(self, raw: bytes) -> bool:
        """Read a chunk; return whether to stop. It does not raise: the runtime hides exceptions."""
        try:
            return self._read_chunk(raw)
        except Exception as error:
            self.fault = error
            return True

    def _read_chunk(self, raw: bytes) -> bool:
        chunk = json.loads(raw)
        self.error = chunk.get("error")
        if self.job.is_cancelled or self.error is not None:
            return True
        for piece in self.answer.take(chunk):
            if isinstance(piece, ReasoningPiece) and not self.allows_reasoning:
                self.has_unexpected_reasoning = True
                return True
            if self.is_constrained and not self.allows_reasoning and isinstance(piece, TextPiece):
                # The runtime silently drops a grammar that it cannot follow.
                self.is_constrained = False
                self.has_wrong_start = piece.text[0] not in _JSON_STARTS
                if self.has_wrong_start:
                    return True
            self.job.deliver(piece)
        return False


class _UnexpectedReasoning(Exception):
    """The answer begins with reasoning, where its grammar has none."""


def _after_thought(grammar: str) -> str:
    """Return a grammar that begins after the end of the model's reasoning."""
    rest = re.sub("^start:", "after_thought:", grammar, count=1, flags=re.M)
    return f'{rest}\nstart: thought after_thought\nthought[suffix="</think>"]: /(?s:.*)/\n'


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@lru_cache(64)
def _grammar_of(schema: str) -> str:
    """Return the grammar of a schema: made once, as an agent's actions differ little in a run."""
    SchemaValidator.of_json(schema)
    bounded = map_schemas(_bounded_schema, json.loads(schema))
    return str(_library().json_schema_to_grammar({**bounded, **GUIDANCE}))


def _bounded_schema(schema: dict[str, Any]) -> dict[str, Any]:
    # Without bounds, a small model may write digits until it is cut off.
    if schema.get("type") == "integer" and not {"enum", "const"} & schema.keys():
        low, high = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
        bounds = (schema.get(each) for each in (*low, *high))  # what is no schema has any value
        are_far = any(isinstance(b, int | float) and abs(b) >= _LARGEST_INT for b in bounds)
        largest = _LARGEST_RUNTIME_INT if are_far else _LARGEST_INT
        if not schema.keys() & low:
            schema["minimum"] = -largest
        if not schema.keys() & high:
            schema["maximum"] = largest
    return schema


def _library() -> Any:
    with patient_threads(SPIN_TURNS):
        import xllamacpp
    return xllamacpp
