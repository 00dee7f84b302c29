"""Mobility: the choice of places, the mode of travel, and setting out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from moothall.actions import action
from moothall.actions.signature.schema import object_schema
from moothall.agents.params import BlockParams
from moothall.society.blocks.block import CitizenBlock, CitizenBlockParams, Item
from moothall.society.blocks.mobility_rows import (
    COLUMNS,
    VISITED,
    fits_rows,
    from_status,
    step_rows,
    to_status,
)
from moothall.society.blocks.rules import explores, gravity
from moothall.society.city.places import Near, Places, Routes, needs
from moothall.society.clock import DAY_S
from moothall.society.kernel.perception import item_of
from moothall.society.kernel.wants import Move


class MobilityBlockParams(CitizenBlockParams):
    """How places are chosen."""

    candidates: int = Field(default=10, ge=1, le=1000, description="how many places are looked at")
    wait: int = Field(
        default=300, ge=1, le=86_400, description="seconds that every trip costs besides, 1 or more"
    )
    rho: int = Field(default=600, ge=0, le=1000, description="exploring: rho, in thousandths")
    gamma: int = Field(default=210, ge=0, le=5000, description="exploring: gamma, in thousandths")
    mode: str | None = Field(
        default=None, min_length=1, max_length=255, description="how it travels; None: the fastest"
    )


class MobilityBlock(CitizenBlock):
    """Goes to the place of the plan's current item.

    A kind of place (`shop`) becomes a place in two choices, as in the model of exploration and
    preferential return (Song, Koren, Wang, Barabási 2010, "Modelling the scaling properties of
    human mobility", Nature Physics 6): with probability rho · S^(−gamma), S the number of known
    places of that kind, rho = 0.6, gamma = 0.21, the citizen explores; else it returns to a known
    place, in proportion to its visits. It explores by gravity (Zipf 1946; used so in d-EPR:
    Pappalardo, Rinzivillo, Simini 2016): in proportion to the place's capacity and to the inverse
    square of the travel time, as AgentSociety does by metres (Piao et al. 2025, arXiv:2502.08691).
    Candidates are open on arrival and have not turned the citizen away in this item of the plan.
    Without a candidate, `status["stuck"]` says why, and the plan is mended. A model chooses among
    the same candidates.

    The citizen travels by the fastest mode; under 18 it does not drive.
    """

    description = "Chooses places and moves the citizen through the city"
    actions: dict[str, str] = {"travel": "Travel to where the plan wants to be"}  # noqa: RUF012
    ParamsType: ClassVar[type[BlockParams]] = MobilityBlockParams
    params: MobilityBlockParams
    enabled_by = "enable_mobility"
    columns = COLUMNS
    fits_rows, step_rows = fits_rows, step_rows
    to_status, from_status = to_status, from_status

    def fits(self, context: Any) -> float:
        """Return 2 if the citizen is on its way or not at its item's place, else 0."""
        if isinstance(context, str):
            return 2.0 if context.partition(" ")[0].lower() in ("go", "move", "travel") else 0.0
        status = context.status
        if status.get("moving"):
            return 2.0
        item = item_of(status)
        if item is None or item["where"] in (None, context.place) or status.get("stuck"):
            return 0.0
        return 0.0 if self.city is None else 2.0

    def offer(self, context: Any) -> str:
        """Return where it would go; empty if the citizen is there, or has nowhere to go."""
        if self.fits(context) <= 0:
            return ""
        item, moving = self.item, self.status.get("moving")
        to = moving["to"] if moving else item["where"] if item is not None else ""
        return f"go to {to}" if to else self.description

    async def forward(self) -> str | None:
        """Set out, or continue on the way; return the destination."""
        status = self.status
        moving = status.get("moving")
        self.act("travel")
        if moving:
            return str(moving["to"])
        item = self.item
        if item is None or item["where"] is None:
            return None
        where = item["where"]
        city = self.city
        needs(city, Places, Routes, who=self.name)
        if where in city.kinds() and where not in map(status.get, ("home", "work", "school")):
            place = await self._place_of(where, item)
            if place is None:
                return None
            item["kind"], item["where"] = where, place
            where = place
        elif where not in city:
            self._stuck(f"there is no place {where}")
            return None
        if where == self.perceived.place:
            self.act("idle")
            return str(where)
        return where if self._set_out(where) else None

    def _set_out(self, place: str) -> bool:
        """Ask to move to a place; return False if it is unreachable or closed on arrival."""
        here = self.perceived.place
        mode, seconds = (None, 0) if here is None else self._mode(here, place)
        if seconds is None:
            self._stuck(f"there is no way to {place}")
        elif not self._open(place, seconds):
            self._stuck(f"{place} is closed")
        else:
            self.want(Move(place, mode))
            return True
        return False

    def _stuck(self, why: str) -> None:
        self.status["stuck"] = why
        self.act("idle")

    def _open(self, place: str, seconds: int) -> bool:
        """Return whether a place is open on arrival, which is at the beginning of a step."""
        step = self.perceived.seconds
        steps = max(1, -(-seconds // step))
        return self.is_open(place, (self.now + steps * step) % DAY_S)

    def _mode(self, here: str, place: str) -> tuple[str | None, int | None]:
        """Return the mode of travel and its seconds; None if there is no way."""
        city, mode = self.city, self.params.mode
        if mode is not None or not hasattr(city, "modes"):
            return mode, city.seconds(here, place, mode)
        child = (self.status.get("profile") or {}).get("age", 18) < 18
        names = [each.name for each in city.modes if not (child and each.name == "drive")]
        times = ((city.seconds(here, place, name), rank) for rank, name in enumerate(names))
        ways = [way for way in times if way[0] is not None]
        if not ways:
            return None, None
        seconds, rank = min(ways)
        return names[rank], seconds

    # -- choosing a place --------------------------------------------------------------------------

    async def _place_of(self, kind: str, item: Item) -> str | None:
        """Choose a place of a kind; without a candidate, mark it stuck and return None."""
        here = self.perceived.place
        city = self.city
        avoid = item.get("avoid", ())
        if (
            here is not None
            and city.kind(here) == kind
            and here not in avoid
            and self._open(here, 0)
        ):
            return here
        found = self._candidates(kind, avoid)
        if not found:
            self._stuck(f"no {kind} within reach is open and has room")
            return None
        place = await self._by_model(kind, found)
        if place is None:
            place = self._by_rule(kind, found)
        self._remember(kind, place)
        return place

    def _candidates(self, kind: str, avoid: Sequence[str]) -> list[Near]:
        here = self.perceived.place or self.status.get("home")
        if here is None:
            return []
        near = self.city.near(here, kind, self.params.candidates, self.params.mode)
        return [each for each in near if each.id not in avoid and self._open(each.id, each.seconds)]

    def _by_rule(self, kind: str, found: Sequence[Near]) -> str:
        draws, params = self.draws, self.params
        visits: dict[str, int] = self.status.get("visits", {}).get(kind, {})
        known = [each for each in found if each.id in visits]
        if known and draws.below(1000, "mobility.explore") >= explores(
            len(visits), params.rho, params.gamma
        ):
            weights = [visits[each.id] for each in known]
            return known[draws.choice(weights, "mobility.return")].id
        new = [each for each in found if each.id not in visits] or list(found)
        weights = [gravity(self._holds(each.id), each.seconds, params.wait) for each in new]
        return new[draws.choice(weights, "mobility.place")].id

    def _holds(self, place: str) -> int:
        city = self.city
        holds = city.capacity(place) if hasattr(city, "capacity") else None
        return 1 if holds is None else int(holds)

    async def _by_model(self, kind: str, found: Sequence[Near]) -> str | None:
        if self.llm is None or len(found) == 1:  # one place is no choice
            return None
        answer = await self.decide(
            f"Choose the {kind} to go to.",
            object_schema(place={"enum": [each.id for each in found], "title": 'one of "places"'}),
            places=[{"place": each.id, "seconds": each.seconds} for each in found],
        )
        return None if answer is None else str(answer["place"])

    def _remember(self, kind: str, place: str) -> None:
        """Count a visit; above `VISITED` places, forget the least visited."""
        visits = self.status.setdefault("visits", {}).setdefault(kind, {})
        visits[place] = visits.get(place, 0) + 1
        if len(visits) > VISITED:
            del visits[min((each for each in visits if each != place), key=visits.__getitem__)]

    @action
    async def go(self, place: str) -> bool:
        """Go to a place.

        Args:
            place: the id of the place

        Returns:
            whether it sets out: the place can be reached, and is open on arrival
        """
        needs(self.city, Places, Routes, who=self.name)
        return self._set_out(place)

    @action(idempotent=True)
    async def places(self, kind: str) -> list[str]:
        """Say which places of a kind are near and open, the nearest first.

        Args:
            kind: the kind of place, such as `shop`
        """
        needs(self.city, Places, Routes, who=self.name)
        return [each.id for each in self._candidates(kind, ())]
