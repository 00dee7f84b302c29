"""Needs: they fall with time and rise with the citizen's acts."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import Field

from moothall import BlockParams, ConfigError, DefinitionError, action
from moothall.build import check_integer
from moothall.society.arrays import Numbers, any_of, smaller, where, within
from moothall.society.blocks import columns
from moothall.society.blocks.citizen_block import CitizenBlock, CitizenBlockParams, now_of
from moothall.society.blocks.columns import ACTS, act_code
from moothall.society.columns.column import Column
from moothall.society.columns.rows import Rows
from moothall.society.kernel.wants import Buy, Work


@dataclass(frozen=True)
class Need:
    """A need, and the activity that the plan gets when the need is at its threshold.

    Attributes:
        name: its name in `status["needs"]`, and the parameter of `NeedsBlock` with its threshold
        remedy: the activity
        seconds: how long
        rates: its change in an hour of each act, in thousandths of full; of an act that is not
            there, that of `idle`. An act of a block of your own may be there too
        at_home: whether the activity helps at home alone
        in_duty: whether it interrupts work and study

    Raises:
        ConfigError: a value is not valid
    """

    name: str
    remedy: str
    seconds: int
    rates: dict[str, int]
    at_home: bool = False
    in_duty: bool = True

    def __post_init__(self) -> None:
        title, rates = f"need {self.name!r}: ", self.rates
        check_integer(f"{title}seconds", self.seconds, 1, 86_400)
        if not isinstance(rates, dict) or any(type(rate) is not int for rate in rates.values()):
            raise ConfigError(
                f"{title}rates must be whole numbers by act, in thousandths an hour, got "
                f"{rates!r:.80}"
            )
        if "idle" not in rates:
            raise ConfigError(f"{title}rates must have idle, which counts for all other acts")


_AWAKE: Final = dict.fromkeys(("eat", "work", "study", "shop", "social", "travel"), -50)
_IN_DUTY: Final = {"work": 20, "study": 20}
_IN_COMPANY: Final = {"eat": 0, "social": 600, "browse": 50}
_AT_EASE: Final = {"eat": 0, "social": 0, "sleep": 20, "leisure": 20, "browse": 20}
_LONELY: Final = {"sleep": -25, "leisure": -50, "idle": -100}
NEEDS: Final[dict[str, Need]] = {
    need.name: need
    for need in (
        Need("hunger", "eat", 1800, {"sleep": -30, "eat": 2000, "idle": -120}),
        Need("energy", "sleep", 7200, {"sleep": 125, **_AWAKE, "idle": -40}, at_home=True),
        Need("safety", "leisure", 3600, {**_IN_DUTY, **_AT_EASE, "idle": -50}, at_home=True),
        Need("social", "social", 3600, {**_IN_DUTY, **_IN_COMPANY, **_LONELY}, in_duty=False),
    )
}
"""All needs by name, in the order of their priority."""
CONTACT_GAIN: Final = 60
"""A received message raises the social need by this; at most four count in a step."""


def change_of(rate: int, start: int, seconds: int) -> int:
    """Return the change of a need in `seconds` from `start` at a rate in thousandths an hour."""
    # The totals at both ends are rounded down, so many short steps add up to one long step.
    return rate * (start + seconds) // 3600 - rate * start // 3600


@functools.lru_cache(maxsize=64)
def changes_by(rates: tuple[int, ...], speed: int, start: int, seconds: int) -> tuple[int, ...]:
    """Return the change of each need at these rates; `speed`, in thousandths, scales falling."""
    return tuple(change_of(r * speed // 1000 if r < 0 else r, start, seconds) for r in rates)


def _rates_of(kinds: dict[str, Need]) -> dict[str, tuple[int, ...]]:
    """Return the change of each need in an hour of each act, in thousandths of full."""
    acts = (act for need in kinds.values() for act in need.rates)
    return {
        act: tuple(need.rates.get(act, need.rates["idle"]) for need in kinds.values())
        for act in dict.fromkeys((*filter(None, ACTS), *acts))  # those of columns by their code
    }


@functools.lru_cache(maxsize=64)
def _changes_by_act(block_type: Any, speed: int, start: int, seconds: int) -> Numbers:
    """Return the changes of a block's needs, by the code of the act."""
    by_act = [changes_by(each, speed, start, seconds) for each in block_type._rates.values()]
    # Clip to int16: beyond ±16,000 a change makes no difference to a need of 0 … 1000.
    clipped = [[within(-16_000, each, 16_000) for each in changes] for changes in by_act]
    return Numbers([[0] * len(block_type.kinds), *clipped], "int16")


_FAILS_IF_REFUSED: Final = Numbers([act in ("work", "eat", "shop") for act in ACTS], "bool")
"""Whether an act is none if what it wanted was refused; by its code."""


def _columns_of(kinds: dict[str, Need]) -> dict[str, Column]:
    return {**columns.ACT, **{need: Column("int16", 1000, key=("needs", need)) for need in kinds}}


def _check_kinds(block: str, kinds: dict[str, Need], params: type[BlockParams]) -> None:
    """Raise DefinitionError for a need that is missing, misnamed or without a threshold."""
    if missing := [name for name in NEEDS if name not in kinds]:
        raise DefinitionError(
            f"{block}: kinds has no {', '.join(missing)}: write NeedsBlock.kinds | {{…}}"
        )
    for name, need in kinds.items():
        if not isinstance(need, Need) or need.name != name:
            raise DefinitionError(
                f"{block}: kinds[{name!r}] must be the Need of that name, got {need!r:.80}"
            )
        if name not in params.model_fields:
            raise DefinitionError(
                f"{block}: the need {name!r} has no threshold: add {name}: int to "
                f"{params.__name__}, its ParamsType"
            )


class NeedsBlockParams(CitizenBlockParams):
    """When a need breaks a plan, and how fast needs fall."""

    hunger: int = Field(default=200, ge=0, le=1000, description="the threshold of hunger")
    energy: int = Field(default=200, ge=0, le=1000, description="the threshold of energy")
    safety: int = Field(default=200, ge=0, le=1000, description="the threshold of safety")
    social: int = Field(default=300, ge=0, le=1000, description="the threshold of social needs")
    speed: int = Field(
        default=1000, ge=0, le=10_000, description="how fast needs fall, in thousandths"
    )


class NeedsBlock(CitizenBlock):
    """A citizen's needs: hunger, energy, safety and social, 0 … 1000, where 1000 is satisfied.

    They are four of the levels of Maslow 1943, "A theory of human motivation", in his order, which
    is their priority. AgentSociety (Piao et al. 2025, arXiv:2502.08691) has the same four, falling
    by 0.15, 0.08, 0.05 and 0.10 of full an hour, and calls them urgent at 0.2, 0.2, 0.2 and 0.3.
    The thresholds are the same here, and so are the rates of safety and of the social need away
    from home. Hunger falls by 0.12, asleep by a quarter of that, so that three meals a day are
    enough; energy falls by 0.05 awake and rises by 0.125 asleep, so that 16 hours and 8 balance, as
    sleep's homeostatic process does (Borbély 1982, "A two process model of sleep regulation"). How
    much an act restores is assumed (`NEEDS`): a meal of half an hour all of hunger, company 0.6 of
    the social need an hour. The rule is the same with a model.

    The act of a step, `status["act"]`, counts at the start of the next; refused work, meals and
    purchases count as `idle`.

    A subclass with a need of its own has all needs in `kinds`, and the thresholds in `ParamsType`;
    its definition raises DefinitionError otherwise.

    Attributes:
        kinds: the needs by name, in the order of their priority
    """

    kinds: ClassVar[dict[str, Need]] = NEEDS
    description = "Keeps hunger, energy, safety and social needs"
    actions: dict[str, str] = {"feel": "Needs fall with time and rise by what is done"}  # noqa: RUF012
    ParamsType: ClassVar[type[BlockParams]] = NeedsBlockParams
    params: NeedsBlockParams
    columns: ClassVar[dict[str, Column]] = _columns_of(kinds)
    by_citizen: ClassVar[frozenset[str]] = frozenset(kinds)
    _rates: ClassVar[dict[str, tuple[int, ...]]] = _rates_of(kinds)

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if {"kinds", "ParamsType"} & {*vars(cls)}:
            _check_kinds(cls.__name__, cls.kinds, cls.ParamsType)
        if "kinds" in vars(cls):
            cls._rates, cls.columns = _rates_of(cls.kinds), _columns_of(cls.kinds) | cls.columns
            cls.acts = (None, *cls._rates)

    async def before_forward(self) -> None:
        """Change the citizen's needs by the act of the step before."""
        self.before_rows(self.own_row())

    def before_rows(self, rows: Rows) -> None:
        """Change the needs by the act of the step before."""
        act = rows["act"]
        refused = rows.refused(Work, Buy) if rows.is_answered else None
        if refused is not None:
            act = where(refused & _FAILS_IF_REFUSED[act], act_code("idle"), act)
        seconds = rows.lasted if rows.step > 0 else 0
        block_type: Any = type(self)
        changes = _changes_by_act(block_type, self.params.speed, now_of(rows) - seconds, seconds)
        for need, change in zip(self.kinds, changes[act], strict=True):
            rows[need] = within(0, rows[need] + change, 1000)
        messages = rows.heard_count()
        if any_of(messages > 0):
            rows["social"] = smaller(1000, rows["social"] + CONTACT_GAIN * smaller(messages, 4))
        rows["act"] = act_code("idle")

    def step_rows(self, rows: Rows) -> None:
        """Do nothing: needs change before each step."""

    def is_any_low(self, rows: Rows) -> Any:
        """Return whether a need is at or below its threshold."""
        low = False
        for need in self.kinds:
            low = low | (rows.column(need) <= rows.parameter(self, need))
        return low

    def first_low(self, rows: Rows) -> Any:
        """Return the number of the first need at or below its threshold, −1 for none."""
        first = -1
        for number, need in reversed([*enumerate(self.kinds)]):
            first = where(rows.column(need) <= rows.parameter(self, need), number, first)
        return first

    @property
    def urgent(self) -> str:
        """The first need at or below its threshold, in the order of `kinds`; else empty."""
        first: int = self.first_low(self.own_row())
        return ["", *self.kinds][first + 1]

    @action(idempotent=True)
    async def needs(self) -> dict[str, int]:
        """Say how satisfied each need is.

        Returns:
            hunger, energy, safety and social, 0 … 1000, where 1000 is satisfied
        """
        return dict(self.status["needs"])
