"""A mailbox with lanes: in order within a lane, several lanes side by side, in fair turns."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Any

from moothall.agents.agent import Agent
from moothall.foundation.errors import RequestError
from moothall.spaces.delivery import QUEUED, RUNNING, Delivery, MessageLine, RouterPort
from moothall.spaces.mailbox import MAX_PER_TURN, Mailbox

logger: logging.Logger = logging.getLogger("moothall.spaces")


class LanedMailbox(Mailbox):
    """Orders the messages of an agent that assigns them to lanes (`Agent.find_lane`).

    Waiting lanes form a line. After each message a lane goes to the end of the line, so that a lane
    of a hundred messages takes one place and delays no other. Messages without a lane are handled
    beside the lanes, as in any mailbox.
    """

    # No `__slots__`: with them it could not be joined to another class that has its own.

    def __init__(self, agent: Agent, space: Any, router: RouterPort) -> None:
        super().__init__(agent, space, router)
        self.limit = 0  # the box does not hold all waiting messages
        self.max_lanes: int = agent.max_lanes  # how many lanes run at a time
        self._lines: dict[str, MessageLine] = {}  # by lane
        self._busy_lanes: dict[str, Delivery] = {}  # by lane: the message being handled
        self._ready_lanes: OrderedDict[str, None] = OrderedDict()  # their first may start
        self._queued_count = 0

    @property
    def places(self) -> int:
        """How many messages may be handled at a time."""
        return self.concurrency + self.max_lanes

    def queued(self) -> Iterable[Delivery]:
        """Return the messages that wait, and dead ones that are not removed yet."""
        return chain(self.box, *self._lines.values())

    def blockers_of(self, delivery: Delivery | None) -> list[Delivery]:
        """Return the handlers of which one must end before a message, or any other, starts."""
        lane = None if delivery is None else delivery.lane
        if lane is None:
            handlers = super().blockers_of(delivery)
            return (
                [*handlers, *self._busy_lanes.values()]
                if handlers and delivery is None
                else handlers
            )
        if self.about_to_start():
            return []
        if lane in self._busy_lanes:
            return [self._busy_lanes[lane]]
        return [*self._busy_lanes.values()] if len(self._busy_lanes) >= self.max_lanes else []

    def waiting(self) -> int:
        """Return how many messages wait, those that await approval included."""
        return super().waiting() + self._queued_count

    def accept(self, delivery: Delivery) -> None:
        """Queue a message until its turn, in its lane if it has one."""
        name = self._lane_of(delivery)
        if name is None:
            super().accept(delivery)
            return
        delivery.mailbox = self
        delivery.state = QUEUED
        self._queue(name, delivery)
        if delivery.parent is not None and self.active:
            self._add_reentrant(delivery)

    def _queue(self, name: str, delivery: Delivery, is_reentrant: bool = False) -> None:
        delivery.lane = name
        lane = self._lines.setdefault(name, self.line_type())
        lane.lane = name
        (lane.appendleft if is_reentrant else lane.append)(delivery)
        self._queued_count += 1
        if name not in self._busy_lanes:
            self._ready_lanes[name] = None

    def _lane_of(self, delivery: Delivery) -> str | None:
        message = delivery.message()
        if message is None:
            return None
        try:
            return self.agent.find_lane(message, delivery)
        except BaseException:  # the agent's own code
            logger.exception("the lane of %s is not known, so it has none", delivery)
            return None

    def forget(self, delivery: Delivery) -> None:
        """Count a waiting message as dead: it has ended, or runs, before its turn."""
        name: str | None = delivery.lane
        if name is None:
            super().forget(delivery)
            return
        delivery.lane = None
        self._subtract_bytes(delivery)
        self._lines[name].forget(delivery)
        self._note_removed(name)

    def _note_removed(self, name: str) -> None:
        """Count a message that left its lane; remove an empty lane from the line."""
        lane = self._lines[name]
        self._queued_count -= 1
        if len(lane) == lane.dead:
            del self._lines[name]
            self._ready_lanes.pop(name, None)

    def dispatch_ready(self) -> None:
        """Handle the messages that may be handled now."""
        super().dispatch_ready()
        if self.departure is not None:
            return
        turns = MAX_PER_TURN
        while self._ready_lanes and not self.paused and len(self._busy_lanes) < self.max_lanes:
            if not turns:
                self.router.make_ready(self)
                break
            turns -= 1
            name = next(iter(self._ready_lanes))
            delivery = self._lines[name].take()
            self._note_removed(name)
            if self.closing and delivery.parent is None:
                delivery.lane = None
                self.not_started.append(delivery)
            else:
                self._begin_in(name, delivery)

    def _begin_in(self, name: str, delivery: Delivery) -> None:
        """Handle a message of a lane, and mark the lane as busy."""
        self._ready_lanes.pop(name, None)
        self._busy_lanes[name] = delivery
        delivery.is_reentrant = True
        self.begin(delivery)
        if self._busy_lanes.get(name) is delivery and delivery.state != RUNNING:
            self._free_lane(name)  # it was refused, or awaits approval

    def _free_lane(self, name: str) -> None:
        del self._busy_lanes[name]
        if name in self._lines:
            self._ready_lanes[name] = None

    def leave_lane(self, delivery: Delivery) -> None:
        """Let the next message of a handler's lane start: it waits for work of its own."""
        name: str | None = delivery.lane
        if name is not None and self._busy_lanes.get(name) is delivery:
            delivery.lane = None
            self._free_lane(name)
            self.router.make_ready(self)

    def finish(self, delivery: Delivery) -> None:
        """Free the lane or place of a handler that has ended, so that the next may start."""
        name: str | None = delivery.lane
        if name is not None and self._busy_lanes.get(name) is delivery:
            reentrant = delivery.reentrant
            if reentrant is None:
                self._free_lane(name)
            else:  # the re-entrant request on top of it continues, and takes its place
                self._busy_lanes[name] = reentrant
                reentrant.lane = name
        super().finish(delivery)
        if self._ready_lanes:
            self.router.make_ready(self)

    def put_back(self, delivery: Delivery) -> None:
        """Put a message back at the front of its lane, and the lane at the front of the line."""
        name: str | None = delivery.lane
        if name is None:
            super().put_back(delivery)
            return
        delivery.state = QUEUED
        del self._busy_lanes[name]
        self._queue(name, delivery, is_reentrant=True)
        self._ready_lanes.move_to_end(name, last=False)

    def detach(self, error: RequestError, spared: tuple[Delivery | None, ...]) -> int:
        """End all waiting and running messages with `error`, except the `spared` handlers."""
        for lane in self._lines.values():
            self.box.extend(lane.live())
        self._lines.clear()
        self._ready_lanes.clear()
        self._queued_count = 0
        return super().detach(error, spared)


_LANED_CLASSES: dict[type[Mailbox], type[Mailbox]] = {Mailbox: LanedMailbox}


def laned_class(mailbox_class: type[Mailbox]) -> type[Mailbox]:
    """Return a class of mailboxes with lanes, of which each has the line of a class of mailboxes.

    The lanes stand before the class: its `accept` gets only messages that wait in its box.
    """
    if mailbox_class not in _LANED_CLASSES:
        _LANED_CLASSES[mailbox_class] = type(
            mailbox_class.__name__, (LanedMailbox, mailbox_class), {}
        )
    return _LANED_CLASSES[mailbox_class]
