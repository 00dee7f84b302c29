"""The chat format that OpenAI's server and those compatible with it speak, both ways.

What goes out is made of our chat messages. What comes in is data from a stranger: it is read
through a schema, and a field that is not what it should be is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as schemas

from civitas.errors import ContextOverflow, ModelError
from civitas.jsonvalue import json_type
from civitas.models.base import whole
from civitas.models.protocol import Call, ModelReply, Usage

if TYPE_CHECKING:
    from civitas.action import Action

__all__ = [
    "ANY",
    "ARGUMENTS",
    "CONTENT",
    "MAX_CALLS",
    "TEXT",
    "calls_in",
    "chat_messages",
    "checked",
    "failed",
    "fields",
    "finished",
    "joined_content",
    "optional",
    "overflows",
    "parsed",
    "read_answer",
    "read_calls",
    "response_format",
    "said",
    "thought",
    "tools",
    "wrong",
]

MAX_CALLS = 1024
"""More calls than any model makes in one answer."""

_MOST_TOKENS = 2**53
_OVERFLOWS = frozenset(("context_length_exceeded", "exceed_context_size_error"))
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# What strict keeping to a schema does not know; a server refuses a schema with one of these.
_NOT_STRICT = frozenset(
    (
        *("allOf", "oneOf", "not", "if", "then", "else", "contains", "uniqueItems"),
        *("dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"),
        *("unevaluatedProperties", "minLength", "maxLength"),
    )
)


# -- what goes out ---------------------------------------------------------------------------------


def chat_messages(messages: Iterable[Any], name: str) -> list[dict[str, Any]]:
    """Our messages as the provider takes them; blocks of content are passed on as they are.

    Raises:
        ModelError: one is not what it should be
    """
    return [_message(message, f"{name}: messages[{n}]") for n, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise ModelError(f"{where} is {_kind(message)}, not a chat message")
    role = message.get("role")
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        raise ModelError(f"{where}: content is text or a list of blocks, not {_kind(content)}")
    out: dict[str, Any] = {"role": role, "content": "" if content is None else content}
    if role == "tool":
        out["tool_call_id"] = message.get("tool_call_id") or ""
    elif role == "assistant":
        if calls := message.get("tool_calls"):
            out["content"] = content or None
            out["tool_calls"] = [
                _tool_call(call, f"{where}: tool_calls[{n}]") for n, call in enumerate(calls)
            ]
    elif role not in ("system", "user"):
        raise ModelError(f"{where}: role is system, user, assistant or tool, not {role!r:.80}")
    speaker = message.get("name")
    # The name of a speaker is passed on where the format has room for it.
    if role != "tool" and isinstance(speaker, str) and _NAME.fullmatch(speaker):
        out["name"] = speaker
    return out


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise ModelError(f"{where} is not a call with id, name and args")
    args = call.get("args")
    if not isinstance(args, str):
        args = json.dumps({} if args is None else args, allow_nan=False)
    function = {"name": call["name"], "arguments": args}
    return {"id": call.get("id") or "", "type": "function", "function": function}


def tools(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """What the model may call."""
    return [
        {
            "type": "function",
            "function": {
                "name": action.name,
                "description": action.description,
                "parameters": action.parameters or {"type": "object", "properties": {}},
            },
        }
        for action in actions
    ]


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What has the model keep to a schema: strictly, where the schema is of a form that allows it.

    A strict answer cannot leave properties out or add any, so such a schema must not allow it.
    """
    strict = schema.get("type") == "object" and _may_be_strict(schema)
    about: dict[str, Any] = {"name": "answer", "schema": schema}
    return {"type": "json_schema", "json_schema": about | ({"strict": True} if strict else {})}


def _may_be_strict(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or _NOT_STRICT & schema.keys():
        return False
    properties = schema.get("properties") or {}
    kinds = schema.get("type")
    if properties or kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    groups = (properties, schema.get("$defs") or {}, schema.get("definitions") or {})
    inner = [about for group in groups for about in group.values()]
    inner += schema.get("anyOf") or ()
    if "items" in schema:
        inner.append(schema["items"])
    return all(map(_may_be_strict, inner))


# -- what comes in ---------------------------------------------------------------------------------


def fields(**schema: Any) -> Any:
    """The schema of an object; a field that is missing is null, and others are left out."""
    given = {
        name: schemas.typed_dict_field(
            schemas.with_default_schema(each, default=None, validate_default=True)
        )
        for name, each in schema.items()
    }
    return schemas.typed_dict_schema(given)


def optional(schema: Any) -> Any:
    """The schema of what may be null."""
    return schemas.nullable_schema(schema)


ANY = schemas.any_schema()
# Not a schema of strings: it would refuse half a character, which may be joined with the next.
TEXT = schemas.is_instance_schema(str, cls_repr="text")
CONTENT = optional(schemas.is_instance_schema((str, list), cls_repr="text"))
# Text, as the provider wrote it, or an object: some servers parse it.
ARGUMENTS = optional(schemas.is_instance_schema((str, dict), cls_repr="text"))

_CALLS = optional(
    schemas.list_schema(
        fields(id=ANY, function=fields(name=TEXT, arguments=ARGUMENTS)), max_length=MAX_CALLS
    )
)
_MESSAGE = fields(
    content=CONTENT, refusal=ANY, tool_calls=_CALLS, reasoning_content=ANY, reasoning=ANY
)
_CHOICES = schemas.list_schema(fields(message=_MESSAGE, finish_reason=ANY), min_length=1)
_ANSWER = SchemaValidator(fields(choices=_CHOICES, usage=ANY))
_LISTED = SchemaValidator(fields(tool_calls=_CALLS))

_WANTED = {
    "dict_type": "an object",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "int_type": "an integer",
    "greater_than_equal": "an integer from 0 on",
}


def checked(schema: SchemaValidator, data: Any, where: str) -> dict[str, Any]:
    """The fields of an object that a schema knows.

    Raises:
        ModelError: one is not what it should be; the text names it
    """
    try:
        return schema.validate_python(data)  # type: ignore[no-any-return]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    about = first.get("ctx", {})
    if first["type"] == "too_long":
        raise ModelError(f"{where} has {about['actual_length']} calls, more than {MAX_CALLS}")
    wanted = _WANTED.get(first["type"]) or str(about.get("class", "of the format"))
    place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
    raise wrong(where, place[1:], first["input"], wanted)


def read_answer(data: bytes | dict[str, Any], name: str, calls_before: int) -> ModelReply:
    """An answer's body as a reply.

    Usage is what the provider says, and zero where that is no number of tokens. A call without an
    id of its own gets one. What a model reasoned is kept apart from its answer.

    Args:
        data: the body, or what its JSON is
        name: what errors call the model
        calls_before: how many calls the conversation had, for ids that are new in it

    Raises:
        ModelError: it is not an answer; the text names the field
    """
    where = f"{name}: the answer"
    answer = parsed(data, where) if isinstance(data, bytes) else data
    if isinstance(answer, dict) and answer.get("error") and not answer.get("choices"):
        raise failed(answer, name)
    answer = checked(_ANSWER, answer, where)
    choice = answer["choices"][0]
    message = choice["message"]
    text = joined_content(message["content"], where, "choices[0].message.content")
    refusal = message["refusal"]
    if not text and isinstance(refusal, str):
        # What a provider writes instead of an answer, when it declines to give one.
        text = refusal
    calls = _with_ids(message["tool_calls"], calls_before)
    thinking = whole(thought(message))
    return finished(whole(text), calls, answer["usage"], choice["finish_reason"], thinking, name)


def finished(
    text: str, calls: tuple[Call, ...], usage: Any, reason: Any, thinking: str, name: str
) -> ModelReply:
    """The reply of what an answer was read to be.

    Raises:
        ModelError: the provider's filter left nothing of it
    """
    if reason == "content_filter" and not text and not calls:
        raise ModelError(f"{name}: the provider's content filter withheld the answer")
    if reason not in ("length", "content_filter"):
        reason = "calls" if calls else "stop"
    counted = usage if isinstance(usage, dict) else {}
    spent = Usage(_tokens(counted.get("prompt_tokens")), _tokens(counted.get("completion_tokens")))
    return ModelReply(text, calls, spent, reason, thinking)


def _tokens(count: Any) -> int:
    return count if type(count) is int and 0 <= count <= _MOST_TOKENS else 0


def parsed(data: bytes, where: str) -> Any:
    """The JSON of a body.

    Raises:
        ModelError: it is not JSON
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ModelError(f"{where} is nested too deep") from None
    except ValueError as error:
        shown = _one_line(data[:60].decode("utf-8", "replace"))
        raise ModelError(f"{where} is not JSON: {str(error)[:100]}: {shown!r}") from None


def joined_content(content: str | list[Any] | None, where: str, place: str) -> str:
    """The text of a message's content; what it may hold beside text is left out.

    Raises:
        ModelError: a block is not what it should be
    """
    if not isinstance(content, list):
        return content or ""
    parts = []
    for n, block in enumerate(content):
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(block, dict) and block.get("type", "text") != "text":
            continue  # reasoning and the like
        if not isinstance(text, str):
            raise wrong(where, f"{place}[{n}]", block, "a block of text")
        parts.append(text)
    return "".join(parts)


def thought(message: Mapping[str, Any]) -> str:
    """What a model reasoned, where the provider shows it: no part of the format, so no fault."""
    for field in ("reasoning_content", "reasoning"):
        text = message.get(field)
        if isinstance(text, str) and text:
            return text
    content = message.get("content")
    if not isinstance(content, list):
        return ""
    found: list[str] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") in ("reasoning", "thinking"):
            about = block.get(block["type"], block.get("text"))
            inner = about if isinstance(about, list) else [{"text": about}]
            texts = (each.get("text") for each in inner if isinstance(each, dict))
            found += [text for text in texts if isinstance(text, str)]
    return "".join(found)


def read_calls(listed: Any, where: str, before: int) -> tuple[Call, ...]:
    """The calls of an answer, each with an id of its own.

    Raises:
        ModelError: one is not a call
    """
    return _with_ids(checked(_LISTED, {"tool_calls": listed}, where)["tool_calls"], before)


def _with_ids(listed: list[dict[str, Any]] | None, before: int) -> tuple[Call, ...]:
    calls: list[Call] = []
    taken: set[str] = set()
    for number, call in enumerate(listed or (), before + 1):
        id, function = call["id"], call["function"]
        if not isinstance(id, str) or not id or id in taken:
            # A number, not a random id: the same conversation gives the same calls.
            while (id := f"call_{number}") in taken:
                number += 1
        taken.add(id)
        args = function["arguments"]
        calls.append(Call(id, function["name"], "" if args is None else args))
    return tuple(calls)


def calls_in(messages: Iterable[Mapping[str, Any]]) -> int:
    """How many calls a conversation has."""
    return sum(len(message.get("tool_calls") or ()) for message in messages)


def failed(body: Any, name: str) -> ModelError:
    """What is raised of an error that comes in an answer's place."""
    reason = f"{name}: the server answered with an error: {said(body)}"
    if overflows(body):
        return ContextOverflow(f"{reason}; nothing was cut")
    return ModelError(reason)


def overflows(body: Any) -> bool:
    """Whether a server's error says that the prompt does not fit."""
    for _ in range(2):
        if isinstance(body, Mapping):
            for field in ("code", "type"):
                kind = body.get(field)
                if isinstance(kind, str) and kind in _OVERFLOWS:
                    return True
            body = body.get("error")
    return False


def said(body: Any) -> str:
    """What a server's error says, in one line."""
    for _ in range(2):
        if isinstance(body, dict):
            body = body.get("error") or body.get("message") or body.get("detail") or ""
    text = body if isinstance(body, str) else _kind(body)
    return _one_line(text)[:300] or "no reason"


def wrong(where: str, field: str, found: Any, wanted: str) -> ModelError:
    """What is raised of a field that is not what it should be."""
    of = f"'s {field}" if field else ""
    return ModelError(f"{where}{of} is {_kind(found)}, not {wanted}")


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, list) and not value:
        return "empty"
    try:
        return f"of type {json_type(value)}"
    except (TypeError, ValueError):
        return f"of type {type(value).__name__}"


def _one_line(text: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text[:2000])
    return " ".join(shown.split())
