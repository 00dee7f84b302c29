"""Messages, tools and results as the attributes of spans: JSON in the form of the conventions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from moothall.build import as_json
from moothall.models import PROVIDERS
from moothall.serving.telemetry import names

_OTHERS_BY_PREFIX = {
    "http": "openai",
    "https": "openai",
    **dict.fromkeys(("local", "gguf", "scripted"), names.SCOPE),
}
"""By the first part of the name of a model of no provider."""


def as_text(value: Any) -> str:
    """Return a value as JSON text."""
    return json.dumps(as_json(value), ensure_ascii=False)


def message_attributes(messages: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the attributes of the messages that a model is given."""
    system: list[dict[str, Any]] = []
    conversation: list[dict[str, Any]] = []
    for each in messages:
        if each.get("role") == "system":
            system += _parts_of(each.get("content"))
        else:
            conversation.append(_message_json(each))
    attributes = {names.INPUT_MESSAGES: as_text(conversation)}
    if system:
        attributes[names.SYSTEM_INSTRUCTIONS] = as_text(system)
    return attributes


def tools_text(actions: Iterable[Any]) -> str:
    """Return the definitions of the actions that a model may call."""
    return as_text(
        [
            {
                "type": "function",
                "name": each.name,
                "description": each.description,
                "parameters": each.parameters,
            }
            for each in actions
        ]
    )


def answer_text(reply: Any) -> str:
    """Return a model's answer."""
    parts = _parts_of(reply.text) if reply.text else []
    parts += [_call_json(each.id, each.name, each.args) for each in reply.calls]
    reason = "tool_call" if reply.finish_reason == "calls" else reply.finish_reason
    return as_text([{"role": "assistant", "parts": parts, "finish_reason": reason}])


def usage_attributes(usage: Any, finish_reason: Any) -> dict[str, Any]:
    """Return how many tokens a call of a model took, and why its answer ended."""
    parts = {each.span_attribute: getattr(usage, name) for name, each in usage.parts.items()}
    return {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.FINISH_REASONS: (str(finish_reason),),
        **{name: count for name, count in parts.items() if count},
    }


def _message_json(message: Mapping[str, Any]) -> dict[str, Any]:
    role, content = str(message.get("role")), message.get("content")
    if role == "tool":
        id = message.get("tool_call_id")
        part = {"type": "tool_call_response", "id": id, "response": content}
        return {"role": role, "parts": [part]}
    parts = _parts_of(content)
    parts += [
        _call_json(each.get("id"), each.get("name"), each.get("args"))
        for each in message.get("tool_calls") or ()
    ]
    return {"role": role, "parts": parts}


def _call_json(id: Any, name: Any, args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": id, "name": name, "arguments": args}


def _parts_of(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    parts: list[dict[str, Any]] = []
    for block in content or ():
        if isinstance(block, Mapping) and block.get("type") == "text":
            parts.append({"type": "text", "content": block.get("text")})
        elif isinstance(block, Mapping):
            parts.append({"type": str(block.get("type"))})  # an image would be megabytes
    return parts


def provider_of(model: Any) -> str:
    """Return the provider of a model, by the conventions' names; `moothall` for our own process."""
    if prefix := provider_by_prefix(str(getattr(model, "name", ""))):
        return prefix
    kind, module = type(model).__name__, type(model).__module__
    by_class = (name for name, each in PROVIDERS.items() if each.class_name == kind)
    return next(by_class, module.partition(".")[0])  # the first that has its form


def provider_by_prefix(name: str) -> str | None:
    """Return the provider that a model's name states, as a journal has it; None if it says none."""
    head, colon, _ = name.partition(":")
    if head in _OTHERS_BY_PREFIX or not colon or head not in PROVIDERS:
        return _OTHERS_BY_PREFIX.get(head)
    return PROVIDERS[head].otel or head


def model_in(name: str) -> str:
    """Return the provider's own name of a model, as tables of prices have it."""
    head, _, rest = name.partition(":")
    if head in ("http", "https"):
        return name.partition("#")[2] or name
    return rest if rest and provider_by_prefix(name) else name


def model_attributes(model: Any) -> dict[str, Any]:
    """Return the attributes of a model that are the same for each call."""
    attributes: dict[str, Any] = {
        names.PROVIDER: provider_of(model),
        names.REQUEST_MODEL: model_in(str(getattr(model, "name", type(model).__name__))),
    }
    address = getattr(model, "base_url", None)
    return attributes | (_server_attributes(address) if isinstance(address, str) else {})


def _server_attributes(address: str) -> dict[str, Any]:
    try:
        parts = urlsplit(address)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return {}
    if not parts.hostname or not port:
        return {}
    return {names.SERVER_ADDRESS: parts.hostname, names.SERVER_PORT: port}


def is_local(attributes: Mapping[str, Any]) -> bool:
    """Whether the model of these attributes runs in this process."""
    return names.SERVER_ADDRESS not in attributes and attributes.get(names.PROVIDER) == names.SCOPE


def request_attributes(model: Any) -> dict[str, Any]:
    """Return the settings with which a provider is asked."""
    fields = getattr(model, "request_fields", None)
    if not isinstance(fields, Mapping):
        return {}
    return {
        name: fields[field]
        for field, name in names.REQUEST_FIELDS.items()
        if isinstance(fields.get(field), int | float)
    }


def error_type_in(result: dict[str, Any]) -> str:
    """Return the type of the exception in a call's result; the conventions' `_OTHER` if unknown."""
    lines = str(result.get("traceback") or "").rstrip().splitlines()
    for line in reversed(lines):
        if line and not line[0].isspace():
            name = line.partition(":")[0]
            return name if name.replace(".", "").isidentifier() else "_OTHER"
    return "_OTHER"
