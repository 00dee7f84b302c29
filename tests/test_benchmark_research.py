"""The questions that the researcher is measured by: two alike halves, no answer given away."""

from __future__ import annotations

import re
from collections import Counter
from json import loads
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

FILE = Path(__file__).resolve().parent.parent / "benchmarks" / "data" / "questions.jsonl"


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return [loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def plain(text: str) -> str:
    """As answers are compared: whatever its case and its white space."""
    return " ".join(text.split()).casefold()


def test_benchmark_questions_are_a_hundred_different_ones_in_two_equal_halves(
    questions: list[dict[str, Any]],
) -> None:
    fields = {"id", "split", "question", "answers", "pages"}
    assert [question for question in questions if set(question) != fields] == []
    assert len(questions) >= 100
    assert len({question["id"] for question in questions}) == len(questions)
    assert len({plain(question["question"]) for question in questions}) == len(questions)
    half = len(questions) // 2
    assert Counter(question["split"] for question in questions) == {"tune": half, "published": half}


def test_benchmark_questions_have_answers_that_they_do_not_give_away(
    questions: list[dict[str, Any]],
) -> None:
    for question in questions:
        answers = [plain(answer) for answer in question["answers"]]
        assert answers, question["id"]
        assert all(answers), question["id"]
        asked = plain(question["question"])
        assert [answer for answer in answers if answer in asked] == [], question["id"]


def test_benchmark_questions_name_pages_below_the_documentation(
    questions: list[dict[str, Any]],
) -> None:
    for question in questions:
        pages = [PurePosixPath(page) for page in question["pages"]]
        assert pages, question["id"]
        assert len(set(pages)) == len(pages), question["id"]
        for page in pages:
            assert page.suffix == ".html", page
            assert not page.is_absolute(), page
            assert ".." not in page.parts, page


ANSWERS = FILE.with_name("answers.jsonl")


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    return [loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]


def test_questions_over_six_corpora_are_split_and_some_have_no_answer(
    answers: list[dict[str, Any]],
) -> None:
    fields = {"id", "split", "corpus", "question", "answers", "pages"}
    assert [each for each in answers if set(each) != fields] == []
    assert len({each["id"] for each in answers}) == len(answers)
    asked = {(each["corpus"], plain(each["question"])) for each in answers}
    assert len(asked) == len(answers)
    answered = Counter(each["split"] for each in answers if each["answers"])
    unanswered = Counter(each["split"] for each in answers if not each["answers"])
    assert answered.pop("definitions") == 20  # of two other corpora
    for split in ("folders", "folders-2", "folders-3"):
        assert (answered.pop(split), unanswered[split]) == (36, 9)
    for split in ("kinds", "kinds-develop"):  # of two other corpora each
        assert answered.pop(split) == unanswered[split] == 15
    assert min(answered.values()) >= 60
    assert min(unanswered["published"], unanswered["unknown"]) >= 30
    over_six = ("develop", "published")
    others = (each["corpus"] for each in answers if each["split"] in over_six)
    for corpus, count in Counter(others).items():
        assert count >= 30, corpus


def test_benchmark_questions_over_the_corpora_do_not_give_their_answers_away(
    answers: list[dict[str, Any]],
) -> None:
    for each in answers:
        for answer in each["answers"]:
            assert not re.search(answer, each["question"], re.IGNORECASE), each["id"]
