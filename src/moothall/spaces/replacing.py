"""Agents that come: in the place of another, whose messages wait for it, or as expected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial

from moothall.actions.message import address
from moothall.agents.agent import Agent, overrides
from moothall.foundation.errors import AgentNotFound, AgentStopped, DefinitionError
from moothall.foundation.text import log_failure
from moothall.spaces.delivery import CALLBACK, FINISHED, Delivery
from moothall.spaces.draining import POLL_INTERVAL_S, is_busy
from moothall.spaces.handler import call_callback
from moothall.spaces.lanes import LanedMailbox
from moothall.spaces.mailbox import Mailbox
from moothall.spaces.request import settle

logger: logging.Logger = logging.getLogger("moothall.spaces")

_LEAVE_S = 5.0
"""How long a space waits for `before_remove` of the agents that leave."""

_LINGER_S = 1.0
"""How long what an agent was doing may go on when another takes its place."""


class Expected:
    """The agents that a space expects, and who waits until they are up; callable in any thread.

    Args:
        mailboxes: returns those of the agents in the space, by id
    """

    def __init__(self, mailboxes: Callable[[], Mapping[str, Mailbox]]) -> None:
        self._mailboxes = mailboxes
        self._may_come: dict[str, bool] = {}  # by id; one that has failed does not
        self._waiters: list[Future[None]] = []

    def expect(self, ids: Iterable[str]) -> None:
        """Have runs that may call agents wait until these are up."""
        self._may_come |= dict.fromkeys(ids, True)

    def fail(self, id: str) -> None:
        """Note that an agent does not come: only runs that discover it by its id wait for it."""
        if id in self._may_come:
            self._may_come[id] = False
            self.note_change()

    def forget(self, id: str) -> None:
        """Have nobody wait for an agent, such as one that another process has."""
        self._may_come.pop(id, None)
        self.note_change()

    def absent(self, ids: Collection[str] | None = None) -> dict[str, bool]:
        """Return which of these agents, or of all, are not up, and whether each may still come.

        Among all, one that has failed is left out: the others suffice.
        """
        mailboxes = self._mailboxes()
        return {
            id: may_come
            for id, may_come in [*self._may_come.items()]
            if (may_come if ids is None else id in ids) and not _is_up(mailboxes.get(id))
        }

    def next_change(self) -> Future[None]:
        """Return a future that is done once an agent has come or failed, or the space is closed."""
        waiter: Future[None] = Future()
        self._waiters.append(waiter)
        return waiter

    def note_change(self) -> None:
        """Wake who waits."""
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            if each.set_running_or_notify_cancel():
                each.set_result(None)


def _is_up(mailbox: Mailbox | None) -> bool:
    """Return whether an agent has come to its end of `after_add`, and lives."""
    if mailbox is None or mailbox.end_suspension is not None:
        return False
    return mailbox.arrival is None or mailbox.arrival.state == FINISHED


async def wait_for_callbacks(callbacks: list[Delivery]) -> None:
    """Wait for each `before_remove`, together at most `_LEAVE_S`; log the late ones."""
    loop = asyncio.get_running_loop()
    futures = {loop.create_future(): delivery for delivery in callbacks}
    for future, delivery in futures.items():
        delivery.on_end(partial(settle, future))
    late_futures = (await asyncio.wait(futures, timeout=_LEAVE_S))[1] if futures else ()
    if late_futures:
        names = ", ".join(futures[future].envelope.to for future in late_futures)
        logger.warning("before_remove of %s took over %s s: not waited for", names, _LEAVE_S)


def not_here_error(agent: Agent | str | int) -> AgentNotFound:
    """Return the error for an agent that is not in a space."""
    if isinstance(agent, Agent):  # another one of its id may be there
        return AgentNotFound(f"{agent!r} is not in this space")
    return AgentNotFound(f"no agent {agent!r} in this space")


def check_free(agent: Agent) -> None:
    """Raise DefinitionError if an agent is in a space that is open."""
    if agent.space_mailbox is not None and not agent.space_mailbox.space.is_closed:
        raise DefinitionError(f"agent {agent.id!r} is in another space; remove it there first")


def check_successor(old: Agent, new: Agent) -> None:
    """Check that an agent can take the place of another; DefinitionError if not."""
    if new is not old and address(new.id) != address(old.id):
        raise DefinitionError(
            f"agent {new.id!r} cannot take the place of agent {old.id!r}: make it with that id"
        )
    if overrides(new, "find_lane") != overrides(old, "find_lane"):
        raise DefinitionError(
            f"agent {old.id!r}: a {type(new).__name__} cannot take the place of a "
            f"{type(old).__name__}, whose messages are in other lanes: remove it first"
        )
    if new is not old:
        check_free(new)


async def take_place(mailbox: Mailbox, new: Agent, on_taken: Callable[[], None]) -> None:
    """Put an agent in the place of the one of a mailbox; `on_taken` is as in `_hand_over`."""
    mailbox.suspend()
    # Once: a successor whose `after_add` raised has left the place to another.
    if not mailbox.retired:
        await _retire(mailbox)
        mailbox.retired = True
    await _hand_over(mailbox, new, on_taken)
    resume, mailbox.end_suspension, mailbox.retired = mailbox.end_suspension, None, False
    if resume is not None:
        resume()
    mailbox.space.expected.note_change()


async def _retire(mailbox: Mailbox) -> None:
    """End what a dead agent was doing; its mailbox is paused. On the loop.

    Its actions have a second to end. Then they are cancelled, and their outcome is `AgentStopped`.
    """
    loop, old = mailbox.router.loop, mailbox.agent
    until = loop.time() + _LINGER_S
    while is_busy(mailbox) and loop.time() < until:  # noqa: ASYNC110 - handlers end without an event
        await asyncio.sleep(POLL_INTERVAL_S)
    stop_error = AgentStopped(f'agent "{mailbox.id}" died and is started again')
    for delivery in [*mailbox.active, *mailbox.asking]:
        if delivery.kind != CALLBACK:
            mailbox.router.abort(delivery, stop_error)
    if overrides(old, "before_remove"):
        try:
            async with asyncio.timeout(_LEAVE_S):
                await call_callback(mailbox, old.before_remove)
        except Exception as error:
            log_failure(logger, f"before_remove of agent {mailbox.id!r} failed", error)


async def _hand_over(mailbox: Mailbox, new: Agent, on_taken: Callable[[], None]) -> None:
    """Give a paused mailbox to an agent, and run its `after_add`; `on_taken` comes in between."""
    old = mailbox.agent
    if mailbox.departure is not None or not mailbox.open:  # it was removed meanwhile
        raise not_here_error(old)
    if old is not new and old.space_mailbox is mailbox:
        old.space_mailbox = None
    mailbox.agent = new
    new.space_mailbox = mailbox
    mailbox.look_up_callbacks()
    mailbox.offers = mailbox.look_up_actions()
    mailbox.concurrency = new.concurrency
    if isinstance(mailbox, LanedMailbox):
        mailbox.max_lanes = new.max_lanes
    on_taken()
    if overrides(new, "after_add"):
        await mailbox.carry(partial(call_callback, mailbox, new.after_add))
