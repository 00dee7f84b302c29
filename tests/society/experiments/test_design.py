"""An experiment as data: what it may say, and what it is told where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import Experiment

RUN = {"workflow": [{"run": {"steps": 2}}]}
GOOD = """\
name: curfew
question: Do closed shops keep people at home?
society:
  citizens: 10
  step: 6h
metrics:
- home
workflow:
- run: {days: 1}
"""


def of_yaml(folder: Path, text: str) -> Experiment:
    path = folder / "e.yaml"
    path.write_text(text)
    return Experiment.from_yaml(path)


def test_yaml_and_python_say_the_same(tmp_path: Path) -> None:
    said = of_yaml(tmp_path, GOOD)
    made = Experiment(
        name="curfew",
        question="Do closed shops keep people at home?",
        society={"citizens": 10, "step": "6h"},
        metrics=["home"],
        workflow=[{"run": {"days": 1}}],
    )
    assert said.as_json() == made.as_json()
    assert said.size() == {"cells": 1, "agent_steps": 40, "model_calls": 0}


def test_experiment_date_of_yaml_is_a_text(tmp_path: Path) -> None:
    made = of_yaml(tmp_path, GOOD.replace("step: 6h", "step: 6h\n  start: 2026-03-01"))
    assert made.cells()[0].parameters == {"citizens": 10, "start": "2026-03-01"}


def test_cells_are_conditions_with_values_and_seeds() -> None:
    made = Experiment(
        name="e",
        society={"citizens": 10},
        conditions={
            "a": {"parameters": {"much": 1}},
            "b": {"parameters": {"feed": False, "much": 2}},
        },
        parameters={"blocks.SocialBlock.bound": [1, 2], "params.enable_social": [True]},
        seeds=[3, 5],
        maps=True,
        workflow=[{"intervene": {"facts": {"x": "$much", "y": "!much"}}}, {"run": "1h"}],
    )
    cells = made.cells()
    assert [number for number, each in enumerate(cells) if each.has_map] == [0, 4]
    assert [(each.condition, each.seed) for each in cells[:4]] == [
        ("a", 3),
        ("a", 5),
        ("a", 3),
        ("a", 5),
    ]
    assert len(cells) == 8
    last = cells[-1]
    assert last.parameters == {
        "citizens": 10,
        "feed": False,
        "blocks": {"SocialBlock": {"bound": 2}},
        "params": {"enable_social": True},
    }
    assert last.workflow[0].intervene is not None
    assert last.workflow[0].intervene["facts"] == {"x": 2, "y": "!much"}
    assert cells[0].workflow[0].intervene is not None
    assert cells[0].workflow[0].intervene["facts"] == {"x": 1, "y": "!much"}


def test_experiment_value_inside_of_a_condition_is_of_its_cell_alone() -> None:
    made = Experiment(
        name="e",
        conditions={"wet": {"parameters": {"facts": {"rain": 1}}}},
        parameters={"facts.wind": [2, 3]},
        **RUN,
    )
    facts = [cell.parameters["facts"] for cell in made.cells()]
    assert facts == [{"rain": 1, "wind": 2}, {"rain": 1, "wind": 3}]
    assert made.as_json()["conditions"]["wet"]["parameters"] == {"facts": {"rain": 1}}
    (cell,) = Experiment(name="e", society={"facts": {"winds": (1, 2)}}, **RUN).cells()
    assert cell.parameters == {"facts": {"winds": [1, 2]}}  # as another process has it
    swept = {"facts": [{"rain": 1}], "facts.wind": [2]}
    for each in (swept, dict(reversed(swept.items()))):
        (cell,) = Experiment(name="e", parameters=each, **RUN).cells()
        assert cell.parameters["facts"] == {"rain": 1, "wind": 2}


def test_experiment_counts_a_model_call_for_each_step_of_each_citizen_and_some_more(
    tmp_path: Path,
) -> None:
    society = {"citizens": 10, "llm": "openrouter:a/b"}
    made = Experiment(name="e", society=society, workflow=[{"step": 5}], seeds=2)
    assert made.size() == {"cells": 2, "agent_steps": 100, "model_calls": 120}
    by_rule = {"rules": {"parameters": {"llm": None}}, "model": {}}
    made = Experiment(name="e", society=society, workflow=[{"step": 5}], conditions=by_rule)
    assert made.size() == {"cells": 2, "agent_steps": 100, "model_calls": 60}
    (tmp_path / "ten.csv").write_text("\n".join(["id", *map(str, range(10))]))
    society = {"citizens": "ten.csv", "llm": "openrouter:a/b"}
    made = Experiment(name="e", society=society, workflow=[{"step": 5}], folder=tmp_path)
    assert made.size() == {"cells": 1, "agent_steps": 50, "model_calls": 60}


def test_experiments_calls_of_a_model_are_those_of_surveys_and_interviews_too() -> None:
    asks = {"name": "s", "questions": [{"id": "q", "text": "?", "kind": "yes_no"}]}
    interview = {"interview": {"citizen": 1, "question": "?"}}
    branch = {"branch": {"of": "a", "name": "b", "workflow": [{"step": 1}, {"survey": asks}]}}
    workflow = [
        {"step": 5},
        {"survey": asks},
        {"survey": {**asks, "citizens": [1, 2, "2"]}},
        {"survey": {**asks, "citizens": {"work": "work-1"}}},  # as many as there are, at most
        interview,
        {"save": "a"},
        branch,
    ]
    society = {"citizens": 10, "llm": "openrouter:a/b"}
    made = Experiment(name="e", society=society, workflow=workflow, seeds=2)
    asked = 10 + 2 + 10 + 1 + 10
    assert made.size() == {"cells": 2, "agent_steps": 120, "model_calls": 2 * (72 + asked)}
    by_rule = Experiment(name="e", society={"citizens": 10}, workflow=workflow)
    assert by_rule.size()["model_calls"] == 0


def test_experiment_function_of_ones_own_has_whatever_parameters_it_names() -> None:
    def make(seed: int, budget: int = 1, journal: str = "") -> None:
        pass

    parameters = {"budget": [1, 2], "journal": ["a"]}
    made = Experiment(name="e", society={"make": make}, parameters=parameters, **RUN)
    assert [each.parameters for each in made.cells()] == made.grid()


def test_experiment_cell_has_the_steps_of_its_whole_workflow() -> None:
    branch = {"branch": {"of": "a", "name": "b", "workflow": [{"run": {"steps": 4}}, {"step": 3}]}}
    workflow = [{"run": "6h"}, {"save": "a"}, branch, {"run": {"days": 1}}, {"step": 2}]
    made = Experiment(name="e", society={"step": "1h", "citizens": 20}, workflow=workflow)
    assert made.cells()[0].steps == 6 + 4 + 3 + 24 + 2
    assert made.size() == {"cells": 1, "agent_steps": 39 * 20, "model_calls": 0}


def test_experiment_survey_of_a_branch_can_be_measured() -> None:
    questions = [{"id": "q", "text": "?", "by": "status.money"}]
    branch = [{"survey": {"name": "mood", "questions": questions}}, {"step": 1}]
    workflow = [{"save": "a"}, {"branch": {"of": "a", "name": "b", "workflow": branch}}]
    assert Experiment(name="e", metrics=["mood.q"], workflow=workflow).cells()[0].steps == 1


def test_experiment_faults_are_told_up_to_five() -> None:
    with pytest.raises(ConfigError) as raised:
        Experiment(name="", every=0, maps="so", notes=1, source=2, question=3, workflow=[])
    *lines, last = str(raised.value).splitlines()
    names = ["name", "question", "every", "workflow", "maps"]
    assert [line.partition(":")[0] for line in lines] == names
    assert last == "and 2 more faults"
    paths = [path for path, _ in cast(Any, raised.value).faults]
    assert paths == [(each,) for each in (*names, "source", "notes")]
    with pytest.raises(ConfigError, match=r"name: .*100 characters"):
        Experiment(name="n" * 101, **RUN)
    assert Experiment(name="n" * 100, **RUN).name == "n" * 100


WRONG: tuple[tuple[str, str, str], ...] = (
    ("- run: {days: 1}", "- run: {days: one}", ":9: workflow[0].run.days: must be a"),
    (
        "- run: {days: 1}",
        "- step: 1\n- run: {days: 0}",
        ":10: workflow[1].run.days: must be",
    ),
    ("- run: {days: 1}", "- run: 10", ":9: workflow[0].run: must be a length such as 6h"),
    ("- run: {days: 1}", "- run: {days: 0.3}", ":9: workflow[0].run: 25920 s are not a whole"),
    ("- run: {days: 1}", "- run: {days: 1, steps: 2}", ":9: workflow[0].run: must have days or"),
    ("- run: {days: 1}", "- jump: 1", ":9: workflow[0].jump: there is no such field"),
    ("- run: {days: 1}", "- {step: 1, save: a}", ":9: workflow[0]: an item has one of"),
    ("- run: {days: 1}", "- save: a", ":8: workflow: the workflow runs no step"),
    (
        "- run: {days: 1}",
        "- step: 1\n- intervene: {news: [a]}",
        ":10: workflow[1].intervene: no step is run after it",
    ),
    (
        "- run: {days: 1}",
        "- step: 1\n- branch: {of: noon, name: b, workflow: [step: 1]}",
        ":10: workflow[1].branch.of: no state 'noon' is saved before it",
    ),
    (
        "- run: {days: 1}",
        "- step: 1\n- save: a\n- branch:\n    of: a\n    name: b\n    workflow:\n    - save: a\n",
        ":15: workflow[2].branch.workflow[0].save: 'a' is saved twice",
    ),
    ("- run: {days: 1}", "- step: 0", ":9: workflow[0].step: must be greater"),
    ("- run: {days: 1}", "- intervene: {}", ":9: workflow[0].intervene: an intervention must"),
    (
        "- run: {days: 1}",
        "- survey: {name: s, questions: [{id: a, text: A, kind: text}]}",
        ":9: workflow[0].survey: texts cannot be measured: say keep: true, or use an interview",
    ),
    (
        "- run: {days: 1}",
        "- survey: {name: s, questions: [{id: a, text: A, by: mood}]}",
        ":9: workflow[0].survey.questions[0].by: must be file.py:function, got 'mood'",
    ),
    (
        "- run: {days: 1}",
        "- survey: {name: s, questions: [{id: a, text: A, by: m.py:mood}]}",
        ":9: workflow[0].survey.questions[0].by: there is no file 'm.py'",
    ),
    (
        "- run: {days: 1}",
        "- survey: {name: s, questions: [{id: a, text: A}, {id: a, text: B}]}",
        ":9: workflow[0].survey: survey 's': two questions have the same id",
    ),
    (
        "- run: {days: 1}",
        "- interview: {citizen: 1, question: ''}",
        ":9: workflow[0].interview.question: String should have at least 1 character",
    ),
    ("  step: 6h", "  max_usd: .nan", ":5: society.max_usd: must be JSON data: nan is not JSON"),
    ("  citizens: 10", "  citizen: 10", ":4: society.citizen: the society has no such parameter"),
    ("  step: 6h", "  step: soon", ":5: society.step: step must be a length of time"),
    ("  citizens: 10", "  citizens: -1", ":4: society.citizens: must be greater than"),
    ("  step: 6h", "  columns: 3", ":5: society.columns: must be a valid boolean"),
    ("  step: 6h", "  params: {enable: true}", ":5: society.params.enable: there is no such field"),
    ("  step: 6h", "  blocks: {Walk: {}}", ":5: society.blocks.Walk: there is no such field"),
    (
        "  step: 6h",
        "  blocks:\n    SocialBlock: {bound: -3}",
        ":6: society.blocks.SocialBlock.bound: must be greater than or equal to 0",
    ),
    (
        "name: curfew",
        "name: e\nparameters: {blocks.SocialBlock.bound: [1, -3]}",
        ':2: parameters["blocks.SocialBlock.bound"]: must be greater than or equal to 0',
    ),
    ("name: curfew", "name: e\nseeds: true", ":2: seeds: must be a valid integer"),
    ("  citizens: 10", "  citizens: yes", ":4: society.citizens: must be a valid integer"),
    ("  citizens: 10", "  citizens: a.csv", ":4: society.citizens: there is no file 'a.csv' in"),
    ("  step: 6h", "  city: a.json", ":5: society.city: there is no file 'a.json' in the folder"),
    ("  step: 6h", "  start: 2026-02-30", ":5: 'tag:yaml.org,2002:timestamp' cannot be \"2026-02"),
    ("  step: 6h", '  start: "2026-02-30"', ":5: society.start: start must be a date and time"),
    (
        "name: curfew",
        'name: e\nconditions:\n  a: {parameters: {start: "2026-13-01"}}',
        ":3: conditions.a.parameters.start: start must be a date and time",
    ),
    (
        "name: curfew",
        "name: e\npublished:\n- {quantity: a, published: b, metric: hope}",
        ":3: published[0].metric: no metric 'hope' is measured",
    ),
    (
        "name: curfew",
        "name: e\npublished:\n- {quantity: a, published: b, metric: home, condition: c}",
        ":3: published[0].condition: there is no condition 'c'",
    ),
    (
        "- run: {days: 1}",
        "- step: 1\n- save: a\n- branch: &b {of: a, name: b, workflow: [step: 1]}\n- branch: *b",
        "workflow[3].branch.name: 'b' must have no /, and be of one branch alone",
    ),
    ("- home", "- mood.hope", ":7: metrics[0].name: no survey measures it; there are: none"),
    (
        "- home\nworkflow:",
        "- mood.well=jes\nworkflow:\n- survey: {name: mood, questions: [{id: well, text: A, "
        "kind: choice, choices: [yes!, no!]}, {id: b, text: B}]}",
        ":7: metrics[0].name: no survey measures it; there are: mood.b, mood.well=yes!, ",
    ),
    ("name: curfew", "name: e\nconditions: {a: }", ":2: conditions.a: must be a mapping of fields"),
    ("name: curfew", "name: e\nconditions: {a/b: {}}", "its name must have a letter, and no /"),
    ("name: curfew", "name: e\nparameters: {feed: [true, true]}", "one value or more, each once"),
    ("  step: 6h", "  model: village", ":5: society.model: the society has no such parameter"),
    (
        "  step: 6h",
        "  llm: locl",
        ":5: society.llm: there is no model 'locl' (did you mean 'local'",
    ),
    ("  step: 6h", "  llm: http://localhost/v1", ":5: society.llm: 'http://localhost/v1' does not"),
    (
        "name: curfew",
        "name: e\nparameters: {llm: [local, opnai:m]}",
        ":2: parameters.llm: there is no model 'opnai:m'",
    ),
    (
        "  step: 6h",
        "  threads: 0\nparameters: {facts.threads: [1, 2]}",
        ":5: society.threads: must be greater than",
    ),
    ("  step: 6h", "  make: m.py:f", ":5: society.make: there is no file 'm.py'"),
    ("  step: 6h", "  make: ../m.py:f", "society.make: '../m.py' is not in the folder"),
    ("  step: 6h", "  make: m", "society.make: must be file.py:function, got 'm'"),
    ("- home", "- home\n- {name: a, by: m.py:f}", ":8: metrics[1].by: there is no file 'm.py'"),
    ("- home", "- home\n- home", ":6: metrics: two metrics have the same name"),
    ("name: curfew", "name: a/b", ":1: name: must be letters, digits and _"),
    ("name: curfew", "name: e\nseeds: 0", ":2: seeds: must be 1 or more"),
    ("name: curfew", "name: e\nseeds: [1, 1]", ":2: seeds: must be 1 or more"),
    ("name: curfew", f"name: e\nseeds: [{2**64}]", ":2: seeds: must be 1 or more"),
    ("name: curfew", "name: e\nseeds: many", ":2: seeds: must be"),
    ("name: curfew", "name: e\nseeds: [1, x]", ":2: seeds: must be"),
    (
        "name: curfew",
        "name: e\nparameters: {tax: [1]}",
        ":2: parameters.tax: the society has no such parameter",
    ),
    ("name: curfew", "name: e\nparameters: {feed: []}", ":2: parameters.feed: must be a list"),
    (
        "name: curfew",
        "name: e\nparameters: {feed: [true]}\nconditions: {a: {parameters: {feed: false}}}",
        ":3: conditions.a.parameters.feed: it is swept",
    ),
    (
        "name: curfew",
        "name: e\nconditions: {a: {parameters: {citizens.most: 3}}}",
        ":2: conditions.a.parameters[\"citizens.most\"]: 'citizens' has no 'most'",
    ),
    (
        "name: curfew",
        "name: e\nconditions: {a: {workflow: [{run: {days: x}}]}}",
        ":2: conditions.a.workflow[0].run.days: must be a valid number",
    ),
    (
        "- run: {days: 1}",
        "- intervene: {facts: {tax: $tax}}\n- step: 1\nconditions: {a: {}}",
        ":9: workflow[0].intervene.facts.tax: no parameter of this condition is named 'tax'",
    ),
    ("name: curfew", "name: e\nseeds: 999999", "it has 999,999 cells, and may have 100,000"),
    ("name: curfew", "name: e\nname: f", ":2: 'name' appears twice"),
    ("name: curfew", "name: e\nfolder: x", ":2: folder: there is no such field"),
    (
        "name: curfew",
        "name: !!python/object:os.system {}",
        ":1: no objects of 'tag:yaml.org,2002:python/object:os.system' are made",
    ),
    ("name: curfew", "name: [", ": this is not YAML: "),
    ("name: curfew", "1: e", ":1: a key must be a text, got"),
    ("name: curfew", "<<: {name: e}", ":1: a key must be a text"),
    ("name: curfew", 'name: "\\ud83d"', "has half a character"),
    ("name: curfew", 'name: e\n"\\ud83d": 1', ":2: "),
)


def test_experiment_character_of_two_json_escapes_is_one(tmp_path: Path) -> None:
    read = of_yaml(tmp_path, f'{GOOD}notes: "late \\ud83d\\ude00"\n')
    assert read.notes == "late \U0001f600"


def test_experiment_function_that_takes_no_seed_is_told() -> None:
    with pytest.raises(ConfigError, match=r"society\.make: .* must take the seed"):
        Experiment(name="e", society={"make": lambda: None}, workflow=[{"step": 1}])


@pytest.mark.parametrize(("line", "instead", "told"), WRONG, ids=[each[1] for each in WRONG])
def test_experiment_fault_is_named_with_field_and_line(
    tmp_path: Path, line: str, instead: str, told: str
) -> None:
    assert line in GOOD
    with pytest.raises(ConfigError) as raised:
        of_yaml(tmp_path, GOOD.replace(line, instead))
    assert str(tmp_path / "e.yaml") in str(raised.value)
    assert told in str(raised.value)


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "told"),
    (
        (bomb(), "more than 100,000 values, aliases included"),
        ("&a [*a]", "is nested too deep"),
        ("[" * 2000, "is nested too deep"),
        ("a" * 1_000_001, "has more than 1,000,000 bytes"),
        ("- name", "must be a mapping of fields"),
        ("", "must be a mapping of fields"),
        ("\0", "this is not YAML"),
    ),
    ids=("aliases", "itself", "deep", "large", "list", "empty", "bytes"),
)
def test_experiment_file_that_is_no_experiment_is_told(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        of_yaml(tmp_path, text)


def test_experiment_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Experiment.from_yaml(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("fields", "told"),
    (
        ({"name": "e"}, "workflow: is missing"),
        (RUN, "name: is missing"),
        ({"name": "e", **RUN, "tax": 1}, "tax: there is no such field"),
        ({"name": "e", **RUN, "society": {"citizens": {1}}}, "society.citizens: must be JSON data"),
        (
            {"name": "e", **RUN, "conditions": {"a": {"parameters": {"facts": {1}}}}},
            "a.parameters.facts: must be JSON",
        ),
        ({"name": "e", **RUN, "every": 0}, "every: must be greater"),
    ),
)
def test_fields_of_python_are_told_too(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Experiment(**fields)


def test_code_that_fails_when_it_is_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=r"society\.make: 'm\.py' cannot be run: ZeroDivision"):
        of_yaml(tmp_path, GOOD.replace("step: 6h", "make: m.py:f"))


def hungry(society: Any) -> int:
    return sum(each.status["needs"]["hunger"] < 300 for each in society.agents)


def test_experiment_metric_may_be_a_function_which_gives_it_its_name() -> None:
    made = Experiment(name="e", metrics=["home", hungry], **RUN)
    assert [(each.name, each.by) for each in made.metrics] == [("home", None), ("hungry", hungry)]
    with pytest.raises(ConfigError, match="a lambda has no name"):
        Experiment(name="e", metrics=[lambda society: 1], **RUN)
