"""`.ci/run`, on small projects: a test that fails, and passes alone, is flaky, and all is green."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CI = ROOT / ".ci"
MAKEFILE = """\
test:
	@.venv/bin/python -m pytest -p no:cacheprovider {options} $(ARGS)
"""
# A test that appends to a file, so that it knows how often it was run.
RUNS = """\
import os
from pathlib import Path

import pytest


def runs(name):
    with Path(name).open("a+") as file:
        file.write(f"{os.getpid()}\\n")
    return Path(name).read_text().split()

"""
FAILS_ONCE = "def test_once(): assert len(runs('once')) > 1\n"
PASSES = "def test_fine(): pass\n"


def ci(folder: Path, tests: str, options: str = "") -> tuple[int, list[str]]:
    """Run it over a project of one test file: its exit status, and the lines that it prints."""
    shutil.copytree(CI, folder / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "Makefile").write_text(MAKEFILE.format(options=options))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = long\naddopts = -m 'not long'\n")
    (folder / "test_it.py").write_text(RUNS + tests)
    # `.ci/run` and make, where they run this test, tell theirs through the environment.
    theirs = ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if name not in theirs}
    done = subprocess.run(
        [".ci/run"],
        cwd=folder,
        env=env | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def counts(line: str) -> str:
    """What a closing line counts."""
    bar, text = line.split(" ", 1)
    assert set(bar) == {"="}
    return text.split(" in ")[0]


def test_ci_ends_with_the_last_line_of_pytest(tmp_path: Path) -> None:
    status, lines = ci(tmp_path, PASSES)
    assert (status, counts(lines[-1])) == (0, "1 passed")


def test_ci_failure_that_passes_alone_is_flaky(tmp_path: Path) -> None:
    tests = """\
@pytest.mark.xdist_group("some")
@pytest.mark.parametrize("name", ("a b", "c::d@e", "fine"))
def test_once(name): assert name == "fine" or len(runs(name)) > 1

@pytest.fixture
def ends_badly():
    yield
    assert len(runs("ends")) > 1

def test_passes_and_ends_badly(ends_badly): pass
def test_fails_and_ends_badly(ends_badly): assert len(runs("fails")) > 1

@pytest.mark.long
def test_is_not_run(): assert False
"""
    status, lines = ci(tmp_path, tests, "-p xdist -n 1 --dist loadgroup")
    assert (status, counts(lines[-1])) == (0, "5 passed, 4 flaky")
    assert sorted(line for line in lines if line.startswith("flaky")) == [
        "flaky test_it.py::test_fails_and_ends_badly",
        "flaky test_it.py::test_once[a b]",
        "flaky test_it.py::test_once[c::d@e]",
        "flaky test_it.py::test_passes_and_ends_badly",
    ]


def test_ci_failure_that_fails_again_is_red(tmp_path: Path) -> None:
    status, lines = ci(tmp_path, PASSES + FAILS_ONCE + "def test_never(): assert False\n")
    assert (status, counts(lines[-1])) == (2, "2 failed, 1 passed")
    assert not [line for line in lines if line.startswith("flaky")]


@pytest.mark.long
def test_tests_that_fail_together_are_run_each_in_its_own_process(tmp_path: Path) -> None:
    tests = """\
@pytest.mark.parametrize("name", "ab")
def test_once(name):
    ran = runs("both")
    assert len(set(ran)) > 1 and ran.count(str(os.getpid())) == 1
"""
    status, lines = ci(tmp_path, tests)
    assert (status, counts(lines[-1])) == (0, "2 passed, 2 flaky")


@pytest.mark.long
def test_ci_test_whose_worker_crashed_is_run_alone(tmp_path: Path) -> None:
    tests = "def test_crash():\n    if len(runs('crash')) == 1: os._exit(1)\n"
    status, lines = ci(tmp_path, PASSES + tests, "-p xdist -n 1")
    assert (status, counts(lines[-1])) == (0, "2 passed, 1 flaky")


@pytest.mark.parametrize(
    ("tests", "counted"),
    (
        # More than five.
        (
            "@pytest.mark.parametrize('n', range(6))\n"
            "def test_once(n): assert len(runs('once')) > 6\n",
            "6 failed",
        ),
        # Not every test was run.
        (FAILS_ONCE + "if len(runs('read')) == 1: raise OSError\n", "1 error"),
        (FAILS_ONCE + "def test_stops(): pytest.exit('enough')\n", "1 failed"),
    ),
    ids=("six", "unreadable", "stopped"),
)
@pytest.mark.long
def test_ci_failures_that_are_not_repeated_are_red(
    tmp_path: Path, tests: str, counted: str
) -> None:
    status, lines = ci(tmp_path, tests)
    assert (status, counts(lines[-1])) == (2, counted)
    assert sum("test session starts" in line for line in lines) == 1


ALOUD = CI.parent / "scripts" / "aloud"


@pytest.mark.long
def test_aloud_tells_of_a_long_command_while_it_runs(tmp_path: Path) -> None:
    wait = f"while [ ! -s {tmp_path / 'told'} ]; do :; done; echo over; exit 3"
    with (tmp_path / "told").open("w") as told:
        done = subprocess.run(
            [ALOUD, "Working", "sh", "-c", wait],
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (3, "over\n")
    assert (tmp_path / "told").read_text() == "Working, for 5 s ...\n"


def test_aloud_is_silent_about_a_short_command() -> None:
    done = subprocess.run(
        [ALOUD, "Working", "echo", "over"], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_ci_run_that_stands_still_is_ended_and_begun_again(tmp_path: Path) -> None:
    tests = """\
def test_once():
    if len(runs('once')) == 1:
        __import__('threading').Event().wait()
"""
    status, lines = ci(tmp_path, PASSES + tests, "--silence=4")
    assert (status, counts(lines[-1])) == (0, "2 passed")
    assert "stood still test_it.py::test_once" in lines


@pytest.mark.long
@pytest.mark.long
def test_ci_run_that_stands_still_twice_fails(tmp_path: Path) -> None:
    waits = "def test_never():\n    __import__('threading').Event().wait()\n"
    status, _ = ci(tmp_path, waits, "--silence=4")
    assert status != 0


def test_workflows_and_contributing_name_targets_that_make_has() -> None:
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.M))
    targets = {name for names in targets for name in names.split()}
    files = [*(ROOT / ".github" / "workflows").iterdir(), ROOT / "CONTRIBUTING.md"]
    named = {
        name
        for file in files
        for name in re.findall(r"(?:run: |\$ |`)make ([a-z-]+)", file.read_text())
    }
    assert {"check", "test-core", "test-docs"} <= named <= targets
