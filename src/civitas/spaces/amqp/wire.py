"""A message, and the error of a request, as they travel over the broker."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

import pika
from pika.data import encode_short_string, encode_table
from pydantic_core import from_json, to_json

from civitas.errors import (
    ActionError,
    ActionNotFound,
    AgentNotFound,
    AgentStopped,
    HopLimitExceeded,
    InDoubt,
    InvalidArguments,
    InvalidId,
    InvalidMessage,
    MailboxFull,
    NotPermitted,
    RequestCancelled,
    RequestError,
    RequestTimeout,
    SpaceClosed,
)
from civitas.message import Envelope, address, check_message

__all__ = [
    "ANSWER",
    "CANCEL",
    "LARGEST",
    "LOST",
    "REPLY",
    "REQUEST",
    "SEND",
    "Arrived",
    "Letter",
    "Unreadable",
    "beside",
    "error_headers",
    "error_of",
    "read",
    "read_json",
    "stored",
    "take_out",
    "written",
]

# What kind of message it is; AMQP's `type`.
SEND: Final = "send"
REQUEST: Final = "request"
ANSWER: Final = "answer"  # itself an answer, as a message
REPLY: Final = "reply"  # the outcome of a request
CANCEL: Final = "cancel"  # whoever asked wants it no more
LOST: Final = "lost"  # the sender's queue was deleted: open requests to it are to be sent again

_KINDS = frozenset((SEND, REQUEST, ANSWER, REPLY, CANCEL, LOST))

LARGEST: Final = 24 * 2**20
"""How many bytes a message may have; what `send` lets through has fewer, escapes included."""

DEFAULT_TIMEOUT_S: Final = 300
"""The timeout of a request that states none."""

_CONTENT_TYPE = pika.BasicProperties.FLAG_CONTENT_TYPE
_HEADERS = pika.BasicProperties.FLAG_HEADERS
_DELIVERY_MODE = pika.BasicProperties.FLAG_DELIVERY_MODE
_CORRELATION_ID = pika.BasicProperties.FLAG_CORRELATION_ID
_REPLY_TO = pika.BasicProperties.FLAG_REPLY_TO
_MESSAGE_ID = pika.BasicProperties.FLAG_MESSAGE_ID
_TYPE = pika.BasicProperties.FLAG_TYPE
_PERSISTENT = 2
_PERSISTENT_BYTE = bytes((_PERSISTENT,))


def _encoded(text: str) -> bytes:
    pieces: list[bytes] = []
    encode_short_string(pieces, text)
    return b"".join(pieces)


_JSON = _encoded("application/json")
_ENCODED_KINDS = {kind: _encoded(kind) for kind in _KINDS}
_PERMISSION = "permission"
_NO_TIMEOUT = -1.0
_FAR_S = 1e9


class Unreadable(Exception):
    """What came is no message."""


@dataclass(eq=False, slots=True)
class Letter:
    """A message to be published.

    Attributes:
        key: unique among all messages of all processes, and the same when it is published again
        kind: `SEND`, …
        routing_key: where to
        body: the message as JSON; a reply's outcome is in it too
        to: the agent's id, empty if it goes to none or to all
        mandatory: whether it comes back when there is no queue for it
        about: whatever its sender wants to know it by
        exchange: another than the outbox's
    """

    key: str
    kind: str
    routing_key: str
    body: bytes
    _: KW_ONLY
    to: str = ""
    mandatory: bool = False
    reply_to: str | None = None
    correlation_id: str | None = None
    headers: dict[str, Any] | None = None
    about: Any = None
    exchange: str | None = None

    def pack(self) -> bytes:
        """The letter as an inbox keeps it."""
        return to_json(
            {
                "key": self.key,
                "kind": self.kind,
                "routing_key": self.routing_key,
                "to": self.to,
                "correlation_id": self.correlation_id,
                "headers": self.headers,
                "body": self.body.decode(),
            }
        )

    @classmethod
    def unpack(cls, packed: bytes) -> Letter:
        """What `pack` gave, again."""
        found = json.loads(packed)
        body = found.pop("body").encode()
        return cls(found.pop("key"), found.pop("kind"), found.pop("routing_key"), body, **found)

    def properties(self) -> pika.BasicProperties:
        """AMQP's properties of it."""
        return pika.BasicProperties(
            content_type="application/json",
            headers=self.headers,
            delivery_mode=_PERSISTENT,
            correlation_id=self.correlation_id,
            reply_to=self.reply_to,
            message_id=self.key,
            type=self.kind,
        )

    def encoded_properties(self) -> bytes:
        """The same as they travel: what pika would encode, sooner."""
        flags: int = _CONTENT_TYPE | _DELIVERY_MODE | _MESSAGE_ID | _TYPE
        pieces = [_JSON]
        if self.headers is not None:
            flags |= _HEADERS
            encode_table(pieces, self.headers)
        pieces.append(_PERSISTENT_BYTE)
        if self.correlation_id is not None:
            flags |= _CORRELATION_ID
            encode_short_string(pieces, self.correlation_id)
        if self.reply_to is not None:
            flags |= _REPLY_TO
            encode_short_string(pieces, self.reply_to)
        encode_short_string(pieces, self.key)
        pieces.append(_ENCODED_KINDS.get(self.kind) or _encoded(self.kind))
        return flags.to_bytes(2, "big") + b"".join(pieces)


class Arrived(NamedTuple):
    """What a message that came is; `raw` is AMQP's properties and body."""

    raw: tuple[Any, bytes]
    key: str
    kind: str
    envelope: Envelope
    reply_to: str | None
    hops: int
    trail: tuple[str, ...]
    timeout: float | None
    original_id: str | None


def written(envelope: Envelope) -> bytes:
    """A message as the bytes that travel."""
    message: dict[str, Any] = {}
    if envelope.id is not None:
        message["id"] = envelope.id
    if envelope.meta is not None:
        message["meta"] = envelope.meta
    message["from"] = envelope.sender
    message["to"] = envelope.to
    message["action"] = {"name": envelope.name, "args": envelope.args}
    return to_json(message)


def headers(
    hops: int,
    trail: tuple[str, ...],
    timeout: float | None = DEFAULT_TIMEOUT_S,
    original_id: str | None = None,
    thread: str | None = None,
) -> dict[str, Any] | None:
    """What travels beside the message; nothing for most."""
    found: dict[str, Any] = {}
    if hops != 1:
        found["hops"] = hops
    if trail:
        found["trail"] = " ".join(trail)
    if timeout != DEFAULT_TIMEOUT_S:
        # As text: AMQP's floats are not what every client writes.
        endless = timeout is None or timeout > _FAR_S
        whole = type(timeout) is int  # 5 is told as 5 when it is over, not as 5.0
        found["timeout"] = repr(
            _NO_TIMEOUT if endless else timeout if whole else float(timeout or 0)
        )
    if original_id is not None:
        found["original"] = original_id
    if thread is not None:
        found["thread"] = thread
    return found or None


def read(properties: Any, body: bytes) -> Arrived:
    """What came, checked as a message is that is sent.

    Raises:
        Unreadable: it is no message; the text says why
    """
    key, kind = properties.message_id, properties.type
    if not key or not isinstance(key, str):
        raise Unreadable("it has no message_id")
    if kind not in _KINDS:
        raise Unreadable(f"its type is {kind!r}, which is none of {', '.join(sorted(_KINDS))}")
    message = read_json(body)
    if not isinstance(message, dict):
        raise Unreadable("it is no JSON object")
    try:
        # Taken out, what is left of a usual message is what check_message is quickest with.
        envelope = check_message(message, address(message.pop("from", None)))
    except (InvalidMessage, InvalidId) as error:
        raise Unreadable(str(error)) from None
    reply_to, found = properties.reply_to, properties.headers
    if not isinstance(reply_to, str | None):
        raise Unreadable("its reply_to is not text")
    if not found:
        return Arrived(
            (properties, body), key, kind, envelope, reply_to, 1, (), DEFAULT_TIMEOUT_S, None
        )
    if "thread" in found:
        envelope = envelope._replace(thread=_text(found["thread"], "thread"))
    return Arrived(
        (properties, body),
        key,
        kind,
        envelope,
        properties.reply_to,
        _hops(found.get("hops", 1)),
        tuple(_text(found.get("trail", ""), "trail").split()),
        _timeout(found.get("timeout")),
        None if "original" not in found else _text(found["original"], "original"),
    )


def read_json(body: bytes) -> Any:
    """JSON data.

    Raises:
        Unreadable: it is none, or too much
    """
    if len(body) > LARGEST:
        raise Unreadable(f"it has {len(body)} bytes; {LARGEST} are the limit")
    try:
        return from_json(body, allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is no JSON: {error}") from None


def stored(properties: Any, body: bytes, permission: str | None = None) -> bytes:
    """A message that came, as an inbox keeps it, with the permission that it was given."""
    headers = beside(properties) | ({} if permission is None else {_PERMISSION: permission})
    return json.dumps(
        {
            "message_id": properties.message_id,
            "type": properties.type,
            "reply_to": properties.reply_to,
            "headers": headers,
            "body": body.decode(),
        },
        ensure_ascii=False,
    ).encode()


def take_out(kept: bytes) -> tuple[Any, bytes]:
    """What `stored` gave, again."""
    found = json.loads(kept)
    body = found.pop("body").encode()
    return pika.BasicProperties(**found), body


def permission(kept: bytes) -> str | None:
    """The permission that `stored` was given."""
    found: str | None = json.loads(kept)["headers"].get(_PERMISSION)
    return found


def fingerprint(envelope: Envelope, agent: str) -> str:
    """What a permission holds for: this action of this agent with these arguments."""
    what = json.dumps([agent, envelope.name, envelope.args], sort_keys=True)
    return sha256(what.encode()).hexdigest()


def beside(properties: Any) -> dict[str, Any]:
    """Of the headers that came, those that belong to the message."""
    found = properties.headers or {}
    names = ("hops", "trail", "timeout", "original", "thread")
    return {name: found[name] for name in names if isinstance(found.get(name), str | int)}


def _hops(value: object) -> int:
    if type(value) is not int or value < 1:
        raise Unreadable(f"its header hops is {value!r}, not a number from 1")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"its header {name} is {type(value).__name__}, not text")
    return value


def _timeout(value: object) -> float | None:
    if value is None:
        return DEFAULT_TIMEOUT_S
    try:
        text = _text(value, "timeout")
        seconds = int(text) if text.isdecimal() else float(text)
    except ValueError:
        seconds = float("nan")
    if seconds != seconds:
        raise Unreadable(f"its header timeout is {value!r}, not seconds")
    return None if seconds < 0 else seconds


# By name: nothing else that comes is ever made into an exception.
_PLAIN: dict[str, type[RequestError]] = {
    kind.__name__: kind
    for kind in (
        InvalidArguments,
        ActionNotFound,
        NotPermitted,
        AgentNotFound,
        MailboxFull,
        RequestTimeout,
        RequestCancelled,
        AgentStopped,
        SpaceClosed,
    )
}

_LONGEST = 1000
"""How many characters of an error's type, or of where it was, travel."""


def error_headers(error: BaseException) -> dict[str, Any]:
    """What travels beside the text of an error."""
    if isinstance(error, ActionError):
        # Not the text, which is in the body: all headers must fit into one frame of 128 kB.
        found = {"outcome": type(error).__name__, "type": error.type[:_LONGEST]}
        if error.where is not None:
            found["where"] = error.where[:_LONGEST]
        return found
    return {"outcome": type(error).__name__}


def error_of(headers: dict[str, Any], args: dict[str, Any]) -> RequestError | None:
    """The error that came; None if none did."""
    outcome = headers.get("outcome")
    if outcome is None:
        return None
    text = str(args.get("error", ""))
    plain = _PLAIN.get(outcome) if isinstance(outcome, str) else None
    if plain is not None:
        return plain(text)
    type_ = str(headers.get("type", outcome))
    said = "" if text == type_ else text.removeprefix(f"{type_}: ")
    where = headers.get("where")
    if outcome == "HopLimitExceeded":
        return HopLimitExceeded(said)
    if outcome == "InDoubt":
        return InDoubt(said, where if isinstance(where, str) else None)
    return ActionError(type_, said, where if isinstance(where, str) else None)
