"""Recorded answers of a model of 1.5B parameters: the prompts that it got still have their form.

`benchmarks/minds` made the recordings; a prompt that is changed has to be recorded again.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.minds import decisions, twosteps

from moothall import ReActAgent
from moothall.models import RecordedModel

MINDS = Path(__file__).parent / "minds"


def test_a_small_model_writes_two_calls_of_which_one_takes_the_others_result() -> None:
    actions, text, _ = twosteps.TASKS[0]
    with RecordedModel(None, MINDS / "two_steps.jsonl") as model:
        reply = ReActAgent("a", model, actions=actions, max_iterations=8).reply_sync(text)
    assert reply.text == "Ada ordered two lamps."
    assert [(step.action, step.args) for step in reply.steps] == [
        ("user_id", {"name": "Ada"}),
        ("orders_of", {"user": 41}),
    ]
    assert reply.usage.output_tokens == 18  # the second call costs none


def test_a_small_model_says_of_each_block_whether_it_helps_and_that_none_does() -> None:
    garden, chess = decisions.SITUATIONS[0], decisions.SITUATIONS[5]
    with RecordedModel(None, MINDS / "dispatcher.jsonl") as model:
        made = [decisions.chosen(model, *each)["made"] for each in (garden, chess)]
    assert made == ["GardenBlock", None]
