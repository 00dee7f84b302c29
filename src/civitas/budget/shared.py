"""The account book of a budget that several processes share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from civitas.budget.amounts import KINDS, Amounts
from civitas.budget.ledger import Account, Ledger
from civitas.budget.reservation import Reservation
from civitas.errors import BudgetExceeded, CivitasError, DefinitionError

__all__ = ["Books", "SharedLedger"]

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

    Args:
        account: the root's
        books: where it is kept
        name: its name there
        now: the budget's clock
    """

    __slots__ = ("_account", "_begun", "_books", "_name", "_now", "_working")

    def __init__(self, account: Account, books: Books, name: str, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._begun: float | None = None
        self._account = account
        self._books = books
        self._name = name
        self._working = False  # on the account as it was just read
        self._look()

    def take(self, accounts: tuple[Account, ...], amounts: Amounts, now: float) -> None:
        """Reserve in all the accounts, or in none.

        Raises:
            JournalError: the books cannot be written; nothing was reserved
        """
        take = super().take

        def work() -> Amounts:
            take(accounts, amounts, now)
            return amounts

        self._reserve(accounts, work)

    def take_rest(
        self,
        accounts: tuple[Account, ...],
        least: Amounts,
        wanted: tuple[bool, bool],
        now: float,
    ) -> Amounts:
        """Reserve all that is left of tokens and money, where wanted, and at least so much.

        Raises:
            JournalError: the books cannot be written; nothing was reserved
        """
        rest = super().take_rest
        return self._reserve(accounts, lambda: rest(accounts, least, wanted, now))

    def settle(self, reservation: Reservation, spent: Amounts) -> None:
        """End a reservation. If the books cannot be written, it counts there as it was reserved."""
        settle = super().settle
        self._always(lambda: settle(reservation, spent))

    def start(self, accounts: tuple[Account, ...], now: float) -> None:
        """Have the seconds begin."""
        start = super().start
        self._change(lambda: start(accounts, now))

    def check(self, accounts: tuple[Account, ...], now: float) -> None:
        """Raise if nothing may begin."""
        self._look()
        super().check(accounts, now)

    def read(self, account: Account) -> tuple[list[int], list[int], list[int]]:
        """What was spent, what was spent or reserved, and what was too much, all of one moment."""
        with self._lock:
            self._look()
            return super().read(account)

    def left(self, accounts: tuple[Account, ...]) -> list[int | None]:
        """What may be reserved."""
        with self._lock:
            self._look()
            return super().left(accounts)

    def load(
        self, account: Account, spent: list[int], seconds: float, over: tuple[int, int]
    ) -> None:
        """Set what was spent, of a child's."""
        if account is self._account:
            raise DefinitionError(
                f"{account.title} is shared: what was spent of it stands in its journal"
            )
        super().load(account, spent, seconds, over)

    def _count_lost(self) -> None:
        self._always(super()._count_lost)

    # -- the books ---------------------------------------------------------------------------------

    def _reserve(self, accounts: tuple[Account, ...], work: Callable[[], Amounts]) -> Amounts:
        taken: list[Amounts] = []

        def reserve() -> Amounts:
            taken.append(work())
            return taken[0]

        try:
            return self._change(reserve)
        except BudgetExceeded:
            raise
        except CivitasError:
            # Of the root's account the books tell the next time; the children's are only here.
            for account in accounts if taken else ():
                for kind in KINDS:
                    account.taken[kind] -= taken[0][kind]
            raise

    def _always(self, work: Callable[[], object]) -> None:
        """Do what has happened already, whether or not it can be written down."""
        done = []

        def once() -> None:
            done.append(True)
            work()

        try:
            self._change(once)
        except DefinitionError:
            raise
        except CivitasError as error:
            logger.error("%s: what was spent cannot be written: %s", self._account.title, error)
            if not done:
                work()

    def _change(self, work: Callable[[], T]) -> T:
        """Do something with the root's account as it is in the books, and write it back."""
        found: list[T] = []

        def change(state: dict[str, Any] | None) -> dict[str, Any]:
            self._put(state)
            self._working = True
            try:
                found.append(work())
            finally:
                self._working = False
            return self._get()

        with self._lock:
            if self._working:
                return work()  # it is read already, and will be written
            self._books.change_account(self._name, change)
        return found[0]

    def _look(self) -> None:
        with self._lock:
            if not self._working:
                self._put(self._books.account(self._name))

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
            # The system's clock is what processes have in common.
            passed = None if begun is None else max(time.time() - float(begun), 0.0)
            account.begun = None if passed is None else self._now() - passed
            self._begun = begun
        except (KeyError, TypeError, ValueError) as error:
            raise DefinitionError(
                f"{account.title} is not in its journal as it was written: {error}"
            ) from error

    def _get(self) -> dict[str, Any]:
        account = self._account
        if self._begun is None and account.begun is not None:
            self._begun = time.time()
        state: dict[str, Any] = {name: getattr(account, name) for name in _COUNTS}
        return {**state, "fault": account.fault, "begun": self._begun}
