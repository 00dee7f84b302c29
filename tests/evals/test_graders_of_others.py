"""Evaluators of Pydantic Evals and scorers of Inspect, as they are, as graders."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import moothall
import packages

TESTS = Path(__file__).resolve().parents[1]
OURS = (
    "click",
    "docstring_parser",
    "jsonschema-rs",
    "pydantic",
    "snowballstemmer",
    "typing_extensions",
)
_PROGRAM = """
import asyncio, json, sys
from evals.shop import desk
from moothall.evals import Case, Dataset, Evaluation
{program}
results = Evaluation(
    desk, data, graders, journal=sys.argv[1], leaves=lambda name, args: "order A1 is here"
).run_sync()
print(json.dumps([results.rows, results.errors]))
"""
_PYDANTIC = """
from dataclasses import dataclass
from pydantic_evals.evaluators import Contains, Evaluator, MaxToolCalls, ToolCorrectness

@dataclass
class Lengths(Evaluator):
    async def evaluate(self, ctx):
        about = [ctx.name, ctx.inputs, ctx.metadata, ctx.expected_output, ctx.output, ctx.metrics]
        spans = [[each.name, each.attributes, each.status] for each in ctx.span_tree]
        return {"words": len(ctx.output.split()), "about": json.dumps([*about, ctx.duration >= 0]),
                "spans": json.dumps(spans)}

data = Dataset.from_file(sys.argv[2])
graders = [Contains("is here"), Contains("gone"), ToolCorrectness(["find"]), MaxToolCalls(0),
           Lengths()]
two = {"as it is": {}, "other": {"system_prompt": "x"}}  # only an evaluator knows its names
Evaluation(desk, data, [*graders, lambda reply, case: 1], two, stop_early="words", journal="two.db")
"""
_CASES = """
name: desk
evaluators:
- EqualsExpected
cases:
- name: one
  inputs: Where is A1
  expected_output: "Here: order A1 is here"
  metadata: {goal: order}
  evaluators:
  - Contains: {value: nothing, evaluation_name: has_nothing}
- name: two
  inputs: Where is A1
  metadata: {goal: order}
"""
_INSPECT = """
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, accuracy, includes, match, scorer

@scorer(metrics=[accuracy()])
def half(names):
    async def score(state, target):
        calls = [getattr(each, "tool_calls", None) or [] for each in state.messages]
        called = [each.function for message_calls in calls for each in message_calls]
        shown = [[each.role, each.text] for each in state.messages]
        about = [state.sample_id, state.epoch, state.input_text, state.completed, state.metadata]
        about += [str(state.model), state.output.completion, target.text, shown]
        return Score(value="P" if called == names else "I", explanation=json.dumps(about))
    return score

sample = Sample("Where is A1", target=["is here"], id=7, metadata={"level": "easy"})
data = Dataset(MemoryDataset([sample]))
graders = [includes(), match("begin"), half(["find"])]
two = {"as it is": {}, "other": {"system_prompt": "x"}}
for name in ("match.key", "half"):
    Evaluation(desk, data, graders, two, stop_early=name, journal="two.db")
try:
    Evaluation(desk, data, graders, two, stop_early="other.key", journal="two.db")
except ValueError as error:
    assert "must be one of includes, match, half, got 'other.key'" in str(error)
"""


def graded(interpreter: str, program: str, folder: Path) -> Any:
    """Return the rows and errors of an evaluation in another interpreter."""
    path = os.pathsep.join(map(str, (Path(moothall.__file__).parents[1], TESTS)))
    done = subprocess.run(
        [interpreter, "-c", _PROGRAM.replace("{program}", program), "evals.db", "cases.yaml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_evaluators_of_pydantic_evals_grade_replies_with_their_reasons_and_calls(
    tmp_path: Path,
) -> None:
    (tmp_path / "cases.yaml").write_text(_CASES)
    interpreter = packages.python("pydantic-evals==2.62.0", *OURS)
    rows, errors = graded(interpreter, _PYDANTIC, tmp_path)
    values = {(each["case"], each["grader"]): each["value"] for each in rows}
    assert errors == []
    text, metrics = "Here: order A1 is here", {"input_tokens": 0, "output_tokens": 0}
    about = ["one", "Where is A1", {"goal": "order"}, text, text, metrics, True]
    chat = ["chat scripted", {"operation.name": "chat", "request.model": "scripted"}]
    find = {"operation.name": "execute_tool", "tool.name": "find"}
    find["tool.call.arguments"] = '{"order": "A1"}'
    spans = [
        [name, {f"gen_ai.{key}": each for key, each in attributes.items()}, "unset"]
        for name, attributes in (chat, chat, ("execute_tool find", find))
    ]
    assert {name: value for (case, name), value in values.items() if case == "one"} == {
        "Contains": True,
        "Contains_2": False,
        "ToolCorrectness": True,
        "MaxToolCalls": False,
        "words": 5,
        "about": json.dumps(about),
        "spans": json.dumps(spans),
        "EqualsExpected": True,
        "has_nothing": False,
    }
    assert ("two", "EqualsExpected") not in values  # nobody has said what is expected
    assert ("two", "has_nothing") not in values
    reasons = {each["why"] for each in rows if each["grader"] == "Contains_2"}
    assert "does not contain expected string 'gone'" in reasons.pop()


@pytest.mark.long
def test_scorers_of_inspect_grade_replies_to_its_samples(tmp_path: Path) -> None:
    interpreter = packages.python("inspect-ai==0.3.285", *OURS)
    rows, errors = graded(interpreter, _INSPECT, tmp_path)
    assert errors == []
    grades = {each["grader"]: (each["value"], each["why"]) for each in rows}
    assert {each["case"] for each in rows} == {"7"}
    assert (grades["includes"][0], grades["match"][0]) == (True, False)
    text = "Here: order A1 is here"
    shown = [["user", "Where is A1"], ["assistant", ""], ["tool", "order A1 is here"]]
    about = ["7", 1, "Where is A1", True, {"level": "easy"}, "moothall/desk", text, "is here"]
    assert (grades["half"][0], json.loads(grades["half"][1])) == (
        0.5,
        [*about, [*shown, ["assistant", text]]],
    )
