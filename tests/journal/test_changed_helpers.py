"""Helpers that others are, or are asked in another form, once a run goes on that has asked them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from journal.conftest import Place
from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Journal,
    ReActAgent,
    RunMismatch,
    ScriptedModel,
    Waiting,
)
from moothall.models.protocol import Call

PAID: list[int] = []


def said(messages: list[dict[str, Any]]) -> list[str]:
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


def calling(name: str, **args: Any) -> ScriptedModel:
    """Return a model that makes one call, and says its result."""
    return ScriptedModel(
        lambda heard, _: said(heard)[-1] if heard[-1]["role"] == "tool" else Call("0", name, args)
    )


def pay(n: int) -> str:
    """Pay."""
    PAID.append(n)
    return f"paid {n}"


def helper(journal: Any, prompt: str = "Help.", id: str = "helper") -> ReActAgent:
    asked = Action("pay", pay, "Pay.", access_policy=ACCESS_REQUESTED)
    options = {"journal": journal, "approver": Waiting(), "system_prompt": prompt}
    return ReActAgent(id, calling("pay", n=1), actions=[asked], **options)


Form = Callable[[ReActAgent], Any]
FORMS: dict[str, Form] = {
    "kept": lambda asked: asked.as_action("helper", "Ask."),
    "fresh": lambda asked: asked.as_action("helper", "Ask.", fresh=True),
    "fork": lambda asked: asked.as_action("helper", "Ask.", fork=True),
}


def clerk(journal: Any, asked: Any) -> ReActAgent:
    return ReActAgent("clerk", calling("helper", text="go"), actions=[asked], journal=journal)


def permit(journal: Journal) -> None:
    for wait in journal.waiting(kind="approval"):
        journal.answer(wait.run, wait.key, True, by="eva")


@pytest.mark.parametrize("where", ("none", "same"))
@pytest.mark.parametrize("form", FORMS)
async def test_changed_helper_leaves_its_callers_run_waiting_until_it_is_restored(
    place: Place, form: str, where: str
) -> None:
    PAID.clear()
    file = place("runs.db")

    def agent(prompt: str) -> ReActAgent:
        return clerk(file, FORMS[form](helper(file if where == "same" else None, prompt)))

    assert (await agent("Help.").reply("go", run_id="r")).stop_reason == "waiting"
    with Journal(file) as journal:
        permit(journal)
        count = len(list(journal.entries("r")))
        is_own_run = (form, where) == ("kept", "same")
        for _ in range(2):
            (resumed,) = await agent("Help briefly.").resume_decided()
            assert (resumed.run.id, resumed.outcome, PAID) == ("r", "mismatch", [])
            assert isinstance(resumed.error, RunMismatch)
            assert "system prompt" in str(resumed.error)
        with pytest.raises(RunMismatch, match="system prompt"):
            await agent("Help briefly.").reply("go", run_id="r")
        (wait,) = journal.waiting(kind="operator")
        assert journal.run(wait.run).state == "mismatch"
        assert "system prompt" in wait.text
        if not is_own_run:
            assert len(list(journal.entries("r"))) <= count + 3  # a wait of months keeps it short
        (resumed,) = await agent("Help.").resume_decided()  # as one that still runs beside it
        assert resumed.reply is not None
        assert (resumed.reply.text, PAID) == ("paid 1", [1])
        assert journal.waiting() == []


@pytest.mark.parametrize("form", ("fresh", "fork"))
async def test_run_of_a_changed_helper_that_its_operator_has_go_on_asks_anew(
    tmp_path: Path, form: str
) -> None:
    PAID.clear()
    file = str(tmp_path / "runs.db")

    def agent(prompt: str) -> ReActAgent:
        return clerk(file, FORMS[form](helper(None, prompt)))

    await agent("Help.").reply("go", run_id="r")
    with Journal(file) as journal:
        permit(journal)
        changed = agent("Help briefly.")
        await changed.resume_decided()
        (wait,) = journal.waiting(kind="operator")
        journal.answer("r", wait.key, "fork", by="eva")
        (resumed,) = await changed.resume_decided()
        assert (resumed.outcome, PAID) == ("resumed", [])
        assert resumed.reply is not None
        assert resumed.reply.stop_reason == "waiting"
        permit(journal)
        assert (await changed.resume_decided())[0].reply.text == "paid 1"  # type: ignore[union-attr]
        assert PAID == [1]


async def test_run_of_a_helper_that_is_asked_anew_in_another_form_does_not_go_on_by_itself(
    place: Place,
) -> None:
    PAID.clear()
    file = place("runs.db")
    with Journal(file) as journal:
        asked = helper(journal)
        await clerk(journal, FORMS["kept"](asked)).reply("go", run_id="r")
        permit(journal)
        changed = clerk(journal, FORMS["fresh"](asked))
        assert (await changed.resume_decided())[0].outcome == "mismatch"
        journal.answer("r", "operator:program", "fork")
        (resumed,) = await changed.resume_decided()
        assert resumed.reply is not None
        assert resumed.reply.stop_reason == "waiting"
        permit(journal)
        await changed.resume_decided()
        for _ in range(2):
            await asked.resume_runs()
            await asked.resume_decided()
        states = {each.agent: each.state for each in journal.runs()}
        assert (states, PAID) == ({"clerk": "done", "helper": "cancelled"}, [1])
        assert journal.waiting() == []


async def test_reply_of_a_helper_that_has_ended_counts_whatever_its_program_is_now(
    tmp_path: Path,
) -> None:
    """Its asker was killed meanwhile, and nobody could decide about the run of the helper."""
    crashed = tmp_path / "crashed.db"

    def agents(journal: Journal, prompt: str) -> tuple[ReActAgent, ReActAgent]:
        ring = Action("ring", ring_once, "Ring.", idempotent=True)
        options = {"journal": journal, "system_prompt": prompt}
        asked = ReActAgent("helper", calling("ring"), actions=[ring], **options)
        return clerk(journal, FORMS["kept"](asked)), asked

    def ring_once() -> str:
        if not crashed.exists():
            crash(journal.path, crashed)
        return "rung"

    with Journal(tmp_path / "runs.db") as journal:
        await agents(journal, "Help.")[0].reply("go", run_id="r")
    with Journal(crashed) as journal:
        (resumed,) = await agents(journal, "Help.")[1].resume_runs()
        assert (resumed.run.agent, journal.run(resumed.run.id).state) == ("helper", "done")
        (resumed,) = await agents(journal, "Help briefly.")[0].resume_runs()
        assert resumed.reply is not None, resumed
        assert resumed.reply.text == "rung"
        assert len(journal.runs()) == 2


PROGRAM = """
import os, sys
from moothall import *
from moothall.models.protocol import Call
command, form, where, prompt, id = sys.argv[1:6]
journal, other, effects = sys.argv[6:9]

async def ring(n: int) -> str:
    with open(effects, "a") as file: file.write("rang\\n")
    if command == "kill": os.kill(os.getpid(), 9)
    return "rung"

async def park(n: int) -> str:
    with open(effects, "a") as file: file.write("rang\\n")
    raise Later("k")

def calling(name, **args):
    call = Call("0", name, args)
    return ScriptedModel(lambda ms, _: "done" if ms[-1]["role"] == "tool" else call)

async def plain(text: str) -> str:
    "Ask."
    return str(await ring(1))

work = park if command == "park" or sys.argv[9:] else ring
own = {"none": None, "same": journal, "other": other}[where]
options = {"journal": own, "system_prompt": prompt}
helper = ReActAgent(id, calling(work.__name__, n=1), actions=[work], **options)
actions = {
    "kept": lambda: helper.as_action("helper", "Ask."),
    "fresh": lambda: helper.as_action("helper", "Ask.", fresh=True),
    "fork": lambda: helper.as_action("helper", "Ask.", fork=True),
    "plain": lambda: Action("helper", plain, "Ask."),
}
action = actions[form]()
clerk = ReActAgent("clerk", calling("helper", text="go"), actions=[action], journal=journal)
try:
    print(clerk.reply_sync("go", run_id="r").stop_reason)
except RunMismatch as error:
    print("mismatch", error.detail)
"""

WAYS = (
    ("kept", "none", "helper"),
    ("kept", "same", "helper"),
    ("kept", "other", "helper"),
    ("fresh", "none", "helper"),
    ("fresh", "same", "helper"),
    ("fork", "none", "helper"),
    ("kept", "same", "helper2"),
    ("fresh", "none", "helper2"),
    ("plain", "none", "helper"),
)


class Runs:
    """A clerk whose helper is another one in each process."""

    def __init__(self, folder: Path, parked: bool) -> None:
        self.effects = folder / "effects"
        self.places = (str(folder / "runs.db"), str(folder / "own.db"), str(self.effects))
        self.parked = parked

    def run(self, command: str, way: tuple[str, str, str], prompt: str = "Help.") -> str:
        form, where, id = way
        parts = (command, form, where, prompt, id, *self.places)
        ended = run_command(*parts, *(("parked",) if self.parked else ()), code=PROGRAM)
        assert ended.returncode == (-9 if command == "kill" else 0), ended.stderr
        return ended.stdout.strip()

    @property
    def rung(self) -> int:
        return self.effects.read_text().count("rang")


def pairs(parked: bool) -> list[Any]:
    begun = [each for each in WAYS if not (parked and each[0] == "plain")]
    chosen = [(old, new) for old in begun for new in WAYS if old != new]
    every = [] if os.environ.get("MOOTHALL_ALL_FORMS") else chosen[:: 7 if parked else 9]
    marks = [pytest.param(*each, marks=pytest.mark.long) for each in chosen if each not in every]
    return [*(pytest.param(*each) for each in every), *marks]


@pytest.mark.parametrize(("old", "new"), pairs(parked=False))
def test_effect_in_doubt_of_a_helper_is_repeated_in_no_other_form(
    tmp_path: Path, old: tuple[str, str, str], new: tuple[str, str, str]
) -> None:
    runs = Runs(tmp_path, parked=False)
    runs.run("kill", old)
    end = runs.run("live", new)
    assert end == "in_doubt" or end.startswith("mismatch"), end
    assert runs.rung == 1


@pytest.mark.parametrize("form", ("kept", "fresh"))
def test_effect_in_doubt_of_a_helper_comes_before_its_new_prompt(tmp_path: Path, form: str) -> None:
    runs, way = Runs(tmp_path, parked=False), (form, "none", "helper")
    runs.run("kill", way)
    assert runs.run("live", way, "Help briefly.") == "in_doubt"
    with Journal(tmp_path / "runs.db") as journal:
        (doubt,) = journal.waiting(kind="doubt")
        journal.answer("r", doubt.key, {"done": "rung"}, by="eva")
    assert runs.run("live", way, "Help briefly.").startswith("mismatch")
    assert runs.run("live", way) == "done"
    assert runs.rung == 1


def test_call_in_doubt_that_a_person_repeats_is_made_as_it_is_now(tmp_path: Path) -> None:
    """So a run of a version that recorded nothing of a helper without a journal goes on."""
    runs = Runs(tmp_path, parked=False)
    runs.run("kill", ("plain", "none", "helper"))
    with Journal(tmp_path / "runs.db") as journal:
        (doubt,) = journal.waiting(kind="doubt")
        journal.answer("r", doubt.key, "repeat", by="eva")
    assert runs.run("live", ("kept", "none", "helper")) == "done"
    assert runs.rung == 2


@pytest.mark.parametrize(("old", "new"), pairs(parked=True))
def test_helper_that_waits_goes_on_or_its_run_waits_in_every_other_form(
    tmp_path: Path, old: tuple[str, str, str], new: tuple[str, str, str]
) -> None:
    runs = Runs(tmp_path, parked=True)
    assert runs.run("park", old) == "waiting"
    with Journal(tmp_path / "runs.db") as journal:
        (wait,) = (
            journal.waiting(kind="result")[:1]
            if old[1] != "same"
            else [each for each in journal.waiting(kind="result") if each.name == "k"]
        )
        journal.answer(wait.run, wait.key, "came")
    end = runs.run("live", new)
    goes_on = old[2] == new[2] and {old[0], new[0]} == {"fresh", "fork"}
    goes_on |= old[2] == new[2] and old[0] == new[0] != "plain" and old[0] != "kept"
    goes_on |= old[0] == new[0] == "kept" and "same" not in (old[1], new[1])
    assert end == "done" if goes_on else end.startswith("mismatch"), end
    assert runs.rung == 1
    assert runs.run("live", old) == "done"
    assert runs.rung == 1


@pytest.mark.parametrize("same_process", (True, False))
async def test_calls_of_one_answer_continue_a_conversation_with_a_helper_in_order(
    tmp_path: Path, same_process: bool
) -> None:
    """What waits in it holds up the next call: that comes after the first one's answer."""
    PAID.clear()
    file, heard = str(tmp_path / "runs.db"), list[list[str]]()

    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        if messages[-1]["role"] == "tool":
            return said(messages)[-1]
        heard.append([str(e["content"]) for e in messages if e["role"] in ("user", "assistant")])
        return Call("0", "pay", {"n": int(messages[-1]["content"])})

    def agent() -> ReActAgent:
        asked = helper(None)
        asked.model = ScriptedModel(answer)
        calls = tuple(Call(text, "helper", {"text": text}) for text in ("1", "2"))
        model = ScriptedModel(lambda ms, _: "; ".join(said(ms)) if said(ms) else calls)
        return ReActAgent("clerk", model, actions=[asked.as_action()], journal=file)

    asking = agent()
    for paid in ([], [1], [1, 2]):
        reply = await asking.reply("go", run_id="r")
        assert paid == PAID
        if len(paid) < 2:
            with Journal(file) as journal:
                (wait,) = journal.waiting(kind="approval")
                assert wait.args == {"n": len(paid) + 1}
                journal.answer("r", wait.key, True, by="eva")
        asking = asking if same_process else agent()
    assert reply.text == "paid 1; paid 2"
    assert heard[-1][-3:] == ["", "paid 1", "2"]
