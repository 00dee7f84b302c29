"""When a conversation ends: each condition, and combinations of them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from agent.replies.talkers import Talker, answer
from moothall.agents.conversation.conversation import Conversation
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.conversation.termination import (
    Condition,
    Elapsed,
    MaxTokens,
    MaxTurns,
    Said,
    StoppedBy,
)
from moothall.agents.replies.reply import Reply
from moothall.foundation.errors import DefinitionError, InvalidId


class Says(Talker):
    """Says what it was told to, one text after the other."""

    def __init__(self, id: str, *texts: str) -> None:
        super().__init__(id)
        self.texts = list(texts)

    async def reply(self, text: Any, **wanted: Any) -> Any:
        return answer(self.texts.pop(0))


class Clock:
    """Shows a time that goes on by itself at each look."""

    def __init__(self, step: float) -> None:
        self.now = 100.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def ended(until: Any, *texts: str, **options: Any) -> Reply:
    """What comes of two who say these texts in turn."""
    ann, bob = Says("Ann", *texts[::2]), Says("Bob", *texts[1::2])
    options.setdefault("max_turns", len(texts))
    return Conversation([ann, bob], until=until, **options).reply_sync("go APPROVE")


def at_once(state: ConversationState) -> str:
    return "at once"


@pytest.mark.parametrize(
    ("until", "text", "detail"),
    (
        (MaxTurns(3), "c", "MaxTurns(3)"),
        (MaxTokens(5), "c", "MaxTokens(5)"),
        (MaxTokens(6), "c", "MaxTokens(6)"),
        (Said("d"), "d", "Said('d'): 'Bob' said it"),
        (Said(re.compile("D", re.IGNORECASE)), "d", "Said('D'): 'Bob' said it"),
        (Said(re.compile("^[bc]$")), "b", "Said('^[bc]$'): 'Bob' said it"),
        (StoppedBy("Bob"), "b", "StoppedBy('Bob')"),
        (Elapsed(3, Clock(1)), "c", "Elapsed(3)"),
        (lambda state: state.turns == 2, "b", "<lambda>"),
        (lambda state: "so it is" if state.turns == 2 else None, "b", "so it is"),
        (MaxTurns(2) | Said("a"), "a", "Said('a'): 'Ann' said it"),
        (Said("a") | MaxTurns(1), "a", "Said('a'): 'Ann' said it"),
        (MaxTurns(3) & Said("b"), "c", "MaxTurns(3) and Said('b'): 'Bob' said it"),
        (Said("d") & Said("a"), "d", "Said('d'): 'Bob' said it and Said('a'): 'Ann' said it"),
        ((Said("a") & Said("e")) | StoppedBy("Bob"), "b", "StoppedBy('Bob')"),
        (at_once | MaxTurns(1), "a", "at once"),
        (at_once & MaxTurns(2), "b", "at once and MaxTurns(2)"),
        (MaxTurns(2) | (lambda state: True), "a", "<lambda>"),
        ((lambda state: state.turns > 2) & MaxTurns(1), "c", "<lambda> and MaxTurns(1)"),
        ((lambda state: f"at {state.turns}") & MaxTurns(3), "c", "at 1 and MaxTurns(3)"),
    ),
)
def test_termination_ends_after_the_turn_that_meets_it(until: Any, text: str, detail: str) -> None:
    reply = ended(until, *"abcdef")
    assert (reply.text, reply.stop_reason, reply.detail) == (text, "done", detail)


def test_termination_says_after_how_many_turns_it_is_met_at_the_latest() -> None:
    short, long, said = MaxTurns(3), MaxTurns(9), Said("a")
    assert (short | long | said).most_turns == 3
    assert (short & long).most_turns == 9
    assert (short & said).most_turns is (said | said).most_turns is None


def test_termination_that_is_not_met_leaves_it_to_max_turns() -> None:
    reply = ended(Said("z") | (Said("a") & Said("z")), *"abcd")
    assert (reply.text, reply.stop_reason) == ("d", "max_iterations")


def test_termination_met_in_the_last_turn_counts() -> None:
    assert ended(Said("d"), *"abcd").stop_reason == "done"


def test_termination_words_of_the_question_do_not_count() -> None:
    assert ended(Said("APPROVE"), "a", "b").stop_reason == "max_iterations"


def test_said_counts_only_of_the_one_that_is_to_say_it() -> None:
    assert ended(Said("ok", by="Bob"), "ok", "no", "no", "ok").text == "ok"
    assert ended(Said("ok", by="Bob"), "ok", "no").stop_reason == "max_iterations"


@pytest.mark.parametrize("text", (".*", "[", "(a+)+$", "\\", "a|b", "^", "(?i)x"))
def test_termination_text_is_looked_for_as_it_is(text: str) -> None:
    assert ended(Said(text), "abc", "a" * 50 + "!").stop_reason == "max_iterations"
    assert ended(Said(text), "abc", f"it is {text}, I think").stop_reason == "done"


def test_termination_failed_turn_does_not_count() -> None:
    class Fails(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            return answer("APPROVE", stop_reason="max_iterations")

    talk = Conversation(
        [Fails("Ann")], until=StoppedBy("Ann") | Said("APPROVE"), stop_if_failed="none", max_turns=3
    )
    assert talk.reply_sync("go").stop_reason == "max_iterations"


def test_termination_looks_at_each_of_several_at_once() -> None:
    talk = Conversation(
        [Says("Ann", "ok"), Says("Bob", "no")], lambda state: ["Ann", "Bob"], until=Said("ok")
    )
    assert talk.reply_sync("go").detail == "Said('ok'): 'Ann' said it"


def test_termination_starts_anew_with_each_reply() -> None:
    until = (Said("Ann 1") & MaxTurns(3)) | Elapsed(10, Clock(1))
    talk = Conversation([Talker("Ann"), Talker("Bob")], until=until)
    assert (talk.reply_sync("one").detail, talk.state.turns) == (
        "Said('Ann 1'): 'Ann' said it and MaxTurns(3)",
        3,
    )
    assert (talk.reply_sync("two").detail, talk.state.turns) == ("Elapsed(10)", 10)


async def test_termination_condition_may_serve_two_conversations() -> None:
    until = Said("Ann 2") & Said("Bob 1")
    talks = [Conversation([Talker("Ann"), Talker("Bob")], until=until) for _ in range(2)]
    replies = await asyncio.gather(*(talk.reply("go") for talk in talks))
    assert [reply.text for reply in replies] == ["Ann 2", "Ann 2"]


def test_termination_condition_of_ones_own_has_one_method() -> None:
    class Long(Condition):
        async def met(self, state: ConversationState) -> str | None:
            await asyncio.sleep(0)
            total = sum(len(each.text) for each in state.transcript)
            return f"{total} characters" if total > 14 else None

    assert (
        ended(Long() & MaxTurns(2), "abc", "def", "ghi").detail == "16 characters and MaxTurns(2)"
    )


def test_termination_conditions_are_part_of_the_state() -> None:
    until = (Said("Ann 1") & Said("Ann 2")) | Elapsed(4, Clock(1))

    def made() -> Conversation:
        return Conversation([Talker("Ann"), Talker("Bob")], until=until)

    async def pause() -> Any:
        talk = made()
        async for event in talk.stream("go"):
            if event.kind == "turn_ended":
                return json.loads(json.dumps(talk.state_dict()))
        return None

    talk = made()
    talk.load_state_dict(asyncio.run(pause()))
    reply = asyncio.run(talk.resume())
    assert (reply.detail, reply.text) == (
        "Said('Ann 1'): 'Ann' said it and Said('Ann 2'): 'Ann' said it",
        "Ann 2",
    )


async def test_time_between_saving_and_going_on_does_not_count() -> None:
    clock = Clock(1)
    until = Elapsed(3, clock)
    talk = Conversation([Talker("Ann")], until=until)
    events = talk.stream("go")
    async for event in events:
        if event.kind == "turn_ended":
            break
    state = talk.state_dict()
    await events.aclose()
    clock.now += 1000
    other = Conversation([Talker("Ann")], until=until)
    other.load_state_dict(state)
    assert (await other.resume()).text == "Ann 3"


@pytest.mark.parametrize(
    "make",
    (
        lambda: MaxTurns(0),
        lambda: MaxTurns(True),
        lambda: MaxTurns(2.0),  # type: ignore[arg-type]
        lambda: MaxTokens(-1),
        lambda: Said(""),
        lambda: Said("  "),
        lambda: Said(7),  # type: ignore[arg-type]
        lambda: Said(re.compile(b"x")),  # type: ignore[arg-type]
        lambda: Elapsed(0),
        lambda: Elapsed(float("nan")),
        lambda: Elapsed(float("inf")),
        lambda: Elapsed("3"),  # type: ignore[arg-type]
        lambda: MaxTurns(1) | 7,  # type: ignore[operator]
        lambda: MaxTurns(1) & MaxTurns,
        lambda: Conversation([Talker("Ann")], until="APPROVE"),  # type: ignore[arg-type]
        lambda: Conversation([Talker("Ann")], until=MaxTurns),
        lambda: Conversation([Talker("Ann")], until=MaxTurns(3) | StoppedBy("An")),
        lambda: Conversation([Talker("Ann")], until=Said("x", by="Bob") & MaxTurns(3)),
    ),
)
def test_termination_condition_that_cannot_be_met_is_refused(make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()


def test_termination_by_a_malformed_id_is_refused() -> None:
    with pytest.raises(InvalidId):
        StoppedBy("*")


@pytest.mark.parametrize("given", (7, [], {"stop": True}, object()))
def test_termination_that_gives_no_condition_ends_the_reply_as_an_error(given: Any) -> None:
    reply = ended(lambda state: given, "a", "b")
    assert (reply.stop_reason, reply.text) == ("error", "a")
    assert isinstance(reply.error, DefinitionError)


def test_termination_that_raises_ends_the_reply_as_an_error() -> None:
    def broken(state: ConversationState) -> bool:
        raise KeyError("missing")

    reply = ended(broken, "a", "b")
    assert (reply.stop_reason, reply.text) == ("error", "a")
    assert isinstance(reply.error, KeyError)
