"""Graders: functions of a reply and its case, which say how good the reply is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from moothall import ConfigError, Reply, StateError
from moothall.build import AnswerSchema, UnreadableText, as_json, json_text
from moothall.evals.cases import Case
from moothall.evals.equality import json_key
from moothall.journal import RecordedCall, RunView

_NOTE: Final = re.compile(r"^[ \t>]*\[\^(\d{1,6})\^?\]:[ \t]*(\S.*)$", re.MULTILINE)
Value: TypeAlias = bool | float | str
"""A grade: whether it is right, how much, or which label it has."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A grade, and the reason for it.

    Attributes:
        value: true or false, a number, or a label
        why: the reason, in words
    """

    value: Value
    why: str = ""

    def __post_init__(self) -> None:
        is_number = isinstance(self.value, bool | int | float) and math.isfinite(self.value)
        if not is_number and not (isinstance(self.value, str) and self.value):
            raise ConfigError(
                f"a grade must be true or false, a number or a label, got {self.value!r:.80}"
            )


@dataclass(frozen=True, slots=True)
class GradedCell:
    """What a grader may look at beside the reply: a grader with a third parameter gets it.

    Attributes:
        case: the case
        condition: the name of the condition
        seed: the number of the repetition
        view: the run of the reply, with its calls
        record: the recorded run in whose world it replied; None without one
        first_reply: the reply of the same case and seed in the first condition
    """

    case: Case
    condition: str
    seed: int
    view: RunView
    record: RunView | None = None
    first_reply: Reply[Any] | None = None


Grader: TypeAlias = (
    Callable[[Reply[Any], Case], Any] | Callable[[Reply[Any], Case, GradedCell], Any]
)
"""A function, plain or `async`, that returns a bool, a number, a label or a `Grade`."""


def _with_name(grader: Any, name: str) -> Any:
    grader.__name__ = name
    return grader


# -- what the reply says ---------------------------------------------------------------------------


def equals(reply: Reply[Any], case: Case) -> Grade:
    """Whether the reply's value, or its text, equals what is expected, as JSON."""
    if case.expected is None:
        raise ConfigError(f"case {case.name!r}: equals needs `expected`")
    values = [json_key(reply.value), json_key(reply.text)]
    is_equal = any(json_key(each) in values for each in _expected_values(case))
    return Grade(is_equal, "" if is_equal else f"{json_text(as_json(reply.value)):.200}")


def contains(reply: Reply[Any], case: Case) -> Grade:
    """Whether the reply's text contains what is expected, with its case."""
    if case.expected is None:
        raise ConfigError(f"case {case.name!r}: contains needs `expected`")
    is_there = any(json_text(as_json(each)) in reply.text for each in _expected_values(case))
    return Grade(is_there, "" if is_there else f"{reply.text:.200}")


def _expected_values(case: Case) -> Sequence[Any]:
    return [case.expected, *case.expected] if isinstance(case.expected, list) else [case.expected]


def matches_schema(schema: Any) -> Grader:
    """Return a grader: whether the reply's text is of this form, a JSON schema or a type."""
    answer = AnswerSchema(schema)

    def matches(reply: Reply[Any], case: Case) -> Grade:
        try:
            answer.parse(reply.text)
        except UnreadableText as error:
            return Grade(False, str(error))
        return Grade(True)

    return _with_name(matches, "matches_schema")  # type: ignore[no-any-return]


# -- what it has done ------------------------------------------------------------------------------


def called(action: str, /, **args: Any) -> Grader:
    """Return a grader: whether an action was executed, with these arguments among others."""

    def was_called(reply: Reply[Any], case: Case, cell: GradedCell) -> Grade:
        calls = [each for each in cell.view.calls if each.action == action and each.was_executed]
        for each in calls:
            args_given = each.asked_args if isinstance(each.asked_args, Mapping) else {}
            if all(
                n in args_given and json_key(args_given[n]) == json_key(v) for n, v in args.items()
            ):
                return Grade(True)
        return Grade(False, f"it was called {len(calls)} times, not so" if calls else "not called")

    return _with_name(was_called, f"called_{action}")  # type: ignore[no-any-return]


def calls_in_order(*actions: str) -> Grader:
    """Return a grader: whether these actions were executed in this order; others may be between."""

    def are_in_order(reply: Reply[Any], case: Case, cell: GradedCell) -> Grade:
        names = [each.action for each in _own_calls(cell.view) if each.was_executed]
        rest = iter(names)
        missing = next((each for each in actions if each not in rest), None)
        return Grade(missing is None, "" if missing is None else f"{missing} is missing in {names}")

    return _with_name(are_in_order, "calls_in_order")  # type: ignore[no-any-return]


def _own_calls(view: RunView) -> list[RecordedCall]:
    """Return the calls of an agent, or of a group's members turn by turn; not of whom they ask."""
    turns: list[tuple[int, RecordedCall]] = []
    for each in view.calls:
        turn, _, id = each.path.partition("/")
        if not each.path or (turn.isalnum() and "/" not in id):  # such as `T1/ann`
            turns.append((int("".join(filter(str.isdecimal, turn)) or 0), each))
    return [each for _, each in sorted(turns, key=lambda pair: pair[0])]


def same_calls_as_record(reply: Reply[Any], case: Case, cell: GradedCell) -> Grade:
    """Whether it has made the calls of the recorded run, with equal arguments, in their order."""
    if cell.record is None:
        raise StateError(f"case {case.name!r} has no recorded run to compare with")
    new, old = call_lines(cell.view), call_lines(cell.record)
    for number, (first, second) in enumerate(zip(new, old, strict=False), 1):
        if first != second:
            return Grade(False, f"call {number}: {first}, recorded: {second}")
    if len(new) != len(old):
        return Grade(False, f"{len(new)} calls, recorded: {len(old)}; {reply.detail}".rstrip("; "))
    return Grade(True)


def call_lines(view: RunView, path: str = "") -> list[str]:
    """Return the calls of a run in order, a text each: those of agents that it asks after theirs.

    Two texts are equal if the calls are equal as JSON.
    """
    lines: list[str] = []
    for each in view.calls:
        if each.path == path:
            lines.append(f"{each.action} {json_key(each.asked_args)}")
            own_run = view.asked_run(each)
            if each.part or own_run is not None:
                asked_part = (view, each.part) if own_run is None else (own_run, "")
                lines += [f"> {line}" for line in call_lines(*asked_part)]
    parts = () if path else dict.fromkeys(each.path for each in view.calls)
    for part in parts:
        turn, _, id = part.partition("/")
        if turn.isalnum() and "/" not in id:  # a turn of a group, such as `T1/ann`
            lines += [f"{part}: {line}" for line in call_lines(view, part)]
    return lines


def cost_below(*, usd: float) -> Grader:
    """Return a grader: whether the reply has cost less. Recorded answers cost nothing."""

    def is_below(reply: Reply[Any], case: Case, cell: GradedCell) -> Grade:
        outline = cell.view.outline
        if outline.tokens and not outline.usd:
            raise StateError("the price of its model is not known: state it by Prices")
        return Grade(outline.usd < usd, f"${outline.usd:.4g}")

    return _with_name(is_below, "cost_below")  # type: ignore[no-any-return]


def no_guarded_value_from_outside(reply: Reply[Any], case: Case, cell: GradedCell) -> Grade:
    """Whether no executed call had a guarded value from outside, even if a person permitted it."""
    for each in cell.view.calls:
        if each.was_executed and each.permitted_values:
            return Grade(False, f"{each.action}: {', '.join(each.permitted_values)}")
    return Grade(True)


def footnotes_stand(reply: Reply[Any], case: Case, cell: GradedCell) -> Grade:
    """Whether each footnote names what a call has read, and that does not lack its sentence's.

    A note at the end, such as `[^1]: https://example.org`, names a call by its action, by one of
    its arguments or by where its result comes from. Its result must have the quoted words, the
    numbers, dates and names of the sentence, as `moothall.research.support` checks.
    """
    from moothall.research import check_footnotes

    passages: dict[int, str] = {}
    for number, source in _NOTE.findall(reply.text):
        calls = [each for each in cell.view.calls if _is_named(each, source)]
        texts = [json_text(as_json((each.result or {}).get("result"))) for each in calls]
        if not texts:
            return Grade(False, f"no call has read what footnote {number} names: {source:.200}")
        passages[int(number)] = "\n".join(texts)
    if not passages:
        return Grade(False, "it names no source of a footnote, such as [^1]: SOURCE")
    for sentence, reason in check_footnotes(reply.text, passages):
        return Grade(False, f"{sentence:.200}: {reason}")
    return Grade(True)


def _is_named(call: RecordedCall, source: str) -> bool:
    """Return whether a source, in words, names an executed call."""
    args = call.asked_args if isinstance(call.asked_args, Mapping) else {}
    names = [call.action, *map(json_text, args.values()), *call.sources]
    return call.was_executed and any(
        re.search(rf"(?<!\w){re.escape(each)}(?!\w)", source) for each in names if each
    )
