"""Societies with blocks, metrics, surveys and experiments of one's own: docs/society-extend.md."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from moothall import CitizenAgent, City, Context, Interval, Society, action
from moothall.society import (
    CitizenBlock,
    Column,
    Experiment,
    Feed,
    Intervention,
    LocalEngine,
    Network,
    Pay,
    Population,
    Question,
    Results,
    RowBlock,
    Rows,
    Survey,
    SurveyAnswer,
    draw_day,
    draw_map,
    make_economy,
)
from moothall.society.blocks import (
    CitizenBlockParams,
    Need,
    NeedsBlock,
    NeedsBlockParams,
    all_blocks,
)


class WalkParams(CitizenBlockParams):
    much: int = Field(default=3, ge=0)


class Walk(CitizenBlock):
    """Walks and pays."""

    description = "Walks"
    ParamsType = WalkParams
    params: WalkParams
    does = ("leisure",)

    async def forward(self) -> str:
        self.status["walked"] = self.status.get("walked", 0) + self.params.much
        self.want(Pay("2", self.draws.below(self.params.much, "walk.pay")))
        return f"walked at {self.now}"

    @action
    async def walk(self, context: Context[Any], minutes: int) -> str:
        """Walk."""
        return f"{minutes} minutes of {context.agent.id}"


class ThirstParams(NeedsBlockParams):
    thirst: int = Field(default=400, ge=0)


class Thirst(NeedsBlock):
    ParamsType = ThirstParams
    kinds: ClassVar = NeedsBlock.kinds | {"thirst": Need("thirst", "eat", 600, {"idle": -300})}


BLOCKS = [Thirst() if isinstance(block, NeedsBlock) else block for block in all_blocks()]
BLOCKS[0].no_such_method()  # error


class Rumour(RowBlock):
    columns: ClassVar = {"knows": Column("bool", seen=True)}

    def step_rows(self, rows: Rows) -> None:
        other = rows.neighbour("rumour.other")
        hears = ~rows["knows"] & rows.seen("knows")[other]
        rows["knows"] = rows["knows"] | hears
        rows.want(Pay, hears, to=other, cents=rows.integer("rumour.cents") % 3)
        print(rows.index.nosuch, len(rows) + rows.step)  # error


def known(columns: Mapping[str, Any]) -> float:
    return float(columns["knows"].sum())


def village(count: int) -> Population:
    table = {"knows": np.arange(count) < 3, "money": np.full(count, 10)}
    network = Network.small_world(count, neighbours=6, seed=1)
    Population(table, blocks=[Rumour()], metric={"known": known})  # error
    return Population(table, blocks=[Rumour()], seed=7, network=network, metrics={"known": known})


def glad(respondent: Any) -> float:
    return 1.0


async def live() -> list[dict[str, Any]]:
    city = City.generate(seed=7, citizens=100)
    services = [*make_economy(city, seed=7), Feed()]
    own = CitizenAgent("ada", blocks=[Walk(block_params=WalkParams(much=2))])
    async with Society([own], city, seed=7, services=services) as town:
        rows = await town.run(days=1, step="15min", progress=print)
        mood = Survey("mood", [Question("glad", "Glad?", kind="scale", low=1, high=5, by=glad)])
        answers: list[SurveyAnswer] = await town.survey(mood)
        print(answers[0].value, answers[0].nosuch)  # error
        town.intervene(Intervention(at_step=town.number + 2, facts={"weather": "rain"}))
        figure: Figure = draw_map(town)
        print(figure, draw_day(rows, "day.png").get_figwidth())
        await town.run(day=1)  # error
        draw_day("rows")  # error
        print(town.clock.nosuch)  # error
    Society(10, city, sed=7)  # error
    Society(10, city, model=3)  # error
    CitizenAgent("bob", toolbx=None)  # error
    async with Society(village(500), engine=LocalEngine(threads=2)) as society:
        ada = society.population.promote(42, name="Ada")
        society.population.promote(43, nam="Bob")  # error
        print(ada.status["knows"])
    return Society(20, seed=1).run_sync(steps=3)


def chance(society: Society) -> float:
    return float(society.number)


def study() -> Interval:
    many = Experiment(
        name="e",
        society={"citizens": 20},
        metrics=["home", {"name": "chance", "by": chance}],
        workflow=[{"run": {"days": 1}}],
        seeds=[1, 2],
    )
    results: Results = many.run_sync(jobs=0)
    print(results.rows[0]["value"], results.to_pandas(), results.metrics[0].upper())
    print(results.values("home", step=3)[1] + 0.5)
    many.run_sync(job=2)  # error
    return results.difference("home", "base", "other")
