"""Random runs whose helper is another one in each process, cut off at random moments.

Each ends as a run that is never cut off and whose helper stays the same: each effect happens once.
Or it waits, and says what differs; some are handed over to the program as it is now.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from journal.crash import crash
from moothall import (
    ACCESS_REQUESTED,
    Action,
    Journal,
    Later,
    ReActAgent,
    RunMismatch,
    ScriptedModel,
    Waiting,
)
from moothall.journal import Done
from moothall.models.protocol import Call

_PROCESSES = 25  # after so many, none is killed any more
_PROMPTS = ("Help.", "Help briefly.")


class Program(NamedTuple):
    """How a process asks its helper, and who that is."""

    form: str
    where: str
    id: str
    prompt: str
    own_prompt: str


_PROGRAMS = [
    Program(*each)
    for each in itertools.product(
        *(("kept", "fresh", "fork"), ("none", "same", "other"), ("helper", "helper2"), _PROMPTS),
        ("Be kind.", "Be quick."),
    )
    if not (each[0] != "kept" and each[1] == "other")
]


class Killed(BaseException):
    """The process is gone."""


class World:
    """What is beside the processes: the plan, its effects, and where the journal is."""

    def __init__(self, seed: int, folder: Path, kills: bool) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.kills = kills  # whether each process is one, and is killed
        self.place = 0
        self.left = 0
        self.dead = False
        self.handed_over = 0
        self.journals: dict[Path, Journal] = {}  # of all processes, until the end
        plan = self.random
        self.asked = {
            f"ask-{n}": [
                Call("0", plan.choice(("work", "pay", "order")), {"key": f"{n}.{step}"})
                for step in range(plan.randint(1, 3))
            ]
            for n in range(plan.randint(1, 3))
        }
        self.answers = [
            (
                Call("a", "helper", {"text": text}),
                *([Call("b", "work", {"key": f"own {text}"})] if plan.random() < 0.4 else ()),
            )
            for text in self.asked
        ]

    @property
    def done(self) -> Counter[str]:
        """How often each effect has happened."""
        effects = self.folder / "effects"
        return Counter(effects.read_text().splitlines() if effects.exists() else ())

    @property
    def file(self) -> Path:
        return self.folder / f"{self.place}.db"

    def journal(self, file: Path) -> Journal:
        if file not in self.journals:
            self.journals[file] = Journal(file)
        return self.journals[file]

    def moment(self) -> None:
        """Perhaps the process ends now: what its file holds is all that is left of it."""
        if not self.dead and self.left:
            self.left -= 1
            if not self.left:
                if self.kills:
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.file.exists():
                    crash(self.file, self.folder / f"{self.place + 1}.db")
                self.dead = True
        if self.dead:
            raise Killed

    def act(self, key: str) -> str:
        self.moment()
        with (self.folder / "effects").open("a") as effects:
            effects.write(f"{key}\n")
        self.moment()
        return f"did {key}"

    # -- a process ---------------------------------------------------------------------------------

    def actions(self) -> list[Action]:
        async def work(key: str) -> str:
            return self.act(key)

        async def order(key: str) -> str:
            self.act(key)
            raise Later(f"order {key}")

        return [
            Action("work", work, "Work.", guard=()),
            Action("pay", work, "Pay.", access_policy=ACCESS_REQUESTED, guard=()),
            Action("order", order, "Order.", guard=()),
        ]

    def model(self, answers: dict[str, list[Any]]) -> ScriptedModel:
        """Return a model that makes the calls of what it was asked, and says their results."""

        def answer(heard: list[dict[str, Any]], _: Any) -> Any:
            self.moment()
            last = max(n for n, each in enumerate(heard) if each["role"] == "user")
            since = heard[last + 1 :]
            turns = [each for each in since if each.get("tool_calls")]
            calls = answers[str(heard[last]["content"])]
            if len(turns) < len(calls):
                return calls[len(turns)]
            return "; ".join(str(each["content"]) for each in since if each["role"] == "tool")

        return ScriptedModel(answer)

    def clerk(self, program: Program) -> ReActAgent:
        form = program.form
        file = {"none": None, "same": self.file, "other": self.folder / "own.db"}[program.where]
        helper = ReActAgent(
            program.id,
            self.model({text: [*calls] for text, calls in self.asked.items()}),
            actions=self.actions(),
            approver=Waiting(),
            journal=None if file is None else self.journal(file),
            system_prompt=program.prompt,
        )
        options = {"fresh": form == "fresh", "fork": form == "fork"}
        asking = helper.as_action("helper", "Ask.", **options)
        return ReActAgent(
            "clerk",
            self.model({"go": [*self.answers]}),
            actions=[asking, self.actions()[0]],
            journal=self.journal(self.file),
            system_prompt=program.own_prompt,
        )

    async def live(self, program: Program, resumes: bool) -> tuple[str, Any]:
        """Run one process; return why the reply ended, and its text, or what differs."""
        self.dead = False
        try:
            clerk = self.clerk(program)
            if resumes:
                await clerk.resume_runs()
            reply = await clerk.reply("go", run_id="r")
        except Killed:
            self.place += (self.folder / f"{self.place + 1}.db").exists()
            return "killed", None
        except RunMismatch as error:
            return "mismatch", [error.changed, error.detail]
        if self.dead:  # a task beside it was killed
            self.place += (self.folder / f"{self.place + 1}.db").exists()
            return "killed", None
        assert reply.stop_reason in ("done", "waiting", "in_doubt"), reply
        return reply.stop_reason, reply.text

    def live_and_die(self, program: Program, resumes: bool) -> tuple[str, Any]:
        """Run one process, in one of its own if that is killed."""
        if not self.kills:
            return asyncio.run(self.live(program, resumes))
        out = self.folder / "end.json"
        if not (child := os.fork()):
            try:
                out.write_text(json.dumps(asyncio.run(self.live(program, resumes))))
            finally:
                os._exit(0 if out.exists() else 1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return "killed", None
        assert os.WEXITSTATUS(status) == 0, self.folder
        end: tuple[str, Any] = tuple(json.loads(out.read_text()))
        out.unlink()
        return end

    def answer_all(self, hands_over: bool) -> None:
        """Have a person, and others, answer what waits."""
        if not self.kills:
            self.answer(self.journal(self.file), hands_over)
        elif self.file.exists():  # a process that is forked has no journal of this one
            with Journal(self.file) as journal:
                self.answer(journal, hands_over)

    def answer(self, journal: Journal, hands_over: bool) -> None:
        """Answer what waits in a journal; `hands_over`: a run may go on by a changed program."""
        for wait in journal.waiting(kind="operator"):
            if wait.key == "operator:deaths":  # here each process ends soon
                journal.answer(wait.run, wait.key, "resume")
                continue
            assert "its program has changed" in wait.text
            assert journal.run(wait.run).state == "mismatch"
            if hands_over and self.random.random() < 0.5:
                self.handed_over += 1
                journal.answer(wait.run, wait.key, "fork", by="eva")
        for wait in journal.waiting(kind=("approval", "result", "doubt")):
            if wait.kind == "approval":
                journal.answer(wait.run, wait.key, True, by="eva")
            elif wait.kind == "result" and wait.name.startswith("order "):
                journal.answer(wait.run, wait.key, f"came {wait.name}")
            elif wait.kind == "doubt":
                key = str(wait.args.get("key"))
                word = "came order" if wait.action == "order" else "did"
                decision: Any = Done(f"{word} {key}") if self.done[key] else "repeat"
                journal.answer(wait.run, wait.key, decision, by="eva")


def expected(world: World) -> tuple[Counter[str], str]:
    """Return each effect, and the text, of a run that nothing cuts off."""
    texts = []
    effects = Counter[str]()
    for text, answer in zip(world.asked, world.answers, strict=True):
        results = []
        for call in world.asked[text]:
            key = call.args["key"]  # type: ignore[index]
            effects[key] += 1
            results.append(f"came order {key}" if call.name == "order" else f"did {key}")
        texts.append("; ".join(results))
        if len(answer) > 1:
            effects[f"own {text}"] += 1
            texts.append(f"did own {text}")
    return effects, "; ".join(texts)


def check_named(mismatch: Any, now: Program, programs: list[Program]) -> None:
    """Check that a mismatch names what differs between programs of a run, and how it is now."""
    changed, detail = mismatch
    of_prompts, of_forms = {"system prompt"}, {"what 'helper' asks"}
    names = {"prompt": of_prompts, "own_prompt": of_prompts, "form": of_forms, "where": of_forms}
    names["id"] = of_forms | {"agent"}
    varying = [name for name in names if len({getattr(each, name) for each in programs}) > 1]
    assert changed, mismatch
    assert {*changed} <= set[str]().union(*(names[each] for each in varying)), mismatch
    if "system prompt" in changed:
        assert now.prompt in detail or now.own_prompt in detail, mismatch
    elif "agent" in changed:
        assert f'"{now.id}"' in detail, mismatch
    else:
        assert "of 'helper' was " in detail, mismatch


def compare(seed: int, folder: Path, kills: bool = False) -> Counter[str]:
    """Compare a run with one that nothing cuts off; return what its processes met, how often."""
    folder.mkdir(exist_ok=True)
    world = World(seed, folder, kills)
    hands_over = seed % 3 == 2
    programs = [world.random.choice(_PROGRAMS) for _ in range(world.random.randint(1, 4))]
    if hands_over:  # a helper in another form would do anew what it has done
        prompts = [(each.prompt, each.own_prompt) for each in programs]
        programs = [Program(*programs[0][:3], *each) for each in prompts]
    met = Counter[str]()
    for number in range(_PROCESSES + 16 * len(programs)):
        is_random = number < _PROCESSES
        world.left = world.random.randint(1, 20) if is_random else 0
        # A program that a run was handed over to asks anew, and needs a second process.
        program = programs[(number if is_random else number // 2) % len(programs)]
        if number and is_random and world.random.random() < 0.4:
            program = world.random.choice(programs)
        end, about = world.live_and_die(program, resumes=world.random.random() < 0.5)
        met[end] += 1
        if end == "done":
            break
        if end == "mismatch":
            check_named(about, program, programs)
        world.answer_all(hands_over)
    assert end == "done", (seed, met, world.done)
    for journal in world.journals.values():
        journal.close()
    effects, text = expected(world)
    assert (world.done, about) == (effects, text), seed
    met["handed over"] = world.handed_over
    return met


@pytest.mark.parametrize("seed", range(12))
def test_run_whose_helper_changes_does_everything_once(tmp_path: Path, seed: int) -> None:
    for each in range(seed * 5, seed * 5 + 5):
        compare(each, tmp_path / str(each))


def test_run_whose_helper_changes_and_whose_processes_are_killed_does_everything_once(
    tmp_path: Path,
) -> None:
    for each in range(3):
        compare(each, tmp_path / str(each), kills=True)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_runs_whose_helpers_change_do_everything_once(tmp_path: Path) -> None:
    met = sum((compare(seed, tmp_path / str(seed)) for seed in range(1000, 3000)), Counter[str]())
    assert min(met["killed"], met["mismatch"]) > 1000
    assert met["handed over"] > 100


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_runs_whose_helpers_change_and_whose_processes_are_killed_do_everything_once(
    tmp_path: Path,
) -> None:
    met, seed = Counter[str](), 5000
    while met["killed"] < 300:
        met += compare(seed, tmp_path / str(seed), kills=True)
        seed += 1
