"""The label of a sentence and its passage, each a line of `exchanges/support.jsonl`, and why."""

from __future__ import annotations

import json
import time

import pytest

from exchanges import lines_of
from moothall import ScriptedModel
from moothall.foundation.errors import DefinitionError, ModelError
from moothall.research import support

TREATY = (
    "France and Germany signed the treaty on 22 January 1963. The Bundestag ratified it on 15 May "
    "1963. Spain refused to sign. Voyager 2 was launched on August 20, 1977, and Voyager 1 on "
    "September 5, 1977."
)


@pytest.mark.parametrize("line", lines_of(__file__, "support"))
def test_support_of_a_sentence_by_a_passage_is_what_the_line_says(line: dict[str, str]) -> None:
    found = support(line["sentence"], line["passage"])

    assert found.label == line["label"], found
    assert found.why.startswith(line.get("why", "")), found
    assert found.probability is None
    assert line["label"] == "unsupported" or not found.why, found


def test_support_of_a_sentence_of_the_passage_itself_is_full_with_its_window() -> None:
    found = support("**Spain** refused to sign.[^3^]", TREATY)

    assert (found.label, found.window, found.overlap) == ("supported", "Spain refused to sign.", 1)


def test_support_of_a_part_of_a_sentence_is_not_full_unless_an_ellipsis_says_so() -> None:
    denied = "It is false that the queue holds ten items."

    assert support("The queue holds ten items.", denied).label == "not checked"
    assert support("“the queue holds ten items”", denied).label == "not checked"
    assert support("“… the queue holds ten items”", denied).label == "supported"


def test_support_by_a_judge_has_its_verdict_and_quotations_are_not_asked() -> None:
    verdict = {"why": "Italy is not named", "passages": [1], "label": "partly", "probability": 0.4}
    judge = ScriptedModel([json.dumps({"verdicts": [{"sentence": 1, **verdict}]})])
    found = support("The treaty was signed by Italy and France.", TREATY, judge=judge)

    assert (found.label, found.probability, found.why, found.judge) == (
        "partly", 0.4, "Italy is not named", "model"
    )  # fmt: skip
    assert support("It says “Spain signed at once”.", TREATY, judge=judge).label == "unsupported"
    with pytest.raises(ModelError, match="the judge's answer is not JSON"):
        support("Spain said no.", TREATY, judge=ScriptedModel(["no JSON"] * 2))


@pytest.mark.parametrize("empty", ("", " \n", "…", "```\ncode\n```"))
def test_support_by_a_passage_without_a_sentence_is_none(empty: str) -> None:
    assert support("Spain refused to sign.", empty).label in ("unsupported", "not checked")
    assert support(empty, TREATY).window in TREATY


def test_support_of_what_is_no_text_is_refused() -> None:
    with pytest.raises(DefinitionError, match="passage= must be a text, got None"):
        support("Spain refused to sign.", None)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="judge= needs an object with complete"):
        support("Spain said no.", TREATY, judge=True)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize(
    "piece", ("[^", "1 ", "5 mg ", "not ", "A B ", "9", "(", "1999 ", "before after ", "May 5, ")
)
def test_support_takes_a_bounded_time_whatever_the_text(piece: str) -> None:
    start = time.process_time()
    support(piece * 3000, piece * 3000)
    assert time.process_time() - start < 5
