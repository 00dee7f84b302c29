"""The planted citations that measure the check of citations: enough of each kind, and sound."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).resolve().parent.parent / "benchmarks" / "data" / "citations.jsonl"
RIGHT = {"quoted", "shortened", "reordered", "half_in_other_words"}
WRONG = {"number_changed", "name_swapped", "negated", "another_passage", "invented"}
SPAN = re.compile(r'"(.+?)"|“(.+)”|„(.+?)“|«(.+?)»')


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def plain(text: str) -> str:
    """The text with one sort of space and one sort of quotation mark."""
    return " ".join(re.sub('["“”„«»‘’]', "'", text).split())


def test_benchmark_citations_are_enough_of_each_kind_in_both_halves(
    cases: list[dict[str, Any]],
) -> None:
    assert len({case["id"] for case in cases}) == len(cases)
    assert len({(case["passage"], case["sentence"]) for case in cases}) == len(cases)
    assert sum(case["right"] for case in cases) >= 100 <= sum(not case["right"] for case in cases)
    assert {case["kind"] for case in cases if case["right"]} == RIGHT
    assert {case["kind"] for case in cases if not case["right"]} == WRONG
    halves = Counter((case["kind"], case["split"]) for case in cases)
    assert set(halves) == {
        (kind, split) for kind in RIGHT | WRONG for split in ("tune", "published")
    }
    assert min(halves.values()) >= 15


def test_benchmark_right_sentences_quote_their_passage(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        if case["kind"] == "quoted":
            spans = ["".join(found) for found in SPAN.findall(case["sentence"])]
            assert spans, case["id"]
            assert all(plain(span) in plain(case["passage"]) for span in spans), case["id"]
