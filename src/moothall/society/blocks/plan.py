"""A day's plan: making it, and mending it when the world or a need breaks it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, field_validator

from moothall.actions import action
from moothall.actions.signature.schema import object_schema
from moothall.agents.params import BlockParams
from moothall.foundation.jsonvalue import UnreadableText
from moothall.society.arrays import np
from moothall.society.blocks.block import CitizenBlock, Item
from moothall.society.blocks.columns import (
    DESKS,
    DOES,
    PLANNED,
    UNTIL,
    WHAT,
    WHERE,
    plan_from_status,
    plan_to_status,
)
from moothall.society.blocks.day_rows import items_of
from moothall.society.blocks.economy import buys_after
from moothall.society.blocks.hours import (
    NONE,
    SLOT,
    STUDY,
    WORK,
    Day,
    HoursParams,
    day_of,
    item_of_plan,
    windows,
)
from moothall.society.blocks.needs import NeedsBlock
from moothall.society.blocks.plan_rows import before_rows, step_rows
from moothall.society.blocks.rules import (
    ERRANDS,
    LEISURE,
    PIECE,
    SHOPPING,
    SPARE,
    item_at,
    with_item,
)
from moothall.society.clock import DAY_S
from moothall.society.kernel.perception import TIME
from moothall.society.kernel.wants import Move

_HOUR: Final = 3600
_MOST: Final = 12
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
    def _some_at_home(cls, given: tuple[int, ...]) -> tuple[int, ...]:
        if not any(w for w, (_, where, _) in zip(given, LEISURE, strict=True) if where == "home"):
            raise ValueError("one of what is done at home must have a weight above 0")
        return given


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
    columns = PLANNED
    before_rows, step_rows = before_rows, step_rows
    to_status, from_status = plan_to_status, plan_from_status

    async def before_forward(self) -> None:
        """Make this day's plan unless it exists, and mend it so that this step can follow it."""
        status = self.status
        day, time = divmod(self.now, DAY_S)
        home, duty = status.get("home"), self._duty_place
        moved = status.get("plan_home", home) != home or status.get("plan_duty", duty) != duty
        remade = status.get("day") != day or not status.get("plan") or moved
        if remade:
            status["plan"] = await self._by_model() or self._by_rule()
            status.update(day=day, plan_home=home, plan_duty=duty)
            status.pop("stuck", None)
        item, before = self.item, status.get("now")
        over = before is None or item is None or not item["from"] <= time < item["until"]
        if over:
            if before is not None and not remade and self.llm is not None:
                self._note_done(status["plan"][before])
            if before is not None and not remade and self._is_late(time):
                status["errand"] = status["plan"][before]["do"]  # for the `EconomyBlock`
            status["now"] = max(0, item_at(status["plan"], time))
            if status["now"] != before:
                status.pop("stuck", None)
        self._bring_forward(time, before if over and not remade else None)
        self._mend(time, begins=remade or over)

    def _note_done(self, item: Item) -> None:
        """Remember an item that is over, so that the citizen can tell of its day."""
        start, end = (f"{at // 3600:02}:{at // 60 % 60:02}" for at in (item["from"], item["until"]))
        where = self.perceived.place
        place = " at home" if where == self.status.get("home") else f" at {where}" if where else ""
        self.note(f"From {start} to {end} its plan was: {item['do']}{place}")

    async def forward(self) -> None:
        """Do nothing: the plan is made and mended before each step."""

    # -- errands -----------------------------------------------------------------------------------

    @property
    def _buys(self) -> bool:
        """Whether the citizen has an `EconomyBlock`, whose turn comes later."""
        return buys_after(self, self.agent.blocks)

    def _is_late(self, time: int) -> bool:
        """Return whether the citizen is where an errand was that is over, and has not bought."""
        item, city, place = self.item, self.city, self.perceived.place
        if item is None or place is None or city is None or item["where"] != place:
            return False
        if item["do"] not in ERRANDS or item.get("bought") or not self._buys:
            return False
        sells = item["do"] == "shop" or city.kind(place) == "restaurant"
        return sells and self.is_open(place, time)

    def _bring_forward(self, time: int, before: int | None) -> None:
        """Set out now for an errand that a long step has no time for, so as to be there before it.

        That is one that came after item `before` and is over, or one of the next two steps.
        """
        if (step := self.perceived.seconds) <= SLOT:
            return
        status, city, item = self.status, self.city, self.item
        spare = item is not None and item["do"] in SPARE and not status.get("moving")
        if city is None or not spare or not self._buys:
            return
        plan, now = status["plan"], status["now"]
        if any("kind" in each for each in plan[now:]):
            return  # it stays where it has chosen to be: rows remember one chosen place
        missed = plan[before + 1 : now] if before is not None else []
        soon = (each for each in plan[now + 1 :] if each["from"] < time + 2 * step)
        kinds, home = {*city.kinds()}, status.get("home")
        kinds -= {home, *map(status.get, ("work", "school"))}
        for each in (*reversed(missed), *soon):
            if each["do"] in ERRANDS and each["where"] in kinds and "kind" not in each:
                errand = item_of_plan(each["do"], each["where"], time, min(time + step, DAY_S))
                each.update(do="leisure", where=home)
                status["plan"] = with_item(plan, errand)
                status["now"] = item_at(status["plan"], time)
                return

    # -- making ------------------------------------------------------------------------------------

    def _by_rule(self) -> list[Item]:
        home, duty = self.status.get("home"), self._duty_place
        row = self.own_row()
        at = np.array([-1 if home is None else 0]), np.array([home != duty]) * (1 if duty else -1)
        items = items_of(self, row, row.ids, self._hours(), *at)
        kinds = () if self.city is None else self.city.kinds()
        places = dict(enumerate([None, home, duty, None, *kinds]))
        plan: list[Item] = []
        for packed in (int(each[0]) for _, each in items):
            do, begins = DOES[packed >> WHAT & 7], plan[-1]["until"] if plan else 0
            plan.append(item_of_plan(do, places[packed & WHERE], begins, packed >> UNTIL))
        return plan

    @property
    def _duty_place(self) -> str | None:
        """The place of work, or else the school."""
        return self.status.get("work") or self.status.get("school")

    def _hours(self) -> Day:
        """Return the hours of this day, an array of one each."""
        status, city, place = self.status, self.city, self._duty_place
        duty = NONE if not place else WORK if status.get("work") else STUDY
        trade = (status.get("profile") or {}).get("occupation")
        known = place in city if city is not None and place else False
        desk = trade in DESKS and known and city.kind(place) == "work"
        open_ = None
        if known and hasattr(city, "is_open"):
            times = [[city.is_open(place, time)] for time in range(0, DAY_S, SLOT)]
            open_ = windows(np.array(times))
        seed, citizen, step = self.draws.words
        return day_of(
            self.params,
            seed,
            np.array([citizen], np.uint64),
            step,
            free=bool(getattr(self.perceived.clock, "is_weekend", False)),
            duty=np.array([duty]),
            desk=np.array([desk and status.get("home") is not None]),
            open_=open_,
            which=np.zeros(1, np.int64),
        )

    async def _by_model(self) -> list[Item] | None:
        """Return the model's plan; None without a model or a usable answer."""
        if self.llm is None:
            return None
        status, city = self.status, self.city
        kinds = [] if city is None else [each for each in city.kinds() if each != "home"]
        places = list(dict.fromkeys(["home", *(["work"] if self._duty_place else ()), *kinds]))
        time = {"type": "string", "pattern": TIME}
        piece = object_schema(
            **{"from": {**time, "description": "when it begins; it lasts until the next begins"}},
            do={"enum": list(DOES)},
            where={"enum": places},
        )
        pieces = {"type": "array", "minItems": 1, "maxItems": _MOST, "items": piece}
        own = {"home": status.get("home"), "work": self._duty_place}

        def read(answer: dict[str, Any]) -> list[Item]:
            # In order of their beginning; of two that begin at once, the first holds.
            starts: dict[int, tuple[str, str | None]] = {}
            for each in sorted(answer["plan"], key=lambda each: _of_day(each["from"])):
                start, what = _of_day(each["from"]), (each["do"], each["where"])
                if start < DAY_S:
                    starts.setdefault(start, (what[0], own.get(what[1], what[1])))
            if not starts:
                raise UnreadableText('has no item whose "from" is before 24:00')
            starts = {0: ("sleep", own["home"]), **starts}
            ends = [*list(starts)[1:], DAY_S]
            return [
                item_of_plan(do, where, start, end)
                for (start, (do, where)), end in zip(starts.items(), ends, strict=True)
            ]

        return await self.decide(  # type: ignore[no-any-return]
            "Plan the day, from 00:00 on, in order: from when, what, where. Each item lasts until "
            f"the next begins, the last until 24:00. {_MOST} items at most. Plan for who you are; "
            'the example is another day, "an example".',
            object_schema(plan=pieces),
            read,
            **{"an example": self._example(own)},
        )

    def _example(self, own: dict[str, Any]) -> list[dict[str, str]]:
        """Return the plan that the rule would make, as a model writes it: what equals is joined."""
        names = {place: kind for kind, place in own.items() if place is not None}
        shown: list[dict[str, str]] = []
        for each in self._by_rule():
            where = names.get(each["where"], each["where"] or "home")
            if shown and (shown[-1]["do"], shown[-1]["where"]) == (each["do"], where):
                continue
            hours, minutes = divmod(each["from"] // 60, 60)
            shown.append({"from": f"{hours:02}:{minutes:02}", "do": each["do"], "where": where})
        return shown[:_MOST]

    # -- mending -----------------------------------------------------------------------------------

    def _mend(self, time: int, begins: bool) -> None:
        """Mend the plan for this step: first what the world broke, then the needs."""
        item, status = self.item, self.status
        if item is None or status.get("moving"):
            return
        why = status.pop("stuck", None)
        for answer in self.perceived.answers:
            # If an item begins, a way that was refused was to the item before.
            if isinstance(answer.want, Move) and not answer.done and not begins:
                why = answer.reason or "it could not get there"
        where, city = item["where"], None if why else self.city
        if city is not None and where in city and not self.is_open(where, time):
            why = f"{where} is closed"
        if why:
            self._elsewhere(item, time, why)
        self._urgent(time)

    def _elsewhere(self, item: Item, time: int, why: str) -> None:
        """Move the item to another place of its kind, or else stay at home."""
        kind = item.get("kind")
        avoid = [*item.get("avoid", ()), item["where"]]
        if kind is not None and item["where"] != kind and len(avoid) <= 3:
            item.update(where=kind, avoid=avoid)
            self._mended(why, f"another {kind}")
            return
        home = self.status.get("home")
        if item["where"] == home:
            item["where"] = None  # home is unreachable: the citizen stays where it is
            self._mended(why, "stays where it is")
        else:
            self._put(item_of_plan("leisure", home, time, item["until"]), why)

    def _urgent(self, time: int) -> None:
        """Insert the remedy of a need at its threshold."""
        item = self.item
        if item is None or item["do"] in ("sleep", "eat"):
            return
        needs = next((block for block in self.agent.blocks if isinstance(block, NeedsBlock)), None)
        need = None if needs is None else needs.kinds.get(needs.urgent)
        if need is None or (not need.in_duty and item["do"] in ("work", "study")):
            return
        home = self.status.get("home")
        if item["do"] == need.remedy and (not need.at_home or item["where"] == home):
            return
        until = min(time + need.seconds, DAY_S)
        where = home if need.at_home else None
        self._put(item_of_plan(need.remedy, where, time, until), f"its {need.name} is too low")

    def _put(self, item: Item, why: str) -> None:
        status = self.status
        status["plan"] = with_item(status["plan"], item)
        status["now"] = item_at(status["plan"], item["from"])
        self._mended(why, item["do"])

    def _mended(self, why: str, how: str) -> None:
        self.status["mended"] = self.status.get("mended", 0) + 1
        self.note(f"Its plan broke: {why}; now {how}.")

    @action(idempotent=True)
    async def plan(self) -> list[dict[str, Any]]:
        """Say what is planned for today.

        Returns:
            the items in order: do, where, from and until (seconds after midnight)
        """
        return [dict(item) for item in self.status.get("plan") or ()]


def _of_day(text: str) -> int:
    """Return the seconds after midnight of `HH:MM`."""
    hours, _, minutes = text.partition(":")
    return int(hours) * _HOUR + int(minutes) * 60
