"""Answers in the form of Anthropic's messages API, for the server in `openai_server`."""

from __future__ import annotations

import json
from typing import Any

from models.openai_server import Answer, answer, http


def message(*content: dict[str, Any], stop_reason: str = "end_turn") -> Answer:
    """A whole answer of these blocks."""
    return answer(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": list(content),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 7, "output_tokens": 3},
        }
    )


def text(said: str) -> Answer:
    return message({"type": "text", "text": said})


def call(name: str, args: dict[str, Any], id: str = "toolu_1") -> Answer:
    used = {"type": "tool_use", "id": id, "name": name, "input": args}
    return message(used, stop_reason="tool_use")


def streamed(*blocks: dict[str, Any], stop_reason: str = "end_turn") -> Answer:
    """The same as a stream of events; each text comes in pieces of three characters."""
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 7, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start | {"usage": usage}}]
    for index, block in enumerate(blocks):
        kind = block["type"]
        if kind == "text":
            field, delta, whole, empty = "text", "text_delta", block["text"], {"text": ""}
        elif kind == "thinking":
            field, delta, whole = "thinking", "thinking_delta", block["thinking"]
            empty = {"thinking": "", "signature": ""}
        elif "input" not in block:  # what a tool of the server gave comes whole
            field, delta, whole, empty = "", "", "", block
        else:
            field, delta, whole = "partial_json", "input_json_delta", json.dumps(block["input"])
            empty = {"id": block["id"], "name": block["name"], "input": {}}
        about = {"type": "content_block_start", "index": index}
        events.append(about | {"content_block": {"type": kind} | empty})
        for place in range(0, len(whole), 3):
            piece = {"type": delta, field: whole[place : place + 3]}
            events.append({"type": "content_block_delta", "index": index, "delta": piece})
        if block.get("signature"):
            signed = {"type": "signature_delta", "signature": block["signature"]}
            events.append({"type": "content_block_delta", "index": index, "delta": signed})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": stop_reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 3}})
    events.append({"type": "message_stop"})
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    return http(body.encode(), headers={"Content-Type": "text/event-stream"})
