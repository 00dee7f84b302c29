"""The budgets that processes share, in a journal's file."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

from moothall.budget.limits import Spent
from moothall.budget.shared import KEY_SEPARATOR, LIMIT_NAMES
from moothall.budget.stored_budget import (
    StoredBudget,
    name_of,
    released_state,
    reset_state,
    state_with_limits,
    stored_budget,
)
from moothall.foundation.database import BUDGETS, Database
from moothall.foundation.errors import ConfigError
from moothall.journal.opening import RunOpener
from moothall.journal.store.entry_values import stored_json
from moothall.journal.store.store import Store

_MAX_HOLDERS: Final = 100
"""So many processes that reserve are noted for a budget; then those that died are left out."""


class SharedBudgets:
    """The budgets that processes share by a journal: `Journal.budgets`.

    The name of a child has those of its parents before it, such as `service/anna`.
    """

    def __init__(self, store: Store, runs: RunOpener) -> None:
        self._store = store
        self._runs = runs
        self._holder = ""  # of this process, once it reserves

    def accounts(self, keys: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return the states of accounts, or None."""
        with self._store.reading() as db:
            return [self._read_account(db, name) for name in keys]

    def change_accounts(
        self,
        keys: Sequence[str],
        change: Callable[[list[dict[str, Any] | None]], list[dict[str, Any]]],
    ) -> None:
        """Change accounts, alone among all processes."""
        with self._store.writing(lock=BUDGETS) as db:
            accounts = change([self._read_account(db, name) for name in keys])
            for each in accounts:
                self._forget_dead(each)
            db.executemany(
                "INSERT INTO budgets (name, account) VALUES (?, ?) ON CONFLICT (name) "
                "DO UPDATE SET account = excluded.account",
                [(name, stored_json(each)) for name, each in zip(keys, accounts, strict=True)],
            )

    def _forget_dead(self, account: dict[str, Any]) -> None:
        """Leave out who had reserved and died, where there are many: what was reserved stays so."""
        holders = account.get("held", {})
        if len(holders) > _MAX_HOLDERS:
            account["held"] = {name: holders[name] for name in holders if self._is_alive(name)}

    def holder(self) -> str:
        """Return the name of this process as one that reserves."""
        if not self._holder:
            lease_number = secrets.randbits(60) | 1 << 60  # above the numbers of runs
            if self._runs.take_lease(lease_number):
                self._holder = f"{lease_number:x}"
        return self._holder

    def list(self) -> list[StoredBudget]:
        """Return all budgets, in the order of their names.

        Raises:
            ConfigError: one is not in the file as it was written
            JournalError: the file cannot be read
        """
        return [stored_budget(key, state, self._is_alive) for key, state in self._states().items()]

    def reset(self, name: str) -> StoredBudget:
        """Have nothing be spent of a shared budget; what living processes have reserved stays so.

        Args:
            name: the name of the budget

        Returns:
            The budget, as it is now.

        Raises:
            ConfigError: there is no budget of that name
            JournalError: the file cannot be written
        """
        return self._change(name, partial(reset_state, is_alive=self._is_alive))

    def release(self, name: str) -> StoredBudget:
        """Give back to a shared budget what processes had reserved that have ended since.

        So does it for its named children. Their calls may have reached a provider and cost
        something all the same.

        Args:
            name: the name of the budget

        Returns:
            The budget, as it is now.

        Raises:
            ConfigError: there is no budget of that name
            JournalError: the file cannot be written
        """
        budget = self._change(name, partial(released_state, is_alive=self._is_alive))
        key_prefix = self._key_of(name) + KEY_SEPARATOR
        for key in self._states():
            if key.startswith(key_prefix):
                self.give_back(key)
        return budget

    def give_back(self, key: str) -> None:
        """Release a budget by its key, if there is one and a dead process had reserved of it."""
        state = self.accounts([key])[0]
        if state is None or stored_budget(key, state, self._is_alive).of_dead == Spent():
            return
        self.change_accounts(
            [key], lambda states: [released_state(key, states[0] or {}, self._is_alive)]
        )

    def limit(self, name: str, **limits: float | Decimal | None) -> StoredBudget:
        """Set limits of a shared budget, which hold instead of those that programs state.

        They hold from the next reservation on, in all processes.

        Args:
            name: the name of the budget
            limits: `tokens`, `usd`, `model_calls`, `actions`, `seconds`; None leaves a limit to the
                programs again

        Returns:
            The budget, as it is now.

        Raises:
            ConfigError: there is no budget of that name, or a limit is not valid
            JournalError: the file cannot be written
        """
        if unknown := limits.keys() - set(LIMIT_NAMES):
            raise ConfigError(
                f"limit: there is no limit {min(unknown)!r}; there are {', '.join(LIMIT_NAMES)}"
            )
        return self._change(name, partial(state_with_limits, limits=limits))

    def delete(self, name: str) -> None:
        """Delete a shared budget, such as that of a person; its next use begins a new one.

        Args:
            name: the name of the budget

        Raises:
            ConfigError: there is no budget of that name
            JournalError: the file cannot be written
        """
        key = self._key_of(name)
        with self._store.writing(lock=BUDGETS) as db:
            db.execute("DELETE FROM budgets WHERE name = ?", (key,))
        self._store.empty_log()  # of SQLite, which would keep the row

    def _is_alive(self, holder: str) -> bool:
        try:
            return self._runs.is_taken(int(holder, 16))
        except ValueError:
            return False

    def _states(self) -> dict[str, dict[str, Any]]:
        with self._store.reading() as db:
            keys = [name for (name,) in db.execute("SELECT name FROM budgets ORDER BY name")]
            return {name: self._read_account(db, name) or {} for name in keys}

    def _key_of(self, name: str) -> str:
        keys_by_name = {name_of(key): key for key in self._states()}
        if name not in keys_by_name:
            choices = ", ".join(map(repr, keys_by_name)) or "none at all"
            raise ConfigError(
                f"journal {self._store.name!r} has no budget {name!r}; it has {choices}"
            )
        return keys_by_name[name]

    def _change(
        self, name: str, change: Callable[[str, dict[str, Any]], dict[str, Any]]
    ) -> StoredBudget:
        key = self._key_of(name)
        states_after: list[dict[str, Any]] = []

        def change_states(states: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
            states_after.append(change(key, states[0] or {}))
            return states_after

        self.change_accounts([key], change_states)
        return stored_budget(key, states_after[0], self._is_alive)

    def _read_account(self, db: Database, key: str) -> dict[str, Any] | None:
        row = db.execute("SELECT account FROM budgets WHERE name = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            account = json.loads(row[0])
        except (ValueError, TypeError, RecursionError) as error:
            raise self._store.damaged(f"budget {key!r}: {error}") from error
        if not isinstance(account, dict):
            raise self._store.damaged(f"budget {key!r} has no account")
        return account
