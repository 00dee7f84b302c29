"""Requests in the form of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moothall.models.protocol import thinking_for
from moothall.models.remote.chat_format import chat_messages, ordered_parts, tools

if TYPE_CHECKING:
    from moothall.actions import Action


def is_response(content: bytes) -> bool:
    """Return whether a request has this form, by its first field."""
    return content.startswith(b'{"input": ')


def responses_input(messages: list[Any], name: str, server: str) -> list[dict[str, Any]]:
    """Return our messages as the items of a request's `input`."""
    items: list[dict[str, Any]] = []
    for message, chat_message in zip(messages, chat_messages(messages, name), strict=True):
        role, content = chat_message["role"], chat_message["content"]
        if role == "tool":
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": chat_message["tool_call_id"],
                    "output": _content(content),
                }
            )
        elif role == "assistant":
            calls = [_call(each) for each in chat_message.get("tool_calls", ())]
            # The form takes texts only of an assistant, and llama.cpp only with the type.
            text = content if isinstance(content, str) else "".join(map(_text, content or ()))
            their_items = thinking_for(message, server, "items") or ()
            answer = [each for each in their_items if not is_commentary(each)]
            if text in (_said_in(their_items), _said_in(answer)):  # as the server said it
                text = "".join(filter(None, map(text_of, their_items)))
            text_items = [{"type": "message", "role": role, "content": text}] if text else []
            items += ordered_parts(their_items, text_items, calls, text_of)
        else:
            items.append({"role": role, "content": _content(content)})
    return items


def text_of(item: Mapping[str, Any]) -> str | None:
    """Return the text of a message's item; None for another item."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    if item.get("type") != "message" or not isinstance(content, list):
        return None
    return "".join(map(_text, content))


def is_commentary(item: Mapping[str, Any]) -> bool:
    """Return whether an item is what the model says before its answer.

    OpenAI's models mark it: tests/peers/recorded/openai-gpt-6.jsonl.
    """
    return item.get("phase") == "commentary"


def _said_in(items: Iterable[Mapping[str, Any]]) -> str:
    return "\n\n".join(filter(None, map(text_of, items)))


def _text(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else block
    return text if isinstance(text, str) else ""


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call["id"], **call["function"]}


def _content(content: Any) -> Any:
    return list(map(_block, content)) if isinstance(content, list) else content


def _block(block: Any) -> Any:
    """Return a block of the chat interface in this form; others go to the server unchanged."""
    kind = block.get("type", "text") if isinstance(block, Mapping) else None
    if kind == "text":
        return {"type": "input_text", "text": block.get("text", "")}
    if kind == "image_url":
        image_field = block.get("image_url")
        image_source = image_field if isinstance(image_field, Mapping) else {"url": image_field}
        image = {"image_url": image_source.get("url"), "detail": image_source.get("detail", "auto")}
        return {"type": "input_image", **image}
    if kind == "file" and isinstance(block.get("file"), Mapping):
        return {"type": "input_file", **block["file"]}
    return block


def responses_tools(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Return the actions that the model may call."""
    # The server's default, strict, refuses parameters that may be left out.
    return [{"type": "function", **each["function"], "strict": False} for each in tools(actions)]


def responses_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request of the chat interface in this form."""
    translated = dict(fields)
    for name in ("max_tokens", "max_completion_tokens"):
        if name in translated:
            translated["max_output_tokens"] = translated.pop(name)
    for name, group, inner in (
        ("reasoning_effort", "reasoning", "effort"),
        ("verbosity", "text", "verbosity"),
    ):
        if name in translated:
            translated[group] = {**translated.get(group, {}), inner: translated.pop(name)}
    translated.pop("seed", None)  # the interface has none
    return translated
