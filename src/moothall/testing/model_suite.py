"""The suite of models, and the requests that it makes."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from contextlib import suppress
from typing import Any

import pytest
from jsonschema_rs import validate

from moothall import Action, ModelError
from moothall.models import Call, Model, ModelReply, ReasoningPiece, TextPiece, Usage

WAIT_S = 50
"""Seconds after which an answer is taken to be lost."""

AT_ONCE_S = 5
"""Seconds in which a slow machine stops; a very long story takes far longer."""

PERSON_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


def list_files() -> list[str]:
    """List all the files."""
    return []


def read_file(file_name: str) -> str:
    """Read a file.

    Args:
        file_name: the file
    """
    return file_name


ACTIONS = [Action.of(add), Action.of(list_files), Action.of(read_file)]


async def never(messages: list[dict[str, Any]], actions: list[Action] | None) -> str:
    """An answer that takes for ever."""
    await asyncio.Event().wait()
    return ""


def user_message(text: str) -> list[dict[str, Any]]:
    """Return a conversation of one message."""
    return [{"role": "user", "content": text}]


async def parts_of(model: Any, *request: Any, **options: Any) -> list[Any]:
    """All that a model streams."""
    return [part async for part in model.stream(*request, **options)]


async def until_error(model: Any, *request: Any) -> tuple[list[Any], ModelError]:
    """What a stream gave before it failed, and how it failed."""
    parts: list[Any] = []
    try:
        async for part in model.stream(*request):
            parts.append(part)  # noqa: PERF401 - a comprehension would lose what came
    except ModelError as error:
        return parts, error
    raise AssertionError(f"it did not fail: {parts}")


def joined_text(parts: list[Any], kind: type[TextPiece | ReasoningPiece] = TextPiece) -> str:
    """The text of the pieces of a kind."""
    return "".join(part.text for part in parts if isinstance(part, kind))


def run(awaitable: Any) -> Any:
    """What an awaitable gives, or a failed test if it gives nothing."""

    async def limited() -> Any:
        return await asyncio.wait_for(awaitable, WAIT_S)

    return asyncio.run(limited())


class ModelConformance:
    """What each model does: tests of `complete` and `stream`, whatever answers behind it.

    Derive a class `Test…` from it whose `make` returns a model of yours.

    Attributes:
        begins_s: seconds after which a call is under way, as once a server has the request; no
            long answer is complete before that
        answers_at_once: whether each answer, also a long one, is complete before that, as that of
            rules: then there is nothing to cancel
    """

    begins_s = 0.05
    answers_at_once = False

    def make(self, *answers: Any) -> Model:
        """Return a model that gives these answers; one that answers by itself ignores them.

        Args:
            answers: what a model that does as it is asked says, in turn: a text, a call as a `Call`
                or as `{"name": …, "args": …}`, or `never`, an answer that takes for ever
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define make: it returns a model of yours"
        )

    async def end_task(self, task: asyncio.Task[Any]) -> float:
        """Cancel a call that is under way, or see one end that is answered at once; its seconds."""
        start = time.perf_counter()
        if self.answers_at_once:
            await asyncio.wait_for(task, AT_ONCE_S)
        else:
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return time.perf_counter() - start

    def test_model_has_a_name_and_a_context(self) -> None:
        model = self.make()
        assert isinstance(model, Model)
        assert model.name
        assert isinstance(model.name, str)
        assert model.context_tokens is None or model.context_tokens > 0

    def test_model_complete_gives_text_and_usage(self) -> None:
        reply = run(self.make("Hello!").complete(user_message("Say hello")))
        assert isinstance(reply, ModelReply)
        assert reply.text.strip()
        assert reply.calls == ()
        assert reply.finish_reason in ("stop", "length")
        assert isinstance(reply.usage, Usage)
        assert reply.usage.input_tokens >= 0
        assert reply.usage.output_tokens >= 0

    def test_model_answers_a_conversation_with_each_role(self) -> None:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": "Add 2 and 3"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "name": "add", "args": {"a": 2, "b": 3}}],
            },
            {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "5"},
        ]
        assert run(self.make("It is 5.").complete(messages)).text.strip()

    def test_model_takes_text_in_blocks(self) -> None:
        content = [
            {"type": "text", "text": "Say"},
            {"type": "text", "text": "hello"},
        ]
        reply = run(self.make("hello").complete([{"role": "user", "content": content}]))
        assert reply.text.strip()

    def test_model_reads_and_writes_any_script(self) -> None:
        reply = run(
            self.make("Здравствуйте 👋").complete(
                user_message("Скажи: здравствуйте 👋 你好 \u202e")
            )
        )
        assert reply.text.strip()
        reply.text.encode()

    def test_model_complete_leaves_messages_unchanged(self) -> None:
        messages = [{"role": "system", "content": "Be brief."}, *user_message("Add 2 and 3")]
        before = copy.deepcopy(messages)
        call = Call("c1", "add", {"a": 2, "b": 3})
        run(self.make(call).complete(messages, ACTIONS))
        assert messages == before

    def test_model_calls_one_of_the_actions_with_valid_arguments(self) -> None:
        for text, answer in (
            ("Add 2 and 3", {"name": "add", "args": {"a": 2, "b": 3}}),
            ("List the files", {"name": "list_files", "args": {}}),
            ("Read CHANGELOG", {"name": "read_file", "args": {"file_name": "CHANGELOG"}}),
        ):
            reply = run(self.make(answer).complete(user_message(text), ACTIONS))
            assert reply.finish_reason == "calls"
            assert reply.calls
            for call in reply.calls:
                assert call.id
                action = next(action for action in ACTIONS if action.name == call.name)
                args = json.loads(call.args) if isinstance(call.args, str) else call.args
                validate(action.parameters, args)

    def test_model_calls_of_a_conversation_have_different_ids(self) -> None:
        model = self.make({"name": "list_files"}, {"name": "list_files"})
        messages = user_message("List the files")
        first = run(model.complete(messages, ACTIONS)).calls[0]
        messages += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": first.id, "name": first.name, "args": first.args}],
            },
            {"role": "tool", "tool_call_id": first.id, "content": "README.md"},
            *user_message("List the files"),
        ]
        second = run(model.complete(messages, ACTIONS)).calls[0]
        assert first.id != second.id

    def test_model_complete_keeps_to_a_schema(self) -> None:
        reply = run(
            self.make('{"name": "Ann", "age": 30}').complete(
                user_message("A person"), schema=PERSON_SCHEMA
            )
        )
        validate(PERSON_SCHEMA, json.loads(reply.text))

    def test_model_concurrent_calls_get_their_own_answers(self) -> None:
        numbers = range(8)
        schemas = [{"const": f"answer {number}"} for number in numbers]
        model = self.make(*(json.dumps(f"answer {number}") for number in numbers))

        async def all_of_them() -> list[ModelReply]:
            replies = (
                model.complete(user_message(f"Number {n}"), schema=schemas[n]) for n in numbers
            )
            return list(await asyncio.gather(*replies))

        for number, reply in enumerate(run(all_of_them())):
            assert json.loads(reply.text) == f"answer {number}"

    def test_model_cancelled_stops_at_once_and_answers_the_next_call(self) -> None:
        model = self.make("warm", never, "again")

        async def cancel() -> tuple[float, ModelReply]:
            await model.complete(user_message("Say hello"))
            task = asyncio.create_task(model.complete(user_message("Tell a very long story")))
            await asyncio.sleep(self.begins_s)
            took_s = await self.end_task(task)
            return took_s, await model.complete(user_message("Say hello"))

        took_s, reply = run(cancel())
        assert took_s < AT_ONCE_S
        assert reply.text.strip()

    def test_model_works_on_several_event_loops_in_turn(self) -> None:
        model = self.make("one", "two")
        assert run(model.complete(user_message("Say one"))).text.strip()
        assert run(model.complete(user_message("Say two"))).text.strip()

    def test_model_complete_without_messages_raises(self) -> None:
        model = self.make("Hello!")
        with pytest.raises(ModelError):
            run(model.complete([]))
        assert run(model.complete(user_message("Say hello"))).text.strip()


class StreamingModelConformance(ModelConformance):
    """What a model with `stream` does, too: its answers come piece by piece."""

    def checked_reply(self, parts: list[Any]) -> ModelReply:
        """What holds of everything that is streamed; the answer at its end."""
        *pieces, reply = parts
        assert isinstance(reply, ModelReply)
        assert all(isinstance(piece, TextPiece | ReasoningPiece) for piece in pieces)
        assert all(piece.text for piece in pieces)
        assert joined_text(pieces) == reply.text
        assert joined_text(pieces, ReasoningPiece) == reply.reasoning
        return reply

    def test_model_stream_gives_pieces_and_then_the_answer(self) -> None:
        parts = run(
            parts_of(self.make("Hello, dear world!"), user_message("Say hello to the world"))
        )
        assert self.checked_reply(parts).text.strip()
        assert len(parts) > 2

    def test_model_stream_joins_to_the_completed_reply(self) -> None:
        text = "The answer: здравствуйте 👋 你好"
        model = self.make(text, text, text)
        # The first fills what is cached, which may change the rounding of the others.
        run(model.complete(user_message("Say hello")))
        completed = run(model.complete(user_message("Say hello")))
        assert self.checked_reply(run(parts_of(model, user_message("Say hello")))) == completed

    def test_model_stream_gives_calls_like_complete(self) -> None:
        answer = {"name": "add", "args": {"a": 2, "b": 3}}
        model = self.make(answer)
        parts = run(parts_of(model, user_message("Add 2 and 3"), ACTIONS))
        reply = self.checked_reply(parts)
        assert reply.finish_reason == "calls"
        assert len(parts) == 1  # what a call is made of is not text
        for call in reply.calls:
            assert call.id
            action = next(action for action in ACTIONS if action.name == call.name)
            args = json.loads(call.args) if isinstance(call.args, str) else call.args
            validate(action.parameters, args)

    def test_model_stream_keeps_to_a_schema(self) -> None:
        model = self.make('{"name": "Ann", "age": 30}')
        reply = self.checked_reply(
            run(parts_of(model, user_message("A person"), schema=PERSON_SCHEMA))
        )
        validate(PERSON_SCHEMA, json.loads(reply.text))

    def test_model_stream_answers_after_a_result(self) -> None:
        messages = [
            *user_message("Add 2 and 3"),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "name": "add", "args": {"a": 2, "b": 3}}],
            },
            {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "5"},
        ]
        before = copy.deepcopy(messages)
        reply = self.checked_reply(run(parts_of(self.make("It is 5."), messages, ACTIONS)))
        assert reply.text or reply.calls
        assert messages == before

    def test_model_concurrent_streams_do_not_mix(self) -> None:
        schemas = [{"const": f"answer {number}"} for number in range(4)]
        model: Any = self.make(*(json.dumps(schema["const"]) for schema in schemas))

        async def in_turns() -> list[list[Any]]:
            streams = [
                model.stream(user_message(f"Number {n}"), schema=schema)
                for n, schema in enumerate(schemas)
            ]
            parts: list[list[Any]] = [[] for _ in streams]
            open_streams = dict(enumerate(streams))
            while open_streams:
                for n, stream in tuple(open_streams.items()):
                    part = await anext(stream, None)
                    if part is None:
                        del open_streams[n]
                    else:
                        parts[n].append(part)
            return parts

        for parts, schema in zip(run(in_turns()), schemas, strict=True):
            assert json.loads(self.checked_reply(parts).text) == schema["const"]

    def test_model_stream_closed_early_ends_at_once(self) -> None:
        model: Any = self.make("A long story of a fox.", "again")

        async def close() -> ModelReply:
            stream = model.stream(user_message("Tell a very long story of a fox"))
            assert isinstance(await anext(stream), TextPiece)
            start = time.perf_counter()
            await stream.aclose()
            assert time.perf_counter() - start < AT_ONCE_S
            assert await anext(stream, None) is None
            return self.checked_reply(await parts_of(model, user_message("Say hello")))

        assert run(close()).text.strip()

    def test_model_stream_cancelled_stops_at_once_and_answers_the_next_call(self) -> None:
        model: Any = self.make("warm", never, "again")

        async def cancel() -> tuple[float, ModelReply]:
            await model.complete(user_message("Say hello"))

            first_piece = asyncio.Event()

            async def read_all() -> None:
                async for _ in model.stream(user_message("Tell a very long story")):
                    first_piece.set()

            task = asyncio.create_task(read_all())
            with suppress(TimeoutError):  # one that never answers has no first piece
                await asyncio.wait_for(first_piece.wait(), self.begins_s)
            took_s = await self.end_task(task)
            return took_s, self.checked_reply(await parts_of(model, user_message("Say hello")))

        took_s, reply = run(cancel())
        assert took_s < AT_ONCE_S
        assert reply.text.strip()

    def test_model_stream_without_messages_raises(self) -> None:
        model = self.make("Hello!")
        with pytest.raises(ModelError):
            run(parts_of(model, []))
        assert self.checked_reply(run(parts_of(model, user_message("Say hello")))).text.strip()
