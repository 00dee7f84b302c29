"""The games of examples/games/: by rules and by a model, with what is known of people."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moothall import ScriptedModel
from moothall.models.protocol import ModelReply
from moothall.society import Experiment, Society
from moothall.society.experiments.models import function_of

GAMES = Path(__file__).parents[3] / "examples" / "games"


def game(name: str, **instead: Any) -> Experiment:
    return Experiment.from_yaml(GAMES / f"{name}.yaml", **instead)


class Chooses(ScriptedModel):
    """Chooses the points that a function of the task says."""

    def __init__(self, choose: Callable[[str], int]) -> None:
        super().__init__(())
        self.choose, self.tasks = choose, []

    async def complete(self, messages: list[Any], *_: Any, **__: Any) -> ModelReply:
        self.tasks.append(messages[0]["content"])
        return ModelReply(json.dumps({"points": self.choose(messages[0]["content"])}))


def made(name: str, model: Any, **parameters: Any) -> Society:
    society: Society = function_of(f"{name}.py:{name}", GAMES)(3, llm=model, **parameters)
    return society


def measured(name: str, metric: str, society: Society) -> float:
    value: float = function_of(f"{name}.py:{metric}", GAMES)(society)
    return value


def test_rules_play_as_people_do_in_direction() -> None:
    offers = game("ultimatum", seeds=2).run_sync(jobs=0)
    assert 0.35 < offers.interval("offered").mean < 0.5
    assert 0 < offers.interval("refused").mean < 0.25
    gains = game("dilemma", seeds=2).run_sync(jobs=0)
    gain = gains.difference("cooperate", "much", "little")
    assert gain.mean > 0.1
    pot = game("public_goods", seeds=2).run_sync(jobs=0)
    assert pot.interval("gave", "less", 10).mean < 0.5 * pot.interval("gave", "less", 1).mean
    assert pot.interval("gave", "same", 10).mean > pot.interval("gave", "less", 10).mean


async def test_trust_pays_where_it_is_returned_and_not_where_nothing_is() -> None:
    model = Chooses(lambda task: 6 if "you send" in task else 9)
    async with made("trust", model, citizens=10) as society:
        await society.run(steps=2)
        assert measured("trust", "sent", society) == 0.6
        assert measured("trust", "returned", society) == 0.5
    assert len(model.tasks) == 10
    assert all(task.startswith("You take part in an experiment") for task in model.tasks)


async def test_game_of_a_model_takes_an_answer_out_of_bounds_by_rule() -> None:
    async with made("ultimatum", Chooses(lambda _: 1), citizens=8) as society:
        await society.run(steps=2)
        assert measured("ultimatum", "offered", society) == 0.01
        assert measured("ultimatum", "refused", society) == 0
    async with made("dilemma", Chooses(lambda _: 1), citizens=8, together=6) as society:
        await society.run(steps=2)
        assert measured("dilemma", "earned", society) == 6
    rounds: list[str] = []
    model = Chooses(lambda task: 5)
    async with made("public_goods", model, citizens=8) as society:
        await society.run(steps=3)
        assert measured("public_goods", "gave", society) == 0.25
        rounds += model.tasks
        assert {each.status["points"] for each in society.agents} == {2 * (15 + 0.4 * 20)}
    assert len(rounds) == 24
    async with made("public_goods", Chooses(lambda _: 21), citizens=8, error=0) as society:
        rows = await society.run(steps=1)
        assert rows[0]["fallbacks"] == 8
        assert all(0 <= each.status["gave"] <= 20 for each in society.agents)


def test_game_is_played_by_a_model_of_a_file_beside_it(tmp_path: Path) -> None:
    folder = shutil.copytree(GAMES, tmp_path / "games")
    (folder / "mind.py").write_text(
        "from moothall import ScriptedModel\n\n\n"
        "def mind():\n    return ScriptedModel(lambda messages, actions: '{\"points\": 5}')\n"
    )
    for name, metric, value in (("trust", "sent", 0.5), ("public_goods", "gave", 0.25)):
        instead: Any = {"parameters": {"llm": ["mind.py:mind"]}, "seeds": 1}
        results = Experiment.from_yaml(folder / f"{name}.yaml", **instead).run_sync(jobs=0)
        assert set(results.values(metric, results.conditions[0]).values()) == {value}


def test_game_figures_in_the_documentation_stand_beside_those_of_people() -> None:
    page = (Path(__file__).parents[3] / "docs" / "society-figures.md").read_text()
    table = page.partition("## Games")[2].partition("\n## ")[0]
    for name in ("ultimatum", "trust", "dilemma"):
        for each in game(name).published:
            figure = re.escape(each.published.split()[0])
            assert re.search(rf"\| {figure} %", table), (name, each.quantity)
