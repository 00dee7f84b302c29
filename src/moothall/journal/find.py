"""Finding runs: which rows of a journal's table of runs are wanted, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan
from typing import Any, Final, TypeAlias, cast

from moothall.foundation.arguments import check_integer, none_of, unknown_argument
from moothall.foundation.database.protocol import Database
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import readable
from moothall.journal.attributes import ATTRIBUTES, RunAttributes, wanted_paths
from moothall.journal.stop_reason import STATES
from moothall.journal.tally import SUMMED

Moment: TypeAlias = float | datetime
"""Seconds since 1970, or a date and time: without a zone, the local one."""

NEEDS_A_PERSON: Final = ("waiting", "in_doubt", "stopped")
"""The states of runs that go on only if a person, or the program of the agent, does something."""

CUT_OFF: Final = ("stopped", "in_doubt")
"""The states of runs whose process has ended."""

SORTS: Final = ("began", "changed", "seconds", *SUMMED, "entries")


def _sum_of(name: str) -> str:
    if SUMMED[name] is float:
        return f"coalesce(sum({name}), 0.0)"
    return f"CAST(coalesce(sum({name}), 0) AS BIGINT)"  # PostgreSQL's sum is a decimal


_COLUMNS: Final = (
    f"number, id, kind, agent, task, began, changed, last, {', '.join(SUMMED)}, "
    "seconds, CAST(attributes AS TEXT), state, forked_from, thread, waiting"
)
OUTLINED: Final = (
    *("id", "kind", "agent", "task", "began", "changed", "entries"),
    *("state", "forked_from", "thread"),
)
"""What an outline says of each run, beside its sums and attributes."""

_SUMS: Final = (
    f"SELECT count(*), {', '.join(_sum_of(name) for name in SUMMED)}, "
    "coalesce(sum(seconds), 0.0) FROM runs"
)
_STATE: Final = (
    "CASE WHEN number IN ({taken}) THEN CASE WHEN waiting > 0 THEN 'waiting' ELSE 'running' END "
    "ELSE coalesce(state, 'stopped') END"
)

_RECORDED: Final = (
    "(number IN (SELECT run FROM texts WHERE text LIKE ? ESCAPE '\\') OR number IN "
    "(SELECT place >> 32 FROM entries WHERE lower(data) LIKE ? ESCAPE '\\'))"
)


class Filters(RunAttributes, total=False):
    """Which runs are wanted, as `Journal.runs` and `Journal.sums` take it."""

    state: str | Iterable[str] | None
    kind: str | None
    agent: str | None
    thread: str | None
    since: Moment | None
    until: Moment | None
    text: str | None
    recorded: str | None
    forked_from: str | None
    decided_by: str | None
    needs_person: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs are wanted; what is None or empty restricts nothing."""

    state: str | Iterable[str] | None = None
    kind: str | None = None
    agent: str | None = None
    thread: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    text: str | None = None
    recorded: str | None = None
    forked_from: str | None = None
    decided_by: str | None = None
    id: str | None = None
    needs_person: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    sort: str = "began"
    limit: int | None = None

    @classmethod
    def of(cls, method: Callable[..., Any], filters: Filters, **options: Any) -> RunQuery:
        """Return what is wanted by the arguments of a method of `Journal`."""
        if unknown := unknown_argument(method, filters, Filters.__annotations__):
            raise unknown
        parts = {name: value for name, value in filters.items() if name not in ATTRIBUTES}
        attributes = {name: value for name, value in filters.items() if name in ATTRIBUTES}
        return cls(**cast(Any, parts), attributes=attributes, **options)

    def __post_init__(self) -> None:
        """Read the states, which may be read only once."""
        object.__setattr__(self, "state", _states(self.state))

    def check(self, db: Database) -> None:
        """Raise ConfigError for a state that no run can have; a user's own has been recorded."""
        unknown = {*(_states(self.state) or ())} - {*STATES}
        if not unknown:
            return
        states_query = "SELECT DISTINCT state FROM runs WHERE NOT deleted AND state IS NOT NULL"
        recorded = {state for (state,) in db.execute(states_query)}
        states = [*STATES, *sorted(recorded - {*STATES})]
        for wrong in sorted(unknown - recorded):
            raise none_of("runs: state=", states, wrong)

    def rows(self, leased: Callable[[], Iterable[int]], attribute: str) -> tuple[str, list[Any]]:
        """Return the query for the wanted runs; `taken` returns those that processes work on.

        `attribute` is the text at a path of a run's attributes, in the database's own words.
        """
        condition, values = self._condition(leased, attribute)
        column = self.sort.removeprefix("-") if isinstance(self.sort, str) else ""
        if column not in SORTS:
            names = ", ".join(SORTS)
            raise ConfigError(
                f"runs: sort= must be one of {names}, or one of them with a '-' before it for the "
                f"largest first, got {self.sort!r:.80}"
            )
        column = {"began": "number", "entries": "last"}.get(column, column)
        descending = self.sort.startswith("-")
        order = f"{column} DESC, number DESC" if descending else f"{column}, number"
        limit = ""
        if self.limit is not None:
            check_integer("limit=", self.limit)
            limit = f" LIMIT {self.limit}"
        return f"SELECT {_COLUMNS} FROM runs{condition} ORDER BY {order}{limit}", values

    def sums(self, leased: Callable[[], Iterable[int]], attribute: str) -> tuple[str, list[Any]]:
        """Return the query for the sums of all wanted runs, whatever the limit."""
        condition, values = self._condition(leased, attribute)
        return _SUMS + condition, values

    def _condition(
        self, leased: Callable[[], Iterable[int]], attribute: str
    ) -> tuple[str, list[Any]]:
        terms = ["NOT deleted"]
        values: list[Any] = []
        for column in ("id", "kind", "agent", "forked_from"):
            value = getattr(self, column)
            if value is not None:
                terms.append(f"{column} = ?")
                values.append(_text(column, value))
        if self.thread is not None:
            terms.append(OF_THREAD)
            values += threads_of(self.thread)
        if self.since is not None:
            terms.append("changed >= ?")
            values.append(moment("since", self.since))
        if self.until is not None:
            terms.append("began <= ?")
            values.append(moment("until", self.until))
        for word in _words(self.text):
            terms.append("number IN (SELECT run FROM texts WHERE text LIKE ? ESCAPE '\\')")
            values.append(word)
        for word in _words(self.recorded):
            terms.append(_RECORDED)
            values += [word, word]
        if self.decided_by is not None:
            terms.append("number IN (SELECT run FROM waits WHERE decided_by = ?)")
            values.append(_text("decided_by", self.decided_by))
        for path, text in wanted_paths(self.attributes):
            terms.append(f"{attribute} {'IS NOT NULL' if text is None else '= ?'}")
            values += [path] if text is None else [path, text]
        states = _states(self.state)
        if self.needs_person:
            states = NEEDS_A_PERSON if states is None else [*set(states) & {*NEEDS_A_PERSON}]
            terms.append("id NOT IN (SELECT forked_from FROM runs WHERE forked_from IS NOT NULL)")
        if states is not None:
            if {*states} <= {*CUT_OFF}:
                terms.append("open")  # by its index, however many others there are
            now = _STATE.format(taken=", ".join(map(str, leased())) or "NULL")
            terms.append(f"{now} IN ({', '.join('?' * len(states)) or 'NULL'})")
            values += states
        return f" WHERE {' AND '.join(terms)}", values


OF_THREAD: Final = "(thread = ? OR (thread > ? AND thread < ?))"


def threads_of(thread: object) -> list[str]:
    """Return the values for `OF_THREAD`: a thread, and those of the same sender, `THREAD/…`."""
    id = _text("thread", thread)
    return [id, f"{id}/", f"{id}0"]  # the character after "/" is "0"


def moment(name: str, value: object) -> float:
    """Return a moment as seconds since 1970."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value):
        raise ConfigError(
            f"runs: {name}= must be seconds since 1970 or a datetime, got {value!r:.80}"
        )
    return float(value)


def _states(states: str | Iterable[str] | None) -> list[str] | tuple[str, ...] | None:
    if states is None:
        return None
    if not isinstance(states, Iterable):
        raise ConfigError(f"runs: state= must be a text or several, got {states!r:.80}")
    return [_text("state", each) for each in ((states,) if isinstance(states, str) else states)]


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"runs: {name}= must be a text, got {value!r:.80}")
    return readable(value)


def _words(text: str | None) -> Iterator[str]:
    """Yield a pattern for each word that must occur."""
    for word in _text("text", text or "").casefold().split():
        quoted = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        yield f"%{quoted}%"
