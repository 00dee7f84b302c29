"""Replies in the two forms of OpenAI's interface: whole, and as the events of a stream."""

from __future__ import annotations

import time
from typing import Any, Final, Literal, TypeAlias

from moothall import Usage
from moothall.build import json_line
from moothall.serving.doors.checks import Send, as_json, sse_event
from moothall.serving.doors.openai.client_outcome import ClientOutcome
from moothall.serving.doors.openai.input import OpenAIRequest
from moothall.serving.doors.openai.message_content import BadRequest

Kind: TypeAlias = Literal["output_text", "reasoning_text"]
"""What a piece is of: what a model says, or what it thinks before that."""

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


NO_RETRY: Final = (b"x-should-retry", b"false")
"""The same request would fail the same way, and may cost the same again."""


async def send_json(send: Send, status: int, data: Any, allow: str = "") -> None:
    """Send a whole answer; `allow` has the methods that a path takes."""
    body = as_json(data)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *HEADERS,
    ]
    if status >= 400:
        headers.append(NO_RETRY)
    if allow:
        headers.append((b"allow", allow.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ChatCompletion:
    """A chat completion: `complete` gives it whole, the other methods the pieces of a stream."""

    def __init__(self, request: OpenAIRequest, run_id: str) -> None:
        self._request = request
        self._fields = {
            "id": f"chatcmpl-{run_id}",
            "created": int(time.time()),
            "model": request.model,
            "system_fingerprint": None,
        }

    def complete(self, outcome: ClientOutcome) -> dict[str, Any]:
        """Return the whole completion."""
        reasoning, text = (
            "\n\n".join(filter(None, (each[n] for each in outcome.turns))) for n in (0, 1)
        )
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if outcome.is_refusal else text or (None if outcome.calls else ""),
            "refusal": text if outcome.is_refusal else None,
            "annotations": [],
        }
        if reasoning:
            message["reasoning_content"] = reasoning
        if outcome.calls:
            message["tool_calls"] = [_chat_call(each) for each in outcome.calls]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _finish_reason(outcome),
        }
        usage = _chat_usage(outcome.usage)
        return {**self._fields, "object": "chat.completion", "choices": [choice], "usage": usage}

    def first_bytes(self) -> bytes:
        """Return the first piece."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def piece_bytes(self, text: str, is_new: bool, kind: Kind = "output_text") -> bytes:
        """Return a piece of text; `is_new` if it begins another text than the one before."""
        name = "content" if kind == "output_text" else "reasoning_content"
        return self._chunk({name: f"\n\n{text}" if is_new else text})

    def end_bytes(self, outcome: ClientOutcome) -> bytes:
        """Return the last pieces."""
        chunks = b""
        if outcome.calls:
            calls = [{"index": n, **_chat_call(each)} for n, each in enumerate(outcome.calls)]
            chunks += self._chunk({"tool_calls": calls})
        chunks += self._chunk({}, _finish_reason(outcome))
        if self._request.include_usage:
            usage = _chat_usage(outcome.usage)
            kind = "chat.completion.chunk"
            chunks += sse_event({**self._fields, "object": kind, "choices": [], "usage": usage})
        return chunks + b"data: [DONE]\n\n"

    def error_bytes(self, error: BadRequest) -> bytes:
        """Return the end of a stream that has failed."""
        return sse_event({"error": error.error})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._fields, "object": "chat.completion.chunk", "choices": [choice]}
        return sse_event({**chunk, "usage": None} if self._request.include_usage else chunk)


def _chat_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json_line(call["args"])}
    return {"id": call["id"], "type": "function", "function": function}


def _finish_reason(outcome: ClientOutcome) -> str:
    return "tool_calls" if outcome.calls else outcome.cut_reason or "stop"


def _chat_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total,
        "prompt_tokens_details": _details(usage, "input", in_chat=True),
        "completion_tokens_details": _details(usage, "output", in_chat=True),
    }


def _details(usage: Usage, direction: str, *, in_chat: bool = False) -> dict[str, int]:
    """Return how many of the input or the output tokens are of each kind."""
    return {
        part.openai_name: getattr(usage, name)
        for name, part in usage.parts.items()
        if part.details == direction and (part.in_chat or not in_chat)
    }


class ResponseForm:
    """A response: `complete` gives it, the other methods the events of its stream."""

    def __init__(self, request: OpenAIRequest, run_id: str, created_at: int | None = None) -> None:
        body, self._run_id = request.body, run_id
        self.final_response: dict[str, Any] | None = None  # as it has ended
        text = body.get("text") or {}
        self._event_number = -1  # of the last event
        self._output: list[dict[str, Any]] = []  # the items that have ended
        self._open_item: dict[str, Any] | None = None  # the message whose text comes
        self._response: dict[str, Any] = {
            "id": f"resp_{run_id}",
            "object": "response",
            "created_at": int(time.time()) if created_at is None else created_at,
            "completed_at": None,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions or None,
            "max_output_tokens": body.get("max_output_tokens"),
            "max_tool_calls": body.get("max_tool_calls"),
            "metadata": body.get("metadata") or {},
            "model": request.model,
            "output": [],
            "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
            "previous_response_id": request.previous_id,
            "prompt_cache_key": body.get("prompt_cache_key"),
            "presence_penalty": body.get("presence_penalty") or 0,
            "frequency_penalty": body.get("frequency_penalty") or 0,
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": body.get("safety_identifier"),
            "service_tier": "default",
            "store": request.store,
            "temperature": body.get("temperature", 1),
            "text": {"format": text.get("format") or {"type": "text"}},
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": [
                {"description": None, "parameters": None, "strict": None, **each}
                for each in body.get("tools") or ()
            ],
            "top_logprobs": 0,
            "top_p": body.get("top_p", 1),
            "truncation": "disabled",
            "usage": None,
        }

    def unfinished(self) -> dict[str, Any]:
        """Return the response before its end."""
        return self._response

    def complete(self, outcome: ClientOutcome, completed_at: int | None = None) -> dict[str, Any]:
        """Return the whole response; `completed_at` is when it was completed, by default now."""
        for reasoning, text in outcome.turns:
            if reasoning:
                self.piece_bytes(reasoning, True, "reasoning_text")
            if text:
                self.piece_bytes(text, True)
        if not self._output and self._open_item is None and not outcome.calls:
            self.piece_bytes("", True)
        self.end_bytes(outcome, completed_at)
        assert self.final_response is not None
        return self.final_response

    def first_bytes(self) -> bytes:
        """Return the first events."""
        return self._event("response.created", response=self._response) + self._event(
            "response.in_progress", response=self._response
        )

    def piece_bytes(self, text: str, is_new: bool, kind: Kind = "output_text") -> bytes:
        """Return the events of a piece of text; `is_new` if it begins another item."""
        events = b""
        if self._open_item is not None and (is_new or self._open_part["type"] != kind):
            if self._open_item["type"] == "message":  # clients join the texts of all
                events = self._delta_event("\n\n")
            events += self._close_item("commentary")
        if self._open_item is None:
            item = self._new_message() if kind == "output_text" else self._new_reasoning()
            self._open_item = item
            events += self._item_event("added", {**item, "content": []})
            part = {**self._open_part}
            events += self._event("response.content_part.added", **self._item_position, part=part)
        return events + self._delta_event(text)

    def _delta_event(self, text: str) -> bytes:
        part = self._open_part
        part["text"] += text
        part_fields: dict[str, Any] = {"logprobs": []} if part["type"] == "output_text" else {}
        return self._event(
            f"response.{part['type']}.delta", **self._item_position, delta=text, **part_fields
        )

    def end_bytes(self, outcome: ClientOutcome, completed_at: int | None = None) -> bytes:
        """Return the last events; `completed_at` is when it was completed, by default now."""
        events = self._close_item("commentary" if outcome.calls else "final_answer")
        for call in outcome.calls:
            item = self._new_call(call)
            events += self._item_event("added", {**item, "status": "in_progress", "arguments": ""})
            position = {"item_id": item["id"], "output_index": len(self._output)}
            event_name, arguments = "response.function_call_arguments", item["arguments"]
            events += self._event(f"{event_name}.delta", **position, delta=arguments)
            events += self._event(
                f"{event_name}.done", **position, name=item["name"], arguments=arguments
            )
            events += self._item_event("done", item)
            self._output.append(item)
        response = self._final_response(outcome, completed_at)
        return events + self._event(f"response.{response['status']}", response=response)

    def error_bytes(self, error: BadRequest) -> bytes:
        """Return the end of a stream that has failed."""
        return self._event("response.failed", response=self.failed_response(error))

    def failed_response(self, bad_request: BadRequest) -> dict[str, Any]:
        """Return a response that has failed."""
        error = {"code": bad_request.error["code"] or "server_error", "message": str(bad_request)}
        return {**self._response, "status": "failed", "error": error, "output": self._output}

    @property
    def _item_position(self) -> dict[str, Any]:
        assert self._open_item is not None
        return {
            "item_id": self._open_item["id"],
            "output_index": len(self._output),
            "content_index": 0,
        }

    @property
    def _open_part(self) -> dict[str, Any]:
        assert self._open_item is not None
        part: dict[str, Any] = self._open_item["content"][0]
        return part

    def _close_item(self, phase: str) -> bytes:
        item = self._open_item
        if item is None:
            return b""
        item["status"], part = "completed", self._open_part
        text_fields: dict[str, Any] = {"text": part["text"]}
        if item["type"] == "message":
            item["phase"], text_fields["logprobs"] = phase, []
        events = self._event(f"response.{part['type']}.done", **self._item_position, **text_fields)
        events += self._event("response.content_part.done", **self._item_position, part=part)
        events += self._item_event("done", item)
        self._open_item = None
        self._output.append(item)
        return events

    def _item_event(self, stage: str, item: dict[str, Any]) -> bytes:
        name = f"response.output_item.{stage}"
        return self._event(name, output_index=len(self._output), item=item)

    def _event(self, kind: str, /, **data: Any) -> bytes:
        self._event_number += 1
        return sse_event({"type": kind, "sequence_number": self._event_number, **data}, kind)

    def _item_id(self, prefix: str, kind: str) -> str:
        """Return the id of a new item, which counts its own kind: a journal has no reasoning."""
        number = sum(each["type"] == kind for each in self._output)
        return f"{prefix}_{self._run_id}_{number}"

    def _new_message(self) -> dict[str, Any]:
        return {
            "id": self._item_id("msg", "message"),
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "phase": "final_answer",
            "content": [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}],
        }

    def _new_reasoning(self) -> dict[str, Any]:
        id, part = self._item_id("rs", "reasoning"), {"type": "reasoning_text", "text": ""}
        item_fields = {"id": id, "type": "reasoning", "status": "in_progress", "summary": []}
        return {**item_fields, "content": [part]}

    def _new_call(self, call: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"fc_{self._run_id}_{call['id']}",
            "type": "function_call",
            "status": "completed",
            "call_id": call["id"],
            "name": call["name"],
            "arguments": json_line(call["args"]),
        }

    def _final_response(
        self, outcome: ClientOutcome, completed_at: int | None = None
    ) -> dict[str, Any]:
        usage, cut_reason = outcome.usage, outcome.cut_reason
        reason = "max_output_tokens" if cut_reason == "length" else cut_reason
        completed_at = int(time.time()) if completed_at is None else completed_at
        self.final_response = {
            **self._response,
            "status": "in_progress"
            if outcome.is_waiting
            else "incomplete"
            if cut_reason
            else "completed",
            "completed_at": None if cut_reason or outcome.is_waiting else completed_at,
            "incomplete_details": {"reason": reason} if cut_reason else None,
            "output": self._output,
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": _details(usage, "input"),
                "output_tokens": usage.output_tokens,
                "output_tokens_details": _details(usage, "output"),
                "total_tokens": usage.total,
            },
        }
        return self.final_response
