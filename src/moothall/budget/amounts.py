"""Amounts that a run spends, in the order of `RESERVABLE`: checked, shown, and read back.

Money is counted in whole picodollars (a millionth of a millionth of a dollar), so that sums are
exact; amounts with more places are rounded up, limits down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol, TypeAlias

from moothall.budget.limits import (
    KIND_BY_NAME,
    LIMITS,
    MAX_AMOUNT,
    RESERVABLE,
    Left,
    Limit,
    Spent,
)
from moothall.budget.period import is_period
from moothall.foundation.arguments import unknown_argument_error
from moothall.foundation.errors import ConfigError, DefinitionError

Amounts: TypeAlias = tuple[int, ...]
KINDS: Final = tuple(range(len(RESERVABLE)))  # a kind is the index of its limit there
NO_AMOUNTS: Final[Amounts] = (0,) * len(RESERVABLE)
MEASURED_KINDS: Final = tuple(kind for kind, limit in enumerate(RESERVABLE) if limit.measured)


def spent_of(values: Sequence[int], seconds: float = 0.0) -> Spent:
    """Return amounts as they are shown to people."""
    amounts = {
        limit.name: limit.in_units(each) for limit, each in zip(RESERVABLE, values, strict=True)
    }
    return Spent(**amounts, seconds=seconds)


def left_of(values: Sequence[Any]) -> Left:
    """Return counted limits, the seconds last, as they are shown to people."""
    return Left(
        **{
            limit.name: None if each is None else limit.in_units(each)
            for limit, each in zip(LIMITS, values, strict=True)
        }
    )


def amount_text(kind: int, amount: int) -> str:
    """Return an amount in exact digits, with its unit."""
    return f"{RESERVABLE[kind].digits(amount)} {RESERVABLE[kind].unit}"


def checked_amounts(
    method: Callable[..., Any],
    by_name: Mapping[str, Any],
    defaults: Amounts = NO_AMOUNTS,
    kinds: Sequence[int] = KINDS,
) -> Amounts:
    """Check the amounts given to a method; return them as they are counted, in place of others."""
    if not by_name:
        return defaults
    amounts = [*defaults]
    for name, amount in by_name.items():
        kind = KIND_BY_NAME.get(name, -1)
        if kind not in kinds:
            names = [RESERVABLE[each].name for each in kinds]
            raise unknown_argument_error(method, by_name, names) or TypeError(name)
        amounts[kind] = RESERVABLE[kind].counted(method.__name__, amount)
    return tuple(amounts)


def checked_limits(limits: Mapping[str, Any]) -> tuple[tuple[int | None, ...], Any]:
    """Check limits; return those of what is reserved, as it is counted, and the seconds."""
    *amounts, seconds = (_counted_limit(limit, limits.get(limit.name)) for limit in LIMITS)
    return tuple(amounts), seconds


def _counted_limit(limit: Limit, value: Any) -> Any:
    try:
        return None if value is None else limit.counted("Budget", value, rounds_up=False)
    except ConfigError as error:
        error.argument = limit.name
        raise


class PriceList(Protocol):
    """Prices of models' tokens, such as `moothall.Prices`."""

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the cost in US dollars; raise UnknownPrice if the price is not known."""
        ...


def read_state(state: Any) -> tuple[list[int], float, list[int], str]:
    """Return from a state what was spent, its seconds, the overrun, and the period."""
    subject = "the state of a budget"
    try:
        spent, overruns = (
            _read_amounts(subject, state, KINDS),
            _read_amounts(subject, state["over"], MEASURED_KINDS),
        )
        seconds = float(state["seconds"])
        if not 0 <= seconds <= MAX_AMOUNT:
            raise ValueError(f"seconds is {seconds}")
        if not is_period(period := state.get("period", "")):
            raise ValueError(f"period is {period!r:.80}")
    except DefinitionError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DefinitionError(
            f"{subject} is not as state_dict() gives it: {error!r:.100}"
        ) from None
    return spent, seconds, overruns, period


def amounts_json(amounts: Sequence[int], kinds: Sequence[int]) -> dict[str, int | str]:
    """Return counted amounts as a state has them, exact as JSON."""
    amounts_by_limit = {RESERVABLE[kind]: amounts[kind] for kind in kinds}
    return {
        each.name: amount if each.is_whole_number else each.digits(amount)
        for each, amount in amounts_by_limit.items()
    }


def _read_amounts(subject: str, state: Any, kinds: Sequence[int]) -> list[int]:
    amounts = [*NO_AMOUNTS]
    for kind in kinds:
        limit = RESERVABLE[kind]
        value = state[limit.name]
        amounts[kind] = limit.counted(subject, value if limit.is_whole_number else Decimal(value))
    return amounts
