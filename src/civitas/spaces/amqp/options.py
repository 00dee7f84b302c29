"""Where the broker is, and what exchanges, queues and routing keys are called there."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from civitas.errors import ConfigError

_VARIABLES = {
    "hostname": "AMQP_HOST",
    "port": "AMQP_PORT",
    "username": "AMQP_USERNAME",
    "password": "AMQP_PASSWORD",
    "virtual_host": "AMQP_VHOST",
}
_PORT = 5672
_TLS_PORT = 5671
_LONGEST = 255
"""Bytes of a name: of the broker's, of a virtual host, of a host in DNS."""
_LONGER = 4096

_EXCHANGE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_SPECIAL = re.compile(r"[%.*#\r\n]")


@dataclass(frozen=True)
class AMQPOptions:
    """How to reach a RabbitMQ broker.

    Args:
        hostname: its name or address
        port: 1–65535; 5672 if left out, or 5671 with `use_ssl`
        username: as whom
        password: not shown by `repr`
        virtual_host: which of the broker's virtual hosts
        use_ssl: whether the connection is encrypted and the broker's certificate verified
        heartbeat: seconds of silence, 1–65535, after which a connection counts as dead: about two
            of these, on either side
        ca_file: a PEM file of the authorities to trust; those of the system if left out

    Raises:
        ConfigError: one of them is not valid
    """

    hostname: str = "localhost"
    port: int | None = None
    username: str = "guest"
    password: str = field(default="guest", repr=False)
    virtual_host: str = "/"
    use_ssl: bool = False
    heartbeat: int = 60
    ca_file: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        for name in ("hostname", "username", "password", "virtual_host"):
            value = getattr(self, name)
            # AMQP gives a virtual host a byte for its length, and DNS a host no more.
            most = _LONGEST if name in ("hostname", "virtual_host") else _LONGER
            if not isinstance(value, str) or not 0 < _size(value) <= most:
                got = "" if name == "password" else f", got {value!r:.100}"
                raise ConfigError(
                    f"AMQPOptions: {name}= must be UTF-8 text of 1 to {most} bytes{got}"
                )
        if self.port is None:
            object.__setattr__(self, "port", _TLS_PORT if self.use_ssl else _PORT)
        for name in ("port", "heartbeat"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= 65535:
                raise ConfigError(f"AMQPOptions: {name}= must be 1 to 65535, got {value!r}")
        if type(self.use_ssl) is not bool:
            raise ConfigError(f"AMQPOptions: use_ssl= must be True or False, got {self.use_ssl!r}")
        if self.ca_file is not None and not isinstance(self.ca_file, str | os.PathLike):
            raise ConfigError(f"AMQPOptions: ca_file= must be a file's path, got {self.ca_file!r}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AMQPOptions:
        """Those of `AMQP_HOST`, `AMQP_PORT`, `AMQP_USERNAME`, `AMQP_PASSWORD` and `AMQP_VHOST`.

        What is not set, or empty, has its default.

        Raises:
            ConfigError: `AMQP_PORT` is not a port
        """
        given = os.environ if environment is None else environment
        found: dict[str, str | int] = {}
        for name, variable in _VARIABLES.items():
            value = given.get(variable)
            if not value:
                continue
            if name != "port":
                found[name] = value
            elif value.isascii() and value.isdigit() and 1 <= int(value[:6]) <= 65535:
                found[name] = int(value)
            else:
                raise ConfigError(f"AMQP_PORT must be 1 to 65535, got {value!r}")
        return cls(**found)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        """How errors name the broker: `localhost:5672`."""
        return f"{self.hostname}:{self.port}"


def _size(text: str) -> int:
    """How many bytes it has as UTF-8; 0 if that has no such text."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


class Names:
    """The names under one exchange, which routes by topic.

    Routing keys are `agent.ID` for one agent, `all` for a broadcast, `reply.PROCESS` for the answer
    to a request, `processes` for what every process is told; an observer binds `#`. Escaped in an
    id are dots, stars and hashes, which have a meaning in a topic, and line ends, which RabbitMQ
    drops. A name that is too long is a hash instead.
    """

    everyone: Final = "all"
    processes: Final = "processes"

    def __init__(self, exchange: str) -> None:
        if (
            not isinstance(exchange, str)
            or not _EXCHANGE.fullmatch(exchange)
            or exchange.startswith("amq.")
        ):
            raise ConfigError(
                "exchange= must be 1 to 100 letters, digits and _ . : -, not starting with amq., "
                f"got {exchange!r}"
            )
        self.exchange = exchange
        self.dead = f"{exchange}.dead"
        self.dead_letters = f"{exchange}.dead-letters"

    def agent_key(self, id: str) -> str:
        """The routing key of messages to an agent."""
        return _agent_key(id)

    def agent_queue(self, id: str) -> str:
        """The queue of an agent's messages."""
        return _fitting(lambda name: f"{self.exchange}.agent.{name}", id)

    def claim_queue(self, id: str) -> str:
        """The exclusive queue that the process of an agent holds: the claim of its id."""
        return _fitting(lambda name: f"{self.exchange}.claim.{name}", id)

    def reply_key(self, process: str) -> str:
        """The routing key of answers to a process."""
        return f"reply.{process}"

    def reply_queue(self, process: str) -> str:
        """The queue of answers to a process."""
        return f"{self.exchange}.reply.{process}"

    def observer_queue(self, process: str) -> str:
        """The queue of an observing process."""
        return f"{self.exchange}.observer.{process}"


@lru_cache(maxsize=10_000)
def _agent_key(id: str) -> str:
    return _fitting(lambda name: f"agent.{name}", id)


def _fitting(make: Callable[[str], str], id: str) -> str:
    name = make(_SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", id))
    if len(name.encode()) <= _LONGEST:
        return name
    # No id has this name otherwise: "%~" is not an escape, and a hash has no percent sign.
    return make("%~" + hashlib.sha256(id.encode()).hexdigest())
