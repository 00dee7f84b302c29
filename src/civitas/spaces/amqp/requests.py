"""The open requests of this process, and the call chains that they are part of."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from civitas.errors import RequestError
from civitas.message import BROADCAST as EVERYONE
from civitas.message import Envelope
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.broker import Broker
from civitas.spaces.amqp.consumer import Tag
from civitas.spaces.amqp.wire import Outbound, Unreadable
from civitas.spaces.delivery import Delivery

logger = logging.getLogger("civitas.amqp")


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
        # The handlers of this process that have made requests, by key.
        self._handlers: WeakValueDictionary[str, Delivery] = WeakValueDictionary()

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
            headers=wire.headers(delivery.hops, self._chain(delivery.parent), delivery.timeout),
            about=delivery,
        )
        self._publisher.publish(message)

    def end(self, delivery: Delivery) -> None:
        """A request has its outcome."""
        self._open.pop(delivery.key, None)

    def _chain(self, handling: Delivery | None) -> tuple[str, ...]:
        """The keys of the handlers, outermost first, that wait for a request made now."""
        keys: list[str] = []
        while handling is not None:
            if not handling.key:
                handling.key = self._broker.new_key()
            self._handlers[handling.key] = handling
            keys.append(handling.key)
            if handling.call_chain is not None:
                return (*handling.call_chain, *reversed(keys))
            handling = handling.parent
        return tuple(reversed(keys))

    def innermost(self, call_chain: tuple[str, ...]) -> Delivery | None:
        """The innermost handler of this process in a message's call chain."""
        found = (self._handlers.get(key) for key in reversed(call_chain))
        return next((handler for handler in found if handler is not None), None)

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
            if properties.type == wire.QUEUE_LOST:
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
        """An agent's queue was deleted: have all processes send their open requests to it again.

        This one, too, is told by the broker.
        """
        self._publisher.publish(
            Outbound(
                self._broker.new_key(),
                wire.QUEUE_LOST,
                self._broker.names.processes,
                wire.written(Envelope(id, EVERYONE, "lost", {})),
            )
        )

    def _on_queue_lost(self, properties: Any, notice: bytes) -> None:
        try:
            id = wire.read(properties, notice).envelope.sender
        except Unreadable as error:
            logger.error("the notice of a deleted queue cannot be read: %s", error)
            return
        self.send_again(id)

    def send_again(self, id: str | None = None) -> None:
        """Publish the requests to an agent again, or all."""
        for message in list(self._open.values()):
            if id is None or message.to == id:
                self._publisher.publish(message)
