"""Blocks, prompts, metrics and charts of one's own, in the YAML of an experiment."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from moothall import ScriptedModel
from moothall.foundation.errors import ConfigError, MissingExtra
from moothall.society import Experiment
from moothall.society.arrays import import_package
from moothall.society.experiments.models import town

CODE = """\
from pydantic import Field

import words
from moothall.society.blocks import CitizenBlock, CitizenBlockParams


class RumourParams(CitizenBlockParams):
    chance: int = Field(default=500, ge=0, le=1000)


class Rumour(CitizenBlock):
    ParamsType = RumourParams

    def fits(self, context):
        return 0.0

    async def before_forward(self):
        said = [each["action"]["args"].get("content") for each in self.perceived.messages]
        if self.agent.id <= 4 or words.PSST in said:
            self.status["knows"] = True
        for other in self.perceived.here if self.status.get("knows") else ():
            if self.draws.below(1000, "rumour.tells", int(other)) < self.params.chance:
                say = {"name": "say", "args": {"content": words.PSST}}
                self.agent.send({"to": other, "action": say})


def informed(society):
    return sum(bool(each.status.get("knows")) for each in society.agents)


def both(results, axes):
    axes.plot(sorted(results.values("informed", parameters=results.grid[0]).values()))


number = 5
"""
YAML = """\
name: rumour
society:
  citizens: 12
  step: 1h
  blocks: {rumour.py:Rumour: {chance: 1000}, ReflectionBlock: {}}
  prompts: {citizen: You are a citizen., dispatcher: Choose., rumour.py:Rumour: Tell.}
metrics:
  rumour.py:informed: {label: who know it, unit: citizens}
  home:
charts:
  Rumour and homes: {metrics: [informed, home], unit: citizens}
  rumour.py:both: {label: all seeds}
workflow:
- run: 14h
parameters:
  blocks.rumour.py:Rumour.chance: [0, 1000]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rumour.py").write_text(CODE)
    (tmp_path / "words.py").write_text('PSST = "Psst!"\n')
    (tmp_path / "e.yaml").write_text(YAML)
    return tmp_path


def test_yaml_of_own_blocks_metrics_and_charts_is_run_and_shown(folder: Path) -> None:
    results = Experiment.from_yaml(folder / "e.yaml").run_sync(jobs=0, out=folder / "out")
    none, many = (results.values("informed", parameters=grid)[0] for grid in results.grid)
    assert none == 4
    assert many > 4
    page = (folder / "out" / "report.html").read_text()
    assert "who know it" in page
    assert "all seeds" in page
    assert (folder / "out" / "chart-Rumour and homes.png").stat().st_size > 1000


def test_experiment_with_a_changed_file_or_import_is_not_mixed_with_earlier_results(
    folder: Path,
) -> None:
    made = Experiment.from_yaml(folder / "e.yaml", parameters={})
    made.run_sync(jobs=0, out=folder / "out", report=False)
    for name in ("words.py", "rumour.py"):
        path = folder / name
        before = path.read_text()
        path.write_text(f"{before}\n# changed\n")
        with pytest.raises(ConfigError, match="another version of this one, which differs in code"):
            Experiment.from_yaml(folder / "e.yaml", parameters={}).run_sync(
                jobs=0, out=folder / "out", report=False
            )
        path.write_text(before)


async def test_prompts_of_yaml_are_what_a_model_is_told(folder: Path) -> None:
    model = ScriptedModel(["nonsense"] * 1000)
    said = {"citizen": "You are a citizen.", "dispatcher": "Choose.", "PlanBlock": "Plan well."}
    async with town(3, citizens=10, llm=model, prompts=said, folder=folder) as society:
        await society.step()
        assert society.agents[0].dispatcher.prompt == "Choose."
    first = model.received[0][0]["content"]
    assert first.startswith("You are a citizen. Plan well. Answer with JSON alone:")


def test_odd_protocol_describes_a_study_from_itself(folder: Path) -> None:
    (folder / "rumour.py").write_text(
        CODE.replace(
            "class Rumour(CitizenBlock):", 'class Rumour(CitizenBlock):\n    """Whispers."""\n'
        )
    )
    about = {"emergence": "Who knows it."}
    made = Experiment.from_yaml(folder / "e.yaml", question="How far?", seeds=3, about=about)
    page = made.odd(folder / "odd.md")
    assert (folder / "odd.md").read_text() == page
    said = (
        *("## 1. Purpose and patterns\n\nHow far?", "12.", "## 7. Submodels", "Whispers."),
        *("**Emergence.** Who knows it.", "| chance | 0 |", "Seeds: [0, 1, 2]", "`informed`"),
        *("### SocialBlock", "Maslow 1943", "14 steps of 3,600 s", "does not state this"),
    )
    assert [each for each in said if each not in page] == []
    with pytest.raises(ConfigError, match=r"no element of ODD \(did you mean 'emergence'"):
        Experiment.from_yaml(folder / "e.yaml", about={"emergance": "?"})


def test_rumour_that_two_are_told_is_passed_on_in_talk_alone() -> None:
    examples = Path(__file__).parents[3] / "examples"
    made = Experiment.from_yaml(examples / "rumour.yaml", maps=False)
    assert made.cells()[0].parameters["llm"] == "experiments/rumour.py:mind"
    short: dict[str, Any] = {"run": "13h"}
    workflow = [*made.workflow[:2], short, *made.workflow[3:]]
    society = made.society.model_copy(update={"citizens": 16})
    nobody = {"workflow": [short]}
    conditions = {"told": {}, "nobody": nobody}
    made = Experiment.from_yaml(
        examples / "rumour.yaml", workflow=workflow, conditions=conditions, society=society
    )
    results = made.run_sync(jobs=0)
    curve = results.curve("heard", "told")
    assert [curve[2][0], curve[3][0]] == [0, 2]
    assert curve[max(curve)][0] > 2
    assert results.values("heard", "nobody")[0] == 0
    assert results.values("evening.knows", "told")[0] == curve[max(curve)][0] / 16
    assert results.texts[0][-1] == "The old mill."


WRONG = [
    ("{chance: 1000}", "{chanse: 1}", r"e.yaml:5: .*chanse: there is no .*did you mean 'chance'"),
    ("{chance: 1000}", "{chance: 2000}", "e.yaml:5: .*chance: must be less than .*got 2000"),
    ("ReflectionBlock: {}", "SocialBlok: {}", "e.yaml:5: .*did you mean 'SocialBlock'"),
    ("rumour.py:Rumour: {", "rumour.py:Rumor: {", "e.yaml:5: .* has no plain function 'Rumor'"),
    ("rumour.py:Rumour: {", "rumour.py:informed: {", "e.yaml:5: .* must be a class of Block"),
    ("rumour.py:Rumour: {", "../rumour.py:Rumour: {", "is not in the folder of the experiment"),
    ("{citizen:", "{citizens:", "e.yaml:6: society.prompts.citizens: .*did you mean 'citizen'"),
    ("rumour.py:informed: {", "rumour.py:number: {", "e.yaml:8: metrics"),
    ("label: who know it", "lable: who", "e.yaml:8: metrics.*lable: .*did you mean 'label'"),
    ("[informed, home]", "[informd]", "e.yaml:11: .*did you mean 'informed'"),
    ("rumour.py:both: {", "both: {", "e.yaml:12: charts.both: must have metrics, or be named"),
    (
        "citizens: 12",
        "citizens: 12\n  llm: rumour.py:minds",
        "e.yaml:4: .*no plain function 'minds'",
    ),
    ("workflow:", "sedes: 3\nworkflow:", "e.yaml:13: sedes: .*did you mean 'seeds'"),
]


@pytest.mark.parametrize(("good", "bad", "said"), WRONG)
def test_experiment_name_of_yaml_that_is_wrong_is_refused_with_its_line_and_the_nearest(
    folder: Path, good: str, bad: str, said: str
) -> None:
    text = YAML.replace("parameters:\n  blocks.rumour.py:Rumour.chance: [0, 1000]\n", "")
    assert good in text
    (folder / "e.yaml").write_text(text.replace(good, bad, 1))
    with pytest.raises(ConfigError, match=said):
        Experiment.from_yaml(folder / "e.yaml")


def test_trajectories_of_each_cell_and_branch_are_read_again(tmp_path: Path) -> None:
    made = Experiment(
        name="where",
        society={"citizens": 10, "step": "1h"},
        workflow=[
            {"run": "2h"},
            {"save": "now"},
            {"branch": {"of": "now", "name": "on", "workflow": [{"run": "3h"}]}},
        ],
        seeds=2,
        parameters={"feed": [True, False]},
        trajectories=True,
    )
    results = made.run_sync(jobs=0, out=tmp_path / "out", report=False)
    table = results.trajectories("base", 1, {"feed": False})
    assert [row["step"] for row in table.of(3)] == [0, 1]
    assert [row["step"] for row in results.trajectories("base/on", 0, {"feed": True}).of(3)] == [
        2,
        3,
        4,
    ]
    assert len(table.at(1)) == 10
    with pytest.raises(ConfigError, match="has no trajectories of condition 'base' and seed 7"):
        results.trajectories("base", 7, {"feed": True})


SURVEYED = """\
name: asked
society: {citizens: 30, columns: true, feed: false, step: 12h}
workflow:
- run: 1d
- survey:
    name: evening
    keep: true
    citizens: asks.py:seeks
    questions:
    - {id: since, text: "Since when?", kind: number, by: status.jobless}
    - {id: why, text: "Why?", kind: text, by: "asks.py:why"}
- survey:
    name: women
    citizens: {profile: {gender: female}}
    questions: [{id: age, text: "How old?", kind: number, by: status.profile.age}]
- survey:
    name: nobody
    citizens: asks.py:nobody
    questions: [{id: age, text: "How old?", kind: number, by: status.profile.age}]
metrics: [unemployment]
seeds: 2
"""
ASKS = """\
def seeks(citizen):
    return citizen.status["jobless"] >= 0 and citizen.status["profile"]["age"] >= 18


def why(citizen):
    return f"I am {citizen.id}"


def nobody(citizen):
    return False
"""


def test_experiment_survey_of_some_keeps_what_each_has_answered(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    path = tmp_path / "asked.yaml"
    path.write_text(SURVEYED)
    results = Experiment.from_yaml(path, parameters={"labour.leaves": [300_000]}).run_sync(
        jobs=0, out=tmp_path / "out"
    )
    answers = results.answers("evening")
    assert answers == results.answers()
    assert results.texts == []
    for seed in (0, 1):
        mine = [each for each in answers if each["seed"] == seed]
        since = [each["value"] for each in mine if each["question"] == "since"]
        assert 0 < len(since) < 15
        assert results.values("evening.since")[seed] == sum(since) / len(since)
        said = {each["citizen"]: each["value"] for each in mine if each["question"] == "why"}
        assert len(said) == len(since)
        assert all(f"I am {id}" == text for id, text in said.items())
    assert {each["source"] for each in answers} == {"rule"}
    assert min(results.values("women.age").values()) > 0
    assert not any(each.startswith("nobody") for each in results.metrics)


@pytest.mark.parametrize(
    ("change", "said"),
    (
        (("keep: true", "keep: false"), "texts cannot be measured: say keep: true"),
        (("asks.py:seeks", "asks.py:seek"), "has no plain function 'seek'"),
        (("{gender: female}", "{gender: f}"), "nobody has profile"),
    ),
)
def test_experiment_survey_that_cannot_be_asked_says_why(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    path = tmp_path / "asked.yaml"
    path.write_text(SURVEYED.replace(*change))
    with pytest.raises(ConfigError, match=said):
        Experiment.from_yaml(path).run_sync(jobs=0)


LOADED = """\
with open("loads.txt", "a") as loads:
    print(__name__, file=loads)
"""


@pytest.mark.parametrize(
    ("where", "package"),
    ((".venv/lib/python3/site-packages", "late_1"), ("venv/lib", "late_2"), ("src", "late_3")),
)
def test_packages_installed_below_the_folder_of_an_experiment_are_imported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, package: str
) -> None:
    installed = tmp_path / where / package
    installed.mkdir(parents=True)
    for file in (installed / "__init__.py", installed / "part.py", tmp_path / "beside.py"):
        file.write_text(LOADED)
    # A command that ran in this process before may have added the present folder.
    monkeypatch.setattr(sys, "path", [*filter(None, sys.path)])
    monkeypatch.syspath_prepend(installed.parent)
    monkeypatch.chdir(tmp_path)

    def imports(society: Any) -> int:
        return len([import_module(name) for name in ("beside", f"{package}.part")])

    Experiment(
        name="e",
        society={"citizens": 10, "step": "12h"},
        metrics=[{"name": "imports", "by": imports}],
        workflow=[{"step": 1}],
        seeds=3,
    ).run_sync(jobs=0)
    assert (tmp_path / "loads.txt").read_text().split() == [
        "beside",
        package,
        f"{package}.part",
    ]
    assert "beside" not in sys.modules
    assert package in sys.modules


def test_package_that_is_installed_but_broken_is_not_called_a_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_one.py").write_text("raise ImportError('cannot load twice')")
    (tmp_path / "needs_one.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    for name, why in (("broken_one", "cannot load twice"), ("needs_one", "not_there_at_all")):
        with pytest.raises(ImportError, match=why) as raised:
            import_package(name)
        assert not isinstance(raised.value, MissingExtra)
    with pytest.raises(MissingExtra, match="needs the extra 'society'"):
        import_package("not_there_at_all.part")


def test_experiment_town_of_many_has_the_values_of_a_population(tmp_path: Path) -> None:
    def results(**chosen: Any) -> Any:
        return Experiment(
            name="e",
            society={
                "citizens": 1000,
                "step": "6h",
                "blocks": {"SocialBlock": {"bound": 300}},
                "people": {"employed": 40},
                **chosen,
            },
            metrics=["home", "work", "messages"],
            workflow=[{"step": 1}],
        ).run_sync(jobs=0)

    by_itself, population = results(), results(columns=True)
    for metric in ("home", "work", "messages"):
        assert by_itself.curve(metric) == population.curve(metric)


def test_metric_that_raises_is_named_with_its_condition_and_step() -> None:
    def share(society: Any) -> float:
        return 1 / len(society.agents[:0])

    facts = {"society": {"citizens": 2, "step": "6h"}, "workflow": [{"run": {"steps": 1}}]}
    with pytest.raises(ZeroDivisionError) as error:
        Experiment(name="e", **facts, metrics=[{"name": "share", "by": share}]).run_sync(jobs=0)
    assert error.value.__notes__ == ["metric 'share', condition 'base', step 0"]
