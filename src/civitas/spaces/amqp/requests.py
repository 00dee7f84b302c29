"""The open requests of this process, and the call chains that they are part of."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from civitas.errors import RequestError
from civitas.message import BROADCAST as EVERYONE
from civitas.message import Envelope
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.broker import Broker
from civitas.spaces.amqp.consumer import Tag
from civitas.spaces.amqp.wire import Outbound, Unreadable
from civitas.spaces.delivery import Delivery

logger = logging.getLogger("civitas.amqp")


class CallChains:
    """The handlers of this process that wait for requests, by key."""

    def __init__(self, new_key: Callable[[], str]) -> None:
        self._new_key = new_key
        self._waiting: dict[str, list[Any]] = {}  # by key: a handler, and how many requests it has

    def begin(self, handling: Any) -> tuple[str, ...]:
        """The keys of the handlers, outermost first, that wait for a request made now."""
        keys: list[str] = []
        while handling is not None:
            if not handling.key:
                handling.key = self._new_key()
            entry = self._waiting.setdefault(handling.key, [handling, 0])
            entry[1] += 1
            keys.append(handling.key)
            if handling.call_chain is not None:
                return (*handling.call_chain, *reversed(keys))
            handling = handling.parent
        return tuple(reversed(keys))

    def innermost(self, call_chain: tuple[str, ...]) -> Delivery | None:
        """The innermost handler of this process in a message's call chain."""
        for key in reversed(call_chain):
            entry = self._waiting.get(key)
            if entry is not None:
                found: Delivery = entry[0]
                return found
        return None

    def end(self, handling: Any) -> None:
        """A request of this handler, and of those that wait for it, has ended."""
        while handling is not None:
            entry = self._waiting.get(handling.key)
            if entry is not None:
                entry[1] -= 1
                if not entry[1]:
                    del self._waiting[handling.key]
            if handling.call_chain is not None:
                return
            handling = handling.parent


class OpenRequests:
    """The requests that are not answered. Everything happens on the loop."""

    def __init__(
        self,
        broker: Broker,
        settle: Callable[[Delivery, Any, RequestError | None], None],
    ) -> None:
        self._broker = broker
        self._publisher = broker.publisher
        self._settle = settle
        self._open: dict[str, Outbound] = {}
        self.chains = CallChains(broker.new_key)

    def deliveries(self) -> list[Delivery]:
        """All of them."""
        return [message.about for message in self._open.values()]

    def send(self, delivery: Delivery) -> None:
        """Publish a request."""
        envelope = delivery.envelope
        key = delivery.key = self._broker.new_key()
        message = self._open[key] = Outbound(
            key,
            wire.REQUEST,
            self._broker.names.agent_key(envelope.to),
            wire.written(envelope),
            to=envelope.to,
            mandatory=True,
            reply_to=self._broker.reply_key,
            headers=wire.headers(
                delivery.hops, self.chains.begin(delivery.parent), delivery.timeout
            ),
            about=delivery,
        )
        self._publisher.publish(message)

    def end(self, delivery: Delivery) -> None:
        """A request has its outcome."""
        self._open.pop(delivery.key, None)
        self.chains.end(delivery.parent)

    def cancel(self, delivery: Delivery) -> None:
        """Tell the receiver of a request that its answer is not waited for."""
        envelope = delivery.envelope
        self._publisher.publish(
            Outbound(
                self._broker.new_key(),
                wire.CANCEL,
                self._broker.names.agent_key(envelope.to),
                wire.written(Envelope(envelope.sender, envelope.to, "cancel", {})),
                to=envelope.to,
                correlation_id=delivery.key,
            )
        )

    def answered(self, tag: Tag, properties: Any, body: bytes) -> None:
        """A message to this process came: the outcome of a request, or a notice of a lost queue."""
        self._broker.consumer.acknowledge(tag)
        request = self._open.get(properties.correlation_id or "")
        if request is None:
            # It has ended, or this is a second answer.
            if properties.type == wire.QUEUE_LOST and properties.reply_to != self._broker.reply_key:
                self._on_queue_lost(properties, body)
            return
        delivery = request.about
        try:
            args = wire.read_json(body)["action"]["args"]
            value, error = args.get("data"), wire.error_of(properties.headers or {}, args)
        except (Unreadable, KeyError, TypeError, AttributeError) as wrong:
            logger.error("the answer to %s cannot be read: %s", delivery, wrong)
            value, error = None, wire.error_of({"outcome": "unreadable"}, {"error": str(wrong)})
        self._settle(delivery, value, error)

    # -- sent again: receivers know them by their keys ---------------------------------------------

    def queue_lost(self, id: str) -> None:
        """An agent's queue was deleted: all processes send their open requests to it again."""
        self._send_again_to(id)
        self._publisher.publish(
            Outbound(
                self._broker.new_key(),
                wire.QUEUE_LOST,
                self._broker.names.processes,
                wire.written(Envelope(id, EVERYONE, "lost", {})),
                reply_to=self._broker.reply_key,
            )
        )

    def _on_queue_lost(self, properties: Any, notice: bytes) -> None:
        try:
            id = wire.read(properties, notice).envelope.sender
        except Unreadable as error:
            logger.error("the notice of a deleted queue cannot be read: %s", error)
            return
        self._send_again_to(id)

    def _send_again_to(self, id: str) -> None:
        held = self._publisher.take_held(id)
        self.send_again(id)
        for message in held:
            if message.kind != wire.REQUEST:
                self._publisher.publish(message)

    def send_again(self, id: str | None = None) -> None:
        """Publish the requests to an agent again, or all."""
        for message in list(self._open.values()):
            if id is None or message.to == id:
                self._publisher.publish(message)
