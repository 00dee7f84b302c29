"""Embedding texts by a server with OpenAI's interface, for recall by meaning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

from moothall.foundation.arguments import check_integer, names_checked
from moothall.foundation.errors import ModelError
from moothall.foundation.http import HTTPError
from moothall.foundation.http.headers import HeadersLike
from moothall.foundation.http.server_url import ServerURL
from moothall.foundation.text import excerpt
from moothall.foundation.threads.workers import WORKERS
from moothall.models.remote.openai import OpenAIModel
from moothall.models.settings import KeyLike, joined_url

_BATCH_TEXTS = 128


@names_checked
class OpenAIEmbedder:
    """Embeds by a server: OpenAI's, another provider's, or any with OpenAI's `/embeddings`.

    Server, key, headers and retries are as with `OpenAIModel`. Several threads may use it.

    Args:
        name: the provider's name of the model, such as `text-embedding-3-small`
        base_url: the server, such as `http://127.0.0.1:8080/v1`
        api_key: the key; or a function that returns it
        dimensions: how many numbers a vector has, for models that can shorten theirs; by default
            what the server's first vector has
        timeout: seconds that one attempt may take
        max_retries: how many more attempts are made
        options: more fields of each request
        headers: more headers of each request, or a function that returns them
        provider: whose server and key are used without `base_url`

    Attributes:
        name: model, server and dimensions, by which its vectors are stored

    Raises:
        MissingExtra: the extra `openai` is not installed
        ModelError: there is no key, or the server cannot embed
        DefinitionError: an argument has a wrong type or value
    """

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: KeyLike = None,
        *,
        dimensions: int | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        options: Mapping[str, Any] | None = None,
        headers: HeadersLike = None,
        provider: str = "openai",
    ) -> None:
        check_integer("OpenAIEmbedder: dimensions=", dimensions, optional=True)
        self._server = OpenAIModel(
            name,
            base_url,
            api_key,
            timeout=timeout,
            max_retries=max_retries,
            options=options,  # checked there
            headers=headers,
            provider=provider,
        )
        self._body: dict[str, Any] = {**(options or {}), "model": name, "encoding_format": "float"}
        if dimensions is not None:
            self._body["dimensions"] = dimensions
        self._dimensions = dimensions
        self.name: str = f"{self._server.name}, {dimensions or 'all'} dimensions"

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._server.model!r}, {self._server.base_url!r})"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; the server is asked, if nobody has stated it."""
        if self._dimensions is None:
            self._dimensions = len(self.embed(["dimensions"])[0])
        return self._dimensions

    def embed(self, texts: list[str], /) -> list[list[float]]:
        """Return a vector for each text, in order.

        Raises:
            ModelError: the server cannot embed
        """
        # In another thread, since this one may have a loop that runs.
        results = SimpleQueue[tuple[Any, BaseException | None]]()
        WORKERS.submit(
            asyncio.run, self._embed_texts(texts), done=lambda *outcome: results.put(outcome)
        )
        vectors, error = results.get()
        if error is not None:
            raise error
        return vectors  # type: ignore[no-any-return]

    async def _embed_texts(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        url = joined_url(self._server.base_url, "/embeddings")
        ServerURL(url).check_allowed(self._server.name)
        async with self._server as server:
            for start in range(0, len(texts), _BATCH_TEXTS):
                # Servers refuse empty texts.
                batch = [each or " " for each in texts[start : start + _BATCH_TEXTS]]
                body = json.dumps({**self._body, "input": batch}, allow_nan=False).encode()
                try:
                    vectors += self._read_vectors(await server.json_at(url, body), batch)
                except HTTPError as error:
                    raise server.failures.connection_error(str(error)) from None
        return vectors

    def _read_vectors(self, answer: Any, batch: list[str]) -> list[list[float]]:
        data = answer.get("data") if isinstance(answer, dict) else None
        rows = [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
        vectors: list[Any] = [each.get("embedding") for each in sorted(rows, key=_index)]
        if len(vectors) != len(batch) or not all(map(self._is_vector, vectors)):
            raise ModelError(
                f"{self._server.name}: the server gave no vector for each text, but "
                f"{excerpt(answer)}"
            )
        return [list(map(float, each)) for each in vectors]

    def _is_vector(self, vector: Any) -> bool:
        numbers = isinstance(vector, list) and all(type(each) in (int, float) for each in vector)
        return numbers and len(vector) == (self._dimensions or len(vector)) > 0


def _index(row: dict[str, Any]) -> int:
    """Return which text a vector is of; 0 if that is omitted, as some servers omit 0, or all."""
    index = row.get("index")
    return index if isinstance(index, int) else 0
