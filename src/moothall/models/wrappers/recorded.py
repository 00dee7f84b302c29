"""A model whose answers are recorded in a file and replayed for the same request."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import json
import logging
import os
import weakref
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from moothall.foundation.arguments import check_integer, check_path, check_text
from moothall.foundation.errors import ModelError
from moothall.foundation.text import one_line
from moothall.foundation.threads import ProcessBound, guard, in_child
from moothall.models.base import (
    AnsweringModel,
    Closing,
    ModelRequest,
    in_pieces,
    is_in_process,
    prepare,
)
from moothall.models.names import model as named
from moothall.models.protocol import Model, ModelReply, StreamPart

if TYPE_CHECKING:
    from moothall.actions import Action

logger: logging.Logger = logging.getLogger("moothall.models")

_FORMAT = "moothall recorded model"
_VERSION = 1


class RecordedModel(ProcessBound, AnsweringModel, Closing, remedy="make it there"):
    """Asks a model once for each request, and replays the recorded answer from then on.

    Requests are compared by content: messages, actions (name, description and parameters), schema.
    With `None` for the model it only replays and calls no model: a request that is not in the file
    raises a `ModelError` that shows it. Errors are not recorded.

    Concurrent equal requests cause one call. The answers are in memory; the file only grows, a line
    at a time, so a killed process loses at most the line that it was writing. Only one process at a
    time may use the file: what another adds is not seen.

    A recorded answer is streamed word by word. A stream is recorded at its end; one that broke off,
    or was closed earlier, is not.

    Args:
        model: the model, or the name of one; None to replay
        path: the file; it belongs to one model, whose name is in it
        name: what people call it; the model's own name if left out
        context_tokens: when replaying, replaces the recorded value
        max_tokens: when replaying, replaces the recorded value

    Raises:
        ModelError: the file is missing, damaged, or another model's
        ConfigError: the path is not one
    """

    asks_others = True

    def __init__(
        self,
        model: Model | str | None,
        path: str | Path,
        *,
        name: str | None = None,
        context_tokens: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        check_text("RecordedModel: name=", name, optional=True)
        check_integer("RecordedModel: context_tokens=", context_tokens, optional=True)
        check_integer("RecordedModel: max_tokens=", max_tokens, optional=True)
        check_path("RecordedModel: path=", path)
        self.path: Path = Path(path).expanduser()
        self.model: Model | None = None if model is None else named(model)
        self._lock = guard()
        self._pending: dict[str, Future[None]] = {}  # each ends with the answer to its request
        in_child(self._forget)
        self._file = _RecordingFile(self.path, self.model)
        self._finalizer = weakref.finalize(self, self._file.close)
        self.name: str = name or self._file.model
        self.context_tokens: int | None = context_tokens or self._file.context_tokens
        # The model's, if there is one; old recordings do not have it.
        model_max = self._file.max_tokens
        if self.model is not None:
            model_max = getattr(self.model, "max_tokens", None)
        self.max_tokens: int | None = max_tokens or model_max
        self.reads_images: bool = self._file.reads_images

    @property
    def in_process(self) -> bool:
        """Whether the recorded model is one in this process."""
        return is_in_process(self.model)

    def __len__(self) -> int:
        """How many answers are recorded."""
        return len(self._file.replies)

    def __repr__(self) -> str:
        return f"RecordedModel({self.name!r}, {str(self.path)!r})"

    def close(self) -> None:
        """Close the file; a closed model answers no more."""
        with self._lock:
            self._finalizer()

    def _forget(self) -> None:
        self._pending.clear()  # what the parent asks is answered there

    async def _prepare(self, actions: list[Action] | None) -> None:
        await prepare(self.model, actions)

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        content = request.as_json(self.name, sort_keys=True, allow_nan=False)
        key = hashlib.sha256(content.encode()).hexdigest()
        description = _description(request)
        recorded = await self._take_turn(key, description)
        if recorded is not None:
            for part in in_pieces(recorded) if request.stream else (recorded,):
                yield part
            return
        assert self.model is not None  # without a model `_take_turn` raises
        pending = self._pending[key]
        reply: ModelReply | None = None
        try:
            async with aclosing(request.stream_from(self.model)) as parts:
                async for part in parts:
                    if isinstance(part, ModelReply):
                        reply = part
                        break
                    yield part
            if reply is None:
                raise ModelError(f"{self.name}: its stream ended without an answer")
            with self._lock:
                if self._finalizer.alive:
                    self._file.add(key, reply, description)
        except ModelError as error:
            pending.set_exception(error)
            raise
        finally:
            with self._lock:
                self._pending.pop(key, None)
            if not pending.done():
                pending.set_result(None)
        yield reply

    async def _take_turn(self, key: str, description: str) -> ModelReply | None:
        """Return the recorded answer; None means that the caller must ask for it."""
        while True:
            with self._lock:
                if not self._finalizer.alive:
                    raise ModelError(
                        f"{self.name}: the recording {self.path} is closed: make another one"
                    )
                if (recorded := self._file.replies.get(key)) is not None:
                    return recorded
                if self.model is None:
                    raise ModelError(
                        f"{self.name}: {self.path} has no answer to this request: {description}"
                    )
                pending = self._pending.get(key)
                if pending is None:
                    self._pending[key] = Future()
                    return None
            # If the asking caller is cancelled, one of the waiting callers asks in its place. A
            # waiting caller's cancellation does not affect the others.
            await asyncio.shield(asyncio.wrap_future(pending))


def _description(request: ModelRequest) -> str:
    """Describe a request in one line, for people."""
    messages, actions, schema, _ = request
    text = messages[-1].get("content")
    preview = one_line(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False), 80)
    names = ", ".join(action.name for action in actions or ())
    offered = f"actions {names}" if names else "no actions"
    return (
        f"{len(messages)} messages, the last from {messages[-1].get('role')}: {preview!r}; "
        f"{offered[:200]}; {'a' if schema is not None else 'no'} schema"
    )


class _RecordingFile:
    """The lines of a recording: a head that names the model, then one answer per line."""

    def __init__(self, path: Path, model: Model | None) -> None:
        self.path = path
        self.replies: dict[str, ModelReply] = {}  # by the hashes of their requests
        self._output: BinaryIO | None = None
        try:
            if model is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                # Unbuffered, a line is one write, which no other writer's line interrupts.
                self._output = open(os.open(path, flags, 0o600), "wb", buffering=0)  # noqa: SIM115
            with self._lock_file():  # two that begin it at once would write two heads
                head = self._load()
                if head is None:
                    if model is None:
                        raise ModelError(f"{path} is empty: record it first, with a model=")
                    head = {"format": _FORMAT, "version": _VERSION}
                    head |= {"model": model.name, "context_tokens": model.context_tokens}
                    head["max_tokens"] = getattr(model, "max_tokens", None)
                    if getattr(model, "reads_images", False):
                        head["reads_images"] = True
                    self._write(head)
            if model is not None and head["model"] != model.name:
                raise ModelError(
                    f"{path} is a recording of {head['model']}, not of {model.name}: use that "
                    "model, or another path"
                )
        except BaseException as error:
            self.close()
            if isinstance(error, FileNotFoundError):
                raise ModelError(
                    f"there is no recording {path}: record it first, with a model="
                ) from None
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise ModelError(f"the recording {path} cannot be opened: {reason}") from error
            raise
        self.model: str = head["model"]
        self.context_tokens: int | None = head["context_tokens"]
        self.max_tokens: int | None = head.get("max_tokens")
        self.reads_images: bool = head.get("reads_images") is True

    def close(self) -> None:
        if self._output is not None:
            self._output.close()

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        """Have no other writer of the file meanwhile."""
        if self._output is None:
            yield
            return
        with suppress(OSError):  # on a disk without locks, one process at a time may use it
            fcntl.flock(self._output, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(self._output, fcntl.LOCK_UN)

    def _load(self) -> dict[str, Any] | None:
        """Read the answers; return the head, or None if the file is empty."""
        head: dict[str, Any] | None = None
        end = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    logger.warning("the recording %s ends with an unfinished line", self.path)
                    if self._output is not None:
                        # A process was killed as it wrote this line; a next line would be damaged.
                        self._output.truncate(end)
                    break
                try:
                    record = json.loads(line)
                    if head is not None:
                        self.replies.setdefault(record["key"], ModelReply.of_json(record["reply"]))
                    elif (record["format"], record["version"]) == (_FORMAT, _VERSION):
                        head = {"context_tokens": None, **record, "model": str(record["model"])}
                    else:
                        raise ValueError
                except (KeyError, TypeError, ValueError, RecursionError):
                    fault = f"line {number} is damaged; delete it to record it again"
                    if head is None:
                        fault = f"is not a recording of a model, of version {_VERSION}"
                    raise ModelError(f"{self.path}: {fault}") from None
                end += len(line)
        return head

    def add(self, key: str, reply: ModelReply, description: str) -> None:
        if not ModelReply.can_read(reply):  # asking again gives another one
            return
        answer = ModelReply.json_of(reply)
        del answer["type"]
        if not reply.reasoning:
            del answer["reasoning"]
        try:
            with self._lock_file():
                self._write({"key": key, "about": description, "reply": answer})
        except OSError as error:
            reason = error.strerror or error
            raise ModelError(f"the recording {self.path} cannot be written: {reason}") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(
                f"the recording {self.path} cannot keep an answer that is not JSON: {error}"
            ) from error
        self.replies[key] = reply

    def _write(self, record: dict[str, Any]) -> None:
        assert self._output is not None  # open, since there is a model to record
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        if (written_bytes := self._output.write(line)) != len(line):
            # Remove the partial line.
            self._output.truncate(self._output.tell() - (written_bytes or 0))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
