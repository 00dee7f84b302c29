"""A program that has changed does not go on with a run; a copy of it does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from journal.conftest import Place
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
from moothall.agents import cancel_run
from moothall.foundation.errors import (
    ConfigError,
    DefinitionError,
    JournalError,
    RequestCancelled,
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


def test_agent_that_may_fork_goes_on_though_it_has_changed(journal: Journal) -> None:
    done = []

    def act() -> str:
        """Act."""
        done.append(1)
        return "done"

    def agent(*script: Any, prompt: str = "Be kind.") -> ReActAgent:
        model = ScriptedModel(script)
        made = ReActAgent("a", model, system_prompt=prompt, actions=[act], journal=journal)
        made.on_mismatch = "fork"
        return made

    failing = agent(Call("c", "act", {}), ValueError("down"))
    assert failing.reply_sync("go", run_id="R").stop_reason == "error"
    # A person tries something else in a fork.
    tried = agent("", "", "Other.", prompt="Be quick.").reply_sync("go", run_id=journal.fork("R"))
    assert (tried.text, tried.run_id) == ("Other.", "R.1")
    changed = agent("", ValueError("down"), prompt="Be quick.")
    reply = changed.reply_sync("go", run_id="R")
    assert (reply.stop_reason, reply.run_id) == ("error", "R.changed")
    # The same fork goes on, not a second one.
    reply = agent("", "", "", "Yes.", prompt="Be quick.").reply_sync("go", run_id="R")
    assert (reply.text, reply.run_id) == ("Yes.", "R.changed")
    assert [each.id for each in journal.runs()] == ["R", "R.1", "R.changed"]
    assert done == [1]
    # Another task or conversation is not a program that has changed.
    with pytest.raises(RunMismatch, match="task"):
        agent("Yes.").reply_sync("something else", run_id="R")
    with pytest.raises(RunMismatch, match="thread") as refused:
        agent("Yes.").reply_sync("go", run_id="R", thread="anna")
    assert refused.value.run_id == "R"


async def test_cancel_run_stops_a_fork_in_which_a_changed_agent_goes_on(journal: Journal) -> None:
    asked = asyncio.Event()

    class Slow(ScriptedModel):
        async def complete(self, *request: Any, **options: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    failing = ReActAgent("a", ScriptedModel([ValueError("down")]), journal=journal)
    assert (await failing.reply("go", run_id="R")).stop_reason == "error"
    changed = ReActAgent("a", Slow([]), system_prompt="Be quick.", journal=journal)
    changed.on_mismatch = "fork"
    reply = asyncio.create_task(changed.reply("go", run_id="R"))
    await asked.wait()
    assert cancel_run("R.changed", journal)
    with pytest.raises(RequestCancelled, match=r"run 'R\.changed' can be resumed"):
        await reply
    assert journal.run("R.changed").state == "cancelled"


def test_agent_that_may_fork_goes_on_though_it_has_changed_twice(journal: Journal) -> None:

    def ask(prompt: str, answer: str | Exception, run_id: str) -> tuple[str, str | None]:
        earlier = [""] * (int(prompt) - 1)
        model = ScriptedModel([*earlier, answer])
        agent = ReActAgent("a", model, system_prompt=prompt, journal=journal)
        agent.on_mismatch = "fork"
        reply = agent.reply_sync("go", run_id=run_id)
        return reply.stop_reason, reply.run_id

    down = ValueError("down")
    long_id = "R" * 250
    for run_id in ("R", long_id):
        assert ask("1", down, run_id) == ("error", run_id)
    assert ask("2", down, "R") == ("error", "R.changed")
    assert ask("3", "Yes.", "R") == ("done", "R.changed.changed")
    assert ask("2", down, long_id) == ("error", f"{'R' * 247}.changed")
    with pytest.raises(ConfigError, match="there is a run"):  # its id would be too long
        ask("3", "Yes.", long_id)


def test_agent_with_an_unknown_on_mismatch_is_refused_before_its_run_begins(
    journal: Journal,
) -> None:
    agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
    agent.on_mismatch = "forks"  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"on_mismatch must be 'stop' or 'fork', got 'forks'"):
        agent.reply_sync("go", run_id="R")
    assert journal.runs() == []


def test_agent_that_has_changed_gets_the_results_that_come_for_the_run_which_it_forks(
    journal: Journal,
) -> None:
    def send(batch: str) -> Later:
        """Send a batch; its result comes by the id of the run."""
        sent.append(batch)
        return Later(batch)

    def clerk(prompt: str) -> ReActAgent:
        calls = tuple(Call(each, "send", {"batch": each}) for each in ("a", "b"))
        model = ScriptedModel(
            [calls, lambda messages, _: str([m["content"] for m in messages[-2:]])]
        )
        agent = ReActAgent("clerk", model, actions=[send], journal=journal, system_prompt=prompt)
        agent.on_mismatch = "fork"
        return agent

    sent: list[str] = []
    assert clerk("Be brief.").reply_sync("Send both.", run_id="r").stop_reason == "waiting"
    for batch in ("a", "b"):
        journal.answer("r", batch, f"booked {batch}", by="bank")
        journal.answer("r", batch, f"booked {batch}", by="bank")  # sent again
        resumed = asyncio.run(clerk("Be polite.").resume_decided())
    reply = next(each.reply for each in resumed if each.reply is not None)
    assert (reply.run_id, reply.stop_reason) == ("r.changed", "done")
    assert reply.text == str([f"booked {each}" for each in ("a", "b")])
    assert sorted(sent) == ["a", "b"]
    with pytest.raises(StateError, match="was answered by bank"):
        journal.answer("r", "b", "refused", by="bank")


def test_agent_that_has_changed_twice_gets_the_results_that_come_for_its_first_run(
    journal: Journal,
) -> None:
    def send(batch: str) -> Later:
        """Send a batch; its result comes by the id of the run."""
        return Later(batch)

    def clerk(prompt: str) -> ReActAgent:
        calls = tuple(Call(each, "send", {"batch": each}) for each in ("a", "b", "c"))
        model = ScriptedModel([calls, lambda messages, _: messages[-1]["content"]])
        agent = ReActAgent("clerk", model, actions=[send], journal=journal, system_prompt=prompt)
        agent.on_mismatch = "fork"
        return agent

    assert clerk("Be brief.").reply_sync("Send all.", run_id="r").stop_reason == "waiting"
    for batch, prompt in (("a", "Be polite."), ("b", "Be quick."), ("c", "Be quick.")):
        journal.answer("r", batch, f"booked {batch}")
        resumed = asyncio.run(clerk(prompt).resume_decided())
    reply = next(each.reply for each in resumed if each.reply is not None)
    assert (reply.run_id, reply.text) == ("r.changed.changed", "booked c")


def test_permitted_run_of_a_changed_program_waits_for_a_person_until_that_is_restored_or_forked(
    place: Place,
) -> None:
    """No process would go on with it, and no list would name it."""
    paid = []

    def pay() -> str:
        """Pay."""
        paid.append(1)
        return "paid"

    def clerk(prompt: str = "Be brief.") -> ReActAgent:
        asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
        model = ScriptedModel([Call("c", "pay", {}), "Paid."])
        parts: dict[str, Any] = {"actions": [asked], "approver": Waiting(), "journal": journal}
        return ReActAgent("clerk", model, system_prompt=prompt, **parts)

    def needing() -> list[str]:
        return [each.id for each in journal.runs(needs_person=True)]

    with Journal(place("runs.db")) as journal:
        for run_id in ("restored", "forked"):
            assert clerk().reply_sync("Pay.", run_id=run_id).stop_reason == "waiting"
            journal.answer(run_id, journal.waiting(run_id)[0].key, True)
        assert (journal.waiting(), needing()) == ([], [])
        for _ in ("at first", "again"):  # as a server looks again after a minute
            (first, second) = asyncio.run(clerk("Be polite.").resume_decided())
            assert (first.outcome, second.outcome) == ("mismatch", "mismatch")
        assert needing() == ["restored", "forked"]
        (wait, other) = journal.waiting(kind=Waits.of_a_person)
        assert (wait.run, other.run, wait.kind) == ("restored", "forked", "program")
        assert wait.text.startswith("its program has changed: restore it, or answer 'fork'")
        assert "system prompt" in wait.text
        assert str(wait).startswith('a decision: "its program has changed')
        assert journal.waits.due_notices() == [wait, other]
        journal.waits.remind_in(wait, None)
        assert journal.waits.due_notices() == [other]

        resumed = asyncio.run(clerk().resume_decided(which=lambda run: run.id == "restored"))
        assert [each.reply and each.reply.text for each in resumed] == ["Paid."]
        assert (needing(), journal.waiting()) == (["forked"], [other])
        with pytest.raises(ConfigError, match="must be 'fork', got True: the run goes on in a"):
            journal.answer("forked", other.key, True)
        journal.answer("forked", other.key, "fork", by="eva")
        (again,) = asyncio.run(clerk("Be polite.").resume_decided())
        assert again.reply is not None
        assert (again.reply.run_id, again.reply.stop_reason) == ("forked.changed", "waiting")
        (asks,) = journal.waiting()  # the copy asks for itself
        assert (asks.run, asks.kind, needing()) == (asks.run, "approval", ["forked.changed"])
        journal.answer(asks.run, asks.key, True)
        asyncio.run(clerk("Be polite.").resume_decided())
        assert (journal.run("forked.changed").state, journal.waiting(), needing()) == (
            "done",
            [],
            [],
        )
        assert paid == [1, 1]


def test_run_of_a_changed_program_goes_on_in_a_copy_as_soon_as_a_person_says_so(
    place: Place,
) -> None:
    """A server looks every second, and tries what failed again after a minute alone."""

    def clerk(prompt: str) -> ReActAgent:
        asked = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
        model = ScriptedModel([Call("c", "pay", {}), "Paid."])
        parts: dict[str, Any] = {"actions": [asked], "approver": Waiting(), "journal": journal}
        return ReActAgent("clerk", model, system_prompt=prompt, **parts)

    def states() -> dict[str, str]:
        return {each.id: each.state for each in journal.runs()}

    with Journal(place("runs.db")) as journal:
        assert clerk("Be brief.").reply_sync("Pay.", run_id="r").stop_reason == "waiting"
        journal.answer("r", journal.waiting("r")[0].key, True)
        changed = clerk("Be polite.")
        (first,) = asyncio.run(changed.resume_decided())
        assert (first.outcome, states()) == ("mismatch", {"r": "waiting"})
        assert asyncio.run(changed.resume_decided()) == []  # nothing has changed
        journal.answer("r", "program:changed", "fork", by="eva")
        (again,) = asyncio.run(changed.resume_decided())
        assert again.reply is not None
        assert again.reply.run_id == "r.changed"
        assert states() == {"r": "forked", "r.changed": "waiting"}
        assert [each.id for each in journal.runs(state="waiting")] == ["r.changed"]
        assert journal.run("r").state == "forked"
        assert asyncio.run(changed.resume_decided()) == []
        journal.answer("r.changed", journal.waiting()[0].key, True)
        asyncio.run(changed.resume_decided())
        assert states() == {"r": "forked", "r.changed": "done"}
        journal.prune(0)
        assert states() == {}


def test_run_that_goes_on_in_a_copy_asks_nobody_and_names_the_copy_to_whoever_answers_it(
    place: Place,
) -> None:
    """Its question was listed beside the copy's: a permission for it was taken, and did nothing."""

    def clerk(prompt: str) -> ReActAgent:
        asked = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
        model = ScriptedModel([Call("c", "pay", {}), "Paid."])
        parts: dict[str, Any] = {"actions": [asked], "approver": Waiting(), "journal": journal}
        agent = ReActAgent("clerk", model, system_prompt=prompt, **parts)
        agent.on_mismatch = "fork"
        return agent

    def states() -> list[tuple[str, str]]:
        return [(each.id, each.state) for each in journal.runs()]

    with Journal(place("runs.db")) as journal:
        for run_id in ("r", "s"):
            assert clerk("Be brief.").reply_sync("Pay.", run_id=run_id).stop_reason == "waiting"
        keys = {each.run: each.key for each in journal.waiting()}
        journal.answer("s", keys["s"], True, by="eva")
        for prompt in ("Be polite.", "Be quick."):
            for run_id in ("r", "s"):
                assert clerk(prompt).reply_sync("Pay.", run_id=run_id).stop_reason == "waiting"
        waits = journal.waiting()
        assert [each.run for each in waits] == ["r.changed.changed", "s.changed.changed"]
        assert journal.waits.due_notices() == waits
        assert journal.waits.counts() == {("clerk", "approval"): 2}
        with pytest.raises(StateError, match=r"'r' goes on as 'r\.changed\.changed', which asks"):
            journal.answer("r", keys["r"], True, by="eva")
        journal.answer("s", keys["s"], True, by="eva")  # the same answer again changes nothing
        journal.cancel("s", by="eva")
        journal.answer("r.changed.changed", waits[0].key, True, by="eva")
        asyncio.run(clerk("Be quick.").resume_decided())
        assert states() == [
            *(("r", "forked"), ("s", "forked"), ("r.changed", "forked"), ("s.changed", "forked")),
            *(("r.changed.changed", "done"), ("s.changed.changed", "cancelled")),
        ]
        assert journal.waiting() == []


def test_restored_program_that_is_asked_again_goes_on_in_the_copy_of_a_permitted_run(
    place: Place,
) -> None:
    """It made the payment a second time, since the run has its permission, too."""
    paid = []

    def clerk(prompt: str) -> ReActAgent:
        asked = Action("pay", lambda: paid.append(1), "Pay.", access_policy=ACCESS_REQUESTED)
        model = ScriptedModel([Call("c", "pay", {}), "Paid."])
        parts: dict[str, Any] = {"actions": [asked], "approver": Waiting(), "journal": journal}
        agent = ReActAgent("clerk", model, system_prompt=prompt, **parts)
        agent.on_mismatch = "fork"
        return agent

    with Journal(place("runs.db")) as journal:
        assert clerk("Be brief.").reply_sync("Pay.", run_id="r").stop_reason == "waiting"
        for _ in range(2):  # the run, and its copy, which asks for itself
            (wait,) = journal.waiting()
            journal.answer(wait.run, wait.key, True, by="eva")
            asyncio.run(clerk("Be polite.").resume_decided())
        assert paid == [1]
        reply = clerk("Be brief.").reply_sync("Pay.", run_id="r")
        assert (reply.stop_reason, reply.text, paid) == ("done", "Paid.", [1])
        assert journal.run("r").state == "forked"


def test_fork_of_a_program_that_lacks_the_permitted_action_asks_its_model_again(
    journal: Journal,
) -> None:
    asked = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)

    def clerk(*script: Any, **options: Any) -> ReActAgent:
        model = ScriptedModel(script)
        return ReActAgent("clerk", model, approver=Waiting(), journal=journal, **options)

    before = clerk(Call("c", "pay", {}), actions=[asked])
    assert before.reply_sync("Pay.", run_id="r").stop_reason == "waiting"
    journal.answer("r", journal.waiting()[0].key, True)
    changed = clerk("", "There is no till.")
    changed.on_mismatch = "fork"
    (resumed,) = asyncio.run(changed.resume_decided())
    assert resumed.reply is not None
    assert (resumed.reply.stop_reason, resumed.reply.text) == ("done", "There is no till.")
    assert "is not an action; there are no" in changed.model.received[-1][-1]["content"]


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
