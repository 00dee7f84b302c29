"""Reads requests of responses: their items as chat messages."""

from __future__ import annotations

from typing import Any, Final

from moothall.build import json_line
from moothall.serving.doors.openai.input import (
    OpenAIRequest,
    call_of,
    chat_message,
    chosen_tools,
    client_tool_names_of,
    field_of,
    refuse_unsupported,
    schema_of,
    tools_of,
)
from moothall.serving.doors.openai.message_content import BadRequest, text_in

_NOT_ECHOED: Final = ("input", "model", "stream", "stream_options")
"""What a response does not say again of its request, or what its run has."""


def echo_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that its response says again."""
    return {name: value for name, value in body.items() if name not in _NOT_ECHOED}


def response_request(body: dict[str, Any]) -> OpenAIRequest:
    """Read a request of responses."""
    refuse_unsupported(body, "background", "conversation", "prompt")
    field_of(body, "metadata", dict, {})
    input_value = body.get("input")
    if isinstance(input_value, str):
        messages = [{"role": "user", "content": input_value}]
    elif not isinstance(input_value, list):
        raise BadRequest(
            f"input must be a text or a list, got {json_line(input_value)[:80]}", "input"
        )
    else:
        messages = messages_of_items(field_of(body, "input", list))
    text_format = field_of(field_of(body, "text", dict, {}), "format", dict, {})
    continues = body.get("previous_response_id") is not None
    tools = tools_of(body)
    return OpenAIRequest(
        field_of(body, "model", str),
        messages,
        *chosen_tools(body, tools),
        schema_of(text_format, text_format, "text.format"),
        field_of(body, "stream", bool, False),
        instructions=field_of(body, "instructions", str, ""),
        previous_id=field_of(body, "previous_response_id", str) if continues else None,
        store=field_of(body, "store", bool, True),
        body=body,
        client_tool_names=client_tool_names_of(tools),
    )


def messages_of_items(input_items: list[Any]) -> list[dict[str, Any]]:
    """Return the items of a request as chat messages; calls in a row are one message."""
    messages: list[dict[str, Any]] = []
    objects = [each for each in input_items if isinstance(each, dict)]
    answered_ids = {_call_id(each) for each in objects if item_type(each).endswith("_output")} - {
        None
    }
    for number, item in enumerate(input_items):
        label = f"input[{number}]"
        if not isinstance(item, dict):
            raise BadRequest(f"{label} must be an object", label)
        kind = item_type(item)
        if kind == "message":
            messages.append(chat_message({**item, "tool_calls": None}, label))
        elif kind == "function_call" or (kind.endswith("_call") and _call_id(item) in answered_ids):
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            call = call_of(item.get("call_id"), _as_function(item, kind), label)
            messages[-1].setdefault("tool_calls", []).append(call)
        elif kind.endswith("_output"):
            if (id := _call_id(item)) is not None:
                content = text_in(item.get("output"), label)
                messages.append({"role": "tool", "tool_call_id": id, "content": content})
            elif kind == "function_call_output":
                raise BadRequest(f"{label} must have a call_id", label)
        elif kind == "item_reference" and not str(item.get("id")).startswith("rs_"):
            text = (
                "names an item of no response of yours, or one named before: send the item itself"
            )
            raise BadRequest(f"{label} {text}", label)
        # All else, such as reasoning or a search that a provider made, no other model can use.
    if not messages:
        raise BadRequest("input must have an item", "input")
    return messages


def item_type(item: dict[str, Any]) -> str:
    """Return the type of an item; that of a message and of a reference may be left out."""
    is_reference = "id" in item and item.keys() <= {"id", "type"}
    return str(item.get("type") or ("item_reference" if is_reference else "message"))


def _call_id(item: dict[str, Any]) -> str | None:
    id = item.get("call_id")
    return id if isinstance(id, str) else None


def _as_function(item: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the call of a tool of any type as that of a function."""
    if kind == "function_call":
        return item
    args = {key: item[key] for key in ("input", "action", "operation") if key in item}
    return {
        "name": str(item.get("name") or kind.removesuffix("_call")),
        "arguments": json_line(args),
    }
