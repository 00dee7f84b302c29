"""Ends a run beside its program, which may catch all that passes through it.

A step that meets what ends the run does not return. Others go on; once nothing is under way, the
program is cancelled, and each step that is parked with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, Never

from moothall.actions.approval import Later
from moothall.agents.replies.reply import Stop
from moothall.agents.theirs.their_request import THEIR_SCOPE
from moothall.foundation.errors import (
    BudgetExceeded,
    HookError,
    InDoubt,
    JournalError,
    RunMismatch,
    StateError,
)

logger: logging.Logger = logging.getLogger("moothall.agents")

_QUIET_TURNS: Final = 20
"""For so many turns of the event loop nothing must be under way before a program is cancelled."""
_CANCEL_TRIES: Final = 5
"""How often a program is cancelled that catches it."""
_CANCEL_S: Final = 0.2
"""Seconds between two tries."""


class Parking:
    """The steps of a run that are under way, and those that are parked for good."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._active: dict[str, None] = {}  # the keys of the steps under way
        self._parked: dict[asyncio.Future[Never], str] = {}  # each with what its key begins with
        self._changed = asyncio.Event()
        self.stops: list[Stop] = []
        self.is_ending: bool = False

    async def guard(self, key: str, step: Coroutine[Any, Any, Any]) -> Any:
        """Return what a step returns, unless it ends the run: then never."""
        if self.is_ending:
            step.close()
            await self.park(Stop("cancelled", "the run is ending"))
        self._active[key] = None
        try:
            return await step
        except Stop as caught:
            stop = caught
        except BudgetExceeded as error:
            stop = Stop.at_limit(error)
        except HookError as error:
            stop = Stop.on_hook(self._id, error)
        except RunMismatch as error:
            stop = Stop("waiting", str(error), error)
        except InDoubt as error:
            stop = Stop("in_doubt", str(error), error)
        except (JournalError, StateError, Later) as error:
            error_to_show = error.misplaced_error if isinstance(error, Later) else error
            stop = Stop("error", str(error_to_show), error_to_show)
        finally:
            del self._active[key]
            if self.stops:
                self._changed.set()
        return await self.park(stop)

    async def park(self, stop: Stop) -> Never:
        """End the run once nothing else is under way; the program does not go on from here."""
        self.stops.append(stop)
        future: asyncio.Future[Never] = asyncio.get_running_loop().create_future()
        self._parked[future] = THEIR_SCOPE.get().prefix
        self._changed.set()
        try:
            await future
        finally:
            del self._parked[future]
        raise asyncio.CancelledError

    async def wait_for_end(self, program: asyncio.Task[Any]) -> None:
        """Return once the program has ended, or the run stops and nothing else is under way."""
        program.add_done_callback(lambda _: self._changed.set())
        quiet_turns = 0
        while not program.done():
            if self._is_quiet():
                quiet_turns += 1
                if quiet_turns > _QUIET_TURNS:
                    return
                await asyncio.sleep(0)
                continue
            quiet_turns = 0
            self._changed.clear()
            await self._changed.wait()

    def _is_quiet(self) -> bool:
        """Whether the run stops, and each step under way has a parked one inside."""
        prefixes = [*self._parked.values()]
        return bool(self.stops) and all(
            any(prefix.startswith(f"{key}/") for prefix in prefixes) for key in self._active
        )

    async def end(self, program: asyncio.Task[Any]) -> None:
        """Cancel the program, again if it catches that; then leave it alone."""
        self.is_ending = True
        for _ in range(_CANCEL_TRIES):
            program.cancel()
            for future in [*self._parked]:  # a task group above them tells them only once
                future.cancel()
            await asyncio.wait((program,), timeout=_CANCEL_S)
            if program.done():
                return
        logger.error("agent %r: its program goes on though it was cancelled", self._id)
