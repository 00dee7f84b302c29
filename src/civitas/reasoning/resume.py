"""Going on with a run: whether it is the same program, what its parts remember and have spent."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import finalize

from civitas.errors import CivitasError, JournalError
from civitas.jsonvalue import Unreadable
from civitas.reasoning.reply import Reply, Stop
from civitas.text import log_failure

if TYPE_CHECKING:
    from civitas.reasoning.read_record import ReadRecord
    from civitas.reasoning.record import Record
    from civitas.reasoning.reply_request import AnswerSchema

logger = logging.getLogger("civitas.reasoning")

_MOST: Final = 10_000
"""Of how many runs an object's marks are kept; those of the oldest are forgotten first."""


class Marks:
    """For objects, such as memories and budgets, how far they are in each run.

    A memory that was told the first five messages of a run, and is told of the run once more, is
    only told those from the sixth on. An object is itself alone, whatever it says it equals; one
    that cannot be referred to weakly has no marks.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._of: dict[int, OrderedDict[str, int]] = {}

    def get(self, of: Any, run: str) -> int:
        """How far an object is in a run; 0 if nothing is known."""
        marks = self._of.get(id(of))
        return 0 if marks is None else marks.get(run, 0)

    def set(self, of: Any, run: str, place: int) -> None:
        """Say how far an object is in a run."""
        marks = self._of.get(id(of))
        if marks is None:
            try:
                finalize(of, self._of.pop, id(of), None)
            except TypeError:
                return
            marks = self._of.setdefault(id(of), OrderedDict())
        with self._guard:
            marks[run] = place
            marks.move_to_end(run)
            if len(marks) > _MOST:
                marks.popitem(last=False)


R = TypeVar("R", bound=Reply)

ENDED = frozenset(
    ("done", "terminal", "terminated", "max_loops", "max_iterations", "no_progress", "unreadable")
)
"""The reasons for which a run is over. After any other, it goes on when it is called again."""


def ended(record: ReadRecord[Any]) -> bool:
    """Whether a run is over for good."""
    return record.over is not None and record.over["reason"] in ENDED


def value_at_end(over: dict[str, Any], schema: AnswerSchema | None) -> Any:
    """The value that a run ended with, as the type that is asked for."""
    if schema is not None and over["reason"] == "done":
        with suppress(Unreadable):  # a terminal action gave it, or something else was asked for
            return schema.read(over["text"])
    return over["value"]


async def guarded(
    record: Record[Any],
    run: Callable[[], Awaitable[R]],
    over: Callable[[R], Mapping[str, Any]],
    stopped: Callable[[Stop], R],
) -> R:
    """Run to the end and write down why it ended, whatever ends it.

    Args:
        record: where
        run: does it
        over: what is recorded of the end, beside the reason
        stopped: the reply of a run that is stopped here
    """
    try:
        reply = await run()
        await record.end(reply.stop_reason, **over(reply))
    except JournalError as error:
        log_failure(logger, f"run {record.run_id!r} stops", error)
        return stopped(Stop("error", str(error), error))
    except BaseException as error:
        if record.over is None:  # else it had ended, and only its end was still to be written
            cut_off = Stop("cancelled", f"{type(error).__name__}: {error}")
            record.note_end("cancelled", **over(stopped(cut_off)))
        try:
            if isinstance(error, Exception | asyncio.CancelledError):
                await record.commit()
            else:
                record.commit_now()  # nothing can be awaited any more
        except CivitasError as lost:  # the memory's too: what stopped the run goes on
            logger.error("run %r: its end is not kept: %s", record.run_id, lost)
        raise
    return reply


def overlap(known: list[Any], messages: list[Any]) -> int:
    """How many of a run's messages a memory has that cannot be asked: those at its end."""
    for count in range(len(messages), 0, -1):
        shared = min(count, len(known))
        if shared and known[-shared:] == messages[count - shared : count]:
            return count
    return 0
