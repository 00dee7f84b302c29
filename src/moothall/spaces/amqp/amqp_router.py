"""The router of a space whose messages travel over a broker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import get_ident
from typing import Any, Final

from pika.exceptions import AMQPError

from moothall.actions.message import Envelope
from moothall.agents.agent import CURRENT
from moothall.foundation.errors import (
    ActionError,
    InboxError,
    MailboxFull,
    RequestCancelled,
    RequestError,
)
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.agent_queues import AgentQueues
from moothall.spaces.amqp.amqp_options import AMQPOptions, BrokerLimits, Names
from moothall.spaces.amqp.deadlock_watch import DeadlockWatch
from moothall.spaces.amqp.delays import Delays
from moothall.spaces.amqp.inbox import Inbox
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import LinkLost, RefusedByBroker
from moothall.spaces.amqp.link.publisher import (
    CONFIRMED,
    FULL,
    NO_ROOM,
    REFUSED,
    RETURNED,
    TOO_LARGE,
    UNROUTABLE,
)
from moothall.spaces.amqp.observers import Observers
from moothall.spaces.amqp.presence import Presence
from moothall.spaces.amqp.queues import Queues
from moothall.spaces.amqp.receiver import Receiver
from moothall.spaces.amqp.recorder import InFlight, Recorder, in_flight_of, key_of_late_answer
from moothall.spaces.amqp.requests import OpenRequests
from moothall.spaces.amqp.wire import Outbound
from moothall.spaces.deadlock import WaitGraph
from moothall.spaces.delivery import ANSWER, MAX_HOPS, QUEUED, REQUEST, SEND, Delivery
from moothall.spaces.handler import answer_to
from moothall.spaces.loop import LoopThread
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.router import Router

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

_RETRY_S: Final = 1.0
_ASK_OTHERS_S: Final = 1.0
"""After how long the other processes are asked whether agents wait for each other."""
_SHUTDOWN_STEP_S: Final = 5.0
"""How long the end of a space waits for each operation of the broker."""


class AMQPRouter(Router):
    """Publishes messages, also those to agents of its own process, and receives messages."""

    def __init__(
        self,
        thread: LoopThread,
        options: AMQPOptions,
        names: Names,
        limits: BrokerLimits,
        inbox: Inbox,
        *,
        quorum: bool,
        on_state: Callable[[str, str], None],
        evict: Callable[[Mailbox, RequestError], None],
    ) -> None:
        super().__init__(thread, limits.max_messages)
        self.dispatch: Callable[[Delivery], None] = self._dispatch
        self.inbox = inbox
        self.broker: Broker
        self.broker = broker = Broker(
            thread,
            options,
            names,
            limits,
            quorum=quorum,
            on_outcome=self._on_outcome,
            on_reply=lambda *delivered: self.requests.take_answer(*delivered),
            on_replies_lost=lambda: self.requests.send_again(),
            declare_more=lambda: self.delays.restore(),
            on_attached=self._on_attached,
            on_state=on_state,
            after_read=self._begin_now,
            find_remedy=lambda: self.recorder.remedy(),
            reaches_itself=lambda: self.requests.reaches_itself(),
            bind_agents=self._bind_agents,
        )
        self.requests: OpenRequests = OpenRequests(
            broker,
            self.settle,
            self.mailboxes,
            cancel_received=lambda key, agent: self.receiver.cancel(key, agent),
            report_waits=lambda: self.deadlock_watch.report(),
        )
        self.recorder: Recorder = Recorder(self, broker, inbox, lambda: not self._ready)
        self.deadlock_watch: DeadlockWatch = DeadlockWatch(
            self.requests, self.mailboxes, self.recorder.in_flight
        )
        self.receiver: Receiver = Receiver(
            self,
            broker,
            inbox,
            self.recorder,
            cancel_everywhere=self.requests.cancel_everywhere,
            find_innermost=self.requests.innermost,
            own_request=self.requests.own_request,
            show=self._show_inbound,
        )
        self.queues: Queues = Queues(broker)
        self.agent_queues: AgentQueues = AgentQueues(
            self,
            broker,
            self.queues,
            self.receiver,
            on_queue_lost=self.requests.queue_lost,
            evict=evict,
        )
        self.presence: Presence = Presence(self, broker, self.queues, cancel_request=self._give_up)
        self.observers_everywhere: Observers = Observers(broker, self.warn)
        self.delays: Delays = Delays(broker)

    # -- out ---------------------------------------------------------------------------------------

    def send(
        self,
        envelope: Envelope,
        mailbox: Mailbox,
        kind: int = SEND,
        delay: float = 0.0,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Send a message of the agent in `mailbox`, to be delivered after `delay` seconds."""
        handling = in_flight_of(CURRENT.get(), self.recorder) if kind == SEND else None
        if get_ident() == self.thread_id:
            if mailbox.has_thread_messages:
                self.catch_up(mailbox)
            self._send(envelope, handling, kind, delay, on_end)
        else:
            self.submit_method(envelope)(self._send, envelope, handling, kind, delay, on_end)
            mailbox.has_thread_messages = True

    def _send(
        self,
        envelope: Envelope,
        handling: InFlight | None,
        kind: int,
        delay: float,
        on_end: Callable[[], None] | None,
    ) -> None:
        if self.closed:
            return
        if self.observers:
            self.show(envelope)
        if handling is not None:
            if handling.is_ended:  # sent by a task that its handler left running
                handling = None
            else:
                handling.unconfirmed_count += 1
        wire_kind = wire.SEND if kind == SEND else wire.ANSWER
        to, names = (envelope.to if envelope.is_to_one else ""), self.broker.names
        message = Outbound(
            self.broker.new_key() if wire_kind == wire.SEND else key_of_late_answer(envelope),
            wire_kind,
            names.key("agent", to) if to else names.key_to_several(envelope.to),
            wire.encode(envelope),
            to=to,
            mandatory=bool(to),
            headers=wire.headers_of(wire_kind, envelope),
            settles=(handling, envelope) if kind == SEND else on_end,
        )
        if delay:
            self.delays.publish(message, delay)
        else:
            self.broker.publisher.publish(message)

    def _dispatch(self, delivery: Delivery) -> None:
        """Send a request."""
        if delivery.answered:
            return
        if self.closed:
            self.refuse(delivery, self.closed_error())
            return
        if self.observers:
            self._show_once(delivery)
        if delivery.hops > MAX_HOPS:
            self.refuse(delivery, self._too_many_hops(delivery))
            return
        delivery.state = QUEUED
        if delivery.timeout is not None or delivery.parent is not None:
            self._new_requests.append(delivery)
            if not self._is_scheduled:
                self._schedule()
        message = self.requests.begin(delivery)
        is_elsewhere = delivery.envelope.to not in self.mailboxes
        if is_elsewhere and delivery.waits_for_receiver:
            self.presence.publish_late(message)
            return
        self.broker.publisher.publish(message)
        if is_elsewhere:
            self.presence.check_receiver(delivery)

    # -- publishing ended --------------------------------------------------------------------------

    def _on_outcome(self, message: Outbound, outcome: str) -> None:
        """Handle how publishing a message ended: confirmed, or not taken by the broker."""
        kind, settles = message.kind, message.settles
        if outcome == CONFIRMED:
            is_elsewhere = message.to and message.to not in self.mailboxes
            if is_elsewhere and (kind == wire.SEND or kind == wire.ANSWER):
                self.presence.renew(message.to)
        elif outcome == RETURNED and self.presence.hold_back(message):
            return
        if outcome == REFUSED and self.presence.hold_refused(message):
            return
        is_dead_letter = message.exchange == self.broker.names.dead_exchange
        if (is_dead_letter and outcome == FULL) or (
            message.exchange is not None and outcome in (RETURNED, REFUSED)
        ):
            self.thread.spawn(self._publish_again(message, outcome))
            return
        if outcome == TOO_LARGE and kind in (wire.REPLY, wire.ANSWER):
            self._answer_too_large(message)
            return
        if kind == wire.ANSWER and outcome != CONFIRMED and message.to not in self.senders:
            is_full = outcome in (REFUSED, NO_ROOM)
            reason = "its mailbox is full" if is_full else "no process has an agent of that id"
            self.warn_answer_lost(message.to, reason)
        if callable(settles):
            settles()
        elif kind == wire.SEND:
            handling, envelope = settles
            if outcome in (REFUSED, NO_ROOM, FULL, TOO_LARGE):
                self._report(envelope, str(self._not_taken_error(message, outcome)))
            if handling is not None:
                self.recorder.note_confirmed(handling)
        elif kind == wire.REQUEST:
            if outcome in (RETURNED, UNROUTABLE):
                self.refuse(settles, self._not_found(message.to))
            elif outcome != CONFIRMED:
                self.refuse(settles, self._not_taken_error(message, outcome))
        elif settles is not None:
            self.recorder.finish(settles)

    async def _publish_again(self, message: Outbound, outcome: str) -> None:
        """Publish in a second what no agent's queue has not taken, such as a dead letter."""
        queue = message.routing_key if message.exchange == "" else "of the dead letters"
        state = "is gone" if outcome == RETURNED else "takes nothing"
        logger.error("the queue %s %s; trying again in a second", queue, state)
        if outcome == RETURNED:
            with suppress(LinkLost, AMQPError, RefusedByBroker):
                await self.broker.declare_dead_letters()
        elif self.broker.quorum:  # as in `Presence.hold_refused`
            self.broker.publisher.close_channel()
        await asyncio.sleep(_RETRY_S)
        self.broker.publisher.publish(message)

    def _report(self, sent: Envelope, text: str) -> None:
        """Send an agent of this process an error about a message of its own."""
        to, args = sent.sender, {"error": text, "original_message_id": sent.id}
        if to in self.mailboxes:
            self.post(Delivery(Envelope(to, to, "error", args, thread=sent.thread), ANSWER))

    def _not_taken_error(self, message: Outbound, outcome: str) -> MailboxFull:
        if outcome == FULL:
            waiting = len(self.broker.publisher)
            size = f"{self.broker.publisher.bytes:,} bytes"
            return MailboxFull(f"{waiting} messages of {size} wait for the broker: no more fit")
        if outcome == TOO_LARGE:
            return MailboxFull(
                f"no message of {len(message.body):,} bytes is taken: "
                f"{self.broker.publisher.largest:,} are the limit (the broker's max_message_size, "
                f"or {wire.MAX_MESSAGE_BYTES:,})"
            )
        receiver = f'"{message.to}"' if message.to else "an agent"
        return MailboxFull(f"the mailbox of {receiver} is full: the broker takes no more for it")

    def _answer_too_large(self, message: Outbound) -> None:
        """Send an error in place of an answer that is too large."""
        error = ActionError("MessageTooLarge", str(self._not_taken_error(message, TOO_LARGE)))
        answer = json.loads(message.body)
        id = answer["action"]["args"].get("original_message_id")
        if id is None:  # a `say` back has it in its headers
            id = (message.headers or {}).get("original")
        args = {"error": str(error), "original_message_id": id}
        message.body = wire.encode(Envelope(answer["from"], answer["to"], "error", args))
        if message.kind == wire.REPLY:
            message.headers = wire.error_headers(error)
        self.broker.publisher.publish(message)

    async def statistics(self) -> dict[str, dict[str, Any]]:
        """Return what all processes count of each agent, and what waits at the broker."""
        counts = await self.requests.statistics()
        for id, each in counts.items():
            each["waiting"] += (await self.queues.state("agent", id)).messages
        return counts

    async def arrived(self, mailboxes: Iterable[Mailbox]) -> bool:
        """Return whether no message is on its way to these mailboxes, or waits at the broker."""
        if len(self.broker.publisher):
            return False
        with suppress(LinkLost, AMQPError):
            # What waits for a shared agent that leaves this process is for the others.
            ids = [each.id for each in mailboxes if not (each.shared and each.finishing)]
            return not any([(await self.queues.state("agent", each)).messages for each in ids])
        return False

    # -- outcomes ----------------------------------------------------------------------------------

    def settle(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """Set the outcome of a request, once: of one sent here, or of one received."""
        if delivery.answered:
            return
        is_sent_here = delivery.kind == REQUEST and not isinstance(delivery, InFlight)
        if is_sent_here:
            # First: a second answer, to a request that was sent twice, finds nothing open.
            self.requests.end(delivery)
            if self.closed and isinstance(error, RequestCancelled):
                error = self.closed_error()  # `shut_down` cancelled it at its receiver
        super().settle(delivery, value, error)
        if delivery.kind == REQUEST and isinstance(delivery, InFlight):
            answer = answer_to(delivery, value, error)
            assert answer is not None  # a request has an answer, whatever its value
            self.recorder.prepare_answer(delivery, *answer, error)
            self.recorder.note_ended(delivery)

    def abort(self, delivery: Delivery, error: RequestError) -> None:
        """End a message early."""
        is_sent_here = (
            delivery.kind == REQUEST and not isinstance(delivery, InFlight) and delivery.key
        )
        # Before it ends: only then it is known whether its receiver still works for it.
        was_open = is_sent_here and not delivery.answered and not self.closed
        super().abort(delivery, error)
        if was_open:
            self._cancel(delivery)

    def _cancel(self, delivery: Delivery) -> None:
        """Tell the receiver of a request that nothing waits for its answer any more."""
        to = delivery.envelope.to
        if to in self.mailboxes:
            # At once: its sender may make it start before the message arrives.
            self.receiver.cancel(delivery.key, to)
        self.requests.cancel(delivery)

    def _give_up(self, delivery: Delivery) -> None:
        """Cancel a request whose sender is told next that no process runs its receiver."""
        self.requests.end(delivery)  # the answer, that it was cancelled, is not its outcome
        self._cancel(delivery)

    def send_answer(self, delivery: Any, value: Any, error: RequestError | None) -> None:
        """Prepare the outcome of a message for its sender, if that wants one."""
        answer = answer_to(delivery, value, error)
        if answer is not None:
            if self.observers:
                self.show(answer[0])
            self.recorder.prepare_answer(delivery, *answer, error)

    # -- in ----------------------------------------------------------------------------------------

    def _begin_now(self) -> None:
        """Start the messages that have just arrived, in this turn of the loop."""
        if self._ready:
            self._run_turn()

    def _show_inbound(self, delivery: Delivery) -> None:
        """Show the observers a message from another process, once."""
        key, sender = delivery.key, delivery.envelope.sender
        # The key of an answer begins with the key of the message that it answers.
        is_ours = (
            sender in self.mailboxes if "/" in key else key.startswith(self.broker.process_name)
        )
        if self.observers and not is_ours and self.observers_everywhere.is_new(key):
            self.show(delivery.envelope)

    def _wait_graph(self) -> WaitGraph:
        return self.deadlock_watch.graph_here()

    def _look_for_deadlock(self, waited: float) -> None:
        super()._look_for_deadlock(waited)
        if waited >= _ASK_OTHERS_S:
            self.thread.spawn(self.deadlock_watch.look())

    def _show_answer(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        if not isinstance(delivery, InFlight) and delivery.envelope.to in self.mailboxes:
            return  # it was shown where it was handled, in this process
        super()._show_answer(delivery, value, error)

    async def _on_attached(self) -> None:
        """Consume again on a new channel."""
        await self.observers_everywhere.attach()
        self.agent_queues.restore()

    async def _bind_agents(self) -> None:
        """Have the broker route to observers and agents what an exchange declared again has."""
        await self.observers_everywhere.bind()
        await self.agent_queues.bind_again()

    # -- the end -----------------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Wait until all sent messages are confirmed, end the open requests, and disconnect."""
        broker = self.broker
        # First: cancellations are messages, too, and are confirmed with the others.
        for delivery in self.requests.deliveries():
            self._cancel(delivery)
        if broker.is_up:
            await self.agent_queues.wait_until_deleted(timeout=_SHUTDOWN_STEP_S)
            try:
                async with asyncio.timeout(_SHUTDOWN_STEP_S):
                    await broker.publisher.drain()
                async with asyncio.timeout(_SHUTDOWN_STEP_S):
                    await broker.end_replies()
            except (TimeoutError, LinkLost, AMQPError, RefusedByBroker) as error:
                logger.warning(
                    "the space was closed before the broker had confirmed everything: %s",
                    error or type(error).__name__,
                )
        elif unconfirmed := len(broker.publisher):
            logger.warning(
                "the space was closed without a connection, before the broker had confirmed "
                "everything: %d messages are lost",
                unconfirmed,
            )
        for delivery in self.requests.deliveries():
            self.refuse(delivery, self.closed_error())
        await broker.close()
        try:
            self.inbox.close()
        except InboxError as error:
            logger.error("what ended last is not in the inbox: %s", error)
