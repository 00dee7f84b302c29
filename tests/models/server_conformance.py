"""The suite of models over one behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from models.openai_server import HANG, OpenAIServer, Request
from moothall.models import Call, Model
from moothall.testing.model_suite import StreamingModelConformance


class ServerConformance(StreamingModelConformance):
    """A subclass says how its model is made, and how its server answers."""

    @pytest.fixture(autouse=True)
    def _servers(self) -> Iterator[None]:
        with ExitStack() as self.servers:
            yield

    def of(self, server: OpenAIServer) -> Model:
        raise NotImplementedError

    def text(self, said: str, stream: bool) -> Any:
        raise NotImplementedError

    def call(self, name: str, args: Any, id: str, stream: bool) -> Any:
        raise NotImplementedError

    def echo(self, request: Request) -> Any:
        """Answer with the constant of the schema, or the number, that the request has."""
        raise NotImplementedError

    def make(self, *answers: Any) -> Model:
        listed = (self._form(each, n) for n, each in enumerate(answers or ("",)))
        return self.of(self.servers.enter_context(OpenAIServer(*listed)))

    def _form(self, given: Any, n: int) -> Any:
        if isinstance(given, str):
            return lambda request: self.text(given, bool(request.body.get("stream")))
        if isinstance(given, Call):
            given = {"name": given.name, "args": given.args}
        if isinstance(given, dict):
            asked = (given["name"], given.get("args", {}), f"call_{n}")
            return lambda request: self.call(*asked, bool(request.body.get("stream")))
        return HANG

    def test_model_concurrent_calls_get_their_own_answers(self) -> None:
        echoing = self.of(self.servers.enter_context(OpenAIServer(self.echo)))
        self.make = lambda *answers: echoing  # type: ignore[method-assign]
        super().test_model_concurrent_calls_get_their_own_answers()
