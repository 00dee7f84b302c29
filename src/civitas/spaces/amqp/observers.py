"""Who sees the messages of every process, and what this one has shown already."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from civitas.spaces.amqp import wire
from civitas.spaces.amqp.consumer import Intake, Tag
from civitas.spaces.amqp.link import Control
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.wire import Unreadable

logger = logging.getLogger("civitas.amqp")

_KEPT: Final = 10_000
_PREFETCH: Final = 2_000

Callback = Callable[[dict[str, Any]], Any]


class Observing:
    """Copies of all messages of the exchange, for the callbacks that want them."""

    def __init__(
        self, names: Names, control: Control, intake: Intake, new_key: Callable[[], str]
    ) -> None:
        self._names = names
        self._control = control
        self._intake = intake
        self._new_key = new_key
        self._callbacks: tuple[Callback, ...] = ()
        self._seen: dict[str, None] = {}

    @property
    def wanted(self) -> bool:
        """Whether anybody wants them."""
        return bool(self._callbacks)

    def add(self, callback: Callback) -> bool:
        """Have a callback see what every process sends; whether it is the first."""
        first = not self._callbacks
        self._callbacks = (*self._callbacks, callback)
        return first

    def is_new(self, key: str) -> bool:
        """Whether a message is seen for the first time."""
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _KEPT:
            del self._seen[next(iter(self._seen))]
        return True

    async def attach(self) -> None:
        """Have the copies come here, on a new connection."""
        names = self._names
        # A new one each time: the broker may take the connection that is lost to be there still.
        queue = names.observer_queue(self._new_key())
        await self._control.call(
            lambda c, done: c.queue_declare(queue, exclusive=True, auto_delete=True, callback=done)
        )
        await self._control.call(
            lambda c, done: c.queue_bind(queue, names.exchange, names.everything, callback=done)
        )
        await self._intake.consume(queue, self._observed, _PREFETCH, lambda: None)

    def _observed(self, tag: Tag, _: Any, properties: Any, body: bytes) -> None:
        self._intake.acknowledge(tag)
        try:
            arrived = wire.read(properties, body)
        except Unreadable as error:
            logger.warning("an observer is not shown a message that cannot be read: %s", error)
            return
        if arrived.kind in (wire.CANCEL, wire.LOST) or not self.is_new(f"everywhere {arrived.key}"):
            return
        envelope = arrived.envelope
        if arrived.kind == wire.REPLY and envelope.args.get("data", 0) is None:
            return
        for callback in self._callbacks:
            try:
                callback(envelope.to_dict())
            except Exception:
                logger.exception("observer %r failed and is called no more", callback)
                self._callbacks = tuple(c for c in self._callbacks if c is not callback)
