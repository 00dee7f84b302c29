"""What cannot be handled, on its way to the dead letters."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from civitas.spaces.amqp import wire
from civitas.spaces.amqp.intake import Intake, Tag
from civitas.spaces.amqp.names import Names
from civitas.spaces.amqp.wire import Letter

__all__ = ["Burials"]

logger = logging.getLogger("civitas.amqp")

_MOST: Final = 1_000
"""How many are known that were buried, in case they come again."""
_MOST_ALIKE: Final = 100


@dataclass(eq=False, slots=True)
class _Burial:
    """A message that is buried, as it was delivered last; and whether the broker has it there."""

    tag: Tag
    over: bool = False


class Burials:
    """Sends what cannot be handled where somebody may look at it: each message once.

    What was delivered on a connection that is lost meanwhile comes again on the next. A message
    that cannot be read has no key that it could be known by, so it is known by all that it says.

    Args:
        intake: acknowledges
        names: what things are called at the broker
        new_key: makes a key, unique among all processes
        publish: sends a letter
    """

    def __init__(
        self,
        intake: Intake,
        names: Names,
        new_key: Callable[[], str],
        publish: Callable[[Letter], None],
    ) -> None:
        self._intake = intake
        self._names = names
        self._new_key = new_key
        self._publish = publish
        self._known: dict[bytes, deque[_Burial]] = {}

    def bury(
        self, tag: Tag, properties: Any, body: bytes, reason: str, agent: str, *, again: bool
    ) -> None:
        """Bury what cannot be read, and have the broker forget it.

        Args:
            tag: the delivery
            properties: AMQP's, as it came with
            body: what it says
            reason: why it cannot be read
            agent: whom it was for
            again: whether the broker says that it brings it again
        """
        intake = self._intake
        said = f"{agent}\n{properties}\n".encode(errors="surrogatepass")
        alike = self._known.setdefault(sha256(said + body).digest(), deque(maxlen=_MOST_ALIKE))
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        for burial in alike:
            if again and burial.tag[0] != tag[0]:
                burial.tag = tag
                if burial.over:
                    intake.acknowledge(tag)
                return
        burial = _Burial(tag)
        alike.append(burial)

        def done() -> None:
            burial.over = True
            intake.acknowledge(burial.tag)

        logger.error("a message to %r goes to the dead letters: %s", agent, reason)
        self.send(properties, body, reason, agent, done)

    def send(
        self,
        properties: Any,
        body: bytes,
        reason: str,
        agent: str,
        done: Callable[[], Any],
    ) -> None:
        """Send a message to the dead letters.

        Args:
            properties: AMQP's, as it came with
            body: what it says
            reason: why it is not handled
            agent: whom it was for
            done: called when the broker has it
        """
        known = properties.headers or {}
        headers = {
            **{name: known[name] for name in wire.BESIDE if isinstance(known.get(name), str | int)},
            "reason": reason[:1000].encode(errors="backslashreplace").decode(),
            "agent": agent,
            "message": str(properties.message_id or ""),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._publish(
            Letter(
                self._new_key(),
                properties.type if isinstance(properties.type, str) else "",
                self._names.agent_key(agent),
                body,
                mandatory=True,
                reply_to=properties.reply_to,
                correlation_id=properties.correlation_id,
                headers=headers,
                about=done,
                exchange=self._names.dead,
            )
        )
