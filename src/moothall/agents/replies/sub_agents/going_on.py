"""How a run goes on that was begun before, whoever has it do so: unless it has to wait first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from moothall.agents.replies.reply import Reply
from moothall.agents.replies.sub_agents.away import until_up
from moothall.foundation.errors import JournalError
from moothall.journal.stop_reason import FINAL_REASONS

if TYPE_CHECKING:
    from moothall.journal import Journal

logger: logging.Logger = logging.getLogger("moothall.agents")
_SUSPECT_DEATHS: Final = 2
"""After so many deaths a run is resumed while no other such run has just begun."""
_SUSPECT_S: Final = 10.0
"""Seconds after which a suspect that lives holds up the next one no more."""
_LOCKS: Final[WeakKeyDictionary[Any, asyncio.Lock]] = WeakKeyDictionary()
"""By event loop, the lock of the suspect that has just begun."""
_IS_OF_SUSPECT: Final[ContextVar[bool]] = ContextVar("is_of_suspect", default=False)
"""Whether a suspect goes on here: the runs of the agents that it asks are no others."""


async def go_on(
    agent: Any, journal: Journal, run_id: str, work: Callable[[], Awaitable[Reply]]
) -> Reply:
    """Go on with a run of an agent by `work`, once the agents are up that it may call.

    If one of these does not come, it waits in its journal. If its process has ended each time that
    it went on, it waits there for its operator.
    """
    waits = journal.waits
    if names := await until_up(agent, partial(waits.note_away, run_id)):
        text = await asyncio.to_thread(waits.note_away, run_id, names)
        return Reply("", None, stop_reason="waiting", detail=text, run_id=run_id)
    async with bounded_resumption(journal, run_id, agent.deaths) as resumption:
        if resumption.may_begin:
            reply = await work()
            resumption.is_over = reply.stop_reason in FINAL_REASONS
            return reply
    open_waits = await asyncio.to_thread(journal.waiting, run_id)
    text = "; ".join(f"waiting for {each}" for each in open_waits)
    return Reply("", None, stop_reason="in_doubt", detail=text, run_id=run_id)


@dataclass(slots=True)
class Resumption:
    """A run that is resumed: whether it may go on, and whether it is over then."""

    may_begin: bool = False
    is_over: bool = False


@asynccontextmanager
async def bounded_resumption(
    journal: Journal, run_id: str, most: int | None
) -> AsyncIterator[Resumption]:
    """Note for a `with` block that a run is resumed, if that was not deadly too often."""
    waits = journal.waits
    lock: asyncio.Lock | None = None
    is_suspect = await asyncio.to_thread(waits.deaths, run_id) >= _SUSPECT_DEATHS
    is_of_suspect = _IS_OF_SUSPECT.get()
    if is_suspect and not is_of_suspect:
        lock = _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        await lock.acquire()  # the death of one must not count for the others
    is_locked = lock is not None

    def release() -> None:
        nonlocal is_locked
        if is_locked and lock is not None:
            is_locked = False
            lock.release()

    timer = asyncio.get_running_loop().call_later(_SUSPECT_S, release)
    _IS_OF_SUSPECT.set(is_of_suspect or is_locked)
    resumption = Resumption()
    try:
        resumption.may_begin = await asyncio.to_thread(waits.begins_again, run_id, most)
        if not resumption.may_begin:
            logger.error("run %r does not go on: its process has ended each time", run_id)
        yield resumption
    finally:
        _IS_OF_SUSPECT.set(is_of_suspect)
        timer.cancel()
        release()
        # Of one that is over nothing is counted, and its caller is told at once.
        if resumption.may_begin and not resumption.is_over:
            with suppress(JournalError):
                waits.has_lived(run_id)
