"""What a message costs over RabbitMQ, between two processes.

    python -m benchmarks.amqp [--quick]

A private broker on loopback shares the machine's cores
with both processes. The works take turns, and `ratio` is rate over the rate of the bare client:
pika on its own adapter for asyncio, without JSON, checks, mailboxes or an inbox.

* `bare` does what moothall promises: durable queues, persistent messages and answers, each
  confirmed, each acknowledged after its answer was confirmed.
* `bare, nothing kept` is the least there is: transient messages, nothing confirmed, nothing
  acknowledged.
* `bare, on moothall's connection` is `bare` with what moothall has under pika; `aio-pika`, where
  installed, is measured both ways.

A round trip is a request and its answer, one after the other or a hundred at a time. One way are
messages of which a thousand are under way to the broker: until all are confirmed, and until all
have been handled too.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pika
from pika.adapters.asyncio_connection import AsyncioConnection

from benchmarks.broker import Broker
from benchmarks.measure import emit, installed, side_by_side
from moothall import Agent, AMQPOptions, AMQPSpace, action
from moothall.spaces.amqp.link.connection import Connection

BODY = b'{"from":"caller","to":"echo","action":{"name":"ping","args":{"n":1}}}'
WINDOW = 1_000
AT_ONCE = 100
OURS = "bare, on moothall's connection"


# -- moothall --------------------------------------------------------------------------------------


class Echo(Agent):
    """Answers, and counts what it is told."""

    told = 0

    @action
    async def ping(self, n: int) -> int:
        return n

    @action
    async def tell(self, n: int) -> None:
        self.told += 1

    @action
    async def count(self) -> int:
        return self.told


class Caller(Agent):
    """Asks and tells, on its space's own loop."""

    @action
    async def ask_in_turn(self, count: int) -> None:
        for n in range(count):
            await self.ask("echo", "ping", n=n)

    @action
    async def ask_at_once(self, count: int, width: int) -> None:
        async def some(first: int) -> None:
            for n in range(first, count, width):
                await self.ask("echo", "ping", n=n)

        await asyncio.gather(*(some(first) for first in range(width)))

    @action
    async def tell_all(self, count: int, window: int, handled: bool) -> None:
        before = await self.ask("echo", "count")
        publisher = self.space_mailbox.router.broker.publisher  # type: ignore[union-attr]
        message = {"to": "echo", "action": {"name": "tell", "args": {"n": 1}}}
        for n in range(count):
            self.send(message)
            if n % 20 == 0:
                while len(publisher) > window:  # noqa: ASYNC110 - it tells of nothing but its end
                    await asyncio.sleep(0.001)
        await publisher.drain()
        while handled and await self.ask("echo", "count") < before + count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


# -- the bare client -------------------------------------------------------------------------------


class Bare:
    """pika and nothing else, on a loop."""

    def __init__(self, port: int, *, keeps: bool, own: bool = False) -> None:
        self.loop = asyncio.get_running_loop()
        self.parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=60)
        self.keeps = keeps
        self.own = own  # whether the connection is of pika's own kind
        self.properties = pika.BasicProperties(delivery_mode=2 if keeps else 1)
        self.sent = self.confirmed = 0
        self.room = asyncio.Event()
        self.waiting: dict[str, asyncio.Future[bytes]] = {}

    async def open(self) -> None:
        if self.own:
            opened: asyncio.Future[Any] = self.loop.create_future()
            AsyncioConnection(self.parameters, opened.set_result, custom_ioloop=self.loop)
            self.connection = await opened
        else:
            self.connection = Connection(
                self.parameters,
                self.loop,
                None,
                before_write=lambda: None,
                after_read=lambda: None,
            )
            await self.connection.opened
        channel: asyncio.Future[Any] = self.loop.create_future()
        self.connection.channel(on_open_callback=channel.set_result)
        self.channel = await channel
        if self.keeps:
            await self.call(
                lambda done: self.channel.confirm_delivery(self.on_confirm, callback=done)
            )

    async def call(self, operation: Callable[[Callable[[Any], None]], Any]) -> Any:
        done: asyncio.Future[Any] = self.loop.create_future()
        operation(done.set_result)
        return await done

    async def declare(self, queue: str = "") -> str:
        frame = await self.call(
            lambda done: self.channel.queue_declare(
                queue, durable=self.keeps and bool(queue), exclusive=not queue, callback=done
            )
        )
        name: str = frame.method.queue
        return name

    def on_confirm(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        self.confirmed = tag if frame.method.multiple else self.confirmed + 1
        self.room.set()

    def publish(self, queue: str, body: bytes, **more: Any) -> None:
        self.sent += 1
        properties = (
            pika.BasicProperties(delivery_mode=self.properties.delivery_mode, **more)
            if more
            else self.properties
        )
        self.channel.basic_publish("", queue, body, properties)

    # -- one side ----------------------------------------------------------------------------------

    async def serve(self, queue: str) -> None:
        """Answer, or count."""
        await self.declare(queue)
        unanswered: dict[int, int] = {}
        count = 0

        def on_confirm(frame: Any) -> None:
            last = frame.method.delivery_tag
            for tag in (
                [last] if not frame.method.multiple else [t for t in unanswered if t <= last]
            ):
                delivered = unanswered.pop(tag, None)
                if delivered is not None:
                    self.channel.basic_ack(delivered)

        self.on_confirm = on_confirm  # type: ignore[method-assign]
        if self.keeps:
            self.channel.callbacks.add(
                self.channel.channel_number, pika.spec.Basic.Ack, on_confirm, False
            )

        def deliver(_: Any, method: Any, properties: Any, body: bytes) -> None:
            nonlocal count
            if properties.reply_to is None:
                count += 1
                if self.keeps:
                    self.channel.basic_ack(method.delivery_tag)
                return
            answer = str(count).encode() if body == b"count" else body
            self.publish(properties.reply_to, answer, correlation_id=properties.correlation_id)
            if self.keeps:
                unanswered[self.sent] = method.delivery_tag

        await self.call(
            lambda done: self.channel.basic_consume(
                queue, deliver, auto_ack=not self.keeps, callback=done
            )
        )

    # -- the other ---------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Have answers come."""
        # Durable if anything is to be kept: an answer is a message too.
        self.replies = await self.declare(f"replies.{uuid4().hex}" if self.keeps else "")

        def deliver(_: Any, method: Any, properties: Any, body: bytes) -> None:
            waiting = self.waiting.pop(properties.correlation_id)
            if self.keeps:
                self.channel.basic_ack(method.delivery_tag)
            waiting.set_result(body)

        await self.call(
            lambda done: self.channel.basic_consume(
                self.replies, deliver, auto_ack=not self.keeps, callback=done
            )
        )

    async def ask(self, queue: str, body: bytes = BODY) -> bytes:
        key = str(self.sent)
        answer = self.waiting[key] = self.loop.create_future()
        self.publish(queue, body, reply_to=self.replies, correlation_id=key)
        return await answer

    async def in_turn(self, queue: str, count: int) -> None:
        for _ in range(count):
            await self.ask(queue)

    async def at_once(self, queue: str, count: int, width: int) -> None:
        async def some(first: int) -> None:
            for _ in range(first, count, width):
                await self.ask(queue)

        await asyncio.gather(*(some(first) for first in range(width)))

    async def tell_all(self, queue: str, count: int, window: int, handled: bool) -> None:
        before = int(await self.ask(queue, b"count"))
        for _ in range(count):
            while self.sent - self.confirmed > window:
                self.room.clear()
                await self.room.wait()
            self.publish(queue, BODY)
        while self.confirmed < self.sent:
            self.room.clear()
            await self.room.wait()
        while handled and int(await self.ask(queue, b"count")) < before + count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


# -- aio-pika --------------------------------------------------------------------------------------


class AioPika:
    """The other client for asyncio."""

    def __init__(self, port: int, *, keeps: bool) -> None:
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self.keeps = keeps
        self.waiting: dict[str, asyncio.Future[bytes]] = {}

    async def open(self) -> None:
        import aio_pika

        self.module = aio_pika
        self.mode = aio_pika.DeliveryMode.PERSISTENT if self.keeps else None
        self.connection = await aio_pika.connect(self.url)
        self.channel = await self.connection.channel(publisher_confirms=self.keeps)

    async def declare(self, queue: str) -> Any:
        durable = self.keeps and bool(queue)
        return await self.channel.declare_queue(queue, durable=durable, exclusive=not queue)

    async def publish(self, queue: str, body: bytes, **more: Any) -> None:
        """Publish; if it is kept, until it is confirmed."""
        message = self.module.Message(body, delivery_mode=self.mode, **more)
        await self.channel.default_exchange.publish(message, routing_key=queue)

    async def serve(self, queue: str) -> None:
        declared = await self.declare(queue)

        async def deliver(message: Any) -> None:
            await self.publish(
                message.reply_to, message.body, correlation_id=message.correlation_id
            )
            if self.keeps:
                await message.ack()

        await declared.consume(deliver, no_ack=not self.keeps)

    async def listen(self) -> None:
        declared = await self.declare(f"replies.{uuid4().hex}" if self.keeps else "")
        self.replies = declared.name

        async def deliver(message: Any) -> None:
            self.waiting.pop(message.correlation_id).set_result(message.body)
            if self.keeps:
                await message.ack()

        await declared.consume(deliver, no_ack=not self.keeps)

    async def in_turn(self, queue: str, count: int) -> None:
        loop = asyncio.get_running_loop()
        for n in range(count):
            answer = self.waiting[str(n)] = loop.create_future()
            publishing = loop.create_task(
                self.publish(queue, BODY, correlation_id=str(n), reply_to=self.replies)
            )
            await answer
            await publishing


# -- two processes ---------------------------------------------------------------------------------


def client(kind: str, port: int) -> Any:
    """A bare client of a kind."""
    if kind.startswith("aio-pika"):
        return AioPika(port, keeps=kind == "aio-pika")
    return Bare(port, keeps=kind != "bare, nothing kept", own=kind != OURS)


async def serve(kind: str, port: int, name: str, inbox: str | None) -> None:
    """The process that answers, until its input ends."""
    if kind == "moothall":
        space = AMQPSpace(amqp_options=AMQPOptions(port=port), exchange=name, inbox=inbox)
        await asyncio.to_thread(space.add, Echo("echo"))
    else:
        bare = client(kind, port)
        await bare.open()
        await bare.serve(name)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    if kind == "moothall":
        await asyncio.to_thread(space.close)


@contextmanager
def served(kind: str, port: int, name: str, inbox: str = "") -> Iterator[None]:
    """Another process answers."""
    command = [sys.executable, "-m", "benchmarks.amqp", "--serve", kind, str(port), name, inbox]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def measured(port: int, folder: Path, quick: bool) -> None:
    """Each work in turn, several times."""
    trips, many, rounds = (100, 2_000, 3) if quick else (500, 10_000, 7)
    kinds = ["bare", "bare, nothing kept", OURS]
    kinds += ["aio-pika", "aio-pika, nothing kept"] if installed("aio_pika") else []
    loop = asyncio.new_event_loop()
    names = {kind: uuid4().hex for kind in [*kinds, "moothall", "inbox"]}
    bare: dict[str, Any] = {}
    callers: dict[str, Any] = {}
    spaces = []
    with ExitStack() as others:
        for kind in kinds:
            others.enter_context(served(kind, port, names[kind]))
        others.enter_context(served("moothall", port, names["moothall"]))
        others.enter_context(served("moothall", port, names["inbox"], str(folder / "inbox.db")))
        for kind in kinds:
            loop.run_until_complete(_opened(bare, kind, port))
        for kind in ("moothall", "inbox"):
            space = AMQPSpace(amqp_options=AMQPOptions(port=port), exchange=names[kind])
            spaces.append(space)
            space.add(Caller("caller"))
            callers[kind] = space.add(Agent("me"))

        def of_bare(kind: str, how: str, count: int, *more: Any) -> Callable[[], int]:
            def work() -> int:
                call = getattr(bare[kind], how)(names[kind], count, *more)
                loop.run_until_complete(call)
                return count

            return work

        def of_moothall(kind: str, how: str, count: int, **more: Any) -> Callable[[], int]:
            def work() -> int:
                message = {
                    "to": "caller",
                    "action": {"name": how, "args": {"count": count, **more}},
                }
                callers[kind].request(message, timeout=600).result()
                return count

            return work

        works = {
            **{kind: of_bare(kind, "in_turn", trips) for kind in kinds},
            "moothall": of_moothall("moothall", "ask_in_turn", trips),
            "moothall, inbox in a file": of_moothall("inbox", "ask_in_turn", trips),
        }
        report("round trip", works, rounds, "round trips/s")
        works = {
            "bare": of_bare("bare", "at_once", trips * 4, AT_ONCE),
            "moothall": of_moothall("moothall", "ask_at_once", trips * 4, width=AT_ONCE),
            "moothall, inbox in a file": of_moothall(
                "inbox", "ask_at_once", trips * 4, width=AT_ONCE
            ),
        }
        report(f"round trip, {AT_ONCE} at a time", works, rounds, "round trips/s")
        for metric, handled in (("one way, confirmed", False), ("one way, handled", True)):
            more = {"window": WINDOW, "handled": handled}
            works = {
                "bare": of_bare("bare", "tell_all", many, WINDOW, handled),
                "moothall": of_moothall("moothall", "tell_all", many, **more),
                "moothall, inbox in a file": of_moothall("inbox", "tell_all", many, **more),
            }
            report(f"{metric}, {WINDOW} under way", works, rounds, "messages/s")
        for space in spaces:
            space.close()
        for kind in kinds:
            if kind.startswith("aio-pika"):
                loop.run_until_complete(bare[kind].connection.close())


async def _opened(bare: dict[str, Any], kind: str, port: int) -> None:
    bare[kind] = client(kind, port)
    await bare[kind].open()
    await bare[kind].listen()


def report(metric: str, works: dict[str, Callable[[], int]], rounds: int, unit: str) -> None:
    """Measure and print."""
    figures = side_by_side(works, rounds)
    for variant, figure in figures.items():
        more: dict[str, Any] = {"cpu_us": figure.cpu and min(figure.cpu) * 1e6}
        if variant != "bare":
            more["ratio"] = 1 / figure.over(figures["bare"])
        if variant == "moothall, inbox in a file":
            more["over_memory"] = 1 / figure.over(figures["moothall"])
        emit(metric, variant, 1 / figure.seconds, unit, **more)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.amqp", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        kind, port, name, inbox = options.serve
        asyncio.run(serve(kind, int(port), name, inbox or None))
        return
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        measured(broker.port, Path(folder), options.quick)


if __name__ == "__main__":
    main()
