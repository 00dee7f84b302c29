"""Requests in the form of Anthropic's Messages API."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moothall.foundation.errors import ModelError
from moothall.models.blocks import TEXT_MEDIA, data_of
from moothall.models.protocol import thinking_for
from moothall.models.remote.adapting import NO_ANSWER
from moothall.models.remote.chat_format import chat_messages, ordered_parts, tools

if TYPE_CHECKING:
    from moothall.actions import Action

_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9+.-]+)(?:;[^;,]*)*?;base64,(.+)", re.S | re.I)
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def messages_body(messages: list[Any], name: str, server: str) -> dict[str, Any]:
    """Return the fields `system` and `messages` for our messages.

    All texts of the system go into `system`. Messages of one role in a row become one, since the
    roles must alternate, and the results of calls are messages of the user.
    """
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for message, chat_message in zip(messages, chat_messages(messages, name), strict=True):
        role, blocks = chat_message["role"], _blocks(chat_message.get("content"))
        if role == "system":
            system += blocks
            continue
        if role == "tool":
            id = chat_message["tool_call_id"]
            blocks = [{"type": "tool_result", "tool_use_id": id, "content": blocks}]
        elif role == "assistant":
            tool_uses = [_tool_use(call, name) for call in message.get("tool_calls") or ()]
            kept_blocks = thinking_for(message, server, "content") or ()
            blocks = ordered_parts(kept_blocks, blocks, tool_uses, lambda block: block.get("text"))
        role = "assistant" if role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if not turns:
        turns.append({"role": "user", "content": [{"type": "text", "text": "(nothing)"}]})
    for turn in turns:  # results come first, right after the calls
        turn["content"].sort(key=lambda block: block.get("type") != "tool_result")
    return {**({"system": system} if system else {}), "messages": turns}


def think_first(turns: Iterable[dict[str, Any]]) -> None:
    """Add reasoning to each answer that has none, for a server that wants it with each."""
    for turn in turns:
        kinds = {block.get("type") for block in turn["content"]}
        if turn["role"] == "assistant" and not kinds & {"thinking", "redacted_thinking"}:
            turn["content"].insert(0, {"type": "thinking", "thinking": NO_ANSWER, "signature": ""})


def lacks_thought(turns: list[dict[str, Any]]) -> bool:
    """Return whether results go back to an answer that no reasoning begins: another model's."""
    blocks = [block for turn in turns[-2:] for block in turn["content"][:1]]
    kinds = [block.get("type") for block in blocks]
    return kinds[-1] == "tool_result" and kinds[0] not in ("thinking", "redacted_thinking")


def _blocks(content: Any) -> list[dict[str, Any]]:
    """Return a message's content as blocks; empty texts, which are refused, are left out."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks: list[dict[str, Any]] = []
    for block in content or ():
        if isinstance(block, Mapping) and block.get("type") == "image_url":
            image = block.get("image_url")
            url = image.get("url") if isinstance(image, Mapping) else image
            blocks.append(_source_block(str(url or "")))
        elif data := data_of(block):
            blocks.append(_source_block(data))
        elif not isinstance(block, Mapping) or block.get("type", "text") == "text":
            text = block.get("text") if isinstance(block, Mapping) else str(block)
            if isinstance(text, str) and text.strip():
                blocks.append({"type": "text", "text": text})
        else:  # a block in the provider's own form
            blocks.append(dict(block))
    return blocks


def _source_block(url: str) -> dict[str, Any]:
    data = _DATA_URL.fullmatch(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind = data[1].lower().replace("image/jpg", "image/jpeg")
    if kind.startswith(TEXT_MEDIA):
        text = b64decode(data[2]).decode("utf-8", "replace")
        return {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": text},
        }
    source = {"type": "base64", "media_type": kind, "data": "".join(data[2].split())}
    return {"type": "image" if kind.startswith("image/") else "document", "source": source}


def _tool_use(call: Mapping[str, Any], name: str) -> dict[str, Any]:
    args = call.get("args")
    if isinstance(args, str):  # the text of another provider
        try:
            args = json.loads(args or "{}")
        except (ValueError, RecursionError):
            args = {}
    if args is not None and not isinstance(args, Mapping):
        raise ModelError(
            f"{name}: the arguments of the call {call['name']!r:.80} must be an object"
        )
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": dict(args or {})}


def messages_tools(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Return the actions that the model may call."""
    functions = [each["function"] for each in tools(actions)]
    return [{"input_schema": each.pop("parameters"), **each} for each in functions]


def tools_called(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tools for the calls of a conversation that may make no more: the API wants them."""
    names = {call["name"] for each in messages for call in each.get("tool_calls") or ()}
    return [{"name": name, "input_schema": _NO_PARAMETERS} for name in sorted(names)]
