"""Choosing actions under a grammar: the prompt, the schema, and how the answer is read.

A model too small to follow a format is held to it by a JSON schema that admits nothing but the
actions with their own arguments. The prompt has the form from which a model of 135M parameters
chose best, measured over one-instruction tasks: each action's description, then the JSON to
write, with the arguments' descriptions in place of their values and without quotes, because such
a model copies quoted text; and each message of the user is marked as an instruction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from moothall.actions.signature.schema import map_schemas, object_schema
from moothall.foundation.jsonvalue import readable
from moothall.models.protocol import Call, ModelReply, calls_in

if TYPE_CHECKING:
    from moothall.actions import Action

GUIDANCE: Final = {
    "x-guidance": {
        # No free whitespace: small models repeat it without end.
        "whitespace_flexible": False,
        "item_separator": ", ",
        "key_separator": ": ",
        # The caller checks what a grammar cannot express (`uniqueItems`, unknown formats).
        "lenient": True,
    }
}
"""How a grammar admits the JSON of a schema."""
INSTRUCTION_PREFIX = "Instruction: "
"""Precedes each message of the user. Every such message has it, so that a longer conversation
keeps its beginning, and the prompt cache stays valid."""

_HEAD = "You carry out the user's instruction by choosing one action. Answer with JSON.\nActions:\n"
_ANSWER_LINE = 'Tell the user what came of it. {"answer": text}'
_MAX_CALLS = 16


def choice_text(actions: Iterable[Action], *, may_answer: bool) -> str:
    """Return the part of the prompt that lists the actions."""
    lines = [f"{_one_line(action.description)} {_call_form(action)}".strip() for action in actions]
    if may_answer:
        lines.append(_ANSWER_LINE)
    return _HEAD + "\n".join(lines)


def _call_form(action: Action) -> str:
    schema: Mapping[str, Any] = action.parameters or {}
    args = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)}: {_value_form(arg_schema)}"
        for name, arg_schema in schema.get("properties", {}).items()
    )
    return f'{{"action": {json.dumps(action.name, ensure_ascii=False)}, "args": {{{args}}}}}'


def _value_form(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "value"
    if "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type")
    return _one_line(schema.get("description")) or (kind if isinstance(kind, str) else "value")


def _one_line(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""


def choice_schema(
    actions: Iterable[Action],
    *,
    answer: Mapping[str, Any] | None = None,
    answers_by: str | None = None,
) -> dict[str, Any]:
    """Return the schema that admits one of the actions, or an answer of a schema.

    With `answers_by`, it admits a list of actions, or of one action of this name, the answer.
    """
    definitions: dict[str, Any] = {}
    forms: list[dict[str, Any]] = []
    for number, action in enumerate(actions):
        args = _nested_schema(dict(action.parameters or {}), f"a{number}", definitions)
        args.setdefault("type", "object")
        if "properties" in args or "anyOf" not in args:
            # The model may write only arguments that it is shown.
            args.setdefault("properties", {})
            args.setdefault("additionalProperties", False)
        forms.append(object_schema(action={"const": action.name}, args=args))
    if answers_by is not None and forms:
        forms = [_list_of({"anyOf": forms}, _MAX_CALLS)]
    if answer is not None:
        text = _nested_schema(dict(answer), "answer", definitions)
        if answers_by is None:
            forms.append(object_schema(answer=text))
        else:
            text_call = object_schema(action={"const": answers_by}, args=object_schema(text=text))
            forms.append(_list_of(text_call, 1))
    return {"anyOf": forms, **({"$defs": definitions} if definitions else {})}


def _list_of(items: dict[str, Any], max_items: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": max_items}


def after_a_thought(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a thought and then a value of this schema."""
    definitions: dict[str, Any] = {}
    thought = {"type": "string", "maxLength": 200, "description": "what the value follows from"}
    wrapped = object_schema(
        thought=thought, value=_nested_schema(dict(schema), "value", definitions)
    )
    return {**wrapped, **({"$defs": definitions} if definitions else {})}


def _nested_schema(
    schema: dict[str, Any], prefix: str, definitions: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema for use in a larger one, with its definitions moved there."""
    for key in ("$defs", "definitions"):
        for name, about in schema.pop(key, {}).items():
            definitions[f"{prefix}.{name}"] = _with_moved_refs(about, prefix)
    moved: dict[str, Any] = _with_moved_refs(schema, prefix)
    if '"$ref": "#/$defs/' + prefix + '"' in json.dumps([moved, definitions]):
        definitions[prefix] = moved
    return moved


def _with_moved_refs(schema: Any, prefix: str) -> Any:
    def change(each: dict[str, Any]) -> dict[str, Any]:
        ref = each.get("$ref")
        if ref == "#":
            each["$ref"] = f"#/$defs/{prefix}"
        elif isinstance(ref, str):
            for start in ("#/$defs/", "#/definitions/"):
                if ref.startswith(start):
                    each["$ref"] = f"#/$defs/{prefix}.{ref.removeprefix(start)}"
        return each

    return map_schemas(change, schema)


def choice_as_text(name: str, args: Mapping[str, Any] | str) -> str:
    """Return a choice as the model writes it."""
    args_json = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    return f'{{"action": {json.dumps(name, ensure_ascii=False)}, "args": {args_json}}}'


def read_choice(text: str) -> list[tuple[str, dict[str, Any]]] | str:
    """Return the actions and their arguments, or the answer."""
    choice = json.loads(text)
    if isinstance(choice, dict) and choice.keys() == {"answer"}:
        answer = choice["answer"]
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return readable(text)
    calls = []
    for each in choice if isinstance(choice, list) else [choice]:
        name, args = (each.get(k) for k in ("action", "args")) if isinstance(each, dict) else "  "
        if not isinstance(name, str) or not isinstance(args, dict) or len(each) != 2:
            raise ValueError("neither actions with their arguments nor an answer")
        calls.append((name, args))
    return calls


def with_calls(
    reply: ModelReply,
    calls: Iterable[tuple[str, dict[str, Any]]],
    messages: Iterable[Mapping[str, Any]],
) -> ModelReply:
    """Return the reply with these calls in the place of its text."""
    # A number, not a random id: the same conversation produces the same calls.
    numbered = tuple(
        Call(f"call_{n}", *each) for n, each in enumerate(calls, calls_in(messages) + 1)
    )
    return replace(reply, text="", calls=numbered, finish_reason="calls")


class OneCall:
    """Calls as JSON objects, one at a time; also the interface of a form of calls."""

    before_user: str = INSTRUCTION_PREFIX

    def prompt_part(self, actions: list[Action], *, may_answer: bool) -> str:
        """Return the part of the prompt that shows the actions."""
        return choice_text(actions, may_answer=may_answer)

    def calls_as_text(self, message: Mapping[str, Any]) -> str:
        """Return the calls of an assistant's message as the model writes them."""
        calls = message.get("tool_calls") or ()
        forms = [choice_as_text(each["name"], each.get("args") or {}) for each in calls]
        return "\n".join(forms)

    def text_schema(
        self, actions: list[Action], answer: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the schema of the model's text; `answer` is its answers' one."""
        return choice_schema(actions, answer=answer)

    def read(
        self, reply: ModelReply, messages: list[dict[str, Any]], actions: list[Action]
    ) -> ModelReply:
        """Return the reply with its text read as calls or as an answer; ValueError for neither."""
        choice = read_choice(reply.text)
        if isinstance(choice, str):
            return replace(reply, text=choice)
        return with_calls(reply, choice, messages)

    def answer_text(self, actions: list[Action]) -> AnswerText:
        """Return a reader of the text of an answer that is streamed."""
        return AnswerText()


class AnswerText:
    """Decodes the text of a streamed `{"answer": "…"}`; it stays empty for anything else."""

    def __init__(self) -> None:
        self._raw = ""
        self.text: str = ""

    def add(self, piece: str) -> str:
        """Return the text that a further piece adds."""
        self._raw += piece
        try:
            text = self._read(self._raw)
        except ValueError:
            return ""
        if not isinstance(text, str):
            return ""
        previous, self.text = self.text, text
        return text[len(previous) :]

    def _read(self, raw: str) -> Any:
        value = from_json(raw, allow_partial="trailing-strings")
        return value.get("answer") if isinstance(value, dict) else None
