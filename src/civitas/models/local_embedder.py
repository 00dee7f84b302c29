"""Embedding texts with llama.cpp in this process, for recall by meaning."""

from __future__ import annotations

import hashlib
import math
import os
import threading
import weakref
from pathlib import Path

from civitas.arguments import check_count
from civitas.errors import DefinitionError, MissingExtra, ModelError, WeightsError
from civitas.jsonvalue import readable
from civitas.models import weights
from civitas.models.base import Closing
from civitas.models.engine import EXIT_S
from civitas.models.llama import Llama
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
                f"LocalEmbedder: pooling= must be {', '.join(_POOLINGS)} or None, got {pooling!r}"
            )
        if not isinstance(prefix, str):
            raise DefinitionError(f"LocalEmbedder: prefix= must be text, got {prefix!r}")
        check_count("LocalEmbedder", "context_tokens", context_tokens, least=32)
        check_count("LocalEmbedder", "threads", threads, optional=True)
        if path is None:
            pooling = pooling or "mean"
            self.path = weights.DEFAULT.require()
        else:
            self.path = Path(path).expanduser()
        MissingExtra.unless("LocalEmbedder", "local", "xllamacpp")
        # One slot: beside another, a text would be rounded otherwise.
        self._llama = Llama(
            self.path,
            slots=1,
            context_tokens=context_tokens,
            batch_tokens=context_tokens,
            cores=threads,
            pooling=pooling or "unspecified",
        )
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._prefix = prefix
        self._finalizer = weakref.finalize(self, _unload, self._llama, self._lock, self._process)
        digest = hashlib.sha256()
        self._llama.server(digest.update)
        try:
            self.dimensions = len(self._ask(["a"])[0])
        except ModelError as error:
            self._llama.unload(safe=False)
            reason = str(error)
            if "ooling" in reason:
                reason = (
                    f"{self.path}: does not say how vectors of tokens become one: pass pooling="
                )
            raise WeightsError(reason) from None
        settings = f"{pooling or 'own'}-{context_tokens}-{prefix!r}"
        self.name = f"llama.cpp-1-{self.path.stem}-{digest.hexdigest()[:16]}-{settings}"

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector of length 1 for each text, in their order; one without a word has the length 0.

        Raises:
            ModelError: it was closed, or the runtime failed
        """
        found: list[list[float]] = [[0.0] * self.dimensions for _ in texts]
        places = [place for place, text in enumerate(texts) if text.strip()]
        for begin in range(0, len(places), _BATCH):
            some = places[begin : begin + _BATCH]
            prefixed = [self._prefix + readable(texts[place]) for place in some]
            for place, vector in zip(some, self._vectors(prefixed), strict=True):
                found[place] = vector
        return found

    def close(self) -> None:
        """Give the memory back; then it embeds no more."""
        self._finalizer()

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        if self._process != os.getpid():  # the threads of the runtime have stayed with the parent
            raise ModelError(f"LocalEmbedder({self.path.name!r}) was made in another process")
        with self._lock:
            if not self._finalizer.alive:
                raise ModelError(f"LocalEmbedder({self.path.name!r}) is closed")
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
            raise ModelError(f"{self.path.name}: a character has more tokens than the context")
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
        answer = self._llama.server().handle_embeddings({"input": texts})
        error = answer.get("error")
        if error is not None:
            reason = one_line(str(error.get("message", error)), 300)
            if "too large" in reason or error.get("type") == "exceed_context_size_error":
                raise _TooLong
            raise ModelError(f"{self.path.name}: {reason}")
        return [
            each["embedding"] for each in sorted(answer["data"], key=lambda each: each["index"])
        ]


class _TooLong(Exception):
    """A text of a batch has more tokens than the context holds."""


def _unload(llama: Llama, lock: threading.Lock, process: int) -> None:
    # Taken apart under a thread that is inside it, or in a child of a fork, it would take the
    # process along.
    safe = process == os.getpid() and lock.acquire(timeout=EXIT_S)
    llama.unload(safe)
    if safe:
        lock.release()
