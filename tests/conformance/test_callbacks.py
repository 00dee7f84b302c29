"""Callbacks, in both of their forms, and the order of handling with what each failure calls."""

import asyncio
import threading
from typing import Any

import pytest

from conformance.conftest import Kept, Listener, Recorder, message, settle
from moothall import ACCESS_DENIED, ACCESS_REQUESTED, Agent, action
from moothall.foundation.errors import (
    ActionError,
    ActionNotFound,
    AgentNotFound,
    AgentStopped,
    InvalidArguments,
    NotInSpace,
    NotPermitted,
    RequestCancelled,
    SpaceClosed,
)

DONE = message("me", "say", content="done")


class Steps(Agent):
    """Keeps what is called, in its order; `permit` and `refuse_before` are for the test to set."""

    def __init__(self, id: str, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self.steps: Kept[tuple[Any, ...]] = Kept()
        self.permit: Any = True
        self.refuse_before: Exception | None = None
        self.fail_after: Exception | None = None

    def names(self) -> list[str]:
        return [step[0] for step in self.steps]

    def did_before(self, message):
        self.steps.add(("before", message))
        if self.refuse_before is not None:
            raise self.refuse_before

    def did_after(self, message, return_value, error):
        self.steps.add(("after", message, return_value, error))
        if self.fail_after is not None:
            raise self.fail_after

    def was_asked(self, message):
        self.steps.add(("asked", message))
        return self.permit

    @action
    async def double(self, n: int) -> int:
        self.steps.add(("action", n))
        return 2 * n

    @action
    def double_plainly(self, n: int) -> int:
        self.steps.add(("action", n))
        return 2 * n

    @action
    async def nothing(self) -> None:
        self.steps.add(("action",))

    @action
    async def fail(self) -> None:
        self.steps.add(("action",))
        raise ZeroDivisionError("division by zero")

    @action
    def fail_plainly(self) -> None:
        self.steps.add(("action",))
        raise ZeroDivisionError("division by zero")

    @action
    async def hold(self) -> None:
        self.steps.add(("action",))
        await asyncio.Event().wait()

    @action(access_policy=ACCESS_DENIED)
    async def denied(self, n: int) -> None:
        self.steps.add(("action", n))

    @action(access_policy=ACCESS_REQUESTED)
    async def asked_for(self, n: int) -> int:
        self.steps.add(("action", n))
        return 2 * n


class AsyncSteps(Steps):
    async def before_action(self, message):
        await asyncio.sleep(0)
        self.did_before(message)

    async def after_action(self, message, return_value, error):
        await asyncio.sleep(0)
        self.did_after(message, return_value, error)

    async def request_permission(self, proposed_message):
        await asyncio.sleep(0)
        return self.was_asked(proposed_message)


class PlainSteps(Steps):
    def before_action(self, message):
        self.did_before(message)

    def after_action(self, message, return_value, error):
        self.did_after(message, return_value, error)

    def request_permission(self, proposed_message):
        return self.was_asked(proposed_message)


@pytest.fixture(params=(AsyncSteps, PlainSteps), ids=("async def", "def"))
def agent(request, space):
    return space.add(request.param("agent"))


@pytest.fixture
def me(space):
    return space.add(Recorder("me"))


def full(name, /, **args):
    return {"from": "me", **message("agent", name, **args)}


# -- the order of handling -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("double", "double_plainly"))
def test_before_action_comes_first_then_the_action_then_after_action(me, agent, name):
    assert me.ask("agent", name, n=2).result(timeout=10) == 4
    assert agent.steps.wait_for(3) == [
        ("before", full(name, n=2)),
        ("action", 2),
        ("after", full(name, n=2), 4, None),
    ]


def test_permission_is_asked_before_before_action(me, agent):
    assert me.ask("agent", "asked_for", n=2).result(timeout=10) == 4
    assert agent.steps.wait_for(4) == [
        ("asked", full("asked_for", n=2)),
        ("before", full("asked_for", n=2)),
        ("action", 2),
        ("after", full("asked_for", n=2), 4, None),
    ]


def test_id_and_meta_are_in_the_message_of_each_callback(me, agent):
    me.send({"id": "one", "meta": {"k": [1]}, **message("agent", "asked_for", n=2)})
    steps = agent.steps.wait_for(4)
    wanted = {"id": "one", "meta": {"k": [1]}, **full("asked_for", n=2)}
    assert [step[1] for step in steps if step[0] != "action"] == [wanted] * 3


STOPPED = {
    "not found": ("no_such", {}, ActionNotFound, '"no_such" not found on "agent"', []),
    "not found, though arguments are odd": (
        "no_such",
        {"n": None},
        ActionNotFound,
        '"no_such" not found on "agent"',
        [],
    ),
    "invalid": ("double", {}, InvalidArguments, '"agent.double" missing argument "n"', []),
    "invalid before denied": (
        "denied",
        {"n": "x"},
        InvalidArguments,
        '"agent.denied" argument "n" must be integer, not string',
        [],
    ),
    "invalid before asked": (
        "asked_for",
        {"m": 1},
        InvalidArguments,
        '"agent.asked_for" missing argument "n", unexpected argument "m"',
        [],
    ),
    "denied": ("denied", {"n": 1}, NotPermitted, '"agent.denied" not permitted', []),
    "refused": (
        "asked_for",
        {"n": 1},
        NotPermitted,
        '"agent.asked_for" not permitted',
        ["asked"],
    ),
}


@pytest.mark.parametrize("case", STOPPED)
def test_callbacks_are_not_called_for_a_call_that_is_refused_before(me, agent, case):
    name, args, kind, text, called = STOPPED[case]
    agent.permit = False
    with pytest.raises(kind) as caught:
        me.ask("agent", name, **args).result(timeout=10)
    assert str(caught.value) == text
    assert agent.names() == called
    me.send({"id": "one", **message("agent", name, **args)})
    assert me.told() == [("error", {"error": text, "original_message_id": "one"})]
    assert agent.names() == called * 2
    agent.permit = True
    assert me.ask("agent", "asked_for", n=1).result(timeout=10) == 2


def test_before_action_exception_is_the_error_returned(me, agent):
    agent.refuse_before = PermissionError("not now")
    with pytest.raises(ActionError) as caught:
        me.ask("agent", "double", n=2).result(timeout=10)
    assert (caught.value.type, caught.value.text) == ("PermissionError", "not now")
    me.send({"id": "one", **message("agent", "double", n=2)})
    assert me.told() == [
        ("error", {"error": "PermissionError: not now", "original_message_id": "one"})
    ]
    assert agent.names() == ["before", "before"]
    agent.refuse_before = None
    assert me.ask("agent", "double", n=2).result(timeout=10) == 4


@pytest.mark.parametrize("name", ("fail", "fail_plainly"))
def test_after_action_runs_even_if_the_action_raised(me, agent, name):
    with pytest.raises(ActionError, match="ZeroDivisionError: division by zero"):
        me.ask("agent", name).result(timeout=10)
    before, _, (step, seen, value, error) = agent.steps.wait_for(3)
    assert before == ("before", full(name))
    assert (step, seen, value) == ("after", full(name), None)
    assert type(error) is ZeroDivisionError
    assert str(error) == "division by zero"


def test_after_action_is_told_why_an_action_was_cut_off(me, agent):
    request = me.ask("agent", "hold")
    agent.steps.wait_for(2)
    request.cancel()
    step, seen, value, error = agent.steps.wait_for(3)[2]
    assert (step, seen, value) == ("after", full("hold"), None)
    assert type(error) is RequestCancelled


def test_after_action_is_told_of_a_value_of_none(me, agent):
    me.send(message("agent", "nothing"))
    assert agent.steps.wait_for(3)[2] == ("after", full("nothing"), None, None)


@pytest.mark.parametrize("name", ("double", "fail"))
def test_after_action_exception_is_logged_and_changes_no_outcome(me, agent, log, name):
    agent.fail_after = RuntimeError("after_action fails")
    args = {"n": 2} if name == "double" else {}
    request = me.ask("agent", name, **args)
    if name == "double":
        assert request.result(timeout=10) == 4
    else:
        with pytest.raises(ActionError, match="ZeroDivisionError"):
            request.result(timeout=10)
    log.wait_for("after_action fails")
    agent.fail_after = None
    assert me.ask("agent", "double", n=3).result(timeout=10) == 6


def test_callbacks_are_called_for_each_message_in_turn(me, agent):
    for n in range(20):
        me.send(message("agent", "double_plainly" if n % 2 else "double", n=n))
    me.wait_for(20)
    steps = agent.steps.wait_for(60)
    assert [step[0] for step in steps] == ["before", "action", "after"] * 20
    assert [step[1] for step in steps if step[0] == "action"] == list(range(20))
    assert [a["data"] for _, a in me.told(20)] == [2 * n for n in range(20)]


@pytest.mark.parametrize("name", ("help", "response", "error"))
def test_callbacks_are_called_for_the_special_actions_too(me, agent, name):
    args = {"help": {}, "response": {"data": 1}, "error": {"error": "made up"}}[name]
    me.send(message("agent", name, **args))
    agent.steps.wait_for(2)
    assert agent.names() == ["before", "after"]
    assert agent.steps[0] == ("before", full(name, **args))


def test_callbacks_are_called_for_a_broadcast(me, agent):
    me.send(message("*", "double", n=1))
    assert agent.steps.wait_for(3)[0] == (
        "before",
        {"from": "me", **message("*", "double", n=1)},
    )


@pytest.mark.parametrize("form", ("async def", "def"))
def test_callbacks_changing_their_message_change_nothing(space, me, form):
    kept = Kept()

    def spoil(message):
        kept.add(message["action"]["args"]["value"][:])
        message["action"]["args"]["value"].append("changed")
        message["action"]["name"] = "changed"
        message["from"] = "changed"

    class Base(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def take(self, value: list) -> list:
            kept.add(value[:])
            return value

    class Async(Base):
        async def request_permission(self, proposed_message):
            spoil(proposed_message)
            return True

        async def before_action(self, message):
            spoil(message)

        async def after_action(self, message, return_value, error):
            spoil(message)

    class Plain(Base):
        def request_permission(self, proposed_message):
            spoil(proposed_message)
            return True

        def before_action(self, message):
            spoil(message)

        def after_action(self, message, return_value, error):
            spoil(message)

    space.add((Async if form == "async def" else Plain)("agent"))
    me.send(message("agent", "take", value=[1]))
    assert me.told() == [("response", {"data": [1], "original_message_id": None})]
    assert kept.wait_for(4) == [[1]] * 4


def test_after_action_is_told_of_the_message_as_it_came(space, me):
    kept = Kept()

    class Spoiler(Agent):
        @action
        async def take(self, value: list) -> None:
            value.append("changed")

        def after_action(self, message, return_value, error):
            kept.add(message["action"]["args"])

    space.add(Spoiler("spoiler"))
    me.send(message("spoiler", "take", value=[1]))
    assert kept.wait_for(1) == [{"value": [1]}]


def test_callbacks_may_send_and_request(space, me):
    class Busy(Listener):
        async def before_action(self, message):
            self.before = await self.ask("helper", "double", n=1)

        def after_action(self, message, return_value, error):
            self.after = self.ask("helper", "double", n=2).result(timeout=10)
            self.send(DONE)

        @action
        async def act(self) -> None:
            pass

    busy = space.add(Busy("busy"))
    space.add(Steps("helper"))
    me.ask("busy", "act").result(timeout=10)
    assert me.told() == [("say", {"content": "done"})]
    assert (busy.before, busy.after) == (2, 4)


def test_callbacks_are_inherited_and_extended(space, me):
    class Extended(PlainSteps):
        def before_action(self, message):
            self.steps.add(("first",))
            super().before_action(message)

    agent = space.add(Extended("agent"))
    me.ask("agent", "nothing").result(timeout=10)
    agent.steps.wait_for(4)
    assert agent.names() == ["first", "before", "action", "after"]


# -- after_add -------------------------------------------------------------------------------------


class AsyncComing(Recorder):
    async def after_add(self):
        self.doubled = await self.ask("helper", "double", n=4)
        self.send(message("me", "say", content="here I am"))


class PlainComing(Recorder):
    def after_add(self):
        self.doubled = self.ask("helper", "double", n=4).result(timeout=10)
        self.send(message("me", "say", content="here I am"))


@pytest.mark.parametrize("kind", (AsyncComing, PlainComing))
def test_after_add_may_send_and_request_before_add_returns(space, me, kind):
    space.add(Steps("helper"))
    coming = space.add(kind("coming"))
    assert coming.doubled == 8
    assert coming.space is space
    assert me.told() == [("say", {"content": "here I am"})]


@pytest.mark.parametrize("form", ("async def", "def"))
def test_messages_wait_until_after_add_is_over(space, me, form):
    ready = threading.Event()
    entered = threading.Event()

    class Async(Recorder):
        async def after_add(self):
            entered.set()
            await asyncio.to_thread(ready.wait, 10)
            self.set_up = True

        @action
        async def say(self, content: str) -> None:
            assert self.set_up
            self.keep()

    class Plain(Async):
        def after_add(self):
            entered.set()
            ready.wait(10)
            self.set_up = True

    agent = (Async if form == "async def" else Plain)("agent")
    adding = threading.Thread(target=space.add, args=(agent,))
    adding.start()
    assert entered.wait(10)
    me.send(message("agent", "say", content="early"))
    settle(me)
    assert list(agent.messages) == []
    ready.set()
    adding.join(10)
    assert agent.told() == [("say", {"content": "early"})]


@pytest.mark.parametrize("form", ("async def", "def"))
def test_after_add_exception_undoes_the_add(space, me, form):
    class Async(Recorder):
        fails = True

        async def after_add(self):
            if self.fails:
                raise OSError("no port is free")

    class Plain(Async):
        def after_add(self):
            if self.fails:
                raise OSError("no port is free")

    agent = (Async if form == "async def" else Plain)("agent")
    with pytest.raises(OSError, match="no port is free"):
        space.add(agent)
    assert space.ids() == ["me"]
    assert agent.space is None
    with pytest.raises(AgentNotFound):
        me.ask("agent", "help").result(timeout=10)
    with pytest.raises(NotInSpace):
        agent.send(message("me", "say", content="x"))
    agent.fails = False
    space.add(agent)
    me.send(message("agent", "say", content="welcome"))
    agent.wait_for(1)


def test_after_add_is_not_called_for_a_duplicate(space, me):
    calls = []

    class Counted(Agent):
        def after_add(self):
            calls.append(self)

    first = space.add(Counted("agent"))
    with pytest.raises(ValueError, match="agent"):
        space.add(Counted("agent"))
    assert calls == [first]


# -- before_remove ---------------------------------------------------------------------------------


class AsyncLeaving(Recorder):
    async def before_remove(self):
        self.doubled = await self.ask("helper", "double", n=4)
        self.send(message("me", "say", content="good bye"))


class PlainLeaving(Recorder):
    def before_remove(self):
        self.doubled = self.ask("helper", "double", n=4).result(timeout=10)
        self.send(message("me", "say", content="good bye"))


@pytest.mark.parametrize("kind", (AsyncLeaving, PlainLeaving))
def test_before_remove_may_still_send_and_request(space, me, kind):
    space.add(Steps("helper"))
    leaving = space.add(kind("leaving"))
    space.remove(leaving)
    assert leaving.doubled == 8
    assert leaving.space is None
    assert space.ids() == ["me", "helper"]
    assert me.told() == [("say", {"content": "good bye"})]
    with pytest.raises(NotInSpace):
        leaving.send(message("me", "say", content="x"))


@pytest.mark.parametrize("form", ("async def", "def"))
def test_before_remove_exception_is_logged_and_the_agent_leaves(space, me, log, form):
    class Async(Agent):
        async def before_remove(self):
            raise OSError("the file is gone")

    class Plain(Agent):
        def before_remove(self):
            raise OSError("the file is gone")

    agent = space.add((Async if form == "async def" else Plain)("agent"))
    space.remove("agent")
    line = log.wait_for("the file is gone")
    assert " | " not in line, "the traceback is for DEBUG"
    assert space.ids() == ["me"]
    assert agent.space is None


@pytest.mark.parametrize("form", ("async def", "def"))
def test_closing_a_space_calls_before_remove(make_space, form):
    left = Kept()

    class Async(Agent):
        async def before_remove(self):
            left.add(self.id)

    class Plain(Agent):
        def before_remove(self):
            left.add(self.id)

    space = make_space()
    for id in ("one", "two"):
        space.add((Async if form == "async def" else Plain)(id))
    space.close()
    assert sorted(left) == ["one", "two"]
    space.close()
    assert len(left) == 2


def test_callbacks_before_remove_at_close_may_ask_agents_that_stay(make_space):
    answers = Kept()

    class Clerk(Agent):
        @action
        async def keep(self, what: str) -> str:
            return f"kept {what}"

    class Leaving(Agent):
        async def before_remove(self):
            answers.add(await self.ask("clerk", "keep", what="all"))

    space = make_space()
    space.add(Clerk("clerk"))
    space.add(Leaving("leaving"))
    space.close()
    assert list(answers) == ["kept all"]


def test_closing_while_an_action_waits_is_nothing_to_warn_of(make_space, log):
    entered = threading.Event()

    class Waiting(Agent):
        @action
        async def wait(self) -> None:
            entered.set()
            await asyncio.Event().wait()

    space = make_space()
    waiting = space.add(Waiting("waiting"))
    request = waiting.ask("waiting", "wait")
    assert entered.wait(10)
    space.close()
    with pytest.raises(SpaceClosed):
        request.result(timeout=10)
    assert list(log.lines) == []


def test_closing_while_an_after_add_waits_is_nothing_to_warn_of(make_space, log):
    entered = threading.Event()

    class Waiting(Agent):
        async def after_add(self) -> None:
            entered.set()
            await asyncio.Event().wait()

    class Opener(Agent):
        @action
        async def open(self) -> None:
            self.space.add(Waiting("waiting"))

    space = make_space()
    space.add(Opener("opener")).ask("opener", "open").result(timeout=10)
    assert entered.wait(10)
    space.close()
    assert list(log.lines) == []


def test_callbacks_of_an_agent_that_comes_again_are_called_again(make_space):
    calls = []

    class Traveller(Agent):
        def after_add(self):
            calls.append(("added", self.space))

        async def before_remove(self):
            calls.append(("leaving", self.space))

    here, there = make_space(), make_space()
    traveller = Traveller("traveller")
    for space in (here, there, here):
        space.add(traveller)
        space.remove(traveller)
    assert calls == [
        (what, space) for space in (here, there, here) for what in ("added", "leaving")
    ]


@pytest.mark.parametrize("concurrency", (1, 4))
async def test_messages_are_handled_only_once_after_add_has_ended(make_space, concurrency):
    """Then as many are at once as may be."""
    begun, may_end = threading.Event(), threading.Event()
    together = asyncio.Barrier(concurrency)

    class Slow(Agent):
        ready = False

        async def after_add(self) -> None:
            begun.set()
            await asyncio.to_thread(may_end.wait, 10)
            self.ready = True

        @action
        async def use(self) -> bool:
            ready = self.ready
            async with asyncio.timeout(10):
                await together.wait()
            return ready

    space = make_space()
    me = space.add(Agent("me"))
    space.add(Slow("slow", concurrency=concurrency))
    asked = [me.ask("slow", "use") for _ in range(8)]
    assert await asyncio.to_thread(begun.wait, 10)
    may_end.set()
    assert ([await each for each in asked]) == [True] * 8


def test_callbacks_no_handler_begins_after_before_remove(make_space):
    begun: list[int] = []
    leaving, may_leave = threading.Event(), threading.Event()
    holding, may_go_on = threading.Event(), threading.Event()

    class Busy(Agent):
        @action
        async def hold(self) -> None:
            holding.set()
            await asyncio.to_thread(may_go_on.wait, 10)

        @action
        async def work(self, n: int) -> None:
            begun.append(n)

        async def before_remove(self) -> None:
            leaving.set()
            await asyncio.to_thread(may_leave.wait, 10)

    space = make_space()
    space.add(Busy("busy"))
    me = space.add(Agent("me"))
    held = me.ask("busy", "hold")
    assert holding.wait(10)
    waiting = [me.ask("busy", "work", n=n) for n in range(3)]
    remover = threading.Thread(target=space.remove, args=("busy",))
    remover.start()
    assert leaving.wait(10)
    may_go_on.set()
    held.result(timeout=10)
    me.ask("me", "help").result(timeout=10)
    may_leave.set()
    remover.join(10)
    for request in waiting:
        with pytest.raises(AgentStopped):
            request.result(timeout=10)
    assert begun == []
