"""`moothall simulate` as a person and a program use it: a small town for a day or a few."""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import os
import re
import resource
import shlex
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from commands import Command
from commands import run as command
from journal.crash import crash
from models.openai_server import OpenAIServer, status, text
from moothall.cli.main import main
from moothall.society import compare, read_people
from pseudo_terminal import Terminal

IMPORTS = ("matplotlib.figure", "scipy.sparse.csgraph")
"""What nearly all of these commands take long to import."""
TOWN = ("--citizens", "30", "--step", "6h", "--seed", "3")
DAYS = ("--citizens", "10", "--days", "6")


def moothall(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command as a script runs it."""
    given = {**os.environ, "MOOTHALL_JOURNAL": "", **environment}
    return command(*args, options=("-W", "error"), imports=IMPORTS, cwd=cwd, env=given)


def simulate(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return moothall("simulate", *args, cwd=cwd, **environment)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_day_is_told_and_written_and_the_same_each_time(tmp_path: Path) -> None:
    done = simulate(*TOWN, "--csv", "--out", "a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "30 citizens, 4 steps of 6h, seed 3"
    told = dict(line.split(maxsplit=1) for line in lines)
    assert (told["until"], told["failures"]) == ("2026-01-06 00:00:00", "0")
    assert "100 %" in done.stderr
    assert "agent-steps/s" in done.stderr
    assert re.search(r"took +\d+ s, 0\.\d+ GB of memory\n", done.stderr)

    found = tmp_path / "a"
    names = {"metrics.csv", "citizens.csv", "messages.csv"}
    pictures = {"map.png", "day.png"}
    assert set(contents(found)) == {*names, *pictures, "manifest.json"}
    for name in pictures:
        png = contents(found)[name]
        assert png.startswith(b"\x89PNG")
        assert min(struct.unpack(">II", png[16:24])) >= 700
    rows = table(found / "metrics.csv")
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"]
    most = {name: max(int(row[name]) for row in rows) for name in ("work", "moving")}
    assert f"  at home       {rows[-1]['home']}\n" in done.stdout
    assert f"  at work       {rows[-1]['work']}, at most {most['work']}\n" in done.stdout
    assert f"  on the way    at most {most['moving']}\n" in done.stdout
    assert re.search(r"  in a +metrics\.csv, .*manifest\.json", done.stdout)
    assert len(read_people(found / "citizens.csv")) == 30
    manifest = json.loads((found / "manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["settings"]["seed"] == 3
    assert manifest["state_sha256"] == told["state"]
    assert names <= set(manifest["deterministic"])
    for name in names:
        assert manifest["sha256"][name] == hashlib.sha256(contents(found)[name]).hexdigest()

    again = simulate(*TOWN, "--csv", "--out", "b", cwd=tmp_path)
    assert again.stdout == done.stdout.replace("in a ", "in b ")
    assert contents(tmp_path / "b") == contents(found)


@pytest.mark.long
def test_simulate_reaches_the_same_state_with_a_journal_and_without(tmp_path: Path) -> None:
    args = ("--citizens", "120", "--step", "6h", "--csv", "--out")
    alone = simulate(*args, "a", cwd=tmp_path)
    recorded = simulate(*args, "b", "--journal", "runs.db", "--run-id", "r", cwd=tmp_path)
    states = [each.stdout.partition("state")[2].split()[0] for each in (alone, recorded)]
    assert states[0] == states[1]
    assert contents(tmp_path / "a")["citizens.csv"] == contents(tmp_path / "b")["citizens.csv"]


@pytest.mark.long
def test_town_in_columns_writes_places_and_words_and_no_messages(tmp_path: Path) -> None:
    args = ("--citizens", "10010", "--step", "6h", "--journal", str(tmp_path / "runs.db"))
    for name in ("csv", "parquet"):  # the second from the end of the first
        assert run(*args, f"--{name}", "--run-id", "r", "--out", str(tmp_path / name)) == 0
        names = {f"metrics.{name}", f"citizens.{name}", "map.png", "day.png", "manifest.json"}
        assert set(contents(tmp_path / name)) == names
    citizens = table(tmp_path / "csv" / "citizens.csv")
    assert len(citizens) == 10010
    assert {row["gender"] for row in citizens} == {"female", "male"}
    assert all(row["home"].startswith("home-") for row in citizens)
    assert "" in {row["work"] for row in citizens}
    assert all(row["work"] == "" or "-" in row["work"] for row in citizens)
    rows = pyarrow.parquet.read_table(tmp_path / "parquet" / "citizens.parquet").to_pylist()
    for name in ("id", "gender", "home", "work", "age"):
        said = [row[name] or "" for row in citizens]
        assert ["" if row[name] is None else str(row[name]) for row in rows] == said


@pytest.mark.long
@pytest.mark.parametrize(
    "struck", (pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL)
)
def test_stopped_it_goes_on_by_resume_and_comes_to_the_same_files(
    tmp_path: Path, struck: signal.Signals
) -> None:
    # More lines than a pipe holds, so it cannot have ended before it is struck.
    process = Command(
        *("simulate", *DAYS, "--json", "--out", "stopped"),
        *("--journal", "runs.db", "--run-id", "town"),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    begun = {"kind": "run", "run_id": "town", "journal": "runs.db"}
    assert json.loads(process.stdout.readline()) == begun
    for step in range(100):
        assert json.loads(process.stdout.readline())["step"] == step
    process.send_signal(struck)
    lines = process.communicate(timeout=50)[0].splitlines()
    way = "moothall resume town --journal runs.db"
    if struck is signal.SIGINT:
        assert process.returncode == 130
        assert json.loads(lines[-1]) == {"kind": "interrupted", "resume": [way]}
    assert not json.loads((tmp_path / "stopped" / "manifest.json").read_text())["complete"]

    told = moothall("runs", "town", "--journal", "runs.db", cwd=tmp_path).stdout
    assert "10 citizens, 576 steps of 15min, seed 0" in told
    assert "set up: by rules; tables in /" in told
    assert told.endswith(f"to resume it: {way}\n")
    gone_on = moothall(*shlex.split(way)[1:], cwd=tmp_path)
    assert gone_on.returncode == 0, gone_on.stderr
    again = moothall(*shlex.split(way)[1:], cwd=tmp_path)  # it has ended: nothing is lived
    assert again.stdout == gone_on.stdout
    assert simulate(*DAYS, "--out", "whole", cwd=tmp_path).returncode == 0
    stopped, whole = contents(tmp_path / "stopped"), contents(tmp_path / "whole")
    manifest, other = (json.loads(each.pop("manifest.json")) for each in (stopped, whole))
    assert stopped == whole
    assert manifest == other | {"run_id": "town"}


def test_run_does_not_go_on_with_other_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = (*TOWN, "--journal", str(tmp_path / "runs.db"), "--run-id", "town")
    assert run(*recorded) == 0
    assert '"kind"' not in capsys.readouterr().out
    assert run(*recorded, "--seed", "4") == 1
    assert "seed: was 3, is 4" in capsys.readouterr().err


def test_interrupted_without_a_journal_it_says_that_one_would_help(tmp_path: Path) -> None:
    process = Command(
        *("simulate", *DAYS, "--json"),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MOOTHALL_JOURNAL": ""},
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    *_, last = process.communicate(timeout=50)[0].splitlines()
    assert process.returncode == 130
    assert json.loads(last) == {"kind": "interrupted", "resume": []}


def run(*args: str) -> int:
    """The command in this process; gives its exit code."""
    with pytest.raises(SystemExit) as left:
        main(["simulate", *args])
    return int(left.value.code or 0)


def test_simulate_prints_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*TOWN, "--json") == 0
    shown = capsys.readouterr()
    *steps, done = map(json.loads, shown.out.splitlines())
    assert [(each["kind"], each["step"]) for each in steps] == [("step", n) for n in range(4)]
    assert (done["kind"], done["citizens"], done["failures"]) == ("done", 30, 0)
    assert all(done[name] == steps[-1][name] for name in ("home", "work", "money"))
    assert shown.err == ""


def test_simulate_says_money_in_dollars_and_its_json_in_cents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(*TOWN, "--json") == 0
    cents = json.loads(capsys.readouterr().out.splitlines()[-1])["money"]
    assert run(*TOWN) == 0
    line = next(each for each in capsys.readouterr().out.splitlines() if "money" in each)
    assert line.split() == ["money", f"{cents / 100:,.2f}", "dollars"]


@pytest.mark.long
def test_tables_are_csv_and_with_parquet_the_same_as_parquet(tmp_path: Path) -> None:
    assert run(*TOWN, "--out", str(tmp_path / "csv")) == 0
    assert run(*TOWN, "--out", str(tmp_path / "parquet"), "--parquet") == 0
    assert {path.suffix for path in (tmp_path / "csv").iterdir()} == {".csv", ".json", ".png"}
    suffixes = {path.suffix for path in (tmp_path / "parquet").iterdir()}
    assert suffixes == {".parquet", ".json", ".png"}
    people = [
        read_people(next((tmp_path / each).glob("citizens.*"))) for each in ("csv", "parquet")
    ]
    assert people[0] == people[1]
    for name in ("metrics", "messages"):
        rows = pyarrow.parquet.read_table(tmp_path / "parquet" / f"{name}.parquet").to_pylist()
        shown: list[dict[str, Any]] = [{k: str(v) for k, v in row.items()} for row in rows]
        assert shown == table(tmp_path / "csv" / f"{name}.csv")


@pytest.mark.parametrize(
    ("args", "said"),
    (
        (("--days", "0"), "--days must be above 0"),
        (("--days", "nan"), "must be a number, got 'nan'"),
        (("--days", "0.1"), "--days 0.1 is not a whole number of steps of 15min"),
        (("--step", "soon"), "--step must be a length of time"),
        (("--citizens", "9"), "must be a whole number from 10 to 10,000,000, got '9'"),
        (("--run-id", "a"), "give --journal too"),
        (("--out", ""), "--out must be a folder, got an empty text"),
        (("--parquet",), "--parquet is for the tables: give --out DIR too"),
        (("--csv",), "--csv is for the tables: give --out DIR too"),
        (("--max-calls", "5"), "--max-calls is for a model: give --model too"),
        (("--max-usd", "nan"), "must be a number of US dollars above 0, got 'nan'"),
        (("--model", "nobody"), "there is no model 'nobody'"),
        (("--model", "openai:m"), "give --max-usd, --max-calls or --yes"),
        (("--model", "http://me:key@127.0.0.1:1/v1#m", "--yes"), "must hold no password"),
    ),
)
def test_wrong_usage_says_what_is_wrong(
    args: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOOTHALL_JOURNAL", "")
    assert run(*args) == 2
    assert said in capsys.readouterr().err


def test_simulate_without_matplotlib_says_in_one_line_that_there_are_no_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(*TOWN, "--out", str(tmp_path)) == 0
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "picture" in line)
    assert "pip install 'moothall[pictures]'" in said
    assert not list(tmp_path.glob("*.png"))


def test_picture_that_the_disk_has_no_room_for_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        assert run(*TOWN, "--csv", "--out", str(tmp_path / "out")) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    *_, error = capsys.readouterr().err.splitlines()
    assert error == f"moothall: {tmp_path}/out/map.png cannot be written: File too large"


def test_manifests_of_two_runs_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def manifest(name: str, seed: int) -> Any:
        args = ("--citizens", "10", "--step", "12h", "--seed", str(seed))
        assert run(*args, "--out", str(tmp_path / name)) == 0
        return json.loads((tmp_path / name / "manifest.json").read_text())

    first, same, other = manifest("a", 1), manifest("same", 1), manifest("b", 2)
    assert compare(first, same) == []
    seed, *results = compare(first, other)
    assert seed == "setting seed: 1 and 2"
    hashes = ["city_sha256", "people_sha256", "state_sha256"]
    tables = [f"sha256 of {name}.csv" for name in ("metrics", "citizens")]  # nobody wrote
    assert [line.split(":")[0] for line in results] == hashes + tables
    assert results[0] == f"city_sha256: {first['city_sha256']} and {other['city_sha256']}"
    same |= {"run_id": "r", "state_sha256": "0"}
    state, run_id = compare(same, first)
    assert run_id == "run_id: r and None"
    assert state.endswith(" (although settings and versions agree)")
    del same["versions"]["numpy"]
    assert compare(same, first)[-1].startswith("version of numpy: None and 2.")


@pytest.mark.long
def test_messages_of_steps_that_were_lived_without_the_folder_are_said_to_be_missing(
    tmp_path: Path,
) -> None:
    def from_step(folder: str) -> Any:
        return json.loads((tmp_path / folder / "manifest.json").read_text())["messages_from_step"]

    recorded = (*TOWN, "--journal", str(tmp_path / "runs.db"), "--run-id", "town")
    assert run(*recorded, "--out", str(tmp_path / "there")) == 0
    assert run(*recorded, "--out", str(tmp_path / "there")) == 0  # it has ended: nothing is lived
    assert run(*recorded, "--out", str(tmp_path / "late")) == 0
    assert (from_step("there"), from_step("late")) == (0, None)
    assert (tmp_path / "there" / "messages.csv").exists()
    assert not (tmp_path / "late" / "messages.csv").exists()


@pytest.mark.long
def test_messages_of_steps_that_are_lived_again_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, before = tmp_path / "runs.db", tmp_path / "before.db"

    class Lines(io.StringIO):
        def write(self, line: str) -> int:
            at_step_2 = line.startswith("{") and json.loads(line).get("step") == 2
            if at_step_2 and not before.exists():
                crash(journal, before)
            return len(line)

    monkeypatch.setattr(sys, "stdout", Lines())
    told = ("--json", "--run-id", "town", "--csv", "--out", str(tmp_path / "a"))
    order = (*TOWN, *told, "--journal")
    assert run(*order, str(journal)) == 0
    messages = table(tmp_path / "a" / "messages.csv")
    assert messages[-1]["step"] == "3"
    assert run(*order, str(before)) == 0  # from the file as it was before the last step
    assert table(tmp_path / "a" / "messages.csv") == messages


# -- by a model ------------------------------------------------------------------------------------


@pytest.mark.long
def test_limit_of_calls_holds_and_rules_decide_after_it(tmp_path: Path) -> None:
    with OpenAIServer(text("nonsense")) as server:
        args = (*TOWN, "--model", f"{server.url}#m", "--max-calls", "5")
        recorded = ("--journal", "runs.db", "--run-id", "town", "--out", "a")
        done = simulate(*args, *recorded, cwd=tmp_path, MOOTHALL_KEY="secret")
        assert done.returncode == 0, done.stderr
        gone_on = moothall("resume", "town", "--journal", "runs.db", cwd=tmp_path)
        assert gone_on.returncode == 0, gone_on.stderr
        assert len(server.requests) == 5
        assert {each.headers["authorization"] for each in server.requests} == {"Bearer secret"}
    assert f"{server.url}#m will be asked about 40 times, with 28,000 tokens in all" in done.stderr
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert told["failures"] == "0"
    assert " of them by rule; the first: PlanBlock: " in told["model"]
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["settings"]["model"] == f"{server.url}#m"
    assert manifest["deterministic"] == ["city_sha256", "people_sha256"]
    assert {"run_id", "state_sha256", *manifest["sha256"]} <= {*manifest["not_deterministic"]}
    assert b"secret" not in (tmp_path / "runs.db").read_bytes()


def test_simulate_model_calls_are_as_many_as_estimated(tmp_path: Path) -> None:
    with OpenAIServer(status(400)) as server:
        done = simulate(*TOWN, "--model", f"{server.url}#m", "--yes", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == pytest.approx(40, rel=0.25)


def test_money_is_limited_only_where_the_price_is_known(tmp_path: Path) -> None:
    args = (*TOWN, "--model", "openai:nobodys", "--max-usd", "1")
    done = simulate(*args, cwd=tmp_path, MOOTHALL_KEY="secret")
    assert (done.returncode, done.stdout) == (2, "")
    assert "price" in done.stderr


@pytest.mark.parametrize(("answer", "code"), (("", 1), ("y", 0)))  # as [y/N] says
def test_person_is_asked_before_a_remote_model_is(tmp_path: Path, answer: str, code: int) -> None:
    with OpenAIServer(status(400)) as server:
        args = ("simulate", *TOWN, "--model", f"{server.url}#m")
        with Terminal("-m", "moothall", *args, cwd=tmp_path, typed="y\r") as terminal:
            terminal.until("Continue? [y/N] ")
            assert "will be asked about 40 times" in terminal.seen
            assert server.requests == []
            terminal.type(f"{answer}\r")
            assert terminal.end() == code
        assert bool(server.requests) is (code == 0)


@pytest.mark.parametrize("model", ("anthropic:nobodys", "groq:nobodys", "openai:nobodys"))
def test_simulate_asks_no_remote_model_without_yes_or_a_terminal(
    tmp_path: Path, model: str
) -> None:
    done = simulate(*TOWN, "--model", model, cwd=tmp_path, MOOTHALL_KEY="secret")
    assert (done.returncode, done.stdout) == (2, "")
    assert "give --max-usd, --max-calls or --yes" in done.stderr
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("step: 12h", f"step: 12h, llm: '{model}'"))
    done = simulate("e.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "set society.max_calls or max_usd" in done.stderr


EXPERIMENT = """\
name: small
society: {citizens: 10, step: 12h}
metrics: [home]
workflow: [step: 1]
"""


def test_progress_stays_in_one_line_of_a_narrow_terminal(tmp_path: Path) -> None:
    args = ("simulate", *TOWN, "--days", "2")
    with Terminal("-m", "moothall", *args, cwd=tmp_path, columns=30) as terminal:
        assert terminal.end() == 0
        shown = re.findall("\r([^\r\n]*)\x1b", terminal.raw)
    assert max(map(len, shown)) < 30
    # What follows it begins a line.
    assert re.search(r"\r[^\r\n]*100 %[^\r\n]*\x1b\[K\r\n\w", terminal.raw)


def test_experiment_is_swept_and_told(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    swept = ("--sweep", 'facts={"n":[1,2]},null', "--seeds", "2", "--jobs", "2")
    done = simulate("e.yaml", *swept, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("small: 2 seeds\n  home  ")
    assert '{"facts": {"n": [1, 2]}}' in done.stdout
    assert "4 of 4 cells  100 %" in done.stderr
    out = tmp_path / "e-results"
    assert {"results.parquet", "report.html", "home.png"} <= {path.name for path in out.iterdir()}
    rows = pyarrow.parquet.read_table(out / "results.parquet").to_pylist()
    assert [(row["seed"], row["parameters"]) for row in rows] == [
        (seed, f'{{"facts": {facts}}}') for facts in ('{"n": [1, 2]}', "null") for seed in (0, 1)
    ]
    page = html.unescape((out / "report.html").read_text())
    assert (
        """<code>moothall simulate e.yaml --seeds=2 '--sweep=facts={"n":[1,2]},null'</code>"""
        in page
    )
    again = simulate("e.yaml", *swept, "--json", cwd=tmp_path)
    assert [json.loads(line)["kind"] for line in again.stdout.splitlines()] == ["progress", "done"]
    assert "cells" not in again.stderr


def test_experiments_failures_and_metrics_without_values_are_named_at_its_end(
    tmp_path: Path,
) -> None:
    failing = "[{intervene: {status: {mood: 1}, citizens: ['1', '77']}}, step: 1]"
    (tmp_path / "m.py").write_text(
        "from moothall import Society\ndef made(seed, llm): return Society(10, seed=seed)\n"
        "def nothing(society): return None\n"
    )
    made = "make: m.py:made, llm: true"  # a parameter of one's own may be called as a town's
    text = EXPERIMENT.replace("[step: 1]", failing).replace("citizens: 10", made)
    text = text.replace("[home]", "[home, {name: empty, by: m.py:nothing}]")
    (tmp_path / "e.yaml").write_text(text)
    done = simulate("e.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("small: 1 seed\n")
    assert re.search(r"\n  empty +no value in any cell\n", done.stdout)
    first = "step 0, intervention: status: there is no citizen '77'"
    assert done.stdout.endswith(f"  failures: 1, the first in {first}\n")
    again = simulate("e.yaml", "--json", cwd=tmp_path)
    assert json.loads(again.stdout.splitlines()[-1])["failures"] == 1


def test_experiment_on_a_full_disk_has_failed(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import resource\nfrom moothall import Society\n\ndef made(seed):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "    return Society(10, seed=seed)\n"
    )
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("citizens: 10", "make: m.py:made"))
    done = simulate("e.yaml", cwd=tmp_path)
    assert "cannot be written" in done.stderr
    assert (done.returncode, "Usage" in done.stderr) == (1, False)


@pytest.mark.parametrize(
    ("args", "told"),
    (
        (("e.yaml", "--citizens", "20"), "write society.citizens in e.yaml, or --sweep citizens=V"),
        (("e.yaml", "--days", "2"), "without an experiment: write workflow in e.yaml"),
        (("e.yaml", "--journal", "j.db"), "of a town without an experiment: leave it out"),
        (
            ("e.yaml", "--sweep", "feed=true", "--sweep", "feed=false"),
            "--sweep: feed appears twice: give all its values in one",
        ),
        (("e.yaml", "--sweep", "tax"), "must be NAME=VALUE,VALUE, got 'tax'"),
        (("e.yaml", "--sweep", "tax="), "must be NAME=VALUE,VALUE, got 'tax='"),
        (("e.yaml", "--sweep", 'tax="a,b",[1,2'), "--sweep: must be JSON, got '[1,2'"),
        (("e.yaml", "--sweep", "tax=1"), "parameters.tax: the society has no such parameter"),
        (("--seeds", "3"), "--sweep, --seeds, --jobs and --odd are for an EXPERIMENT"),
        (("none.yaml",), "does not exist"),
        (
            ("e.yaml", "--seeds", "9999", "--sweep", "citizens=20000"),
            "9,999 cells, 199,980,000 agent-steps; no terminal to ask at: give --yes",
        ),
        (
            ("e.yaml", "--seeds", "99", "--sweep", "llm=local"),
            "990 agent-steps, and the model asked about 1,188 times; no terminal",
        ),
        (
            ("e.yaml", "--sweep", "llm=openai:m"),
            "asked about 12 times; no terminal to ask at: give --yes, or set society.max_calls",
        ),
        (("e.yaml", "--out", "e.yaml"), "is a file"),
        (("e.yaml", "--odd", "./e.yaml"), "--odd would write over the experiment 'e.yaml'"),
    ),
)
def test_experiment_that_cannot_be_or_is_too_large_is_told(
    tmp_path: Path,
    args: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *args])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err.replace("\n", " ")
    assert {path.name for path in tmp_path.iterdir()} == {"e.yaml"}
