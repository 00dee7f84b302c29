"""A RabbitMQ of one's own: a private node on loopback, that can be broken and mended.

    with Broker(settings={"consumer_timeout": 60000}) as broker:
        connect("127.0.0.1", broker.port, broker.user, broker.password, broker.vhost)
        broker.kill()
        broker.start()

Nothing of it is shared with a RabbitMQ that the machine runs besides: it has its own ports, node
name, cookie and data, all in a temporary folder. It does without Erlang's port mapper (epmd), a
daemon that would outlive it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.kept import KeptServer, listens
from benchmarks.ports import free_port

PATHS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")


class BrokerError(RuntimeError):
    """The node did not do what it was told; the message has the end of its log, or its answer."""


class Member(NamedTuple):
    """Which node of a cluster a node is: each has a loopback address of its own, 127.0.0.`number`.

    Without epmd, all nodes take the same port for Erlang's distribution.
    """

    number: int
    distribution: int
    cookie: str

    @property
    def address(self) -> str:
        return f"127.0.0.{self.number}"

    @property
    def name(self) -> str:
        return f"moothall-{self.distribution}@{self.address}"


class Certificates(NamedTuple):
    """What the node's TLS listener shows, each as PEM."""

    authority: bytes
    chain: bytes
    key: bytes


class Broker(KeptServer):
    """A node of RabbitMQ; `with` starts it, and leaves nothing behind.

    One thread at a time may start and end it; `ctl` may be called from any.

    Args:
        tls: The certificates of a second listener, on `tls_port`, with TLS.
        settings: Lines of rabbitmq.conf: `{"heartbeat": 2}`.
        member: Which node of a cluster it is; `cluster.py` makes them.
        plugins: What it has besides.
    """

    what, error, start_s = "RabbitMQ", BrokerError, 50.0
    stopping, killing, accounts = signal.SIGTERM, signal.SIGKILL, ("rabbitmq",)
    user = "guest"
    password = "guest"
    vhost = "/"

    def __init__(
        self,
        tls: Certificates | None = None,
        settings: Mapping[str, object] | None = None,
        member: Member | None = None,
        plugins: tuple[str, ...] = (),
    ) -> None:
        self.tls_port = free_port() if tls else None
        self._programs = programs()
        self._parts = tls, settings or {}, member, plugins
        super().__init__()

    def _write(self) -> tuple[list[str], dict[str, str]]:
        folder = self.folder
        tls, settings, member, plugins = self._parts
        lines: dict[str, object] = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            # By default it stops all publishers where less than 50 MB are free.
            "disk_free_limit.absolute": "1MB",
            # Not a line for each connection.
            "log.console.level": "error",
        }
        cookie = secrets.token_hex(16) if member is None else member.cookie
        files = {
            "enabled_plugins": f"[{','.join(plugins)}].\n".encode(),
            ".erlang.cookie": cookie.encode(),
        }
        if tls:
            files |= {"ca.pem": tls.authority, "chain.pem": tls.chain, "key.pem": tls.key}
            lines |= {
                "listeners.ssl.1": f"127.0.0.1:{self.tls_port}",
                "ssl_options.cacertfile": folder / "ca.pem",
                "ssl_options.certfile": folder / "chain.pem",
                "ssl_options.keyfile": folder / "key.pem",
            }
        lines |= settings
        files["rabbitmq.conf"] = "".join(f"{k} = {v}\n" for k, v in lines.items()).encode()
        for name, content in files.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
        if self._account is not None:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, self._account, self._account)

        name, kind, address = f"moothall-{self.port}@localhost", "-sname", "127.0.0.1"
        distribution = free_port() if member is None else member.distribution
        if member is not None:
            name, kind, address = member.name, "-name", member.address
        self._distribution, self._cookie = distribution, cookie
        self._ctl_flags = f"-start_epmd false -erl_epmd_port {distribution} -dist_listen false"
        environment = {
            "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), *PATHS)),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ERL_CRASH_DUMP_SECONDS": "0",
            "RABBITMQ_NODENAME": name,
            "RABBITMQ_USE_LONGNAME": str(member is not None).lower(),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            # Erlang's schedulers don't spin before they sleep: that takes a third more.
            "RABBITMQ_SCHEDULER_BUSY_WAIT_THRESHOLD": "none",
            # The script then becomes the node, rather than wait for it: one process, one id.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_SERVER_START_ARGS": f"{kind} {name} -erl_epmd_port {distribution}"
            f" -kernel inet_dist_use_interface {{{address.replace('.', ',')}}}",
            # Holds for what the node starts too: every minute it wants to start an epmd.
            "ERL_FLAGS": "-start_epmd false",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        return [str(self._programs / "rabbitmq-server")], environment

    def _is_ready(self) -> bool:
        if self.tls_port is not None and not listens(self.tls_port):
            return False
        return listens(self.port, b"AMQP\x00\x00\x09\x01")

    def ctl(self, *args: str, timeout: float = 60.0) -> str:
        """Run rabbitmqctl on the node: `ctl("list_queues", "name", "messages")`.

        Returns:
            What it writes, without headings.

        Raises:
            BrokerError: It failed; with what it said.
        """
        done = subprocess.run(
            (self._programs / "rabbitmqctl", "--silent", *args),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
            check=False,
            cwd=self.folder,
            env=self._environment | {"ERL_FLAGS": self._ctl_flags},
            user=self._account,
            group=self._account,
            extra_groups=None if self._account is None else [],
        )
        if done.returncode:
            said = (done.stderr + done.stdout).strip()
            raise BrokerError(f"rabbitmqctl {' '.join(args)} ended with {done.returncode}: {said}")
        return done.stdout

    def eval(self, code: str) -> str:
        """Have the node evaluate Erlang: what rabbitmqctl does, without the seconds of its start.

        Returns:
            What the code writes to its output.

        Raises:
            BrokerError: It failed; with what it said.
        """
        program = shutil.which("erl_call", path=self._environment["PATH"]) or "erl_call"
        node = ("-address", f"localhost:{self._distribution}", "-c", self._cookie, "-timeout", "60")
        done = subprocess.run(
            (program, *node, "-fetch_stdout", "-e"),
            input=f"{code}.\n",
            capture_output=True,
            text=True,
            check=False,
        )
        said, marker, _ = done.stdout.rpartition("{ok, ")
        if done.returncode or not marker:
            raise BrokerError(f"the node did not evaluate {code}: {done.stdout}{done.stderr}")
        return said

    def queues(self, key: str = "type") -> dict[str, str]:
        """What the node says of each queue of the virtual host `/`, by the queue's name."""
        each = 'io:format("~s\\t~p~n", [element(4, proplists:get_value(name, Q)), '
        each += f"proplists:get_value({key}, Q)])"
        said = self.eval(f'[{each} || Q <- rabbit_amqqueue:info_all(<<"/">>, [name, {key}])]')
        return {name: value for name, _, value in (x.rpartition("\t") for x in said.splitlines())}

    def add_user(self, name: str, password: str) -> None:
        """Add a user that may do everything in the virtual host `/`."""
        self.eval(
            f'rabbit_auth_backend_internal:add_user(<<"{name}">>, <<"{password}">>, <<"tests">>)'
        )
        self.permit(name, ".*")

    def permit(self, user: str, names: str, vhost: str = "/") -> None:
        """Permit a user to configure, write and read what has such a name in a virtual host."""
        given = ", ".join(f'<<"{each}">>' for each in (user, vhost, names, names, names, "tests"))
        self.eval(f"rabbit_auth_backend_internal:set_permissions({given})")

    def close_connections(self) -> None:
        """Close all connections, as an administrator may."""
        self.eval('rabbit_networking:close_all_connections("a test")')


def programs() -> Path:
    """The folder of RabbitMQ's own scripts.

    Debian's commands are wrappers, which insist on root and on the system's node; the scripts that
    they call are beside them.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *PATHS))
    found = shutil.which("rabbitmq-server", path=path)
    if found is None:
        raise BrokerError("RabbitMQ is not installed; on Debian: apt install rabbitmq-server")
    return Path(found).resolve().parent
