"""What a message costs: a request and its answer, and a broadcast to a hundred agents.

    python -m benchmarks.messages [--quick]

The limit is two tasks with two `asyncio.Queue`s, and a hundred tasks with one each, in the same
process and in turns with it. The process is held on one core, since a hand-over between two cores
costs more than all else and comes and goes. Peers are measured in the same run where installed.
`ratio` is rate over the limit's rate: 1.0 is the limit, more is faster than it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.measure import emit, installed, side_by_side
from moothall import Agent, NativeSpace, action

RECEIVERS = 100


# -- the limit -------------------------------------------------------------------------------------


async def queue_round_trips(count: int) -> int:
    """Two tasks, two queues: what a request and an answer cost at the least."""
    there: asyncio.Queue[int | None] = asyncio.Queue()
    back: asyncio.Queue[int] = asyncio.Queue()

    async def echo() -> None:
        while (number := await there.get()) is not None:
            back.put_nowait(number)

    task = asyncio.create_task(echo())
    for number in range(count):
        there.put_nowait(number)
        await back.get()
    there.put_nowait(None)
    await task
    return count


async def queue_broadcasts(count: int) -> int:
    """A hundred tasks with a queue each."""
    queues: list[asyncio.Queue[int | None]] = [asyncio.Queue() for _ in range(RECEIVERS)]
    heard_all = asyncio.Event()
    left = count * RECEIVERS

    async def hear(mine: asyncio.Queue[int | None]) -> None:
        nonlocal left
        while await mine.get() is not None:
            left -= 1
            if not left:
                heard_all.set()

    tasks = [asyncio.create_task(hear(mine)) for mine in queues]
    await asyncio.sleep(0)
    for number in range(count):
        for mine in queues:
            mine.put_nowait(number)
        await asyncio.sleep(0)
    await heard_all.wait()
    for mine in queues:
        mine.put_nowait(None)
    await asyncio.gather(*tasks)
    return count


# -- moothall --------------------------------------------------------------------------------------


class Echo(Agent):
    """Answers at once."""

    @action
    async def echo(self, number: int) -> int:
        return number


class Asker(Agent):
    """Asks from inside an action, as agents do; validation, mailbox and deadline on."""

    @action
    async def by_request(self, count: int) -> int:
        for number in range(count):
            message = {"to": "echo", "action": {"name": "echo", "args": {"number": number}}}
            assert await self.request(message) == number
        return count

    @action
    async def by_ask(self, count: int) -> int:
        for number in range(count):
            assert await self.ask("echo", "echo", number=number) == number
        return count


class Count:
    """How many deliveries are still to come."""

    def __init__(self) -> None:
        self.left = 0
        self.none_left = asyncio.Event()


class Listener(Agent):
    """Hears a broadcast."""

    def __init__(self, id: str, count: Count) -> None:
        super().__init__(id)
        self.count = count

    @action
    async def hear(self, number: int) -> None:
        count = self.count
        count.left -= 1
        if not count.left:
            count.none_left.set()


class Speaker(Agent):
    """Sends broadcasts, and waits until everyone has heard them."""

    def __init__(self, id: str, count: Count) -> None:
        super().__init__(id, receive_own_broadcasts=False)
        self.count = count

    @action
    async def speak(self, count: int) -> int:
        self.count.left = count * RECEIVERS
        self.count.none_left.clear()
        for number in range(count):
            self.send({"to": "*", "action": {"name": "hear", "args": {"number": number}}})
            await asyncio.sleep(0)
        await self.count.none_left.wait()
        return count


# -- peers -----------------------------------------------------------------------------------------


def pykka_round_trips(count: int) -> tuple[Callable[[], int], Callable[[], None]]:
    """Actor to actor `ask` in Pykka: a thread each, nothing validated."""
    import pykka

    class Answers(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            return message

    class Asks(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            ref, count = message
            for number in range(count):
                assert ref.ask(number) == number
            return count

    answers, asks = Answers.start(), Asks.start()

    def stop() -> None:
        asks.stop()
        answers.stop()

    return lambda: int(asks.ask((answers, count))), stop


def pykka_broadcasts(count: int) -> tuple[Callable[[], int], Callable[[], None]]:
    """Pykka's broadcast to a hundred actors."""
    import pykka

    heard: queue.SimpleQueue[int] = queue.SimpleQueue()

    class Hears(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> None:
            if message == "last":
                heard.put(1)

    actors = [Hears.start() for _ in range(RECEIVERS)]

    def run() -> int:
        for _ in range(count - 1):
            pykka.ActorRegistry.broadcast("number", Hears)
        pykka.ActorRegistry.broadcast("last", Hears)
        for _ in range(RECEIVERS):
            heard.get()
        return count

    def stop() -> None:
        for actor in actors:
            actor.stop()

    return run, stop


def agent_framework_round_trips(count: int) -> tuple[Callable[[], int], Callable[[], None]]:
    """Executor to executor messages in a workflow of Microsoft's Agent Framework."""
    from dataclasses import dataclass

    from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler

    @dataclass
    class Ping:
        number: int

    class Answers(Executor):
        async def ping(self, message: Ping, ctx: WorkflowContext[Ping]) -> None:
            await ctx.send_message(message)

    class Asks(Executor):
        async def start(self, message: int, ctx: WorkflowContext[Ping]) -> None:
            await ctx.send_message(Ping(message))

        async def answered(self, message: Ping, ctx: WorkflowContext[Ping, int]) -> None:
            if message.number > 1:
                await ctx.send_message(Ping(message.number - 1))
            else:
                await ctx.yield_output(count)

    # The decorator reads the types from the hints, which are local to this function.
    hints = {"message": Ping, "ctx": WorkflowContext[Ping]}
    Answers.ping.__annotations__ = hints
    Asks.start.__annotations__ = {**hints, "message": int}
    Asks.answered.__annotations__ = {**hints, "ctx": WorkflowContext[Ping, int]}
    for owner, name in ((Answers, "ping"), (Asks, "start"), (Asks, "answered")):
        setattr(owner, name, handler(getattr(owner, name)))
    asks, answers = Asks(id="asks"), Answers(id="answers")
    loop = asyncio.new_event_loop()

    def run() -> int:
        builder = WorkflowBuilder(start_executor=asks, max_iterations=2 * count + 2)
        workflow = builder.add_edge(asks, answers).add_edge(answers, asks).build()
        (done,) = loop.run_until_complete(workflow.run(count)).get_outputs()
        return int(done)

    return run, loop.close


# -- the run ---------------------------------------------------------------------------------------


def round_trips(rounds: int, count: int) -> None:
    """Requests and answers."""
    peers: dict[str, Callable[[], int]] = {}
    stops: list[Callable[[], None]] = []
    for package, make, size in (
        ("pykka", pykka_round_trips, count // 5),
        ("agent_framework", agent_framework_round_trips, count // 10),
    ):
        if installed(package):
            run, stop = make(size)
            peers[package] = run
            stops.append(stop)
    with NativeSpace() as space:
        space.add(Echo("echo"))
        space.add(Asker("asker"))
        me = space.add(Agent("me"))
        figures = side_by_side(
            {
                "limit": lambda: asyncio.run(queue_round_trips(count)),
                "request": lambda: me.ask("asker", "by_request", count=count).result(),
                "ask": lambda: me.ask("asker", "by_ask", count=count).result(),
                **peers,
            },
            rounds,
        )
    for stop in stops:
        stop()
    limit = figures.pop("limit")
    for name, figure in figures.items():
        emit(
            "round trip",
            f"moothall, {name}" if name in ("request", "ask") else name,
            2 / figure.seconds,
            "messages/s",
            limit=2 / limit.seconds,
            ratio=1 / figure.over(limit),
            us=figure.seconds * 1e6,
            cpu=statistics.median(figure.cpu) * 1e6,
            **({"target": ">= 1 ratio"} if name == "request" else {}),
        )


def broadcasts(rounds: int, count: int) -> None:
    """One sender, a hundred receivers."""
    peers: dict[str, Callable[[], int]] = {}
    stops: list[Callable[[], None]] = []
    if installed("pykka"):
        run, stop = pykka_broadcasts(count // 5)
        peers["pykka"] = run
        stops.append(stop)
    to_come = Count()
    with NativeSpace() as space:
        for number in range(RECEIVERS):
            space.add(Listener(f"listener-{number}", to_come))
        speaker = space.add(Speaker("speaker", to_come))
        figures = side_by_side(
            {
                "limit": lambda: asyncio.run(queue_broadcasts(count)),
                "moothall": lambda: speaker.ask("speaker", "speak", count=count).result(),
                **peers,
            },
            rounds,
        )
    for stop in stops:
        stop()
    limit = figures.pop("limit")
    for name, figure in figures.items():
        emit(
            "broadcast to 100",
            name,
            RECEIVERS / figure.seconds,
            "deliveries/s",
            limit=RECEIVERS / limit.seconds,
            ratio=1 / figure.over(limit),
            us=figure.seconds / RECEIVERS * 1e6,
            **({"target": ">= 0.7 ratio"} if name == "moothall" else {}),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick = parser.parse_args().quick
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    round_trips(3 if quick else 9, 5_000 if quick else 20_000)
    broadcasts(3 if quick else 9, 50 if quick else 200)


if __name__ == "__main__":
    main()
