"""Answers that come in pieces, between lines: nothing is lost, nothing stands there twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from civitas.approval import escaped
from civitas.cli.chat.transcript import Transcript

# What the tests look for in what was written is not among them.
TEXTS = st.text(st.characters(exclude_characters="…<>#"), min_size=1, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("A", "B")), TEXTS),
        st.tuples(st.just("line"), st.just("#a line#")),
        st.tuples(st.sampled_from(("hold", "release")), st.just("")),
        st.tuples(st.just("at work"), st.integers(0, 99).map(str)),
    ),
    max_size=30,
)


def screen(written: list[str]) -> list[str]:
    """The lines that stand there in the end."""
    # What is erased stands before what is written anew.
    return [line.rpartition("\r\x1b[K")[2] for line in "".join(written).split("\n")]


@given(STEPS, st.booleans())
def test_each_answer_stands_there_once(steps: list[tuple[str, str]], dumb: bool) -> None:
    written: list[str] = []
    transcript = Transcript(written.append, None if dumb else ("", ""))
    said = {"A": "", "B": ""}
    shown = 0
    for what, text in steps:
        if what in said:
            transcript.piece(what, f"<{what}>", text)
            said[what] += text
        elif what == "line":
            transcript.line(text)
            shown += 1
        elif what == "hold":
            transcript.hold()
        elif what == "release":
            transcript.release()
        else:
            transcript.at_work(["A", "B"], int(text))
    transcript.release()
    for id, text in said.items():
        transcript.answered(id, f"<{id}>", text.strip())
    transcript.at_work([])
    lines = screen(written)
    assert lines.count("#a line#") == shown
    for id, text in said.items():
        own = [line.removeprefix(f"<{id}>  ") for line in lines if line.startswith(f"<{id}>")]
        assert "".join(part.removeprefix("…") for part in own) == escaped(text.strip())
    assert all(line == "" or line[0] in "#<" for line in lines)


def test_an_answer_that_came_to_something_else_is_shown_too() -> None:
    written: list[str] = []
    transcript = Transcript(written.append, None)
    transcript.piece("A", "<A>", "I will see.")
    transcript.answered("A", "<A>", "It is 3.")
    assert "".join(written) == "<A>  I will see.\n<A>  It is 3.\n"


def test_what_was_said_before_a_call_is_another_text() -> None:
    written: list[str] = []
    transcript = Transcript(written.append, None)
    transcript.piece("A", "<A>", "I will see. ")
    transcript.over("A")
    transcript.line("#a call#")
    transcript.piece("A", "<A>", "It is")
    transcript.answered("A", "<A>", "It is 3.")
    assert "".join(written) == "<A>  I will see.\n#a call#\n<A>  It is 3.\n"
