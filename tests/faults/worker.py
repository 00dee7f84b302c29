"""The process that handles the messages, and that is broken: `python -m faults.worker SETTINGS`.

It says `ready` on its standard output, then does what it is told on its standard input, a word a
line; at the end of that it closes its space and ends.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
import threading
from pathlib import Path

from faults.record import Record
from moothall import Agent, AMQPOptions, AMQPSpace, action

ID = "worker"


class Worker(Agent):
    """Writes down that an action begins, and that it ends; between the two is a disk's write."""

    def __init__(self, record: Record) -> None:
        super().__init__(ID)
        self._record = record

    @action
    async def work(self, key: int) -> int:
        """Handle a message on the loop."""
        return self._do(key)

    @action
    def work_in_thread(self, key: int) -> int:
        """Handle a message in a thread."""
        return self._do(key)

    @action(idempotent=True)
    async def work_idempotent(self, key: int) -> int:
        """Handle a message; again, too."""
        return self._do(key)

    @action(detached=True)
    async def work_detached(self, key: int) -> int:
        """Handle a message that the broker has been told to forget."""
        return self._do(key)

    @action(detached=True)
    async def die(self) -> None:
        """End the process, with the message in its inbox and not yet acknowledged."""
        os.kill(os.getpid(), signal.SIGKILL)

    @action
    def block(self, seconds: float) -> None:
        """Hold a thread, as a long computation does."""
        threading.Event().wait(seconds)

    def _do(self, key: int) -> int:
        self._record.began(key)
        self._record.ended(key)
        return -key


def fill_disk(inbox: str) -> None:
    """Have no file of this process grow beyond what its inbox has now."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(inbox + "-wal"), HARD))


def free_disk(_: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (SOFT, HARD))


COMMANDS = {"fill": fill_disk, "free": free_disk}
SOFT, HARD = resource.getrlimit(resource.RLIMIT_FSIZE)


def main() -> None:
    settings = json.loads(sys.argv[1])
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    options = AMQPOptions(settings["hostname"], heartbeat=settings["heartbeat"])
    inbox = settings["inbox"]
    with AMQPSpace(
        amqp_options=options,
        exchange=settings["exchange"],
        inbox=inbox,
        quorum=settings["quorum"],
    ) as space:
        shared = settings.get("shared", False)
        space.add(Worker(Record(Path(settings["record"]))), shared=shared)
        print("ready", flush=True)
        for line in sys.stdin:
            COMMANDS[line.strip()](inbox)
            print("done", flush=True)


if __name__ == "__main__":
    main()
