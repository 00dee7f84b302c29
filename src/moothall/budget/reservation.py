"""Reservations of a budget, and the ledger, which alone changes a tree's accounts."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, TypeVar, Unpack

from moothall.budget.account import (
    COUNT_ATTRIBUTES,
    Account,
    Accounts,
    OtherPeriod,
    add_committed,
    commit_or_refuse,
    pause_seconds,
    refuse_if_closed,
    remaining_amounts,
    start_seconds,
)
from moothall.budget.amounts import (
    KINDS,
    MEASURED_KINDS,
    NO_AMOUNTS,
    Amounts,
    amount_text,
    checked_amounts,
)
from moothall.budget.bill import add_to_bill
from moothall.budget.limits import KIND_BY_NAME, RESERVABLE, AmountFields, AmountsOrNone
from moothall.foundation.errors import BudgetExceeded, DefinitionError
from moothall.foundation.text import log_failure
from moothall.foundation.threads import WaitingLine, guard, in_child

logger: logging.Logger = logging.getLogger("moothall.budget")

T = TypeVar("T")

CALLERS_HOLDS: ContextVar[tuple[weakref.ref[Hold], ...]] = ContextVar("moothall_held", default=())
"""What this task and its callers have reserved, and some of what has ended."""


class Ledger:
    """Changes the accounts of a budget and all its descendants, under one lock."""

    __slots__ = (
        "__weakref__",
        "_lock",
        "_utc_now",
        "has_periods",
        "holds",
        "on_low",
        "open_count",
        "waiting_line",
    )
    recheck_s: ClassVar[float | None] = None
    """Seconds after which a reservation that waits looks at the limits again; None: never."""

    def __init__(self, title: str, utc_now: Callable[[], float]) -> None:
        self._utc_now = utc_now  # seconds since 1970
        self.has_periods: bool = False  # whether an account may be renewed
        self._lock = guard()
        self.open_count: list[int] = [0]  # of reservations; a list, which outlives this object
        self.holds: dict[int, weakref.ref[Hold]] = {}
        self.on_low: Callable[[str, str, float], object] | None = None
        self.waiting_line: WaitingLine = WaitingLine()  # for what open reservations hold
        weakref.finalize(self, _warn_if_open, title, self.open_count)
        in_child(self._forget_open)

    def _forget_open(self) -> None:
        # What the parent has reserved counts as spent in a child, which never sees it settled.
        self.holds.clear()
        self.open_count[0] = 0

    def open_account(self, account: Account, parent: Account | None, name: str | None) -> Account:
        """Return the account to be used for a new budget of this tree."""
        if account.per is not None:
            self.has_periods = True
        return account

    def change(
        self, accounts: Accounts, apply: Callable[[], T], undo: Callable[[], object] | None = None
    ) -> T:
        """Change accounts with `apply`; `undo` reverts it if it cannot be stored."""
        with self._lock:
            if self.has_periods:
                self._renew(accounts)
            return apply()

    def refresh(self, accounts: Accounts) -> None:
        """Bring accounts up to date."""
        if self.has_periods:
            with self._lock:
                self._renew(accounts)

    def _renew(self, accounts: Accounts) -> None:
        now = self._utc_now()
        for account in accounts:
            account.renew(now)

    def reserve(
        self, accounts: Accounts, minimums: Amounts, now: float, rest_kinds: tuple[int, ...] = ()
    ) -> Reservation:
        """Reserve from all accounts or none; `rest_kinds`: those of which to take all."""
        amounts, terms = minimums, None

        def take_amounts() -> None:
            nonlocal amounts, terms
            if rest_kinds:
                amounts = tuple(
                    max(available, minimums[kind], 1)
                    if kind in rest_kinds and available is not None
                    else minimums[kind]
                    for kind, available in enumerate(remaining_amounts(accounts))
                )
            commit_or_refuse(accounts, amounts, now)
            if self.has_periods:
                terms = tuple(account.booking_term for account in accounts)

        self.change(accounts, take_amounts, lambda: add_committed(accounts, amounts, -1))
        return Reservation(Hold(self, accounts, amounts, terms, amounts))

    def settle(self, hold: Hold, spent: Amounts) -> None:
        """End a reservation."""
        closed_limits, low_limits = self.change(hold.accounts, partial(end_hold, hold, spent))
        self.waiting_line.wake_first()
        # Without the lock: `on_low=` is the user's, and may ask this budget.
        for account, kind in low_limits:
            self._report_low(account, kind)
        for account, kind in closed_limits:
            logger.warning(
                "%s: %s were spent where %s had been reserved; no further calls start",
                account.title,
                amount_text(kind, spent[kind]),
                RESERVABLE[kind].digits(hold.amounts[kind]),
            )

    def _report_low(self, account: Account, kind: int) -> None:
        spent, limit = account.spent[kind], account.limits[kind] or 1
        share, limit_text = spent / limit, amount_text(kind, limit)
        logger.warning("%s: %.0f %% of its %s are spent", account.title, 100 * share, limit_text)
        if self.on_low is not None:
            try:
                self.on_low(account.title, RESERVABLE[kind].name, share)
            except Exception as error:
                log_failure(logger, f"{account.title}: on_low= failed", error)

    def charge(self, accounts: Accounts, amounts: Amounts, now: float) -> None:
        """Count what another process has spent, then raise if it exceeds a limit."""
        with self._lock:
            if self.has_periods:
                self._renew(accounts)
            # Counted, then refused: it was spent, whatever the limits are.
            start_seconds(accounts, now)
            add_committed(accounts, amounts)
            for account in accounts:
                for kind in KINDS:
                    account.spent[kind] += amounts[kind]
            for account in accounts:
                refuse_if_closed(account, now)
                for kind, limit in enumerate(account.limits):
                    if limit is not None and amounts[kind] and account.committed[kind] > limit:
                        raise BudgetExceeded(
                            f"{account.title}: {amount_text(kind, account.committed[kind])} of "
                            f"{RESERVABLE[kind].digits(limit)} are spent or reserved, "
                            "with those of another process",
                            RESERVABLE[kind].name,
                        )

    def start(self, accounts: Accounts, now: float) -> None:
        """Start the seconds."""
        self.change(accounts, partial(start_seconds, accounts, now))

    def pause(self, accounts: Accounts, now: float) -> None:
        """Have the seconds stand still until the next reservation or start."""
        self.change(accounts, partial(pause_seconds, accounts, now))

    def check(self, accounts: Accounts, now: float) -> None:
        """Raise if nothing further may begin."""
        self.refresh(accounts)
        for account in accounts:
            refuse_if_closed(account, now)

    def read(self, account: Account) -> tuple[list[int], list[int], list[int]]:
        """Return what is spent, what is spent or reserved, and the overrun, at one moment."""
        self.refresh((account,))
        with self._lock:
            return account.spent.copy(), account.committed.copy(), account.overruns.copy()

    def remaining_amounts(self, accounts: Accounts) -> list[int | None]:
        """Return what may be reserved."""
        self.refresh(accounts)
        with self._lock:
            return remaining_amounts(accounts)

    def load(
        self, account: Account, spent: list[int], seconds: float, overruns: list[int], period: str
    ) -> None:
        """Set what was spent."""
        with self._lock:
            if account.committed != account.spent:
                raise DefinitionError(
                    f"{account.title} cannot take over a state while something is reserved: load "
                    "it before its first use, or once all that it pays for has ended"
                )
            account.committed, account.spent = spent.copy(), spent.copy()
            account.overruns = overruns.copy()
            account.overrun_kind = next(
                (k for k in KINDS if overruns[k] and account.limits[k] is not None), None
            )
            account.earlier_seconds, account.started_at = seconds, None
            account.period, account.last_used_at, account.other_period = period, 0.0, None


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class Hold:
    """What a reservation has taken of its accounts."""

    ledger: Ledger
    accounts: Accounts
    amounts: Amounts
    # The term of each account, in which alone it counts; None where no account is renewed.
    terms: tuple[str, ...] | None
    spent: Amounts  # as much as was reserved, until it is settled
    is_open: bool = True
    waiting_count: int = 0  # how many reservations inside of it wait in turn

    def accounts_and_periods(self) -> tuple[Accounts, list[OtherPeriod]]:
        """Return the accounts in which it counts, and what they have aside of its period."""
        if self.terms is None:
            return self.accounts, []
        accounts, other_periods = [], []
        for account, term in zip(self.accounts, self.terms, strict=True):
            other = account.other_period
            is_in_other = other is not None and account.booking_term_of(other.period) == term
            if other is not None and is_in_other:
                other_periods.append(other)
            # What was reserved ahead of the clock counts in the present, too.
            if account.booking_term == term or (
                other and is_in_other and other.period > account.period
            ):
                accounts.append(account)
        return tuple(accounts), other_periods

    def __repr__(self) -> str:
        parts = ", ".join(
            amount_text(kind, amount) for kind, amount in enumerate(self.amounts) if amount
        )
        return f"<Reservation of {parts or 'nothing'}{'' if self.is_open else ', ended'}>"


if TYPE_CHECKING:
    _AmountAttributes = AmountFields[int, float]
else:
    _AmountAttributes = object


class Reservation(_AmountAttributes):
    """Amounts that a spender has reserved.

    It ends by `settle` or `release`, or as a context manager, which settles in full on exit unless
    it was settled or released before. If the object is dropped, its amounts stay reserved; the
    number of such reservations is logged when the budget ends.

    Its attributes, such as `tokens` and `usd`, say what it holds.
    """

    __slots__ = ("__weakref__", "_amounts", "hold")

    def __init__(self, hold: Hold) -> None:
        self.hold: Hold = hold
        self._amounts = hold.amounts
        add_to_bill(hold)
        ledger = hold.ledger
        ledger.open_count[0] += 1
        # Weak: a dropped reservation is never settled, so that nobody may wait for it.
        ledger.holds[id(hold)] = ref = weakref.ref(hold)
        # Never reset: it may end in another task. Those that have ended go at the next one.
        CALLERS_HOLDS.set(
            (*(r for r in CALLERS_HOLDS.get() if (each := r()) and each.is_open), ref)
        )

    def __getattr__(self, name: str) -> Any:
        if (kind := KIND_BY_NAME.get(name)) is None:
            raise AttributeError(f"a reservation has no {name!r}")
        return RESERVABLE[kind].in_units(self._amounts[kind])

    @property
    def open(self) -> bool:
        """Whether it was not yet settled or released."""
        return self.hold.is_open

    def settle(self, **spent: Unpack[AmountsOrNone]) -> None:
        """Replace the reservation by what was spent; default: as much as was reserved.

        An overrun is counted, appears in `Budget.over`, and closes each of its budgets with a limit
        of that kind: an estimate that was no upper bound cannot be relied on.

        Args:
            tokens: how many tokens; None for as many as were reserved
            usd: how many US dollars, likewise

        Raises:
            DefinitionError: it was settled or released before, or an amount is wrong; it stays open
        """
        actual: Mapping[str, object] = spent
        if None in actual.values():
            actual = {name: amount for name, amount in actual.items() if amount is not None}
        amounts = checked_amounts(Reservation.settle, actual, self._amounts, MEASURED_KINDS)
        self.hold.ledger.settle(self.hold, amounts)

    def release(self) -> None:
        """Return everything to the budget, because the call was never begun.

        Raises:
            DefinitionError: it was settled or released before
        """
        self.hold.ledger.settle(self.hold, NO_AMOUNTS)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        if self.hold.is_open:
            self.settle()

    def __reduce__(self) -> NoReturn:
        raise DefinitionError(f"{self!r} cannot be copied: it would be given back twice")

    def __repr__(self) -> str:
        return repr(self.hold)


def callers_holds(ledger: Ledger) -> list[Hold]:
    """Return what this task and its callers have reserved of a ledger."""
    holds = [ref() for ref in CALLERS_HOLDS.get()]
    return [each for each in holds if each and each.is_open and each.ledger is ledger]


AccountKinds: TypeAlias = list[tuple[Account, int]]
"""Accounts, each with a kind of what they limit."""


def end_hold(hold: Hold, spent: Amounts) -> tuple[AccountKinds, AccountKinds]:
    """Count what a reservation spent; return the accounts that it closes, and that get low."""
    if not hold.is_open:
        raise DefinitionError(
            f"{hold!r} was settled or released before, and each is so once: reserve anew"
        )
    hold.is_open = False
    hold.spent = spent
    hold.ledger.open_count[0] -= 1
    hold.ledger.holds.pop(id(hold), None)
    closed_limits: AccountKinds = []
    low_limits: AccountKinds = []
    accounts, other_periods = hold.accounts_and_periods() if hold.terms else (hold.accounts, [])
    for kind in KINDS:
        excess = spent[kind] - hold.amounts[kind]
        if not spent[kind] and not excess:
            continue
        for other in other_periods:
            for name, amount in zip(
                COUNT_ATTRIBUTES, (excess, spent[kind], max(excess, 0)), strict=True
            ):
                other.counts[name][kind] += amount
        for account in accounts:
            account.spent[kind] += spent[kind]
            account.committed[kind] += excess
            if account.becomes_low(kind):
                low_limits.append((account, kind))
            if excess > 0:
                account.overruns[kind] += excess
                if account.limits[kind] is not None:
                    account.overrun_kind = (
                        kind if account.overrun_kind is None else account.overrun_kind
                    )
                    closed_limits.append((account, kind))
    return closed_limits, low_limits


def _warn_if_open(title: str, open_count: list[int]) -> None:
    if open_count[0] > 0:
        logger.warning(
            "%s: %d reservations were neither settled nor released", title, open_count[0]
        )
