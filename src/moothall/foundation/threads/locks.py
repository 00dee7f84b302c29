"""Locks that a garbage collection, a signal handler or a fork can meet, and what a child renews.

A collection may close an unfinished coroutine, and a signal handler runs between two instructions
of the main thread: both may need a lock that their own thread holds. So a guard is re-entrant, and
code under one looks at its state again after each call, where such may come in between.

A fork copies one thread. Locks that others held, their replies, files and threads are not in the
child. This module frees the locks there, and then calls what was given to `in_child`: it renews an
object (workers, turns, kept models), or has it refuse further use (spaces, files, engines).
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from inspect import ismethod
from typing import Any, Final, TypeVar, overload
from weakref import WeakSet, ref

L = TypeVar("L")

_LOCKS: Final[WeakSet[Any]] = WeakSet()
_RENEWALS: Final[dict[int, tuple[Callable[[], Any], Callable[..., object]]]] = {}
_NUMBERS: Final = itertools.count()


@overload
def guard() -> threading.RLock: ...


@overload
def guard(lock: L) -> L: ...


def guard(lock: Any = None) -> Any:
    """Return a lock that is free in a forked child; a re-entrant one if none is given.

    Hold a re-entrant one for a few instructions: the thread may get it twice.
    """
    if lock is None:
        return guard(threading.RLock())
    _LOCKS.add(lock)
    return lock


def held_by_forks() -> threading.RLock:
    """Return a lock that a fork waits for: for work that must not be cut in two, made once."""
    lock = guard()
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release)
    return lock


def in_child(renew: Callable[[], object]) -> None:
    """Call a function in each forked child; a method as long as its object lives."""
    number = next(_NUMBERS)
    if ismethod(renew):
        pop = _RENEWALS.pop  # a global is gone when the interpreter exits
        # Weak: the registry must not keep spaces and files alive.
        owner = ref(renew.__self__, lambda _: pop(number, None))
        _RENEWALS[number] = owner, renew.__func__
    else:
        _RENEWALS[number] = (lambda: renew), _call


def _call(function: Callable[[], object]) -> None:
    function()


def _after_fork() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()  # as `threading` and `logging` do with theirs
    for owner, function in list(_RENEWALS.values()):
        owner_now = owner()
        if owner_now is not None:
            function(owner_now)


os.register_at_fork(after_in_child=_after_fork)
