"""A user without a home folder, as in a container that runs under a number of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAID = "the user has no home folder: set HOME, or MOOTHALL_HOME for weights and XDG_STATE_HOME for"


def homeless(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user of whom the system knows nothing but a number."""
    assert shutil.which("bwrap"), "the tests need bubblewrap: apt install bubblewrap"
    number = ["--unshare-user", "--uid", "54321", "--gid", "54321"]
    # A new interpreter: what reads HOME as it starts must find none.
    command = ["bwrap", "--dev-bind", "/", "/", *number, sys.executable, "-m", "moothall", *args]
    (folder / "bees.md").write_text("# Bees\n\nBees sleep for five hours.\n")
    its = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(command, cwd=folder, env=its, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "args",
    (
        ("models",),
        ("research", "How long do bees sleep?", "--folder", "."),
        ("studio", "--port", "0"),
        ("chat",),
        ("act", "Count the bees."),
    ),
    ids=lambda args: args[0],
)
def test_command_of_a_user_without_a_home_folder_names_what_to_set(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    done = homeless(tmp_path, *args)
    assert done.returncode in (1, 2)
    assert SAID in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_command_of_a_user_without_a_home_folder_works_once_its_folders_are_named(
    tmp_path: Path,
) -> None:
    folders = {"MOOTHALL_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    asked = ("research", "How long do bees sleep?", "--folder", ".")
    done = homeless(tmp_path, *asked, **folders)
    assert done.returncode == 0, done.stderr
    assert "five hours" in done.stdout
