"""The open requests of this process, and what processes tell each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from moothall.actions.message import BROADCAST as EVERYONE
from moothall.actions.message import Envelope
from moothall.foundation.errors import RequestError
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.consumer import DeliveryTag
from moothall.spaces.amqp.wire import Outbound, Unreadable
from moothall.spaces.delivery import Delivery
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.request import settle

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_QUIET_S: Final = 0.1
_MAX_LOOKS: Final = 30
_ARRIVES_S: Final = 2.0
"""How long a message that the broker has confirmed may take to this process."""


@dataclass(slots=True, eq=False, repr=False)
class OpenRequests:
    """The requests that are not answered. Everything runs on the loop."""

    broker: Broker
    settle: Callable[[Delivery, Any, RequestError | None], None]
    mailboxes: Mapping[str, Mailbox]  # this process's agents by id
    cancel_received: Callable[[str, str], None]  # cancels a message, by its key and agent
    report_waits: Callable[[], dict[str, Any]]  # who waits for whom in this process
    _answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # answers of processes
    _self_notices: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    _open_messages: dict[str, Outbound] = field(default_factory=dict)
    # The handlers of this process that have made requests, by key.
    _handlers: WeakValueDictionary[str, Delivery] = field(default_factory=WeakValueDictionary)

    def deliveries(self) -> list[Delivery]:
        """Return the deliveries of all open requests."""
        return [message.settles for message in self._open_messages.values()]

    def begin(self, delivery: Delivery) -> Outbound:
        """Return the message of a request, which is open from now on."""
        envelope = delivery.envelope
        key = delivery.key = self.broker.new_key()
        delivery.call_chain = self._call_chain(delivery.parent)
        message = self._open_messages[key] = Outbound(
            key,
            wire.REQUEST,
            self.broker.names.key("agent", envelope.to),
            wire.encode(envelope),
            to=envelope.to,
            mandatory=True,
            reply_to=self.broker.reply_key,
            headers=wire.headers_of(wire.REQUEST, envelope, delivery),
            settles=delivery,
            # An asker that has died cannot cancel it.
            expires_s=delivery.timeout if delivery.expires is None else delivery.expires,
        )
        return message

    def end(self, delivery: Delivery) -> None:
        """Remove a request that has its outcome."""
        self._open_messages.pop(delivery.key, None)

    def _call_chain(self, handling: Delivery | None) -> tuple[str, ...]:
        """Return the keys of the handlers that wait for a request made now, outermost first."""
        keys: list[str] = []
        while handling is not None:
            if not handling.key:
                handling.key = self.broker.new_key()
            self._handlers[handling.key] = handling
            keys.append(handling.key)
            if handling.call_chain is not None:
                return (*handling.call_chain, *reversed(keys))
            handling = handling.parent
        return tuple(reversed(keys))

    def own_request(self, key: str) -> Delivery | None:
        """Return a request of this process, with what it gave beside the message."""
        message = self._open_messages.get(key)
        return None if message is None else message.settles

    def innermost(self, call_chain: tuple[str, ...]) -> Delivery | None:
        """Return the innermost handler of this process in a message's call chain."""
        for key in reversed(call_chain):
            if (handler := self._handlers.get(key)) is not None:
                return handler
        return None

    def cancel(self, delivery: Delivery) -> None:
        """Tell the receiver of a request that nothing waits for its answer any more."""
        sender, to, *_ = delivery.envelope
        key = self.broker.names.key("agent", to)
        self._notify(wire.CANCEL, key, sender, delivery.key, to)

    def take_answer(self, tag: DeliveryTag, properties: Any, body: bytes) -> None:
        """Take a message to this process: a request's outcome, or a notice of a process."""
        # At once: what asks is in this process, so a crash loses both.
        self.broker.consumer.acknowledge(tag)
        kind, request = properties.type, self._open_messages.get(properties.correlation_id or "")
        if kind == wire.CANCEL or (request is None and kind in wire.NOTICES):
            self._take_notice(properties, body)
        if request is None or kind == wire.CANCEL:
            return  # it has ended, or this is a second answer
        delivery = request.settles
        try:
            args = wire.read_json(body)["action"]["args"]
            if kind == wire.PIECE:
                if delivery.on_event is not None and isinstance(args, dict):
                    delivery.on_event(args)
                return
            value, error = args.get("data"), wire.error_of(properties.headers or {}, args)
        except (Unreadable, KeyError, TypeError, AttributeError) as wrong:
            logger.error("the answer to %s cannot be read: %s", delivery, wrong)
            value, error = None, wire.error_of({"outcome": "unreadable"}, {"error": str(wrong)})
        self.settle(delivery, value, error)

    async def all_ids(self, group: str | None = None) -> list[str]:
        """Ask all processes for the ids of their agents, until none answers for a moment."""
        if not self.mailboxes:  # else the first agent has opened it
            await self.broker.open()
        answers = await self.ask_processes(group=group)
        return sorted({id for each in answers for id in map(str, each.get("ids", ()))})

    async def statistics(self) -> dict[str, dict[str, Any]]:
        """Return the sums of what all processes count of each agent, by its id."""
        sums: dict[str, dict[str, Any]] = {}
        for answer in await self.ask_processes(statistics=True):
            for id, counts in answer.get("statistics", {}).items():
                sums_of_agent = sums.setdefault(id, {})
                for name, value in (counts | {"processes": 1}).items():
                    before = sums_of_agent.get(name)
                    sums_of_agent[name] = value if before is None else before + value
        return sums

    async def ask_processes(self, **query: Any) -> list[dict[str, Any]]:
        """Ask all processes, until none answers for a moment; this one answers, too."""
        key = self.broker.new_key()
        answers = self._answers[key] = []
        processes = self.broker.names.processes
        self._notify(wire.PROCESS_QUERY, processes, self.broker.process_name, id=key, args=query)
        try:
            for _ in range(_MAX_LOOKS):
                count = len(answers)
                await asyncio.sleep(_QUIET_S)
                if 0 < count == len(answers):  # this process answers, too
                    break
        finally:
            del self._answers[key]
        return answers

    async def reaches_itself(self) -> bool:
        """Return whether a notice of this process to itself arrives once the broker has it."""
        loop, key, process = self.broker.loop, self.broker.new_key(), self.broker.process_name
        confirmed = loop.create_future()
        arrival = self._self_notices[key] = loop.create_future()
        try:
            report = partial(settle, confirmed)
            self._notify(
                wire.PROCESS_ANSWER, self.broker.reply_key, process, id=key, on_confirmed=report
            )
            # Without a connection this waits for the next one: only then silence says something.
            await confirmed
            await asyncio.wait((arrival,), timeout=_ARRIVES_S)
            return arrival.done()
        finally:
            del self._self_notices[key]

    def cancel_everywhere(self, key: str, agent: str) -> None:
        """Tell all processes that nothing waits for a message to a shared agent any more."""
        self._notify(wire.CANCEL, self.broker.names.processes, agent, key)

    def _notify(
        self,
        kind: str,
        routing_key: str,
        sender: str,
        correlation_id: str | None = None,
        to: str = "",
        on_confirmed: Callable[[], Any] | None = None,
        **parts: Any,
    ) -> None:
        body = wire.encode(Envelope(sender, to or EVERYONE, kind, parts.pop("args", {}), **parts))
        key = self.broker.new_key()
        notice = Outbound(key, kind, routing_key, body, to=to, correlation_id=correlation_id)
        notice.settles = on_confirmed
        self.broker.publisher.publish(notice)

    def _take_notice(self, properties: Any, body: bytes) -> None:
        try:
            notice = wire.read_message(properties, body).envelope
        except Unreadable as error:
            logger.error("a notice of another process cannot be read: %s", error)
            return
        id, sender, kind = notice.id, notice.sender, properties.type
        if kind == wire.QUEUE_LOST:
            self.send_again(sender)
        elif kind == wire.CANCEL:
            if sender in self.mailboxes:
                self.cancel_received(properties.correlation_id or "", sender)
        elif kind == wire.PROCESS_QUERY:
            reply_key = self.broker.names.key("reply", sender)
            group = notice.args.get("group")
            ids = [key for key, each in self.mailboxes.items() if group in (None, *each.groups)]
            args: dict[str, Any] = {"ids": ids}
            if notice.args.get("statistics"):
                args["statistics"] = {
                    key: each.statistics() for key, each in self.mailboxes.items()
                }
            if notice.args.get("waits"):
                args["waits"] = self.report_waits()
            self._notify(wire.PROCESS_ANSWER, reply_key, sender, id=id, args=args)
        elif (echo := self._self_notices.get(id or "")) is not None:
            settle(echo)
        elif (answers := self._answers.get(id or "")) is not None:
            answers.append(notice.args)

    # -- sent again: receivers deduplicate by key --------------------------------------------------

    def queue_lost(self, id: str) -> None:
        """Tell all processes, after a queue was deleted, to send open requests to its agent again.

        The broker delivers this notice to this process, too.
        """
        self._notify(wire.QUEUE_LOST, self.broker.names.processes, id)

    def send_again(self, id: str | None = None) -> None:
        """Publish the open requests to an agent again, or all if `id` is None."""
        # A copy: one that the publisher refuses ends at once.
        for message in list(self._open_messages.values()):
            if id is None or message.to == id:
                self.broker.publisher.publish(message)
