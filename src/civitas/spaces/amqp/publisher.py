"""Messages on their way to the broker: kept until it has confirmed each of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

from pika.channel import Channel

from civitas.spaces.amqp.link import LinkLost, settle
from civitas.spaces.amqp.wire import REQUEST, SEND, Letter

logger = logging.getLogger("civitas.amqp")

# How it went.
CONFIRMED: Final = "confirmed"
RETURNED: Final = "returned"  # there is no queue for it
UNROUTABLE: Final = "unroutable"  # nor will there be: no process has the agent's id
REFUSED: Final = "refused"  # the broker would not take it: the queue is full
FULL: Final = "full"  # too much waits for the broker already
TOO_LARGE: Final = "too large"  # for this broker

LIMIT: Final = 100_000
"""How many messages may wait for the broker."""

REFUSABLE: Final = frozenset((SEND, REQUEST))
"""What may be refused: there are no more answers than messages that were taken."""

_WINDOW = 5_000
"""How many may be under way to it."""


class Outbox:
    """Publishes in order, and again what was not confirmed when the connection was lost.

    Attributes:
        largest: how many bytes a message may have, once the broker has told; None before
    """

    def __init__(self, exchange: str, settled: Callable[[Letter, str], None]) -> None:
        self._exchange = exchange
        self._settled = settled
        self._channel: Channel | None = None
        self._tag = 0
        self._unconfirmed: dict[int, Letter] = {}
        self._waiting: deque[Letter] = deque()
        self._returned: set[str] = set()
        self._held = 0
        self.largest: int | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._watched: list[set[Letter]] = []
        self._kept: deque[Letter] = deque()

    def __len__(self) -> int:
        return len(self._unconfirmed) + len(self._waiting) + len(self._kept)

    def publish(self, letter: Letter) -> None:
        """Send it, or keep it until it can be sent."""
        if self.largest is not None and len(letter.body) > self.largest:
            self._settled(letter, TOO_LARGE)
            return
        now = self._channel is not None and len(self._unconfirmed) < _WINDOW
        if now and not self._waiting and not self._held:
            self._emit(letter)
        elif len(self) >= LIMIT and letter.kind in REFUSABLE:
            self._settled(letter, FULL)
        else:
            (self._kept if self._held else self._waiting).append(letter)

    def refuse_larger(self, largest: int) -> None:
        """The broker has ended the channel over a message of more bytes than this."""
        self.largest = largest
        kept = [*self._unconfirmed.values(), *self._waiting]
        self._unconfirmed.clear()
        self._waiting.clear()
        self._waiting.extend(letter for letter in kept if len(letter.body) <= largest)
        refused = [letter for letter in kept if len(letter.body) > largest]
        self._over(refused)
        for letter in refused:
            self._settled(letter, TOO_LARGE)

    def is_sending_to(self, id: str) -> bool:
        """Whether a letter to an agent is not confirmed yet."""
        return any(letter.to == id for letter in self._unconfirmed.values())

    def hold(self) -> None:
        """Send nothing of what is published until `release`: whom it is for may just be coming."""
        self._held += 1

    def release(self) -> None:
        """Go on."""
        self._held -= 1
        if not self._held:
            self._waiting.extend(self._kept)
            self._kept.clear()
            self._go_on()

    def attach(self, channel: Channel) -> None:
        """Publish on this channel from now on, first what is not confirmed."""
        self._waiting.extendleft(reversed(self._unconfirmed.values()))
        self._unconfirmed.clear()
        self._returned.clear()
        self._tag = 0
        self._channel = channel
        channel.add_on_return_callback(self._on_return)
        self._go_on()

    def lost(self) -> None:
        """The connection is gone."""
        self._channel = None
        self._wake()

    async def emptied(self) -> None:
        """Wait until everything is confirmed."""
        while len(self):
            await self._progress()

    def watch(self, id: str) -> set[Letter]:
        """What is under way to an agent now; each goes out of it when it is confirmed or came back.

        Until it is given to `forget`.
        """
        under_way = chain(self._unconfirmed.values(), self._waiting)
        watched = {letter for letter in under_way if letter.to == id}
        if watched:
            self._watched.append(watched)
        return watched

    async def taken(self, watched: set[Letter]) -> None:
        """Wait until all that is watched is in its queue, or came back."""
        while watched:
            if self._channel is None:
                raise LinkLost("there is no channel")
            await self._progress()

    def forget(self, watched: set[Letter]) -> None:
        """Watch it no longer."""
        self._watched = [each for each in self._watched if each is not watched]

    def _over(self, letters: Iterable[Letter]) -> None:
        for watched in self._watched:
            watched.difference_update(letters)

    async def _progress(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            settle(waiter, None)

    def confirmed(self, frame: Any) -> None:
        """The broker's word on one letter, or on all up to it."""
        method = frame.method
        tag: int = method.delivery_tag
        outcome = CONFIRMED if method.NAME == "Basic.Ack" else REFUSED
        unconfirmed = self._unconfirmed
        if not method.multiple:
            letter = unconfirmed.pop(tag, None)
            letters = [] if letter is None else [letter]
        else:
            letters = []
            for each in list(unconfirmed):
                if each > tag:
                    break
                letters.append(unconfirmed.pop(each))
        if self._watched:
            self._over(letters)
        returned = self._returned
        for letter in letters:
            if returned and letter.key in returned:
                returned.discard(letter.key)
                self._settled(letter, RETURNED)
            else:
                self._settled(letter, outcome)
        if self._waiting:
            self._go_on()
        if self._waiters:
            self._wake()

    def _on_return(self, _channel: Channel, _method: Any, properties: Any, _body: bytes) -> None:
        self._returned.add(properties.message_id)

    def _go_on(self) -> None:
        waiting = self._waiting
        while waiting and self._channel is not None:
            if len(self._unconfirmed) >= _WINDOW:
                return
            self._emit(waiting.popleft())

    def _emit(self, letter: Letter) -> None:
        channel = self._channel
        assert channel is not None
        self._tag += 1
        self._unconfirmed[self._tag] = letter
        if not channel.is_open:
            # The channel went away; what is unconfirmed is published again on the next.
            self._channel = None
            return
        channel.connection.publish(
            channel.channel_number,
            letter.exchange or self._exchange,
            letter.routing_key,
            letter.mandatory,
            letter.encoded_properties(),
            letter.body,
        )
