"""The wire of A2A 1.0 as JSON: states, parts, errors, and what requests must look like."""

from __future__ import annotations

import functools
import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from mimetypes import guess_type
from typing import Any, Final

from moothall.build import SchemaValidator, as_json, json_text, shorten
from moothall.models import BLOCKS, file_text

VERSION: Final = "1.0"
CARD_PATH: Final = "/.well-known/agent-card.json"

SUBMITTED: Final = "TASK_STATE_SUBMITTED"
WORKING: Final = "TASK_STATE_WORKING"
INPUT_REQUIRED: Final = "TASK_STATE_INPUT_REQUIRED"
COMPLETED: Final = "TASK_STATE_COMPLETED"
FAILED: Final = "TASK_STATE_FAILED"
CANCELED: Final = "TASK_STATE_CANCELED"
REJECTED: Final = "TASK_STATE_REJECTED"
AUTH_REQUIRED: Final = "TASK_STATE_AUTH_REQUIRED"
ENDED_STATES: Final = frozenset((COMPLETED, FAILED, CANCELED, REJECTED))
PAUSED_STATES: Final = frozenset((INPUT_REQUIRED, AUTH_REQUIRED))
"""The states in which a task waits for somebody outside."""
ANY_STATE: Final = ("TASK_STATE_UNSPECIFIED", "UNRECOGNIZED")
"""No state in particular; the second is what the SDK of JavaScript writes where none is given."""
STATES: Final = ENDED_STATES | PAUSED_STATES | {SUBMITTED, WORKING}

LIMIT_CODE: Final = -32029
"""The code of a request that the caller's rate or budget refuses: JSON-RPC leaves it to servers."""
_PART_KINDS: Final = ("text", "raw", "url", "data")
_FAULTS: Final = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
    "VERSION_NOT_SUPPORTED": -32009,
    "RATE_LIMIT_EXCEEDED": LIMIT_CODE,
    "BUDGET_EXCEEDED": LIMIT_CODE,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INVALID_PARAMS": -32602,
    "INTERNAL_ERROR": -32603,
    "PARSE_ERROR": -32700,
}
"""By the reason of a fault: its code in JSON-RPC."""


class A2AFault(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.code: int = _FAULTS[reason]

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON-RPC has it."""
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        info = {"@type": kind, "reason": self.reason, "domain": "a2a-protocol.org"}
        return {"code": self.code, "message": str(self), "data": [info]}


_INTEGER_FIELDS: Final = ("historyLength", "pageSize")
_FOR_OTHERS_KEY: Final = "moothall/for-others"
_FREE_FORM: Final = ("data", "metadata")
"""Fields that hold any JSON."""
_ROLES: Final = {1: "ROLE_USER", 2: "ROLE_AGENT"}
_TEXT_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": 200}
_LENGTH_SCHEMA: Final = {"type": "integer", "minimum": 0}
_MESSAGE_SCHEMA: Final = {
    "type": "object",
    "required": ["messageId", "role", "parts"],
    "properties": {
        "messageId": _TEXT_SCHEMA,
        "contextId": {"type": "string", "maxLength": 150},
        "taskId": {"type": "string", "maxLength": 200},
        "role": {"enum": ["ROLE_USER"]},
        "parts": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "items": {
                "type": "object",
                "oneOf": [{"required": [kind]} for kind in _PART_KINDS],
                "properties": {
                    key: {"type": "string"} for key in ("text", "raw", "url", "mediaType")
                },
            },
        },
    },
}
_TASK_SCHEMA: Final = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": _TEXT_SCHEMA, "historyLength": _LENGTH_SCHEMA},
}
_PARAMS_SCHEMAS: Final[dict[str, Any]] = {
    "SendMessage": {
        "type": "object",
        "required": ["message"],
        "properties": {
            "message": _MESSAGE_SCHEMA,
            "configuration": {
                "type": "object",
                "properties": {
                    "returnImmediately": {"type": "boolean"},
                    "historyLength": _LENGTH_SCHEMA,
                    "acceptedOutputModes": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
    "GetTask": _TASK_SCHEMA,
    "ListTasks": {
        "type": "object",
        "properties": {
            "contextId": {"type": "string", "maxLength": 200},
            "status": {"enum": sorted((*STATES, *ANY_STATE))},
            "pageSize": {"type": "integer", "minimum": 1, "maximum": 100},
            "pageToken": {"type": "string", "maxLength": 300},
            "historyLength": _LENGTH_SCHEMA,
            "includeArtifacts": {"type": "boolean"},
            "statusTimestampAfter": {"type": "string", "maxLength": 40},
        },
    },
}


@functools.cache
def _validator(method: str) -> SchemaValidator:
    return SchemaValidator.of_json(json.dumps(_PARAMS_SCHEMAS[method]))


def check_params(method: str, params: Any) -> dict[str, Any]:
    """Return the parameters of a method, or refuse them."""
    try:
        params = _normalized_json(params)
    except RecursionError:
        raise A2AFault("INVALID_PARAMS", "params is nested too deep") from None
    fault = _validator(method).wrong(params)
    if fault is not None:
        text = f"{fault.place('params')} is wrong: {shorten(fault.reason, 200)}"
        raise A2AFault("INVALID_PARAMS", text)
    checked: dict[str, Any] = params
    return checked


def _normalized_json(value: Any, name: str = "") -> Any:
    """Return protobuf's JSON in one form: camelCase, no null, and 1.0 as 1 in whole numbers."""
    if isinstance(value, list):
        return [_normalized_json(each, name) for each in value]
    if isinstance(value, dict):
        return {
            _camel_case(key): item
            if key in _FREE_FORM
            else _normalized_json(item, _camel_case(key))
            for key, item in value.items()
            if item is not None or key == "data"
        }
    if name in _INTEGER_FIELDS:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            return int(value)
    return _ROLES.get(value, value) if name == "role" and type(value) is int else value


def _camel_case(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def content_of(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return what a client says: a text, with data as JSON; or blocks, if there are files."""
    blocks = [_block_of(part) for part in parts]
    return text_in(blocks) if all(each["type"] == "text" for each in blocks) else blocks


def text_in(content: str | list[dict[str, Any]]) -> str:
    """Return the text of what a client says; a file is told of in its place."""
    if isinstance(content, str):
        return content
    return "\n\n".join(
        each["text"] if each["type"] == "text" else _placeholder(each) for each in content
    )


def answer_text(parts: list[dict[str, Any]]) -> str:
    """Return parts as a text; a file has none, and is refused."""
    if not isinstance(text := content_of(parts), str):
        raise A2AFault("CONTENT_TYPE_NOT_SUPPORTED", "an answer is a text or data, no file")
    return text


def _block_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a client's message as a block."""
    if "text" in part or "data" in part:
        text = part["text"] if "text" in part else json_text(as_json(part["data"]))
        return {"type": "text", "text": text}
    name, media = str(part.get("filename") or ""), str(part.get("mediaType") or "").lower()
    media = media.partition(";")[0].strip() or guess_type(name)[0] or ""
    if "url" in part:
        if not part["url"].startswith(("https://", "http://")):
            raise A2AFault(
                "INVALID_PARAMS", "the url of a file must begin with https:// or http://"
            )
        if media and not media.startswith(_FILE_MEDIA):
            raise _unsupported_media(media)
        return as_block({**part, "mediaType": media}) or {}
    try:
        raw = part["raw"].translate(_URL_SAFE).rstrip("=")
        data = b64decode(raw + "=" * (-len(raw) % 4), validate=True)
        if media.startswith(_TEXT_MEDIA):
            data.decode()  # a file, and no words of the caller
    except ValueError:
        raise A2AFault(
            "INVALID_PARAMS", f"the file {name!r:.80} is no base64, or no UTF-8"
        ) from None
    if not media.startswith((*_FILE_MEDIA, *_TEXT_MEDIA)):
        raise _unsupported_media(media)
    return as_block({**part, "mediaType": media, "raw": b64encode(data).decode()}) or {}


def _unsupported_media(media: str) -> A2AFault:
    *first_names, last_name = [each.plural for each in BLOCKS.values()]
    takes = f"texts, JSON, {', '.join(first_names)} and {last_name}"
    return A2AFault("CONTENT_TYPE_NOT_SUPPORTED", f"this agent takes {takes}, got {media!r:.80}")


def _placeholder(block: dict[str, Any]) -> str:
    part, text = as_part(block), file_text(block)
    if text is not None:
        return f"{part['filename']}:\n{text}" if "filename" in part else text
    name = part.get("filename") or part.get("mediaType") or "a file"
    size = f", {len(part['raw']) * 3 // 4:,} bytes" if "raw" in part else f" at {part.get('url')}"
    return f"[{name}{size}]"


_TEXT_MEDIA: Final = ("text/", "application/json")
_FILE_MEDIA: Final = tuple(each.media for each in BLOCKS.values())
ACCEPTED_MEDIA: Final = (
    *("text/plain", "application/json", "text/*"),
    *(f"{each}*" if each.endswith("/") else each for each in _FILE_MEDIA),
)
"""What an agent takes."""
_URL_SAFE: Final = str.maketrans("-_", "+/")


def text_part(text: str) -> dict[str, Any]:
    """Return a text as a part."""
    return {"text": text, "mediaType": "text/plain"}


def part_for_others(text: str) -> dict[str, Any]:
    """Return as a part what a task waits for that its caller cannot answer."""
    return {**text_part(text), "metadata": {_FOR_OTHERS_KEY: True}}


def is_for_others(part: dict[str, Any]) -> bool:
    """Return whether a part says what the task's caller cannot answer."""
    metadata = part.get("metadata")
    return isinstance(metadata, dict) and metadata.get(_FOR_OTHERS_KEY) is True


def data_part(data: Any) -> dict[str, Any]:
    """Return JSON data as a part."""
    return {"data": data, "mediaType": "application/json"}


def as_part(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block of content as a part: a text, a file's bytes or address, or data."""
    kind = str(block.get("type"))
    content = block.get(kind)
    source = content if isinstance(content, dict) else {"url": content}
    if kind == "text" and isinstance(content, str):
        return text_part(content)
    if kind == "input_audio" and isinstance(source.get("data"), str):
        return {"raw": source["data"], "mediaType": f"audio/{source.get('format') or 'wav'}"}
    block_kind = BLOCKS.get(kind)
    url = (source.get(block_kind.data) if block_kind else None) or source.get("file_url")
    if not isinstance(url, str):
        return data_part(block)
    part = {"filename": source["filename"]} if isinstance(source.get("filename"), str) else {}
    if not url.startswith("data:"):
        media = guess_type(part.get("filename") or url.partition("?")[0])[0]
        media = media or (
            f"{block_kind.media}*" if block_kind and block_kind.data == "url" else None
        )
        return {"url": url, **({"mediaType": media} if media else {}), **part}
    media, _, raw = url.removeprefix("data:").partition(";base64,")
    return {"raw": raw, "mediaType": media, **part}


def as_block(part: dict[str, Any]) -> dict[str, Any] | None:
    """Return a part that is a file as a block of content; None for text and data."""
    media = str(part.get("mediaType") or "application/octet-stream")
    raw, url = part.get("raw"), part.get("url")
    if isinstance(raw, str):
        url = f"data:{media};base64,{raw}"
        if media.startswith("audio/"):
            kind = media.removeprefix("audio/").removeprefix("x-")
            audio = {"data": raw, "format": _AUDIO_FORMATS.get(kind, kind)}
            return {"type": "input_audio", "input_audio": audio}
    if not isinstance(url, str):
        return None
    if block_type := _linked_kind(media):
        return {"type": block_type, block_type: {"url": url}}
    filename = {"filename": str(part["filename"])} if part.get("filename") else {}
    return {"type": "file", "file": {"file_url" if raw is None else "file_data": url, **filename}}


_AUDIO_FORMATS: Final = {"mpeg": "mp3", "wave": "wav"}
"""What providers call the formats of sound, by the names of their media."""


def message_of(
    role: str, id: str, task: str, context: str, parts: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a message of a task; the role is `USER` or `AGENT`."""
    message = {"messageId": id, "role": f"ROLE_{role}", "parts": parts}
    return {**message, "taskId": task, "contextId": context}


def timestamp_of(seconds: float) -> str:
    """Return a time in seconds since 1970 as the protocol writes it."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def seconds_of(timestamp: str) -> float:
    """Return a time that the protocol writes, in seconds since 1970."""
    try:
        parsed = datetime.fromisoformat(timestamp)
    except ValueError:
        raise A2AFault(
            "INVALID_PARAMS", f"{timestamp[:40]!r} is no time such as {_TIMESTAMP_EXAMPLE}"
        ) from None
    return parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()


_TIMESTAMP_EXAMPLE: Final = "2026-11-24T12:00:00Z"


def _linked_kind(media: str) -> str | None:
    """Return the kind of block that has the address of such media; None for a file."""
    return next(
        (k for k, b in BLOCKS.items() if b.data == "url" and media.startswith(b.media)), None
    )
