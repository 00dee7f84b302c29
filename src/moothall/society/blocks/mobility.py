"""Mobility: the choice of places, the mode of travel, and setting out."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from moothall import BlockParams, action
from moothall.build import object_schema
from moothall.society.blocks.citizen_block import CitizenBlock, CitizenBlockParams
from moothall.society.blocks.columns import ACTS, current_item
from moothall.society.blocks.mobility_rows import (
    COLUMNS,
    fits_rows,
    from_status,
    may_stay,
    near_places,
    set_out,
    step_rows,
    to_status,
    visit_place,
)
from moothall.society.blocks.plans import Plans
from moothall.society.city.places import Places, Routes, needs
from moothall.society.columns.rows import Rows
from moothall.society.kernel.perception import Perception
from moothall.society.kernel.wants import PLACE


class MobilityBlockParams(CitizenBlockParams):
    """How places are chosen."""

    candidates: int = Field(default=10, ge=1, le=1000, description="how many places are looked at")
    wait: int = Field(
        default=300, ge=1, le=86_400, description="seconds that every trip costs besides, 1 or more"
    )
    rho: int = Field(default=600, ge=0, le=1000, description="exploring: rho, in thousandths")
    gamma: int = Field(default=210, ge=0, le=5000, description="exploring: gamma, in thousandths")
    mode: str | None = Field(
        default=None, min_length=1, max_length=255, description="how it travels; None: it chooses"
    )
    habit: int = Field(
        default=700, ge=0, le=1000, description="how often it travels as it does usually, of 1,000"
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

    The mode of travel is drawn where a citizen leaves home, and kept until it is back: by the times
    of the modes, its age and licence, and the cars and bicycles of its household. The weights are
    fitted to shares of the National Household Travel Survey 2022 (`mobility_rows.py`). Who does not
    drive is driven by somebody. In 700 of 1,000 draws (assumed) a citizen does as it usually does.

    A child under 12 goes to school alone. Else a parent who leaves home, but for work, takes it
    along, or it stays (`kernel/care.py`).
    """

    description = "Chooses places and moves the citizen through the city"
    actions: dict[str, str] = {"travel": "Travel to where the plan wants to be"}  # noqa: RUF012
    ParamsType: ClassVar[type[BlockParams]] = MobilityBlockParams
    params: MobilityBlockParams
    enabled_by = "enable_mobility"
    columns = COLUMNS
    fits_rows, step_rows = fits_rows, step_rows
    to_status, from_status = to_status, from_status
    status_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("visits",),)

    def fits(self, context: Perception) -> float:
        """Return 2 if the citizen is on its way or not at its item's place, else 0."""
        if isinstance(context, str):
            return 2.0 if context.partition(" ")[0].lower() in ("go", "move", "travel") else 0.0
        status = context.status
        if status.get("moving"):
            return 2.0
        do, where = current_item(status)
        if not do or where in (None, context.place) or status.get("stuck"):
            return 0.0
        if status.get("along") and do != "study":
            return 0.0
        return 0.0 if self.city is None else 2.0

    def offer(self, context: Perception) -> str:
        """Return where it would go; empty if the citizen is there, or has nowhere to go."""
        if self.fits(context) <= 0:
            return ""
        item, moving = self.item, self.status.get("moving")
        to = moving["to"] if moving else item["where"] if item is not None else ""
        return f"go to {to}" if to else self.description

    async def forward(self) -> Any:
        """Set out, or continue on the way; return the act of this step."""
        row = self.own_row()
        where = row["item_where"]
        if row["item_do"] and where != -1 and row["moving_to"] < 0:
            needs(self.city, Places, Routes, who=self.name)
            kind = "" if self.llm is None or where >= -1 else self.city.kinds()[-2 - where]
            if kind and not may_stay(row, kind):
                place = await self._choose_by_model(kind, self._near(row, kind))
                if place is not None:
                    visit_place(row, row.population.place_number(place), kind)
        self.step_rows(row)
        return ACTS[row["act"]]

    def _near(self, row: Rows, kind: str) -> list[tuple[str, int]]:
        """Return the places of a kind that may be chosen, each with the seconds to it."""
        nearby = near_places(self, row, kind)
        decode, seconds = row.population.decode, nearby.seconds[nearby.fits].tolist()
        ids = [decode(PLACE, number) for number in nearby.place[nearby.fits].tolist()]
        return [*zip(ids, seconds, strict=True)]

    async def _choose_by_model(self, kind: str, places: list[tuple[str, int]]) -> str | None:
        if len(places) < 2:  # one place is no choice
            return None
        answer = await self.decide(
            f"Choose the {kind} to go to.",
            object_schema(place={"enum": [id for id, _ in places], "title": 'one of "places"'}),
            places=[{"place": id, "seconds": seconds} for id, seconds in places],
        )
        return None if answer is None else str(answer["place"])

    @action
    async def go(self, place: str) -> bool:
        """Go to a place.

        Args:
            place: the id of the place

        Returns:
            whether it sets out: the place can be reached, and is open on arrival
        """
        needs(self.city, Places, Routes, who=self.name)
        row = self.own_row()
        if place not in row.population.place_numbers:
            Plans(row).get_stuck(f"there is no place {place}", True)
            return False
        return bool(set_out(self, row, row.population.place_number(place)))

    @action(idempotent=True)
    async def places(self, kind: str) -> list[str]:
        """Say which places of a kind are near and open, the nearest first.

        Args:
            kind: the kind of place, such as `shop`
        """
        needs(self.city, Places, Routes, who=self.name)
        return [place for place, _ in self._near(self.own_row(), kind)]
