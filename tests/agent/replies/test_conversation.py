"""Conversations: who speaks, who hears what, what comes of it, and going on elsewhere."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.replies.answers import say, use
from agent.replies.talkers import Gated, Talker, agent, answer, heard
from commands import run as run_program
from moothall import Budget, DualActAgent, DualActConfig
from moothall.actions import ActionRegistry
from moothall.agents.agent import Agent
from moothall.agents.conversation.chosen_by import ChosenBy
from moothall.agents.conversation.conversation import Conversation
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.conversation.hand_over import HandOver
from moothall.agents.conversation.participants import NOTHING_NEW
from moothall.agents.conversation.speaking_order import RoundRobin
from moothall.agents.conversation.termination import MaxTurns, Said
from moothall.agents.loop.react import ReActAgent
from moothall.agents.replies.events import Done, TurnEnded, TurnStarted
from moothall.agents.replies.reply import Reply
from moothall.foundation.errors import (
    ActionError,
    BudgetExceeded,
    ConfigError,
    DeadlineExceeded,
    DefinitionError,
    ModelError,
    StateError,
)
from moothall.models.local.local_model import LocalModel
from moothall.models.protocol import Usage
from moothall.models.wrappers.scripted import ScriptedModel
from moothall.spaces.native import NativeSpace
from standing_clock import StandingClock

WAIT = 20


def said(conversation: Conversation) -> list[tuple[str | None, str]]:
    return [(each.speaker, each.text) for each in conversation.state.transcript]


def handing(to: str, message: str) -> dict[str, Any]:
    return {"name": "hand_over", "args": {"to": to, "message": message}}


# -- one after the other ---------------------------------------------------------------------------


def test_participants_speak_in_turn_until_it_is_over() -> None:
    ann, bob = agent("Ann", say("one"), say("three")), agent("Bob", say("two"), say("four. AGREED"))
    talk = Conversation([ann, bob], until=Said("AGREED"))
    reply = talk.reply_sync("Count.")
    assert (reply.text, reply.value, reply.stop_reason) == ("four. AGREED",) * 2 + ("done",)
    assert "AGREED" in reply.detail
    assert "'Bob'" in reply.detail
    assert reply.messages == [
        {"role": "user", "content": "Count."},
        {"role": "assistant", "name": "Ann", "content": "one"},
        {"role": "assistant", "name": "Bob", "content": "two"},
        {"role": "assistant", "name": "Ann", "content": "three"},
        {"role": "assistant", "name": "Bob", "content": "four. AGREED"},
    ]
    assert reply.usage == Usage(40, 8)


def test_participants_hear_each_other_once_and_know_who_said_it() -> None:
    ann, bob, cleo = agent("Ann", "a1", "a2"), agent("Bob", "b1"), agent("Cleo", "c1")
    Conversation([ann, bob, cleo], until=MaxTurns(4)).reply_sync("go")
    assert [m["content"] for m in ann.memory.get_memories()] == [
        "go", "a1", "Bob: b1", "Cleo: c1", "a2",
    ]  # fmt: skip
    assert [m["content"] for m in bob.memory.get_memories()] == [
        "go", "Ann: a1", "b1", "Cleo: c1", "Ann: a2",
    ]  # fmt: skip
    assert heard(cleo) == ["go", "Ann: a1", "Bob: b1", "Ann: a2"]
    assert ann.memory.get_memories()[2]["name"] == "Bob"


def test_conversation_next_reply_starts_with_the_first_and_knows_what_went_before() -> None:
    ann, bob = agent("Ann", "a1", "a2"), agent("Bob", "b1", "b2")
    talk = Conversation([ann, bob], RoundRobin(), MaxTurns(1))
    assert talk.reply_sync("one").text == "a1"
    assert talk.reply_sync("two").text == "a2"
    assert heard(bob) == ["one", "Ann: a1", "two", "Ann: a2"]
    assert [m["content"] for m in talk.reply_sync("three").messages][:1] == ["three"]


def test_conversation_in_turns_goes_on_after_the_last_of_several_speakers() -> None:
    def order(state: ConversationState) -> Any:
        return RoundRobin() if state.last else ["Ann", "Bob"]

    talk = Conversation([Talker(id) for id in ("Ann", "Bob", "Cid")], order, MaxTurns(3))
    assert talk.reply_sync("go").text == "Cid 1"


def test_conversation_that_nothing_ends_stops_at_max_turns() -> None:
    talk = Conversation([Talker("Ann"), Talker("Bob")])
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("max_iterations", "Bob 10")
    assert "20 turns" in reply.detail
    assert Conversation([Talker("Ann")], max_turns=3).reply_sync("go").text == "Ann 3"


def test_conversation_has_as_many_turns_as_the_condition_admits() -> None:
    for until, turns in (
        (MaxTurns(50), 50),
        (Said("never") | MaxTurns(30), 30),
        (MaxTurns(25) | MaxTurns(30), 25),
        (MaxTurns(25) & MaxTurns(30), 30),
    ):
        talk = Conversation([Talker("Ann")], until=until)
        assert (talk.reply_sync("go").stop_reason, talk.state.turns) == ("done", turns)
    talk = Conversation([Talker("Ann")], until=MaxTurns(50) & Said("never"))
    assert (talk.reply_sync("go").stop_reason, talk.state.turns) == ("max_iterations", 20)
    talk = Conversation([Talker("Ann")], until=MaxTurns(50), max_turns=4)
    assert (talk.reply_sync("go").stop_reason, talk.state.turns) == ("max_iterations", 4)


def test_steps_are_of_all_participants() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    ann = agent("Ann", use("add", {"a": 1, "b": 2}), say("3"), actions=[add])
    bob = agent("Bob", use("add", {"a": 3, "b": 4}), say("7"), actions=[add])
    reply = Conversation([ann, bob], until=MaxTurns(2)).reply_sync("go")
    assert [step.result["result"] for step in reply.steps] == [3, 7]
    assert reply.usage == Usage(40, 14)


def test_conversation_speaker_chosen_twice_running_is_told_nothing_is_new() -> None:
    ann = agent("Ann", "a1", "a2")
    Conversation([ann, Talker("Bob")], lambda state: "Ann", MaxTurns(2)).reply_sync("go")
    assert heard(ann) == ["go", NOTHING_NEW]


def test_blocks_of_content_are_passed_on() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    seen: list[Any] = []

    class Looker(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            seen.append(text)
            return answer("a cat")

    talk = Conversation([Looker("Ann"), Talker("Bob")], until=MaxTurns(1))
    blocks = [{"type": "text", "text": "What is this?"}, picture]
    assert talk.reply_sync(blocks).text == "a cat"
    assert seen == [blocks]
    assert talk.agents["Bob"].heard[0] == blocks
    assert said(talk)[0] == (None, "What is this?")


# -- a function ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ("id", "participant", "async"))
def test_speaking_order_function_names_the_next_speaker(form: str) -> None:
    ann, bob = Talker("Ann"), Talker("Bob")

    def by_id(state: ConversationState) -> str | None:
        return ["Bob", "Bob", "Ann", None][state.turns]

    def by_participant(state: ConversationState) -> Talker | None:
        return [bob, bob, ann, None][state.turns]

    async def later(state: ConversationState) -> str | None:
        await asyncio.sleep(0)
        return by_id(state)

    chooser: Any = {"id": by_id, "participant": by_participant, "async": later}[form]
    talk = Conversation([ann, bob], chooser)
    reply = talk.reply_sync("go")
    assert (reply.text, reply.stop_reason) == ("Ann 1", "done")
    assert "nobody" in reply.detail
    assert [who for who, _ in said(talk)] == [None, "Bob", "Bob", "Ann"]


def test_speaking_order_function_may_leave_the_choice_to_a_model() -> None:
    chooser = ScriptedModel(['{"next": "Cleo"}'])
    turns: list[Any] = ["Ann", ChosenBy(chooser), "Bob", None]
    talk = Conversation(map(Talker, ("Ann", "Bob", "Cleo")), lambda state: turns[state.turns])
    assert talk.reply_sync("go").stop_reason == "done"
    assert [who for who, _ in said(talk)] == [None, "Ann", "Cleo", "Bob"]


def test_conversation_gives_no_turn_after_the_deadline() -> None:
    clock = StandingClock()

    class Slow(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            clock.over()
            return await super().reply(text)

    ann, bob = Slow("Ann"), Talker("Bob")
    talk = Conversation([ann, bob], budget=Budget(seconds=60, clock=clock))
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, reply.text, bob.asked) == ("deadline", "Ann 1", 0)


@pytest.mark.parametrize("first", ("Dora", 7))
def test_handover_first_that_is_no_participant_is_refused(first: Any) -> None:
    with pytest.raises(DefinitionError, match=f"HandOver names no participant: .*{first}"):
        Conversation([Talker("Ann"), Talker("Bob")], HandOver(first))


@pytest.mark.parametrize("order", (HandOver(), ChosenBy("local", about={"Dora": "is not here"})))
def test_speaking_order_function_cannot_name_an_order_that_does_not_fit(order: Any) -> None:
    reply = Conversation([Talker("Ann"), Talker("Bob")], lambda state: order).reply_sync("go")
    assert reply.stop_reason == "error"
    assert "participant" in reply.detail


def test_participant_of_ones_own_needs_a_text_alone() -> None:
    class Voter:
        def __init__(self, id: str) -> None:
            self.id = id

        async def reply(self, text: Any) -> Reply:
            return Reply(f"{self.id} heard {text}")

        async def observe(self, message: dict[str, Any]) -> None:
            pass

    panel = Conversation([Voter("Ann"), Voter("Bob")], lambda s: None if s.turns else s.agents)
    reply = panel.reply_sync("it")
    assert reply.stop_reason == "done"
    assert reply.value == {"Ann": "Ann heard it", "Bob": "Bob heard it"}


def test_participant_id_may_be_a_number() -> None:
    talk = Conversation([Talker(7), Talker("8")], lambda state: [7, 8, None][state.turns])
    talk.reply_sync("go")
    assert said(talk)[1:] == [("7", "7 1"), ("8", "8 1")]


def test_conversation_state_tells_what_was_said() -> None:
    seen = []

    def watch(state: ConversationState) -> str | None:
        seen.append((state.turns, state.last, [each.text for each in state.said]))
        return None if state.turns == 2 else "Ann"

    Conversation([Talker("Ann")], watch).reply_sync("go")
    assert seen == [(0, (), []), (1, ("Ann",), ["Ann 1"]), (2, ("Ann",), ["Ann 2"])]


# -- several at once -------------------------------------------------------------------------------


async def test_speakers_at_once_are_gathered_in_the_order_of_the_list() -> None:
    ann, bob, cleo = Gated("Ann"), Gated("Bob"), Talker("Cleo")
    talk = Conversation(
        [ann, bob, cleo], lambda state: [["Bob", "Ann"], None, "Cleo", None][state.turns]
    )
    asked = asyncio.create_task(talk.reply("go"))
    await ann.begun.wait()
    await bob.begun.wait()
    ann.gate.set()  # the second of the list ends first
    await ann.spoken.wait()
    bob.gate.set()
    reply = await asked
    assert [who for who, _ in said(talk)] == [None, "Bob", "Ann", "Cleo"]
    assert reply.text == "Cleo 1"
    assert ann.heard == ["go", "Bob: Bob 1", "Cleo: Cleo 1"]
    assert bob.heard == ["go", "Ann: Ann 1", "Cleo: Cleo 1"]
    assert cleo.heard == ["go", "Bob: Bob 1", "Ann: Ann 1"]


def test_conversation_reply_of_several_has_what_each_said() -> None:
    talk = Conversation(
        [agent("Ann", say("yes")), agent("Bob", say("no"))],
        lambda state: None if state.turns else ["Ann", "Bob"],
    )
    reply = talk.reply_sync("Is it so?")
    assert reply.text == "Ann: yes\n\nBob: no"
    assert reply.value == {"Ann": "yes", "Bob": "no"}
    assert reply.usage == Usage(20, 4)


def test_speakers_at_once_have_as_many_turns() -> None:
    talk = Conversation([Talker("Ann"), Talker("Bob")], lambda state: ["Ann", "Bob"], max_turns=3)
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, talk.state.turns) == ("max_iterations", 2)
    assert "2 speakers were chosen at once, and 1 of 3" in reply.detail


# -- chosen by a model -----------------------------------------------------------------------------


def three() -> list[Talker]:
    return [Talker("Ann"), Talker("Bob"), Talker("Cleo")]


def test_conversation_that_ends_with_a_failure_has_the_newest_answer() -> None:
    ann, bob = agent("Ann", "one", "three"), agent("Bob", "two", ModelError("no power"))
    reply = Conversation([ann, bob], stop_if_failed="any").reply_sync("Count.")
    assert (reply.text, reply.value, reply.stop_reason) == ("three", "three", "error")


def test_chosen_by_lets_a_model_choose_who_is_next() -> None:
    goes_on, over = (f'{{"last_said": "so", "is_over": "{each}"}}' for each in ("no", "yes"))
    model = ScriptedModel([goes_on, '{"next": "Bob"}', goes_on, '{"next": "Cleo"}', over])
    order = ChosenBy(model, about={"Cleo": "knows plants"}, may_end=True)
    talk = Conversation(three(), order)
    reply = talk.reply_sync("Which?")
    assert [who for who, _ in said(talk)] == [None, "Bob", "Cleo"]
    assert (reply.text, reply.stop_reason) == ("Cleo 1", "done")
    assert reply.detail == "the model 'scripted' ended the conversation"
    prompt = model.received[3]
    assert "knows plants" in prompt[0]["content"]
    assert '{"from": "Bob", "text": "Bob 1"}' in prompt[1]["content"]
    assert '["Ann", "Cleo"]' in prompt[1]["content"]
    assert "Is the conversation over?" in model.received[4][1]["content"]


def test_chosen_by_shows_what_was_said_in_order_and_in_whole_while_it_fits() -> None:
    model = ScriptedModel(['{"next": "Ann"}', '{"next": "Bob"}', '{"next": "Cleo"}'])
    long = "word " * 400
    Conversation(three(), ChosenBy(model), MaxTurns(3)).reply_sync(long)
    lines = model.received[-1][1]["content"].splitlines()
    said_so_far = [json.loads(line) for line in lines if line.startswith('{"from"')]
    assert said_so_far == [
        {"from": None, "text": long},
        {"from": "Ann", "text": "Ann 1"},
        {"from": "Bob", "text": "Bob 1"},
    ]


def test_chosen_by_asks_under_a_schema_and_is_paid_for() -> None:
    schemas = []

    class Chooser(ScriptedModel):
        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            schemas.append(schema)
            return say('{"next": "Ann"}')

    talk = Conversation(three(), ChosenBy(Chooser()), MaxTurns(1))
    assert talk.reply_sync("go").usage == Usage(11, 3)
    assert schemas[0]["properties"] == {"next": {"enum": ["Ann", "Bob", "Cleo"]}}


@pytest.mark.parametrize(
    ("answer", "fault"),
    (
        ("Bob", "not JSON"),
        ('{"next": "Bob"} please', "not JSON"),
        ('{"next": "Dora"}', "'Dora' is not one of"),
        ('{"next": ["Bob"]}', "is not one of"),
        ('{"next": null}', "is not one of"),
        ('{"next": "Bob", "why": "so"}', "next"),
        ('{"next": "Ann", "next": "Bob"}', "twice"),
        ("[" * 900, "JSON"),
        ("", "JSON"),
        ({"name": "Bob", "args": {}}, "calls an action"),
    ),
)
def test_chosen_by_answer_that_cannot_be_used_is_asked_for_once_more(
    answer: Any, fault: str
) -> None:
    model = ScriptedModel([answer, '{"next": "Bob"}'])
    talk = Conversation(three(), ChosenBy(model), MaxTurns(1))
    assert talk.reply_sync("go").text == "Bob 1"
    assert fault in model.received[1][-1]["content"]
    model = ScriptedModel([answer, answer])
    talk = Conversation(three(), ChosenBy(model))
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("unreadable", "")
    assert "gave no next speaker" in reply.detail
    assert len(model.received) == 2


def test_chosen_by_answer_that_could_not_be_read_was_paid_for() -> None:
    talk = Conversation(three(), ChosenBy(ScriptedModel([say("Bob"), say("Bob")])))
    assert talk.reply_sync("go").usage == Usage(20, 4)


def test_chosen_by_repeats_the_last_speaker_only_where_that_is_said() -> None:
    answers = ['{"next": "Ann"}'] * 3
    talk = Conversation(three(), ChosenBy(ScriptedModel(answers)))
    assert talk.reply_sync("go").stop_reason == "unreadable"
    talk = Conversation(three(), ChosenBy(ScriptedModel(answers), repeat=True), MaxTurns(3))
    assert talk.reply_sync("go").text == "Ann 3"


def test_chosen_by_asks_no_model_where_there_is_one_participant() -> None:
    model = ScriptedModel()
    assert Conversation([Talker("Ann")], ChosenBy(model), MaxTurns(2)).reply_sync("go").text
    assert model.received == []


def test_chosen_by_model_that_fails_ends_the_conversation_with_its_error() -> None:
    talk = Conversation(three(), ChosenBy(ScriptedModel([ModelError("no power")])))
    reply = talk.reply_sync("go")
    assert reply.stop_reason == "error"
    assert "no power" in reply.detail
    assert isinstance(reply.error, ModelError)


def test_chosen_by_prompt_fits_the_models_context() -> None:
    model = ScriptedModel(['{"next": "Ann"}'] * 200, context_tokens=1200)
    talk = Conversation(three()[:2], ChosenBy(model, repeat=True), max_turns=200)
    assert talk.reply_sync("go " * 5000).stop_reason == "max_iterations"
    shown = model.received[-1][1]["content"]
    assert "Ann 199" in shown
    assert "Ann 190" in shown
    assert "Ann 100" not in shown
    assert all(sum(len(m["content"]) for m in prompt) < 3 * 1200 for prompt in model.received)


def test_chosen_by_asks_beside_examples_unless_a_prompt_is_given() -> None:
    for prompt, examples in ({}, True), ({"prompt": "The youngest always speaks next."}, False):
        model = ScriptedModel(['{"next": "Bob"}'])
        chosen = ChosenBy(model, about={"Bob": "pays the bills"}, **prompt)
        assert Conversation(three(), chosen, MaxTurns(1)).reply_sync("Bob, what is left?").text
        question = model.received[0][-1]["content"]
        assert question.endswith('"next": one of ["Ann", "Bob", "Cleo"]}')
        assert ("Bob: pays the bills." in question) is examples


@pytest.mark.long
def test_chosen_by_local_model_names_a_participant_whatever_they_are_called(weights: Path) -> None:
    ids = ['Ann: "x"', "Bob\nline", "Cleo", "日本", "{0}"]
    with LocalModel(weights, deterministic=True, context_tokens=2048) as model:
        order = ChosenBy(model, about={"Cleo": "knows plants"}, repeat=True)
        talk = Conversation(map(Talker, ids), order, max_turns=2)
        reply = talk.reply_sync("Cleo, which plants are poisonous?")
    assert reply.stop_reason == "max_iterations", reply.detail
    assert talk.state.turns == 2


# -- handing over ----------------------------------------------------------------------------------


def test_agents_hand_over_until_one_answers() -> None:
    desk = agent("desk", handing("bills", "Ada asks about May."), say("Goodbye."))
    bills = agent("bills", handing("desk", "It is paid."))
    talk = Conversation([desk, bills], HandOver())
    reply = talk.reply_sync("Is my bill of May paid?")
    assert (reply.text, reply.stop_reason) == ("Goodbye.", "done")
    assert reply.detail == "'desk' answered without handing over"
    assert said(talk)[1:] == [
        ("desk", "Ada asks about May."),
        ("bills", "It is paid."),
        ("desk", "Goodbye."),
    ]
    assert heard(bills)[:2] == ["Is my bill of May paid?", "desk: Ada asks about May."]
    assert [step.action for step in reply.steps] == ["hand_over", "hand_over"]


def test_handover_stay_asks_the_last_speaker_first() -> None:
    desk = agent("desk", handing("bills", "A refund."), say("Hello, Bo."), say("It is paid."))
    bills = agent("bills", say("Which order?"), handing("desk", "Paid."))
    talk = Conversation([desk, bills], HandOver("desk", stay=True))
    talk.reply_sync("Money back!", thread="ada")
    assert talk.reply_sync("Hello", thread="bo").text == "Hello, Bo."
    reply = talk.reply_sync("B7", thread="ada")
    assert [message.get("name") for message in reply.messages] == [None, "bills", "desk"]


def test_handing_over_is_offered_for_the_turn_alone() -> None:
    offered: list[list[str]] = []

    def look(messages: Any, actions: Any) -> Any:
        offered.append([each.name for each in actions or ()])
        return say("ok")

    registry = ActionRegistry()
    registry.register(say)
    ann = ReActAgent("Ann", ScriptedModel([look, look]), actions=registry)
    bob = ReActAgent("Bob", ScriptedModel([look]), actions=registry)
    talk = Conversation([ann, bob], HandOver("Ann", about={"Bob": "knows birds"}))
    talk.reply_sync("go")
    assert ann.actions is registry
    assert [each.name for each in registry.get_actions()] == ["say"]
    ann.reply_sync("again")
    assert offered == [["say", "hand_over"], ["say"]]


def test_handover_action_says_to_whom_one_may_hand_over() -> None:
    seen: list[Any] = []

    def look(messages: Any, actions: Any) -> Any:
        seen.extend(actions)
        return say("ok")

    odd = ['a"b', "{0}", "new\nline", "Ann: hello", "../x", "__class__"]
    others = [Talker(id) for id in odd]
    talk = Conversation([agent("me", look), *others], HandOver(about={'a"b': "quotes"}))
    talk.reply_sync("go")
    (action,) = seen
    assert action.parameters["properties"]["to"]["enum"] == odd
    assert "quotes" in action.description
    for id in odd:
        me = agent("me", handing(id, "yours"))
        talk = Conversation([me, *map(Talker, odd)], HandOver())
        assert talk.reply_sync("go").text == f"{id} 1"


@pytest.mark.parametrize("to", ("nobody", "Ann", "*", ""))
def test_handing_over_to_nobody_there_is_told_to_the_model(to: str) -> None:
    ann = agent("Ann", handing(to, "yours"), say("Then I answer."))
    reply = Conversation([ann, Talker("Bob")], HandOver()).reply_sync("go")
    assert reply.text == "Then I answer."
    assert any("is not one of" in m["content"] for m in ann.memory.get_memories())


def test_handover_of_two_at_once_is_to_the_first() -> None:
    both = [handing("Bob", "to Bob"), handing("Cleo", "to Cleo")]
    talk = Conversation([agent("Ann", both), Talker("Bob"), Talker("Cleo")], HandOver())
    assert talk.reply_sync("go").text == "Bob 1"
    assert said(talk)[1] == ("Ann", "to Bob")


def test_handover_answer_in_the_last_possible_turn_is_an_answer() -> None:
    desk = agent("desk", handing("bills", "May?"))
    reply = Conversation([desk, Talker("bills")], HandOver(), max_turns=2).reply_sync("go")
    assert reply.stop_reason == "done"


async def test_conversations_may_have_one_agent_at_a_time() -> None:
    gate = asyncio.Event()

    async def wait(messages: Any, actions: Any) -> Any:
        await gate.wait()
        return handing("Bob", "first")

    registry = ActionRegistry()
    shared = ReActAgent("Ann", ScriptedModel([wait, handing("Cleo", "x")]), actions=registry)
    one = Conversation([shared, Talker("Bob")], HandOver(), id="one")
    two = Conversation([shared, Talker("Cleo")], HandOver(), id="two")
    first = asyncio.create_task(one.reply("go"))
    await asyncio.sleep(0)
    second = asyncio.create_task(two.reply("go"))
    await asyncio.sleep(0)
    gate.set()
    replies = await asyncio.gather(first, second)
    assert [reply.text for reply in replies] == ["Bob 1", "Cleo 1"]
    assert shared.actions is registry


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "stop", "speakers"),
    (
        ("all", "max_iterations", ["Ann", "Bob", "Ann", "Bob"]),
        ("any", "error", ["Ann", "Bob"]),
        ("none", "max_iterations", ["Ann", "Bob", "Ann", "Bob"]),
    ),
)
def test_conversation_simultaneous_speaker_that_fails_keeps_the_others_turns(
    rule: Any, stop: str, speakers: list[str]
) -> None:
    class Fails(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            raise ValueError("I cannot")

    talk = Conversation(
        [Fails("Ann"), Talker("Bob")],
        lambda state: ["Ann", "Bob"],
        max_turns=4,
        stop_if_failed=rule,
    )
    reply = talk.reply_sync("go")
    assert reply.stop_reason == stop
    assert [who for who, _ in said(talk)][1:] == speakers
    first = list(talk.state.transcript)[1]
    assert first.error == "ValueError: I cannot"
    assert talk.agents["Bob"].heard[1] == "(Ann gave no answer: ValueError: I cannot)"
    assert reply.text.startswith("Bob ")


def test_conversation_single_speaker_that_fails_ends_it() -> None:
    talk = Conversation([agent("Ann", "a1"), agent("Bob", ValueError("no power"))])
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, reply.text) == ("error", "a1")
    assert "'Bob'" in reply.detail
    assert "no power" in reply.detail
    assert isinstance(reply.error, ValueError)
    assert heard(talk.agents["Ann"])[1].startswith("(Bob gave no answer: ")


@pytest.mark.parametrize("form", ("reply", "raised"))
@pytest.mark.parametrize("reason", ("deadline", "budget"))
def test_conversation_speaker_out_of_budget_ends_it(form: str, reason: str) -> None:
    spent = BudgetExceeded("10 of 10 model calls are made", "model_calls")
    error = DeadlineExceeded("5 s are over") if reason == "deadline" else spent

    class Late(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            if form == "raised":
                raise error
            return answer("", stop_reason=reason, detail=str(error))

    talk = Conversation([Talker("Ann"), Late("Bob")], stop_if_failed="none")
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, reply.text) == (reason, "Ann 1")
    assert "'Bob'" in reply.detail
    assert str(error) in reply.detail
    talk = Conversation(three(), ChosenBy(ScriptedModel([error])))
    assert talk.reply_sync("go").stop_reason == reason


@pytest.mark.parametrize("form", ("async", "plain"))
@pytest.mark.parametrize("place", ("next", "until"))
def test_conversation_function_does_not_outlive_the_deadline(place: str, form: str) -> None:
    let_go = threading.Event()
    cancelled: list[str] = []

    async def hang(state: ConversationState) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(place)
            raise

    def block(state: ConversationState) -> Any:
        let_go.wait(WAIT)

    function: Any = hang if form == "async" else block
    budget = Budget(seconds=0.3, clock=StandingClock())
    talk = Conversation([Talker("Ann")], **{place: function}, budget=budget)
    try:
        reply = talk.reply_sync("go")
        assert not let_go.is_set()
    finally:
        let_go.set()
    assert reply.stop_reason == "deadline"
    before = "until= was checked" if place == "until" else "the next speaker was chosen"
    assert f"were over before {before}" in reply.detail
    assert reply.text == ("Ann 1" if place == "until" else "")
    assert cancelled == ([place] if form == "async" else [])


@pytest.mark.parametrize("form", ("async", "plain"))
def test_functions_in_time_have_their_say_and_their_failures_are_their_own(form: str) -> None:
    def as_wanted(function: Any) -> Any:
        async def later(state: ConversationState) -> Any:
            await asyncio.sleep(0)
            return function(state)

        return later if form == "async" else function

    def late(state: ConversationState) -> Any:
        raise TimeoutError("the clock of my own")

    def talk(**functions: Any) -> Any:
        made = {name: as_wanted(function) for name, function in functions.items()}
        pair = [Talker("Ann"), Talker("Bob")]
        return Conversation(pair, **made, budget=Budget(seconds=600)).reply_sync("go")

    reply = talk(next=lambda state: "Bob", until=lambda state: state.turns == 2)
    assert (reply.stop_reason, reply.text) == ("done", "Bob 2")
    for place in ("next", "until"):
        reply = talk(**{place: late})
        assert reply.stop_reason == "error"
        assert "TimeoutError: the clock of my own" in reply.detail


# -- itself an agent -------------------------------------------------------------------------------


def test_conversation_takes_part_in_a_conversation() -> None:
    inner = Conversation([Talker("Ann"), Talker("Bob")], until=MaxTurns(2), id="pair")
    chair = Talker("chair")
    outer = Conversation([chair, inner], until=MaxTurns(4))
    reply = outer.reply_sync("go")
    assert said(outer) == [
        (None, "go"), ("chair", "chair 1"), ("pair", "Bob 1"), ("chair", "chair 2"),
        ("pair", "Bob 2"),
    ]  # fmt: skip
    assert inner.agents["Ann"].heard == [
        "go", "chair: chair 1", "Bob: Bob 1", "chair: chair 2", "Bob: Bob 2",
    ]  # fmt: skip
    assert reply.usage == Usage(6, 6)


async def test_conversation_observe_reaches_every_participant() -> None:
    ann, bob = Talker("Ann"), Talker("Bob")
    talk = Conversation([ann, bob], until=MaxTurns(1))
    await talk.observe("It rains.")
    await talk.observe({"role": "user", "content": "It pours."})
    await talk.reply("go")
    with pytest.raises(TypeError, match="observe takes"):
        await talk.observe(7)  # type: ignore[arg-type]
    assert ann.heard == ["It rains.", "It pours.", "go"]
    assert bob.heard == ["It rains.", "It pours.", "go", "Ann: Ann 1"]


async def test_events_are_of_each_turn_in_order_and_then_its_own() -> None:
    talk = Conversation(
        [agent("Ann", "a1"), agent("Bob", "b1"), Talker("Cleo")],
        lambda state: ["Ann", ["Bob", "Cleo"], None, None][state.turns],
    )
    events = [event async for event in talk.stream("go")]
    told = [(type(e).__name__, getattr(e, "speaker", e.agent)) for e in events if e.agent]
    told = [each for each in told if each[0] in ("TurnStarted", "TurnEnded", "Done")]
    assert told[:3] == [("TurnStarted", "Ann"), ("Done", "Ann"), ("TurnEnded", "Ann")]
    for speaker in ("Bob", "Cleo"):  # at once: their events interleave
        of_it = [kind for kind, who in told[3:-1] if who == speaker]
        assert of_it == ["TurnStarted", "Done", "TurnEnded"]
    assert told[-3:] == [
        ("TurnEnded", "Bob"),
        ("TurnEnded", "Cleo"),
        ("Done", "conversation"),
    ]
    for kind in (TurnStarted, TurnEnded):
        assert [e.turn for e in events if isinstance(e, kind)] == [1, 2, 3]
    assert events[-1].reply.value == {"Bob": "b1", "Cleo": "Cleo 1"}


async def test_conversation_passes_on_the_events_of_a_participant_that_streams() -> None:
    class Streams(Talker):
        async def stream(self, text: Any) -> Any:
            yield f"{self.id} thinks"
            yield Done(str(self.id), await self.reply(text))

    talk = Conversation(
        [Streams("Ann"), Streams("Bob")], lambda state: None if state.turns else ["Ann", "Bob"]
    )
    events = [e if isinstance(e, str) else e.kind async for e in talk.stream("go")]
    assert events[-3:] == ["turn_ended", "turn_ended", "done"]
    assert sorted(events[:-3]) == sorted(
        ["turn_started", "done"] * 2 + ["Ann thinks", "Bob thinks"]
    )


async def test_closing_the_stream_cancels_who_speaks() -> None:
    before = asyncio.all_tasks()
    ann = Gated("Ann")
    talk = Conversation([ann])
    events = talk.stream("go")
    assert isinstance(await anext(events), TurnStarted)
    waiting = asyncio.ensure_future(anext(events))
    await ann.begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await events.aclose()
    assert ann.cancelled
    assert asyncio.all_tasks() == before


async def test_interruption_goes_to_the_speaker_and_later_to_all() -> None:
    ann, bob = Gated("Ann"), Talker("Bob")
    talk = Conversation([ann, bob], until=MaxTurns(2))
    assert not talk.interrupt("early")
    asked = asyncio.create_task(talk.reply("go"))
    await ann.begun.wait()
    assert talk.interrupt("Faster!")
    await talk.observe("It rains.")
    ann.gate.set()
    await asked
    assert ann.told == ["Faster!"]
    assert ann.heard == ["early", "go", "It rains.", "Bob: Bob 1"]
    assert bob.heard == ["early", "go", "Faster!", "It rains.", "Ann: Ann 1"]
    assert not talk.interrupt("late")


async def test_interruption_reaches_all_who_speak_and_whoever_gives_the_outcome() -> None:
    class Concluding(Gated):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            if "schema" in wanted:
                self.begun.clear()
                self.gate.clear()
            return await super().reply(text)

    ann, bob = Gated("Ann"), Concluding("Bob")
    talk = Conversation([ann, bob], lambda state: None if state.turns else ["Ann", "Bob"])
    asked = asyncio.create_task(talk.reply("go", schema={"type": "string"}))
    for text in ("Faster!", "Shorter!"):
        await bob.begun.wait()
        assert talk.interrupt(text)
        bob.begun.clear()
        ann.gate.set()
        bob.gate.set()
        await bob.spoken.wait()
        bob.spoken.clear()
    await asked
    assert (ann.told, bob.told) == (["Faster!"], ["Faster!", "Shorter!"])
    assert ann.heard == ["go", "Bob: Bob 1", "Bob: Bob 2", "Shorter!"]


@pytest.mark.parametrize("failure", (None, ValueError("how dare you")))
async def test_interruption_that_the_speaker_does_not_take_is_heard_after_its_turn(
    failure: Exception | None,
) -> None:
    class Busy(Gated):
        def interrupt(self, text: Any) -> bool:
            if failure is not None:
                raise failure
            return False

    ann = Busy("Ann")
    talk = Conversation([ann], until=MaxTurns(1))
    asked = asyncio.create_task(talk.reply("go"))
    await ann.begun.wait()
    assert talk.interrupt("Faster!")
    ann.gate.set()
    await asked
    assert ann.heard == ["go", "Faster!"]


async def test_replies_of_a_conversation_wait_for_each_other() -> None:
    ann = Talker("Ann")
    talk = Conversation([ann], until=MaxTurns(2))
    one, two = await asyncio.gather(talk.reply("one"), talk.reply("two"))
    assert (one.text, two.text) == ("Ann 2", "Ann 4")
    assert ann.heard == ["one", "two"]


async def test_cancelling_reaches_everyone_who_speaks_and_it_can_be_gone_on_with() -> None:
    before = asyncio.all_tasks()
    ann, bob = Gated("Ann"), Gated("Bob")
    talk = Conversation([ann, bob], lambda state: None if state.turns else ["Ann", "Bob"])
    asked = asyncio.create_task(talk.reply("go"))
    await ann.begun.wait()
    await bob.begun.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert (ann.cancelled, bob.cancelled) == (True, True)
    assert asyncio.all_tasks() == before
    ann.gate.set()
    bob.gate.set()
    reply = await talk.resume()
    assert reply.value == {"Ann": "Ann 1", "Bob": "Bob 1"}
    with pytest.raises(StateError, match="no reply to resume"):
        await talk.resume()
    assert (await talk.reply("again")).stop_reason == "done"


async def test_conversation_reply_that_is_resumed_has_the_steps_from_then_on() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    bob = Gated("Bob")
    ann = agent("Ann", use("look"), "I saw it.", use("look"), "Again.", actions=[look])
    talk = Conversation([ann, bob], until=MaxTurns(3))
    asked = asyncio.create_task(talk.reply("go"))
    await bob.begun.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    bob.gate.set()
    reply = await talk.resume()
    assert [message["content"] for message in reply.messages[1:]] == [
        "I saw it.",
        "Bob 1",
        "Again.",
    ]
    assert [step.action for step in reply.steps] == ["look"]


async def test_cancelling_reaches_an_action_of_a_participant() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    inner = Conversation([agent("Ann", use("hang"), actions=[hang])], id="inner")
    asked = asyncio.create_task(Conversation([inner]).reply("go"))
    await begun.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert ended.is_set()


def test_conversation_value_is_given_after_hearing_simultaneous_speakers() -> None:
    ann, bob = Talker("Ann"), agent("Bob", "I see 2.", "3")
    talk = Conversation([ann, bob], lambda state: None if state.turns else ["Ann", "Bob"])
    assert talk.reply_sync("How many?", schema=int).value == 3
    assert heard(bob)[:2] == ["How many?", "Ann: Ann 1"]
    assert len(heard(bob)) == 3


def test_conversation_outcome_is_given_by_a_schema_by_the_last_speaker() -> None:
    schema = {"type": "object"}

    class Clerk(Talker):
        async def reply(self, text: Any, schema: Any = None, **wanted: Any) -> Any:
            if schema is None:
                return await super().reply(text)
            return answer('{"sum": 3}', value={"sum": 3, "asked": schema})

    ann, bob = Talker("Ann"), Clerk("Bob")
    talk = Conversation([ann, bob], until=MaxTurns(2))
    reply = asyncio.run(talk.reply("go", schema=schema))
    assert (reply.stop_reason, reply.text) == ("done", '{"sum": 3}')
    assert reply.value == {"sum": 3, "asked": schema}
    assert ann.heard[-1] == 'Bob: {"sum": 3}'


def test_participant_without_threads_has_one_conversation_only() -> None:
    talk = Conversation([Talker("Ann")])
    with pytest.raises(DefinitionError, match="reply and observe of 'Ann' take no thread="):
        asyncio.run(talk.reply("go", thread="other"))
    with pytest.raises(TypeError, match="takes a text"):
        asyncio.run(talk.reply(7))  # type: ignore[arg-type]

    async def inside() -> None:
        with pytest.raises(RuntimeError, match="await reply"):
            talk.reply_sync("go")

    asyncio.run(inside())


def test_conversation_outcome_is_asked_for_only_where_the_conversation_came_to_its_end() -> None:
    ann, bob = agent("Ann", "a1"), agent("Bob", "b1", "7")
    talk = Conversation([ann, bob], max_turns=2)
    reply = talk.reply_sync("go", schema=int)
    assert (reply.stop_reason, reply.value, reply.text) == ("max_iterations", None, "b1")
    assert heard(bob) == ["go", "Ann: a1"]


@pytest.mark.parametrize("raises", (False, True))
def test_conversation_outcome_that_is_not_given_ends_the_conversation_without_one(
    raises: bool,
) -> None:
    class Lost(Talker):
        async def reply(self, text: Any, schema: Any = None, **wanted: Any) -> Any:
            if schema is not None:
                raise OSError("no network")
            return await super().reply(text)

    bob = Lost("Bob") if raises else agent("Bob", "Bob 1", "many", "very many")
    talk = Conversation([Talker("Ann"), bob], until=MaxTurns(2))
    reply = talk.reply_sync("How many?", schema=int)
    assert (reply.text, reply.value) == ("Bob 1", None)
    if raises:
        why = ("error", "agent 'Bob' gave no outcome: OSError: no network")
        assert (reply.stop_reason, reply.detail) == why
        assert isinstance(reply.error, OSError)
    else:
        assert reply.stop_reason == "unreadable"
        assert reply.detail.startswith("agent 'Bob' gave no outcome: unreadable: ")


# -- in a space ------------------------------------------------------------------------------------


def test_conversation_in_a_space_answers_say(space: NativeSpace) -> None:
    ann = space.add(agent("Ann", say("hello"), say("again")))
    bob = agent("Bob", say("Goodbye."))  # in no space
    space.add(Conversation([ann, bob], until=MaxTurns(2)))
    me = space.add(Agent("me"))
    assert me.ask("conversation", "say", content="Hi").result(WAIT) == "Goodbye."
    assert set(me.ask("conversation", "help").result(WAIT)) == {"say"}
    with pytest.raises(ActionError, match="ModelError"):
        me.ask("conversation", "say", content="Hi").result(WAIT)
    assert heard(bob, "me") == ["Hi", "Ann: hello", "Hi", "Ann: again"]


async def test_participants_in_a_space_run_there(space: NativeSpace) -> None:
    loops = []

    async def where() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    def both() -> list[ReActAgent]:
        answers = [use("where"), say("done")]
        return [space.add(agent(id, *answers, actions=[where])) for id in ("Ann", "Bob")]

    order = lambda state: None if state.turns else ["Ann", "Bob"]  # noqa: E731
    talk = Conversation(both(), order)
    reply = await talk.reply("go")
    assert reply.value == {"Ann": "done", "Bob": "done"}
    events = [
        event
        async for event in space.add(Conversation([agent("x", "x")], until=MaxTurns(1))).stream(
            "go"
        )
    ]
    assert isinstance(events[-1], Done)
    assert asyncio.get_running_loop() not in loops
    assert len(set(loops)) == 1


async def test_cancelling_reaches_a_participant_in_a_space(space: NativeSpace) -> None:
    here = asyncio.get_running_loop()
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            here.call_soon_threadsafe(ended.set)

    ann = space.add(agent("Ann", use("hang"), actions=[hang]))
    talk = space.add(Conversation([ann]))

    async def read() -> None:
        async with talk.stream("go") as events:
            async for _ in events:
                pass

    reading = asyncio.create_task(read())
    await begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await ended.wait()


def test_conversation_in_a_space_is_interrupted_from_any_thread(space: NativeSpace) -> None:
    begun = threading.Event()

    class Waits(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            self.loop, self.told = asyncio.get_running_loop(), asyncio.Event()
            begun.set()
            await self.told.wait()
            return await super().reply(text)

        def interrupt(self, text: Any) -> bool:
            self.loop.call_soon_threadsafe(self.told.set)
            return True

    bob = Talker("Bob")
    talk = space.add(Conversation([Waits("Ann"), bob], until=MaxTurns(2), shared=True))
    asked = space.add(Agent("me")).ask("conversation", "say", content="go")
    assert begun.wait(WAIT)
    assert talk.interrupt("Faster!")
    assert asked.result(WAIT) == "Bob 1"
    assert bob.heard == ["me: go", "Faster!", "Ann: Ann 1"]


def test_participants_hand_over_in_a_space(space: NativeSpace) -> None:
    desk = space.add(agent("desk", handing("bills", "May?")))
    bills = space.add(agent("bills", say("It is paid.")))
    space.add(Conversation([desk, bills], HandOver(), id="shop"))
    me = space.add(Agent("me"))
    assert me.ask("shop", "say", content="Is it paid?").result(WAIT) == "It is paid."


def test_participant_that_asks_its_own_conversation_is_refused(space: NativeSpace) -> None:
    async def ask_again() -> str:
        return str(await ann.ask("conversation", "say", content="What?"))

    ann = space.add(agent("Ann", use("ask_again"), say("I see."), actions=[ask_again]))
    talk = space.add(Conversation([ann], until=MaxTurns(1)))
    me = space.add(Agent("me"))
    assert me.ask("conversation", "say", content="Hi").result(WAIT) == "I see."
    told = ann.state_dict()["threads"]["me"]["items"]
    assert any("would wait for itself" in m["content"] for m in told)
    assert len(talk.state_dict()["threads"]["me"]["transcript"]) == 2

    async def reply_again(thread: str | None) -> str:
        return (await alone.reply("What?", thread=thread)).text

    for thread in (None, "another"):
        script = use("reply_again", {"thread": thread}), say("I see.")
        alone = Conversation([agent("Bob", *script, actions=[reply_again])], until=MaxTurns(1))
        reply = alone.reply_sync("Hi")
        assert reply.text == "I see."
        assert "would wait for itself" in str(reply.steps[0].error)


def test_participant_that_is_cancelled_from_elsewhere_has_failed() -> None:
    class Cancelled(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            raise asyncio.CancelledError

    bob = Talker("Bob")
    talk = Conversation([Cancelled("Ann"), bob], until=MaxTurns(2), stop_if_failed="none")
    assert talk.reply_sync("go").text == "Bob 1"
    assert bob.heard[1] == "(Ann gave no answer: ModelError: it was cancelled from elsewhere)"


async def test_conversation_state_keeps_lines_of_a_cancelled_turn() -> None:
    ann, bob = Gated("Ann"), Talker("Bob")
    talk = Conversation([ann, bob], until=MaxTurns(2))
    task = asyncio.create_task(talk.reply("go"))
    await ann.begun.wait()
    assert await talk.interrupt("Faster!")
    task.cancel()
    await asyncio.wait((task,))
    saved = talk.state_dict()
    assert [each["content"] for each in saved["own"]["transcript"]] == ["go", "Faster!"]


def test_conversation_note_is_observed_at_once() -> None:
    ann = Talker("Ann")
    talk = Conversation([ann])

    async def note() -> str:
        await talk.observe("It rains.")
        return ", ".join(ann.heard)

    clerk = agent("clerk", use("note"), say("noted"), actions=[note])
    assert clerk.reply_sync("Note it.").steps[0].result["result"] == "It rains."


@pytest.mark.parametrize("in_space", (False, True))
def test_participant_may_note_something_in_another_thread_of_its_conversation(
    in_space: bool, space: NativeSpace
) -> None:
    async def note() -> str:
        await talk.observe("Ann was asked.", thread="log")
        return "noted"

    ann = agent("Ann", use("note"), say("Yes."), say("I know."), actions=[note])
    talk = Conversation([ann], until=MaxTurns(1))
    if in_space:
        space.add(talk)

    async def run() -> list[str]:
        async with asyncio.timeout(WAIT):
            await talk.reply("Are you there?", thread="one")
            await talk.reply("And?", thread="log")
        return heard(ann, "log")

    assert asyncio.run(run()) == ["Ann was asked.", "And?"]


# -- going on elsewhere ----------------------------------------------------------------------------

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "order",
    (
        pytest.param("round", marks=pytest.mark.long),
        pytest.param("chosen", marks=pytest.mark.long),
        "hand-over",
        pytest.param("together", marks=pytest.mark.long),
    ),
)
def test_conversation_that_was_paused_continues_in_another_process(
    order: str, tmp_path: Path
) -> None:
    def run(*args: str) -> dict[str, Any]:
        module, options = "agent.replies.paused_conversation", ("-W", "error")
        done = run_program(order, *args, module=module, options=options, cwd=TESTS)
        assert done.returncode == 0, done.stderr
        outcome: dict[str, Any] = json.loads(done.stdout)
        return outcome

    whole = run("whole", str(tmp_path))
    turns = whole["turns"]
    assert turns >= 3
    for pause in range(1, turns + 1):
        state = tmp_path / f"{pause}.json"
        assert run("pause", str(state), str(pause)) == {"paused": pause}
        assert run("resume", str(state)) == whole


async def test_conversation_state_is_of_the_time_between_two_turns() -> None:
    ann = Gated("Ann")
    talk = Conversation([ann], until=MaxTurns(1))
    asked = asyncio.create_task(talk.reply("go"))
    await ann.begun.wait()
    with pytest.raises(RuntimeError, match="is in a turn"):
        talk.state_dict()
    with pytest.raises(RuntimeError, match="is replying"):
        talk.load_state_dict({})
    ann.gate.set()
    await asked
    json.dumps(talk.state_dict(), allow_nan=False)


def test_conversation_that_was_loaded_remembers() -> None:
    talk = Conversation([Talker("Ann"), Talker("Bob")], until=MaxTurns(2))
    talk.reply_sync("go")
    other = Conversation([Talker("Ann"), Talker("Bob")], until=MaxTurns(2))
    other.load_state_dict(json.loads(json.dumps(talk.state_dict())))
    assert said(other) == said(talk)
    assert other.reply_sync("more").text == "Bob 2"
    assert other.agents["Ann"].heard == ["go", "Bob: Bob 1", "more", "Bob: Bob 2"]


@pytest.mark.parametrize(
    ("changed", "fault"),
    (
        ({"agents": ["Ann", "Cleo"]}, r"it is of \('Ann', 'Cleo'\), not of \('Ann', 'Bob'\)"),
        ({"pending": {"Cleo": []}}, "pending names others than the participants"),
        ({"last": ["Cleo"]}, "last names others than the participants"),
        ({"handed_to": "Cleo"}, "handed_to names no participant"),
        ({"turns": -1}, "turns and begun must be 0 or more"),
        ({"begun": -1}, "turns and begun must be 0 or more"),
        ({"transcript": [2, 1]}, "the numbers of the transcript must rise"),
        ({"transcript": [1, 1]}, "the numbers of the transcript must rise"),
    ),
)
def test_conversation_state_that_contradicts_itself_is_refused(
    changed: dict[str, Any], fault: str
) -> None:
    talk = Conversation([Talker("Ann"), Talker("Bob")], until=MaxTurns(2))
    talk.reply_sync("go")
    state = json.loads(json.dumps(talk.state_dict()))
    known = state["own"]["transcript"]
    if "transcript" in changed:
        changed = {"transcript": [known[number] for number in changed["transcript"]]}
    state["own"].update(changed)
    with pytest.raises(StateError, match=fault):
        talk.load_state_dict(state)


def test_transcript_keeps_a_million_characters_and_its_last_utterance() -> None:
    state = ConversationState(("Ann",))
    for size in (400_000, 300_000, 300_000):
        state.add("Ann", "x" * size)
    assert [each.number for each in state.transcript] == [1, 2, 3]
    state.add("Ann", "x")
    assert ([each.number for each in state.transcript], state.chars) == ([2, 3, 4], 600_001)
    state.add("Ann", "x" * 1_000_001)
    assert ([each.number for each in state.transcript], state.chars) == ([5], 1_000_001)


# -- whatever the order ----------------------------------------------------------------------------

IDS = ("Ann", "Bob", "Cleo", "Dan")
a_turn = st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True)


@given(st.lists(st.lists(a_turn, max_size=6), min_size=1, max_size=3))
def test_participants_hear_everything_once_in_order(replies: list[list[list[str]]]) -> None:
    turns: list[Any] = []
    participants = [Talker(id) for id in IDS]
    talk = Conversation(participants, lambda state: turns.pop(0) if turns else None, max_turns=99)
    for number, order in enumerate(replies):
        turns[:] = order
        talk.reply_sync(f"question {number}")
    spoken = [id for order in replies for turn in order for id in turn]
    assert [who for who, _ in said(talk) if who is not None] == spoken
    for one in participants:
        told = [f"{w}: {t}" if w else t for w, t in said(talk) if w != one.id]
        assert one.heard == told


# -- with agents that have a model -----------------------------------------------------------------


def test_events_of_a_fan_out_interleave_and_name_their_speaker() -> None:
    async def main() -> list[Any]:
        bob_has_spoken = asyncio.Event()

        async def wait(messages: Any, actions: Any) -> str:
            await bob_has_spoken.wait()
            return "a1"

        ann = ReActAgent("Ann", ScriptedModel([wait]))
        bob = ReActAgent("Bob", ScriptedModel(["b1"]))
        talk = Conversation([ann, bob], lambda state: ["Ann", "Bob"] if not state.turns else None)
        events = []
        async for event in talk.stream("go", run_id="r"):
            events.append(event)
            if event.kind == "done":
                bob_has_spoken.set()
        return events

    events = asyncio.run(asyncio.wait_for(main(), WAIT))
    texts = [(event.agent, event.text) for event in events if event.kind == "text"]
    assert texts == [("Bob", "b1"), ("Ann", "a1")]
    assert [event.agent for event in events if event.kind == "done"] == [
        "Bob",
        "Ann",
        "conversation",
    ]
    assert [event.speaker for event in events if event.kind == "turn_ended"] == ["Ann", "Bob"]
    assert events[-1].reply.text == "Ann: a1\n\nBob: b1"


async def test_interruption_stops_what_the_speaker_is_doing() -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    ann = ReActAgent("Ann", ScriptedModel([{"name": "hang"}, "I stop."]), actions=[hang])
    bob = ReActAgent("Bob", ScriptedModel(["ok"]))
    talk = Conversation([ann, bob], until=MaxTurns(2))
    asked = asyncio.create_task(talk.reply("go"))
    await begun.wait()
    assert await talk.interrupt("Stop!")
    await asked

    def heard(agent: ReActAgent) -> list[str]:
        return [m["content"] for m in agent.memory.get_memories() if m["role"] == "user"]

    assert heard(ann) == ["go", "Stop!", "Bob: ok"]
    assert heard(bob) == ["go", "Stop!", "Ann: I stop."]


def test_conversation_state_between_two_turns_continues_with_the_same_memories() -> None:
    def talk(*left: int) -> Conversation:
        texts = {"Ann": ["a1", "a2"], "Bob": ["b1", "b2"]}
        return Conversation(
            [
                ReActAgent(id, ScriptedModel(texts[id][start:]))
                for id, start in zip(texts, left, strict=True)
            ],
            until=MaxTurns(4),
        )

    def memories(conversation: Conversation) -> list[Any]:
        return [agent.memory.get_memories() for agent in conversation.agents.values()]

    async def saved(conversation: Conversation) -> dict[str, Any]:
        async for event in conversation.stream("go"):
            if event.kind == "turn_ended":
                return conversation.state_dict()
        raise AssertionError

    whole = talk(0, 0)
    end = whole.reply_sync("go")
    state = asyncio.run(asyncio.wait_for(saved(talk(0, 0)), WAIT))
    later = talk(1, 0)
    later.load_state_dict(json.loads(json.dumps(state)))
    reply = asyncio.run(asyncio.wait_for(later.resume(), WAIT))
    assert (reply.text, reply.stop_reason) == (end.text, end.stop_reason) == ("b2", "done")
    assert memories(later) == memories(whole)


def test_conversation_outcome_by_a_schema_comes_with_the_id_of_the_run() -> None:
    ann = ReActAgent("Ann", ScriptedModel(["1 and 2"]))
    bob = ReActAgent("Bob", ScriptedModel(["that is 3", '{"sum": 3}']))
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    talk = Conversation([ann, bob], until=MaxTurns(2))
    reply = asyncio.run(talk.reply("go", schema=schema, run_id="r1"))
    assert (reply.value, reply.run_id) == ({"sum": 3}, "r1")


def test_participants_and_the_model_that_chooses_spend_of_one_budget() -> None:
    choose = ScriptedModel(['{"next": "Ann"}', '{"next": "Bob"}'] * 5, max_tokens=10)
    models = [ScriptedModel(["ok"] * 5) for _ in range(2)]
    ann, bob = (ReActAgent(id, m) for id, m in zip(("Ann", "Bob"), models, strict=True))
    budget = Budget(model_calls=5)
    talk = Conversation([ann, bob], ChosenBy(choose, repeat=True), max_turns=9, budget=budget)
    reply = talk.reply_sync("go")
    assert (reply.stop_reason, budget.spent.model_calls) == ("budget", 5)
    assert sum(len(model.received) for model in (choose, *models)) == 5
    assert ann.budget is budget
    with pytest.raises(ConfigError, match="budgets of their own"):
        Conversation([ann], budget=Budget(model_calls=1))


def test_dual_act_takes_part_in_a_conversation() -> None:
    done = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": "I agree"})
    human = ReActAgent("H", ScriptedModel([done]))
    dual = DualActAgent(DualActConfig(human, ReActAgent("R", ScriptedModel([]))), id="pair")
    ann = ReActAgent("Ann", ScriptedModel(["What do you think?"]))
    talk = Conversation([ann, dual], until=MaxTurns(2))
    assert talk.reply_sync("go").text == "I agree"


def test_hooks_are_those_of_every_agent_that_replies() -> None:
    talk = Conversation([Talker("Ann")], until=MaxTurns(1))
    talk.register_hook("pre_reply", "polite", lambda _, k: {"text": k["text"] + ", please"})
    assert talk.reply_sync("go").messages[0]["content"] == "go, please"


@pytest.mark.parametrize("stated", ({"max_turns": 2}, {"until": MaxTurns(2)}), ids=str)
def test_conversation_bounded_by_turns_answers_with_what_was_said(stated: Any) -> None:
    talk = Conversation([agent("Ann", "one"), agent("Bob", "two")], id="it", **stated)
    with NativeSpace() as space:
        space.add(talk)
        assert space.add(Agent("me")).ask("it", "say", content="go").result(timeout=10) == "two"


class Small(ScriptedModel):
    """A model in this process."""

    in_process = True


def test_handover_of_a_small_model_that_repeats_an_example_is_asked_again() -> None:
    repeated = '{"asked_for": "When a ship sails", "to": "desk"}'
    quoted = '{"asked_for": "a refund for Zorp", "to": "bills"}'
    model = Small([repeated, quoted, quoted])
    talk = Conversation([ReActAgent("desk", model), Talker("bills")], HandOver())
    assert talk.reply_sync("I want my money back.").text == "bills 1"
    assert "repeats an example" in model.received[1][-1]["content"]
    assert talk.reply_sync('Look: {"wanted": "a refund for Zorp"}').text == "bills 2"


def test_handover_of_a_small_model_says_whose_it_is_to_answer_itself_among_them() -> None:
    mine, other = (f'{{"asked_for": "so", "to": "{each}"}}' for each in ("desk", "bills"))
    model = Small([mine, "At ten.", other])
    desk = ReActAgent("desk", model, system_prompt="You open at ten.")
    bills, tech = ReActAgent("bills", ScriptedModel(["It is paid."])), Talker("tech")
    about = {"bills": "knows all bills", "tech": "mends"}
    talk = Conversation([desk, tech, bills], HandOver("desk", about=about))
    assert talk.reply_sync("When do you open?").text == "At ten."
    reply = talk.reply_sync("Is my bill paid?")
    assert (reply.text, reply.detail) == ("It is paid.", "'bills' answered without handing over")
    assert "- desk: You open at ten.\n" in model.received[0][0]["content"]
    assert "- bills: knows all bills" in model.received[2][0]["content"]


def test_handover_of_a_small_model_that_names_none_leaves_it_the_turn() -> None:
    model = Small(["?", "?", "Good morning!"])
    talk = Conversation([ReActAgent("desk", model), Talker("tech")], HandOver())
    assert talk.reply_sync("Good morning.").text == "Good morning!"


def test_handover_in_two_conversations_asks_the_first_speakers_model_of_each() -> None:
    asked: list[str] = []

    def whose(id: str) -> Any:
        def answer(messages: Any, actions: Any) -> Any:
            asked.append(id)
            return f'{{"asked_for": "help", "to": "{id}2"}}'

        return answer

    order = HandOver()
    talks = []
    for id in ("a", "b"):
        first = ReActAgent(f"{id}1", Small([whose(id)]))
        talks.append(Conversation([first, Talker(f"{id}2")], order))
    assert [talk.reply_sync("Help!").text for talk in talks] == ["a2 1", "b2 1"]
    assert asked == ["a", "b"]
