"""A message that came to nothing, as the broker keeps it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Self

from civitas.errors import InvalidId
from civitas.message import address
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.wire import Unreadable

__all__ = ["DeadLetter"]

_ESCAPE = re.compile(r"%([0-9A-F]{2})")
_BY_BROKER = {
    "expired": "it waited in the queue until its time was over, and nobody took it",
    "maxlen": "the queue was full",
    "delivery_limit": "it was delivered again and again, and never handled",
}


@dataclass(frozen=True)
class DeadLetter:
    """A message that came to nothing.

    Attributes:
        key: what it is called here: twelve hexadecimal digits, the same each time it is looked at
        agent: the id that it was for; empty if that cannot be told
        reason: why it is here
        time: when it came here, in UTC, as `2026-01-31T09:00:00Z`; empty if that cannot be told
        kind: `send`, `request`, `answer` or `cancel`, or whatever stands there
        message_id: the key that it travelled with; empty if it had none
        message: the message, if it can be read as JSON; else None
        body: its bytes
        original: the id of the message that it answers, if it does
        thread: which thread of its agent sent it, or what it answers; None where that is not known
    """

    key: str
    agent: str
    reason: str
    time: str
    kind: str
    message_id: str
    message: Any
    body: bytes
    original: str | None = None
    thread: str | None = None

    @classmethod
    def read(cls, names: Names, properties: Any, body: bytes) -> Self:
        """What is in the queue: put there by a space, by the broker, or by anybody at all."""
        headers = properties.headers or {}
        message_id = _text(properties.message_id)
        try:
            message = wire.read_json(body)
        except Unreadable:
            message = None
        if "agent" in headers:
            agent = headers["agent"]
            reason, time = _text(headers.get("reason")), _text(headers.get("time"))
        else:
            death = _last_death(headers)
            agent = _receiver(names, death, message)
            cause = _text(death.get("reason"))
            reason = _BY_BROKER.get(cause, f"the broker put it here ({cause or 'unknown'})")
            then = death.get("time")
            time = f"{then:%Y-%m-%dT%H:%M:%SZ}" if isinstance(then, datetime) else ""
        try:
            agent = address(agent)
        except InvalidId:
            agent = ""
        return cls(
            key=_mark(message_id, agent, reason, time, body),
            agent=agent,
            reason=reason,
            time=time,
            kind=_text(properties.type),
            message_id=message_id,
            message=message,
            body=body,
            original=_text(headers.get("original")) or None,
            thread=_text(headers["thread"]) if "thread" in headers else None,
        )

    def other_key(self, key: str) -> str:
        """A key instead of `key`, for one more that is like this."""
        return _mark(key, self.key)


def _last_death(headers: dict[str, Any]) -> dict[str, Any]:
    """What the broker says of why it put a message here."""
    deaths = headers.get("x-death")
    death = deaths[0] if isinstance(deaths, list) and deaths else None
    return death if isinstance(death, dict) else {}


def _receiver(names: Names, death: dict[str, Any], message: Any) -> object:
    """Whose queue it was in; an id too long for a queue's name is in the message, if at all."""
    queue, before = _text(death.get("queue")), names.agent_queue("")
    name = queue.removeprefix(before)
    if name != queue and not name.startswith("%~"):
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
    return message.get("to") if isinstance(message, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mark(*parts: str | bytes) -> str:
    whole = b"\0".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    return sha256(whole).hexdigest()[:12]
