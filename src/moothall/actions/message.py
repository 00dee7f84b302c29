"""The envelope: what one agent sends another, and the checks that every message passes when sent.

A message is a plain dict::

    {
        "id": "optional, any string",
        "meta": {"optional": "object"},
        "from": "the sender's id, filled in",
        "to": "the receiver's id, #NAME for a group of agents, or * for every agent",
        "action": {"name": "add", "args": {"a": 1, "b": 2}},
    }

`args` may be left out; unknown keys are refused. Every value is JSON data and copied, so later
changes of the sender's dict have no effect; bytes become base64 text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from moothall.foundation import tracing
from moothall.foundation.arguments import check_seconds
from moothall.foundation.errors import ConfigError, DefinitionError, InvalidId, InvalidMessage
from moothall.foundation.jsonvalue import NotJSON, copy_json, to_json

BROADCAST = "*"
"""The `to` of a message to every agent."""

GROUP = "#"
"""How the `to` of a message to a group begins; its name follows."""

MAX_DELAY_S = 300 * 86_400
"""For how many seconds a message may be delayed."""

MAX_ID = 255
"""The longest id, in characters: the longest name of a queue in AMQP."""

_KEYS = frozenset(("id", "meta", "from", "to", "action"))
_ACTION_KEYS = frozenset(("name", "args"))


class _ActionPart(TypedDict):
    name: str
    args: NotRequired[dict[str, Any]]


_FromKey = TypedDict("_FromKey", {"from": NotRequired[str]})  # no class can have this key


class Message(_FromKey):
    """What one agent sends another: a plain dict, with a type for editors and type checkers.

    `from` is filled in when it is sent; `id` and `meta` may be left out.
    """

    to: str
    action: _ActionPart
    id: NotRequired[str]
    meta: NotRequired[dict[str, Any]]


class NestedArgs(dict[str, Any]):
    """Arguments that may contain lists or objects, so each receiver gets a copy."""


class Envelope(NamedTuple):
    """The parts of a valid message; `sender` is the `from`.

    `thread` travels beside the message: the thread of the agent that sent it (empty for the agent's
    own, None for an agent without threads), or, of an answer, the thread that sent the request.
    So does `within`: the thread of the reply within which a `say` was sent, None outside of one.
    """

    sender: str
    to: str
    name: str
    args: dict[str, Any]
    id: str | None = None
    meta: dict[str, Any] | None = None
    thread: str | None = None
    within: str | None = None

    @classmethod
    def from_message(cls, message: Any, sender: str) -> Envelope:
        """Return the parts of a message that `sender` is about to send."""
        if type(message) is not dict:
            raise InvalidMessage("message", f"must be a dict, not {type(message).__name__}")
        if len(message) == 2:
            # The usual message: few checks, and made without the slow constructor.
            to = message.get("to")
            action: Any = message.get("action")
            if type(to) is str and type(action) is dict and len(action) == 2:
                name = action.get("name")
                args = action.get("args")
                if (
                    type(name) is str
                    and type(args) is dict
                    and 0 < len(to) <= MAX_ID >= len(name) > 0
                    and to.isascii()
                    and name.isascii()
                ):
                    parts = (sender, to, name, check_args(args.copy()))
                    envelope: Envelope = tuple.__new__(Envelope, parts + ENVELOPE_DEFAULTS)
                    return envelope
        action = message.get("action")
        id = message.get("id")
        meta = message.get("meta")
        if type(action) is not dict:
            raise _wrong_type_error(message, "action", "an object")
        if not _KEYS.issuperset(message):
            _refuse_unknown_keys(message, _KEYS, "")
        name = action.get("name")
        if not _ACTION_KEYS.issuperset(action):
            _refuse_unknown_keys(action, _ACTION_KEYS, "action.")
        if type(name) is not str:
            raise _wrong_type_error(action, "name", "a string", "action.")
        if not name or len(name) > MAX_ID:
            raise InvalidMessage("action.name", f"must have 1 to {MAX_ID} characters")
        to = _receiver_of(message)
        if id is not None:
            id = _check_text(id, "id")
        if meta is not None:
            if type(meta) is not dict:
                raise InvalidMessage("meta", f"must be an object, not {type(meta).__name__}")
            meta = _copy_json(meta, "meta")
        if "from" in message:
            stated_sender = message["from"]
            stated_sender = (
                _decimal_text(stated_sender)
                if type(stated_sender) is int
                else _check_text(stated_sender, "from")
            )
            if stated_sender != sender:
                raise InvalidMessage("from", f"is filled in with the sender's id {sender!r}")
        _check_text(name, "action.name")
        _check_text(to, "to")
        args = action.get("args", {})
        if type(args) is not dict:
            raise InvalidMessage("action.args", f"must be an object, not {type(args).__name__}")
        return Envelope(sender, to, name, check_args(args.copy()), id, meta)

    @property
    def is_to_one(self) -> bool:
        """Whether the receiver is one agent, not a group and not all."""
        return is_one_agent(self.to)

    def to_dict(self, copy: Callable[[Any], Any] = copy_json) -> dict[str, Any]:
        """Return the message as a new dict, in the order of the schema."""
        message: dict[str, Any] = {}
        if self.id is not None:
            message["id"] = self.id
        if self.meta is not None:
            message["meta"] = copy(self.meta)
        message["from"] = self.sender
        message["to"] = self.to
        message["action"] = {"name": self.name, "args": copy(self.args)}
        return message


ENVELOPE_DEFAULTS: Final[tuple[Any, ...]] = tuple(Envelope._field_defaults.values())
"""What follows sender, receiver, name and arguments in a usual envelope, which says no more."""


def address(id: object) -> str:
    """Return an id as a string, an int as its decimal string; raise InvalidId if it is wrong."""
    if type(id) is int:
        decimal = _decimal_text(id)
        if decimal is None:
            raise InvalidId(f"an id has 1 to {MAX_ID} characters, and this number more")
        id = decimal
    if not isinstance(id, str):
        raise InvalidId(f"an id must be a string or an int, got {type(id).__name__}")
    id = str.__str__(id)  # not a subclass's own `__str__`
    if not 0 < len(id) <= MAX_ID:
        raise InvalidId(f"an id has 1 to {MAX_ID} characters, not {len(id)}")
    if id == BROADCAST:
        raise InvalidId('"*" is not an id: it addresses every agent')
    if id[0] == GROUP:
        raise InvalidId(f'the id {id!r} starts with "#", which addresses a group of agents')
    if id.startswith("amq."):
        raise InvalidId(
            f'the id {id!r} starts with "amq.", which message brokers keep to themselves'
        )
    if not id.isascii():
        try:
            id.encode()
        except UnicodeEncodeError:
            raise InvalidId(f"the id {id!r} has characters that no text can carry") from None
    return id


def is_group(to: str) -> bool:
    """Return whether a receiver is a group of agents."""
    return to.startswith(GROUP)


def is_one_agent(to: str) -> bool:
    """Return whether a receiver is one agent, not a group and not all."""
    return to != BROADCAST and to[:1] != GROUP


def check_groups(groups: object) -> tuple[str, ...]:
    """Return the names of groups, each once; raise ConfigError if one is wrong."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise ConfigError(
            f'groups= must be a list of names, such as ("orders",), got {groups!r:.80}'
        )
    names = tuple(groups)
    for name in names:
        # With the "#" before it, it is as long as an id.
        if not isinstance(name, str) or not 0 < len(name) < MAX_ID or is_group(name):
            raise ConfigError(
                f"groups=: a name must be 1 to {MAX_ID - 1} characters, not starting with #, "
                f"got {name!r:.80}"
            )
        _check_text(name, "groups=")
    return tuple(dict.fromkeys(names))


def seconds_until(delay: float | None, at: datetime | None) -> float:
    """Return how many seconds a message waits; exactly one of the two is given."""
    if delay is not None and at is not None:
        raise DefinitionError("send takes either delay= or at=, not both")
    if at is not None:
        if not isinstance(at, datetime):
            raise ConfigError(f"send: at= must be a datetime, got {at!r:.80}")
        try:
            delay = max(at.timestamp() - time.time(), 0.0)
        except (OverflowError, OSError, ValueError):  # a local time in the years 1 or 9999
            delay = float(at.year > 2000) * 2 * MAX_DELAY_S
    check_seconds("send: delay=", delay, zero=True)
    assert delay is not None
    if delay > MAX_DELAY_S:
        raise ConfigError(
            f"a message may wait for {MAX_DELAY_S // 86_400} days ({MAX_DELAY_S:,} seconds), "
            f"got {delay:,.0f} seconds"
        )
    return delay


def check_args(args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as JSON data: flat ones as they are, others copied as `NestedArgs`."""
    for key, value in args.items():
        kind = type(value)
        if type(key) is str and key.isascii():
            if kind is int:
                if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
                    continue
            elif kind is str:
                if len(value) < 4096 and value.isascii():
                    continue
            elif kind is bool or value is None:
                continue
        return NestedArgs(_copy_json(args, "action.args"))
    return args


def typed_args(args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of any type that has a JSON form, as JSON data."""
    try:
        copied: dict[str, Any] = to_json(args, with_bytes=True)
        return copied
    except NotJSON as error:
        raise InvalidMessage(f"action.args.{error.path}", error.reason) from None


def _copy_json(value: Any, path: str) -> Any:
    try:
        return copy_json(value, path, with_bytes=True)
    except NotJSON as error:
        raise InvalidMessage(error.path or path, error.reason) from None


def _check_text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidMessage(field, f"must be a string, not {type(value).__name__}")
    text = str.__str__(value)  # not a subclass's own `__str__`
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidMessage(field, "has characters that no text can carry") from None
    return text


def _decimal_text(number: int) -> str | None:
    """Return the decimal string of an int; None if that is longer than any id."""
    return str(number) if -(10**MAX_ID) < number < 10**MAX_ID else None


def _receiver_of(message: dict[str, Any]) -> str:
    to = message.get("to")
    if type(to) is int:
        to = _decimal_text(to)
        if to is None:
            raise InvalidMessage("to", f"must have 1 to {MAX_ID} characters")
    if isinstance(to, str):
        to = str.__str__(to)
        if 0 < len(to) <= MAX_ID:
            return to
        raise InvalidMessage("to", f"must have 1 to {MAX_ID} characters, not {len(to)}")
    raise _wrong_type_error(message, "to", "an agent's id or *")


def _wrong_type_error(
    part: dict[str, Any], key: str, expected: str, path: str = ""
) -> InvalidMessage:
    if key not in part:
        return InvalidMessage(path + key, "is missing")
    return InvalidMessage(path + key, f"must be {expected}, not {type(part[key]).__name__}")


def _refuse_unknown_keys(part: dict[str, Any], allowed: frozenset[str], path: str) -> None:
    for key in part:
        if key not in allowed:
            # Showing the key runs no code of its class.
            label = (
                str.__str__(key)[:80] if isinstance(key, str) else f"a key ({type(key).__name__})"
            )
            raise InvalidMessage(
                f"{path}{label}", f"is unknown; known are {', '.join(sorted(allowed))}"
            )


# Of any type, because its module imports this one: `Replying` of `agents/replies`.
ENCLOSING_REPLIES: ContextVar[tuple[Any, ...]] = ContextVar("moothall_replying", default=())
"""The replies that led to the current code, outermost first, in this task or thread."""


def with_reply_thread(agent: Any, envelope: Envelope) -> Envelope:
    """Return an agent's message; a `say` that names no thread gets that of the reply behind it."""
    if tracing.active is not None:
        envelope = tracing.with_trace(envelope)
    if (
        envelope.name != "say"
        or not (replies := ENCLOSING_REPLIES.get())
        or "thread" in envelope.args
    ):
        return envelope
    own_replies = (each for each in reversed(replies) if each.agent is agent)
    return envelope._replace(within=next(own_replies, replies[-1]).thread_for(agent))
