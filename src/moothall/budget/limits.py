"""The kinds of limits: all that budgets, books, commands, settings and pages know of each.

To add one, append it to `RESERVABLE`, whose order the books keep, and to `AmountArguments`
and `AmountFields`, by which type checkers and editors know its name; with an `option_help`, to
`RunLimits`. What spends of it then reserves it: a resumed run is charged what calls of models
reserved (`BudgetedModel`). Where an action spends of it, `Step.charge` says how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypedDict, TypeVar

from moothall.foundation.arguments import check_integer
from moothall.foundation.errors import ConfigError
from moothall.foundation.text import excerpt, shorten

PICOS_PER_UNIT: Final = 10**12
MAX_AMOUNT: Final = 2**53  # every JSON reader reads integers up to this exactly
_MAX_USD = 10**16
_MIN_USD = Decimal("1E-12")


@dataclass(frozen=True)
class Limit:
    """A kind of limit.

    Attributes:
        name: its name as an argument, a setting, an option, and in what is stored
        unit: what it counts, for people
        parts: in how many parts of a unit it is counted, so that sums are exact
        measured: whether a call may take more or less of it than was reserved
        bounds_asking: whether a model cannot be asked once it is used up
        option_help: what the option `--max-NAME` of a command is; empty without such an option
        stop_reason: that of a run that has reached it
        limit_scope: what its limit counts in a run that is resumed with more
        is_reserved: whether it is reserved before it is spent; seconds pass by themselves
    """

    name: str
    unit: str
    parts: int = 1
    measured: bool = False
    bounds_asking: bool = False
    option_help: str = ""
    stop_reason: ClassVar[str] = "budget"
    limit_scope: ClassVar[str] = "in all"
    is_reserved: ClassVar[bool] = True

    @property
    def is_whole_number(self) -> bool:
        """Whether it takes whole numbers only."""
        return self.parts == 1

    def counted(self, subject: str, amount: Any, *, rounds_up: bool = True) -> Any:
        """Check an amount, and return it as it is counted, rounded up or down."""
        if self.parts > 1:
            return picodollars(subject, amount, self.name, rounds_up=rounds_up)
        if type(amount) is not int or not 0 <= amount <= MAX_AMOUNT:
            check_integer(f"{subject}: {self.name}=", amount, 0, MAX_AMOUNT)
        return amount

    def in_units(self, amount: Any) -> Any:
        """Return a counted amount as programs are shown it."""
        return amount if self.is_whole_number else amount / self.parts

    def digits(self, amount: int) -> str:
        """Return a counted amount in exact digits."""
        if self.is_whole_number:
            return str(amount)
        integer, fraction = divmod(amount, self.parts)
        return f"{integer}.{fraction:012d}".rstrip("0").rstrip(".")


class TimeLimit(Limit):
    """A limit of seconds, which pass by themselves: nobody reserves them."""

    stop_reason = "deadline"
    limit_scope = "from now on"
    is_reserved = False
    is_whole_number = False

    def counted(self, subject: str, amount: Any, *, rounds_up: bool = True) -> Any:
        """Return seconds."""
        if type(amount) in (int, float) and 0 <= amount <= MAX_AMOUNT:
            return amount
        rule = f"{subject}: {self.name}= must be a number of {self.unit}"
        raise ConfigError(f"{rule} from 0 to {MAX_AMOUNT}, got {_value_text(amount)}")

    def in_units(self, amount: Any) -> Any:
        """Return seconds."""
        return amount


USD: Final = Limit("usd", "US dollars", PICOS_PER_UNIT, True, True, "limit of costs in US dollars.")
RESERVABLE: Final = (
    Limit(
        "tokens",
        "tokens",
        measured=True,
        bounds_asking=True,
        option_help="limit of tokens, in all.",
    ),
    USD,
    Limit("model_calls", "model calls", bounds_asking=True),
    Limit("actions", "actions"),
)
"""What is reserved, in the order of all counted amounts."""
KIND_BY_NAME: Final = {limit.name: kind for kind, limit in enumerate(RESERVABLE)}
"""The index in `RESERVABLE` of each limit: what budgets call its kind."""
SECONDS: Final = TimeLimit("seconds", "seconds", option_help="time limit.")
LIMITS: Final = (*RESERVABLE, SECONDS)
"""The kinds of limits of a budget, the time last."""
RUN_LIMITS: Final = {f"max_{each.name}": each for each in LIMITS if each.option_help}
"""The limits that a command's run may have, by the names of its order."""


WholeT = TypeVar("WholeT")
DollarsT = TypeVar("DollarsT")


class AmountArguments(TypedDict, Generic[WholeT, DollarsT], total=False):
    """Amounts as arguments: whole numbers, and dollars."""

    tokens: WholeT
    usd: DollarsT
    model_calls: WholeT
    actions: WholeT


Amounts: TypeAlias = AmountArguments[int, float | Decimal]
"""What is reserved or charged."""
AmountsOrNone: TypeAlias = AmountArguments[int | None, float | Decimal | None]
"""What a call took, or takes at least; None for an amount that is not known."""


class Limits(AmountArguments[int | None, float | Decimal | None], total=False):
    """The limits of a budget."""

    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """The limits that a command's run has, as its order records them."""

    max_tokens: int | None = None
    max_usd: float | None = None
    max_seconds: float | None = None

    def limits(self) -> dict[str, float | None]:
        """Return the limits as `Budget` takes them."""
        return {limit.name: getattr(self, name) for name, limit in RUN_LIMITS.items()}


_UNSET: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class AmountFields(Generic[WholeT, DollarsT]):
    """Amounts as attributes: whole numbers, and dollars."""

    tokens: WholeT = _UNSET
    usd: DollarsT = _UNSET
    model_calls: WholeT = _UNSET
    actions: WholeT = _UNSET


@dataclass(frozen=True, slots=True)
class Spent(AmountFields[int, float]):
    """Amounts: of tokens, US dollars, model calls, actions and seconds."""

    seconds: float = 0.0


Spent.__init__.__defaults__ = (*(limit.in_units(0) for limit in RESERVABLE), 0.0)


@dataclass(frozen=True, slots=True)
class Left(AmountFields[int | None, float | None]):
    """What is left of each limit; None without a limit."""

    seconds: float | None = None

    def used_up(self, *, to_ask: bool = False) -> list[str]:
        """Return the limits of which nothing can be reserved; `to_ask`: those of asking a model."""
        return [
            each.name
            for each in RESERVABLE
            if getattr(self, each.name) == 0 and (each.bounds_asking or not to_ask)
        ]


def _value_text(value: object) -> str:
    """Return a value's text for an error, even of a number that JSON cannot hold."""
    if type(value) is int:
        return excerpt(value) if abs(value) < 10**80 else "an integer of more than 80 digits"
    if type(value) is Decimal:
        return f"Decimal {shorten(str(value))}"
    return excerpt(value)


def picodollars(subject: str, usd: object, name: str = "usd", *, rounds_up: bool = True) -> int:
    """Return US dollars, which `subject` was given as `name`, in whole picodollars.

    A float is read as the decimal number that it is written as: 0.1 is a tenth.
    """
    if isinstance(usd, float) and 0.0 <= usd <= 1e16:
        amount = round(usd * 1e12)  # exactly a float, so that the division rounds only once
        if amount / 1e12 == usd:
            return amount
        value = Decimal(float.__repr__(usd))
    elif type(usd) is int or type(usd) is Decimal:
        value = Decimal(usd)
    else:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= _MAX_USD:
        raise ConfigError(
            f"{subject}: {name}= must be a number of US dollars from 0 to {_MAX_USD}, got "
            f"{_value_text(usd)}"
        )
    if value < _MIN_USD:
        # The exact ratio of 1e-999999 would fill the memory.
        return 1 if rounds_up and value else 0
    numerator, denominator = value.as_integer_ratio()
    picos = numerator * PICOS_PER_UNIT
    return -(-picos // denominator) if rounds_up else picos // denominator
