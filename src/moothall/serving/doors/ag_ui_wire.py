"""What a client of AG-UI sends, as chat messages and answers; and the events that it gets."""

from __future__ import annotations

import secrets
from typing import Any, Final

from moothall.actions.provenance import with_sources
from moothall.foundation.jsonvalue import json_text
from moothall.serving.a2a.wire import part_block
from moothall.serving.doors.asks import Ask
from moothall.serving.doors.openai.content import Wrong
from moothall.serving.doors.openai.input import Asked, chat_completion

_FILES: Final = {"image": "image/*", "audio": "", "video": "", "document": "", "binary": ""}
"""The parts of a message that are files, with the medium that each has if it states none."""
_CUT: Final = "(cut off: whether it took effect is unknown)"
"""The result of a call whose run was cancelled."""


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
            made["tool_calls"] = [*calls] if isinstance(calls, list) else calls
        if isinstance(made.get("content"), list):
            made["content"] = [_part(part) for part in made["content"]]
        before = found[-1] if found else {}
        if before.get("role") == made.get("role") == "assistant" and not made.get("content"):
            had = before.setdefault("tool_calls", [])
            if isinstance(calls, list) and isinstance(had, list):  # each in a message of its own
                had += calls
                continue
        found.append(made)
    return _closed(found)


def _closed(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give a result to each call after which the conversation went on without: it was cut off."""
    done = {str(each.get("tool_call_id")) for each in messages}
    ends = max((n for n, each in enumerate(messages) if each.get("role") != "tool"), default=0)
    found: list[dict[str, Any]] = []
    for number, each in enumerate(messages):
        found.append(each)
        calls = each.get("tool_calls") if number < ends else None
        for call in calls if isinstance(calls, list) else ():
            id = call.get("id") if isinstance(call, dict) else None
            if str(id) not in done:
                found.append({"role": "tool", "tool_call_id": id, "content": _CUT})
    return found


def _part(part: Any) -> Any:
    """Return a part of a message in the form of chat completions; files are of several types."""
    given = part.get("source", part) if isinstance(part, dict) else None
    if not isinstance(given, dict) or part.get("type") not in _FILES:
        return part
    about = {"filename": part.get("filename") or given.get("filename")}
    about["mediaType"] = given.get("mimeType") or _FILES[part["type"]]
    value = "raw" if given.get("type") == "data" or "data" in given else "url"
    return part_block({**about, value: given.get("value") or given.get("data") or given.get("url")})


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


def _form(name: str, kind: str) -> dict[str, Any]:
    """Return the schema of an answer."""
    return {
        "type": "object",
        "properties": {name: {"type": kind}},
        "required": [name],
        "additionalProperties": False,
    }


def read(ask: Ask, entry: dict[str, Any]) -> bool | str | None:
    """Return what a `resume` answers; whatever has another form permits and answers nothing."""
    name = "approved" if ask.is_approval else "answer"
    payload, said = entry.get("payload"), None
    if entry.get("status") == "resolved" and isinstance(payload, dict) and len(payload) == 1:
        said = payload.get(name)
    if ask.is_approval:
        return said is True
    return said if isinstance(said, str) else None


def interrupt(id: str, ask: Ask) -> dict[str, Any]:
    """Return what the client is told of what is asked."""
    reason, form = ("approval", _PERMIT) if ask.is_approval else ("question", _ANSWER)
    call = {"toolCallId": ask.call} if ask.call else {}
    about = {"reason": reason, "message": ask.text, "metadata": ask.shown}
    return {"id": id, **call, **about, "responseSchema": form}


_PERMIT: Final = _form("approved", "boolean")
_ANSWER: Final = _form("answer", "string")


def spoken(text: str) -> list[dict[str, Any]]:
    """Return a whole message of the agent's."""
    id = secrets.token_hex(8)
    content = {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}
    return [starts("TEXT_MESSAGE", id)[0], content, ends("TEXT_MESSAGE", id)[0]]


def starts(kind: str, id: str, name: str = "") -> list[dict[str, Any]]:
    """Return the events by which a message begins."""
    if kind == "TEXT_MESSAGE":
        who = {"role": "assistant", "name": name} if name else {"role": "assistant"}
        return [{"type": "TEXT_MESSAGE_START", "messageId": id, **who}]
    start = {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
    return [{"type": "REASONING_START", "messageId": id}, start]


def ends(kind: str, id: str) -> list[dict[str, Any]]:
    """Return the events by which a message ends."""
    made = [{"type": f"{kind}_END", "messageId": id}]
    return made if kind == "TEXT_MESSAGE" else [*made, {"type": "REASONING_END", "messageId": id}]


def asked_of(id: str, given: dict[str, Any], messages: list[dict[str, Any]]) -> Asked:
    """Return messages to an agent, with the client's tools."""
    listed = given.get("tools") or ()
    tools = [{"type": "function", "function": each} for each in listed if each]
    return chat_completion({"model": id, "messages": messages, "tools": tools})


def no_run() -> Wrong:
    """Return the error for an answer that no run waits for."""
    return Wrong("no run of this thread waits for this answer, or no longer")
