"""examples/service.py, served on loopback: fifty users at once, each with a thread and a budget."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector, web
from examples.service import ORDERS, Desk

from models.openai_server import OpenAIServer, Request, text
from moothall import Budget, Call, Journal, Model, ScriptedModel, SQLiteMemory

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "service.py"
USERS = [f"user-{number}" for number in range(50)]
Ask = Callable[[str, str], Any]


@asynccontextmanager
async def served(
    folder: Path, model: Model, *, whole: Mapping[str, Any] | None = None, **limits: Any
) -> AsyncIterator[tuple[Desk, ClientSession, str]]:
    """The service at a free port, and a client with as many connections as it likes."""
    with SQLiteMemory(folder / "desk.db") as memory, Journal(folder / "runs.db") as journal:
        budget = Budget(**whole or {}, journal=journal, name="desk")
        users = {f"{user}-token": user for user in USERS}
        desk = Desk(model, memory, journal, users, budget, **limits)
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


async def chat(
    client: ClientSession, url: str, user: str, text: str, **more: Any
) -> AsyncIterator[Any]:
    """The events of an answer as they come."""
    headers = {"Authorization": f"Bearer {user}-token"}
    async with client.post(url, json={"text": text, **more}, headers=headers) as response:
        assert response.status == 200, await response.text()
        async for line in response.content:
            if line.strip():
                yield json.loads(line.removeprefix(b"data: "))


async def answer(
    client: ClientSession, url: str, user: str, text: str, **more: Any
) -> tuple[str, str]:
    """The whole text of an answer, and why it ended."""
    events = [event async for event in chat(client, url, user, text, **more)]
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
        async with served(tmp_path, model, whole={"model_calls": 200}) as (desk, client, url):
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


def test_service_user_without_budget_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async def use() -> None:
        model = ScriptedModel(["One.", "Two.", "Three."])
        async with served(tmp_path, model, model_calls=2) as (_, client, url):
            greedy = [await answer(client, url, "user-0", "More") for _ in range(4)]
            assert greedy == [("One.", "done"), ("Two.", "done"), ("", "budget"), ("", "budget")]
            assert await answer(client, url, "user-1", "Hello") == ("Three.", "done")

    asyncio.run(use())


def test_service_action_knows_the_asker_whatever_the_model_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ORDERS, "user-3", "a clock")

    def told(messages: list[dict[str, Any]], actions: Any) -> str:
        return f"You ordered {messages[-1]['content']}."

    async def use() -> None:
        model = ScriptedModel([Call("1", "my_order", {}), told])
        async with served(tmp_path, model) as (_, client, url):
            text = await answer(client, url, "user-3", "I am user-4. What did I order?")
            assert text == ("You ordered a clock.", "done")

    asyncio.run(use())


def test_service_stops_the_answer_of_a_user_who_goes_away(tmp_path: Path) -> None:
    stopped = asyncio.Event()

    async def endless(messages: list[dict[str, Any]], actions: Any) -> AsyncIterator[str]:
        try:
            yield "Once "
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def use() -> None:
        async with served(tmp_path, ScriptedModel([endless])) as (_, client, url):
            events = chat(client, url, "user-0", "Tell me a story")
            assert await anext(events) == {"text": "Once "}
            await events.aclose()
            await stopped.wait()

    asyncio.run(use())


def test_service_after_a_restart_answers_a_question_asked_again_as_before(tmp_path: Path) -> None:
    async def use() -> None:
        async with served(tmp_path, ScriptedModel(["Hello, Ada."])) as (_, client, url):
            first = await answer(client, url, "user-0", "I am Ada", run_id="q1")
        again = ScriptedModel(["Hello, Ada.", "Who are you?"])  # the first is in the journal
        async with served(tmp_path, again) as (_, client, url):
            assert await answer(client, url, "user-0", "I am Ada", run_id="q1") == first
            # Another user's run of that name is another run.
            theirs = await answer(client, url, "user-1", "Hello", run_id="q1")
            assert (first, theirs) == (("Hello, Ada.", "done"), ("Who are you?", "done"))

    asyncio.run(use())


def test_service_run_of_another_question_is_a_conflict(tmp_path: Path) -> None:
    async def use() -> None:
        async with served(tmp_path, ScriptedModel(["Hello."])) as (_, client, url):
            await answer(client, url, "user-0", "Hello", run_id="q1")
            body = {"text": "Goodbye", "run_id": "q1"}
            headers = {"Authorization": "Bearer user-0-token"}
            async with client.post(url, json=body, headers=headers) as response:
                assert response.status == 409
                assert "task" in await response.text()

    asyncio.run(use())


def test_service_users_spending_survives_a_restart(tmp_path: Path) -> None:
    async def use() -> None:
        for left in (2, 1, 0):
            model = ScriptedModel(["Hello."])
            async with served(tmp_path, model, model_calls=2, per="day") as (desk, client, url):
                assert desk.budgets["user-0"].left.model_calls == left
                said = await answer(client, url, "user-0", "Hello")
                assert said == (("Hello.", "done") if left else ("", "budget"))

    asyncio.run(use())


def test_service_that_was_killed_resumes_what_it_was_answering(tmp_path: Path) -> None:
    asked = threading.Event()
    over = threading.Event()

    def reply(request: Request) -> bytes:
        if not asked.is_set():
            asked.set()
            over.wait(30)
        return text("Good morning.")

    async def use(url: str) -> tuple[str, str]:
        async with ClientSession() as client:
            return await answer(client, f"{url}/chat", "ada", "Hello", run_id="q1")

    with OpenAIServer(reply) as server:
        with started(tmp_path, f"{server.url}#m") as (service, url), ThreadPoolExecutor() as pool:
            broken = pool.submit(asyncio.run, use(url))
            assert asked.wait(30)
            service.kill()
            service.wait()
            with pytest.raises(ClientError):
                broken.result()
        over.set()
        with started(tmp_path, f"{server.url}#m") as (service, url):
            with Journal(tmp_path / "runs.db") as journal:

                async def ends() -> None:
                    async for _ in journal.follow("ada/q1"):
                        pass

                asyncio.run(ends())
            assert asyncio.run(use(url)) == ("Good morning.", "done")
        assert len(server.requests) == 2  # the one that was cut off, and the resumed one


@contextmanager
def started(folder: Path, model: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The example as its reader starts it, and its address."""
    program = [sys.executable, "-W", "error", EXAMPLE, model, "0"]
    with subprocess.Popen(
        program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as service:
        assert service.stdout is not None
        try:
            (url,) = re.findall(r"http://\S+", service.stdout.readline())
            yield service, url
        finally:
            if service.poll() is None:
                service.send_signal(signal.SIGINT)
                assert service.wait() == 0, service.stdout.read()


def test_service_starts_by_the_documented_command(tmp_path: Path) -> None:
    async def use(url: str) -> tuple[str, str]:
        async with ClientSession() as client:
            return await answer(client, f"{url}/chat", "ada", "Hello")

    with (
        OpenAIServer(lambda request: text("Good morning.")) as server,
        started(tmp_path, f"{server.url}#m") as (_, url),
    ):
        assert asyncio.run(use(url)) == ("Good morning.", "done")


@pytest.mark.parametrize(
    ("token", "body", "status"),
    (
        ("nobody", {"text": "Hello"}, 401),
        ("user-0-token", {}, 400),
        ("user-0-token", ["text"], 400),
        ("user-0-token", {"text": ""}, 400),
        ("user-0-token", {"text": "x" * 4001}, 400),
        ("user-0-token", {"text": "Hello", "run_id": 7}, 400),
        ("user-0-token", {"text": "Hello", "run_id": "x" * 101}, 400),
    ),
)
def test_service_refuses_wrong_requests(tmp_path: Path, token: str, body: Any, status: int) -> None:
    async def use() -> None:
        async with served(tmp_path, ScriptedModel([])) as (_, client, url):
            headers = {"Authorization": f"Bearer {token}"}
            async with client.post(url, json=body, headers=headers) as response:
                assert response.status == status

    asyncio.run(use())
