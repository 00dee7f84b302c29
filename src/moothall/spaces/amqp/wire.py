"""The wire format of messages and of the errors of requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pika
from pika.data import encode_table
from pydantic_core import from_json, to_json

from moothall.actions.message import Envelope, address
from moothall.foundation import errors
from moothall.foundation.errors import ActionError, InvalidId, InvalidMessage, RequestError
from moothall.spaces.delivery import Delivery

# The kind of a message; AMQP's `type`.
SEND: Final = "send"
REQUEST: Final = "request"
ANSWER: Final = "answer"  # itself an answer, as a message
REPLY: Final = "reply"  # the outcome of a request
CANCEL: Final = "cancel"  # the sender no longer waits for the request
QUEUE_LOST: Final = "lost"  # the sender's queue was deleted: send it open requests again
PROCESS_QUERY: Final = "who"  # which agents has each process?
PROCESS_ANSWER: Final = "here"  # the agents of a process
PIECE: Final = "piece"  # what the handler of a request streams before its end

NOTICES: Final = (QUEUE_LOST, PROCESS_QUERY, PROCESS_ANSWER, PIECE)  # from process to process
_KINDS = frozenset((SEND, REQUEST, ANSWER, REPLY, CANCEL, *NOTICES))

MAX_MESSAGE_BYTES: Final = 24 * 2**20
"""Bytes of the largest message; `send` takes less, unless very much of it is escaped."""

DEFAULT_TIMEOUT_S: Final = 300
"""The timeout of a request without a timeout header."""

_MAX_EXPIRY_S: Final = 4_000_000
"""Seconds that the broker takes as the life of a message."""

_FLAGS = pika.BasicProperties
_ALWAYS_FLAGS: Final[int] = (
    _FLAGS.FLAG_CONTENT_TYPE | _FLAGS.FLAG_DELIVERY_MODE | _FLAGS.FLAG_MESSAGE_ID | _FLAGS.FLAG_TYPE
)
_JSON = b"\x10application/json"  # with its length before it
_PERSISTENT = b"\x02"
_LENGTHS: Final = [bytes((length,)) for length in range(256)]
_PERMISSION = "permission"


class Unreadable(Exception):
    """What was delivered is not a message."""


@dataclass(eq=False, slots=True)
class Outbound:
    """A message to be published."""

    key: str  # its idempotency key, unique among all processes
    kind: str  # `SEND`, …
    routing_key: str
    body: bytes  # the message as JSON, including a reply's outcome
    _: KW_ONLY
    to: str = ""  # the receiving agent's id; empty for a broadcast, or if it goes to no agent
    mandatory: bool = False  # whether the broker returns it when there is no queue for it
    reply_to: str | None = None
    correlation_id: str | None = None
    headers: dict[str, Any] | None = None
    # What to settle at its end: a request's delivery, a message being handled, a callback.
    settles: Any = None
    exchange: str | None = None  # if not the publisher's
    expires_s: float | None = None  # how long the broker keeps it for its receiver
    refusal_count: int = 0  # how often a queue has refused it
    is_in_flight: bool = False  # the publisher has it, not yet confirmed, refused or returned

    @property
    def is_answered(self) -> bool:
        """Whether it is a request that already has its outcome."""
        is_request = self.kind == REQUEST and self.exchange is None  # no dead letter of one
        return is_request and bool(self.settles.answered)

    def pack(self) -> bytes:
        """Return the message as an inbox stores it."""
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
    def unpack(cls, packed: bytes) -> Outbound:
        """Return the message that `pack` packed."""
        fields = json.loads(packed)
        return cls(body=fields.pop("body").encode(), **fields)

    def encoded_properties(self) -> bytes:
        """Return its AMQP properties as bytes: pika's own encoder takes ten times as long."""
        flags, pieces = _ALWAYS_FLAGS, [_JSON]
        if self.headers is not None:
            flags |= _FLAGS.FLAG_HEADERS
            encode_table(pieces, self.headers)
        pieces.append(_PERSISTENT)
        texts = []
        if self.correlation_id is not None:
            flags |= _FLAGS.FLAG_CORRELATION_ID
            texts.append(self.correlation_id)
        if self.reply_to is not None:
            flags |= _FLAGS.FLAG_REPLY_TO
            texts.append(self.reply_to)
        if self.expires_s is not None and self.expires_s < _MAX_EXPIRY_S:
            flags |= _FLAGS.FLAG_EXPIRATION
            texts.append(str(max(1, round(self.expires_s * 1000))))
        for text in (*texts, self.key, self.kind):
            encoded: Any = text  # bytes that are no text, in a dead letter of another program
            if isinstance(text, str):
                encoded = text.encode()
            pieces += (_LENGTHS[len(encoded)], encoded)
        return flags.to_bytes(2, "big") + b"".join(pieces)

    def properties(self) -> pika.BasicProperties:
        """Return its AMQP properties."""
        return pika.BasicProperties().decode(self.encoded_properties())


class Inbound(NamedTuple):
    """A received message; `raw` is AMQP's properties and body."""

    raw: tuple[Any, bytes]
    key: str
    kind: str
    envelope: Envelope
    reply_to: str | None
    delivery_fields: Mapping[str, Any]  # what its headers say of its delivery, by field


def encode(envelope: Envelope) -> bytes:
    """Return a message as JSON bytes."""
    return to_json(envelope.to_dict(lambda uncopied: uncopied))


def headers_of(
    kind: str, envelope: Envelope, delivery: Delivery | None = None
) -> dict[str, Any] | None:
    """Return the AMQP headers of a message, or None if it needs none, as most."""
    values: dict[str, Any] = {}
    for header, field, _, usual, _, write, _ in _FIELDS_BY_KIND[kind]:
        value = getattr(envelope if field in _ENVELOPE_FIELDS else delivery, field, usual)
        if value != usual:
            values[header] = write(value)
    return values or None


def read_message(properties: Any, body: bytes) -> Inbound:
    """Read a received message, with the checks of a sent one; raise `Unreadable` if it fails."""
    if properties.type in (None, "", SEND):
        # Of a program that sets no properties, such as an MQTT client, or only an id.
        properties.message_id, properties.type = properties.message_id or uuid4().hex, SEND
    key, kind = properties.message_id, properties.type
    if not key or not isinstance(key, str):
        raise Unreadable("it has no message_id")
    if kind not in _KINDS:
        raise Unreadable(f"its type is {kind!r}, not one of {', '.join(sorted(_KINDS))}")
    message = read_json(body)
    if not isinstance(message, dict):
        raise Unreadable("it is not a JSON object")
    try:
        # Without `from`, a usual message takes the fast path of Envelope.from_message.
        envelope = Envelope.from_message(message, address(message.pop("from", None)))
    except (InvalidMessage, InvalidId) as error:
        raise Unreadable(str(error)) from None
    raw, reply_to, all_headers = (properties, body), properties.reply_to, properties.headers
    if not isinstance(reply_to, str | None):
        raise Unreadable("its reply_to is not text")
    defaults = _DEFAULTS_BY_KIND.get(kind, _NO_HEADERS)
    if not all_headers:
        return Inbound(raw, key, kind, envelope, reply_to, defaults)
    delivery_fields = {**defaults}
    for header, value in all_headers.items():
        if (each := _HEADERS.get(header)) is not None:
            field_value = each.read(value, header)
            if each.field in _ENVELOPE_FIELDS:
                envelope = envelope._replace(**{each.field: field_value})
            elif each.field in delivery_fields:
                delivery_fields[each.field] = field_value
    return Inbound(raw, key, kind, envelope, reply_to, delivery_fields)


def read_json(body: bytes) -> Any:
    """Parse JSON data, or raise `Unreadable`."""
    if len(body) > MAX_MESSAGE_BYTES:
        raise Unreadable(f"it has {len(body)} bytes; {MAX_MESSAGE_BYTES} are the limit")
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from None


def stored_bytes_of(properties: Any, body: bytes, permission: str | None = None) -> bytes:
    """Return a received message as an inbox stores it, with its permission if approved."""
    headers = known_headers(properties) | ({} if permission is None else {_PERMISSION: permission})
    return to_json(
        {
            "message_id": properties.message_id,
            "type": properties.type,
            "reply_to": properties.reply_to,
            "headers": headers,
            "body": body.decode(),
        }
    )


def read_stored(stored_bytes: bytes) -> tuple[Inbound, str | None]:
    """Return the message and the permission that `stored_bytes_of` was called with."""
    parts = json.loads(stored_bytes)
    body, permission = parts.pop("body").encode(), parts["headers"].get(_PERMISSION)
    return read_message(pika.BasicProperties(**parts), body), permission


def fingerprint(envelope: Envelope, agent: str) -> str:
    """Return a hash of what a permission allows: the agent, the action and its arguments."""
    content = json.dumps([agent, envelope.name, envelope.args], sort_keys=True)
    return sha256(content.encode()).hexdigest()


def known_headers(properties: Any) -> dict[str, Any]:
    """Return the headers of a message that moothall uses."""
    all_headers = properties.headers or {}
    return {
        name: all_headers[name] for name in _HEADERS if isinstance(all_headers.get(name), str | int)
    }


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"its header {name} is {type(value).__name__}, not text")
    return value


def _number(value: object, name: str) -> int:
    if type(value) is not int or value < 1:
        raise Unreadable(f"its header {name} is {value!r}, not a number from 1")
    return value


def _chain(value: object, name: str) -> tuple[str, ...]:
    return tuple(_text(value, name).split())


def _timeout(value: object, name: str) -> float | None:
    try:
        seconds = from_json(_text(value, name))
    except ValueError:
        seconds = ""
    if seconds is not None and (type(seconds) not in (int, float) or seconds != seconds):
        raise Unreadable(f"its header {name} is {value!r}, not seconds")
    timeout: float | None = seconds
    return timeout


class HeaderField(NamedTuple):
    """What travels beside a message in a header of its own."""

    header: str
    field: str  # where it stands, of the envelope or of the delivery
    kinds: tuple[str, ...]  # the messages that have it
    default: Any  # what it is without the header
    read: Callable[[Any, str], Any]  # of the header's value and name; raises `Unreadable`
    write: Callable[[Any], Any] = str
    is_resent: bool = False  # whether a dead letter that is sent again keeps it


# A timeout is text because not every client writes AMQP's floats.
HEADER_FIELDS: Final = (
    HeaderField("hops", "hops", (REQUEST,), 1, _number, int),
    HeaderField("trail", "call_chain", (REQUEST,), (), _chain, " ".join),
    HeaderField("timeout", "timeout", (REQUEST,), DEFAULT_TIMEOUT_S, _timeout, json.dumps),
    HeaderField("pieces", "on_event", (REQUEST,), None, _number, lambda _: 1),
    HeaderField("original", "original_id", (ANSWER,), None, _text, is_resent=True),
    HeaderField("thread", "thread", (SEND, ANSWER), None, _text, is_resent=True),
    HeaderField("within", "within", (SEND, REQUEST), None, _text, is_resent=True),
)
"""All that travels beside messages: writing, reading, inboxes and dead letters go by this list."""
_HEADERS: Final = {each.header: each for each in HEADER_FIELDS}
_ENVELOPE_FIELDS: Final = frozenset(Envelope._fields)
_FIELDS_BY_KIND: Final = {
    kind: [each for each in HEADER_FIELDS if kind in each.kinds] for kind in (SEND, REQUEST, ANSWER)
}
_DEFAULTS_BY_KIND: Final = {
    kind: {each.field: each.default for each in fields if each.field not in _ENVELOPE_FIELDS}
    for kind, fields in _FIELDS_BY_KIND.items()
}
_NO_HEADERS: Final[Mapping[str, Any]] = {}

# By name: only these names become exceptions.
_ERRORS: dict[str, type[Any]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, RequestError) and not name.startswith("_")
}

_MAX_ERROR_CHARS = 1000
"""The most characters of an error's type, and of where it was raised."""


def error_headers(error: BaseException) -> dict[str, Any]:
    """Return the headers of an error; its text is in the body."""
    values = {"outcome": type(error).__name__}
    if isinstance(error, ActionError):
        # All headers must fit into one frame of 128 kB.
        values["type"] = error.type[:_MAX_ERROR_CHARS]
        if error.where is not None:
            values["where"] = error.where[:_MAX_ERROR_CHARS]
        if error.run_id is not None:
            values["run_id"] = error.run_id
    return values


def error_of(headers: dict[str, Any], args: dict[str, Any]) -> RequestError | None:
    """Return the error of an answer; None if it has none."""
    outcome = headers.get("outcome")
    if outcome is None:
        return None
    text = str(args.get("error", ""))
    kind: type[Any] = _ERRORS.get(str(outcome), ActionError)
    make: Callable[..., RequestError] = kind
    if not issubclass(kind, ActionError):
        return make(text)
    type_ = str(headers.get("type", outcome))
    message = "" if text == type_ else text.removeprefix(f"{type_}: ")
    place = headers.get("where")
    label = place if isinstance(place, str) else None
    if kind is not ActionError:  # what the space says: its type is its class's name
        return make(message, label)
    error = ActionError(type_, message, label)
    run_id = headers.get("run_id")
    error.run_id = run_id if isinstance(run_id, str) else None
    return error
