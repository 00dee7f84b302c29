"""One message at a time, in the order in which each sender sent them."""

import asyncio
import threading
from typing import Any

import pytest

from conformance.conftest import WAIT_S, Kept, Recorder, message, settle, waits
from conformance.gate import Doer, Gate, Holder
from moothall import ACCESS_REQUESTED, Agent, action
from moothall.foundation.errors import RequestTimeout


class Counter(Agent):
    """Keeps who sent what, and how many of its handlers are inside at a time."""

    def __init__(self, id: str, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self.seen: Kept[tuple[str, int]] = Kept()
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def come(self, n: int) -> None:
        handled = self.current_message
        assert handled is not None
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.seen.add((handled["from"], n))

    def go(self) -> None:
        with self._lock:
            self.inside -= 1

    @action
    async def count(self, n: int) -> int:
        self.come(n)
        self.go()
        return n

    @action
    async def count_slowly(self, n: int) -> int:
        self.come(n)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.go()
        return n

    @action
    def count_plainly(self, n: int) -> int:
        self.come(n)
        self.go()
        return n


FORMS = ["count", "count_slowly", "count_plainly"]


@pytest.mark.parametrize("form", (*FORMS, "mixed"))
def test_order_messages_of_a_thread_are_handled_in_order_one_at_a_time(
    space: Any, form: str
) -> None:
    counter = space.add(Counter("counter"))
    senders = [space.add(Recorder(f"sender {i}")) for i in range(4)]

    def send(sender: Agent) -> None:
        for n in range(60):
            name = FORMS[n % 3] if form == "mixed" else form
            if n % 7 == 3:
                assert sender.ask("counter", name, n=n).result(timeout=WAIT_S) == n
            else:
                sender.send(message("counter", name, n=n))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    counter.seen.wait_for(240)
    for sender in senders:
        assert [n for who, n in counter.seen if who == sender.id] == list(range(60))
    settle(counter, *senders)
    assert counter.most == 1
    assert len(counter.seen) == 240


@pytest.mark.parametrize("form", (*FORMS, "mixed"))
@pytest.mark.parametrize("step", ("do", "do_plainly"))
def test_order_messages_of_a_handler_are_handled_in_order(space: Any, form: str, step: str) -> None:
    counter = space.add(Counter("counter"))

    def name(n: int) -> str:
        return FORMS[n % 3] if form == "mixed" else form

    async def send(agent: Agent, value: Any) -> Any:
        for n in range(40):
            if n % 7 == 3:
                await agent.ask("counter", name(n), n=n)
            else:
                agent.send(message("counter", name(n), n=n))
            if n % 11 == 0:
                await asyncio.sleep(0)

    def send_plainly(agent: Agent, value: Any) -> Any:
        for n in range(40):
            if n % 7 == 3:
                agent.ask("counter", name(n), n=n).result(timeout=WAIT_S)
            else:
                agent.send(message("counter", name(n), n=n))

    for i in range(3):
        space.add(Doer(f"doer {i}", send, send_plainly))
    me = space.add(Agent("me"))
    for request in [me.ask(f"doer {i}", step) for i in range(3)]:
        request.result(timeout=WAIT_S)
    counter.seen.wait_for(120)
    for i in range(3):
        assert [n for who, n in counter.seen if who == f"doer {i}"] == list(range(40))
    assert counter.most == 1


def test_order_messages_of_a_plain_action_come_before_its_answer(space: Any) -> None:
    def send(agent: Agent, value: Any) -> Any:
        for n in range(5):
            agent.send(message("me", "say", content=str(n)))
        return "answer"

    space.add(Doer("doer", None, send))
    me = space.add(Recorder("me"))
    for _ in range(20):
        me.messages.clear()
        me.send(message("doer", "do_plainly"))
        told = me.told(6)
        assert [args.get("content", args.get("data")) for _, args in told] == [
            *"01234",
            "answer",
        ]


def test_order_messages_of_a_plain_action_come_before_the_agents_next(space: Any) -> None:
    def send(agent: Agent, value: Any) -> Any:
        for n in range(5):
            agent.send(message("counter", "count", n=10 * value + n))

    async def send_next(agent: Agent, value: Any) -> Any:
        last = message("counter", "count", n=10 * value + 5)
        thread = threading.Thread(target=agent.send, args=(last,))
        thread.start()
        thread.join()
        agent.send(message("counter", "count", n=10 * value + 6))

    counter = space.add(Counter("counter"))
    space.add(Recorder("me"))
    space.add(Doer("doer", send_next, send))
    me = space.add(Agent("you"))
    for value in range(30):
        me.send(message("doer", "do_plainly", value=value))
        me.send(message("doer", "do", value=value))
    counter.seen.wait_for(210)
    assert [n for _, n in counter.seen] == [10 * v + n for v in range(30) for n in range(7)]


def test_broadcasts_and_direct_messages_of_one_sender_keep_their_order(space: Any) -> None:
    counters = [space.add(Counter(f"counter {i}")) for i in range(3)]
    me = space.add(Agent("me", receive_own_broadcasts=False))
    for n in range(50):
        if n % 3:
            me.send(message("*", "count", n=n))
        else:
            for counter in counters:
                me.send(message(counter.id, "count", n=n))
    for counter in counters:
        assert [n for _, n in counter.seen.wait_for(50)] == list(range(50))


def test_agents_handle_messages_while_another_one_is_busy(space: Any) -> None:
    holder = space.add(Holder("holder"))
    other = space.add(Holder("other"))
    me = space.add(Agent("me"))
    first = me.ask("holder", "hold")
    second = me.ask("holder", "note", name="second")
    holder.begun.wait_for(1)
    assert me.ask("other", "note", name="x").result(timeout=WAIT_S) == "x"
    assert other.ended == ["x done"]
    assert holder.begun == ["one"]
    holder.gate("one").open()
    assert first.result(timeout=WAIT_S) == "one"
    assert second.result(timeout=WAIT_S) == "second"


@pytest.mark.parametrize("form", ("hold", "hold_plainly"))
@pytest.mark.parametrize("n", (1, 2, 5))
def test_concurrency_is_how_many_are_handled_at_a_time(space: Any, form: str, n: int) -> None:
    holder = space.add(Holder("holder", concurrency=n))
    me = space.add(Agent("me"))
    requests = [me.ask("holder", form, name=str(i)) for i in range(n + 2)]
    holder.begun.wait_for(n)
    assert waits(space, "holder", 2)
    assert len(space.statistics()["agents"]["holder"]["handling"]) == n
    assert sorted(holder.begun) == [str(i) for i in range(n)]
    holder.gate("0").open()
    holder.begun.wait_for(n + 1)
    assert holder.begun[-1] == str(n)
    for i in range(n + 2):
        holder.gate(str(i)).open()
    assert [each.result(timeout=WAIT_S) for each in requests] == [str(i) for i in range(n + 2)]


def test_order_reentrant_messages_pass_earlier_messages_only_if_needed(space: Any) -> None:
    # What is let in passes, since the handler waits for it. A handler that does not wait for it is
    # no reason to: then the order of the one who sent both holds.
    order: Kept[str] = Kept()
    gate, kept = Gate(), []

    class Home(Doer):
        @action
        async def note(self, name: str) -> str:
            order.add(name)
            return name

    async def outer(agent: Agent, value: Any) -> Any:
        kept.append(agent.ask("B", "do"))
        await gate

    async def both(agent: Agent, value: Any) -> Any:
        agent.send(message("A", "note", name="first"))
        kept.append(agent.ask("A", "note", name="second"))
        return await kept[-1]

    space.add(Home("A", outer))
    space.add(Doer("B", both))
    me = space.add(Agent("me"))
    request = me.ask("A", "do")
    while space.statistics()["agents"]["A"]["waiting"] < 2:
        settle(me)
    gate.open()
    request.result(timeout=WAIT_S)
    assert order.wait_for(2) == ["first", "second"]


def test_order_later_messages_pass_a_message_awaiting_approval(space: Any) -> None:
    gates = {"yes": Gate(), "no": Gate()}
    asked: Kept[str] = Kept()

    class Careful(Holder):
        @action(access_policy=ACCESS_REQUESTED)
        async def careful(self, name: str) -> str:
            self.begun.add(name)
            return name

        async def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            name: str = proposed_message["action"]["args"]["name"]
            asked.add(name)
            await gates[name]
            return name == "yes"

    holder = space.add(Careful("holder"))
    me = space.add(Recorder("me"))
    first = me.ask("holder", "careful", name="yes")
    me.send({"id": "refused", **message("holder", "careful", name="no")})
    asked.wait_for(2)
    for n in range(5):
        assert me.ask("holder", "note", name=str(n)).result(timeout=WAIT_S) == str(n)
    assert space.statistics()["agents"]["holder"] == {"waiting": 0, "handling": [], "asking": 2}

    # Approved, it is handled as if it had arrived then: behind what waits already.
    held = me.ask("holder", "hold")
    holder.begun.wait_for(6)
    waiting = me.ask("holder", "note", name="waiting")
    assert waits(space, "holder", 1)
    gates["yes"].open()
    while space.statistics()["agents"]["holder"]["asking"] > 1:
        settle(me)
    later = me.ask("holder", "note", name="later")
    holder.gate("one").open()
    assert [each.result(timeout=WAIT_S) for each in (first, held, waiting, later)] == [
        "yes",
        "one",
        "waiting",
        "later",
    ]
    assert holder.begun == [*"01234", "one", "waiting", "yes", "later"]
    gates["no"].open()
    ((_, args),) = me.told(1)
    assert args == {"error": '"holder.careful" not permitted', "original_message_id": "refused"}
    assert "no" not in holder.begun


def test_approvals_wait_side_by_side(space: Any) -> None:
    gate, asked = Gate(), Kept[int]()

    class Careful(Agent):
        @action(access_policy=ACCESS_REQUESTED)
        async def careful(self, n: int) -> int:
            return n

        def request_permission(self, proposed_message: dict[str, Any]) -> bool:
            asked.add(proposed_message["action"]["args"]["n"])
            gate.wait()
            return True

    space.add(Careful("careful"))
    me = space.add(Agent("me"))
    requests = [me.ask("careful", "careful", n=n) for n in range(20)]
    assert sorted(asked.wait_for(20)) == list(range(20))
    gate.open()
    assert [each.result(timeout=WAIT_S) for each in requests] == list(range(20))


def test_cancelled_messages_leave_the_order_of_the_others(space: Any) -> None:
    counter = space.add(Counter("counter"))
    holder = space.add(Holder("holder"))
    me = space.add(Agent("me"))
    held = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    requests = [me.ask("holder", "note", name=str(n)) for n in range(200)]
    assert waits(space, "holder", 200)
    for n, request in enumerate(requests):
        if n % 3:
            request.cancel()
    assert waits(space, "holder", 67)
    holder.gate("one").open()
    assert held.result(timeout=WAIT_S) == "one"
    for request in requests[::3]:
        request.result(timeout=WAIT_S)
    assert holder.begun == ["one", *(str(n) for n in range(0, 200, 3))]
    assert counter.seen == []


def test_order_request_answered_at_once_passes_no_waiting_message(space: Any) -> None:
    async def both(agent: Agent, value: Any) -> Any:
        for n in range(50):
            agent.send(message("counter", "count", n=2 * n))
            await agent.ask("counter", "count", n=2 * n + 1)

    counter = space.add(Counter("counter"))
    space.add(Doer("doer", both))
    me = space.add(Agent("me"))
    me.ask("doer", "do").result(timeout=WAIT_S)
    assert [n for _, n in counter.seen] == list(range(100))


def test_order_endless_requests_of_one_agent_let_others_run(space: Any) -> None:
    stop = threading.Event()

    async def ask(agent: Agent, value: Any) -> Any:
        n = 0
        while not stop.is_set():
            await agent.ask("counter", "count", n=n)
            n += 1
        return n

    space.add(Counter("counter"))
    space.add(Doer("doer", ask))
    space.add(Doer("other"))
    me = space.add(Agent("me"))
    request = me.ask("doer", "do")
    for n in range(20):
        assert me.ask("other", "echo", value=n).result(timeout=WAIT_S) == n
        assert me.ask("counter", "count", n=n).result(timeout=WAIT_S) == n
    with pytest.raises(RequestTimeout):
        me.request(message("doer", "echo"), timeout=0.05).result(timeout=WAIT_S)
    stop.set()
    assert request.result(timeout=WAIT_S) > 0
