"""The dead letters of an exchange, for whoever looks after it."""

from __future__ import annotations

import re
import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, Self

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionBlockedTimeout,
    NackError,
    UnroutableError,
)

from civitas.errors import BrokerError, InvalidId
from civitas.message import BROADCAST as EVERYONE
from civitas.message import address
from civitas.spaces.amqp import wire
from civitas.spaces.amqp.link import explain, parameters, tls
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.options import AMQPOptions
from civitas.spaces.amqp.wire import Letter, Unreadable

MOST: Final = 1000
"""How many are listed."""

_MOST_BYTES = 2**26
_BLOCKED_S = 10.0
_NOT_FOUND = 404
_RUNNABLE = ("", wire.SEND, wire.REQUEST, wire.ANSWER)

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


class NotSent(Exception):
    """A dead letter could not be sent again, and stays; the text says why."""


class DeadLetters:
    """Shows, sends again and removes the dead letters of an exchange.

    While it looks at them, they are not there for others who look; then they are, in their order,
    and also if the process dies. A `with` block opens the connection and ends it.
    """

    def __init__(self, options: AMQPOptions, exchange: str = "civitas") -> None:
        self._options = options
        self._names = Names(exchange)
        self._connection: BlockingConnection | None = None

    def __enter__(self) -> Self:
        """Connect."""
        options = self._options
        wanted = parameters(options, "civitas dead-letters")
        wanted.blocked_connection_timeout = _BLOCKED_S
        context = tls(options)
        if context is not None:
            wanted.ssl_options = pika.SSLOptions(context, options.hostname)
        try:
            self._connection = BlockingConnection(wanted)
        except (AMQPError, OSError) as error:
            raise BrokerError(explain(_cause(error), options)) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            connection.close()

    def look(self, most: int = MOST) -> tuple[list[DeadLetter], int]:
        """The oldest ones."""
        found: list[DeadLetter] = []
        with self._channel() as channel:
            waiting = self._count(channel)
            seen = held = 0
            for each, tags in self._each(channel, waiting):
                if len(tags) == 1:
                    found.append(each)
                    held += len(each.body)
                seen += 1
                if len(found) >= most or held > _MOST_BYTES:
                    break
        return found, max(waiting - seen, 0)

    def find(self, key: str) -> DeadLetter | None:
        """The one of that key; None if there is none."""
        with self._channel() as channel:
            for each, _ in self._each(channel, self._count(channel)):
                if each.key == key:
                    return each
        return None

    def drop(self, key: str) -> bool:
        """Remove the one of that key for ever. Whether there was one."""
        found: list[int] = []
        with self._channel() as channel:
            for each, tags in self._each(channel, self._count(channel)):
                if each.key == key:
                    found = tags
            for tag in found:
                channel.basic_ack(tag)
        return bool(found)

    def resend(self, key: str | None = None) -> Iterator[tuple[DeadLetter, NotSent | None]]:
        """Send one, or each, to the agent that it was for, as a new message.

        A request becomes a `send`: whoever asked has had an outcome and waits no more; what comes
        of it now, it receives as a message. A letter is removed once the broker has confirmed the
        new message. If the process dies between the two and the letter is sent a second time, the
        receiver's inbox knows the message, and does not run it again.
        """
        with self._channel() as channel:
            channel.confirm_delivery()
            done: dict[str, tuple[DeadLetter, NotSent | None, list[int]]] = {}
            for each, tags in self._each(channel, self._count(channel)):
                if key not in (None, each.key):
                    continue
                if each.key not in done:
                    try:
                        self._send(channel, each)
                        done[each.key] = each, None, tags
                    except NotSent as error:
                        done[each.key] = each, error, tags
                    yield done[each.key][:2]
                if done[each.key][1] is None:
                    channel.basic_ack(tags[-1])

    # -- how ---------------------------------------------------------------------------------------

    def _send(self, channel: BlockingChannel, dead: DeadLetter) -> None:
        agent = dead.agent
        if not agent:
            raise NotSent("whom it was for cannot be told")
        kind = wire.ANSWER if dead.kind == wire.ANSWER else wire.SEND
        # Made of the old one, so that a letter that is sent twice is one message to its receiver.
        id = sha256(f"{dead.key} {dead.message_id}".encode()).hexdigest()
        letter = Letter(
            f"resent.{id[:32] if dead.message_id else secrets.token_hex(16)}",
            kind,
            self._names.agent_key(agent),
            dead.body,
            headers=wire.headers(1, (), original_id=dead.original, thread=dead.thread),
        )
        properties = letter.properties()
        try:
            arrived = wire.read(properties, dead.body)
        except Unreadable as error:
            raise NotSent(f"it is no message: {error}") from None
        if dead.kind not in _RUNNABLE:
            raise NotSent(f"a message of the type {dead.kind!r} is not for an agent to handle")
        if arrived.envelope.to not in (agent, EVERYONE):
            raise NotSent(f"it is to {arrived.envelope.to!r}, and came to {agent!r}")
        try:
            channel.basic_publish(
                self._names.exchange, letter.routing_key, dead.body, properties, mandatory=True
            )
        except UnroutableError:
            raise NotSent(f'no agent "{agent}" has a queue') from None
        except NackError:
            raise NotSent(f'the mailbox of "{agent}" is full') from None

    @contextmanager
    def _channel(self) -> Iterator[BlockingChannel]:
        """A channel, at whose end all that was got and not acknowledged is given back."""
        assert self._connection is not None, "DeadLetters is used in a `with` block"
        try:
            channel = self._connection.channel()
            try:
                yield channel
            finally:
                if channel.is_open:
                    channel.close()
        except ChannelClosedByBroker as error:
            if error.reply_code != _NOT_FOUND:
                raise BrokerError(
                    f"the broker at {self._options.address} refuses: {error.reply_text}"
                ) from error
            raise BrokerError(
                f"there is no exchange {self._names.exchange!r} at {self._options.address}: "
                "no space has been opened on it"
            ) from error
        except ConnectionBlockedTimeout as error:
            raise BrokerError(
                f"the message broker at {self._options.address} is short of memory or disk and "
                "takes no messages"
            ) from error
        except AMQPError as error:
            raise BrokerError(explain(_cause(error), self._options)) from error

    def _count(self, channel: BlockingChannel) -> int:
        found = channel.queue_declare(self._names.dead_letters, passive=True)
        count: int = found.method.message_count
        return count

    def _each(self, channel: BlockingChannel, most: int) -> Iterator[tuple[DeadLetter, list[int]]]:
        """Each letter, with the tags of what is this letter so far: it may have come twice."""
        known: dict[str, list[int]] = {}
        for _ in range(most):
            got, properties, body = channel.basic_get(self._names.dead_letters)
            if got is None:
                return
            each = first = DeadLetter.read(self._names, properties, body)
            while not each.message_id and each.key in known:  # two without an id are two
                each = replace(each, key=first.other_key(each.key))
            tags = known.setdefault(each.key, [])
            tags.append(got.delivery_tag)
            yield each, tags


def _cause(error: BaseException) -> BaseException:
    """What pika has wrapped, as `explain` knows it."""
    inner = error
    while not isinstance(inner, OSError | ssl.SSLError):
        wrapped = getattr(inner, "exception", None) or (inner.args[0] if inner.args else None)
        if not isinstance(wrapped, BaseException):
            return error
        inner = wrapped
    return inner
