"""The chat format that OpenAI's server and those compatible with it speak, both ways.

What goes out is made of our chat messages. What comes in is data from a stranger: every field is
looked at before it is used, and one that is not what it should be is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from civitas.errors import ModelError
from civitas.jsonvalue import json_type
from civitas.models.protocol import Call, ModelReply, Usage

if TYPE_CHECKING:
    from civitas.action import Action

__all__ = ["chat_messages", "read_answer", "response_format", "said", "tools"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_TOKENS = 2**53
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


def read_answer(data: bytes, name: str, calls_before: int) -> ModelReply:
    """An answer's body as a reply.

    Usage is what the provider says, and zero where that is no number of tokens. A call without an
    id of its own gets one. Text that a model reasoned with is no part of its answer.

    Args:
        data: the body
        name: what errors call the model
        calls_before: how many calls the conversation had, for ids that are new in it

    Raises:
        ModelError: it is no answer; the text names the field
    """
    answer = _parsed(data, name)
    where = f"{name}: the answer"
    if not isinstance(answer, dict):
        raise ModelError(f"{where} is {_kind(answer)}, not an object")
    if answer.get("error") and not answer.get("choices"):
        raise ModelError(f"{name}: the server answered with an error: {said(answer)}")
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise _wrong(where, "choices", choices, "a list that is not empty")
    choice = choices[0]
    if not isinstance(choice, dict):
        raise _wrong(where, "choices[0]", choice, "an object")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _wrong(where, "choices[0].message", message, "an object")
    text = _content(message, where)
    calls = _calls(message.get("tool_calls"), where, calls_before)
    reason = choice.get("finish_reason")
    if reason == "content_filter" and not text and not calls:
        raise ModelError(f"{name}: the provider's content filter withheld the answer")
    if reason != "length":
        reason = "calls" if calls else "stop"
    return ModelReply(text, calls, _usage(answer.get("usage")), reason)


def _parsed(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise ModelError(f"{name}: the answer is nested too deep") from None
    except ValueError as error:
        shown = _one_line(data[:60].decode("utf-8", "replace"))
        raise ModelError(f"{name}: the answer is not JSON: {str(error)[:100]}: {shown!r}") from None


def _content(message: dict[str, Any], where: str) -> str:
    content = message.get("content")
    if content is None or content == "":
        # What a provider writes instead of an answer, when it declines to give one.
        refusal = message.get("refusal")
        content = refusal if isinstance(refusal, str) else ""
    if isinstance(content, list):
        parts = []
        for n, block in enumerate(content):
            text = block.get("text") if isinstance(block, dict) else None
            if isinstance(block, dict) and block.get("type", "text") != "text":
                continue  # reasoning and the like
            if not isinstance(text, str):
                raise _wrong(where, f"choices[0].message.content[{n}]", block, "a block of text")
            parts.append(text)
        content = "".join(parts)
    if not isinstance(content, str):
        raise _wrong(where, "choices[0].message.content", content, "text")
    # JSON can write half a character, which nothing after us could encode.
    return content.encode("utf-8", "replace").decode()


def _calls(listed: Any, where: str, before: int) -> tuple[Call, ...]:
    if listed is None:
        return ()
    where_calls = "choices[0].message.tool_calls"
    if not isinstance(listed, list):
        raise _wrong(where, where_calls, listed, "a list")
    calls: list[Call] = []
    taken: set[str] = set()
    for n, call in enumerate(listed):
        place = f"{where_calls}[{n}]"
        if not isinstance(call, dict):
            raise _wrong(where, place, call, "an object")
        function = call.get("function")
        if not isinstance(function, dict):
            raise _wrong(where, f"{place}.function", function, "an object")
        called = function.get("name")
        if not isinstance(called, str):
            raise _wrong(where, f"{place}.function.name", called, "text")
        # Text, as the provider wrote it, or an object: some servers parse it.
        args = function.get("arguments", "")
        if not isinstance(args, str | dict):
            if args is not None:
                raise _wrong(where, f"{place}.function.arguments", args, "text")
            args = ""
        id = call.get("id")
        if not isinstance(id, str) or not id or id in taken:
            id = _new_id(before + n + 1, taken)
        taken.add(id)
        calls.append(Call(id, called, args))
    return tuple(calls)


def _new_id(number: int, taken: set[str]) -> str:
    # A number, not a random id: the same conversation gives the same calls.
    while f"call_{number}" in taken:
        number += 1
    return f"call_{number}"


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    return Usage(_tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens")))


def _tokens(count: Any) -> int:
    return count if type(count) is int and 0 <= count <= _MOST_TOKENS else 0


def said(body: Any) -> str:
    """What a server's error says, in one line."""
    for _ in range(2):
        if isinstance(body, dict):
            body = body.get("error") or body.get("message") or body.get("detail") or ""
    text = body if isinstance(body, str) else _kind(body)
    return _one_line(text)[:300] or "no reason"


def _wrong(where: str, field: str, found: Any, wanted: str) -> ModelError:
    return ModelError(f"{where}'s {field} is {_kind(found)}, not {wanted}")


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
