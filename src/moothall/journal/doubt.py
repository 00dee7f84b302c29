"""Calls in doubt, steps that had started when their process ended, and what a person may decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, to_json
from moothall.foundation.text import escaped_json
from moothall.journal.entry import Entry


@dataclass(frozen=True, slots=True)
class StatedOutcome:
    """A decision that states what came of the call: its `value`, as JSON data."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Done(StatedOutcome):
    """A decision: the call took effect, and this is its result.

    Attributes:
        value: the result, as JSON data
    """


Decision: TypeAlias = Literal["repeat", "skip"] | StatedOutcome
"""What happens to a call in doubt: it is executed again, or skipped, or is known to have ended."""


class DoubtDecision(NamedTuple):
    """What records, runs, commands and cards know of a kind of decision."""

    word: str  # in records, JSON and options
    purpose: str  # of its command, with the calls as {}
    outcome: str  # what becomes of the call
    label: str  # of its button
    meaning: str  # what a person reads of it
    type: type[StatedOutcome] | None = None  # of a decision that states a value
    value_name: str = ""  # of that value, in a command
    failure: str = ""  # the outcome of a call that has no result then
    error: str = ""  # what the model reads in place of a result; the stated value is {}

    @property
    def is_final(self) -> bool:
        """Whether the call is not executed again."""
        return self.type is not None or bool(self.error)

    def error_of(self, value: Any) -> str:
        """Return what the model reads in place of a result; empty if there is a result."""
        return self.error.format(value)

    def line(self, value: Any) -> str:
        """Return it as the record of a run shows it."""
        if self.type is None:
            return self.purpose.format("it")
        return f"it {self.outcome}, {self.value_name.lower()}: {escaped_json(value)}"


class DoubtDecisions(dict[str, DoubtDecision]):
    """The kinds of decision, by their words."""

    def recorded(self, decision: object, subject: str = "the call") -> dict[str, Any]:
        """Return a decision, or its JSON form such as `{"done": 3}`, as a journal records it.

        Raises:
            ConfigError: it is none, or its value is not JSON
        """
        for word, kind in self.items():
            match decision:
                case str() if kind.type is None and decision == word:
                    return {"decision": word}
                case StatedOutcome(value) if type(decision) is kind.type:
                    pass
                case Mapping() if kind.type is not None and decision.keys() == {word}:
                    value = decision[word]
                case _:
                    continue
            try:
                return {"decision": word, "value": to_json(value)}
            except NotJSON as error:
                raise ConfigError(f"the result of {subject} is not JSON: {error}") from error
        forms = [
            f'"{word}"' if kind.type is None else f"{kind.type.__name__}(value)"
            for word, kind in self.items()
        ]
        raise ConfigError(
            f"a decision must be {', '.join(forms[:-1])} or {forms[-1]}, got {decision!r:.80}"
        )


DECISIONS: Final = DoubtDecisions(
    (each.word, each)
    for each in (
        DoubtDecision("repeat", "run {} again", "is run again", "Repeat", "it runs again"),
        DoubtDecision(
            "skip",
            "skip {}",
            "is skipped",
            "Skip",
            "it does not run, and the model is told that its outcome is unknown",
            failure="skipped",
            error="skipped: the run was cut off while it was executed, and a person has decided "
            "not to execute it again; whether it had an effect is not known",
        ),
        DoubtDecision(
            "done",
            "give its result",
            "took effect",
            "Done with this result",
            "it took effect, with the result that you write",
            Done,
            "RESULT",
        ),
    )
)
"""To add one, add a row, and the class of one that states a value."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call that had started, and whose effect is not known.

    Attributes:
        number: its number among the run's calls in doubt, from 1; valid until the run is resumed
        path: the part of the run that it belongs to
        key: its step of that part, such as `2.0`: the first call of the second answer
        action: its name
        args: its arguments
        since: when it started, in seconds since 1970
    """

    number: int
    path: str
    key: str
    action: str
    args: dict[str, Any]
    since: float = 0.0

    def __str__(self) -> str:
        text = f"{self.action} {escaped_json(self.args)}"
        return text if len(text) <= 200 else f"{text[:199]}…"


def in_doubt(entries: Iterable[Entry], with_decided: bool = False) -> list[Doubt]:
    """Return the calls that have a start, no end, and no decision, or one not yet carried out."""
    # A call that is declared idempotent is not among them: it is executed again.
    undecided: dict[tuple[str, str], list[Any]] = {}  # the entry, and whether it is decided
    for entry in entries:
        data = entry.data
        key = (entry.path, str(data.get("key")))
        if entry.kind == "started":
            if data.get("asks"):
                undecided[key] = [entry, False]
        elif entry.kind in ("ended", "failed", "waits"):
            undecided.pop(key, None)
        elif entry.kind == "decided" and key in undecided:
            undecided[key][1] = True
    return [
        Doubt(number, *key, _action(entry.data), _args(entry.data), entry.at)
        for number, (key, (entry, decided)) in enumerate(undecided.items(), 1)
        if with_decided or not decided
    ]


def state_of(entries: Sequence[Entry]) -> str | None:
    """Return the state of a run with these entries, on which nobody works; None: stopped."""
    if in_doubt(entries):
        return "in_doubt"
    last = next((entry for entry in reversed(entries) if not entry.path), None)
    return str(last.data["reason"]) if last is not None and last.kind == "over" else None


def _action(data: dict[str, Any]) -> str:
    return str(data.get("about", {}).get("action") or data["key"])


def _args(data: dict[str, Any]) -> dict[str, Any]:
    args = data.get("args")
    return args if isinstance(args, dict) else {} if args is None else {"args": args}


def decisions_for(
    doubts: list[Doubt], decisions: Mapping[int, Decision] | Decision
) -> list[tuple[Doubt, dict[str, Any]]]:
    """Return the data to record of each decision, with its call; one may be for all calls."""
    if not isinstance(decisions, Mapping):
        DECISIONS.recorded(decisions)  # there may be no call
        decisions = {doubt.number: decisions for doubt in doubts}
    by_number = {doubt.number: doubt for doubt in doubts}
    decided_entries = []
    for number, decision in decisions.items():
        data = DECISIONS.recorded(decision, f"call {number}")
        if number not in by_number:
            numbers = f"1 to {len(doubts)}" if doubts else "none"
            raise ConfigError(f"no call in doubt has the number {number!r}: there are {numbers}")
        decided_entries.append((by_number[number], {"key": by_number[number].key, **data}))
    return decided_entries
