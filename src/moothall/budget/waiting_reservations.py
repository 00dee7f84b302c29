"""Reservations that wait: as long as only other open reservations prevent them."""

from __future__ import annotations

from collections.abc import Callable

from moothall.budget.account import Accounts
from moothall.budget.amounts import Amounts
from moothall.budget.reservation import Ledger, Reservation, callers_holds
from moothall.foundation.errors import BudgetExceeded


async def reserve_in_turn(
    ledger: Ledger,
    reserve: Callable[[], Reservation],
    remaining_seconds: Callable[[], float | None],
) -> Reservation:
    """Reserve when the ledger has room; after `remaining_seconds()` `reserve` raises."""
    own_holds = callers_holds(ledger)

    def try_reserve(is_first_in_line: bool) -> tuple[Reservation | None, float | None]:
        try:
            return reserve(), None
        except BudgetExceeded as error:
            if error.needs is None or not _may_fit(ledger, *error.needs):
                raise
            timeouts = (remaining_seconds(), ledger.recheck_s if is_first_in_line else None)
            return None, min((each for each in timeouts if each is not None), default=None)

    # Before the first look: two that wait for each other's amounts see that neither gives way.
    for each in own_holds:
        each.waiting_count += 1
    if own_holds:
        ledger.waiting_line.wake_first()  # it may wait for one of these, not to settle now
    try:
        return await ledger.waiting_line.wait(try_reserve)
    finally:
        # Also if it was cancelled: a settlement has perhaps woken this one alone.
        for each in own_holds:
            each.waiting_count -= 1
        ledger.waiting_line.wake_first()


def _may_fit(ledger: Ledger, accounts: Accounts, amounts: Amounts) -> bool:
    """Return whether it fits if all others, except waiting ones, spend nothing."""
    # A copy: reservations of other threads begin and end meanwhile.
    holds = [ref() for ref in tuple(ledger.holds.values())]
    competing_holds = [each for each in holds if each and not each.waiting_count]
    for account in accounts:
        competing_amounts = [
            each.amounts
            for each in competing_holds
            if any(
                account.is_same(other_account) for other_account in each.accounts_and_periods()[0]
            )
        ]
        for kind, limit in enumerate(account.limits):
            least_used = (
                account.committed[kind]
                + amounts[kind]
                - sum(each[kind] for each in competing_amounts)
            )
            if limit is not None and amounts[kind] and least_used > limit:
                return False
    return True
