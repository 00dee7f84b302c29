"""What an evaluation has measured: its means, differences, cells and page, as a whole."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from evals import shop
from evals.shop import desk
from moothall import ConfigError, Journal, Reply, ScriptedModel
from moothall.evals import (
    Case,
    Dataset,
    Evaluated,
    Evaluation,
    Grade,
    GradedCell,
    judge,
    same_calls_as_record,
)
from moothall.journal import RunView


def other(messages: Any, actions: Any) -> Any:
    return "I do <not> know." if "A1" in messages[1]["content"] else shop.answer(messages, actions)


def words(reply: Reply[Any], case: Case) -> Grade:
    if case.name == "run-2":
        raise ValueError("nobody counts")
    return Grade(len(reply.text.split()), "counted")


def tone(reply: Reply[Any], case: Case, cell: GradedCell) -> str:
    assert cell.first_reply is not None
    assert (cell.case, cell.seed, cell.first_reply.text[:4]) == (case, 1, "Here")
    return "flat" if cell.condition == "other" and "not" in reply.text else "warm"


@pytest.fixture
def results(runs: Journal, tmp_path: Path) -> Evaluated:
    """Three runs of the desk as it is, and with a model that does not know of one."""
    conditions: dict[str, Any] = {
        "as it is": {},
        "other": {"model": ScriptedModel(other, name="mine")},
    }
    graders = [words, tone, same_calls_as_record]
    data = Dataset.from_runs(runs)
    evaluation = Evaluation(desk, data, graders, conditions, journal=tmp_path / "evals.db")
    told: list[Any] = []
    evaluated = evaluation.run_sync(lambda done, total: told.append((done, total)))
    assert told == [(number, 6) for number in range(1, 7)]
    return evaluated


TABLE = [
    ("same_calls_as_record", "as it is", "1 [0.4385, 1]", "3", ""),
    ("same_calls_as_record", "other", "0.6667 [0.2077, 0.9385]", "3", "-0.3333 [-1.768, 1.101]"),
    ("tone=flat", "as it is", "0 [0, 0.5615]", "3", ""),
    ("tone=flat", "other", "0.3333 [0.06149, 0.7923]", "3", "0.3333 [0, 1]"),
    ("tone=warm", "as it is", "1 [0.4385, 1]", "3", ""),
    ("tone=warm", "other", "0.6667 [0.2077, 0.9385]", "3", "-0.3333 [-1, 0]"),
    ("words", "as it is", "5 [5, 5]", "2", ""),
    ("words", "other", "4.500 [-1.853, 10.85]", "2", "-0.5000 [-6.853, 5.853]"),
]


def test_results_have_means_with_their_intervals_and_differences_case_by_case(
    results: Evaluated,
) -> None:
    assert results.table() == TABLE
    data = results.to_json()
    assert [(each["grader"], each["condition"], each["n"]) for each in data["means"]] == [
        (grader, condition, int(n)) for grader, condition, _, n, _ in TABLE
    ]
    assert data["differences"][1] == {
        "grader": "tone=flat",
        "condition": "other",
        "mean": 1 / 3,
        "low": 0.0,
        "high": 1.0,
        "n": 3,
    }
    errors = [f"{name}, run-2: words: ValueError: nobody counts" for name in results.conditions]
    assert data["errors"] == results.errors == errors
    assert (results.missing, results.looks) == (0, 0)
    with pytest.raises(ConfigError, match="there is no condition 'third': as it is, other"):
        results.mean("words", "third")
    names = "same_calls_as_record, tone=flat, tone=warm, words"
    with pytest.raises(ConfigError, match=f"no grade is of 'sum'; there are: {names}"):
        results.mean("sum")


def test_results_have_a_cell_and_a_row_of_each_grade(results: Evaluated, tmp_path: Path) -> None:
    cell = results.cells[4].to_json()
    run = cell.pop("run")
    with Journal(tmp_path / "evals.db") as journal:
        assert [each.model for each in RunView(journal, run).answers[""]] == ["mine"]
    assert cell == {
        "case": "run-1",
        "condition": "other",
        "seed": 1,
        "text": "I do <not> know.",
        "stop_reason": "done",
        "calls": [],
        "left_calls": [],
        "grades": {"words": 4, "tone": "flat", "same_calls_as_record": False},
        "reasons": {"words": "counted", "same_calls_as_record": "0 calls, recorded: 1"},
        "errors": {},
    }
    assert results.cells[0].calls == ['find {"order": "A0"}']
    of_cell = {"condition": "other", "case": "run-1", "seed": 1, "run": run, "error": ""}
    assert [each for each in results.rows if each["run"] == run] == [
        {**of_cell, "grader": "words", "value": 4, "why": "counted"},
        {**of_cell, "grader": "tone", "value": "flat", "why": ""},
        {
            **of_cell,
            "grader": "same_calls_as_record",
            "value": False,
            "why": "0 calls, recorded: 1",
        },
    ]
    assert [each for each in results.rows if each["error"]] == [
        {
            "condition": each.condition,
            "case": "run-2",
            "seed": 1,
            "grader": "words",
            "value": None,
            "why": "",
            "error": "ValueError: nobody counts",
            "run": each.run,
        }
        for each in (results.cells[2], results.cells[5])
    ]


def test_results_page_has_the_table_and_each_case_that_differs_side_by_side(
    results: Evaluated, tmp_path: Path
) -> None:
    results.write_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith('<!doctype html><html lang="en"><meta charset="utf-8">')
    assert "http" not in page  # it loads nothing
    table, *tables = [
        [
            tuple(map(html.unescape, re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)))
            for row in each.split("<tr>")[1:]
        ]
        for each in page.split("<table>")[1:]
    ]
    assert table == [results.columns, *TABLE]
    assert [each[0][0] for each in tables] == ["run-1, 1", "run-2, 1"]  # run-0 does not differ
    grades = '"tone": "{}", "same_calls_as_record": {}}}'
    assert tables[0] == [
        ("run-1, 1", "as it is", "other"),
        ("reply", "Here: order A1 is here", "I do <not> know."),
        ("calls", 'find {"order": "A1"}', ""),
        ("not in the record", "", ""),
        (
            "grades",
            '{"words": 5, ' + grades.format("warm", "true"),
            '{"words": 4, ' + grades.format("flat", "false"),
        ),
        (
            "why",
            '{"words": "counted"}',
            '{"words": "counted", "same_calls_as_record": "0 calls, recorded: 1"}',
        ),
        ("errors", "{}", "{}"),
    ]


def test_results_of_few_cases_have_a_difference_without_ends(tmp_path: Path) -> None:
    def length(reply: Reply[Any], case: Case) -> int:
        return len(reply.text)

    conditions: dict[str, Any] = {
        name: {"model": ScriptedModel([name], name=name)} for name in ("a", "bcd")
    }
    options: dict[str, Any] = {"journal": tmp_path / "evals.db", "stop_early": "length"}
    results = Evaluation(desk, [Case("c", "Go")], [length], conditions, **options).run_sync()
    data = results.to_json()
    names = {"grader": "length", "condition": "bcd"}
    assert data["differences"] == [{**names, "mean": 2.0, "low": None, "high": None, "n": 1}]


@pytest.mark.parametrize(
    ("pairwise", "answers", "value", "why"),
    (
        (False, ['{"reason": "It is.", "verdict": true}'], True, "It is."),
        (True, ['{"reason": "", "better": "A"}', '{"reason": "", "better": "B"}'], "better", ""),
        (True, ['{"reason": "", "better": "B"}', '{"reason": "", "better": "A"}'], "worse", ""),
        (True, ['{"reason": "", "better": "equal"}'] * 2, "tie", ""),
        (True, ['{"reason": "", "better": "A"}'] * 2, "tie", "the sides disagree: A, A"),
        (None, [], "tie", "the answers are equal"),
    ),
)
async def test_judge_is_shown_the_request_what_is_expected_and_each_side_once(
    tmp_path: Path, pairwise: bool | None, answers: list[Any], value: Any, why: str
) -> None:
    shown = ScriptedModel(answers)
    grader = judge("Which is kind?", model=shown, pairwise=pairwise is not False)
    conditions: dict[str, Any] = {
        "first": {"model": ScriptedModel(["No."], name="1")},
        "now": {"model": ScriptedModel(["No." if pairwise is None else "Yes.\n" * 2], name="2")},
    }
    if pairwise is False:
        del conditions["first"]
    case = Case("c", "Is it?\nSay.", ["yes"])
    options: dict[str, Any] = {"journal": tmp_path / "evals.db"}
    cell = (await Evaluation(desk, [case], [grader], conditions, **options).run()).cells[-1]
    name = grader.__name__
    assert name == ("judge" if pairwise is False else "judge_pairwise")
    assert (cell.grades, cell.reasons) == ({name: value}, {name: why} if why else {})
    asked = [each[0]["content"].split("\n\n", 1)[1] for each in shown.received]
    request = 'The request:\n| Is it?\n| Say.\n\nWhat is expected:\n| ["yes"]\n\n'
    question = "\n\nThe question: Which is kind?\nGive the reason first."
    sides = {"The answer": "| Yes.\n| Yes."}
    expected = [{"Answer A": sides["The answer"], "Answer B": "| No."}]
    expected.append({"Answer A": "| No.", "Answer B": sides["The answer"]})
    expected = [sides] if pairwise is False else expected if pairwise else []
    assert asked == [
        request + "\n\n".join(f"{name}:\n{text}" for name, text in each.items()) + question
        for each in expected
    ]
