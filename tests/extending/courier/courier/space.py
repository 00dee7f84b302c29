"""A space whose messages travel over a stream, also between processes.

What an agent sends is appended to the stream, and delivered when it is read there. An agent's space
handles it; what it has of the call chain and of the sender's context, only its own space knows.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import Any

from moothall import Agent, NativeSpace, RequestCancelled, RequestError, RequestTimeout
from moothall.build import Delivery, Envelope, LoopThread, Mailbox, Router, json_text

LONGEST_LINE = 2**26


class StreamRouter(Router):
    """Appends what agents send, and delivers what it reads; all but `open` runs on the loop."""

    def __init__(self, thread: LoopThread, capacity: int) -> None:
        super().__init__(thread, capacity)
        self.dispatch = self._append_request
        self.homes: dict[str, str] = {}  # the spaces of agents elsewhere
        self._name = secrets.token_hex(8)
        self._keys = (f"{self._name}.{number}" for number in count())
        self._on_read: dict[str, Callable[[Any], object]] = {}  # of entries of ours
        self._requests: dict[str, Delivery] = {}  # from here, to agents elsewhere
        self._received: dict[str, Delivery] = {}  # from elsewhere, to agents here

    async def open(self, host: str, port: int) -> None:
        """Follow the stream from now on, and ask who is there."""
        reader, self._writer = await asyncio.open_connection(host, port, limit=LONGEST_LINE)
        self._reading = self.thread.spawn(self._read(reader))
        self.append({"asks": True})
        await self.caught_up()

    def append(
        self,
        entry: dict[str, Any],
        on_read: Callable[[Any], object] | None = None,
    ) -> str:
        """Append an entry, and return its key; `on_read` is called once it is read."""
        key = next(self._keys)
        if on_read is not None:
            self._on_read[key] = on_read
        line = json_text({"key": key, "space": self._name, **entry})
        self._writer.write(line.encode() + b"\n")
        return key

    async def caught_up(self) -> None:
        """Wait until all that was appended before has been read."""
        read = asyncio.Event()
        self.append({}, lambda _: read.set())
        await read.wait()

    async def arrived(self, mailboxes: Iterable[Mailbox]) -> bool:
        """Return whether nothing from here is still to be read."""
        return not self._on_read and await super().arrived(mailboxes)

    def announce(self, id: str, is_here: bool) -> None:
        """Tell the other spaces that an agent has come here, or left; end what is on its way."""
        self.append({"came" if is_here else "left": id})
        if not is_here:
            for key, delivery in [*self._requests.items()]:
                if delivery.envelope.to == id and key in self._on_read:
                    self.refuse(delivery, self.stopped_error(id))

    # -- out ---------------------------------------------------------------------------------------

    def route(self, envelope: Envelope, mailbox: Mailbox | None, kind: int = Delivery.SEND) -> None:
        """Append a message; it goes on in its sender's context."""
        if not self.closed:
            go_on = partial(copy_context().run, partial(self._route_here, mailbox, kind))
            self.append(entry_of(envelope, kind), go_on)

    def _route_here(self, mailbox: Mailbox | None, kind: int, envelope: Envelope) -> None:
        super().route(envelope, mailbox, kind)

    def _append_request(self, delivery: Delivery) -> None:
        if self.closed:
            self.refuse(delivery, self.closed_error())
            return
        entry = entry_of(delivery.envelope, Delivery.REQUEST)
        key = self.append(entry, partial(self._take_own, delivery))
        self._requests[key] = delivery
        delivery.on_end(partial(self._forget, key))

    def _take_own(self, delivery: Delivery, envelope: Envelope) -> None:
        if envelope.to not in self.homes:
            delivery.envelope = envelope
            self.post(delivery)  # to an agent here, or to none
        elif delivery.timeout is not None and not delivery.answered:
            error = RequestTimeout(f'no answer from "{delivery}" in {delivery.timeout} s')
            timer = self.loop.call_later(delivery.timeout, self.abort, delivery, error)
            delivery.on_end(timer.cancel)

    def _forget(self, key: str) -> None:
        delivery = self._requests.pop(key, None)
        if delivery is not None and delivery.envelope.to in self.homes and not self.closed:
            self.append({"cancels": key})

    # -- in ----------------------------------------------------------------------------------------

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            entry = json.loads(line)
            is_own = entry["space"] == self._name
            envelope = envelope_of(entry) if "message" in entry else None
            if on_read := self._on_read.pop(entry["key"], None):
                on_read(envelope)
            elif is_own:
                continue
            elif envelope is None:
                self._take_news(entry)
            elif entry["kind"] != Delivery.REQUEST:
                super().route(envelope, None, entry["kind"])
            elif envelope.to in self.mailboxes:
                self._handle_for(entry["key"], Delivery(envelope, Delivery.REQUEST))

    def _take_news(self, entry: dict[str, Any]) -> None:
        if "asks" in entry:
            for id in self.mailboxes:
                self.announce(id, True)
        elif "came" in entry:
            self.homes[entry["came"]] = entry["space"]
        elif "left" in entry:
            self.homes.pop(entry["left"], None)
        elif delivery := self._received.get(entry.get("cancels", "")):
            self.abort(delivery, RequestCancelled(f'the request to "{delivery}" was cancelled'))
        elif delivery := self._requests.pop(entry.get("answers", ""), None):
            error = None if entry["error"] is None else RequestError(entry["error"])
            self.settle(delivery, entry["value"], error)

    def _handle_for(self, key: str, delivery: Delivery) -> None:
        def answer() -> None:
            if self._received.pop(key, None) is not None:
                error = None if delivery.error is None else str(delivery.error)
                self.append({"answers": key, "value": delivery.value, "error": error})

        self._received[key] = delivery
        delivery.on_end(answer)
        self.post(delivery)

    def end_waiting(self) -> None:
        """End what waits, and leave the stream: the space is closed."""
        for delivery in [*self._requests.values()]:
            self.refuse(delivery, self.closed_error())
        super().end_waiting()
        self._reading.cancel()
        self._writer.close()


def entry_of(envelope: Envelope, kind: int) -> dict[str, Any]:
    """Return a message as an entry."""
    beside = [envelope.thread, envelope.within]
    return {"kind": kind, "message": envelope.to_dict(), "beside": beside}


def envelope_of(entry: dict[str, Any]) -> Envelope:
    """Return the message of an entry, checked as one that is sent."""
    thread, within = entry["beside"]
    message = entry["message"]
    return Envelope.from_message(message, message["from"])._replace(thread=thread, within=within)


class StreamSpace(NativeSpace):
    """A space over the stream of a server at this address."""

    def __init__(self, address: tuple[str, int], **options: Any) -> None:
        super().__init__(**options)
        self.address = address

    @property
    def stream(self) -> StreamRouter:
        """Its router."""
        router = self.router
        assert isinstance(router, StreamRouter)
        return router

    def make_router(self) -> Router:
        """Return a router that follows the stream."""
        router = StreamRouter(self.loop_thread, self.mailbox_capacity)
        self.loop_thread.run(router.open, *self.address).result()
        return router

    def note_agent(self, agent: Agent) -> None:
        """Tell the other spaces that it is here."""
        super().note_agent(agent)
        self.loop_thread.call_soon(self.stream.announce, str(agent.id), True)

    def detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        """Tell the other spaces that an agent has left."""
        super().detach(mailbox, *spared)
        self.stream.announce(mailbox.id, False)

    async def all_ids(self, group: str | None = None) -> list[str]:
        """Return the ids of the agents of all spaces, or of a group here."""
        if group is not None:
            return self.ids(group)
        await asyncio.wrap_future(self.loop_thread.run(self.stream.caught_up))
        return [*self.ids(), *self.stream.homes]
