"""The distribution as a user's pip gets it, built once, and empty environments to install it in."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from packages import outside

ROOT = Path(__file__).resolve().parent.parent.parent
Install = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """Have programs trust the authorities of the system: these tests ask the index."""
    its = outside()
    del os.environ["SSL_CERT_FILE"]
    os.environ.update(its)


def build(to: Path, **environment: str) -> Path:
    """Build the source distribution, and the wheel from it; return the wheel."""
    subprocess.run(
        [sys.executable, "-m", "build", "--quiet", "--outdir", to, ROOT],
        check=True,
        env={**os.environ, **environment},
        timeout=300,
    )
    return next(to.glob("*.whl"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def install(wheel: Path, tmp_path: Path) -> Install:
    """Make an empty environment with the wheel, an extra and nothing else; return its Python."""

    def installed(extras: str, constraints: Path = ROOT / "constraints.txt") -> Path:
        folder = tmp_path / "environment"
        venv.create(folder)
        python = folder / "bin" / "python"
        named = f"moothall[{extras}] @ {wheel.as_uri()}" if extras else str(wheel)
        pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--no-input"]
        subprocess.run([*pip, "install", "-c", constraints, named], check=True, timeout=900)
        return python

    return installed
