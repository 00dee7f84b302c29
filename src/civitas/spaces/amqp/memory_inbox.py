"""What a process remembers of its messages for as long as it lives."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from civitas.errors import DefinitionError
from civitas.spaces.amqp.inbox import ACCEPTED, ENDED, STARTED, Entry

__all__ = ["MemoryInbox"]


class MemoryInbox:
    """An inbox that ends with its process, and holds a bounded number of ended entries.

    Args:
        limit: of more ended entries than this, those that ended first are forgotten; what has not
            ended is never
    """

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
