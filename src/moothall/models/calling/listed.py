"""Calls as a list: the prompt, the schema, and how the list is read.

The answer is one of the calls that the model may choose, so it first chooses a name. Where the
answer had a form of its own, a model of 1.5B parameters never called (benchmarks/minds).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from moothall.foundation.jsonvalue import readable
from moothall.models.calling.choice import (
    AnswerText,
    OneCall,
    choice_as_text,
    choice_schema,
    read_choice,
    with_calls,
)
from moothall.models.protocol import ModelReply

if TYPE_CHECKING:
    from moothall.actions import Action

_HEAD: Final = """\
You carry out what the user asks for by calling actions. Answer with JSON: a list of all the calls \
that are needed now, one for each thing that the user asks for, with their arguments. Never make \
up a value that an action can give.{when}

Examples, with other actions:
User: Paint hatch A red and hatch B blue.
[{first}, {second}]
User: How long is the hull of the Zorp?
[{one}]{none}

The actions:
"""
_NO_ACTION_RULE: Final = """ If no action helps with what the user asks for, or all is done, write \
{answer} alone."""
_NO_ACTION: Final = "No action knows the age of animals."
_NO_ACTION_LINE: Final = """
User: How old is the oldest zebra?
{answer}"""
_TYPES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"} | {
    "array": "list",
    "object": "dict",
    "null": "None",
}
_ANSWER_NAME: Final = "answer"
_TEXT_ARG: Final = "text"


class SeveralCalls(OneCall):
    """Calls as a JSON list, of which the answer may be the only one."""

    before_user = ""

    def prompt_part(self, actions: list[Action], *, may_answer: bool) -> str:
        """Return the part of the prompt that shows the actions, as signatures."""
        rule = example = ""
        if may_answer:
            name = _answer_name(actions)
            rule = _NO_ACTION_RULE.format(
                answer=f"[{choice_as_text(name, f'{{{json.dumps(_TEXT_ARG)}: text}}')}]"
            )
            no_call = choice_as_text(name, {_TEXT_ARG: _NO_ACTION})
            example = _NO_ACTION_LINE.format(answer=f"[{no_call}]")
        head = _HEAD.format(
            when=rule,
            first=choice_as_text("paint", {"hatch": "A", "colour": "red"}),
            second=choice_as_text("paint", {"hatch": "B", "colour": "blue"}),
            one=choice_as_text("hull_length", {"ship": "Zorp"}),
            none=example,
        )
        return head + "\n".join(_signature(each) for each in actions)

    def calls_as_text(self, message: Mapping[str, Any]) -> str:
        """Return the calls of an assistant's message as the model writes them."""
        calls = message.get("tool_calls") or ()
        forms = [choice_as_text(each["name"], each.get("args") or {}) for each in calls]
        return f"[{', '.join(forms)}]" if forms else ""

    def text_schema(
        self, actions: list[Action], answer: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the schema of a list of calls; `answer` is its answers' one."""
        return choice_schema(actions, answer=answer, answers_by=_answer_name(actions))

    def read(
        self, reply: ModelReply, messages: list[dict[str, Any]], actions: list[Action]
    ) -> ModelReply:
        """Return the reply with its text read as calls or as an answer; ValueError for neither."""
        calls = read_choice(reply.text)
        if isinstance(calls, str):
            raise ValueError("an answer that is no call")
        if len(calls) == 1 and calls[0][0] == _answer_name(actions):
            answer = calls[0][1].get(_TEXT_ARG)
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            if text.strip() == _NO_ACTION:
                raise ValueError("it repeats an example, which is of others")
            return replace(reply, text=readable(text))
        return with_calls(reply, calls, messages)

    def answer_text(self, actions: list[Action]) -> AnswerText:
        """Return a reader of the text of an answer that is streamed."""
        return _AnswerInList(_answer_name(actions))


class _AnswerInList(AnswerText):
    """Decodes the text of a streamed `[{"action": "answer", "args": {"text": "…"}}]`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def _read(self, raw: str) -> Any:
        match from_json(raw, allow_partial="trailing-strings"):
            case [{"action": self._name, "args": {"text": str(text)}}]:
                # What may become the example's text is no answer yet.
                return None if _NO_ACTION.startswith(text) else text
        return None


def _answer_name(actions: Iterable[Action]) -> str:
    """Return the name by which the model answers, which no action has."""
    names, name = {each.name for each in actions}, _ANSWER_NAME
    while name in names:
        name += "_"
    return name


def _signature(action: Action) -> str:
    """Return an action as a function of Python that the model is shown."""
    schema: Mapping[str, Any] = action.parameters or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = [each for each in schema.get("required") or () if each in properties]
    parameters, lines = [], [_one_line(action.description)]
    for name in dict.fromkeys((*required, *properties)):
        default = "" if name in required else " = None"
        parameters.append(f"{name}: {_type(properties[name])}{default}")
        is_object = isinstance(properties[name], Mapping)
        if text := _one_line(properties[name].get("description") if is_object else None):
            lines.append(f"    {name}: {text}")
    doc = "\n    ".join(filter(None, lines))
    return f'def {action.name}({", ".join(parameters)}):\n    """{doc}"""\n'


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "Any"
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(e, ensure_ascii=False) for e in schema['enum'])}]"
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list[{_type(schema['items'])}]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _one_line(text: Any) -> str:
    return " ".join(text.split()).replace('"""', "'''") if isinstance(text, str) else ""
