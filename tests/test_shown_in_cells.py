"""What a cell of a notebook shows of what it has: frames of calls and runs, towns, results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from moothall import Action, ActionRegistry, City, Journal, ReActAgent, ScriptedModel, Society
from moothall.society import Experiment


def in_stock(item: str) -> int:
    """How many there are."""
    return {"pears": 3}[item]


def test_frame_of_a_reply_has_the_values_that_calls_returned() -> None:
    calls = [{"name": "in_stock", "args": {"item": each}} for each in ("pears", "plums")]
    agent = ReActAgent("shop", ScriptedModel([calls, "3 pears"]), actions=[in_stock])
    reply = agent.reply_sync("What is left?")
    frame = reply.to_pandas()
    assert frame["action"].tolist() == ["in_stock"] * 2
    assert frame["value"].tolist()[0] == 3 == reply.steps[0].value
    assert "KeyError" in frame["error"][1]
    assert reply.steps[1].value is None
    assert ReActAgent("a", ScriptedModel(["Hello"])).reply_sync("Hi").to_pandas().empty


def test_frame_of_runs_has_times(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        assert journal.runs().to_pandas().empty
        ReActAgent("desk", ScriptedModel(["Hello"]), journal=journal).reply_sync("Hi", run_id="a")
        frame = journal.runs().to_pandas()
        assert frame["id"].tolist() == ["a"]
        assert abs(frame["began"][0] - datetime.now(UTC)) < timedelta(minutes=5)
        assert frame["changed"][0] >= frame["began"][0]


def test_town_says_its_time_and_how_many_citizens_it_has() -> None:
    with Society(12, City.generate(seed=7, citizens=12), seed=7) as town:
        assert repr(town) == "<Society, day 1, Monday 00:00, 12 citizens, 0 steps>"
        town.run_sync(days=1, step="6h")
        assert repr(town) == "<Society, day 2, Tuesday 00:00, 12 citizens, 4 steps>"
        html = town._repr_html_()
        assert all(each in html for each in ("Tuesday", "12 citizens", "City of", "seed"))
    assert repr(town) == "<Society, closed>"


def test_results_of_a_sweep_count_its_parameter_sets() -> None:
    sweep = Experiment(
        name="size",
        society={"step": "12h"},
        parameters={"citizens": [3, 4]},
        metrics=["home"],
        workflow=[{"run": {"days": 1}}],
        seeds=[1],
    )
    shown = repr(sweep.run_sync(jobs=0))
    assert shown == "Results(1 condition, 2 parameter sets, 1 seed, metrics: home)"


def test_registry_names_its_actions() -> None:
    registry = ActionRegistry()
    registry.register(Action("left", in_stock))
    registry.register(in_stock)
    assert repr(registry) == "<ActionRegistry of left, in_stock>"
