"""The spans of graders of an evaluation."""

from __future__ import annotations

from pathlib import Path

from moothall import ReActAgent, Reply, ScriptedModel
from moothall.evals import Case, Evaluation, Grade
from serving.telemetry.conftest import Traced


def is_short(reply: Reply, case: Case) -> Grade:
    return Grade(len(reply.text) < 9, "counted")


def tone(reply: Reply, case: Case) -> str:
    return "dry"


async def test_grades_are_events_of_spans_below_the_reply(traced: Traced, tmp_path: Path) -> None:
    agent = ReActAgent("desk", ScriptedModel(["Nine."]))
    cases, graders = [Case("hour", "The hour?")], [is_short, tone]
    await Evaluation(agent, cases, graders, journal=tmp_path / "evals.db").run()
    assert traced.tree()["evaluate is_short"] == "invoke_agent desk"
    (event,) = traced.named("evaluate is_short").events
    assert event.name == "gen_ai.evaluation.result"
    assert event.attributes == {
        "gen_ai.evaluation.name": "is_short",
        "gen_ai.evaluation.score.value": 1.0,
    }
    (event,) = traced.named("evaluate tone").events
    assert (event.attributes or {})["gen_ai.evaluation.score.label"] == "dry"
