"""Answers of OpenAI's Responses API, for `OpenAIServer`."""

from __future__ import annotations

import json
from typing import Any

from models.openai_server import Answer, answer, events

USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 10,
}


def said(text: str, **more: Any) -> dict[str, Any]:
    """The item of a message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return item | {"content": content} | more


def thought(*summary: str, id: str = "rs_1") -> dict[str, Any]:
    """The item of a model's reasoning."""
    parts = [{"type": "summary_text", "text": each} for each in summary]
    return {"type": "reasoning", "id": id, "summary": parts, "encrypted_content": f"ENC-{id}"}


def called(name: str, arguments: str, id: str = "call_x") -> dict[str, Any]:
    """The item of a call."""
    item = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name}
    return item | {"arguments": arguments, "status": "completed"}


def body(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "error": None}
    made |= {"status": "completed", "output": list(items), "usage": USAGE}
    return made | {"incomplete_details": None} | more


def response(*items: dict[str, Any], **more: Any) -> Answer:
    return answer(body(*items, **more))


def streamed(*items: dict[str, Any], last: Any = None, **more: Any) -> Answer:
    """The same as a stream of events; each text comes in pieces of three characters."""
    made: list[dict[str, Any]] = [{"type": "response.created", "response": body(status="queued")}]
    for n, item in enumerate(items):
        made.append({"type": "response.output_item.added", "output_index": n, "item": item})
        if item["type"] == "message":
            kind, texts = "response.output_text.delta", [each["text"] for each in item["content"]]
        elif item["type"] == "reasoning":
            kind = "response.reasoning_summary_text.delta"
            texts = [each["text"] for each in item["summary"]]
        else:
            kind, texts = "response.function_call_arguments.delta", [item.get("arguments", "")]
        for part, text in enumerate(texts):
            where = {"item_id": item["id"], "output_index": n, "summary_index": part}
            pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
            made += [{"type": kind, **where, "delta": piece} for piece in pieces]
        made.append({"type": "response.output_item.done", "output_index": n, "item": item})
    made.append(last or {"type": "response.completed", "response": body(*items, **more)})
    written = ((each["type"], json.dumps(each)) for each in made)
    return events(*(f"event: {kind}\ndata: {data}\n\n".encode() for kind, data in written))
