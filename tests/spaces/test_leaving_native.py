"""An agent leaves a space in one process: what others keep of it, and what that costs."""

from __future__ import annotations

import time
from typing import Any

from moothall import Agent, NativeSpace, ReActAgent, ScriptedModel

WAIT_S = 20


def test_native_space_removal_costs_no_more_beside_many_agents_that_reply() -> None:
    def cost(bystanders: int) -> float:
        with NativeSpace() as space:
            for number in range(bystanders):
                space.add(ReActAgent(f"stays-{number}", ScriptedModel([])))
            leaving = [space.add(ReActAgent(f"leaves-{n}", ScriptedModel([]))) for n in range(300)]
            begun = time.process_time()
            for each in leaving:
                space.remove(each)
            return time.process_time() - begun

    cost(0)  # what is imported once
    assert cost(3_000) < 5 * cost(0)


def test_native_space_loaded_state_drops_the_threads_of_a_leaving_agent() -> None:
    def reader(*answers: str) -> ReActAgent:
        return ReActAgent("reader", ScriptedModel([*answers]))

    with NativeSpace() as space:
        before = space.add(reader("heard", "heard"))
        for id in ("Ada/Ann", "Bob"):
            space.add(Agent(id)).ask("reader", "say", content=f"secret of {id}").result(WAIT_S)
        state: dict[str, Any] = before.state_dict()
        space.remove("reader")
        space.remove("Ada/Ann")
        space.remove("Bob")
        after = reader()
        after.load_state_dict(state)
        space.add(after)
        assert "secret of Ada/Ann" in str(after.state_dict())
        space.remove(space.add(Agent("Ada/Ann")))
        assert "secret of Ada/Ann" not in str(after.state_dict())
        after.load_state_dict(state)
        space.remove(space.add(Agent("Bob")))
        assert "secret of Bob" not in str(after.state_dict())
        assert "secret of Ada/Ann" in str(after.state_dict())
