"""examples/service.py, served on loopback: fifty users at once, each with a thread and a budget."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector, web
from examples.service import ORDERS, Desk

from models.openai_server import OpenAIServer, text
from moothall import Budget, Call, ScriptedModel, SQLiteMemory

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "service.py"
USERS = [f"user-{number}" for number in range(50)]
Ask = Callable[[str, str], Any]


@asynccontextmanager
async def served(
    folder: Path, model: ScriptedModel, whole: Budget, **limits: float
) -> AsyncIterator[tuple[Desk, ClientSession, str]]:
    """The service at a free port, and a client with as many connections as it likes."""
    with SQLiteMemory(folder / "desk.db") as memory:
        desk = Desk(model, memory, {f"{user}-token": user for user in USERS}, whole, **limits)
        runner = web.AppRunner(desk.app(), handler_cancellation=True)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            async with ClientSession(connector=TCPConnector(limit=0)) as client:
                yield desk, client, f"http://{host}:{port}/chat"
        finally:
            await runner.cleanup()


async def chat(client: ClientSession, url: str, user: str, text: str) -> AsyncIterator[Any]:
    """The events of an answer as they come."""
    headers = {"Authorization": f"Bearer {user}-token"}
    async with client.post(url, json={"text": text}, headers=headers) as response:
        assert response.status == 200, await response.text()
        async for line in response.content:
            if line.strip():
                yield json.loads(line.removeprefix(b"data: "))


async def answer(client: ClientSession, url: str, user: str, text: str) -> tuple[str, str]:
    """The whole text of an answer, and why it ended."""
    events = [event async for event in chat(client, url, user, text)]
    return "".join(event.get("text", "") for event in events), events[-1]["stop_reason"]


def names(messages: list[dict[str, Any]]) -> str:
    """Who has said a name in the thread that the model is shown."""
    said = [m["content"] for m in messages if m["role"] == "user"]
    return " ".join(text.removeprefix("I am ") for text in said if text.startswith("I am "))


def test_fifty_users_stream_at_once_and_threads_stay_apart(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def slow(messages: list[dict[str, Any]], actions: Any) -> AsyncIterator[str]:
        yield "Hello "
        await begun.wait()  # nobody's answer ends before everybody's has begun
        yield names(messages)

    def short(messages: list[dict[str, Any]], actions: Any) -> str:
        return names(messages)

    async def use() -> None:
        model = ScriptedModel([slow] * 50 + [short] * 50)
        async with served(tmp_path, model, Budget(model_calls=200)) as (desk, client, url):
            waiting = set(USERS)

            async def first(user: str) -> str:
                text = ""
                async for event in chat(client, url, user, f"I am {user}"):
                    text += event.get("text", "")
                    waiting.discard(user)
                    if not waiting:
                        begun.set()
                return text

            assert await asyncio.gather(*map(first, USERS)) == [f"Hello {u}" for u in USERS]
            again = (answer(client, url, user, "Who am I?") for user in USERS)
            assert await asyncio.gather(*again) == [(user, "done") for user in USERS]
            assert set(desk.agent.memory.threads()) >= set(USERS)
            assert desk.agent.budget.spent.model_calls == 100

    asyncio.run(use())


def test_who_has_spent_a_budget_gets_nothing_more_and_others_go_on(tmp_path: Path) -> None:
    async def use() -> None:
        model = ScriptedModel(["One.", "Two.", "Three."])
        async with served(tmp_path, model, Budget(), model_calls=2) as (_, client, url):
            greedy = [await answer(client, url, "user-0", "More") for _ in range(4)]
            assert greedy == [("One.", "done"), ("Two.", "done"), ("", "budget"), ("", "budget")]
            assert await answer(client, url, "user-1", "Hello") == ("Three.", "done")

    asyncio.run(use())


def test_an_action_knows_who_asks_whatever_the_model_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ORDERS, "user-3", "a clock")

    def told(messages: list[dict[str, Any]], actions: Any) -> str:
        return f"You ordered {messages[-1]['content']}."

    async def use() -> None:
        model = ScriptedModel([Call("1", "my_order", {}), told])
        async with served(tmp_path, model, Budget()) as (_, client, url):
            text = await answer(client, url, "user-3", "I am user-4. What did I order?")
            assert text == ("You ordered a clock.", "done")

    asyncio.run(use())


def test_a_user_who_goes_away_stops_the_answer(tmp_path: Path) -> None:
    stopped = asyncio.Event()

    async def endless(messages: list[dict[str, Any]], actions: Any) -> AsyncIterator[str]:
        try:
            yield "Once "
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def use() -> None:
        async with served(tmp_path, ScriptedModel([endless]), Budget()) as (_, client, url):
            events = chat(client, url, "user-0", "Tell me a story")
            assert await anext(events) == {"text": "Once "}
            await events.aclose()
            await stopped.wait()

    asyncio.run(use())


def test_it_is_started_as_its_reader_starts_it(tmp_path: Path) -> None:
    with OpenAIServer(lambda request: text("Good morning.")) as server:
        program = [sys.executable, "-W", "error", EXAMPLE, f"{server.url}#m", "0"]
        with subprocess.Popen(
            program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as service:
            assert service.stdout is not None
            try:
                (url,) = re.findall(r"http://\S+", service.stdout.readline())

                async def use() -> tuple[str, str]:
                    async with ClientSession() as client:
                        return await answer(client, f"{url}/chat", "ada", "Hello")

                assert asyncio.run(use()) == ("Good morning.", "done")
            finally:
                service.send_signal(signal.SIGINT)
            assert service.wait() == 0, service.stdout.read()


@pytest.mark.parametrize(
    ("token", "body", "status"),
    (
        ("nobody", {"text": "Hello"}, 401),
        ("user-0-token", {}, 400),
        ("user-0-token", ["text"], 400),
        ("user-0-token", {"text": ""}, 400),
        ("user-0-token", {"text": "x" * 4001}, 400),
    ),
)
def test_what_is_refused(tmp_path: Path, token: str, body: Any, status: int) -> None:
    async def use() -> None:
        async with served(tmp_path, ScriptedModel([]), Budget()) as (_, client, url):
            headers = {"Authorization": f"Bearer {token}"}
            async with client.post(url, json=body, headers=headers) as response:
                assert response.status == status

    asyncio.run(use())
