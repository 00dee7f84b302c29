"""What is left of the budget: told to the model in a line, and a warning before the end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from moothall.budget.limits import LIMITS
from moothall.foundation.arguments import check_boolean
from moothall.foundation.errors import ConfigError

if TYPE_CHECKING:
    from moothall.budget import Budget


class BudgetNotices:
    """What `budget_line=` and `warn_at=` put around a call of the model."""

    def __init__(self, agent: str | int, shows_line: bool, warn_at: float | None) -> None:
        check_boolean(f"agent {agent!r}: budget_line=", shows_line)
        if warn_at is not None and not (type(warn_at) in (int, float) and 0 < warn_at <= 1):
            raise ConfigError(
                f"agent {agent!r}: warn_at= must be a share of the budget, above 0 and up to 1, "
                f"got {warn_at!r:.80}"
            )
        self._shows_line = shows_line
        self._warn_at = warn_at

    def line(self, budget: Budget) -> str:
        """Return the line at the end of a prompt; empty for none."""
        return remaining_text(budget) if self._shows_line else ""

    def new_warnings(
        self, budget: Budget, warned_limits: Collection[str]
    ) -> Iterator[tuple[str, float, float]]:
        """Yield each further limit that is nearly reached, the share spent, and what remains."""
        if self._warn_at is not None:
            remaining = budget.left
            for name, share in budget.shares().items():
                if share >= self._warn_at and name not in warned_limits:
                    yield name, round(share, 3), getattr(remaining, name)


def remaining_text(budget: Budget) -> str:
    """Return what is left of a budget as a model reads it; empty without limits."""
    remaining = budget.left
    amounts = [(getattr(remaining, limit.name), limit) for limit in LIMITS]
    parts = [
        f"{amount:,} {limit.unit}" if limit.is_whole_number else f"{amount:,.4g} {limit.unit}"
        for amount, limit in amounts
        if amount is not None
    ]
    return f"What is left of the budget: {', '.join(parts)}." if parts else ""
