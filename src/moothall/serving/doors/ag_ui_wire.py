"""What a client of AG-UI sends, as chat messages and answers; and the events that it gets."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from moothall.build import as_json, json_line, json_text, shorten, with_sources
from moothall.serving.a2a.wire import as_block
from moothall.serving.doors.ag_ui_run import PageRun
from moothall.serving.doors.asks import Ask, answer_schema, read_form
from moothall.serving.doors.openai.input import OpenAIRequest, chat_completion
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.protocols import failed_call_text
from moothall.serving.doors.served.served_run import RunQuestions, ServedRun

_FILE_MEDIA: Final = {"image": "image/*", "audio": "", "video": "", "document": "", "binary": ""}
"""The parts of a message that are files, with the medium that each has if it states none."""
_CALL_MARK: Final = re.compile(r"\A[0-9a-f]{16}(\.\d{1,9})?-(?=.)", re.S)
"""What stands before the id of a call, so that its thread has not had it."""


class EventWriter:
    """Makes the protocol's events of those of a reply.

    Attributes:
        text: the message that was told last, as far as it is
    """

    def __init__(self, page_run: PageRun, agent: str) -> None:
        self._page_run, self._agent = page_run, agent
        self._open_message = ("", "", "")  # the message whose pieces come: its kind, id and speaker
        self.text: str = ""
        self._speech: tuple[Any, str] = (None, "")  # who said it, and its id, until a call follows
        self._turn: Any = None  # whose calls belong together
        self._parent_id = ""  # the message of these calls

    def events(self, item: Any) -> list[dict[str, Any]]:
        """Return the events for one of a reply; for anything else, those that end a message."""
        kind = getattr(item, "kind", "")
        if getattr(item, "past", False) or (kind == "text" and item.decides):
            return []  # the client knows it, or its decision comes as one event
        message_kind = _MESSAGE_KINDS.get(kind, "")
        open_kind, id, speaker = self._open_message
        ends_message = bool(open_kind) and (open_kind != message_kind or speaker != item.agent)
        out = end_events(open_kind, id) if ends_message else []
        if ends_message:
            self._open_message = ("", "", "")
        if (write := self._WRITERS.get(kind)) is not None:
            return [*out, *write(self, item)]
        if progress := getattr(item, "progress", ""):
            out.append(_custom_event(kind, {"agent": item.agent, "text": progress}))
        return out

    def _text_events(self, event: Any) -> list[dict[str, Any]]:
        kind, is_text, out = _MESSAGE_KINDS[event.kind], event.kind == "text", []
        if not self._open_message[0]:
            self._open_message = (kind, secrets.token_hex(8), event.agent)
            if is_text:
                self.text, self._speech, self._turn = "", (event.agent, self._open_message[1]), None
            out = start_events(
                kind, self._open_message[1], "" if event.agent == self._agent else event.agent
            )
        self.text += event.text if is_text else ""
        if event.text:
            ids = {"messageId": self._open_message[1]}
            out.append({"type": f"{kind}_CONTENT", **ids, "delta": event.text})
        return out

    def _call_events(self, event: Any) -> list[dict[str, Any]]:
        self._page_run.calls[event.call_id] = event
        if event.call_id in self._page_run.known_calls:
            return []
        if self._turn != (event.agent, event.iteration):
            self._turn = event.agent, event.iteration
            speaker, id = self._speech
            self._parent_id = id if speaker == event.agent else secrets.token_hex(8)
        self._speech, call_field = (None, ""), {"toolCallId": event.call_id}
        name = self._page_run.client_tool_names.get(event.action, event.action)
        names = {"toolCallName": name, "parentMessageId": self._parent_id}
        return [
            {"type": "TOOL_CALL_START", **call_field, **names},
            {"type": "TOOL_CALL_ARGS", **call_field, "delta": json_line(event.args)},
            {"type": "TOOL_CALL_END", **call_field},
        ]

    def _progress_events(self, event: Any) -> list[dict[str, Any]]:
        return [_custom_event(event.kind, {"toolCallId": event.call_id, "text": event.text})]

    def _result_events(self, event: Any) -> list[dict[str, Any]]:
        self._page_run.calls.pop(event.call_id, None)
        if event.action in self._page_run.tools:
            return []
        self._turn = None  # its message is not the last one any more
        content = failed_call_text(event.result) if event.error else event.result.get("result")
        ids = {"toolCallId": event.call_id, "messageId": secrets.token_hex(8)}
        return [{"type": "TOOL_CALL_RESULT", **ids, "content": json_text(as_json(content))}]

    def _review_events(self, event: Any) -> list[dict[str, Any]]:
        data = getattr(event, event.kind).to_json()
        if data.get("error"):  # of a member: why it failed is not for callers
            data["error"] = data["error"].partition(":")[0]
        value = {"agent": event.agent, "loop": event.loop, event.kind: data}
        return [_custom_event(event.kind, value)]

    def _step_events(self, event: Any) -> list[dict[str, Any]]:
        kind = "STEP_STARTED" if event.kind == "block_started" else "STEP_FINISHED"
        return [{"type": kind, "stepName": event.block}]

    _WRITERS: ClassVar[dict[str, Callable[[EventWriter, Any], list[dict[str, Any]]]]] = {
        "text": _text_events,
        "reasoning": _text_events,
        "call_started": _call_events,
        "call_progress": _progress_events,
        "call_ended": _result_events,
        "decision": _review_events,
        "conclusion": _review_events,
        "block_started": _step_events,
        "block_ended": _step_events,
    }
    """What is told in another way than by its progress."""


_MESSAGE_KINDS: Final = {"text": "TEXT_MESSAGE", "reasoning": "REASONING_MESSAGE"}


def _custom_event(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "CUSTOM", "name": name, "value": value}


def with_model_call_ids(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with the ids of calls as their models gave them."""
    for each in messages:
        for call in each.get("tool_calls", ()):
            call["id"] = _CALL_MARK.sub("", call["id"])
        if "tool_call_id" in each:
            each["tool_call_id"] = _CALL_MARK.sub("", each["tool_call_id"])
    return messages


def is_version_1(body: dict[str, Any]) -> bool:
    """Whether a client states version 1 of the protocol, whose new keys older clients refuse."""
    version = body.get("protocolVersion")
    return isinstance(version, str) and re.match(r"[1-9][0-9]*(\.|\Z)", version) is not None


def messages_of(items: Any) -> list[dict[str, Any]]:
    """Return messages in the form of chat completions, without those that models do not get."""
    messages: list[dict[str, Any]] = []
    for number, each in enumerate(items):
        if not isinstance(each, dict):
            text = f"messages[{number}] must be an object, got {shorten(json_line(each), 80)}"
            raise BadRequest(text, f"messages[{number}]")
        if each.get("role") in ("activity", "reasoning"):
            continue
        message = {**each}
        if "toolCallId" in message:
            message["tool_call_id"] = message["toolCallId"]
            if isinstance(error := message.get("error"), str) and not message.get("content"):
                message["content"] = json_line({"error": error})
        calls = message.get("toolCalls")
        if "toolCalls" in message:
            message["tool_calls"] = [*calls] if isinstance(calls, list) else calls
        if isinstance(message.get("content"), list):
            message["content"] = [_content_part(part) for part in message["content"]]
        previous = messages[-1] if messages else {}
        both_assistant = previous.get("role") == message.get("role") == "assistant"
        if both_assistant and not message.get("content"):
            earlier = previous.setdefault("tool_calls", [])
            # Each in a message of its own.
            if isinstance(calls, list) and isinstance(earlier, list):
                earlier += calls
                continue
        messages.append(message)
    return messages


def _content_part(part: Any) -> Any:
    """Return a part of a message in the form of chat completions; files are of several types."""
    source = part.get("source", part) if isinstance(part, dict) else None
    if not isinstance(source, dict) or part.get("type") not in _FILE_MEDIA:
        return part
    metadata = {"filename": part.get("filename") or source.get("filename")}
    metadata["mediaType"] = source.get("mimeType") or _FILE_MEDIA[part["type"]]
    value_key = "raw" if source.get("type") == "data" or "data" in source else "url"
    return as_block(
        {**metadata, value_key: source.get("value") or source.get("data") or source.get("url")}
    )


def context_messages(items: Any) -> list[dict[str, Any]]:
    """Return what the page shows its person, as a message to the model; it is from outside."""
    if not isinstance(items, list | tuple):
        raise BadRequest("context must be a list", "context")
    lines: list[str] = []
    for number, each in enumerate(items):
        description = each.get("description") if isinstance(each, dict) else None
        if not isinstance(description, str) or "value" not in each:
            raise BadRequest(f"context[{number}] must have a description and a value", "context")
        lines.append(f"- {description}: {json_text(as_json(each['value']))}")
    if not lines:
        return []
    text = "\n".join(("What the page of the user shows:", *lines))
    return [with_sources({"role": "system", "content": text}, ["the page of the user"])]


def resume_entries(entries: Any) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the run that a `resume` is for, and its entries by the keys of what they answer.

    Raises:
        BadRequest: it answers no one run
    """
    entries_by_id: dict[str, dict[str, Any]] = {
        str(each.get("interruptId")): each
        for each in (entries if isinstance(entries, list) else ())
        if isinstance(each, dict)
    }
    run_ids = {id.partition(".")[0] for id in entries_by_id}
    if len(run_ids) != 1 or len(entries_by_id) < len(entries):
        raise no_run_error()
    return run_ids.pop(), {id.partition(".")[2]: each for id, each in entries_by_id.items()}


def answers_in(
    entries: Mapping[str, dict[str, Any]], run: ServedRun, questions: RunQuestions
) -> dict[str, Any]:
    """Return what entries answer of what a run asks, or has asked.

    Raises:
        BadRequest: one answers nothing of that, or the run does not go on
    """
    asks = {**questions.open_asks, **questions.answered_asks}
    goes_on = run.goes_on or questions.answered_asks
    if not goes_on or not {*asks, *questions.late_keys} >= entries.keys():
        raise no_run_error()
    return {
        key: _read_entry(asks[key], entry) if key in asks else None
        for key, entry in entries.items()
    }


def _read_entry(ask: Ask, entry: dict[str, Any]) -> Any:
    """Return what a `resume` answers; whatever has another form permits and answers nothing."""
    payload, fields = entry.get("payload"), answer_schema(ask, "approved")["properties"]
    if (
        entry.get("status") != "resolved"
        or not isinstance(payload, dict)
        or payload.keys() - fields
    ):
        payload = {}
    return read_form(ask, payload, "approved")


def interrupt_of(id: str, ask: Ask) -> dict[str, Any]:
    """Return what the client is told of what is asked."""
    reason = "approval" if ask.is_approval else "question"
    schema = answer_schema(ask, "approved") | {"additionalProperties": False}
    call = {"toolCallId": ask.call} if ask.call else {}
    fields = {"reason": reason, "message": ask.text, "metadata": ask.details}
    return {"id": id, **call, **fields, "responseSchema": schema}


def message_events(text: str) -> list[dict[str, Any]]:
    """Return a whole message of the agent's."""
    id = secrets.token_hex(8)
    content = {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}
    return [start_events("TEXT_MESSAGE", id)[0], content, end_events("TEXT_MESSAGE", id)[0]]


def start_events(kind: str, id: str, name: str = "") -> list[dict[str, Any]]:
    """Return the events by which a message begins."""
    if kind == "TEXT_MESSAGE":
        speaker = {"role": "assistant", "name": name} if name else {"role": "assistant"}
        return [{"type": "TEXT_MESSAGE_START", "messageId": id, **speaker}]
    start = {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
    return [{"type": "REASONING_START", "messageId": id}, start]


def end_events(kind: str, id: str) -> list[dict[str, Any]]:
    """Return the events by which a message ends."""
    out = [{"type": f"{kind}_END", "messageId": id}]
    return out if kind == "TEXT_MESSAGE" else [*out, {"type": "REASONING_END", "messageId": id}]


def openai_request(id: str, body: dict[str, Any], messages: list[dict[str, Any]]) -> OpenAIRequest:
    """Return messages to an agent, with the client's tools."""
    listed_tools = body.get("tools") or ()
    tools = [{"type": "function", "function": each} for each in listed_tools if each]
    return chat_completion({"model": id, "messages": messages, "tools": tools})


def no_run_error() -> BadRequest:
    """Return the error for an answer that no run waits for."""
    return BadRequest("no run of this thread waits for this answer, or no longer")
