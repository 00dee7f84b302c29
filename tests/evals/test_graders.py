"""Graders of ours: each grade with its reason, of replies, calls, costs and footnotes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Budget,
    CallbackApprover,
    ModelReply,
    Price,
    Prices,
    ReActAgent,
    ScriptedModel,
    Usage,
    action,
)
from moothall.evals import (
    Case,
    Evaluation,
    called,
    calls_in_order,
    contains,
    cost_below,
    equals,
    footnotes_stand,
    judge,
    matches_schema,
    no_guarded_value_from_outside,
    same_calls_as_record,
)

PAGE = "The mill was built in 1912. It has 40 rooms. Ask ann@mill.example."
URL = "https://a.example/mill"


@action(idempotent=True, outside=True)
async def read(url: str) -> str:
    """Read a page."""
    return PAGE


@action(guard=["to"])
async def send(to: str) -> str:
    """Send a letter."""
    return "sent"


READ = {"name": "read", "args": {"url": URL}}
SEND = {"name": "send", "args": {"to": "ann@mill.example"}}
BUILT = "The mill was built in 1912.[^1]\n\n[^1]: "
NOT_FIVE = "does not follow the schema: answer is wrong: 5 was expected"
NOTHING = "it names no source of a footnote, such as [^1]: SOURCE"
NOT_EXPECTED = "ConfigError: case 'mill': {} needs `expected`"
NO_RECORD = "StateError: case 'mill' has no recorded run to compare with"


@pytest.mark.parametrize(
    ("grader", "expected", "answers", "value", "why"),
    (
        (equals, "4", ["4"], True, ""),
        (equals, "4", ["5"], False, "5"),
        (equals, ["4", "5"], ["5"], True, ""),
        (equals, None, ["5"], None, NOT_EXPECTED.format("equals")),
        (contains, 4, ["It is 4."], True, ""),
        (contains, "mill", ["A Mill."], False, "A Mill."),
        (contains, ["no", "yes"], ["Oh yes."], True, ""),
        (contains, None, ["5"], None, NOT_EXPECTED.format("contains")),
        (matches_schema(int), None, ["4"], True, ""),
        (matches_schema({"const": 5}), None, ["4"], False, NOT_FIVE),
        (called("read"), None, [READ, "Yes."], True, ""),
        (called("send"), None, [READ, "Yes."], False, "not called"),
        (called("read", url=URL), None, [READ, "Yes."], True, ""),
        (called("read", url="x"), None, [[READ] * 2, "."], False, "it was called 2 times, not so"),
        (called("read", more=None), None, [READ, "."], False, "it was called 1 times, not so"),
        (calls_in_order("read", "send"), None, [READ, READ, SEND, "."], True, ""),
        (
            calls_in_order("send", "read"),
            None,
            [READ, SEND, "."],
            False,
            "read is missing in ['read', 'send']",
        ),
        (no_guarded_value_from_outside, None, [SEND, READ, "."], True, ""),
        (
            no_guarded_value_from_outside,
            None,
            [READ, SEND, "."],
            False,
            "send: send.to=ann@mill.example",
        ),
        (same_calls_as_record, None, ["."], None, NO_RECORD),
        (footnotes_stand, None, [READ, f"{BUILT}The mill, {URL}"], True, ""),
        (footnotes_stand, None, [READ, f"It has 40 rooms [^1^].\n\n[^1^]: {URL}"], True, ""),
        (footnotes_stand, None, [READ, f"{BUILT}read"], True, ""),
        (
            footnotes_stand,
            None,
            [READ, f"{BUILT}{URL}s"],
            False,
            f"no call has read what footnote 1 names: {URL}s",
        ),
        (
            footnotes_stand,
            None,
            [READ, "It is old.[^2]\n\n[^1]: read"],
            False,
            "It is old.: cites an unknown source",
        ),
        (
            footnotes_stand,
            None,
            [READ, f"Built in 1921.[^1]\n\n[^1]: {URL}"],
            False,
            "Built in 1921.: says 1921, which is not in the passage",
        ),
        (footnotes_stand, None, [READ, "It has 40 rooms."], False, NOTHING),
    ),
)
async def test_grader_gives_a_grade_with_its_reason(
    tmp_path: Path, grader: Any, expected: Any, answers: list[Any], value: Any, why: str
) -> None:
    permits = CallbackApprover(lambda request: True)
    agent = ReActAgent("guide", ScriptedModel(answers), actions=[read, send], approver=permits)
    evaluation = Evaluation(
        agent,
        [Case("mill", "Tell me of the mill", expected)],
        [grader],
        leaves=lambda name, args: PAGE,
        approvals="live",
        journal=tmp_path / "evals.db",
    )
    (cell,) = (await evaluation.run()).cells
    name = grader.__name__
    assert cell.grades == ({} if value is None else {name: value})
    assert cell.reasons | cell.errors == ({name: why} if why else {})


@pytest.mark.parametrize(
    ("usd", "prices", "grade"),
    (
        (0.0031, {"mine:x": Price(1, 2)}, {"cost_below": True}),
        (0.003, {"mine:x": Price(1, 2)}, {"cost_below": False}),
        (0.003, {}, {}),
    ),
)
async def test_grader_of_costs_asks_for_less_and_for_a_price(
    tmp_path: Path, usd: float, prices: Any, grade: Any
) -> None:
    model = ScriptedModel([ModelReply("Yes.", usage=Usage(1000, 1000))], name="mine:x")
    agent = ReActAgent("guide", model)
    budget = Budget(usd=9, prices=Prices(prices)) if prices else None
    options: dict[str, Any] = {"budget": budget, "journal": tmp_path / "evals.db"}
    results = await Evaluation(agent, [Case("c", "Go")], [cost_below(usd=usd)], **options).run()
    (cell,) = results.cells
    assert cell.grades == grade
    assert cell.reasons == ({"cost_below": "$0.003"} if grade else {})
    fault = "StateError: the price of its model is not known: state it by Prices"
    assert cell.errors == ({} if grade else {"cost_below": fault})


async def test_graders_of_one_name_are_numbered_and_cases_that_ask_the_same_share_a_run(
    tmp_path: Path,
) -> None:
    agent = ReActAgent("guide", ScriptedModel(["It is nine."]))
    graders = [
        judge(question, model=ScriptedModel([f'{{"reason": "r", "verdict": {verdict}}}'] * 2))
        for question, verdict in (("Is it short?", "true"), ("Is it long?", "false"))
    ]
    cases = [Case("first", "The hour?", "nine"), Case("second", "The hour?", "ten")]
    results = await Evaluation(agent, cases, graders, journal=tmp_path / "evals.db").run()
    assert results.errors == []
    assert [each.grades for each in results.cells] == [{"judge": True, "judge_2": False}] * 2
    assert len({each.run for each in results.cells}) == 1
