"""Interventions: stated changes to the world at the start of a step, and what of them lasts."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from civitas.clock import Clock
from civitas.errors import ConfigError
from civitas.jsonvalue import NotJSON, copy_json
from civitas.society.city.facts import Facts
from civitas.society.wants import id_order

_SETTLED: Final = ("money", "place", "moving")
"""What the commit stage alone writes into a citizen's status."""


@dataclass(frozen=True, init=False)
class Intervention:
    """A change to the world at the start of one step, before anybody perceives it.

    It is plain data: `Intervention(**intervention.as_json())` is the same one. The changes are made
    in the order of the arguments below. One that cannot be made (nobody has that id, an account has
    too little money) is a failure of the step, `(step, "intervention", why)`, and the others are
    made.

    Args:
        at_step: the number of the step
        when: instead of `at_step`, the date and time: the step in which it falls
        facts: facts that hold from then on, beside the society's own or in their place
        close: ids of places that are closed from then on, as outside of their opening hours: a
            citizen may still go there, but no firm there sells or has work
        open: ids of closed places that keep their own hours again
        status: values that replace those in the status of citizens, by name; money, place and
            moving cannot be set
        citizens: whose status: their ids; or a dict, such as `{"work": "office-1"}`, for all whose
            status has these values; all citizens if left out
        pay: payments as `(from, to, cents)`, of citizens and services: money only moves
        news: announcements, each JSON data, that citizens perceive in that step

    Raises:
        ConfigError: an argument is wrong, or nothing is to change
    """

    at_step: int | None
    when: str | None
    facts: dict[str, Any]
    close: list[str]
    open: list[str]
    status: dict[str, Any]
    citizens: list[str] | dict[str, Any] | None
    pay: list[list[Any]]
    news: list[Any]

    def __init__(
        self,
        at_step: int | None = None,
        *,
        when: str | datetime | None = None,
        facts: Mapping[str, Any] | None = None,
        close: Iterable[str] = (),
        open: Iterable[str] = (),
        status: Mapping[str, Any] | None = None,
        citizens: Iterable[str | int] | Mapping[str, Any] | None = None,
        pay: Iterable[Any] = (),
        news: Iterable[Any] = (),
    ) -> None:
        if (at_step is None) == (when is None):
            raise ConfigError("an intervention must have at_step or when, and not both")
        if at_step is not None and (type(at_step) is not int or at_step < 0):
            raise ConfigError(f"at_step must be a whole number, 0 or more, got {at_step!r:.80}")
        if isinstance(citizens, Mapping):
            whose: Any = dict(citizens)
        else:
            whose = None if citizens is None else [str(id) for id in _several(citizens, "citizens")]
        made = {
            "at_step": at_step,
            "when": None if when is None else _moment(when).isoformat(),
            "facts": dict(facts or {}),
            "close": _several(close, "close"),
            "open": _several(open, "open"),
            "status": dict(status or {}),
            "citizens": whose,
            "pay": [_payment(each) for each in _several(pay, "pay")],
            "news": _several(news, "news"),
        }
        if not any(made[name] for name in ("facts", "close", "open", "status", "pay", "news")):
            raise ConfigError("an intervention must change something: facts, status, close, …")
        settled = [name for name in _SETTLED if name in made["status"]]
        if settled:
            raise ConfigError(f"an intervention cannot set {settled[0]!r} of a status: use pay")
        try:
            for name, value in made.items():
                object.__setattr__(self, name, copy_json(value, name))
        except NotJSON as error:
            raise ConfigError(f"an intervention must be JSON data: {error}") from None
        Facts(self.facts)  # the names are checked there

    def as_json(self) -> dict[str, Any]:
        """The arguments that make it, as JSON data."""
        return asdict(self)

    def falls_in(self, step: int, clock: Clock) -> bool:
        """Whether it is made at the start of a step, which begins at that time."""
        if self.when is None:
            return self.at_step == step
        return timedelta() <= _moment(self.when) - clock.moment < timedelta(seconds=clock.step_s)

    def is_past(self, step: int, clock: Clock) -> bool:
        """Whether its step is over when that one comes next."""
        if self.when is None:
            return self.at_step is not None and self.at_step < step
        return _moment(self.when) < clock.moment

    def change(self, society: Any) -> list[str]:
        """Make the changes; gives why some could not be made."""
        changed: Changed = society.changed
        changed.facts.update(copy_json(self.facts))
        if self.close or self.open:
            changed.closed.difference_update(self.open)
            changed.closed.update(self.close)
            society.city = society.books.city = changed.city()
        failed = self._set_status(society)
        for sender, to, cents in self.pay:
            why = society.books.pay(sender, to, cents)
            if why:
                failed.append(f"pay: {why}")
        society.news += copy_json(self.news)
        return failed

    def _set_status(self, society: Any) -> list[str]:
        failed: list[str] = []
        if not self.status:
            return failed
        if hasattr(society.books, "set_status"):
            failed += society.books.set_status(copy_json(self.status), self.citizens)
            return failed
        where, whose = society.books.where, self.citizens
        for id in whose if isinstance(whose, list) else sorted(where, key=id_order):
            if id not in where:
                failed.append(f"status: there is no citizen {id!r}")
                continue
            status = society.books.status_of(id)
            if isinstance(whose, dict) and any(status.get(k) != v for k, v in whose.items()):
                continue
            status.update(copy_json(self.status))
        return failed


class Changed:
    """What interventions have changed and what lasts: facts and closed places.

    Args:
        city: the places as they were made; they never change

    Attributes:
        facts: the facts
        closed: the ids of the closed places
    """

    def __init__(self, city: Any) -> None:
        self._city = city
        self.facts: dict[str, Any] = {}
        self.closed: set[str] = set()

    def of(self, facts: Any) -> Any:
        """The society's facts with those of interventions."""
        return Facts({**(facts or {}), **self.facts}) if self.facts else facts

    def city(self) -> Any:
        """The places, of which some are closed."""
        own, closed = self._city, frozenset(self.closed)
        if not closed:
            return own
        hours = getattr(own, "is_open", None)

        def is_open(place: str, time: int) -> bool:
            return place not in closed and (hours is None or bool(hours(place, time)))

        made = copy.copy(own)
        made.is_open = is_open
        made.closed = closed  # of those who ask for many places at once
        return made

    def check(self, intervention: Intervention) -> None:
        """Check that there are the places that it closes or opens.

        Raises:
            ConfigError: one is unknown
        """
        ids = set() if self._city is None else set(self._city.ids())
        for place in (*intervention.close, *intervention.open):
            if place not in ids:
                raise ConfigError(f"an intervention closes or opens {place!r}, which is no place")

    def state_dict(self) -> dict[str, Any]:
        """It as JSON data."""
        return {"facts": self.facts, "closed": sorted(self.closed)}

    def load_state_dict(self, given: dict[str, Any]) -> None:
        """Be as another was."""
        self.facts, self.closed = dict(given["facts"]), set(given["closed"])


def _moment(when: str | datetime) -> datetime:
    try:
        return Clock(when).start
    except ConfigError as error:
        raise ConfigError(f"when: {error}") from None


def _several(given: Any, name: str) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(f"{name} must be a list, got {given!r:.80}")
    return list(given)


def _payment(given: Any) -> list[Any]:
    payment = list(given) if isinstance(given, list | tuple) else []
    if len(payment) != 3 or type(payment[2]) is not int or payment[2] < 1:
        raise ConfigError(f"a payment must be (from, to, cents), got {given!r:.80}")
    return [str(payment[0]), str(payment[1]), payment[2]]
