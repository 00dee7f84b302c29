"""What a person sees of a run, event by event, and how its end is said."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stderr
from typing import Any

import pytest

from moothall.agents.decision import Conclusion, DecisionAction, HumanDecision
from moothall.agents.replies.events import (
    BlockEnded,
    BlockStarted,
    CallEnded,
    CallStarted,
    ConclusionReached,
    DecisionMade,
    Done,
)
from moothall.agents.replies.reply import Reply, Step
from moothall.cli.progress import WarningHandler
from moothall.cli.run.outcome import exit_code
from moothall.cli.run.research import ResearchDisplay
from moothall.cli.run.run_display import MAX_ARG, MAX_LINE, MAX_LINES, RunDisplay
from moothall.models.protocol import ReasoningPiece, TextPiece, Usage
from pseudo_terminal import Written, plain


def seen(*events: Any, seconds: float | None = 2.0, **options: Any) -> list[str]:
    """The lines that are shown of the events."""
    out = io.StringIO()
    display = RunDisplay(out=out, **options)
    with redirect_stderr(out):
        for each in events:
            display.event(each, seconds)
        if not (events and isinstance(events[-1], Done)):
            display.show_interrupted(2.0)
    return out.getvalue().splitlines()


def begun(number: int, **args: Any) -> CallStarted:
    return CallStarted("a", 1, f"call_{number}", f"act{number}", args)


def ended(number: int, result: Any = None, error: str | None = None) -> CallEnded:
    return CallEnded("a", 1, f"call_{number}", f"act{number}", {"result": result}, error)


def test_display_shows_a_models_text_before_its_calls() -> None:
    """Line by line, what it thinks apart from what it says; of an answer that was shown no more."""
    reply = Reply("It is x.", steps=[step("act1", "x")], usage=Usage(1000, 20))
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
    # An answer is shown once, also if what it thinks comes after.
    after = seen(TextPiece("It is x.", "a"), ReasoningPiece("Good.", "a"), Done("a", reply))
    assert after[:3] == ["It is x.", "Good.", ""]
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
    assert seen(begun(1), ended(1, many), uncut_actions=["act1"])[1 : MAX_LINES + 3] == [
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
        (":smile: [bold]x", [":smile: [bold]x"]),
        ("x" * MAX_LINE, ["x" * MAX_LINE]),
        ("x\n" * MAX_LINES + "y", ["x"] * MAX_LINES + ["y"]),  # a mark would take its line
    ):
        assert seen(begun(1), ended(1, result))[1:-2] == [f"  {each}" for each in shown], result
    assert seen(begun(1))[1:] == [
        "",
        "stopped before it had ended: act1",
        "until then 0 steps, 2.0 s",
    ]


def test_review_is_shown_by_its_conclusions_and_decisions() -> None:
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
        reviews=True,
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
    assert "Done so far." not in seen(*mine, reviews=True, is_for_person=True)


async def test_terminal_is_told_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a line that is taken back before anything else is shown, and while a person is asked."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Written()

    def status(text: str) -> str:
        return f"\r\x1b[K{text} (Ctrl-C stops it)"

    display = RunDisplay(out=out, model="m")
    display.is_loaded = lambda: False
    display.begin()
    assert out.new() == status("loading the model m")
    display.is_loaded = lambda: True
    display.event(begun(1), 0.0)
    shown = out.new()
    assert shown.startswith("\r\x1b[K→ ")
    assert shown.endswith(status("act1 is running"))
    display.event(begun(2), 0.0)
    assert out.new().endswith(status("act1, act2 are running"))
    display.hold()
    assert out.new() == "\r\x1b[K"
    display.event(ended(1, "x"), 0.0)
    assert "stops it" not in out.new()
    display.release()
    assert out.new() == status("act2 is running")
    display.event(ended(2, "x"), 0.0)
    assert out.new().endswith(status("m is thinking"))
    display.finish()
    assert out.new() == "\r\x1b[K"
    display.event(begun(3), 0.0)
    assert "stops it" not in out.new()
    display.event(Done("a", Reply("Yes.")), 0.0)
    assert out.new().startswith("Yes.\n\ndone: ")
    monkeypatch.setenv("TERM", "dumb")
    dumb = RunDisplay(out=out)
    dumb.begin()
    assert out.new() == ""


async def test_researcher_tells_of_tasks_of_one_kind_by_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = Written()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", out)
    display = ResearchDisplay(iterations=2)
    display.begin()
    assert "beginning (Ctrl-C" in out.new()
    display.event(BlockStarted("a", "research", 1), 0.0)
    for number in range(12):
        display.event(CallStarted("a", 1, f"{number}", "fetch" if number else "ask", {}), 0.0)
    assert "iteration 1 of 2, researching: ask, 11 × fetch (Ctrl-C" in out.new()
    found = {"remark": "", "objectives": [], "generated": [{"topic": "ports"}]}
    display.event(BlockEnded("a", "evaluate", 1, found), 0.0)
    assert "  also: ports" in plain(out.new())
    display.finish()


def test_display_shows_the_first_line_of_a_warning() -> None:
    shown: list[str] = []
    about = {"msg": "no \x1b[2J room\nTraceback", "levelname": "WARNING"}
    WarningHandler(shown.append).emit(logging.makeLogRecord(about))
    assert shown == [r"(warning: no \x1b[2J room)"]


def step(action: str, result: Any = None, error: str | None = None) -> Step:
    return Step(1, action, {}, {"result": result}, error)


@pytest.mark.parametrize(
    ("reply", "words", "code"),
    (
        (Reply("x"), "done: the model has answered", 0),
        (Reply("x", stop_reason="terminal"), "done: the last action's result is the answer", 0),
        (Reply("", stop_reason="error", detail="no key"), "failed: no key", 1),
        (Reply("", stop_reason="budget", detail="x"), "stopped: budget limit reached (x)", 1),
        (
            Reply("", stop_reason="max_iterations", detail="no answer after 3; the last failed"),
            "stopped: the iterations were used up without an answer (the last failed)",
            1,
        ),
        (
            Reply("x", steps=[step("look", error="no file"), step("look"), step("see", error="y")]),
            "done: the model has answered; 2 of 3 actions failed: look, see",
            0,
        ),
        (
            Reply("x", steps=[step("run_command", "out\n[exit code 1]")]),
            "done: the model has answered; 1 of 1 action failed: run_command (exit code 1)",
            0,
        ),
        (Reply("x", steps=[step("look", "[exit code 1]")]), "done: the model has answered", 0),
        (Reply("x", steps=[step("run_command", "fine")]), "done: the model has answered", 0),
        (
            Reply("x", steps=[step("look", error="skipped: another failed")]),
            "done: the model has answered",
            0,
        ),
        (
            Reply("", steps=[step("look", error="x")], stop_reason="deadline"),
            "stopped: time limit reached",
            1,
        ),
    ),
)
def test_display_says_how_a_run_ended(reply: Reply, words: str, code: int) -> None:
    assert words in seen(Done("a", reply))
    assert exit_code(reply) == code


def test_display_says_what_the_bundled_model_can_do_if_it_gave_no_answer() -> None:
    reply = Reply("", stop_reason="max_iterations", detail="no answer after 1 iteration")
    for model, ending, is_said in (
        ("local", reply, True),
        ("local", Reply("Yes."), False),
        ("openai:gpt-4o", reply, False),
    ):
        assert (
            "one plain instruction" in "\n".join(seen(Done("a", ending), model=model))
        ) == is_said
