"""Calls that come back: what is let into an agent while it waits, and what is not."""

import asyncio
import threading
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Kept, message, settle, waits
from conformance.gate import Doer, Gate, Holder, handling
from moothall import Agent, action
from moothall.foundation.errors import ActionError, RequestTimeout


class Chain(Agent):
    """Calls along a list of agents, back to itself too."""

    def __init__(self, id: str, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self.seen: Kept[list[str]] = Kept()

    @action
    async def along(self, path: list[str]) -> str:
        self.seen.add(path)
        if not path:
            return str(self.id)
        return str(self.id) + await self.ask(path[0], "along", path=path[1:])

    @action
    def along_plainly(self, path: list[str]) -> str:
        self.seen.add(path)
        if not path:
            return str(self.id)
        answer = self.ask(path[0], "along_plainly", path=path[1:]).result(timeout=WAIT_S)
        return str(self.id) + answer

    @action
    async def along_by_turns(self, path: list[str]) -> str:
        self.seen.add(path)
        if not path:
            return str(self.id)
        form = "along_plainly" if len(path) % 2 else "along_by_turns"
        return str(self.id) + await self.ask(path[0], form, path=path[1:])

    @action
    async def down(self, n: int) -> int:
        return 0 if n == 0 else 1 + await self.ask(self.id, "down", n=n - 1)

    @action
    def down_plainly(self, n: int) -> int:
        if n == 0:
            return 0
        return 1 + self.ask(self.id, "down_plainly", n=n - 1).result(timeout=WAIT_S)


@pytest.mark.parametrize(
    ("form", "path"),
    (
        *(("along", each) for each in ("ABA", "AA", "ABCABCA")),
        *(("along_plainly", each) for each in ("ABA", "AA", "ABCCBA")),
        *(("along_by_turns", each) for each in ("ABCA", "AAA", "ABABABAB")),
    ),
)
def test_chain_that_comes_back_is_let_in(space: Any, form: str, path: str) -> None:
    for id in sorted(set(path)):
        space.add(Chain(id))
    me = space.add(Agent("me"))
    request = me.ask(path[0], form, path=list(path[1:]))
    assert request.result(timeout=WAIT_S) == path
    assert all(not each["handling"] for each in space.statistics()["agents"].values())


@pytest.mark.parametrize("form", ("along", "along_plainly"))
def test_chain_of_five_agents_answers(space: Any, form: str) -> None:
    for id in "ABCDE":
        space.add(Chain(id))
    me = space.add(Agent("me"))
    assert me.ask("A", form, path=list("BCDE")).result(timeout=WAIT_S) == "ABCDE"


@pytest.mark.parametrize("form", ("down", "down_plainly"))
def test_chain_of_32_calls_works_where_33_are_an_error(space: Any, form: str) -> None:
    space.add(Chain("A"))
    me = space.add(Agent("me"))
    assert me.ask("A", form, n=31).result(timeout=WAIT_S) == 31
    with pytest.raises(ActionError) as deep:
        me.ask("A", form, n=32).result(timeout=WAIT_S)
    assert "32" in str(deep.value)
    assert me.ask("A", form, n=3).result(timeout=WAIT_S) == 3
    assert handling(space, "A") == []


def test_chain_over_the_limit_is_an_action_error_for_the_last_caller(space: Any) -> None:
    kinds: Kept[Any] = Kept()

    async def down(agent: Agent, value: int) -> Any:
        try:
            return await agent.ask("A", "do", value=value + 1)
        except ActionError as error:
            kinds.add([value, error.type])
            return value

    space.add(Doer("A", down))
    me = space.add(Agent("me"))
    assert me.ask("A", "do", value=1).result(timeout=WAIT_S) == 32
    assert kinds == [[32, "HopLimitExceeded"]]


def test_chain_limit_holds_across_agents(space: Any) -> None:
    for id in "ABC":
        space.add(Chain(id))
    me = space.add(Agent("me"))
    path = list("ABC" * 11)[:32]
    assert me.ask(path[0], "along", path=path[1:]).result(timeout=WAIT_S) == "".join(path)
    with pytest.raises(ActionError):
        me.ask(path[0], "along", path=[*path[1:], "A"]).result(timeout=WAIT_S)


def test_chain_task_left_running_starts_a_chain_of_its_own(space: Any) -> None:
    """Nobody waits in it: agents may hand each other work like that for ever."""
    done: Kept[int] = Kept()

    class Worker(Agent):
        @action
        async def work(self, number: int) -> None:
            done.add(number)
            self.task = asyncio.create_task(self.next(number + 1))

        async def next(self, number: int) -> None:
            await asyncio.sleep(0)
            if number <= 40:
                await self.ask("worker", "work", number=number)

    space.add(Worker("worker"))
    space.add(Agent("me")).ask("worker", "work", number=1).result(timeout=10)
    assert done.wait_for(40) == [*range(1, 41)]


def test_send_starts_a_chain_of_its_own(space: Any) -> None:
    rounds: Kept[int] = Kept()

    async def pass_on(agent: Agent, value: int) -> None:
        rounds.add(value)
        if value < 100:
            agent.send(message("B" if agent.id == "A" else "A", "do", value=value + 1))

    space.add(Doer("A", pass_on))
    space.add(Doer("B", pass_on))
    me = space.add(Agent("me"))
    me.send(message("A", "do", value=1))
    assert rounds.wait_for(100) == list(range(1, 101))


def test_chain_message_sent_without_waiting_is_not_in_the_chain(space: Any) -> None:
    order: Kept[str] = Kept()

    async def note(agent: Agent, value: Any) -> Any:
        order.add(value)
        return value

    async def start(agent: Agent, value: Any) -> Any:
        agent.send(message("A", "do", value="sent"))
        agent.send(message("B", "do", value="sent to B"))
        back = await agent.ask("B", "back", value="asked")
        order.add("end")
        return back

    class Back(Doer):
        @action
        async def back(self, value: Any = None) -> Any:
            return await self.ask("A", "echo", value=value)

    class First(Doer):
        @action
        async def start(self) -> Any:
            return await start(self, None)

        @action
        async def echo(self, value: Any = None) -> Any:
            order.add(value)
            return value

    space.add(First("A", note))
    space.add(Back("B", note))
    me = space.add(Agent("me"))
    assert me.ask("A", "start").result(timeout=WAIT_S) == "asked"
    order.wait_for(4)
    mine = [each for each in order if each != "sent to B"]
    assert mine == ["asked", "end", "sent"]


def test_calls_of_one_chain_are_let_in_one_at_a_time(space: Any) -> None:
    begun: Kept[int] = Kept()
    gates = {1: Gate(), 2: Gate()}
    inside: list[int] = []

    async def outer(agent: Agent, value: Any) -> Any:
        return await asyncio.gather(agent.ask("B", "do", value=1), agent.ask("C", "do", value=2))

    class Home(Doer):
        @action
        async def back(self, value: int) -> int:
            assert not inside
            inside.append(value)
            begun.add(value)
            await gates[value]
            inside.remove(value)
            return value

    async def back(agent: Agent, value: Any) -> Any:
        return await agent.ask("A", "back", value=value)

    space.add(Home("A", outer))
    space.add(Doer("B", back))
    space.add(Doer("C", back))
    me = space.add(Agent("me"))
    request = me.ask("A", "do")
    begun.wait_for(1)
    settle(me, space.add(Agent("you")))
    while space.statistics()["agents"]["A"]["waiting"] == 0:
        settle(me)  # until the second has come back
    assert sorted(handling(space, "A")) == ["back", "do"]
    assert len(begun) == 1
    gates[begun[0]].open()
    begun.wait_for(2)
    gates[begun[1]].open()
    assert request.result(timeout=WAIT_S) == [1, 2]


@pytest.mark.parametrize("form", ("do", "do_plainly"))
def test_chain_is_not_let_in_while_its_handler_waits_for_something_else(
    space: Any, form: str
) -> None:
    order: Kept[str] = Kept()
    gate = Gate()

    class Home(Doer):
        @action
        async def back(self) -> str:
            order.add("back")
            return "back"

    async def outer(agent: Agent, value: Any) -> Any:
        await agent.ask("B", "echo")  # this wait is over then
        request = agent.ask("B", "do")
        order.add("waits")
        await gate
        order.add("goes on")
        return await request

    def outer_plainly(agent: Agent, value: Any) -> Any:
        agent.ask("B", "echo").result(timeout=WAIT_S)
        request = agent.ask("B", "do")
        order.add("waits")
        gate.wait()
        order.add("goes on")
        return request.result(timeout=WAIT_S)

    async def back(agent: Agent, value: Any) -> Any:
        return await agent.ask("A", "back")

    space.add(Home("A", outer, outer_plainly))
    space.add(Doer("B", back))
    me = space.add(Agent("me"))
    request = me.ask("A", form)
    order.wait_for(1)
    while space.statistics()["agents"]["A"]["waiting"] == 0:
        settle(me)  # until B's call has come back
    assert order == ["waits"]
    gate.open()
    assert request.result(timeout=WAIT_S) == "back"
    assert order == ["waits", "goes on", "back"]


def test_messages_of_other_chains_wait_meanwhile(space: Any) -> None:
    order: Kept[str] = Kept()
    gate = Gate()

    class Home(Doer):
        @action
        async def back(self) -> str:
            order.add("back")
            return "back"

        @action
        async def other(self) -> str:
            order.add("other")
            return "other"

    async def outer(agent: Agent, value: Any) -> Any:
        value = await agent.ask("B", "do")
        order.add("end")
        return value

    async def back(agent: Agent, value: Any) -> Any:
        order.add("B")
        await gate
        return await agent.ask("A", "back")

    space.add(Home("A", outer))
    space.add(Doer("B", back))
    me = space.add(Agent("me"))
    you = space.add(Agent("you"))
    request = me.ask("A", "do")
    order.wait_for(1)
    others = [you.ask("A", "other"), me.ask("A", "other")]
    while space.statistics()["agents"]["A"]["waiting"] < 2:
        me.ask("me", "help").result(timeout=WAIT_S)
    gate.open()
    assert request.result(timeout=WAIT_S) == "back"
    assert [each.result(timeout=WAIT_S) for each in others] == ["other"] * 2
    assert order == ["B", "back", "end", "other", "other"]


def test_chain_reentrant_call_ends_before_the_next_message(space: Any) -> None:
    # The handler that waited is cancelled; what was let in runs in a thread, which nothing stops.
    gate = Gate()
    begun: Kept[str] = Kept()

    class Home(Doer):
        @action
        def back(self) -> str:
            begun.add("back")
            gate.wait()
            begun.add("back ended")
            return "back"

        @action
        async def note(self) -> str:
            begun.add("note")
            return "note"

    async def outer(agent: Agent, value: Any) -> Any:
        return await agent.ask("B", "do")

    async def back(agent: Agent, value: Any) -> Any:
        return await agent.ask("A", "back")

    space.add(Home("A", outer))
    space.add(Doer("B", back))
    me = space.add(Agent("me"))
    request = me.ask("A", "do")
    begun.wait_for(1)
    request.cancel()
    with pytest.raises(RequestTimeout):
        me.request(message("A", "note"), timeout=0.3).result(timeout=WAIT_S)
    while handling(space, "A") != ["back"]:
        settle(me)  # until word has come that nobody waits for the other
    assert begun == ["back"]
    gate.open()
    assert me.ask("A", "note").result(timeout=WAIT_S) == "note"
    assert begun == ["back", "back ended", "note"]


def test_chain_is_let_in_while_its_handler_waits_by_to_thread(space: Any) -> None:
    class Home(Doer):
        @action
        async def back(self) -> str:
            return "back"

    async def outer(agent: Agent, value: Any) -> Any:
        return await asyncio.to_thread(lambda: agent.ask("B", "do").result(timeout=WAIT_S))

    async def back(agent: Agent, value: Any) -> Any:
        return await agent.ask("A", "back")

    space.add(Home("A", outer))
    space.add(Doer("B", back))
    me = space.add(Agent("me"))
    assert me.ask("A", "do").result(timeout=WAIT_S) == "back"


@pytest.mark.parametrize("late", (False, True))
def test_chain_is_let_in_while_a_def_action_awaits_on_a_loop_of_its_own(
    space: Any, late: bool
) -> None:
    asked = Gate()

    class Home(Doer):
        @action
        async def back(self) -> str:
            return "back"

    async def wait(request: Any) -> Any:
        return await request

    def outer(agent: Agent, value: Any) -> Any:
        request = agent.ask("B", "do")
        if late:
            asked.wait()
        return asyncio.run(wait(request))

    async def back(agent: Agent, value: Any) -> Any:
        request = agent.ask("A", "back")
        asked.open()
        return await request

    space.add(Home("A", None, outer))
    space.add(Doer("B", back))
    me = space.add(Agent("me"))
    assert me.ask("A", "do_plainly").result(timeout=WAIT_S) == "back"


@pytest.mark.parametrize("late", (False, True))
@pytest.mark.parametrize("form", ("do", "do_plainly"))
def test_chain_through_another_space_comes_back(make_space: Any, form: str, late: bool) -> None:
    here, there = make_space(), make_space()
    asked = Gate()
    threads: Kept[int] = Kept()

    class Home(Doer):
        @action
        async def back(self) -> str:
            threads.add(threading.get_ident())
            return "back"

        @action
        async def thread(self) -> None:
            threads.add(threading.get_ident())

    async def outer(agent: Agent, value: Any) -> Any:
        request = envoy.ask("B", "do")
        if late:
            await asked
        return await request

    def outer_plainly(agent: Agent, value: Any) -> Any:
        request = envoy.ask("B", "do")
        if late:
            asked.wait()
        return request.result(timeout=WAIT_S)

    async def back(agent: Agent, value: Any) -> Any:
        request = resident.ask("A", "back")
        asked.open()
        return await request

    here.add(Home("A", outer, outer_plainly))
    resident = here.add(Agent("resident"))
    there.add(Doer("B", back))
    envoy = there.add(Agent("envoy"))
    for _ in range(3):
        request = resident.request(message("A", form), timeout=5)
        assert request.result(timeout=WAIT_S) == "back"
    resident.ask("A", "thread").result(timeout=WAIT_S)
    assert len(set(threads)) == 1, "an agent ran outside of its own space's loop"


@pytest.mark.parametrize("opened", ("before", "after"))
def test_chain_may_take_the_second_place_where_there_is_room_for_two(
    space: Any, opened: str
) -> None:
    # Its own call is a message like any other where another message would be handled too.
    gate = Gate()

    class Home(Doer):
        @action
        async def release(self) -> None:
            gate.open()

    async def outer(agent: Agent, value: Any) -> Any:
        request = agent.ask("A", "release")
        if opened == "after":
            await gate
        await request
        return "done"

    space.add(Home("A", outer, concurrency=2))
    me = space.add(Agent("me"))
    assert me.request(message("A", "do"), timeout=3).result(timeout=WAIT_S) == "done"


def test_chain_whose_middle_fails_leaves_nobody_waiting(space: Any) -> None:
    class Home(Doer):
        @action
        async def back(self) -> str:
            raise ValueError("inner")

    async def outer(agent: Agent, value: Any) -> Any:
        try:
            return await agent.ask("B", "do")
        except ActionError as error:
            return error.text

    async def back(agent: Agent, value: Any) -> Any:
        return await agent.ask("A", "back")

    space.add(Home("A", outer))
    space.add(Doer("B", back))
    me = space.add(Agent("me"))
    assert "inner" in me.ask("A", "do").result(timeout=WAIT_S)
    assert me.ask("A", "echo", value=1).result(timeout=WAIT_S) == 1


def test_callbacks_may_ask_and_be_asked_back(space: Any) -> None:
    class Home(Doer):
        def __init__(self, id: str) -> None:
            super().__init__(id)
            self.heard: list[str] = []

        async def after_add(self) -> None:
            self.heard.append(await self.ask("B", "do", value="added"))

        async def before_action(self, message: dict[str, Any]) -> None:
            if message["action"]["name"] == "start":
                self.heard.append(await self.ask("B", "do", value="before"))

        async def after_action(self, message: dict[str, Any], *_: Any) -> None:
            if message["action"]["name"] == "start":
                self.heard.append(await self.ask("B", "do", value="after"))

        async def before_remove(self) -> None:
            self.heard.append(await self.ask("B", "do", value="removed"))

        @action
        async def start(self) -> None:
            pass

    async def back(agent: Agent, value: Any) -> Any:
        return await agent.ask("A", "echo", value=value)

    space.add(Doer("B", back))
    home = space.add(Home("A"))
    me = space.add(Agent("me"))
    me.ask("A", "start").result(timeout=WAIT_S)
    space.remove("A")
    assert home.heard == ["added", "before", "after", "removed"]


class Store(Agent):
    """Reads, asks, and writes: what comes in between is lost."""

    total = 0

    @action
    async def deposit(self, n: int) -> int:
        before = self.total
        await self.ask("audit", "note", n=n)
        self.total = before + n
        return self.total

    @action
    def deposit_plainly(self, n: int) -> int:
        before = self.total
        self.ask("audit", "note", n=n).result(timeout=WAIT_S)
        self.total = before + n
        return self.total


class Audit(Agent):
    """Notes, and lets the next come only when told to."""

    def __init__(self, id: str) -> None:
        super().__init__(id, concurrency=10)
        self.noted: Kept[int] = Kept()
        self.gates = {n: Gate() for n in (1, 2, 3)}

    @action
    async def note(self, n: int) -> None:
        self.noted.add(n)
        await self.gates[n]


@pytest.mark.parametrize("form", ("deposit", "deposit_plainly"))
def test_requests_side_by_side_in_one_chain_are_handled_one_at_a_time(
    space: Any, form: str
) -> None:
    # Only what a waiting handler's own requests led to is let in: the others are no less separate
    # for having been asked by the same one.
    async def pay(agent: Agent, value: Any) -> Any:
        return await asyncio.gather(*(agent.ask("store", form, n=n) for n in (1, 2, 3)))

    audit = space.add(Audit("audit"))
    store = space.add(Store("store"))
    space.add(Doer("boss", pay))
    me = space.add(Agent("me"))
    paid = me.ask("boss", "do")
    for n in (1, 2, 3):
        audit.noted.wait_for(n)
        assert waits(space, "store", 3 - n)
        assert audit.noted == list(range(1, n + 1))
        assert space.statistics()["agents"]["store"] == {
            "waiting": 3 - n,
            "handling": [form],
            "asking": 0,
        }
        audit.gates[n].open()
    assert paid.result(timeout=WAIT_S) == [1, 3, 6]
    assert store.total == 6


@pytest.mark.parametrize("ids", ("AB", "ABCD"))
@pytest.mark.parametrize("concurrency", (1, 2))
@pytest.mark.parametrize("form", ("do", "do_plainly"))
def test_agents_that_wait_for_each_other_get_a_deadlock_and_go_on(
    space: Any, ids: str, concurrency: int, form: str
) -> None:
    begun, together = threading.Semaphore(0), Gate()

    async def ask(agent: Agent, to: str) -> Any:
        begun.release()
        await together
        return await agent.ask(to, "echo", value=agent.id)

    def ask_plainly(agent: Agent, to: str) -> Any:
        begun.release()
        together.wait()
        return agent.ask(to, "echo", value=agent.id).result()

    for id in ids:
        space.add(Doer(id, ask, ask_plainly, concurrency=concurrency))
    me = space.add(Agent("me"))
    asked = [
        me.ask(id, form, value=to)
        for _ in range(concurrency)
        for id, to in zip(ids, ids[1:] + ids[0], strict=True)
    ]
    for _ in asked:
        assert begun.acquire(timeout=WAIT_S)
    together.open()
    ended = []
    for each in asked:
        try:
            ended.append(each.result(timeout=WAIT_S))
        except ActionError as error:
            ended.append(f"{error.type}: {'wait for each other' in str(error)}")
    assert {*ended} <= {"Deadlock: True", *ids}
    assert 0 < ended.count("Deadlock: True") < len(ended)
    assert me.ask("A", "echo", value="after").result(timeout=WAIT_S) == "after"


@pytest.mark.parametrize("timeout", (300, None))
def test_deadlock_behind_an_agent_that_is_free_itself_is_found(
    space: Any, timeout: float | None
) -> None:
    begun, together = threading.Semaphore(0), Gate()

    async def pass_on(agent: Agent, value: Any) -> Any:
        return await agent.ask("C", "echo", timeout=timeout, value=value)

    async def ask(agent: Agent, to: str) -> Any:
        begun.release()
        await together
        return await agent.ask(to, "do" if to == "B" else "echo", timeout=timeout, value=agent.id)

    for id, of_id in (("A", ask), ("B", pass_on), ("C", ask), ("D", ask)):
        space.add(Doer(id, of_id, concurrency=4 if id == "B" else 1))
    me = space.add(Agent("me"))
    asked = []
    for id, to in ("DA", "AB", "CA"):
        asked.append(me.ask(id, "do", value=to))
        assert begun.acquire(timeout=WAIT_S)
    together.open()
    ended = [outcome(each) for each in asked]
    # D only waits behind those that wait for each other, although it was the first.
    assert sorted(each.startswith("Deadlock") for each in ended) == [False, False, True]
    assert ended[0] == "D"
    assert "D." not in "".join(ended)


def outcome(request: Any) -> str:
    try:
        return str(request.result(timeout=WAIT_S))
    except ActionError as error:
        return f"{error.type}: {error.text}"


def test_deadlock_that_the_end_of_another_request_leaves_is_found(space: Any) -> None:
    both_begin, begun = Gate(), threading.Semaphore(0)

    async def both(agent: Agent, to: str) -> Any:
        begun.release()
        await both_begin
        return await asyncio.gather(agent.ask("held", "hold"), agent.ask(to, "echo", value=1))

    held = space.add(Holder("held", concurrency=2))
    for id in "AB":
        space.add(Doer(id, both))
    me = space.add(Agent("me"))
    asked = [me.ask(id, "do", value=to) for id, to in ("AB", "BA")]
    for _ in asked:
        assert begun.acquire(timeout=WAIT_S)
    both_begin.open()
    held.begun.wait_for(2)
    held.gate("one").open()
    ended = [outcome(each) for each in asked]
    assert sorted(each.startswith("Deadlock") for each in ended) == [False, True]


def test_agent_that_waits_for_more_than_a_blocked_one_is_no_deadlock(space: Any) -> None:
    async def first_of_both(agent: Agent, value: Any) -> Any:
        asked = [asyncio.ensure_future(wait(agent.ask(to, "hold"))) for to in ("B", "C")]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    async def wait(request: Any) -> Any:
        return await request

    space.add(Doer("A", first_of_both))
    busy, free = space.add(Holder("B")), space.add(Holder("C"))
    me = space.add(Agent("me"))
    held = me.ask("B", "hold")
    busy.begun.wait_for(1)
    asked = me.ask("A", "do")
    free.begun.wait_for(1)
    free.gate("one").open()
    assert asked.result(timeout=WAIT_S) == "one"
    busy.gate("one").open()
    assert held.result(timeout=WAIT_S) == "one"
