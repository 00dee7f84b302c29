"""A sweep in processes: what it leaves, and what it does when something is killed or full."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from moothall import ScriptedModel
from moothall.foundation.errors import ConfigError, FileError, ModelError, StateError
from moothall.society import (
    CitizenAgent,
    CitizenMemory,
    Experiment,
    LocalEngine,
    Results,
    Society,
    all_blocks,
)
from moothall.society.experiments.models import model_of, town

CODE = '''\
"""Societies for tests: what they do is told by files."""
import os
import random
import signal
from pathlib import Path

import numpy as np

from moothall.society import Society

HERE = Path(__file__).parent


def made(seed, size=2, stops=False, dies=0, starter=False, folder=None):
    with (HERE / "made").open("a") as file:
        file.write(f"{seed} {os.getpid()}\\n")
    if stops and seed > 0 and not (HERE / "open").exists():
        (HERE / "waits").write_text("here")
        (HERE / "never").read_text()
    if len((HERE / "made").read_text().splitlines()) <= dies:
        if starter:
            command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
            assert b"experiments.cell" in command, command
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
    print("a society may print")
    return Society(size, seed=seed)


def owned(society):
    return society.books.total


def drawn(society):
    return random.random() + np.random.random()


def nothing(society, **rest):
    return float("nan")
'''
TEXT = """\
name: small
society: {make: make.py:made, step: 6h, size: 2}
metrics: [messages, {name: owned, by: make.py:owned, unit: cents}]
workflow:
- run: {steps: 2}
- survey:
    name: mood
    questions:
    - {id: hunger, text: Hunger, kind: number, by: status.needs.hunger}
    - {id: full, text: Full, kind: yes_no, by: make.py:full}
- save: noon
- branch: {of: noon, name: longer, workflow: [step: 1]}
- interview: {citizen: 1, question: "How are you?"}
seeds: 2
"""
FULL = "\ndef full(one):\n    return one.status['needs']['hunger'] > 0\n"


def of(folder: Path, text: str = TEXT, **instead: Any) -> Experiment:
    folder.mkdir(exist_ok=True)
    (folder / "make.py").write_text(CODE + FULL)
    (folder / "e.yaml").write_text(text)
    return Experiment.from_yaml(folder / "e.yaml", **instead)


def made(folder: Path) -> list[tuple[int, int]]:
    """The seed and process of each society that was made."""
    lines = (folder / "made").read_text().splitlines()
    return [(int(seed), int(pid)) for seed, pid in (line.split() for line in lines)]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def run(experiment: Experiment, **options: Any) -> Results:
    return asyncio.run(experiment.run(report=False, **options))


def test_processes_and_this_one_come_to_the_same_table(tmp_path: Path) -> None:
    told: list[tuple[int, int, int, int]] = []

    def far(progress: Any) -> None:
        told.append((progress.ended, progress.cells, progress.lived, progress.steps))

    results = run(of(tmp_path), jobs=2, out=tmp_path / "out", progress=far)
    assert len({pid for _, pid in made(tmp_path)}) == 2
    assert os.getpid() not in {pid for _, pid in made(tmp_path)}
    assert told[0] == (0, 2, 0, 6)
    assert told[-1] == (2, 2, 6, 6)
    run(of(tmp_path), jobs=0, out=tmp_path / "here")
    tables = [
        pyarrow.parquet.read_table(tmp_path / each / "results.parquet").to_pylist()
        for each in ("out", "here")
    ]
    assert tables[0] == tables[1]
    assert list(tables[0][0])[:7] == [
        *("experiment", "condition", "parameters", "seed", "step", "metric", "value")
    ]
    assert tables[0][0]["experiment"] == "small"
    # Own metrics are taken before the first step too, columns after each.
    assert list(results.curve("owned", "base")) == [0, 1, 2]
    assert list(results.curve("messages", "base")) == [1, 2]
    assert list(results.curve("owned", "base/longer")) == [2, 3]
    assert set(results.values("mood.full")) == {0, 1}
    assert results.interval("mood.full").mean == 1
    (text, *_) = results.texts
    assert text[4] == "interview 1: How are you? (by rule)"
    assert "I am" in text[5]


def test_progress_is_told_without_a_folder_too(tmp_path: Path) -> None:
    told: list[Any] = []
    run(of(tmp_path, seeds=1), jobs=0, progress=told.append)
    assert (told[-1].ended, told[-1].cells) == (1, 1)


def test_ended_cells_are_not_lived_again_and_more_seeds_go_on(tmp_path: Path) -> None:
    run(of(tmp_path), jobs=0, out=tmp_path / "out")
    first = made(tmp_path)
    before = (tmp_path / "out" / "results.parquet").read_bytes()
    run(of(tmp_path, question="Another?"), jobs=0, out=tmp_path / "out")
    assert made(tmp_path) == first
    assert (tmp_path / "out" / "results.parquet").read_bytes() == before
    results = run(of(tmp_path, seeds=3), jobs=0, out=tmp_path / "out")
    assert {seed for seed, _ in made(tmp_path)[len(first) :]} == {2}
    assert set(results.values("owned")) == {0, 1, 2}


@pytest.mark.parametrize("jobs", (0, pytest.param(1, marks=pytest.mark.long)))
def test_experiment_file_imports_the_files_beside_it(tmp_path: Path, jobs: int) -> None:
    code = """\
from beside import SIZE
from moothall.society import Society
begun = []

def made(seed, folder=None):
    begun.append(seed)
    return Society(SIZE, seed=seed)

def count(society):
    from later import add
    return len(society.mailboxes) + add + 100 * len(begun)
"""
    yaml = """\
name: beside
society: {make: main.py:made, step: 6h}
metrics: [{name: count, by: main.py:count}]
workflow: [step: 1]
"""
    path = list(sys.path)
    for number in (1, 2):  # each experiment has files of its own, of the same names
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "main.py").write_text(code)
        (folder / "beside.py").write_text(f"SIZE = {number}\n")
        (folder / "later.py").write_text(f"add = {10 * number}\n")
        (folder / "e.yaml").write_text(yaml)
        results = run(Experiment.from_yaml(folder / "e.yaml"), jobs=jobs)
        # The file has run once, so its functions share what it keeps.
        assert results.values("count") == {0: 11 * number + 100}
    assert sys.path == path


@pytest.mark.long
def test_cells_with_one_file_of_answers_take_turns(tmp_path: Path) -> None:
    code = """
import fcntl
from moothall.society import Society

def made(seed, answers, folder):
    made.kept = open(folder / answers, "a")
    fcntl.flock(made.kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return Society(2, seed=seed)
"""
    (tmp_path / "m.py").write_text(code)
    society = {"make": "m.py:made", "answers": "a.jsonl"}
    workflow = [{"run": {"days": 1}}]
    given: Any = {"society": society, "workflow": workflow, "metrics": ["messages"]}
    results = run(Experiment(name="e", seeds=3, folder=tmp_path, **given), jobs=3)
    assert set(results.values("messages")) == {0, 1, 2}  # none has found the file in use


def test_branch_has_the_recording_of_its_trunk(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    trunk, branch = (model_of("openai:m", tmp_path / "a.jsonl") for _ in range(2))
    assert trunk is branch


@pytest.mark.parametrize(("limits", "asked"), (({}, 6), ({"max_calls": 4}, 4), ({"max_usd": 0}, 0)))
def test_cell_of_a_town_asks_its_model_within_its_limits(limits: Any, asked: int) -> None:
    model = ScriptedModel(
        ["no"] * 6, name="openai:gpt-4o"
    )  # the plan, asked twice; asleep there is nothing to choose
    without = {"economy": False, "feed": False}

    async def lives() -> None:
        async with town(0, citizens=3, llm=model, **without, **limits) as society:
            assert not society.services
            await society.run(steps=2)

    asyncio.run(lives())
    assert len(model.received) == asked


def changed(folder: Path, **values: Any) -> None:
    path = folder / "out" / "experiment.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | values))


def test_results_of_others_are_refused(tmp_path: Path) -> None:
    run(of(tmp_path), jobs=0, out=tmp_path / "out")
    kept = (tmp_path / "out" / "results.parquet").read_bytes()

    def refused(experiment: Experiment, told: str) -> None:
        with pytest.raises(ConfigError, match=told):
            run(experiment, jobs=0, out=tmp_path / "out")
        assert (tmp_path / "out" / "results.parquet").read_bytes() == kept

    refused(of(tmp_path, name="large"), "has results of experiment 'small'")
    refused(of(tmp_path, every=2), "has results of another version of this one")
    other = of(tmp_path)
    (tmp_path / "make.py").write_text(CODE + FULL + "# mended\n")
    refused(other, "another version of this one")
    changed(tmp_path, versions={"moothall": "0.0.1"})
    refused(of(tmp_path), r"has results of moothall 0\.0\.1, and this is")
    changed(tmp_path, versions=None)
    refused(of(tmp_path), "is not a manifest of an experiment")


def test_folder_of_a_sweep_is_taken_by_no_other_meanwhile(tmp_path: Path) -> None:
    second = of(tmp_path / "second", TEXT.replace("step: 2", "step: 3"), seeds=1)
    refused: list[str] = []

    def begin(progress: Any) -> None:
        with ThreadPoolExecutor(1) as thread:
            try:
                thread.submit(run, second, jobs=0, out=tmp_path / "out").result()
            except ConfigError as error:
                refused.append(str(error))

    first = run(of(tmp_path, seeds=1), jobs=0, out=tmp_path / "out", progress=begin)
    assert set(map(str, refused)) == {
        f"{tmp_path / 'out'} is in use: another program runs an experiment there; wait for its "
        "end, or give another folder"
    }
    assert list(first.curve("messages", "base")) == [1, 2]


def test_sweep_that_left_nothing_does_not_block_the_corrected_one(tmp_path: Path) -> None:
    wrong = of(tmp_path, TEXT.replace("messages,", "mesages,"))
    with pytest.raises(ConfigError, match="no column 'mesages'"):
        run(wrong, jobs=0, out=tmp_path / "out")
    half = tmp_path / "out" / "parts" / ".part-17-0.parquet"
    half.write_bytes(b"PAR1")  # of a process that was killed while it wrote
    results = run(of(tmp_path), jobs=0, out=tmp_path / "out")
    assert set(results.values("owned")) == {0, 1}


def test_sweep_difference_from_the_results_in_its_folder_is_named(tmp_path: Path) -> None:
    run(of(tmp_path), jobs=0, out=tmp_path / "out")
    other = TEXT.replace("size: 2", "size: 3").replace("steps: 2", "steps: 3")
    told = "another version of this one, which differs in workflow, society: give"
    with pytest.raises(ConfigError, match=told):
        run(of(tmp_path, other), jobs=0, out=tmp_path / "out")
    again = of(tmp_path)
    (tmp_path / "make.py").write_text(CODE + FULL + "# mended\n")
    with pytest.raises(ConfigError, match="version of this one, which differs in code: give"):
        run(again, jobs=0, out=tmp_path / "out")


def test_function_of_the_same_name_is_other_code(tmp_path: Path) -> None:
    def size(society: Any) -> int:
        return len(society.ids())

    def of_size(by: Any) -> Experiment:
        metrics = [{"name": "size", "by": by}]
        society = {"citizens": 2, "step": "6h"}
        return Experiment(name="e", society=society, metrics=metrics, workflow=[{"step": 1}])

    run(of_size(size), jobs=0, out=tmp_path)
    run(of_size(size), jobs=0, out=tmp_path)

    def size(society: Any) -> int:  # type: ignore[no-redef]
        return -len(society.ids())

    with pytest.raises(ConfigError, match="which differs in code: give"):
        run(of_size(size), jobs=0, out=tmp_path)


def test_sweep_takes_a_changed_rule_as_other_code_and_runs_a_changed_table_again(
    tmp_path: Path,
) -> None:
    question = "{id: q, text: '?', by: rule.py:rule}"
    text = (
        "name: table\nsociety: {citizens: people.csv, step: 6h}\nmetrics: [owned]\nworkflow:\n"
        f"- step: 1\n- survey: {{name: s, questions: [{question}]}}\n"
    )
    for cents in (5, 7):
        (tmp_path / "people.csv").write_text(f"id,money\n1,{cents}\n2,0\n")
        (tmp_path / "rule.py").write_text("def rule(one):\n    return 1\n")
        results = run(of(tmp_path, text), jobs=0, out=tmp_path / "out")
        assert results.values("owned") == {0: cents}
    (tmp_path / "rule.py").write_text("def rule(one):\n    return 2  # now\n")
    with pytest.raises(ConfigError, match="differs in code: give"):
        run(of(tmp_path, text), jobs=0, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "told"),
    (
        (TEXT.replace("messages,", "mesages,"), "there is no column 'mesages'; there are: step,"),
        (
            TEXT.replace("make.py:made", "make.py:nothing"),
            "society.make must return a Society, got nan",
        ),
        (
            TEXT.replace("make.py:owned", "make.py:nothing"),
            "owned must be a finite number, got nan",
        ),
        (TEXT.replace("citizen: 1", "citizen: 99"), "there is no citizen '99' to ask"),
        (
            TEXT.replace("status.needs.hunger", "status.wants"),
            "no citizen answers: hunger: .*KeyErr",
        ),
        (TEXT.replace("size: 2", "size: -1"), "citizens must be agents, a number"),
        (
            TEXT.replace("- save: noon", "- save: noon\n- intervene: {close: [mill]}\n- step: 1"),
            "'mill', which is not a place",
        ),
    ),
    ids=("column", "make", "nan", "citizen", "rule", "society", "place"),
)
def test_sweep_failure_is_named_with_its_cell(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"condition 'base', seed 0: .*{told}"):
        run(of(tmp_path, text), jobs=int("KeyErr" in told), out=tmp_path / "out")
    assert not (tmp_path / "out" / "results.parquet").exists()


@pytest.mark.parametrize("jobs", (0, pytest.param(1, marks=pytest.mark.long)))
def test_cell_whose_model_has_no_key_is_told(jobs: int, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    society = {"citizens": 2, "llm": "openai:m"}
    with pytest.raises(StateError, match="condition 'base', seed 0: openai:m: there is no key"):
        run(Experiment(name="e", society=society, workflow=[{"step": 1}]), jobs=jobs)


def test_code_that_fails_in_a_cell_is_told_with_its_line(tmp_path: Path) -> None:
    sweep = of(tmp_path, TEXT)
    wrong = CODE.replace("Society(size, seed=seed)", "int('no number')")
    (tmp_path / "make.py").write_text(wrong)
    where = r"\(make\.py, line \d+, in made\)"
    with pytest.raises(StateError, match=f"condition 'base', seed 0: ValueError: .*{where}"):
        run(sweep, jobs=1, out=tmp_path / "out")


@pytest.mark.long
def test_sweep_replaces_a_killed_process_once(tmp_path: Path) -> None:
    once = TEXT.replace("size: 2", "size: 2, dies: 1")
    results = run(of(tmp_path / "once", once), jobs=1, out=tmp_path / "out")
    assert set(results.values("owned")) == {0, 1}
    twice = TEXT.replace("size: 2", "size: 2, dies: 9")
    with pytest.raises(StateError, match="seed 0: its process was killed by signal 9, twice"):
        run(of(tmp_path / "twice", twice), jobs=1, out=tmp_path / "other")
    assert names(tmp_path / "other") == {"experiment.json"}


def test_sweep_replaces_a_killed_starter_with_its_cell_once(tmp_path: Path) -> None:
    forks = str(sys.platform == "linux").lower()  # elsewhere a cell has no starter
    once = TEXT.replace("size: 2", f"size: 2, dies: 1, starter: {forks}")
    results = run(of(tmp_path, once), jobs=1, out=tmp_path / "out")
    assert set(results.values("owned")) == {0, 1}
    (_, first), *others = made(tmp_path)
    assert [seed for seed, _ in others] == [0, 0, 1, 1]  # the branches', too
    gone(first)


@pytest.mark.long
def test_cells_of_a_sweep_share_no_process_and_no_random_numbers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = TEXT.replace("owned, by: make.py:owned", "drawn, by: make.py:drawn")
    results = run(of(tmp_path, text, seeds=3), jobs=1, out=tmp_path / "out")
    assert len({pid for _, pid in made(tmp_path)}) == 3
    assert capfd.readouterr().err.count("a society may print\n") == 6  # the branches', too
    assert len(set(results.values("drawn").values())) == 3


def begun(folder: Path) -> subprocess.Popen[bytes]:
    """A sweep whose first cell has ended and whose second waits, as a command."""
    of(folder, TEXT.replace("size: 2", "size: 2, stops: true"))
    for name in ("waits", "never"):
        os.mkfifo(folder / name)
    command = ("-m", "moothall", "simulate", "e.yaml", "--jobs", "1", "--out", "out")
    process = subprocess.Popen([sys.executable, *command], cwd=folder, stderr=subprocess.PIPE)
    assert (folder / "waits").read_text() == "here"
    return process


def gone(pid: int) -> None:
    """Wait until a process is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([handle], [], [], 30)[0], "the process of a cell outlives its sweep"
    os.close(handle)


@pytest.mark.parametrize(
    "how", (pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL)
)
def test_sweep_that_was_stopped_leaves_no_process_and_continues(tmp_path: Path, how: int) -> None:
    process = begun(tmp_path)
    seed, pid = made(tmp_path)[-1]
    assert seed == 1
    process.send_signal(how)
    _, told = process.communicate(timeout=30)
    gone(pid)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert b"the same command continues" in told
    assert not (tmp_path / "out" / "results.parquet").exists()
    (part,) = (tmp_path / "out" / "parts").iterdir()
    # What a process leaves that is killed while it writes; the moment itself is not to be hit.
    part.with_name(f".part-{pid}-0.parquet").write_bytes(b"PAR1")
    (tmp_path / "open").touch()
    lived = len(made(tmp_path))
    results = run(Experiment.from_yaml(tmp_path / "e.yaml"), jobs=1, out=tmp_path / "out")
    assert {seed for seed, _ in made(tmp_path)[lived:]} == {1}
    assert set(results.values("owned")) == {0, 1}
    assert len(list(part.parent.iterdir())) == 2


def test_sweep_on_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    experiment = of(tmp_path)
    run(experiment, jobs=0, out=tmp_path / "out")
    whole = (tmp_path / "out" / "results.parquet").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (10, 3000, len(whole) - 10):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(FileError, match=r"cannot be written: .*File too large"):
                run(experiment, jobs=0, out=tmp_path / str(limit))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        left = tmp_path / str(limit)
        assert not [name for name in names(left) if name.startswith(".")]
        assert "results.parquet" not in names(left)
        run(experiment, jobs=0, out=left)
        assert (left / "results.parquet").read_bytes() == whole


def test_sweep_folder_that_cannot_be_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(FileError, match="out cannot be used"):
        run(of(tmp_path), jobs=0, out=tmp_path / "out")


def of_functions(make: Any, *workflow: Any, **fields: Any) -> Experiment:
    """An experiment of functions of this program."""
    society = {"make": make, "step": "6h"}
    return Experiment(**{"name": "e", "society": society, "workflow": [*workflow], **fields})


def test_survey_is_taken_down_as_means_by_choice_and_by_what_answered() -> None:
    def four(seed: int) -> Society:
        model = ScriptedModel(['{"colour": "red", "pets": 3}', *["I would rather not."] * 3])
        owners = [CitizenMemory({"has": {"pets": id}}) for id in range(1, 5)]
        citizens = [CitizenAgent(id, memory=each) for id, each in enumerate(owners, 1)]
        return Society(citizens, model=model, engine=LocalEngine(concurrency=1))

    colour = {"id": "colour", "text": "?", "kind": "choice", "choices": ["red", "blue"]}
    pets = {"id": "pets", "text": "?", "kind": "number", "by": "status.has.pets"}
    survey = {"name": "s", "questions": [{**colour, "by": lambda one: "blue"}, pets]}
    results = run(of_functions(four, {"step": 1}, {"survey": survey}), jobs=0)
    means = {name: results.values(name)[0] for name in results.metrics}
    assert means == {"s.colour=red": 0.25, "s.colour=blue": 0.75, "s.pets": 3, "s.by_model": 0.25}


def test_failures_are_summed_over_cells_and_the_first_are_told(tmp_path: Path) -> None:
    class Fails(CitizenAgent):
        async def forward(self) -> None:
            raise ValueError(f"in {self.id}")

    def two(seed: int) -> Society:
        return Society([Fails(1), Fails(2)])

    run(of_functions(two, {"step": 1}, seeds=3), jobs=0, out=tmp_path)
    totals = json.loads((tmp_path / "experiment.json").read_text())["totals"]
    assert (totals["failures"], totals["model_calls"]) == (6, 0)
    assert [each.partition(":")[0] for each in totals["first_failures"]] == ["step 0, 1"] * 3
    results = Results(tmp_path / "results.parquet")
    assert (results.failures, results.first_failures) == (6, totals["first_failures"])
    assert re.search(r"test_sweep\.py, line \d+, in forward\) \(2 times\)", repr(results))


def test_reason_why_a_rule_decided_for_a_model_is_in_the_totals_and_the_report(
    tmp_path: Path,
) -> None:
    def one(seed: int) -> Society:
        down = ScriptedModel([ModelError("the server is down")] * 9)
        return Society([CitizenAgent(1, blocks=all_blocks())], model=down)

    experiment = of_functions(one, {"step": 1}, metrics=["home"], seeds=2)
    results = asyncio.run(experiment.run(jobs=0, out=tmp_path))
    told = results.first_fallback
    assert told.endswith("the server is down")
    assert (results.fallbacks, results.by_rule) == (2, " (PlanBlock 2)")
    assert (
        f"the rule decided (PlanBlock 2); the first: {escape(told)}"
        in (tmp_path / "report.html").read_text()
    )


def test_citizens_without_an_answer_are_failures_and_not_in_the_mean(tmp_path: Path) -> None:
    def owners(seed: int) -> Society:
        return Society([CitizenAgent(id, memory=CitizenMemory({"pets": id})) for id in (1, 2, 3)])

    def rule(one: Any) -> int:
        return int(6 // (one.status["pets"] - 1))

    pets = {"id": "pets", "text": "?", "kind": "number", "by": rule}
    survey = {"survey": {"name": "s", "questions": [pets]}}
    results = run(of_functions(owners, {"step": 1}, survey), jobs=0, out=tmp_path)
    assert results.values("s.pets") == {0: 4.5}
    totals = json.loads((tmp_path / "experiment.json").read_text())["totals"]
    assert totals["failures"] == 1
    (told,) = totals["first_failures"]
    assert told.startswith("survey 's', 1: pets: the rule failed: ZeroDivisionError: ")


def test_sweep_part_that_is_damaged_is_told(tmp_path: Path) -> None:
    run(of(tmp_path), jobs=0, out=tmp_path / "out")
    part = sorted((tmp_path / "out" / "parts").iterdir())[0]
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(ConfigError, match=rf"{part.name} is damaged .*: delete it"):
        run(of(tmp_path), jobs=0, out=tmp_path / "out")
    part.unlink()
    assert set(run(of(tmp_path), jobs=0, out=tmp_path / "out").values("owned")) == {0, 1}


def test_saved_state_has_the_intervention_of_the_step_that_comes_next() -> None:
    branch = {"of": "taxed", "name": "on", "workflow": [{"step": 1}]}
    results = run(
        Experiment(
            name="e",
            society={"citizens": 5, "step": "6h", "facts": {"tax": 1}},
            metrics=[{"name": "tax", "by": lambda society: society.changed.facts.get("tax")}],
            workflow=[
                {"step": 1},
                {"intervene": {"facts": {"tax": 2}}},
                {"save": "taxed"},
                {"branch": branch},
                {"step": 1},
            ],
        ),
        jobs=0,
    )
    assert results.values("tax", "base") == results.values("tax", "base/on") == {0: 2}


def test_intervention_names_everyone_and_kinds_of_places() -> None:
    def closed(society: Any) -> int:
        kinds = [society.city.kind(place) for place in sorted(society.changed.closed)]
        return kinds.count("shop") * 100 + len(kinds)

    changes = {"close": ["shop", "park-1"], "pay": [{"from": "bank", "to": "everyone", "cents": 7}]}
    results = run(
        Experiment(
            name="e",
            society={"citizens": 5, "step": "6h"},  # of the smallest town, of ten
            metrics=[
                {"name": "closed", "by": closed},
                {"name": "bank", "by": lambda society: society.books.balances["bank"]},
                {"name": "citizens", "by": lambda society: len(society.mailboxes)},
            ],
            workflow=[{"intervene": changes}, {"step": 1}],
        ),
        jobs=0,
    )
    assert results.values("closed") == {0: 102}
    assert results.values("citizens") == {0: 5}
    before, after = (results.values("bank", step=step)[0] for step in (0, 1))
    assert before - after == 35


@pytest.mark.parametrize(
    ("changes", "why"),
    (
        ({"pay": [{"from": "king", "to": "everyone", "cents": 5}]}, "king has no money of its own"),
        ({"pay": [{"from": "bank", "to": "king", "cents": 5}]}, "there is no king who could be"),
        ({"status": {"mood": 1}, "citizens": ["99"]}, "there is no citizen '99'"),
        ({"status": {"mood": 1}, "citizens": {"tail": 2}}, "no citizen's status has tail"),
        ({"status": {"needs": {"hunger": 1}}, "citizens": {"work": "park-1"}}, "nobody has work"),
    ),
)
@pytest.mark.parametrize("columns", (False, True))
def test_intervention_that_cannot_be_made_ends_its_cell(
    changes: Any, why: str, columns: bool
) -> None:
    if columns and "tail" in why:
        why = "the population has no column for tail"
    workflow = [{"step": 1}, {"intervene": changes}, {"step": 1}]
    society = {"citizens": 10, "step": "6h", "columns": columns}
    experiment = Experiment(name="e", society=society, workflow=workflow)
    with pytest.raises(ConfigError, match=f"the intervention of step 1 could not be made: .*{why}"):
        run(experiment, jobs=0)


def test_intervention_payment_that_some_cannot_make_is_a_failure_of_a_cell_that_continues() -> None:
    changes = {"pay": [{"from": "everyone", "to": "bank", "cents": 100_000}]}
    results = run(
        Experiment(
            name="e",
            society={"citizens": 10, "step": "6h"},
            metrics=[{"name": "bank", "by": lambda society: society.books.balances["bank"]}],
            workflow=[{"intervene": changes}, {"step": 1}],
        ),
        jobs=0,
    )
    before, after = (results.values("bank", step=step)[0] for step in (0, 1))
    assert 0 < after - before < 10 * 100_000


@pytest.mark.parametrize("with_it", ({"llm": "groq:a"}, {"params": {"enable_social": False}}))
def test_columns_have_neither_a_model_nor_what_citizens_may_do(with_it: dict[str, Any]) -> None:
    society = {"citizens": 10, "columns": True, **with_it}
    with pytest.raises(ConfigError, match="columns: citizens must be without a model"):
        run(Experiment(name="e", society=society, workflow=[{"step": 1}]), jobs=0)


def test_table_of_citizens_lives_the_same_in_columns_and_as_agents(tmp_path: Path) -> None:
    lines = [f"{at},{20 + at},{'fm'[at % 2]},{40_000 + at}" for at in range(1, 21)]
    (tmp_path / "p.csv").write_text("\n".join(["id,age,gender,income", *lines]))
    made = {
        columns: run(
            Experiment(
                name="e",
                society={"citizens": str(tmp_path / "p.csv"), "columns": columns},
                metrics=["home", "work", "owned"],
                workflow=[{"run": "12h"}],
            ),
            jobs=0,
        )
        for columns in (True, False)
    }
    for name in ("home", "work", "owned"):
        assert made[True].values(name) == made[False].values(name)


def test_functions_of_a_program_are_lived_in_it_alone(tmp_path: Path) -> None:
    def owned(society: Any) -> int:
        return int(society.books.total)

    experiment = Experiment(
        name="e",
        society={"citizens": 10, "step": "12h"},
        metrics=[{"name": "owned", "by": owned}],
        workflow=[{"step": 1}],
    )
    assert len(run(experiment, jobs=0).curve("owned")) == 2
    with pytest.raises(ConfigError, match=r"needs functions as file.py:function; with jobs=0"):
        run(experiment, jobs=1)


def test_cell_keeps_the_rows_since_it_was_measured_last() -> None:
    experiment = Experiment(
        name="e",
        society={"citizens": 10, "step": "12h"},
        metrics=[{"name": "rows", "by": lambda society: np.int64(len(society.metrics))}],
        workflow=[{"step": 12}],
        every=3,
    )
    assert run(experiment, jobs=0).curve("rows") == {
        0: {0: 0},
        3: {0: 3},
        6: {0: 3},
        9: {0: 3},
        12: {0: 3},
    }


def test_results_that_are_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_bytes(b"PAR1")
    for name in ("r.parquet", "none.parquet"):
        with pytest.raises(ConfigError, match="has no results of an experiment"):
            Results(tmp_path / name)


def test_metric_is_one_number_also_of_numpy() -> None:
    def lone(seed: int) -> Society:
        return Society(1, seed=seed)

    for given, told in ((np.bool_(True), 1.0), (np.float32(0.5), 0.5)):
        metrics = [{"name": "m", "by": lambda society, given=given: given}]
        assert run(of_functions(lone, {"step": 1}, metrics=metrics), jobs=0).values("m") == {
            0: told
        }
    metrics = [{"name": "m", "by": lambda society: np.ones(2)}]
    with pytest.raises(ConfigError, match="m must be a finite number, got array"):
        run(of_functions(lone, {"step": 1}, metrics=metrics), jobs=0)
