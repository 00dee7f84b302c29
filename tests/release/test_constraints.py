"""The pinned versions agree with one another in each extra, and in what make installs together."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from release.conftest import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TOGETHER = ("all,dev,bench", "all,dev,release", "cli,local,amqp,society,research,studio")

pytestmark = pytest.mark.long  # it asks the index


@pytest.mark.parametrize("extras", (*EXTRAS, *TOGETHER))
def test_constraints_pin_every_package_of_an_extra_without_contradiction(
    extras: str, tmp_path: Path
) -> None:
    words = [word for extra in extras.split(",") for word in ("--extra", extra)]
    resolved = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "compile"),
            *("--quiet", "--no-header", "--no-annotate"),
            *("--constraint", "constraints.txt", *words, "pyproject.toml"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert resolved.returncode == 0, resolved.stderr
    unpinned = versions(resolved.stdout) - versions((ROOT / "constraints.txt").read_text())
    assert not unpinned


def versions(text: str) -> set[str]:
    return {
        line.lower().replace("_", "-").replace(".", "-")
        for line in text.splitlines()
        if "==" in line
    }
