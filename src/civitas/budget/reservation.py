"""What one who is about to spend was promised."""

from __future__ import annotations

from decimal import Decimal
from types import TracebackType
from typing import NoReturn

from civitas.budget.amounts import (
    MOST,
    NOTHING,
    PICO,
    TOKENS,
    UNITS,
    USD,
    Amounts,
    picodollars,
    said,
    wrong_count,
)
from civitas.budget.ledger import Account, Ledger
from civitas.errors import DefinitionError

__all__ = ["Reservation"]


class Reservation:
    """What was promised to one who is about to spend.

    It ends by `settle` or `release`, or as a context manager: leaving it settles in full what was
    neither settled nor released, whatever happened inside. One that is dropped counts as spent in
    full, and a warning is logged.

    Attributes:
        tokens: how many are reserved
        usd: how many US dollars
        model_calls: how many
        actions: how many
    """

    __slots__ = ("__weakref__", "_accounts", "_amounts", "_came_to", "_ledger", "_open")

    def __init__(self, ledger: Ledger, accounts: tuple[Account, ...], amounts: Amounts) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._amounts = amounts
        self._came_to = amounts  # until it is known better
        self._open = True

    @property
    def tokens(self) -> int:
        """How many tokens are reserved."""
        return self._amounts[TOKENS]

    @property
    def usd(self) -> float:
        """How many US dollars are reserved."""
        return self._amounts[USD] / PICO

    @property
    def model_calls(self) -> int:
        """How many model calls are reserved."""
        return self._amounts[2]

    @property
    def actions(self) -> int:
        """How many actions are reserved."""
        return self._amounts[3]

    @property
    def open(self) -> bool:
        """Whether it was neither settled nor released yet."""
        return self._open

    def settle(self, *, tokens: int | None = None, usd: float | Decimal | None = None) -> None:
        """Say what it was in the end; what is left out was as much as was reserved.

        More than was reserved is counted, shows in `Budget.over`, and closes every budget that it
        counts in and that limits it: an estimate that was no upper bound cannot be relied on.

        Raises:
            DefinitionError: it was settled or released before, or an amount is none; it stays open
        """
        reserved = self._amounts
        if tokens is None:
            tokens = reserved[TOKENS]
        elif type(tokens) is not int or not 0 <= tokens <= MOST:
            wrong_count("settle", "tokens", tokens)
        pico = reserved[USD] if usd is None else picodollars("settle", usd)
        self._end((tokens, pico, reserved[2], reserved[3]))

    def release(self) -> None:
        """Give everything back: what it was for was never begun.

        Raises:
            DefinitionError: it was settled or released before
        """
        self._end(NOTHING)

    def _end(self, spent: Amounts) -> None:
        self._ledger.settle(self, spent)
        self._came_to = spent

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open:
            self.settle()

    def __reduce__(self) -> NoReturn:
        raise DefinitionError("a reservation cannot be copied: it would be given back twice")

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{said(kind, amount)} {UNITS[kind]}"
            for kind, amount in enumerate(self._amounts)
            if amount
        )
        return f"<Reservation of {parts or 'nothing'}{'' if self._open else ', ended'}>"

    def __del__(self) -> None:
        # It may run in the middle of anything, even while this thread holds the ledger's lock.
        if getattr(self, "_open", False):
            self._ledger.lost.append((self._accounts, self._amounts))
