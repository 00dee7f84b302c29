"""What a dual act is told of: R's conclusions and H's decisions, with their words."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, deep_json, readable, to_json
from moothall.foundation.text import cut


class DecisionAction(enum.Enum):
    """The kinds of decision."""

    CONTINUE = "CONTINUE"
    """R goes on, with a new instruction."""
    TERMINATE = "TERMINATE"
    """The conclusion is accepted, and the work is done."""
    REDIRECT = "REDIRECT"
    """R changes its approach."""


class DecisionWords(NamedTuple):
    """What commands, pages and prompts say of a kind of decision."""

    choice: str  # the word by which a person states it; its first letter is enough
    instructs: bool  # whether R gets an instruction with it
    for_model: str  # its sentence in the prompt of H's model
    menu_text: str  # what a person is told of it in a terminal
    effect: str  # and on a page, after its word
    outcome: str  # that a person has decided so
    announcement: str  # that H has decided so, for observers


DECISIONS: Final[dict[DecisionAction, DecisionWords]] = {
    DecisionAction.TERMINATE: DecisionWords(
        "accept",
        instructs=False,
        for_model="the task is done; leave new_instruction empty.",
        menu_text="accept: the work is done",
        effect="ends the run with this conclusion",
        outcome="accepted",
        announcement="the review accepts",
    ),
    DecisionAction.CONTINUE: DecisionWords(
        "continue",
        instructs=True,
        for_model="R continues with your new_instruction.",
        menu_text="send it back with a remark",
        effect="works on from it",
        outcome="continued",
        announcement="the review asks for more",
    ),
    DecisionAction.REDIRECT: DecisionWords(
        "redirect",
        instructs=True,
        for_model="R changes its approach and follows your new_instruction.",
        menu_text="have it done in another way, with a remark",
        effect="takes another way",
        outcome="redirected",
        announcement="the review asks for another way",
    ),
}
"""To add one, say here what it is, and in `DualActState.note_decision` what it does."""


@dataclass(frozen=True, slots=True)
class HumanDecision:
    """H's decision about a conclusion.

    Attributes:
        action: the kind of decision
        new_instruction: what R must do next; with several R, it may be a list with one for each
        reasoning: the reason
        choices: the kinds of decision with their words, as a person is offered them
        schema: the JSON schema of what H's model writes
        wait_action: the action of a run's wait for a person's decision
    """

    choices: ClassVar[Mapping[DecisionAction, DecisionWords]] = DECISIONS
    schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string", "maxLength": 2000},
            "action": {"type": "string", "enum": [action.value for action in DecisionAction]},
            "new_instruction": {"type": "string", "maxLength": 4000},
        },
        "required": ["action", "new_instruction"],
        "additionalProperties": False,
    }
    """What H's model writes: the reason comes before what it decides."""
    wait_action: ClassVar[str] = "decide"

    action: DecisionAction
    new_instruction: str | list[str] = ""
    reasoning: str = ""

    def __post_init__(self) -> None:
        _check("decision", self, _PARTS_OF_DECISION)

    @classmethod
    def from_json(cls, data: Any) -> HumanDecision:
        """Return the decision that an object states; `reasoning` may be left out.

        Raises:
            ConfigError: it is no such object
        """
        if not isinstance(data, dict) or not {*cls.schema["required"]} <= data.keys():
            required = " and ".join(cls.schema["required"])
            raise ConfigError(f"a decision must be an object with {required}, got {data!r:.80}")
        if extra := data.keys() - cls.schema["properties"].keys():
            raise ConfigError(f"a decision must have no {min(extra)!r:.80}")
        kinds = {each.value: each for each in DecisionAction}
        if data["action"] not in (*kinds,):
            kinds_text = ", ".join(kinds)
            raise ConfigError(f"a decision's action must be one of {kinds_text}, got {data!r:.80}")
        return cls(**{**data, "action": kinds[data["action"]]})

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
        _check("conclusion", self, PARTS_OF_CONCLUSION)
        object.__setattr__(self, "artifacts", _json_artifacts(self.artifacts))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return deep_json(self)  # type: ignore[no-any-return]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_share(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 1)


_Parts: TypeAlias = Mapping[str, tuple[str, Callable[[Any], bool]]]

_PARTS_OF_DECISION: Final[_Parts] = {
    "action": ("a DecisionAction", lambda value: isinstance(value, DecisionAction)),
    "new_instruction": (
        "a text, or a list of texts",
        lambda value: _is_text(value) or _are_texts(value),
    ),
    "reasoning": ("a text", _is_text),
}
PARTS_OF_CONCLUSION: Final[_Parts] = {
    "summary": ("a text", _is_text),
    "steps": ("a list of texts", _are_texts),
    "suggested_next_action": ("a text", _is_text),
    "confidence": ("a number from 0 to 1", _is_share),
    "artifacts": ("an object", lambda value: isinstance(value, dict)),
}


def _check(label: str, record: Any, parts: _Parts) -> None:
    for name, (required, is_valid) in parts.items():
        if not is_valid(value := getattr(record, name)):
            raise ConfigError(f"a {label}'s {name} must be {required}, got {cut(repr(value), 80)}")


def _json_artifacts(artifacts: Mapping[Any, Any]) -> dict[str, Any]:
    """Return artifacts as JSON data; a value that is not JSON becomes a text that says so."""
    data: dict[str, Any] = {}
    for name, value in artifacts.items():
        try:
            data[readable(str(name))] = to_json(value)
        except (NotJSON, RecursionError) as error:
            data[readable(str(name))] = f"(a {type(value).__name__} that is not JSON: {error})"
    return data
