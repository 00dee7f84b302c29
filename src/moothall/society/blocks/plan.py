"""A day's plan: making it, and mending it when the world or a need breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, field_validator

from moothall import BlockParams, action
from moothall.build import UnreadableText, object_schema
from moothall.society.arrays import Array, any_of, np, where
from moothall.society.blocks.citizen_block import CitizenBlock, now_of
from moothall.society.blocks.columns import (
    ACTIVITIES,
    PLAN_BLOCK_COLUMNS,
    plan_from_status,
    plan_to_status,
)
from moothall.society.blocks.day_rows import make_plans
from moothall.society.blocks.economy import buys_after
from moothall.society.blocks.hours import (
    SLOT_S,
    HoursParams,
    item_of_plan,
)
from moothall.society.blocks.needs import NeedsBlock
from moothall.society.blocks.plans import Plans
from moothall.society.blocks.rules import ERRANDS, LEISURE, PIECE, SHOPPING, SPARE
from moothall.society.clock import DAY_S
from moothall.society.columns import city_queries
from moothall.society.columns.rows import Rows
from moothall.society.columns.turn_row import Row
from moothall.society.kernel.perception import TIME_PATTERN, Item
from moothall.society.kernel.wants import Move

_HOUR_S: Final = 3600
_DUTIES: Final = ("work", "study")
_MAX_ITEMS: Final = 12
"""A model's items at most: 12 take 400 of a local model's 512 tokens; 16 are too long."""

_Weight = Annotated[int, Field(ge=0)]
_Lengths = tuple[Annotated[int, Field(ge=2, le=96)], Annotated[int, Field(ge=1, le=96)]]


class PlanBlockParams(HoursParams):
    """The hours of a day, in seconds after midnight, and where dinner is."""

    dines: int = Field(default=80, ge=0, le=1000, description="dinners out, of a thousand")
    leisure: tuple[_Weight, ...] = Field(
        default=tuple(weight for *_, weight in LEISURE),
        min_length=len(LEISURE),
        max_length=len(LEISURE),
        description="weights of free time, as `blocks/rules.py` lists its activities and places",
    )
    piece: _Lengths = Field(
        default=PIECE, description="quarters of an hour of free time: the least, and how many more"
    )
    shopping: _Lengths = Field(default=SHOPPING, description="the same of shopping")

    @field_validator("leisure")
    @classmethod
    def _check_some_at_home(cls, weights: tuple[int, ...]) -> tuple[int, ...]:
        if not any(w for w, (_, where, _) in zip(weights, LEISURE, strict=True) if where == "home"):
            raise ValueError("one of what is done at home must have a weight above 0")
        return weights


class PlanBlock(CitizenBlock):
    """Makes a plan for each day, and mends it when the world or a need breaks it.

    A plan is a list of consecutive items, `{"do", "where", "from", "until"}`, times in seconds
    after midnight. `where` is a place, None, or a kind of place, of which the mobility block
    chooses one. Sleep, meals and work or school are set, at hours that differ by person and day
    (`blocks/hours.py`, with the sources); drawn pieces of half an hour to two hours fill free time,
    most of it at home (`leisure`). Following a day's plan and mending parts of it is the method of
    generative agents (Park et al. 2023, arXiv:2304.03442). That a need at its threshold comes
    before the plan is AgentSociety's rule (Piao et al. 2025, arXiv:2502.08691).

    =====================================  =========================================================
    the plan breaks when                   it is mended by
    =====================================  =========================================================
    the place is full                      another place of its kind, or else staying at home
    the place is closed or unreachable     another place of its kind, or else staying at home
    hunger is at its threshold             a meal of half an hour, at the current place
    energy is at its threshold             two hours of sleep at home
    safety is at its threshold             an hour at home
    social is at its threshold             an hour in company, after work or school
    its home or work changes               a new plan of the day
    =====================================  =========================================================

    The thresholds are those of the citizen's `NeedsBlock`; no need breaks sleep or a meal. With a
    model, the day's plan is its answer, of starts: each item lasts until the next. A step carries
    out the item at its beginning: steps of 15 or 30 minutes follow a plan, longer ones miss meals.
    They miss few purchases: who arrives at a shop or restaurant when the time for it is over buys
    in passing, and an errand that a long step leaves no time for is brought forward, where the time
    is spare.
    """

    description = "Plans the day, and mends the plan when something comes between"
    actions: dict[str, str] = {"plan": "Plan the day, and mend what breaks"}  # noqa: RUF012
    ParamsType: ClassVar[type[BlockParams]] = PlanBlockParams
    params: PlanBlockParams
    columns = PLAN_BLOCK_COLUMNS
    to_status, from_status = plan_to_status, plan_from_status
    status_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("plan",), ("now",), ("stuck",))

    async def before_forward(self) -> None:
        """Make this day's plan unless it exists, and mend it so that this step can follow it."""
        row = self.own_row()
        asks_model = self.llm is not None and Plans(row).is_due(self.now // DAY_S)
        update_plans(self, row, await self._plan_by_model() if asks_model else None)

    def before_rows(self, rows: Rows) -> None:
        """Do `before_forward` for rows."""
        update_plans(self, rows)

    def step_rows(self, rows: Rows) -> None:
        """Do nothing: the plan is made and mended before each step."""

    def make_rows(self, plans: Plans, at: Array) -> None:
        """Write this day's plans of some rows by rule."""
        rows = plans.rows
        if isinstance(rows, Row):  # arrays of one, as of others
            row, rows = rows, Rows(rows.population, rows.moment, rows.first, rows.until, {})
            rows.city, plans = row.city, Plans(rows)
        make_plans(self, rows, plans, at)

    def note_end(self, item: Item) -> None:
        """Remember an item that is over, so that a citizen led by a model can tell of its day."""
        if self.llm is None:
            return
        start, end = (f"{t // 3600:02}:{t // 60 % 60:02}" for t in (item["from"], item["until"]))
        where = self.perceived.place
        place = " at home" if where == self.status.get("home") else f" at {where}" if where else ""
        self.note(f"From {start} to {end} its plan was: {item['do']}{place}")

    # -- making ------------------------------------------------------------------------------------

    def by_rule(self) -> list[Item]:
        """Return the plan of this day by rule; the citizen's own stays as it is."""
        row = self.own_row()
        arrays, at = row.population.arrays, slice(row.first, row.until)
        before = {name: arrays[name][at].copy() for name in self.columns}
        self.make_rows(Plans(row), np.arange(1))
        status: dict[str, Any] = {}
        self.to_status(row.population, row.first, status)
        for name, values in before.items():
            arrays[name][at] = values
        plan: list[Item] = status["plan"]
        return plan

    @property
    def _duty_place(self) -> str | None:
        """The place of work, or else the school."""
        return self.status.get("work") or self.status.get("school")

    async def _plan_by_model(self) -> list[Item] | None:
        """Return the model's plan; None without a model or a usable answer."""
        if self.llm is None:
            return None
        status, city = self.status, self.city
        kinds = [] if city is None else [each for each in city.kinds() if each != "home"]
        places = list(dict.fromkeys(["home", *(["work"] if self._duty_place else ()), *kinds]))
        time = {"type": "string", "pattern": TIME_PATTERN}
        piece = object_schema(
            **{"from": {**time, "description": "when it begins; it lasts until the next begins"}},
            do={"enum": list(ACTIVITIES)},
            where={"enum": places},
        )
        pieces = {"type": "array", "minItems": 1, "maxItems": _MAX_ITEMS, "items": piece}
        own_places = {"home": status.get("home"), "work": self._duty_place}

        def read(answer: dict[str, Any]) -> list[Item]:
            # In order of their beginning; of two that begin at once, the first holds.
            starts: dict[int, tuple[str, str | None]] = {}
            for each in sorted(answer["plan"], key=lambda each: _seconds_of_day(each["from"])):
                start, entry = _seconds_of_day(each["from"]), (each["do"], each["where"])
                if start < DAY_S:
                    starts.setdefault(start, (entry[0], own_places.get(entry[1], entry[1])))
            if not starts:
                raise UnreadableText('has no item whose "from" is before 24:00')
            starts = {0: ("sleep", own_places["home"]), **starts}
            ends = [*list(starts)[1:], DAY_S]
            return [
                item_of_plan(do, where, start, end)
                for (start, (do, where)), end in zip(starts.items(), ends, strict=True)
            ]

        return await self.decide(  # type: ignore[no-any-return]
            "Plan the day, from 00:00 on, in order: from when, what, where. Each item lasts until "
            f"the next begins, the last until 24:00. {_MAX_ITEMS} items at most. Plan for who you "
            'are; the example is another day, "an example".',
            object_schema(plan=pieces),
            read,
            **{"an example": self._example(own_places)},
        )

    def _example(self, own_places: Mapping[str, object]) -> list[dict[str, str]]:
        """Return the plan that the rule would make, as a model writes it: what equals is joined."""
        names = {place: kind for kind, place in own_places.items() if place is not None}
        pieces: list[dict[str, str]] = []
        for each in self.by_rule():
            where = names.get(each["where"], each["where"] or "home")
            if pieces and (pieces[-1]["do"], pieces[-1]["where"]) == (each["do"], where):
                continue
            hours, minutes = divmod(each["from"] // 60, 60)
            pieces.append({"from": f"{hours:02}:{minutes:02}", "do": each["do"], "where": where})
        return pieces[:_MAX_ITEMS]

    @action(idempotent=True)
    async def plan(self) -> list[dict[str, Any]]:
        """Say what is planned for today.

        Returns:
            the items in order: do, where, from and until (seconds after midnight)
        """
        return [dict(item) for item in self.status.get("plan") or ()]


# -- the rules, for one citizen and for rows ------------------------------------------------------


def update_plans(block: PlanBlock, rows: Rows, model_plan: list[Item] | None = None) -> None:
    """Make missing plans of this day, advance plans, and mend them so that this step can follow."""
    day, time = divmod(now_of(rows), DAY_S)
    plan = Plans(rows)
    is_due = plan.is_due(day)
    for part in rows.only(is_due):
        Plans(part).make(block, day, model_plan)
    is_over = is_due | plan.is_over(time)
    if any_of(is_over) or rows.seconds > SLOT_S:
        ends = is_over & (is_due != True)  # noqa: E712 - of arrays, too
        plan.remember(block, ends)
        buys = hasattr(rows.city, "by_kind") and buys_after(block, rows.blocks)
        for part in rows.only(ends & buys):
            _buy_in_passing(part, time)
        _advance(rows, plan, is_over, ends, time, buys)
    _mend(rows, plan, time, is_over)


# -- errands ---------------------------------------------------------------------------------------


def _buy_in_passing(rows: Rows, time: int) -> None:
    """Let those buy in passing who are where an errand was that is over, and have not bought."""
    for shoppers in rows.only(Plans(rows).is_doing(*ERRANDS)):
        place = shoppers.column("place")
        for arrived in shoppers.only((place >= 0) & (shoppers.column("item_where") == place)):
            place = arrived.column("place")
            sells = Plans(arrived).is_doing("shop") | city_queries.is_kind(
                arrived, place, "restaurant"
            )
            for buyers in arrived.only(sells & city_queries.is_open(arrived, place, time)):
                has_bought = Plans(buyers).has_bought()
                for buyer in buyers.only(has_bought != True):  # noqa: E712 - of arrays, too
                    buyer["errand"] = buyer.column("item_do")


def _advance(rows: Rows, plan: Any, is_over: Any, ends: Any, time: int, buys: bool) -> None:
    """Advance plans whose item is over; with long steps, bring errands forward.

    Set out now for an errand that a long step has no time for: one that came after the item before
    and is over, or one of the next two steps.
    """
    can_bring = buys and rows.seconds > SLOT_S
    missed = plan.missed_errands(time, ends) if can_bring else 0
    for part in rows.only(is_over):
        Plans(part).advance(time)
    if can_bring:
        until = time + rows.seconds
        is_spare = plan.is_doing(*SPARE) & (plan.is_moving() != True) & plan.is_free()  # noqa: E712
        upcoming = plan.next_errands(until + rows.seconds, is_spare & (missed == 0))
        errand_item = where(missed > 0, missed, upcoming)
        plan.bring_forward(errand_item, time, min(until, DAY_S), is_spare & (errand_item > 0))


# -- mending ---------------------------------------------------------------------------------------


def _mend(rows: Rows, plan: Any, time: int, is_new_item: object) -> None:
    """Mend plans: first what the world broke, then by needs."""
    is_there = plan.is_moving() != True  # noqa: E712
    is_broken = plan.take_stuck(is_there)
    refused = rows.refused(Move) if rows.is_answered else None
    if refused is not None:  # if an item begins, a way that was refused was to the item before
        is_broken = is_broken | plan.note_refused(refused & is_there & (is_new_item != True))  # noqa: E712
    is_closed = plan.is_closed(time)
    if is_closed is not None:
        plan.note_closed(is_closed & is_there & (is_broken != True))  # noqa: E712
        is_broken = is_broken | (is_closed & is_there)
    if any_of(is_broken):
        for part in rows.only(is_broken):
            _try_other_places(part, time)
    _insert_remedies(rows, plan, is_there, time)


def _try_other_places(rows: Rows, time: int) -> None:
    """Move items to another place of their kind, or else stay at home."""
    has_others = Plans(rows).has_others()
    at_home = Plans(rows).is_at_home()
    for part in rows.only(has_others):
        Plans(part).try_another()
    for part in rows.only((has_others != True) & at_home):  # noqa: E712 - home is unreachable
        Plans(part).stay()
    for part in rows.only((has_others | at_home) != True):  # noqa: E712
        Plans(part).go_home(time)


def _insert_remedies(rows: Rows, plan: Any, is_there: object, time: int) -> None:
    """Insert the remedy of a need at its threshold."""
    may_be_helped = is_there & (plan.is_doing("sleep", "eat") != True)  # noqa: E712
    if not any_of(may_be_helped):
        return
    needs = next((each for each in rows.blocks if isinstance(each, NeedsBlock)), None)
    if needs is None:
        return
    for part in rows.only(may_be_helped & needs.is_any_low(rows)):
        first = needs.first_low(part)
        at_home = Plans(part).is_at_home()
        is_in_duty, need_numbers = Plans(part).is_doing(*_DUTIES), first
        for number, need in enumerate(needs.kinds.values()):
            is_helped = Plans(part).is_doing(need.remedy) & (at_home | (not need.at_home))
            waits = is_in_duty & (not need.in_duty)
            need_numbers = where((first == number) & (is_helped | waits), -1, need_numbers)
        Plans(part).put_remedies([*needs.kinds.values()], need_numbers, time)


def _seconds_of_day(text: str) -> int:
    """Return the seconds after midnight of `HH:MM`."""
    hours, _, minutes = text.partition(":")
    return int(hours) * _HOUR_S + int(minutes) * 60
