"""Finding runs: which rows of a journal's table of runs are wanted, and in which order.

To add a filter: a field of `Filters` and a row of `FILTERS`, by which `Journal.runs` and its help,
`moothall runs` and, with a `LeastChoice`, the tab Runs have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from math import isnan
from string import ascii_lowercase, ascii_uppercase
from textwrap import fill
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from moothall.foundation.arguments import check_integer, unknown_argument_error, unknown_value_error
from moothall.foundation.database.protocol import Database
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import readable
from moothall.journal.attributes import RunAttributes, query_paths
from moothall.journal.entry import Outline
from moothall.journal.stop_reason import MISMATCH_STATE, STATES
from moothall.journal.store.operator_waits import IS_MISMATCH_SQL
from moothall.journal.store.run_requests import IS_CANCELLED_SQL, IS_PAUSED_SQL
from moothall.journal.tally import SUM_COLUMNS

Moment: TypeAlias = float | datetime
"""Seconds since 1970, or a date and time: without a zone, the local one."""

NEEDS_A_PERSON: Final = ("waiting", "in_doubt", "stopped", MISMATCH_STATE)
"""The states of runs that go on only if a person, or the program of the agent, does something."""


def _sum_sql(name: str) -> str:
    if SUM_COLUMNS[name] is float:
        return f"coalesce(sum({name}), 0.0)"
    return f"CAST(coalesce(sum({name}), 0) AS BIGINT)"  # PostgreSQL's sum is a decimal


END_SQL: Final = (
    f"CASE WHEN {IS_CANCELLED_SQL} THEN 'cancelled' WHEN {IS_MISMATCH_SQL} THEN "
    f"'{MISMATCH_STATE}' WHEN {IS_PAUSED_SQL} THEN 'waiting' ELSE state END"
)
"""What a run is that no process works on; NULL if it is stopped."""
_COLUMNS: Final = (
    f"number, id, kind, agent, task, began, changed, last, {', '.join(SUM_COLUMNS)}, "
    f"seconds, CAST(attributes AS TEXT), {END_SQL}, forked_from, thread, waiting, "
    # It ends with its own `over`: one row by its key, and only of those that failed.
    "CASE WHEN state = 'error' THEN (SELECT data FROM entries WHERE place = (number << 32) + last) "
    "END"
)
FIELDS: Final = (
    *("id", "kind", "agent", "task", "began", "changed", "entries"),
    *("state", "forked_from", "thread", "detail"),
)
"""What an outline says of each run, beside its sums and attributes."""

_SUMS_SQL: Final = (
    f"SELECT count(*), {', '.join(_sum_sql(name) for name in SUM_COLUMNS)}, "
    "coalesce(sum(seconds), 0.0) FROM runs"
)
_STATE_SQL: Final = (
    "CASE WHEN number IN ({taken}) THEN CASE WHEN waiting > 0 THEN 'waiting' ELSE 'running' END "
    f"ELSE coalesce({END_SQL}, 'stopped') END"
)

_RECORDED_CONDITION: Final = (
    "(number IN (SELECT run FROM texts WHERE text LIKE ? ESCAPE '\\') OR number IN "
    "(SELECT place >> 32 FROM entries WHERE {in_data}))"
)
_ASCII_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)

_OPEN_WAITS: Final = "SELECT run FROM waits WHERE NOT taken AND place > 0"


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

    filters: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    sort: str = "began"
    limit: int | None = None

    @classmethod
    def of(cls, method: Callable[..., Any], filters: Filters, **options: Any) -> RunQuery:
        """Return what is wanted by the arguments of a method of `Journal`."""
        if unknown := unknown_argument_error(method, filters, Filters.__annotations__):
            raise unknown
        states = _checked_states(filters.get("state"))  # they may be read only once
        return cls(filters={**filters, "state": states}, **options)

    def check(self, db: Database) -> None:
        """Raise ConfigError for a state that no run can have; a user's own has been recorded."""
        unknown = {*(self.filters.get("state") or ())} - {*STATES}
        if not unknown:
            return
        states_query = "SELECT DISTINCT state FROM runs WHERE NOT deleted AND state IS NOT NULL"
        recorded = {state for (state,) in db.execute(states_query)}
        states = [*STATES, *sorted(recorded - {*STATES})]
        for unknown_state in sorted(unknown - recorded):
            raise unknown_value_error("runs: state=", states, unknown_state)

    def rows_query(
        self, leased_runs: Callable[[], Iterable[int]], attribute_sql: str
    ) -> tuple[str, list[Any]]:
        """Return the query for the wanted runs; `leased_runs` returns those that processes work on.

        `attribute_sql` is the text at a path of a run's attributes, in the database's own words.
        """
        condition, values = self._condition(leased_runs, attribute_sql)
        column = self.sort.removeprefix("-") if isinstance(self.sort, str) else ""
        if column not in Outline.sorts:
            names = ", ".join(Outline.sorts)
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

    def sums_query(
        self, leased_runs: Callable[[], Iterable[int]], attribute_sql: str
    ) -> tuple[str, list[Any]]:
        """Return the query for the sums of all wanted runs, whatever the limit."""
        condition, values = self._condition(leased_runs, attribute_sql)
        return _SUMS_SQL + condition, values

    def old(
        self, leased: Callable[[], Iterable[int]], attribute_sql: str, before: float, keep: int
    ) -> tuple[str, list[Any]]:
        """Return the query for the wanted runs last written before a moment, but for the newest."""
        condition, values = self._condition(leased, attribute_sql)
        newest = f"SELECT number FROM runs{condition} ORDER BY number DESC LIMIT ?"
        old = f"{condition} AND changed < ? AND number NOT IN ({newest}) ORDER BY number DESC"
        return f"SELECT number, id FROM runs{old}", [*values, before, *values, keep]

    def _condition(
        self, leased_runs: Callable[[], Iterable[int]], attribute_sql: str
    ) -> tuple[str, list[Any]]:
        terms = ["NOT deleted"]
        values: list[Any] = []
        if self.id is not None:
            terms.append("id = ?")
            values.append(_checked_text("id", self.id))

        @cache
        def state_sql() -> str:
            return _STATE_SQL.format(taken=", ".join(map(str, leased_runs())) or "NULL")

        for name, each in FILTERS.items():
            value = self.filters.get(name)
            if value is not None:
                for term, term_values in each.terms(name, value, state_sql):
                    terms.append(term)
                    values += term_values
        for path, text in query_paths(self.filters):
            terms.append(f"{attribute_sql} {'IS NOT NULL' if text is None else '= ?'}")
            values += [path] if text is None else [path, text]
        return f" WHERE {' AND '.join(terms)}", values


THREAD_CONDITION: Final = "(thread = ? OR (thread > ? AND thread < ?))"


def thread_values(thread: object) -> list[str]:
    """Return the values for `THREAD_CONDITION`: a thread, and its sender's others, `THREAD/…`."""
    id = _checked_text("thread", thread)
    return [id, f"{id}/", f"{id}0"]  # the character after "/" is "0"


def checked_moment(name: str, value: object) -> float:
    """Return a moment as seconds since 1970."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value):
        raise ConfigError(
            f"runs: {name}= must be seconds since 1970 or a datetime, got {value!r:.80}"
        )
    return float(value)


def _checked_states(states: str | Iterable[str] | None) -> list[str] | tuple[str, ...] | None:
    if states is None:
        return None
    if not isinstance(states, Iterable):
        raise ConfigError(f"runs: state= must be a text or several, got {states!r:.80}")
    return [
        _checked_text("state", each) for each in ((states,) if isinstance(states, str) else states)
    ]


def _checked_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"runs: {name}= must be a text, got {value!r:.80}")
    return readable(value).replace("\0", " ")


def _pattern(word: str) -> str:
    quoted = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{quoted}%"


Terms: TypeAlias = Iterator[tuple[str, Sequence[Any]]]
"""Conditions in SQL, each with the values of its question marks."""
StateSQL: TypeAlias = Callable[[], str]


def _single_term(
    term: str, read: Callable[[str, Any], Any], name: str, value: Any, _: StateSQL
) -> Terms:
    yield term, [read(name, value)]


def _word_terms(term: str, name: str, value: Any, _: StateSQL) -> Terms:
    for word in _checked_text(name, value or "").casefold().split():
        yield term, [_pattern(word)] * term.count("?")


def _recorded_terms(name: str, value: Any, _: StateSQL) -> Terms:
    for word in _checked_text(name, value or "").split():
        # SQLite's `lower` knows no letters beyond ASCII: these are looked for in each form.
        forms = (word.lower(), word.title(), word.upper())
        patterns = {_pattern(each.translate(_ASCII_LOWER)): None for each in forms}
        in_data = " OR ".join(["lower(data) LIKE ? ESCAPE '\\'"] * len(patterns))
        yield _RECORDED_CONDITION.format(in_data=in_data), [_pattern(word.casefold()), *patterns]


def _thread_terms(name: str, value: Any, _: StateSQL) -> Terms:
    yield THREAD_CONDITION, thread_values(value)


def _state_terms(name: str, states: Sequence[str], state_sql: StateSQL) -> Terms:
    if {*states} <= {*Outline.cut_off}:
        yield "open", ()  # by its index, however many others there are
    yield f"{state_sql()} IN ({', '.join('?' * len(states)) or 'NULL'})", states


def _needs_person_terms(name: str, value: Any, state_sql: StateSQL) -> Terms:
    if value:
        # An answer is for the run that asked, whatever its forks do.
        waiting_sql = "coalesce(state, '') = 'waiting'"
        forked_sql = "id IN (SELECT forked_from FROM runs WHERE forked_from IS NOT NULL)"
        yield f"NOT ({forked_sql} AND NOT {waiting_sql})", ()
        # What has all answers that it waits for goes on by itself; a firing may wait without any.
        answered_sql = (
            f"number IN ({_OPEN_WAITS}) AND number NOT IN ({_OPEN_WAITS} AND value IS NULL)"
        )
        yield f"NOT ({waiting_sql} AND {answered_sql})", ()
        yield from _state_terms(name, NEEDS_A_PERSON, state_sql)


class LeastChoice(NamedTuple):
    """What can be chosen in the tab Runs: how much a field of the outlines is at least."""

    label: str
    field: str
    choices: tuple[tuple[str, str], ...]  # values with their words; the first, "", is any
    is_age: bool = False  # whether the values are days ago


class RunFilter(NamedTuple):
    """A filter of runs, as `Journal.runs`, `moothall runs` and the tab Runs have it."""

    help: str  # of `Journal.runs`
    terms: Callable[[str, Any, StateSQL], Terms]  # of its name and value; raises ConfigError
    # Of `moothall runs`: the option, how its value is named, and its help.
    option: tuple[str, str, str] | None = None
    type: Literal["text", "texts", "moment", "number", "flag"] = "text"  # of the option's value
    least_choice: LeastChoice | None = None  # of the tab Runs


FILTERS: Final[dict[str, RunFilter]] = {
    "state": RunFilter(
        "the state, or several: `running`, `waiting`, `stopped`, or how the run ended; another "
        "word is an error, unless a run of the journal ended so",
        _state_terms,
        ("--state", "STATE", "Only these states, separated by commas."),
        "texts",
    ),
    "kind": RunFilter(
        "the class of its agent",
        partial(_single_term, "kind = ?", _checked_text),
        ("--kind", "CLASS", "Only runs of agents of this class."),
    ),
    "agent": RunFilter(
        "the id of its agent",
        partial(_single_term, "agent = ?", _checked_text),
        ("--agent", "ID", "Only runs of this agent."),
    ),
    "thread": RunFilter(
        "its conversation's id; `T` also finds the threads `T/…` of that sender",
        _thread_terms,
        ("--thread", "T", "Only runs of this conversation, and of T/… below it."),
    ),
    "since": RunFilter(
        "only runs worked on since this time: seconds since 1970, or a datetime",
        partial(_single_term, "changed >= ?", checked_moment),
        ("--since", "TIME", "Only runs worked on since."),
        "moment",
        LeastChoice(
            "When",
            "changed",
            (("", "any time"), ("1", "last day"), ("7", "last 7 days"), ("30", "last 30 days")),
            is_age=True,
        ),
    ),
    "until": RunFilter(
        "only runs that began at this time or before, likewise",
        partial(_single_term, "began <= ?", checked_moment),
        ("--until", "TIME", "Only runs begun until then."),
        "moment",
    ),
    "text": RunFilter(
        "words that all occur in the task or the reply, without regard to case, among the first "
        "500 characters of the task and 1,000 of the reply",
        partial(_word_terms, "number IN (SELECT run FROM texts WHERE text LIKE ? ESCAPE '\\')"),
        ("--text", "WORDS", "Only runs with these words in task or reply."),
    ),
    "recorded": RunFilter(
        "words that all occur in the task, the reply or a recorded step; texts of a step that have "
        "over 2,000 characters are not looked at",
        _recorded_terms,
        ("--recorded", "WORDS", "Only runs that have these words in any step."),
    ),
    "forked_from": RunFilter(
        "the id of a run: only its forks", partial(_single_term, "forked_from = ?", _checked_text)
    ),
    "decided_by": RunFilter(
        "the name of a person who has answered or decided in them",
        partial(
            _single_term, "number IN (SELECT run FROM waits WHERE decided_by = ?)", _checked_text
        ),
        ("--decided-by", "NAME", "Only runs with a decision of this person."),
    ),
    "needs_person": RunFilter(
        "only runs that are `waiting` for an answer, `mismatch`, `in_doubt` or `stopped` without a "
        "fork",
        _needs_person_terms,
        ("--needs-me", "", "Only runs that wait for a person."),
        "flag",
    ),
}

F = TypeVar("F", bound=Callable[..., Any])


def with_filters(method: F) -> F:
    """Add to a method's help, after its last argument, what each filter is."""
    text, raises, rest = (method.__doc__ or "").partition("\n\n        Raises:")
    indent = " " * 16
    for name, each in FILTERS.items():
        line = f"* `{name}`: {each.help}"
        text += "\n" + fill(line, 100, initial_indent=indent, subsequent_indent=f"{indent}  ")
    method.__doc__ = text + raises + rest
    return method
