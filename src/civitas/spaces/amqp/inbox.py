"""What is remembered of a message that a space received; what remembers it, here in memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, Protocol

from civitas.errors import DefinitionError

ACCEPTED: Final = 0
"""It is kept here, and acknowledged; it has not begun."""

STARTED: Final = 1
"""It was begun. If nobody is at it, nobody knows how far it came: it is in doubt."""

ENDED: Final = 2
"""It was handled."""


class Entry(NamedTuple):
    """What an inbox knows of a message.

    Attributes:
        key: the message's key, unique among senders
        state: `ACCEPTED`, `STARTED` or `ENDED`
        message: the message, where it was accepted (and so acknowledged) before it ran, until it
            ends
        answer: what is sent again when an ended one comes again; None: nothing
    """

    key: str
    state: Literal[0, 1, 2]
    message: bytes | None
    answer: bytes | None


class Inbox(Protocol):
    """What a space remembers of the messages to its agents.

    Its methods are called on one thread at a time, the space's loop. A message to several agents is
    remembered for each of them. What has ended stays ended.
    """

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""

    def look_up(self, key: str, agent: str) -> Entry | None:
        """What is known of a message to an agent; None: it never came."""

    def accept(self, key: str, agent: str, message: bytes) -> None:
        """Keep a message that is to be acknowledged before it runs, as of the return.

        One that was started keeps that state; of one accepted before, the first message is kept.
        """

    def permit(self, key: str, agent: str, message: bytes) -> None:
        """Keep a message that was approved in place of the one accepted before."""

    def start(self, started: Iterable[tuple[str, str]]) -> None:
        """Record that messages begin to run: pairs of key and agent, as of the return.

        The ends that wait are written with it, in one transaction.
        """

    def end(self, key: str, agent: str, answer: bytes | None) -> None:
        """Record that a message was handled: seen at once, written with what is next written."""

    def flush(self) -> None:
        """Write the ends that wait."""

    def answered(self, key: str, agent: str) -> None:
        """Forget that the answer of an accepted message is to be sent: it is with the broker.

        Written with what is next written.
        """

    def unfinished(self, agent: str) -> list[Entry]:
        """What was accepted for an agent and has not ended, or whose answer is not `answered`.

        In the order accepted. The broker will not bring these again.
        """

    def forget(self, older_than: float, at_most: int = 10_000) -> int:
        """Remove entries that ended that many seconds ago or more, those that came first first."""

    def close(self) -> None:
        """Write the ends that wait, and let go of the file. Again: nothing."""


class MemoryInbox:
    """An inbox that ends with its process, and holds a bounded number of ended entries."""

    durable: Final = False

    def __init__(self, limit: int = 100_000) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise DefinitionError(f"limit= is a number of entries, 0 or more, not {limit!r}")
        self._limit = limit
        self._open: dict[tuple[str, str], Entry] = {}
        # A plain dict takes the longer to find its first entry, the more were removed before it.
        self._ended: OrderedDict[tuple[str, str], tuple[bytes | None, float]] = OrderedDict()

    def look_up(self, key: str, agent: str) -> Entry | None:
        """See `Inbox.look_up`."""
        pair = (key, agent)
        ended = self._ended.get(pair)
        if ended is not None:
            return Entry(key, ENDED, None, ended[0])
        return self._open.get(pair)

    def accept(self, key: str, agent: str, message: bytes) -> None:
        """See `Inbox.accept`."""
        pair = (key, agent)
        if pair in self._ended:
            return
        entry = self._open.get(pair)
        if entry is None:
            self._open[pair] = Entry(key, ACCEPTED, message, None)
        elif entry.message is None:
            self._open[pair] = entry._replace(message=message)

    def permit(self, key: str, agent: str, message: bytes) -> None:
        """See `Inbox.permit`."""
        entry = self._open.get((key, agent), Entry(key, ACCEPTED, None, None))
        if entry.state == ACCEPTED and (key, agent) not in self._ended:
            self._open[key, agent] = entry._replace(message=message)

    def start(self, started: Iterable[tuple[str, str]]) -> None:
        """See `Inbox.start`."""
        for pair in started:
            if pair in self._ended:
                continue
            entry = self._open.get(pair)
            message = None if entry is None else entry.message
            self._open[pair] = Entry(pair[0], STARTED, message, None)

    def end(self, key: str, agent: str, answer: bytes | None) -> None:
        """See `Inbox.end`."""
        pair = (key, agent)
        self._open.pop(pair, None)
        self._ended[pair] = (answer, time.monotonic())
        self._ended.move_to_end(pair)
        if len(self._ended) > self._limit:
            self._ended.popitem(last=False)

    def answered(self, key: str, agent: str) -> None:
        """Nothing: what it holds ends with those who wait for the answer."""

    def flush(self) -> None:
        """Nothing: all is where it stays."""

    def unfinished(self, agent: str) -> list[Entry]:
        """See `Inbox.unfinished`."""
        return [
            entry
            for (_, whose), entry in self._open.items()
            if whose == agent and entry.message is not None
        ]

    def forget(self, older_than: float, at_most: int = 10_000) -> int:
        """See `Inbox.forget`."""
        last = time.monotonic() - older_than
        count = 0
        while count < at_most and self._ended:
            if next(iter(self._ended.values()))[1] > last:
                break
            self._ended.popitem(last=False)
            count += 1
        return count

    def close(self) -> None:
        """Forget everything."""
        self._open.clear()
        self._ended.clear()
