from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moothall.foundation.errors import DefinitionError, ModelError
from moothall.models import (
    Call,
    ModelReply,
    ReasoningPiece,
    ScriptedModel,
    StreamingModel,
    TextPiece,
    Usage,
)
from moothall.models.base import stream_answer
from moothall.testing.model_suite import (
    StreamingModelConformance,
    joined_text,
    never,
    parts_of,
    run,
    until_error,
    user_message,
)


class TestScriptedModel(StreamingModelConformance):
    def make(self, *answers: Any) -> ScriptedModel:
        return ScriptedModel(answers)


class TestModelThatAnswersAtOnce(StreamingModelConformance):
    answers_at_once = True

    def make(self, *answers: Any) -> ScriptedModel:
        return ScriptedModel(["A long story." if each is never else each for each in answers])


async def test_model_streamed_gives_pieces_and_then_the_answer() -> None:
    *pieces, reply = [
        part async for part in stream_answer(ScriptedModel(["Hello!"]), user_message("Say hello"))
    ]
    assert joined_text(pieces) == reply.text == "Hello!"


def test_gives_its_replies_in_order_and_then_says_how_many_it_had() -> None:
    model = ScriptedModel(["one", "two"], name="parrot")
    assert [run(model.complete(user_message("?"))).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(
        ModelError, match="parrot: asked for reply 3, but it was given 2: give it one for each"
    ):
        run(model.complete(user_message("?")))


def test_scripted_model_of_one_function_answers_every_call() -> None:
    model = ScriptedModel(lambda messages, actions: messages[-1]["content"].upper())
    assert [run(model.complete(user_message(text))).text for text in ("one", "two")] == [
        "ONE",
        "TWO",
    ]
    assert run(parts_of(model, user_message("six")))[-1] == ModelReply("SIX")


def test_keeps_what_it_was_given_as_it_was_then() -> None:
    model = ScriptedModel(["one", "two"])
    messages = user_message("first")
    run(model.complete(messages))
    messages.append({"role": "assistant", "content": "one"})
    run(model.complete(messages))
    assert [len(received) for received in model.received] == [1, 2]


@pytest.mark.parametrize(
    "reply",
    (
        {"name": "add", "args": {"a": 1}},
        Call("call_1_1", "add", {"a": 1}),
        [{"name": "add", "args": {"a": 1}}],
        lambda messages, actions: {"name": "add", "args": {"a": 1}},
    ),
    ids=["dict", "Call", "list", "function"],
)
def test_scripted_call_has_several_spellings(reply: Any) -> None:
    given = run(ScriptedModel([reply]).complete(user_message("?")))
    assert given == ModelReply(calls=(Call("call_1_1", "add", {"a": 1}),), finish_reason="calls")


def test_scripted_calls_in_one_reply_have_their_own_ids() -> None:
    given = run(ScriptedModel([[{"name": "add"}, {"name": "add"}]]).complete(user_message("?")))
    assert [call.id for call in given.calls] == ["call_1_1", "call_1_2"]


def test_arguments_may_be_raw_text() -> None:
    given = run(ScriptedModel([{"name": "add", "args": "{not json"}]).complete(user_message("?")))
    assert given.calls[0].args == "{not json"


def test_scripted_reply_is_given_as_it_is() -> None:
    reply = ModelReply("cut", usage=Usage(3, 4), finish_reason="length")
    assert run(ScriptedModel([reply]).complete(user_message("?"))) is reply


def test_scripted_exception_is_raised_and_the_next_reply_follows() -> None:
    model = ScriptedModel([OSError("no network"), "back"])
    with pytest.raises(OSError, match="no network"):
        run(model.complete(user_message("?")))
    assert run(model.complete(user_message("?"))).text == "back"


def test_scripted_function_sees_the_conversation_and_may_wait() -> None:
    async def reply(messages: list[dict[str, Any]], actions: Any) -> str:
        await asyncio.sleep(0)
        return f"{messages[-1]['content']} {actions}"

    assert run(ScriptedModel([reply]).complete(user_message("echo"))).text == "echo None"


@pytest.mark.parametrize("reply", (None, 5, [], [5], {"nom": "add"}, {"name": "a", "extra": 1}))
def test_scripted_model_wrong_reply_is_named(reply: Any) -> None:
    with pytest.raises(DefinitionError, match="reply 1 is"):
        run(ScriptedModel([reply]).complete(user_message("?")))


def test_scripted_model_of_one_text_is_refused() -> None:
    with pytest.raises(
        DefinitionError, match="ScriptedModel: replies= must be a list of replies or "
    ):
        ScriptedModel(None)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="a list of replies, not one str"):
        ScriptedModel("hello")


# -- piece by piece --------------------------------------------------------------------------------


def test_scripted_text_is_streamed_word_by_word() -> None:
    model = ScriptedModel([" Well, hello\n\nthere "])
    assert isinstance(model, StreamingModel)
    parts = run(parts_of(model, user_message("?")))
    assert [part.text for part in parts[:-1]] == [" Well,", " hello", "\n\nthere", " "]
    assert parts[-1] == ModelReply(" Well, hello\n\nthere ")
    assert model.received == [user_message("?")]


def test_scripted_reply_is_streamed_with_its_reasoning_first() -> None:
    reply = ModelReply("It is 5.", reasoning="2 and 3", usage=Usage(3, 4))
    *pieces, last = run(parts_of(ScriptedModel([reply]), user_message("?")))
    assert pieces[0] == ReasoningPiece("2 and 3")
    assert joined_text(pieces) == "It is 5."
    assert last is reply


async def in_two(messages: list[dict[str, Any]], actions: Any) -> Any:
    yield f"{messages[-1]['content']}, "
    yield ""
    await asyncio.sleep(0)
    yield "you"


async def breaks(messages: list[dict[str, Any]], actions: Any) -> Any:
    yield "It is"
    raise ModelError("broke off")


def test_scripted_generator_says_what_is_streamed() -> None:
    model = ScriptedModel([in_two, in_two])
    assert run(parts_of(model, user_message("hey"))) == [
        TextPiece("hey, "),
        TextPiece("you"),
        ModelReply("hey, you"),
    ]
    assert run(model.complete(user_message("hey"))) == ModelReply("hey, you")


def test_scripted_generator_that_breaks_off_gives_no_answer() -> None:
    model = ScriptedModel([breaks, breaks, "back"])
    came, error = run(until_error(model, user_message("?")))
    assert came == [TextPiece("It is")]
    assert str(error) == "broke off"
    with pytest.raises(ModelError, match="broke off"):
        run(model.complete(user_message("?")))
    assert run(parts_of(model, user_message("?")))[-1].text == "back"


async def test_scripted_generator_is_closed_with_its_stream() -> None:
    ended = []

    async def endless(messages: list[dict[str, Any]], actions: Any) -> Any:
        try:
            while True:
                yield "on "
        finally:
            ended.append(True)

    stream = ScriptedModel([endless]).stream(user_message("?"))
    assert await anext(stream) == await anext(stream) == TextPiece("on ")
    await stream.aclose()
    assert ended == [True]


def test_scripted_generator_yields_text_only() -> None:
    async def wrong(messages: list[dict[str, Any]], actions: Any) -> Any:
        yield 5

    for ask in (parts_of, ScriptedModel.complete):
        with pytest.raises(DefinitionError, match="reply 1 yields 5: a generator yields texts"):
            run(ask(ScriptedModel([wrong]), user_message("?")))


@pytest.mark.parametrize("reply", (OSError("no network"), None), ids=str)
def test_scripted_model_failure_is_raised_by_stream_too(reply: Any) -> None:
    with pytest.raises((OSError, DefinitionError)):
        run(parts_of(ScriptedModel([reply]), user_message("?")))


def test_scripted_model_max_tokens_fits_its_longest_reply() -> None:
    assert ScriptedModel().max_tokens == 0
    assert ScriptedModel(max_tokens=9).max_tokens == 9
    # As much as the longest takes, in bytes, or as it states.
    assert ScriptedModel(["short", "longer", "é" * 4]).max_tokens == 8
    assert ScriptedModel(["short", ModelReply("x", usage=Usage(9, 50))]).max_tokens == 50
    assert 40 <= ScriptedModel([ModelReply("x" * 40)]).max_tokens <= 60  # type: ignore[operator]
    assert ScriptedModel(["short", lambda *asked: "any"]).max_tokens == 1000


def test_usages_add_up() -> None:
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)
