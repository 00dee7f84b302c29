"""What came of a request for a client: the outcome of the agent's reply, or an error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from moothall import (
    ConfigError,
    ContextOverflow,
    DefinitionError,
    ReActAgent,
    Reply,
    UnknownPrice,
    Usage,
)
from moothall.build import AnswerSchema, UnreadableText, as_json, json_text
from moothall.journal import REASONS, Wait
from moothall.models import FINISH_REASONS
from moothall.serving.doors.asks import waiting_text
from moothall.serving.doors.openai.input import OpenAIRequest
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.protocols import refusal_of

_REFUSAL_DETAIL: Final = FINISH_REASONS["refusal"].detail
# A refusal is whole, so the interface has no reason for its end.
_CUT_REASONS: Final = {each.detail: reason for reason, each in FINISH_REASONS.items() if each.cuts}


@dataclass(slots=True)
class ClientOutcome:
    """The outcome of a reply for the client.

    Attributes:
        text: the answer's text; empty if the caller must execute calls first
        calls: those calls, each with `id`, `name` and `args`
        cut_reason: `length` or `content_filter` if the answer was cut, else an empty text
        usage: the tokens
        turns: what the model thought and said in each of its answers, the last one included
        is_waiting: whether its run waits in the journal; the text says for what
        is_refusal: whether the model refused; the text is its refusal
    """

    text: str
    calls: list[dict[str, Any]]
    cut_reason: str
    usage: Usage
    turns: list[tuple[str, str]]
    is_waiting: bool = False
    is_refusal: bool = False


def waiting_outcome(waits: Sequence[Wait], usage: Usage) -> ClientOutcome:
    """Return the outcome of a reply whose run waits in the journal."""
    text = waiting_text(waits)
    return ClientOutcome(text, [], "", usage, [("", text)], True)


def outcome_of(
    reply: Reply,
    request: OpenAIRequest,
    agent: Any,
    thoughts: Sequence[str],
    only_last_text: bool,
    failure: str,
) -> ClientOutcome:
    """Return the outcome of an agent's reply; raise `BadRequest` for one without an answer.

    `thoughts` has the reasoning of each answer of its model. `only_last_text` says that the client
    gets the reply's text without those of the answers before. `failure` is what it reads of a reply
    without an answer.
    """
    if not Reply.gives_text(agent, reply.stop_reason, reply.text):
        raise failure_of(reply, failure)
    text = reply.text
    if request.schema is not None and reply.stop_reason != "terminal":
        text = _json_by_schema(reply, request.schema)
    names, calls = {each.name for each in request.tools}, []
    if reply.stop_reason == "terminal":
        last = [each for each in reply.messages if each.get("tool_calls")][-1]
        pending = (each for each in last["tool_calls"] if each["name"] in names)
        calls = [
            {**each, "name": request.client_tool_names.get(each["name"], each["name"])}
            for each in pending
        ]
        text = "" if calls else text
    turns = turns_of(reply, agent, "" if calls else text, thoughts, only_last_text)
    cut_reason, is_refusal = _CUT_REASONS.get(reply.detail, ""), reply.detail == _REFUSAL_DETAIL
    return ClientOutcome(text, calls, cut_reason, reply.usage, turns, is_refusal=is_refusal)


def turns_of(
    reply: Reply, agent: Any, text: str, thoughts: Sequence[str], only_last_text: bool
) -> list[tuple[str, str]]:
    """Return what a model thought and said in each of its answers; `text` is the reply's."""
    texts: list[str] = []
    if isinstance(agent, ReActAgent):
        answers = (each for each in reply.messages if each["role"] == "assistant")
        texts += [
            "" if only_last_text or not each.get("tool_calls") else each["content"]
            for each in answers
        ]
    if not texts or reply.stop_reason == "done":
        texts[-1:] = [text]
    elif text:  # the result of a terminal action
        texts.append(text)
    return [*zip_longest(thoughts[: len(texts)], texts, fillvalue="")]


def wants_last_text(request: OpenAIRequest, agent: Any) -> bool:
    """Return whether a client gets only the last of the texts: it may not want the others."""
    return (
        request.schema is not None or request.must_call or getattr(agent, "check", None) is not None
    )


def _json_by_schema(reply: Reply, schema: dict[str, Any]) -> str:
    """Return the JSON of an answer; raise `BadRequest` if it follows no schema (a group's)."""
    answer_schema, fault = AnswerSchema(schema), ""
    texts = [reply.text] if reply.value is None else [json.dumps(reply.value), reply.text]
    for each in texts:
        try:
            return json_text(as_json(answer_schema.parse(each)))
        except UnreadableText as error:
            fault = fault or str(error)
    raise BadRequest(f"the answer {fault}", None, "unreadable", 500, "server_error")


def failure_of(reply: Reply, detail: str) -> BadRequest:
    """Return the error for a reply that has no answer."""
    reason = reply.stop_reason
    if reason == "budget":
        return BadRequest(detail, None, "insufficient_quota", 429, "insufficient_quota")
    if isinstance(reply.error, ContextOverflow):
        return BadRequest(detail, "messages", "context_length_exceeded")
    if getattr(reply.error, "of_content", False):  # sent again, as after a 500, it is refused again
        return BadRequest(detail, "messages", "content_filter")
    status = REASONS[reason].http_status if reason in REASONS else 500
    return BadRequest(detail, None, reason, status, "server_error")


def bad_request_of(error: Exception, text: str) -> BadRequest:
    """Return the protocol's error for any error, of which its client reads this text."""
    if refusal := refusal_of(error):
        return BadRequest(str(error), None, refusal.code, refusal.status, refusal.kind)
    # Of a ConfigError or a missing price no client can mend anything.
    if isinstance(error, DefinitionError) and not isinstance(error, ConfigError | UnknownPrice):
        return BadRequest(str(error))
    return BadRequest(text, None, type(error).__name__, 500, "server_error")
