"""What the loop costs: a turn, an agent, agents and threads that wait for their models.

    python -m benchmarks.turn [--quick]

`limit` is the bare form of the same work, measured in turns with ours in the same process; `ratio`
is how many times as long ours takes. Each call of a turn has other arguments than the one before,
as those of a model that gets on have. With agno and Pydantic AI installed, they do the same job
beside us.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Figures, emit, installed, side_by_side
from moothall import Agent, Call, Done, ModelReply, NativeSpace, ReActAgent, TextPiece

AGENTS = 1000
SLEEP_S = 0.2
PIECE = TextPiece("piece ")


def args(done: int) -> str:
    return f'{{"a": {done}, "b": 2}}'


def add_tool(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: first integer
        b: second integer
    """
    return a + b


async def add_tool_async(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: first integer
        b: second integer
    """
    return a + b


add_tool_async.__name__ = "add_tool"


# -- the bare forms --------------------------------------------------------------------------------


class BareModel:
    """So many tool calls, then a text."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    async def __call__(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        done = (len(messages) - 1) // 2
        if done == self.calls:
            return {"role": "assistant", "content": "3"}
        function = {"name": "add_tool", "arguments": args(done)}
        call = {"id": f"call_{done}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}


async def bare_run(model: BareModel) -> str:
    """The whole job and nothing else: parse, dispatch by name, keep a history of plain dicts."""
    tools = {"add_tool": add_tool}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    while True:
        message = await model(messages)
        messages.append(message)
        calls = message.get("tool_calls")
        if not calls:
            return str(message["content"])
        for call in calls:
            function = call["function"]
            out = tools[function["name"]](**json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(out)})


class BareAgent:
    """The least that can be called an agent."""

    __slots__ = ("history", "id", "model", "tools")

    def __init__(self, id: str, model: Any, tools: Any) -> None:
        self.id = id
        self.model = model
        self.tools = {tool.__name__: tool for tool in tools}
        self.history: list[Any] = []


# -- ours ------------------------------------------------------------------------------------------


class Fake:
    """The same answers, at once or after some seconds."""

    name = "fake"
    context_tokens: int | None = None

    def __init__(self, calls: int, sleep_s: float = 0.0) -> None:
        self.calls = calls
        self.sleep_s = sleep_s
        self.given = 0

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        if self.sleep_s:
            await asyncio.sleep(self.sleep_s)
        done = self.given
        if done == self.calls:
            self.given = 0
            return ModelReply(text="3")
        self.given = done + 1
        return ModelReply(calls=(Call(f"call_{done}", "add_tool", args(done)),))


def our_agent(model: Fake, number: int) -> ReActAgent:
    return ReActAgent(f"agent-{number}", model, actions=[add_tool])


# -- the peers -------------------------------------------------------------------------------------


def agno_maker(calls: int, tool: Callable[..., Any], sleep_s: float) -> Callable[[int], Any]:
    os.environ.setdefault("AGNO_TELEMETRY", "false")
    from agno.agent import Agent
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    @dataclass
    class Peer(Model):  # type: ignore[misc]
        id: str = "fake"
        name: str = "Fake"
        provider: str = "Fake"

        def answer(self, messages: Any) -> Any:
            done = sum(1 for message in messages if message.role == "tool")
            if done == calls:
                return ModelResponse(role="assistant", content="3")
            function = {"name": "add_tool", "arguments": args(done)}
            call = {"id": f"c{done}", "type": "function", "function": function}
            return ModelResponse(role="assistant", tool_calls=[call])

        def invoke(self, messages: Any, **_: Any) -> Any:
            return self.answer(messages)

        async def ainvoke(self, messages: Any, **_: Any) -> Any:
            if sleep_s:
                await asyncio.sleep(sleep_s)
            return self.answer(messages)

        def invoke_stream(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def ainvoke_stream(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def _parse_provider_response(self, response: Any, **_: Any) -> Any:
            return response

        def _parse_provider_response_delta(self, response: Any) -> Any:
            return response

    model = Peer()
    return lambda i: Agent(name=f"a{i}", model=model, tools=[tool], telemetry=False)


def pydantic_ai_maker(calls: int, tool: Callable[..., Any], sleep_s: float) -> Callable[[int], Any]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    async def answer(messages: list[Any], info: Any) -> ModelResponse:
        if sleep_s:
            await asyncio.sleep(sleep_s)
        done = (len(messages) - 1) // 2
        if done == calls:
            return ModelResponse([TextPart("3")])
        return ModelResponse([ToolCallPart("add_tool", args(done), f"call_{done}")])

    model = FunctionModel(answer)
    return lambda i: Agent(model, name=f"a{i}", tools=[tool])


async def pydantic_ai_run(agent: Any) -> str:
    from pydantic_ai import UsageLimits

    return str((await agent.run("go", usage_limits=UsageLimits(request_limit=None))).output)


async def agno_run(agent: Any) -> str:
    return str((await agent.arun("go")).content)


Maker = Callable[[int, Callable[..., Any], float], Callable[[int], Any]]
PEERS: dict[str, tuple[Maker, Callable[[Any], Awaitable[str]]]] = {
    "agno": (agno_maker, agno_run),
    "pydantic_ai": (pydantic_ai_maker, pydantic_ai_run),
}


def peers() -> dict[str, tuple[Maker, Callable[[Any], Awaitable[str]]]]:
    """Those that are installed: how an agent is made, and how it is asked."""
    return {name: peer for name, peer in PEERS.items() if installed(name)}


# -- the figures -----------------------------------------------------------------------------------


def show(metric: str, variant: str, figures: dict[str, Figures], target: str | None) -> None:
    """Each form's cost in microseconds, in the middle of the rounds, over the bare form's."""
    limit = figures["limit"]
    for name, figure in figures.items():
        if name == "limit":
            continue
        emit(
            metric,
            f"{variant}, {name}",
            figure.seconds * 1e6,
            "us",
            limit=limit.seconds * 1e6,
            ratio=figure.over(limit),
            best=min(figure.wall) * 1e6,
            cpu=statistics.median(figure.cpu) * 1e6,
            **({"target": target} if target and name == "moothall" else {}),
        )


def turns(
    variant: str, calls: int, tool: Callable[..., Any], rounds: int, target: str | None = None
) -> None:
    """Model answers and their actions, again and again with one agent and its memory."""
    runs = max(500 // (calls + 1), 10)
    agent = ReActAgent("bench", Fake(calls), actions=[tool], max_iterations=calls + 1)
    bare = BareModel(calls)

    async def times(run: Callable[[], Awaitable[Any]], count: int) -> int:
        for _ in range(count):
            await run()
        return count * (calls + 1)

    async def ours() -> None:
        reply = await agent.reply("go")
        assert reply.text == "3", reply

    with asyncio.Runner() as runner:
        works: dict[str, Callable[[], int]] = {
            "limit": lambda: runner.run(times(lambda: bare_run(bare), runs * 5)),
            "moothall": lambda: runner.run(times(ours, runs)),
        }

        def theirs(peer: Any, ask: Callable[[Any], Awaitable[str]]) -> Callable[[], int]:
            async def once() -> None:
                assert await ask(peer) == "3"

            return lambda: runner.run(times(once, max(runs // 5, 1)))

        for name, (make, ask) in peers().items():
            works[name] = theirs(make(calls, tool, 0.0)(0), ask)
        show("turn", variant, side_by_side(works, rounds, warm=2), target)


class Streamer(Fake):
    """Streams the last answer in many pieces."""

    def __init__(self, calls: int, pieces: int) -> None:
        super().__init__(calls)
        self.pieces = pieces

    async def stream(
        self, messages: Any, actions: Any = None, schema: Any = None
    ) -> AsyncIterator[Any]:
        reply = await self.complete(messages, actions)
        if not reply.calls:
            for _ in range(self.pieces):
                yield PIECE
        yield reply


def streamed(rounds: int) -> None:
    """The same turns with every event read, and a hook before and after each step."""
    calls, pieces = 10, 100
    options: dict[str, Any] = {"actions": [add_tool_async], "max_iterations": calls + 1}
    watched = ReActAgent("bench", Streamer(calls, 0), **options)
    for when in ("pre", "post"):
        for what in ("reply", "reasoning", "acting"):
            watched.register_hook(f"{when}_{what}", "watch", lambda agent, kwargs: None)
    few = ReActAgent("bench", Streamer(0, 0), **options)
    many = ReActAgent("bench", Streamer(0, pieces), **options)

    async def times(agent: ReActAgent, count: int) -> int:
        for _ in range(count):
            async for event in agent.stream("go"):
                last = event
            assert isinstance(last, Done)
        return count

    with asyncio.Runner() as runner:
        runs = 50
        bare = BareModel(calls)

        async def limit() -> int:
            for _ in range(runs * 5):
                await bare_run(bare)
            return runs * 5 * (calls + 1)

        works = {
            "limit": lambda: runner.run(limit()),
            "moothall": lambda: runner.run(times(watched, runs)) * (calls + 1),
        }
        show(
            "turn",
            "10 calls of an async tool, streamed, with hooks",
            side_by_side(works, rounds, warm=2),
            "<= 40",
        )
        pairs = [
            (
                clock(lambda: runner.run(times(few, 200))),
                clock(lambda: runner.run(times(many, 200))),
            )
            for _ in range(rounds)
        ]
    each = statistics.median((long - short) / (200 * pieces) for short, long in pairs)
    emit("event", "a piece of text, moothall", each * 1e6, "us", target="<= 5")


def clock(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def construction(rounds: int) -> None:
    """An agent with one function as its action."""
    model = Fake(0)
    makers: dict[str, Callable[[int], Any]] = {
        "limit": lambda i: BareAgent(f"agent-{i}", model, (add_tool,)),
        "moothall": lambda i: our_agent(model, i),
    }
    makers |= {name: make(0, add_tool, 0.0) for name, (make, _) in peers().items()}

    def many(make: Callable[[int], Any]) -> Callable[[], int]:
        return lambda: len([make(i) for i in range(AGENTS)])

    works = {name: many(make) for name, make in makers.items()}
    show("agent", "one function", side_by_side(works, rounds, warm=2), "<= 8")

    sizes = {name: size(make) for name, make in makers.items()}
    limit = sizes.pop("limit")
    for name, taken in sizes.items():
        target = {"target": "<= 2048"} if name == "moothall" else {}
        variant = f"one function, {name}"
        emit("agent size", variant, taken, "bytes", limit=limit, ratio=taken / limit, **target)


def size(make: Callable[[int], Any]) -> float:
    """Bytes of Python's heap for an agent."""
    make(-1)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [make(i) for i in range(AGENTS)]
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return grown / len(kept)


def waiting(rounds: int) -> None:
    """A thousand agents, made beforehand, that all wait for their model at once."""
    model = Fake(0, SLEEP_S)
    forms: dict[str, tuple[Callable[[int], Any], Callable[[Any], Awaitable[Any]]]] = {
        "limit": (lambda i: i, lambda _: asyncio.sleep(SLEEP_S)),
        "moothall": (lambda i: our_agent(model, i), lambda agent: agent.reply("go")),
    }
    for name, (make, ask) in peers().items():
        forms[name] = (make(0, add_tool, SLEEP_S), ask)
    figures = {name: Figures() for name in forms}

    async def all_of(agents: list[Any], ask: Callable[[Any], Awaitable[Any]]) -> int:
        await asyncio.gather(*map(ask, agents))
        return 1

    def run(agents: list[Any], ask: Callable[[Any], Awaitable[Any]]) -> int:
        return asyncio.run(all_of(agents, ask))

    for _ in range(rounds):
        for name, (make, ask) in forms.items():
            agents = [make(i) for i in range(AGENTS)]
            figures[name].take(lambda agents=agents, ask=ask: run(agents, ask))  # type: ignore[misc]
    limit = figures.pop("limit")
    variant = f"{AGENTS} agents, {SLEEP_S} s"
    for name, figure in figures.items():
        ours = name == "moothall"
        emit(
            "waiting",
            f"{variant}, {name}",
            figure.seconds,
            "s",
            limit=limit.seconds,
            ratio=figure.over(limit),
            best=min(figure.wall),
            **({"target": "<= 0.23"} if ours else {}),
        )
        emit(
            "waiting, CPU",
            f"{variant}, {name}",
            statistics.median(figure.cpu) * 1e3,
            "ms",
            limit=statistics.median(limit.cpu) * 1e3,
            ratio=statistics.median(figure.cpu) / statistics.median(limit.cpu),
            **({"target": "<= 60"} if ours else {}),
        )


def threads(rounds: int) -> None:
    """One agent that many talk with at once, each in a thread, and a model of 0.1 s."""
    model = Fake(0, 0.1)

    async def replies() -> float:
        agent = our_agent(model, 0)
        begun = time.perf_counter()
        await asyncio.gather(*(agent.reply("go", thread=str(one)) for one in range(100)))
        return time.perf_counter() - begun

    def said(others: int) -> float:
        model = Fake(0, 0.1)
        with NativeSpace() as space:
            space.add(our_agent(model, 0))
            people = [space.add(Agent(f"person-{one}")) for one in range(20)]
            eve = space.add(Agent("eve"))
            begun = time.perf_counter()
            for one in range(others):
                action = {"name": "say", "args": {"content": f"{one}"}}
                eve.send({"to": "agent-0", "action": action})
            asked = [person.ask("agent-0", "say", content="go") for person in people]
            for each in asked:
                each.result(10)
            taken = time.perf_counter() - begun
            model.sleep_s = 0.0  # the other one's messages are handled before the space closes
            eve.ask("agent-0", "say", content="last").result(30)
            return taken

    works: dict[str, tuple[Callable[[], float], str]] = {
        "100 by reply": (lambda: asyncio.run(replies()), "<= 0.15"),
        "20 people by say": (lambda: said(0), "<= 0.3"),
        "20 people by say, another sends 100 messages": (lambda: said(100), "<= 0.3"),
    }
    for variant, (work, target) in works.items():
        taken = statistics.median(work() for _ in range(rounds))
        emit(
            "threads",
            f"{variant}, model 0.1 s",
            taken,
            "s",
            limit=0.1,
            ratio=taken / 0.1,
            target=target,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    rounds = 3 if quick else 9
    turns("no calls", 0, add_tool_async, rounds)
    turns("10 calls of an async tool", 10, add_tool_async, rounds, "<= 40")
    turns("50 calls of an async tool", 50, add_tool_async, rounds, "<= 40")
    turns("10 calls of a plain tool", 10, add_tool, rounds, "<= 120")
    streamed(rounds)
    construction(rounds)
    waiting(2 if quick else 5)
    threads(2 if quick else 5)


if __name__ == "__main__":
    main()
