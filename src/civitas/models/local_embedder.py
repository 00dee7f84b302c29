"""Embedding texts with llama.cpp in this process, for recall by meaning."""

from __future__ import annotations

import hashlib
import math
import os
import threading
import weakref
from pathlib import Path
from typing import Any

from civitas.errors import DefinitionError, MissingExtra, ModelError, WeightsError
from civitas.models import llama, weights
from civitas.models.base import Closing
from civitas.text import one_line

_POOLINGS = ("mean", "cls", "last")
_BATCH = 16


class LocalEmbedder(Closing):
    """Embeds with llama.cpp in this process, with any GGUF file that is made for it.

    A text that is longer than the context is embedded in halves, or halves of these, and its vector
    is their mean, weighted by their lengths: nothing is cut. The same text gives the same vector,
    whatever else is embedded with it, on one machine. A text without a word has the length 0.

    The default weights are of a chat model, whose vectors say less of a meaning than an embedder's
    do: they are there to work with at once. For more, fetch an embedder, such as
    `civitas models fetch hf:ORG/NAME/FILE.gguf`, and give its path.

    It may be used from several threads; one call is computed at a time. It loads when it is made.

    Args:
        path: the weights; left out, the default ones, which `civitas models fetch` brings
        pooling: how the vectors of a text's tokens become one: `mean`, `cls` or `last`; what the
            file says, if left out, and `mean` for the default weights
        prefix: stands before every text, for embedders that want one, such as `query: `
        context_tokens: how much is computed as one
        threads: how many of the processor's cores to use; llama.cpp chooses if left out

    Attributes:
        name: says the weights, by a hash of the file, and every setting that a vector depends on
        dimensions: how many numbers a vector has

    Use it as a context manager, or `close()` it, to give the memory back.

    Raises:
        MissingExtra: the extra `local` is not installed
        WeightsError: the weights are missing, damaged, or made for no vectors of texts
        DefinitionError: an argument is not what it should be
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        pooling: str | None = None,
        prefix: str = "",
        context_tokens: int = 512,
        threads: int | None = None,
    ) -> None:
        if pooling is not None and pooling not in _POOLINGS:
            raise DefinitionError(
                f"LocalEmbedder: pooling= is {', '.join(_POOLINGS)} or None, not {pooling!r}"
            )
        if not isinstance(prefix, str):
            raise DefinitionError(f"LocalEmbedder: prefix= is a text, not {prefix!r}")
        for what, value, least in (("context_tokens", context_tokens, 32), ("threads", threads, 1)):
            if what == "threads" and value is None:
                continue
            if type(value) is not int or value < least:
                raise DefinitionError(
                    f"LocalEmbedder: {what}= is an integer from {least} on, not {value!r}"
                )
        if path is None:
            pooling = pooling or "mean"
            self.path = weights.DEFAULT.require()
        else:
            self.path = Path(path).expanduser()
        MissingExtra.unless("LocalEmbedder", "local", "xllamacpp")
        self._engine = _Engine(self.path, pooling, context_tokens, threads)
        self._prefix = prefix
        self._finalizer = weakref.finalize(self, self._engine.close)
        digest = self._engine.start()
        self.dimensions = len(self._engine.embed(["a"])[0])
        settings = f"{pooling or 'own'}-{context_tokens}-{prefix!r}"
        self.name = f"llama.cpp-1-{self.path.stem}-{digest[:16]}-{settings}"

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector of length 1 for each text, in their order; one without a word has the length 0.

        Raises:
            ModelError: it was closed, or the runtime failed
        """
        found: list[list[float]] = [[0.0] * self.dimensions for _ in texts]
        places = [place for place, text in enumerate(texts) if text.strip()]
        for begin in range(0, len(places), _BATCH):
            some = places[begin : begin + _BATCH]
            prefixed = [self._prefix + _sendable(texts[place]) for place in some]
            for place, vector in zip(some, self._engine.embed(prefixed), strict=True):
                found[place] = vector
        return found

    def close(self) -> None:
        """Give the memory back; then it embeds no more."""
        self._finalizer()


class _TooLong(Exception):
    """A text of a batch has more tokens than the context holds."""


class _Engine:
    """The runtime, with one slot: beside another, a text would be rounded otherwise."""

    def __init__(
        self, path: Path, pooling: str | None, context_tokens: int, threads: int | None
    ) -> None:
        self._path = path
        self._pooling = pooling
        self._context_tokens = context_tokens
        self._threads = threads
        self._lock = threading.Lock()
        self._server: Any = None
        self._process = os.getpid()
        self._closed = False

    def start(self) -> str:
        """Load the weights; their hash."""
        digest = hashlib.sha256()
        llama.read_through(self._path, digest.update)
        self._server = self._load()
        return digest.hexdigest()

    def embed(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            if self._closed:
                raise ModelError(f"LocalEmbedder({self._path.name!r}) is closed")
            if self._process != os.getpid():
                # The threads of the runtime have stayed with the parent.
                llama.abandon(self._server)
                self._process = os.getpid()
                self._server = self._load()
            try:
                return self._ask(texts)
            except _TooLong:
                return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        try:
            return self._ask([text])[0]
        except _TooLong:
            pass
        if len(text) < 2:
            raise ModelError(f"{self._path.name}: a character has more tokens than the context")
        middle = text.rfind(" ", len(text) // 4, len(text) // 2 + 1) + 1 or len(text) // 2
        halves = [half for half in (text[:middle], text[middle:]) if half.strip()]
        vectors = [self._vector(half) for half in halves]
        mean = [
            math.fsum(len(half) * value for half, value in zip(halves, values, strict=True))
            for values in zip(*vectors, strict=True)
        ]
        length = math.hypot(*mean)
        return [value / length for value in mean] if length else mean

    def _ask(self, texts: list[str]) -> list[list[float]]:
        answer = self._server.handle_embeddings({"input": texts})
        error = answer.get("error")
        if error is not None:
            said = _message(error)
            if "too large" in said or error.get("type") == "exceed_context_size_error":
                raise _TooLong
            raise ModelError(f"{self._path.name}: {said}")
        return [
            each["embedding"] for each in sorted(answer["data"], key=lambda each: each["index"])
        ]

    def _load(self) -> Any:
        size = self._context_tokens
        server = llama.started(
            self._path,
            slots=1,
            context_tokens=size,
            batch_tokens=size,
            cores=self._threads,
            pooling=self._pooling or "unspecified",
        )
        answer = server.handle_embeddings({"input": ["a"]})
        if "error" in answer:
            llama.abandon(server)
            said = _message(answer["error"])
            if "ooling" in said:
                said = (
                    "says nothing of how the vectors of a text's tokens become one: pass pooling="
                )
            raise WeightsError(f"{self._path}: {said}")
        return server

    def close(self) -> None:
        if not self._lock.acquire(timeout=llama.EXIT_S):
            # Taken apart under a thread that is inside it, it would take the process along.
            llama.abandon(self._server)
            return
        try:
            self._closed = True
            if self._process != os.getpid():
                llama.abandon(self._server)
            self._server = None
        finally:
            self._lock.release()


def _message(error: dict[str, Any]) -> str:
    return one_line(str(error.get("message", error)), 300)


def _sendable(text: str) -> str:
    # Half a character, which JSON can write, is no text to the runtime.
    return text.encode("utf-8", "replace").decode()
