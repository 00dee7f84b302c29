"""The broker's address, and the names of exchanges, queues and routing keys."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, get_type_hints

from moothall.actions.message import BROADCAST
from moothall.foundation.arguments import check_boolean, check_integer
from moothall.foundation.errors import ConfigError

_BOOLEANS = dict.fromkeys(("1", "true", "yes", "on"), True)
_BOOLEANS |= dict.fromkeys(("0", "false", "no", "off"), False)
_GUEST = "guest"
_PORT = 5672
_TLS_PORT = 5671
_MAX_NAME_BYTES = 255
"""The most bytes of a queue's, exchange's, virtual host's or DNS host's name."""
_MAX_TEXT_BYTES = 4096

_HOST = re.compile(
    r"\[(?P<bracketed>[^\]]*)\](:(?P<port>[0-9]{1,5}))?|(?P<host>[^:]*):(?P<host_port>[0-9]{1,5})"
)
_EXCHANGE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_SPECIAL_CHARS = re.compile(r"[%.*#\r\n]")


def _read_from(variable: str, option_help: str = "") -> dict[str, str]:
    """Return which variable says a field, and the help of its option if commands have one."""
    return {"variable": variable, "help": option_help}


@dataclass(frozen=True)
class AMQPOptions:
    """How to reach a RabbitMQ broker, or a cluster.

    Args:
        hostname: the broker's host name or address; of a cluster those of several nodes, separated
            by commas, each with a `:PORT` of its own or without: `"one,two:5673,[::1]:5674"`. Each
            connection tries them in random order
        port: 1–65535; 5672 if left out, or 5671 with `use_ssl`
        username: the user to log in as; `guest` if left out. Left out beside `cert_file`, the
            client certificate logs in (the broker needs its plugin `rabbitmq_auth_mechanism_ssl`)
        password: not shown by `repr`
        virtual_host: which of the broker's virtual hosts
        use_ssl: whether the connection is encrypted and the broker's certificate verified
        heartbeat: seconds of silence, 1–65535, after which a connection counts as dead: about two
            of these, on either side
        ca_file: a PEM file of the authorities to trust; the system's authorities if left out
        cert_file: a PEM file with the client certificate that the broker wants, and its chain
        key_file: a PEM file with its private key, unencrypted; if left out, it is in `cert_file`

    Attributes:
        paths: the arguments that are paths of files

    Raises:
        ConfigError: an argument is not valid
    """

    paths: ClassVar[tuple[str, ...]] = ("ca_file", "cert_file", "key_file")

    hostname: str = field(default="localhost", metadata=_read_from("AMQP_HOST"))
    port: int | None = field(default=None, metadata=_read_from("AMQP_PORT"))
    username: str | None = field(default=None, metadata=_read_from("AMQP_USERNAME"))
    password: str = field(default=_GUEST, repr=False, metadata=_read_from("AMQP_PASSWORD"))
    virtual_host: str = field(default="/", metadata=_read_from("AMQP_VHOST"))
    use_ssl: bool = field(
        default=False,
        metadata=_read_from("AMQP_USE_SSL", "Encrypt the connection (AMQP_USE_SSL=1)."),
    )
    heartbeat: int = field(default=60, metadata=_read_from("AMQP_HEARTBEAT"))
    ca_file: str | os.PathLike[str] | None = field(
        default=None,
        metadata=_read_from(
            "AMQP_CA_FILE",
            "Authorities that may have issued the broker's certificate (AMQP_CA_FILE).",
        ),
    )
    cert_file: str | os.PathLike[str] | None = field(
        default=None,
        metadata=_read_from(
            "AMQP_CERT_FILE",
            "Client certificate; without AMQP_USERNAME it logs in (AMQP_CERT_FILE).",
        ),
    )
    key_file: str | os.PathLike[str] | None = field(
        default=None,
        metadata=_read_from("AMQP_KEY_FILE", "Private key of --cert-file (AMQP_KEY_FILE)."),
    )

    def __post_init__(self) -> None:
        if self.username is None and self.cert_file is None:
            object.__setattr__(self, "username", _GUEST)
        for name in ("hostname", "username", "password", "virtual_host"):
            value = getattr(self, name)
            if name == "username" and value is None:
                continue
            # AMQP encodes a virtual host's length in one byte.
            max_bytes = _MAX_NAME_BYTES if name == "virtual_host" else _MAX_TEXT_BYTES
            if not isinstance(value, str) or not 0 < _size(value) <= max_bytes:
                got = "" if name == "password" else f", got {value!r:.100}"
                raise ConfigError(
                    f"AMQPOptions: {name}= must be UTF-8 text of 1 to {max_bytes} bytes{got}"
                )
        check_boolean("AMQPOptions: use_ssl=", self.use_ssl)
        if self.port is None:
            object.__setattr__(self, "port", _TLS_PORT if self.use_ssl else _PORT)
        for name in ("port", "heartbeat"):
            check_integer(f"AMQPOptions: {name}=", getattr(self, name), 1, 65535)
        for host, port in _hosts(self):
            if not 0 < _size(host) <= _MAX_NAME_BYTES or not 1 <= port <= 65535:
                raise ConfigError(
                    "AMQPOptions: hostname= must be HOST or HOST:PORT, several separated by "
                    f"commas, each of 1 to {_MAX_NAME_BYTES} bytes, got {self.hostname!r:.100}"
                )
        for name in self.paths:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str | os.PathLike):
                raise ConfigError(f"AMQPOptions: {name}= must be a file's path, got {value!r}")
            if value is not None and not self.use_ssl:
                raise ConfigError(
                    f"AMQPOptions: {name}= needs use_ssl=True (AMQP_USE_SSL, --use-ssl); "
                    "without it nothing is encrypted"
                )
        if self.key_file is not None and self.cert_file is None:
            raise ConfigError("AMQPOptions: key_file= needs cert_file=, the certificate of the key")
        if self.username is None and self.password != _GUEST:
            raise ConfigError(
                "AMQPOptions: password= needs username=; without it the client certificate logs in"
            )

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **arguments: Any
    ) -> AMQPOptions:
        """Read `AMQP_HOST`, `AMQP_PORT`, `AMQP_USERNAME`, `AMQP_PASSWORD`, `AMQP_VHOST`,
        `AMQP_USE_SSL`, `AMQP_HEARTBEAT`, `AMQP_CA_FILE`, `AMQP_CERT_FILE` and `AMQP_KEY_FILE`.

        A variable that is not set, or empty, leaves the default.

        Args:
            environment: the variables; if left out, those of this process
            arguments: arguments that come before the variables

        Raises:
            ConfigError: a variable or an argument is not valid
        """  # noqa: D205 - the list of variables is one sentence
        variables = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        hints = get_type_hints(cls)
        for each in fields(cls):
            variable = each.metadata["variable"]
            value = variables.get(variable)
            if not value or each.name in arguments:
                continue
            values[each.name] = value
            if hints[each.name] in (int, int | None):
                if not (value.isascii() and value.isdigit() and 1 <= int(value[:6]) <= 65535):
                    raise ConfigError(f"{variable} must be 1 to 65535, got {value!r}")
                values[each.name] = int(value)
            elif hints[each.name] is bool:
                if value.lower() not in _BOOLEANS:
                    options = ", ".join(_BOOLEANS)
                    raise ConfigError(f"{variable} must be one of {options}, got {value!r}")
                values[each.name] = _BOOLEANS[value.lower()]
        return cls(**values | arguments)

    @property
    def address(self) -> str:
        """The name of the broker in errors: `localhost:5672`."""
        return ",".join(f"{host}:{port}" for host, port in _hosts(self))


@dataclass(frozen=True)
class BrokerLimits:
    """What a space lets wait in a queue, and for how long, by arguments of `AMQPSpace`."""

    max_messages: int
    max_bytes: int
    message_ttl_s: float
    prefetch: int | None
    prefetch_bytes: int
    max_deliveries: int | None


def node_options(options: AMQPOptions) -> list[AMQPOptions]:
    """Return the options for each host in `hostname`, as for a broker that is alone."""
    return [replace(options, hostname=host, port=port) for host, port in _hosts(options)]


def _hosts(options: AMQPOptions) -> list[tuple[str, int]]:
    """Return the name and the port of each host: `NAME`, `NAME:PORT` or `[ADDRESS]:PORT`."""
    assert options.port is not None
    hosts = []
    for host in options.hostname.split(","):
        match = _HOST.fullmatch(host.strip())
        if match is None:
            hosts.append((host.strip(), options.port))
        else:
            port = match["port"] or match["host_port"]
            name = match["bracketed"] or match["host"]
            hosts.append((name, options.port if port is None else int(port)))
    return hosts


def _size(text: str) -> int:
    """Return how many bytes a text has as UTF-8; 0 if UTF-8 cannot encode it."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


class Names:
    """The names under one exchange, which routes by topic.

    Routing keys are `agent.ID` for one agent, `group.NAME` for a group, `all` for a broadcast,
    `reply.PROCESS` for the answer to a request, `processes` for a notice to every process; an
    observer binds `#`. In an id these are escaped: dots, stars and hashes, which have a meaning in
    a topic; line ends, which RabbitMQ drops; and percent signs. A hash replaces a name that is too
    long.
    """

    all_agents: Final = "all"
    processes: Final = "processes"

    def __init__(self, exchange: str) -> None:
        if (
            not isinstance(exchange, str)
            or not _EXCHANGE.fullmatch(exchange)
            or f"{exchange}.".startswith("amq.")
        ):
            raise ConfigError(
                "the exchange (exchange=, --exchange) must be 1 to 100 letters, digits and "
                f"_ . : -, not amq or starting with amq., got {exchange!r}"
            )
        self.exchange = exchange
        self.dead_exchange: str = f"{exchange}.dead"
        self.dead_queue: str = f"{exchange}.dead-letters"

    def key_to_several(self, to: str) -> str:
        """Return the routing key of a message to a group or to everyone."""
        return self.all_agents if to == BROADCAST else self.key("group", to[1:])

    @staticmethod
    @lru_cache(maxsize=10_000)
    def key(kind: str, id: str) -> str:
        """Return the routing key of an `agent`, or of the `reply` to a process."""
        name = f"{kind}.{_SPECIAL_CHARS.sub(lambda match: f'%{ord(match[0]):02X}', id)}"
        if len(name.encode()) <= _MAX_NAME_BYTES:
            return name
        # No other id has this name: "%~" is not an escape, and a hash has no percent sign.
        return f"{kind}.%~{hashlib.sha256(id.encode()).hexdigest()}"

    def queue(self, kind: str, id: str) -> str:
        """Return the queue of an `agent`, its `claim`, a process's `reply` or `observer`."""
        return self.key(f"{self.exchange}.{kind}", id)
