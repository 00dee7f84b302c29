"""Requests in the chat format of OpenAI's server and compatible servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moothall.foundation.errors import ModelError
from moothall.models.answer_parts import content_text, name_of_call
from moothall.models.blocks import is_seen
from moothall.models.chat_answer import KEPT_FIELDS, type_in_words
from moothall.models.protocol import thinking_for

if TYPE_CHECKING:
    from moothall.actions import Action

_NAME_FORM = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Keywords that a strict schema may not have; a server refuses a schema with one of these.
_LOOSE_KEYWORDS = frozenset(
    (
        *("allOf", "oneOf", "not", "if", "then", "else", "contains", "uniqueItems"),
        *("dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"),
        *("unevaluatedProperties", "minLength", "maxLength", "default", "prefixItems"),
    )
)
_STRICT_FORMATS = frozenset(
    ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid")
)


def chat_messages(messages: Iterable[Any], name: str, server: str = "") -> list[dict[str, Any]]:
    """Return our messages in the provider's form; blocks of content are passed on unchanged.

    What `server` wants back with its answers is added to them.
    """
    converted = []
    for n, message in enumerate(messages):
        converted.append(_convert_message(message, f"{name}: messages[{n}]"))
        if fields := server and thinking_for(message, server, "fields"):
            _give_back(converted[-1], fields)
    return converted


def _give_back(message: dict[str, Any], fields: Mapping[str, Any]) -> None:
    message |= {name: fields[name] for name in KEPT_FIELDS if name in fields}
    text = fields.get("content")  # with the reasoning that was marked in it
    if isinstance(text, str) and text.endswith(message["content"] or ""):
        message["content"] = text
    for call, extra in zip(message.get("tool_calls", ()), fields.get("calls") or (), strict=False):
        call |= extra or {}


def _convert_message(message: Any, label: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise ModelError(f"{label} is {type_in_words(message)}, not a chat message")
    role = message.get("role")
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        raise ModelError(
            f"{label}: content must be text or a list of blocks, got {type_in_words(content)}"
        )
    if role == "assistant" and isinstance(content, list):
        content = content_text(content)  # an answer goes back as text
    converted: dict[str, Any] = {"role": role, "content": "" if content is None else content}
    if role == "tool":
        converted["tool_call_id"] = message.get("tool_call_id") or ""
    elif role == "assistant":
        if calls := message.get("tool_calls"):
            converted["content"] = content or None
            converted["tool_calls"] = [
                _tool_call(call, f"{label}: tool_calls[{n}]") for n, call in enumerate(calls)
            ]
    elif role not in ("system", "user"):
        raise ModelError(f"{label}: role must be system, user, assistant or tool, got {role!r:.80}")
    speaker = message.get("name")
    # A speaker's name is passed on if the format has a field for it.
    if role != "tool" and isinstance(speaker, str) and _NAME_FORM.fullmatch(speaker):
        converted["name"] = speaker
    return converted


def _tool_call(call: Any, label: str) -> dict[str, Any]:
    name, args = name_of_call(call, label), call.get("args")
    if not isinstance(args, str):
        args = json.dumps({} if args is None else args, allow_nan=False)
    function = {"name": name, "arguments": args}
    return {"id": call.get("id") or "", "type": "function", "function": function}


def ordered_parts(
    given_parts: Iterable[Mapping[str, Any]],
    text_parts: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    text_of: Callable[[Mapping[str, Any]], str | None],
) -> list[dict[str, Any]]:
    """Return the parts of an answer in their order.

    Args:
        given_parts: what the provider gave, with each call as its place, which has a type alone
        text_parts: the text of the answer, as it is now
        calls: the calls of the answer, as they are now
        text_of: returns the text of a part; None for any other part
    """
    texts = [text_of(each) for each in given_parts]
    is_same = "".join(filter(None, texts)) == "".join(text_of(each) or "" for each in text_parts)
    text_parts, calls = [] if is_same and any(texts) else text_parts, list(calls)
    parts: list[dict[str, Any]] = []
    for each, text in zip(given_parts, texts, strict=True):
        if len(each) == 1:
            parts += calls[:1]
            del calls[:1]
        elif text is None or is_same:
            parts.append(dict(each))
        else:  # the text was changed since
            parts += text_parts
            text_parts = []
    return [*parts, *text_parts, *calls]


def seen_after_results(messages: list[Any]) -> list[Any]:
    """Return our messages with the images and files of results in a user's message after them.

    The format has no images in results.
    """
    ordered, blocks = list[Any](), list[Any]()
    for each in messages:
        is_result = each.get("role") == "tool"
        if not is_result and blocks:
            ordered.append({"role": "user", "content": blocks})
            blocks = []
        if is_result and isinstance(each.get("content"), list):
            texts = [block for block in each["content"] if not is_seen(block)]
            if visuals := [block for block in each["content"] if is_seen(block)]:
                blocks += [{"type": "text", "text": "Of the result of an action:"}, *visuals]
            each = {**each, "content": "\n".join(str(block.get("text", "")) for block in texts)}
        ordered.append(each)
    return [*ordered, {"role": "user", "content": blocks}] if blocks else ordered


def tools(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Return the actions that the model may call, in the provider's form."""
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
    """Return the field that makes the model follow a schema: strictly, if the schema allows it."""
    strict = schema.get("type") == "object" and may_be_strict(schema)
    schema_fields: dict[str, Any] = {"name": "answer", "schema": schema}
    return {
        "type": "json_schema",
        "json_schema": schema_fields | ({"strict": True} if strict else {}),
    }


def may_be_strict(schema: Any) -> bool:
    """Return whether providers can enforce a schema."""
    if not isinstance(schema, Mapping) or _LOOSE_KEYWORDS & schema.keys():
        return False
    if "$ref" in schema:
        return len(schema) == 1  # not with a description
    properties = schema.get("properties") or {}
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if (kind is None and "anyOf" not in schema) or ("array" in kinds and "items" not in schema):
        return False
    if "format" in schema and schema["format"] not in _STRICT_FORMATS:
        return False
    if properties or "object" in kinds:
        # A strict answer can neither add nor omit properties.
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    groups = (properties, schema.get("$defs") or {}, schema.get("definitions") or {})
    inner = [schema_part for group in groups for schema_part in group.values()]
    inner += schema.get("anyOf") or ()
    if "items" in schema:
        inner.append(schema["items"])
    return all(map(may_be_strict, inner))
