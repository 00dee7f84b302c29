"""Commands that mean harm, or do not want to end: each ends with its request and says how.

In bubblewrap that holds for every process that a command begins, elsewhere for its process group.

A process of a test is known by a mark of that test in its arguments or its environment.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, NativeSpace
from moothall.actions.approval import Rule, RuleApprover
from moothall.agents import Host, changing_actions
from moothall.foundation.errors import ActionError, CommandError, ConfigError, RequestCancelled

YES = RuleApprover([Rule()])
PYTHON = f'"{sys.executable}" -I -S -c'


class Marked:
    """The processes that have this test's mark."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex

    def pids(self) -> list[int]:
        """Those that are alive: the arguments of one that has ended are gone."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    text = Path(f"/proc/{name}/cmdline").read_bytes()
                    if text:
                        text += Path(f"/proc/{name}/environ").read_bytes()
                except OSError:
                    continue
                if self.mark.encode() in text:
                    found.append(int(name))
        return found

    def end(self) -> None:
        """Wait until all have ended: killed, they may take a moment."""
        while others := self.pids():
            for pid in others:
                wait_for_the_end(pid)


def wait_for_the_end(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([handle], [], [])
    os.close(handle)


class Machine:
    """A host with a folder, and somebody who has commands executed."""

    def __init__(self, space: NativeSpace, root: Path, marked: Marked) -> None:
        self.space, self.root, self.marked = space, root, marked
        self.agent = space.add(Agent("me"))
        self.hosts = 0

    def host(self, **options: Any) -> str:
        """Add a host with these options."""
        self.hosts += 1
        return str(self.space.add(Host(f"Host{self.hosts}", self.root, YES, **options)).id)

    def __call__(self, command: str, *, host: str | None = None, **options: Any) -> str:
        """What a command gives, whose processes all have the mark."""
        text = f"export MARK={self.marked.mark}\n{command}"
        asked = self.agent.ask(host or self.host(**options), "shell_command", command=text)
        return str(asked.result(timeout=50))

    def fails(self, command: str, error: str, text: str, **options: Any) -> str:
        """The command ends in that error."""
        with pytest.raises(ActionError) as caught:
            self(command, **options)
        assert caught.value.type == error, str(caught.value)
        assert text in caught.value.text
        return caught.value.text

    def is_well(self) -> None:
        """Nothing is left, and a good command works."""
        self.marked.end()
        assert self("echo good") == "good\n"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    (tmp_path / "secret").write_text("the secret outside")
    (tmp_path / "root").mkdir()
    with NativeSpace() as space:
        yield Machine(space, tmp_path / "root", Marked())


@pytest.fixture
def bwrap() -> bool:
    """Whether bubblewrap works here: some containers do not let it. It has to be there."""
    assert shutil.which("bwrap"), "the tests need bubblewrap: apt install bubblewrap"
    return subprocess.run(("bwrap", "--ro-bind", "/", "/", "true"), check=False).returncode == 0


either = pytest.mark.parametrize("sandbox", ("none", "auto"))

# -- what is left behind ---------------------------------------------------------------------------

DAEMON = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/"); os.umask(0)
os.closerange(0, 100)
time.sleep(1000)
"""
# It is never the same process for long.
HOPPER = """
import os, time
os.setsid()
end = time.monotonic() + 30
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    os.setsid()
"""
# Bounded, so that a failure leaves a machine that can be used.
BOMB = """
import os, time
def fork():
    if os.fork() == 0:
        os.setsid()
for _ in range(7): fork()
time.sleep(1000)
"""
BOMB_OF_ONE_GROUP = BOMB.replace("os.setsid()", "pass")

IN_ITS_GROUP = {
    "background": "sleep 1000 &",
    "output open": "(sleep 1000; echo late) &",
    "deaf": "(trap '' TERM INT HUP QUIT USR1; while :; do sleep 1; done) &",
    "stopped": "sh -c 'kill -STOP $$; sleep 1000' &",
    "many deep": "deep() { [ $1 -eq 0 ] || (deep $(($1-1)) & exec sleep 1000); }; deep 30 &",
    "bomb": f"{PYTHON} '{BOMB_OF_ONE_GROUP}' >/dev/null 2>&1 &",
}
LEFT_BEHIND = {
    "session": "setsid sleep 1000 &",
    "double fork": "(setsid sh -c 'sleep 1000 & sleep 1000' &)",
    "daemon": f"{PYTHON} '{DAEMON}'",
    "nohup": "nohup setsid nohup sleep 1000 >/dev/null 2>&1 &",
    "deaf": "(trap '' TERM INT HUP QUIT USR1; setsid sh -c 'while :; do sleep 1; done') &",
    "handles closed": "setsid sleep 1000 <&- >&- 2>&- &",
    "stopped": "setsid sh -c 'kill -STOP $$; sleep 1000' &",
    "group of its own": "set -m 2>/dev/null; (sleep 1000 & sleep 1000 | sleep 1000) &",
    "no environment": "env -i $(command -v setsid) /bin/sh -c 'sleep 1000; : '$MARK &",
    "many": "i=0; while [ $i -lt 60 ]; do setsid sleep 1000 & i=$((i+1)); done",
    "hopper": f"{PYTHON} '{HOPPER}' &",
    "bomb": f"{PYTHON} '{BOMB}' >/dev/null 2>&1 &",
    "on exit": "trap 'setsid sleep 1000 &' EXIT",
    "low priority": "setsid nice -n 19 sh -c 'while :; do :; done' &",
}


@either
@pytest.mark.parametrize("command", IN_ITS_GROUP.values(), ids=IN_ITS_GROUP.keys())
def test_command_background_processes_end_with_it(
    machine: Machine, sandbox: str, command: str
) -> None:
    assert machine(f"{command}\necho done", sandbox=sandbox) == "done\n"
    machine.is_well()


@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND.keys())
def test_bubblewrap_ends_what_leaves_its_process_group(
    machine: Machine, bwrap: bool, command: str
) -> None:
    def test() -> None:
        assert machine(f"{command}\necho done", sandbox="bwrap") == "done\n"
        machine.is_well()

    refused_or(bwrap, test)


# -- what does not end -----------------------------------------------------------------------------

ENDLESS = {
    "sleep": "sleep 1000",
    "spin": "while :; do :; done",
    "deaf": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "stops itself": "kill -STOP $$",
    "closes its output": "exec >&- 2>&-; sleep 1000",
    "bomb of one group": f"{PYTHON} '{BOMB_OF_ONE_GROUP}'; sleep 1000",
    "pipe": "mkfifo pipe; cat pipe",
}
ENDLESS_ELSEWHERE = {
    "in a session": "setsid -w sleep 1000",
    "session, stopped, and deaf": "trap '' TERM; setsid -w sh -c 'kill -STOP $$'",
    "waits for a daemon": f"{PYTHON} '{DAEMON}'; sleep 1000",
    "bomb": f"{PYTHON} '{BOMB}'; sleep 1000",
    "terminal": "(: </dev/tty); setsid -w sh -c '(: </dev/tty); sleep 1000'",
}


@either
@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS.keys())
def test_command_that_does_not_end_is_killed_at_its_time_limit(
    machine: Machine, sandbox: str, command: str
) -> None:
    begun = f"echo x >begun\n{command}\necho x >ended"
    text = "the command was killed after 0.7 s"
    machine.fails(begun, "CommandTimeout", text, sandbox=sandbox, command_timeout=0.7)
    machine.is_well()
    assert machine.marked.pids() == []
    made = {path.name for path in machine.root.iterdir()}
    assert made - {"pipe"} == {"begun"}  # it began, and did not end by itself


@pytest.mark.parametrize("command", ENDLESS_ELSEWHERE.values(), ids=ENDLESS_ELSEWHERE.keys())
def test_bubblewrap_kills_what_left_its_group_at_the_time_limit(
    machine: Machine, bwrap: bool, command: str
) -> None:
    def test() -> None:
        begun = f"echo x >begun\n{command}\necho x >ended"
        text = "the command was killed after 0.7 s"
        machine.fails(begun, "CommandTimeout", text, sandbox="bwrap", command_timeout=0.7)
        machine.is_well()
        assert machine.marked.pids() == []
        assert [path.name for path in machine.root.iterdir()] == ["begun"]

    refused_or(bwrap, test)


@either
def test_command_that_prints_forever_has_its_output_cut(machine: Machine, sandbox: str) -> None:
    command = "yes & cat /dev/zero & while :; do echo x >&2; done"
    text = "the command was killed after 3 s; it had printed: "
    said = machine.fails(command, "CommandTimeout", text, sandbox=sandbox, command_timeout=3)
    assert len(said) < 1200
    machine.is_well()


WAYS = (
    ("none", IN_ITS_GROUP["background"]),
    ("none", IN_ITS_GROUP["stopped"]),
    ("auto", IN_ITS_GROUP["background"]),
    *(("auto", LEFT_BEHIND[kind]) for kind in ("daemon", "double fork", "bomb", "hopper")),
)


@pytest.mark.parametrize(("sandbox", "left"), WAYS)
@pytest.mark.parametrize("how", ("cancel", "remove", "close"))
def test_command_background_processes_end_with_the_request(
    machine: Machine, bwrap: bool, sandbox: Any, left: str, how: str
) -> None:
    if sandbox == "auto" and not bwrap:
        return
    over = threading.Event()

    class Told(Host):
        def after_action(self, message: Any, return_value: Any, error: Any) -> None:
            over.set()

    os.mkfifo(machine.root / "begun")
    machine.space.add(Told("Told", machine.root, YES, sandbox=sandbox))
    command = f"export MARK={machine.marked.mark}\n{left}\necho >begun; sleep 1000"
    asked = machine.agent.ask("Told", "shell_command", command=command)
    assert (machine.root / "begun").read_text() == "\n"
    assert machine.marked.pids() != []
    if how == "cancel":
        asked.cancel()
        with pytest.raises(RequestCancelled):
            asked.result(timeout=30)
    elif how == "remove":
        machine.space.remove("Told")
    else:
        machine.space.close()
    assert over.wait(30)
    machine.marked.end()
    if how != "close":
        machine.is_well()


@pytest.mark.parametrize("count", (30, pytest.param(150, marks=pytest.mark.long)))
@either
def test_command_cancelled_while_it_starts_leaves_nothing(
    machine: Machine, sandbox: str, count: int
) -> None:
    host = machine.host(sandbox=sandbox)
    command = f"export MARK={machine.marked.mark}\nsleep 1000 & sleep 1000"
    with ExitStack() as stack:
        for _ in range(8):  # a busy machine, on which a sandbox takes a while to start
            busy = stack.enter_context(subprocess.Popen(("sh", "-c", "while :; do :; done")))
            stack.callback(busy.kill)
        for number in range(count):
            asked = machine.agent.ask(host, "shell_command", command=command)
            with pytest.raises(TimeoutError):
                asked.result(timeout=0.06 * number / count)
            asked.cancel()
        machine.space.remove(host)
    machine.is_well()


PROGRAM = """
import os, sys
from moothall import Agent, NativeSpace
from moothall.agents import Host, changing_actions
from moothall.actions.approval import Rule, RuleApprover

root, sandbox, command = sys.argv[1:]
with NativeSpace() as space:
    space.add(Host("Host", root, RuleApprover([Rule()]), sandbox=sandbox))
    asked = space.add(Agent("me")).ask("Host", "shell_command", command=command)
    with open(os.path.join(root, "begun")) as begun:
        begun.read()
    print("begun", flush=True)
    asked.result(timeout=300)
"""


@pytest.mark.parametrize(("sandbox", "left"), WAYS)
def test_command_ends_when_its_program_is_killed(
    machine: Machine, bwrap: bool, sandbox: str, left: str
) -> None:
    if sandbox == "auto" and not bwrap:
        return
    os.mkfifo(machine.root / "begun")
    command = f"export MARK={machine.marked.mark}\n{left}\necho >begun; sleep 1000"
    # The command is the program's argument too: the program is one of those that must go.
    program = subprocess.Popen(
        (sys.executable, "-W", "ignore", "-c", PROGRAM, machine.root, sandbox, command),
        stdout=subprocess.PIPE,
    )
    assert program.stdout
    assert program.stdout.readline() == b"begun\n"
    assert program.pid in machine.marked.pids()
    program.kill()
    program.wait()
    program.stdout.close()
    machine.is_well()


# -- what a command is given -----------------------------------------------------------------------


@either
def test_command_inherits_no_handle_of_the_program(machine: Machine, sandbox: str) -> None:
    with (machine.root.parent / "secret").open() as secret:
        os.set_inheritable(secret.fileno(), True)
        opened = machine("for f in /proc/$$/fd/*; do readlink $f; done; true", sandbox=sandbox)
    assert re.fullmatch(r"/dev/null\n(pipe:\[\d+\]\n)\1", opened)
    machine.is_well()


@either
def test_command_sees_no_more_of_its_parents_environment_than_of_its_own(
    machine: Machine, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret-key")
    assert "secret-key" not in machine("env; cat /proc/$PPID/environ", sandbox=sandbox)
    machine.is_well()


@either
def test_signals_are_as_a_program_expects_them(machine: Machine, sandbox: str) -> None:
    blocked = machine("grep -E 'Sig(Blk|Ign)' /proc/self/status", sandbox=sandbox).split()
    # Two belong to the C library, which lets nobody set them: they are as whoever began the tests
    # left them.
    libc = 0b11 << 31
    assert [int(mask, 16) & ~libc for mask in blocked[1::2]] == [0, 0]
    machine.is_well()


# -- bad commands ----------------------------------------------------------------------------------


@either
@pytest.mark.parametrize(
    ("command", "reason"),
    (
        ("echo \0", "the command could not be started: embedded null byte"),
        ("x" * 5_000_000, "the command could not be started: argument list too long"),
    ),
    ids=("nul", "long"),
)
def test_command_that_no_shell_can_run_is_refused(
    machine: Machine, sandbox: str, command: str, reason: str
) -> None:
    machine.fails(f"echo x >begun; {command}", "CommandError", reason, sandbox=sandbox)
    assert list(machine.root.iterdir()) == []  # no part of it was executed
    machine.is_well()


@either
@pytest.mark.parametrize(
    ("command", "output"),
    (
        ("", ""),
        ("#", ""),
        ("exit 255", "[exit code 255]"),
        ("kill -SEGV $$", "[killed by SIGSEGV]"),
        ("kill -KILL $$", "[killed by SIGKILL]"),
        ("cat", ""),
        ("read line || echo end", "end\n"),
        ("cat <&0 | wc -c", "0\n"),
        ("(stty -a </dev/tty) 2>/dev/null || echo none", "none\n"),
        ("printf '\\033[2J\\377\\n'", "\x1b[2J\ufffd\n"),
        ("echo '$HOME' \"$(echo é)\"", "$HOME é\n"),
        ("ulimit -f", f"{2**30 // 512}\n"),
    ),
)
def test_command_with_odd_characters_gives_the_shells_output(
    machine: Machine, sandbox: str, command: str, output: str
) -> None:
    assert machine(command, sandbox=sandbox) == output
    machine.is_well()


@either
def test_command_file_grows_to_its_limit_and_no_further(machine: Machine, sandbox: str) -> None:
    host = machine.host(sandbox=sandbox, max_file_bytes=2**20)
    assert machine("exec cat /dev/zero >big", host=host) == "[killed by SIGXFSZ]"
    assert (machine.root / "big").stat().st_size == 2**20
    machine("ulimit -f unlimited; cat /dev/zero >big2", host=host, command_timeout=1)
    assert (machine.root / "big2").stat().st_size == 2**20
    machine("head -c 3000000 /dev/zero >big", sandbox=sandbox, max_file_bytes=None)
    assert (machine.root / "big").stat().st_size == 3_000_000
    machine.is_well()


@either
def test_command_root_replaced_by_another_folder_is_refused(machine: Machine, sandbox: str) -> None:
    host = machine.host(sandbox=sandbox)
    other = machine.root.parent / "other"
    other.mkdir()
    command = "echo changed >secret"
    machine.root.rename(machine.root.with_name("moved"))
    machine.fails(command, "FileError", "is gone", host=host)
    machine.root.symlink_to("other")
    machine.fails(command, "FileError", "is gone", host=host)
    machine.root.unlink()
    other.rename(machine.root)
    machine.fails(command, "FileError", "another folder has the place of", host=host)
    assert [*machine.root.iterdir()] == []
    machine.root.rename(other)
    machine.root.with_name("moved").rename(machine.root)
    machine.is_well()


# -- the sandbox -----------------------------------------------------------------------------------


def refused_or(bwrap: bool, test: Callable[[], None]) -> None:
    """Where the system does not let bubblewrap work, asking for it is an error that says so."""
    if bwrap:
        test()
        return
    with pytest.raises(CommandError, match=r'bwrap does not work here \(.*choose sandbox="none"'):
        Host("Host", sandbox="bwrap")


# Beside the folder there may be nothing at all: the tests' folders are usually below /tmp.
READ_ONLY = "Read-only file system|Permission denied|onexistent|cannot create"
CONFINED = {
    "write outside": ("echo x >../secret", ""),
    "delete outside": ("rm -f ../secret", ""),
    "through a link": ("ln -s .. out; echo x >out/secret", ""),
    "replace the folder": ("cd ..; mv root moved; rm -rf root", "busy|Read-only|denied"),
    "system": ("echo x >/etc/moothall-was-here", READ_ONLY),
    "home": ("echo x >~/moothall-was-here", READ_ONLY),
    "temporary": ("echo x >/tmp/moothall-was-here; echo x >/dev/shm/moothall-was-here", ""),
    "other processes": ("kill -KILL {pid}", "No such process"),
    "their memory": ("cat /proc/{pid}/environ", "No such file"),
    "mounts": ("mount -o remount,bind,rw /", "denied|superuser|permitted"),
    "mounts of its own": (
        "unshare -Ur mount -o remount,bind,rw /; echo x >/etc/moothall-was-here",
        READ_ONLY,
    ),
    "the kernel's objects": ("find /sys -type f -writable 2>/dev/null | head; echo none", "^none"),
    "unmounts": ("umount -l /run", "denied|superuser|permitted"),
    "the kernel's settings": ("f=/proc/sys/vm/swappiness; v=$(cat $f); echo $v >$f", READ_ONLY),
    "the kernel's memory": ("cat /dev/mem /dev/kmsg", "No such file"),
    "the init of its own": ("kill -KILL 1; kill -KILL $PPID; echo still here", "still here"),
    "sockets of services": ("ls -A /run | grep -c -E 'docker|dbus|user'", "^0"),
    "privileges": ("grep CapEff /proc/self/status", "0000000000000000"),
}


@pytest.mark.parametrize(("command", "says"), CONFINED.values(), ids=CONFINED.keys())
def test_bubblewrap_command_gets_nowhere_outside(
    machine: Machine, bwrap: bool, command: str, says: str
) -> None:
    def test() -> None:
        output = machine(command.format(pid=os.getpid()), sandbox="bwrap")
        assert re.search(says, output)
        assert (machine.root.parent / "secret").read_text() == "the secret outside"
        for folder in ("/etc", "~", "/tmp", "/dev/shm"):
            assert not Path(folder, "moothall-was-here").expanduser().exists()
        machine.is_well()

    refused_or(bwrap, test)


def test_bubblewrap_command_works_in_its_folder(machine: Machine, bwrap: bool) -> None:
    def test() -> None:
        host = machine.host(sandbox="bwrap")
        (machine.root / "sub").mkdir()
        command = 'pwd; echo x >sub/file; cat sub/file; d=$(mktemp -d); echo y >"$d/y"; echo $d'
        first, second, third = machine(command, host=host).splitlines()
        assert (first, second) == (str(machine.root), "x")
        assert (machine.root / "sub" / "file").read_text() == "x\n"
        assert third.startswith("/tmp/")
        assert not Path(third).exists()
        machine.is_well()

    refused_or(bwrap, test)


@pytest.mark.parametrize("root", ("/", "/tmp", "/dev/shm"))
def test_bubblewrap_root_that_the_sandbox_would_hide_works(
    machine: Machine, bwrap: bool, root: str
) -> None:
    def test() -> None:
        machine.space.add(Host("There", root, YES, sandbox="bwrap"))
        with ExitStack() as made:
            name = "etc"
            if root != "/":
                file = made.enter_context(tempfile.NamedTemporaryFile(dir=root))
                name = os.path.basename(file.name)
            asked = machine.agent.ask("There", "shell_command", command=f"pwd; ls -d {name}")
            assert asked.result(timeout=30) == f"{root}\n{name}\n"
        machine.is_well()

    refused_or(bwrap, test)


@pytest.mark.parametrize("network", (False, True))
@pytest.mark.parametrize("kind", ("tcp", "abstract"))
def test_bubblewrap_has_the_network_that_was_asked_for(
    machine: Machine, bwrap: bool, network: bool, kind: str
) -> None:
    def test() -> None:
        family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
        with socket.socket(family) as server:
            server.bind(("127.0.0.1", 0) if kind == "tcp" else f"\0{machine.marked.mark}")
            server.listen()
            address = server.getsockname()
            code = f"import socket; socket.socket({int(family)}).connect({address!r}); print(1)"
            (machine.root / "connect.py").write_text(code)
            output = machine(f'"{sys.executable}" -I connect.py', sandbox="bwrap", network=network)
            assert output == "1\n" if network else "ConnectionRefusedError" in output
        machine.is_well()

    refused_or(bwrap, test)


ELSEWHERE = """
import asyncio, sys
from moothall.agents import Host
print(asyncio.run(Host("Host", sys.argv[1], sandbox="bwrap").shell_command(sys.argv[2])))
"""


@pytest.mark.parametrize("named", ("python", "whole path", "program of PATH", "link to a home"))
def test_bubblewrap_command_finds_an_interpreter_below_tmp(
    machine: Machine, bwrap: bool, tmp_path: Path, named: str
) -> None:
    home = tmp_path / "a b ü"
    environment = home / ".venv"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    command = 'python -c "import sys; print(sys.prefix)"'
    says = str(environment)
    if named == "whole path":
        command = shlex.quote(str(python)) + command.removeprefix("python")
    elif named == "program of PATH":
        (home / "bin").mkdir()
        (home / "lib").mkdir()
        (home / "lib" / "greet").write_text("#!/bin/sh\necho hello\n")
        (home / "lib" / "greet").chmod(0o755)
        (home / "bin" / "greet").symlink_to("../lib/greet")
        command, says = "greet", "hello"
    elif named == "link to a home":
        link = Path("/var/tmp", machine.marked.mark)
        link.symlink_to(home)
        python = link / ".venv" / "bin" / "python"
        says = str(link / ".venv")

    def test() -> None:
        ended = subprocess.run(
            (python, "-c", ELSEWHERE, machine.root, command),
            env={
                "PATH": f"{python.parent}:{home / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert ended.stdout.strip() == says

    try:
        refused_or(bwrap, test)
    finally:
        if named == "link to a home":
            link.unlink()


def test_bubblewrap_command_that_needs_hidden_files_is_told_so(
    machine: Machine, bwrap: bool
) -> None:
    def test() -> None:
        host = machine.host(sandbox="bwrap")
        hint = "; the sandbox hides the files of this machine below /tmp]"
        assert hint in machine(f"cat '{machine.root.parent / 'secret'}'", host=host)
        assert machine(f"ls '{machine.root}'/nothing", host=host).endswith("[exit code 2]")
        (machine.root / "run.sh").write_text("exec /run/nothing/there\n")
        assert "below /run]" in machine("sh run.sh", host=host)

    refused_or(bwrap, test)


WITHOUT = """
import asyncio
from moothall.agents import Host, changing_actions
from moothall.foundation.errors import CommandError

try:
    Host("Host", sandbox="bwrap")
except CommandError as error:
    print(error)
for _ in range(3):
    print(asyncio.run(Host("Host").shell_command("echo here")), end="")
"""


def test_bubblewrap_that_is_not_installed_is_named(machine: Machine) -> None:
    # In a process of its own: the log is written once in each.
    ended = subprocess.run(
        (sys.executable, "-c", WITHOUT),
        env={"PATH": str(machine.root), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=machine.root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == (
        'bwrap is not installed: install bubblewrap (on Debian and Ubuntu: "apt install '
        'bubblewrap"), or choose sandbox="none"\nhere\nhere\nhere\n'
    )
    assert ended.stderr == (
        "bwrap is not installed: commands run without a sandbox, as the user of this program\n"
    )
    machine.is_well()


def test_bubblewrap_that_does_not_work_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = machine.root / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{machine.root}:/usr/bin:/bin")
    with pytest.raises(CommandError, match=r"does not work here \(bwrap: No permissions to create"):
        Host("Host", sandbox="bwrap")
    assert machine("echo here") == "here\n"
    machine.is_well()


def test_options_that_mean_nothing(machine: Machine) -> None:
    with pytest.raises(
        ConfigError, match='sandbox= must be "auto", "bwrap" or "none", got \'docker\''
    ):
        machine.host(sandbox="docker")
    with pytest.raises(ConfigError, match="max_file_bytes= must be 0 or more, or None, got -5"):
        machine.host(max_file_bytes=-5)
    with pytest.raises(ConfigError, match="network= must be True or False, got 1"):
        machine.host(network=1)
    for wrong in (0, "x", True):
        for make in (machine.host, partial(changing_actions, machine.root)):
            with pytest.raises(ConfigError, match="command_timeout= must be a number of seconds"):
                make(command_timeout=wrong)
    machine.is_well()


def test_command_approval_rule_permits_exactly_its_arguments(machine: Machine) -> None:
    rules = RuleApprover([Rule(action="shell_command", args={"command": "echo good"})])
    machine.space.add(Host("Strict", machine.root, rules))
    for command in ("echo good; touch made", "echo good\ntouch made", "echo good ", " echo good"):
        with pytest.raises(Exception, match="not permitted"):
            machine.agent.ask("Strict", "shell_command", command=command).result(timeout=10)
    good = machine.agent.ask("Strict", "shell_command", command="echo good")
    assert good.result(timeout=10) == "good\n"
    assert os.listdir(machine.root) == []
