"""Citizens: what they remember, which blocks they have, what they do outside of a society."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moothall import Agent, NativeSpace, ReActAgent, ScriptedModel
from moothall.agents.block import Block
from moothall.foundation.errors import ConfigError, DefinitionError, NotInSpace, StateError
from moothall.society import (
    AgentType,
    CitizenAgent,
    CitizenAgentParams,
    CitizenMemory,
    Move,
    Perception,
    Society,
    View,
    all_blocks,
)
from society.life import Noting, said


def test_citizen_memory_keeps_the_last_events_and_messages() -> None:
    memory = CitizenMemory({"money": 1}, most=3)
    for step in range(3):
        memory.note(step, f"event {step}")
    memory.add_memory({"role": "assistant", "content": "well"})
    assert memory.get_memories() == [
        {"role": "user", "content": "Step 1: event 1"},
        {"role": "user", "content": "Step 2: event 2"},
        {"role": "assistant", "content": "well"},
    ]
    assert [each["content"] for each in memory.get_memories(1)] == ["well"]
    other = CitizenMemory(most=3)
    other.load_state_dict(memory.state_dict())
    assert (other.status, other.stream) == (memory.status, memory.stream)
    short = CitizenMemory(most=1)
    short.load_state_dict(memory.state_dict())
    assert short.stream == memory.stream[-1:]
    short.note(3, "event 3")
    assert short.stream == [(3, "event 3")]
    assert memory.thread("t") is memory.thread("t")
    assert memory.thread("t").stream == []
    with pytest.raises(ValueError, match="limit"):
        memory.get_memories(-1)
    with pytest.raises(StateError):
        other.load_state_dict({"status": {}})


def test_block_that_is_not_enabled_is_left_out() -> None:
    class Walks(Block):
        enabled_by = "enable_mobility"

    class Talks(Block):
        enabled_by = "enable_social"

    for params in (CitizenAgentParams(enable_mobility=False), {"enable_mobility": False}):
        citizen = CitizenAgent(1, agent_params=params, blocks=[Walks(), Talks()])
        assert [block.name for block in citizen.blocks] == ["Talks"]
    with pytest.raises(ValueError, match="enable_mobilty"):
        CitizenAgent(1, agent_params={"enable_mobilty": False})
    assert citizen.type is AgentType.Citizen
    for wrong in (5, "enable_mobility", [Walks()]):
        with pytest.raises(ConfigError, match="agent_params= must be CitizenAgentParams or a dict"):
            CitizenAgent(1, agent_params=wrong)
    with pytest.raises(DefinitionError, match="agent 1: blocks= must be blocks, got"):
        CitizenAgent(1, blocks=Walks())  # type: ignore[arg-type]

    class HomeParams(CitizenAgentParams):
        enable_mobility: bool = False

    class Home(CitizenAgent):
        ParamsType = HomeParams

    assert [block.name for block in Home(1, blocks=[Walks(), Talks()]).blocks] == ["Talks"]
    for name in ("mobility", "economy", "social"):
        params = CitizenAgentParams(**{f"enable_{name}": False})
        citizen = CitizenAgent(1, agent_params=params, blocks=all_blocks())
        left = {block.name for block in citizen.blocks}
        out = {"social": {"SocialBlock", "FeedBlock"}}.get(name, {f"{name.title()}Block"})
        assert {block.name for block in all_blocks()} - left == out
    assert CitizenAgent("bank", type=AgentType.Bank).type == "bank"


def test_block_of_another_citizen_is_refused() -> None:
    class Walks(Block):
        pass

    shared = [Walks()]
    CitizenAgent(1, blocks=shared)
    with pytest.raises(DefinitionError, match="citizen 2: block 'Walks' is citizen 1's: give each"):
        CitizenAgent(2, blocks=shared)


def test_outside_of_a_society_a_citizen_has_its_own_state_and_wants_nothing() -> None:
    class Looks(Block):
        def fits(self, context: Any) -> float:
            return float(context.intention == "sleep at home-1")

        async def forward(self) -> str:
            assert self.agent.llm is None
            return f"slept {self.agent.draws.below(1, 'hours')}"

    plan = [{"do": "sleep", "where": "home-1"}]
    citizen = CitizenAgent(7, memory=CitizenMemory({"plan": plan, "now": 0}), blocks=[Looks()])
    assert asyncio.run(citizen.run()) == "slept 0"
    with NativeSpace() as space:
        space.add(citizen)
        with pytest.raises(NotInSpace, match="agent 7 cannot want: it is not in a Society"):
            citizen.want(Move("work"))
    for _ in range(9):
        asyncio.run(citizen.run())
    draws = citizen.draws
    assert citizen.draws is draws
    citizen.perceived = Perception(View(step=3), "7", citizen.status)
    assert citizen.draws.integer("hours") != draws.integer("hours")
    citizen.status["now"] = 5
    assert asyncio.run(citizen.run()) is None
    assert [each.block for each in citizen.dispatcher.decisions] == [*["Looks"] * 9, None]


async def test_agent_with_threads_has_one_memory_in_a_society() -> None:
    model = ScriptedModel(["Hello.", "Hello again."])
    clerk = ReActAgent("clerk", model)
    one, two = Noting("one"), Noting("two")
    agents: list[Agent] = [clerk, one, two]
    async with Society(agents) as society:
        one.send(said("clerk", content="I am one."))
        two.send(said("clerk", content="I am two."))
        await society.run(steps=2)
        answers = {args["content"] for _, _, args in one.heard + two.heard}
    assert answers == {"Hello.", "Hello again."}
    assert all(f"I am {each}." in str(model.received[1]) for each in ("one", "two"))


def test_agent_that_leaves_a_society_has_a_thread_for_each_sender_again() -> None:
    model = ScriptedModel(["Hello."] * 4)
    clerk = ReActAgent("clerk", model)
    one, two = Noting("one"), Noting("two")
    with Society([clerk, one, two]) as society:
        one.send(said("clerk", content="I am one."))
        society.run_sync(steps=2)
    with NativeSpace() as space:
        for agent in (clerk, one, two):
            space.add(agent)
        one.ask("clerk", "say", content="It is one again.").result(30)
        two.ask("clerk", "say", content="I am two.").result(30)
    assert "one" not in str(model.received[2])
