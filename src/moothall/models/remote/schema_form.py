"""How a model on a server is asked for JSON of a schema: the form that the server can do.

`field` is the server's own field, `final` an action that takes the answer as its arguments, and
`words` a sentence. Servers that constrain decoding to a schema leave no room for a call, and some
refuse a schema beside actions, so beside actions `final` is the form of unknown servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from moothall.models.base import ModelRequest
from moothall.models.finish_reason import CUT
from moothall.models.plain_chat import add_schema
from moothall.models.protocol import ModelReply, ReasoningPiece, StreamPart, TextPiece

Form: TypeAlias = Literal["plain", "field", "final", "words"]

_FINAL: Final = "final_answer"
_FINAL_DESCRIPTION: Final = (
    "Give your final answer: call this alone, once you need no other action. What you write "
    "instead of calling it is not read."
)
# In the text of a server, or of litellm's proxy, that does not keep to schemas, or not to this one.
_NO_SCHEMA = re.compile("response[ _]format|json[ _]schema|output[ _](?:config|format)", re.I)
# Of one that takes none beside actions: Groq, Gemini, others.
_TOOL_WORDS = "(?:tools?|tool_choice|functions?)"
_SCHEMA_WORDS = (
    "(?:json|schema|mime type|structured outputs?|guided decoding|grammar|response[ _]format)"
)
_NOT_BOTH = re.compile(
    rf"{_SCHEMA_WORDS}[^.]{{0,60}}\b(?:with|and|when)\b[^.]{{0,20}}\b{_TOOL_WORDS}\b"
    rf"|\b{_TOOL_WORDS}[\w /\"'`]*\b(?:with|and)\b.{{0,40}}{_SCHEMA_WORDS}",
    re.I,
)

_FORMS_IN_WORDS: Final = {"field": "in a field of its own", "final": "as an action"}


@dataclass(frozen=True)
class _FinalAction:
    name: str
    description: str
    parameters: Mapping[str, Any]


class SchemaForms:
    """Decides the form of each request of one model, and remembers what its server refused.

    Args:
        beside_actions: whether the server takes a schema in its own field beside actions
        can_take: returns whether its field takes a schema
    """

    def __init__(self, beside_actions: bool, can_take: Callable[[Any], bool] = bool) -> None:
        self._beside_actions = beside_actions
        self._can_take = can_take
        self._refused: frozenset[tuple[str, bool, str]] = frozenset()

    def form_for(self, request: ModelRequest) -> Form:
        """Return the form for a request."""
        if request.schema is None:
            return "plain"
        forms: tuple[Form, ...] = ("field", "words")
        if request.actions:
            forms = ("field", "final", "words") if self._beside_actions else ("final", "words")
        refused = {each for each in forms if self._key(each, request) in self._refused}
        if not self._can_take(request.schema):
            refused.add("field")
        return next(each for each in forms if each not in refused)

    def make_trial(self, form: Form, request: ModelRequest, text: str) -> SchemaForms | None:
        """Return a copy without a form, if this text of a refusal is of it; else None."""
        trial = copy(self)
        not_both = bool(request.actions and _NOT_BOTH.search(text))
        if form == "field" and (not_both or _NO_SCHEMA.search(text)):
            trial._beside_actions &= not not_both
        elif form != "final" or _FINAL not in text:
            return None
        trial._refused |= {self._key(form, request)}
        return trial

    def keep(self, trial: SchemaForms) -> Iterator[str]:
        """Take over what a trial does, since it helped; yield that in words."""
        for form in {form for form, *_ in trial._refused - self._refused}:
            yield f"a schema that does not go {_FORMS_IN_WORDS[form]}"
        self._refused |= trial._refused
        self._beside_actions &= trial._beside_actions

    @staticmethod
    def _key(form: Form, request: ModelRequest) -> tuple[str, bool, str]:
        # Words are never refused: there is no other form.
        return form, bool(request.actions), "" if form == "words" else json.dumps(request.schema)


def in_form(form: Form, request: ModelRequest) -> ModelRequest:
    """Return a request as the server gets it."""
    if form == "words":
        messages = [dict(each) for each in request.messages]
        add_schema(messages, request.schema or {})
        return request._replace(messages=messages, schema=None)
    if form == "final":
        final: Any = _FinalAction(
            _final_name(request), _FINAL_DESCRIPTION, _final_parameters(request.schema or {})
        )
        return request._replace(actions=[*(request.actions or ()), final], schema=None)
    return request


async def as_text(
    request: ModelRequest, parts: AsyncGenerator[StreamPart, None]
) -> AsyncGenerator[StreamPart, None]:
    """Yield the parts of an answer in the form `final`, with the final call as its text.

    Text comes at the end, since only then it is known whether it is the answer.
    """
    async with aclosing(parts):
        async for part in parts:
            if isinstance(part, TextPiece):
                continue
            if isinstance(part, ModelReply):
                text = part.text
                part = _final_as_text(request, part)
                if text and part.text != text and request.stream:
                    yield ReasoningPiece(text)
                if part.text and request.stream:
                    yield TextPiece(part.text)
            yield part


def _final_as_text(request: ModelRequest, reply: ModelReply) -> ModelReply:
    name = _final_name(request)
    finals = [each for each in reply.calls if each.name == name]
    other_calls = tuple(each for each in reply.calls if each.name != name)
    if not finals:
        return reply
    if other_calls:  # their results come first
        return replace(reply, calls=other_calls)
    args, schema = finals[0].args, request.schema or {}
    if not _is_object(schema):
        with suppress(ValueError, RecursionError):
            value = json.loads(args) if isinstance(args, str) else args
            args = value["value"] if isinstance(value, dict) and "value" in value else value
            args = json.dumps(args, ensure_ascii=False)
    text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    reason = reply.finish_reason if reply.finish_reason in CUT else "stop"
    # What was written beside the answer is no part of it.
    thought = reply.reasoning + reply.text
    return replace(reply, text=text, calls=(), finish_reason=reason, reasoning=thought, thinking=())


def _final_name(request: ModelRequest) -> str:
    name, names = _FINAL, {each.name for each in request.actions or ()}
    while name in names:
        name += "_"
    return name


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def _final_parameters(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of the action that takes a value of a schema."""
    if _is_object(schema):
        return schema
    inner = {name: each for name, each in schema.items() if name != "$defs"}
    parameters: dict[str, Any] = {"type": "object", "properties": {"value": inner}}
    parameters |= {"required": ["value"], "additionalProperties": False}
    return parameters | ({"$defs": schema["$defs"]} if "$defs" in schema else {})
