"""The ledger of a budget that several processes share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from moothall.budget.account import Account, Accounts, Ledger, Reservation, end
from moothall.budget.amounts import KINDS, Amounts
from moothall.errors import DefinitionError, MoothallError

logger: logging.Logger = logging.getLogger("moothall.budget")

T = TypeVar("T")

_COUNTS = ("taken", "spent", "over")


@runtime_checkable
class Books(Protocol):
    """A store of accounts for several processes, such as a `Journal`."""

    def account(self, name: str) -> dict[str, Any] | None:
        """Return an account's current state; None if there is none of that name."""
        ...

    def change_account(
        self, name: str, change: Callable[[dict[str, Any] | None], dict[str, Any]]
    ) -> None:
        """Change an account exclusively. If `change` raises, the account is unchanged."""
        ...


class SharedLedger(Ledger):
    """A ledger that keeps the root's account in books, and its children's in this process.

    Each change reads the account, checks it, and writes it back before it takes effect. What a dead
    process had reserved stays reserved: it may have been spent.
    """

    __slots__ = ("_account", "_begun", "_books", "_name", "_now")

    def __init__(self, account: Account, books: Books, name: str, now: Callable[[], float]) -> None:
        super().__init__(account.title)
        self._account = account
        self._books = books
        self._name = name
        self._now = now
        self._begun: dict[str, Any] | None = None
        self.refresh()

    def change(self, work: Callable[[], T], undo: Callable[[], object] | None = None) -> T:
        """Read the root's account from the books, change accounts, and write it back."""
        found: list[T] = []

        def change(state: dict[str, Any] | None) -> dict[str, Any]:
            # The lock is not held while waiting for the books: their holder may need it to settle.
            with self._lock:
                self._put(state)
                found.append(work())
                return self._get()

        try:
            self._books.change_account(self._name, change)
        except BaseException:
            if found and undo is not None:
                with self._lock:
                    undo()
            raise
        return found[0]

    def charge(self, accounts: Accounts, amounts: Amounts, now: float) -> None:
        """Count another process's spending, except in the root, whose books have it already."""
        super().charge(tuple(a for a in accounts if a is not self._account), amounts, now)

    def refresh(self) -> None:
        """Read the root's account."""
        state = self._books.account(self._name)
        with self._lock:
            self._put(state)

    def settle(self, reservation: Reservation, spent: Amounts) -> None:
        """End a reservation. If the books cannot be written, it stays reserved in them."""
        try:
            super().settle(reservation, spent)
        except DefinitionError:
            raise
        except MoothallError as error:
            logger.error("%s: what was spent cannot be written: %s", self._account.title, error)
            if reservation.open:
                with self._lock:
                    end(reservation, spent)
                self.line.wake_first()

    def load(
        self, account: Account, spent: list[int], seconds: float, over: tuple[int, int]
    ) -> None:
        """Set what a child has spent."""
        if account is self._account:
            raise DefinitionError(
                f"{account.title} is shared: what was spent of it stands in its journal"
            )
        super().load(account, spent, seconds, over)

    # -- the books ---------------------------------------------------------------------------------

    def _put(self, state: dict[str, Any] | None) -> None:
        account = self._account
        if state is None:
            return
        try:
            for name in _COUNTS:
                counts = state[name]
                if len(counts) != len(KINDS) or not all(type(each) is int for each in counts):
                    raise ValueError(f"{name} is {counts!r:.80}")
                setattr(account, name, list(counts))
            fault, begun = state["fault"], state["begun"]
            if fault is not None and fault not in KINDS:
                raise ValueError(f"fault is {fault!r:.80}")
            account.fault = fault
            if begun is not None:
                begun = begun if isinstance(begun, dict) else {"at": begun}  # of an older moothall
                since = self._now() - _passed(begun)
                account.begun = since if account.begun is None else min(since, account.begun)
            self._begun = begun
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DefinitionError(
                f"{account.title} is not in its journal as it was written: {error}"
            ) from error

    def _get(self) -> dict[str, Any]:
        account = self._account
        if self._begun is not None:
            self._begun = {**self._begun, "passed": _passed(self._begun)}
        elif account.begun is not None:
            boot, since = _since_boot()
            self._begun = {"at": time.time(), "boot": boot, "since": since, "passed": 0.0}
        state: dict[str, Any] = {name: getattr(account, name) for name in _COUNTS}
        return {**state, "fault": account.fault, "begun": self._begun}


def _passed(begun: dict[str, Any]) -> float:
    """Return the seconds since a budget began, never fewer than were seen before.

    Processes of one boot share a clock that cannot be set; across boots the system's is used.
    """
    boot, now = _since_boot()
    if boot and begun.get("boot") == boot:
        passed = now - float(begun["since"])
    else:
        passed = time.time() - float(begun["at"])
    return max(passed, float(begun.get("passed", 0.0)))


def _since_boot() -> tuple[str, float]:
    """Return the id of the machine's boot (empty: unknown), and seconds since, with sleep."""
    boot = _boot()
    return boot, time.clock_gettime(time.CLOCK_BOOTTIME) if boot else 0.0


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
