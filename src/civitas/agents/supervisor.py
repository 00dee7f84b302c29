"""A small program that runs one command and sees to it that nothing of the command outlives it.

    python supervisor.py PARENT REPORT MAX_FILE_BYTES [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]

The process that starts it holds the other end of its standard input. The command ends by itself, or
when that end closes, which it does however its holder dies, or on SIGTERM. Then every process that
descends from it is killed, whatever group or session it went into: on Linux this program is their
"subreaper", so that those whose parents die become its own children, and while one is left, the
system says so. Elsewhere only the command's process group is killed.

To REPORT, a handle, it writes how that went: the command's exit code (negative: a signal's number),
or `error` and the number of the system's error if it could not be started, and `survivors` if a
process is left that cannot be killed. Nothing of the command's own is there if it was killed, or if
it killed the process that waits for it.

It is started for every command, so it loads little, and nothing else of this package. It is a
process of its own because a subreaper takes every orphan below it, and those of the user's program
are not ours to take.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_S = 5.0
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ", "SIGXFZ")


def _prctl(option: int, value: int) -> bool:
    """Ask the kernel, if it is Linux."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _start(
    program: list[str], environment: dict[str, str], report: int, max_file_bytes: int
) -> None:
    """Become the program, as the leader of a session."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for name in (*_IGNORED_BY_PYTHON, "SIGTERM", "SIGINT", "SIGHUP", "SIGCHLD"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
        if max_file_bytes >= 0:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            if hard != resource.RLIM_INFINITY:
                max_file_bytes = min(max_file_bytes, hard)
            resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execve(program[0], program, environment)
    except OSError as error:
        os.write(report, b"error %d\n" % (error.errno or 0))


def _fork(parent: int) -> int:
    """Fork; the child is killed when its parent dies, which is the process given."""
    child = os.fork()
    if not child:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    return child


def _wait(
    program: list[str], environment: dict[str, str], report: int, max_file_bytes: int
) -> None:
    """Run the command in a child, and report its exit code."""
    command = _fork(os.getpid())
    if not command:
        try:
            _start(program, environment, report, max_file_bytes)
        finally:
            os._exit(127)
    # Copies of the output would keep that open for as long as this process lives.
    _be_quiet()
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    os.write(report, b"%d\n" % code)


def _be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _reap(ended: dict[int, int]) -> bool:
    """Add the children that have ended, each with its exit code; say whether others are left."""
    try:
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return True
            ended[child] = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        return False


def _children(me: int) -> list[int]:
    """The processes whose parent this one is, those that have ended but for us included."""
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        pass  # a kernel without that list
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    stat = file.read()
            except OSError:
                continue  # it is gone
            # The name of the program, in parentheses, may hold anything.
            if int(stat.rpartition(b")")[2].split()[1]) == me:
                found.append(int(name))
    return found


def _kill(child: int, own_group: int) -> None:
    """Kill a child with all of its group.

    At once, so that its members cannot start others faster than they are killed. A child's numbers
    are its own until it is reaped.
    """
    try:
        group = os.getpgid(child)
        if group != own_group:
            os.killpg(group, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
    except OSError:
        pass  # it has ended, or is another user's by now


def _kill_all(me: int, wakeup: int) -> bool:
    """Kill every descendant, and say whether none is left."""
    own_group = os.getpgrp()
    end = time.monotonic() + _KILL_S
    while True:
        # What is further down comes up when its parent dies, and is killed in the next round.
        for child in _children(me):
            _kill(child, own_group)
        if not _reap({}):
            return True
        left = end - time.monotonic()
        if left <= 0:
            return False
        # A child that dies wakes this up.
        if select.select([wakeup], [], [], left)[0]:
            os.read(wakeup, 4096)


def main(arguments: list[str]) -> None:
    """Run one command."""
    split = arguments.index("--")
    parent, report, max_file_bytes = (int(argument) for argument in arguments[:3])
    environment = dict(argument.split("=", 1) for argument in arguments[3:split])
    os.set_inheritable(report, False)
    me = os.getpid()
    adopts = _prctl(_PR_SET_CHILD_SUBREAPER, 1) and os.path.isdir(f"/proc/{me}")

    wakeup, awake = os.pipe()
    os.set_blocking(awake, False)
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    # A program that blocks signals has its children start with them blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Whatever the handlers do, the signal's number is written to the pipe.
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, stop)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    # A fork of the parent may hold standard input's other end too; this tells of the parent alone.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return

    # The command's own parent is another process: should the command kill that, this one is left.
    child = _fork(me)
    if not child:
        try:
            (_wait if adopts else _start)(
                arguments[split + 1 :], environment, report, max_file_bytes
            )
        finally:
            os._exit(127)
    _be_quiet()

    ended: dict[int, int] = {}
    while child not in ended and not stopped:
        ready, _, _ = select.select([0, wakeup], [], [])
        if 0 in ready:
            break
        os.read(wakeup, 4096)
        ended.clear()
        _reap(ended)
    if adopts:
        if not _kill_all(me, wakeup):
            os.write(report, b"survivors\n")
        return
    try:
        os.killpg(child, signal.SIGKILL)
    except OSError:
        pass  # nothing of the group is left
    if child in ended:
        os.write(report, b"%d\n" % ended[child])
    else:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # without the interpreter's own end, which takes milliseconds
