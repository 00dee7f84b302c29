"""Marks of reasoning that a text speaks of, beside those that it has."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from models.openai_server import delta
from moothall.models.chat_stream import AnswerStream
from moothall.models.protocol import ModelReply, ReasoningPiece, TextPiece

SPEAKS = (
    "Write <think> first and </think> last.",
    "First <think>a</think>, then <think>b</think>; both are hidden.",
    "Use [THINK] and [/THINK], or <thinking> and </thinking>.",
    "`<think>` opens, `</think>` closes, and <think></think> is empty.",
    "`<think>` opens, </think> closes.",
    "Tags:\n\n| tag | for |\n| --- | --- |\n| </think> | the end |\n| <think> | the beginning |\n",
    "| </think> | ends |",
    "Example:\n\n```html\nhidden\n</think>\nshown\n```\n\nThat is all.",
    "```\n</think>\n```",
    "~~~ text\n```\n</think>\n~~~\nDone.",
    "1. Say:\n\n    ```\n    hidden </think>\n    ```\n\n2. Go on.",
    "> ```\n> </think>\n> ```\nQuoted.",
    "The code `strip('</think>') and more` works.",
    "Call ``x = '`' + </think>`` there.",
    "In C++: `a < b` and \"</think>\" is a text; '</think>' is one, too.",
    "Example:\n\n    hidden\n    </think>\n\t</think>\n\nThat is all.",
    "The end is “</think>”, «</think>» or 「</think>」.",
    "Nested: <think>a <think>b</think> c</think> end.",
)
THINKS = (
    ("Two and one.\n</think>\n\nThree", "Two and one.", "Three"),
    ("Two and one.</think>Three", "Two and one.", "Three"),
    ("The user asks of <think> and </think>.\n</think>\nThree", None, "Three"),
    ("I write `<think>` and `</think>`.\n</think>\nThree", None, "Three"),
    ("As code:\n```\n</think>\n```\nso.\n</think>\n\nThree", None, "Three"),
    ("|a|b|\n|-|-|\n\n</think>Three `</think>` </think>", None, "Three `</think>` </think>"),
    ("<think>Two </think>Three <think>x</think>", "Two", "Three <think>x</think>"),
    ("don't\n</think>\nThree", "don't", "Three"),
)


def read(*pieces: str) -> ModelReply:
    """The answer that comes in these pieces; each is given out once."""
    reader, parts = AnswerStream("m", 0), list[Any]()
    for piece in (delta("", role="assistant"), *map(delta, pieces), delta(None, "stop")):
        parts += reader.take(piece)
    *parts, reply = (*parts, *reader.end())
    said = "".join(part.text for part in parts if isinstance(part, TextPiece | ReasoningPiece))
    assert "".join(said.split()) == "".join((reply.reasoning + reply.text).split())
    return reply


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(places)]


CUTS = some.lists(some.integers(0, 999), max_size=20)
WORDS = some.sampled_from(
    (
        *("<think>", "</think>", "</Think>", "<thinking>", "</thinking>", "[/THINK]", "◁/think▷"),
        *(
            "`",
            "``",
            "```",
            "~~~",
            "\n",
            "\n```\n",
            "\n|",
            "|",
            " ",
            "'",
            '"',
            "a",
            "b.",
            "</",
            "<",
        ),
        *("<|channel|>analysis<|message|>", "\n> ```", "\n    ", "◁", "[", "think>", "</", "<"),
    )
)


@pytest.mark.parametrize("text", SPEAKS)
def test_text_that_speaks_of_marks_is_whole(text: str) -> None:
    for size in (1, 2, 3, 7, len(text)):
        reply = read(*(text[at : at + size] for at in range(0, len(text), size)))
        assert (reply.text, reply.reasoning) == (text, "")


@pytest.mark.parametrize(("text", "reasoning", "answer"), THINKS)
def test_reasoning_that_speaks_of_marks_ends_with_its_own(
    text: str, reasoning: str | None, answer: str
) -> None:
    for size in (1, 2, 3, 7, len(text)):
        reply = read(*(text[at : at + size] for at in range(0, len(text), size)))
        assert reply.text == answer
        assert reply.reasoning == (
            text.removesuffix(answer).strip().removesuffix("</think>").strip()
            if reasoning is None
            else reasoning
        )


@given(some.lists(WORDS, max_size=30).map("".join), CUTS)
@example("a </think>'", [10])
@example("'</think>", [1])
@example("a ```\n```", [3])
@example("a\n```\n</think>", [2])
def test_text_and_reasoning_are_the_same_in_any_pieces(text: str, cuts: list[int]) -> None:
    once, cut = read(text), read(*pieces_of(text, cuts))
    assert (cut.text, cut.reasoning) == (once.text, once.reasoning)


def test_text_of_a_thousands_of_marks_is_read_in_time() -> None:
    text = "`</think>` " * 20_000
    assert len(read(text).text) == len(text)
    assert len(read(*("`</think>` " for _ in range(20_000))).text) == len(text)
