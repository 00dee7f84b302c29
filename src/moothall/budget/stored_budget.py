"""Budgets that processes share, as a person sees and changes them in the books."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moothall.budget.amounts import KINDS, checked_limits, left_of, spent_of
from moothall.budget.limits import Left, Spent
from moothall.budget.shared import KEY_SEPARATOR, LIMIT_NAMES, SharedAccount, seconds_since

IsAlive = Callable[[str], bool]
"""Returns whether the process of a holder's name lives."""


@dataclass(frozen=True, slots=True)
class StoredBudget:
    """A budget that processes share by a journal.

    Attributes:
        name: its name; of a child, with those of its parents before it: `service/anna`
        limits: those that a person has set, else as the process that used it last states them
        spent: what was spent, and the seconds that have passed
        reserved: what is reserved now
        of_dead: how much of that had been reserved by processes that have ended since
        over: how much calls took beyond their reservations; then nothing more begins
        period: the period of which it counts; empty without `per=`
        set: the names of the limits that a person has set
    """

    name: str
    limits: Left
    spent: Spent
    reserved: Spent
    of_dead: Spent
    over: Spent
    period: str = ""
    set: tuple[str, ...] = ()


def name_of(key: str) -> str:
    """Return the name of a budget by its key in the books."""
    return key.replace(KEY_SEPARATOR, "/")


def stored_budget(key: str, state: dict[str, Any], is_alive: IsAlive) -> StoredBudget:
    """Return a budget by its state in the books; DefinitionError if it was not written so."""
    account = _load_account(key, state)
    limits = state.get("stated", {}) | account.overrides
    seconds = account.earlier_seconds + (
        seconds_since(account.stored_start) if account.stored_start else 0.0
    )
    return StoredBudget(
        name_of(key),
        left_of([limits.get(name) for name in LIMIT_NAMES]),
        spent_of(account.spent, seconds),
        spent_of(account.reserved_amounts()),
        spent_of(_reserved_by_dead(account, is_alive)),
        spent_of(account.overruns),
        account.period,
        tuple(sorted(account.overrides)),
    )


def reset_state(key: str, state: dict[str, Any], is_alive: IsAlive) -> dict[str, Any]:
    """Return the state of a budget of which nothing is spent; what is reserved stays so."""
    account = _load_account(key, state)
    account = _release_dead(account, is_alive)
    account.committed, account.spent = account.reserved_amounts(), [0 for _ in KINDS]
    account.overruns, account.overrun_kind, account.low_kinds = [0 for _ in KINDS], None, 0
    account.stored_start, account.started_at, account.earlier_seconds = None, None, 0.0
    if account.other_period is not None:
        account.other_period = account.other_period.reserved_only()
    return _stored_state(account, state)


def released_state(key: str, state: dict[str, Any], is_alive: IsAlive) -> dict[str, Any]:
    """Return the state of a budget without what dead processes had reserved."""
    return _stored_state(_release_dead(_load_account(key, state), is_alive), state)


def state_with_limits(key: str, state: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a budget with other limits; None leaves one to the programs again."""
    account = _load_account(key, state)
    counted_limits, seconds = checked_limits(limits)
    new_limits = dict(zip(LIMIT_NAMES, (*counted_limits, seconds), strict=True))
    for name in limits:
        account.overrides.pop(name, None)
        if limits[name] is not None:
            account.overrides[name] = new_limits[name] or 0
    account.low_kinds = 0  # by the new limits, it may get low again
    return _stored_state(account, state)


def _load_account(key: str, state: dict[str, Any]) -> SharedAccount:
    account = SharedAccount(f"budget {name_of(key)!r}", (None,) * len(KINDS), key=key)
    account.load_stored(state, 0.0)
    return account


def _stored_state(account: SharedAccount, old_state: dict[str, Any]) -> dict[str, Any]:
    program_entries = {name: old_state[name] for name in ("stated", "per") if name in old_state}
    return account.state() | program_entries


def _reserved_by_dead(account: SharedAccount, is_alive: IsAlive) -> list[int]:
    dead_amounts = account.reserved_amounts()
    for holder, amounts in account.reserved_by_process.items():
        if is_alive(holder):
            dead_amounts = [a - b for a, b in zip(dead_amounts, amounts, strict=True)]
    return dead_amounts


def _release_dead(account: SharedAccount, is_alive: IsAlive) -> SharedAccount:
    dead_amounts = _reserved_by_dead(account, is_alive)
    account.committed = [a - b for a, b in zip(account.committed, dead_amounts, strict=True)]
    account.reserved_by_process = {
        name: amounts for name, amounts in account.reserved_by_process.items() if is_alive(name)
    }
    return account
