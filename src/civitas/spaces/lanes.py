"""A mailbox with lanes: in order in each lane, several lanes side by side, fair to all."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from civitas.agent import Agent
from civitas.errors import RequestError
from civitas.spaces.delivery import ENDED, QUEUED, RUNNING, Delivery, RouterPort
from civitas.spaces.mailbox import AT_ONCE, Mailbox

logger = logging.getLogger("civitas.space")


class Lane:
    """The messages of one lane: those that wait, and the one that is handled."""

    __slots__ = ("current", "name", "queue")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: OrderedDict[Delivery, None] = OrderedDict()
        self.current: Delivery | None = None


class LanedMailbox(Mailbox):
    """The order of messages of an agent that states their lanes (`Agent._lane`).

    Lanes that wait stand in a line. One whose message has ended goes to its end, so that a lane of
    a hundred messages holds one place and nobody else up. Messages without a lane are handled
    beside the lanes, as in any mailbox.
    """

    __slots__ = ("_lanes", "_line", "_paused", "_queued", "_side_by_side", "_taken")

    def __init__(self, agent: Agent, space: Any, router: RouterPort) -> None:
        super().__init__(agent, space, router)
        self.limit = 0  # not all that wait are in the box
        self._side_by_side = agent._lanes
        self._lanes: dict[str, Lane] = {}
        self._line: deque[Lane] = deque()
        self._queued = 0
        self._taken = 0
        self._paused = 0

    @property
    def places(self) -> int:
        """How many messages may be handled at a time."""
        return self.concurrency + self._side_by_side

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
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name)
            self._line.append(lane)
        elif not lane.queue and lane.current is None:
            self._line.append(lane)
        lane.queue[delivery] = None
        delivery.lane = lane
        self._queued += 1
        if delivery.parent is not None and self.active:
            self._hold(delivery)

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
        lane: Lane | None = delivery.lane
        if lane is None:
            super().forget(delivery)
            return
        delivery.lane = None
        del lane.queue[delivery]
        self._queued -= 1
        if not lane.queue and lane.current is None:
            self._line.remove(lane)
            del self._lanes[lane.name]

    def dispatch_ready(self) -> None:
        """Handle what may be handled now."""
        super().dispatch_ready()
        arriving = self.arriving
        if self._paused or not self.concurrency or self.leaving is not None:
            return
        if arriving is not None and arriving.state != ENDED:
            return
        line = self._line
        turns = AT_ONCE
        while line and self._taken < self._side_by_side:
            if not turns:
                self.router.make_ready(self)
                break
            turns -= 1
            lane = line.popleft()
            self._begin_in(lane, next(iter(lane.queue)))

    def _begin_in(self, lane: Lane, delivery: Delivery) -> None:
        """Handle a message of a lane that is not in the line any more."""
        del lane.queue[delivery]
        self._queued -= 1
        lane.current = delivery
        self._taken += 1
        delivery.inner = True
        self.begin(delivery)
        if lane.current is delivery and delivery.state != RUNNING:
            self._free(lane)  # it was refused, or awaits approval

    def _free(self, lane: Lane) -> None:
        lane.current = None
        self._taken -= 1
        if lane.queue:
            self._line.append(lane)
        else:
            self._lanes.pop(lane.name, None)  # the agent may have left

    def finish(self, delivery: Delivery) -> None:
        """A handler has ended; the next may begin."""
        lane: Lane | None = delivery.lane
        if lane is not None and lane.current is delivery:
            over = delivery.over
            if over is None:
                self._free(lane)
            else:  # what was let in on top of it goes on, and takes its place
                lane.current = over
                over.lane = lane
        super().finish(delivery)
        if self._line:
            self.router.make_ready(self)

    def put_back(self, delivery: Delivery) -> None:
        """Put a message back, first in its order."""
        lane: Lane | None = delivery.lane
        if lane is None:
            super().put_back(delivery)
            return
        delivery.state = QUEUED
        lane.queue[delivery] = None
        lane.queue.move_to_end(delivery, last=False)
        self._queued += 1
        lane.current = None
        self._taken -= 1
        self._line.appendleft(lane)

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
        for lane in list(self._line):
            if self._taken >= self._side_by_side:
                return
            for delivery in lane.queue:
                if delivery.parent is not None:
                    self._line.remove(lane)
                    self._begin_in(lane, delivery)
                    break

    def detach(self, error: RequestError, spared: tuple[Delivery | None, ...]) -> None:
        """End whatever waits or runs here with `error`, but for the handlers that asked for it."""
        waiting = [delivery for lane in self._lanes.values() for delivery in lane.queue]
        for lane in self._lanes.values():
            lane.queue.clear()
        self._lanes.clear()
        self._line.clear()
        self._queued = 0
        super().detach(error, spared)
        for delivery in waiting:
            delivery.state = ENDED
            self.router.refuse(delivery, error)
