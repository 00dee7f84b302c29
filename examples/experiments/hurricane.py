"""A town that a hurricane passes: who goes out, and who stays at home.

After the Protective Action Decision Model (Lindell, Perry 2012, Risk Analysis 32): one perceives
the weather and warnings, and protects oneself where the danger is more than one puts up with, which
is drawn for each. Duties are given up later than free time.
"""

from __future__ import annotations

from pathlib import Path

from moothall.actions.signature.schema import object_schema
from moothall.society import City, Draws, Feed, Society, make_economy, make_people
from moothall.society import citizens as agents_of
from moothall.society.blocks import CitizenBlock, all_blocks
from moothall.society.experiments.models import model_of

WORST_KMH = 160
DUTY = 250
"""By so much more danger, in thousandths, one still goes to work or school."""
WARNED = 150
"""So many thousandths a warning adds on its day."""


class ShelterBlock(CitizenBlock):
    name = "ShelterBlock"
    description = "Gives up ways that are too dangerous"

    async def before_forward(self) -> None:
        status, perceived = self.status, self.perceived
        day = perceived.clock.day
        home = status["home"]
        if perceived.place not in (home, None):
            status["out"] = day
        if any("warning" in str(each).lower() for each in perceived.view.news):
            status["warned"] = day
        danger = perceived.facts.get("wind_kmh", 10) * 1000 // WORST_KMH
        danger += WARNED * (status.get("warned") == day)
        if not status["heeds"] or status.get("day") is None:
            return
        if self.llm is not None and status.get("asked") != day:
            status["asked"] = day
            answer = await self.decide(
                "Say whether you stay at home today because of the weather.",
                object_schema(stay={"type": "boolean"}),
                wind_kmh=perceived.facts.get("wind_kmh", 10),
            )
            if answer is not None:
                status["bears"] = -1000 if answer["stay"] else 2000
        for item in status.get("plan", [])[max(0, status.get("now", 0)) :]:
            duty = DUTY if item["do"] in ("work", "study") else 0
            if item["where"] not in (home, "home", None) and danger > status["bears"] + duty:
                item.update(do="leisure", where=home)

    def fits(self, context: object) -> float:
        return 0.0

    async def forward(self) -> None:
        """Nothing: it changes the plan before each step."""


def society(
    seed: int,
    *,
    citizens: int = 60,
    heeds: bool = True,
    llm: str | None = None,
    answers: str | None = None,
    folder: Path = Path(),
) -> Society:
    """A town.

    Args:
        heeds: whether citizens heed the weather; the mechanism is ablated without
    """
    city = City.generate(seed=seed, citizens=citizens)
    people = make_people(city, citizens, seed=seed)
    for person in people:
        draws = Draws(seed, person["id"], 0)
        bears = draws.below(501, "shelter.bears", 0) + draws.below(501, "shelter.bears", 1)
        person |= {"heeds": heeds, "bears": 150 + bears, "out": -1}

    def blocks() -> list[object]:
        made = all_blocks()
        return [*made[:2], ShelterBlock(), *made[2:]]  # after the plan, before the ways

    return Society(
        agents_of(people, blocks),
        city,
        seed=seed,
        model=model_of(llm, None if answers is None else folder / answers, folder),
        model_timeout_s=600,  # a model of this machine takes its time
        services=[*make_economy(city, seed=seed), Feed()],
    )


def active(society: Society) -> float | None:
    """The share of citizens who were anywhere but at home on the last day."""
    if society.number == 0:
        return None
    day = society.clock.day - 1
    return sum(each.memory.status["out"] == day for each in society.agents) / len(society.agents)
