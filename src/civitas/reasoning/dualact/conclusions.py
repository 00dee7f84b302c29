"""What passes between the two of a dual act: R's conclusions and H's decisions."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from civitas.errors import DefinitionError
from civitas.jsonvalue import (
    NotJSON,
    Unreadable,
    copy_json,
    deep_json,
    json_text,
    read_json,
    readable,
    to_json,
)
from civitas.reasoning.reply import ANSWERED, Reply, Step
from civitas.text import cut, json_type

MAX_EVIDENCE_CHARS: Final = 1000
"""How much of the arguments and of the result of one call H is shown."""
MAX_EVIDENCE: Final = 50
"""How many calls of one conclusion H is shown, the last ones."""


class DecisionAction(enum.Enum):
    """What H decides."""

    CONTINUE = "CONTINUE"
    """R goes on, with a new instruction."""
    TERMINATE = "TERMINATE"
    """The conclusion is accepted, and the work is done."""
    REDIRECT = "REDIRECT"
    """R changes its approach."""


@dataclass(frozen=True, slots=True)
class HumanDecision:
    """What H decided, having seen a conclusion.

    Attributes:
        action: what is to happen
        new_instruction: what R is to do now; a list where there are several R, one for each
        reasoning: why
    """

    action: DecisionAction
    new_instruction: str | list[str] = ""
    reasoning: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.action, DecisionAction):
            raise DefinitionError(
                f"a decision's action must be a DecisionAction, got {self.action!r}"
            )
        instruction = self.new_instruction
        if not isinstance(instruction, str) and not (
            isinstance(instruction, list) and all(isinstance(each, str) for each in instruction)
        ):
            raise DefinitionError(
                f"a decision's new_instruction must be a text, got {instruction!r:.80}"
            )
        if not isinstance(self.reasoning, str):
            raise DefinitionError(
                f"a decision's reasoning must be a text, got {self.reasoning!r:.80}"
            )

    def to_json(self) -> dict[str, Any]:
        """The one object that a model spells it as."""
        return deep_json(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What R came to.

    Attributes:
        summary: what was accomplished; of an R that answers in plain text, that text
        steps: what it says that it did
        suggested_next_action: what it would do next; empty for nothing
        confidence: how sure it is, from 0 to 1; None if it did not say
        artifacts: what it made, by name, as JSON data
        evidence: what it really called, and what came of it: H need not believe the summary
        error: why R came to no end of its own, or None
    """

    summary: str = ""
    steps: list[str] = field(default_factory=list)
    suggested_next_action: str = ""
    confidence: float | None = None
    artifacts: dict[str, Any] = field(default_factory=dict)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None

    def __post_init__(self) -> None:
        fault = _fault_of_parts({name: getattr(self, name) for name in _WANTED})
        if fault is not None:
            raise DefinitionError(f"a conclusion's {fault}")
        object.__setattr__(self, "artifacts", _json_artifacts(self.artifacts))

    def to_json(self) -> dict[str, Any]:
        """It as JSON data."""
        return deep_json(self)  # type: ignore[no-any-return]


DECISION_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": [action.value for action in DecisionAction]},
        "new_instruction": {"type": "string"},
        "reasoning": {"type": "string"},
    },
    "required": ["action", "new_instruction"],
    "additionalProperties": False,
}
"""What H's model writes."""

CONCLUSION_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "steps": {"type": "array", "items": {"type": "string"}},
        "suggested_next_action": {"type": "string"},
        "confidence": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}]},
        "artifacts": {"type": "object"},
    },
    "required": ["summary"],
    "additionalProperties": False,
}
"""What R's model may write."""


def read_decision(answer: Any, instructions: int = 1) -> HumanDecision:
    """The decision that an answer is: exactly one object, and nothing beside it."""
    try:
        value = copy_json(read_json(answer) if isinstance(answer, str) else answer)
    except (Unreadable, NotJSON) as error:
        raise Unreadable(f"is no decision: {error}") from None
    wanted = DECISION_SCHEMA["properties"]
    if not isinstance(value, dict):
        raise Unreadable(f"is {json_type(value)}, not the one object that a decision is")
    if unknown := sorted(value.keys() - wanted):
        raise Unreadable(f'is no decision: "{readable(unknown[0])[:80]}" is no part of one')
    if missing := [name for name in DECISION_SCHEMA["required"] if name not in value]:
        raise Unreadable(f'is no decision: "{missing[0]}" is missing')
    instruction = value["new_instruction"]
    if isinstance(instruction, list) and (instructions == 1 or len(instruction) != instructions):
        form = "a text" if instructions == 1 else f"a text, or a list of {instructions} texts"
        raise Unreadable(f'is no decision: "new_instruction" is {form}')
    try:
        action = DecisionAction(value["action"])
    except ValueError:
        told = cut(json_text(value["action"]), 80)
        raise Unreadable(
            f'is no decision: "action" must be CONTINUE, TERMINATE or REDIRECT, got {told}'
        ) from None
    try:
        return HumanDecision(**{**value, "action": action})
    except DefinitionError as error:
        raise Unreadable(f"is no decision: {readable(str(error))}") from None


def read_conclusion(text: str) -> Conclusion:
    """The conclusion that a text is.

    A JSON object with the parts of a conclusion is one; any other text is the summary of one.
    """
    try:
        value = copy_json(read_json(text))
    except (Unreadable, NotJSON):
        return Conclusion(text)
    if not isinstance(value, dict) or "summary" not in value or value.keys() - _WANTED.keys():
        return Conclusion(text)
    if fault := _fault_of_parts(value):
        raise Unreadable(f"is a conclusion whose {fault}")
    return Conclusion(**value)


def conclusion_of(reply: Reply) -> Conclusion:
    """The conclusion of an R's reply, with its evidence."""
    evidence = evidence_of(reply)
    if reply.stop_reason not in ANSWERED:
        error = f"{reply.stop_reason}: {reply.detail}" if reply.detail else reply.stop_reason
        return Conclusion(reply.text, evidence=evidence, error=error)
    return replace(read_conclusion(reply.text), evidence=evidence)


def merged(conclusions: Mapping[str, Conclusion]) -> Conclusion:
    """Those of several R as one, each marked with whose it is."""
    if len(conclusions) == 1:
        return next(iter(conclusions.values()))
    known = [each.confidence for each in conclusions.values() if each.confidence is not None]
    errors = [f"{id}: {each.error}" for id, each in conclusions.items() if each.error is not None]
    return Conclusion(
        "\n".join(f"{id}: {each.summary}" for id, each in conclusions.items()),
        [f"{id}: {step}" for id, each in conclusions.items() for step in each.steps],
        "\n".join(
            f"{id}: {each.suggested_next_action}"
            for id, each in conclusions.items()
            if each.suggested_next_action
        ),
        min(known, default=None),
        {id: each.artifacts for id, each in conclusions.items() if each.artifacts},
        [{**item, "agent": id} for id, each in conclusions.items() for item in each.evidence],
        "; ".join(errors) or None,
    )


def evidence_of(reply: Reply) -> list[dict[str, Any]]:
    """What a reply's actions were called with, and what came of it, the last so many."""
    return [_evidence(step) for step in reply.steps[-MAX_EVIDENCE:]]


def _evidence(step: Step) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "action": step.action,
        "args": cut(json_text(step.args), MAX_EVIDENCE_CHARS),
    }
    if step.error is not None:
        shown["error"] = cut(readable(step.error), MAX_EVIDENCE_CHARS)
    else:
        result = step.result.get("result", step.result)
        shown["result"] = cut(json_text(result), MAX_EVIDENCE_CHARS)
    return shown


_WANTED: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "summary": ("a text", lambda value: isinstance(value, str)),
    "steps": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    ),
    "suggested_next_action": ("a text", lambda value: isinstance(value, str)),
    "confidence": (
        "a number from 0 to 1",
        lambda value: value is None or (type(value) in (int, float) and 0 <= value <= 1),
    ),
    "artifacts": ("an object", lambda value: isinstance(value, dict)),
}
"""What each part of a conclusion is."""


def _fault_of_parts(parts: Mapping[str, Any]) -> str | None:
    """What is wrong with the parts of a conclusion, after `a conclusion's`."""
    for name, value in parts.items():
        wanted, fits = _WANTED[name]
        if not fits(value):
            return f"{name} is {wanted}, not {cut(repr(value), 80)}"
    return None


def _json_artifacts(artifacts: Mapping[Any, Any]) -> dict[str, Any]:
    """Artifacts as JSON data; in place of one that is none, a text that says so."""
    made: dict[str, Any] = {}
    for name, value in artifacts.items():
        try:
            made[readable(str(name))] = to_json(value)
        except (NotJSON, RecursionError) as error:
            made[readable(str(name))] = f"(a {type(value).__name__} that is not JSON: {error})"
    return made


def said_steps(steps: Iterable[str]) -> str:
    """Steps as text, one a line."""
    return "\n".join(f"- {step}" for step in steps)
