"""Amounts that a run spends: how they are counted, checked, shown and stored.

Money is counted in whole picodollars (a millionth of a millionth of a dollar), so that sums are
exact; amounts with more places are rounded up, limits down.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from moothall.arguments import check_integer
from moothall.budget.period import is_period
from moothall.errors import ConfigError, DefinitionError
from moothall.text import excerpt, shorten

# The quantities that are reserved, by their place in `Amounts`.
LIMITS = ("tokens", "usd", "model_calls", "actions")
UNITS = ("tokens", "US dollars", "model calls", "actions")
KINDS = (0, 1, 2, 3)
TOKENS, USD = 0, 1
Amounts: TypeAlias = tuple[int, int, int, int]
NOTHING: Amounts = (0, 0, 0, 0)

PICO = 10**12
MOST = 2**53  # every JSON reader reads integers up to this exactly
_MOST_USD = 10**16
_LEAST_USD = Decimal("1E-12")


@dataclass(frozen=True, slots=True)
class Spent:
    """Amounts: of tokens, US dollars, model calls, actions and seconds."""

    tokens: int = 0
    usd: float = 0.0
    model_calls: int = 0
    actions: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of each limit; None without a limit."""

    tokens: int | None = None
    usd: float | None = None
    model_calls: int | None = None
    actions: int | None = None
    seconds: float | None = None


def spent_of(values: list[int], seconds: float = 0.0) -> Spent:
    """Return amounts as they are shown to people."""
    return Spent(values[0], values[1] / PICO, values[2], values[3], seconds)


def digits(kind: int, amount: int) -> str:
    """Return an amount in exact digits."""
    if kind != USD:
        return str(amount)
    whole, places = divmod(amount, PICO)
    return f"{whole}.{places:012d}".rstrip("0").rstrip(".")


def checked_amounts(
    what: str, tokens: int, usd: float | Decimal, model_calls: int, actions: int
) -> Amounts:
    """Check amounts and return them in the units in which they are counted."""
    for name, count in (("tokens", tokens), ("model_calls", model_calls), ("actions", actions)):
        check_integer(f"{what}: {name}=", count, 0, MOST)
    pico = picodollars(what, usd) if usd or type(usd) is not int else 0
    return tokens, pico, model_calls, actions


def checked_limits(
    tokens: int | None,
    usd: float | Decimal | None,
    model_calls: int | None,
    actions: int | None,
    seconds: float | None,
) -> tuple[int | None, ...]:
    """Check limits and return them in counted units; the limit of time is only checked."""
    for limit, value in (("tokens", tokens), ("model_calls", model_calls), ("actions", actions)):
        check_integer(f"Budget: {limit}=", value, 0, MOST, optional=True)
    if seconds is not None and not (type(seconds) in (int, float) and 0 <= seconds <= MOST):
        raise ConfigError(
            f"Budget: seconds= must be a number of seconds from 0 to {MOST}, got {_shown(seconds)}"
        )
    pico = None if usd is None else picodollars("Budget", usd, up=False)
    return tokens, pico, model_calls, actions


def _shown(value: object) -> str:
    """Return a value's text for an error, even of a number that JSON cannot hold."""
    if type(value) is int:
        return excerpt(value) if abs(value) < 10**80 else "an integer of more than 80 digits"
    if type(value) is Decimal:
        return f"Decimal {shorten(str(value))}"
    return excerpt(value)


def picodollars(what: str, usd: object, name: str = "usd", *, up: bool = True) -> int:
    """Return US dollars, which `what` was given as `name`, in whole picodollars.

    A float is read as the decimal number that it is written as: 0.1 is a tenth.
    """
    if isinstance(usd, float) and 0.0 <= usd <= 1e16:
        whole = round(usd * 1e12)  # exactly a float, so that the division rounds only once
        if whole / 1e12 == usd:
            return whole
        value = Decimal(float.__repr__(usd))
    elif type(usd) is int or type(usd) is Decimal:
        value = Decimal(usd)
    else:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= _MOST_USD:
        raise ConfigError(
            f"{what}: {name}= must be a number of US dollars from 0 to {_MOST_USD}, got "
            f"{_shown(usd)}"
        )
    if value < _LEAST_USD:
        # The exact ratio of 1e-999999 would fill the memory.
        return 1 if up and value else 0
    above, below = value.as_integer_ratio()
    return -(-above * PICO // below) if up else above * PICO // below


class PriceList(Protocol):
    """Prices of models' tokens, such as `moothall.Prices`."""

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the cost in US dollars; raise UnknownPrice if the price is not known."""
        ...


def read_state(state: Any) -> tuple[list[int], float, tuple[int, int], str]:
    """Return from a state what was spent, its seconds, the overrun, and the period."""
    what = "the state of a budget"
    try:
        calls, beyond = (state["model_calls"], state["actions"]), state["over"]
        spent = checked_amounts(what, state["tokens"], Decimal(state["usd"]), *calls)
        over = checked_amounts(what, beyond["tokens"], Decimal(beyond["usd"]), 0, 0)
        seconds = float(state["seconds"])
        if not 0 <= seconds <= MOST:
            raise ValueError(f"seconds is {seconds}")
        if not is_period(period := state.get("period", "")):
            raise ValueError(f"period is {period!r:.80}")
    except DefinitionError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DefinitionError(f"{what} is not as state_dict() gives it: {error!r:.100}") from None
    return [*spent], seconds, (over[TOKENS], over[USD]), period
