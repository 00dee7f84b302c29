"""A run that ends its process each time that it goes on waits for a person; the others go on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run as run_command
from journal.conftest import Place
from moothall import Action, ConfigError, DefinitionError, Journal, ReActAgent, ScriptedModel
from moothall.models.protocol import Call

TESTS = Path(__file__).resolve().parent.parent
KILLED = -9


def lives(path: str, *runs: str) -> subprocess.CompletedProcess[str]:
    return run_command(path, *runs, module="journal.deadly_program", cwd=TESTS)


def test_run_whose_process_ended_three_times_at_a_step_waits_for_an_operator(place: Place) -> None:
    path = place("j")
    assert [lives(path, "deadly").returncode, *(lives(path).returncode for _ in "12")] == [
        KILLED
    ] * 3
    with Journal(path) as journal:
        assert journal.waiting() == []  # the process that would be the fourth one finds out
        assert lives(path).returncode == lives(path).returncode == 0
        (wait,) = journal.waiting("deadly")
        assert (wait.kind, wait.agent) == ("operator", "bad")
        assert "its process has ended 3 times at the same step" in str(wait)
        assert journal.waits.counts() == {("bad", "operator"): 1}
        assert [run.id for run in journal.runs(needs_person=True)] == ["deadly"]
        with pytest.raises(ConfigError, match="must be 'resume' or 'cancel', got 'repeat'"):
            journal.answer("deadly", wait.key, "repeat")
        journal.answer("deadly", wait.key, "resume", by="eva")
        assert [lives(path).returncode for _ in "1234"] == [KILLED] * 3 + [0]
        journal.answer("deadly", wait.key, "cancel", by="eva")
        assert journal.waiting() == []
        assert journal.replay("deadly").detail.startswith("eva cancelled it")


ASKING = """
import asyncio, os, sys
from moothall import Action, Journal, ReActAgent, ScriptedModel

def calling(name, **args):
    call = {"name": name, "args": args}
    return ScriptedModel(lambda heard, _: "ok" if heard[-1]["role"] == "tool" else call)

def die() -> None: os.kill(os.getpid(), 9)

async def work(path, *begins):
    journal, deadly = Journal(path), Action("die", die, "Die.", idempotent=True)
    helper = ReActAgent("helper", calling("die"), actions=[deadly], journal=journal)
    asks = [helper.as_action()]
    clerk = ReActAgent("clerk", calling("helper", text="go"), actions=asks, journal=journal)
    await (clerk.reply("go", run_id="r") if begins else clerk.resume_runs())

asyncio.run(work(*sys.argv[1:]))
"""


@pytest.mark.parametrize("who", ("clerk", "helper"))
def test_operator_answers_once_for_a_run_and_that_of_the_agent_that_it_asks(
    tmp_path: Path, who: str
) -> None:
    path = str(tmp_path / "j")

    def life(*begins: str) -> int:
        return run_command(path, *begins, code=ASKING).returncode

    assert [life("first"), life(), life(), life()] == [KILLED] * 3 + [0]
    with Journal(path) as journal:
        waits = {each.agent: each for each in journal.waiting(kind="operator")}
        assert waits.keys() == {"clerk", "helper"}
        journal.answer(waits[who].run, waits[who].key, "resume", by="eva")
        assert [life() for _ in "1234"] == [KILLED] * 3 + [0]


def test_nineteen_runs_beside_a_deadly_one_end_within_four_starts(place: Place) -> None:
    path, runs = place("j"), [f"r{number}" for number in range(19)]
    ended = [lives(path, *runs, "deadly"), *(lives(path) for _ in "123")]
    assert ended[-1].returncode == 0
    with Journal(path) as journal:
        assert {run.id: run.state for run in journal.runs()} == {
            **dict.fromkeys(runs, "done"),
            "deadly": "stopped",
        }
        assert [each.run for each in journal.waiting()] == ["deadly"]


def test_waiting_and_doctor_name_a_deadly_run_and_what_to_type(tmp_path: Path) -> None:
    path = str(tmp_path / "j")
    for runs in (["deadly"], [], [], []):
        ended = lives(path, *runs)
    assert ended.returncode == 0
    listed = run_command("waiting", "--journal", path).stdout
    assert listed.count("deadly") == 2
    assert "moothall answer deadly operator:deaths resume" in listed
    doctor = run_command("doctor", "--journal", path).stdout
    assert "1 run ended each process: deadly" in " ".join(doctor.split())
    answered = run_command("answer", "deadly", "operator:deaths", "cancel", "--journal", path)
    assert answered.returncode == 0
    assert run_command("waiting", "--journal", path).stdout == "Nothing waits.\n"


async def test_run_that_was_cut_off_often_and_got_further_is_resumed(tmp_path: Path) -> None:
    """Its process is left in order: that is no death."""
    begun = asyncio.Event()

    async def hold() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "held"

    def agent(journal: Journal) -> ReActAgent:
        model = ScriptedModel([Call("c", "hold", {}), "Done."])
        actions = [Action("hold", hold, "Hold.", idempotent=True)]
        return ReActAgent("a", model, actions=actions, journal=journal)

    journal = Journal(tmp_path / "j")
    journal.leave_runs()
    work = asyncio.ensure_future(agent(journal).reply("go", run_id="r"))
    for _ in range(6):
        await begun.wait()
        begun.clear()
        work.cancel()
        await asyncio.wait([work])
        assert journal.waiting() == []
        work = asyncio.ensure_future(agent(journal).resume_runs())
    await begun.wait()
    work.cancel()
    await asyncio.wait([work])


FIRM = """
import asyncio, os, sys
from moothall import Action, Agent, ReActAgent, ScriptedModel
from moothall.serving import Company

def clerk(id):
    async def read_big() -> str:
        os.kill(os.getpid(), 9)
    actions = [Action("read_big", read_big, "Read.", idempotent=True)]
    model = ScriptedModel(lambda *_: {"name": "read_big", "args": {}})
    return ReActAgent(id, model, actions=actions)

async def main():
    async with Company.from_yaml(sys.argv[1]):
        await asyncio.sleep(3)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.timeout(240)
def test_service_lives_whose_schedule_has_ended_its_process_three_times(tmp_path: Path) -> None:
    (tmp_path / "firm.py").write_text(FIRM)
    (tmp_path / "firm.yaml").write_text(
        "journal: runs.db\nagents:\n  clerk: {ref: 'firm.py:clerk'}\n"
        "schedules:\n  deadly: {every: 1s, to: clerk, args: {content: go}}\n"
    )
    ends = list[int]()
    while ends[-1:] != [0] and len(ends) < 4:
        command = [sys.executable, "firm.py", "firm.yaml"]
        ends.append(subprocess.run(command, cwd=tmp_path, check=False).returncode)
    assert ends == [-9, -9, -9, 0]
    with Journal(tmp_path / "runs.db") as journal:
        (wait,) = journal.waiting(kind="operator")
        assert wait.key == "operator:deaths"


async def test_agent_refuses_a_number_of_deaths_that_is_none(tmp_path: Path) -> None:
    agent = ReActAgent("a", ScriptedModel(["x"]), journal=tmp_path / "j")
    agent.deaths = 0
    with pytest.raises(DefinitionError, match="deaths must be a whole number from 1 up, got 0"):
        await agent.resume_runs()
