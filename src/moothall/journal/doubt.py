"""Calls in doubt: steps that had started when their process ended, outcome unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, to_json
from moothall.journal.entry import DECISIONS, Entry


@dataclass(frozen=True, slots=True)
class Done:
    """A decision: the call took effect, and this is its result.

    Attributes:
        value: the result, as JSON data
    """

    value: Any = None


Decision: TypeAlias = Literal["repeat", "skip"] | Done
"""What happens to a call in doubt: it is executed again, or skipped, or is known to have ended."""


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
        from moothall.journal.store.values import as_text

        text = f"{self.action} {as_text(self.args)}"
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


def _check(decision: object) -> None:
    if not isinstance(decision, Done) and (
        not isinstance(decision, str) or decision not in DECISIONS
    ):
        raise ConfigError(
            f'a decision must be "repeat", "skip" or Done(value), got {decision!r:.80}'
        )


def decisions_for(
    doubts: list[Doubt], decisions: Mapping[int, Decision] | Decision
) -> list[tuple[Doubt, dict[str, Any]]]:
    """Return the data to record of each decision, with its call; one may be for all calls."""
    if not isinstance(decisions, Mapping):
        _check(decisions)
        decisions = {doubt.number: decisions for doubt in doubts}
    by_number = {doubt.number: doubt for doubt in doubts}
    decided_entries = []
    for number, decision in decisions.items():
        _check(decision)
        if number not in by_number:
            numbers = f"1 to {len(doubts)}" if doubts else "none"
            raise ConfigError(f"no call in doubt has the number {number!r}: there are {numbers}")
        data: dict[str, Any] = {"key": by_number[number].key, "decision": "done"}
        if isinstance(decision, Done):
            try:
                data["value"] = to_json(decision.value)
            except NotJSON as error:
                raise ConfigError(f"the result of call {number} is not JSON: {error}") from error
        else:
            data["decision"] = decision
        decided_entries.append((by_number[number], data))
    return decided_entries
