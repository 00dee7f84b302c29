"""The ledger of a budget that several processes share."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from moothall.budget.account import COUNT_ATTRIBUTES, Account, Accounts, OtherPeriod
from moothall.budget.amounts import KINDS, NO_AMOUNTS, Amounts
from moothall.budget.limits import LIMITS
from moothall.budget.period import is_period
from moothall.budget.reservation import Hold, Ledger, end_hold
from moothall.foundation.errors import DefinitionError, MoothallError

logger: logging.Logger = logging.getLogger("moothall.budget")

T = TypeVar("T")


@runtime_checkable
class AccountStore(Protocol):
    """A store of accounts for several processes, such as `Journal.budgets`."""

    def accounts(self, keys: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return the current states of accounts, of one moment, or None."""
        ...

    def change_accounts(
        self,
        keys: Sequence[str],
        change: Callable[[list[dict[str, Any] | None]], list[dict[str, Any]]],
    ) -> None:
        """Change accounts exclusively, all or none. If `change` raises, they are unchanged."""
        ...

    def holder(self) -> str:
        """Return the name of this process as one that reserves, until it ends."""
        ...

    def give_back(self, key: str) -> None:
        """Have an account be without what dead processes had reserved."""
        ...


class HasAccountStore(Protocol):
    """What has books, such as a `Journal`."""

    @property
    def budgets(self) -> AccountStore:
        """The books."""
        ...


class SharedLedger(Ledger):
    """A ledger that keeps the accounts that have a key in books, and the others in this process.

    Each change reads the accounts, checks them, and writes them back before it takes effect. What a
    dead process had reserved stays reserved: it may have been spent. The books say who holds what,
    so that a person can give that back, or this ledger when it opens an account.
    """

    __slots__ = ("_now", "_release_dead", "_store")
    recheck_s = 1.0  # a person may raise a limit, in any process

    def __init__(
        self,
        title: str,
        utc_now: Callable[[], float],
        store: AccountStore,
        now: Callable[[], float],
        release_dead: bool = False,
    ) -> None:
        super().__init__(title, utc_now)
        self.has_periods = True  # another process may have stated one
        self._store = store
        self._release_dead = release_dead
        self._now = now

    def open_account(self, account: Account, parent: Account | None, name: str | None) -> Account:
        """Return a shared account if it has a name and its parent, if any, is shared."""
        key = name if parent is None else parent.key
        if name is None or key is None:
            return account
        if parent is not None:
            key += f"{KEY_SEPARATOR}{name}"
        account = SharedAccount(
            account.title, account.limits, account.max_seconds, per=account.per, key=key
        )
        if self._release_dead:
            # Before the account is read: what the dead held is free then.
            self._store.give_back(key)
        self.refresh((account,))
        return account

    def change(
        self, accounts: Accounts, apply: Callable[[], T], undo: Callable[[], object] | None = None
    ) -> T:
        """Read the shared accounts from the books, change accounts, and write them back."""
        results: list[T] = []
        shared_accounts, was_ahead_of_clock = _shared_accounts(accounts), False

        def change_states(states: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
            nonlocal was_ahead_of_clock
            # The lock is not held while waiting for the books: their holder may need it to settle.
            with self._lock:
                was_ahead_of_clock = self._load_stored(accounts, shared_accounts, states)
                amounts_before = [account.reserved_amounts() for account in shared_accounts]
                results.append(apply())
                for account, reserved_before in zip(shared_accounts, amounts_before, strict=True):
                    account.count_for_process(self._store.holder, reserved_before)
                return [account.state() for account in shared_accounts]

        try:
            self._store.change_accounts(_keys(shared_accounts), change_states)
        except BaseException:
            # The books are as before, and so must the accounts of this process be.
            if results and undo is not None:
                with self._lock:
                    undo()
            elif was_ahead_of_clock:
                self._store_renewal(shared_accounts)
            raise
        return results[0]

    def _store_renewal(self, shared_accounts: list[SharedAccount]) -> None:
        """Write that accounts have turned back to the present: else each day would be the first."""

        def change_states(states: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
            with self._lock:
                self._load_stored(tuple(shared_accounts), shared_accounts, states)
                return [account.state() for account in shared_accounts]

        self._store.change_accounts(_keys(shared_accounts), change_states)

    def charge(self, accounts: Accounts, amounts: Amounts, now: float) -> None:
        """Count another process's spending, except in shared accounts: books have it already."""
        super().charge(tuple(a for a in accounts if a.key is None), amounts, now)

    def refresh(self, accounts: Accounts) -> None:
        """Read the shared accounts."""
        shared_accounts = _shared_accounts(accounts)
        states = self._store.accounts(_keys(shared_accounts)) if shared_accounts else []
        with self._lock:
            was_ahead_of_clock = self._load_stored(accounts, shared_accounts, states)
        if was_ahead_of_clock:
            self._store_renewal(shared_accounts)

    def settle(self, hold: Hold, spent: Amounts) -> None:
        """End a reservation. If the books cannot be written, it stays reserved in them."""
        try:
            super().settle(hold, spent)
        except DefinitionError:
            raise
        except MoothallError as error:
            title = hold.accounts[0].title
            logger.error("%s: what was spent cannot be written: %s", title, error)
            # Open, if the books failed before the change: then it ends here alone.
            if hold.is_open:
                with self._lock:
                    end_hold(hold, spent)
                self.waiting_line.wake_first()

    def load(
        self, account: Account, spent: list[int], seconds: float, overruns: list[int], period: str
    ) -> None:
        """Set what a child that is not shared has spent."""
        if account.key is not None:
            raise DefinitionError(
                f"{account.title} is shared, so what was spent of it stands in its journal, and it "
                "takes no state: leave out load_state_dict()"
            )
        super().load(account, spent, seconds, overruns, period)

    def _load_stored(
        self,
        accounts: Accounts,
        shared_accounts: list[SharedAccount],
        states: list[dict[str, Any] | None],
    ) -> bool:
        """Take over states; return whether one was of a period that lies ahead of the clock."""
        for account, state in zip(shared_accounts, states, strict=True):
            account.load_stored(state, self._now())
        periods = [account.period for account in shared_accounts]
        self._renew(accounts)
        return any(
            previous > each.period for previous, each in zip(periods, shared_accounts, strict=True)
        )


KEY_SEPARATOR: Final = "\x1f"
"""Between the names in a key: no name has it."""
LIMIT_NAMES: Final = tuple(limit.name for limit in LIMITS)
"""The limits, as their names stand in the books; money in picodollars."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class SharedAccount(Account):
    """An account that stands in the books of a `SharedLedger`, by its key."""

    stored_start: dict[str, Any] | None = None  # when its seconds began, as the books have it
    reserved_by_process: dict[str, list[int]] = field(default_factory=dict)
    program_limits: tuple[Any, ...] = ()  # the limits that this process states
    # Those that a person set, instead.
    overrides: dict[str, int | float] = field(default_factory=dict)
    generation: str = ""  # by which an account is known from a deleted one of its key

    def __post_init__(self) -> None:
        """Note the limits that the program states."""
        self.program_limits = (*self.limits, self.max_seconds)

    def booking_term_of(self, period: str) -> str:
        """Return the term of a period; that of a deleted account has ended, too."""
        return f"{self.generation}/{period}"

    def reserved_amounts(self) -> list[int]:
        """Return what is reserved, by all processes."""
        return [total - spent for total, spent in zip(self.committed, self.spent, strict=True)]

    def count_for_process(self, holder: Callable[[], str], reserved_before: list[int]) -> None:
        """Count for this process what is reserved more, or less, than before."""
        increases = [
            after - before
            for after, before in zip(self.reserved_amounts(), reserved_before, strict=True)
        ]
        if not any(increases):
            return
        name = holder()
        process_amounts = [
            before + increase
            for before, increase in zip(
                self.reserved_by_process.pop(name, NO_AMOUNTS), increases, strict=True
            )
        ]
        if any(process_amounts):
            self.reserved_by_process[name] = process_amounts

    def load_stored(self, state: dict[str, Any] | None, now: float) -> None:
        """Take over the state that stands in the books."""
        if state is None:  # it was never used, or a person has deleted it
            state = {name: [*NO_AMOUNTS] for name in COUNT_ATTRIBUTES}
            state |= {"fault": None, "begun": None, "made": secrets.token_hex(4)}
        try:
            for name, attribute in COUNT_ATTRIBUTES.items():
                setattr(self, attribute, _read_counts(name, state[name]))
            fault, start, period = state["fault"], state["begun"], state.get("period", "")
            if fault is not None and fault not in KINDS:
                raise ValueError(f"fault is {fault!r:.80}")
            if not is_period(period):
                raise ValueError(f"period is {period!r:.80}")
            self.overrun_kind, self.low_kinds = fault, int(state.get("low", 0))
            if period != self.period:
                self.period, self.started_at = period, None
            self.last_used_at, self.other_period = (
                float(state.get("last", 0)),
                _other_period(state.get("aside")),
            )
            self.earlier_seconds = float(state.get("before", 0.0))  # until they last stood still
            if start is None:
                self.started_at = None
            else:
                started_at = now - seconds_since(start)
                # As by a reset.
                is_restarted = self.stored_start is None or self.stored_start["at"] != start["at"]
                self.started_at = (
                    started_at
                    if is_restarted or self.started_at is None
                    else min(started_at, self.started_at)
                )
            self.stored_start = start
            self.generation = str(state.get("made", ""))
            reserved_by_process = state.get("held", {}).items()
            self.reserved_by_process = {
                str(name): _read_counts("held", each) for name, each in reserved_by_process
            }
            self.overrides = dict(state.get("set", {}))
            *limits, self.max_seconds = (
                self.overrides.get(name, limit)
                for name, limit in zip(LIMIT_NAMES, self.program_limits, strict=True)
            )
            self.limits: tuple[int | None, ...] = tuple(limits)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DefinitionError(
                f"{self.title} is not in its journal as it was written: {error}"
            ) from error

    def renew(self, now: float) -> None:
        """Begin anew if its period has passed."""
        Account.renew(self, now)
        if self.reserved_by_process and not any(self.committed):
            self.reserved_by_process = {}
        if self.started_at is None:
            self.stored_start = None

    def state(self) -> dict[str, Any]:
        """Return the state for the books."""
        if self.started_at is None:
            self.stored_start = None  # it rests
        elif self.stored_start is not None:
            self.stored_start = {**self.stored_start, "passed": seconds_since(self.stored_start)}
        else:
            boot, since = _since_boot()
            self.stored_start = {"at": time.time(), "boot": boot, "since": since, "passed": 0.0}
        state: dict[str, Any] = {
            name: getattr(self, attribute) for name, attribute in COUNT_ATTRIBUTES.items()
        }
        state |= {"fault": self.overrun_kind, "begun": self.stored_start}
        state["stated"] = dict(zip(LIMIT_NAMES, self.program_limits, strict=True))
        if self.earlier_seconds:
            state["before"] = self.earlier_seconds
        if self.low_kinds:
            state["low"] = self.low_kinds
        if self.reserved_by_process:
            state["held"] = self.reserved_by_process
        if self.overrides:
            state["set"] = self.overrides
        if self.generation:
            state["made"] = self.generation
        if self.per:
            state["per"] = self.per
        if self.period:
            state |= {"period": self.period, "last": self.last_used_at}
        if self.other_period is not None:
            state["aside"] = self.other_period.to_json()
        return state


def _other_period(state: dict[str, Any] | None) -> OtherPeriod | None:
    if state is None:
        return None
    counts = {name: _read_counts(name, state["counts"][name]) for name in COUNT_ATTRIBUTES}
    if not is_period(state["period"]):
        raise ValueError(f"period is {state['period']!r:.80}")
    return OtherPeriod(state["period"], float(state["last"]), counts, state["fault"])


def _read_counts(name: str, counts: list[int]) -> list[int]:
    """Return stored amounts."""
    if len(counts) != len(KINDS) or not all(type(each) is int for each in counts):
        raise ValueError(f"{name} is {counts!r:.80}")
    return [*counts]


def _shared_accounts(accounts: Accounts) -> list[SharedAccount]:
    return [account for account in accounts if isinstance(account, SharedAccount)]


def _keys(accounts: list[SharedAccount]) -> list[str]:
    return [account.key or "" for account in accounts]


def seconds_since(start: dict[str, Any]) -> float:
    """Return the seconds since a budget began, never fewer than were seen before.

    Processes of one boot share a clock that cannot be set; across boots the system's is used.
    """
    boot, now = _since_boot()
    if boot and start.get("boot") == boot:
        elapsed = now - float(start["since"])
    else:
        elapsed = time.time() - float(start["at"])
    return max(elapsed, float(start.get("passed", 0.0)))


def _since_boot() -> tuple[str, float]:
    """Return the id of the machine's boot (empty: unknown), and seconds since, with sleep."""
    boot = _boot_id()
    return boot, time.clock_gettime(time.CLOCK_BOOTTIME) if boot else 0.0


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
