"""A company that is stopped loses no run: what it cuts off goes on, at the next start or before."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from moothall import Agent, Journal
from moothall.foundation.errors import MoothallError
from serving.company.conftest import MakeCompany, live, until, value
from serving.company.served import Served

# A loaded machine starts processes slowly.
pytestmark = pytest.mark.timeout(180)

AGENTS = '''
import asyncio
from pathlib import Path

from moothall import ACCESS_REQUESTED, CallbackApprover, ReActAgent, action
from moothall.models.protocol import Call, ModelReply

FOLDER = Path(__file__).parent


class Model:
    """Pays once; waits before each answer while the file `slow`, or that of its task, is there."""

    name = "model"
    context_tokens = None

    async def complete(self, messages, actions=None, schema=None):
        (FOLDER / "asked").touch()
        last = messages[-1]["content"]
        (FOLDER / f"asked {last}").touch()
        while (FOLDER / "slow").exists() or (FOLDER / f"slow {last}").exists():
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        if messages[-1]["role"] == "tool":
            return ModelReply("paid")
        return ModelReply("", calls=(Call("1", "pay", {"what": messages[-1]["content"]}),))


async def permit(request):
    (FOLDER / "asks").touch()
    while not (FOLDER / "permitted").exists():
        await asyncio.sleep(0.005)
    return True


def pay(what: str) -> str:
    """Pay."""
    with (FOLDER / "paid").open("a") as file:
        file.write(what + "\\n")
    return "paid"


def clerk(id, asks=False):
    access = dict(access_policy=ACCESS_REQUESTED) if asks else {}
    return ReActAgent(
        id,
        Model(),
        actions=[action(**access)(pay)],
        approver=CallbackApprover(permit),
        concurrency=20,
    )
'''

COMPANY = """
journal: runs.db
agents: {Clerk: {ref: 'stopping.py:clerk'}}
drain: 50ms
"""

FIRING = """
journal: runs.db
agents: {Clerk: {ref: 'stopping.py:clerk', options: {asks: ASKS}}}
schedules:
  wages: {every: 1h, missed: once, to: Clerk, args: {content: wages}, timeout: 300ms}
drain: 50ms
"""

WAIT = threading.Event()
RANDOM = random.Random(64)
RESUMED_AT_ONCE = 16
"""How many runs `resume_runs` resumes at a time, by itself."""


@pytest.fixture
def stopping(folder: Path) -> Path:
    (folder / "stopping.py").write_text(AGENTS)
    return folder


def paid(folder: Path) -> Counter[str]:
    path = folder / "paid"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def states(folder: Path) -> dict[str, str]:
    with Journal(folder / "runs.db") as journal:
        return {run.id: run.state for run in journal.runs()}


def started(text: str, folder: Path) -> Served:
    (folder / "company.yaml").write_text("http: {listen: '127.0.0.1:0', token: '${TOKEN}'}" + text)
    return Served(folder)


@pytest.fixture
def ends() -> Iterator[list[Served]]:
    served: list[Served] = []
    yield served
    for each in served:
        each.process.kill()
        each.end()


@pytest.mark.parametrize(
    "number", (signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.long))
)
def test_reply_over_http_that_a_signal_cuts_off_is_finished_by_the_next_start(
    stopping: Path, ends: list[Served], number: signal.Signals
) -> None:
    (stopping / "slow").touch()
    served = started(COMPANY, stopping)
    ends.append(served)
    asked = urllib.request.Request(
        f"http://127.0.0.1:{served.port}/v1/chat/completions",
        json.dumps({"model": "Clerk", "messages": [{"role": "user", "content": "rent"}]}).encode(),
        {"Authorization": "Bearer secret", "Content-Type": "application/json"},
    )

    def ask() -> None:
        with suppress(OSError), urllib.request.urlopen(asked, timeout=60) as answer:
            answer.read()

    with ThreadPoolExecutor() as threads:
        threads.submit(ask)
        while not (stopping / "asked").exists():
            WAIT.wait(0.05)
        served.process.send_signal(number)
        assert served.process.wait(40) == 0
    assert set(states(stopping).values()) == {"stopped"}
    (stopping / "slow").unlink()
    again = started(COMPANY, stopping)
    ends.append(again)
    while not set(states(stopping).values()) <= {"done", "error"}:
        WAIT.wait(0.05)
    assert set(states(stopping).values()) == {"done"}
    assert paid(stopping) == {"rent": 1}


@pytest.mark.parametrize("times", (6, pytest.param(200, marks=pytest.mark.long)))
def test_company_stopped_at_any_moment_finishes_each_reply_once(
    stopping: Path, make_company: MakeCompany, times: int
) -> None:
    asked = [f"{number}-{which}" for number in range(times) for which in "ab"]

    async def cut_off(me: Agent) -> None:
        under_way.extend(me.ask("Clerk", "say", content=each) for each in asked[:2])
        del asked[:2]
        await asyncio.sleep(RANDOM.random() * 0.25)

    wanted, under_way = {*asked}, []
    for _ in range(times):
        live(make_company(COMPANY), cut_off)

    async def finish(me: Agent) -> None:
        with Journal(stopping / "runs.db") as journal:
            for run in journal.runs(state="in_doubt"):
                done = run.task in paid(stopping)
                journal.decide(run.id, "skip" if done else "repeat")  # a person has looked
            await until(
                lambda: all(
                    not run.entries  # nobody knows what it was asked
                    for run in journal.runs(state=("stopped", "running", "in_doubt", "error"))
                )
            )

    live(make_company(COMPANY), finish, within=60)
    with Journal(stopping / "runs.db") as journal:
        runs = {run.task: run.state for run in journal.runs() if run.entries}
    assert set(runs.values()) == {"done"}
    assert set(runs) <= wanted
    assert len(runs) >= times / 2  # the others were cut off before they began
    assert paid(stopping) == dict.fromkeys(runs, 1)


def test_replies_resumed_when_the_company_stops_have_its_drain_seconds_and_no_more_begin(
    stopping: Path, make_company: MakeCompany
) -> None:
    (stopping / "slow").touch()
    tasks = [f"rent-{number}" for number in range(RESUMED_AT_ONCE + 1)]

    async def asked(number: int) -> None:
        await until(lambda: len([*stopping.glob("asked rent-*")]) == number)

    async def cut_off(me: Agent) -> None:
        under_way.extend(me.ask("Clerk", "say", content=each, thread=each) for each in tasks)
        await asked(len(tasks))

    under_way: list[object] = []
    live(make_company(COMPANY), cut_off)
    assert [*states(stopping).values()] == ["stopped"] * len(tasks)
    for each in stopping.glob("asked rent-*"):
        each.unlink()

    async def stop(me: Agent) -> None:
        await asked(RESUMED_AT_ONCE)
        asyncio.get_running_loop().call_later(0.3, (stopping / "slow").unlink)

    live(make_company(COMPANY.replace("50ms", "20s")), stop)
    assert Counter(states(stopping).values()) == {"done": RESUMED_AT_ONCE, "stopped": 1}
    assert paid(stopping).total() == RESUMED_AT_ONCE


@pytest.mark.parametrize("resumed", (False, True))
def test_task_of_a2a_has_the_drain_seconds_though_no_client_is_connected(
    stopping: Path, ends: list[Served], resumed: bool
) -> None:
    (stopping / "slow").touch()
    served = started(COMPANY.replace("50ms", "20s"), stopping)
    ends.append(served)
    message = {"role": "ROLE_USER", "messageId": "1", "parts": [{"text": "rent"}]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    asked = urllib.request.Request(
        f"http://127.0.0.1:{served.port}/a2a/Clerk",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode(),
        {
            "Authorization": "Bearer secret",
            "Content-Type": "application/json",
            "A2A-Version": "1.0",
        },
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        answer.read()
    while not (stopping / "asked").exists():
        WAIT.wait(0.05)
    if resumed:
        served.process.kill()
        served.process.wait(40)
        (stopping / "asked").unlink()
        served = started(COMPANY.replace("50ms", "20s"), stopping)
        ends.append(served)
        while not (stopping / "asked").exists():
            WAIT.wait(0.05)
    served.process.send_signal(signal.SIGTERM)
    WAIT.wait(0.5)
    (stopping / "slow").unlink()
    assert served.process.wait(40) == 0
    assert set(states(stopping).values()) == {"done"}


def test_reply_that_the_caller_cancels_is_cancelled_and_does_not_go_on(
    stopping: Path, make_company: MakeCompany
) -> None:
    (stopping / "slow").touch()

    async def cancel(me: Agent) -> None:
        asked = me.ask("Clerk", "say", content="rent")
        await until((stopping / "asked").exists)
        asked.cancel()
        await until(lambda: "running" not in states(stopping).values())

    live(make_company(COMPANY), cancel)
    assert set(states(stopping).values()) == {"cancelled"}


def test_firing_that_takes_too_long_is_finished_by_the_next_start(
    stopping: Path, make_company: MakeCompany
) -> None:
    (stopping / "slow").touch()
    text = FIRING.replace("ASKS", "false").replace("1h", "1s")
    company = make_company(text)

    async def late(me: Agent) -> None:
        await until(
            lambda: (
                value(
                    company.metrics(),
                    "moothall_schedule_firings_total",
                    schedule="wages",
                    outcome="RequestTimeout",
                )
                == 1
            )
        )

    live(company, late)
    (stopping / "slow").unlink()
    assert {*states(stopping).values()} == {"done", "stopped"}  # done: that the schedule began

    async def finish(me: Agent) -> None:
        await until(lambda: set(states(stopping).values()) == {"done"})

    live(make_company(text.replace("1s", "1h")), finish)
    assert paid(stopping) == {"wages": 1}


def test_time_for_which_a_firing_waits_for_a_person_does_not_count(
    stopping: Path, make_company: MakeCompany
) -> None:
    company = make_company(
        FIRING.replace("ASKS", "true").replace("1h", "1s").replace("300ms", "1s")
    )

    async def permit(me: Agent) -> None:
        await until((stopping / "asks").exists)
        await asyncio.sleep(1.5)
        (stopping / "permitted").touch()
        await until(lambda: value(company.metrics(), "moothall_schedule_firings_total") >= 1)

    live(company, permit)
    assert paid(stopping)["wages"] >= 1
    assert "RequestTimeout" not in company.metrics()


def test_reply_that_a_lost_journal_stopped_goes_on_when_the_journal_is_back(
    stopping: Path, make_company: MakeCompany
) -> None:
    (stopping / "slow").touch()
    path, away = stopping / "runs.db", stopping / "away.db"

    async def lose(me: Agent) -> None:
        asked = me.ask("Clerk", "say", content="rent")
        await until((stopping / "asked").exists)
        path.rename(away)
        (stopping / "slow").unlink()
        with pytest.raises(MoothallError, match="it is gone"):
            await asked
        away.rename(path)
        await until(lambda: set(states(stopping).values()) == {"done"})

    live(make_company(COMPANY), lose)
    assert paid(stopping) == {"rent": 1}


def test_reply_that_a_lost_journal_stopped_during_a_resumption_goes_on_after_it(
    stopping: Path, make_company: MakeCompany
) -> None:
    path, away = stopping / "runs.db", stopping / "away.db"
    for task in ("wages", "rent"):
        (stopping / f"slow {task}").touch()

    async def cut_off(me: Agent) -> None:
        me.send({"to": "Clerk", "action": {"name": "say", "args": {"content": "wages"}}})
        await until((stopping / "asked wages").exists)

    async def lose(me: Agent) -> None:
        await until((stopping / "asked wages").exists)
        asked = me.ask("Clerk", "say", content="rent", thread="rent")
        await until((stopping / "asked rent").exists)
        path.rename(away)
        (stopping / "slow rent").unlink()
        with pytest.raises(MoothallError, match="it is gone"):
            await asked
        away.rename(path)
        (stopping / "slow wages").unlink()
        await until(lambda: set(states(stopping).values()) == {"done"})

    live(make_company(COMPANY), cut_off)
    (stopping / "asked wages").unlink()
    live(make_company(COMPANY), lose)
    assert paid(stopping) == {"wages": 1, "rent": 1}
