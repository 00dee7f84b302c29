"""A million messages through one agent: `python -m spaces.amqp.million PORT EXCHANGE [INBOX]`.

In a process of its own, so that what the one that tests has beside is not measured with it. It
prints how much memory it had at the least, in each tenth of the million.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from conformance.conftest import message
from moothall import Agent, AMQPOptions, AMQPSpace, action

COUNT = 1_000_000
WAIT_S = 200
BEHIND = 5_000
"""How many may be on their way: below the limit of a mailbox."""


class Counter(Agent):
    """Counts what comes, and tells whoever waits for a number of them."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.count = 0
        self.in_order = True
        self.changed = threading.Condition()

    @action
    async def one(self, number: int) -> None:
        self.in_order = self.in_order and number == self.count
        self.count += 1
        if not self.count % 1000:
            with self.changed:
                self.changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until so many have come."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.count >= count, WAIT_S)


def resident() -> int:
    """How many bytes of memory this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(port: str, exchange: str, inbox: str | None = None) -> None:
    options = AMQPOptions("127.0.0.1", int(port))
    with (
        AMQPSpace(amqp_options=options, exchange=exchange, inbox=inbox) as there,
        AMQPSpace(amqp_options=options, exchange=exchange) as here,
    ):
        counter = there.add(Counter("counter"))
        me = here.add(Agent("me"))
        least = [2**60] * 10
        for number in range(COUNT):
            if not number % 1000:
                counter.wait_for(number - BEHIND)
                part = number * 10 // COUNT
                least[part] = min(least[part], resident())
            me.send(message("counter", "one", number=number))
        counter.wait_for(COUNT)
        print(json.dumps({"in_order": counter.in_order, "count": counter.count, "least": least}))


if __name__ == "__main__":
    main(*sys.argv[1:])
