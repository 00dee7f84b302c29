"""The targets of the Makefile that people run first, in a fresh copy of the tree."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from release.conftest import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A clone, with what is not committed yet; its environment is its own."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    tree = tmp_path / "moothall"
    for name in tracked:
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def make(tree: Path, target: str) -> None:
    done = subprocess.run(["make", target], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(tree: Path, *args: str) -> None:
    python = tree / ".venv" / "bin" / "python"
    done = subprocess.run(
        [python, *args],
        cwd=tree,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_make_docs_builds_the_site_from_nothing(fresh: Path) -> None:
    make(fresh, ".venv/.docs")
    run(fresh, "-m", "mkdocs", "build", "--strict", "--quiet")
    assert (fresh / "build" / "site" / "reference" / "moothall-testing.html").exists()


def test_make_studio_opens_the_page_from_nothing(fresh: Path) -> None:
    make(fresh, ".venv/.studio")
    make(fresh, "weights")
    with subprocess.Popen(
        [fresh / ".venv" / "bin" / "python", "examples/studio.py", "0"],
        cwd=fresh,
        stdout=subprocess.PIPE,
        text=True,
    ) as studio:
        assert studio.stdout is not None
        line = next(each for each in studio.stdout if "http://127.0.0.1:" in each)
        address = next(each for each in line.split() if each.startswith("http://"))
        with urlopen(address, timeout=30) as page:
            assert page.status == 200
        studio.send_signal(signal.SIGINT)
        studio.wait(60)


def test_make_dist_builds_and_checks_what_is_uploaded_from_nothing(fresh: Path) -> None:
    make(fresh, "dist")
    assert {each.suffix for each in (fresh / "dist").iterdir()} == {".whl", ".gz"}


def test_make_bench_finds_its_peers_from_nothing(fresh: Path) -> None:
    make(fresh, ".venv/.bench")
    run(fresh, "-m", "benchmarks", "--help")
