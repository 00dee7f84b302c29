"""The account book of budgets: what each allows, what was promised, and what was spent."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from civitas.budget.amounts import KINDS, LIMITS, TOKENS, UNITS, USD, Amounts, said
from civitas.errors import BudgetExceeded, DeadlineExceeded, DefinitionError

if TYPE_CHECKING:
    from civitas.budget.reservation import Reservation

__all__ = ["Account", "Ledger"]

logger = logging.getLogger("civitas.budget")


class Account:
    """What one budget allows and what went out of it. Only its ledger changes it."""

    __slots__ = (
        "before",
        "begun",
        "fault",
        "limits",
        "over",
        "seconds",
        "spent",
        "taken",
        "title",
    )

    def __init__(
        self, title: str, limits: tuple[int | None, ...], seconds: float | None = None
    ) -> None:
        self.title = title
        self.limits = limits
        self.seconds = seconds
        self.taken = [0, 0, 0, 0]  # spent or reserved
        self.spent = [0, 0, 0, 0]
        self.over = [0, 0, 0, 0]
        self.fault: int | None = None  # the kind of which more was spent than reserved
        self.begun: float | None = None
        self.before = 0.0  # seconds that were spent elsewhere

    def elapsed(self, now: float) -> float:
        """Seconds that have passed."""
        begun = self.begun
        return self.before if begun is None else self.before + max(now - begun, 0.0)


class Ledger:
    """The accounts of a budget, of its children and of theirs, changed under one lock.

    What knows how to check and change accounts all at once is here and nowhere else: accounts that
    several processes share need another ledger, and no other budget.
    """

    __slots__ = ("_lock", "lost")

    def __init__(self) -> None:
        # Held for a few instructions, never while waiting. The collector may run meanwhile, and end
        # a generator of this thread that settles in its turn; so it may be entered again, each
        # single addition is whole, and what is reserved is added before it is checked.
        self._lock = threading.RLock()
        self.lost: deque[tuple[tuple[Account, ...], Amounts]] = deque()

    def take(self, accounts: tuple[Account, ...], amounts: Amounts, now: float) -> None:
        """Reserve in all the accounts, or in none."""
        if self.lost:
            self._count_lost()
        with self._lock:
            _take(accounts, amounts, now)

    def take_rest(
        self,
        accounts: tuple[Account, ...],
        least: Amounts,
        wanted: tuple[bool, bool],
        now: float,
    ) -> Amounts:
        """Reserve all that is left of tokens and money, where wanted, and at least so much."""
        if self.lost:
            self._count_lost()
        with self._lock:
            left = self._left(accounts)
            tokens, pico = (
                max(rest, least[kind], 1)
                if wanted[kind] and (rest := left[kind]) is not None
                else least[kind]
                for kind in (TOKENS, USD)
            )
            amounts = tokens, pico, least[2], least[3]
            _take(accounts, amounts, now)
        return amounts

    def settle(self, reservation: Reservation, spent: Amounts) -> None:
        """End a reservation."""
        over: list[tuple[Account, int]] = []
        with self._lock:
            if not reservation._open:
                raise DefinitionError("this reservation was settled or released before")
            reservation._open = False
            reserved = reservation._amounts
            accounts = reservation._accounts
            for kind in KINDS:
                amount = spent[kind]
                beyond = amount - reserved[kind]
                if amount:
                    for account in accounts:
                        account.spent[kind] += amount
                if beyond:
                    for account in accounts:
                        account.taken[kind] += beyond
                    if beyond > 0:
                        over += _close(accounts, kind, beyond)
        for account, kind in over:
            logger.warning(
                "%s: %s %s were spent where %s had been reserved; nothing more is begun",
                account.title,
                said(kind, spent[kind]),
                UNITS[kind],
                said(kind, reserved[kind]),
            )

    def start(self, accounts: tuple[Account, ...], now: float) -> None:
        """Have the seconds begin."""
        with self._lock:
            for account in accounts:
                if account.begun is None:
                    account.begun = now

    def check(self, accounts: tuple[Account, ...], now: float) -> None:
        """Raise if nothing may begin."""
        for account in accounts:
            _refuse_if_closed(account, now)

    def read(self, account: Account) -> tuple[list[int], list[int], list[int]]:
        """What was spent, what was spent or reserved, and what was too much, all of one moment."""
        if self.lost:
            self._count_lost()
        with self._lock:
            return account.spent.copy(), account.taken.copy(), account.over.copy()

    def left(self, accounts: tuple[Account, ...]) -> list[int | None]:
        """What may be reserved."""
        with self._lock:
            return self._left(accounts)

    def load(
        self, account: Account, spent: list[int], seconds: float, over: tuple[int, int]
    ) -> None:
        """Set what was spent."""
        if self.lost:
            self._count_lost()
        with self._lock:
            if account.taken != account.spent:
                raise DefinitionError(
                    f"{account.title} cannot take over a state while something is reserved"
                )
            account.taken, account.spent = spent.copy(), spent.copy()
            account.over = [*over, 0, 0]
            account.fault = next(
                (k for k in (TOKENS, USD) if over[k] and account.limits[k] is not None), None
            )
            account.before, account.begun = seconds, None

    def _left(self, accounts: tuple[Account, ...]) -> list[int | None]:
        rest: list[int | None] = [None, None, None, None]
        for account in accounts:
            for kind, limit in enumerate(account.limits):
                if limit is not None:
                    here = max(limit - account.taken[kind], 0)
                    so_far = rest[kind]
                    rest[kind] = here if so_far is None else min(here, so_far)
        return rest

    def _count_lost(self) -> None:
        while True:
            try:
                accounts, amounts = self.lost.popleft()
            except IndexError:
                return
            with self._lock:
                for account in accounts:
                    for kind in KINDS:
                        account.spent[kind] += amounts[kind]
            logger.warning(
                "%s: a reservation was dropped; it counts as spent in full: %s tokens, "
                "%s US dollars, %s model calls, %s actions",
                accounts[0].title,
                *(said(kind, amount) for kind, amount in enumerate(amounts)),
            )


def _take(accounts: tuple[Account, ...], amounts: Amounts, now: float) -> None:
    for account in accounts:
        if account.begun is None:
            account.begun = now
        if account.fault is not None or account.seconds is not None:
            _refuse_if_closed(account, now)
    short: tuple[Account, int] | None = None
    # Added before it is looked at: see `Ledger`.
    for kind in KINDS:
        amount = amounts[kind]
        if amount:
            for account in accounts:
                taken = account.taken
                taken[kind] += amount
                limit = account.limits[kind]
                if limit is not None and taken[kind] > limit and short is None:
                    short = account, kind
    if short is not None:
        for account in accounts:
            for kind in KINDS:
                account.taken[kind] -= amounts[kind]
        raise _refusal(*short, amounts[short[1]])


def _close(accounts: tuple[Account, ...], kind: int, beyond: int) -> list[tuple[Account, int]]:
    """Note that so much more was spent than reserved; those that limit it are closed."""
    closed = []
    for account in accounts:
        account.over[kind] += beyond
        if account.limits[kind] is not None:
            account.fault = kind if account.fault is None else account.fault
            closed.append((account, kind))
    return closed


def _refuse_if_closed(account: Account, now: float) -> None:
    seconds, kind = account.seconds, account.fault
    if seconds is not None and account.elapsed(now) >= seconds:
        raise DeadlineExceeded(f"{account.title}: its {seconds:g} seconds are over")
    if kind is not None:
        raise BudgetExceeded(
            f"{account.title}: {said(kind, account.over[kind])} {UNITS[kind]} more were spent "
            "than had been reserved, so nothing more is begun",
            LIMITS[kind],
        )


def _refusal(account: Account, kind: int, amount: int) -> BudgetExceeded:
    limit, taken, spent = account.limits[kind] or 0, account.taken[kind], account.spent[kind]
    return BudgetExceeded(
        f"{account.title}: {said(kind, amount)} {UNITS[kind]} are needed and "
        f"{said(kind, max(limit - taken, 0))} of {said(kind, limit)} are left "
        f"({said(kind, spent)} spent, {said(kind, taken - spent)} reserved)",
        LIMITS[kind],
    )
