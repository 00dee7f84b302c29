"""Agents come and go, spaces open and close, whatever is under way."""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conformance.conftest import (
    UNHURRIED,
    WAIT_S,
    Kept,
    Log,
    Recorder,
    message,
    settle,
    source_of,
)
from conformance.gate import Doer, Gate, Holder
from moothall import Agent, RuleApprover, action
from moothall.foundation.errors import (
    AgentNotFound,
    AgentStopped,
    DefinitionError,
    DuplicateAgent,
    InvalidMessage,
    NotInSpace,
    RequestError,
    SpaceClosed,
)


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Call functions in threads, all at once; gives what each returned or raised."""
    start = threading.Barrier(len(functions))
    found: list[Any] = [AssertionError("it did not return")] * len(functions)

    def call(i: int, function: Callable[[], Any]) -> None:
        start.wait(WAIT_S)
        try:
            found[i] = function()
        except Exception as error:
            found[i] = error

    threads = [
        threading.Thread(target=call, args=each, daemon=True) for each in enumerate(functions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    return found


# -- agents ----------------------------------------------------------------------------------------


def test_agent_may_come_again(space: Any) -> None:
    doer = space.add(Doer("doer"))
    me = space.add(Agent("me"))
    for n in range(3):
        assert me.ask("doer", "echo", value=n).result(timeout=WAIT_S) == n
        space.remove(doer)
        assert doer.space is None
        with pytest.raises(AgentNotFound):
            me.ask("doer", "echo").result(timeout=WAIT_S)
        with pytest.raises(NotInSpace):
            doer.ask("me", "help")
        with pytest.raises(AgentNotFound):
            space.remove(doer)
        space.add(doer)
    assert space.ids() == ["me", "doer"]


def test_space_add_takes_agents_and_not_their_classes(make_space: Any) -> None:
    with pytest.raises(DefinitionError, match=r"takes an agent, got .* make one, Doer\(id\)"):
        make_space().add(Doer)


def test_agent_is_in_one_space_at_a_time(make_space: Any) -> None:
    here, there = make_space(), make_space()
    doer = here.add(Doer("doer"))
    me = here.add(Agent("me"))
    with pytest.raises(DefinitionError, match="doer"):
        there.add(doer)
    assert there.ids() == []
    there.add(Doer("doer"))
    with pytest.raises(AgentNotFound, match="<Doer 'doer'> is not in this space"):
        there.remove(doer)
    assert there.ids() == ["doer"]
    there.remove("doer")
    assert me.ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1
    here.remove(doer)
    there.add(doer)
    assert (here.ids(), there.ids()) == (["me"], ["doer"])


def test_duplicate_id_under_load_leaves_the_first_agent_undisturbed(space: Any) -> None:
    first = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    held = me.ask("holder", "hold")
    first.begun.wait_for(1)
    waiting = [me.ask("holder", "note", name=str(n)) for n in range(50)]

    def again() -> None:
        for _ in range(20):
            space.add(Holder("holder"))

    found = in_threads(again, again, again)
    assert [type(each) for each in found] == [DuplicateAgent] * 3
    assert isinstance(found[0], ValueError)
    other = Holder("holder")
    with pytest.raises(ValueError, match="holder"):
        space.add(other)
    assert other.space is None
    first.gate("one").open()
    assert held.result(timeout=WAIT_S) == "one"
    assert [each.result(timeout=WAIT_S) for each in waiting] == [str(n) for n in range(50)]
    assert space.ids() == ["holder", "me"]


def test_add_of_one_id_by_many_at_once_succeeds_once(space: Any) -> None:
    agents = [Doer("doer") for _ in range(8)]
    found = in_threads(*(lambda agent=agent: space.add(agent) for agent in agents))
    added = [each for each in found if isinstance(each, Agent)]
    assert len(added) == 1
    assert sum(isinstance(each, DuplicateAgent) for each in found) == 7
    assert [agent for agent in agents if agent.space is space] == added
    me = space.add(Agent("me"))
    assert me.ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1


@pytest.mark.parametrize("form", ("hold", "hold_plainly", "hold_stubbornly"))
def test_removing_an_agent_ends_what_it_does_and_what_waits(space: Any, form: str) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Recorder("me"))
    running = me.ask("holder", form)
    holder.begun.wait_for(1)
    waiting = [me.ask("holder", "note", name=str(n)) for n in range(5)]
    me.send({"id": "sent", **message("holder", "note", name="sent")})
    space.remove("holder")
    for request in [running, *waiting]:
        with pytest.raises(AgentStopped, match="holder"):
            request.result(timeout=WAIT_S)
    ((name, args),) = me.told(1)
    assert (name, args["original_message_id"]) == ("error", "sent")
    if form == "hold":
        assert holder.ended.wait_for(1) == ["one cancelled"]
    holder.gate("one").open()
    holder.ended.wait_for(1)
    assert holder.begun == ["one"]
    assert space.ids() == ["me"]


@pytest.mark.parametrize("form", ("do", "do_plainly"))
@pytest.mark.parametrize("by_id", (True, False))
def test_action_that_removes_its_own_agent_finishes_and_answers(
    space: Any, form: str, by_id: bool
) -> None:
    async def leave(agent: Agent, value: Any) -> Any:
        space.remove("leaver" if by_id else agent)
        await asyncio.sleep(0)
        left = "leaver" not in space.ids()
        await gate
        return left

    def leave_plainly(agent: Agent, value: Any) -> Any:
        space.remove("leaver" if by_id else agent)
        gate.wait()
        return "leaver" not in space.ids()

    me = space.add(Recorder("me"))
    for _ in range(10):
        gate = Gate()
        space.add(Doer("leaver", leave, leave_plainly))
        request = me.ask("leaver", form)
        waiting = me.ask("leaver", "echo")
        with pytest.raises((AgentStopped, AgentNotFound)):
            waiting.result(timeout=WAIT_S)
        gate.open()
        assert request.result(timeout=WAIT_S) is True
    assert space.ids() == ["me"]


def test_def_action_may_remove_its_own_agent_while_others_send(space: Any) -> None:
    stop = threading.Event()

    def leave(agent: Agent, value: Any) -> Any:
        space.remove(agent)
        return "left"

    async def remove_other(agent: Agent, value: Any) -> Any:
        return "here"

    space.add(Doer("other", remove_other))
    senders = [space.add(Recorder(f"sender {i}")) for i in range(3)]

    def send(sender: Agent) -> None:
        while not stop.is_set():
            sender.ask("other", "do").result(timeout=WAIT_S)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    me = space.add(Agent("me"))
    found = []
    for _ in range(100):
        space.add(Doer("leaver", None, leave))
        try:
            found.append(me.ask("leaver", "do_plainly").result(timeout=WAIT_S))
        except RequestError as error:
            found.append(type(error).__name__)
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert found == ["left"] * 100


def test_action_that_removes_its_own_agent_answers_a_send_too(space: Any) -> None:
    async def leave(agent: Agent, value: Any) -> Any:
        space.remove(agent)
        return "left"

    space.add(Doer("leaver", leave))
    me = space.add(Recorder("me"))
    me.send(message("leaver", "do"))
    assert me.told(1) == [("response", {"data": "left", "original_message_id": None})]


@pytest.mark.parametrize("form", ("do", "do_plainly"))
def test_action_that_removes_another_agent_cancels_what_that_does(space: Any, form: str) -> None:
    holder = space.add(Holder("holder"))

    async def remove(agent: Agent, value: Any) -> Any:
        space.remove("holder")
        return space.ids()

    def remove_plainly(agent: Agent, value: Any) -> Any:
        space.remove("holder")
        return space.ids()

    space.add(Doer("remover", remove, remove_plainly))
    me = space.add(Agent("me"))
    held = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    assert me.ask("remover", form).result(timeout=WAIT_S) == ["remover", "me"]
    with pytest.raises(AgentStopped):
        held.result(timeout=WAIT_S)
    assert holder.ended.wait_for(1) == ["one cancelled"]


def test_agent_removed_by_the_agent_that_it_asks_ends_with_agent_stopped(space: Any) -> None:
    async def ask(agent: Agent, value: Any) -> Any:
        try:
            return await agent.ask("remover", "do")
        finally:
            ended.add("asker")

    async def remove(agent: Agent, value: Any) -> Any:
        space.remove("asker")
        await asyncio.sleep(0)
        return "removed"

    ended: Kept[str] = Kept()
    space.add(Doer("asker", ask))
    space.add(Doer("remover", remove))
    me = space.add(Agent("me"))
    with pytest.raises(AgentStopped):
        me.ask("asker", "do").result(timeout=WAIT_S)
    ended.wait_for(1)
    assert me.ask("remover", "echo", value=1).result(timeout=WAIT_S) == 1
    assert space.ids() == ["remover", "me"]


@pytest.mark.parametrize("form", ("do", "do_plainly"))
def test_action_may_add_an_agent_and_ask_it(space: Any, form: str) -> None:
    class Ready(Doer):
        ready = False

        async def after_add(self) -> None:
            await asyncio.sleep(0)
            self.ready = True

        @action
        async def is_ready(self) -> bool:
            return self.ready

    async def add(agent: Agent, value: Any) -> Any:
        space.add(Ready(value))
        return await agent.ask(value, "is_ready")

    def add_plainly(agent: Agent, value: Any) -> Any:
        space.add(Ready(value))
        return agent.ask(value, "is_ready").result(timeout=WAIT_S)

    space.add(Doer("adder", add, add_plainly))
    me = space.add(Agent("me"))
    for n in range(3):
        assert me.ask("adder", form, value=f"new {n}").result(timeout=WAIT_S) is True
    assert space.ids() == ["adder", "me", "new 0", "new 1", "new 2"]


def test_removals_of_one_agent_at_once_run_its_before_remove_once(space: Any) -> None:
    removed: Kept[str] = Kept()
    gate = Gate()

    class Leaver(Agent):
        async def before_remove(self) -> None:
            removed.add("x")
            await gate

    space.add(Leaver("leaver"))
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(in_threads(lambda: space.remove("leaver"))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    removed.wait_for(1)
    gate.open()
    for thread in threads:
        thread.join(WAIT_S)
    assert removed == ["x"]
    assert len(found) == 4
    assert all(each is None or isinstance(each, AgentNotFound) for (each,) in found)
    assert space.ids() == []


def test_before_remove_that_removes_its_own_agent_does_not_wait_for_itself(space: Any) -> None:
    class Leaving(Agent):
        def before_remove(self) -> None:
            self.space.remove(self)

    space.remove(space.add(Leaving("leaving")))
    assert space.ids() == []


@pytest.mark.parametrize("how", ("remove", "close"))
def test_after_add_that_never_ends_can_be_ended(space: Any, how: str) -> None:
    begun: Kept[str] = Kept()

    class Slow(Agent):
        async def after_add(self) -> None:
            begun.add("x")
            await Gate()

    def end() -> None:
        begun.wait_for(1)
        if how == "remove":
            space.remove("slow")
        else:
            space.close()

    added, ended = in_threads(lambda: space.add(Slow("slow")), end)
    assert ended is None
    assert isinstance(added, AgentStopped if how == "remove" else SpaceClosed)
    assert space.ids() == []


def test_before_remove_that_never_ends_holds_up_neither_close_nor_remove(
    space: Any, log: Log
) -> None:
    begun: Kept[str] = Kept()

    class Slow(Agent):
        async def before_remove(self) -> None:
            begun.add("x")
            await Gate()

    space.add(Slow("slow"))

    def close() -> None:
        begun.wait_for(1)
        space.close()

    removed, closed = in_threads(lambda: space.remove("slow"), close)
    assert closed is None
    log.wait_for("before_remove of slow took over 5.0 s: not waited for")
    assert removed is None or isinstance(removed, RequestError)
    assert space.ids() == []


# -- close -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("callback", (False, True))
def test_close_ends_each_waiting_request(make_space: Any, callback: bool) -> None:
    class Leaving(Holder):
        async def before_remove(self) -> None:
            pass

    space = make_space()
    holders = [space.add((Leaving if callback else Holder)(f"holder {i}")) for i in range(5)]
    me = space.add(Agent("me"))
    requests = []
    for holder, form in zip(
        holders, ["hold", "hold_plainly", "hold_stubbornly", "hold", "hold"], strict=True
    ):
        requests.append(me.ask(holder.id, form))
        holder.begun.wait_for(1)
        requests.extend(me.ask(holder.id, "note", name=str(n)) for n in range(20))
    space.close()
    assert all(request.done() for request in requests)
    for request in requests:
        with pytest.raises(SpaceClosed):
            request.result(timeout=WAIT_S)
    for holder in holders:
        assert holder.begun == ["one"]
        holder.gate("one").open()
    assert space.ids() == []


def test_closed_space_refuses_everything_and_its_agents_may_join_another(make_space: Any) -> None:
    space = make_space()
    doer = space.add(Doer("doer"))
    me = space.add(Agent("me"))
    space.close()
    space.close()
    assert space.ids() == []
    assert space.statistics() == {"agents": {}, "deadlines": 0}
    assert (me.space, doer.space) == (None, None)
    with pytest.raises(NotInSpace):
        me.ask("doer", "echo")
    with pytest.raises(NotInSpace):
        me.send(message("doer", "echo"))
    with pytest.raises(SpaceClosed):
        space.add(Doer("late"))
    with pytest.raises(AgentNotFound):
        space.remove("doer")
    for everywhere in (False, True):
        with pytest.raises(SpaceClosed):
            space.observe(print, everywhere=everywhere)
    other = make_space()
    other.add(doer)
    assert other.add(me).ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1


def test_space_that_was_never_used_closes(make_space: Any) -> None:
    space = make_space()
    assert space.ids() == []
    assert space.statistics() == {"agents": {}, "deadlines": 0}
    space.close()
    space.close()
    with pytest.raises(SpaceClosed):
        space.add(Agent("me"))


def test_closing_from_several_threads_at_once(make_space: Any) -> None:
    for _ in range(5):
        space = make_space()
        holder = space.add(Holder("holder"))
        me = space.add(Agent("me"))
        request = me.ask("holder", "hold")
        holder.begun.wait_for(1)
        assert in_threads(*[space.close] * 8) == [None] * 8
        with pytest.raises(SpaceClosed):
            request.result(timeout=WAIT_S)
        assert space.ids() == []


@pytest.mark.parametrize("form", ("do", "do_plainly"))
def test_closing_within_an_action(make_space: Any, form: str) -> None:
    space = make_space()
    ended: Kept[str] = Kept()

    async def close(agent: Agent, value: Any) -> Any:
        space.close()
        ended.add("closed")

    def close_plainly(agent: Agent, value: Any) -> Any:
        space.close()
        ended.add("closed")

    space.add(Doer("closer", close, close_plainly))
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    held = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    request = me.ask("closer", form)
    with pytest.raises(SpaceClosed):
        held.result(timeout=WAIT_S)
    try:
        assert request.result(timeout=WAIT_S) is None
    except SpaceClosed:
        assert form == "do_plainly"
    ended.wait_for(1)
    space.close()
    assert space.ids() == []


def test_requests_made_while_a_space_closes_have_an_outcome(make_space: Any) -> None:
    for _ in range(5):
        space = make_space()
        space.add(Doer("doer", None, lambda agent, value: value))
        agents = [space.add(Agent(f"me {i}")) for i in range(4)]
        made: Kept[Any] = Kept()

        def ask(me: Agent, made: Kept[Any] = made) -> str:
            n = 0
            while True:
                try:
                    made.add(me.ask("doer", "do_plainly" if n % 9 == 0 else "echo", value=n))
                    me.send(message("doer", "echo", value=n))
                except NotInSpace:
                    return "closed"
                n += 1
                if n % 20 == 0:
                    made[-1].result(timeout=WAIT_S)

        def close(space: Any = space, made: Kept[Any] = made) -> None:
            made.wait_for(100)
            space.close()

        *asked, closed = in_threads(*(lambda me=me: ask(me) for me in agents), close)
        assert closed is None
        assert all(each == "closed" or isinstance(each, SpaceClosed) for each in asked)
        for request in made:
            try:
                request.result(timeout=WAIT_S)
            except SpaceClosed:
                continue


def test_closing_leaves_nothing_half_done_behind(
    make_space: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # Tasks and threads that outlive the loop must not complain when they are found.
    space = make_space()
    holder = space.add(Holder("holder"))
    others = [space.add(Holder(f"other {i}")) for i in range(3)]
    me = space.add(Agent("me"))
    requests = [me.ask("holder", "hold_plainly")]
    requests += [me.ask("other 0", "hold"), me.ask("other 1", "hold_stubbornly")]
    requests += [me.ask("other 2", "note", name="x")]
    holder.begun.wait_for(1)
    for other in others:
        other.begun.wait_for(1)
    with caplog.at_level(logging.DEBUG):
        space.close()
        del requests
        gc.collect()
        holder.gate("one").open()
        holder.ended.wait_for(1)
        for other in others:
            other.gate("one").open()
        gc.collect()
        other_space = make_space()
        settle(other_space.add(Agent("a")), other_space.add(Agent("b")))
        gc.collect()
    loud = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert loud == []


def test_closing_waits_for_no_action_that_lets_itself_be_cancelled(make_space: Any) -> None:
    taken = []
    for _ in range(3):  # a machine that stands still for a moment does so once
        space = make_space()
        holders = [space.add(Holder(f"holder {i}")) for i in range(20)]
        me = space.add(Agent("me"))
        requests = [me.ask(holder.id, "hold") for holder in holders]
        for holder in holders:
            holder.begun.wait_for(1)
        began = time.monotonic()
        space.close()
        taken.append(time.monotonic() - began)
        for request, holder in zip(requests, holders, strict=True):
            assert holder.ended == ["one cancelled"]
            with pytest.raises(SpaceClosed):
                request.result(timeout=WAIT_S)
    assert min(taken) < 0.8


# -- several spaces, and the end of the program ----------------------------------------------------


def test_spaces_work_side_by_side_in_one_process(make_space: Any) -> None:
    spaces = [make_space() for _ in range(10)]
    for n, space in enumerate(spaces):
        space.add(Doer("doer"))
        assert space.add(Agent("me")).ask("doer", "echo", value=n).result(timeout=WAIT_S) == n
    for space in spaces[::2]:
        space.close()
    for n, space in enumerate(spaces):
        if n % 2:
            you = space.add(Agent("you"))
            assert you.ask("doer", "echo", value=n).result(timeout=WAIT_S) == n


def run(make_space: Any, body: str) -> tuple[tuple[int, str, str], float]:
    """Run a program with such a space, as `Space`, that it never closes.

    Returns:
        its exit code, what it wrote and what it complained of; how many seconds its exit took
    """
    program = f"""{UNHURRIED}
import asyncio, sys, threading, time
{source_of(make_space())}
from moothall import Agent, action

class Holder(Agent):
    @action
    async def hold(self) -> None:
        begun.set()
        await asyncio.Event().wait()
    @action
    def hold_plainly(self) -> None:
        begun.set()
        threading.Event().wait()
    @action
    async def hold_stubbornly(self) -> None:
        begun.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
    @action
    async def echo(self, value: int) -> int:
        return value

begun = threading.Event()
space = Space()
space.add(Holder("holder"))
me = space.add(Agent("me"))
assert me.ask("holder", "echo", value=1).result(timeout=5) == 1
{body}
print(f"end {{time.monotonic()}}")
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    over = time.monotonic()
    said, _, at = done.stdout.rpartition(" ")
    return (done.returncode, said, done.stderr), over - float(at or over)


@pytest.mark.parametrize(
    "body",
    (
        "",
        "request = me.ask('holder', 'hold')\nassert begun.wait(5)",
        "request = me.ask('holder', 'hold_plainly')\nassert begun.wait(5)",
        "request = me.ask('holder', 'hold_stubbornly')\nassert begun.wait(5)",
        *(
            pytest.param(body, marks=pytest.mark.long)
            for body in (
                "import logging\nlogging.disable()  # of what is dropped\nme.ask('holder', 'hold')",
                "other = Space()\nother.add(Holder('holder'))\ndel space, me, other",
                "request = me.ask('holder', 'hold_plainly')\nassert begun.wait(5)\nspace.close()",
            )
        ),
        "threading.Thread(target=lambda: me.ask('holder', 'hold').result(), daemon=True).start()\n"
        "assert begun.wait(5)",
    ),
    ids=["idle", "async", "def", "stubborn", "dropped", "two", "closed", "waited for"],
)
def test_space_left_open_does_not_hold_up_the_end_of_the_program(
    make_space: Any, body: str
) -> None:
    done, exit_s = run(make_space, body)
    assert done == (0, "end", "")
    assert exit_s < 10


def test_spaces_whose_loops_add_to_each_other_do_not_lock_each_other(make_space: Any) -> None:
    body = """
there = Space()
meet = threading.Barrier(2)

class Adder(Agent):
    def __init__(self, id, space):
        super().__init__(id)
        self.other = space
    @action
    async def add(self, id: str) -> str:
        meet.wait(5)
        self.other.add(Agent(id))
        return id

space.add(Adder("adder", there))
there.add(Adder("adder", space))
you = there.add(Agent("you"))
for n in range(10):
    requests = [me.ask("adder", "add", id=f"a {n}"), you.ask("adder", "add", id=f"b {n}")]
    assert [each.result(timeout=5) for each in requests] == [f"a {n}", f"b {n}"]
"""
    done, _ = run(make_space, body)
    assert done == (0, "end", "")


@pytest.mark.parametrize("form", ("add", "add_plainly"))
def test_adding_to_another_space_whose_agent_asks_back_at_once(make_space: Any, form: str) -> None:
    # after_add there asks here, so an async action here must not hold its loop until that is over.
    body = f"""
there = Space()
answered = threading.Event()

class Curious(Agent):
    async def after_add(self) -> None:
        assert await me.ask("holder", "echo", value=1) == 1
        answered.set()

class Adder(Agent):
    @action
    async def add(self) -> None:
        there.add(Curious("curious"))
    @action
    def add_plainly(self) -> None:
        there.add(Curious("curious"))

space.add(Adder("adder"))
me.ask("adder", "{form}").result(timeout=5)
assert answered.wait(5)
"""
    done, _ = run(make_space, body)
    assert done == (0, "end", "")


def test_message_that_cannot_be_serialized_changes_nothing(space: Any) -> None:
    space.add(Doer("doer"))
    me = space.add(Agent("me"))
    with pytest.raises(InvalidMessage):
        me.ask("doer", "echo", value=object())
    assert space.statistics()["agents"]["doer"]["waiting"] == 0
    assert me.ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1


@pytest.mark.parametrize("wrong", (5, "yes", RuleApprover, print))
def test_space_with_a_wrong_approver_is_refused_at_once(make_space: Any, wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"a method approve\(request\)"):
        make_space(approver=wrong)


def test_shared_agent_is_alone_in_its_process_and_answers_as_any_other(space: Any) -> None:
    doer = space.add(Doer("doer"), shared=True)
    with pytest.raises(DuplicateAgent):
        space.add(Doer("doer"), shared=True)
    me = space.add(Recorder("me"))
    assert me.ask("doer", "help").result(timeout=WAIT_S) == doer.ask("doer", "help").result(WAIT_S)
    space.remove("doer")
    with pytest.raises(AgentNotFound):
        me.ask("doer", "help").result(timeout=WAIT_S)


def test_shared_must_be_a_boolean(space: Any) -> None:
    with pytest.raises(DefinitionError, match="shared= must be True or False"):
        space.add(Agent("agent"), shared=2)


def test_statistics_everywhere_count_the_processes_that_have_each_agent(space: Any) -> None:
    space.add(Agent("one"))
    space.add(Agent("two"), shared=True)
    nothing = {"waiting": 0, "handling": [], "asking": 0, "processes": 1}
    found = space.statistics(everywhere=True)
    assert found == {"agents": {"one": nothing, "two": nothing}, "deadlines": 0}
