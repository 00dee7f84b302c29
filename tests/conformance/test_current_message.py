"""`current_message`: the message being handled, in every task and thread."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from conformance.conftest import Kept, Listener, Recorder, message
from moothall import ACCESS_REQUESTED, Agent, action


class Reader(Agent):
    """Keeps the number in `current_message` wherever it looks."""

    def __init__(self, id, **kwargs):
        super().__init__(id, **kwargs)
        self.seen = Kept()

    def look(self, n, where):
        current = self.current_message
        self.seen.add((where, n, None if current is None else current["action"]["args"].get("n")))

    @action
    async def in_async(self, n: int) -> None:
        self.look(n, "at once")
        await asyncio.sleep(0)
        self.look(n, "after a turn")
        await self.ask("pause", "pause")
        self.look(n, "after a request")

    @action
    def in_thread(self, n: int) -> None:
        self.look(n, "in the thread")
        self.ask("pause", "pause").result(timeout=10)
        self.look(n, "after a request")

    @action
    async def in_tasks(self, n: int) -> None:
        async def task():
            self.look(n, "in a task")
            await self.ask("pause", "pause")
            self.look(n, "in a task after a request")

        async with asyncio.TaskGroup() as group:
            group.create_task(task())
            group.create_task(task())
        await asyncio.to_thread(self.look, n, "in to_thread")
        await asyncio.gather(task(), task())

    @action
    async def outlive(self, n: int) -> None:
        go_on = asyncio.Event()

        async def task():
            await go_on.wait()
            self.look(n, "in a task that outlived the action")

        self.left = asyncio.get_running_loop().create_task(task())
        self.go_on = go_on

    @action
    async def release(self, n: int) -> None:
        self.go_on.set()
        await self.left
        self.look(n, "at release")


class Pause(Agent):
    @action
    async def pause(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
def me(space):
    space.add(Pause("pause", concurrency=100))
    return space.add(Listener("me"))


def test_current_message_is_the_whole_message(space, me):
    kept = Kept()

    class Whole(Agent):
        @action
        async def take(self, value: list) -> None:
            kept.add(self.current_message)

    space.add(Whole("whole"))
    sent = {"id": "one", "meta": {"k": [1]}, **message("whole", "take", value=[1, {"a": None}])}
    me.send(sent)
    assert kept.wait_for(1) == [{**sent, "from": "me"}]


def test_current_message_lets_an_action_answer_the_sender(space):
    class Chatty(Agent):
        @action
        def say(self, content: str) -> None:
            self.send(message(self.current_message["from"], "say", content=f"re: {content}"))

    people = [space.add(Recorder(f"person {n}")) for n in range(5)]
    space.add(Chatty("chatty"))
    for person in people:
        person.send(message("chatty", "say", content=person.id))
    for person in people:
        assert person.told() == [("say", {"content": f"re: {person.id}"})]


@pytest.mark.parametrize("name", ("in_async", "in_thread", "in_tasks"))
@pytest.mark.parametrize("concurrency", (1, 8))
def test_current_message_is_right_everywhere_inside_an_action(space, me, name, concurrency):
    reader = space.add(Reader("reader", concurrency=concurrency))
    pending = [me.ask("reader", name, n=n) for n in range(16)]
    for request in pending:
        request.result(timeout=10)
    assert {n for _, n, _ in reader.seen} == set(range(16))
    assert [(where, n, found) for where, n, found in reader.seen if n != found] == []


def test_current_message_stays_with_a_task_that_outlives_its_action(space, me):
    reader = space.add(Reader("reader"))
    me.ask("reader", "outlive", n=1).result(timeout=10)
    me.ask("reader", "release", n=2).result(timeout=10)
    assert list(reader.seen) == [("in a task that outlived the action", 1, 1), ("at release", 2, 2)]


def test_current_message_of_two_agents_in_a_call_is_each_its_own(space, me):
    class Caller(Reader):
        @action
        async def call(self, n: int) -> None:
            self.look(n, "before")
            await self.ask("callee", "called", n=n + 100)
            self.look(n, "after")

        @action
        def call_plainly(self, n: int) -> None:
            self.look(n, "before")
            self.ask("callee", "called", n=n + 100).result(timeout=10)
            self.look(n, "after")

    class Callee(Reader):
        @action
        async def called(self, n: int) -> None:
            self.look(n, "called")

    caller, callee = space.add(Caller("caller")), space.add(Callee("callee"))
    for name in ("call", "call_plainly"):
        me.ask("caller", name, n=1).result(timeout=10)
    assert list(caller.seen) == [("before", 1, 1), ("after", 1, 1)] * 2
    assert list(callee.seen) == [("called", 101, 101)] * 2


def test_current_message_is_right_after_a_call_back(space, me):
    class One(Reader):
        @action
        async def start(self, n: int) -> None:
            self.look(n, "start")
            await self.ask("two", "call_back", n=n + 1)
            self.look(n, "end")

        @action
        async def back(self, n: int) -> None:
            self.look(n, "back")

    class Two(Reader):
        @action
        async def call_back(self, n: int) -> None:
            await self.ask("one", "back", n=n + 1)
            self.look(n, "after the call back")

    one, two = space.add(One("one")), space.add(Two("two"))
    me.ask("one", "start", n=1).result(timeout=10)
    assert list(one.seen) == [("start", 1, 1), ("back", 3, 3), ("end", 1, 1)]
    assert list(two.seen) == [("after the call back", 2, 2)]


def test_current_message_of_another_agent_is_not_seen(space, me):
    found = Kept()

    class Peeper(Agent):
        @action
        async def peep(self) -> None:
            found.add(me.current_message)

    space.add(Peeper("peeper"))
    me.ask("peeper", "peep").result(timeout=10)
    assert list(found) == [None]


def test_outside_of_handling_there_is_none(space, me):
    assert Agent("stranger").current_message is None
    assert me.current_message is None
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: me.current_message).result(timeout=10) is None


def test_current_message_does_not_reach_an_action_that_another_message_starts(space, me):
    """What a space does for another message happens outside of the one being handled."""

    class Sender(Agent):
        @action
        async def start(self, n: int) -> None:
            self.send(message("sender", "second", n=n + 1))

        @action
        async def second(self, n: int) -> None:
            found.add((n, self.current_message["action"]["args"]["n"]))
            self.send(message("sender", "third", n=n + 1))

        @action
        def third(self, n: int) -> None:
            found.add((n, self.current_message["action"]["args"]["n"]))

    found = Kept()
    space.add(Sender("sender"))
    me.send(message("sender", "start", n=1))
    assert found.wait_for(2) == [(2, 2), (3, 3)]


def test_current_message_changed_changes_nothing(space, me):
    kept = Kept()

    class Spoiler(Agent):
        @action
        async def take(self, value: list) -> None:
            spoiled = self.current_message
            spoiled["from"] = "changed"
            spoiled["action"]["args"]["value"][0].append("changed")
            spoiled["action"]["args"].clear()
            kept.add((self.current_message, value))

        def after_action(self, message, return_value, error):
            kept.add((message, None))

    space.add(Spoiler("spoiler"))
    me.send(message("spoiler", "take", value=[[1]]))
    (current, value), (after, _) = kept.wait_for(2)
    assert value == [[1]]
    assert current == after == {"from": "me", **message("spoiler", "take", value=[[1]])}


@pytest.mark.parametrize("form", ("async def", "def"))
def test_current_message_is_set_in_callbacks(space, me, form):
    class Async(Reader):
        async def before_action(self, message):
            self.look(message["action"]["args"]["n"], "before")

        async def after_action(self, message, return_value, error):
            self.look(message["action"]["args"]["n"], "after")

        @action
        async def act(self, n: int) -> None:
            self.look(n, "act")

    class Plain(Reader):
        def before_action(self, message):
            self.look(message["action"]["args"]["n"], "before")

        def after_action(self, message, return_value, error):
            self.look(message["action"]["args"]["n"], "after")

        @action
        def act(self, n: int) -> None:
            self.look(n, "act")

    reader = space.add((Async if form == "async def" else Plain)("reader"))
    for n in (1, 2):
        me.ask("reader", "act", n=n).result(timeout=10)
    assert list(reader.seen) == [
        (where, n, n) for n in (1, 2) for where in ("before", "act", "after")
    ]


@pytest.mark.parametrize("form", ("async def", "def"))
def test_current_message_in_request_permission_is_the_proposed_one(space, me, form):
    class Async(Reader):
        async def request_permission(self, proposed_message):
            self.look(proposed_message["action"]["args"]["n"], "asked")
            return True

        @action(access_policy=ACCESS_REQUESTED)
        async def act(self, n: int) -> None:
            self.look(n, "act")

        @action
        async def act_on_itself(self, n: int) -> None:
            self.send(message("reader", "act", n=n + 1))

    class Plain(Reader):
        def request_permission(self, proposed_message):
            self.look(proposed_message["action"]["args"]["n"], "asked")
            return True

        @action(access_policy=ACCESS_REQUESTED)
        def act(self, n: int) -> None:
            self.look(n, "act")

        @action
        def act_on_itself(self, n: int) -> None:
            self.send(message("reader", "act", n=n + 1))

    reader = space.add((Async if form == "async def" else Plain)("reader"))
    me.ask("reader", "act", n=1).result(timeout=10)
    me.send(message("reader", "act_on_itself", n=2))
    reader.seen.wait_for(4)
    assert list(reader.seen) == [("asked", 1, 1), ("act", 1, 1), ("asked", 3, 3), ("act", 3, 3)]


@pytest.mark.parametrize("form", ("async def", "def"))
def test_after_add_and_before_remove_handle_no_message(space, form):
    found = Kept()

    class Async(Agent):
        async def after_add(self):
            found.add(self.current_message)

        async def before_remove(self):
            found.add(self.current_message)

    class Plain(Agent):
        def after_add(self):
            found.add(self.current_message)

        def before_remove(self):
            found.add(self.current_message)

    agent = space.add((Async if form == "async def" else Plain)("agent"))
    space.remove(agent)
    assert found.wait_for(2) == [None, None]


def test_current_message_is_right_in_a_thread_started_with_the_context(space, me):
    class Starter(Reader):
        @action
        async def start(self, n: int) -> None:
            await asyncio.gather(*(asyncio.to_thread(self.look, n, "thread") for _ in range(4)))

    starter = space.add(Starter("starter", concurrency=4))
    pending = [me.ask("starter", "start", n=n) for n in range(8)]
    for request in pending:
        request.result(timeout=10)
    assert len(starter.seen) == 32
    assert all(n == found for _, n, found in starter.seen)
    assert threading.current_thread() is threading.main_thread()
