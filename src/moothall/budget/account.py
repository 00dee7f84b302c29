"""Accounts: what a budget allows, what is reserved of it, and what was spent."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

from moothall.budget.amounts import KINDS, NO_AMOUNTS, Amounts, amount_text
from moothall.budget.limits import RESERVABLE
from moothall.budget.period import Per, period_at, renewal_text
from moothall.foundation.errors import BudgetExceeded, DeadlineExceeded

logger: logging.Logger = logging.getLogger("moothall.budget")

_MAX_SKEW_S: Final = 3600.0
"""How far the clocks of hosts may differ that share a budget."""


COUNT_ATTRIBUTES: Final = {"taken": "committed", "spent": "spent", "over": "overruns"}
"""What an account counts, by kind: its attributes, by their names in the books."""


def _zeros() -> list[int]:
    return [*NO_AMOUNTS]


@dataclass(frozen=True, slots=True)
class OtherPeriod:
    """What an account has in another period than that of which it counts.

    Attributes:
        period: the period
        last_used_at: the latest moment at which it was used then, in seconds since 1970
        counts: what it counted, by the names of `COUNT_ATTRIBUTES`
        overrun_kind: the first kind of which more was spent than reserved
    """

    period: str
    last_used_at: float
    counts: dict[str, list[int]]
    overrun_kind: int | None

    def reserved_only(self) -> OtherPeriod:
        """Return what it has reserved alone."""
        total, spent = self.counts["taken"], self.counts["spent"]
        reserved = [a - b for a, b in zip(total, spent, strict=True)]
        return replace(
            self,
            counts={name: _zeros() for name in COUNT_ATTRIBUTES} | {"taken": reserved},
            overrun_kind=None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it for the books."""
        state = {"period": self.period, "last": self.last_used_at, "counts": self.counts}
        return {**state, "fault": self.overrun_kind}


@dataclass(slots=True, weakref_slot=True, eq=False)
class Account:
    """The limits of one budget, and what was taken from it. Only its ledger changes it."""

    title: str
    limits: tuple[int | None, ...]
    max_seconds: float | None = None
    committed: list[int] = field(default_factory=_zeros)  # what is spent or reserved
    spent: list[int] = field(default_factory=_zeros)
    overruns: list[int] = field(default_factory=_zeros)  # what was spent beyond its reservations
    low_kinds: int = 0  # the kinds of which four fifths are spent, as bits: each is told once
    overrun_kind: int | None = None  # the first kind of which more was spent than reserved
    started_at: float | None = None
    earlier_seconds: float = 0.0  # seconds that were spent in another process
    waiting_call_count: int = 0  # that wait for a person: meanwhile the seconds stand still
    paused_at: float = 0.0
    per: Per | None = None  # after what its limits are renewed
    period: str = ""  # of which it counts; empty: of all time, so far
    last_used_at: float = 0.0  # the latest moment at which it was used in that period
    # What it has in the period before, or in one ahead of the clock.
    other_period: OtherPeriod | None = None
    key: str | None = None  # by which processes share it

    @property
    def booking_term(self) -> str:
        """The term in which a reservation made now counts; it counts in no later one."""
        return self.booking_term_of(self.period)

    def booking_term_of(self, period: str) -> str:
        """Return the term of a period: the period itself, unless an account can be deleted."""
        return period

    def is_same(self, other: Account) -> bool:
        """Return whether an account of the same ledger counts the same."""
        return self is other or (self.key is not None and self.key == other.key)

    def renew(self, now: float) -> None:
        """Turn to the period of a moment, in seconds since 1970."""
        if self.per is None:
            return
        period = period_at(self.per, now)
        if len(period) != len(self.period):
            # What was spent before a period was stated counts in the first.
            self.period, self.last_used_at, self.other_period = period, now, None
        elif period > self.period:
            self._switch_period(period, now)
        elif period == self.period:
            self.last_used_at = max(self.last_used_at, now)
        elif period_at(self.per, now + _MAX_SKEW_S) < self.period:  # else hosts differ a little
            _warn_period_ahead(self.title, self.period, period)
            self._switch_period(period, now)

    def _switch_period(self, period: str, now: float) -> None:
        """Count in another period, and keep aside what this one has: a clock may be wrong.

        A clock that is set back gives nothing away: what was spent ahead of it counts here, too.
        """
        previous, other = self._counted_alone(), self.other_period
        counted_periods: list[OtherPeriod] = []
        if period < self.period:
            if other is not None and other.period >= period:
                counted_periods.append(other)
            counted_periods.append(previous)
        else:
            self.started_at, self.earlier_seconds, self.low_kinds = None, 0.0, 0
            # Who comes to a period earlier than it was used was there by a clock that was wrong.
            if other is not None and other.period == period and now >= other.last_used_at:
                counted_periods.append(other)
        totals = {name: _zeros() for name in COUNT_ATTRIBUTES}
        self.overrun_kind = None
        for each in counted_periods:
            totals = _add_counts(totals, each.counts)
            if self.overrun_kind is None:
                self.overrun_kind = each.overrun_kind
        self.committed, self.spent, self.overruns = totals.values()
        self.period, self.last_used_at, self.other_period = period, now, previous

    def _counted_alone(self) -> OtherPeriod:
        """Return what it counted in its period, without what a period ahead of it had."""
        counts: dict[str, list[int]] = {
            name: getattr(self, attribute) for name, attribute in COUNT_ATTRIBUTES.items()
        }
        other = self.other_period
        if other is not None and other.period > self.period:  # it counts here until then
            counts = _add_counts(counts, other.counts, -1)
        return OtherPeriod(self.period, self.last_used_at, counts, self.overrun_kind)

    def elapsed(self, now: float) -> float:
        """Return the seconds that have passed."""
        started_at = self.started_at
        if self.waiting_call_count:
            now = self.paused_at
        return (
            self.earlier_seconds
            if started_at is None
            else self.earlier_seconds + max(now - started_at, 0.0)
        )

    def pause_clock(self, now: float) -> None:
        """Have the seconds stand still until as many calls of `resume_clock`."""
        if not self.waiting_call_count:
            self.paused_at = now
        self.waiting_call_count += 1

    def resume_clock(self, now: float) -> None:
        """Have the seconds go on, once nobody is asked any more."""
        self.waiting_call_count -= 1
        if not self.waiting_call_count and self.started_at is not None:
            self.earlier_seconds -= max(now - max(self.paused_at, self.started_at), 0.0)

    def becomes_low(self, kind: int) -> bool:
        """Return whether four fifths of a limit are spent now, and were not when it was asked."""
        limit = self.limits[kind]
        if not limit or self.low_kinds & 1 << kind or self.spent[kind] * 5 < limit * 4:
            return False
        self.low_kinds |= 1 << kind
        return True


def _add_counts(
    counts: dict[str, list[int]], addend: dict[str, list[int]], sign: int = 1
) -> dict[str, list[int]]:
    return {
        name: [a + sign * b for a, b in zip(counts[name], addend[name], strict=True)]
        for name in COUNT_ATTRIBUTES
    }


@lru_cache(maxsize=100)  # once, however many budgets of this process share the account
def _warn_period_ahead(title: str, period: str, current_period: str) -> None:
    text = "%s was used in %s, which lies ahead of the clock: it counts in %s"
    logger.warning(text, title, period, current_period)


Accounts: TypeAlias = tuple[Account, ...]
"""A budget's own account, then its parents', up to the root."""


def start_seconds(accounts: Accounts, now: float) -> None:
    """Start the seconds of accounts."""
    for account in accounts:
        if account.started_at is None:
            account.started_at = now


def pause_seconds(accounts: Accounts, now: float) -> None:
    """Have the seconds of accounts stand still until they begin again."""
    for account in accounts:
        account.earlier_seconds, account.started_at = account.elapsed(now), None


def add_committed(accounts: Accounts, amounts: Amounts, sign: int = 1) -> None:
    """Take amounts from accounts, or give them back."""
    for kind in KINDS:
        if amounts[kind]:
            for account in accounts:
                account.committed[kind] += sign * amounts[kind]


def commit_or_refuse(accounts: Accounts, amounts: Amounts, now: float) -> None:
    """Take amounts from all accounts; raise, and take nothing, if one is too small."""
    start_seconds(accounts, now)
    for account in accounts:
        if account.overrun_kind is not None or account.max_seconds is not None:
            refuse_if_closed(account, now)
    # Add first, then check: the garbage collector may end a reservation meanwhile, see `Ledger`.
    add_committed(accounts, amounts)
    for kind in KINDS:
        for account in accounts if amounts[kind] else ():
            limit, used = account.limits[kind], account.committed[kind]
            if limit is not None and used > limit:
                add_committed(accounts, amounts, -1)
                used_before, spent = used - amounts[kind], account.spent[kind]
                hint = f"; it is renewed on {renewal_text(account.period)}" if account.per else ""
                hint += "; raise it by `moothall budgets limit`" if account.key is not None else ""
                limit_kind, digits = RESERVABLE[kind], RESERVABLE[kind].digits
                raise BudgetExceeded(
                    f"{account.title}: {amount_text(kind, amounts[kind])} are needed and "
                    f"{digits(max(limit - used_before, 0))} of {digits(limit)} are left "
                    f"({digits(spent)} spent, {digits(used_before - spent)} reserved){hint}",
                    limit_kind.name,
                    (accounts, amounts),
                )


def remaining_amounts(accounts: Accounts) -> list[int | None]:
    """Return what may be taken of all."""
    remaining: list[int | None] = [None for _ in KINDS]
    for account in accounts:
        for kind, limit in enumerate(account.limits):
            if limit is not None:
                available = max(limit - account.committed[kind], 0)
                lowest = remaining[kind]
                remaining[kind] = available if lowest is None else min(available, lowest)
    return remaining


def refuse_if_closed(account: Account, now: float) -> None:
    """Raise if nothing further may begin."""
    seconds, kind = account.max_seconds, account.overrun_kind
    if seconds is not None and account.elapsed(now) >= seconds:
        duration = "1 second is" if seconds == 1 else f"{seconds:g} seconds are"
        raise DeadlineExceeded(f"{account.title}: its {duration} over")
    if kind is not None:
        raise BudgetExceeded(
            f"{account.title}: {amount_text(kind, account.overruns[kind])} more were spent "
            "than had been reserved, so no further calls start",
            RESERVABLE[kind].name,
        )
