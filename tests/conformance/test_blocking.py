"""Actions that block, never return, or wait for each other in threads: others go on."""

import asyncio
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Kept, Recorder, message
from conformance.gate import LATE_S, Doer, Gate, Holder, handling
from moothall import Agent, action
from moothall.foundation.errors import RequestTimeout


@pytest.mark.parametrize("form", ("hold", "hold_plainly", "hold_stubbornly"))
def test_action_that_never_returns_holds_up_only_its_agent(space: Any, form: str) -> None:
    holder = space.add(Holder("holder"))
    space.add(Doer("other"))
    me = space.add(Recorder("me"))
    never = me.request(message("holder", form), timeout=0.2)
    me.send(message("holder", form, name="two"))
    holder.begun.wait_for(1)
    for n in range(50):
        assert me.ask("other", "echo", value=n).result(timeout=WAIT_S) == n
    with pytest.raises(RequestTimeout):
        never.result(timeout=WAIT_S)
    holder.gate("one").open()
    holder.gate("two").open()
    assert me.told(1) == [("response", {"data": "two", "original_message_id": None})]


def test_forty_def_actions_that_block_starve_nobody(space: Any) -> None:
    holders = [space.add(Holder(f"holder {i}")) for i in range(40)]
    other = space.add(Holder("other"))
    space.add(Doer("doer", None, lambda agent, value: value))
    me = space.add(Agent("me"))
    requests = [me.ask(holder.id, "hold_plainly") for holder in holders]
    for holder in holders:
        holder.begun.wait_for(1)
    assert me.ask("other", "note", name="x").result(timeout=WAIT_S) == "x"
    for n in range(10):
        assert me.ask("doer", "do_plainly", value=n).result(timeout=WAIT_S) == n
    assert all(handling(space, holder.id) == ["hold_plainly"] for holder in holders)
    assert not any(request.done() for request in requests)
    for holder in holders:
        holder.gate("one").open()
    assert [each.result(timeout=WAIT_S) for each in requests] == ["one"] * 40
    assert other.ended == ["x done"]


def test_forty_def_callbacks_that_block_starve_nobody(space: Any) -> None:
    gate, begun = Gate(), Kept[str]()

    class Careful(Holder):
        def before_action(self, message: dict[str, Any]) -> None:
            begun.add(str(self.id))
            gate.wait()

    holders = [space.add(Careful(f"holder {i}")) for i in range(40)]
    space.add(Doer("doer", None, lambda agent, value: value))
    me = space.add(Agent("me"))
    requests = [me.ask(holder.id, "note", name="x") for holder in holders]
    begun.wait_for(40)
    assert me.ask("doer", "do_plainly", value=1).result(timeout=WAIT_S) == 1
    gate.open()
    assert [each.result(timeout=WAIT_S) for each in requests] == ["x"] * 40


def test_def_actions_that_wait_for_def_actions(space: Any) -> None:
    def along(agent: Agent, value: int) -> Any:
        if value == 0:
            return [agent.id]
        rest = agent.ask(f"doer {value - 1}", "do_plainly", value=value - 1)
        return [agent.id, *rest.result(timeout=WAIT_S)]

    for i in range(6):
        space.add(Doer(f"doer {i}", None, along))
    me = space.add(Agent("me"))
    requests = [me.ask("doer 5", "do_plainly", value=5) for _ in range(5)]
    for request in requests:
        assert request.result(timeout=WAIT_S) == [f"doer {i}" for i in range(5, -1, -1)]


def test_def_action_that_asks_an_agent_that_asks_back_ends(space: Any) -> None:
    def there_and_back(agent: Agent, value: Any) -> Any:
        if value == 3:
            return "end"
        other = "B" if agent.id == "A" else "A"
        return agent.ask(other, "do_plainly", value=value + 1).result(timeout=WAIT_S)

    space.add(Doer("A", None, there_and_back))
    space.add(Doer("B", None, there_and_back))
    me = space.add(Agent("me"))
    for _ in range(5):
        assert me.ask("A", "do_plainly", value=0).result(timeout=WAIT_S) == "end"


def test_def_chains_go_many_at_once(space: Any) -> None:
    def ask(agent: Agent, value: int) -> Any:
        if value == 0:
            return 0
        return 1 + agent.ask("hub", "do_plainly", value=value - 1).result(timeout=WAIT_S)

    space.add(Doer("hub", None, ask, concurrency=8))
    for i in range(20):
        space.add(Doer(f"doer {i}", None, ask))
    me = space.add(Agent("me"))
    requests = [me.ask(f"doer {i}", "do_plainly", value=4) for i in range(20)]
    assert [each.result(timeout=WAIT_S) for each in requests] == [4] * 20


def test_result_with_a_timeout_in_a_def_action_lets_its_chain_in_only_meanwhile(
    space: Any,
) -> None:
    order: Kept[str] = Kept()
    go, end = Gate(), Gate()

    class Home(Doer):
        @action
        async def back(self) -> str:
            order.add("back")
            return "back"

    def outer(agent: Agent, value: Any) -> Any:
        request = agent.ask("B", "do")
        try:
            request.result(timeout=0.05)
        except TimeoutError:
            order.add("late")
        go.open()
        end.wait()
        order.add("waits again")
        return request.result(timeout=WAIT_S)

    async def back(agent: Agent, value: Any) -> Any:
        await go
        return await agent.ask("A", "back")

    space.add(Home("A", None, outer))
    space.add(Doer("B", back))
    me = space.add(Agent("me"))
    request = me.ask("A", "do_plainly")
    order.wait_for(1)
    while space.statistics()["agents"]["A"]["waiting"] == 0:
        me.ask("me", "help").result(timeout=WAIT_S)
    assert order == ["late"]
    end.open()
    assert request.result(timeout=WAIT_S) == "back"
    assert order == ["late", "waits again", "back"]


def test_wait_given_up_on_a_loop_of_its_own_lets_its_chain_in_no_more(space: Any) -> None:
    order: Kept[str] = Kept()
    end = Gate()

    class Home(Doer):
        @action
        async def back(self) -> str:
            order.add("back")
            return "back"

    async def give_up(agent: Agent) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.ask("C", "hold"), 0.05)

    def outer(agent: Agent, value: Any) -> Any:
        asyncio.run(give_up(agent))
        request = agent.ask("B", "do")
        order.add("asked")
        end.wait()
        order.add("waits")
        return request.result(timeout=WAIT_S)

    async def back(agent: Agent, value: Any) -> Any:
        return await agent.ask("A", "back")

    space.add(Home("A", None, outer))
    space.add(Doer("B", back))
    space.add(Holder("C"))
    me = space.add(Agent("me"))
    request = me.ask("A", "do_plainly")
    order.wait_for(1)
    while space.statistics()["agents"]["A"]["waiting"] == 0 and order == ["asked"]:
        me.ask("me", "help").result(timeout=WAIT_S)
    end.open()
    assert request.result(timeout=WAIT_S) == "back"
    assert order == ["asked", "waits", "back"]


def test_async_actions_that_wait_hold_up_nobody(space: Any) -> None:
    holders = [space.add(Holder(f"holder {i}")) for i in range(200)]
    me = space.add(Agent("me"))
    requests = [me.ask(holder.id, "hold") for holder in holders]
    for holder in holders:
        holder.begun.wait_for(1)
    space.add(Doer("doer"))
    assert me.ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1
    for holder in holders:
        holder.gate("one").open()
    assert [each.result(timeout=WAIT_S) for each in requests] == ["one"] * 200


async def test_blocked_def_actions_whose_requests_have_ended_are_seen(space: Any) -> None:
    holders = [space.add(Holder(f"holder {i}")) for i in range(5)]
    me = space.add(Agent("me"))
    asked = (me.request(message(h.id, "hold_plainly"), timeout=LATE_S) for h in holders)
    assert [type(each) for each in (await asyncio.gather(*asked, return_exceptions=True))] == [
        RequestTimeout
    ] * 5
    assert all(handling(space, holder.id) == ["hold_plainly"] for holder in holders)
    assert space.statistics()["deadlines"] == 0
    for holder in holders:
        holder.gate("one").open()
    for holder in holders:
        assert me.ask(holder.id, "note", name="x").result(timeout=WAIT_S) == "x"
        assert handling(space, holder.id) == []
