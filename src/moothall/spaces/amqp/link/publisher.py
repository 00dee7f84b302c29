"""Publishes messages, and keeps each one until its publisher confirm."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

from pika.channel import Channel

from moothall.spaces.amqp.link.connection import LinkLost
from moothall.spaces.amqp.wire import MAX_MESSAGE_BYTES, PIECE, REQUEST, SEND, Outbound
from moothall.spaces.request import settle

OnOutcome = Callable[[Outbound, str], None]

# How publishing ended.
CONFIRMED: Final = "confirmed"
RETURNED: Final = "returned"  # it has no queue
UNROUTABLE: Final = "unroutable"  # it gets no queue either: no process has the agent's id
REFUSED: Final = "refused"  # the queue is full, or has no leader
NO_ROOM: Final = "refused: no room"  # the queue is full
FULL: Final = "full"  # too many messages wait for the broker already
TOO_LARGE: Final = "too large"  # larger than this broker takes

_MAX_WAITING: Final = 100_000
_MAX_WAITING_BYTES: Final = 2**26
"""How many messages may wait for the broker, and of how many bytes."""

_MAX_UNCONFIRMED: Final = 1_000
_MAX_UNCONFIRMED_BYTES: Final = 2**24
"""How many may wait before threads wait in `send`: other requests and answers queue behind."""

_REFUSABLE: Final = frozenset((SEND, REQUEST, PIECE))
"""Kinds that may be refused. Answers need no limit: messages that were taken limit them."""

_ALL_AGENTS: Final = "*"

_MAX_WINDOW = 5_000
_MAX_WINDOW_BYTES = 2**23
"""How many messages may be unconfirmed, and of how many bytes: what is written is there twice."""


class Publisher:
    """Publishes in order, and publishes unconfirmed messages again after a lost connection.

    It alone has every message that the broker does not have yet: unconfirmed, waiting, or held for
    an agent without a queue.

    Attributes:
        largest: how many bytes a message may have; less once the broker has refused one
        bytes: how many all messages have together that the broker does not have yet
    """

    def __init__(
        self, exchange: str, on_outcome: OnOutcome, set_open: Callable[[bool], None]
    ) -> None:
        self._exchange = exchange
        self._on_outcome = on_outcome
        self._set_open = set_open
        self._is_behind = False
        self._channel: Channel | None = None
        self._tag = 0
        self._unconfirmed: dict[int, Outbound] = {}
        self._unconfirmed_bytes = 0
        self.bytes: int = 0
        self._waiting: deque[Outbound] = deque()
        self._pauses = 0
        # By agent, exchange or `_ALL_AGENTS`, then by key: the returned messages, and later ones.
        self._held_messages: dict[str, tuple[dict[str, Outbound], dict[str, Outbound]]] = {}
        self._returned: set[str] = set()
        self.largest: int = MAX_MESSAGE_BYTES
        self._waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        held_count = sum(len(each) for pair in self._held_messages.values() for each in pair)
        return len(self._unconfirmed) + len(self._waiting) + held_count

    def publish(self, message: Outbound) -> None:
        """Publish a message now, or keep it until that is possible."""
        if len(message.body) > self.largest and message.exchange is None:  # not a dead letter
            self._on_outcome(message, TOO_LARGE)
            return
        to = message.exchange or message.to
        hold_lines = self._held_messages and (
            self._held_messages.get(to) or self._held_messages.get(_ALL_AGENTS)
        )
        must_wait = hold_lines or self._waiting or not self._may_emit()
        if must_wait and message.kind in _REFUSABLE and self._is_full(message):
            self._on_outcome(message, FULL)
            return
        if hold_lines:
            self._keep(hold_lines[1], message)
        else:
            message.is_in_flight = True
            self.bytes += len(message.body)
            if must_wait:
                self._waiting.append(message)
            else:
                self._emit(message)
        self._regulate()

    def _report_outcome(self, messages: Iterable[Outbound], outcome: str) -> None:
        """Tell how the publishing of messages has ended."""
        for message in messages:
            message.is_in_flight = False
            self.bytes -= len(message.body)
            if message.key in self._returned:
                self._returned.discard(message.key)
                self._on_outcome(message, RETURNED)
            else:
                self._on_outcome(message, outcome)

    def _may_emit(self) -> bool:
        return (
            self._channel is not None
            and len(self._unconfirmed) < _MAX_WINDOW
            and self._unconfirmed_bytes < _MAX_WINDOW_BYTES
        )

    def _is_full(self, message: Outbound) -> bool:
        waiting = len(self)
        return waiting >= _MAX_WAITING or (
            waiting > 0 and self.bytes + len(message.body) > _MAX_WAITING_BYTES
        )

    def _regulate(self) -> None:
        """Make threads wait while the broker is behind, but not while there is no channel."""
        is_over_limit = (
            len(self._unconfirmed) + len(self._waiting) >= _MAX_UNCONFIRMED
            or self.bytes >= _MAX_UNCONFIRMED_BYTES
        )
        is_behind = self._channel is not None and is_over_limit
        if is_behind is not self._is_behind:
            self._is_behind = is_behind
            self._set_open(not is_behind)

    def refuse_larger(self, largest: int) -> None:
        """End larger messages as `TOO_LARGE`: the broker closed the channel because of one."""
        self.largest = largest
        messages = [*self._unconfirmed.values(), *self._waiting]
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0
        self._waiting = deque(each for each in messages if len(each.body) <= largest)
        self._report_outcome([each for each in messages if len(each.body) > largest], TOO_LARGE)
        self._wake()

    def pause(self) -> None:
        """Keep messages from now on until `resume`: their receiver is being added."""
        self._pauses += 1
        self.hold(_ALL_AGENTS)

    def resume(self) -> None:
        """Publish the messages kept since `pause`."""
        self._pauses -= 1
        if not self._pauses:
            self.release(_ALL_AGENTS)

    # -- for an agent without a queue, or an exchange that is not declared -------------------------

    def hold(self, to: str) -> None:
        """Keep what is published to an agent or an exchange from now on."""
        self._held_messages.setdefault(to, ({}, {}))

    def release(self, to: str) -> None:
        """Publish what was kept for an agent or an exchange."""
        for message in self.take_held(to):
            self.publish(message)

    def hold_back(self, message: Outbound) -> bool:
        """Keep a returned message, and all later ones to its agent; return if it is the first."""
        is_first = message.to not in self._held_messages
        self.hold(message.to)
        self._keep(self._held_messages[message.to][0], message)
        return is_first

    def _keep(self, messages: dict[str, Outbound], message: Outbound) -> None:
        if message.key not in messages:  # else it is published again
            messages[message.key] = message
            self.bytes += len(message.body)

    def messages_for(self, id: str) -> list[Outbound]:
        """Return the messages held for an agent, in order, without ended requests."""
        returned, behind = self._held_messages.get(id, ({}, {}))
        return [message for message in (returned | behind).values() if not message.is_answered]

    def unconfirmed_to(self, id: str) -> set[str]:
        """Return the keys of the messages to an agent so far that are not in its queue."""
        return {message.key for message in (*self.messages_for(id), *self.in_flight(id))}

    def take_held(self, id: str) -> list[Outbound]:
        """Return the messages held for an agent, and hold no more for it."""
        messages = self.messages_for(id)
        for each in self._held_messages.pop(id, ()):
            self.bytes -= sum(len(message.body) for message in each.values())
        self._wake()
        return messages

    # -- the channel -------------------------------------------------------------------------------

    def attach(self, channel: Channel) -> None:
        """Publish on this channel from now on, the unconfirmed messages first."""
        # In front, and in their order: what was sent later must not overtake them.
        self._waiting.extendleft(reversed(self._unconfirmed.values()))
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0
        self._returned.clear()
        # The broker counts from 1 on each channel.
        self._tag = 0
        self._channel = channel
        channel.add_on_return_callback(self._on_return)
        self._publish_waiting()

    def detach(self) -> None:
        """Forget the channel, which is lost."""
        self._channel = None
        self._regulate()
        self._wake()

    def oldest_unconfirmed(self) -> tuple[Channel | None, int] | None:
        """Return what identifies the oldest unconfirmed message, None if all are confirmed."""
        tag = next(iter(self._unconfirmed), None)
        return None if tag is None else (self._channel, tag)

    def close_channel(self) -> None:
        """Close the channel; what is unconfirmed is published on the next one."""
        if self._channel is not None and self._channel.is_open:
            self._channel.close()

    async def drain(self) -> None:
        """Wait until everything is confirmed."""
        while len(self):
            await self._progress()

    def in_flight(self, id: str) -> list[Outbound]:
        """Return the unconfirmed messages to an agent, without the held ones; "" for broadcasts."""
        under_way = chain(self._unconfirmed.values(), self._waiting)
        return [message for message in under_way if message.to == id]

    async def confirmed_or_returned(self, messages: list[Outbound]) -> None:
        """Wait until each of these is in its queue, or was returned."""
        while messages:
            if not messages[-1].is_in_flight:
                messages.pop()
            elif self._channel is None:
                raise LinkLost("there is no channel")
            else:
                await self._progress()

    async def _progress(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            settle(waiter)

    def take_confirm(self, frame: Any) -> None:
        """Take the broker's confirm or refusal of one message, or of all up to it."""
        method = frame.method
        tag: int = method.delivery_tag
        outcome = CONFIRMED if method.NAME == "Basic.Ack" else REFUSED
        unconfirmed = self._unconfirmed
        if not method.multiple:
            message = unconfirmed.pop(tag, None)
            messages = [] if message is None else [message]
        else:
            messages = []
            for each in list(unconfirmed):
                if each > tag:
                    break
                messages.append(unconfirmed.pop(each))
        self._unconfirmed_bytes -= sum([len(message.body) for message in messages])
        self._report_outcome(messages, outcome)
        if self._waiting:
            self._publish_waiting()
        if self._is_behind:
            self._regulate()
        if self._waiters:
            self._wake()

    def _on_return(self, _channel: Channel, _method: Any, properties: Any, _body: bytes) -> None:
        # The broker returns a message before it confirms it: `_report_outcome` sees both.
        self._returned.add(properties.message_id)

    def _publish_waiting(self) -> None:
        waiting = self._waiting
        while waiting and self._may_emit():
            self._emit(waiting.popleft())

    def _emit(self, message: Outbound) -> None:
        channel = self._channel
        assert channel is not None
        self._tag += 1
        self._unconfirmed[self._tag] = message
        self._unconfirmed_bytes += len(message.body)
        if not channel.is_open:
            # The channel is lost; unconfirmed messages are published again on the next one.
            self._channel = None
            return
        channel.connection.publish(
            channel.channel_number,
            self._exchange if message.exchange is None else message.exchange,
            message.routing_key,
            message.mandatory,
            message.encoded_properties(),
            message.body,
        )
