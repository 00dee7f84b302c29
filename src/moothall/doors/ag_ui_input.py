"""Reads what a client of AG-UI sends as chat messages."""

from __future__ import annotations

from typing import Any

from moothall.doors.openai.input import Wrong
from moothall.jsonvalue import json_text
from moothall.provenance import with_sources


def messages_of(given: Any) -> list[dict[str, Any]]:
    """Return messages in the form of chat completions, without those that models do not get."""
    found: list[dict[str, Any]] = []
    for each in given:
        if not isinstance(each, dict) or each.get("role") in ("activity", "reasoning"):
            continue
        made = {**each}
        if "toolCallId" in made:
            made["tool_call_id"] = made["toolCallId"]
        calls = made.get("toolCalls")
        if "toolCalls" in made:
            made["tool_calls"] = calls
        if isinstance(made.get("content"), list):
            made["content"] = [_part(part) for part in made["content"]]
        before = found[-1] if found else {}
        if before.get("role") == made.get("role") == "assistant" and not made.get("content"):
            had = before.get("tool_calls") or []
            if isinstance(calls, list) and isinstance(had, list):  # each in a message of its own
                before["tool_calls"] = [*had, *calls]
                continue
        found.append(made)
    return found


def _part(part: Any) -> Any:
    """Return a part of a message in the form of chat completions."""
    source = part.get("source") if isinstance(part, dict) else None
    if not isinstance(source, dict) or part.get("type") != "image":
        return part
    url = source.get("value")
    if source.get("type") == "data":
        url = f"data:{source.get('mimeType')};base64,{url}"
    return {"type": "image_url", "image_url": {"url": url}}


def context_of(given: Any) -> list[dict[str, Any]]:
    """Return what the page shows its person, as a message to the model; it is from outside."""
    if not isinstance(given, list | tuple):
        raise Wrong("context must be a list", "context")
    lines: list[str] = []
    for number, each in enumerate(given):
        about = each.get("description") if isinstance(each, dict) else None
        if not isinstance(about, str) or "value" not in each:
            raise Wrong(f"context[{number}] must have a description and a value", "context")
        lines.append(f"- {about}: {json_text(each['value'])}")
    if not lines:
        return []
    text = "\n".join(("What the page of the user shows:", *lines))
    return [with_sources({"role": "system", "content": text}, ["the page of the user"])]
