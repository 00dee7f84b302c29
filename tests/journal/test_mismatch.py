"""A program that has changed does not go on with a run; a copy of it does."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from journal.conftest import Place
from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Call,
    DualActAgent,
    DualActConfig,
    Goal,
    Journal,
    Later,
    Memory,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    Waiting,
)
from moothall.foundation.errors import (
    ConfigError,
    DefinitionError,
    JournalError,
    RunMismatch,
    StateError,
)
from moothall.journal import Waits

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def one(n: int) -> int:
    """One."""
    return n


def other(n: int) -> int:
    """Another."""
    return n


def changed(n: str) -> str:
    """One."""
    return n


changed.__name__ = "one"


def react(journal: Journal, *script: Any, **options: Any) -> ReActAgent:
    known = {"system_prompt": "You.", "actions": [one], "goals": [Goal(2, "g", "d")]}
    options = {"id": "a", "name": "m"} | known | options
    model = ScriptedModel(script, options.pop("name"))
    return ReActAgent(options.pop("id"), model, journal=journal, **options)


@pytest.mark.parametrize(
    ("part", "asked", "options"),
    (
        ("task", {"text": "stop"}, {}),
        ("thread", {"thread": "t"}, {}),
        ("schema", {"schema": SCHEMA}, {}),
        ("agent", {}, {"id": "b"}),
        ("system prompt", {}, {"system_prompt": "Me."}),
        ("system prompt", {}, {"system_prompt": None}),
        ("goals", {}, {"goals": []}),
        ("goals", {}, {"goals": [Goal(priority=1, name="g", description="d")]}),
        ("model", {}, {"name": "n"}),
        ("actions", {}, {"actions": []}),
        ("actions", {}, {"actions": [one, other]}),
        ("actions", {}, {"actions": [changed]}),
    ),
)
def test_mismatch_names_what_changed(
    journal: Journal, part: str, asked: dict[str, Any], options: dict[str, Any]
) -> None:
    react(journal, ValueError("down")).reply_sync("go", run_id="R")
    before = journal.entries("R")
    with pytest.raises(
        RunMismatch, match=rf"begun by another program, which differs in: {part} .*fork\('R'\)"
    ) as refused:
        react(journal, "", "Yes.", **options).reply_sync(**{"text": "go"} | asked, run_id="R")
    assert (refused.value.run_id, refused.value.changed) == ("R", (part,))
    assert journal.entries("R") == before
    assert journal.run("R").state == "error"

    copy = journal.fork("R")
    assert copy == "R.1"
    assert journal.run(copy).forked_from == "R"
    reply = react(journal, 0, '{"a": 1}', **options).reply_sync(
        **{"text": "go"} | asked, run_id=copy
    )
    assert (reply.stop_reason, reply.run_id) == ("done", copy)
    assert reply.messages[0]["content"] == "go"
    assert journal.entries("R") == before
    assert react(journal, 0, "Yes.").reply_sync("go", run_id="R").text == "Yes."


def test_changes_of_a_program_are_named_together(journal: Journal) -> None:
    react(journal, "Yes.").reply_sync("go", run_id="R")
    with pytest.raises(RunMismatch) as refused:
        react(journal, name="n", system_prompt="Me.").reply_sync("stop", run_id="R")
    assert refused.value.changed == ("task", "system prompt", "model")


@pytest.mark.parametrize(
    ("part", "options"),
    (
        ("human", {"h": "h2"}),
        ("reactive", {"r": "r2"}),
        ("human decision prompt", {"human_decision_prompt": "Decide {original_task}."}),
        ("reactive task prompt", {"reactive_task_prompt": "Do {original_task}."}),
        ("conclusion format prompt", {"conclusion_format_prompt": "So."}),
        ("first", {"first": "reactive"}),
        ("agent", {"id": "pair2"}),
    ),
)
def test_mismatch_names_what_changed_in_a_dual_act(
    journal: Journal, part: str, options: dict[str, Any]
) -> None:
    def pair(h: str = "h", r: str = "r", id: str = "pair", **config: Any) -> DualActAgent:
        human = ReActAgent(h, ScriptedModel([ValueError("down")]))
        worker = ReActAgent(r, ScriptedModel([ValueError("down")]))
        made = DualActConfig(human=human, reactive=worker, **config)
        return DualActAgent(made, id, journal=journal)

    assert pair().reply_sync("go", run_id="R").stop_reason == "error"
    with pytest.raises(RunMismatch) as refused:
        pair(**options).reply_sync("go", run_id="R")
    assert refused.value.changed == (part,)


def test_copy_of_a_run_that_has_ended_has_ended_whatever_is_asked_for_now(journal: Journal) -> None:
    react(journal, "Yes.").reply_sync("go", run_id="R")
    copy = journal.fork("R", "copy")
    assert copy == "copy"
    reply = react(journal).reply_sync("go", schema=SCHEMA, run_id=copy)
    assert (reply.text, reply.value, reply.stop_reason) == ("Yes.", "Yes.", "done")
    with pytest.raises(ValueError, match="there is a run 'copy' already"):
        journal.fork("R", "copy")


def test_copy_of_a_run_with_the_longest_id_goes_on(journal: Journal) -> None:
    longest = "r" * 255
    react(journal, "Yes.").reply_sync("go", run_id=longest)
    copies = [journal.fork(longest), journal.fork(longest)]
    assert len({longest, *copies}) == 3
    for copy in copies:
        assert react(journal).reply_sync("go", run_id=copy).text == "Yes."


def test_copy_of_the_beginning_of_a_run_goes_on_from_there(journal: Journal) -> None:
    bought: list[str] = []

    def buy(item: str) -> None:
        """Buy something."""
        bought.append(item)

    def buyer(journal: Journal, *script: Any) -> ReActAgent:
        calls = [{"name": "buy", "args": {"item": each}} for each in script]
        return ReActAgent("a", ScriptedModel([*calls, "Done."]), actions=[buy], journal=journal)

    buyer(journal, "bread", "milk").reply_sync("go", run_id="R")
    entries = journal.entries("R")
    keys = {(each.kind, each.data.get("key")): each.sequence for each in entries}
    for last, anew in (
        (("begun", None), ["tea", "jam"]),
        (("ended", "1"), ["bread", "jam"]),  # the first answer, whose call had not begun
        (("ended", "1.0"), ["jam"]),
        (("ended", "2"), ["milk"]),
        (("ended", "2.0"), []),
    ):
        bought.clear()
        copy = journal.fork("R", upto=keys[last])
        assert (journal.run(copy).state, journal.run(copy).forked_from) == ("stopped", "R")
        assert buyer(journal, "tea", "jam").reply_sync("go", run_id=copy).text == "Done."
        assert bought == anew
    in_doubt = journal.fork("R", upto=keys["started", "2.0"])
    assert [doubt.action for doubt in journal.in_doubt(in_doubt)] == ["buy"]
    assert journal.run(journal.fork("R", upto=len(entries))).state == "done"
    assert journal.entries("R") == entries
    for upto in (0, len(entries) + 1, True):
        with pytest.raises(
            DefinitionError, match=f"upto= must be a whole number from 1 to {len(entries)}"
        ):
            journal.fork("R", upto=upto)


def test_copy_of_a_dual_act_may_have_other_members(journal: Journal) -> None:
    def pair(workers: int, *script: Any) -> DualActAgent:
        human = ReActAgent("h", ScriptedModel(script))
        reactive = [ReActAgent(f"r{n}", ScriptedModel([f"{n}."] * 3)) for n in range(workers)]
        return DualActAgent(DualActConfig(human=human, reactive=reactive), journal=journal)

    def decision(name: str) -> str:
        return f'{{"action": "{name}", "new_instruction": "do", "reasoning": "so"}}'

    script = [decision("CONTINUE"), ValueError("down"), decision("TERMINATE")]
    assert pair(2, *script).reply_sync("go", run_id="R").stop_reason == "error"
    copy = journal.fork("R")
    reply = pair(1, *script).reply_sync("go", run_id=copy)
    assert (reply.stop_reason, reply.run_id) == ("terminated", copy)
    assert journal.replay(copy).run_id == copy


def test_fork_does_not_repeat_ended_calls(journal: Journal) -> None:

    def pair(calls: int) -> DualActAgent:
        more, end = (
            f'{{"action": "{name}", "new_instruction": "do", "reasoning": "so"}}'
            for name in ("CONTINUE", "TERMINATE")
        )
        human = ReActAgent("h", ScriptedModel([more, end]))
        reactive = [ReActAgent(f"r{n}", ScriptedModel([f"{n}."])) for n in range(2)]
        budget = Budget(model_calls=calls)
        return DualActAgent(human=human, reactive=reactive, budget=budget, journal=journal)

    assert pair(2).reply_sync("go", run_id="R").stop_reason == "budget"
    copy = journal.fork("R")
    assert pair(2).reply_sync("go", run_id=copy).stop_reason == "budget"
    last = pair(9)
    assert last.reply_sync("go", run_id=copy).text == "r0: 0.\nr1: 1."
    assert last.budget is not None
    assert last.budget.spent.model_calls == 4


@pytest.mark.parametrize("durable", (True, False))
def test_run_and_its_copy_both_go_on(tmp_path: Path, durable: bool) -> None:
    memory = SQLiteMemory(tmp_path / "m") if durable else Memory()
    budget = Budget(model_calls=10)
    with Journal(tmp_path / "j") as journal:
        script = [ValueError("down"), "One.", "Other."]
        model = ScriptedModel(script)

        def agent() -> ReActAgent:
            return ReActAgent("a", model, memory=memory, budget=budget, journal=journal)

        assert agent().reply_sync("go", run_id="R").stop_reason == "error"
        copy = journal.fork("R")
        second = journal.fork(copy)
        assert agent().reply_sync("go", run_id="R").text == "One."
        assert agent().reply_sync("go", run_id=copy).text == "Other."
        assert budget.spent.model_calls == 3
        assert [message["content"] for message in memory.get_memories()] == ["go", "One.", "Other."]
        for run_id in ("R", copy):
            again = agent().reply_sync("go", run_id=run_id)
            assert len(again.messages) == 2
        assert budget.spent.model_calls == 3
        model = ScriptedModel([0, "Third."])
        assert agent().reply_sync("go", run_id=second).text == "Third."
        contents = [message["content"] for message in memory.get_memories()]
        assert contents == ["go", "One.", "Other.", "Third."]

        budget, model = Budget(model_calls=10), ScriptedModel([])  # those of another process
        for run_id in (second, copy, "R"):
            assert agent().reply_sync("go", run_id=run_id).stop_reason == "done"
        assert budget.spent.model_calls == 4, "the call that they share counts once"
    if isinstance(memory, SQLiteMemory):
        memory.close()


def test_agent_of_another_kind_goes_on_with_neither_a_run_nor_a_copy(journal: Journal) -> None:
    one = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
    human = ReActAgent("h", ScriptedModel([ValueError("down")]))
    config = DualActConfig(human=human, reactive=ReActAgent("r", ScriptedModel([])))
    two = DualActAgent(config, "a", journal=journal)
    one.reply_sync("go", run_id="one")
    two.reply_sync("go", run_id="two")
    for agent, run_id in ((two, "one"), (one, "two")):
        for each in (run_id, journal.fork(run_id)):
            with pytest.raises(RunMismatch) as refused:
                agent.reply_sync("go", run_id=each)
            assert refused.value.changed == ("agent",)


def test_advice_names_all_that_the_command_needs() -> None:
    told = str(RunMismatch("R", ("model",), "another"))
    assert "`moothall resume R --force --journal PATH`" in told
    assert "`--agent MODULE:AGENT` too for an agent of a program's own" in told


def test_copy_of_a_run_that_acted_tells_a_memory_nothing_twice(tmp_path: Path) -> None:
    def act() -> str:
        """Act."""
        return "done"

    with Journal(tmp_path / "j") as journal, SQLiteMemory(tmp_path / "m") as memory:
        script = [Call("c", "act", {}), ValueError("down"), "One.", "Other."]
        model = ScriptedModel(script)

        def agent() -> ReActAgent:
            return ReActAgent("a", model, actions=[act], memory=memory, journal=journal)

        assert agent().reply_sync("go", run_id="R").stop_reason == "error"
        copy = journal.fork("R")
        assert agent().reply_sync("go", run_id="R").text == "One."
        assert agent().reply_sync("go", run_id=copy).text == "Other."
        contents = [message["content"] for message in memory.messages()]
        assert contents == ["go", "", "done", "One.", "Other."]


async def test_resume_of_a_run_without_a_fingerprint_is_refused(journal: Journal) -> None:
    part = await journal.begin("R", "ReActAgent", "a", "go")
    part.note("begun", {"kind": "ReActAgent"})
    await part.commit()
    part.close()
    agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
    with pytest.raises(JournalError, match="read it with the moothall that wrote it"):
        await agent.reply("go", run_id="R")
    assert agent.model.received == []


async def gone_on(agent: ReActAgent) -> str:
    """Resume what can go on; gives how the last of it ended."""
    resumed = await agent.resume_decided()
    (reply,) = [each.reply for each in resumed if each.reply is not None]
    return reply.stop_reason


class Clerk:
    """A clerk whose payments a person permits; what it has paid is counted."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.paid: list[int] = []

    def agent(self, prompt: str = "Be brief.", *script: Any, **options: Any) -> ReActAgent:
        def pay() -> str:
            """Pay."""
            self.paid.append(1)
            return "paid"

        asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
        options = {"actions": [asked], "approver": Waiting(), "journal": self.journal} | options
        model = ScriptedModel(script or [Call("c", "pay", {}), "Paid."])
        return ReActAgent("clerk", model, system_prompt=prompt, **options)

    async def permitted(self, run_id: str) -> str:
        """Have a run wait for its payment, and a person permit it; gives the key of that."""
        assert (await self.agent().reply("Pay.", run_id=run_id)).stop_reason == "waiting"
        key = self.journal.waiting(run_id)[0].key
        self.journal.answer(run_id, key, True, by="eva")
        return key

    def states(self) -> dict[str, str]:
        return {each.id: each.state for each in self.journal.runs()}

    def needing(self) -> list[str]:
        return [each.id for each in self.journal.runs(needs_person=True)]


async def test_permitted_run_of_a_changed_program_is_a_mismatch_until_restored_or_handed_over(
    place: Place,
) -> None:
    with Journal(place("runs.db")) as journal:
        clerk = Clerk(journal)
        for run_id in ("restored", "handed"):
            await clerk.permitted(run_id)
        assert (journal.waiting(), clerk.needing()) == ([], [])
        for _ in ("at first", "again"):  # as a server looks again after a minute
            first, second = await clerk.agent("Be polite.").resume_decided()
            assert (first.outcome, second.outcome) == ("mismatch", "mismatch")
        assert clerk.needing() == ["restored", "handed"]
        assert clerk.states() == {"restored": "mismatch", "handed": "mismatch"}
        assert journal.run("handed").state == "mismatch"
        assert [each.id for each in journal.runs(state="mismatch")] == ["restored", "handed"]
        assert journal.runs(state=("waiting", "stopped")) == []
        wait, other = journal.waiting(kind=Waits.of_a_person)
        assert (wait.run, other.run, wait.kind) == ("restored", "handed", "operator")
        assert wait.choices == ("fork", "cancel")
        assert wait.text.startswith("its program has changed: restore it, answer 'fork'")
        assert "system prompt" in wait.text
        assert str(wait).startswith('a decision: "its program has changed')
        assert journal.waits.due_notices() == [wait, other]
        journal.waits.remind_in(wait, None)
        assert journal.waits.due_notices() == [other]

        resumed = await clerk.agent().resume_decided(which=lambda run: run.id == "restored")
        assert [each.reply and each.reply.text for each in resumed] == ["Paid."]
        assert (clerk.needing(), journal.waiting()) == (["handed"], [other])
        with pytest.raises(ConfigError, match="must be 'fork' or 'cancel', got True: the run goes"):
            journal.answer("handed", other.key, True)
        journal.answer("handed", other.key, "fork", by="eva")
        assert (clerk.states()["handed"], clerk.needing()) == ("waiting", [])
        assert await gone_on(clerk.agent("Be polite.")) == "waiting"
        (asks,) = journal.waiting()  # another program asks anew
        assert (asks.run, asks.kind, clerk.needing()) == ("handed", "approval", ["handed"])
        journal.answer("handed", asks.key, True)
        assert await gone_on(clerk.agent("Be polite.")) == "done"
        assert (clerk.states()["handed"], journal.waiting()) == ("done", [])
        assert clerk.paid == [1, 1]
        assert journal.check() == []


async def test_operator_answers_as_soon_as_a_changed_program_is_seen(place: Place) -> None:
    """Also while a process still holds the run, of which it looks whether it can go on."""
    with Journal(place("runs.db")) as journal, Journal(place("runs.db")) as other:
        clerk = Clerk(journal)
        for run_id in ("at once", "held"):
            await clerk.permitted(run_id)
        looking = asyncio.create_task(clerk.agent("Be polite.").resume_decided())
        while not (waits := journal.waiting("at once", kind="operator")):  # noqa: ASYNC110
            await asyncio.sleep(0)
        journal.answer("at once", waits[0].key, "fork", by="eva")  # it blocks the looking loop
        await looking
        look = other.held_runs.open("held")
        threading.Timer(0.3, look.close).start()
        journal.answer("held", "operator:program", "fork", by="eva")
        assert clerk.states() == {"at once": "waiting", "held": "waiting"}


async def test_run_of_a_changed_program_goes_on_by_it_as_soon_as_its_operator_says_so(
    place: Place,
) -> None:
    """A server looks every second, and tries what failed again after a minute alone."""
    with Journal(place("runs.db")) as journal:
        clerk = Clerk(journal)
        key = await clerk.permitted("r")
        with pytest.raises(RunMismatch, match="thread"):  # which is no program that has changed
            await clerk.agent().reply("Pay.", run_id="r", thread="anna")
        assert clerk.states() == {"r": "waiting"}
        changed = clerk.agent("Be polite.")
        (first,) = await changed.resume_decided()
        assert (first.outcome, clerk.states()) == ("mismatch", {"r": "mismatch"})
        assert await changed.resume_decided() == []  # nothing has changed
        for _ in range(2):  # the same answer again changes nothing
            journal.answer("r", "operator:program", "fork", by="eva")
        assert await gone_on(changed) == "waiting"
        journal.answer("r", "operator:program", "fork", by="eva")
        assert await changed.resume_decided() == []
        assert (clerk.states(), journal.waiting()[0].key) == ({"r": "waiting"}, key)
        journal.answer("r", key, True)
        assert await gone_on(changed) == "done"
        assert (clerk.states(), clerk.paid) == ({"r": "done"}, [1])
        journal.prune(0)
        assert clerk.states() == {}


async def test_operator_of_a_changed_program_may_cancel_its_run(journal: Journal) -> None:
    clerk = Clerk(journal)
    await clerk.permitted("r")
    await clerk.agent("Be polite.").resume_decided()
    journal.answer("r", "operator:program", "cancel", by="eva")
    assert (clerk.states(), journal.waiting(), clerk.paid) == ({"r": "cancelled"}, [], [])


async def test_former_program_that_is_asked_again_does_not_go_on_with_what_a_changed_one_has_paid(
    place: Place,
) -> None:
    with Journal(place("runs.db")) as journal:
        clerk = Clerk(journal)
        key = await clerk.permitted("r")
        changed = clerk.agent("Be polite.")
        await changed.resume_decided()
        journal.answer("r", "operator:program", "fork")
        await changed.resume_decided()
        journal.answer("r", key, True, by="eva")
        assert await gone_on(changed) == "done"
        with pytest.raises(RunMismatch, match="system prompt"):
            await clerk.agent().reply("Pay.", run_id="r")
        assert (await changed.reply("Pay.", run_id="r")).text == "Paid."
        assert clerk.paid == [1]


async def test_run_that_changes_hands_twice_waits_for_its_operator_twice(journal: Journal) -> None:
    clerk = Clerk(journal)
    key = await clerk.permitted("r")
    for prompt in ("Be polite.", "Be quick."):
        (first,) = await clerk.agent(prompt).resume_decided()
        assert (first.outcome, clerk.states()) == ("mismatch", {"r": "mismatch"})
        journal.answer("r", "operator:program", "fork", by="eva")
        assert await gone_on(clerk.agent(prompt)) == "waiting"
        journal.answer("r", key, True, by="eva")
    assert (await clerk.agent("Be polite.").resume_decided())[0].outcome == "mismatch"
    assert await gone_on(clerk.agent("Be quick.")) == "done"
    assert clerk.paid == [1]


async def test_results_that_come_for_a_run_reach_the_program_that_it_was_handed_to(
    journal: Journal,
) -> None:
    def send(batch: str) -> Later:
        """Send a batch; its result comes by the id of the run."""
        sent.append(batch)
        return Later(batch)

    def agent(prompt: str) -> ReActAgent:
        calls = tuple(Call(each, "send", {"batch": each}) for each in ("a", "b"))
        model = ScriptedModel(
            [calls, lambda messages, _: str([m["content"] for m in messages[-2:]])]
        )
        return ReActAgent("clerk", model, actions=[send], journal=journal, system_prompt=prompt)

    sent: list[str] = []
    assert (await agent("Be brief.").reply("Send both.", run_id="r")).stop_reason == "waiting"
    journal.answer("r", "a", "booked a", by="bank")
    assert (await agent("Be polite.").resume_decided())[0].outcome == "mismatch"
    journal.answer("r", "operator:program", "fork", by="eva")
    for _ in range(2):
        journal.answer("r", "b", "booked b", by="bank")  # sent again
    (resumed,) = await agent("Be polite.").resume_decided()
    assert resumed.reply is not None
    assert (resumed.reply.run_id, resumed.reply.text) == ("r", str(["booked a", "booked b"]))
    assert sorted(sent) == ["a", "b"]
    with pytest.raises(StateError, match="was answered by bank"):
        journal.answer("r", "b", "refused", by="bank")


async def test_program_that_lacks_the_permitted_action_asks_its_model_again(
    journal: Journal,
) -> None:
    clerk = Clerk(journal)
    await clerk.permitted("r")
    changed = clerk.agent("Be brief.", "", "There is no till.", actions=[])
    await changed.resume_decided()
    journal.answer("r", "operator:program", "fork")
    (resumed,) = await changed.resume_decided()
    assert resumed.reply is not None
    assert (resumed.reply.stop_reason, resumed.reply.text) == ("done", "There is no till.")
    assert "is not an action; there are no" in changed.model.received[-1][-1]["content"]
    assert journal.waiting() == []


async def test_open_approvals_of_a_run_that_is_handed_over_stay_as_they_are(
    journal: Journal,
) -> None:
    """A call that has been made waits for its result, and is not permitted again."""
    called = []

    def send(n: int) -> Later:
        """Send."""
        called.append(n)
        return Later(f"n{n}")

    def agent(prompt: str) -> ReActAgent:
        asked = Action("send", send, "Send.", access_policy=ACCESS_REQUESTED)
        calls = tuple(Call(f"{n}", "send", {"n": n}) for n in (1, 2, 3))
        model = ScriptedModel([calls, lambda heard, _: str([m["content"] for m in heard[-3:]])])
        options: dict[str, Any] = {"approver": Waiting(), "journal": journal}
        return ReActAgent("clerk", model, actions=[asked], system_prompt=prompt, **options)

    await agent("Be brief.").reply("Send.", run_id="r")
    first, second, third = sorted(journal.waiting(), key=lambda each: each.step)
    journal.answer("r", first.key, True)
    await agent("Be brief.").resume_decided()
    journal.answer("r", second.key, True)
    assert (await agent("Be polite.").resume_decided())[0].outcome == "mismatch"
    journal.answer("r", "operator:program", "fork")
    assert {each.key for each in journal.waiting()} == {"n1", third.key}
    changed = agent("Be polite.")
    assert await gone_on(changed) == "waiting"
    assert {each.key for each in journal.waiting()} == {"n1", second.key, third.key}
    for key in (second.key, third.key):
        journal.answer("r", key, True)
    assert await gone_on(changed) == "waiting"
    for n in (1, 2, 3):
        journal.answer("r", f"n{n}", f"sent {n}")
    assert await gone_on(changed) == "done"
    assert journal.replay("r").text == str(["sent 1", "sent 2", "sent 3"])
    assert sorted(called) == [1, 2, 3]


async def test_run_that_was_cut_off_is_a_mismatch_once_its_agent_resumes_what_had_stopped(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        look = Action("look", lambda: crash(journal.path, tmp_path / "crashed.db"), idempotent=True)
        await (
            Clerk(journal)
            .agent("", {"name": "look"}, "Seen.", actions=[look])
            .reply("Look.", run_id="r")
        )
    with Journal(tmp_path / "crashed.db") as journal:
        clerk, look = Clerk(journal), Action("look", lambda: None, idempotent=True)
        changed = clerk.agent("Be polite.", "", "Seen.", actions=[look])
        with pytest.raises(RunMismatch):
            await changed.reply("Look.", run_id="r")
        assert clerk.states() == {"r": "stopped"}  # for who asked has seen the error
        for _ in range(2):
            (resumed,) = await changed.resume_runs()
            assert (resumed.outcome, clerk.states()) == ("mismatch", {"r": "mismatch"})
        journal.answer("r", "operator:program", "fork")
        assert clerk.states() == {"r": "stopped"}
        assert await gone_on(changed) == "done"


def test_mismatch_names_the_actions_that_are_gone_new_or_changed(journal: Journal) -> None:
    def made(name: str, text: str = "A text that is not short.") -> Action:
        return Action(name, one, text)

    acts = [made("pay"), made("look")]
    react(journal, ValueError("down"), actions=acts).reply_sync("go", run_id="R")
    for now, words in (
        ([made("pay"), made("refund")], "actions: look is gone, refund is new"),
        ([], "actions: look is gone, pay is gone"),
        ([made("pay", "Other."), acts[1]], "the description or the arguments of one of them"),
    ):
        with pytest.raises(RunMismatch) as refused:
            react(journal, "", actions=now).reply_sync("go", run_id="R")
        assert words in refused.value.detail
