"""An ASGI application served on loopback, by uvicorn."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import openai
import pytest
import uvicorn

from moothall import Model


@contextmanager
def serving(app: Any, make: Any = None) -> Iterator[str]:
    """Serve an application, or what `make` makes for its address, and yield the address."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = app if make is None else make(f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Waiting(Model):
    """A model that never answers, and notes that it was cancelled."""

    name, context_tokens, max_tokens = "waiting", None, 10

    def __init__(self) -> None:
        self.begun, self.cancelled = threading.Event(), threading.Event()

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 20)

    async def was_cancelled(self) -> None:
        assert await asyncio.to_thread(self.cancelled.wait, 20)


OPENED: list[openai.OpenAI] = []
"""The clients of a test: one that is only dropped may leave its sockets to the collector."""


def client(url: str, token: str = "none") -> openai.OpenAI:
    """Return the `openai` package's client of a server, which closes with the test."""
    made = openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0)
    OPENED.append(made)
    return made


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))
