"""R's conclusions and H's decisions in a dual act."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from moothall.agents.decision import PARTS_OF_CONCLUSION, Conclusion, HumanDecision
from moothall.agents.replies.reply import Reply, Step
from moothall.agents.replies.reply_request import AnswerSchema
from moothall.foundation.errors import DefinitionError
from moothall.foundation.jsonvalue import (
    NotJSON,
    UnreadableText,
    copy_json,
    json_and_text,
    read_json,
    readable,
)
from moothall.foundation.text import cut
from moothall.journal.stop_reason import ANSWERED_REASONS

MAX_EVIDENCE_CHARS: Final = 1000
"""How much of the arguments and of the result of one call H is shown."""
MAX_EVIDENCE_CALLS: Final = 50
"""How many calls of one conclusion H is shown, the last ones."""


MAX_SHORT_CHARS: Final = 300
"""How long a short text of H's may be."""
_TEXT_KEYS: Final = ("reasoning", "new_instruction")


def read_decision(text: str, agent_count: int = 1) -> HumanDecision:
    """Read a decision from an answer, which must be exactly one object."""
    return HumanDecision.from_json(_decision_schema(agent_count).parse(text))


@cache
def _decision_schema(agent_count: int) -> AnswerSchema:
    """Return the schema of a decision; with several R, it allows an instruction for each."""
    # A person may write as much as it takes.
    parts = {**HumanDecision.schema["properties"], **{k: {"type": "string"} for k in _TEXT_KEYS}}
    if agent_count > 1:
        size = {"minItems": agent_count, "maxItems": agent_count}
        list_schema = {"type": "array", "items": {"type": "string"}, **size}
        parts["new_instruction"] = {"anyOf": [{"type": "string"}, list_schema]}
    return AnswerSchema({**HumanDecision.schema, "properties": parts})


def read_conclusion(text: str) -> Conclusion:
    """Read a conclusion: a JSON object with its parts, or any other text as its summary."""
    try:
        value = copy_json(read_json(text))
    except (UnreadableText, NotJSON):
        return Conclusion(text)
    if (
        not isinstance(value, dict)
        or "summary" not in value
        or value.keys() - PARTS_OF_CONCLUSION.keys()
    ):
        return Conclusion(text)
    try:
        return Conclusion(**value)
    except DefinitionError as error:
        raise UnreadableText(f"is not a conclusion: {readable(str(error))}") from None


def conclusion_of(reply: Reply) -> Conclusion:
    """Return the conclusion in R's reply, with its evidence."""
    evidence = evidence_of(reply)
    if reply.stop_reason not in ANSWERED_REASONS:
        error = f"{reply.stop_reason}: {reply.detail}" if reply.detail else reply.stop_reason
        return Conclusion(reply.text, evidence=evidence, error=error)
    return replace(read_conclusion(reply.text), evidence=evidence)


def merge_conclusions(conclusions: Mapping[str, Conclusion]) -> Conclusion:
    """Merge the conclusions of several R into one, each marked with its R's id."""
    if len(conclusions) == 1:
        return next(iter(conclusions.values()))
    confidences = [each.confidence for each in conclusions.values() if each.confidence is not None]
    errors = [f"{id}: {each.error}" for id, each in conclusions.items() if each.error is not None]
    return Conclusion(
        "\n".join(f"{id}: {each.summary}" for id, each in conclusions.items()),
        [f"{id}: {step}" for id, each in conclusions.items() for step in each.steps],
        "\n".join(
            f"{id}: {each.suggested_next_action}"
            for id, each in conclusions.items()
            if each.suggested_next_action
        ),
        min(confidences, default=None),
        {id: each.artifacts for id, each in conclusions.items() if each.artifacts},
        [{**item, "agent": id} for id, each in conclusions.items() for item in each.evidence],
        "; ".join(errors) or None,
    )


def evidence_of(reply: Reply) -> list[dict[str, Any]]:
    """Return the last calls of a reply, up to a limit, with arguments and results."""
    return [_evidence_item(step) for step in reply.steps[-MAX_EVIDENCE_CALLS:]]


def _evidence_item(step: Step) -> dict[str, Any]:
    item: dict[str, Any] = {
        "action": step.action,
        "args": cut(json_and_text(step.args)[1], MAX_EVIDENCE_CHARS),
    }
    if step.error is not None:
        item["error"] = cut(readable(step.error), MAX_EVIDENCE_CHARS)
    else:
        result = step.result.get("result", step.result)
        item["result"] = cut(json_and_text(result)[1], MAX_EVIDENCE_CHARS)
    return item


def steps_text(steps: Iterable[str]) -> str:
    """Return steps as text, one per line."""
    return "\n".join(f"- {step}" for step in steps)
