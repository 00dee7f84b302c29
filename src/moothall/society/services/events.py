"""A service whose methods run at times of their own, between two steps: queues, machines, feeds."""

from __future__ import annotations

import heapq
import inspect
import math
from typing import Any

from moothall import ConfigError, DefinitionError
from moothall.build import NotJSON, copy_json, excerpt
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.kept import sets_own


class EventService(Service):
    """A service with events: its methods run at times in seconds, which need not be those of steps.

    A step settles all wants as of its begin, then runs the events that fall into it, the earliest
    first, and of equal times the one that was scheduled first. An event may schedule others, in the
    same step too. Each service has its own events; services run in id order, each for the whole
    step. A method is called with the books and the arguments of `at`; if it fails, the run ends.

    The events are part of the society's state, as is what a subclass says in `keeps`. So a subclass
    has no `state_dict` of its own.

    Args:
        id: the id that messages to the service name
        place: the id of the service's place; None for none
        money: the service's cents at the start

    Attributes:
        now: seconds since the society's start: of an event its time, else the begin of a step

    Raises:
        DefinitionError: a subclass defines `state_dict`
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for name in ("state_dict", "load_state_dict"):
            if getattr(cls, name) is not getattr(EventService, name):
                raise DefinitionError(
                    f"{cls.__name__} must not define {name}, where an EventService has its events: "
                    "name what it keeps in `keeps`"
                )

    @sets_own
    def __init__(self, id: str, place: str | None = None, money: int = 0) -> None:
        super().__init__(id, place, money)
        self.now: float = 0.0
        self._events: list[tuple[float, int, str, dict[str, Any]]] = []
        self._next_number = 0

    def at(self, time: float, action: str, **args: object) -> None:
        """Schedule an event.

        Args:
            time: seconds since the society's start, `now` or later
            action: the name of the method to call
            args: what it is called with besides the books, as JSON data

        Raises:
            ConfigError: the time is past or no number, there is no such method, or an argument is
                no JSON data
        """
        is_number = isinstance(time, int | float) and not isinstance(time, bool)
        if not is_number or not self.now <= time < math.inf:
            raise ConfigError(
                f"time must be a number of seconds from {self.now} (now) up, got {excerpt(time)}"
            )
        method = getattr(self, action, None) if isinstance(action, str) else None
        if not callable(method) or inspect.iscoroutinefunction(method):
            name = type(self).__name__
            rule = f"must be the name of a plain method of {name}, got {excerpt(action)}"
            raise ConfigError(f"action {rule}")
        try:
            event = (float(time), self._next_number, action, copy_json(args, "args"))
        except NotJSON as error:
            raise ConfigError(f"an event's arguments must be JSON data: {error}") from None
        heapq.heappush(self._events, event)
        self._next_number += 1

    def after(self, seconds: float, action: str, **args: object) -> None:
        """Schedule an event so many seconds after `now`, as `at` does."""
        self.at(self.now + seconds, action, **args)

    def after_step(self, books: Books) -> None:
        """Run the events that fall into the step. A subclass's own calls it."""
        end = books.clock.elapsed + books.seconds
        while self._events and self._events[0][0] < end:
            self.now, _, action, args = heapq.heappop(self._events)
            getattr(self, action)(books, **args)
        self.now = float(end)

    def state_dict(self) -> dict[str, Any]:
        """Return the time and the events to come, as JSON data."""
        events = [[*event] for event in sorted(self._events, key=lambda event: event[:2])]
        return {"now": self.now, "scheduled": self._next_number, "events": events}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.now, self._next_number = state["now"], state["scheduled"]
        self._events = [(time, number, name, args) for time, number, name, args in state["events"]]
