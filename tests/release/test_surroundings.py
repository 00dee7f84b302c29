"""Twelve programs of a user's first day run in the surroundings that users have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from packages import outside
from release.conftest import ROOT


def found(version: str) -> str | None:
    """A Python of a version that runs, of this machine or brought by `scripts/pythons`."""
    name = f"python{version}"
    for python in (shutil.which(name), shutil.which(name, path=ROOT / "build/pythons/usr/bin")):
        if python and not subprocess.run([python, "-V"], capture_output=True).returncode:
            return python
    return None


FOLDER = Path(__file__).with_name("surroundings")
PROGRAMS = (
    *("reply", "stream", "approval", "journal", "memory", "space"),
    *("conversation", "dual_act", "door", "town", "research", "studio"),
)
DRIVEN = ("spawn", "fork", "threads", "gevent", "uvloop", "nest_asyncio", "streamlit")
OWN_PACKAGES = {"gevent", "uvloop", "nest_asyncio", "streamlit"}
OPTIONS = {"without asserts and docstrings": ("-OO",), "warnings are errors": ("-W", "error")}
ENVIRONMENTS = {
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "proxies": {
        "HTTPS_PROXY": "socks5://127.0.0.1:9",
        "ALL_PROXY": "socks5h://127.0.0.1:9",
        "HTTP_PROXY": "127.0.0.1:9",
    },
}
REFUSED = {
    ("read-only", "research"): "the user has no home folder: set HOME",
    **{
        ("gevent", each): "use a process that gevent has not patched"
        for each in ("space", "town", "studio", "door")
    },
}
"""What does not run says why in these words."""
ENVIRONS = {"oldest": (sys.executable, "lowest-direct"), "newest": (sys.executable, "highest")}
"""Environments of their own: the Python, and which versions the bounds are resolved to."""
for later in ("3.12", "3.13", "3.14"):
    if python := found(later):
        ENVIRONS[f"Python {later}"] = (python, "highest")
EXTRAS = ("cli", "mcp", "research", "society", "studio")
FORKED = ("fork", "warnings are errors")
"""Their programs begin in an interpreter of these options that has imported moothall already."""
IN_MAKE_TEST = ("fork", "warnings are errors", "read-only")
SURROUNDINGS = (
    *(*DRIVEN, *OPTIONS, *ENVIRONMENTS, *ENVIRONS),
    *("read-only", "without weights and keys"),
)


@cache
def added(package: str, folder: Path) -> Path:
    """A folder with a package and what it needs, for PYTHONPATH."""
    uv = [sys.executable, "-m", "uv", "--quiet", "pip", "install", "--python", sys.executable]
    subprocess.run(
        [*uv, "--target", folder, package],
        check=True,
        env={**os.environ, **outside()},
        timeout=300,
    )
    return folder


@cache
def made(name: str, folder: Path, wheel: Path) -> Path:
    """The Python of an environment with the wheel, and the versions that its bounds allow."""
    its, resolution = ENVIRONS[name]
    uv = [sys.executable, "-m", "uv", "--quiet"]
    python, file = folder / "bin" / "python", folder.with_suffix(".txt")
    extras = [word for each in EXTRAS for word in ("--extra", each)]
    for each in (
        [*uv, "venv", "--python", its, folder],
        [
            *(*uv, "pip", "compile", "--python", python, "--resolution", resolution),
            *("-o", file, *extras, "pyproject.toml"),
        ],
        [*uv, "pip", "install", "--python", python, "-r", file],
        [*uv, "pip", "install", "--python", python, "--no-deps", wheel],
    ):
        done = subprocess.run(each, cwd=ROOT, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return python


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "surroundings",
    [
        pytest.param(each, marks=() if each in IN_MAKE_TEST else pytest.mark.long)
        for each in SURROUNDINGS
    ],
)
def test_program_runs_in_surroundings(
    surroundings: str,
    program: str,
    tmp_path: Path,
    packages: Path,
    request: pytest.FixtureRequest,
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.endswith(("_KEY", "_TOKEN"))}
    environment |= ENVIRONMENTS.get(surroundings, {})
    options = OPTIONS.get(surroundings, ())
    command: list[str | Path] = [sys.executable, *options]
    if surroundings in ENVIRONS:
        wheel = request.getfixturevalue("wheel")
        command = [made(surroundings, packages / surroundings.replace(" ", ""), wheel)]
        environment = {k: v for k, v in environment.items() if not k.startswith("PYTHON")}
    if surroundings in DRIVEN:
        command += [FOLDER / "drivers.py", surroundings, program, tmp_path]
    else:
        command += [FOLDER / "programs.py", program, tmp_path]
    if surroundings in OWN_PACKAGES:
        environment["PYTHONPATH"] = str(added(surroundings, packages / surroundings))
    if surroundings == "without weights and keys":
        environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    if surroundings == "read-only":
        # Neither a home nor a place for temporary files, as a user whom the system does not know.
        environment = {"PATH": environment["PATH"]}
        command = [
            *("bwrap", "--unshare-user", "--uid", "12345", "--ro-bind", "/", "/"),
            *("--dev", "/dev", "--proc", "/proc", "--bind", tmp_path, tmp_path, "--chdir", "/"),
            *command,
        ]
    how: dict[str, Any] = {"env": environment, "timeout": 300}
    if surroundings in FORKED:
        script, *args = (str(each) for each in command if each not in (sys.executable, *options))
        done = run_command(*args, script=Path(script), options=options, **how)
    else:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    refusal = REFUSED.get((surroundings, program))
    assert done.stdout.split() == ([] if refusal else [program]), done.stderr
    assert not refusal or refusal in done.stderr


def test_public_names_are_all_there_without_a_home_and_a_temporary_folder() -> None:
    jail = ("bwrap", "--unshare-user", "--uid", "12345", "--ro-bind", "/", "/", "--dev", "/dev")
    done = subprocess.run(
        [*jail, "--chdir", "/", sys.executable, "-c", "from moothall import *; print(Skills)"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


STREAMLIT_PAGE = """
from streamlit.testing.v1 import AppTest

page = AppTest.from_file("chat_page.py", default_timeout=60).run()
page.chat_input[0].set_value("Is there tea?").run()
assert not page.exception, page.exception[0].message
print([(each.name, each.markdown[0].value) for each in page.chat_message])
"""


@pytest.mark.long
@pytest.mark.timeout(400)
def test_streamlit_program_of_the_documentation_answers(tmp_path: Path, packages: Path) -> None:
    page = (ROOT / "docs" / "howto" / "beside.md").read_text()
    text = page.partition('```python title="chat_page.py"\n')[2].partition("```")[0]
    (tmp_path / "chat_page.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", STREAMLIT_PAGE],
        env={**os.environ, "PYTHONPATH": str(added("streamlit", packages / "streamlit"))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout == "[('user', 'Is there tea?'), ('assistant', 'There is tea.')]\n", (
        done.stderr
    )
