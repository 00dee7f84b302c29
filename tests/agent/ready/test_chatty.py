"""The chat agent: each sender has a conversation of its own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, Budget, Memory, NativeSpace, SQLiteMemory, action
from moothall.agents import ChattyAI
from moothall.foundation.errors import ActionError, ContextOverflow, DefinitionError, ModelError
from moothall.models import BudgetedModel, FallbackModel, ModelReply, ScriptedModel


def said(model: ScriptedModel, place: int) -> list[tuple[str, str]]:
    """The messages of a call of the model."""
    return [(m["role"], m["content"]) for m in model.received[place]]


class Listener(Agent):
    """Keeps what is said to it."""

    def __init__(self, id: str, expected: int) -> None:
        super().__init__(id)
        self.heard: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.all_heard = threading.Event()
        self.expected = expected

    @action
    async def say(self, content: str) -> None:
        """Say something."""
        message = self.current_message
        assert message is not None
        self.heard.append((message["from"], content))
        self._count()

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Keep an error."""
        self.errors.append(error)
        self._count()

    def _count(self) -> None:
        if len(self.heard) + len(self.errors) == self.expected:
            self.all_heard.set()


def test_chatty_answers_a_request_by_its_value() -> None:
    model = ScriptedModel([" Hello! \n"])
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", model=model))
        me = space.add(Agent("me"))
        assert me.ask("Chatty", "say", content="Hi").result(timeout=10) == "Hello!"
    system, user = said(model, 0)
    assert system[0] == "system"
    assert "helpful assistant" in system[1]
    assert user == ("user", "Hi")


def test_chatty_model_needs_no_more_than_complete() -> None:
    class Bare:
        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            return ModelReply(f"{messages[-1]['content']}!")

    bare: Any = Bare()
    for model in (bare, FallbackModel([bare]), BudgetedModel(bare, Budget(tokens=1000))):
        with NativeSpace() as space:
            space.add(ChattyAI("Chatty", model))
            me = space.add(Agent("me"))
            assert me.ask("Chatty", "say", content="Hi").result(timeout=10) == "Hi!"


def test_chatty_answers_a_message_by_a_say() -> None:
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", ScriptedModel(["Hello!", "To all"])))
        me = space.add(Listener("me", expected=1))
        me.send({"to": "Chatty", "action": {"name": "say", "args": {"content": "Hi"}}})
        assert me.all_heard.wait(10)
        assert me.heard == [("Chatty", "Hello!")]


def test_chatty_has_a_conversation_with_each_sender() -> None:
    model = ScriptedModel(["one", "two", "three"])
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", model, system_prompt="Be brief."))
        ann, bob = space.add(Agent("ann")), space.add(Agent("bob"))
        for who, text in ((ann, "I am Ann"), (bob, "I am Bob"), (ann, "Who am I?")):
            who.ask("Chatty", "say", content=text).result(timeout=10)
    assert said(model, 1) == [("system", "Be brief."), ("user", "I am Bob")]
    assert said(model, 2) == [
        ("system", "Be brief."),
        ("user", "I am Ann"),
        ("assistant", "one"),
        ("user", "Who am I?"),
    ]


async def test_chatty_keeps_a_conversation_within_half_the_context() -> None:
    model = ScriptedModel(["a" * 100] * 50, context_tokens=1000)
    chatty = ChattyAI("Chatty", model, system_prompt="")
    for number in range(50):
        await chatty.say(f"{number}: {'x' * 100}")
    last = said(model, 49)
    assert 3 <= len(last) < 15
    assert last[-1][1].startswith("49: ")
    assert last[-3][1].startswith("48: ")
    assert last[0] != ("user", "0: " + "x" * 100)


def test_chatty_message_too_long_with_history_is_answered_without_it() -> None:
    model = ScriptedModel(["one", ContextOverflow("too long"), "two", "three"])
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", model, system_prompt="Be brief."))
        me = space.add(Agent("me"))
        for text, answer in (("first", "one"), ("long", "two"), ("last", "three")):
            assert me.ask("Chatty", "say", content=text).result(timeout=10) == answer
    assert len(said(model, 1)) == 4
    assert said(model, 2) == [("system", "Be brief."), ("user", "long")]
    assert len(said(model, 3)) == 6


def test_chatty_message_longer_than_the_context_is_an_error() -> None:
    model = ScriptedModel([ContextOverflow("9000 tokens do not fit 4096"), "good"])
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", model))
        me = space.add(Agent("me"))
        with pytest.raises(ActionError, match=r"^ContextOverflow: 9000 tokens do not fit 4096"):
            me.ask("Chatty", "say", content="long").result(timeout=10)
        assert me.ask("Chatty", "say", content="short").result(timeout=10) == "good"


def test_chat_agent_forgets_the_oldest_of_very_many_senders() -> None:
    model = ScriptedModel(["a"] * 1100)
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", model, system_prompt=""))
        first = space.add(Agent("first"))
        second = space.add(Agent("second"))
        for who in (second, first):
            who.ask("Chatty", "say", content="Remember me").result(timeout=10)
        for number in range(999):
            agent = space.add(Agent(number))
            agent.ask("Chatty", "say", content="hi").result(timeout=10)
        first.ask("Chatty", "say", content="Who am I?").result(timeout=10)
        second.ask("Chatty", "say", content="Who am I?").result(timeout=10)
    assert len(model.received[-2]) == 3
    assert len(model.received[-1]) == 1


def test_chatty_models_failure_is_the_senders_error_and_is_not_remembered() -> None:
    model = ScriptedModel([ModelError("the model has no weights"), "Hello!"])
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", model, system_prompt=""))
        me = space.add(Agent("me"))
        with pytest.raises(ActionError, match="the model has no weights") as caught:
            me.ask("Chatty", "say", content="Hi").result(timeout=10)
        assert caught.value.type == "ModelError"
        assert me.ask("Chatty", "say", content="Again").result(timeout=10) == "Hello!"
    assert said(model, 1) == [("user", "Again")]


@pytest.mark.parametrize("watched", (False, True))
def test_chatty_says_nothing_for_a_model_that_gives_no_answer(watched: bool) -> None:
    class Mute:
        name, context_tokens = "mute", None

        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            return None

    chatty = ChattyAI("Chatty", Mute())
    if watched:
        chatty.watch(lambda event: None)
    with NativeSpace() as space:
        space.add(chatty)
        asked = space.add(Agent("me")).ask("Chatty", "say", content="Hi")
        with pytest.raises(ActionError, match="'Chatty' gave no answer but NoneType"):
            asked.result(10)


def test_chatty_models_failure_comes_to_a_mere_sender_as_an_error_message() -> None:
    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", ScriptedModel([])))
        me = space.add(Listener("me", expected=1))
        me.send({"to": "Chatty", "action": {"name": "say", "args": {"content": "Hi"}}})
        assert me.all_heard.wait(10)
        assert me.heard == []
        assert "ModelError: " in me.errors[0]


@pytest.mark.parametrize("make", (SQLiteMemory, str, Path))
def test_chatty_continues_a_conversation_after_a_restart_with_a_memory_in_a_file(
    tmp_path: Path, make: Any
) -> None:
    for number, heard in enumerate(([], [("user", "I am Ada"), ("assistant", "Hello.")])):
        model = ScriptedModel(["Hello.", "Who are you?"])
        with NativeSpace() as space:
            memory = make(tmp_path / "chat.db")
            space.add(ChattyAI("Chatty", model, system_prompt="", memory=memory))
            me, other = space.add(Agent("me")), space.add(Agent("other"))
            asked = ("I am Ada", "Who am I?")[number]
            me.ask("Chatty", "say", content=asked).result(timeout=10)
            assert said(model, 0) == [*heard, ("user", asked)]
            other.ask("Chatty", "say", content="And I?").result(timeout=10)
            assert said(model, 1)[-1:] == [("user", "And I?")]
            assert ("user", "I am Ada") not in said(model, 1)


def test_chatty_memory_function_makes_the_memory_of_each_conversation() -> None:
    made: dict[str | None, Memory] = {}

    def memory(thread: str | None) -> Memory:
        return made.setdefault(thread, Memory())

    with NativeSpace() as space:
        space.add(ChattyAI("Chatty", ScriptedModel(["Hello."]), memory=memory))
        space.add(Agent("me")).ask("Chatty", "say", content="Hi").result(timeout=10)
    assert [each["content"] for each in made["me"].get_memories()] == ["Hi", "Hello."]


class OneThread(Memory):
    """A memory of a user's own, which knows no threads."""

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a message."""
        super().add_memory(memory)


@pytest.mark.parametrize(
    ("wrong", "told"),
    (
        (5, r"agent 'Chatty': memory= needs an object with add_memory, get_memories, .*, not 5"),
        (OneThread(), r"agent 'Chatty' has a .*OneThread, has no thread\(id\)"),
    ),
)
def test_chatty_wrong_memory_is_refused_when_the_agent_is_made(wrong: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        ChattyAI("Chatty", ScriptedModel([]), memory=wrong)
