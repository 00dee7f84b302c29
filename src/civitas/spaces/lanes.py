"""A mailbox with lanes: in order in each lane, several lanes side by side, fair to all."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from civitas.agent import Agent
from civitas.errors import RequestError
from civitas.spaces.delivery import ENDED, QUEUED, RUNNING, Delivery, RouterPort
from civitas.spaces.mailbox import AT_ONCE, Mailbox

logger = logging.getLogger("civitas.space")


class LanedMailbox(Mailbox):
    """The order of messages of an agent that states their lanes (`Agent._lane`).

    Lanes that wait stand in a line. One whose message has ended goes to its end, so that a lane of
    a hundred messages holds one place and nobody else up. Messages without a lane are handled
    beside the lanes, as in any mailbox.
    """

    __slots__ = ("_busy", "_line", "_paused", "_queued", "_side_by_side", "_waiting")

    def __init__(self, agent: Agent, space: Any, router: RouterPort) -> None:
        super().__init__(agent, space, router)
        self.limit = 0  # not all that wait are in the box
        self._side_by_side = agent._lanes
        self._waiting: dict[str, OrderedDict[Delivery, None]] = {}  # by lane
        self._busy: dict[str, Delivery] = {}  # by lane: what is handled
        self._line: OrderedDict[str, None] = OrderedDict()  # lanes of which one may be begun
        self._queued = 0
        self._paused = 0

    def waiting(self) -> int:
        """How many messages wait, those that await approval included."""
        return super().waiting() + self._queued

    def accept(self, delivery: Delivery) -> None:
        """Put a message where it waits for its turn."""
        name = self._name_of(delivery)
        if name is None:
            super().accept(delivery)
            return
        delivery.mailbox = self
        delivery.state = QUEUED
        self._queue(name, delivery)
        if delivery.parent is not None and self.active:
            self._hold(delivery)

    def _queue(self, name: str, delivery: Delivery) -> None:
        delivery.lane = name
        self._waiting.setdefault(name, OrderedDict())[delivery] = None
        self._queued += 1
        if name not in self._busy:
            self._line[name] = None

    def _name_of(self, delivery: Delivery) -> str | None:
        message = delivery.message()
        if message is None:
            return None
        try:
            return self.agent._lane(message, delivery.answered_thread)
        except BaseException:  # the agent's own code
            logger.exception("the lane of %s is not known, so it has none", delivery)
            return None

    def forget(self, delivery: Delivery) -> None:
        """A message that waits has ended, or was let in, before its turn."""
        name: str | None = delivery.lane
        if name is None:
            super().forget(delivery)
            return
        delivery.lane = None
        self._take(name, delivery)

    def _take(self, name: str, delivery: Delivery) -> None:
        """Take a message out of its lane, and a lane of which none waits out of the line."""
        lane = self._waiting[name]
        del lane[delivery]
        self._queued -= 1
        if not lane:
            del self._waiting[name]
            self._line.pop(name, None)

    def dispatch_ready(self) -> None:
        """Handle what may be handled now."""
        super().dispatch_ready()
        arriving = self.arriving
        if self._paused or not self.concurrency or self.leaving is not None:
            return
        if arriving is not None and arriving.state != ENDED:
            return
        turns = AT_ONCE
        while self._line and len(self._busy) < self._side_by_side:
            if not turns:
                self.router.make_ready(self)
                break
            turns -= 1
            name = next(iter(self._line))
            self._begin_in(name, next(iter(self._waiting[name])))

    def _begin_in(self, name: str, delivery: Delivery) -> None:
        """Handle a message of a lane."""
        self._take(name, delivery)
        self._line.pop(name, None)
        self._busy[name] = delivery
        delivery.inner = True
        self.begin(delivery)
        if self._busy.get(name) is delivery and delivery.state != RUNNING:
            self._free(name)  # it was refused, or awaits approval

    def _free(self, name: str) -> None:
        del self._busy[name]
        if name in self._waiting:
            self._line[name] = None

    def finish(self, delivery: Delivery) -> None:
        """A handler has ended; the next may begin."""
        name: str | None = delivery.lane
        if name is not None and self._busy.get(name) is delivery:
            over = delivery.over
            if over is None:
                self._free(name)
            else:  # what was let in on top of it goes on, and takes its place
                self._busy[name] = over
                over.lane = name
        super().finish(delivery)
        if self._line:
            self.router.make_ready(self)

    def put_back(self, delivery: Delivery) -> None:
        """Put a message back, first in its order."""
        name: str | None = delivery.lane
        if name is None:
            super().put_back(delivery)
            return
        delivery.state = QUEUED
        del self._busy[name]
        self._queue(name, delivery)
        self._waiting[name].move_to_end(delivery, last=False)
        self._line.move_to_end(name, last=False)

    def pause(self) -> Callable[[], None]:
        """Begin nothing; gives what begins again."""
        begin_again = super().pause()
        self._paused += 1

        def go_on() -> None:
            self._paused -= 1
            begin_again()

        return go_on

    def begin_awaited(self, places: int) -> None:
        """Begin what handlers of this process wait for, and nothing else."""
        super().begin_awaited(places)
        for name in list(self._line):
            if len(self._busy) >= self._side_by_side:
                return
            for delivery in self._waiting[name]:
                if delivery.parent is not None:
                    self._begin_in(name, delivery)
                    break

    def detach(self, error: RequestError, spared: tuple[Delivery | None, ...]) -> None:
        """End whatever waits or runs here with `error`, but for the handlers that asked for it."""
        waiting = [delivery for lane in self._waiting.values() for delivery in lane]
        self._waiting.clear()
        self._line.clear()
        self._queued = 0
        super().detach(error, spared)
        for delivery in waiting:
            delivery.state = ENDED
            self.router.refuse(delivery, error)
