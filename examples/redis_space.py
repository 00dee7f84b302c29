"""A space whose messages travel over a stream of Redis, which has them in one order.

    redis-server --port 6379 &
    python examples/redis_space.py

Another broker stands below a space by a router: what an agent sends is appended to the stream, and
goes on once it is read there. `tests/test_redis_example.py` runs the suite of spaces over it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import Any

from redis.asyncio import Redis

from moothall import Agent, NativeSpace, action
from moothall.build import Delivery, Envelope, Mailbox, Router, json_text


class StreamRouter(Router):
    """Appends what agents send to a stream, and delivers what it reads; all on the loop."""

    async def open(self, url: str) -> None:
        """Follow a new stream."""
        self.dispatch = self._send_request
        self._redis, self._stream = Redis.from_url(url), f"space-{secrets.token_hex(8)}"
        self._unsent = asyncio.Queue[bytes]()
        self._on_read = deque[Callable[[Envelope], object]]()  # in the order of the stream
        self._requests = set[Delivery]()  # those on their way
        self._following = self.thread.spawn(self._follow())

    def route(self, envelope: Envelope, mailbox: Mailbox | None, kind: int = Delivery.SEND) -> None:
        """Append a message; it goes on in the context of its sender."""
        deliver = partial(super().route, mailbox=mailbox, kind=kind)
        self._append(envelope, partial(copy_context().run, deliver))

    def _send_request(self, delivery: Delivery) -> None:
        if self.closed:
            self.refuse(delivery, self.closed_error())
        else:
            self._requests.add(delivery)
            self._append(delivery.envelope, partial(self._post_read, delivery))

    def _post_read(self, delivery: Delivery, envelope: Envelope) -> None:
        self._requests.remove(delivery)
        delivery.envelope = envelope
        self.post(delivery)

    def _append(self, envelope: Envelope, on_read: Callable[[Envelope], object]) -> None:
        if not self.closed:
            entry = [envelope.to_dict(), envelope.thread, envelope.within]
            self._on_read.append(on_read)
            self._unsent.put_nowait(json_text(entry).encode())

    async def _follow(self) -> None:
        async with self._redis:
            try:
                await asyncio.gather(self._write(), self._read())
            finally:
                await self._redis.delete(self._stream)

    async def _write(self) -> None:
        while True:
            await self._redis.xadd(self._stream, {"entry": await self._unsent.get()})

    async def _read(self) -> None:
        last = "0"
        while True:
            streams: Any = await self._redis.xread({self._stream: last}, block=1000)
            for _, entries in streams or ():
                for last, fields in entries:  # noqa: B007 - the next one is read after it
                    message, thread, within = json.loads(fields[b"entry"])
                    envelope = Envelope.from_message(message, message["from"])
                    self._on_read.popleft()(envelope._replace(thread=thread, within=within))
            await self._redis.xtrim(self._stream, minid=last, approximate=False)

    def end_requests_to(self, id: str) -> None:
        """End the requests on their way to an agent that has left."""
        for delivery in [each for each in self._requests if each.envelope.to == id]:
            self.refuse(delivery, self.stopped_error(id))

    async def arrived(self, mailboxes: Iterable[Mailbox]) -> bool:
        """Return whether nothing is still to be read: `idle` waits for it."""
        return not self._on_read and await super().arrived(mailboxes)

    def end_waiting(self) -> None:
        """Leave the stream: the space is closed."""
        super().end_waiting()
        self._following.cancel()


class RedisSpace(NativeSpace):
    """A space over the stream of a Redis at this URL."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(**options)
        self._url = url

    def make_router(self) -> Router:
        """Return a router that follows a stream of its own."""
        router = StreamRouter(self.loop_thread, self.mailbox_capacity)
        self.loop_thread.run(router.open, self._url).result()
        return router

    def detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        """Take an agent out of the space."""
        super().detach(mailbox, *spared)
        assert isinstance(self.router, StreamRouter)
        self.router.end_requests_to(mailbox.id)


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        return a + b


if __name__ == "__main__":
    with RedisSpace(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")) as space:
        space.add(Calculator("calculator"))
        print(space.add(Agent("me")).ask("calculator", "add", a=1, b=2).result(timeout=20))
