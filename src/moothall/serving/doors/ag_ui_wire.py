"""What a client of AG-UI sends, as chat messages and answers; and the events that it gets."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from moothall import CallEnded, CallProgress, CallStarted
from moothall.agents import ReplyRequest
from moothall.build import json_text, shorten, with_sources
from moothall.serving.a2a.wire import as_block
from moothall.serving.doors.asks import ASK_WAIT_S, Ask, Caller, OpenAsks, answer_schema, read_form
from moothall.serving.doors.openai.input import OpenAIRequest, chat_completion
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.protocols import failed_call_text

_FILE_MEDIA: Final = {"image": "image/*", "audio": "", "video": "", "document": "", "binary": ""}
"""The parts of a message that are files, with the medium that each has if it states none."""
_CALL_MARK: Final = re.compile(r"\A[0-9a-f]{16}(\.\d{1,9})?-(?=.)", re.S)
"""What stands before the id of a call, so that its thread has not had it."""


class CallIds:
    """The ids under which a client knows the calls of a run: no other of its thread has one.

    A provider may begin to count anew in each turn, and each member of a group does. The mark
    stands in front: behind it, an id may hold what its provider wants back.
    """

    def __init__(self, run_id: str) -> None:
        self._mark = run_id[:16]
        self._counts: Counter[str] = Counter()
        self._current_ids: dict[tuple[str, str], str] = {}  # of each agent

    def begin(self, agent: str, id: str) -> str:
        """Return the id of a call that begins."""
        earlier_count = self._counts[id]
        self._counts[id] += 1
        new_id = f"{self._mark}.{earlier_count}-{id}" if earlier_count else f"{self._mark}-{id}"
        self._current_ids[agent, id] = new_id
        return new_id

    def current(self, agent: str, id: str) -> str:
        """Return the id of a call that has begun, here or before a restart."""
        return self._current_ids.get((agent, id), f"{self._mark}-{id}")


@dataclass(eq=False)
class AGUIRun:
    """A running reply, which may take several requests, one for each interrupt."""

    agent: str
    caller: str
    thread: str  # the client's
    run_id: str
    tools: frozenset[str]
    client_tool_names: dict[str, str]  # the client's names of its tools, by those that models take
    known_calls: set[str] = field(default_factory=set)  # the ids of the calls that the client knows
    event_queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    calls: dict[str, CallStarted] = field(default_factory=dict)  # those under way, by their ids
    is_version_1: bool = (
        False  # whether the client of this request states version 1 of the protocol
    )
    answers: dict[str, Any] | None = None  # the last ones that it took in this process
    events_sent: list[dict[str, Any]] = field(default_factory=list)  # since then
    open_asks: OpenAsks = field(init=False)
    asker: Caller = field(init=False)  # its client, who asks for the reply
    call_ids: CallIds = field(init=False)

    def __post_init__(self) -> None:
        self.open_asks = OpenAsks(self._on_ask_change, ASK_WAIT_S)
        self.call_ids = CallIds(self.run_id)

    def request(self, agent: Any, thread: str, content: Any, schema: Any = None) -> ReplyRequest:
        """Return its client's request for a reply of the agent, in a thread of the agent's."""
        ids: Any = {"run_id": self.run_id, "name": self.caller}
        self.asker = Caller(asyncio.get_running_loop(), self.open_asks, content=content, **ids)
        return self.asker.request(agent, thread, schema)

    def is_of(self, agent: str, caller: str, thread: str) -> bool:
        """Return whether it is of this agent, caller and thread."""
        return (self.agent, self.caller, self.thread) == (agent, caller, thread)

    def repeat_for(self, messages: Any) -> AGUIRun:
        """Return a run that tells again what this one told since its last answers.

        Args:
            messages: those that the client has; of their texts only what it lacks is told

        Raises:
            BadRequest: it goes on
        """
        events = [*_missing_events(self.events_sent, messages)]
        if not events or events[-1]["type"] not in ("RUN_FINISHED", "RUN_ERROR"):
            if self.task is not None and not self.task.done():
                text = "this answer was taken: its run goes on in another request"
                raise BadRequest(text, status=409)
            text = "the run was cancelled, since the client of its request has left"
            events.append({"type": "RUN_ERROR", "message": text, "code": "cancelled"})
        identity = (
            self.agent,
            self.caller,
            self.thread,
            self.run_id,
            self.tools,
            self.client_tool_names,
        )
        return AGUIRun(*identity, events_sent=events)

    def take_event(self, event: Any) -> None:
        """Take an event of the reply; its call gets the id under which the client knows it."""
        if isinstance(event, CallStarted):
            client_id = self.call_ids.begin(event.agent, event.call_id)
            self.known_calls |= {client_id} if event.call_id in self.known_calls else set()
            event = replace(event, call_id=client_id)
        elif isinstance(event, CallProgress | CallEnded):
            event = replace(event, call_id=self.call_ids.current(event.agent, event.call_id))
        self.event_queue.put_nowait(event)

    def _on_ask_change(self, ask: Ask) -> None:
        if ask.key in self.open_asks.open:
            self.event_queue.put_nowait(ask)

    def find_call_of(self, ask: Ask) -> None:
        """Find the call that is asked about."""
        if not ask.is_approval:
            ask.call = next(iter(self.calls)) if len(self.calls) == 1 else ""
            return
        asked_calls = {each.call for each in self.open_asks.open.values()}
        call_text = json_text([ask.details["action"], ask.details["args"]])
        matching_ids = (
            id
            for id, each in self.calls.items()
            if id not in asked_calls and json_text([each.action, each.args]) == call_text
        )
        ask.call = next(matching_ids, "")


class EventWriter:
    """Makes the protocol's events of those of a reply.

    Attributes:
        text: the message that was told last, as far as it is
    """

    def __init__(self, job: AGUIRun) -> None:
        self._job = job
        self._open_message = ("", "", "")  # the message whose pieces come: its kind, id and speaker
        self.text = ""
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
                kind, self._open_message[1], "" if event.agent == self._job.agent else event.agent
            )
        self.text += event.text if is_text else ""
        if event.text:
            ids = {"messageId": self._open_message[1]}
            out.append({"type": f"{kind}_CONTENT", **ids, "delta": event.text})
        return out

    def _call_events(self, event: Any) -> list[dict[str, Any]]:
        self._job.calls[event.call_id] = event
        if event.call_id in self._job.known_calls:
            return []
        if self._turn != (event.agent, event.iteration):
            self._turn = event.agent, event.iteration
            speaker, id = self._speech
            self._parent_id = id if speaker == event.agent else secrets.token_hex(8)
        self._speech, call_field = (None, ""), {"toolCallId": event.call_id}
        name = self._job.client_tool_names.get(event.action, event.action)
        names = {"toolCallName": name, "parentMessageId": self._parent_id}
        return [
            {"type": "TOOL_CALL_START", **call_field, **names},
            {"type": "TOOL_CALL_ARGS", **call_field, "delta": json_text(event.args)},
            {"type": "TOOL_CALL_END", **call_field},
        ]

    def _progress_events(self, event: Any) -> list[dict[str, Any]]:
        return [_custom_event(event.kind, {"toolCallId": event.call_id, "text": event.text})]

    def _result_events(self, event: Any) -> list[dict[str, Any]]:
        self._job.calls.pop(event.call_id, None)
        if event.action in self._job.tools:
            return []
        self._turn = None  # its message is not the last one any more
        content = failed_call_text(event.result) if event.error else event.result.get("result")
        ids = {"toolCallId": event.call_id, "messageId": secrets.token_hex(8)}
        return [{"type": "TOOL_CALL_RESULT", **ids, "content": json_text(content)}]

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
            text = f"messages[{number}] must be an object, got {shorten(json_text(each), 80)}"
            raise BadRequest(text, f"messages[{number}]")
        if each.get("role") in ("activity", "reasoning"):
            continue
        message = {**each}
        if "toolCallId" in message:
            message["tool_call_id"] = message["toolCallId"]
            if isinstance(error := message.get("error"), str) and not message.get("content"):
                message["content"] = json_text({"error": error})
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
        lines.append(f"- {description}: {json_text(each['value'])}")
    if not lines:
        return []
    text = "\n".join(("What the page of the user shows:", *lines))
    return [with_sources({"role": "system", "content": text}, ["the page of the user"])]


def read_resume_entry(ask: Ask, entry: dict[str, Any]) -> Any:
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


def _missing_events(events: list[dict[str, Any]], messages: Any) -> Iterator[dict[str, Any]]:
    """Yield the events without the pieces of text that the client has."""
    # A client adds a piece to its message of this id: told again, a text would stand there twice.
    texts: dict[str, str] = {}
    for each in messages:
        match each:
            case {"id": str(id), "content": str(text)}:
                texts[id] = text
    for event in events:
        delta, text = event.get("delta"), texts.get(event.get("messageId", ""), "")
        if delta and text:
            texts[event["messageId"]] = text[len(delta) :]
            event = event | {"delta": delta[len(text) :]}
        if delta is None or event["delta"]:
            yield event


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
