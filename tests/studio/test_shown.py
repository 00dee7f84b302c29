"""A program's own society on the page: its map or grid, its charts, its citizens."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from examples.models.boids import boids
from examples.models.schelling import schelling
from examples.models.virus import virus
from examples.models.wealth import wealth
from playwright.sync_api import Page, expect

from moothall import CitizenAgent, CitizenMemory, City, Society
from moothall.foundation.errors import ConfigError
from moothall.society import Move, Place
from moothall.studio import Studio
from moothall.studio.towns.shown import whereabouts_of


class Pupil(CitizenAgent):
    """Walks to the yard at once, and counts its steps there."""

    memory_config: ClassVar = {"played": (int, 0)}

    async def forward(self) -> None:
        if self.perceived.place == "yard":
            self.status["played"] += 1
        else:
            self.want(Move("yard"))


def school() -> Society:
    places = [Place("room", "room", 0, 0, 2), Place("yard", "yard", 30, 40, 2)]
    people = [Pupil(name, memory=CitizenMemory({"home": "room"})) for name in ("ann", "ben")]
    return Society(people, City(places, [("room", "yard", 50)]), seed=1)


def played(society: Society) -> float:
    return float(sum(each.status["played"] for each in society.agents))


def head_of(studio: Studio) -> dict[str, Any]:
    """What the page's next frame says of the town."""
    packed = studio.society.frame().body
    (length,) = struct.unpack("<I", packed[:4])
    head: dict[str, Any] = json.loads(packed[4 : 4 + length])
    return head


def test_shown_society_plays_to_its_end_with_its_charts_and_citizens(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    studio.show(school(), steps=6, metrics={"times_played": played})
    page = open_page("Society")
    expect(page.get_by_text("step 1 of 6 · paused")).to_be_visible()
    expect(page.get_by_role("button", name="Branch", exact=True)).to_be_hidden()
    page.get_by_label("Speed").select_option("0")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_text("step 6 of 6 · ended")).to_be_visible()
    expect(page.get_by_role("figure", name="times played")).to_contain_text("times played 10")
    expect(page.get_by_label("Colour of the citizens")).to_have_value("played")
    page.get_by_label("Citizen's number or name").fill("ben")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("heading", name="Citizen ben")).to_be_visible()
    expect(page.locator("dt:text-is('played') + dd")).to_have_text("5")


MODELS = {
    "grid": (lambda: schelling(1, width=6), 20.0, 0),
    "plane": (lambda: boids(1, birds=12), 0.0, 0),
    "network": (lambda: virus(1, citizens=12, degree=4), 0.0, 1),
    "nowhere": (lambda: wealth(1, citizens=12), 20.0, 0),
}


@pytest.mark.parametrize(("make", "cell", "edges"), MODELS.values(), ids=MODELS)
def test_shown_model_has_the_map_of_its_space_and_its_own_metrics(
    studio: Studio, make: Callable[[], Any], cell: float, edges: int
) -> None:
    population = make()
    studio.show(Society(population), steps=2)
    town = studio.society.town
    assert town is not None
    while town.state == "making":
        pass
    head, plan = head_of(studio), studio.society.map()
    assert (head["state"], head["steps"], head["ids"]) == ("paused", 2, None)
    assert head["own"] == [*population.metrics]
    assert len(head["rows"][0]) == len(head["columns"])
    assert plan["cell"] == cell
    assert bool(plan["roads"]) == bool(edges)


def test_shown_citizens_without_places_stand_in_a_square_one_in_each_cell(studio: Studio) -> None:
    studio.show(Society(wealth(1, citizens=5)), steps=2)
    town = studio.society.town
    assert town is not None
    while town.state == "making":
        pass
    assert [*studio.society.map()["bounds"][2:]] == [60, 40]  # three cells by two
    packed, acts = studio.society.frame().body[-25:], head_of(studio)["acts"]
    shown = struct.unpack("<10H5B", packed)
    assert [each * 3 // 65_535 for each in shown[:5]] == [0, 1, 2, 0, 1]
    assert [each * 2 // 65_535 for each in shown[5:10]] == [0, 0, 0, 1, 1]
    assert {acts[each] for each in shown[10:]} == {"other"}


def test_shown_society_of_nobody_ends_and_a_mistake_in_a_rule_is_told(studio: Studio) -> None:
    studio.show(Society(), steps=1)
    assert studio.society.town is not None
    while not studio.society.town.is_over:
        pass
    assert head_of(studio)["state"] == "ended"

    class Wrong(CitizenAgent):
        async def forward(self) -> None:
            self.status["moood"] += 1

    studio.show(Society([Wrong(1)]), steps=2)
    studio.society.town.control("play")
    while not studio.society.town.is_over:
        pass
    assert "KeyError: 'moood' (in agent 1: forward; test_shown.py" in head_of(studio)["fault"]


def test_shown_society_whose_metric_is_no_number_yet_is_drawn(
    studio: Studio, open_page: Callable[..., Page]
) -> None:
    def mean_of_nobody(society: Society) -> float:
        return math.nan if society.number < 2 else 7.0

    studio.show(school(), steps=2, metrics={"mean": mean_of_nobody})
    page = open_page("Society")
    expect(page.get_by_text("step 1 of 2 · paused")).to_be_visible()
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_role("figure", name="mean")).to_contain_text("mean 7")


def test_shown_society_with_wrong_steps_or_metrics_is_refused(studio: Studio) -> None:
    with school() as society:
        with pytest.raises(ConfigError, match="one step or more, got 0"):
            studio.show(society, steps=0)
        with pytest.raises(ConfigError, match="metric 'n' must be a function, got 3"):
            studio.show(society, metrics={"n": 3})  # type: ignore[dict-item]
    assert studio.society.town is None


def test_citizens_without_places_stand_in_a_square_in_the_order_of_their_ids() -> None:
    def where(count: int) -> list[tuple[float | None, float | None]]:
        people = [CitizenAgent(f"c{number}", memory=CitizenMemory({})) for number in range(count)]
        found = whereabouts_of(Society(people))
        assert [*found.ids] == [f"c{number}" for number in range(count)]
        return [*zip(found.x, found.y, strict=True)]

    assert where(4) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert where(5) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
