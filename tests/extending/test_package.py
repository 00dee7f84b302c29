"""A package of another's adds a tab, a command and a kind of runs, by entry points alone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from commands import Command, run
from moothall.build import Extension
from packages import wheel
from serving.company.conftest import until

COURIER = wheel(Path(__file__).with_name("courier"))
TOKEN = "t" * 20
BROKEN = {
    "unimportable": "raise RuntimeError('no \\x1b[31mmap')",
    "wordless": "raise SystemExit(7)",
    "wrong": "command = CourierTab = 3",
    "tab_fails": "def CourierTab(studio):\n    raise KeyError('town')\ncommand = None",
    "misnamed": "from moothall.studio import Tab\n"
    "class CourierTab(Tab):\n    name, title = 'a/b', 'A'\n"
    "    def __init__(self, studio): pass\ncommand = None",
    "routeless": "from moothall.studio import Tab\n"
    "class CourierTab(Tab):\n    name = title = 'lost'\n"
    "    def __init__(self, studio): pass\n    def routes(self, router): 1 / 0\ncommand = None",
}
"""Modules of packages that cannot be used, each by its name."""


def with_packages(*folders: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **more}


def broken_packages(folder: Path) -> Path:
    """Packages that cannot be used, each for another reason, and one that takes a name of ours."""
    for name, code in BROKEN.items():
        package(
            folder,
            name,
            f"[moothall.commands]\n{name} = {name}:command\n[moothall.tabs]\n"
            f"{name} = {name}:CourierTab\n[moothall.kinds]\nCourier2 = {name}:resume\n",
        )
        (folder / f"{name}.py").write_text(code)
    package(folder, "taker", "[moothall.commands]\nruns = wrong:command\n")
    return folder


def package(folder: Path, name: str, entry_points: str) -> None:
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)


class Page:
    """What a page asks of a studio that runs in a process of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.url + path, data, headers), timeout=30) as answer:
                text = answer.read().decode()
        except HTTPError as error:
            text = error.read().decode()
        return json.loads(text) if text[:1] in ("{", "[") else text

    def until_run(self, run: str, state: str) -> None:
        self.until(lambda: self.run(run) == state)

    def until(self, is_there: Callable[[], bool]) -> None:
        asyncio.run(asyncio.wait_for(until(is_there), 40))

    def run(self, run: str) -> str | None:
        rows = {each["id"]: each["state"] for each in self("studio/runs/list")}
        return rows.get(run)


@contextmanager
def studio(folder: Path, **more: str) -> Iterator[tuple[Command, Page]]:
    environment = with_packages(COURIER, **{"MOOTHALL_STUDIO_TOKEN": TOKEN, **more})
    started = Command(
        *("studio", "--port", 0, "--journal", folder / "runs.db"),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with started:
        try:
            assert started.stdout is not None
            address = re.search(r"http://\S+/", started.stdout.readline())
            assert address is not None
            yield started, Page(address[0])
        finally:
            started.kill()


def test_command_of_a_package_is_listed_runs_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    environment = with_packages(COURIER)
    how: dict[str, Any] = {"cwd": tmp_path, "env": environment}
    book = ("--journal", "runs.db")
    assert "  courier       Deliver at PLACES in the round NAME." in run("--help", **how).stdout
    assert "Did you mean 'courier'?" in run("courir", **how).stderr
    assert "Usage: moothall courier [OPTIONS] NAME" in run("help", "courier", **how).stdout
    places = ("courier", "r1", "home", "shop", "farm", *book)
    killed = run(*places, cwd=tmp_path, env=environment | {"DIES_AT": "shop"})
    assert (killed.returncode, killed.stdout) == (-9, "rang at home\nrang at shop\n")
    again = run(*places, **how)
    assert again.returncode == 1
    assert "--done 1=RESULT" in again.stderr
    shown = run("runs", "r1", *book, **how).stdout
    assert "moothall resume r1 --skip --journal runs.db" in shown
    assert run("resume", "r1", *book, **how).returncode == 1
    resumed = run("resume", "r1", "--done", "1=shop", *book, **how)
    assert (resumed.returncode, resumed.stdout) == (0, "rang at farm\nhome shop farm\n")
    again = run("resume", "r1", *book, **how)
    assert (again.returncode, again.stdout) == (0, "home shop farm\n")
    data = json.loads(run("resume", "r1", "--json", *book, **how).stdout)
    assert data["over"] == {"reason": "done", "text": "home shop farm"}
    assert run(*places, **how).stdout == "round r1: done\n"
    found = run("runs", "--tag", "to=home shop farm", *book, **how).stdout
    assert "\n1 run:" in found


def test_step_of_a_package_that_is_skipped_lets_its_run_go_on(tmp_path: Path) -> None:
    how: dict[str, Any] = {"cwd": tmp_path, "env": with_packages(COURIER)}
    book = ("--journal", "runs.db")
    run("courier", "r1", "shop", "farm", *book, cwd=tmp_path, env=how["env"] | {"DIES_AT": "shop"})
    resumed = run("resume", "r1", "--skip", *book, **how)
    assert (resumed.returncode, resumed.stdout) == (0, "rang at farm\nNone farm\n")


def test_run_of_a_package_that_waits_is_told_in_one_line_and_goes_on(tmp_path: Path) -> None:
    how: dict[str, Any] = {"cwd": tmp_path, "env": with_packages(COURIER)}
    book = ("--journal", "runs.db")
    run("courier", "r1", "desk", "shop", *book, **how)
    resumed = run("resume", "r1", *book, **how)
    assert resumed.returncode == 1
    (line,) = resumed.stderr.splitlines()
    assert line.startswith("moothall: run r1 is waiting: for the result 'signature' of ring()")
    assert run("answer", "r1", "signature", "eva", *book, **how).returncode == 0
    assert run("resume", "r1", *book, **how).stdout.splitlines()[0] == "rang at shop"


def test_run_of_a_kind_that_no_package_resumes_is_told_the_nearest_that_one_does(
    tmp_path: Path,
) -> None:
    package(tmp_path / "misspelt", "rounds", "[moothall.kinds]\nCurier = courier:deliver\n")
    book = ("--journal", "runs.db")
    how: dict[str, Any] = {"cwd": tmp_path, "env": with_packages(tmp_path / "misspelt")}
    environment = with_packages(COURIER, DIES_AT="shop")
    run("courier", "r1", "shop", *book, cwd=tmp_path, env=environment)
    for decision in (("--repeat",), ()):
        refused = run("resume", "r1", *decision, *book, **how)
        assert refused.returncode == 1
        assert "no installed package resumes the kind 'Courier' (did you mean 'Curier'?)" in (
            refused.stderr
        )
        assert "run the program of Courier again with run_id='r1'" in refused.stderr
        waits = run("waiting", *book, **how).stdout
        assert waits.endswith("  its program goes on with it\n")
    told = run("waiting", *book, cwd=tmp_path, env=with_packages(COURIER)).stdout
    assert "  its program, or `moothall resume r1 --journal runs.db`, goes on with it" in told


def test_tab_of_a_package_works_and_its_run_goes_on_after_a_kill_of_the_studio(
    tmp_path: Path,
) -> None:
    with studio(tmp_path, DIES_AT="shop") as (process, page):
        assert "Courier" in page("courier")
        assert "mount(root)" in page("studio/static/tabs/courier.js")
        begin = "studio/courier/forms/new"
        wrong = page(begin, {"name": "r1", "places": ""})
        assert wrong == {"error": "the places are empty: say where to deliver", "field": "places"}
        assert page(begin, {"name": "r1", "places": ["x"]})["field"] == "places"
        assert page(begin, {"town": "x"})["error"] == "the form has no field 'town'"
        assert page("studio/courier/forms/x", {})["error"].startswith("there is no form 'x'")
        with suppress(OSError, HTTPException):  # it may die before it has answered
            page(begin, {"name": "r1", "places": "home shop farm"})
        assert process.wait(30) == -9
    with studio(tmp_path) as (_, page):
        page.until_run("r1", "in_doubt")
        refused = page("studio/act/resume", {"run": "r1"})["error"]
        assert "it is unknown whether ring took effect" in refused
        page("studio/runs/decide?run=r1", {"1": {"done": "shop"}})
        assert page("studio/act/resume", {"run": "r1", "text": "hurry"})["error"] == (
            "a run of Courier takes no limits and no message"
        )
        assert page("studio/act/resume", {"run": "r1"}) == {"run": "r1"}
        page.until_run("r1", "done")
        assert page("studio/courier/rounds") == [{"run": "r1", "state": "done"}]
        assert "has ended" in page("studio/act/resume", {"run": "r1"})["error"]


def test_run_of_a_package_is_stopped_and_resumed_by_the_button(tmp_path: Path) -> None:
    with studio(tmp_path) as (_, page):
        begin = "studio/courier/forms/new"
        page(begin, {"name": "r2", "places": "home nobody"})
        page.until_run("r2", "running")
        assert (
            page(begin, {"name": "r2", "places": "x"})["error"] == "run 'r2' is under way already"
        )
        told = page("studio/act/steer", {"run": "r2", "text": "x"})
        assert "takes no message" in told["error"]
        (row,) = page("studio/runs/list")
        assert row["job"] == "running"
        page.until(lambda: page("studio/runs/list")[0]["actions"] == 2)  # it has rung twice
        page("studio/act/stop", {"run": "r2"})
        page.until_run("r2", "in_doubt")
        decision = {"1": {"done": "nobody"}}  # refused as long as its task has not ended
        page.until(lambda: "error" not in page("studio/runs/decide?run=r2", decision))
        page.until(lambda: "error" not in page("studio/act/resume", {"run": "r2"}))
        page.until_run("r2", "done")


def test_packages_that_cannot_be_used_are_named_and_the_others_work(tmp_path: Path) -> None:
    environment = with_packages(
        broken_packages(tmp_path / "packages"), COURIER, MOOTHALL_STUDIO_TOKEN=TOKEN
    )
    how: dict[str, Any] = {"cwd": tmp_path, "env": environment}
    listed = run("--help", **how)
    assert listed.returncode == 0
    assert {*BROKEN, "courier"} <= {*re.findall(r"^  (\w+)  ", listed.stdout, re.M)}
    assert "the command 'runs' of taker 1.0 is left out" in listed.stderr
    for name, words in (
        ("unimportable", "RuntimeError: no [31mmap"),
        ("wordless", "SystemExit: 7"),
        ("wrong", "it must be a click.Command, got 3"),
    ):
        told = run(name, **how)
        assert told.returncode == 2
        assert f"the command '{name}' of {name} 1.0 cannot be used: {words}" in told.stderr
        assert "Traceback" not in told.stderr
    assert run("runs", "--help", **how).returncode == 0
    without = run("courier", "r1", "home", **how)
    assert without.returncode == 2
    assert "give --journal PATH, or set MOOTHALL_JOURNAL" in without.stderr
    assert "round" in run("courier", "r1", "home", "--journal", "runs.db", **how).stdout
    with Command(
        *("studio", "--port", 0, "--journal", tmp_path / "runs.db"),
        **how,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            address = re.search(r"http://\S+/", started.stdout.readline())
            assert address is not None
            page = Page(address[0])
            shell = page("courier")
            assert page("studio/courier/rounds")[0]["run"] == "r1"
            for name in BROKEN:
                assert f"the tab &#x27;{name}&#x27; of {name} 1.0" in shell
            assert page("studio/runs/list")
        finally:
            started.kill()
        told = started.communicate()[1]
    assert told.count("moothall studio: left out: the tab ") == len(BROKEN)


@pytest.mark.parametrize("shell", ("bash", "fish"))
def test_command_of_a_package_is_completed_beside_broken_ones(tmp_path: Path, shell: str) -> None:
    environment = with_packages(broken_packages(tmp_path / "packages"), COURIER)
    words = {
        "_MOOTHALL_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "moothall co",
        "COMP_CWORD": "co" if shell == "fish" else "1",
    }
    told = run(cwd=tmp_path, env=environment | words)
    assert "courier" in told.stdout
    assert "Traceback" not in told.stderr


def test_package_whose_entry_points_are_garbled_is_named_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package(tmp_path, "garbled", "[moothall.commands]\nno equals sign\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(COURIER)
    assert Extension.all_of("moothall.commands")["courier"].package == "courier 1.2"
    assert "package 'garbled': its entry points cannot be read" in caplog.text
