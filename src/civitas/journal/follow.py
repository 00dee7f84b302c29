"""The entries of a run as they come, for whoever looks on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from civitas.journal.entry import Entry, Outline

_OTHERS_S: Final = 0.25
"""How long to wait before looking for what another process has written: SQLite tells nobody."""


class Runs(Protocol):
    """What is read of a journal."""

    def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        """What was recorded of a run."""
        ...

    def run(self, run_id: str) -> Outline:
        """The outline of a run."""
        ...


class Commits(Protocol):
    """What tells that this process has written something."""

    watched: Watched


class Watched:
    """Calls those who look on, whenever something was written."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> None:
        """Call this, in the thread that writes."""
        with self._guard:
            self._callbacks = [*self._callbacks, callback]

    def remove(self, callback: Callable[[], None]) -> None:
        """Call it no more."""
        with self._guard:
            self._callbacks = [each for each in self._callbacks if each is not callback]

    def call(self) -> None:
        """Something was written."""
        for callback in self._callbacks:
            callback()


async def follow(journal: Runs, commits: Commits, run_id: str, after: int) -> AsyncIterator[Entry]:
    """See `Journal.follow`."""
    loop = asyncio.get_running_loop()
    written = asyncio.Event()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(written.set)
        except RuntimeError:
            pass  # the loop has ended, and with it whoever looked on

    commits.watched.add(tell)
    try:
        while True:
            written.clear()
            # Looked at before the entries: what is written between the two is seen the next time.
            now = journal.run(run_id)
            if now.entries > after:
                for entry in journal.entries(run_id, after):
                    after = entry.sequence
                    yield entry
            elif now.state != "running":
                return
            else:
                try:
                    async with asyncio.timeout(_OTHERS_S):
                        await written.wait()
                except TimeoutError:
                    pass
    finally:
        commits.watched.remove(tell)
