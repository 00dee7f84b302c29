"""Steering of a run under way: what the user says meanwhile, and who cancels its task."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from moothall.agents.replies.reply import Stop

COUNTS_CANCELLATIONS: Final = sys.version_info >= (3, 13)
"""Whether `Task.cancelling` counts those alone that somebody else has asked for."""


class Steering:
    """What the user tells a run, in whose task it is made, and the cancellations of that task."""

    def __init__(self) -> None:
        # Our own cancellations of the task are undone with `uncancel`, as asyncio.timeout does.
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._count_before = task.cancelling()  # before this run: not about it, unless on its way
        self._cancel_count = 0
        self.in_turn: bool = False
        self.pending_texts: list[str] = []  # what the run has not heard yet
        self.woken: asyncio.Event | None = None  # set once it hears something while it only waits

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that the run is on."""
        return self._task.get_loop()

    def interrupt(self, text: str) -> None:
        """Stop the current turn and continue with this text. Call it on the run's own loop."""
        self.pending_texts.append(text)
        if self.woken is not None:
            self.woken.set()
        # In the run's own task, an action interrupts its own run: do not cancel it.
        if self.in_turn and asyncio.current_task() is not self._task:
            self._cancel_count += 1
            self._task.cancel()

    def undo_cancellations(self) -> bool:
        """Undo our own cancellations; return whether there were any, and none from outside."""
        count, self._cancel_count = self._cancel_count, 0
        for _ in range(count):
            self._task.uncancel()
        return count > 0 and not self.is_cancelled()

    def is_cancelled(self) -> bool:
        """Return whether somebody else has cancelled the run, even if an action swallowed it."""
        return self._task.cancelling() > self._count_before + self._cancel_count

    def was_swallowed(self) -> bool:
        """Return whether a turn has swallowed a cancellation of the run.

        Before Python 3.13, a TaskGroup that fails leaves one of its own behind, and nobody can tell
        them apart: there the run goes on.
        """
        if self._task.cancelling() <= self._count_before + self._cancel_count:
            return False
        self._count_before = self._task.cancelling() - self._cancel_count
        return COUNTS_CANCELLATIONS

    def is_cut_off(self, error: BaseException) -> bool:
        """Return whether an error that came out of a turn's calls cut the run off with them."""
        if isinstance(error, Exception):
            return isinstance(error, Stop) and error.leaves_open
        return self.is_cancelled() or not self._cancel_count

    def take_texts(self) -> list[str]:
        """Undo our own cancellations; return what the run did not hear."""
        self.undo_cancellations()
        texts, self.pending_texts = self.pending_texts, []
        return texts
