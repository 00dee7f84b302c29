"""Requests from other loops and threads: servers, notebooks, scripts."""

import asyncio
import threading
from typing import Any

import pytest

from conformance.conftest import WAIT_S, message
from conformance.gate import Doer, Gate, Holder
from moothall import Agent
from moothall.foundation.errors import ActionError, RequestCancelled, RequestError


async def wait(request: Any) -> Any:
    return await request


def test_request_is_awaited_on_a_loop_of_the_callers_own(space: Any) -> None:
    space.add(Doer("doer", None, lambda agent, value: value))
    me = space.add(Agent("me"))

    async def main() -> Any:
        one = await me.ask("doer", "echo", value=1)
        two = await me.request(message("doer", "do_plainly", value=2))
        many = await asyncio.gather(*(me.ask("doer", "echo", value=n) for n in range(50)))
        with pytest.raises(ActionError):
            await me.ask("doer", "do")
        return [one, two, many]

    assert asyncio.run(main()) == [1, 2, list(range(50))]
    assert asyncio.run(main()) == [1, 2, list(range(50))]


async def test_result_works_within_a_running_loop_as_in_a_notebook(space: Any) -> None:
    space.add(Doer("doer"))
    # Plain calls in a cell, while the notebook's own loop runs.
    other = space.add(Doer("added in a cell"))
    me = space.add(Agent("me"))
    values = [me.ask("doer", "echo", value=1).result(timeout=WAIT_S)]
    values.append(await me.ask("added in a cell", "echo", value=2))
    me.send(message("doer", "echo", value=3))
    space.remove(other)
    space.remove(me)
    assert values == [1, 2]
    assert space.ids() == ["doer"]


async def test_agent_removed_within_a_running_loop_has_left(space: Any) -> None:
    space.add(Doer("doer"))
    for _ in range(50):
        other = space.add(Doer("other"))
        space.remove(other)
        assert space.ids() == ["doer"]
        assert other.space is None


def test_space_lives_within_a_running_loop(make_space: Any) -> None:
    async def main() -> Any:
        with make_space() as space:
            space.add(Doer("doer"))
            me = space.add(Agent("me"))
            return await me.ask("doer", "echo", value=1)

    assert asyncio.run(main()) == 1


def test_result_on_the_spaces_own_loop_raises(space: Any) -> None:
    space.add(Doer("other"))

    async def block(agent: Agent, value: Any) -> Any:
        request = agent.ask("other", "echo", value=1)
        try:
            request.result(timeout=WAIT_S)
        except RuntimeError as error:
            return [str(error), await request]
        return "it ended"

    space.add(Doer("doer", block))
    me = space.add(Agent("me"))
    text, value = me.ask("doer", "do").result(timeout=WAIT_S)
    assert "await" in text
    assert value == 1


def test_result_on_the_spaces_own_loop_gives_an_outcome_that_is_there(space: Any) -> None:
    space.add(Doer("other"))

    async def ask(agent: Agent, value: Any) -> Any:
        request = agent.ask("other", "echo", value=1)
        await request
        return request.result()

    space.add(Doer("doer", ask))
    me = space.add(Agent("me"))
    assert me.ask("doer", "do").result(timeout=WAIT_S) == 1


def test_cancelling_a_task_of_another_loop_cancels_the_action(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))

    async def main() -> str:
        task = asyncio.create_task(wait(me.ask("holder", "hold")))
        begun = Gate()
        threading.Thread(target=lambda: (holder.begun.wait_for(1), begun.open())).start()
        await begun
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "it ended"

    assert asyncio.run(main()) == "cancelled"
    assert holder.ended.wait_for(1) == ["one cancelled"]


def test_wait_for_on_another_loop_cancels_the_action(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))

    async def main() -> bool:
        try:
            await asyncio.wait_for(me.ask("holder", "hold"), 0.05)
        except TimeoutError as error:
            return not isinstance(error, RequestError)
        return False

    assert asyncio.run(main())
    holder.ended.wait_for(lambda ended: len(ended) == len(holder.begun))
    assert me.ask("holder", "note", name="x").result(timeout=WAIT_S) == "x"


def test_loop_that_ends_while_it_waits_for_a_request_leaves_the_space_alone(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    request = me.ask("holder", "hold")
    loop = asyncio.new_event_loop()
    task = loop.create_task(wait(request))
    loop.run_until_complete(asyncio.sleep(0))
    holder.begun.wait_for(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)

    other = me.ask("holder", "hold", name="two")
    loop = asyncio.new_event_loop()
    task = loop.create_task(wait(other))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()  # the task still waits, and nobody will ever wake it
    holder.gate("two").open()
    assert other.result(timeout=WAIT_S) == "two"
    coroutine = task.get_coro()
    coroutine.close()  # type: ignore[union-attr]
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    assert me.ask("holder", "note", name="x").result(timeout=WAIT_S) == "x"


def test_request_awaited_on_two_loops_and_in_a_thread_answers_all(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    request = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    values: list[Any] = []
    threads = [
        threading.Thread(target=lambda: values.append(asyncio.run(wait(request)))),
        threading.Thread(target=lambda: values.append(asyncio.run(wait(request)))),
        threading.Thread(target=lambda: values.append(request.result(timeout=WAIT_S))),
    ]
    for thread in threads:
        thread.start()
    holder.gate("one").open()
    for thread in threads:
        thread.join(WAIT_S)
    assert values == ["one"] * 3


def test_requests_from_loops_in_many_threads_each_find_their_answer(space: Any) -> None:
    space.add(Doer("doer", None, lambda agent, value: value))
    agents = [space.add(Agent(f"me {i}")) for i in range(8)]
    found: list[Any] = []

    async def main(me: Agent) -> Any:
        return await asyncio.gather(
            *(
                me.ask("doer", "echo" if n % 5 else "do_plainly", value=f"{me.id} {n}")
                for n in range(50)
            )
        )

    threads = [
        threading.Thread(target=lambda me=me: found.extend(asyncio.run(main(me)))) for me in agents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(found) == sorted(f"{me.id} {n}" for me in agents for n in range(50))


@pytest.mark.parametrize("form", ("do", "do_plainly"))
def test_agents_of_one_space_are_asked_in_handlers_of_another(make_space: Any, form: str) -> None:
    here, there = make_space(), make_space()
    there.add(Doer("far", None, lambda agent, value: value))
    envoy = there.add(Agent("envoy"))

    async def ask(agent: Agent, value: Any) -> Any:
        many = await asyncio.gather(*(envoy.ask("far", "echo", value=n) for n in range(20)))
        return [await envoy.ask("far", "do_plainly", value=value), many]

    def ask_plainly(agent: Agent, value: Any) -> Any:
        many = [envoy.ask("far", "echo", value=n) for n in range(20)]
        one = envoy.ask("far", "do_plainly", value=value).result(timeout=WAIT_S)
        return [one, [each.result(timeout=WAIT_S) for each in many]]

    for i in range(4):
        here.add(Doer(f"near {i}", ask, ask_plainly))
    me = here.add(Agent("me"))
    requests = [me.ask(f"near {i}", form, value=i) for i in range(4)]
    found = [each.result(timeout=WAIT_S) for each in requests]
    assert found == [[i, list(range(20))] for i in range(4)]


def test_cancelling_reaches_an_action_of_another_space(make_space: Any) -> None:
    here, there = make_space(), make_space()
    holder = there.add(Holder("holder"))
    envoy = there.add(Agent("envoy"))

    async def ask(agent: Agent, value: Any) -> Any:
        return await envoy.ask("holder", "hold")

    here.add(Doer("near", ask))
    me = here.add(Agent("me"))
    request = me.ask("near", "do")
    holder.begun.wait_for(1)
    request.cancel()
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)
    assert holder.ended.wait_for(1) == ["one cancelled"]


def test_closing_one_space_ends_what_another_asked_of_it(make_space: Any) -> None:
    here, there = make_space(), make_space()
    holder = there.add(Holder("holder"))
    envoy = there.add(Agent("envoy"))

    async def ask(agent: Agent, value: Any) -> Any:
        try:
            return await envoy.ask("holder", "hold")
        except RequestError as error:
            return type(error).__name__

    here.add(Doer("near", ask))
    me = here.add(Agent("me"))
    request = me.ask("near", "do")
    holder.begun.wait_for(1)
    there.close()
    assert request.result(timeout=WAIT_S) == "SpaceClosed"
    assert me.ask("near", "echo", value=1).result(timeout=WAIT_S) == 1
