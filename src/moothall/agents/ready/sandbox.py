"""The sandbox of a command: bubblewrap, where it is installed and the system lets it work."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from moothall import CommandError, ConfigError

logger: logging.Logger = logging.getLogger("moothall.agents")

SandboxChoice = Literal["auto", "bwrap", "none"]

_PROBE_S: Final = 10
# What the sandbox hides, with the folders in it that hold the sockets of a person's services.
_HIDDEN: Final = ("/tmp", "/run")
_NEVER_SHOWN: Final = (*_HIDDEN, "/run/user", f"/run/user/{os.getuid()}", "/run/media")
_INSTALL_HINT = 'install bubblewrap (on Debian and Ubuntu: "apt install bubblewrap"), or'


@dataclass(frozen=True)
class Sandbox:
    """Runs a command in bubblewrap.

    The command sees the whole file system, and can write only below its folder and in its own
    `/tmp`, which is deleted at its end. `/run`, with the sockets of the system's services, is
    hidden. The command sees only its own processes, and no network unless `network` is true.
    Folders that are `readable` are there to read, even below `/tmp`; so are this interpreter, its
    packages and the programs of `PATH`.
    """

    program: str
    network: bool = False
    readable: tuple[str, ...] = ()

    def wrap(self, folder: str, command: list[str], pid_fd: int | None = None) -> list[str]:
        """Return the command line that runs a command there, with a folder that it may write to.

        `pid_fd` is a file descriptor: bubblewrap writes the number of its first process there.
        """
        is_root = folder == "/"
        run_paths = ["/run/current-system", "/run/wrappers"]  # NixOS has its programs there
        if self.network:
            run_paths.append("/run/systemd/resolve")  # where /etc/resolv.conf may lead
        return [
            self.program,
            *("--bind" if is_root else "--ro-bind", "/", "/"),
            *("--dev", "/dev"),
            *("--proc", "/proc"),
            # Root can write these without any further privilege.
            *("--ro-bind-try", "/proc/sys", "/proc/sys"),
            *("--tmpfs", "/tmp"),
            *("--tmpfs", "/run"),
            *(word for path in run_paths for word in ("--ro-bind-try", path, path)),
            *(word for path in _program_folders() for word in ("--ro-bind-try", path, path)),
            *(word for path in self.readable for word in ("--ro-bind", path, path)),
            *(() if is_root else ("--bind", folder, folder)),
            *("--unshare-pid", "--unshare-ipc"),
            *(() if self.network else ("--unshare-net",)),
            # Root would keep its privileges, with which it could remove the sandbox.
            *("--cap-drop", "ALL"),
            *(() if pid_fd is None else ("--info-fd", str(pid_fd))),
            "--die-with-parent",
            "--new-session",
            *("--chdir", folder),
            *("--setenv", "TMPDIR", "/tmp"),
            "--",
            *command,
        ]

    def hidden_files_hint(self, folder: str, text: str) -> str:
        """Return what a command that failed should know of the sandbox, by the paths in a text."""
        for path in sorted((folder, *self.readable, *_program_folders()), key=len, reverse=True):
            if path != "/":
                text = text.replace(path, "")
        hidden = [path for path in _HIDDEN if f"{path}/" in text]
        if not hidden:
            return ""
        return f"the sandbox hides the files of this machine below {' and '.join(hidden)}"


def sandbox_for(choice: SandboxChoice, network: bool = False) -> Sandbox | None:
    """Return the chosen sandbox, or None if commands run without one; the log says why, once."""
    if choice not in get_args(SandboxChoice):
        raise ConfigError(f'sandbox= must be "auto", "bwrap" or "none", got {choice!r}')
    if choice == "none":
        return None
    sandbox = _probe(os.environ.get("PATH", os.defpath), network)
    if isinstance(sandbox, Sandbox):
        return sandbox
    if choice == "bwrap":
        raise CommandError(f'{sandbox}: {_INSTALL_HINT} choose sandbox="none"')
    _warn_once(sandbox)
    return None


def _program_folders() -> list[str]:
    """Return the folders below hidden ones that hold this interpreter and the programs of PATH."""
    paths = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    paths += sys.path  # of packages that are installed from where they are written
    for path in os.environ.get("PATH", os.defpath).split(os.pathsep):
        # A program's libraries lie beside its folder.
        paths += (path, os.path.dirname(path)) if os.path.isabs(path) else ()
    return list(dict.fromkeys(_below_hidden(paths)))


def _below_hidden(paths: Iterable[str]) -> Iterator[str]:
    for path in filter(None, paths):
        for each in (os.path.abspath(path), os.path.realpath(path)):
            if each.startswith(tuple(f"{top}/" for top in _HIDDEN)) and each not in _NEVER_SHOWN:
                yield each


@functools.cache
def _probe(path: str, network: bool) -> Sandbox | str:
    """Return the sandbox if it works, else the reason why not."""
    program = shutil.which("bwrap", path=path)
    if program is None:
        return "bwrap is not installed"
    sandbox = Sandbox(os.path.abspath(program), network)
    try:
        probe = subprocess.run(
            sandbox.wrap(os.path.realpath("/tmp"), ["/bin/sh", "-c", ":"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not work here ({error})"
    if probe.returncode:
        reason = probe.stderr.decode(errors="replace").strip()[-300:] or f"code {probe.returncode}"
        return f"bwrap does not work here ({reason})"
    return sandbox


@functools.cache
def _warn_once(reason: str) -> None:
    logger.warning("%s: commands run without a sandbox, as the user of this program", reason)
