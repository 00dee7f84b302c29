"""The ledger of a budget that several processes share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from civitas.budget.account import Account, Accounts, Ledger, Reservation, end
from civitas.budget.amounts import KINDS, Amounts
from civitas.errors import CivitasError, DefinitionError

logger = logging.getLogger("civitas.budget")

T = TypeVar("T")

_COUNTS = ("taken", "spent", "over")


@runtime_checkable
class Books(Protocol):
    """Where accounts are kept for several processes, such as a `Journal`."""

    def account(self, name: str) -> dict[str, Any] | None:
        """An account as it is now; None if there is none of that name."""
        ...

    def change_account(
        self, name: str, change: Callable[[dict[str, Any] | None], dict[str, Any]]
    ) -> None:
        """Change an account while nobody else can. What `change` raises leaves it as it was."""
        ...


class SharedLedger(Ledger):
    """Accounts of which the root's is kept in books, and its children's in this process.

    Each change reads the account, checks it, and writes it back before anyone relies on it. What a
    process that died had reserved stays reserved: it may have been spent.
    """

    __slots__ = ("_account", "_begun", "_books", "_name", "_now")

    def __init__(self, account: Account, books: Books, name: str, now: Callable[[], float]) -> None:
        super().__init__(account.title)
        self._account = account
        self._books = books
        self._name = name
        self._now = now
        self._begun: dict[str, Any] | None = None
        self.look()

    def change(self, work: Callable[[], T], undo: Callable[[], object] | None = None) -> T:
        """Do something with accounts, the root's as it is in the books, and write that back."""
        found: list[T] = []

        def change(state: dict[str, Any] | None) -> dict[str, Any]:
            # Not held while the books are waited for, which whoever has them may settle in.
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
        """Count what was spent elsewhere, where that is not known from the books."""
        super().charge(tuple(a for a in accounts if a is not self._account), amounts, now)

    def look(self) -> None:
        """Read the root's account."""
        state = self._books.account(self._name)
        with self._lock:
            self._put(state)

    def settle(self, reservation: Reservation, spent: Amounts) -> None:
        """End a reservation. If the books cannot be written, it stays reserved there."""
        try:
            super().settle(reservation, spent)
        except DefinitionError:
            raise
        except CivitasError as error:
            logger.error("%s: what was spent cannot be written: %s", self._account.title, error)
            if reservation.open:
                with self._lock:
                    end(reservation, spent)
                self.wake_first()

    def load(
        self, account: Account, spent: list[int], seconds: float, over: tuple[int, int]
    ) -> None:
        """Set what was spent, of a child's."""
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
                begun = begun if isinstance(begun, dict) else {"at": begun}  # of an older civitas
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
    """Seconds since a budget began, never less than were seen before.

    Processes of one boot have a clock in common that nobody sets; others have the system's.
    """
    boot, now = _since_boot()
    if boot and begun.get("boot") == boot:
        passed = now - float(begun["since"])
    else:
        passed = time.time() - float(begun["at"])
    return max(passed, float(begun.get("passed", 0.0)))


def _since_boot() -> tuple[str, float]:
    """Which boot of the machine this is (empty: unknown), and the seconds since, asleep too."""
    boot = _boot()
    return boot, time.clock_gettime(time.CLOCK_BOOTTIME) if boot else 0.0


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
