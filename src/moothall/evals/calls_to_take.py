"""The calls of a record, each of which is taken once; what becomes of one that it does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from moothall import Budget
from moothall.build import ToolCall, as_json, completed, json_line, json_text
from moothall.evals.equality import json_key
from moothall.journal import RecordedCall, RunView

_EXAMPLES = 8  # how many recorded calls a model that plays an action is shown
_Key: TypeAlias = tuple[str, str, str]  # the path of a call's part, its action, its arguments


RecordedPart: TypeAlias = tuple[RunView | None, str]
"""A run, None without a record, and the path of a part of it."""


def recorded_part(
    path: str, view: RunView | None, asked_parts: Mapping[tuple[str, str], RecordedPart]
) -> RecordedPart:
    """Return what the record has of a part of a reply.

    `asked_parts` has those of agents that calls have asked, by the caller's path and the call.
    """
    new = old = ""
    pieces = [*filter(None, path.split("/"))]
    while pieces:
        name, asked_part = pieces.pop(0), None
        turn, dot, place = name.partition(".")
        if dot and turn.isdecimal() and place.isdecimal():  # a call; the agent's id is next
            asked_part = asked_parts.get((new, name))
            name = f"{name}/{pieces.pop(0)}"
        new = f"{new}/{name}".strip("/")
        view, old = asked_part or (view, f"{old}/{name}".strip("/"))
    return view, old


@dataclass(frozen=True, slots=True)
class LeftCall:
    """A call that the record does not have.

    Attributes:
        path: the part of the run whose agent made it; empty for the run's own
        key: the key of its step, such as `2.0`: the first call of the second answer
        action: the action's name
        args: the arguments that the model gave
        outcome: what became of it: `refused`, `live`, `computed` by a function, `played` by a
            model; `undecided` where nobody has permitted it in the record
    """

    path: str
    key: str
    action: str
    args: dict[str, Any]
    outcome: Literal["refused", "live", "computed", "played", "undecided"]

    def __str__(self) -> str:
        args = ", ".join(f"{name}={json_text(as_json(each))}" for name, each in self.args.items())
        return f"{self.action}({args}): {self.outcome}"


class CallsToTake:
    """The calls of a record: of equal ones in a part, the n-th is taken for the n-th."""

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self._calls: dict[_Key, list[RecordedCall]] = {}
        for each in calls:
            key = (each.path, each.action, json_key(each.asked_args))
            self._calls.setdefault(key, []).append(each)
        self._taken_counts: dict[_Key, int] = {}
        self._decided_counts: dict[_Key, int] = {}

    def _rest(self, counts: dict[_Key, int], key: _Key) -> Iterator[RecordedCall]:
        """Yield the calls that are not counted yet, and count them."""
        calls = self._calls.get(key, [])
        while (place := counts.get(key, 0)) < len(calls):
            counts[key] = place + 1
            yield calls[place]

    def take(self, path: str, action: str, args: Any) -> RecordedCall | None:
        """Return the next call with these arguments that was executed."""
        calls = self._rest(self._taken_counts, (path, action, json_key(args)))
        return next((each for each in calls if each.was_executed), None)

    def decision(self, path: str, action: str, args: Any) -> RecordedCall | None:
        """Return the next call with these arguments that has a result, or a decision."""
        calls = self._rest(self._decided_counts, (path, action, json_key(args)))
        return next((e for e in calls if e.decision is not None or e.result is not None), None)


async def play(
    call: ToolCall,
    args: dict[str, Any],
    calls: Sequence[RecordedCall],
    model: Any,
    budget: Budget | None,
) -> str:
    """Return the result that a model makes up for a call."""
    action: Any = call.action
    examples = [each for each in calls if each.action == call.name and each.result]
    example_texts = [
        f"Call: {json_text(as_json(each.asked_args))}\nResult: "
        f"{json_text(as_json((each.result or {}).get('result', (each.result or {}).get('error'))))}"
        for each in examples[:_EXAMPLES]
    ]
    prompt = "\n\n".join(
        [
            f"You play the tool {call.name!r}: {action.description}",
            f"Its arguments follow this JSON schema: {json_line(action.parameters)}",
            "What it has returned so far:" if example_texts else "Nobody has called it so far.",
            *example_texts,
            "Answer with the result alone, in the same form.",
            f"Call: {json_line(args)}\nResult:",
        ]
    )
    reply = await completed(model, budget, [{"role": "user", "content": prompt}], None, None)
    return str(reply.text)
