"""Interventions: changes to the world at the start of a step, and those that last."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Final

from moothall import ConfigError
from moothall.build import NotJSON, check_integer, copy_json, excerpt, shorten
from moothall.society.clock import Clock
from moothall.society.kernel.draw import turn_key
from moothall.society.kernel.facts import Facts
from moothall.society.kernel.mind import HEARD_FROM

_MAX_TEXT: Final = 2_000  # characters of a text that citizens are told
USUAL_SPEED: Final = 100  # of roads, in percent
_MAX_SPEED: Final = 1_000
_COMMIT_FIELDS: Final = ("money", "place", "moving")
"""The parts of a citizen's status that only the commit stage writes."""


@dataclass(frozen=True)
class Intervention:
    """A change to the world at the start of one step, before citizens perceive it.

    It is plain data: `Intervention(**intervention.as_json())` is equal to it. The changes are made
    in the order of the arguments below. If one cannot be made (no citizen has that id, an account
    has too little money), the step has a failure `(step, "intervention", why)`, and the others
    are made.

    Args:
        at_step: the number of the step
        when: instead of `at_step`, a date and time within the step
        facts: facts that hold from then on, beside the society's own or in their place
        close: ids of places, or kinds of them, that are closed from then on, as outside of their
            opening hours: a citizen may still go there, but no firm there sells or has work
        open: closed places, or kinds of them, that keep their own hours again
        close_roads: roads of a `City` that are closed from then on, by their ids, by the name of a
            street, or by their two ends, such as `("n17", "n24")`; who is on the way arrives
        open_roads: closed roads that are open again
        road_speed: the speed on roads in percent of the usual one from then on, such as
            `{"Main Street": 50}`; 100 is the usual speed
        modes: for which modes of travel roads are closed, opened or slow; for all if left out
        status: values that replace those in the status of citizens, by name; a dict in it, such
            as `{"needs": {"hunger": 200}}`, replaces only what it names; money, place and moving
            cannot be set
        citizens: whose status is set, and who is told: ids; or a dict, such as
            `{"work": "office-1"}`, for all whose status has these values; all if left out
        pay: payments between citizens and services, as `(from, to, cents)` or as a dict with
            these names: money only moves; `everyone` is each citizen
        news: announcements, each JSON data, that citizens perceive in that step
        tell: texts that the same `citizens` hear and remember; the others do not

    Raises:
        ConfigError: an argument is wrong, or nothing would change
    """

    at_step: int | None = None
    _: KW_ONLY
    when: str | datetime | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    close: Sequence[str] = ()
    open: Sequence[str] = ()
    close_roads: Sequence[str | Sequence[str]] = ()
    open_roads: Sequence[str | Sequence[str]] = ()
    road_speed: Mapping[str, int] = field(default_factory=dict)
    modes: Sequence[str] | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    citizens: Sequence[str | int] | Mapping[str, Any] | None = None
    pay: Sequence[Sequence[Any]] = ()
    news: Sequence[Any] = ()
    tell: Sequence[str] = ()

    def __post_init__(self) -> None:
        if (self.at_step is None) == (self.when is None):
            raise ConfigError("an intervention must have at_step or when, and not both")
        if self.at_step is not None:
            check_integer("at_step", self.at_step, 0, None)
        values = {**vars(self), "when": self._moment and self._moment.isoformat()}
        for name in ("facts", "status", "road_speed"):
            if not isinstance(mapping := getattr(self, name) or {}, Mapping):
                raise ConfigError(f"{name} must be a dict, got {mapping!r:.80}")
            values[name] = dict(mapping)
        for name in ("close", "open", "close_roads", "open_roads", "pay", "news", "tell"):
            values[name] = checked_list(values[name], name)
        for name in ("close_roads", "open_roads"):
            values[name] = [_road(each, name) for each in values[name]]
        check_speeds(values["road_speed"])
        if self.modes is not None:
            values["modes"] = checked_list(self.modes, "modes")
        values["pay"] = [_payment(each) for each in values["pay"]]
        if self.citizens is not None and not isinstance(self.citizens, Mapping):
            values["citizens"] = [str(id) for id in checked_list(self.citizens, "citizens")]
        for text in values["tell"]:
            if not isinstance(text, str) or not 0 < len(text.strip()) <= len(text) <= _MAX_TEXT:
                rule = f"must be texts of 1 to {_MAX_TEXT} characters"
                raise ConfigError(f"tell {rule}, got {excerpt(text)}")
        if not any(values[name] for name in CHANGE_FIELDS if name not in _RECEIVERS):
            raise ConfigError("an intervention must change something: facts, status, close, …")
        for name in _COMMIT_FIELDS:
            if name in values["status"]:
                hint = "; `pay` moves money" if name == "money" else ""
                raise ConfigError(f"status: only the commit stage sets {name!r}{hint}")
        for name in values["status"]:
            outer, dot, inner = str(name).partition(".")
            if dot:
                raise ConfigError(f"status: write {{{outer!r}: {{{inner!r}: …}}}}, got {name!r}")
        Facts(values["facts"])  # the names are checked there
        try:
            for name, value in values.items():
                object.__setattr__(self, name, copy_json(value, name))
        except NotJSON as error:
            raise ConfigError(f"an intervention must be JSON data: {error}") from None

    @property
    def _moment(self) -> datetime | None:
        try:
            return None if self.when is None else Clock(self.when).start
        except ConfigError as error:
            raise ConfigError(str(error).replace("start", "when", 1)) from None

    def in_words(self) -> str:
        """Say what it does."""
        parts = [f"news: {each}" for each in self.news]
        parts += [f"closes {each}" for each in self.close]
        parts += [f"opens {each}" for each in self.open]
        for verb, roads in (("closes", self.close_roads), ("opens", self.open_roads)):
            parts += [f"{verb} road {_road_in_words(each)}{self._for_modes}" for each in roads]
        parts += [
            f"road {road} is at {percent} % of its speed{self._for_modes}"
            for road, percent in self.road_speed.items()
        ]
        parts += [f"{name} is {value}" for name, value in self.facts.items()]
        if isinstance(self.citizens, Mapping):
            values = ", ".join(f"{k} {excerpt(v)}" for k, v in self.citizens.items())
            receivers = f"everyone with {values}"
        else:
            ids = ", ".join(map(str, self.citizens or ()))
            receivers = "everyone" if self.citizens is None else f"citizen {shorten(ids, 100)}"
        parts += [f"{receivers} has {name} {value}" for name, value in self.status.items()]
        parts += [f"{receivers} hears: {each}" for each in self.tell]
        for sender, to, cents in self.pay:
            receivers = to if to == "everyone" else f"citizen {to}"
            parts.append(f"{sender} pays {cents / 100:,.2f} to {receivers}")
        return "; ".join(parts)

    @property
    def _for_modes(self) -> str:
        return "" if self.modes is None else f" for {', '.join(self.modes)}"

    def as_json(self) -> dict[str, Any]:
        """Return the arguments that make it, as JSON data."""
        data = asdict(self)
        return {name: each for name, each in data.items() if each or name not in _OF_ROADS}

    def falls_in(self, step: int, clock: Clock) -> bool:
        """Return whether it is made at the start of `step`, which begins at the clock's time."""
        if self._moment is None:
            return self.at_step == step
        return timedelta() <= self._moment - clock.moment < timedelta(seconds=clock.step_s)

    def is_past(self, step: int, clock: Clock) -> bool:
        """Return whether its step is over when `step` comes next."""
        if self._moment is None:
            return self.at_step is not None and self.at_step < step
        return self._moment < clock.moment

    def change(self, society: Any) -> list[str]:
        """Make the changes; return why some could not be made.

        A payment that nobody could make, and a status that could be set for no citizen, are also
        noted in the society's `unmade`.
        """
        changed = society.changed
        changed.facts.update(copy_json(self.facts))
        if changed.close_and_open(self):
            society.city = society.books.city = changed.city()
        failed: list[str] = []
        if self.status:
            failed += society.books.set_status(copy_json(self.status), self.citizens)
        unknown_count = sum("there is no citizen" in each for each in failed)
        has_citizens = isinstance(self.citizens, list) and unknown_count < len(self.citizens)
        unmade = [] if has_citizens and len(failed) == unknown_count else [*failed]
        for sender, to, cents in self.pay:
            parties = (_everyone_in_turn(society) if e == "everyone" else [e] for e in (sender, to))
            reasons = [society.books.pay(*pair, cents) for pair in product(*parties)]
            failed += [f"pay: {each}" for each in dict.fromkeys(reasons) if each]
            if all(reasons):
                unmade.append(
                    f"pay: {reasons[0]}" if reasons else "pay: there is nobody who could pay"
                )
        if self.tell:
            failed += (not_told := self._tell_citizens(society))
            unmade += not_told
        society.unmade += [(society.number, each) for each in unmade]
        society.news += copy_json(self.news)
        return failed

    def _tell_citizens(self, society: Any) -> list[str]:
        """Have citizens remember what they are told; return why some cannot."""
        agents = {
            each.id: each.agent for each in society.mailboxes if hasattr(each.agent, "status")
        }
        citizens, failed = self.citizens, list[str]()
        if isinstance(citizens, list):
            for id in citizens:
                if id not in agents:
                    reason = "is a row, which remembers no words: promote it"
                    reason = reason if id in society.books.where else "is not there"
                    failed.append(f"tell: citizen {id!r} {reason}")
            hearers = [agents[id] for id in citizens if id in agents]
        else:
            values = citizens if isinstance(citizens, dict) else {}
            failed = say_unknown(values, [each.memory.status for each in agents.values()])
            hearers = [each for each in agents.values() if has_values(each.memory.status, values)]
            if not hearers and not failed:
                failed = ["tell: there is nobody who could remember it"]
        for agent in hearers:
            for text in self.tell:
                agent.memory.note(society.number, f"{HEARD_FROM}somebody: {text}")
        return failed


def _everyone_in_turn(society: Any) -> list[str]:
    return sorted(society.books.where, key=lambda id: turn_key(society.seed, id, society.number))


_OF_ROADS: Final = ("close_roads", "open_roads", "road_speed", "modes")
_RECEIVERS: Final = ("citizens", "modes")
"""The arguments that say whom a change concerns, and change nothing themselves."""
CHANGE_FIELDS: Final = tuple(
    each.name for each in fields(Intervention) if each.name not in ("at_step", "when")
)
"""The arguments that say what it changes."""


def has_values(status: Mapping[str, object], values: Mapping[str, object]) -> bool:
    """Return whether a status has these values, those within its dicts included."""
    for key, value in values.items():
        status_value = status.get(key)
        if isinstance(value, dict) and isinstance(status_value, dict):
            if not has_values(status_value, value):
                return False
        elif status_value != value:
            return False
    return True


def say_unknown(values: Any, statuses: Collection[Mapping[str, Any]]) -> list[str]:
    """Return which of a dict's names no status has, or that none has all of its values."""
    names = values if isinstance(values, dict) else ()
    unknown_names = [name for name in names if not any(name in status for status in statuses)]
    if names and not unknown_names and not any(has_values(each, values) for each in statuses):
        return [nobody_has(values)]
    return [f"citizens: no citizen's status has {name}" for name in unknown_names]


def nobody_has(values: Mapping[str, object]) -> str:
    """Say that no citizen has these values."""
    return f"citizens: nobody has {', '.join(f'{k} {excerpt(v)}' for k, v in values.items())}"


def set_values(status: Any, values: Mapping[str, object]) -> list[str]:
    """Set values of a status; where one does not fit its column none, and return why."""
    before = status.copy()
    try:
        _set_nested(status, values)
    except ConfigError as error:
        status.take(before)
        return [f"status: {error}"]
    return []


def _set_nested(status: dict[str, Any], values: Mapping[str, object]) -> None:
    """Set values; a dict leaves what it does not name, as columns do."""
    for key, value in values.items():
        status_value = status.get(key)
        if isinstance(value, dict) and isinstance(status_value, dict):
            _set_nested(status_value, value)
        else:
            status[key] = copy.deepcopy(value)


def _road(road: object, name: str) -> str | list[str]:
    """Return a road as it is called: a text, or its two ends. Raises ConfigError."""
    if isinstance(road, str):
        return road
    ends = list(road) if isinstance(road, list | tuple) else []
    if len(ends) != 2 or not all(isinstance(each, str) for each in ends):
        rule = "must be ids or names of roads, or pairs of their ends"
        raise ConfigError(f"{name} {rule}, got {road!r:.80}")
    return ends


def _road_in_words(road: str | Sequence[str]) -> str:
    return road if isinstance(road, str) else "–".join(road)


def checked_list(values: object, name: str) -> list[Any]:
    """Return an iterable as a list. Raises ConfigError for a text, a dict and others."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ConfigError(f"{name} must be a list, got {values!r:.80}")
    return list(values)


def check_speeds(speeds: Mapping[Any, Any]) -> None:
    """Check that speeds are percents of the usual ones. Raises ConfigError."""
    for road, percent in speeds.items():
        if type(percent) is not int or not 1 <= percent <= _MAX_SPEED:
            raise ConfigError(
                f"road_speed of {excerpt(road)} must be a percentage of the usual speed, a whole "
                f"number from 1 to {_MAX_SPEED}, got {excerpt(percent)}"
            )


def _payment(value: Any) -> list[Any]:
    if isinstance(value, Mapping) and value.keys() == {"from", "to", "cents"}:
        value = [value["from"], value["to"], value["cents"]]
    payment = list(value) if isinstance(value, list | tuple) else []
    if len(payment) != 3 or type(payment[2]) is not int or payment[2] < 1:
        raise ConfigError(f"a payment must be (from, to, cents), got {value!r:.80}")
    return [str(payment[0]), str(payment[1]), payment[2]]
