"""Answers that come in pieces, between lines: nothing is lost, nothing stands there twice."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moothall.cli.chat.transcript import Transcript, help_table, shown_message
from moothall.cli.screen import Screen, fold_text
from moothall.foundation.text import escaped
from pseudo_terminal import Written

# What the tests look for in what was written is not among them.
TEXTS = st.text(
    st.one_of(st.sampled_from(" \n"), st.characters(exclude_characters="…:#\t")),
    min_size=1,
    max_size=9,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("A", "B")), TEXTS),
        st.tuples(st.just("line"), st.just("#a line#")),
        st.tuples(st.sampled_from(("hold", "release")), st.just("")),
        st.tuples(st.just("at work"), st.integers(0, 99).map(str)),
    ),
    max_size=30,
)


def lines_of(written: str) -> list[str]:
    """The lines that stand there in the end."""
    # What is erased stands before what is written anew.
    return [line.rpartition("\r\x1b[K")[2] for line in written.split("\n")]


def screen_of(kind: str = "xterm") -> tuple[Written, Screen, Transcript]:
    """A terminal of a kind, without colours, and what writes there."""
    written = Written()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TERM", kind)
        environment.setenv("NO_COLOR", "1")
        screen = Screen(written)
    return written, screen, Transcript(screen)


def shown(text: str) -> str:
    """A text as it is shown, without what is between its words."""
    return "".join(escaped(char) for char in text if char not in " \n")


@given(STEPS, st.booleans())
def test_transcript_has_each_answer_once(steps: list[tuple[str, str]], dumb: bool) -> None:
    written, screen, transcript = screen_of("dumb" if dumb else "xterm")
    said = {"A": "", "B": ""}
    lines = 0
    for what, text in steps:
        if what in said:
            transcript.write_piece(what, text)
            said[what] += text
        elif what == "line":
            screen.show(text)
            lines += 1
        elif what == "hold":
            screen.hold()
        elif what == "release" and screen.open_questions:
            screen.release()
            transcript.write_answers()
        else:
            screen.status(f"A, B are at work, {text} s")
    while screen.open_questions:
        screen.release()
    transcript.write_answers()
    for id, text in said.items():
        transcript.write_answer(id, text.strip())
    screen.status("")
    found = {"A": "", "B": "", "#a line#": ""}
    whose = ""
    for line in lines_of(written.getvalue())[:-1]:
        if line and not line.startswith(" "):  # what goes on is indented
            whose, _, line = line.partition(": ")
        if whose == "#a line#":
            found[whose] += "#"
        elif line:
            found[whose] += line.removeprefix("…").replace(" ", "")
    assert len(found["#a line#"]) == lines
    for id, text in said.items():
        assert found[id] == (shown(text.strip()) or "(nothing)")


@given(st.text(st.sampled_from("abab字  \n"), min_size=30, max_size=80), st.integers(12, 30))
@example("aaaa bbbb cccc dddd", 16)
def test_transcript_has_no_line_too_wide_and_no_word_broken(text: str, width: int) -> None:
    lines, _ = fold_text(text, 3, width)
    assert lines.replace("字", " 字 ").split() == text.replace("字", " 字 ").split()
    for number, line in enumerate(lines.split("\n")):
        assert number == 0 or not line.strip() or line.startswith("  ")
        column = (0 if number else 3) + sum(2 if char == "字" else 1 for char in line)
        # One word alone may be longer than a line.
        assert column <= width or " " not in line.strip()


def test_answer_that_came_to_something_else_is_shown_too() -> None:
    written, _screen, transcript = screen_of()
    transcript.write_piece("A", "I will see. ")
    transcript.write_answer("A", "It is 3.")
    assert written.getvalue() == "A: I will see.\nA: It is 3.\n"


def test_transcript_text_before_a_call_stands_apart_from_the_answer() -> None:
    written, screen, transcript = screen_of()
    transcript.write_piece("A", "I will see. ")
    transcript.end_answer("A")
    screen.show("#a call#")
    transcript.write_piece("A", "It is")
    transcript.write_answer("A", "It is 3.")
    assert written.getvalue() == "A: I will see.\n#a call#\nA: It is 3.\n"


def test_status_is_the_last_line_until_something_is_shown() -> None:
    """Not below an answer that is still written; as much of it as the terminal is wide."""
    written, screen, transcript = screen_of()
    screen.status("A, B are at work")
    assert written.new() == "\r\x1b[KA, B are at work"
    screen.status("B\x1b is at work, 3 s")
    assert written.new() == "\r\x1b[KB\\x1b is at work, 3 s"
    screen.show("#")
    assert written.new() == "\r\x1b[K#\n\r\x1b[KB\\x1b is at work, 3 s"
    transcript.write_piece("B", "It is")
    assert written.new() == "\r\x1b[KB: It"
    screen.status("B is at work, 4 s")
    assert written.new() == ""
    transcript.write_answer("B", "It is 3.")
    assert written.new() == " is 3.\n\r\x1b[KB is at work, 4 s"
    screen.hold()
    transcript.write_answer("C", "Later.")
    screen.status("")
    assert written.new() == "\r\x1b[K"
    screen.release()
    transcript.write_answers()
    assert written.new() == "C: Later.\n"
    screen.status("字" * 60)
    assert (
        written.new() == "\r\x1b[K" + "字" * 39
    )  # of 80 columns, if it is unknown how many there are
    screen.hold()
    written.new()
    screen.status("A is at work")
    assert written.new() == ""  # a question has the screen
    screen.release()
    assert written.new() == "\r\x1b[KA is at work"


def test_long_answer_is_cut_however_it_comes() -> None:
    shown = []
    for pieces in (["word " * 400] * 3, []):
        written, _screen, transcript = screen_of()
        for piece in pieces:
            transcript.write_piece("A", piece)
        transcript.write_answer("A", "word " * 1200)
        shown.append(written.getvalue())
    assert shown[0].split() == shown[1].split()
    assert 4000 < len("".join(shown[0])) < 4200


OFFERS = {
    "A": {
        "": {"description": "Nothing."},
        "x\ud800": {},
        "add": {"args": {"a": {}, "b": {"default": 1}}, "description": "Add.\nMore."},
    },
    "B": "no actions",
}


BESIDE = ['  /"A".""         Nothing.', r'  /"A"."x\ud800"', "  /A.add a [b]    Add."]
BELOW = ['  /"A".""', "      Nothing.", r'  /"A"."x\ud800"', "  /A.add a [b]", "      Add."]


@pytest.mark.parametrize(("columns", "lines"), ((None, BESIDE), (40, BESIDE), (39, BELOW)))
def test_actions_are_shown_as_they_are_typed_with_what_they_do(
    columns: int | None, lines: list[str]
) -> None:
    shown = help_table(OFFERS, columns).splitlines()
    assert [line.rstrip() for line in shown] == lines
    assert help_table({"B": "no actions"}) == ""


@pytest.mark.parametrize(
    ("name", "args", "line"),
    (
        ("say", {"content": "Hi\nthere "}, "Ann: Hi\n  there"),
        ("say", {"content": 5}, "Ann: 5"),
        ("say", {"content": None}, "Ann: (nothing)"),
        ("say", {"content": "Hi", "thread": "t"}, 'Ann → me: say content:"Hi" thread:"t"'),
        ("response", {"data": [1], "original_message_id": "m"}, "Ann: [1]"),
        ("error", {"error": "no"}, "Ann: error: no"),
        ("pay", {"coins": 3, "to": "Bo B"}, 'Ann → me: pay coins:3 to:"Bo B"'),
        ("pay", {}, "Ann → me: pay"),
        ("say", {"content": "w " * 2000 + "x"}, f"Ann: {'w ' * 2000}… (1 more characters)"),
    ),
)
def test_message_is_shown_with_its_text_or_its_call(
    name: str, args: dict[str, object], line: str
) -> None:
    _, screen, _ = screen_of("dumb")
    message = {"from": "Ann", "to": "me", "action": {"name": name, "args": args}}
    assert shown_message(screen, message, "me").split() == line.split()
    to_another = shown_message(screen, {**message, "to": "Bo"}, "me")
    assert to_another.startswith(f"Ann → Bo: {name}")
