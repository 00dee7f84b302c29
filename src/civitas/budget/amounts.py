"""Amounts of what a run spends: how they are counted, checked, shown and kept.

Money is counted in whole picodollars (a millionth of a millionth of a dollar), so that sums are
exact; amounts with more places are rounded up, limits down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

from civitas.errors import DefinitionError
from civitas.text import excerpt, shorten

# The quantities that are reserved, by their place in `Amounts`.
LIMITS = ("tokens", "usd", "model_calls", "actions")
UNITS = ("tokens", "US dollars", "model calls", "actions")
KINDS = (0, 1, 2, 3)
TOKENS, USD = 0, 1
Amounts: TypeAlias = tuple[int, int, int, int]
NOTHING: Amounts = (0, 0, 0, 0)

PICO = 10**12
MOST = 2**53  # what every reader of JSON agrees on
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
    """What is left of each limit; None where there is none."""

    tokens: int | None = None
    usd: float | None = None
    model_calls: int | None = None
    actions: int | None = None
    seconds: float | None = None


def spent_of(values: list[int], seconds: float = 0.0) -> Spent:
    """Amounts as they are shown to people."""
    return Spent(values[0], values[1] / PICO, values[2], values[3], seconds)


def said(kind: int, amount: int) -> str:
    """An amount in digits, exactly."""
    if kind != USD:
        return str(amount)
    whole, places = divmod(amount, PICO)
    return f"{whole}.{places:012d}".rstrip("0").rstrip(".")


def checked_amounts(
    what: str, tokens: int, usd: float | Decimal, model_calls: int, actions: int
) -> Amounts:
    """Amounts as they are counted."""
    if type(tokens) is not int or not 0 <= tokens <= MOST:
        wrong_count(what, "tokens", tokens)
    if type(model_calls) is not int or not 0 <= model_calls <= MOST:
        wrong_count(what, "model_calls", model_calls)
    if type(actions) is not int or not 0 <= actions <= MOST:
        wrong_count(what, "actions", actions)
    pico = picodollars(what, usd) if usd or type(usd) is not int else 0
    return tokens, pico, model_calls, actions


def checked_limits(
    tokens: int | None,
    usd: float | Decimal | None,
    model_calls: int | None,
    actions: int | None,
    seconds: float | None,
) -> tuple[int | None, ...]:
    """The limits of what is reserved, as they are counted; those of time are only checked."""
    for limit, value in (("tokens", tokens), ("model_calls", model_calls), ("actions", actions)):
        if value is not None and (type(value) is not int or not 0 <= value <= MOST):
            wrong_count("Budget", limit, value)
    if seconds is not None and not (type(seconds) in (int, float) and 0 <= seconds <= MOST):
        raise DefinitionError(
            f"Budget: seconds= must be a number of seconds from 0 on, got {_shown(seconds)}"
        )
    pico = None if usd is None else picodollars("Budget", usd, up=False)
    return tokens, pico, model_calls, actions


def wrong_count(what: str, name: str, value: object) -> NoReturn:
    """Raise for what is no count."""
    raise DefinitionError(
        f"{what}: {name}= must be an integer from 0 to {MOST}, got {_shown(value)}"
    ) from None


def _shown(value: object) -> str:
    """A value for an error; a number that JSON has no room for, too."""
    if type(value) is int:
        return excerpt(value) if abs(value) < 10**80 else "an integer of more than 80 digits"
    if type(value) is Decimal:
        return f"Decimal {shorten(str(value))}"
    return excerpt(value)


def picodollars(what: str, usd: object, name: str = "usd", *, up: bool = True) -> int:
    """US dollars, given to `what` as `name`, in whole picodollars.

    A float is taken for the decimal number that it is written as: 0.1 is a tenth.
    """
    if isinstance(usd, float) and 0.0 <= usd <= 1e16:
        whole = round(usd * 1e12)  # itself a float's value, so that the division rounds only once
        if whole / 1e12 == usd:
            return whole
        value = Decimal(float.__repr__(usd))
    elif type(usd) is int or type(usd) is Decimal:
        value = Decimal(usd)
    else:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= _MOST_USD:
        raise DefinitionError(
            f"{what}: {name}= must be a number of US dollars from 0 to {_MOST_USD}, got "
            f"{_shown(usd)}"
        )
    if value < _LEAST_USD:
        # The ratio of 1e-999999 would fill the memory.
        return 1 if up and value else 0
    above, below = value.as_integer_ratio()
    return -(-above * PICO // below) if up else above * PICO // below


def read_state(state: object) -> tuple[list[int], float, tuple[int, int]]:
    """What a state says was spent, in how many seconds, and how much of it was too much."""
    fields = {*LIMITS, "seconds", "over"}
    if not isinstance(state, dict) or state.keys() != fields:
        raise DefinitionError(
            f"the state of a budget is an object of {', '.join(sorted(fields))}, "
            "as state_dict() gives it"
        )
    over, seconds = state["over"], state["seconds"]
    if not isinstance(over, dict) or over.keys() != {"tokens", "usd"}:
        raise DefinitionError("the state of a budget: over is an object of tokens and usd")
    if type(seconds) not in (int, float) or not 0 <= seconds <= MOST:
        raise DefinitionError(f"the state of a budget: seconds is no time: {_shown(seconds)}")
    spent = [_stated(state, limit) for limit in LIMITS]
    return spent, float(seconds), (_stated(over, "tokens"), _stated(over, "usd"))


def _stated(state: dict[str, Any], field: str) -> int:
    value = state[field]
    if field == "usd":
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,40}(\.[0-9]{1,12})?", value):
            whole, _, places = value.partition(".")
            return int(whole) * PICO + int(places.ljust(12, "0"))
    elif type(value) is int and 0 <= value <= 10**40:
        return value
    raise DefinitionError(f"the state of a budget: {field} is no amount: {_shown(value)}")
