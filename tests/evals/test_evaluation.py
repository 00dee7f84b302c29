"""Evaluations: conditions by cases by seeds, their grades, and what survives a kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from evals.shop import desk
from models.batch_server import BatchServer
from moothall import Budget, ConfigError, Journal, ReActAgent, Reply, ScriptedModel
from moothall.evals import (
    Case,
    Dataset,
    Evaluation,
    Grade,
    called,
    calls_in_order,
    contains,
    same_calls_as_record,
)
from moothall.journal import RunView
from moothall.models import OpenAIModel


async def test_evaluation_of_the_same_program_is_equal_and_asks_no_model(
    runs: Journal, tmp_path: Path
) -> None:
    def no_model(messages: Any, actions: Any) -> Any:
        raise AssertionError("a model was asked")

    agent = desk()
    agent.model = ScriptedModel(no_model)
    conditions = {"recorded": {"model": "recorded"}}
    data = Dataset.from_runs(runs)
    evaluation = Evaluation(
        agent, data, [same_calls_as_record], conditions, journal=tmp_path / "evals.db"
    )
    results = await evaluation.run()
    mean = results.mean("same_calls_as_record")
    assert (mean.mean, mean.n, results.errors) == (1.0, 3, [])
    assert len(runs.runs()) == 3


@pytest.mark.parametrize("value", (None, float("nan"), "", [1]))
async def test_evaluation_grade_that_is_none_is_an_error_and_no_zero(
    runs: Journal, tmp_path: Path, value: Any
) -> None:
    def odd(reply: Reply[Any], case: Case) -> Any:
        return value

    data = Dataset.from_runs(runs)
    results = await Evaluation(desk, data, [odd], journal=tmp_path / "evals.db").run()
    assert len(results.errors) == 3
    with pytest.raises(ConfigError, match="no grade is of 'odd'"):
        results.mean("odd")


@pytest.mark.parametrize("name", ("seeds", "concurrency"))
@pytest.mark.parametrize("value", (0, True, 1.5))
def test_evaluation_counts_are_whole_numbers_from_1(name: str, value: Any) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=f"Evaluation: {name}= must be a whole number from 1 up"):
        Evaluation(desk, [Case("sum", "2+2?", "4")], [contains], **options)


async def test_evaluation_of_a_reply_that_failed_is_an_error_and_asked_again(
    tmp_path: Path,
) -> None:
    def down(messages: Any, actions: Any) -> Any:
        raise ConnectionError("the server is down")

    options: dict[str, Any] = {"journal": tmp_path / "evals.db"}
    agent = ReActAgent("a", ScriptedModel(down))
    cases = [Case("sum", "2+2?", "4")]
    results = await Evaluation(agent, cases, [contains], **options).run()
    assert (results.missing, results.graders) == (1, [])
    assert "the server is down" in results.errors[0]
    agent.model = ScriptedModel(lambda messages, actions: "4")
    results = await Evaluation(agent, cases, [contains], **options).run()
    assert (results.missing, results.mean("contains").mean) == (0, 1.0)


async def test_evaluation_asks_another_prompt_again_and_another_grader_not(
    runs: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    monkeypatch.setenv("ASKED", str(asked))
    data = Dataset.from_runs(runs)
    options: dict[str, Any] = {"journal": tmp_path / "evals.db"}
    await Evaluation(desk, data, [called("find")], **options).run()
    count = len(asked.read_text().splitlines())
    await Evaluation(desk, data, [calls_in_order("find")], **options).run()
    assert len(asked.read_text().splitlines()) == count == 6
    prompts: dict[str, Any] = {"other": {"system_prompt": "You are at the till."}}
    await Evaluation(desk, data, [called("find")], prompts, **options).run()
    assert len(asked.read_text().splitlines()) == 12


async def test_evaluation_asks_chat_messages_as_messages_and_acts_only_where_it_lives(
    tmp_path: Path,
) -> None:
    messages = [
        {"role": "user", "content": "I am Ann."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Where is A7"},
    ]
    cases, options = [Case("talk", messages)], {"journal": tmp_path / "evals.db"}
    frozen = await Evaluation(desk, cases, [called("find")], **options).run()
    assert frozen.cells[0].left_calls == []
    assert frozen.cells[0].text.startswith("Here: {")  # the action is not available
    live = await Evaluation(desk, cases, [called("find")], world="live", **options).run()
    assert live.cells[0].text == "Here: order A7 is here"
    with pytest.raises(ConfigError, match="a function that makes the agent"):
        Evaluation(desk(), cases, [called("find")], world="live")


async def test_evaluation_leaves_out_what_its_budget_does_not_allow_and_goes_on_with_more(
    runs: Journal, tmp_path: Path
) -> None:
    def asker() -> ReActAgent:
        helper = desk()
        helper.budget = Budget(actions=100)  # its own is not touched
        model = ScriptedModel([{"name": "desk", "args": {"text": "Where is A0"}}, "Done."])
        return ReActAgent("asker", model, actions=[helper.as_action(fresh=True)])

    recorded = asker()
    recorded.journal = runs
    for number in range(2):
        recorded.model = asker().model
        await recorded.reply("Go", thread=f"a{number}", run_id=f"asker-{number}")
    data = Dataset.from_runs(runs, agent="asker")
    options: dict[str, Any] = {"journal": tmp_path / "evals.db", "concurrency": 1}
    few = Budget(actions=3)
    results = await Evaluation(asker, data, [called("find")], budget=few, **options).run()
    assert results.missing == 1
    assert "the budget is spent" in results.errors[0]
    more = Budget(actions=100)
    results = await Evaluation(asker, data, [called("find")], budget=more, **options).run()
    assert (results.missing, results.mean("called_find").mean) == (0, 1.0)


async def test_evaluation_stops_early_once_the_difference_is_decided_and_not_before(
    tmp_path: Path,
) -> None:
    def right(reply: Reply[Any], case: Case) -> bool:
        return reply.text == "yes"

    cases = [Case(f"c{number}", f"Question {number}") for number in range(40)]
    agent = ReActAgent("a", ScriptedModel(lambda messages, actions: "no"))
    conditions: dict[str, Any] = {
        "as it is": {},
        "better": {"model": ScriptedModel(lambda messages, actions: "yes")},
    }
    options: dict[str, Any] = {"journal": tmp_path / "evals.db", "stop_early": "right"}
    results = await Evaluation(agent, cases, [right], conditions, **options).run()
    assert (len(results.cells), results.looks) == (2 * 16, 1)
    assert str(results.difference("right", "better")) == "1 [1, 1]"
    conditions["better"] = {"model": ScriptedModel(lambda messages, actions: "no", name="n")}
    results = await Evaluation(agent, cases, [right], conditions, **options).run()
    assert (len(results.cells), results.looks) == (2 * 40, 3)
    with pytest.raises(ConfigError, match="stop_early= needs two conditions"):
        Evaluation(agent, cases, [right], **options)


async def test_evaluation_that_stops_early_goes_on_past_a_look_without_a_grade(
    tmp_path: Path,
) -> None:
    def right(reply: Reply[Any], case: Case) -> bool:
        if int(case.name[1:]) < 16:
            raise ConnectionError("nothing can be graded yet")
        return reply.text == "yes"

    cases = [Case(f"c{number}", f"Question {number}") for number in range(40)]
    agent = ReActAgent("a", ScriptedModel(lambda messages, actions: "no"))
    conditions = {"as it is": {}, "better": {"model": ScriptedModel(lambda m, a: "yes")}}
    options: dict[str, Any] = {"journal": tmp_path / "evals.db"}
    results = await Evaluation(
        agent, cases, [right], conditions, stop_early="right", **options
    ).run()
    assert (len(results.cells), results.looks) == (2 * 32, 2)


async def test_evaluation_told_the_name_of_no_grader_says_so_when_it_is_made(
    tmp_path: Path,
) -> None:
    def tone(reply: Reply[Any], case: Case) -> str:
        return reply.text

    options: dict[str, Any] = {"journal": tmp_path / "evals.db"}
    agent = ReActAgent("a", ScriptedModel(lambda messages, actions: "no"))
    parts: tuple[Any, ...] = (agent, [Case("c", "Go")], [tone], {"as it is": {}, "other": {}})
    with pytest.raises(ConfigError, match="stop_early= must be one of tone, got 'wrong'"):
        Evaluation(*parts, stop_early="wrong", **options)
    Evaluation(*parts, stop_early="tone=warm", **options)


async def test_evaluation_conditions_that_nothing_recorded_tells_apart_are_refused(
    tmp_path: Path,
) -> None:
    asked = list[str]()

    def model(text: str, **options: Any) -> ScriptedModel:
        return ScriptedModel(lambda messages, actions: asked.append(text) or text, **options)

    async def evaluate(conditions: dict[str, Any]) -> Any:
        agent = ReActAgent("a", model("as it is"))
        cases = [Case("c", "Go")]
        evaluation = Evaluation(agent, cases, [], conditions, journal=tmp_path / "evals.db")
        return [each.text for each in (await evaluation.run()).cells]

    conditions: dict[str, Any] = {"one": {"model": model("1")}, "two": {"model": model("2")}}
    with pytest.raises(ConfigError, match="conditions 'one' and 'two' are told apart by nothing"):
        await evaluate(conditions)
    agents = {name: {"agent": lambda n=name: ReActAgent("a", model(n))} for name in ("a", "b")}
    with pytest.raises(ConfigError, match="conditions 'a' and 'b'"):
        await evaluate(agents)
    assert asked == []
    conditions["two"] = {"model": model("2", name="two")}
    assert await evaluate(conditions) == ["1", "2"]
    same = {"model": model("3", name="same")}
    assert await evaluate({"a": same, "b": same}) == ["3", "3"]


async def test_evaluation_grades_stand_once_at_their_runs_with_case_and_condition(
    tmp_path: Path,
) -> None:
    def right(reply: Reply[Any], case: Case) -> Grade:
        return Grade(reply.text == "yes", "as it was")

    def tone(reply: Reply[Any], case: Case) -> str:
        return "flat"

    agent = ReActAgent("a", ScriptedModel(lambda messages, actions: "no"))
    with Journal(tmp_path / "evals.db") as journal:
        for graders in ([right], [right, tone]):
            conditions: dict[str, Any] = {"as it is": {}}
            evaluation = Evaluation(agent, [Case("c", "Go")], graders, conditions, journal=journal)
            await evaluation.run()
        (run,) = journal.runs()
        assert run.tags == {"case": "c", "condition": "as it is"}
        notes = [each[:3] for each in RunView(journal, run).feedback]
        assert notes == [
            (False, "as it was", "grader right"),
            (None, "flat", "grader tone"),
        ]


def test_evaluation_sends_the_cases_of_a_model_with_batches_together(tmp_path: Path) -> None:
    with BatchServer() as server:
        server.finish()
        agent = ReActAgent("a", OpenAIModel("m", server.url, batch=True))
        cases = [Case(f"c{number}", f"Question {number}") for number in range(12)]
        options: dict[str, Any] = {"journal": tmp_path / "evals.db", "concurrency": 1}
        results = Evaluation(agent, cases, [], **options).run_sync()
    assert {each.text for each in results.cells} == {f"about {each.inputs}" for each in cases}
    sizes = [len(each) for each in server.batches.values()]
    assert (sum(sizes), len(sizes) < 4) == (12, True)


_PROGRAM = """
import sys
from evals.shop import desk
from moothall.evals import Dataset, Evaluation, called
results = Evaluation(
    desk, Dataset.from_runs(sys.argv[1]), [called("find")], seeds=4, journal=sys.argv[2],
    concurrency=2,
).run_sync()
print(len(results.cells), results.mean("called_find").mean, results.errors)
"""


def test_evaluation_killed_at_any_moment_has_no_cell_twice_and_loses_none(
    tmp_path: Path, runs: Journal
) -> None:
    asked = tmp_path / "asked"
    env = {**os.environ, "ASKED": str(asked)}
    args = (runs.path, tmp_path / "evals.db")
    how: Any = {"code": _PROGRAM, "cwd": Path(__file__).parent.parent}
    for kill_at in (1, 2, 5, 9, 14):
        process = run_command(*args, env={**env, "KILL_AT": str(kill_at)}, **how)
        assert process.returncode == -signal.SIGKILL
    output = run_command(*args, env=env, **how).stdout
    assert output == "12 1.0 []\n"
    # Two requests for each cell; a kill cuts off at most the two that are under way.
    assert 24 <= len(asked.read_text().splitlines()) <= 24 + 5 * 2
