"""Where the broker is, and who asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

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
_LONGER = 4096


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
        ConfigError: one of them is not what it has to be
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
            if not isinstance(value, str) or not value:
                shown = "" if name == "password" else f", not {value!r}"
                raise ConfigError(f"AMQPOptions: {name}= is a text that is not empty{shown}")
            # AMQP gives a virtual host a byte for its length, and DNS a host no more.
            most = _LONGEST if name in ("hostname", "virtual_host") else _LONGER
            if not 0 < _size(value) <= most:
                raise ConfigError(f"AMQPOptions: {name}= is UTF-8 text of at most {most} bytes")
        if self.port is None:
            object.__setattr__(self, "port", _TLS_PORT if self.use_ssl else _PORT)
        for name in ("port", "heartbeat"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= 65535:
                raise ConfigError(f"AMQPOptions: {name}= is 1 to 65535, not {value!r}")
        if type(self.use_ssl) is not bool:
            raise ConfigError(f"AMQPOptions: use_ssl= is True or False, not {self.use_ssl!r}")
        if self.ca_file is not None and not isinstance(self.ca_file, str | os.PathLike):
            raise ConfigError(f"AMQPOptions: ca_file= is a file's path, not {self.ca_file!r}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AMQPOptions:
        """Those of `AMQP_HOST`, `AMQP_PORT`, `AMQP_USERNAME`, `AMQP_PASSWORD` and `AMQP_VHOST`.

        What is not set, or empty, is as it is without.

        Raises:
            ConfigError: `AMQP_PORT` is no port
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
                raise ConfigError(f"AMQP_PORT is 1 to 65535, not {value!r}")
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
