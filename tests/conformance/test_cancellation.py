"""Deadlines, cancellations and drops: what ends, when, and what goes on."""

import asyncio
import contextvars
import gc
import threading
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Kept, message, waits
from conformance.gate import LATE_S, Doer, Gate, Holder, fall_due, handling
from moothall import ACCESS_REQUESTED, Agent, action
from moothall.foundation.errors import (
    ActionError,
    AgentStopped,
    RequestCancelled,
    RequestError,
    RequestTimeout,
)

HOW = ["late", "cancelled", "dropped"]


def end(me: Agent, holder: Holder, name: str, how: str, hold: str = "hold") -> None:
    """Have a request, whose action has begun, end without its value."""
    timeout = LATE_S if how == "late" else 60
    request = me.request(message(holder.id, hold, name=name), timeout=timeout)
    holder.begun.wait_for(lambda begun: name in begun)
    if how == "dropped":
        del request
        gc.collect()
        return
    if how == "cancelled":
        request.cancel()
    kind = RequestTimeout if how == "late" else RequestCancelled
    with pytest.raises(kind):
        request.result(timeout=WAIT_S)


@pytest.mark.parametrize("how", HOW)
def test_cancelled_async_action_ends_at_its_await_and_cleans_up(space: Any, how: str) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    end(me, holder, "one", how)
    assert holder.ended.wait_for(1) == ["one cancelled"]
    assert me.ask("holder", "note", name="two").result(timeout=WAIT_S) == "two"
    assert space.statistics()["agents"]["holder"]["handling"] == []


@pytest.mark.parametrize("how", HOW)
def test_cancelled_message_in_the_queue_never_starts(space: Any, how: str) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    first = me.ask("holder", "hold", name="first")
    holder.begun.wait_for(1)
    timeout = 0.05 if how == "late" else 60
    second = me.request(message("holder", "note", name="second"), timeout=timeout)
    third = me.ask("holder", "note", name="third")
    if how == "dropped":
        del second
        gc.collect()
    else:
        if how == "cancelled":
            second.cancel()
        with pytest.raises(RequestError):
            second.result(timeout=WAIT_S)
    # Behind what says that it is wanted no more: so many wait only once that has come.
    behind = [me.ask("holder", "note", name=name) for name in ("fourth", "fifth")]
    assert waits(space, "holder", 3)
    holder.gate("first").open()
    assert first.result(timeout=WAIT_S) == "first"
    assert third.result(timeout=WAIT_S) == "third"
    assert [request.result(timeout=WAIT_S) for request in behind] == ["fourth", "fifth"]
    assert holder.begun == ["first", "third", "fourth", "fifth"]


@pytest.mark.parametrize("how", HOW)
def test_cancelled_def_action_runs_on_and_keeps_its_agent_busy(space: Any, how: str) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    end(me, holder, "one", how, "hold_plainly")
    assert handling(space, "holder") == ["hold_plainly"]
    after = me.ask("holder", "note", name="two")
    assert waits(space, "holder", 1)
    assert holder.begun == ["one"]
    holder.gate("one").open()
    assert after.result(timeout=WAIT_S) == "two"
    assert holder.ended == ["one done", "two done"]
    assert handling(space, "holder") == []


@pytest.mark.parametrize("how", HOW)
def test_action_that_swallows_its_cancellation_cannot_trap_its_caller(space: Any, how: str) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    end(me, holder, "one", how, "hold_stubbornly")
    assert handling(space, "holder") == ["hold_stubbornly"]
    after = me.ask("holder", "note", name="two")
    holder.gate("one").open()
    assert after.result(timeout=WAIT_S) == "two"
    assert holder.ended == ["one done", "two done"]


@pytest.mark.parametrize("hold", ("hold", "hold_plainly", "hold_stubbornly"))
def test_caller_that_waits_in_an_action_is_let_go_at_its_deadline(space: Any, hold: str) -> None:
    holder = space.add(Holder("holder"))

    async def ask(agent: Agent, value: Any) -> Any:
        try:
            await agent.request(message("holder", hold), timeout=0.05)
        except RequestTimeout:
            return "let go"
        return "it ended"

    space.add(Doer("doer", ask))
    me = space.add(Agent("me"))
    assert me.ask("doer", "do").result(timeout=WAIT_S) == "let go"
    holder.gate("one").open()
    holder.ended.wait_for(1)


@pytest.mark.parametrize("how", ("late", "cancelled", "dropped"))
def test_ending_a_request_cancels_a_chain_of_three(space: Any, how: str) -> None:
    holder = space.add(Holder("third"))
    cleaned: Kept[str] = Kept()

    async def first(agent: Agent, value: Any) -> Any:
        try:
            return await agent.ask("second", "do")
        finally:
            cleaned.add("first")

    async def second(agent: Agent, value: Any) -> Any:
        try:
            return await agent.ask("third", "hold")
        finally:
            cleaned.add("second")

    space.add(Doer("first", first))
    space.add(Doer("second", second))
    me = space.add(Agent("me"))
    request = me.request(message("first", "do"), timeout=LATE_S if how == "late" else 60)
    holder.begun.wait_for(1)
    if how == "dropped":
        del request
    elif how == "cancelled":
        request.cancel()
    assert holder.ended.wait_for(1) == ["one cancelled"]
    assert sorted(cleaned.wait_for(2)) == ["first", "second"]
    assert me.ask("first", "echo", value=1).result(timeout=WAIT_S) == 1
    assert me.ask("second", "echo", value=1).result(timeout=WAIT_S) == 1
    assert me.ask("third", "note", name="x").result(timeout=WAIT_S) == "x"
    assert all(not each["handling"] for each in space.statistics()["agents"].values())


def test_cancelling_the_task_that_awaits_cancels_a_chain_of_three(space: Any) -> None:
    holder = space.add(Holder("third"))

    async def second(agent: Agent, value: Any) -> Any:
        return await agent.ask("third", "hold")

    async def first(agent: Agent, value: Any) -> Any:
        async def wait() -> Any:
            return await agent.ask("second", "do")

        task = asyncio.create_task(wait())
        await begun
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "it ended"

    begun = Gate()
    holder.gate("one")
    space.add(Doer("first", first))
    space.add(Doer("second", second))
    me = space.add(Agent("me"))
    request = me.ask("first", "do")
    holder.begun.wait_for(1)
    begun.open()
    assert request.result(timeout=WAIT_S) == "cancelled"
    assert holder.ended.wait_for(1) == ["one cancelled"]


@pytest.mark.parametrize("by", ("request", "removal"))
def test_cleanup_of_a_cancelled_action_is_not_cancelled_again(space: Any, by: str) -> None:
    cleaning, cleaned = Gate(), Kept[str]()

    async def hold(agent: Agent, value: Any) -> Any:
        begun.add("x")
        try:
            await Gate()
        finally:
            cleaned.add("begun")
            await cleaning
            cleaned.add("ended")

    begun: Kept[str] = Kept()
    space.add(Doer("doer", hold))
    me = space.add(Agent("me"))
    request = me.request(message("doer", "do"), timeout=LATE_S)
    begun.wait_for(1)
    request.cancel()
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)
    cleaned.wait_for(1)
    request.cancel()
    del request
    gc.collect()
    after = me.ask("doer", "echo", value=1)
    with pytest.raises(RequestTimeout):  # by then the first one's deadline has passed too
        me.request(message("doer", "echo"), timeout=LATE_S).result(timeout=WAIT_S)
    if by == "removal":
        space.remove("doer")
        with pytest.raises(AgentStopped):
            after.result(timeout=WAIT_S)
    assert cleaned == ["begun"]
    cleaning.open()
    assert cleaned.wait_for(2) == ["begun", "ended"]
    if by == "request":
        assert after.result(timeout=WAIT_S) == 1


def test_cancelling_from_many_threads_gives_one_outcome(space: Any) -> None:
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    request = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    threads = [threading.Thread(target=request.cancel) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)
    assert holder.ended.wait_for(1) == ["one cancelled"]
    assert me.ask("holder", "note", name="two").result(timeout=WAIT_S) == "two"
    assert holder.ended == ["one cancelled", "two done"]


@pytest.mark.parametrize("form", ("async", "plain"))
def test_request_cancelled_as_it_ends_has_one_outcome(space: Any, form: str) -> None:
    space.add(Doer("doer", None, lambda agent, value: value))
    me = space.add(Agent("me"))
    seen = set()
    for i in range(300):
        request = me.ask("doer", "echo" if form == "async" else "do_plainly", value=i)
        if i % 3 == 0:
            me.send(message("me", "help"))
        request.cancel()
        outcomes = []
        for _ in range(2):
            try:
                outcomes.append(request.result(timeout=WAIT_S))
            except RequestCancelled:
                outcomes.append("cancelled")
        assert outcomes[0] == outcomes[1]
        assert outcomes[0] in (i, "cancelled")
        seen.add(outcomes[0] == "cancelled")
    assert me.ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1
    assert space.statistics()["agents"]["doer"] == {"waiting": 0, "handling": [], "asking": 0}
    assert seen


def test_cancelling_an_own_request_in_an_action(space: Any) -> None:
    holder = space.add(Holder("holder"))

    async def ask(agent: Agent, value: Any) -> Any:
        request = agent.ask("holder", "hold")
        request.cancel()
        try:
            await request
        except RequestCancelled:
            return request.done()
        return "it ended"

    space.add(Doer("doer", ask))
    me = space.add(Agent("me"))
    assert me.ask("doer", "do").result(timeout=WAIT_S) is True
    assert me.ask("holder", "note", name="two").result(timeout=WAIT_S) == "two"
    assert holder.begun in (["two"], ["one", "two"])


@pytest.mark.parametrize("how", HOW)
def test_before_action_of_a_cancelled_message_keeps_its_agent_busy(space: Any, how: str) -> None:
    gate, begun, ended = Gate(), Kept[str](), Kept[str]()

    class Careful(Holder):
        def before_action(self, message: dict[str, Any]) -> None:
            if message["action"]["args"]["name"] == "one":
                begun.add("one")
                gate.wait()
                ended.add("one")
            else:
                begun.add("two")

    space.add(Careful("holder"))
    me = space.add(Agent("me"))
    timeout = LATE_S if how == "late" else 60
    request = me.request(message("holder", "note", name="one"), timeout=timeout)
    begun.wait_for(1)
    if how == "dropped":
        del request
        gc.collect()
    else:
        if how == "cancelled":
            request.cancel()
        with pytest.raises(RequestError):
            request.result(timeout=WAIT_S)
    # One message at a time: the thread cannot be stopped, so the next message has to wait for it.
    after = me.request(message("holder", "note", name="two"), timeout=0.3)
    with pytest.raises(RequestTimeout):
        after.result(timeout=WAIT_S)
    assert begun == ["one"]
    gate.open()
    ended.wait_for(1)
    assert me.ask("holder", "note", name="three").result(timeout=WAIT_S) == "three"


def test_request_permission_ends_when_its_message_is_cancelled(space: Any) -> None:
    gate, asked, ended = Gate(), Kept[str](), Kept[str]()

    class Careful(Holder):
        @action(access_policy=ACCESS_REQUESTED)
        async def dangerous(self) -> None:
            ended.add("done")

        async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            asked.add("x")
            try:
                await gate
            finally:
                ended.add("asked")
            return True

    space.add(Careful("holder"))
    me = space.add(Agent("me"))
    request = me.ask("holder", "dangerous")
    asked.wait_for(1)
    request.cancel()
    with pytest.raises(RequestCancelled):
        request.result(timeout=WAIT_S)
    assert ended.wait_for(1) == ["asked"]
    gate.open()
    assert me.ask("holder", "note", name="two").result(timeout=WAIT_S) == "two"
    assert ended == ["asked"]
    assert space.statistics()["agents"]["holder"]["asking"] == 0


# -- an action's own limit -------------------------------------------------------------------------


class Limited(Holder):
    @action(timeout=0.05)
    async def limited(self) -> str:
        return await self.hold()

    @action(timeout=0.05)
    def limited_plainly(self) -> str:
        return self.hold_plainly()

    @action(timeout=0.05)
    async def limited_stubbornly(self) -> str:
        return await self.hold_stubbornly()

    @action(timeout=60)
    async def fails(self) -> None:
        raise TimeoutError("its own")


@pytest.mark.parametrize("name", ("limited", "limited_plainly", "limited_stubbornly"))
def test_action_over_its_own_timeout_is_an_error(space: Any, name: str) -> None:
    limited = space.add(Limited("limited"))
    me = space.add(Agent("me"))
    with pytest.raises(ActionError, match=f'"limited.{name}" took longer than 0.05 s') as late:
        me.ask("limited", name).result(timeout=WAIT_S)
    assert late.value.type == "TimeoutError"
    if name == "limited":
        assert limited.ended.wait_for(1) == ["one cancelled"]
    else:
        assert handling(space, "limited") == [name]
    after = me.ask("limited", "note", name="two")
    limited.gate("one").open()
    assert after.result(timeout=WAIT_S) == "two"


def test_timeout_error_that_an_action_raises_is_its_own(space: Any) -> None:
    space.add(Limited("limited"))
    me = space.add(Agent("me"))
    with pytest.raises(ActionError) as failed:
        me.ask("limited", "fails").result(timeout=WAIT_S)
    assert (failed.value.type, failed.value.text) == ("TimeoutError", "its own")


# -- asyncio in an action --------------------------------------------------------------------------


@pytest.mark.parametrize("first", (True, False))
@pytest.mark.parametrize("seconds", (0, 0.02))
def test_asyncio_timeout_hits_only_the_action_that_sets_it(
    space: Any, first: bool, seconds: float
) -> None:
    async def limit(agent: Agent, value: Any) -> Any:
        if not first:
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(seconds):
                await Gate()
        except TimeoutError:
            await asyncio.sleep(0)
            return "late"
        return "it ended"

    async def ask(agent: Agent, value: Any) -> Any:
        answers = [await agent.ask("limited", "do") for _ in range(3)]
        await asyncio.sleep(0)
        return answers

    space.add(Doer("limited", limit))
    space.add(Doer("asker", ask))
    me = space.add(Agent("me"))
    for _ in range(3):
        assert me.ask("asker", "do").result(timeout=WAIT_S) == ["late"] * 3
        assert me.ask("limited", "echo", value=1).result(timeout=WAIT_S) == 1


@pytest.mark.parametrize("first", (True, False))
def test_asyncio_timeout_over_a_request_cancels_the_receiver_only(space: Any, first: bool) -> None:
    holder = space.add(Holder("holder"))
    begun: list[Gate] = []

    async def limit(agent: Agent, value: Any) -> Any:
        if not first:
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(None) as limit:
                due = asyncio.create_task(fall_due(limit, begun[-1]))
                await agent.ask("holder", "hold")
        except TimeoutError:
            await due
            return "late"
        return "it ended"

    async def ask(agent: Agent, value: Any) -> Any:
        return await agent.ask("limited", "do")

    space.add(Doer("limited", limit))
    space.add(Doer("asker", ask))
    me = space.add(Agent("me"))
    for i in range(3):
        begun.append(Gate())
        request = me.ask("asker", "do")
        holder.begun.wait_for(i + 1)
        begun[-1].open()
        assert request.result(timeout=WAIT_S) == "late"
        holder.ended.wait_for(i + 1)
    assert holder.ended == ["one cancelled"] * 3


def test_asyncio_timeout_of_an_outer_action_reaches_the_leaf(space: Any) -> None:
    holder, begun = space.add(Holder("holder")), Gate()

    async def middle(agent: Agent, value: Any) -> Any:
        async with asyncio.timeout(60):
            return await agent.ask("holder", "hold")

    async def outer(agent: Agent, value: Any) -> Any:
        try:
            async with asyncio.timeout(None) as limit:
                due = asyncio.create_task(fall_due(limit, begun))
                return await agent.ask("middle", "do")
        except TimeoutError:
            await due
            return "late"

    space.add(Doer("middle", middle))
    space.add(Doer("outer", outer))
    me = space.add(Agent("me"))
    request = me.ask("outer", "do")
    holder.begun.wait_for(1)
    begun.open()
    assert request.result(timeout=WAIT_S) == "late"
    assert holder.ended.wait_for(1) == ["one cancelled"]


@pytest.mark.parametrize("first", (True, False))
def test_action_that_cancels_its_own_task_ends_itself_only(space: Any, first: bool) -> None:
    async def cancel(agent: Agent, value: Any) -> Any:
        if not first:
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if value == "and returns":
            return "returned"
        await asyncio.sleep(0)
        return "it ended"

    async def ask(agent: Agent, value: Any) -> Any:
        try:
            return await agent.ask("canceller", "do", value=value)
        except ActionError as error:
            await asyncio.sleep(0)
            return error.type

    space.add(Doer("canceller", cancel))
    space.add(Doer("asker", ask))
    me = space.add(Agent("me"))
    for _ in range(3):
        assert me.ask("asker", "do").result(timeout=WAIT_S) == "CancelledError"
        assert me.ask("asker", "do", value="and returns").result(timeout=WAIT_S) == "returned"
        assert me.ask("canceller", "echo", value=1).result(timeout=WAIT_S) == 1


def test_handler_has_a_task_of_its_own(space: Any) -> None:
    tasks: dict[str, Any] = {}

    async def inner(agent: Agent, value: Any) -> Any:
        tasks["inner"] = asyncio.current_task()
        await asyncio.sleep(0)
        assert asyncio.current_task() is tasks["inner"]
        return None

    async def outer(agent: Agent, value: Any) -> Any:
        tasks["outer"] = asyncio.current_task()
        await agent.ask("inner", "do")
        assert asyncio.current_task() is tasks["outer"]
        await asyncio.sleep(0)
        assert asyncio.current_task() is tasks["outer"]
        return None

    space.add(Doer("inner", inner))
    space.add(Doer("outer", outer))
    me = space.add(Agent("me"))
    for _ in range(3):
        me.ask("outer", "do").result(timeout=WAIT_S)
        assert tasks["inner"] is not tasks["outer"]
        assert None not in tasks.values()


MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


@pytest.mark.parametrize("first", (True, False))
def test_context_variables_stay_with_the_handler_that_set_them(space: Any, first: bool) -> None:
    seen: Kept[str] = Kept()

    class Watcher(Doer):
        @action(access_policy=ACCESS_REQUESTED)
        async def approved(self) -> str:
            return MARK.get()

        async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            seen.add(MARK.get())
            return True

        async def before_remove(self) -> None:
            seen.add(MARK.get())

    async def look(agent: Agent, value: Any) -> Any:
        if value == "later":
            await asyncio.sleep(0)
        return MARK.get()

    async def mark(agent: Agent, value: Any) -> Any:
        if not first:
            await asyncio.sleep(0)
        MARK.set("marked")
        found = [
            await agent.ask("watcher", "do"),
            await agent.ask("watcher", "do", value="later"),
            await agent.ask("watcher", "do_plainly"),
            await agent.ask("watcher", "approved"),
        ]
        agent.send(message("watcher", "approved"))
        assert MARK.get() == "marked"
        return found

    space.add(Watcher("watcher", look, lambda agent, value: MARK.get()))
    space.add(Doer("marker", mark, lambda agent, value: MARK.set("plain") and None))
    me = space.add(Agent("me"))
    for i in range(3):
        assert me.ask("marker", "do").result(timeout=WAIT_S) == ["none"] * 4
        me.ask("marker", "do_plainly").result(timeout=WAIT_S)
        seen.wait_for(2 * i + 2)
        assert me.ask("watcher", "do").result(timeout=WAIT_S) == "none"
        assert me.ask("watcher", "do_plainly").result(timeout=WAIT_S) == "none"
    space.remove("watcher")
    assert set(seen) == {"none"}


def test_handler_starts_without_context_variables_of_the_one_before(space: Any) -> None:
    async def mark(agent: Agent, value: Any) -> Any:
        before = MARK.get()
        MARK.set("marked")
        if value == "later":
            await asyncio.sleep(0)
        return before

    space.add(Doer("marker", mark))
    me = space.add(Agent("me"))
    token = MARK.set("main")
    found: list[str] = []
    try:
        for value in ("", "later") * 5:
            # This one leaves a task that the next may use, and begin at once.
            me.ask("marker", "echo").result(timeout=WAIT_S)
            found.append(me.ask("marker", "do", value=value).result(timeout=WAIT_S))
    finally:
        MARK.reset(token)
    assert found == ["none"] * 10


def test_handler_is_not_taken_for_cancelled_after_one_that_was(space: Any) -> None:
    begun: Kept[str] = Kept()

    async def hold_or_look(agent: Agent, value: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        if value == "hold":
            begun.add("x")
            await Gate()
        return task.cancelling()

    space.add(Doer("doer", hold_or_look))
    me = space.add(Agent("me"))
    for n in range(1, 4):
        held = me.ask("doer", "do", value="hold")
        begun.wait_for(n)
        held.cancel()
        assert me.ask("doer", "do", value="look").result(timeout=WAIT_S) == 0


def test_action_whose_task_asyncio_closes_has_an_outcome(space: Any) -> None:
    async def await_an_exit(agent: Agent, value: Any) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(future.set_exception, GeneratorExit())
        await future

    space.add(Doer("doer", await_an_exit))
    me = space.add(Agent("me"))
    for _ in range(3):
        with pytest.raises(ActionError):
            me.ask("doer", "do").result(timeout=WAIT_S)
        assert me.ask("doer", "echo", value=1).result(timeout=WAIT_S) == 1


def test_tasks_that_an_action_starts_know_its_message_and_outlive_it(space: Any) -> None:
    gate = Gate()
    found: Kept[Any] = Kept()
    kept: list[Any] = []

    async def later(agent: Agent) -> None:
        await gate
        message = agent.current_message
        assert message is not None
        found.add([message["action"]["args"], await agent.ask("other", "echo", value=2)])

    async def start(agent: Agent, value: Any) -> Any:
        kept.append(asyncio.create_task(later(agent)))
        return "started"

    space.add(Doer("doer", start))
    space.add(Doer("other"))
    me = space.add(Agent("me"))
    assert me.ask("doer", "do", value=1).result(timeout=WAIT_S) == "started"
    assert me.ask("doer", "echo", value=3).result(timeout=WAIT_S) == 3
    gate.open()
    assert found.wait_for(1) == [[{"value": 1}, 2]]
