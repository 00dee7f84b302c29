"""Social life: contacts make relations, neglect fades them, and opinions meet within bounds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.society.blocks.living import HOUR, citizen, live, said, shown

from moothall import ScriptedModel
from moothall.society.blocks.social import (
    SocialBlock,
    SocialBlockParams,
    faded_relation,
    relation_after,
)
from moothall.society.blocks.talk_block import message_text, opinion_after

MEET = [{"do": "social", "where": None, "from": 0, "until": 24 * HOUR}]


def test_relations_grow_with_contact_and_less_the_closer_they_are() -> None:
    assert [relation_after(each, 50) for each in (0, 50, 999, 1000)] == [50, 98, 1000, 1000]
    assert [faded_relation(each, 5) for each in (0, 1, 800)] == [0, 0, 796]
    relation = hours = 0
    while relation < 500:
        relation, hours = relation_after(relation, 2), hours + 0.25
    assert 50 < hours < 90  # Hall 2019: between a casual friend and a friend
    agent = citizen([SocialBlock()])
    seen = []
    for step in range(5):
        live(agent, step=step, messages=[said("2")])
        seen.append(agent.status["relations"]["2"])
    assert seen == sorted(set(seen))
    live(agent, step=1000, step_s=60, messages=[said("5")])  # however short a step is
    assert agent.status["relations"]["5"] == 1
    for contact, hours, after in ((2, 1, 8), (2, 0.5, 4), (1000, 1, 1000)):
        block = SocialBlock(block_params=SocialBlockParams(contact=contact))
        agent = citizen([block])
        live(agent, step_s=int(hours * HOUR), messages=[said("2")])
        assert agent.status["relations"] == {"2": after}


def test_relation_without_contact_fades_by_the_day() -> None:
    agent = citizen([SocialBlock()], relations={"2": 800, "3": 800})
    live(agent, step=95)
    assert agent.status["relations"] == {"2": 800, "3": 800}
    live(agent, step=96, messages=[said("2")])
    assert agent.status["relations"] == {"2": 801, "3": 799}
    live(agent, step=97)
    assert agent.status["relations"] == {"2": 801, "3": 799}
    wave = {"from": "3", "to": "1", "action": {"name": "wave", "args": {}}}
    live(agent, step=192, messages=[wave])  # only what is said is contact
    assert agent.status["relations"] == {"2": 800, "3": 798}


def test_relations_fade_unless_met_and_kin_do_not() -> None:
    relations = {"2": 2, "3": 1, "4": 800, "5": 700}
    agent = citizen([SocialBlock()], relations=dict(relations), kin={"4": "child"})
    for day in range(3):
        live(agent, step=96 * day)
    assert agent.status["relations"] == {"4": 800, "5": 698}
    few = SocialBlock(block_params=SocialBlockParams(friends=2))
    agent = citizen([few], relations={"4": 3, "5": 700}, kin={"4": "child"})
    live(agent, messages=[said("9")])
    assert agent.status["relations"] == {"4": 3, "9": 2}


def test_relations_beyond_the_limit_lose_the_weakest() -> None:
    few = SocialBlock(block_params=SocialBlockParams(friends=2))
    agent = citizen([few], relations={"2": 30, "3": 500})
    live(agent, messages=[said("4")])
    assert list(agent.status["relations"]) == ["3", "4"]


def test_opinions_approach_within_the_bound_and_only_there() -> None:
    assert opinion_after(0, 300, 400, 200) == 60
    assert opinion_after(0, -300, 400, 200) == -60
    assert (opinion_after(0, 400, 400, 200), opinion_after(0, 401, 400, 200)) == (80, 0)
    assert (opinion_after(500, 509, 400, 100), opinion_after(500, 490, 400, 100)) == (500, 499)
    agent = citizen([SocialBlock()])
    live(agent, messages=[said("2", topic="music", opinion=700)])
    assert agent.status["opinions"]["music"] == 520
    live(agent, messages=[said("2", topic="music", opinion=-700), said("2", topic="x", opinion=9)])
    assert agent.status["opinions"] == {"music": 520}


def test_social_meets_who_is_there_or_writes_to_a_friend() -> None:
    met = set()
    for number in range(20):
        agent = citizen([SocialBlock()], plan=MEET)
        live(agent, step=number, others=("2", "3"))
        met |= set(agent.status["relations"])
    assert met == {"2", "3"}
    agent = citizen([SocialBlock()], plan=MEET, relations={"7": 500})
    live(agent)
    assert agent.status["relations"]["7"] > 500
    for relations in ({}, {"7": 0}):
        alone = citizen([SocialBlock()], plan=MEET, relations=relations)
        live(alone)
        assert alone.status["act"] == "leisure"
        assert alone.memory.stream == []
    for here, to in ((1000, "2"), (0, "7")):
        agent = citizen(
            [SocialBlock(block_params=SocialBlockParams(here=here))],
            plan=MEET,
            relations={"7": 500, "8": 0},
            profile={"interests": {"art": 300, "music": 800, "food": 700}},
        )
        live(agent, others=("2",))
        assert agent.memory.stream[-1][1].startswith(f"It said to {to}: ")
        assert "music" in agent.memory.stream[-1][1]


def test_social_who_is_too_young_is_in_company_and_says_nothing() -> None:
    social = [{"do": "social", "where": None, "from": 0, "until": 24 * HOUR}]
    for age, says in ((0, False), (2, False), (3, True)):
        block = SocialBlock(llm=ScriptedModel([json.dumps({"to": "2", "content": "Hi."})]))
        status: Any = {"plan": social, "now": 0, "profile": {"age": age, "interests": {}}}
        agent = citizen([block], relations={"2": 800}, **status)
        live(agent, messages=[said("2", "The mill is sold.")])
        assert agent.status["act"] == "social"
        assert any("It said" in text for _, text in agent.memory.stream) == says
        assert len(block.llm.received) == says
    block = SocialBlock(block_params=SocialBlockParams(youngest=6))
    agent = citizen([block], relations={"2": 800}, plan=social, now=0, profile={"age": 5})
    live(agent)
    assert agent.memory.stream == []


def test_social_message_text_states_the_opinion() -> None:
    assert "enough of music" in message_text(0, "music", -900)
    assert "care about music" in message_text(1, "music", 900)
    assert message_text(0, "", 0) == "Good to see you."
    # From 600, 300, -100 and -300 on.
    views = [message_text(0, "art", each)[17:] for each in (600, 599, 300, 299, -100, -101, -301)]
    assert views[0] != views[1] == views[2] != views[3] == views[4] != views[5] != views[6]
    agent = citizen([SocialBlock()], plan=MEET)
    live(agent, others=("2",))
    assert "something in music" in agent.memory.stream[-1][1]


def test_social_model_says_it_in_its_own_words() -> None:
    answer = {"to": "2", "content": "Shall we dance?"}
    block = SocialBlock(llm=ScriptedModel([json.dumps(answer)]))
    agent = citizen([block], plan=MEET)
    live(agent, others=("2", "3"))
    assert "It said to 2: Shall we dance?" in agent.memory.stream[-1][1]


def test_social_model_chooses_among_the_closest_and_those_present() -> None:
    model = ScriptedModel([json.dumps({"to": "99", "content": "Hello."})])
    relations = {str(number): number for number in range(2, 22)}
    agent = citizen([SocialBlock(llm=model)], plan=MEET, relations=relations)
    live(agent, others=("3", "99"))
    people = shown(model)["people"]
    assert [each["id"] for each in people] == [*map(str, range(21, 11, -1)), "3", "99"]
    assert [each["relation"] for each in people[:2]] == [21, 20]
    assert [each["relation"] for each in people[-2:]] == [3, 0]
    assert "99" in agent.status["relations"]
    block = SocialBlock(llm=model)
    alone = citizen([block], plan=MEET)
    live(alone)
    assert (alone.status["act"], block.fallbacks, len(model.received)) == ("leisure", 0, 1)


def test_social_message_by_the_action_is_cut_to_its_length() -> None:
    block = SocialBlock()
    agent = citizen([block])
    asyncio.run(block.write("2", "x" * 300))
    assert agent.memory.stream[-1][1] == f"It said to 2: {'x' * 280}"


@pytest.mark.parametrize(
    "answer",
    (
        "Hello!",
        json.dumps({"to": "99", "content": "hello"}),
        json.dumps({"to": "2", "content": "x" * 300}),
        RuntimeError("gone"),
    ),
)
def test_nonsense_of_a_model_falls_back_to_the_rule_and_is_counted(answer: Any) -> None:
    block = SocialBlock(llm=ScriptedModel([answer]))
    agent = citizen([block], plan=MEET)
    live(agent, others=("2",))
    assert agent.status["relations"] == {"2": 2}
    assert block.fallbacks == 1


def test_social_message_of_an_unknown_form_changes_nothing() -> None:
    agent = citizen([SocialBlock()])
    for args in ({"topic": ["music"], "opinion": 1}, {"topic": "music", "opinion": "high"}):
        live(agent, messages=[said("2", **args)])
    live(agent, messages=[said("2", topic="music", opinion=10**9)])
    assert agent.status["opinions"] == {"music": 500}
    follows = SocialBlock(block_params=SocialBlockParams(bound=2000, pull=1000))
    agent = citizen([follows])
    live(agent, messages=[said("2", topic="music", opinion=1500)])  # as far as an opinion goes
    assert agent.status["opinions"] == {"music": 1000}


def test_social_message_that_repeats_a_line_of_the_talk_is_asked_for_again() -> None:
    line = "I am going to work at the hospital now, how are you?"
    model = ScriptedModel(
        [json.dumps({"to": "2", "content": each}) for each in (f"Hey Bo! {line}", "I am well.")]
    )
    talks = {"2": [[30, False, f"Hey Ann! {line}"]]}
    agent = citizen([SocialBlock(llm=model)], plan=MEET, talks=talks)
    live(agent, others=("2",))
    assert agent.status["talks"]["2"][-1][2] == "I am well."
    told = model.received[1][-1]["content"]
    assert f'Your answer repeats "{line}" in "content"' in told
