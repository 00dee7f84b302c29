"""R's conclusions and H's decisions in a dual act."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeAlias

from moothall.errors import DefinitionError
from moothall.jsonvalue import (
    NotJSON,
    Unreadable,
    copy_json,
    deep_json,
    json_text,
    read_json,
    readable,
    to_json,
)
from moothall.reasoning.reply import ANSWERED, Reply, Step
from moothall.reasoning.reply_request import AnswerSchema
from moothall.text import cut

MAX_EVIDENCE_CHARS: Final = 1000
"""How much of the arguments and of the result of one call H is shown."""
MAX_EVIDENCE: Final = 50
"""How many calls of one conclusion H is shown, the last ones."""


class DecisionAction(enum.Enum):
    """The kinds of decision."""

    CONTINUE = "CONTINUE"
    """R goes on, with a new instruction."""
    TERMINATE = "TERMINATE"
    """The conclusion is accepted, and the work is done."""
    REDIRECT = "REDIRECT"
    """R changes its approach."""


@dataclass(frozen=True, slots=True)
class HumanDecision:
    """H's decision about a conclusion.

    Attributes:
        action: the kind of decision
        new_instruction: what R must do next; with several R, it may be a list with one for each
        reasoning: the reason
    """

    action: DecisionAction
    new_instruction: str | list[str] = ""
    reasoning: str = ""

    def __post_init__(self) -> None:
        _check("decision", self, _OF_DECISION)

    def to_json(self) -> dict[str, Any]:
        """Return the object by which a model states this decision."""
        return deep_json(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """R's result for one instruction.

    Attributes:
        summary: what was accomplished; if R answers in plain text, that text
        steps: what R says that it did
        suggested_next_action: what R would do next; empty for nothing
        confidence: how sure R is, from 0 to 1; None if it did not say
        artifacts: what R made, by name, as JSON data
        evidence: R's real calls and their results, so that H need not trust the summary
        error: why R did not finish by itself, or None
    """

    summary: str = ""
    steps: list[str] = field(default_factory=list)
    suggested_next_action: str = ""
    confidence: float | None = None
    artifacts: dict[str, Any] = field(default_factory=dict)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None

    def __post_init__(self) -> None:
        _check("conclusion", self, _OF_CONCLUSION)
        object.__setattr__(self, "artifacts", _json_artifacts(self.artifacts))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
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


def read_decision(text: str, instructions: int = 1) -> HumanDecision:
    """Read a decision from an answer, which must be exactly one object."""
    value = _decision(instructions).parse(text)
    return HumanDecision(**{**value, "action": DecisionAction(value["action"])})


@cache
def _decision(instructions: int) -> AnswerSchema:
    """Return the schema of a decision; with several R, it allows an instruction for each."""
    parts = dict(DECISION_SCHEMA["properties"])
    if instructions > 1:
        size = {"minItems": instructions, "maxItems": instructions}
        each = {"type": "array", "items": {"type": "string"}, **size}
        parts["new_instruction"] = {"anyOf": [{"type": "string"}, each]}
    return AnswerSchema({**DECISION_SCHEMA, "properties": parts})


def read_conclusion(text: str) -> Conclusion:
    """Read a conclusion: a JSON object with its parts, or any other text as its summary."""
    try:
        value = copy_json(read_json(text))
    except (Unreadable, NotJSON):
        return Conclusion(text)
    if (
        not isinstance(value, dict)
        or "summary" not in value
        or value.keys() - _OF_CONCLUSION.keys()
    ):
        return Conclusion(text)
    try:
        return Conclusion(**value)
    except DefinitionError as error:
        raise Unreadable(f"is not a conclusion: {readable(str(error))}") from None


def conclusion_of(reply: Reply) -> Conclusion:
    """Return the conclusion in R's reply, with its evidence."""
    evidence = evidence_of(reply)
    if reply.stop_reason not in ANSWERED:
        error = f"{reply.stop_reason}: {reply.detail}" if reply.detail else reply.stop_reason
        return Conclusion(reply.text, evidence=evidence, error=error)
    return replace(read_conclusion(reply.text), evidence=evidence)


def merged(conclusions: Mapping[str, Conclusion]) -> Conclusion:
    """Merge the conclusions of several R into one, each marked with its R's id."""
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
    """Return the last calls of a reply, up to a limit, with arguments and results."""
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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_share(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 1)


_Parts: TypeAlias = Mapping[str, tuple[str, Callable[[Any], bool]]]

_OF_DECISION: Final[_Parts] = {
    "action": ("a DecisionAction", lambda value: isinstance(value, DecisionAction)),
    "new_instruction": (
        "a text, or a list of texts",
        lambda value: _is_text(value) or _are_texts(value),
    ),
    "reasoning": ("a text", _is_text),
}
_OF_CONCLUSION: Final[_Parts] = {
    "summary": ("a text", _is_text),
    "steps": ("a list of texts", _are_texts),
    "suggested_next_action": ("a text", _is_text),
    "confidence": ("a number from 0 to 1", _is_share),
    "artifacts": ("an object", lambda value: isinstance(value, dict)),
}


def _check(what: str, made: Any, parts: _Parts) -> None:
    for name, (wanted, fits) in parts.items():
        if not fits(value := getattr(made, name)):
            raise DefinitionError(f"a {what}'s {name} must be {wanted}, got {cut(repr(value), 80)}")


def _json_artifacts(artifacts: Mapping[Any, Any]) -> dict[str, Any]:
    """Return artifacts as JSON data; a value that is not JSON becomes a text that says so."""
    made: dict[str, Any] = {}
    for name, value in artifacts.items():
        try:
            made[readable(str(name))] = to_json(value)
        except (NotJSON, RecursionError) as error:
            made[readable(str(name))] = f"(a {type(value).__name__} that is not JSON: {error})"
    return made


def steps_text(steps: Iterable[str]) -> str:
    """Return steps as text, one per line."""
    return "\n".join(f"- {step}" for step in steps)
