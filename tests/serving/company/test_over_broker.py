"""Companies over RabbitMQ: one process takes over from another, and what is given up is told."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy

from commands import Command
from moothall import ActionError, Agent, AMQPOptions, AMQPSpace, Journal
from moothall.foundation.errors import GivenUp, InDoubt
from moothall.spaces.amqp.dead_letters import DeadLetters
from serving.company.conftest import MakeCompany, live, until, value

AGENTS = '''
import os

from moothall import Agent, action


class Counter(Agent):
    @action
    async def count(self, number: str) -> int:
        """Note a number, and say which process did."""
        with open(os.path.join(os.path.dirname(__file__), "counted"), "a") as file:
            file.write(number + "\\n")
        return os.getpid()
'''

PROGRAM = """
import asyncio, signal, sys
from moothall.serving import Company

async def main():
    company = Company.from_yaml(sys.argv[1])
    async with company:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, company.stop)
        ending = asyncio.ensure_future(company.ended())
        before = None
        while not ending.done():
            now = [each["state"] for each in company.health()["agents"].values()]
            if now != before:
                print(*now, flush=True)
                before = now
            await asyncio.sleep(0.02)

asyncio.run(main())
"""


@pytest.fixture
def me(broker: Broker, exchange: str) -> Iterator[Agent]:
    """An agent of a process without a company."""
    with AMQPSpace(amqp_options=AMQPOptions(port=broker.port), exchange=exchange) as space:
        yield space.add(Agent("me"))


def text(broker: Broker, exchange: str, name: str, more: str = "") -> str:
    return f"""
broker: {{host: localhost, port: {broker.port}, exchange: {exchange}, inbox: {name}.inbox}}
drain: 20s
restart: {{first: 1ms, longest: 10ms, most: 1}}
agents:
  {name}: {{ref: 'counter.py:Counter'}}
{more}"""


def test_company_takes_over_from_another_and_requests_wait_meanwhile(
    make_company: MakeCompany, broker: Broker, exchange: str
) -> None:
    broker_of = f"broker: {{host: localhost, port: {broker.port}, exchange: {exchange}}}\n"
    agents = "agents: {Clerk: {ref: 'program.py:Clerk'}}\n"
    first, second = (make_company(broker_of + agents) for _ in range(2))

    async def main() -> None:
        async with first:
            me = await asyncio.to_thread(other.add, Agent("me"))
            assert await me.ask("Clerk", "which") == 1
            async with second:
                assert second.health()["agents"]["Clerk"]["state"] == "standby"
                assert not second.health()["ready"]
                ending = asyncio.create_task(first.__aexit__())
                numbers = []
                while not second.health()["ready"]:
                    numbers.append(await me.ask("Clerk", "which"))
                await ending
                numbers.append(await me.ask("Clerk", "which"))
                assert numbers[-1] == 2
                assert numbers == sorted(numbers)
                assert second.health()["agents"]["Clerk"]["deaths"] == 0

    with AMQPSpace(amqp_options=AMQPOptions(port=broker.port), exchange=exchange) as other:
        asyncio.run(asyncio.wait_for(main(), 50))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_company_loses_no_request_when_one_process_of_three_is_replaced_or_killed(
    tmp_path: Path, broker: Broker, exchange: str, me: Agent
) -> None:
    (tmp_path / "counter.py").write_text(AGENTS)
    names = ("A", "B", "C")
    for name in names:
        (tmp_path / f"{name}.yaml").write_text(text(broker, exchange, name))

    def started(name: str) -> Command:
        return Command(
            tmp_path / f"{name}.yaml", code=PROGRAM, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )

    def said(process: Command, state: str) -> None:
        assert process.stdout is not None
        while (line := process.stdout.readline()) != f"{state}\n":
            assert line, f"it has ended before it was {state}"

    outcomes: Counter[str] = Counter()
    processes: dict[str, set[int]] = {name: set() for name in names}
    over = threading.Event()

    def load() -> None:
        number = 0
        while not over.is_set():
            asked = [
                (
                    name,
                    me.ask(
                        name,
                        "count",
                        number=f"{name}{number}",
                    ),
                )
                for name in names
            ]
            number += 1
            for name, each in asked:
                try:
                    processes[name].add(each.result(60))
                    outcomes["ok"] += 1
                except InDoubt:
                    outcomes["in doubt"] += 1
                except Exception as error:
                    outcomes[f"{error!r}"] += 1
        outcomes["asked"] = 3 * number

    running = {name: started(name) for name in names}
    everything = [*running.values()]
    try:
        for name in names:
            said(running[name], "running")
        loading = threading.Thread(target=load)
        loading.start()
        # Replaced: the next one stands by, and the first is told to end.
        second = started("B")
        everything.append(second)
        said(second, "standby")
        running["B"].send_signal(signal.SIGTERM)
        said(second, "running")
        assert running["B"].wait(30) == 0
        assert outcomes["in doubt"] == 0
        # Killed: the third one stands by.
        third = started("B")
        everything.append(third)
        said(third, "standby")
        second.kill()
        said(third, "running")
        until_end = time.monotonic() + 20
        while len(processes["B"]) < 3:
            assert time.monotonic() < until_end, outcomes
            threading.Event().wait(0.01)
        over.set()
        loading.join(60)
        assert outcomes["ok"] + outcomes["in doubt"] == outcomes["asked"], outcomes
        assert outcomes["in doubt"] <= 1
        counted = Counter((tmp_path / "counted").read_text().split())
        assert max(counted.values()) == 1
        assert outcomes["ok"] <= len(counted) <= outcomes["asked"]
        assert len(processes["B"]) == 3
    finally:
        over.set()
        for each in everything:
            each.kill()
            each.wait(30)
            assert each.stdout is not None
            each.stdout.close()


def test_agent_that_is_given_up_is_a_dead_letter(
    make_company: MakeCompany, broker: Broker, exchange: str
) -> None:
    company = make_company(
        f"""
broker: {{host: localhost, port: {broker.port}, exchange: {exchange}}}
restart: {{first: 1ms, most: 0}}
agents:
  Clerk: {{ref: 'program.py:Clerk'}}
"""
    )

    async def work(me: Agent) -> None:
        await me.ask("Clerk", "die")
        with pytest.raises(GivenUp, match="no luck"):
            await company.ended()

    live(company, work)
    with DeadLetters(AMQPOptions(port=broker.port), exchange) as dead:
        found, _ = dead.look()
    assert [each.agent for each in found] == ["Clerk"]
    assert "'Clerk' died 1 time and is not started again: RuntimeError: no luck" in found[0].reason


def test_broker_that_is_away_makes_the_company_not_ready_and_then_ends_it(
    make_company: MakeCompany, broker: Broker, exchange: str
) -> None:
    with Proxy(broker.port) as proxy:
        company = make_company(
            f"""
broker: {{host: localhost, port: {proxy.port}, exchange: {exchange}, lost_after: 100ms}}
agents:
  Clerk: {{ref: 'program.py:Clerk'}}
"""
        )

        async def work(me: Agent) -> None:
            assert company.health()["ready"]
            proxy.refuse()
            proxy.cut()
            await until(lambda: not company.health()["broker"]["connected"])
            assert not company.health()["ready"]
            with pytest.raises(GivenUp, match=r"the broker was away for 0\.1 s"):
                await company.ended()

        live(company, work)
        proxy.accept()


def test_company_without_its_broker_is_given_up(make_company: MakeCompany) -> None:
    company = make_company(
        """
broker: {host: localhost, port: 1}
restart: {first: 1ms, most: 1}
agents:
  Clerk: {ref: 'program.py:Clerk'}
"""
    )

    async def main() -> None:
        await company.run()

    with pytest.raises(GivenUp, match="'Clerk' died 2 times"):
        asyncio.run(main())


def test_firing_whose_sender_another_process_has_is_made_once_that_process_leaves(
    folder: Path, make_company: MakeCompany, broker: Broker, exchange: str
) -> None:
    company = make_company(
        f"""
broker: {{host: localhost, port: {broker.port}, exchange: {exchange}}}
journal: runs.db
agents: {{Clerk: {{ref: 'program.py:Clerk'}}}}
schedules:
  greet: {{every: 1s, missed: all, to: Clerk, action: greet}}
"""
    )

    def refused() -> float:
        name = "moothall_schedule_firings_total"
        return value(company.metrics(), name, schedule="greet", outcome="DuplicateAgent")

    def states() -> list[str]:
        return [run.state for run in journal.runs(kind="Schedule") if "@since" not in run.id]

    async def work(_: Agent) -> None:
        await until(lambda: refused() >= 1)
        assert "done" not in states()
        await asyncio.to_thread(other.remove, "schedule.greet")
        await until(lambda: states()[:2] == ["done", "done"])

    with AMQPSpace(amqp_options=AMQPOptions(port=broker.port), exchange=exchange) as other:
        other.add(Agent("schedule.greet"))
        with Journal(folder / "runs.db") as journal:
            live(company, work)


MORTAL = """
import os
from moothall import Agent, action


class Mortal(Agent):
    @action
    async def greet(self) -> None:
        os._exit(9)
"""


def test_message_of_a_firing_whose_process_died_expires_after_its_timeout(
    tmp_path: Path, broker: Broker, exchange: str
) -> None:
    (tmp_path / "mortal.py").write_text(MORTAL)
    (tmp_path / "mortal.yaml").write_text(
        f"""
broker: {{host: localhost, port: {broker.port}, exchange: {exchange}}}
journal: runs.db
agents: {{Mortal: {{ref: 'mortal.py:Mortal'}}}}
schedules:
  greet: {{every: 1s, to: Mortal, action: greet, timeout: 1s}}
"""
    )
    process = Command(
        tmp_path / "mortal.yaml", code=PROGRAM, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    assert process.wait(30) == 9

    async def expired() -> None:
        with DeadLetters(AMQPOptions(port=broker.port), exchange) as dead:
            await until(lambda: bool(dead.look()[0]))
            assert ["expired" in each.reason for each in dead.look()[0]] == [True]

    asyncio.run(asyncio.wait_for(expired(), 30))


BANKING = '''
import os, signal, threading
from pathlib import Path
from moothall import Action, Agent, ReActAgent, ScriptedModel, action

HERE = Path(__file__).parent


class Bank(Agent):
    def __init__(self, id):
        while (HERE / "slow").exists():
            threading.Event().wait(0.02)
        super().__init__(id)

    @action
    async def book(self) -> str:
        """Book."""
        return "booked"


def order() -> str:
    if (HERE / "deadly").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "ordered"


def clerk(id):
    def answer(messages, actions):
        last = messages[-1]
        if last["role"] != "tool":
            return {"name": "order"}
        if last["content"] == "ordered":
            return {"name": "Bank_book"}
        return last["content"]

    actions = [Action("order", order, "Order.", idempotent=True)]
    return ReActAgent(id, ScriptedModel(answer), actions=actions, discover=["Bank"])
'''


class Banking:
    """A company over RabbitMQ whose clerk has been asked, and whose process has died of that."""

    def __init__(self, folder: Path, broker: Broker, exchange: str, me: Agent) -> None:
        self.folder = folder
        (folder / "banking.py").write_text(BANKING)
        (folder / "company.py").write_text(PROGRAM)
        (folder / "banking.yaml").write_text(
            f"broker: {{host: localhost, port: {broker.port}, exchange: {exchange}, inbox: i}}\n"
            "journal: runs.db\ndrain: 0s\nagents:\n"
            "  clerk: {ref: 'banking.py:clerk'}\n  Bank: {ref: 'banking.py:Bank'}\n"
        )
        (folder / "deadly").touch()
        with self.process() as first:
            assert first.stdout is not None
            next(line for line in first.stdout if line == "running running\n")
            action = {"name": "say", "args": {"content": "Book."}}
            self.said = me.request({"to": "clerk", "action": action})
            assert first.wait(40) == -signal.SIGKILL

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[str]]:
        """A process of it, which is killed at the end."""
        command = (sys.executable, "company.py", "banking.yaml")
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=self.folder, **pipes) as it:
            try:
                yield it
            finally:
                it.kill()


def test_message_that_comes_again_waits_for_the_agents_that_its_run_calls(
    tmp_path: Path, broker: Broker, exchange: str, me: Agent
) -> None:
    banking = Banking(tmp_path, broker, exchange, me)
    (tmp_path / "deadly").unlink()
    (tmp_path / "slow").touch()
    with banking.process() as second:
        assert second.stderr is not None
        line = next(line for line in second.stderr if "wait for the agents" in line)
        assert "runs of agent 'clerk' wait for the agents Bank" in line
        (tmp_path / "slow").unlink()
        assert banking.said.result(timeout=40) == "booked"


def test_message_whose_run_ends_its_process_each_time_waits_for_an_operator(
    tmp_path: Path, broker: Broker, exchange: str, me: Agent
) -> None:
    banking = Banking(tmp_path, broker, exchange, me)
    for _ in "23":
        with banking.process() as it:
            assert it.wait(40) == -signal.SIGKILL
    with banking.process(), Journal(tmp_path / "runs.db") as journal:
        with pytest.raises(ActionError, match="its process has ended 3 times at the same step"):
            banking.said.result(timeout=40)
        (wait,) = journal.waiting()
        assert (wait.agent, wait.kind) == ("clerk", "operator")
