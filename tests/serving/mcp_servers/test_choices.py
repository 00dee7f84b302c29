"""Questions of MCP servers with choices: what the person reads, and what the answer means."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from moothall import Agent, CallbackApprover, NativeSpace, Question
from moothall.serving import MCPAgent

Make = Callable[..., MCPAgent]
SIZES = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
TOPS = [
    {"const": "c", "title": "Cheese, old"},
    {"const": "h", "title": "Ham"},
    {"const": "cheese", "title": "Soft"},
]


def ask(server: Make, field: dict[str, Any], *lines: str, required: bool = True) -> Any:
    """Ask for one field; return what the person read, and the value that the server got."""
    asked, left = list[str](), iter(lines)
    form = {"type": "object", "properties": {"x": field}, "required": ["x"] * required}

    def say(question: Question) -> str:
        asked.append(question.text)
        return next(left)

    approver = CallbackApprover(lambda request: True, answer=say)
    with NativeSpace(approver=approver) as space:
        space.add(server(mode="form:" + json.dumps(form)))
        answer = json.loads(space.add(Agent("me")).ask("odd", "ask").result(20))
    return asked, answer.get("content", {}).get("x", answer["action"])


def several(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"anyOf": TOPS}, **more}


@pytest.mark.parametrize(
    ("field", "shown"),
    (
        ({"type": "string", "oneOf": SIZES}, "x (Small (s), Large (l)); "),
        ({"type": "string", "anyOf": SIZES}, "x (Small (s), Large (l)); "),
        ({"type": "string", "enum": ["s", "l"]}, "x (s, l); "),
        (
            {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
            "x (Small (s), Large (l)); ",
        ),
        (
            {"type": "string", "title": "Your size", "description": "As worn.", "enum": ["s"]},
            "x, Your size, As worn. (s); ",
        ),
        ({"type": "string", "title": "X"}, "x (string); "),
        (
            {"type": "string", "oneOf": SIZES, "default": "l"},
            "x (Small (s), Large (l)); empty for 'Large'; ",
        ),
        (
            several(),
            "x (any of Cheese, old (c), Ham (h), Soft (cheese), separated by commas); ",
        ),
        (
            several(minItems=1, maxItems=2, default=["h", "c"]),
            "x (at least 1 and at most 2 of Cheese, old (c), Ham (h), Soft (cheese), separated by"
            " commas); empty for 'Ham, Cheese, old'; ",
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "x (any of a, b, separated by commas); ",
        ),
        ({"type": "array", "items": {"type": "string"}}, "x (values, separated by commas); "),
        (
            {"type": "string", "oneOf": [{"const": "s", "title": "S\u202e\u200bmall"}]},
            "x (Small (s)",
        ),
    ),
)
def test_mcp_question_shows_titles_and_choices(
    server: Make, field: dict[str, Any], shown: str
) -> None:
    asked, _ = ask(server, field, "/decline")
    assert asked[0].startswith(f"the MCP server 'odd' asks: Which one? {shown}")


@pytest.mark.parametrize(
    ("field", "line", "value"),
    (
        *(({"type": "string", "oneOf": SIZES}, each, "s") for each in ("Small", "s", "small ")),
        ({"type": "string", "oneOf": SIZES}, "Small (s)", "s"),
        ({"type": "string", "oneOf": [*SIZES, {"const": "Small", "title": "S"}]}, "Small", "Small"),
        ({"type": "integer", "oneOf": [{"const": 3, "title": "Three"}]}, "three", 3),
        ({"type": "integer", "enum": [1, 2]}, "2", 2),
        ({"type": "string", "enum": ["a", "A"]}, "A", "A"),
        ({"type": "string", "oneOf": SIZES, "default": "l"}, "", "l"),
        (several(), "Ham, Cheese, old", ["h", "c"]),
        (several(), "cheese,  HAM", ["cheese", "h"]),
        (several(), "Cheese,old", ["c"]),
        (several(), "c, h,", ["c", "h"]),
        (several(default=["h"]), "", ["h"]),
        ({"type": "array", "items": {"type": "string"}}, "a, b", ["a", "b"]),
    ),
)
def test_mcp_question_takes_an_answer_by_title_or_value(
    server: Make, field: dict[str, Any], line: str, value: Any
) -> None:
    assert ask(server, field, line)[1] == value


@pytest.mark.parametrize(
    ("field", "wrong"),
    (
        ({"type": "string", "oneOf": [*SIZES, {"const": "xs", "title": "Small"}]}, "Small"),
        ({"type": "string", "oneOf": SIZES}, "Medium"),
        (several(maxItems=1), "c, h"),
        (several(), "c, Salami"),
    ),
    ids=("title-of-two", "unknown", "too-many", "one-unknown"),
)
def test_mcp_question_is_asked_again_for_an_answer_that_is_no_choice(
    server: Make, field: dict[str, Any], wrong: str
) -> None:
    asked, value = ask(server, field, wrong, "/decline")
    assert asked[1].startswith(f"{wrong!r} is not valid. ")
    assert value == "decline"
