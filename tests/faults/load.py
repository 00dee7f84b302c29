"""What is sent to the worker: requests, and messages whose answers come back as messages."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from itertools import count
from typing import Any

from moothall import Agent, AMQPSpace, RequestError, action
from moothall.spaces.request import Request

WAIT_S = 150
TENTH = 10

ACTIONS = {
    "plain": ("work", "work_in_thread"),
    "idempotent": ("work_idempotent",),
    "detached": ("work_detached",),
}


class Sender(Agent):
    """Hands the answers that come as messages to the load."""

    def __init__(self, load: Load) -> None:
        super().__init__("sender")
        self._load = load

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        """Take an answer."""
        self._load.ended(int(original_message_id or -1), data)

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Take an error."""
        self._load.ended(int(original_message_id or -1), error)


class Load:
    """Keeps messages under way until at least `total` are sent and `enough` is called.

    Under way are `window`, or a tenth of what was sent if that is more: a fault may take long to
    come, and is to hit its share of them.

    Attributes:
        outcomes: for each key, all that came back: the value, or the error's text
        requests: the keys of those that were requests
    """

    def __init__(
        self, space: AMQPSpace, kind: str, sends: bool, total: int, window: int, seed: int
    ) -> None:
        self.outcomes: dict[int, list[Any]] = defaultdict(list)
        self.requests: set[int] = set()
        self.sent = 0
        self._latest = -1  # the key of the latest message that has an outcome
        self._actions = ACTIONS[kind]
        self._requests = 0.5 if sends else 1.0
        self._total = total
        self._random = random.Random(seed)
        self._width = window
        self._window = threading.Semaphore(window)
        self._changed = threading.Condition()
        self._enough = threading.Event()
        self._asked: list[Future[None]] = []
        self._agent = space.add(Sender(self))
        self._loop = asyncio.new_event_loop()
        self._taking = threading.Thread(target=self._loop.run_forever)
        self._taking.start()
        self._sending = threading.Thread(target=self._send)
        self._sending.start()

    @property
    def in_flight(self) -> int:
        return self.sent - len(self.outcomes)

    def reach(self, number: int, in_flight: int = 0) -> None:
        """Wait until so many have an outcome, and so many have none."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: len(self.outcomes) >= number and self.in_flight >= in_flight, WAIT_S
            ), f"{len(self.outcomes)} of {self.sent} ended, not {number}"

    def goes_on(self) -> float:
        """Wait until messages that are sent from now on have outcomes; gives how many seconds."""
        begun = time.monotonic()
        with self._changed:
            after = self.sent
            assert self._changed.wait_for(lambda: self._latest > after, WAIT_S), "it does not go on"
        return time.monotonic() - begun

    def block(self, seconds: float) -> None:
        """Have the worker do nothing else for so long, in the midst of its messages."""
        message = {"to": "worker", "action": {"name": "block", "args": {"seconds": seconds}}}
        self._agent.request(message).result(WAIT_S)

    def enough(self) -> None:
        """Send no more than `total`."""
        self._enough.set()

    def finish(self) -> None:
        """Send no more, and wait until everything has an outcome."""
        self.enough()
        self._sending.join(WAIT_S)
        self.reach(self.sent)

    def join(self) -> None:
        """Wait for its threads: the space is closed, and every request has ended."""
        self._sending.join(WAIT_S)
        for asked in self._asked:
            asked.result(WAIT_S)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._taking.join()
            self._loop.close()

    def ended(self, key: int, outcome: Any) -> None:
        with self._changed:
            self.outcomes[key].append(outcome)
            self._latest = max(self._latest, key)
            self._changed.notify_all()
        self._window.release()

    def _send(self) -> None:
        width = self._width
        for key in count():
            if key >= self._total and self._enough.is_set():
                break
            if not self._window.acquire(timeout=WAIT_S):
                break  # `finish` says what is missing
            if key > TENTH * width:
                width += 1
                self._window.release()
            name = self._random.choice(self._actions)
            message = {"to": "worker", "action": {"name": name, "args": {"key": key}}}
            if self._random.random() < self._requests:
                self.requests.add(key)
                asked = self._agent.request(message, timeout=WAIT_S, wait=True)
                waiting = asyncio.run_coroutine_threadsafe(self._outcome(key, asked), self._loop)
                self._asked.append(waiting)
            else:
                self._agent.send({"id": str(key), **message})
            self.sent = key + 1

    async def _outcome(self, key: int, request: Request) -> None:
        try:
            self.ended(key, await request)
        except RequestError as error:
            self.ended(key, str(error))
