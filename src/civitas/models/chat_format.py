"""The chat format that OpenAI's server and those compatible with it speak, both ways.

What goes out is made of our chat messages. What comes in is data from a stranger: every field is
looked at before it is used, and one that is not what it should be is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from civitas.errors import ContextOverflow, ModelError
from civitas.jsonvalue import json_type
from civitas.models.characters import whole
from civitas.models.protocol import Call, ModelReply, Usage

if TYPE_CHECKING:
    from civitas.action import Action

__all__ = [
    "MAX_CALLS",
    "chat_messages",
    "failed",
    "joined_content",
    "overflows",
    "parsed",
    "read_answer",
    "read_calls",
    "read_usage",
    "response_format",
    "said",
    "thought",
    "tools",
    "withheld",
    "wrong",
]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_TOKENS = 2**53
_OVERFLOWS = frozenset(("context_length_exceeded", "exceed_context_size_error"))
MAX_CALLS = 1024
"""More calls than any model makes in one answer."""

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
    id of its own gets one. What a model reasoned is kept apart from its answer.

    Args:
        data: the body
        name: what errors call the model
        calls_before: how many calls the conversation had, for ids that are new in it

    Raises:
        ModelError: it is no answer; the text names the field
    """
    where = f"{name}: the answer"
    answer = parsed(data, where)
    if not isinstance(answer, dict):
        raise ModelError(f"{where} is {_kind(answer)}, not an object")
    if answer.get("error") and not answer.get("choices"):
        raise failed(answer, name)
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise wrong(where, "choices", choices, "a list that is not empty")
    choice = choices[0]
    if not isinstance(choice, dict):
        raise wrong(where, "choices[0]", choice, "an object")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise wrong(where, "choices[0].message", message, "an object")
    text = joined_content(message.get("content"), where, "choices[0].message.content")
    if not text:
        # What a provider writes instead of an answer, when it declines to give one.
        refusal = message.get("refusal")
        text = refusal if isinstance(refusal, str) else ""
    calls = read_calls(
        message.get("tool_calls"), where, "choices[0].message.tool_calls", calls_before
    )
    reason = choice.get("finish_reason")
    if reason == "content_filter" and not text and not calls:
        raise withheld(name)
    if reason != "length":
        reason = "calls" if calls else "stop"
    usage = read_usage(answer.get("usage"))
    return ModelReply(whole(text), calls, usage, reason, whole(thought(message)))


def parsed(data: bytes, where: str) -> Any:
    """The JSON of a body.

    Raises:
        ModelError: it is none
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ModelError(f"{where} is nested too deep") from None
    except ValueError as error:
        shown = _one_line(data[:60].decode("utf-8", "replace"))
        raise ModelError(f"{where} is not JSON: {str(error)[:100]}: {shown!r}") from None


def joined_content(content: Any, where: str, place: str) -> str:
    """The text of a message's content; what it may hold beside text is left out.

    Raises:
        ModelError: it is neither text nor a list of blocks
    """
    if content is None:
        return ""
    if isinstance(content, list):
        parts = []
        for n, block in enumerate(content):
            text = block.get("text") if isinstance(block, dict) else None
            if isinstance(block, dict) and block.get("type", "text") != "text":
                continue  # reasoning and the like
            if not isinstance(text, str):
                raise wrong(where, f"{place}[{n}]", block, "a block of text")
            parts.append(text)
        return "".join(parts)
    if not isinstance(content, str):
        raise wrong(where, place, content, "text")
    return content


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


def read_calls(listed: Any, where: str, place: str, before: int) -> tuple[Call, ...]:
    """The calls of an answer, each with an id of its own.

    Raises:
        ModelError: one is none
    """
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise wrong(where, place, listed, "a list")
    if len(listed) > MAX_CALLS:
        raise ModelError(f"{where} has {len(listed)} calls, more than {MAX_CALLS}")
    calls: list[Call] = []
    taken: set[str] = set()
    for n, call in enumerate(listed):
        at = f"{place}[{n}]"
        if not isinstance(call, dict):
            raise wrong(where, at, call, "an object")
        function = call.get("function")
        if not isinstance(function, dict):
            raise wrong(where, f"{at}.function", function, "an object")
        called = function.get("name")
        if not isinstance(called, str):
            raise wrong(where, f"{at}.function.name", called, "text")
        # Text, as the provider wrote it, or an object: some servers parse it.
        args = function.get("arguments", "")
        if not isinstance(args, str | dict):
            if args is not None:
                raise wrong(where, f"{at}.function.arguments", args, "text")
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


def read_usage(usage: Any) -> Usage:
    """The tokens that a provider counted; none where it says no number."""
    if not isinstance(usage, dict):
        return Usage()
    return Usage(_tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens")))


def _tokens(count: Any) -> int:
    return count if type(count) is int and 0 <= count <= _MOST_TOKENS else 0


def withheld(name: str) -> ModelError:
    """What is raised when a provider's filter left nothing of an answer."""
    return ModelError(f"{name}: the provider's content filter withheld the answer")


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
