"""How many functions a turn calls, against a table: what a clock on a busy machine cannot tell.

Of an `ask` the opcodes are counted, too: they alone show what costs no call. A row that needs over
a hundredth more fails. One that needs fewer fails, too, until the table has the new figure:
`PYTHONPATH=.. python -m agent.test_function_calls` in `tests` writes it. The counts are those of
the Python that the table names; another's may differ by a sixth.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import json
import os
import platform
import pstats
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from benchmarks.broker import Broker
from benchmarks.http import MESSAGES, Server

import moothall
from moothall import (
    Action,
    Agent,
    AMQPOptions,
    AMQPSpace,
    Block,
    Budget,
    Call,
    Journal,
    Later,
    ModelReply,
    NativeSpace,
    ReActAgent,
    SQLiteMemory,
    action,
)
from moothall.models import OpenAIModel
from moothall.serving import asgi
from moothall.society import City, Society, make_economy

TABLE = Path(__file__).with_name("function_calls.json")
HOUSE = str(Path(moothall.__file__).parent)
FEW, MANY = 10, 30  # turns of a reply: the difference is that of the turns alone


class Caller:
    """A model that calls `add` so many times, then answers."""

    name = "caller"
    context_tokens: int | None = None

    def __init__(self, calls: int, last: str = "") -> None:
        self.calls = calls
        self.last = last  # what it calls instead of its answer
        self.done = 0

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        done, self.done = self.done, self.done + 1
        if done == self.calls:
            self.done = 0
            if self.last:
                return ModelReply(calls=(Call("call_last", self.last, "{}"),))
            return ModelReply(text="3")
        return ModelReply(calls=(Call(f"call_{done}", "add", f'{{"a": {done}, "b": 2}}'),))

    async def stream(
        self, messages: Any, actions: Any = None, schema: Any = None
    ) -> AsyncIterator[Any]:
        yield await self.complete(messages, actions)


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def plain_add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


plain_add.__name__ = "add"


def counted(work: Callable[[], object]) -> int:
    """Return how many functions, also built-in ones, some work calls in this thread."""
    profile = cProfile.Profile()
    gc.disable()
    try:
        profile.enable()
        work()
        profile.disable()
    finally:
        gc.enable()
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return calls


def per_turn(
    make: Callable[[int], ReActAgent], ask: Callable[[ReActAgent], Awaitable[Any]]
) -> float:
    """Return how many functions a turn calls, of replies with few and with many of them."""
    totals = []
    with asyncio.Runner() as runner:
        for turns in (FEW, MANY):
            agent = make(turns)

            async def once(agent: ReActAgent = agent) -> None:
                await ask(agent)

            for _ in range(3):  # what is made once is made
                runner.run(once())
            totals.append(min(counted(lambda: runner.run(once())) for _ in range(3)))
    return (totals[1] - totals[0]) / (MANY - FEW)


def agent_with(function: Any, turns: int, **options: Any) -> ReActAgent:
    return ReActAgent("a", Caller(turns), actions=[function], max_iterations=turns + 1, **options)


async def reply(agent: ReActAgent) -> None:
    assert (await agent.reply("go")).text == "3"


async def streamed(agent: ReActAgent) -> None:
    async for _ in agent.stream("go"):
        pass


def async_action() -> float:
    return per_turn(lambda turns: agent_with(add, turns), reply)


def plain_action() -> float:
    return per_turn(lambda turns: agent_with(plain_add, turns), reply)


def stream_and_hook() -> float:
    def hooked(turns: int) -> ReActAgent:
        agent = agent_with(add, turns)
        agent.register_hook("pre_acting", "watch", lambda agent, kwargs: None)
        return agent

    return per_turn(hooked, streamed)


class Watcher(Block):
    """A block that stands around each step."""

    async def around_model(self, step: Any, call: Any) -> Any:
        return await call()

    async def around_action(self, step: Any, call: Any) -> Any:
        return await call()


def resumed_turn() -> float:
    """Return how many functions a recorded turn calls where its run goes on with a new agent."""
    totals = []
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        for turns in (FEW, MANY):
            path = Path(folder) / f"{turns}"

            async def go_on(path: Path = path, turns: int = turns) -> None:
                with Journal(path) as journal, SQLiteMemory(f"{path}.memory") as memory:
                    actions = [add, Action("order", lambda: Later("k"), "Order.")]
                    agent = ReActAgent("a", Caller(turns, "order"), actions=actions, memory=memory)
                    agent.journal, agent.max_iterations = journal, turns + 1
                    assert (await agent.reply("go", run_id="r")).stop_reason == "waiting"

            for _ in range(3):  # what is made once is made
                runner.run(go_on())
            totals.append(min(counted(lambda: runner.run(go_on())) for _ in range(3)))
    return (totals[1] - totals[0]) / (MANY - FEW)


def prompt_and_blocks() -> float:
    def made(turns: int) -> ReActAgent:
        return agent_with(add, turns, system_prompt="You add.", blocks=[Watcher(), Block()])

    return per_turn(made, reply)


def budget() -> float:
    return per_turn(
        lambda turns: agent_with(add, turns, budget=Budget(model_calls=10**6, actions=10**6)), reply
    )


def journal() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return per_turn(lambda turns: agent_with(add, turns, journal=f"{folder}/{turns}.db"), reply)


def agent_made() -> float:
    """Return how many functions the making of an agent with one action calls."""
    agent_with(add, 0)
    return float(min(counted(lambda: agent_with(add, 0)) for _ in range(3)))


def first_reply() -> float:
    """Return how many functions the first reply of an agent calls."""

    async def nothing() -> None:
        pass

    with asyncio.Runner() as runner:
        runner.run(reply(agent_with(add, 0)))
        loop = min(counted(lambda: runner.run(nothing())) for _ in range(3))
        agents = [agent_with(add, 0) for _ in range(3)]
        return min(counted(lambda: runner.run(reply(each))) for each in agents) - loop  # noqa: B023


class Adder(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        return a + b


class Asker(Agent):
    @action
    async def count(self, asks: int, ours: bool) -> float:
        """Return how many functions an `ask` and its handler call; all, or only the package's."""

        async def calls(number: int) -> int:
            profile = cProfile.Profile()
            gc.disable()
            profile.enable()
            for _ in range(number):
                await self.ask("adder", "add", a=1, b=2)
            profile.disable()
            gc.enable()
            stats: Any = pstats.Stats(profile)
            if not ours:
                return int(stats.total_calls)
            return sum(found[1] for (file, *_), found in stats.stats.items() if HOUSE in file)

        await calls(asks)
        return (await calls(asks) - await calls(asks // 5)) / (asks - asks // 5)


class OpcodeCounter(Agent):
    @action
    async def count(self, asks: int) -> float:
        """Return how many opcodes of the package an `ask` and its handler take on this thread."""
        opcodes = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal opcodes
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            opcodes += event == "opcode" and HOUSE in frame.f_code.co_filename
            return trace

        async def asked(number: int) -> int:
            nonlocal opcodes
            opcodes = 0
            gc.disable()
            sys.settrace(trace)
            for _ in range(number):
                await self.ask("adder", "add", a=1, b=2)
            sys.settrace(None)
            gc.enable()
            return opcodes

        await asked(asks)
        return (await asked(asks) - await asked(asks // 5)) / (asks - asks // 5)


def opcodes_of_an_ask() -> float:
    """Return how many opcodes of ours an `ask` takes: what a call of no function costs, too."""
    with NativeSpace() as space:
        space.add(Adder("adder"))
        space.add(OpcodeCounter("counter"))
        me = space.add(Agent("me"))
        return float(me.ask("counter", "count", asks=500).result(50))


def ask_in_a_space() -> float:
    """Return how many functions an `ask` and its handler call on the loop of a space."""
    with NativeSpace() as space:
        space.add(Adder("adder"))
        space.add(Asker("asker"))
        me = space.add(Agent("me"))
        return float(me.ask("asker", "count", asks=500, ours=False).result(30))


def message_of_a_broker(port: int) -> float:
    """Return how many functions of ours the two messages of an `ask` over a broker call.

    How often the network is read, and by how much, is not counted.
    """
    options = AMQPOptions("127.0.0.1", port)
    with AMQPSpace(exchange="function-calls", amqp_options=options) as space:
        space.add(Adder("adder"))
        space.add(Asker("asker"))
        me = space.add(Agent("me"))
        counts = [float(me.ask("asker", "count", asks=100, ours=True).result(30)) for _ in range(3)]
    return min(counts)


def step_of_citizens() -> float:
    """Return how many functions a step of a hundred citizens calls, in all threads.

    Which thread the rows take goes by the clock.
    """
    steps = 4
    is_counting, calls = False, 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += is_counting and event in ("call", "c_call")

    async def live() -> None:
        nonlocal is_counting, calls

        async def look(row: dict[str, Any]) -> None:  # on the loop: a plain one takes a thread
            nonlocal is_counting
            is_counting = row["step"] <= steps

        calls = 0
        city = City.generate(seed=1, citizens=100)
        services = make_economy(city, seed=1)
        async with Society(100, city, seed=1, services=services) as society:
            await society.run(steps=steps + 1, progress=look)

    threading.setprofile(count)
    lives = []
    for _ in range(3):
        asyncio.run(live())
        lives.append(calls / steps)
    return min(lives[1:])  # what is made once is made in the first, which is not counted whole


def request_of_a_door() -> float:
    """Return how many functions a request of OpenAI's chat calls, with the agent's reply."""
    app: Any = asgi([agent_with(add, 0)])
    body = json.dumps({"model": "a", "messages": [{"role": "user", "content": "go"}]}).encode()
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def request() -> None:
        statuses = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        open = asyncio.Event()

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await open.wait()
            return None

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))

        await app(dict(scope), receive, send)
        assert statuses[0] == 200, statuses

    with asyncio.Runner() as runner:
        for _ in range(10):
            runner.run(request())
        return min(counted(lambda: runner.run(request())) for _ in range(200))


def answer_of_a_server(is_streamed: bool) -> float:
    """Return how many functions ours call for an answer over HTTP, ours and built-in ones.

    How the client's library works, and how often the network is read, is not counted.
    """

    async def answers(model: OpenAIModel, number: int) -> None:
        for _ in range(number):
            if is_streamed:
                async for _ in model.stream(MESSAGES):
                    pass
            else:
                await model.complete(MESSAGES)

    async def count() -> float:
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        async with server, OpenAIModel("m", f"http://127.0.0.1:{port_of(server)}/v1") as model:
            await answers(model, 10)
            profile = cProfile.Profile()
            gc.disable()
            profile.enable()
            await answers(model, 50)
            profile.disable()
            gc.enable()
            stats: Any = pstats.Stats(profile)
            callers = [
                each for *_, of_function in stats.stats.values() for each in of_function.items()
            ]
            return sum(calls[0] for (file, *_), calls in callers if HOUSE in file) / 50

    return asyncio.run(count())


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


KINDS: dict[str, Callable[[], float]] = {
    "turn, async action": async_action,
    "turn, plain action": plain_action,
    "turn, stream and hook": stream_and_hook,
    "turn, journal": journal,
    "turn, resumed": resumed_turn,
    "turn, prompt and blocks": prompt_and_blocks,
    "turn, budget": budget,
    "agent with one action": agent_made,
    "first reply": first_reply,
    "ask in a space": ask_in_a_space,
    "ask in a space, opcodes": opcodes_of_an_ask,
    "request of a door": request_of_a_door,
    "step of 100 citizens": step_of_citizens,
    "answer of a server": partial(answer_of_a_server, False),
    "answer of a server, streamed": partial(answer_of_a_server, True),
}
BROKER = "ask over a broker"

SLACK = {
    "request of a door": 0.03,
    "ask in a space": 0.02,
    "step of 100 citizens": 0.05,
    "answer of a server, streamed": 0.05,
    BROKER: 0.05,
}
"""What goes by the clock: a door's clean-up, what a loop does at once, which thread runs citizens,
how many pieces are read at once, what a broker confirms."""


@pytest.mark.parametrize("kind", KINDS)
def test_function_calls_are_those_of_the_table(kind: str) -> None:
    compare(kind, lambda: in_fresh_process(kind))


def test_function_calls_of_an_ask_over_a_broker_are_those_of_the_table(broker: Broker) -> None:
    compare(BROKER, lambda: message_of_a_broker(broker.port))


def in_fresh_process(kind: str) -> float:
    """Return the count of a process of its own: what earlier tests imported and cached differs."""
    tests = TABLE.parent.parent
    path = os.pathsep.join(map(str, (tests, tests.parent, tests.parent / "src")))
    command = [sys.executable, "-m", "agent.test_function_calls", kind]
    child = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=55
    )
    assert child.returncode == 0, child.stderr
    return float(child.stdout)


def compare(kind: str, count: Callable[[], float]) -> None:
    """Compare a count with the table."""
    table = json.loads(TABLE.read_text())
    known = table["calls"][kind]
    same = platform.python_version().startswith(f"{table['python']}.")
    slack = SLACK.get(kind, 0.01) if same else 0.17
    now = count()
    assert now <= known * (1 + slack), f"{kind}: {now}, but {known} in {TABLE.name}"
    if same:
        fewer = f"{kind}: {now} only, and {known} in {TABLE.name}: write it there"
        assert now >= known * (1 - slack), fewer


def main() -> None:
    if len(sys.argv) == 2:
        sys.stdout.write(f"{KINDS[sys.argv[1]]()}\n")
        return
    python = ".".join(platform.python_version_tuple()[:2])
    calls = {kind: round(in_fresh_process(kind), 1) for kind in KINDS}
    with Broker() as broker:
        calls[BROKER] = round(message_of_a_broker(broker.port), 1)
    TABLE.write_text(json.dumps({"python": python, "calls": calls}, indent=2) + "\n")
    sys.stdout.write(TABLE.read_text())


if __name__ == "__main__":
    main()
