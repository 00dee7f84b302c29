"""A conversation that is recorded goes on where it was, whatever ended its process."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.conversation.journalled import (
    RUN,
    World,
    make,
    memories,
    told,
    transcripts,
)
from agent.replies.talkers import Talker, answer
from commands import run
from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Budget,
    Call,
    ChosenBy,
    Conversation,
    HandOver,
    Journal,
    MaxTurns,
    NativeSpace,
    Person,
    ReActAgent,
    Said,
    ScriptedModel,
    SQLiteMemory,
    TurnEnded,
    Waiting,
)
from moothall.agents.replies.reply import Step
from moothall.foundation.errors import DefinitionError, RunMismatch, StateError

PROGRAM = "agent.conversation.journalled"
TESTS = Path(__file__).parents[2]

# Of each order, the actions of the unbroken run.
ALWAYS = ("nested",)


def some(orders: Iterable[str]) -> list[Any]:
    """One of them always, the others with the long tests: each starts a process many times."""
    return [
        order if order in ALWAYS else pytest.param(order, marks=pytest.mark.long)
        for order in orders
    ]


ACTIONS = {
    "round": ("a1", "b1", "b2", "a2", "b3"),
    "clerk": ("a1", "a2"),
    "chosen": ("b1", "a1", "b2"),
    "hand-over": ("a1", "b1", "a2"),
    "together": ("a1", "waits", "c1", "a2", "b2"),
    "nested": ("c1", "a1", "b1", "a2", "c2"),
    "outcome": ("b1",),
    "as R": ("a1", "b1", "a2", "b2"),
    "as H": ("a1", "b1", "r1", "a2"),
    "of dual acts": ("c1", "r1", "c2", "r2"),
}
# At the end two work at once, and which one has ended is not known: asked of one at a time.
ALONE = [
    (order, action)
    for order, actions in ACTIONS.items()
    for action in actions
    if (order, action) not in (("together", "a1"), ("together", "a2"), ("together", "b2"))
]


class Desk:
    """Where the program is run: a journal, a log and memories."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.journal = folder / "journal.db"
        self.log = folder / "log"
        self.memories = folder / "memories"
        self.memories.mkdir()

    def run(
        self, order: str, kill: str = "-", *, idempotent: bool = True, durable: bool = False
    ) -> Any:
        """What it printed, or None if it was killed."""
        env = {k: v for k, v in os.environ.items() if k != "MEMORIES"}
        env["IDEMPOTENT"] = str(int(idempotent))
        if durable:
            env["MEMORIES"] = str(self.memories)
        args = [order, str(self.journal), str(self.log), kill]
        done = run(*args, module=PROGRAM, cwd=TESTS, env=env)
        if done.returncode == -signal.SIGKILL:
            return None
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def lines(self) -> list[str]:
        """What the actions wrote."""
        return self.log.read_text().splitlines()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """What comes of each order unbroken."""
    folder = tmp_path_factory.mktemp("whole")
    return functools.cache(lambda order: unbroken_run(order, folder))


def unbroken_run(order: str, folder: Path) -> Any:
    desk = Desk(folder / order)
    found = desk.run(order)
    ends = [line.removeprefix("end ") for line in desk.lines() if line.startswith("end ")]
    assert sorted(ends) == sorted(ACTIONS[order])
    assert found["replay"] == found["reply"]
    assert found["reply"]["stop"][0] in ("done", "terminated")
    return found


def repeated(unbroken: Any, actions: int) -> Any:
    """The same, where so many actions were executed, and paid for, twice."""
    tokens, model_calls, executed = unbroken["spent"]
    return {**unbroken, "spent": [tokens, model_calls, executed + actions]}


@pytest.mark.parametrize("order", some(ACTIONS))
def test_killed_in_each_action_it_goes_on_as_if_it_had_not_been(
    order: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    unbroken = whole(order)
    for action in [action for of, action in ALONE if of == order]:
        desk = Desk(tmp_path / action)
        assert desk.run(order, action) is None
        assert desk.run(order) == repeated(unbroken, 1)
        begun = Counter(line for line in desk.lines() if line.startswith(("begin ", "clerk ")))
        assert begun.pop(f"begin {action}") == 2
        assert set(begun.values()) == {1} if begun else len(ACTIONS[order]) == 1


@pytest.mark.parametrize("action", ("a1", "a2", "b2"))
def test_killed_while_several_work_it_goes_on(
    action: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    desk = Desk(tmp_path / "desk")
    assert desk.run("together", action) is None
    found = desk.run("together")
    unbroken = whole("together")
    for what in ("reply", "replay", "transcripts", "memories"):
        assert found[what] == unbroken[what]


@pytest.mark.parametrize("order", some(("round", "hand-over", "nested", "as R", "of dual acts")))
def test_conversation_run_holds_nothing_twice_in_a_durable_memory(
    order: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    unbroken = whole(order)
    for action in ACTIONS[order]:
        desk = Desk(tmp_path / action)
        assert desk.run(order, action, durable=True) is None
        assert desk.run(order, durable=True) == repeated(unbroken, 1)


@pytest.mark.parametrize("order", ("chosen", "as R"))
def test_killed_in_one_process_after_the_other(
    order: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    unbroken = whole(order)
    desk = Desk(tmp_path / "desk")
    for action in ACTIONS[order]:
        assert desk.run(order, action) is None
    assert desk.run(order) == repeated(unbroken, len(ACTIONS[order]))
    begun = Counter(line for line in desk.lines() if line.startswith("begin "))
    assert begun == {f"begin {action}": 2 for action in ACTIONS[order]}


# Between two turns, where nothing is in doubt: no action is executed twice.
BETWEEN = {
    "round": ("at talk 1", "at talk 2", "at talk 4", "over"),
    "clerk": ("at talk 1", "at talk 3"),
    "chosen": ("at talk 1", "at talk 2", "over"),
    "hand-over": ("at talk 1", "at talk 2", "at talk 3", "over"),
    "together": ("next 0", "next 2", "next 3", "next 5", "at talk 2", "at talk 5", "over"),
    "nested": ("at inner 1", "at inner 2", "at inner 3", "at talk 2", "at talk 3", "over"),
    "outcome": ("at talk 2", "over"),
    "as R": ("at R 1", "at R 2", "over"),
    "as H": ("at H 1", "at H 2", "over"),
    "of dual acts": ("at talk 2", "at talk 3", "over"),
}


@pytest.mark.parametrize("order", some(BETWEEN))
def test_killed_between_two_turns_it_does_nothing_twice(
    order: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    unbroken = whole(order)
    for point in BETWEEN[order]:
        desk = Desk(tmp_path / point)
        assert desk.run(order, point, idempotent=False) is None
        assert desk.run(order, idempotent=False) == unbroken
        begun = Counter(line for line in desk.lines() if line.startswith(("begin ", "clerk ")))
        assert set(begun.values()) == {1}


@pytest.mark.parametrize("order", some(ACTIONS))
def test_cancelled_it_goes_on_in_the_same_process(
    order: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    unbroken = whole(order)
    for action in [action for of, action in ALONE if of == order]:
        if (order, action) == ("as H", "r1"):
            continue  # H is shown that it was cancelled
        desk = Desk(tmp_path / action)
        found = desk.run(order, f"cancel:{action}")
        assert found["reply"]["stop"] == unbroken["reply"]["stop"]
        assert found["transcripts"] == unbroken["transcripts"]
        assert desk.run(order)["transcripts"] == unbroken["transcripts"]


# -- in doubt --------------------------------------------------------------------------------------

DOUBTED = {
    "round": "b2",
    "clerk": "a1",
    "chosen": "a1",
    "hand-over": "b1",
    "together": "waits",
    "nested": "b1",
    "as R": "b2",
    "as H": "b1",
    "of dual acts": "r1",
}


@pytest.mark.parametrize("order", some(DOUBTED))
def test_conversation_action_in_doubt_stops_the_run_until_it_is_decided(
    order: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    unbroken = whole(order)
    action = DOUBTED[order]
    desk = Desk(tmp_path / "desk")
    assert desk.run(order, action, idempotent=False) is None
    for _ in range(2):
        stopped = desk.run(order, idempotent=False)["reply"]
        assert stopped["stop"][0] == "in_doubt"
        assert action in stopped["stop"][1]
    with Journal(desk.journal) as journal:
        assert [doubt.args["what"] for doubt in journal.in_doubt(RUN)] == [action]
        assert journal.run(RUN).state == "in_doubt"
        journal.decide(RUN, "repeat")
    assert desk.run(order, idempotent=False) == repeated(unbroken, 1)
    begun = Counter(line for line in desk.lines() if line.startswith("begin "))
    assert begun.pop(f"begin {action}") == 2
    assert not begun or set(begun.values()) == {1}


@pytest.mark.parametrize("order", some(DOUBTED))
def test_conversation_action_that_is_skipped_is_not_executed(order: str, tmp_path: Path) -> None:
    action = DOUBTED[order]
    desk = Desk(tmp_path / "desk")
    assert desk.run(order, action, idempotent=False) is None
    with Journal(desk.journal) as journal:
        journal.decide(RUN, "skip")
    found = desk.run(order, idempotent=False)
    assert found["reply"]["stop"][0] in ("done", "terminated")
    assert found["replay"] == found["reply"]
    begun = Counter(line for line in desk.lines() if line.startswith("begin "))
    assert begun == {f"begin {each}": 1 for each in ACTIONS[order]}
    assert f"end {action}" not in desk.lines()


@pytest.mark.parametrize("order", some(DOUBTED))
def test_decided_it_goes_on_in_the_process_that_was_stopped(
    order: str, whole: Callable[[str], Any], tmp_path: Path
) -> None:
    unbroken = whole(order)
    desk = Desk(tmp_path / "desk")
    assert desk.run(order, DOUBTED[order], idempotent=False) is None

    async def go_on() -> None:
        with Journal(desk.journal) as journal:
            talk = make(order, World(str(desk.log), "-"), journal=journal)
            assert (await talk.reply("go", run_id=RUN)).stop_reason == "in_doubt"
            journal.decide(RUN, "repeat")
            reply = await talk.reply("go", run_id=RUN)
            assert told(reply) == told(journal.replay(RUN)) == unbroken["reply"]
            assert transcripts(talk) == unbroken["transcripts"]
            assert memories(talk) == unbroken["memories"]

    asyncio.run(go_on())


def test_conversation_interrupted_while_stopped_hears_it_on_resume(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk")
    assert desk.run("round", "b1", idempotent=False) is None

    async def go_on() -> None:
        with Journal(desk.journal) as journal:
            talk = make("round", World(str(desk.log), "-"), journal=journal)
            assert (await talk.reply("go", run_id=RUN)).stop_reason == "in_doubt"
            await talk.observe("by the way")
            journal.decide(RUN, "repeat")
            reply = await talk.reply("go", run_id=RUN)
            assert reply.stop_reason == "done"
            assert reply.text == "b second"
            for agent in talk.agents.values():
                contents = [m["content"] for m in agent.memory.get_memories()]
                assert contents.count("by the way") == 1
                if agent.id == "b":  # before it goes on with its turn
                    assert contents.index("by the way") < contents.index("b first")
            texts = [each.text for each in talk.state.transcript]
            assert texts == ["go", "a first", "by the way", "b first", "a second", "b second"]
            assert [m["content"] for m in reply.messages] == texts
            assert told(journal.replay(RUN)) == told(reply)

    asyncio.run(go_on())


# -- one process -----------------------------------------------------------------------------------


def pair(*answers: str) -> list[ReActAgent]:
    return [ReActAgent(id, ScriptedModel(answers, "m")) for id in ("a", "b")]


async def test_conversation_run_that_is_over_gives_its_reply_again(tmp_path: Path) -> None:
    talk = Conversation(pair("one", "two"), until=MaxTurns(2), journal=tmp_path / "j.db")
    first = await talk.reply("go", run_id=RUN)
    await talk.reply("more", run_id="second")
    before = talk.state_dict()
    assert await talk.reply("go", run_id=RUN) == first
    assert talk.state_dict() == before
    assert talk.journal is not None
    assert talk.journal.replay(RUN) == first
    assert [each.kind for each in talk.journal.runs()] == ["Conversation"] * 2
    assert [each.state for each in talk.journal.runs()] == ["done"] * 2


async def test_conversation_run_that_is_over_is_known_in_another_process(tmp_path: Path) -> None:
    def make_it() -> Conversation:
        return Conversation(pair("one", "two"), until=MaxTurns(2), journal=tmp_path / "j.db")

    talk = make_it()
    await talk.reply("go", run_id=RUN)
    again = make_it()
    assert (await again.reply("go", run_id=RUN)).text == "one"
    assert again.state_dict() == talk.state_dict()
    assert (await again.reply("more")).text == (await talk.reply("more")).text == "two"
    assert again.state_dict() == talk.state_dict()


async def test_participant_whose_failure_is_recorded_is_not_asked_again(tmp_path: Path) -> None:
    class Weary(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            self.asked += 1
            return answer("", stop_reason="max_iterations", detail="tired")

    def make_it(cut: bool) -> Conversation:
        def until(state: Any) -> None:
            if cut:
                raise RuntimeError("cut")

        options: Any = {"stop_if_failed": "none", "max_turns": 1, "journal": tmp_path / "j.db"}
        return Conversation([weary], until=until, **options)

    weary = Weary("Ann")
    assert (await make_it(True).reply("go", run_id=RUN)).stop_reason == "error"
    reply = await make_it(False).reply("go", run_id=RUN)
    assert (reply.stop_reason, weary.asked) == ("max_iterations", 1)
    assert reply.messages[-1]["content"] == "(no answer: max_iterations: tired)"


async def test_person_without_an_answer_is_asked_again_by_a_resumed_conversation(
    tmp_path: Path,
) -> None:
    class Desk:
        lines: tuple[str | None, ...] = (None, "Yes.")

        async def ask(self, *asked: Any) -> str | None:
            line, *rest = self.lines
            self.lines = tuple(rest)
            return line

    person = Person("Ada", desk=Desk())
    talk = Conversation([person], until=MaxTurns(1), journal=tmp_path / "j.db")
    assert (await talk.reply("May we?", run_id=RUN)).stop_reason == "error"
    assert (await talk.reply("May we?", run_id=RUN)).text == "Yes."


async def test_conversation_turns_are_told_again_on_resume(tmp_path: Path) -> None:
    def make_it() -> Conversation:
        return Conversation(pair("one", "two"), until=MaxTurns(3), journal=tmp_path / "j.db")

    async def turns(talk: Conversation) -> list[Any]:
        return [e async for e in talk.stream("go", run_id=RUN) if isinstance(e, TurnEnded)]

    talk = make_it()
    stream = talk.stream("go", run_id=RUN)
    async for event in stream:
        if isinstance(event, TurnEnded) and event.turn == 2:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    assert talk.journal is not None
    assert talk.journal.run(RUN).state == "cancelled"
    told_again = await turns(make_it())
    assert [(e.turn, e.speaker, e.utterance.text) for e in told_again] == [
        (1, "a", "one"),
        (2, "b", "one"),
        (3, "a", "two"),
    ]
    assert [event.past for event in told_again] == [True, True, False]
    assert [replace(e, past=False) for e in await turns(make_it())] == [
        replace(e, past=False) for e in told_again
    ]


async def test_conversation_interruption_is_recorded(tmp_path: Path) -> None:
    def make_it(first: bool) -> Conversation:
        def until(state: Any) -> None:
            if first and state.turns == 1:
                talk.interrupt("hurry")
            if first and state.turns == 2:
                raise RuntimeError("cut")

        talk = Conversation(pair("one", "two"), until=MaxTurns(4) | until, journal=path)
        return talk

    path = tmp_path / "j.db"
    talk = make_it(True)
    assert (await talk.reply("go", run_id=RUN)).stop_reason == "error"
    again = make_it(False)
    reply = await again.reply("go", run_id=RUN)
    texts = [each.text for each in again.state.transcript]
    assert texts == ["go", "one", "hurry", "one", "two", "two"]
    assert reply.stop_reason == "done"
    for agent in again.agents.values():
        contents = [m["content"] for m in agent.memory.get_memories()]
        assert contents.count("hurry") == 1


async def test_resume_goes_on_with_the_run_that_was_cancelled(tmp_path: Path) -> None:
    answers: list[Any] = ["one", "two"]

    async def cut(messages: Any, actions: Any) -> str:
        task.cancel()
        await asyncio.Event().wait()
        return ""

    b = ReActAgent("b", ScriptedModel([cut, *answers], "m"))
    a = ReActAgent("a", ScriptedModel(answers, "m"))
    talk = Conversation([a, b], until=MaxTurns(2), journal=tmp_path / "j.db")
    task = asyncio.create_task(talk.reply("go", run_id=RUN))
    await asyncio.wait((task,))
    assert task.cancelled()
    reply = await talk.resume()
    assert (reply.text, reply.run_id, reply.stop_reason) == ("one", RUN, "done")
    assert talk.journal is not None
    assert talk.journal.replay(RUN) == reply
    contents = [m["content"] for m in b.memory.get_memories()]
    assert contents == ["go", "a: one", "one"]


async def test_conversation_long_thread_is_recorded_once_and_restored(
    tmp_path: Path,
) -> None:
    replies = 38

    def begin_anew() -> None:
        for file in tmp_path.glob("j.db*"):
            file.unlink()

    def make_it(cut: bool) -> Conversation:
        def until(state: Any) -> None:
            if cut and state.begun > 3 * (replies - 1) and state.turns == 1:
                raise RuntimeError("cut")

        agents = pair(*(f"{number} " + "x" * 900 for number in range(replies)))
        return Conversation(agents, until=MaxTurns(2) | until, journal=tmp_path / "j.db")

    talk = make_it(True)
    assert talk.journal is not None
    for number in range(replies):
        reply = await talk.reply(f"go {number}", run_id=f"r{number}")
    assert reply.stop_reason == "error"
    sizes = [
        sum(len(json.dumps(each.data, default=str)) for each in talk.journal.entries(f"r{number}"))
        for number in (3, replies - 2)
    ]
    assert sizes[1] < 1.2 * sizes[0]
    other = make_it(False)
    reply = await other.reply(f"go {number}", run_id=f"r{number}")
    assert (reply.stop_reason, other.state.count) == ("done", 3 * replies)
    assert other.state.transcript[:-1] == talk.state.transcript
    assert [each["content"] for each in reply.messages[:2]] == ["go 37", f"37 {'x' * 900}"]
    assert talk.journal.replay(f"r{number}") == reply
    # What another file of the same name never had is recorded whole.
    talk.journal.close()
    begin_anew()
    talk.journal = tmp_path / "j.db"
    await talk.reply("go 38", run_id="r38")
    other = make_it(False)
    assert (await other.reply("go 38", run_id="r38")).stop_reason == "done"
    assert other.state.transcript[:3] == talk.state.transcript[:3]


async def test_conversation_state_that_was_loaded_continues_in_a_run_of_its_own(
    tmp_path: Path,
) -> None:
    talk = Conversation(pair("one", "two"), until=MaxTurns(2))
    saved: dict[str, Any] = {}
    async for event in talk.stream("go"):
        if isinstance(event, TurnEnded) and event.turn == 1:
            saved = talk.state_dict()
    other = Conversation(pair("one", "two"), until=MaxTurns(2), journal=tmp_path / "j.db")
    other.load_state_dict(saved)
    reply = await other.resume()
    assert [m["content"] for m in reply.messages] == ["go", "one", "one"]
    assert other.journal is not None
    assert reply.run_id is not None
    assert other.journal.replay(reply.run_id) == reply


async def test_conversation_lines_are_committed_before_participants_hear_them(
    tmp_path: Path,
) -> None:
    class Looks:
        def __init__(self, id: str) -> None:
            self.id = id

        async def reply(self, text: Any, **wanted: Any) -> Any:
            return answer(f"{self.id} speaks")

        async def observe(self, message: Any) -> None:
            written = [entry.data.get("result") for entry in journal.entries(RUN)]
            told.append((self.id, message["content"], written.count(message)))

    told: list[tuple[str, str, int]] = []
    with Journal(tmp_path / "j.db") as journal:
        agents = [Looks(id) for id in ("a", "b", "c")]
        talk = Conversation(agents, until=MaxTurns(2), journal=journal)
        await talk.reply("go", run_id=RUN)
    # Of b and c, who do not speak, both entries are there before one of them is told.
    assert told == [
        ("b", "go", 2),
        ("c", "go", 2),
        ("c", "a: a speaks", 1),
        ("a", "b: b speaks", 2),
        ("c", "b: b speaks", 2),
    ]


# -- the model that chooses ------------------------------------------------------------------------


class Chooser(ScriptedModel):
    """Keeps what a crash would leave of a journal in one of its calls."""

    def __init__(self, journal: Journal, copy: Path, fatal: int, *script: str) -> None:
        super().__init__(script, "chooser")
        self.asked = 0
        self._crash = functools.partial(crash, journal.path, copy)
        self._fatal = fatal

    async def complete(self, *args: Any, **options: Any) -> Any:
        self.asked += 1
        if self.asked == self._fatal:
            self._crash()
        return await super().complete(*args, **options)


def chosen_by(chooser: Chooser, journal: Journal, budget: Budget) -> Conversation:
    agents, until = pair("one"), MaxTurns(1)
    return Conversation(agents, ChosenBy(chooser), until, journal=journal, budget=budget)


def test_chosen_by_call_that_was_cut_off_is_charged(tmp_path: Path) -> None:
    for number in range(4):
        budget = Budget(model_calls=4)
        with Journal(tmp_path / f"{number}") as journal:
            chooser = Chooser(journal, tmp_path / f"{number + 1}", 1, '{"next": "b"}')
            talk = chosen_by(chooser, journal, budget)
            talk.deaths = 9
            reply = talk.reply_sync("go", run_id=RUN)
        # Each process counts the calls that those before it were killed in.
        assert budget.spent.model_calls == min(number + 2, 4)
        assert reply.stop_reason == ("done" if number < 3 else "budget")


def test_conversation_chooser_calls_are_recorded(tmp_path: Path) -> None:
    with Journal(tmp_path / "0") as journal:
        chooser = Chooser(journal, tmp_path / "1", 0, '{"next": "b"}')
        chosen_by(chooser, journal, Budget()).reply_sync("go", run_id=RUN)
        (asked,) = [
            entry.data["args"]
            for entry in journal.entries(RUN)
            if entry.kind == "started" and entry.data.get("about", {}).get("model") == "chooser"
        ]
    assert asked["messages"] == chooser.received[0]
    assert asked["schema"]["properties"]["next"]["enum"] == ["a", "b"]


def test_chosen_by_answer_that_was_recorded_is_not_asked_for_again(tmp_path: Path) -> None:
    script = ("nobody", '{"next": "b"}')
    for number, (fatal, asked, calls) in enumerate(((2, 2, 3), (1, 1, 4))):
        budget = Budget(model_calls=9)
        with Journal(tmp_path / f"{number}") as journal:
            chooser = Chooser(journal, tmp_path / f"{number + 1}", fatal, *script)
            reply = chosen_by(chooser, journal, budget).reply_sync("go", run_id=RUN)
        assert (reply.stop_reason, reply.text) == ("done", "one")
        assert (chooser.asked, budget.spent.model_calls) == (asked, calls)


# -- another program -------------------------------------------------------------------------------


def talks(path: Path) -> dict[str, tuple[Conversation, str, Any]]:
    """Conversations that differ from the first in what they are named by."""

    def other(agents: Any = None, **more: Any) -> Conversation:
        made = pair("one") if agents is None else agents
        return Conversation(made, **{"until": MaxTurns(2), "journal": path} | more)

    chooser = ScriptedModel([], "chooser")
    return {
        "": (other(), "go", None),
        "task": (other(), "stay", None),
        "schema": (other(), "go", {"type": "object"}),
        "agents": (other(pair("one")[::-1]), "go", None),
        "next": (other(next=HandOver("b")), "go", None),
        "next ": (other(next=ChosenBy(chooser)), "go", None),
        "until": (other(until=MaxTurns(2) | Said("one")), "go", None),
        "stop if failed": (other(stop_if_failed="any"), "go", None),
        "max turns": (other(max_turns=7), "go", None),
        "agent": (other(id="another"), "go", None),
    }


async def test_conversation_of_another_program_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    made = talks(tmp_path / "j.db")
    talk, task, schema = made.pop("")
    first = await talk.reply(task, schema, run_id=RUN)
    for what, (other, task, schema) in made.items():
        with pytest.raises(RunMismatch) as caught:
            await other.reply(task, schema, run_id=RUN)
        assert caught.value.changed == (what.strip(),)
        assert len(other.state.transcript) == 0
    assert talk.journal is not None
    copy = talk.journal.fork(RUN)
    again = await made["until"][0].reply("go", run_id=copy)
    assert again.text == first.text


async def test_participant_that_has_changed_stops_the_resumed_run(tmp_path: Path) -> None:
    def make_it(name: str) -> Conversation:
        def until(state: Any) -> None:
            if name == "m":
                raise RuntimeError("cut")

        agents = [ReActAgent("a", ScriptedModel(["one"], name))]
        return Conversation(agents, until=until, stop_if_failed="none", journal=tmp_path / "j.db")

    assert (await make_it("m").reply("go", run_id=RUN)).stop_reason == "error"
    with pytest.raises(RunMismatch) as caught:
        await make_it("other").reply("go", run_id=RUN)
    assert caught.value.changed == ("model",)


async def test_run_that_has_not_ended_cannot_be_replayed(journal: Journal) -> None:
    record = await journal.begin(RUN, "Conversation", "talk", "go")
    record.close()
    with pytest.raises(StateError, match="has not ended"):
        journal.replay(RUN)


def test_conversation_wrong_journal_is_refused() -> None:
    with pytest.raises(DefinitionError, match="journal= must be a Journal"):
        Conversation(pair("one"), journal=3)  # type: ignore[arg-type]


async def test_fork_of_a_conversation_tells_durable_memories_nothing_twice(tmp_path: Path) -> None:
    def make_it(cut: bool) -> Conversation:
        def until(state: Any) -> None:
            if cut and state.turns == 2:
                raise RuntimeError("cut")

        agents = [
            ReActAgent(id, ScriptedModel([f"{id} {n}" for n in (1, 2)], "m"), memory=memory)
            for id, memory in zip("ab", (SQLiteMemory(tmp_path / id) for id in "ab"), strict=True)
        ]
        return Conversation(agents, until=MaxTurns(4) | until, journal=tmp_path / "j.db")

    assert (await make_it(True).reply("go", run_id=RUN)).stop_reason == "error"
    with Journal(tmp_path / "j.db") as journal:
        copy = journal.fork(RUN)
    talk = make_it(False)
    assert (await talk.reply("go", run_id=copy)).stop_reason == "done"
    contents = [[m["content"] for m in each.memory.get_memories()] for each in talk.agents.values()]
    assert contents == [
        ["go", "a 1", "b: b 1", "a 2", "b: b 2"],
        ["go", "a: a 1", "b 1", "a: a 2", "b 2"],
    ]


@pytest.mark.parametrize("restarts", (False, True))
async def test_participant_that_waits_keeps_the_task_if_its_memory_is_pruned(
    tmp_path: Path, restarts: bool
) -> None:
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)

    def make_it(journal: Journal) -> tuple[Conversation, ScriptedModel]:
        model = ScriptedModel([Call("c", "pay", {}), "It is paid."], "m")
        memory = SQLiteMemory(tmp_path / "m")
        agents = [
            ReActAgent("ann", ScriptedModel(["Bob, please."], "m"), memory=memory.thread("ann")),
            ReActAgent("bob", model, actions=[pay], memory=memory.thread("bob")),
        ]
        talk = Conversation(agents, until=MaxTurns(2), journal=journal, approver=Waiting())
        return talk, model

    with Journal(tmp_path / "j.db") as journal, SQLiteMemory(tmp_path / "m") as memory:
        talk, model = make_it(journal)
        assert (await talk.reply("Pay Ada.", run_id=RUN)).stop_reason == "waiting"
        assert {*memory.prune(0)} == {"ann", "bob"}
        journal.answer(RUN, journal.waiting(RUN)[0].key, True)
        talk, model = make_it(journal) if restarts else (talk, model)
        assert (await talk.reply("Pay Ada.", run_id=RUN)).text == "It is paid."
        contents = [each["content"] for each in model.received[-1]]
        assert contents == ["Pay Ada.", "ann: Bob, please.", "", "paid"]


def test_conversation_in_a_space_resumes(tmp_path: Path) -> None:
    def make_it(cut: bool) -> Conversation:
        def until(state: Any) -> None:
            if cut and state.turns == 2:
                raise RuntimeError("cut")

        agents = [
            ReActAgent(id, ScriptedModel(["one", "two"], "m"), memory=SQLiteMemory(tmp_path / id))
            for id in ("a", "b")
        ]
        return Conversation(agents, until=MaxTurns(3) | until, journal=tmp_path / "j.db")

    for cut, reason in ((True, "error"), (False, "done")):
        with NativeSpace() as space:
            talk = make_it(cut)
            for each in (talk, *talk.agents.values()):
                space.add(each)
            assert talk.reply_sync("go", run_id=RUN).stop_reason == reason
    contents = [m["content"] for m in talk.agents["b"].memory.get_memories()]
    assert contents == ["go", "a: one", "one", "a: two"]


def test_participant_without_a_record_has_its_reply_kept_whole(journal: Journal) -> None:
    class Worker(Talker):
        async def reply(self, text: Any, **wanted: Any) -> Any:
            step = Step(1, "look", {"at": 1}, {"result": [2]}, None)
            return replace(await super().reply(text), steps=[step], value={"n": [1]})

    def talk() -> Conversation:
        return Conversation([Worker("Ann")], until=MaxTurns(1), journal=journal)

    whole = talk().reply_sync("go", run_id="R")
    assert whole.steps[0].action == "look"
    kept = [each for each in journal.entries("R") if each.data.get("key") == "T1/Ann"]
    copy = journal.fork("R", upto=kept[-1].sequence)
    again = talk()
    assert replace(again.reply_sync("go", run_id=copy), run_id="R") == whole
    assert again.agents["Ann"].asked == 0
