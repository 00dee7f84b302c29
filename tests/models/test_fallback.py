from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from models.openai_server import OpenAIServer, status
from moothall import Action, Budget, Journal, ReActAgent
from moothall.foundation.errors import (
    ContextOverflow,
    DefinitionError,
    MissingExtra,
    ModelError,
    RemoteForbidden,
)
from moothall.models import (
    BudgetedModel,
    FallbackModel,
    ModelReply,
    OpenAIModel,
    RecordedModel,
    ScriptedModel,
    TextPiece,
)
from moothall.studio.orders.order import order_line
from moothall.testing.model_suite import (
    StreamingModelConformance,
    joined_text,
    never,
    parts_of,
    run,
    until_error,
    user_message,
)


def broken(error: BaseException | None = None, times: int = 9) -> ScriptedModel:
    return ScriptedModel([error or ModelError("broken: no")] * times, "broken")


class TestFallbackModel(StreamingModelConformance):
    def make(self, *answers: Any) -> FallbackModel:
        return FallbackModel([broken(), ScriptedModel(answers)])


def test_fallback_gives_the_answer_of_the_first_that_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second, third = broken(), ScriptedModel(["two"], "second"), ScriptedModel(["three"])
    model = FallbackModel([first, second, third])
    assert run(model.complete(user_message("Hi"))).text == "two"
    assert [len(each.received) for each in (first, second, third)] == [1, 1, 0]
    assert [record.getMessage() for record in caplog.records] == ["broken: no; asking second"]


def test_fallback_says_which_model_answered_and_a_journal_has_it(tmp_path: Path) -> None:
    within = FallbackModel([broken(), ScriptedModel(["two"], "second")])
    with Journal(tmp_path / "runs.db") as journal:
        agent = ReActAgent("a", FallbackModel([broken(), within]), journal=journal)
        agent.reply_sync("Hi", run_id="r")
        lines = [order_line(each) for each in journal.entries("r")]
    assert "model answer 1: two; answered by second" in lines


def test_fallback_without_any_answer_gives_each_reason() -> None:
    model = FallbackModel([broken(), broken(ModelError("two\nlines"))], name="either")
    with pytest.raises(ModelError) as caught:
        run(model.complete(user_message("Hi")))
    assert str(caught.value) == "either: no model answered: 1. broken: no; 2. two lines"
    assert str(caught.value.__cause__) == "two\nlines"


@pytest.mark.parametrize(
    "error",
    (ContextOverflow("too long"), RemoteForbidden("offline"), MissingExtra("it", "local")),
    ids=lambda error: type(error).__name__,
)
def test_fallback_asks_another_model_whatever_keeps_one_from_answering(error: Exception) -> None:
    model = FallbackModel([broken(error), ScriptedModel(["back"])])
    assert run(model.complete(user_message("Hi"))).text == "back"


class Asked:
    """A model of a user, which may take no schema."""

    name, context_tokens, max_tokens = "asked", None, 100

    def __init__(self) -> None:
        self.received: list[tuple[Any, ...]] = []

    async def complete(self, messages: Any, actions: Any = None, **more: Any) -> ModelReply:
        self.received.append((messages, actions, more))
        return ModelReply("Yes.")


class Streams(Asked):
    async def stream(self, messages: Any, actions: Any = None, **more: Any) -> AsyncIterator[Any]:
        reply = await self.complete(messages, actions, **more)
        yield TextPiece(reply.text)
        yield reply


@pytest.mark.parametrize(("kind", "stream"), ((Asked, False), (Asked, True), (Streams, True)))
def test_wrapped_model_receives_the_whole_request(
    tmp_path: Path, kind: type[Asked], stream: bool
) -> None:
    actions = [Action("act", lambda: None, "Act.")]
    for wrap in (
        lambda model: FallbackModel([broken(), model]),
        lambda model: BudgetedModel(model, Budget(tokens=10_000)),
        lambda model: RecordedModel(model, tmp_path / "recording"),
    ):
        asked = kind()
        model: Any = wrap(asked)
        for more in ({}, {"actions": actions}, {"schema": {"type": "string"}}):
            if stream:
                assert joined_text(run(parts_of(model, user_message("Hi"), **more))) == "Yes."
            else:
                assert run(model.complete(user_message("Hi"), **more)).text == "Yes."
        schema = {"schema": {"type": "string"}}
        assert asked.received == [
            *(
                (user_message("Hi"), None, {}),
                (user_message("Hi"), actions, {}),
                (user_message("Hi"), None, schema),
            )
        ]


def test_offline_the_one_on_this_machine_answers() -> None:
    remote = OpenAIModel("m", "https://models.example/v1", "key")
    model = FallbackModel([remote, ScriptedModel(["here"])])
    assert run(model.complete(user_message("Hi"))).text == "here"


def test_fallback_is_an_overflow_if_it_is_one_for_all() -> None:
    overflow = broken(ContextOverflow("too long"))
    with pytest.raises(ContextOverflow, match=r"1\. too long; 2\. too long"):
        run(FallbackModel([overflow, overflow]).complete(user_message("Hi")))
    with pytest.raises(ModelError) as caught:
        run(FallbackModel([overflow, broken()]).complete(user_message("Hi")))
    assert type(caught.value) is ModelError


def test_fallback_does_not_hide_a_fault_of_the_program() -> None:
    second = ScriptedModel(["never"])
    with pytest.raises(ZeroDivisionError):
        run(FallbackModel([broken(ZeroDivisionError()), second]).complete(user_message("Hi")))
    assert second.received == []


async def test_cancelled_the_next_is_not_asked() -> None:
    second = ScriptedModel(["two"])
    model = FallbackModel([ScriptedModel([never]), second])
    task = asyncio.create_task(model.complete(user_message("Hi")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert second.received == []


def test_fallback_context_is_the_smallest_that_is_known() -> None:
    sizes = (None, 4000, 2000)
    models = [ScriptedModel(context_tokens=size) for size in sizes]
    assert FallbackModel(models).context_tokens == 2000
    assert FallbackModel(models[:1]).context_tokens is None


def test_models_may_be_named_and_a_fallback_may_be_one_of_them() -> None:
    inner = FallbackModel(["http://127.0.0.1:9/v1#m"])
    assert inner.name == "fallback(http://127.0.0.1:9/v1#m)"
    assert run(
        FallbackModel([broken(), inner, ScriptedModel(["x"])]).complete(user_message("Hi"))
    ).text


@pytest.mark.parametrize("wrong", ([], "local", 5), ids=str)
def test_fallback_of_no_list_of_models_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="FallbackModel takes"):
        FallbackModel(wrong)


def test_fallback_warning_is_of_moothalls_logger(caplog: pytest.LogCaptureFixture) -> None:
    run(FallbackModel([broken(), ScriptedModel(["x"])]).complete(user_message("Hi")))
    assert [(record.name, record.levelno) for record in caplog.records] == [
        ("moothall.models", logging.WARNING)
    ]


# -- piece by piece --------------------------------------------------------------------------------


class Whole:
    """A model that cannot stream."""

    name = "whole"
    context_tokens = None

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        return ModelReply("all at once", reasoning="hm")


async def breaks(messages: Any, actions: Any) -> Any:
    yield "It is"
    raise ModelError("first: broke off")


def test_streamed_the_next_answers_as_long_as_nothing_was_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second, third = broken(), ScriptedModel(["two words"], "second"), ScriptedModel(["no"])
    parts = run(parts_of(FallbackModel([first, second, third]), user_message("Hi")))
    assert joined_text(parts) == parts[-1].text == "two words"
    assert [len(each.received) for each in (first, second, third)] == [1, 1, 0]
    assert [record.getMessage() for record in caplog.records] == ["broken: no; asking second"]


def test_fallback_passes_an_error_on_once_something_was_said() -> None:
    second = ScriptedModel(["never"])
    model = FallbackModel([ScriptedModel([breaks]), second])
    came, error = run(until_error(model, user_message("Hi")))
    assert came == [TextPiece("It is")]
    assert str(error) == "first: broke off"
    assert second.received == []


def test_streamed_when_none_answers_each_reason_is_given() -> None:
    with pytest.raises(ModelError, match=r"either: no model answered: 1\. broken: no; 2\. two"):
        run(
            parts_of(
                FallbackModel([broken(), broken(ModelError("two"))], name="either"),
                user_message(""),
            )
        )
    overflow = broken(ContextOverflow("too long"))
    with pytest.raises(ContextOverflow):
        run(parts_of(FallbackModel([overflow]), user_message("Hi")))


def test_fallback_model_that_cannot_stream_answers_in_one_piece() -> None:
    parts = run(parts_of(FallbackModel([broken(), Whole()]), user_message("Hi")))
    assert [part.text for part in parts] == ["hm", "all at once", "all at once"]


def test_fallback_longest_answer_is_the_longest_if_each_is_known() -> None:
    models = [ScriptedModel(max_tokens=size) for size in (10, 30, 20)]
    assert FallbackModel(models).max_tokens == 30
    assert FallbackModel([*models, Whole()]).max_tokens is None


@pytest.mark.parametrize("streams", (False, True), ids=("whole", "streamed"))
@pytest.mark.parametrize("inner", (False, True), ids=("alone", "nested"))
def test_fallback_model_that_ends_with_a_refused_request_names_each_failure(
    streams: bool, inner: bool
) -> None:
    with OpenAIServer(status(401, "wrong key")) as first, OpenAIServer(status(400, "no x")) as last:
        models: list[Any] = [OpenAIModel("a", first.url), OpenAIModel("b", last.url)]
        models = [FallbackModel(models), ScriptedModel(["never"])] if inner else models
        model = FallbackModel(models)
        with pytest.raises(
            ModelError, match=r"1\. .*#a.*401: wrong key.*2\. .*#b.*400: no x"
        ) as it:
            run(
                parts_of(model, user_message("Hi"))
                if streams
                else model.complete(user_message("Hi"))
            )
    assert it.value.status == 400


def test_fallback_model_whose_first_refuses_the_request_raises_that_error() -> None:
    with OpenAIServer(status(400, "no x")) as server:
        model = FallbackModel([OpenAIModel("a", server.url), ScriptedModel(["never"])])
        with pytest.raises(ModelError, match="#a: the server answered 400: no x"):
            run(model.complete(user_message("Hi")))
