"""What a person sees of a run, event by event, where standard output is no terminal."""

from __future__ import annotations

import io
from typing import Any

from civitas.cli.run.show import MAX_ARG, MAX_LINE, MAX_LINES, RunDisplay
from civitas.models.protocol import ReasoningPiece, TextPiece, Usage
from civitas.reasoning.dualact.conclusions import Conclusion, DecisionAction, HumanDecision
from civitas.reasoning.events import CallEnded, CallStarted, ConclusionReached, DecisionMade, Done
from civitas.reasoning.reply import Reply, Step


def seen(*events: Any, seconds: float | None = 2.0, **options: Any) -> list[str]:
    """The lines that are shown of the events."""
    out = io.StringIO()
    display = RunDisplay(to=out, **options)
    for each in events:
        display.event(each, seconds)
    if not (events and isinstance(events[-1], Done)):
        display.interrupted(2.0)
    return out.getvalue().splitlines()


def begun(number: int, **args: Any) -> CallStarted:
    return CallStarted("a", 1, f"call_{number}", f"act{number}", args)


def ended(number: int, result: Any = None, error: str | None = None) -> CallEnded:
    return CallEnded("a", 1, f"call_{number}", f"act{number}", {"result": result}, error)


def test_what_a_model_writes_comes_before_what_it_calls() -> None:
    """Line by line, what it thinks apart from what it says; of an answer that was shown no more."""
    step = Step(1, "act1", {}, {"result": "x"}, None)
    reply = Reply("It is x.", steps=[step], usage=Usage(1000, 20))
    lines = seen(
        ReasoningPiece("I ", "a"),
        ReasoningPiece("think.\nSo", "a"),
        TextPiece("I look", "a"),
        begun(1, path="a\nb", text="x" * (MAX_ARG + 1)),
        ended(1, "x\ty\n"),
        TextPiece("It is x.", "a"),
        Done("a", reply),
    )
    long = f'"{"x" * (MAX_ARG - 1)} … ({MAX_ARG + 3:,} characters)'
    assert lines == [
        "I think.",
        "So",
        "I look",
        f'→ act1(path="a\\nb", text={long})',
        "  x   y",
        "It is x.",
        "",
        "done: the model has answered",
        "1 step, 2.0 s, 1,020 tokens (1,000 in, 20 out)",
    ]
    whole = seen(Done("a", reply), seconds=None)
    assert whole[0] == "It is x."
    assert whole[-1] == "1 step, 1,020 tokens (1,000 in, 20 out)"


def test_results_are_shown_as_what_they_are() -> None:
    """Long ones cut, unless they are the answer; of calls at the same time it is said whose."""
    many = "\n".join(["x" * (MAX_LINE + 1)] * (MAX_LINES + 2))
    lines = seen(begun(1), begun(2), ended(1, many), ended(2, error="no\x1b file"))
    assert lines[:3] == ["→ act1()", "→ act2()", "← act1()"]
    assert lines[3 : 3 + MAX_LINES] == ["  " + "x" * MAX_LINE + " …"] * MAX_LINES
    assert lines[3 + MAX_LINES :] == [
        "  … 2 more lines",
        "← act2()",
        "  ✗ no\\x1b file",
        "",
        "until then 2 steps, 2.0 s",
    ]
    assert seen(begun(1), ended(1, many), whole=["act1"])[1 : MAX_LINES + 3] == [
        f"  {each}" for each in many.split("\n")
    ]
    for result, shown in (
        ("", ["(nothing)"]),
        (" \n", ["(nothing)"]),
        ([], ["(none)"]),
        (["a", "b\n"], ["a  b\\n"]),
        ([[1, "a\tb"], [20, "c"]], ["line 1: a   b", "line 20: c"]),
        ([[1, "a"], [2]], ['[[1, "a"], [2]]']),
        ([["1", "a"]], ['[["1", "a"]]']),
        ({"a": None}, ['{"a": null}']),
        (3, ["3"]),
    ):
        assert seen(begun(1), ended(1, result))[1:-2] == [f"  {each}" for each in shown], result
    assert seen(begun(1))[1:] == [
        "",
        "stopped before it had ended: act1",
        "until then 0 steps, 2.0 s",
    ]


def test_a_review_is_shown_by_its_conclusions_and_decisions() -> None:
    """Not by what its members write; what was before this process is marked."""
    concluded = ConclusionReached("a", 1, Conclusion("Done so far."), past=True)
    more = HumanDecision(DecisionAction.CONTINUE, ["Look.", "Again."], "unsure")
    over = HumanDecision(DecisionAction.TERMINATE, "", "good")
    lines = seen(
        TextPiece("secret", "r"),
        concluded,
        DecisionMade("a", 1, more, past=True),
        ConclusionReached("a", 2, Conclusion("Done.")),
        DecisionMade("a", 2, over),
        Done("a", Reply("Done.", stop_reason="terminated", detail="good")),
        reviewed=True,
    )
    assert lines[:-2] == [
        "until now:",
        "Done so far.",
        "the review asks for more: Look.; Again.",
        "from here on:",
        "Done.",
        "the review accepts: good",
        "",
    ]
    assert lines[-2] == "done: the review accepted it (good)"
    mine = [concluded, DecisionMade("a", 1, over)]
    assert "Done so far." not in seen(*mine, reviewed=True, to_a_person=True)
