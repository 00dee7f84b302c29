"""Spaces over a real broker, other processes that can be killed, and a look at the dead letters."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from commands import Command
from conformance.conftest import WAIT_S, Kept, Log
from conformance.conftest import log as log
from moothall import AMQPOptions, AMQPSpace
from spaces.amqp.worker import Notes

ROOT = Path(__file__).resolve().parents[3]
MakeSpace = Callable[..., AMQPSpace]

__all__ = ["WAIT_S", "Dead", "Log", "MakeSpace", "Process", "StartProcess", "until"]


def until(condition: Callable[[], Any], timeout: float = WAIT_S) -> Any:
    """Wait until a condition of another process or of the broker holds; gives what it gave.

    Raises:
        AssertionError: it does not hold in `timeout` seconds
    """
    end = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"it did not come to that in {timeout} s")
        threading.Event().wait(0.005)
    return found


@pytest.fixture
def make_space(broker: Broker, exchange: str) -> Iterator[MakeSpace]:
    """Makes spaces of one exchange, each as another process would: with a connection of its own."""
    made: list[AMQPSpace] = []

    def make(**kwargs: Any) -> AMQPSpace:
        given = {
            "amqp_options": AMQPOptions("127.0.0.1", broker.port),
            "exchange": exchange,
            "grace": 0,
            **kwargs,
        }
        made.append(AMQPSpace(**given))
        return made[-1]

    yield make
    for space in made:
        space.close()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    """The network of one of the spaces."""
    with Proxy(broker.port) as proxy:
        yield proxy
        proxy.resume()


@pytest.fixture
def events() -> Kept[str]:
    """What happens to the connection over that network."""
    return Kept()


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """What the workers of all processes write down."""
    return Notes(tmp_path / "notes")


class Process:
    """A process of its own with a space and workers.

    Args:
        options: of its space
        killed: the ids of workers whose process was killed
    """

    def __init__(self, options: dict[str, Any], killed: set[str]) -> None:
        self._ids: set[str] = set()
        self._killed = killed
        self._process = Command(
            json.dumps(options),
            module="spaces.amqp.program",
            cwd=ROOT / "tests",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tell(self, what: str, **given: Any) -> None:
        """Have it do something, without waiting for that."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, given]) + "\n")
        self._process.stdin.flush()

    def heard(self) -> Any:
        """How what it was told before went.

        Raises:
            RuntimeError: what it raised, or that it has ended
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise RuntimeError(f"the process has ended: {self._process.stderr.read()}")
        said = json.loads(line)
        if "type" in said:
            raise RuntimeError(f"{said['type']}: {said['text']}")
        return said["value"]

    def do(self, what: str, **given: Any) -> Any:
        """Have it do something."""
        self.tell(what, **given)
        return self.heard()

    def add(self, id: str, **kwargs: Any) -> None:
        """Have it add a worker; if its process was killed, when the broker has seen that."""

        def added() -> bool:
            try:
                self.do("add", id=id, **kwargs)
            except RuntimeError as error:
                if id not in self._killed or not str(error).startswith("DuplicateAgent"):
                    raise
                return False
            return True

        until(added)
        self._ids.add(id)

    def idle(self, id: str) -> None:
        """Wait until a worker of it has handled everything, and that is written down."""

        def is_idle() -> bool:
            found = self.do("busy", id=id)
            return not found["waiting"] and not found["handling"]

        until(is_idle)
        self.do("busy", id=id)

    def kill(self) -> None:
        """End it as a power cut does."""
        self._process.kill()
        self._over()
        self._killed |= self._ids

    def end(self) -> str:
        """Have the interpreter exit as it is; gives what it wrote to stderr."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._over()

    def _over(self) -> str:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        code = process.wait(WAIT_S)
        said = process.stderr.read()
        for stream in (process.stdin, process.stdout, process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                continue
        return said if code in (0, -9) else f"exit code {code}: {said}"

    @property
    def runs(self) -> bool:
        """Whether it has not been seen to end."""
        return self._process.returncode is None


StartProcess = Callable[..., Process]


@pytest.fixture
def start(broker: Broker, exchange: str, notes: Notes) -> Iterator[StartProcess]:
    """Starts processes of this exchange: `start(inbox=…, says=True)`."""
    started: list[Process] = []
    killed: set[str] = set()

    def begin(**options: Any) -> Process:
        defaults = {"exchange": exchange, "port": broker.port, "notes": str(notes.path)}
        started.append(Process(defaults | options, killed))
        return started[-1]

    yield begin
    for process in started:
        if process.runs:
            process.kill()


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    """Another client of the broker."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        yield connection.channel()


class Dead:
    """The dead letters of an exchange."""

    def __init__(self, channel: BlockingChannel, exchange: str) -> None:
        self._channel = channel
        self._queue = f"{exchange}.dead-letters"

    def next(self, timeout: float = WAIT_S) -> tuple[pika.BasicProperties, bytes]:
        """Wait for one, and take it."""
        found: list[Any] = []

        def take() -> bool:
            found[:] = self._channel.basic_get(self._queue, auto_ack=True)
            return found[0] is not None

        until(take, timeout)
        return found[1], found[2]

    def count(self) -> int:
        """How many there are."""
        found: int = self._channel.queue_declare(self._queue, passive=True).method.message_count
        return found


@pytest.fixture
def dead(channel: BlockingChannel, exchange: str) -> Dead:
    """The dead letters of this test's exchange."""
    return Dead(channel, exchange)


@pytest.fixture
def waiting(channel: BlockingChannel, exchange: str) -> Callable[[str], int]:
    """How many messages wait at the broker for an agent, those not counted that it was brought."""

    def count(id: str) -> int:
        queue = f"{exchange}.agent.{id}"
        found: int = channel.queue_declare(queue, passive=True).method.message_count
        return found

    return count


@pytest.fixture
def unacknowledged(broker: Broker, exchange: str) -> Callable[[], int]:
    """How many messages the agents were brought that the broker keeps."""

    def count() -> int:
        counts = broker.queues("messages_unacknowledged").items()
        return sum(int(count) for name, count in counts if name.startswith(f"{exchange}.agent."))

    return count
