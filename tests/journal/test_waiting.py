"""Runs that wait in the journal: for approvals, answers, results from outside and moments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from journal.conftest import Place
from journal.crash import Crashing, crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Always,
    Budget,
    CallbackApprover,
    ChangedArgs,
    Context,
    Conversation,
    Journal,
    Later,
    MaxTurns,
    NativeSpace,
    ReActAgent,
    Refused,
    ScriptedModel,
    SQLiteMemory,
    Waiting,
    action,
)
from moothall.agents.agent import Agent
from moothall.agents.replies.reply import Reply
from moothall.foundation.errors import (
    ActionError,
    ConfigError,
    NotPermitted,
    RunWaiting,
    StateError,
)

PAST = datetime(2020, 1, 1, tzinfo=UTC)


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def paying(paid: Callable[[int], object]) -> Action:
    def pay(coins: int) -> str:
        """Pay."""
        return str(paid(coins))

    return Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)


class Till:
    """Pays, and counts what it has paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def __call__(self, coins: int) -> str:
        self.paid.append(coins)
        return f"paid {coins}"

    @property
    def pay(self) -> Action:
        return paying(self)


def clerk(journal: Any, answers: list[Any], *actions: Any, **options: Any) -> ReActAgent:
    given = {"approver": Waiting(), "journal": journal} | options
    return ReActAgent("clerk", ScriptedModel(answers), actions=list(actions), **given)


def results(reply: Reply) -> list[Any]:
    """What the model was told of each call."""
    return [each["content"] for each in reply.messages if each["role"] == "tool"]


# -- approvals -------------------------------------------------------------------------------------


async def test_call_of_an_answer_begins_once_permitted_while_others_run_and_wait(
    place: Place,
) -> None:
    """One that runs ends after the permission, the question and the result of the others came."""
    till, order = Till(), list[str]()
    paid, asked = asyncio.Event(), asyncio.Event()

    @action
    async def count() -> str:
        """Count the coins, which takes until all else is done."""
        await paid.wait()
        await asked.wait()
        order.append("counted")
        return "counted"

    @action
    async def choose(context: Context[Any]) -> str:
        """Ask a person."""
        said = await context.ask_person("Which colour?")
        order.append(said)
        asked.set()
        return said

    def pay(coins: int) -> str:
        order.append("paid")
        paid.set()
        return till(coins)

    script = [[call("count"), call("pay", coins=3), call("choose"), call("pay", coins=4)], "Done."]
    with Journal(place("runs.db")) as journal:
        agent = clerk(journal, script, paying(pay), count, choose)
        work = asyncio.create_task(agent.reply("Pay.", run_id="r"))
        while len(journal.waiting()) < 3:  # noqa: ASYNC110 - the journal has no event for it
            await asyncio.sleep(0.01)
        first, question, last = (
            next(each for each in journal.waiting("r") if (each.action, each.args) == wanted)
            for wanted in (("pay", {"coins": 3}), ("choose", {}), ("pay", {"coins": 4}))
        )
        journal.answer("r", first.key, True)
        journal.answer("r", question.key, "red")
        assert (await work).stop_reason == "waiting"
        assert (sorted(order), order[-1]) == (["counted", "paid", "red"], "counted")
        assert [each.key for each in journal.waiting("r")] == [last.key]
        journal.answer("r", last.key, False)
        (resumed,) = await agent.resume_decided()
        assert (resumed.reply and resumed.reply.text, till.paid) == ("Done.", [3])


async def test_approval_waits_in_the_journal_and_another_process_answers(place: Place) -> None:
    till = Till()
    with Journal(place("runs.db")) as journal, Journal(place("runs.db")) as office:
        agent = clerk(journal, [call("pay", coins=3), "Paid."], till.pay)
        reply = await agent.reply("Pay 3.", run_id="r")
        assert (reply.stop_reason, till.paid) == ("waiting", [])
        assert (office.run("r").state, office.run("r").under_way) == ("waiting", False)
        (wait,) = office.waiting()
        assert (wait.run, wait.kind, wait.agent, wait.action) == ("r", "approval", "clerk", "pay")
        assert (wait.args, wait.until, wait.step) == ({"coins": 3}, None, "1.0")
        assert "the approval of pay(coins=3), since" in reply.detail
        assert await agent.resume_decided() == []
        office.answer("r", wait.key, True, by="eva")
        (resumed,) = await agent.resume_decided()
        assert resumed.reply is not None
        assert (resumed.reply.text, till.paid, office.waiting()) == ("Paid.", [3], [])
        assert office.run("r").state == "done"
        (decided,) = office.waits.decided(by="eva")
        assert (decided.key, decided.answer) == (wait.key, True)


async def test_calls_that_are_equal_are_two_questions_and_each_runs_once_it_is_permitted(
    place: Place,
) -> None:
    till = Till()
    with Journal(place("runs.db")) as journal:
        twice = [call("pay", coins=3), call("pay", coins=3)]
        agent = clerk(journal, [twice, "One was paid."], till.pay)
        await agent.reply("Pay 3 twice.", run_id="r")
        first, second = sorted(journal.waiting("r"), key=lambda each: each.step)
        assert first.key != second.key
        journal.answer("r", second.key, True)
        assert (await agent.reply("Pay 3 twice.", run_id="r")).stop_reason == "waiting"
        assert (till.paid, [each.key for each in journal.waiting("r")]) == ([3], [first.key])
        journal.answer("r", first.key, Refused("once is enough"))
        reply = await agent.reply("Pay 3 twice.", run_id="r")
        assert (reply.text, till.paid) == ("One was paid.", [3])
        assert results(reply) == ['{"error": "\\"pay\\" not permitted: once is enough"}', "paid 3"]
        assert journal.run("r").errors == 0  # a refusal is none


async def test_forged_a_second_and_a_late_answer_change_nothing(place: Place) -> None:
    till = Till()
    with Journal(place("runs.db")) as journal:
        agent = clerk(journal, [call("pay", coins=3), "No."] * 2, till.pay)
        await agent.reply("Pay 3.", run_id="r")
        (wait,) = journal.waiting("r")
        with pytest.raises(StateError, match="waits for nothing under the key 'ffff"):
            journal.answer("r", "f" * 64, True)
        with pytest.raises(ConfigError, match="the answer to an approval must be True, False"):
            journal.answer("r", wait.key, "yes")
        journal.answer("r", wait.key, False, by="eva")
        journal.answer("r", wait.key, False, by="bo")  # the same again
        with pytest.raises(StateError, match=r"was answered by eva at .* with false, and not with"):
            journal.answer("r", wait.key, True)
        reply = await agent.reply("Pay 3.", run_id="r")
        assert (reply.text, till.paid) == ("No.", [])
        journal.answer("r", wait.key, False)
        with pytest.raises(StateError, match="the first answer counts"):
            journal.answer("r", wait.key, True)

        hasty = clerk(
            journal, [call("pay", coins=3), "Too late."], till.pay, approver=Waiting(until=1e-6)
        )
        reply = await hasty.reply("Pay 3.", run_id="late")
        assert (reply.text, till.paid) == ("Too late.", [])
        assert '\\"pay\\" not permitted: nobody has answered by ' in results(reply)[0]
        (entry,) = (each for each in journal.entries("late") if each.kind == "waits")
        with pytest.raises(StateError, match="cannot be answered any more: it was over at"):
            journal.answer("late", entry.data["wait"], True)


async def test_waiting_run_checks_who_answers_and_records_it(journal: Journal) -> None:
    till = Till()
    agent = clerk(
        journal, [call("pay", coins=3), "Ok."], till.pay, approver=Waiting(who=("eva", "bo"))
    )
    await agent.reply("Pay 3.", run_id="r")
    (wait,) = journal.waiting("r")
    assert wait.who == ("eva", "bo")
    assert journal.waiting(agent=wait.agent) == [wait]
    assert journal.waiting(agent="other") == []
    for name in (None, "mallory"):
        with pytest.raises(NotPermitted, match="may be answered by eva or bo, and not by"):
            journal.answer("r", wait.key, True, by=name)
    with pytest.raises(ConfigError, match="'pay' takes coins, and ChangedArgs has euros"):
        journal.answer("r", wait.key, ChangedArgs({"euros": 2}), by="bo")
    journal.answer("r", wait.key, ChangedArgs({"coins": 2}), by="bo")
    reply = await agent.reply("Pay 3.", run_id="r")
    assert (reply.text, till.paid) == ("Ok.", [2])
    assert "A person changed the arguments" in results(reply)[0]
    assert [each.data["by"] for each in journal.entries("r") if each.kind == "permitted"] == ["bo"]


@pytest.mark.parametrize("by", ("mallory", None))
async def test_answer_before_its_call_by_somebody_who_may_not_give_it_does_not_count(
    journal: Journal, by: str | None
) -> None:
    def sign(context: Context[Any]) -> Later:
        """Have it signed."""
        journal.answer(str(context.run_id), "signature", "X", by=by)
        return Later("signature", who="eva")

    agent = clerk(journal, [call("sign"), "Signed."], sign)
    assert (await agent.reply("Sign.", run_id="r")).stop_reason == "waiting"
    journal.answer("r", "signature", "Eva", by="eva")
    reply = await agent.reply("Sign.", run_id="r")
    assert (reply.text, results(reply)) == ("Signed.", ["Eva"])


async def test_question_open_at_a_crash_is_the_same_afterwards(tmp_path: Path) -> None:
    till, path = Till(), tmp_path / "runs.db"
    script = [[call("pay", coins=1), call("pay", coins=2)], "Done."]
    with Journal(path) as journal:
        agent = clerk(journal, script, till.pay)
        await agent.reply("Pay.", run_id="r")
        one, two = sorted(journal.waiting("r"), key=lambda each: each.step)
        journal.answer("r", one.key, True)
        # A crash while the first call, which is permitted, pays.
        crashing = Crashing(journal, tmp_path / "crashed.db")
        other = clerk(journal, script, paying(crashing))
        await other.reply("Pay.", run_id="r")
    with Journal(tmp_path / "crashed.db") as journal:
        assert journal.run("r").state == "in_doubt"
        assert {each.kind for each in journal.waiting("r")} == {"approval", "doubt"}
        (open_one,) = journal.waiting("r", kind="approval")
        assert (open_one.key, open_one.since) == (two.key, two.since)
        (doubt,) = journal.waiting(kind="doubt")
        journal.answer("r", doubt.key, "repeat", by="eva")
        journal.answer("r", doubt.key, "repeat")
        with pytest.raises(StateError, match="was decided at"):
            journal.answer("r", doubt.key, "skip")
        agent = clerk(journal, script, till.pay)
        (resumed,) = await agent.resume_runs()
        assert resumed.reply is not None
        assert (resumed.reply.stop_reason, till.paid) == ("waiting", [1])
        assert await agent.resume_decided() == []  # what was decided has been carried out
        journal.answer("r", two.key, True)
        (resumed,) = await agent.resume_runs()
        assert resumed.reply is not None
        assert (resumed.reply.text, sorted(till.paid)) == ("Done.", [1, 2])
        assert {each.key for each in journal.waits.decided(by="eva")} == {doubt.key}


async def test_always_from_the_journal_permits_and_without_a_journal_it_is_refused(
    tmp_path: Path,
) -> None:
    till = Till()
    with Journal(tmp_path / "runs.db") as journal:
        agent = clerk(journal, [call("pay", coins=3), "Ok."], till.pay)
        await agent.reply("Pay 3.", run_id="r")
        journal.answer("r", journal.waiting()[0].key, Always())
        assert (await agent.reply("Pay 3.", run_id="r")).text == "Ok."
    bare = clerk(None, [call("pay", coins=4), "No."], till.pay)
    reply = await bare.reply("Pay 4.")
    assert (reply.text, till.paid) == ("No.", [3])
    assert "which needs a reply with a journal=" in results(reply)[0]


async def test_fork_asks_for_itself_and_its_original_goes_on(journal: Journal) -> None:
    till = Till()
    agent = clerk(journal, [call("pay", coins=3), "Ok.", "Ok."], till.pay)
    await agent.reply("Pay 3.", run_id="r")
    journal.answer("r", journal.waiting()[0].key, True)
    copy = journal.fork("r")
    assert (await agent.reply("Pay 3.", run_id=copy)).stop_reason == "waiting"
    assert (till.paid, len(journal.waiting(copy))) == ([], 1)
    (resumed,) = await agent.resume_decided()  # what was permitted is carried out once
    assert (resumed.run.id, resumed.reply and resumed.reply.text) == ("r", "Ok.")
    assert (till.paid, len(journal.waiting(copy))) == ([3], 1)


# -- results, moments and questions ----------------------------------------------------------------


@action
def send_batch(number: int) -> Later:
    """Send a batch, whose result a webhook brings."""
    return Later(f"batch-{number}")


@action
async def send_later() -> str:
    """Send a batch, and raise."""
    raise Later("batch-1", default="nothing", until=PAST)


async def test_result_from_outside_is_given_by_its_key(place: Place) -> None:
    with Journal(place("runs.db")) as journal:
        two = [call("send_batch", number=1), call("send_batch", number=2)]
        agent = clerk(journal, [two, "Both came."], send_batch)
        await agent.reply("Send.", run_id="r")
        assert {each.key for each in journal.waiting(kind="result")} == {"batch-1", "batch-2"}
        journal.answer("r", "batch-2", {"rows": 2})
        journal.answer("r", "batch-1", None)
        (resumed,) = await agent.resume_decided()
        assert resumed.reply is not None
        assert results(resumed.reply) == ["null", '{"rows": 2}']
        starts = [each for each in journal.entries("r") if each.kind == "started"]
        assert len([each for each in starts if "action" in each.data["about"]]) == 2


@dataclass
class Bill:
    coins: int


class Note(BaseModel):
    text: str


@pytest.mark.parametrize("schema", (Bill, [Note, Bill], [Bill, Note], Note, {"type": "null"}, None))
async def test_resumed_value_has_the_type_that_fits_its_run_or_is_json_data(
    journal: Journal, schema: Any
) -> None:
    async def order() -> Later:
        return Later("k")

    def clerk() -> ReActAgent:
        model = ScriptedModel([call("order"), '{"coins": 3}'])
        return ReActAgent("clerk", model, actions=[order], journal=journal)

    assert (await clerk().reply("go", run_id="r", schema=Bill)).stop_reason == "waiting"
    journal.answer("r", "k", "came")
    (resumed,) = await clerk().resume_decided(schema=schema)
    assert resumed.reply is not None
    has_type = schema is Bill or (isinstance(schema, list) and Bill in schema)
    assert resumed.reply.value == (Bill(3) if has_type else {"coins": 3})
    with pytest.raises(ConfigError, match="schema= must be a JSON schema or a type"):
        await clerk().resume_runs(schema=[Bill, print])


async def test_answer_that_comes_before_its_question_is_kept_and_given(place: Place) -> None:
    with Journal(place("runs.db")) as journal:
        till = Till()
        script = [call("pay", coins=1), call("send_batch", number=7), "Came."]
        agent = clerk(journal, script, till.pay, send_batch)
        await agent.reply("Send.", run_id="r")
        journal.answer("r", "batch-7", "early")
        journal.answer("r", "batch-7", "early")
        with pytest.raises(StateError, match="the first answer counts"):
            journal.answer("r", "batch-7", "other")
        for number in range(99):
            journal.answer("r", f"never-{number}", number)
        with pytest.raises(StateError, match="has 100 answers already that it has not asked for"):
            journal.answer("r", "one more", 1)
        (wait,) = journal.waiting()
        journal.answer("r", wait.key, True)
        reply = await agent.reply("Send.", run_id="r")
        assert (reply.text, results(reply)) == ("Came.", ["paid 1", "early"])
        with pytest.raises(StateError, match="is over"):
            journal.answer("r", "another", 1)


async def test_wait_that_nobody_answers_in_time_is_an_error_or_the_default(
    journal: Journal,
) -> None:
    def overdue() -> Later:
        """Wait for a result until a moment that is over."""
        return Later("k", until=PAST)

    def nap() -> Later:
        """Wait for a moment that is over."""
        return Later(until=PAST)

    calls = [call("overdue"), call("send_later"), call("nap")]
    agent = clerk(journal, [calls, "Ok."], overdue, send_later, nap)
    reply = await agent.reply("Go.", run_id="r")
    error, default, moment = results(reply)
    assert error.startswith('{"error": "no result \'k\': nobody has answered by 2020-01-01')
    assert (default, moment) == ("nothing", "null")


async def test_moment_can_be_answered_by_hand(journal: Journal) -> None:
    def sleep() -> Later:
        """Sleep for a year."""
        return Later(until=86_400 * 365)

    agent = clerk(journal, [call("sleep"), "Awake."], sleep)
    await agent.reply("Sleep.", run_id="r")
    (wait,) = journal.waiting(kind="moment")
    assert wait.until is not None
    assert await agent.resume_decided() == []
    with pytest.raises(ConfigError, match="its answer is None, got 3"):
        journal.answer("r", wait.key, 3)
    journal.answer("r", wait.key)
    (resumed,) = await agent.resume_decided()
    assert resumed.reply is not None
    assert resumed.reply.text == "Awake."


async def test_question_to_a_person_waits_and_its_action_begins_anew(place: Place) -> None:
    begun: list[str] = []

    @action
    async def choose(context: Context[Any]) -> str:
        """Ask twice."""
        begun.append("choose")
        try:
            color = await context.ask_person("Which color?")
        except Exception as error:
            return f"swallowed {error}"
        return f"{color} and {await context.ask_person('Which color?')}"

    @action
    def size(context: Context[Any]) -> str:
        """Ask in a thread."""
        return context.ask_person("Which size?").result()

    with Journal(place("runs.db")) as journal:
        agent = clerk(journal, [[call("choose"), call("size")], "Chosen."], choose, size)
        await agent.reply("Choose.", run_id="r")
        for said in ("red", "blue"):
            for wait in journal.waiting(kind="question"):
                with pytest.raises(ConfigError, match="must be a text, or None"):
                    journal.answer("r", wait.key, 3)
                journal.answer("r", wait.key, said)
            (resumed,) = await agent.resume_decided()
        assert resumed.reply is not None
        assert results(resumed.reply) == ["red and blue", "red"]
        assert (len(begun), journal.in_doubt("r")) == (3, [])


async def test_action_without_a_journal_cannot_give_its_result_later(tmp_path: Path) -> None:
    agent = clerk(None, [call("send_batch", number=1), "Ok."], send_batch)
    assert "needs an agent with a journal=" in results(await agent.reply("Send."))[0]

    class Office(Agent):
        @action
        async def plain(self) -> None:
            """Raise."""
            raise Later("k")

        @action
        def threaded(self) -> Later:
            """Return."""
            return Later("k")

    with NativeSpace() as space:
        space.add(Office("office"))
        asker = space.add(Agent("asker"))
        for name in ("plain", "threaded"):
            with pytest.raises(ActionError, match="only a reply of an agent with a journal="):
                await asker.request({"to": "office", "action": {"name": name}})


class Waiter:
    """A participant of a class of one's own."""

    id = "waiter"

    async def reply(self, text: str) -> Reply:
        return later()

    async def observe(self, message: Any) -> None: ...


def later(*about: Any) -> Any:
    raise Later("bank")


@pytest.mark.parametrize("records", (True, False))
@pytest.mark.parametrize("whose", ("system_prompt", "check", "member", "until", "next", "approver"))
async def test_later_of_what_is_no_action_is_an_error_and_of_an_approver_waits(
    tmp_path: Path, whose: str, records: bool
) -> None:
    journal = Journal(tmp_path / "runs.db") if records else None
    till = Till()
    options: Any = {whose: later} if whose in ("system_prompt", "check") else {}
    options |= {"approver": CallbackApprover(later), "actions": [till.pay]}
    answers: list[Any] = [call("pay", coins=3), "Done."] if whose == "approver" else ["Done."]
    clerk = ReActAgent("a", ScriptedModel(answers), **options)
    group: Any = {"until": MaxTurns(1)} | ({whose: later} if whose in ("until", "next") else {})
    agent: Any = Conversation([Waiter() if whose == "member" else clerk], **group)
    agent.journal = journal
    try:
        reply = await agent.reply("Pay 3.")
    except ConfigError as error:
        assert not records
        fault = str(error)
    else:
        fault = reply.detail
    if whose == "approver":
        assert reply.stop_reason == ("waiting" if records else "done")
    else:
        assert "Later('bank') was raised by a function that is no action" in fault
    assert till.paid == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    (
        ({"key": ""}, "key= must be 1–255 printable characters"),
        ({"key": "a" * 64}, "has the form of an approval's hash"),
        ({"key": "doubt:1.0"}, "or of a call in doubt"),
        ({"until": "soon"}, "until= must be seconds from now on"),
        ({"until": True}, "until= must be seconds from now on"),
        ({"until": 1e11}, "until= must be seconds from now on, at most 10,000,000,000"),
        ({"until": datetime(9999, 12, 31)}, "until= must be seconds from now on, at most"),
        ({"remind": 0}, "remind= must be seconds above 0"),
        ({"default": object()}, "default= is not JSON"),
        ({"who": [3]}, "who= must be a text of 1 to 255 characters"),
        ({"who": {"eva": 1}}, "who= must be a name or several, got {'eva': 1}"),
        ({"text": 3}, "text= must be a text"),
    ),
)
def test_wrong_argument_of_later_is_named(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Later(**wrong)


# -- what goes on meanwhile ------------------------------------------------------------------------


@pytest.mark.parametrize("durable", (False, True))
async def test_thread_goes_on_while_a_call_waits(tmp_path: Path, durable: bool) -> None:
    till = Till()
    with Journal(tmp_path / "runs.db") as journal:
        memory = SQLiteMemory(tmp_path / "clerk.memory") if durable else None
        script = [call("pay", coins=3), "It waits.", "Paid."]
        agent = clerk(journal, script, till.pay, memory=memory)
        await agent.reply("Pay 3.", run_id="r", thread="ada")
        assert (await agent.reply("Is it paid?", thread="ada")).text == "It waits."
        journal.answer("r", journal.waiting()[0].key, True)
        await agent.resume_decided()
        seen = [each["content"] for each in agent.memory_in("ada").get_memories()]
        assert seen[0] == "Pay 3."
        assert seen[2].startswith("waiting for the approval of pay(coins=3), since ")
        assert seen[3:] == ["Is it paid?", "It waits.", "", "paid 3", "Paid."]
        assert journal.replay("r").text == "Paid."


async def test_result_takes_its_place_if_nothing_else_came(journal: Journal) -> None:
    till = Till()
    agent = clerk(journal, [call("pay", coins=3), "Paid."], till.pay)
    await agent.reply("Pay 3.", run_id="r", thread="ada")
    journal.answer("r", journal.waiting()[0].key, True)
    await agent.resume_decided()
    seen = [each["content"] for each in agent.memory_in("ada").get_memories()]
    assert seen == ["Pay 3.", "", "paid 3", "Paid."]


async def test_group_waits_with_its_member(journal: Journal) -> None:
    till = Till()
    payer = ReActAgent("payer", ScriptedModel([call("pay", coins=3), "Paid."]), actions=[till.pay])
    other = ReActAgent("other", ScriptedModel(["I saw it."]))
    talk = Conversation(
        [payer, other], id="talk", until=MaxTurns(2), journal=journal, approver=Waiting()
    )
    assert (await talk.reply("Pay.", run_id="r")).stop_reason == "waiting"
    (wait,) = journal.waiting("r")
    assert (wait.path, wait.request.agent, till.paid) == ("T1/payer", "payer", [])
    journal.answer("r", wait.key, True)
    (resumed,) = await talk.resume_decided()
    assert resumed.reply is not None
    assert (resumed.reply.text, till.paid) == ("I saw it.", [3])


async def test_caller_waits_with_its_sub_agent_and_the_others_are_asked_once(
    tmp_path: Path,
) -> None:
    till = Till()
    asked: list[str] = []

    def boss(journal: Journal) -> ReActAgent:
        def helps(messages: list[dict[str, Any]], _: Any) -> Any:
            task = next(str(each["content"]) for each in messages if each["role"] == "user")
            asked.append(task)
            if messages[-1]["role"] == "tool":
                return f"{task}: {messages[-1]['content']}"
            return call("pay", coins=3) if task == "Pay" else f"{task}: seen"

        helper = ReActAgent("helper", ScriptedModel(helps), actions=[till.pay], approver=Waiting())
        both = [call("helper", text="Pay"), call("helper", text="Look")]
        tool = helper.as_action(fresh=True)
        return ReActAgent("boss", ScriptedModel([both, "Done."]), actions=[tool], journal=journal)

    with Journal(tmp_path / "runs.db") as journal:
        reply = await boss(journal).reply("Go.", run_id="r", thread="ada")
        assert (reply.stop_reason, till.paid) == ("waiting", [])
        (wait,) = journal.waiting("r")
        assert (wait.path, wait.action) == ("1.0/helper", "pay")
        journal.answer("r", wait.key, True)
    with Journal(tmp_path / "runs.db") as journal:
        (resumed,) = await boss(journal).resume_decided()
        assert resumed.reply is not None
        assert (resumed.reply.text, till.paid) == ("Done.", [3])
        assert results(resumed.reply) == ["Pay: paid 3", "Look: seen"]
        assert sorted(asked) == ["Look", "Pay", "Pay"]


async def test_message_is_told_that_its_reply_waits_and_gets_it_later(tmp_path: Path) -> None:
    till, said, loop = Till(), asyncio.Event(), asyncio.get_running_loop()

    class Customer(Agent):
        @action
        async def say(self, content: str) -> None:
            """Hear."""
            assert content == "Paid."
            loop.call_soon_threadsafe(said.set)  # of the test, and not of the space

    with Journal(tmp_path / "runs.db") as journal, NativeSpace() as space:
        agent = space.add(clerk(journal, [call("pay", coins=3), "Paid."], till.pay))
        customer = space.add(Customer("customer"))
        with pytest.raises(ActionError, match="waiting for the approval of pay") as told:
            await customer.ask("clerk", "say", content="Pay.")
        assert told.value.run_id is not None
        (wait,) = journal.waiting(told.value.run_id)
        journal.answer(wait.run, wait.key, True)
        await agent.resume_decided()
        await asyncio.wait_for(said.wait(), 10)


async def test_waiting_reply_raises_what_it_waits_for(journal: Journal) -> None:
    agent = clerk(journal, [call("send_batch", number=1)], send_batch)
    with pytest.raises(RunWaiting, match="the result 'batch-1' of send_batch"):
        (await agent.reply("Send.")).raise_for_error()


async def test_reply_whose_hook_fails_does_not_wait_whatever_waits_beside_it(
    journal: Journal,
) -> None:
    def note() -> str:
        """Note."""
        return "noted"

    def fail(_: Any, kwargs: dict[str, Any]) -> None:
        assert kwargs["action"] != "note"

    calls = [call("send_batch", number=1), call("note")]
    agent = clerk(journal, [calls], send_batch, note)
    agent.register_hook("post_acting", "fail", fail)
    reply = await agent.reply("Send.")
    assert reply.stop_reason == "error"
    assert "the post_acting hook 'fail' failed" in reply.detail


async def test_approver_in_the_process_decides_at_once_as_before(journal: Journal) -> None:
    till = Till()
    asked = CallbackApprover(lambda request: True)
    agent = clerk(journal, [call("pay", coins=3), "Paid."], till.pay, approver=asked)
    assert (await agent.reply("Pay 3.")).text == "Paid."
    assert (till.paid, journal.waiting()) == ([3], [])


# -- the journal -----------------------------------------------------------------------------------


async def test_wait_is_not_pruned_and_goes_with_its_run(place: Place) -> None:
    till = Till()
    with Journal(place("runs.db")) as journal:
        agent = clerk(journal, [call("pay", coins=3), "Paid."], till.pay)
        await agent.reply("Pay 3.", run_id="r", thread="ada")
        pruned = journal.prune(0.0, keep=0)
        assert (pruned.runs, list(pruned.left)) == ([], ["r"])
        assert [each.id for each in journal.runs(needs_person=True, state="waiting")] == ["r"]
        copy = journal.fork("r")
        await agent.reply("Pay 3.", run_id=copy)
        asking = journal.runs(needs_person=True, state="waiting")
        assert [each.id for each in asking] == [each.run for each in journal.waiting()]
        journal.delete(thread="ada")
        assert (journal.waiting(), journal.runs()) == ([], [])


async def test_run_killed_while_a_person_was_asked_is_not_pruned(tmp_path: Path) -> None:
    till, path = Till(), tmp_path / "runs.db"
    with Journal(path) as journal:

        def ask(request: object) -> bool:
            crash(path, tmp_path / "crashed.db")
            return True

        agent = clerk(
            journal, [call("pay", coins=3), "Paid."], till.pay, approver=CallbackApprover(ask)
        )
        await agent.reply("Pay 3.", run_id="r")
    with Journal(tmp_path / "crashed.db") as journal:
        assert (journal.run("r").state, list(journal.prune(0.0, keep=0).left)) == ("stopped", ["r"])


async def test_process_tells_of_waits_and_reminders_one_at_a_time(place: Place) -> None:
    till = Till()
    with Journal(place("runs.db")) as journal, Journal(place("runs.db")) as other:
        agent = clerk(
            journal, [call("pay", coins=3), "Paid."], till.pay, approver=Waiting(remind=1e-6)
        )
        await agent.reply("Pay 3.", run_id="r")
        ours, theirs = journal.waits, other.waits
        assert (ours.hold_notifying(), theirs.hold_notifying()) == (True, False)
        (wait,) = ours.due_notices()
        assert (wait.run, wait.action, wait.remind) == ("r", "pay", 1e-6)
        ours.remind_in(wait, None)
        assert ours.due_notices() == []
        ours.remind_in(wait, wait.remind)
        ours.end_notifying()
        assert theirs.hold_notifying()
        assert [each.key for each in theirs.due_notices()] == [wait.key]
        assert ours.counts() == {("clerk", "approval"): 1}
        journal.answer("r", wait.key, True)
        assert theirs.due_notices() == []
        script = [call("pay", coins=4), "Too late."]
        await clerk(journal, script, till.pay, approver=Waiting(until=0.2)).reply("Pay 4.")
        async with asyncio.timeout(5):
            while theirs.due_notices():  # noqa: ASYNC110 - until its time is over
                await asyncio.sleep(0)


async def test_run_whose_budget_was_spent_goes_on_once_a_person_resumes_it(place: Place) -> None:
    till, answers = Till(), [call("pay", coins=3), "Paid."]
    with Journal(place("runs.db")) as journal:
        given = {"approver": CallbackApprover(lambda _: True), "budget": Budget(model_calls=1)}
        reply = await clerk(journal, answers, till.pay, **given).reply("Pay.", run_id="r")
        assert reply.stop_reason == "budget"
        again = clerk(journal, answers, till.pay)
        assert await again.resume_decided() == []
        journal.resume("r", by="eva")
        await again.resume_decided()
        assert (journal.run("r").state, till.paid) == ("done", [3])
        assert await again.resume_decided() == []
        assert [run.id for run in journal.runs(decided_by="eva")] == ["r"]
        with pytest.raises(StateError, match="cannot be resumed: it is done"):
            journal.resume("r")


async def test_resume_of_a_run_that_has_used_up_its_iterations_is_refused(journal: Journal) -> None:
    agent = clerk(journal, [call("pay", coins=3)], Till().pay, max_iterations=1, approver=None)
    assert (await agent.reply("Pay.", run_id="r")).stop_reason == "max_iterations"
    with pytest.raises(StateError, match="cannot be resumed: it is max_iterations"):
        journal.resume("r")


async def test_run_whose_time_is_over_keeps_the_result_beside_a_call_that_waited(
    tmp_path: Path,
) -> None:
    till, seen = Till(), Till()

    def look(coins: int) -> str:
        """Look."""
        return seen(coins)

    answers = [[call("look", coins=1), call("pay", coins=3)]]
    with Journal(tmp_path / "runs.db") as journal:
        await clerk(journal, answers, look, till.pay).reply("Pay.", run_id="r")
        (wait,) = journal.waiting()
        journal.answer("r", wait.key, True)
        agent = clerk(journal, answers, look, till.pay)
        reply = await agent.reply("Pay.", run_id="r", budget=Budget(seconds=0))
    assert (reply.stop_reason, seen.paid, till.paid) == ("deadline", [1], [])
    looked, paid = results(reply)
    assert looked == "paid 1"
    assert "not executed" in paid


async def test_call_that_asks_an_agent_with_a_journal_of_its_own_waits_for_that_run(
    place: Place,
) -> None:
    till = Till()

    def pair(journal: Journal) -> list[ReActAgent]:
        pays = clerk(journal, [call("pay", coins=3), "I have paid."], till.pay)
        asks = [call("clerk", text="Pay 3."), "Done."]
        return [
            pays,
            ReActAgent("boss", ScriptedModel(asks), actions=[pays.as_action()], journal=journal),
        ]

    with Journal(place("runs.db")) as journal:
        reply = await pair(journal)[1].reply("Pay.", run_id="r")
        assert reply.stop_reason == "waiting"
        result, approval = sorted(journal.waiting(), key=lambda each: each.kind, reverse=True)
        assert (result.run, result.key) == ("r", approval.run)
        assert "waiting for the approval of pay" in result.text
        with pytest.raises(StateError, match=rf"waits for .*run '{approval.run}'.*: answer that"):
            journal.resume("r")
        journal.answer(approval.run, approval.key, True, by="eva")
        for agent in pair(journal):
            (resumed,) = await agent.resume_decided()
        assert (resumed.reply and resumed.reply.text, till.paid) == ("Done.", [3])


@pytest.mark.parametrize("how", ("adopted", "renamed", "forked"))
async def test_copy_of_a_run_that_waits_is_answered_once_and_goes_on(
    tmp_path: Path, how: str
) -> None:
    till, file, id = Till(), tmp_path / "r.jsonl", "r" if how == "adopted" else "c"
    answers = [call("pay", coins=3), "Paid."]
    with Journal(tmp_path / "a.db") as journal, Journal(tmp_path / "b.db") as other:
        await clerk(journal, answers, till.pay).reply("Pay.", run_id="r")
        (asked,) = journal.waiting()
        if how == "forked":
            there = journal
            journal.fork("r", id)
        else:
            there = other
            journal.export("r", file)
            other.import_run(file, id)
            assert other.waiting(id) == []
            other.adopt(id)
        agent = clerk(there, answers, till.pay)
        assert [each.run.id for each in await agent.resume_runs()] == [id] * (id == "c")
        (wait,) = there.waiting(id)
        assert (wait.since == pytest.approx(asked.since, abs=1e-3)) == (id == "r")
        there.answer(id, wait.key, True, by="eva")
        (resumed,) = await agent.resume_decided()
        assert (resumed.reply and resumed.reply.text, till.paid) == ("Paid.", [3])
