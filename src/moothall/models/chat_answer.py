"""Answers in the chat format of OpenAI's server and compatible servers.

They are untrusted data: read through a schema, and an error names the wrong field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as schemas

from moothall.errors import ContextOverflow, ModelError
from moothall.http import may_pass
from moothall.jsonvalue import readable
from moothall.models.protocol import Call, ModelReply
from moothall.text import json_type, one_line, shorten

# Codes of OpenAI and llama.cpp; what Anthropic, Bedrock, Gemini, LM Studio, Mistral, OpenRouter,
# TGI, vLLM and xAI write.
_TOO_LONG = re.compile(
    "context_length_exceeded|exceed_context_size_error|(?:prompt|[Ii]nput) is too long"
    "|context (?:length|limit|window)|maximum (?:model|prompt) length"
    "|exceeds the maximum number of tokens|`inputs` tokens"
)
# Cohere, Copilot, GitHub Models, Kimi, Z.ai, DashScope, litellm's proxy, Groq, llama.cpp, Bedrock.
_LONG = re.compile(
    r"too many (?:input )?tokens|token count\b.{0,60}\bexceeds|tokens_limit_reached"
    r"|exceed(?:s|ed)? (?:the )?(?:model |available )?(?:token limit|context|max(?:imum)? length)"
    r"|length.{0,20} range of input|range of input length|ContextWindowExceeded"
    r"|reduce the length of|request body too large|prompt exceeds",
    re.I,
)
_RATE = re.compile(r"per (?:second|minute|min|hour|day)|rate.?limit|quota|TPM|wait|try again", re.I)
# Codes and types of failures that pass, as servers state them within an answer.
_PASSES = re.compile(
    "overloaded|api_error|rate_limit|server_error|timeout|network_error|unavailable"
    "|insufficient_system_resource",
    re.I,
)
_ENDS = {
    "length": "length max_tokens max_output_tokens model_length model_context_window_exceeded",
    "content_filter": "content_filter sensitive guardrail_intervened safety recitation blocklist"
    " prohibited_content spii",
    "stop": "stop tool_calls tool_call tool_use function_call end_turn stop_sequence pause_turn eos"
    " eos_token complete completed finished done normal stop_token",
}
_OURS = {theirs: ours for ours, listed in _ENDS.items() for theirs in listed.split()}


def _fields(**schema: Any) -> Any:
    """Return the schema of an object; missing fields become null, unknown ones are dropped."""
    given = {
        name: schemas.typed_dict_field(
            schemas.with_default_schema(each, default=None, validate_default=True)
        )
        for name, each in schema.items()
    }
    return schemas.typed_dict_schema(given)


def _one_of(*kinds: type) -> Any:
    # No schema of strings: it would refuse half a character, whose other half may come next.
    return schemas.is_instance_schema(kinds, cls_repr="text")


KEPT_FIELDS = ("reasoning_content", "reasoning_details", "extra_content", "thinking_blocks")
"""Fields of a message that are wanted back, by DeepSeek and Kimi, OpenRouter, Gemini, litellm."""

_MAYBE, _LIST, _ANY = schemas.nullable_schema, schemas.list_schema, schemas.any_schema()
_TEXT = _MAYBE(_one_of(str))
# Text, as the provider wrote it, or an object: some servers parse it.
_ARGUMENTS = _MAYBE(_one_of(str, dict))
_CALL = _fields(
    id=_ANY, function=_fields(name=_one_of(str), arguments=_ARGUMENTS), extra_content=_ANY
)
_INDEX = schemas.int_schema(strict=True)
_PIECE = _fields(
    index=_MAYBE({**_INDEX, "ge": 0}),
    id=_ANY,
    function=_MAYBE(_fields(name=_TEXT, arguments=_ARGUMENTS)),
    extra_content=_ANY,
)


def _message(calls: Any) -> Any:
    content = _MAYBE(_one_of(str, list))
    kept = dict.fromkeys(KEPT_FIELDS, _ANY)
    shown = {"images": _ANY, "audio": _ANY}
    return _fields(content=content, refusal=_ANY, tool_calls=calls, reasoning=_ANY, **kept, **shown)


_CHOICE = _fields(message=_MAYBE(_message(_MAYBE(_LIST(_CALL)))), finish_reason=_ANY, error=_ANY)
WHOLE = SchemaValidator(_fields(choices=_LIST(_CHOICE, min_length=1), usage=_ANY))
"""The schema of an answer that comes whole."""

_DELTA = _MAYBE(_message(_MAYBE(_LIST(_PIECE))))
_PART = _fields(index=_MAYBE(_INDEX), finish_reason=_TEXT, delta=_DELTA, message=_DELTA, error=_ANY)
CHUNK = SchemaValidator(_fields(choices=_LIST(_PART)))
"""The schema of an event of a streamed answer."""

_WANTED = {
    "dict_type": "an object",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "int_type": "an integer",
    "greater_than_equal": "an integer from 0 on",
}


def checked(schema: SchemaValidator, data: Any, where: str) -> dict[str, Any]:
    """Return the fields of an object that a schema knows."""
    try:
        return schema.validate_python(data)  # type: ignore[no-any-return]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    about = first.get("ctx", {})
    wanted = _WANTED.get(first["type"]) or str(about.get("class", "of the format"))
    place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
    raise wrong_field(where, place[1:], first["input"], wanted)


def parsed(data: bytes, where: str) -> Any:
    """Return a body's JSON value."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ModelError(f"{where} is nested too deep") from None
    except ValueError as error:
        shown = one_line(data[:60].decode("utf-8", "replace"), 60)
        raise ModelError(f"{where} is not JSON: {str(error)[:100]}: {shown!r}") from None


def joined_content(content: str | list[Any] | None, where: str, place: str) -> str:
    """Return the text of a message's content; other content is left out."""
    if not isinstance(content, list):
        return content or ""
    parts = []
    for n, block in enumerate(content):
        if not isinstance(block, dict) or block.get("type", "text") == "text":
            text = block.get("text") if isinstance(block, dict) else None
            if not isinstance(text, str):
                raise wrong_field(where, f"{place}[{n}]", block, "a block of text")
            parts.append(text)
    return "".join(parts)


def reasoning_of(message: Mapping[str, Any]) -> str:
    """Return a model's reasoning, if shown; the format has no such field, so none is wrong."""
    for field in ("reasoning_content", "reasoning"):
        text = message.get(field)
        if isinstance(text, str) and text:
            return text
    content = message.get("content")
    found: list[Any] = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("reasoning", "thinking"):
            about = block.get(block["type"], block.get("text"))
            inner = about if isinstance(about, list) else [{"text": about}]
            found += [each.get("text") for each in inner if isinstance(each, dict)]
    return "".join(text for text in found if isinstance(text, str))


class Passing(ModelError):
    """A failure, stated within an answer, that may pass: a retry may succeed."""


class RefusedCall(ModelError):
    """The server itself found that the call of an answer does not fit; `reply` is that answer."""

    def __init__(self, message: str, reply: ModelReply) -> None:
        super().__init__(message)
        self.reply = reply


def failed(body: Any, name: str) -> ModelError:
    """Return the exception for an error sent instead of an answer."""
    reason = f"{name}: the server answered with an error: {server_text(body)}"
    if overflows(body):
        return ContextOverflow(f"{reason}; nothing was cut")
    if (refused := refused_call(body)) is not None:
        return RefusedCall(reason, refused)
    error = body.get("error") if isinstance(body, dict) else None
    if any(_passes(kind) for kind in (*_kinds(body), error if isinstance(error, str) else "")):
        return Passing(reason)
    return ModelError(reason)


def _passes(kind: Any) -> bool:
    status = int(kind) if str(kind).isdecimal() and len(str(kind)) == 3 else 0
    return may_pass(status) or (isinstance(kind, str) and bool(_PASSES.search(kind)))


def _kinds(body: Any) -> list[Any]:
    """Return the codes and types that an error states."""
    places = (body, body.get("error")) if isinstance(body, dict) else ()
    return [each.get(k) for each in places if isinstance(each, dict) for k in ("code", "type")]


def overflows(body: Any) -> bool:
    """Return whether a server's error says that the prompt does not fit."""
    said, kinds = server_text(body), list(map(str, _kinds(body)))
    if any(map(_TOO_LONG.search, (said, *kinds))):
        return True
    return any(map(_LONG.search, (said, *kinds))) and not any(map(_RATE.search, (said, *kinds)))


_FUNCTION = re.compile(r"<function=([\w.-]+)[>\s]*(.*?)(?:</function>|$)", re.S)


def refused_call(body: Any) -> ModelReply | None:
    """Return the answer that a server refused because its call does not fit, as Groq does."""
    if "tool_use_failed" not in _kinds(body):
        return None
    places = (body, body.get("error"))
    given = [each.get("failed_generation") for each in places if isinstance(each, dict)]
    text = next((each for each in given if isinstance(each, str)), "")
    called = None
    with suppress(ValueError, RecursionError):
        called = json.loads(text)
    listed = called if isinstance(called, list) else [called]
    calls = [
        Call("", each["name"], json.dumps(each.get("arguments", each.get("parameters", {}))))
        for each in listed
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    ] or [Call("", found[1], found[2]) for found in _FUNCTION.finditer(text)]
    if calls:
        return ModelReply(calls=tuple(calls), finish_reason="calls")
    return ModelReply(readable(text))


def end_of(reason: Any, has_calls: bool, name: str) -> str:
    """Return our word for the end of an answer; raise if it says that it is not whole."""
    if not isinstance(reason, str) or not reason:
        reason = "stop"
    ours = _OURS.get(reason.lower())
    if ours is None:
        kind = Passing if _PASSES.search(reason) else ModelError
        raise kind(f"{name}: the answer is not whole: it ended with {shorten(reason)!r}")
    return "calls" if ours == "stop" and has_calls else ours


def server_text(body: Any) -> str:
    """Return the text of a server's error, in one line."""
    raw = ""
    for _ in range(2):
        if isinstance(body, dict):
            about = body.get("metadata")  # OpenRouter's: what the provider behind it answered
            raw = f": {about['raw']}" if isinstance(about, dict) and "raw" in about else raw
            body = body.get("error") or body.get("message") or body.get("detail") or ""
    text = body if isinstance(body, str) else json.dumps(body)
    return one_line(text + raw, 300) or "no reason"


_META = ("id", "model", "provider", "citations", "system_fingerprint")
_META_OF_MESSAGE = {"annotations": "citations", "executed_tools": "executed_tools"}


def add_meta(meta: dict[str, Any], answer: Any) -> None:
    """Add what came with an answer, or with a piece of one."""
    if not isinstance(answer, dict):
        return
    meta |= {name: answer[name] for name in _META if answer.get(name)}
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return
    message = first.get("delta") or first.get("message")
    for theirs, ours in _META_OF_MESSAGE.items():
        if isinstance(message, dict) and isinstance(message.get(theirs), list):
            meta[ours] = [*meta.get(ours, ()), *message[theirs]]
    if isinstance(about := first.get("logprobs"), dict) and isinstance(about.get("content"), list):
        meta["logprobs"] = [*meta.get("logprobs", ()), *about["content"]]


def wrong_field(where: str, field: str, found: Any, wanted: str) -> ModelError:
    """Return the exception for a field of a wrong type or value."""
    of = f"'s {field}" if field else ""
    return ModelError(f"{where}{of} is {kind_of(found)}, not {wanted}")


def kind_of(value: Any) -> str:
    """Describe a value's type in words, for an error."""
    if value is None:
        return "missing"
    return "empty" if value == [] else f"of type {json_type(value)}"
