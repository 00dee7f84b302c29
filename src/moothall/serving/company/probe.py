"""Whether a company's loops and journal answer, for `/health`, `/metrics` and systemd."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moothall import MoothallError
from moothall.build import log_failure

if TYPE_CHECKING:
    from moothall.serving.company.company_space import CompanySpace

logger: logging.Logger = logging.getLogger("moothall.serving.company")

READY_LIMIT_S: Final = 2.0
"""Seconds within which loops and journal answer, if the company is ready."""
LIVE_LIMIT_S: Final = 10.0
"""Seconds that a loop may be held until the company is not live."""
_POLL_S: Final = 0.02


class Probe:
    """Asks the company's loop, its space's loop and its journal.

    What did not answer is not asked again until it has answered, so that nothing piles up.

    Args:
        space: the company's space, whose loops and journal are asked
    """

    def __init__(self, space: CompanySpace) -> None:
        self._space = space
        self._pending_since: dict[Any, float] = {}  # since when each one owes an answer
        self._journal_fault = ""
        self.operator_waits: int = 0  # how many runs wait for who decides how they go on

    @property
    def silent_s(self) -> float:
        """For how many seconds a loop has not answered."""
        now = time.monotonic()
        # A copy: each loop removes its entry in its own thread.
        return max(
            (now - at for each, at in list(self._pending_since.items()) if each != "journal"),
            default=0,
        )

    @property
    def loops_answer(self) -> bool:
        """Whether the loops have answered when they were asked last."""
        return self.silent_s < READY_LIMIT_S

    @property
    def journal_answers(self) -> bool:
        """Whether the journal has answered when it was asked last; true without a journal."""
        since = self._pending_since.get("journal")
        return not self._journal_fault and (
            since is None or time.monotonic() - since < READY_LIMIT_S
        )

    async def ask(self) -> None:
        """Ask all; return once they have answered, after two seconds at the latest."""
        for loop in self._space.loops():
            if loop not in self._pending_since:
                self._pending_since[loop] = time.monotonic()
                with suppress(RuntimeError):  # it has ended
                    loop.call_soon_threadsafe(self._pending_since.pop, loop, None)
        if self._space.journal is not None and "journal" not in self._pending_since:
            self._pending_since["journal"] = time.monotonic()
            asyncio.get_running_loop().run_in_executor(None, self._try_journal)
        while any(  # noqa: ASYNC110 - other threads answer
            time.monotonic() - since < READY_LIMIT_S for since in list(self._pending_since.values())
        ):
            await asyncio.sleep(_POLL_S)

    def _try_journal(self) -> None:
        """Write to the journal, which may be readable only."""
        journal, fault = self._space.journal, ""
        try:
            if journal is not None:
                journal.held_runs.check_writable()
                self.operator_waits = len(journal.waiting(kind="operator"))
        except MoothallError as error:
            fault = str(error)
            if fault != self._journal_fault:
                log_failure(logger, "the company is not ready: its journal does not answer", error)
        finally:
            # In this order: without the entry, `journal_answers` goes by the fault.
            self._journal_fault = fault
            self._pending_since.pop("journal", None)


def notify_systemd(state: str) -> None:
    """Tell systemd a state, such as `READY=1`, if it has started this process to hear it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] in ("/", "@"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.connect("\0" + address[1:] if address[0] == "@" else address)
            connection.sendall(state.encode())


async def keep_watchdog(probe: Probe) -> None:
    """Tell systemd again and again that all loops run, as often as `WatchdogSec=` needs."""
    interval_us = os.environ.get("WATCHDOG_USEC", "")
    if (
        not interval_us.isdecimal()
        or not int(interval_us)
        or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid())
    ):
        return
    while True:
        await probe.ask()
        if probe.loops_answer:
            notify_systemd("WATCHDOG=1")
        await asyncio.sleep(int(interval_us) / 1e6 / 3)
