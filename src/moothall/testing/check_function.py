"""What a durable function does is the same each time: checked by running it twice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from moothall import DurableFunction, Journal, RunMismatch, RunWaiting

if TYPE_CHECKING:
    from moothall.journal import Wait

R = TypeVar("R")


async def check_durable(
    desk: DurableFunction[..., R],
    *args: Any,
    answer: Callable[[Wait], Any] | None = None,
    **kwargs: Any,
) -> R:
    """Run a durable function, and once more with the recorded results; return what it returned.

    It finds `random`, `time` and `uuid` outside of steps, and an order that chance decides, as far
    as they change a step, its arguments or the value returned. It is run in a journal of its own;
    its steps are called once.

    Args:
        desk: the durable function
        *args: its arguments; `**kwargs` likewise
        answer: returns what comes of each wait; without it, the check ends where the run waits.
            Moments come at once

    Raises:
        AssertionError: the second run differs; the text names the step and the line
        RunWaiting: it waits, and there is no `answer`
    """
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "runs.db") as journal:
        checked, run_id = desk.on(journal), "first"
        while True:
            waiting: RunWaiting | None = None
            try:
                value = await checked.run(run_id, *args, **kwargs)
            except RunWaiting as error:
                waiting = error
            last = [each.sequence for each in journal.entries(run_id) if each.kind != "over"][-1]
            again_id = journal.fork(run_id, upto=last)
            try:
                second_value = await checked.run(again_id, *args, **kwargs)
            except RunMismatch as error:
                raise AssertionError(f"run again, {desk.id!r} differs: {error.detail}") from error
            except RunWaiting as error:
                if waiting is None:
                    raise AssertionError(f"run again, {desk.id!r} waits: {error}") from error
            else:
                if waiting is not None:
                    raise AssertionError(f"run again, {desk.id!r} does not wait") from waiting
                if second_value != value:
                    raise AssertionError(
                        f"run again, {desk.id!r} returns {second_value!r:.200} in the place of "
                        f"{value!r:.200}: what changes must come of a step"
                    )
                return value
            if answer is None:
                raise waiting
            for wait in journal.waiting(run_id):
                is_moment = wait.kind == "moment"
                journal.answer(wait.run, wait.key, None if is_moment else answer(wait))
