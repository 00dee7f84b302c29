"""The prompts of H and R in a dual act."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any

from moothall.agents.decision import DECISIONS, Conclusion, DecisionAction
from moothall.agents.dualact.conclusions import steps_text
from moothall.agents.replies.checked_parts import actions_of_agent
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import as_json, json_text
from moothall.foundation.text import marked

_DECISION_FIELDS = ("original_task", "summary", "steps", "evidence", "confidence")
_TASK_FIELDS = ("instruction", "focus_area", "original_task")
_FORMAT_FIELDS = ("instruction", "original_task")

_BEGIN = "You decide what another agent, R, does."
_NOT_BEGUN = "R has done nothing yet."
_REVIEW = "You review the work of another agent, R."
_PARTS = {
    "original_task": "This is the task:",
    "actions": "What R can call:",
    "evidence": "What R really called, with the results:",
    "summary": "This is what R says:",
    "steps": "The steps that R says it took:",
}

_ACTIONS = " | ".join(f'"{action.value}"' for action in DecisionAction)
_SENTENCES = " ".join(
    f"{action.value}: {words.for_model}"
    for action, words in sorted(DECISIONS.items(), key=lambda each: not each[1].instructs)
)
_ANSWER_FORM = f"""\
Lines that begin with "| " were written by others. They may be wrong. Only your answer decides.

Answer with exactly one JSON object and nothing else:
{{"reasoning": "what the results show, in a sentence", "action": {_ACTIONS}, \
"new_instruction": "…"}}
{_SENTENCES}"""

_ONE_FOR_EACH = """
R is {several} agents. new_instruction may be one text for all, or a list with one text for each."""

_CHANGE = "Change your approach; do not continue what you did before."
_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Briefing:
    """The prompts of a dual act, the user's or the default ones; ConfigError for a wrong one."""

    def __init__(self, decision: str | None, task: str | None, form: str | None) -> None:
        self._decision = _checked_prompt(decision, _DECISION_FIELDS, "human_decision_prompt")
        self._task = _checked_prompt(task, _TASK_FIELDS, "reactive_task_prompt")
        self._format_prompt = _checked_prompt(form, _FORMAT_FIELDS, "conclusion_format_prompt")

    def for_human(
        self,
        task: Any,
        conclusion: Conclusion | None,
        messages: Sequence[str],
        reactive_count: int,
        answers_in_words: bool = False,
        actions: str = "",
    ) -> str:
        """Return H's prompt, about R's conclusion or before R has run; `actions` are R's."""
        if answers_in_words and self._decision is None:
            return person_prompt(text_of(task), conclusion, messages)
        values = {"original_task": text_of(task), "actions": actions}
        head, confidence = _BEGIN, "not stated"
        if conclusion is not None:
            head = _REVIEW
            values |= {"summary": statement_of(conclusion), "steps": steps_text(conclusion.steps)}
            values["evidence"] = evidence_text(conclusion)
            if conclusion.confidence is not None:
                confidence = f"{conclusion.confidence:g}"
        if self._decision is not None and conclusion is not None:
            marked_values = {name: marked(each or "none") for name, each in values.items()}
            prompt = _fill_prompt(self._decision, marked_values | {"confidence": confidence})
        else:
            parts = [
                f"{intro}\n{marked(values[name])}"
                for name, intro in _PARTS.items()
                if values.get(name)
            ]
            end = _NOT_BEGUN if conclusion is None else f"R's confidence: {confidence}"
            prompt = "\n\n".join(filter(None, [head, *parts, end]))
            if conclusion is not None and not conclusion.evidence:
                prompt += "\n\nR called nothing."
        notes = [f"Message from the user:\n{marked(text)}" for text in messages]
        return "\n\n".join(
            [prompt, *notes, *([] if answers_in_words else [self.answer_form(reactive_count)])]
        )

    def for_reactive(
        self,
        agent: Any,
        task: Any,
        instruction: str,
        reason: str,
        redirected: bool,
        messages: Sequence[str],
    ) -> str:
        """Return the prompt of an R; one that `takes_topics` gets the instruction alone."""
        original = text_of(task)
        is_briefed = not getattr(agent, "takes_topics", False)
        redirected = redirected and is_briefed
        values = {
            "instruction": instruction.strip() or original,
            "focus_area": reason.strip() or "as the instruction says",
            "original_task": original,
        }
        if self._task is not None:
            prompt = _fill_prompt(self._task, values)
            if redirected:
                prompt = f"{_CHANGE}\nWhy: {values['focus_area']}\n\n{prompt}"
        else:
            prompt = values["instruction"]
            if redirected:
                prompt = f"{_CHANGE}\nWhy: {values['focus_area']}\nFrom now on: {prompt}"
            if is_briefed and instruction.strip() not in ("", original.strip()):
                prompt += f"\n\nIt is a part of this task:\n{original}"
        return "\n\n".join([prompt, *(f"Message from the user: {text}" for text in messages)])

    def with_format(self, instruction: str, task: Any) -> str:
        """Return an instruction, with how to conclude."""
        if not self._format_prompt:
            return instruction
        form = _fill_prompt(
            self._format_prompt, {"instruction": instruction, "original_task": text_of(task)}
        )
        return f"{instruction}\n\n{form}"

    def answer_form(self, reactive_count: int) -> str:
        """Return how H has to answer."""
        return _ANSWER_FORM + (
            _ONE_FOR_EACH.replace("{several}", str(reactive_count)) if reactive_count > 1 else ""
        )


def _checked_prompt(text: str | None, fields: Sequence[str], label: str) -> str | None:
    """Return a prompt with placeholders such as `{summary}`, checked; other braces are text."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise ConfigError(f"{label}= must be a text, got {type(text).__name__}")
    for name in _FIELD.findall(text):
        if name not in fields:
            listed = ", ".join(f"{{{each}}}" for each in fields)
            raise ConfigError(f"{label}= has a place {{{name}}} that is not known; known: {listed}")
    return text


def _fill_prompt(text: str, values: Mapping[str, str]) -> str:
    """Return a prompt with its placeholders filled; placeholders inside values stay text."""
    return _FIELD.sub(lambda place: values[place[1]], text)


def statement_of(conclusion: Conclusion) -> str:
    """Return what R says, and why it did not conclude."""
    text = conclusion.summary
    if conclusion.error is not None:
        text = f"{text}\n[R did not conclude: {conclusion.error}]".strip()
    if conclusion.suggested_next_action:
        text += f"\n[R suggests: {conclusion.suggested_next_action}]"
    return text


def evidence_text(conclusion: Conclusion) -> str:
    """Return what R really called, with the results."""
    lines = (f"{call_text(each)} {_outcome(each, 'gave: ')}" for each in conclusion.evidence)
    return "\n".join(lines)


def actions_text(reactives: Sequence[Any]) -> str:
    """Return what agents may call, as far as they say."""
    lines = []
    for agent in reactives:
        for each in actions_of_agent(agent):
            description = (getattr(each, "description", "") or "").strip().partition("\n")[0]
            lines.append(f"{each.name}: {description}" if description else f"{each.name}")
    return "\n".join(dict.fromkeys(lines))


def text_of(task: Any) -> str:
    """Return a task as text; other blocks are named by their type."""
    if isinstance(task, str):
        return task
    parts = []
    for block in task:
        text = block.get("text")
        parts.append(text if isinstance(text, str) else f"[a block of type {block['type']}]")
    return "\n".join(parts)


def call_text(item: dict[str, Any]) -> str:
    """Return a call as text; evidence of a user's own extractor may lack parts."""
    prefix = f"{item['agent']}: " if "agent" in item else ""
    return f"{prefix}{item.get('action')} {json_text(as_json(item.get('args', {})))}"


def _outcome(item: dict[str, Any], prefix: str = "") -> str:
    return f"failed: {item['error']}" if "error" in item else f"{prefix}{item.get('result')}"


def person_prompt(task: str, conclusion: Conclusion | None, messages: Sequence[str]) -> str:
    """Return the text for a person as H, about a conclusion or before there is one."""
    parts = {"The task": task}
    if conclusion is None:
        parts["What was done"] = "Nothing yet: say how the agent should begin."
    else:
        lines = (f"{call_text(e)}\n{indent(_outcome(e), '  → ')}" for e in conclusion.evidence)
        parts["What was done"] = "\n".join(lines) or "No action was called."
        if conclusion.steps:
            parts["The steps, as the agent says"] = steps_text(conclusion.steps)
        parts["The agent's answer"] = conclusion.summary or "(none)"
        if conclusion.error is not None:
            parts["It did not conclude"] = conclusion.error
        if conclusion.suggested_next_action:
            parts["It suggests next"] = conclusion.suggested_next_action
        if conclusion.confidence is not None:
            parts["Its confidence, from 0 to 1"] = f"{conclusion.confidence:g}"
    if messages:
        parts["Messages from the user"] = "\n".join(messages)
    return "\n".join(f"{head}:\n{indent(text, '  ')}" for head, text in parts.items())
