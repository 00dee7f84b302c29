"""The broker's address, and the names of exchanges, queues and routing keys."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from moothall.errors import ConfigError

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
"""The most bytes of a queue's, exchange's, virtual host's or DNS host's name."""
_LONGER = 4096

_EXCHANGE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_SPECIAL = re.compile(r"[%.*#\r\n]")


@dataclass(frozen=True)
class AMQPOptions:
    """How to reach a RabbitMQ broker.

    Args:
        hostname: the broker's host name or address
        port: 1–65535; 5672 if left out, or 5671 with `use_ssl`
        username: the user to log in as
        password: not shown by `repr`
        virtual_host: which of the broker's virtual hosts
        use_ssl: whether the connection is encrypted and the broker's certificate verified
        heartbeat: seconds of silence, 1–65535, after which a connection counts as dead: about two
            of these, on either side
        ca_file: a PEM file of the authorities to trust; the system's authorities if left out

    Raises:
        ConfigError: an argument is not valid
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
            # AMQP encodes a virtual host's length in one byte, and DNS allows a host no more.
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
        if self.ca_file is not None and not self.use_ssl:
            raise ConfigError(
                "AMQPOptions: ca_file= needs use_ssl=True; without it nothing is encrypted"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AMQPOptions:
        """Read `AMQP_HOST`, `AMQP_PORT`, `AMQP_USERNAME`, `AMQP_PASSWORD` and `AMQP_VHOST`.

        A variable that is not set, or empty, leaves the default.

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
        """The name of the broker in errors: `localhost:5672`."""
        return f"{self.hostname}:{self.port}"


def _size(text: str) -> int:
    """Return how many bytes a text has as UTF-8; 0 if UTF-8 cannot encode it."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


class Names:
    """The names under one exchange, which routes by topic.

    Routing keys are `agent.ID` for one agent, `all` for a broadcast, `reply.PROCESS` for the answer
    to a request, `processes` for a notice to every process; an observer binds `#`. In an id
    these are escaped: dots, stars and hashes, which have a meaning in a topic; line ends, which
    RabbitMQ drops; and percent signs. A hash replaces a name that is too long.
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
                "the exchange (exchange=, --exchange) must be 1 to 100 letters, digits and "
                f"_ . : -, not starting with amq., got {exchange!r}"
            )
        self.exchange = exchange
        self.dead: str = f"{exchange}.dead"
        self.dead_letters: str = f"{exchange}.dead-letters"

    @staticmethod
    @lru_cache(maxsize=10_000)
    def key(kind: str, id: str) -> str:
        """Return the routing key of an `agent`, or of the `reply` to a process."""
        name = f"{kind}.{_SPECIAL.sub(lambda match: f'%{ord(match[0]):02X}', id)}"
        if len(name.encode()) <= _LONGEST:
            return name
        # No other id has this name: "%~" is not an escape, and a hash has no percent sign.
        return f"{kind}.%~{hashlib.sha256(id.encode()).hexdigest()}"

    def queue(self, kind: str, id: str) -> str:
        """Return the queue of an `agent`, its `claim`, a process's `reply` or `observer`."""
        return self.key(f"{self.exchange}.{kind}", id)
