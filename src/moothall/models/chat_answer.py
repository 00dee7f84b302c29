"""What servers state in and around their answers: ends, errors, refused calls, reasoning."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from moothall.foundation.errors import ContextOverflow, ModelError
from moothall.foundation.http import is_transient
from moothall.foundation.jsonvalue import readable
from moothall.foundation.text import json_type, one_line, shorten
from moothall.models.finish_reason import REASON_OF_SERVER_WORD
from moothall.models.protocol import Call, ModelReply
from moothall.models.refusal import (
    ERROR_FIELDS,
    Refusal,
    display_text,
    error_kinds,
    error_objects,
    http_status,
    is_page,
    refuses_content,
    server_text,
)

# Codes and fixed words of servers.
_OVERFLOW_CODE = re.compile(
    "context_length_exceeded|exceed_context_size_error|tokens_limit_reached|ContextWindowExceeded"
    "|(?:prompt|input) is too long|context (?:length|limit|window)|maximum (?:model|prompt) length"
    "|exceeds the maximum number of tokens|`inputs` tokens|range of input length"
    "|length.{0,20} range of input|max_tokens must be at least 1, got -",
    re.I,
)
# What others write of it in a sentence, and what such a sentence says of another fault.
_OVERFLOW = re.compile(
    r"\b(?:prompt|inputs?|tokens?|messages?|sequence|request)\b[^.!?]{0,80}?\b(?:exceed(?:s|ed)?|too"
    r" (?:long|large|many)|longer than|must have less than|only supports up to)\b"
    r"|\b(?:exceed(?:s|ed)?|too many|reduce|larger than)\b[^.!?]{0,40}?\b(?:tokens?|length|context"
    r"|prompt|max_num_tokens)\b|\bcontent'?: string too long",
    re.I,
)
_NO_OVERFLOW = re.compile(
    r"per (?:second|minute|min|hour|day)|rate.?limit|quota|TPM|wait|try again"
    r"|number of (?!(?:\w+ )?tokens)|max_(?:completion_|output_|new_)?tokens\b|_id\b|\bid\b"
    r"|\btools?\b|\bimage (?:exceeds|size)",
    re.I,
)
# Codes and types of failures that pass, as servers state them within an answer: those of MiniMax
# and Z.ai are numbers. What their texts say of it.
_TRANSIENT = re.compile(
    "overload|api_error|rate.?limit|server.?error|time.?out|network_error|unavailable|throttl"
    "|internal|exhausted|capacity|too.?many.?requests|insufficient_system_resource"
    r"|\A(?:1000|1001|1002|1013|1024|1033|1234|1302|1305)\Z",
    re.I,
)
_TRANSIENT_TEXT = re.compile(
    "overloaded|temporarily|timed out|try again (?:later|in )|please retry|too many requests"
    "|internal server error|currently loading|no healthy upstream|upstream connect error",
    re.I,
)
# Of an account without money, which another try does not fill: codes, and what is said of it.
_NO_CREDIT = re.compile(
    "insufficient.?(?:quota|balance|credit|fund)|exceeded_current_quota|billing|arrear|overdue"
    r"|spend\w*.?limit|out_of_credit|credit.?(?:limit|balance)|\A1113\Z",
    re.I,
)
SIGNATURES = ("extra_content", "provider_specific_fields", "thought_signature")
"""Fields of a message, or of a call, that prove what the model thought: Gemini's, litellm's."""
REASONING = ("reasoning_content", "reasoning", "reasoning_text")
"""Fields of a message with its reasoning as a text: DeepSeek's, vLLM's, Copilot's."""
KEPT_FIELDS = (*REASONING, "reasoning_details", "reasoning_opaque", "thinking_blocks", *SIGNATURES)
"""Fields of a message that are wanted back."""


def parse_json(data: bytes, label: str) -> Any:
    """Return a body's JSON value."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ModelError(f"{label} is nested too deep") from None
    except ValueError as error:
        excerpt = display_text(data[:4000].decode("utf-8", "replace"))
        if is_page(excerpt) or not excerpt:
            message = f"{label} is {excerpt or 'empty'}, not JSON: check the address of the server"
            # A server that is busy may close the connection before it answers.
            raise (ModelError if excerpt else TransientError)(message) from None
        raise ModelError(
            f"{label} is not JSON: {str(error)[:100]}: {one_line(excerpt, 60)!r}"
        ) from None


def joined_content(content: str | list[Any] | None, label: str, place: str) -> str:
    """Return the text of a message's content; other content is left out."""
    if not isinstance(content, list):
        return content or ""
    parts = []
    for n, block in enumerate(content):
        if not isinstance(block, dict) or block.get("type", "text") == "text":
            text = block.get("text") if isinstance(block, dict) else None
            if not isinstance(text, str):
                raise wrong_field(label, f"{place}[{n}]", block, "a block of text")
            parts.append(text)
    return "".join(parts)


def reasoning_of(message: Mapping[str, Any]) -> str:
    """Return a model's reasoning, if shown; the format has no such field, so none is wrong."""
    for field in REASONING:
        text = message.get(field)
        if isinstance(text, str) and text:
            return text
    texts: list[Any] = []
    for field in ("content", "reasoning_details"):
        blocks = message.get(field)
        for block in blocks if isinstance(blocks, list) and not texts else ():
            kind = str(block.get("type")) if isinstance(block, dict) else ""
            if kind.startswith(("reasoning", "thinking")):
                reasoning = block.get(kind, block.get("text", block.get("summary")))
                inner = reasoning if isinstance(reasoning, list) else [{"text": reasoning}]
                texts += [each.get("text") for each in inner if isinstance(each, dict)]
    return "".join(text for text in texts if isinstance(text, str))


class TransientError(ModelError):
    """A failure, stated within an answer, that may pass: a retry may succeed."""


class UnreadableCall(TransientError):
    """The server could not read what the model wrote; with actions in the request, a call."""


UNREADABLE = ModelReply(finish_reason="unreadable")
"""The answer of which a server gives nothing, since it could not read a call in it."""


class RefusedCall(ModelError):
    """The server itself found that the call of an answer does not fit; `reply` is that answer."""

    def __init__(self, message: str, reply: ModelReply = UNREADABLE) -> None:
        super().__init__(message)
        self.reply = reply


def retold(error: Exception, text: str, kind: type[ModelError] = ModelError) -> ModelError:
    """Return an error as one of another text or kind, with all that is known of it."""
    retold_error = kind(text)
    vars(retold_error).update(vars(error))
    return retold_error


def failure_in(body: Mapping[str, Any]) -> Any:
    """Return the failure that stands in the place of an answer, or None."""
    base_resp = body.get("base_resp")  # MiniMax's
    if isinstance(base_resp, dict) and base_resp.get("status_code"):
        return {"error": {"code": base_resp["status_code"], "message": base_resp.get("status_msg")}}
    if body.get("error") or "error" in (body.get("type"), body.get("object")):
        return body
    answer_fields = {"choices", "content", "output", "type", "usage"} & body.keys()
    return None if answer_fields or not any(body.get(each) for each in ERROR_FIELDS) else body


def error_of(body: Any, name: str) -> ModelError:
    """Return the exception for an error sent instead of an answer."""
    error = _stated_error(body, f"{name}: the server answered with an error: {server_text(body)}")
    error.refusal = Refusal.read(body)
    return error


def _stated_error(body: Any, reason: str) -> ModelError:
    if (request_error := request_error_of(body, reason)) is not None:
        return request_error
    if has_no_credit(body):
        return ModelError(reason)
    error = body.get("error") if isinstance(body, dict) else None
    error_text = error.lower() if isinstance(error, str) else ""
    kinds = [*error_kinds(body), "server_error" if error_text == "error" else error_text]
    may_be_transient = any(map(_is_transient, kinds)) or _TRANSIENT_TEXT.search(server_text(body))
    if may_be_transient and not any(map(_is_permanent, kinds)):
        return TransientError(reason)
    return ModelError(reason, of_content=refuses_content(body))


def request_error_of(body: Any, reason: str) -> ModelError | None:
    """Return the error of a prompt that is too long, or of a call that the server refuses."""
    if is_overflow(body):
        return ContextOverflow(f"{reason.removesuffix('.')}; nothing was cut")
    if (refused := read_refused_call(body)) is not None:
        return RefusedCall(reason, refused)
    return UnreadableCall(reason) if _UNREADABLE_TEXT.search(server_text(body)) else None


def has_no_credit(body: Any) -> bool:
    """Return whether an account has no money left, which another try does not change."""
    return any(_NO_CREDIT.search(str(each)) for each in error_kinds(body))


def _is_transient(kind: Any) -> bool:
    return is_transient(http_status(kind)) or _TRANSIENT.search(str(kind)) is not None


def _is_permanent(kind: Any) -> bool:
    return 400 <= http_status(kind) < 500 and not is_transient(http_status(kind))


def is_overflow(body: Any) -> bool:
    """Return whether a server's error says that the prompt does not fit."""
    texts = (server_text(body), *map(str, error_kinds(body)))
    if any(map(_OVERFLOW_CODE.search, texts)):
        return True
    return any(map(_OVERFLOW.search, texts)) and not any(map(_NO_OVERFLOW.search, texts))


_FUNCTION = re.compile(r"<function=([\w.-]+)[>\s]*(.*?)(?:</function>|$)", re.S)
_CALL_TAG = re.compile(
    r"(?:<tool_call>|<\|python_tag\|>)\s*(\{.*?\}|\[.*?\])\s*(?:</tool_call>|$)", re.S
)
# What llama.cpp's server and Ollama's say of a call that they could not read.
_UNREADABLE_TEXT = re.compile(
    r"does not match the expected|failed to parse input at pos|invalid diff: now finding"
    r"|error parsing tool call",
    re.I,
)
_REFUSED_CODES = (
    *("tool_use_failed", "malformed_function_call", "malformed_tool_use", "unexpected_tool_call"),
    "output_parse_failed",
)


def read_refused_call(body: Any) -> ModelReply | None:
    """Return the answer that a server refused because its call does not fit, as Groq does."""
    generations = [each.get("failed_generation") for each in error_objects(body)]
    text = next((each for each in generations if isinstance(each, str)), "")
    kinds = {*map(str, error_kinds(body))}
    if "json_validate_failed" in kinds:  # Groq's word for an answer that its schema does not admit
        return ModelReply(readable(text))
    if not {*_REFUSED_CODES} & kinds:
        return None
    calls = [
        call for call_text in (text, *_CALL_TAG.findall(text)) for call in _calls_in(call_text)
    ]
    calls = calls or [Call("", match[1], match[2]) for match in _FUNCTION.finditer(text)]
    if calls:
        return ModelReply(calls=tuple(calls), finish_reason="calls")
    return ModelReply(readable(text)) if text else UNREADABLE


def _calls_in(text: str) -> list[Call]:
    """Return the calls in a JSON text, in the forms in which models write them."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        value = value.get("tool_calls", value)
    calls = []
    for each in value if isinstance(value, list) else [value]:
        function = each.get("function", each) if isinstance(each, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            args = function.get("arguments", function.get("parameters", {}))
            calls.append(
                Call("", function["name"], args if isinstance(args, str) else json.dumps(args))
            )
    return calls


def finish_reason_of(reason: Any, has_calls: bool, name: str) -> str:
    """Return our word for the end of an answer; raise if it says that it is not whole."""
    end = reason.lower() if isinstance(reason, str) and reason else "stop"
    # Gemini names the filter and what it found; others write the name of an enumeration.
    kind, _, detail = end.removeprefix("finish_reason_").replace("-", "_").partition(": ")
    finish_reason = REASON_OF_SERVER_WORD.get(kind)
    if finish_reason is None:
        message = f"{name}: the answer is not whole: it ended with {shorten(reason)!r}"
        if kind in _REFUSED_CODES or detail in _REFUSED_CODES:
            raise RefusedCall(message)
        raise (TransientError if _TRANSIENT.search(kind) else ModelError)(message)
    return "calls" if finish_reason == "stop" and has_calls else finish_reason


_META_FIELDS = frozenset(("id", "model", "provider", "citations", "system_fingerprint"))
_MESSAGE_META_FIELDS = {"annotations": "citations", "executed_tools": "executed_tools"}


def add_meta(meta: dict[str, Any], answer: Any) -> None:
    """Add what came with an answer, or with a piece of one."""
    if not isinstance(answer, dict):
        return
    add_answer_fields(meta, answer)
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return
    message = choice.get("delta") or choice.get("message")
    fields = message if isinstance(message, dict) else {}
    for server_name in _MESSAGE_META_FIELDS:
        if server_name in fields and isinstance(fields[server_name], list):
            our_name = _MESSAGE_META_FIELDS[server_name]
            meta[our_name] = [*meta.get(our_name, ()), *fields[server_name]]
    if isinstance(logprobs := choice.get("logprobs"), dict) and isinstance(
        logprobs.get("content"), list
    ):
        meta["logprobs"] = [*meta.get("logprobs", ()), *logprobs["content"]]


def add_answer_fields(meta: dict[str, Any], answer: dict[str, Any]) -> None:
    """Add what stands beside the choices of an answer, or of a piece of one."""
    meta |= {name: each for name, each in answer.items() if each and name in _META_FIELDS}


def wrong_field(label: str, field: str, value: Any, expected: str) -> ModelError:
    """Return the exception for a field of a wrong type or value."""
    suffix = f"'s {field}" if field else ""
    return ModelError(f"{label}{suffix} is {type_in_words(value)}, not {expected}")


def type_in_words(value: Any) -> str:
    """Describe a value's type in words, for an error."""
    if value is None:
        return "missing"
    return "empty" if value == [] else f"of type {json_type(value)}"
