"""Budgets: limits that all spenders of a run share, and limits within limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, Unpack

from moothall.budget.account import Account, Accounts
from moothall.budget.amounts import (
    KINDS,
    MEASURED_KINDS,
    PriceList,
    amount_text,
    amounts_json,
    checked_amounts,
    checked_limits,
    left_of,
    read_state,
    spent_of,
)
from moothall.budget.limits import LIMITS, RESERVABLE, Amounts, AmountsOrNone, Left, Limits, Spent
from moothall.budget.period import Per, checked_per, period_start
from moothall.budget.reservation import Ledger, Reservation
from moothall.budget.shared import AccountStore, HasAccountStore, SharedLedger
from moothall.budget.waiting_reservations import reserve_in_turn
from moothall.foundation.arguments import (
    check_boolean,
    check_function,
    names_checked,
    unknown_argument_error,
)
from moothall.foundation.errors import BudgetExceeded, ConfigError, DefinitionError
from moothall.foundation.text import excerpt, shorten
from moothall.foundation.threads import ProcessBound


class Clock(Protocol):
    """A clock. Tests use one that they set."""

    def now(self) -> float:
        """Return seconds since some moment; they never decrease."""
        ...


@names_checked
class Budget(ProcessBound, remedy="make it there, with the same journal= and name= to share it"):
    """What a run may spend, shared by all users of this object, on any thread and event loop.

    Each spender reserves an upper bound before it begins, and settles when it has ended. What does
    not fit is refused with `BudgetExceeded` before it begins. A call that took more than was
    reserved for it is counted in full and closes the budget: nothing more begins.

    `seconds` count from the first `start()` or reservation, in one process: a budget that continues
    in another, by `load_state_dict`, continues with the seconds that were left.

    A limit that is left out, or None, does not limit.

    Args:
        tokens: tokens of all model calls together, prompts and answers
        usd: US dollars, by the prices of the models
        model_calls: how often a model may be asked
        actions: how often an action may be executed
        seconds: how long the run may take
        name: its name in messages
        prices: the prices of the models' tokens, for models that the built-in list lacks or has
            outdated; children have their parent's
        clock: the clock, for tests; for `per=` its seconds count from 1970, UTC
        journal: stores what was spent, for all processes that make a budget of this journal and
            name; each may state its own limits. What a dead process had reserved counts as
            spent, until somebody gives it back
        release_dead: give back, whenever a process makes this budget or a child of it, what
            processes had reserved that have died since. Their last calls may have cost something
            all the same, so more than a limit may be spent
        per: a `Per`, such as "month": the limits are renewed at midnight UTC when the next one
            begins. What was reserved before counts in the period in which it was reserved.
        on_low: called once four fifths of a limit are spent, of this budget or a part of it, which
            the log says too: with what budget it is, the limit's name and the share, as 0.8. Once
            for each limit and period, among all processes that share the budget; in the thread that
            spends

    Raises:
        DefinitionError: a limit is not a number from 0 on, `per` is another word, or there is a
            journal and no name
        JournalError: the journal cannot be read; or later, on a reservation, not written
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        prices: PriceList | None = None,
        clock: Clock | None = None,
        journal: HasAccountStore | AccountStore | None = None,
        release_dead: bool = False,
        per: Per | None = None,
        on_low: Callable[[str, str, float], object] | None = None,
        **limits: Unpack[Limits],
    ) -> None:
        counted_limits, seconds = _checked_limits(Budget, limits, per)
        title = _title(name, "the budget")
        if prices is not None and not callable(getattr(prices, "cost", None)):
            raise ConfigError(
                f"Budget: prices= must be Prices({{name: Price(…)}}), got {excerpt(prices)}"
            )
        if clock is not None and not callable(getattr(clock, "now", None)):
            raise ConfigError(f"Budget: clock= must be a clock, got {excerpt(clock)}")
        self.name = name
        self.prices = prices
        self._now: Callable[[], float] = time.monotonic if clock is None else clock.now
        wall_clock = time.time if clock is None else clock.now
        check_boolean("Budget: release_dead=", release_dead)
        check_function("Budget: on_low=", on_low, "budget", "limit", "share", optional=True)
        if journal is None:
            if release_dead:
                raise DefinitionError("Budget: release_dead= needs a journal=, which has who died")
            self._ledger = Ledger(title, wall_clock)
        elif not isinstance(store := getattr(journal, "budgets", journal), AccountStore):
            raise ConfigError(
                f'Budget: journal= must be a Journal, such as Journal("runs.db"), got '
                f"{excerpt(journal)}"
            )
        elif name is None:
            raise DefinitionError(
                "Budget: with journal= it needs a name=, by which others share it"
            )
        else:
            self._ledger = SharedLedger(title, wall_clock, store, self._now, release_dead)
        self._ledger.on_low = on_low
        account = Account(title, counted_limits, seconds, per=per)
        account = self._ledger.open_account(account, None, name)
        # Its own account first, then its parents', up to the root.
        self.accounts: Accounts = (account,)

    def child(
        self, *, name: str | None = None, per: Per | None = None, **limits: Unpack[Limits]
    ) -> Budget:
        """Return a part of this budget: both its own and this one's limits hold and count.

        Its limits may be above this one's; then this one's are reached first. Its seconds count
        from its own first reservation.

        A child with a name, of a budget that a journal stores, is stored there too: all children
        of that parent and name, in every process, before and after a restart, share what they
        spend. Each may state its own limits.

        Args:
            name: its name in messages, and in the journal of a shared budget
            per: after which period its limits are renewed, as of a budget
            **limits: as of a budget

        Raises:
            DefinitionError: a limit is not a number from 0 on, or `per` is another word
            JournalError: the journal cannot be read
        """
        counted_limits, seconds = _checked_limits(Budget.child, limits, per)
        parent = self.accounts[0].title
        # The same at any depth, so that titles of deep descendants do not grow.
        title = _title(name, parent if parent.startswith("a part of ") else f"a part of {parent}")
        account = Account(title, counted_limits, seconds, per=per)
        account = self._ledger.open_account(account, self.accounts[0], name)
        return self._with_accounts((account, *self.accounts), name)

    def _with_accounts(self, accounts: Accounts, name: str | None) -> Budget:
        """Return a budget of the same tree."""
        budget = Budget.__new__(Budget)
        budget.name = name
        budget.prices = self.prices
        budget._now = self._now
        budget._ledger = self._ledger
        budget.accounts = accounts
        return budget

    def reserve(self, **amounts: Unpack[Amounts]) -> Reservation:
        """Reserve all the amounts, or nothing.

        Raises:
            BudgetExceeded: a limit is too small; the text says which, what is left and what was
                asked for
            DeadlineExceeded: the seconds are over
            DefinitionError: an amount is not a number from 0 on
        """
        counted_amounts = checked_amounts(Budget.reserve, amounts)
        return self._ledger.reserve(self.accounts, counted_amounts, self._now())

    def reserve_rest(self, **minimums: Unpack[AmountsOrNone]) -> Reservation:
        """Reserve all the tokens and money that are left, for a call without an upper bound.

        While the reservation is open, nothing else that needs them begins. Without a limit, the
        amounts given here are reserved. It raises what `reserve` raises.

        Args:
            tokens: the least number of tokens, at least one; None reserves none
            usd: the least amount, more than 0; None reserves none
            **minimums: how many of the others
        """
        amounts = dict(minimums)
        kinds = tuple(
            kind for kind in MEASURED_KINDS if amounts.get(RESERVABLE[kind].name, 0) is not None
        )
        for kind in {*MEASURED_KINDS} - {*kinds}:
            del amounts[RESERVABLE[kind].name]
        counted_amounts = checked_amounts(Budget.reserve_rest, amounts)
        return self._ledger.reserve(self.accounts, counted_amounts, self._now(), kinds)

    async def in_turn(self, reserve: Callable[[], Reservation]) -> Reservation:
        """Reserve; if only others' open reservations prevent it, wait until they settle.

        It does not wait for its own callers, which wait for it, nor for another process.

        Args:
            reserve: calls `reserve` or `reserve_rest` of this budget

        Raises:
            BudgetExceeded: a limit is too small, whatever the others spend
            DeadlineExceeded: the seconds are over
        """
        try:
            return reserve()
        except BudgetExceeded:
            return await reserve_in_turn(self._ledger, reserve, self.remaining_seconds)

    def charge(self, **amounts: Unpack[Amounts]) -> None:
        """Count what a run that continues here has spent in another process.

        It counts in this budget and its ancestors, except in a shared one, which knows it already.
        All of it counts, even beyond the limits.

        Raises:
            BudgetExceeded: a limit is exceeded
            DeadlineExceeded: the seconds are over
            DefinitionError: an amount is not a number from 0 on
        """
        counted_amounts = checked_amounts(Budget.charge, amounts)
        self._ledger.charge(self.accounts, counted_amounts, self._now())

    def single_account_budgets(self) -> list[tuple[Account, Budget]]:
        """Return each account, of this budget and its ancestors, with a budget of it alone."""
        return [(account, self._with_accounts((account,), None)) for account in self.accounts]

    def period_began(self) -> float:
        """Return when its own period began, in seconds since 1970; 0 without `per=`."""
        self._ledger.refresh(self.accounts[:1])
        return period_start(self.accounts[0].period) if self.accounts[0].per else 0.0

    def is_part_of(self, other: Budget) -> bool:
        """Return whether this is `other` or its descendant, so that spending here counts there."""
        account = other.accounts[0]
        return self._ledger is other._ledger and any(map(account.is_same, self.accounts))

    def start(self) -> None:
        """Start the seconds, if they have not started."""
        self._ledger.start(self.accounts, self._now())

    def check(self) -> None:
        """Check that anything at all may begin.

        A used-up limit does not raise here: it refuses only what asks for more of it.

        Raises:
            DeadlineExceeded: the seconds are over
            BudgetExceeded: something took more than was reserved for it
        """
        self._ledger.check(self.accounts, self._now())

    @property
    def spent(self) -> Spent:
        """What was spent, including its children's spending, and the seconds that have passed."""
        account = self.accounts[0]
        spent, _, _ = self._ledger.read(account)
        return spent_of(spent, account.elapsed(self._now()))

    @property
    def reserved(self) -> Spent:
        """What open reservations hold."""
        spent, committed, _ = self._ledger.read(self.accounts[0])
        return spent_of([total - part for total, part in zip(committed, spent, strict=True)])

    @property
    def over(self) -> Spent:
        """How much calls took beyond their reservations; it is part of `spent`."""
        return spent_of(self._ledger.read(self.accounts[0])[2])

    @property
    def left(self) -> Left:
        """What may still be reserved, under its own limits and its parents'."""
        return left_of((*self._ledger.remaining_amounts(self.accounts), self.remaining_seconds()))

    def shares(self) -> dict[str, float]:
        """Return how much of each limit is spent, from 0 to 1: of its own or a parent's, the most.

        What has no limit is left out. It may be above 1, where calls took more than was reserved.
        """
        shares: dict[str, float] = {}
        now = self._now()
        for account in self.accounts:
            spent, _, _ = self._ledger.read(account)
            amounts = (*spent, account.elapsed(now))
            for limit_type, amount, limit in zip(
                LIMITS, amounts, (*account.limits, account.max_seconds), strict=True
            ):
                if limit is not None:
                    share = amount / limit if limit else 1.0
                    shares[limit_type.name] = max(shares.get(limit_type.name, 0.0), share)
        return shares

    @property
    def deadline(self) -> float | None:
        """The `time.monotonic()` value at which the seconds are over; None without a limit.

        It is the earliest of its own and its parents'. For a budget that has not begun, it is the
        deadline if it began now.
        """
        now = self._now()
        remaining = self._seconds_to_deadline(now)
        return None if remaining is None else now + remaining

    def remaining_seconds(self) -> float | None:
        """Return the seconds left, the least of its own and its parents'; None without a limit."""
        remaining = self._seconds_to_deadline(self._now())
        return None if remaining is None else max(remaining, 0.0)

    def _seconds_to_deadline(self, now: float) -> float | None:
        if self._ledger.has_periods:
            self._ledger.refresh(self.accounts)
        return min(
            (
                account.max_seconds - account.elapsed(now)
                for account in self.accounts
                if account.max_seconds is not None
            ),
            default=None,
        )

    def stand_still(self, is_still: bool) -> None:
        """Have the seconds stand still while a person is asked, or go on."""
        now = self._now()
        for account in self.accounts:
            if type(account) is Account:  # processes share the others, and their clocks
                (account.pause_clock if is_still else account.resume_clock)(now)

    def pause(self) -> None:
        """Have the seconds stand still until the next reservation: a run waits in its journal."""
        if any(account.max_seconds is not None for account in self.accounts):
            self._ledger.pause(self.accounts, self._now())

    def state_dict(self) -> dict[str, Any]:
        """Return what was spent, as JSON data; what is reserved counts as spent.

        Parents and children have separate states.
        """
        account = self.accounts[0]
        _, committed, overruns = self._ledger.read(account)
        return {
            **amounts_json(committed, KINDS),
            "seconds": account.elapsed(self._now()),
            "over": amounts_json(overruns, MEASURED_KINDS),
            **({"period": account.period} if account.per else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from another budget's state, with this one's limits.

        What this one had spent is forgotten; the seconds stand still until the next reservation.

        Raises:
            DefinitionError: `state` is not such a state, or something is reserved
        """
        self._ledger.load(self.accounts[0], *read_state(state))

    def __str__(self) -> str:
        return self.accounts[0].title

    def __repr__(self) -> str:
        account = self.accounts[0]
        spent, _, _ = self._ledger.read(account)
        parts = [
            f"{RESERVABLE[kind].digits(spent[kind])} of {amount_text(kind, limit)}"
            for kind, limit in enumerate(account.limits)
            if limit is not None
        ]
        if account.max_seconds is not None:
            parts.append(f"{account.elapsed(self._now()):.3g} of {account.max_seconds:g} seconds")
        return f"<Budget {self.name or ''!r}: {', '.join(parts) or 'no limits'}>"


def _checked_limits(method: Any, limits: Limits, per: Per | None) -> tuple[Any, Any]:
    if unknown := unknown_argument_error(method, limits, Limits.__annotations__):
        raise unknown
    checked_per(per)
    return checked_limits(limits)


def _title(name: Any, default: str) -> str:
    if name is None:
        return default
    # Of a person's name, joiners and hard spaces are a part; no control characters are.
    if not isinstance(name, str) or not name or any(c < " " or "\x7f" <= c < "\xa0" for c in name):
        raise ConfigError(f"Budget: name= must be a text of one line, got {excerpt(name)}")
    return f"budget {shorten(name)!r}"
