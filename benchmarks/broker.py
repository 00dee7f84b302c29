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

import contextlib
import json
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from benchmarks.ports import free_port

START_S = 50.0
STOP_S = 30.0
PATHS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
ACCOUNT = "rabbitmq"


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


class Broker:
    """A node of RabbitMQ; `with` starts it, and leaves nothing behind.

    One thread at a time may start and end it; `ctl` may be called from any.

    Args:
        tls: The certificates of a second listener, on `tls_port`, with TLS.
        settings: Lines of rabbitmq.conf: `{"heartbeat": 2}`.
        member: Which node of a cluster it is; `cluster.py` makes them.
        plugins: What it has besides.
    """

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
        self.port = free_port()
        self.tls_port = free_port() if tls else None
        self.pid: int | None = None
        self._programs = programs()
        self._account = account()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._heard = b""
        # Readable by the account that the node runs as, wherever the caller keeps its own files.
        self.folder = Path(tempfile.mkdtemp(prefix="moothall-broker-"))
        try:
            self._environment = self._write(tls, settings or {}, member, plugins)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _write(
        self,
        tls: Certificates | None,
        settings: Mapping[str, object],
        member: Member | None,
        plugins: tuple[str, ...],
    ) -> dict[str, str]:
        """Write the node's files, and give its environment."""
        folder = self.folder
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
        self._ctl_flags = f"-start_epmd false -erl_epmd_port {distribution} -dist_listen false"
        return {
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

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, timeout: float = START_S) -> None:
        """Start the node, again too: with the same ports and data; wait until it takes connections.

        Raises:
            BrokerError: It ended or is not ready in `timeout` seconds; with the end of its log.
        """
        if self.pid is not None:
            raise BrokerError(f"the broker runs already, as process {self.pid}")
        self._order(0)
        deadline = time.monotonic() + timeout
        while self.pid is None:
            self._hear(START_S)
        while not self._is_ready():
            # Hears of the node's end while it waits for the next try.
            self._hear(0.02)
            if self.pid is None:
                raise BrokerError(f"RabbitMQ ended while it started:\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"RabbitMQ was not ready in {timeout:g} s:\n{self.log()}")

    def _is_ready(self) -> bool:
        if self.tls_port is not None and not listens(self.tls_port):
            return False
        return listens(self.port, b"AMQP\x00\x00\x09\x01")

    def stop(self) -> None:
        """End the node as an operator does: it closes connections and writes what it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the node at once, as a power cut does."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the node, and start it with the same ports and data."""
        self.stop()
        self.start()

    def suspend(self) -> None:
        """Have the node do nothing, with its connections open; it can still be killed."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have a suspended node go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the node if it runs, and remove all that it wrote. A second time does nothing."""
        keeper, self._keeper, self.pid = self._keeper, None, None
        if keeper is not None:
            # Not stopped first: nobody will ask for its data again, and it takes a second.
            assert keeper.stdin is not None
            assert keeper.stdout is not None
            keeper.stdin.close()
            keeper.wait()
            keeper.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

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

    def log(self, lines: int = 100) -> str:
        """The last lines of what the node wrote."""
        path = self.folder / "log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if self.pid is not None:
            self._order(number)
            while self.pid is not None and self._hear(STOP_S) != "told":
                pass
        if self.pid is None:
            raise BrokerError(f"the broker does not run:\n{self.log()}")

    def _end(self, number: int) -> None:
        if self.pid is None:
            return
        self._order(number)
        deadline = time.monotonic() + STOP_S
        while self.pid is not None:
            self._hear(1.0)
            if time.monotonic() > deadline and number != signal.SIGKILL:
                self._end(signal.SIGKILL)
                raise BrokerError(f"RabbitMQ did not end in {STOP_S:g} s:\n{self.log()}")

    def _order(self, order: int) -> None:
        """Tell the keeper to start the node (0), or to send it a signal."""
        if self._keeper is None:
            if order or not self.folder.exists():
                raise BrokerError("the broker is not started, or closed")
            setup = {
                "parent": os.getpid(),
                "command": [str(self._programs / "rabbitmq-server")],
                "environment": self._environment,
                "folder": str(self.folder),
                "log": str(self.folder / "log"),
                "user": self._account,
            }
            self._keeper = subprocess.Popen(
                (sys.executable, "-I", Path(__file__).with_name("keeper.py"), json.dumps(setup)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(bytes([order]))

    def _hear(self, timeout: float) -> str | None:
        """Take the keeper's next line if it comes in time, and give its first word."""
        assert self._keeper is not None
        assert self._keeper.stdout is not None
        output = self._keeper.stdout.fileno()
        if b"\n" not in self._heard and select.select((output,), (), (), timeout)[0]:
            read = os.read(output, 4096)
            if not read:
                self.pid = None
                raise BrokerError("the program that keeps RabbitMQ has ended, and RabbitMQ with it")
            self._heard += read
        line, end, rest = self._heard.partition(b"\n")
        if not end:
            return None
        self._heard = rest
        word, _, value = line.decode().partition(" ")
        if word == "started":
            self.pid = int(value)
        elif word == "ended":
            self.pid = None
        return word


def listens(port: int, greeting: bytes = b"") -> bool:
    """Whether something listens on loopback and, given a greeting, answers it."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as link:
        link.sendall(greeting)
        return not greeting or bool(link.recv(1))
    return False


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


def account() -> str | None:
    """Whom to run the node as: root's are run as RabbitMQ's own user, where there is one."""
    if os.geteuid():
        return None
    return ACCOUNT if any(entry.pw_name == ACCOUNT for entry in pwd.getpwall()) else None
