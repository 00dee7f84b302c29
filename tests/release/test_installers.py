"""The distribution by the installers that people use beside pip: each runs the command."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from uv import find_uv_bin

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
ANSWER = """\
from moothall import ReActAgent, ScriptedModel
print(ReActAgent("shop", ScriptedModel(["three"])).reply_sync("How many?").text)
"""


def run(folder: Path, *command: str | Path) -> str:
    """Run uv, or a program that it gets, with a home of its own; return what it prints."""
    homes = {"PIPX_HOME": "pipx", "POETRY_CACHE_DIR": "poetry", "HOME": "home"}
    its = {name: str(folder / where) for name, where in homes.items()}
    environment = os.environ | its | {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        [find_uv_bin(), *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=("*.whl", "*.tar.gz"), ids=("wheel", "sdist"))
def distribution(request: pytest.FixtureRequest, wheel: Path) -> Path:
    return next(wheel.parent.glob(request.param))


@pytest.mark.parametrize(
    "command",
    (("tool", "run", "--from"), ("tool", "run", "pipx", "run", "--spec")),
    ids=("uvx", "pipx"),
)
def test_installers_run_the_command_without_installing_it(
    distribution: Path, tmp_path: Path, command: Sequence[str]
) -> None:
    assert "moothall, version" in run(tmp_path, *command, distribution, "moothall", "--version")


def test_uv_adds_it_to_a_project(distribution: Path, tmp_path: Path) -> None:
    run(tmp_path, "init", "--bare", "--name", "shop")
    run(tmp_path, "add", f"moothall[cli] @ {distribution.as_uri()}")
    assert run(tmp_path, "run", "python", "-c", ANSWER) == "three\n"


def test_poetry_adds_it_to_a_project(distribution: Path, tmp_path: Path) -> None:
    poetry = ("tool", "run", "poetry")
    run(tmp_path, *poetry, "init", "-n", "--name", "shop", "--python", ">=3.11,<4")
    run(tmp_path, *poetry, "add", f"{distribution}[cli]")
    assert run(tmp_path, *poetry, "run", "python", "-c", ANSWER) == "three\n"
