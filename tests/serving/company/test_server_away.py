"""A company lives on while PostgreSQL, which has its journal and budget, is down and up again."""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.postgresql import Server

from moothall import Agent, Journal
from moothall.foundation.errors import MoothallError, RequestError
from moothall.serving import Company
from serving.company.conftest import MakeCompany, live, until, value

pytestmark = pytest.mark.timeout(60)

AGENTS = '''
import asyncio
from pathlib import Path

from moothall import Agent, ReActAgent, action
from moothall.models.protocol import Call, ModelReply

FOLDER = Path(__file__).parent


class Model:
    """Books once; waits before each answer for as long as the file `slow` is there."""

    name = "model"
    context_tokens = 10_000

    async def complete(self, messages, actions=None, schema=None):
        (FOLDER / "asked").touch()
        while (FOLDER / "slow").exists():
            await asyncio.sleep(0.005)
        if messages[-1]["role"] == "tool":
            return ModelReply("booked")
        return ModelReply("", calls=(Call("1", "book", {}),))


def book() -> str:
    "Book."
    with (FOLDER / "booked").open("a") as file:
        file.write("x")
    return "booked"


class Clock(Agent):
    @action(idempotent=True)
    async def tick(self) -> None:
        "Tick."


def clerk(id):
    return ReActAgent(id, Model(), actions=[book])
'''

COMPANY = """
journal: ${URL}
http: {listen: '127.0.0.1:0'}
budget: {model_calls: 1000, per: day}
drain: 100ms
agents:
  Clerk: {ref: 'program.py:clerk'}
  Clock: {ref: 'program.py:Clock'}
schedules:
  tick: {every: 200ms, to: Clock, action: tick}
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test alone."""
    with Server() as server:
        yield server


async def status(company: Company, path: str) -> int:
    """The status of an answer to `GET path`."""

    def ask() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{company.port}{path}") as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    return await asyncio.to_thread(ask)


async def comes(company: Company, code: int) -> None:
    while await status(company, "/health") != code:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("end", ("kill", "stop"))
def test_company_lives_while_its_server_is_down_and_goes_on_with_what_was_cut_off(
    folder: Path,
    make_company: MakeCompany,
    server: Server,
    caplog: pytest.LogCaptureFixture,
    end: str,
) -> None:
    (folder / "program.py").write_text(AGENTS)
    company = make_company(COMPANY, URL=server.url("company"))

    async def work(me: Agent) -> None:
        (folder / "slow").touch()
        asked = me.ask("Clerk", "say", content="Book.")
        await until((folder / "asked").exists)
        fired = ("moothall_schedule_firings_total",)
        await until(lambda: value(company.metrics(), *fired, outcome="ok") >= 1)
        await asyncio.to_thread(getattr(server, end))
        await comes(company, 503)
        assert await status(company, "/metrics") == 200
        assert await status(company, "/health/live") == 200
        (folder / "slow").unlink()
        with pytest.raises(RequestError):
            await asked
        with pytest.raises(RequestError):
            await me.ask("Clerk", "say", content="Book.")
        await asyncio.to_thread(server.start)
        await comes(company, 200)
        before = value(company.metrics(), *fired, outcome="ok")
        await until(lambda: value(company.metrics(), *fired, outcome="ok") >= before + 2)
        with Journal(server.url("company")) as journal:
            await until(
                lambda: [run.state for run in journal.runs(kind="ReActAgent")][:1] == ["done"]
            )
        assert await me.ask("Clerk", "say", content="Book.") == "booked"

    with caplog.at_level(logging.INFO):
        live(company, work, 50)
    assert "psycopg" not in "".join(each.name + str(each.exc_info) for each in caplog.records)
    assert (folder / "booked").read_text() == "xx"


@pytest.mark.long
def test_company_without_its_server_stops_in_time_and_does_not_start(
    folder: Path, make_company: MakeCompany, server: Server
) -> None:
    (folder / "program.py").write_text(AGENTS)
    company = make_company(COMPANY, URL=server.url("company"))

    async def work(me: Agent) -> None:
        (folder / "slow").touch()
        asked.append(me.ask("Clerk", "say", content="Book."))
        await until((folder / "asked").exists)
        await asyncio.to_thread(server.kill)

    asked: list[object] = []
    live(company, work, 40)
    with pytest.raises(MoothallError, match="cannot be used"):
        live(make_company(COMPANY, URL=server.url("company")), work, 40)
    server.start()
    (folder / "slow").unlink()

    async def finish(me: Agent) -> None:
        with Journal(server.url("company")) as journal:
            await until(lambda: {run.state for run in journal.runs(kind="ReActAgent")} == {"done"})

    live(make_company(COMPANY, URL=server.url("company")), finish, 40)
