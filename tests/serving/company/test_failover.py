"""`moothall serve` over RabbitMQ and PostgreSQL: whatever dies, another takes over."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from benchmarks.broker import Broker
from benchmarks.postgresql import Server

from moothall import Agent, AMQPOptions, AMQPSpace, Journal, MoothallError
from moothall.foundation.errors import InDoubt
from serving.company.conftest import value
from serving.company.served import Served
from serving.company.test_supervision import cut_connections

NAMES = ("A", "B", "Clerk")
WITHIN_S = 240.0

AGENTS = '''
import asyncio
import os

from moothall import Agent, ModelReply, ReActAgent, action


def note(what):
    """Add a line to the file, whole: it is what the checker counts."""
    path = os.path.join(os.path.dirname(__file__), "counted")
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{what} {os.getpid()}\\n".encode())
    os.close(file)


class Mortal(Agent):
    """Dies when it is told to."""

    async def after_add(self):
        self.dying = asyncio.Event()

    async def background(self):
        await self.dying.wait()
        raise RuntimeError("no luck")

    @action(idempotent=True)
    async def die(self) -> None:
        """End the background work by an exception."""
        self.dying.set()


class Counter(Mortal):
    @action
    async def count(self, number: str) -> int:
        """Note a number, and say which process did."""
        note(number)
        return os.getpid()



class Echo:
    name = "echo"
    context_tokens = None

    async def complete(self, messages, actions=None, schema=None):
        return ModelReply(messages[-1]["content"])


class Clerk(Mortal, ReActAgent):
    pass


def clerk(id):
    return Clerk(id, Echo())
'''


@pytest.fixture
def patient() -> Iterator[Broker]:
    """A broker that may take long to start, as on a machine that runs other long tests."""
    broker = Broker()
    try:
        broker.start(WITHIN_S)
        yield broker
    finally:
        broker.close()


class Processes:
    """The process that has the agents, and the one that stands by."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.everything: list[Served] = []
        self.active = self._start()
        self.wait(self.active)
        self.next = self._start()

    def _start(self) -> Served:
        served = Served(self.folder)
        self.everything.append(served)
        return served

    def health(self, served: Served) -> dict[str, str]:
        """Return the state of each agent; of none while it runs without its broker."""
        try:
            _, text = served.get("/health", "secret")
        except OSError:
            return {}
        said = json.loads(text)
        states = {name: each["state"] for name, each in said["agents"].items()}
        # One that stands by waits for the inbox before it connects.
        return states if said["broker"]["connected"] or "standby" in states.values() else {}

    def deaths(self) -> dict[str, tuple[int, int]]:
        """Return how often each agent has died, and has been started again, in this process."""
        _, text = self.active.get("/health", "secret")
        told = json.loads(text)["agents"].items()
        return {name: (each["deaths"], each["restarts"]) for name, each in told}

    def wait(self, served: Served, state: str = "running") -> float:
        """Wait until its agents are all in a state; how many seconds that took."""
        begun = time.monotonic()
        while set((now := self.health(served)).values()) != {state}:
            assert time.monotonic() - begun < WITHIN_S, (state, now)
            assert served.process.poll() is None, "it has ended"
            threading.Event().wait(0.02)
        return time.monotonic() - begun

    def fail_over(self) -> float:
        """Kill the active one, once the other stands by; how long the other took to take over."""
        self.wait(self.next, "standby")
        self.active.process.kill()
        self.active, old = self.next, self.active
        took = self.wait(self.active)
        old.end()
        self.next = self._start()
        return took

    def close(self) -> None:
        for each in self.everything:
            each.process.kill()
            each.end()


class Load:
    """Agents that ask until they are told to end; what became of each request."""

    def __init__(self, space: AMQPSpace, senders: int = 4) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.answered: set[str] = set()
        self.doubted: set[str] = set()
        self.asked = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        agents = [space.add(Agent(f"{uuid4().hex}")) for each in range(senders)]
        self._threads = [threading.Thread(target=self._ask, args=(each,)) for each in agents]
        for each in self._threads:
            each.start()

    def _ask(self, me: Agent) -> None:
        index = 0
        while not self._over.is_set():
            index += 1
            number = f"{me.id}.{index}"
            asked = [
                (name, me.ask(name, "say", content=number))
                if name == "Clerk"
                else (name, me.ask(name, "count", number=f"{name}.{number}"))
                for name in NAMES
            ]
            for name, each in asked:
                outcome = "ok"
                try:
                    each.result(WITHIN_S)
                except MoothallError as error:
                    outcome = type(error).__name__
                    if isinstance(error, InDoubt):
                        with self._lock:
                            self.doubted.add(f"{name}.{number}")
                with self._lock:
                    self.asked += 1
                    self.outcomes[name, outcome] += 1
                    if outcome == "ok":
                        self.answered.add(f"{name}.{number}")

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *raised: object) -> None:
        """Ask nothing more, and wait for what was asked."""
        self._over.set()
        for each in self._threads:
            each.join(2 * WITHIN_S)
            assert not each.is_alive(), "a request has no outcome"


@pytest.fixture
def url(postgresql: Server) -> str:
    """The address of a journal of this test alone."""
    url = postgresql.url(f"s{secrets.token_hex(6)}")
    Journal(url).close()
    return url


@pytest.fixture
def processes(tmp_path: Path, patient: Broker, url: str) -> Iterator[tuple[Processes, AMQPSpace]]:
    (tmp_path / "agents.py").write_text(AGENTS)
    exchange = f"test.{uuid4().hex}"
    (tmp_path / "company.yaml").write_text(
        f"""
journal: '{url}'
http: {{listen: '127.0.0.1:0', token: '${{TOKEN}}'}}
broker: {{host: localhost, port: {patient.port}, exchange: {exchange}, inbox: company.inbox}}
restart: {{first: 1ms, longest: 20ms, most: 1000000}}
agents:
  A: {{ref: 'agents.py:Counter'}}
  B: {{ref: 'agents.py:Counter'}}
  Clerk: {{ref: 'agents.py:clerk'}}
"""
    )
    running = Processes(tmp_path)
    options = AMQPOptions(port=patient.port)
    try:
        with AMQPSpace(amqp_options=options, exchange=exchange) as space:
            yield running, space
    finally:
        running.close()


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_serve_killed_process_is_taken_over_by_the_one_that_stands_by(
    processes: tuple[Processes, AMQPSpace], tmp_path: Path
) -> None:
    running, space = processes
    with Load(space) as load:
        took = [running.fail_over() for _ in range(5)]
    print(f"5 processes killed, taken over within {max(took):.1f} s: {dict(load.outcomes)}")
    check(load, tmp_path)
    assert {outcome for _, outcome in load.outcomes} <= {"ok", "InDoubt"}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_serve_deaths_of_every_kind_leave_no_request_without_an_outcome(
    processes: tuple[Processes, AMQPSpace], tmp_path: Path, patient: Broker, url: str
) -> None:
    """Agents die, connections to the database are cut, processes and the broker are killed."""
    running, space = processes
    rounds = int(os.environ.get("MOOTHALL_ROUNDS", "3"))
    died: Counter[str] = Counter()
    slowest = {"agent": 0.0, "process": 0.0}
    outcomes: Counter[str] = Counter()
    loads = []
    for number in range(rounds):
        before = running.deaths()
        with Load(space) as load:
            told = agents_die(running, space.add(Agent(f"killer {number}")), url, died, slowest)
        loads.append(load)
        # Nothing is asked now: the sums are what everybody has seen.
        metrics = running.active.get("/metrics", "secret")[1]
        for name in NAMES:
            assert value(metrics, "moothall_deaths_total", agent=name) == before[name][0] + told
            assert running.deaths()[name] == (before[name][0] + told, before[name][1] + told)
        with Load(space) as load:
            if number % 10 == 1:
                patient.kill()
                died["broker"] += 1
                patient.start(WITHIN_S)
                running.wait(running.active)
            slowest["process"] = max(slowest["process"], running.fail_over())
            died["process"] += 1
        loads.append(load)
    for load in loads:
        for (_, outcome), many in load.outcomes.items():
            outcomes[outcome] += many
    print(f"{died.total()} deaths: {dict(died)}; slowest {dict(slowest)}; {dict(outcomes)}")
    check_all(loads, tmp_path)
    # Nobody serves an agent while the broker and its process die together: that is said at once.
    assert {*outcomes} <= {"ok", "InDoubt", "AgentStopped", "AgentNotFound"}


def agents_die(
    running: Processes, killer: Agent, url: str, died: Counter[str], slowest: Counter[str]
) -> int:
    """Have each agent die many times, while connections to the database are cut; how many times."""
    times = 60
    for each in range(times):
        before = running.deaths()
        for name in NAMES:
            killer.ask(name, "die").result(WITHIN_S)
        begun = time.monotonic()
        while any(now[1] <= before[name][1] for name, now in running.deaths().items()):
            assert time.monotonic() - begun < WITHIN_S, (before, running.deaths())
        died["agent"] += len(NAMES)
        slowest["agent"] = max(slowest["agent"], time.monotonic() - begun)
        if each % 3 == 0:
            died["connection"] += cut_connections(url)
    return times


def check(load: Load, folder: Path) -> None:
    """No request is lost, none without an outcome, and none done twice."""
    check_all([load], folder)


def check_all(loads: list[Load], folder: Path) -> None:
    lines = (folder / "counted").read_text().splitlines()
    times = Counter(line.split()[0] for line in lines)
    assert [number for number, many in times.items() if many > 1] == []
    for load in loads:
        assert load.outcomes.total() == load.asked
        answered = {each for each in load.answered if not each.startswith("Clerk")}
        assert answered - times.keys() == set()
        assert not load.doubted & load.answered
