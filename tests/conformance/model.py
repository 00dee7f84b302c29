"""What every model does, whatever answers behind it.

A subclass says how its model is made: `make(*answers)`, where the answers are what a model that
does as it is told would say to what the test asks. Models that answer by themselves ignore them.
"""

from __future__ import annotations

import asyncio
import copy
import json
import time
from typing import Any

import jsonschema
import pytest

from civitas.action import Action
from civitas.errors import ModelError
from civitas.models import Call, Model, ModelReply, Usage

WAIT_S = 50
"""Seconds after which an answer is taken to be lost."""

PERSON = {
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


def user(text: str) -> list[dict[str, Any]]:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


def run(awaitable: Any) -> Any:
    """What an awaitable gives, or a failed test if it gives nothing."""

    async def limited() -> Any:
        return await asyncio.wait_for(awaitable, WAIT_S)

    return asyncio.run(limited())


class ModelConformance:
    """The suite. A class of tests inherits it and says what `make` gives."""

    def make(self, *answers: Any) -> Model:
        """A model; `answers` are for those that cannot answer by themselves."""
        raise NotImplementedError

    def test_is_a_model(self) -> None:
        model = self.make()
        assert isinstance(model, Model)
        assert model.name
        assert isinstance(model.name, str)
        assert model.context_tokens is None or model.context_tokens > 0

    def test_answers_with_text_and_usage(self) -> None:
        reply = run(self.make("Hello!").complete(user("Say hello")))
        assert isinstance(reply, ModelReply)
        assert reply.text.strip()
        assert reply.calls == ()
        assert reply.finish_reason in ("stop", "length")
        assert isinstance(reply.usage, Usage)
        assert reply.usage.input_tokens >= 0
        assert reply.usage.output_tokens >= 0

    def test_answers_a_conversation_with_every_role(self) -> None:
        messages = [
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

    def test_text_may_come_in_blocks(self) -> None:
        content = [{"type": "text", "text": "Say"}, {"type": "text", "text": "hello"}]
        reply = run(self.make("hello").complete([{"role": "user", "content": content}]))
        assert reply.text.strip()

    def test_reads_and_writes_any_script(self) -> None:
        reply = run(
            self.make("Здравствуйте 👋").complete(user("Скажи: здравствуйте 👋 你好 \u202e"))
        )
        assert reply.text.strip()
        reply.text.encode()

    def test_leaves_the_messages_as_they_were(self) -> None:
        messages = [{"role": "system", "content": "Be brief."}, *user("Add 2 and 3")]
        before = copy.deepcopy(messages)
        call = Call("c1", "add", {"a": 2, "b": 3})
        run(self.make(call).complete(messages, ACTIONS))
        assert messages == before

    def test_chooses_one_of_the_actions_with_valid_arguments(self) -> None:
        for text, answer in (
            ("Add 2 and 3", {"name": "add", "args": {"a": 2, "b": 3}}),
            ("List the files", {"name": "list_files", "args": {}}),
            ("Read CHANGELOG", {"name": "read_file", "args": {"file_name": "CHANGELOG"}}),
        ):
            reply = run(self.make(answer).complete(user(text), ACTIONS))
            assert reply.finish_reason == "calls"
            assert reply.calls
            for call in reply.calls:
                assert call.id
                action = next(action for action in ACTIONS if action.name == call.name)
                args = json.loads(call.args) if isinstance(call.args, str) else call.args
                jsonschema.validate(args, action.parameters)

    def test_calls_of_a_conversation_have_different_ids(self) -> None:
        model = self.make({"name": "list_files"}, {"name": "list_files"})
        messages = user("List the files")
        first = run(model.complete(messages, ACTIONS)).calls[0]
        messages += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": first.id, "name": first.name, "args": first.args}],
            },
            {"role": "tool", "tool_call_id": first.id, "content": "README.md"},
            *user("List the files"),
        ]
        second = run(model.complete(messages, ACTIONS)).calls[0]
        assert first.id != second.id

    def test_keeps_to_a_schema(self) -> None:
        reply = run(
            self.make('{"name": "Ann", "age": 30}').complete(user("A person"), schema=PERSON)
        )
        jsonschema.validate(json.loads(reply.text), PERSON)

    def test_callers_at_the_same_time_each_get_their_own_answer(self) -> None:
        numbers = range(8)
        schemas = [{"const": f"answer {number}"} for number in numbers]
        model = self.make(*(json.dumps(f"answer {number}") for number in numbers))

        async def all_of_them() -> list[ModelReply]:
            asked = (model.complete(user(f"Number {n}"), schema=schemas[n]) for n in numbers)
            return list(await asyncio.gather(*asked))

        for number, reply in enumerate(run(all_of_them())):
            assert json.loads(reply.text) == f"answer {number}"

    def test_cancelled_it_stops_at_once_and_answers_the_next(self) -> None:
        model = self.make("warm", never, "again")

        async def cancel() -> tuple[float, ModelReply]:
            await model.complete(user("Say hello"))
            task = asyncio.create_task(model.complete(user("Tell a very long story")))
            await asyncio.sleep(0.05)
            assert not task.done()
            start = time.perf_counter()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            took_s = time.perf_counter() - start
            return took_s, await model.complete(user("Say hello"))

        took_s, reply = run(cancel())
        assert took_s < 1
        assert reply.text.strip()

    def test_can_be_used_from_one_event_loop_after_another(self) -> None:
        model = self.make("one", "two")
        assert run(model.complete(user("Say one"))).text.strip()
        assert run(model.complete(user("Say two"))).text.strip()

    def test_nothing_to_answer_is_an_error(self) -> None:
        model = self.make("Hello!")
        with pytest.raises(ModelError, match="no messages"):
            run(model.complete([]))
        assert run(model.complete(user("Say hello"))).text.strip()
