"""Dead letters: messages that cannot be handled, kept at the broker for people."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Self

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionBlockedTimeout, NackError

from moothall.actions.message import address, is_one_agent
from moothall.foundation.errors import BrokerError, InvalidId
from moothall.spaces.amqp import wire
from moothall.spaces.amqp.amqp_options import AMQPOptions, Names, node_options
from moothall.spaces.amqp.link.broker import Broker
from moothall.spaces.amqp.link.connection import NOT_FOUND
from moothall.spaces.amqp.link.dialling import connection_parameters, explain, tls_context
from moothall.spaces.amqp.wire import Outbound, Unreadable

MAX_LETTERS: Final = 1000
"""How many dead letters are listed at most."""

_MAX_BYTES = 2**26
_BLOCKED_S = 10.0
_MAX_RECOUNTS = 20
_POLL_INTERVAL_S = 0.05
_RESENDABLE_KINDS = ("", wire.SEND, wire.REQUEST, wire.ANSWER)
_ESCAPE = re.compile(r"%([0-9A-F]{2})")
_BROKER_REASONS = {
    "expired": "it expired in the queue before an agent took it",
    "maxlen": "the queue was full",
    "delivery_limit": "it was delivered again and again, and never handled",
}


def publish_dead_letter(
    broker: Broker,
    properties: Any,
    body: bytes,
    reason: str,
    agent: str,
    on_confirmed: Callable[[], Any],
) -> None:
    """Publish a message to the dead letters, at least once; then call `on_confirmed`."""
    headers = {
        **wire.known_headers(properties),
        "reason": reason[:1000].encode(errors="backslashreplace").decode(),
        "agent": agent,
        "message": str(properties.message_id or ""),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    broker.publisher.publish(
        Outbound(
            broker.new_key(),
            properties.type if isinstance(properties.type, str) else "",
            broker.names.key("agent", agent),
            body,
            mandatory=True,
            reply_to=properties.reply_to,
            correlation_id=properties.correlation_id,
            headers=headers,
            settles=on_confirmed,
            exchange=broker.names.dead_exchange,
        )
    )


@dataclass(frozen=True)
class DeadLetter:
    """A message that could not be handled.

    Attributes:
        key: twelve hexadecimal digits, equal each time it is listed
        agent: the id of its receiver; empty if unknown
        reason: why it is a dead letter
        time: when it became one, in UTC, as `2026-01-31T09:00:00Z`; empty if unknown
        kind: `send`, `request`, `answer` or `cancel`, or any other AMQP type
        message: the message, if it can be read as JSON; else None
        body: the message's bytes
        headers: what travels beside it when it is sent again
    """

    key: str
    agent: str
    reason: str
    time: str
    kind: str
    message: Any
    body: bytes
    headers: dict[str, str]

    @classmethod
    def read(cls, names: Names, properties: Any, body: bytes) -> Self:
        """Read a message of the dead-letter queue, put there by a space, the broker or others."""
        headers = properties.headers or {}
        try:
            message = wire.read_json(body)
        except Unreadable:
            message = None
        if "agent" in headers:
            agent = headers["agent"]
            reason, time = _text(headers.get("reason")), _text(headers.get("time"))
        else:
            death = _last_death(headers)
            agent = _receiver_of(names, death, message)
            cause = _text(death.get("reason"))
            reason = _BROKER_REASONS.get(cause, f"the broker put it here ({cause or 'unknown'})")
            death_time = death.get("time")
            time = f"{death_time:%Y-%m-%dT%H:%M:%SZ}" if isinstance(death_time, datetime) else ""
        try:
            agent = address(agent)
        except InvalidId:
            agent = ""
        identity = f"{_text(properties.message_id)}\0{agent}\0{reason}\0{time}\0".encode()
        return cls(
            key=sha256(identity + body).hexdigest()[:12],
            agent=agent,
            reason=reason,
            time=time,
            kind=_text(properties.type),
            message=message,
            body=body,
            headers={
                each.header: headers[each.header]
                for each in wire.HEADER_FIELDS
                if each.is_resent and isinstance(headers.get(each.header), str)
            },
        )


def _last_death(headers: dict[str, Any]) -> dict[str, Any]:
    """Return the broker's record of why it dead-lettered a message."""
    deaths = headers.get("x-death")
    death = deaths[0] if isinstance(deaths, list) and deaths else None
    return death if isinstance(death, dict) else {}


def _receiver_of(names: Names, death: dict[str, Any], message: Any) -> object:
    """Return the id of its queue's agent; if that is hashed, the receiver in the message."""
    queue, prefix = _text(death.get("queue")), names.queue("agent", "")
    name = queue.removeprefix(prefix)
    if name != queue and not name.startswith("%~"):
        return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
    return message.get("to") if isinstance(message, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class DeadLetters:
    """Lists the dead letters of an exchange, and sends them again.

    Meanwhile other readers see none or only some of them; afterwards, even if the process dies, all
    are back in order. A `with` block opens the connection and closes it.
    """

    def __init__(self, options: AMQPOptions, exchange: str = "moothall") -> None:
        self._options = options
        self._names = Names(exchange)
        self._connection: BlockingConnection | None = None
        self._taken_count = 0  # how many letters the channel has got and not removed

    def __enter__(self) -> Self:
        errors: list[BrokerError] = []
        for node in node_options(self._options):
            node_parameters = connection_parameters(node, "moothall dead-letters")
            node_parameters.blocked_connection_timeout = _BLOCKED_S
            context = tls_context(node)
            if context is not None:
                node_parameters.ssl_options = pika.SSLOptions(context, node.hostname)
            try:
                self._connection = BlockingConnection(node_parameters)
                return self
            except (AMQPError, OSError, ValueError) as error:  # ValueError: as in `Connection`
                errors.append(BrokerError(explain(_cause(error), node)))
        raise BrokerError("; ".join(map(str, errors)))

    def __exit__(self, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            connection.close()

    def look(self, most: int = MAX_LETTERS) -> tuple[list[DeadLetter], int]:
        """Return the oldest dead letters, and how many more there are."""
        letters: list[DeadLetter] = []
        size = 0
        with self._channel() as channel:
            waiting = self._count(channel)
            for each, _ in self._letters(channel, min(waiting, most)):
                letters.append(each)
                size += len(each.body)
                if size > _MAX_BYTES:
                    break
        return letters, waiting - len(letters)

    def resend(self, key: str | None = None) -> Iterator[tuple[DeadLetter, str | None]]:
        """Send one dead letter, or all, to its receiver again, as a new message.

        A request becomes a `send`: its sender has had an outcome, and gets this one as a message. A
        dead letter is removed once the broker has confirmed the new message. The receiver's inbox
        recognizes one that appears twice, or is sent twice because this process died between the
        two.

        Returns:
            each dead letter with None, or with why it could not be sent and stays
        """
        with self._channel() as channel:
            channel.confirm_delivery()
            for each, tag in self._letters(channel, self._count(channel)):
                if key in (None, each.key):
                    fault = self._send(channel, each)
                    if fault is None:
                        channel.basic_ack(tag)
                        self._taken_count -= 1
                    yield each, fault

    def _send(self, channel: BlockingChannel, letter: DeadLetter) -> str | None:
        """Send a dead letter again; return why that failed, or None."""
        agent = letter.agent
        if not agent:
            return "its receiver is unknown"
        message = Outbound(
            f"resent.{letter.key}",  # sent twice, it is one message to its receiver
            wire.ANSWER if letter.kind == wire.ANSWER else wire.SEND,
            self._names.key("agent", agent),
            letter.body,
            headers=letter.headers or None,
        )
        properties = message.properties()
        try:
            receiver = wire.read_message(properties, letter.body).envelope.to
        except Unreadable as error:
            return f"it is not a message: {error}"
        if letter.kind not in _RESENDABLE_KINDS:
            return f"a message of the type {letter.kind!r} is not for an agent to handle"
        if receiver != agent and is_one_agent(receiver):
            return f"it is to {receiver!r}, but was in the queue of {agent!r}"
        if not self._has_queue(agent):
            return f'no agent "{agent}" has a queue'
        try:
            channel.basic_publish(
                self._names.exchange, message.routing_key, letter.body, properties
            )
        except NackError:
            return f'the mailbox of "{agent}" is full'
        return None

    def _has_queue(self, agent: str) -> bool:
        # The broker returns no message that an observer of everything has.
        assert self._connection is not None
        try:
            with self._connection.channel() as channel:
                channel.queue_declare(self._names.queue("agent", agent), passive=True)
        except ChannelClosedByBroker:
            return False
        return True

    @contextmanager
    def _channel(self) -> Iterator[BlockingChannel]:
        """Open a channel; what it got and did not acknowledge returns to the queue at the end."""
        assert self._connection is not None, "DeadLetters is used in a `with` block"
        try:
            channel = self._connection.channel()
            self._taken_count = 0
            try:
                yield channel
            finally:
                if channel.is_open:
                    # Closing a channel requeues what it got, but later: a look right after it
                    # would miss that. The count waits until the broker has processed the nack.
                    channel.basic_nack(0, multiple=True, requeue=True)
                    for _ in range(_MAX_RECOUNTS):
                        if self._count(channel) >= self._taken_count:
                            break
                        # A replicated queue requeues later.
                        self._connection.sleep(_POLL_INTERVAL_S)
                    channel.close()
        except ChannelClosedByBroker as error:
            if error.reply_code != NOT_FOUND or "home node" in error.reply_text:
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
        declared = channel.queue_declare(self._names.dead_queue, passive=True)
        count: int = declared.method.message_count
        return count

    def _letters(self, channel: BlockingChannel, most: int) -> Iterator[tuple[DeadLetter, int]]:
        """Yield each dead letter with its delivery tag; duplicates have equal keys."""
        for _ in range(most):
            delivery, properties, body = channel.basic_get(self._names.dead_queue)
            if delivery is None:
                return
            self._taken_count += 1
            yield DeadLetter.read(self._names, properties, body), delivery.delivery_tag


def _cause(error: BaseException) -> BaseException:
    """Return the error that pika has wrapped, in the form that `explain` expects."""
    inner = error
    while not isinstance(inner, OSError | ssl.SSLError):
        wrapped = getattr(inner, "exception", None) or (inner.args[0] if inner.args else None)
        if not isinstance(wrapped, BaseException):
            return error
        inner = wrapped
    return inner
