"""What the broker's exchanges, queues and routing keys are called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from civitas.errors import ConfigError

_LONGEST: Final = 255
"""How many bytes the broker allows a name."""

_EXCHANGE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_SPECIAL = re.compile(r"[%.*#\r\n]")


class Names:
    """The names under one exchange.

    The exchange routes by topic. What goes to an agent has the key `agent.ID`, what goes to all
    `all`, an answer to a request `reply.PROCESS`, news for every process `processes`, so that an
    observer of `#` sees everything. Dots, stars and hashes in an id are escaped, for they mean
    something in a topic, and line ends, which RabbitMQ drops from names; an id for which that is
    too long stands as its hash.
    """

    everyone: Final = "all"
    everything: Final = "#"
    processes: Final = "processes"

    def __init__(self, exchange: str) -> None:
        if (
            not isinstance(exchange, str)
            or not _EXCHANGE.fullmatch(exchange)
            or exchange.startswith("amq.")
        ):
            raise ConfigError(
                "exchange= is 1 to 100 letters, digits and _ . : -, not starting with amq., "
                f"not {exchange!r}"
            )
        self.exchange = exchange
        self.dead = f"{exchange}.dead"
        self.dead_letters = f"{exchange}.dead-letters"

    def agent_key(self, id: str) -> str:
        """What is sent to an agent."""
        return _agent_key(id)

    def agent_queue(self, id: str) -> str:
        """Where an agent's messages wait."""
        return _fitting(lambda name: f"{self.exchange}.agent.{name}", id)

    def claim_queue(self, id: str) -> str:
        """What a process holds while the agent of that id is its own."""
        return _fitting(lambda name: f"{self.exchange}.claim.{name}", id)

    def reply_key(self, process: str) -> str:
        """What answers the requests of a process."""
        return f"reply.{process}"

    def reply_queue(self, process: str) -> str:
        """Where those answers wait."""
        return f"{self.exchange}.reply.{process}"

    def observer_queue(self, process: str) -> str:
        """Where what an observer sees waits."""
        return f"{self.exchange}.observer.{process}"


@lru_cache(maxsize=10_000)
def _agent_key(id: str) -> str:
    return _fitting(lambda name: f"agent.{name}", id)


def _fitting(make: Callable[[str], str], id: str) -> str:
    name = make(_SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", id))
    if len(name.encode()) <= _LONGEST:
        return name
    # A hash has no percent sign, and "%~" is nobody's escape: no other id has this name.
    return make("%~" + hashlib.sha256(id.encode()).hexdigest())
