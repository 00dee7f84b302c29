"""How a reply that is held waits for its work in the background, and its run with that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall.actions.approval import Later
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.agents.agent import CURRENT
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.step import StepForm

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.step import StepHandle
    from moothall.journal.store.wait_rows import WorkerRow

LOOK_S: Final = 1.0
"""Seconds between two looks whether another process has ended its work."""
_WAIT: Final = "work."
_MAY_END: Final = StepForm(anew=True)


@asynccontextmanager
async def turn_left() -> AsyncIterator[None]:
    """Leave the turn of the reply's thread in a `with` block: other replies have it meanwhile."""
    replying, handling = ENCLOSING_REPLIES.get()[-1], CURRENT.get()
    if not replying.has_turn:
        yield
        return
    lock = replying.turn_lock
    replying.has_turn = False
    lock.end()
    if handling is not None:
        handling.leave_lane()
    yield  # cancelled, it is not taken again
    await lock.take()
    lock.handling, replying.has_turn = handling, True


async def until_any(tasks: Collection[asyncio.Task[Any]], woken: asyncio.Event) -> None:
    """Wait until one of these tasks has ended, or there is something to hear."""
    waking = asyncio.ensure_future(woken.wait())
    try:
        timeout = None if tasks else LOOK_S
        await asyncio.wait({*tasks, waking}, timeout=timeout, return_when="FIRST_COMPLETED")
    finally:
        waking.cancel()


async def wait_with(
    record: Record[Any], rows: Collection[WorkerRow], under_way: Collection[str]
) -> None:
    """Have a run wait with its work that waits, and with no other; raise Stop if it does.

    Whoever waits for the run is told what that work waits for. `under_way` are the ids of what
    waits or goes on.
    """
    waiting = {f"{_WAIT}{row.id}": row for row in rows}
    open_keys = {each.key for each in record.past(_WAIT) if each.state != "ended"}
    ended_keys = open_keys - {f"{_WAIT}{id}" for id in under_way}
    stops: list[str] = []
    for key in {*waiting, *ended_keys}:
        try:
            call = partial(_wait_for, waiting.get(key))
            await record.perform(key, call, _MAY_END, None, False, {})
        except Stop as stop:
            stops.append(stop.detail)
    if stops:
        raise Stop("waiting", "; ".join(sorted(stops)))


async def _wait_for(row: WorkerRow | None, step: StepHandle) -> None:
    if row is not None and await step.find_outcome(row.id) is None:
        await step.wait(row.id, "result", Later(text=f"{row.action}, in the background"))


def answers_before(record: Record[Any] | None) -> dict[int, str]:
    """Return what a reply that is held has answered before it went on, by the turn."""
    past = () if record is None else record.past(_ANSWER)
    return {int(each.key.removeprefix(_ANSWER)): str(each.result) for each in past}


_ANSWER: Final = "answer."


async def keep_answer(record: Record[Any] | None, turn: int, text: str) -> None:
    """Record what a reply has answered that goes on."""

    async def answer(step: StepHandle) -> str:
        return text

    if record is not None:
        await record.once(f"{_ANSWER}{turn}", answer)
