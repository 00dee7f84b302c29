"""Runs of every kind of agent and reply, recorded, broken off and resumed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pydantic
import pytest

from journal.conftest import Place
from journal.crash import Crashing, settled
from moothall import (
    Budget,
    DualActAgent,
    DualActConfig,
    Journal,
    Memory,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    TokenBoundedMemory,
)
from moothall.actions import Action, action
from moothall.agents import cancel_run
from moothall.agents.replies.events import (
    CallEnded,
    CallStarted,
    ConclusionReached,
    DecisionMade,
    Done,
    MessageAdded,
)
from moothall.agents.replies.reply import Reply
from moothall.foundation.errors import RequestCancelled
from moothall.journal import Done as Ended
from moothall.journal import Entry, RunView
from moothall.models.protocol import Call, ModelReply


@dataclass
class Answer:
    number: int


def crashing_agent(
    journal: Journal, crash: Crashing, *script: Any, idempotent: bool = True, **options: Any
) -> ReActAgent:
    @action(idempotent=idempotent, **options.pop("act", {}))
    def act(n: int) -> str:
        """Act."""
        return crash(n)

    return ReActAgent("a", ScriptedModel(script), actions=[act], journal=journal, **options)


def call(n: int) -> Call:
    return Call(f"c{n}", "act", {"n": n})


def both(tmp_path: Path, *script: Any, ask: Any = None, **options: Any) -> tuple[Reply, Reply]:
    """The reply of an unbroken run, and of one that was broken off in its first action."""
    ask = {"text": "go"} if ask is None else ask
    replies = []
    crash = None
    for name in ("before", "after"):
        with Journal(tmp_path / name) as journal:
            crash = crash or Crashing(journal, tmp_path / "after")
            agent = crashing_agent(journal, crash, *script, **options)
            replies.append(agent.reply_sync(**ask, run_id="R"))
            assert journal.replay("R").messages == replies[-1].messages
    return replies[0], replies[1]


@pytest.mark.parametrize(
    ("script", "options", "ask", "reason"),
    (
        ([call(1), '{"number": 7}'], {}, {"text": "go", "schema": Answer}, "done"),
        ([call(1), "seven", '{"number": 7}'], {}, {"text": "go", "schema": Answer}, "done"),
        ([call(1), "seven", "eight"], {}, {"text": "go", "schema": Answer}, "unreadable"),
        ([call(1)], {"act": {"terminal": True}}, None, "terminal"),
        ([call(1), call(1), call(1), "Yes."], {}, None, "no_progress"),
        ([call(1), call(2), call(2), call(2), "Yes."], {}, None, "no_progress"),
        ([call(1), call(2)] * 4, {"max_iterations": 5}, None, "max_iterations"),
        ([call(1), "Yes."], {}, {"text": [{"type": "text", "text": "go"}]}, "done"),
    ),
)
def test_end_of_a_run_is_the_same_however_it_came(
    tmp_path: Path, script: list[Any], options: dict[str, Any], ask: Any, reason: str
) -> None:
    whole, broken = both(tmp_path, *script, ask=ask, **options)
    assert whole.stop_reason == reason
    assert (broken.text, broken.value, broken.stop_reason, broken.detail) == (
        whole.text,
        whole.value,
        whole.stop_reason,
        whole.detail,
    )
    assert broken.messages == whole.messages
    if ask is not None and reason == "done" and "schema" in ask:
        assert broken.value == Answer(7)
    with Journal(tmp_path / "after") as journal:
        crash = Crashing(journal, tmp_path / "after")
        options = {key: value for key, value in options.items() if key != "max_iterations"}
        agent = crashing_agent(journal, crash, *script, **options)
        again = agent.reply_sync(**({"text": "go"} if ask is None else ask), run_id="R")
        assert (again.text, again.stop_reason, again.messages) == (
            broken.text,
            broken.stop_reason,
            broken.messages,
        )
        assert crash.called == []


def test_threads_are_told_apart(tmp_path: Path) -> None:
    with SQLiteMemory(tmp_path / "m") as memory:
        ask = {"text": "go", "thread": "t"}
        _, broken = both(tmp_path, call(1), "Yes.", ask=ask, memory=memory)
        # The two runs are one: the copy of a journal is of the same run.
        assert list(memory.thread("t").messages()) == broken.messages
        assert list(memory.messages()) == []


def test_stream_that_goes_on_tells_what_was_before(tmp_path: Path) -> None:
    both(tmp_path, [call(1), call(2)], "Yes.")
    (tmp_path / "after").unlink()
    for left in tmp_path.glob("after-*"):
        left.unlink()

    async def streamed() -> None:
        with Journal(tmp_path / "before") as journal:
            agent = crashing_agent(journal, Crashing(journal, tmp_path / "x"), "never")
            events = [event async for event in agent.stream("go", run_id="R")]
            kinds = [type(event) for event in events]
            assert kinds.count(MessageAdded) == 5
            assert kinds.count(CallStarted) == kinds.count(CallEnded) == 2
            assert isinstance(events[-1], Done)
            assert events[-1].reply.text == "Yes."

    asyncio.run(streamed())


async def test_run_in_a_space_goes_on_too(tmp_path: Path) -> None:
    with Journal(tmp_path / "before") as journal, NativeSpace() as space:
        crash = Crashing(journal, tmp_path / "after")
        agent = space.add(crashing_agent(journal, crash, call(1), "Yes."))
        whole = await agent.reply("go", run_id="R")
    with Journal(tmp_path / "after") as journal, NativeSpace() as space:
        agent = space.add(crashing_agent(journal, crash, call(1), "Yes."))
        broken = await agent.reply("go", run_id="R")
        assert broken.messages == whole.messages
        assert crash.called == [1, 1]
        assert journal.run("R").state == "done"


async def test_members_on_other_loops_write_into_one_run(place: Place) -> None:
    """Each commit is by a thread of its own, at the same time as the others'."""
    said = json.dumps({"action": "CONTINUE", "new_instruction": "do it", "reasoning": "so"})
    accepted = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": "so"})

    async def act(n: int) -> str:
        """Act."""
        await asyncio.sleep(0)
        return f"did {n}"

    with Journal(place("j")) as journal, NativeSpace() as one, NativeSpace() as other:
        workers = [
            space.add(
                ReActAgent(f"r{n}", ScriptedModel([*map(call, range(20)), f"{n}."]), actions=[act])
            )
            for n, space in enumerate((one, other))
        ]
        for worker in workers:
            worker.max_iterations = 30
        config = DualActConfig(
            human=ReActAgent("h", ScriptedModel([said, accepted])), reactive=workers
        )
        reply = await DualActAgent(config, journal=journal).reply("go", run_id="R")
        assert reply.stop_reason == "terminated", reply.detail
        entries = journal.entries("R")
        for kind in ("started", "ended"):
            assert (
                sum(e.kind == kind and "action" in e.data.get("about", ()) for e in entries) == 40
            )
        assert journal.replay("R").text == reply.text


async def test_reply_within_its_own_action_is_a_run_of_its_own(place: Place) -> None:
    with Journal(place("j")) as journal:

        async def ask_myself() -> str:
            """Ask."""
            inner = await agent.reply("inner", run_id="inner")
            return inner.text

        model = ScriptedModel([Call("c", "ask_myself", {}), "Inner.", "Outer."])
        agent = ReActAgent("a", model, actions=[ask_myself], journal=journal)
        reply = await agent.reply("outer", run_id="outer")
        assert reply.text == "Outer."
        assert [(run.id, run.state) for run in journal.runs()] == [
            ("outer", "done"),
            ("inner", "done"),
        ]
        assert journal.replay("inner").text == "Inner."
        assert journal.replay("outer") == reply


@pytest.mark.parametrize("limit", ({"model_calls": 2}, {"actions": 1}))
def test_run_that_stopped_at_a_budget_goes_on_with_a_larger_one(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    memory = Memory()
    with Journal(tmp_path / "j") as journal:
        crash = Crashing(journal, tmp_path / "x")
        agent = crashing_agent(
            journal, crash, call(1), call(2), "Yes.", budget=Budget(**limit), memory=memory
        )
        assert agent.reply_sync("go", run_id="R").stop_reason == "budget"
        assert journal.run("R").state == "budget"
        agent.budget = Budget(model_calls=10, actions=10)
        reply = agent.reply_sync("go", run_id="R")
        assert reply.text == "Yes."
        assert reply.messages == memory.items
        assert agent.budget.spent.model_calls == 3
        assert journal.replay("R") == reply


def test_model_that_failed_is_asked_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        crash = Crashing(journal, tmp_path / "x")
        script = [call(1), ValueError("down"), "Yes."]
        memory = Memory()
        agent = crashing_agent(journal, crash, *script, memory=memory)
        reply = agent.reply_sync("go", run_id="R")
        assert (reply.stop_reason, journal.run("R").state) == ("error", "error")
        assert journal.replay("R").stop_reason == "error"
        reply = agent.reply_sync("go", run_id="R")
        assert (reply.text, crash.called) == ("Yes.", [1])
        assert memory.items == reply.messages


def decision(name: str, instruction: str = "do it") -> ModelReply:
    made = {"action": name, "new_instruction": instruction, "reasoning": "so"}
    return ModelReply(json.dumps(made))


@pytest.mark.parametrize("repeat", (True, False))
def test_dual_act_is_in_doubt_as_its_member_is(tmp_path: Path, repeat: bool) -> None:
    crash: Crashing | None = None
    replies = []
    for name in ("before", "after"):
        with Journal(tmp_path / name) as journal:
            crash = crash or Crashing(journal, tmp_path / "after")
            act = crash

            def do(n: int, act: Any = act) -> str:
                """Act."""
                return str(act(n))

            def pair(journal: Journal = journal, do: Any = do) -> DualActAgent:
                def one(n: int) -> str:
                    """Act."""
                    return str(do(n))

                worker = ReActAgent(
                    "r", ScriptedModel([Call("c", "one", {"n": 1}), "One.", "Two."]), actions=[one]
                )
                script = [decision("CONTINUE"), decision("REDIRECT"), decision("TERMINATE")]
                config = DualActConfig(
                    human=ReActAgent("h", ScriptedModel(script)), reactive=worker
                )
                return DualActAgent(config, "pair", journal=journal)

            if name == "after":
                reply = pair().reply_sync("go", run_id="R")
                assert reply.stop_reason == "in_doubt"
                assert '"one"' in reply.detail
                assert journal.run("R").state == "in_doubt"
                (doubt,) = journal.decide("R", "repeat" if repeat else "skip")
                assert (doubt.path, doubt.action) == ("R1/r", "one")
            replies.append(pair().reply_sync("go", run_id="R"))
    whole, broken = replies
    assert crash is not None
    assert crash.called == ([1, 1] if repeat else [1])
    assert (broken.stop_reason, broken.text, broken.r_runs) == ("terminated", "Two.", 2)
    assert [each.summary for each in broken.conclusions] == ["One.", "Two."]
    assert broken.usage == whole.usage
    assert len(broken.steps) == len(whole.steps) == 1
    with Journal(tmp_path / "after") as journal:
        assert journal.replay("R") == broken


class Strict(pydantic.BaseModel, extra="forbid"):
    """What it is written as is refused when it is read: `twice` is not an input."""

    number: int

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.number * 2


@pytest.mark.parametrize(("several", "type"), ((True, Answer), (False, Answer), (False, Strict)))
def test_dual_act_gives_values_of_the_type_asked_for(
    tmp_path: Path, several: bool, type: Any
) -> None:
    with Journal(tmp_path / "before") as journal:
        crash = Crashing(journal, tmp_path / "after")

        def pair(journal: Journal) -> DualActAgent:
            def accept(messages: Any, actions: Any) -> ModelReply:
                crash("accept")
                return decision("TERMINATE")

            human = ReActAgent("h", ScriptedModel([decision("CONTINUE"), accept]))
            workers = [
                ReActAgent(f"r{n}", ScriptedModel([f'{{"number": {n}}}']))
                for n in range(2 if several else 1)
            ]
            return DualActAgent(DualActConfig(human=human, reactive=workers), journal=journal)

        whole = pair(journal).reply_sync("go", schema=type, run_id="R")
        assert whole.value == (
            {"r0": type(number=0), "r1": type(number=1)} if several else type(number=0)
        )
        assert pair(journal).reply_sync("go", schema=type, run_id="R") == whole
    with Journal(tmp_path / "after") as journal:
        assert pair(journal).reply_sync("go", schema=type, run_id="R") == whole


def test_member_with_a_journal_of_its_own_records_each_turn_as_a_run(journal: Journal) -> None:
    worker = ReActAgent("r", ScriptedModel(["One.", "Two."]), journal=journal)
    script = [decision("CONTINUE"), decision("CONTINUE"), decision("TERMINATE")]
    human = ReActAgent("h", ScriptedModel(script))
    reply = DualActAgent(human=human, reactive=worker).reply_sync("go", run_id="R")
    assert reply.run_id == "R"
    assert [run.id for run in journal.runs()] == ["R/R1/r", "R/R2/r"]
    assert journal.replay("R/R2/r").text == "Two."


def test_value_of_a_terminal_action_stays_what_it_was_whatever_was_asked_for(
    tmp_path: Path,
) -> None:
    def finish() -> str:
        """Finish."""
        return "all done"

    def pair() -> DualActAgent:
        end = Action("finish", finish, terminal=True)
        worker = ReActAgent("r", ScriptedModel([Call("c", "finish", {})]), actions=[end])
        human = ReActAgent("h", ScriptedModel([decision("CONTINUE"), decision("TERMINATE")]))
        return DualActAgent(human=human, reactive=worker, journal=tmp_path / "j")

    whole = pair().reply_sync("go", schema=Answer, run_id="R")
    assert (whole.text, whole.value) == ("all done", "all done")
    assert pair().reply_sync("go", schema=Answer, run_id="R") == whole


async def test_stream_of_a_dual_act_that_has_ended_tells_all_of_it(journal: Journal) -> None:
    human = ReActAgent("h", ScriptedModel([decision("CONTINUE"), decision("TERMINATE")]))
    worker = ReActAgent("r", ScriptedModel(["One."]))
    pair = DualActAgent(DualActConfig(human=human, reactive=worker), journal=journal)
    told = []
    for _ in range(2):
        events = [event async for event in pair.stream("go", run_id="R")]
        told.append([each for each in events if isinstance(each, DecisionMade | ConclusionReached)])
        assert isinstance(events[-1], Done)
    assert len(told[0]) == 3
    assert not any(each.past for each in told[0])
    assert told[1] == [replace(each, past=True) for each in told[0]]


async def test_terminal_action_that_succeeded_ends_a_run_cancelled_beside_it(
    journal: Journal,
) -> None:
    @action
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    @action(terminal=True)
    async def finish() -> str:
        """Finish."""
        return "finished"

    script = [[Call("1", "wait", {}), Call("2", "finish", {})], "not asked"]

    def make() -> ReActAgent:
        return ReActAgent("a", ScriptedModel(script), actions=[wait, finish], journal=journal)

    agent = make()
    reply = asyncio.create_task(agent.reply("Go.", run_id="R"))
    agent.watch(lambda event: isinstance(event, CallEnded) and reply.cancel())
    await asyncio.wait([reply])
    assert (await make().reply("Go.", run_id="R")).stop_reason == "in_doubt"
    journal.decide("R", "skip")
    again = await make().reply("Go.", run_id="R")
    assert (again.stop_reason, again.value) == ("terminal", "finished")
    assert [step.action for step in again.steps[-2:]] == ["wait", "finish"]
    assert journal.replay("R") == again


async def test_dual_act_that_was_cancelled_goes_on(tmp_path: Path) -> None:
    began = asyncio.Event()
    called: list[int] = []

    async def act() -> str:
        """Act."""
        called.append(1)
        began.set()
        await asyncio.Event().wait()
        return "never"

    with Journal(tmp_path / "j") as journal, SQLiteMemory(tmp_path / "m") as memory:
        worker = ReActAgent(
            "r",
            ScriptedModel([Call("c", "act", {}), "One."]),
            actions=[act],
            memory=memory,
        )
        human = ReActAgent("h", ScriptedModel([decision("CONTINUE"), decision("TERMINATE")]))
        pair = DualActAgent(DualActConfig(human=human, reactive=worker), journal=journal)
        task = asyncio.ensure_future(pair.reply("go", run_id="R"))
        await began.wait()
        task.cancel()
        await settled()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert journal.run("R").state == "in_doubt"
        assert (await pair.reply("go", run_id="R")).stop_reason == "in_doubt"
        journal.decide("R", {1: Ended("acted")})
        reply = await pair.reply("go", run_id="R")
        assert (reply.stop_reason, reply.text, called) == ("terminated", "One.", [1])
        told = [(each["role"], str(each["content"])) for each in memory.messages()]
        assert [role for role, _ in told[1:]] == ["assistant", "tool"] * 2 + ["assistant"]
        assert [text for role, text in told if role == "tool"][1:] == ["acted"]
        assert journal.replay("R") == reply


def test_journal_of_a_dual_act_grows_with_what_is_new(tmp_path: Path) -> None:
    def read(n: int) -> str:
        """Read a page."""
        return f"{n} " + "x" * 20_000

    def size(loops: int) -> int:
        go_on = json.dumps({"action": "CONTINUE", "new_instruction": "go on", "reasoning": "r"})
        script = [each for n in range(loops) for each in (Call("c", "read", {"n": n}), "Read.")]
        with Journal(tmp_path / f"{loops}") as journal:
            config = DualActConfig(
                human=ReActAgent("H", ScriptedModel([go_on] * (loops + 1))),
                reactive=ReActAgent("R", ScriptedModel(script), actions=[read]),
                max_hr_loops=loops,
            )
            DualActAgent(config, journal=journal).reply_sync("go", run_id="R")
            return sum(len(json.dumps(entry.data)) for entry in journal.entries("R"))

    # In the file a page stands once or twice; here each entry has its text again.
    assert size(20) < 2.5 * size(10)


async def test_dual_act_that_is_cancelled_is_told_so(journal: Journal) -> None:
    begun = asyncio.Event()

    async def wait(messages: Any, actions: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    for _ in range(3):  # and so when it was resumed
        begun.clear()
        human = ReActAgent("H", ScriptedModel([wait]))
        agent = DualActAgent(
            DualActConfig(human, ReActAgent("R", ScriptedModel([]))), journal=journal
        )
        reply = asyncio.create_task(agent.reply("go", run_id="R"))
        await begun.wait()
        reply.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reply
        assert journal.run("R").state == "cancelled"
        assert journal.replay("R").stop_reason == "cancelled"
        assert journal.entries("R")[-1].data["detail"] == ""


async def test_parts_of_agents_with_a_slash_in_their_id_are_apart(place: Place) -> None:
    with Journal(place("j")) as journal:
        record = await journal.begin("R", "DualActAgent", "a", "go")
        one = record.part("R1/a").part("H1")
        others = [record.part(f"R1/{id}") for id in ("a/H1", "a%2FH1", "a%252FH1")]
        record.close()
    assert len({one.path, *(each.path for each in others)}) == 4


def test_end_of_a_run_counts_until_its_own_part_does_more() -> None:
    paths = (("", "over"), ("R1", "heard"), ("", "heard"))
    entries = [Entry(n, path, kind, 0.0, {}) for n, (path, kind) in enumerate(paths, 1)]
    assert Entry.end_of(entries[:2]) == entries[0]
    assert Entry.end_of(entries[:2], "R1") is None
    assert Entry.end_of(entries) is None


async def test_answer_that_was_interrupted_counts_after_a_crash(tmp_path: Path) -> None:
    """Or a run would be given one answer more for each interruption before a crash."""
    begun = asyncio.Event()
    with Journal(tmp_path / "before") as journal:
        crash = Crashing(journal, tmp_path / "after")

        async def hang(*_: Any) -> str:
            begun.set()
            await asyncio.Event().wait()
            return ""

        @action(idempotent=True)
        def act(n: int) -> str:
            """Act."""
            return crash(n)

        def agent(journal: Journal, *script: Any) -> ReActAgent:
            model = ScriptedModel(script)
            return ReActAgent("a", model, actions=[act], journal=journal, max_iterations=3)

        first = agent(journal, hang, call(1), call(2), call(3))
        task = asyncio.ensure_future(first.reply("go", run_id="R"))
        await begun.wait()
        first.interrupt("Rather act.")
        whole = await task
    with Journal(tmp_path / "after") as journal:
        broken = await agent(journal, call(1), call(2), call(3), call(4)).reply("go", run_id="R")
        assert broken.stop_reason == whole.stop_reason == "max_iterations"
        assert len(broken.steps) == len(whole.steps) == 2


async def test_scripted_model_goes_on_after_the_answer_that_was_interrupted(
    journal: Journal,
) -> None:
    begun = asyncio.Event()

    async def hang(*_: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    def agent() -> ReActAgent:
        script = [hang, ValueError("down"), "Yes."]
        return ReActAgent("a", ScriptedModel(script), journal=journal)

    first = agent()
    task = asyncio.ensure_future(first.reply("go", run_id="R"))
    await begun.wait()
    first.interrupt("Rather so.")
    assert (await task).stop_reason == "error"
    assert (await agent().reply("go", run_id="R")).text == "Yes."


async def test_scripted_model_gives_the_answer_again_with_which_a_run_was_cancelled(
    journal: Journal,
) -> None:
    begun = asyncio.Event()
    hanging = True

    async def first(*_: Any) -> str:
        begun.set()
        if hanging:
            await asyncio.Event().wait()
        return "First."

    def agent() -> ReActAgent:
        return ReActAgent("a", ScriptedModel([first, "Second."]), journal=journal)

    task = asyncio.ensure_future(agent().reply("go", run_id="R"))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    hanging = False
    assert (await agent().reply("go", run_id="R")).text == "First."


def _family() -> Any:
    root: dict[str, Any] = {"name": "root", "children": []}
    root["children"] = [{"name": "leaf", "parent": root}]
    return root


def _friends() -> Any:
    everyone: list[dict[str, Any]] = [{"name": n, "friends": []} for n in range(4)]
    for person in everyone:
        person["friends"] = [other for other in everyone if other is not person]
    return everyone


def _deep() -> Any:
    return json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize("made", (_family, _friends, _deep))
def test_result_that_contains_itself_or_is_too_deep_is_recorded_as_text(
    place: Place, made: Any
) -> None:
    """`reply` raised RecursionError: for a tree whose leaves know their parents, a page's JSON."""

    def look() -> Any:
        """Look."""
        return {"found": made(), "pages": 3}

    model = ScriptedModel([Call("c", "look", {}), "Seen."])
    with Journal(place("j")) as journal:
        agent = ReActAgent("a", model, actions=[look], journal=journal, memory=Memory())
        reply = agent.reply_sync("go", run_id="R")
        assert (reply.text, reply.stop_reason) == ("Seen.", "done")
        shown = json.loads(model.received[1][-1]["content"])
        assert shown["pages"] == 3
        assert "contains itself or is nested too deep" in str(shown["found"])
        for told in (reply, journal.replay("R")):
            assert told.to_json()["steps"][0]["result"]["result"]["pages"] == 3


def a_list(folder: Path) -> Any:
    return Memory()


def a_window(folder: Path) -> Any:
    return TokenBoundedMemory(1500)


def a_file(folder: Path) -> Any:
    return SQLiteMemory(folder / "memory")


@pytest.mark.parametrize("restored", (False, True), ids=("one process", "restored"))
@pytest.mark.parametrize("memory", (a_list, a_window, a_file))
def test_prompts_are_recorded_as_what_is_new_in_the_thread(
    memory: Callable[[Path], Any], restored: bool, tmp_path: Path
) -> None:
    """Also where the memory makes new messages each time, or a state brings them back."""

    def read(n: int) -> str:
        """Read a page."""
        return f"{n} " + "x" * 100

    runs, sizes = 24, []
    script = [
        part
        for n in range(runs)
        for part in (*[Call("c", "read", {"n": page}) for page in (n, n + 1)], f"Answer {n}.")
    ]
    model, given = ScriptedModel(script), []
    with Journal(tmp_path / "j") as journal:

        def made() -> ReActAgent:
            kept = memory(tmp_path)
            more: Any = {"memory": kept, "system_prompt": "Be brief.", "journal": journal}
            return ReActAgent("a", model, actions=[read], **more)

        agent = made()
        for n in range(runs):
            if restored:
                state = agent.state_dict()
                agent = made()
                agent.load_state_dict(state)
            agent.reply_sync(f"Question {n}: " + "x" * 100, run_id=f"{n}")
            view = RunView(journal, f"{n}")
            given += [
                view.prompt(each.sequence)
                for each in view.entries
                if each.kind == "ended" and "prompt" in each.data
            ]
            with closing(sqlite3.connect(tmp_path / "j")) as db:
                rows = "SELECT sum(length(data)) FROM (SELECT data FROM kept UNION ALL "
                sizes += db.execute(f"{rows} SELECT data FROM entries)").fetchone()
    assert [each and each["messages"] for each in given] == model.received
    assert max(len(each) for each in model.received) > 30
    # A reply's own six messages and its other entries have 6,200 characters, a prompt 10,000.
    assert (sizes[-1] - sizes[-11]) / 10 < 7000


async def test_cancel_run_of_a_journal_leaves_the_run_of_that_id_in_another(tmp_path: Path) -> None:
    working = asyncio.Semaphore(0)

    @action
    async def wait() -> None:
        """Wait."""
        working.release()
        await asyncio.Event().wait()

    with Journal(tmp_path / "a") as first, Journal(tmp_path / "b") as second:
        replies = []
        for journal in (first, second):
            agent = ReActAgent("a", ScriptedModel([Call("c", "wait", {})]), actions=[wait])
            agent.journal = journal
            replies.append(asyncio.create_task(agent.reply("Go.", run_id="R")))
            await working.acquire()
        for journal, reply in zip((second, first), reversed(replies), strict=True):
            assert cancel_run("R", journal)
            with pytest.raises(RequestCancelled):
                await reply
        assert not cancel_run("R", first)
