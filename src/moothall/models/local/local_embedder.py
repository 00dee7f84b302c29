"""Embedding texts with llama.cpp in this process, for recall by meaning."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

from moothall.foundation.arguments import check_integer, check_path
from moothall.foundation.errors import ConfigError, MissingExtra, ModelError, WeightsError
from moothall.foundation.jsonvalue import readable
from moothall.foundation.text import one_line
from moothall.models.local import weights
from moothall.models.local.engine import InProcess, Job
from moothall.models.local.llama import Llama

_POOLINGS = ("mean", "cls", "last")
_BATCH_TEXTS = 16
_MAX_INT = 2**31 - 1  # an int of C


class LocalEmbedder(InProcess):
    """Embeds with llama.cpp in this process, with any GGUF file that is made for it.

    A text longer than the context is embedded in halves, or halves of these, and its vector is
    their mean, weighted by their lengths: nothing is cut. On one machine a text always has the same
    vector, whatever else is embedded with it. A text without a word has a vector of length 0.

    The default weights are a chat model's, whose vectors capture less meaning than an embedder's:
    they are for a quick start. For better recall, fetch an embedder, such as
    `moothall models fetch hf:ORG/NAME/FILE.gguf`, and pass its path.

    It may be used from several threads; one call is computed at a time. It loads when it is made.

    Args:
        path: the weights; default: the ones that `moothall models fetch` fetches
        pooling: how the vectors of a text's tokens become one: `mean`, `cls` or `last`; default:
            what the file states, and `mean` for the default weights
        prefix: precedes every text, for embedders that need one, such as `query: `
        context_tokens: how many tokens are embedded at once
        threads: how many of the processor's cores to use; llama.cpp chooses if left out

    Attributes:
        name: the weights, by a hash of the file, and every setting that a vector depends on
        dimensions: how many numbers a vector has

    Use it as a context manager, or `close()` it, to free the memory.

    Raises:
        MissingExtra: the extra `local` is not installed
        WeightsError: the weights are missing, damaged, or not made to embed texts
        DefinitionError: an argument has a wrong type or value
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
            raise ConfigError(
                f"LocalEmbedder: pooling= must be {', '.join(_POOLINGS)} or None, got {pooling!r}"
            )
        if not isinstance(prefix, str):
            raise ConfigError(f"LocalEmbedder: prefix= must be text, got {prefix!r}")
        check_path("LocalEmbedder: path=", path, optional=True)
        check_integer("LocalEmbedder: context_tokens=", context_tokens, 32, _MAX_INT)
        check_integer("LocalEmbedder: threads=", threads, 1, _MAX_INT, optional=True)
        if path is None:
            pooling = pooling or "mean"
        self.path: Path = weights.path_or_default(path)
        MissingExtra.unless("LocalEmbedder", "local", "xllamacpp")
        # One slot: beside another text, a text's vector would be rounded differently.
        llama = _Embedding(
            f"LocalEmbedder({self.path.name!r})",
            self.path,
            slots=1,
            context_tokens=context_tokens,
            cores=threads,
            pooling=pooling or "unspecified",
        )
        self._prefix = prefix
        self._own_engine(llama)
        try:
            self.dimensions: int = len(self._engine.compute_in_thread(["a"])[0])
        except ModelError as error:
            llama.unload(is_safe=False)
            reason = str(error)
            if "ooling" in reason:
                reason = (
                    f"{self.path}: does not say how vectors of tokens become one: pass pooling="
                )
            raise WeightsError(reason) from None
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        settings = f"{pooling or 'own'}-{context_tokens}-{prefix!r}"
        self.name: str = f"llama.cpp-1-{self.path.stem}-{digest[:16]}-{settings}"

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text, in order; of length 0 for one without a word.

        Raises:
            ModelError: the embedder was closed, or the runtime failed
        """
        vectors: list[list[float]] = [[0.0] * self.dimensions for _ in texts]
        indexes = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(indexes), _BATCH_TEXTS):
            batch = indexes[start : start + _BATCH_TEXTS]
            prefixed = [self._prefix + readable(texts[place]) for place in batch]
            for place, vector in zip(batch, self._engine.compute_in_thread(prefixed), strict=True):
                vectors[place] = vector
        return vectors


class _Embedding(Llama):
    """Embeds texts; a request is a list of them, and its answer a list of their vectors."""

    def run(self, job: Job) -> list[list[float]]:
        """Embed the texts together, or those too long for the context in parts."""
        try:
            return self._ask(job.request)
        except _TooLong:
            return [self._vector(text) for text in job.request]

    def _vector(self, text: str) -> list[float]:
        try:
            return self._ask([text])[0]
        except _TooLong:
            pass
        if len(text) < 2:
            raise ModelError(
                f"{self.path.name}: a character has more tokens than its context: take another one"
            )
        middle = text.rfind(" ", len(text) // 4, len(text) // 2 + 1) + 1 or len(text) // 2
        halves = (text[:middle], text[middle:])
        vectors = [self._vector(half) for half in halves]
        mean = [
            math.fsum(len(half) * value for half, value in zip(halves, values, strict=True))
            for values in zip(*vectors, strict=True)
        ]
        length = math.hypot(*mean)
        return [value / length for value in mean] if length else mean

    def _ask(self, texts: list[str]) -> list[list[float]]:
        answer = self.server().handle_embeddings({"input": texts})
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
