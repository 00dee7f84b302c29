"""A fork waits for the calls of a library whose locks a child would inherit locked."""

from __future__ import annotations

import os
import threading
from typing import Final

__all__ = ["FORKS", "ForkGate"]

_LONGEST_S: Final = 1.0
"""A fork waits no longer: in the midst of a call, the thread that forks would wait for itself."""


class ForkGate:
    """Entered by calls of a library that has locks of its own, and left after them.

    A child has a copy of its parent's locks, and none of the threads that would unlock them. A call
    that waits for something else than the library, such as another process, leaves meanwhile.
    """

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._close, after_in_parent=self._open, after_in_child=self._reset
            )

    def _reset(self) -> None:
        self._lock = threading.RLock()  # the collector may come in the midst, and enter it too
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, int] = {}  # how deep, by thread
        self._forking: set[int] = set()

    def enter(self) -> None:
        """Keep every fork waiting from now on, once those under way are done.

        Not those of this thread, whose other hooks may come here before it forks; nor, in a thread
        that is inside already, those that wait for it.
        """
        me = threading.get_ident()
        with self._lock:
            deep = self._inside.get(me, 0)
            while self._forking and not deep and me not in self._forking:
                self._changed.wait(_LONGEST_S)
            self._inside[me] = deep + 1

    def leave(self) -> None:
        """Keep them waiting no longer."""
        me = threading.get_ident()
        with self._lock:
            if self._inside[me] == 1:
                del self._inside[me]
            else:
                self._inside[me] -= 1
            if self._forking:
                self._changed.notify_all()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _close(self) -> None:
        with self._lock:
            self._forking.add(threading.get_ident())
            self._changed.wait_for(lambda: not self._inside, _LONGEST_S)

    def _open(self) -> None:
        with self._lock:
            self._forking.discard(threading.get_ident())
            self._changed.notify_all()


FORKS: Final = ForkGate()
"""What all of civitas's calls of SQLite go through."""
