"""Clients that cancel a reply, or go: the model's call ends, and the budget is settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client

from commands import Command
from moothall import Budget, Journal, ReActAgent
from moothall.serving import asgi
from serving.doors.conftest import Waiting

Serve = Callable[[Any], str]
TOKEN = "a long secret"
HEADERS = {"authorization": f"Bearer {TOKEN}"}


class Place:
    """An agent that is served to a caller with a budget, and what becomes of its reply."""

    def __init__(self, serve: Serve, journal: Journal) -> None:
        self.journal = journal
        self.model = Waiting()
        self.budget = Budget(model_calls=3, tokens=10_000)
        self.agent = ReActAgent("bot", self.model, journal=journal)
        app = asgi(self.agent, token=TOKEN, budget=lambda name: self.budget)
        self.url = serve(app)

    async def is_cancelled(self) -> None:
        """Check that the reply, its model's call and its reservation have ended."""
        await self.model.was_cancelled()
        (run,) = self.journal.runs()
        async for _ in self.journal.follow(run.id):  # until nobody works on it any more
            pass
        assert self.journal.run(run.id).state == "cancelled"
        assert self.budget.reserved.model_calls == self.budget.reserved.tokens == 0
        assert self.budget.spent.model_calls == 1


@pytest.fixture
def place(serve: Serve, tmp_path: Path) -> Any:
    with Journal(tmp_path / "j") as journal:
        yield Place(serve, journal)


POSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"model": "bot", "messages": [{"role": "user", "content": "Hi"}]},
    ),
    "responses": ("/v1/responses", {"model": "bot", "input": "Hi"}),
    "ag-ui": (
        "/ag-ui",
        {
            "threadId": "t",
            "runId": "r",
            "messages": [{"id": "m", "role": "user", "content": "Hi"}],
        },
    ),
}


@pytest.mark.parametrize("stream", (False, True), ids=("whole", "stream"))
@pytest.mark.parametrize("door", POSTS)
async def test_door_cancels_the_reply_of_a_client_that_closes_its_connection(
    place: Place, door: str, stream: bool
) -> None:
    path, data = POSTS[door]
    async with httpx.AsyncClient(base_url=place.url, headers=HEADERS) as http:
        call = asyncio.ensure_future(http.post(path, json={**data, "stream": stream}))
        await place.model.has_begun()
        call.cancel()
        await asyncio.wait([call])
    await place.is_cancelled()


@asynccontextmanager
async def connected(url: str, mode: str) -> AsyncIterator[mcp.Client]:
    async with (
        httpx.AsyncClient(headers=HEADERS) as http,
        mcp.Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ("legacy", "auto"))
@pytest.mark.parametrize("how", ("the call", "the connection"))
async def test_mcp_door_cancels_the_reply_with(place: Place, mode: str, how: str) -> None:
    async with connected(place.url, mode) as client:
        call = asyncio.ensure_future(client.call_tool("say", {"content": "Hi"}))
        await place.model.has_begun()
        if how == "the call":
            call.cancel()
            await place.is_cancelled()
    await place.is_cancelled()
    call.cancel()
    await asyncio.wait([call])


CLIENT = """
import asyncio, sys
import httpx2 as httpx
import mcp
from mcp.client.streamable_http import streamable_http_client

async def main():
    url, mode, token = sys.argv[1:]
    async with (
        httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        await client.call_tool("say", {"content": "Hi"})

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ("legacy", "auto"))
def test_mcp_door_cancels_the_reply_of_a_client_that_is_killed(place: Place, mode: str) -> None:
    with Command(f"{place.url}/mcp", mode, TOKEN, code=CLIENT) as client:
        assert place.model.begun.wait(20)
        client.kill()
    asyncio.run(place.is_cancelled())
