"""Recorded answers of a model of 1.5B parameters: the prompts that it got still have their form.

`benchmarks/minds` made the recordings; a prompt that is changed has to be recorded again.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.minds import decisions

from moothall.models import RecordedModel

MINDS = Path(__file__).parent / "minds"


def test_dispatcher_of_a_small_model_chooses_a_block_or_none() -> None:
    garden, chess = decisions.SITUATIONS[0], decisions.SITUATIONS[5]
    with RecordedModel(None, MINDS / "dispatcher.jsonl") as model:
        made = [decisions.chosen(model, *each)["made"] for each in (garden, chess)]
    assert made == ["GardenBlock", None]
