"""What is left of the budget: told to the model in a line, and a warning before the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from moothall.agents.block import Block
from moothall.agents.replies.events import BudgetLow
from moothall.budget.limits import LIMITS
from moothall.foundation.arguments import check_boolean
from moothall.foundation.errors import ConfigError

if TYPE_CHECKING:
    from moothall.agents.loop.steps import ModelStep
    from moothall.budget import Budget


class TellingBudget(Block):
    """The block of `budget_line=` and `warn_at=`."""

    name = "budget"

    def __init__(self, agent: str | int, line: bool, warn_at: float | None) -> None:
        super().__init__()
        check_boolean(f"agent {agent!r}: budget_line=", line)
        if warn_at is not None and not (type(warn_at) in (int, float) and 0 < warn_at <= 1):
            raise ConfigError(
                f"agent {agent!r}: warn_at= must be a share of the budget, above 0 and up to 1, "
                f"got {warn_at!r:.80}"
            )
        self._line = line
        self._warn_at = warn_at
        self._warned: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # by run

    async def around_model(self, step: ModelStep, call: Callable[[], Awaitable[Any]]) -> Any:
        """Put the line at the end of the prompt; warn once the model has answered."""
        budget = step._run.request.budget or step._run.agent.budget
        if budget is None:
            return await call()
        if self._line and (line := left_in_words(budget)):
            step.messages = [*step.messages, {"role": "user", "content": line}]
        try:
            return await call()
        finally:
            if self._warn_at is not None:
                self._warn(step, budget, self._warn_at)

    def _warn(self, step: ModelStep, budget: Budget, warn_at: float) -> None:
        warned, request = self._warned.setdefault(step._run, set()), step._run.request
        remaining = budget.left
        for name, share in budget.shares().items():
            if share >= warn_at and name not in warned:
                warned.add(name)
                request.tell(
                    BudgetLow,
                    str(step._run.agent.id),
                    name,
                    round(share, 3),
                    getattr(remaining, name),
                )


def left_in_words(budget: Budget) -> str:
    """Return what is left of a budget as a model reads it; empty without limits."""
    remaining = budget.left
    amounts = [(getattr(remaining, limit.name), limit) for limit in LIMITS]
    parts = [
        f"{amount:,} {limit.unit}" if limit.is_whole_number else f"{amount:,.4g} {limit.unit}"
        for amount, limit in amounts
        if amount is not None
    ]
    return f"What is left of the budget: {', '.join(parts)}." if parts else ""
