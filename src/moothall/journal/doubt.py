"""Calls in doubt: steps that had started when their process ended, and what is decided of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar

from moothall.foundation.errors import ConfigError
from moothall.foundation.text import escaped, escaped_json
from moothall.journal.entry import Entry
from moothall.journal.wait_kinds import DECISIONS, Decision, DoubtDecisions
from moothall.models.protocol import call_line


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
        decisions: what a person may decide of it, by its word
    """

    number: int
    path: str
    key: str
    action: str
    args: dict[str, Any]
    since: float = 0.0

    decisions: ClassVar[DoubtDecisions] = DECISIONS

    @classmethod
    def among(cls, entries: Iterable[Entry], *, decided: bool = False) -> list[Doubt]:
        """Return the calls that have a start, no end and no decision; or also `decided` ones.

        A decision is carried out when the run is resumed: until then its call has no end.
        """
        # A call that is declared idempotent is not among them: it is executed again.
        open_calls: dict[tuple[str, str], list[Any]] = {}  # the entry, and whether it is decided
        for entry in entries:
            data = entry.data
            path_and_key = (entry.path, str(data.get("key")))
            if entry.kind == "started":
                if data.get("asks"):
                    open_calls[path_and_key] = [entry, False]
            elif entry.kind in ("ended", "failed", "waits"):
                open_calls.pop(path_and_key, None)
                if open_calls and entry.kind == "ended":
                    for each in calls_below(*path_and_key, open_calls):
                        del open_calls[each]
            elif entry.kind == "decided" and path_and_key in open_calls:
                open_calls[path_and_key][1] = True
        return [
            cls(number, *path_and_key, _action_name(entry.data), _call_args(entry.data), entry.at)
            for number, (path_and_key, (entry, is_decided)) in enumerate(open_calls.items(), 1)
            if decided or not is_decided
        ]

    @property
    def line(self) -> str:
        """The call in one line, without its number: `pay(coins=3)`, and its part."""
        where = f" ({self.path})" if self.path else ""
        return escaped(call_line(self.action, self.args) + where)

    def __str__(self) -> str:
        text = f"{self.action} {escaped_json(self.args)}"
        return text if len(text) <= 200 else f"{text[:199]}…"


def calls_below(path: str, step: str, calls: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those calls, each a path and a key, that are of parts of a step.

    Once the step has its result, they are in doubt no more: the result says what is known of them.
    """
    prefix = f"{path}/{step}/" if path else f"{step}/"
    return [each for each in calls if f"{each[0]}/".startswith(prefix)]


def in_order(parts: Iterable[Iterable[Entry]]) -> list[Entry]:
    """Return the entries of parts of a run in their order there."""
    return sorted(chain.from_iterable(parts), key=attrgetter("sequence"))


def state_of(entries: Sequence[Entry]) -> str | None:
    """Return the state of a run with these entries, on which nobody works; None: stopped."""
    if Doubt.among(entries):
        return "in_doubt"
    end = Entry.end_of(entries)
    return None if end is None else str(end.data["reason"])


def _action_name(data: dict[str, Any]) -> str:
    return str(data.get("about", {}).get("action") or data["key"])


def _call_args(data: dict[str, Any]) -> dict[str, Any]:
    args = data.get("args")
    return args if isinstance(args, dict) else {} if args is None else {"args": args}


def decisions_for(
    doubts: list[Doubt], decisions: Mapping[int, Decision] | Decision
) -> list[tuple[Doubt, dict[str, Any]]]:
    """Return the data to record of each decision, with its call; one may be for all calls."""
    if not isinstance(decisions, Mapping):
        DECISIONS.to_json(decisions)  # there may be no call
        decisions = {doubt.number: decisions for doubt in doubts}
    by_number = {doubt.number: doubt for doubt in doubts}
    decided_entries = []
    for number, decision in decisions.items():
        data = DECISIONS.to_json(decision, f"call {number}")
        if number not in by_number:
            numbers = f"1 to {len(doubts)}" if doubts else "none"
            raise ConfigError(f"no call in doubt has the number {number!r}: there are {numbers}")
        decided_entries.append((by_number[number], {"key": by_number[number].key, **data}))
    return decided_entries
