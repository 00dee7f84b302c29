"""What is said of a message that is sent: mailboxes hand it on, and each router acts on it.

A user cannot add it, so this test adds it to a copy of the package. Over a broker it takes
`spaces/amqp/amqp_router.py`, too.
"""

from __future__ import annotations

from tests.extending.conftest import Added

TAKEN = (
    ("    delay: float\n", "    expires: float | None\n"),
    ("        at: datetime | None = None,\n", "        expires: float | None = None,\n"),
    ("delay=seconds_until(delay, at) if is_delayed else 0.0", ", expires=expires"),
)
ACTED_ON = (
    (
        "        on_end: Callable[[], None] | None = None,\n",
        "        expires: float | None = None,\n",
    ),
    (
        "            self.call_soon(self._route_later, envelope, mailbox, delay)\n"
        "            return\n",
        "        if expires is not None:\n"
        "            self.call_soon(self.post_until, Delivery(envelope, kind), expires)\n"
        "            return\n",
    ),
    (
        "        self.thread.call_soon(self._on_dropped, delivery)\n",
        "\n    def post_until(self, delivery: Delivery, expires: float) -> None:\n"
        "        self.post(delivery)\n"
        "        self.loop.call_later(expires, self.drop_late, delivery)\n\n"
        "    def drop_late(self, delivery: Delivery) -> None:\n"
        "        if delivery.state == QUEUED:\n"
        "            delivery.mailbox.forget(delivery)\n"
        "            delivery.state, delivery.answered = FINISHED, True\n",
    ),
)
USES = """
import asyncio
import threading
from moothall import Agent, NativeSpace, action

class Slow(Agent):
    concurrency = 1

    def __init__(self) -> None:
        super().__init__("slow")
        self.seen = []
        self.begun, self.goes_on = threading.Event(), asyncio.Event()

    @action
    async def take(self, number: int) -> None:
        self.seen.append(number)
        self.begun.set()
        await self.goes_on.wait()

class Clock(Agent):
    @action
    async def wait(self) -> None:
        await asyncio.sleep(0.2)

with NativeSpace() as space:
    slow, sender = space.add(Slow()), space.add(Agent("sender"))
    space.add(Clock("clock"))

    def send(number: int, **options: float) -> None:
        message = {"to": "slow", "action": {"name": "take", "args": {"number": number}}}
        sender.send(message, **options)

    send(1)
    assert slow.begun.wait(10)
    send(2, expires=0.05)
    send(3, expires=60.0)
    sender.ask("clock", "wait").result()
    space.loop.call_soon_threadsafe(slow.goes_on.set)
    space.idle()
    assert slow.seen == [1, 3], slow.seen
"""


def test_send_option_added_where_it_is_taken_and_acted_on_holds_in_a_process(added: Added) -> None:
    run = added({"agents/messaging.py": TAKEN, "spaces/router.py": ACTED_ON})
    run("-c", USES)
