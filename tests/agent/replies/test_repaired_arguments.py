"""Arguments that are spelled otherwise, actions that poll, and errors as a model reads them."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import ReActAgent, Reply, ScriptedModel, action
from moothall.models import Call, ModelReply


def note(title: str, count: int = 0, tags: list[str] | None = None, done: bool = False) -> str:
    """Write a note."""
    return f"{title!r} {count!r} {tags!r} {done!r}"


def weigh(kilos: float, boxes: list[dict[str, int]]) -> str:
    """Weigh boxes."""
    return f"{kilos!r} {boxes!r}"


def mail(title: str, headers: dict[str, str] | None = None) -> str:
    """Write a mail."""
    return f"{title!r} {headers!r}"


@action(guard=("amount",))
def pay(amount: int, lines: list[str]) -> str:
    """Pay."""
    return f"{amount!r} {lines!r}"


def called(function: Any, args: dict[str, Any] | str) -> Reply:
    name = getattr(function, "__name__", "") or function.name
    script = [ModelReply(calls=(Call("c1", name, args),)), "ended"]
    return ReActAgent("a", ScriptedModel(script), actions=[function], tries=1).reply_sync("Go")


@pytest.mark.parametrize(
    ("function", "args", "result", "told"),
    (
        (note, {"title": "5", "count": "1"}, "'5' 1 None False", "count given as text"),
        (note, {"title": "a", "tags": '["b"]'}, "'a' 0 ['b'] False", "tags given as text"),
        (note, {"title": "a", "done": "true"}, "'a' 0 None True", "done given as text"),
        (note, {"args": {"title": "a"}}, "'a' 0 None False", "taken out of 'args'"),
        (
            weigh,
            {"kilos": "1.5", "boxes": '[{"a": "1"}]'},
            "1.5 [{'a': 1}]",
            "kilos given as text; boxes given as text",
        ),
        (pay, {"amount": 5, "lines": '["a"]'}, "5 ['a']", "lines given as text"),
        (note, {"title": "a", "count": "1.0"}, "'a' 1 None False", "count given as text"),
        (note, {"title": "a", "tags": "null"}, "'a' 0 None False", "tags given as text"),
        (note, {"input": '{"title": "a"}'}, "'a' 0 None False", "taken out of 'input'"),
        (note, '"{\\"title\\": \\"a\\"}"', "'a' 0 None False", ""),
        (note, {"title": "a", "count": 1}, "'a' 1 None False", ""),
    ),
)
def test_arguments_spelled_otherwise_are_taken_and_the_step_says_so(
    function: Any, args: dict[str, Any], result: str, told: str
) -> None:
    (step,) = called(function, args).steps
    assert (step.result["result"], step.repaired) == (result, told)


@pytest.mark.parametrize(
    ("function", "args"),
    (
        (note, {"title": "a", "count": "one"}),
        (note, {"title": "a", "count": "1.5"}),
        (note, {"title": "a", "tags": "b"}),
        (note, {"title": "a", "tags": '{"b": 1}'}),
        (note, {"title": 5}),
        (note, {"args": {"title": "a", "more": 1}}),
        (mail, {"headers": {"title": "a"}}),
        (pay, {"amount": "5", "lines": ["a"]}),
        (pay, {"args": {"amount": 5, "lines": ["a"]}}),
    ),
)
def test_arguments_that_do_not_fit_are_asked_for_again(function: Any, args: dict[str, Any]) -> None:
    reply = called(function, args)
    assert (reply.text, reply.steps) == ("ended", [])


def polled(poll: Any) -> Reply:
    script = [{"name": "job", "args": {}}] * 5 + ["ready"]
    return ReActAgent("a", ScriptedModel(script), actions=[poll]).reply_sync("Wait")


def test_action_that_polls_may_give_the_same_result_often() -> None:
    @action(polling=True)
    def job() -> str:
        """Ask whether the job is done."""
        return "running"

    assert (reply := polled(job)).stop_reason == "done"
    assert len(reply.steps) == 5


def test_action_that_does_not_poll_ends_without_progress() -> None:
    def job() -> str:
        """Ask whether the job is done."""
        return "running"

    assert polled(job).stop_reason == "no_progress"


def test_missing_key_error_is_named_as_one() -> None:
    def price(item: str) -> int:
        """Say a price."""
        return {"pear": 3}[item]

    reply = called(price, {"item": "apple"})
    assert reply.steps[0].error == "KeyError: 'apple'"
    assert "KeyError: 'apple'" in reply.messages[2]["content"]
