"""Messages in a society: sent in one step, handled in the next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moothall import Agent, CallbackApprover, action
from moothall.actions import ACCESS_REQUESTED
from moothall.foundation.errors import (
    DefinitionError,
    InvalidMessage,
    RequestCancelled,
    SpaceClosed,
    VirtualTimeError,
)
from moothall.society import CitizenAgent, CitizenMemory, City, Population, Society, all_blocks
from society.life import Bank, Noting, living, said, town

HELLO = said("me", content="hello")


async def test_society_messages_arrive_in_the_next_step_each_senders_in_sequence() -> None:
    def speak(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            for number in range(2):
                me.send(said("ear", content=f"{me.id} {number}"))

    ear = Noting("ear")
    async with Society([ear, *(living(speak, id=id) for id in (10, 9, "b", 2, "a"))]) as society:
        await society.step()
        assert ear.heard == []
        await society.step()
        heard = [args["content"] for _, _, args in ear.heard]
        senders = [each.split()[0] for each in heard[::2]]
        assert heard == [f"{id} {number}" for id in senders for number in range(2)]
        assert sorted(senders) == ["10", "2", "9", "a", "b"]


async def test_society_answers_of_services_arrive_with_the_messages_of_a_step() -> None:
    class Saver(Noting):
        async def forward(self) -> None:
            self.send(said("bank", "save", cents=5))

    me, others = Saver("me"), [living(lambda one: one.send(HELLO), id=id) for id in ("z", "a")]
    async with Society([me, *others], services=[Bank()]) as society:
        await society.run(steps=3)
    senders = [sender for sender, _, _ in me.heard]
    assert [sorted(senders[:3]), sorted(senders[3:])] == [["a", "bank", "z"]] * 2


async def test_answers_and_errors_come_a_step_later() -> None:
    me, other = Noting("me"), Noting("other")
    async with Society([me, other]) as society:
        me.send({"id": "m1", **said("other", "double", number=4)})
        me.send(said("other", "fail"))
        me.send(said("other", "burn"))
        me.send(said("other", "double", number="four"))
        me.send(said("nobody", "double", number=4))
        await society.step()
        assert [name for _, name, _ in other.heard] == ["double"]
        assert me.heard == []
        await society.step()
        answer, *errors = me.heard
        assert answer == ("other", "response", {"data": 8, "original_message_id": "m1"})
        assert [name for _, name, _ in errors] == ["error"] * 3
        assert errors[0][2]["error"] == "ValueError: no"
        assert errors[1][2]["error"] == '"burn" not found on "other"'


async def test_society_agent_handles_one_message_at_a_time() -> None:
    class Slow(Agent):
        concurrency = 5
        log: list[str] = []  # noqa: RUF012

        @action
        async def work(self, name: str) -> None:
            self.log.append(f"begin {name}")
            await asyncio.sleep(0)
            self.log.append(f"end {name}")

    slow, me = Slow("slow"), Noting("me")
    async with Society([slow, me]) as society:
        for name in "ab":
            me.send(said("slow", "work", name=name))
        await society.step()
    assert slow.log == ["begin a", "end a", "begin b", "end b"]


async def test_society_citizen_that_leaves_handles_nothing_more() -> None:
    class Leaves(Noting):
        @action
        async def say(self, content: str) -> None:
            self.note()
            self.space.remove(self)

        async def forward(self) -> None:
            self.heard.append(("one", "stays", None))

    one, two, three = Leaves("one"), Noting("two"), Leaves("three")
    async with Society([one, two, three]) as society:
        await society.step()
        for to in ("one", "three", "three"):
            two.send(said(to, content="go"))
        await society.run(steps=2)
    for each in (one, three):
        assert [name for _, name, _ in each.heard] == ["stays", "say"]


async def test_society_plain_action_runs_in_a_thread_and_holds_up_no_other() -> None:
    class Plain(Agent):
        @action
        def add(self, a: int, b: int) -> int:
            return a + b

    me = Noting("me")
    async with Society([me, Plain("plain")]) as society:
        me.send(said("plain", "add", a=1, b=2))
        await society.run(steps=2)
        assert me.heard[0][2]["data"] == 3


async def test_society_broadcast_reaches_all_who_are_there_when_it_is_delivered() -> None:
    one, two = Noting(1), Noting(2, receive_own_broadcasts=False)
    async with Society([one, two]) as society:
        one.send(said("*", content="all"))
        two.send(said("*", content="others"))
        await society.step()
        assert [args["content"] for _, _, args in one.heard] == ["all", "others"]
        assert [args["content"] for _, _, args in two.heard] == ["all"]
        one.send(said("*", "burn"))  # who cannot do it does not answer
        await society.run(steps=2)
        assert [name for _, name, _ in one.heard] == ["say", "say"]


async def test_society_request_is_settled_by_a_service_but_refused_to_an_agent() -> None:
    held: list[Any] = []

    async def ask(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            with pytest.raises(VirtualTimeError, match="bank"):
                me.request(said(2))
            with pytest.raises(VirtualTimeError, match="cannot request from 'nobody'"):
                me.ask("nobody", "say", content="x")
            with pytest.raises(InvalidMessage):
                me.request(said("*"))
            pending = me.ask("bank", "save", cents=30)
            held.append(pending)
            with pytest.raises(VirtualTimeError, match="in the next step"):
                await pending
        me.memory.note(me.perceived.step, str([m["action"] for m in me.perceived.messages]))

    me, other = living(ask, money=100), Noting(2)
    async with Society([me, other], services=[Bank()]) as society:
        row = await society.step()
        assert row["failures"] == 0, society.failures
        done = {"done": True, "reason": "", "value": 30}
        assert await held[0] == done
        assert me.status["money"] == 70
        await society.step()
        assert str(done) in me.memory.stream[1][1]
        # Others ask a service by a message, and are told as much.
        other.send(said("bank", "save", cents=1))
        other.send(said("bank", "rob", cents=1))
        other.send(said("bank", "save", euros=1))
        other.send(said("bank", "follow", id="1"))
        await society.run(steps=2)
        assert [name for _, name, _ in other.heard] == ["error", "error", "response", "response"]
        assert "must be one of move, pay" in other.heard[0][2]["error"]
        assert "do not fit save" in other.heard[1][2]["error"]
        assert other.heard[2][2]["data"]["reason"] == "2 has no money of its own"
        assert other.heard[3][2]["data"]["reason"] == "bank does not take Follow"


async def test_society_service_and_city_say_to_help_what_they_take() -> None:
    me = Noting("me", memory=CitizenMemory({"home": "a"}))
    async with Society([me], city=town(), services=[Bank()]) as society:
        me.send(said("bank", "help"))
        me.send(said("city", "help", action_name="move"))
        me.send(said("bank", "help", action_name=["lend"]))
        await society.run(steps=2)
    (bank, name, save), (city, _, move), (_, error, refused) = sorted(
        me.heard, key=lambda each: (each[1] == "error", each[0])
    )
    assert (bank, name, city, error) == ("bank", "response", "city", "error")
    cents = {"type": "integer", "description": "the amount; below 0 is a withdrawal"}
    assert save["data"] == {
        "save": {
            "description": "Deposit money at the bank, or withdraw it.",
            "args": {"cents": cents},
        }
    }
    assert [*move["data"]["move"]["args"]] == ["to", "mode"]
    assert "help takes an action_name of save, got" in refused["error"]


async def test_society_city_is_asked_by_message_as_services_are() -> None:
    me, other = living(lambda me: None, home="a"), Noting(2)
    async with Society([me, other], city=town()) as society:
        me.send(said("city", "move", to="b"))
        other.send(said("city", "move", to="b"))
        await society.run(steps=2)
        assert me.status["place"] == "b"
        assert other.heard[0][2]["data"]["reason"] == "2 is not a citizen"


async def test_society_full_agent_of_a_population_asks_the_city_and_pays_by_message() -> None:
    city = City.generate(seed=1, citizens=20)
    told: list[Any] = []
    async with Society(Population(20, city, all_blocks(), seed=1)) as society:
        society.observe(lambda each: told.append(each["action"]["args"].get("data")))
        me = society.population.promote(1) if society.population else None
        assert me is not None
        me.send(said("city", "move", to="park-1"))
        me.send(said("city", "pay", to=["2"], cents=1))
        await society.step()
        answers = [each for each in told if each]
        assert [each["done"] for each in answers] == [False, True]
        assert answers[0]["reason"] == "there is no ['2'] to pay"


async def test_interceptor_stops_and_changes_messages_in_their_order() -> None:
    seen: list[str] = []

    def censor(message: dict[str, Any]) -> dict[str, Any] | None:
        content = message["action"]["args"].get("content", "")
        seen.append(content)
        return None if "secret" in content else message

    def shout(message: dict[str, Any]) -> dict[str, Any]:
        message["action"]["args"]["content"] = message["action"]["args"]["content"].upper()
        return message

    def broken(message: dict[str, Any]) -> Any:
        message["action"] = "none"
        return message

    ear, me = Noting("ear"), Noting(1)
    shown: list[Any] = []
    async with Society([ear, me]) as society:
        for each in (censor, shout, broken):
            society.intercept(each)
        society.observe(shown.append)
        for content in ("one", "a secret", "two"):
            me.send(said("ear", content=content))
        await society.step()
        assert seen == ["one", "a secret", "two"]
        assert [args["content"] for _, _, args in ear.heard] == ["ONE", "TWO"]
        assert [message["action"]["args"]["content"] for message in shown] == ["ONE", "TWO"]
        for wrong in ("no", ear.say):
            with pytest.raises(DefinitionError, match="plain function"):
                society.intercept(wrong)  # type: ignore[arg-type]


async def test_interceptor_that_stops_a_request_ends_it() -> None:
    me = living(lambda one: None, id=1, money=9)
    async with Society([me], services=[Bank()]) as society:
        society.intercept(lambda message: None)
        request = me.request(said("bank", "save", cents=5))
        await society.step()
        with pytest.raises(RequestCancelled, match=r'an interceptor stopped "bank\.save"'):
            await request
        assert me.status["money"] == 9


async def test_society_mailbox_takes_a_storm_of_messages_up_to_its_limit() -> None:
    def storm(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            for _ in range(50):
                me.send(said("ear", content="!"))

    ear = Noting("ear")
    async with Society([ear, living(storm)], mailbox=20) as society:
        assert (await society.step())["messages"] == 20
        row = await society.step()
        assert len(ear.heard) == 20
        assert row["messages"] == 20  # of the 30 errors, its own mailbox takes 20
        assert (await society.step())["messages"] == 0  # an error is answered by none


@pytest.mark.parametrize("permits", (True, False))
async def test_society_approval_is_waited_for_in_the_turn(permits: bool) -> None:
    class Guarded(Noting):
        @action(access_policy=ACCESS_REQUESTED)
        async def open(self) -> str:
            return "opened"

    guarded, me = Guarded("guarded"), Noting("me")
    approver = CallbackApprover(lambda request: permits)
    async with Society([guarded, me], approver=approver) as society:
        me.send(said("guarded", "open"))
        me.send(said("guarded", content="after"))
        await society.run(steps=2)
        assert guarded.heard[0][2] == {"content": "after"}
        told = "opened" if permits else "not permitted"
        assert told in str(me.heard[0][2])


async def test_callbacks_are_called_as_in_every_space() -> None:
    class Told(Noting):
        calls: list[str] = []  # noqa: RUF012

        async def after_add(self) -> None:
            self.calls.append("after_add")
            self.send(said("me", content="here I am"))

        async def before_action(self, message: dict[str, Any]) -> None:
            self.calls.append("before")

        async def after_action(
            self, message: dict[str, Any], value: Any, error: BaseException | None
        ) -> None:
            self.calls.append(f"after {value}")

        async def before_remove(self) -> None:
            self.calls.append("before_remove")

    me, told = Noting("me"), Told("told")
    async with Society([me, told]) as society:
        me.send(said("told", "double", number=2))
        await society.step()
        assert me.heard == [("told", "say", {"content": "here I am"})]
    assert told.calls == ["after_add", "before", "after 4", "before_remove"]


async def test_society_message_to_a_citizen_that_left_is_dropped() -> None:
    me, other = Noting("me"), Noting("other")
    async with Society([me, other]) as society:
        me.send(said("other", content="bye"))
        society.remove(other)
        assert (await society.step())["messages"] == 0
    with pytest.raises(SpaceClosed):
        society.add(Noting("late"))
