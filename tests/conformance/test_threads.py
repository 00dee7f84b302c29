"""Agents with a thread for each who talks with them: side by side, each in order, fair to all."""

from __future__ import annotations

import asyncio
import io
import json
import os
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Kept, Recorder, message, waits
from conformance.gate import Gate, Holder
from moothall import (
    Action,
    Agent,
    Context,
    Conversation,
    MaxTurns,
    ModelReply,
    OpenAIFunctionAgent,
    Person,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.foundation.errors import AgentStopped, SpaceClosed


class Asked:
    """A model that answers what it is asked with the same, once a gate for that is opened."""

    name = "asked"
    context_tokens: int | None = None

    def __init__(self) -> None:
        self.gates: dict[str, Gate] = {}
        self.begun: Kept[str] = Kept()
        self.ended: Kept[str] = Kept()

    def gate(self, text: str) -> Gate:
        return self.gates.setdefault(text, Gate())

    def open(self, *texts: str) -> None:
        for text in texts:
            self.gate(text).open()

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
        text = messages[-1]["content"]
        self.begun.add(text)
        how = "cancelled"
        try:
            await self.gate(text)
            how = "done"
        finally:
            self.ended.add(f"{text} {how}")
        return ModelReply(text)


PEOPLE = [f"p{n}" for n in range(20)]


def test_twenty_people_are_answered_while_another_sends_a_hundred_messages(space: Any) -> None:
    model = Asked()
    space.add(ReActAgent("it", model))
    eve = space.add(Recorder("Eve"))
    hundred = [f"e{n}" for n in range(100)]
    for text in hundred:
        eve.send(message("it", "say", content=text))
    model.begun.wait_for(1)
    asked = [space.add(Agent(id)).ask("it", "say", content=id) for id in PEOPLE]
    # Sixteen at once, and whoever sends a hundred has one place of them.
    assert sorted(model.begun.wait_for(16)) == sorted(["e0", *PEOPLE[:15]])
    assert waits(space, "it", 99 + 5)
    model.open(*PEOPLE[:5])
    assert sorted(model.begun.wait_for(21)) == sorted(["e0", *PEOPLE])
    model.open(*PEOPLE[5:])
    assert [each.result(timeout=WAIT_S) for each in asked] == PEOPLE
    model.open(*hundred)
    said = [args["content"] for _, args in eve.told(100)]
    assert said == hundred
    assert [text for text in model.begun if text[0] == "e"] == hundred


def test_threads_of_one_sender_are_side_by_side_and_each_in_order(space: Any) -> None:
    model = Asked()
    space.add(ReActAgent("it", model))
    me = space.add(Agent("me"))
    said = (("a1", "a"), ("a2", "a"), ("b1", "b"), ("own1", None), ("own2", None))
    asked = [
        me.ask("it", "say", content=text, **({} if thread is None else {"thread": thread}))
        for text, thread in said
    ]
    assert sorted(model.begun.wait_for(3)) == ["a1", "b1", "own1"]
    model.open("a1")
    assert model.begun.wait_for(4)[3] == "a2"
    model.open("a2", "b1", "own1", "own2")
    assert [each.result(timeout=WAIT_S) for each in asked] == [text for text, _ in said]


@pytest.mark.parametrize("concurrency", (None, 2))
def test_replying_agents_other_actions_run_one_at_a_time_unless_more_are_stated(
    space: Any, concurrency: int | None
) -> None:
    class Both(ReActAgent, Holder):
        def __init__(self) -> None:
            Holder.__init__(self, "it")
            ReActAgent.__init__(self, "it", model, concurrency=concurrency)

    model = Asked()
    it = space.add(Both())
    people = [space.add(Agent(id)) for id in "abc"]
    held = [person.ask("it", "hold", name=str(person.id)) for person in people]
    said = [person.ask("it", "say", content=str(person.id)) for person in people]
    # `concurrency=` is how many of the others, and how many threads, too.
    others, threads = (1, 3) if concurrency is None else (2, 2)
    assert sorted(model.begun.wait_for(threads)) == ["a", "b", "c"][:threads]
    assert it.begun.wait_for(others) == ["a", "b"][:others]
    assert waits(space, "it", 6 - others - threads)
    for name in "abc":
        it.gate(name).open()
        model.open(name)
    assert [each.result(timeout=WAIT_S) for each in held + said] == [*"abcabc"]


def shared(model: Asked) -> Any:
    return ReActAgent("it", model, shared=True)


def conversation(model: Asked) -> Any:
    return Conversation([ReActAgent("Ann", model)], until=MaxTurns(1), id="it")


def test_conversation_answers_two_people_side_by_side(space: Any) -> None:
    model = Asked()
    space.add(conversation(model))
    asked = [space.add(Agent(id)).ask("it", "say", content=id) for id in "ab"]
    assert sorted(model.begun.wait_for(2)) == ["a", "b"]
    model.open("a", "b")
    assert [each.result(timeout=WAIT_S) for each in asked] == ["a", "b"]


def test_shared_agent_answers_one_sender_after_the_other(space: Any) -> None:
    model = Asked()
    space.add(shared(model))
    asked = [space.add(Agent(id)).ask("it", "say", content="go") for id in "ab"]
    first = model.begun.wait_for(1)
    assert waits(space, "it", 1)
    assert len(model.begun) == 1
    model.open(*first)
    model.open(*model.begun.wait_for(2))
    for each in asked:
        assert "go" in each.result(timeout=WAIT_S)


def test_person_is_asked_one_question_after_the_other(space: Any) -> None:
    reading, writing = os.pipe()
    shown = io.StringIO()
    with open(reading) as stdin, open(writing, "w") as answers:
        space.add(Person("it", stdin=stdin, stdout=shown))
        asked = [space.add(Agent(id)).ask("it", "say", content=f"{id}?") for id in "ab"]
        assert waits(space, "it", 1)
        assert "b?" not in shown.getvalue()
        answers.write("one\ntwo\n")
        answers.flush()
        assert [each.result(timeout=WAIT_S) for each in asked] == ["one", "two"]


@pytest.mark.parametrize("concurrency", (None, 1))
@pytest.mark.parametrize("asker", ("me", "other"))
def test_replying_agent_asked_back_by_its_own_tool_answers(
    space: Any, concurrency: int | None, asker: str
) -> None:
    class Back(Agent):
        @action
        async def ask_back(self) -> str:
            return str(await self.ask("it", "say", content="inner"))

        @action
        async def begin(self) -> str:
            return str(await self.ask("it", "say", content="outer"))

    async def consult() -> str:
        return str(await it.ask(asker, "ask_back"))

    def outer(messages: list[dict[str, Any]], _: Any) -> Any:
        return {"name": "consult"} if messages[-1]["content"] == "outer" else "inner's answer"

    script = ScriptedModel([outer, outer, "outer's answer"])
    it = space.add(ReActAgent("it", script, actions=[consult], concurrency=concurrency))
    me = space.add(Back("me"))
    space.add(Back("other"))
    # By `begin`, me asks while it handles a message, and by the tool it is asked in that.
    assert me.ask("me", "begin").result(timeout=WAIT_S) == "outer's answer"
    assert "inner's answer" in json.dumps(script.received[-1])


def test_replying_agent_can_be_steered_while_it_answers(space: Any) -> None:
    model = Asked()
    it = space.add(ReActAgent("it", model))
    asked = [space.add(Agent(id)).ask("it", "say", content=id) for id in ("Ada", "Bo")]
    model.begun.wait_for(2)
    asyncio.run(it.observe("It rains.", thread="Ada"))
    assert it.interrupt("Faster!", thread="Ada")
    assert model.begun.wait_for(3)[2] == "Faster!"
    model.open("Faster!", "Bo")
    assert [each.result(timeout=WAIT_S) for each in asked] == ["Faster!", "Bo"]
    assert "Ada cancelled" in model.ended
    kept = it.state_dict()["threads"]["Ada"]["items"]
    assert [m["content"] for m in kept] == ["Ada", "It rains.", "Faster!", "Faster!"]


@pytest.mark.parametrize("end", ("remove", "close"))
def test_replies_running_and_waiting_end_with_the_agent_or_the_space(space: Any, end: str) -> None:
    model = Asked()
    space.add(ReActAgent("it", model, concurrency=2))
    people = [space.add(Agent(id)) for id in "abc"]
    asked = [each.ask("it", "say", content=f"{each.id}{n}") for n in range(2) for each in people]
    begun = model.begun.wait_for(2)
    assert waits(space, "it", 4)
    if end == "remove":
        space.remove("it")
    else:
        space.close()
    for each in asked:
        with pytest.raises(AgentStopped if end == "remove" else SpaceClosed):
            each.result(timeout=WAIT_S)
    assert sorted(model.ended.wait_for(2)) == sorted(f"{text} cancelled" for text in begun)
    assert len(model.begun) == 2


class Front(OpenAIFunctionAgent):
    """Keeps by which id it was told that each of its messages ended."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ids: Kept[str | None] = Kept()

    @action
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        await super().response(data, original_message_id)
        self.ids.add(original_message_id)

    @action
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        await super().error(error, original_message_id)
        self.ids.add(original_message_id)


class Clerk(Agent):
    """Says what it is sent, and answers."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.messages: Kept[dict[str, Any]] = Kept()

    @action
    async def file(self, paper: str) -> str:
        message = self.current_message
        assert message is not None
        self.messages.add(message)
        return f"filed the {paper}"

    @action
    async def say(self, content: str) -> str:
        return f"heard the {content}"


def test_response_to_a_thread_is_heard_in_that_thread(space: Any) -> None:
    """Also of a message that has no id; and nobody else is told of the thread."""
    observed: list[dict[str, Any]] = []
    space.observe(observed.append)
    sent = [
        message("clerk", "file", paper="bill"),
        {"id": "mine", **message("clerk", "file", paper="letter")},
        message("clerk", "shred", paper="bill"),
        message("clerk", "say", content="question"),
    ]

    def write() -> str:
        for each in sent:
            front.send(each)
        return "sent"

    script = ScriptedModel([{"name": "write"}, "ok", "well", "ok", "ok"])
    front = space.add(Front("front", script, discover=None, actions=[write]))
    clerk = space.add(Clerk("clerk"))
    ada, eve = space.add(Agent("Ada")), space.add(Agent("Eve"))
    ada.ask("front", "say", content="Write.").result(timeout=WAIT_S)
    assert sorted(front.ids.wait_for(3), key=str) == [None, None, "mine"]
    # The clerk's `say` is handled in Ada's thread, so what she says now is behind it.
    ada.ask("clerk", "help").result(timeout=WAIT_S)
    ada.ask("front", "say", content="What is new?").result(timeout=WAIT_S)
    eve.ask("front", "say", content="What is new?").result(timeout=WAIT_S)
    of_ada, of_eve = (json.dumps(prompt) for prompt in script.received[-2:])
    for told in ("filed the bill", "filed the letter", "shred", "heard the question"):
        assert told in of_ada
        assert told not in of_eve
    assert [each.get("id") for each in clerk.messages] == [None, "mine"]
    assert all(set(each) <= {"id", "from", "to", "action"} for each in observed)


@pytest.mark.parametrize("plain", (False, True))
def test_colleague_asked_by_a_tool_or_sent_to_keeps_the_askers_apart(
    space: Any, plain: bool
) -> None:
    heard: list[str] = []

    def listen(messages: Any, actions: Any) -> str:
        heard.append(json.dumps(messages))
        return "noted"

    def front_says(messages: Any, actions: Any) -> Any:
        last = messages[-1]
        if last["role"] == "user" and last["content"] != "noted":
            return {"name": "tell", "args": {"text": last["content"]}}
        return "all right"

    async def tell(text: str, context: Context) -> Any:
        context.agent.send(message("reader", "say", content=f"sent {text}"))
        return await context.agent.ask("reader", "say", content=text)

    def tell_plainly(text: str, context: Context) -> Any:
        context.agent.send(message("reader", "say", content=f"sent {text}"))
        return context.agent.ask("reader", "say", content=text).result(WAIT_S)

    told = Action("tell", tell_plainly if plain else tell, "Tell the reader.")
    space.add(ReActAgent("reader", ScriptedModel(listen)))
    space.add(ReActAgent("front", ScriptedModel(front_says), actions=[told]))
    for id in ("Ada", "Eve"):
        asked = space.add(Agent(id)).ask("front", "say", content=f"I am {id}.")
        assert asked.result(timeout=WAIT_S) == "all right"
    assert ["Ada" in each for each in heard] == [True, True, False, False]
    assert "sent I am Eve." in heard[-1]
