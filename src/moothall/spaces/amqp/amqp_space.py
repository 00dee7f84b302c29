"""A space for agents in many processes, over RabbitMQ."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.actions.approval import Approver
from moothall.foundation.arguments import (
    check_boolean,
    check_function,
    check_integer,
    check_seconds,
    names_checked,
)
from moothall.foundation.errors import ConfigError, MissingExtra, RequestError
from moothall.foundation.text import log_failure
from moothall.foundation.threads import loop_is_running
from moothall.spaces.amqp.amqp_options import AMQPOptions, BrokerLimits, Names
from moothall.spaces.amqp.inbox import Inbox
from moothall.spaces.delivery import Delivery
from moothall.spaces.loop import LoopThread
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.router import Router
from moothall.spaces.space import MAILBOX, MAILBOX_BYTES, Space

if TYPE_CHECKING:
    from moothall.spaces.amqp.amqp_router import AMQPRouter

logger: logging.Logger = logging.getLogger("moothall.spaces.amqp")

KEEP_S = 86_400.0
"""How long messages wait for an agent that is away."""

PREFETCH_BYTES = 2**26
"""How many bytes a process takes ahead: parsed, a message has about three times its bytes."""

MAX_DELIVERIES = 5
"""How many times a message may be started whose process dies each time."""

GRACE_S = 5.0
"""How long `close` lets started actions continue."""

_MAX_KEEP_S = 2_000_000


@names_checked
class AMQPSpace(Space):
    """A space whose agents are in as many processes and on as many machines as you like.

    Every space with the same exchange of the same broker is part of one: its agents reach each
    other by id as in a `NativeSpace`. Messages are persistent and wait in the broker for an agent
    that is away. Delivery is at least once: with `inbox=`, an action that was running when its
    process died is not run again, unless it is `idempotent`; its sender gets an error that says it
    is in doubt.

    Args:
        amqp_options: where the broker is; if left out, from `AMQP_HOST` and the other variables
            that `AMQPOptions.from_environment` reads
        exchange: the name of the exchange; spaces of different exchanges are not connected
        inbox: the file in which this process remembers messages; in memory if left out
        approver: answers for the actions of policy `ACCESS_REQUESTED` of agents without their own
        mailbox: how many messages may wait for one agent
        keep: seconds that messages wait for an agent that is away; then they go to the dead
            letters. A queue unused for twice as long is deleted, and its id is unknown then
        mailbox_bytes: how many bytes these may have together
        prefetch: how many messages an agent of this process takes from the broker ahead; if left
            out, all that may wait, and a shared agent as many as it handles at a time
        prefetch_bytes: how many bytes the messages may have together that this process has taken
            and not handled; each agent takes one in any case
        deliveries: how many times a message may be started whose process dies each time; then it
            goes to the dead letters, and its sender gets an error; None for any number
        quorum: whether a cluster replicates the queues of the agents and of the dead letters
        grace: seconds that `close` lets started actions continue
        on_connection: called, on the space's loop, with `connected`, `lost`, `retrying`, `blocked`
            or `unblocked`, and a text; that is logged too

    Raises:
        MissingExtra: pika is not installed
        ConfigError: an argument is not valid

    Example:
        >>> space = AMQPSpace(amqp_options=AMQPOptions(hostname="localhost"))  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        amqp_options: AMQPOptions | None = None,
        exchange: str = "moothall",
        inbox: str | os.PathLike[str] | None = None,
        approver: Approver | None = None,
        mailbox: int = MAILBOX,
        keep: float = KEEP_S,
        mailbox_bytes: int = MAILBOX_BYTES,
        prefetch: int | None = None,
        prefetch_bytes: int = PREFETCH_BYTES,
        deliveries: int | None = MAX_DELIVERIES,
        quorum: bool = False,
        grace: float = GRACE_S,
        on_connection: Callable[[str, str], Any] | None = None,
    ) -> None:
        super().__init__(approver=approver, mailbox=mailbox, mailbox_bytes=mailbox_bytes)
        MissingExtra.unless("AMQPSpace", "amqp", "pika")
        if amqp_options is not None and not isinstance(amqp_options, AMQPOptions):
            raise ConfigError(
                f"AMQPSpace: amqp_options= must be an AMQPOptions, got {amqp_options!r}"
            )
        check_seconds("AMQPSpace: grace=", grace, zero=True)
        if type(keep) not in (int, float) or not 1 <= keep <= _MAX_KEEP_S:
            raise ConfigError(f"AMQPSpace: keep= must be 1 to {_MAX_KEEP_S} seconds, got {keep!r}")
        if inbox is not None and (not isinstance(inbox, str | os.PathLike) or not os.fspath(inbox)):
            raise ConfigError(f"AMQPSpace: inbox= must be a file's path, got {inbox!r}")
        check_boolean("AMQPSpace: quorum=", quorum)
        check_integer("AMQPSpace: deliveries=", deliveries, optional=True)
        check_integer("AMQPSpace: prefetch=", prefetch, 1, 65535, optional=True)
        check_integer("AMQPSpace: prefetch_bytes=", prefetch_bytes)
        label, parameters = "AMQPSpace: on_connection=", ("what", "text")
        check_function(label, on_connection, *parameters, plain=True, optional=True)
        self._options = AMQPOptions.from_environment() if amqp_options is None else amqp_options
        self._names = Names(exchange)
        self._inbox_path = None if inbox is None else os.fspath(inbox)
        self._limits = BrokerLimits(
            mailbox, mailbox_bytes, float(keep), prefetch, prefetch_bytes, deliveries
        )
        self._quorum = quorum
        self.grace_s: float = float(grace)
        self._on_connection = on_connection
        self._router: AMQPRouter

    _keeps_messages = True

    # -- what differs from a space in one process --------------------------------------------------

    def _observe_everywhere(self, callback: Callable[[dict[str, Any]], Any]) -> None:
        self.start_loop()
        future = self.loop_thread.run(self._router.observers_everywhere.add, callback)
        if loop_is_running():  # it must not block
            future.add_done_callback(_log_missing_observer)
        else:
            future.result()

    async def all_ids(self, group: str | None = None) -> list[str]:
        """Return the ids of the agents of all processes."""
        self.start_loop()
        future = self.loop_thread.run(self._router.requests.all_ids, group)
        return [*dict.fromkeys([*self.ids(group), *await asyncio.wrap_future(future)])]

    async def _count_everywhere(self) -> dict[str, Any]:
        return await self._router.statistics()

    async def _stand_by(self, id: str) -> bool:
        """Have requests to an id wait, since this process takes it over once it is released."""
        self.start_loop()
        return await asyncio.wrap_future(self.loop_thread.run(self._router.queues.stand_by, id))

    async def report_dead(self, agent: str, message: dict[str, Any], reason: str) -> None:
        """Publish a dead letter about an agent."""
        import pika

        from moothall.spaces.amqp.dead_letters import publish_dead_letter

        body, confirmed = json.dumps(message).encode(), asyncio.Event()
        set_confirmed = partial(asyncio.get_running_loop().call_soon_threadsafe, confirmed.set)
        properties = pika.BasicProperties(type="send")
        letter_args = (self._router.broker, properties, body, reason, agent, set_confirmed)
        self.loop_thread.call_soon(partial(publish_dead_letter, *letter_args))
        await confirmed.wait()

    def _prepare(self) -> None:
        self._inbox = Inbox(self._inbox_path)

    def make_router(self) -> Router:
        """Return a router that delivers messages over the broker."""
        from moothall.spaces.amqp.amqp_router import AMQPRouter

        self._router = AMQPRouter(
            self.loop_thread,
            self._options,
            self._names,
            self._limits,
            self._inbox,
            quorum=self._quorum,
            on_state=self._on_state,
            evict=self._detach_replaced,
        )
        return self._router

    def _finish_adding(self, mailbox: Mailbox, *, waits: bool) -> None:
        """Consume the agent's queue, and then run its `after_add`."""
        if LoopThread.is_here() or not waits:
            # The loop must not block. Messages sent meanwhile may be for this agent.
            self._router.call_soon(self._add_later, mailbox)
            return
        try:
            is_added = self.loop_thread.run(self._router.agent_queues.add, mailbox).result()
        except BaseException:
            self.loop_thread.call(self.detach, mailbox)
            raise
        if is_added:
            super()._finish_adding(mailbox, waits=waits)

    def _add_later(self, mailbox: Mailbox) -> None:
        self._router.broker.publisher.pause()

        async def add() -> None:
            try:
                is_added = await self._router.agent_queues.add(mailbox)
            except Exception as error:
                logger.error("agent %r could not be added: %s", mailbox.id, error)
                self.detach(mailbox)
                return
            finally:
                self._router.broker.publisher.resume()
            if is_added:
                super(AMQPSpace, self)._finish_adding(mailbox, waits=False)

        self.loop_thread.spawn(add())

    async def _finish(self, mailbox: Mailbox) -> None:
        if self._router.agent_queues.has_queue(mailbox):  # else nothing waits: it has no broker yet
            await super()._finish(mailbox)

    async def _stop_routing(self, mailbox: Mailbox) -> None:
        await self._router.agent_queues.stop_routing(mailbox)

    async def _wait_until_released(self, mailbox: Mailbox) -> None:
        with suppress(asyncio.CancelledError):  # the space is closed meanwhile
            await self._router.agent_queues.wait_until_deleted(mailbox.id)

    def detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        """Take an agent out of the space, and its queue from this process."""
        self._router.agent_queues.remove(mailbox)
        if mailbox.shared:
            self._router.receiver.give_back(mailbox)
        super().detach(mailbox, *spared)

    def _detach_replaced(self, mailbox: Mailbox, error: RequestError) -> None:
        """Detach an agent whose id another process has."""
        if mailbox.open:
            mailbox.detach(error, ())
        self.detach(mailbox)

    async def _shut_down(self) -> None:
        await self._router.agent_queues.leave_shared()
        await super()._shut_down()
        await self._router.shut_down()

    def _on_state(self, state: str, text: str) -> None:
        """Log that the connection was made or lost, and tell `on_connection`."""
        level = logging.INFO if state in ("connected", "unblocked") else logging.WARNING
        logger.log(level, "%s", text)
        if self._on_connection is not None:
            try:
                self._on_connection(state, text)
            except Exception as error:
                log_failure(logger, "on_connection failed and is called no more", error)
                self._on_connection = None


def space_over_broker(options: Mapping[str, Any], **settings: Any) -> AMQPSpace:
    """Return a space by the arguments of `AMQPOptions` that a user states, for our commands."""
    logging.getLogger("pika").setLevel(logging.CRITICAL + 1)  # we report a failure in one line
    return AMQPSpace(amqp_options=AMQPOptions.from_environment(**options), **settings)


def _log_missing_observer(future: Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("an observer of everything could not be added: %s", error)
