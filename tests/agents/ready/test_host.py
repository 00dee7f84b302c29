"""The host: files below one folder and shell commands, for those who are permitted."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, NativeSpace
from moothall.actions.approval import (
    ApprovalRequest,
    CallbackApprover,
    RefuseAll,
    Rule,
    RuleApprover,
)
from moothall.agents import Host, Shell
from moothall.foundation.errors import (
    ActionError,
    CommandError,
    CommandTimeout,
    ConfigError,
    NotPermitted,
    RequestCancelled,
    RequestTimeout,
)
from moothall.spaces.request import Request

YES = RuleApprover([Rule()])
run = Shell("none").run
CALLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("shell_command", {"command": "echo > made"}),
    ("read_file", {"file_name": "file"}),
    ("write_to_file", {"file_name": "made", "content": "x"}),
    ("delete_file", {"file_name": "file"}),
    ("list_files", {}),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("text\n")
    return tmp_path


@pytest.fixture
def space() -> Iterator[NativeSpace]:
    with NativeSpace() as space:
        yield space


@pytest.fixture
def me(space: NativeSpace, root: Path) -> Agent:
    """Somebody in a space with a host that permits everything."""
    space.add(Host("Host", root, approver=YES))
    return space.add(Agent("me"))


def ask(me: Agent, action: str, **args: Any) -> Any:
    return me.ask("Host", action, **args).result(timeout=30)


# -- approval --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "args"), CALLS)
@pytest.mark.parametrize("approver", (None, RefuseAll(), RuleApprover([])))
def test_host_refuses_everything_that_nobody_permits(
    space: NativeSpace, root: Path, action: str, args: dict[str, str], approver: Any
) -> None:
    space.add(Host("Host", root, approver))
    me = space.add(Agent("me"))
    with pytest.raises(NotPermitted, match=rf'^"Host\.{action}" not permitted$'):
        ask(me, action, **args)
    assert os.listdir(root) == ["file"]
    assert me.ask("Host", "help").result(timeout=10).keys() == dict(CALLS).keys()


@pytest.mark.parametrize(("action", "args"), CALLS)
def test_host_shows_its_approver_exactly_what_is_asked(
    space: NativeSpace, root: Path, action: str, args: dict[str, str]
) -> None:
    seen: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> bool:
        seen.append(request)
        return True

    space.add(Host("Host", root, CallbackApprover(decide)))
    me = space.add(Agent("me"))
    ask(me, action, **args)
    assert [(r.sender, r.agent, r.action, r.args) for r in seen] == [("me", "Host", action, args)]


def test_host_may_be_approved_for_by_the_space(root: Path) -> None:
    rules = RuleApprover([Rule(action="read_file", args={"file_name": "*.md"})])
    with NativeSpace(approver=rules) as space:
        space.add(Host("Host", root))
        me = space.add(Agent("me"))
        (root / "a.md").write_text("permitted")
        assert ask(me, "read_file", file_name="a.md") == "permitted"
        with pytest.raises(NotPermitted):
            ask(me, "read_file", file_name="file")


# -- files -----------------------------------------------------------------------------------------


def test_files_are_listed_read_written_and_deleted(me: Agent, root: Path) -> None:
    (root / "sub").mkdir()
    assert ask(me, "list_files") == ["file", "sub/"]
    assert ask(me, "write_to_file", file_name="sub/é", content="né\n") == "wrote 4 bytes"
    assert ask(me, "list_files", folder_name="sub") == ["é"]
    assert ask(me, "read_file", file_name="sub/é") == "né\n"
    assert ask(me, "delete_file", file_name="sub/é") == "deleted sub/é"
    assert ask(me, "list_files", folder_name="sub") == []


# -- commands --------------------------------------------------------------------------------------


def test_shell_command_runs_in_the_root(me: Agent, root: Path) -> None:
    assert ask(me, "shell_command", command="pwd; cat file") == f"{root}\ntext\n"


@pytest.mark.parametrize(
    ("command", "output"),
    (
        ("true", ""),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n"),
        ("exit 3", "[exit code 3]"),
        ("printf half; exit 4", "half\n[exit code 4]"),
        ("echo whole; false", "whole\n[exit code 1]"),
        ("kill -TERM $$", "[killed by SIGTERM]"),
        ("cat", ""),
        ("read line; echo $?", "1\n"),
        ("printf 'caf\\351\\n'", "caf\ufffd\n"),
        ("test -t 0 || test -t 1 || echo none", "none\n"),
        ("(: </dev/tty) 2>/dev/null || echo none", "none\n"),
    ),
)
def test_shell_command_returns_output_errors_and_exit_code(
    me: Agent, command: str, output: str
) -> None:
    assert ask(me, "shell_command", command=command) == output


def test_shell_command_sees_little_of_the_environment(
    me: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    lines = ask(me, "shell_command", command="env").splitlines()
    names = {line.partition("=")[0] for line in lines}
    own = {"PWD", "OLDPWD", "SHLVL", "_"}  # what shells set by themselves
    allowed = {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "TERM"}
    assert "PATH" in names
    assert "TERM=dumb" in lines  # so that no program colours its output
    assert names - own <= allowed


def test_shell_command_without_sandbox_returns_while_its_background_process_runs(
    space: NativeSpace, root: Path
) -> None:
    """Without a sandbox a process may leave the group, and still has the output open."""
    space.add(Host("Host", root, YES, sandbox="none"))
    me = space.add(Agent("me"))
    command = "setsid -f sleep 9; sleep 0.1; echo started"
    assert ask(me, "shell_command", command=command) == "started\n"


def test_shell_command_keeps_the_two_ends_of_a_long_output(me: Agent) -> None:
    output = ask(me, "shell_command", command="seq 1 100000")
    assert output.startswith("1\n2\n3\n")
    assert output.endswith("\n99999\n100000\n")
    assert "\n[… 523359 bytes are left out …]\n" in output
    assert len(output) < 66_000
    assert ask(me, "shell_command", command="seq 1 10000") == "".join(
        f"{i}\n" for i in range(1, 10001)
    )


@pytest.mark.parametrize(
    ("command", "reason"),
    (("echo \0", "null byte"), ("x" * 5_000_000, "argument list too long")),
    ids=("nul", "long"),
)
def test_shell_command_that_cannot_start_says_why(me: Agent, command: str, reason: str) -> None:
    with pytest.raises(ActionError, match="the command could not be started: ") as caught:
        ask(me, "shell_command", command=command)
    assert caught.value.type == "CommandError"
    assert reason in caught.value.text
    assert ask(me, "shell_command", command="echo good") == "good\n"


def test_command_errors_are_public(root: Path) -> None:
    with pytest.raises(CommandError):
        asyncio.run(run("echo", str(root / "nowhere"), 30))
    with pytest.raises(CommandTimeout, match=r"killed after 0\.1 s; it had printed nothing"):
        asyncio.run(run("exec sleep 100", str(root), 0.1))
    with pytest.raises(TimeoutError, match="it had printed: said\n"):
        asyncio.run(run("echo said; exec sleep 100", str(root), 0.5))


def test_command_of_a_shell_takes_limits_of_its_own_and_no_other_values(root: Path) -> None:
    assert not Shell("none").is_confined
    assert asyncio.run(run("pwd", root)) == f"{os.path.realpath(root)}\n"
    assert "exit code" in asyncio.run(run("head -c 9999 /dev/zero >big", root, max_file_bytes=512))
    with pytest.raises(ConfigError, match=r"timeout_s= must be a number of seconds above 0"):
        asyncio.run(run("touch made", root, 0))
    with pytest.raises(ConfigError, match=r"max_file_bytes= must be 0 or more"):
        asyncio.run(run("touch made", root, max_file_bytes=-1))
    with pytest.raises(ConfigError, match=r"network= must be True or False, got 1"):
        Shell("none", 1)  # type: ignore[arg-type]
    assert not (root / "made").exists()


# Their processes hold a pipe open, so that its end tells of the last one's death.
SURVIVORS = {
    "plain": "exec 3>alive; sleep 1000 & echo >&3; wait",
    "deaf": "trap '' TERM INT HUP; exec 3>alive; sleep 1000 & echo >&3; wait",
    "foreground": "exec 3>alive; echo >&3; exec sleep 1000",
    "stopped": "exec 3>alive; echo >&3; kill -STOP $$",
}


class Alive:
    """A pipe that every process of a command holds."""

    def __init__(self, root: Path) -> None:
        self.path = root / "alive"
        os.mkfifo(self.path)

    def begun(self) -> None:
        """Wait until the processes are there."""
        self.pipe = self.path.open("rb", buffering=0)
        assert self.pipe.read(1) == b"\n"

    def begun_before(self, pending: Request) -> bool:
        """Wait until the processes are there, or a request has ended; whether they are."""
        pipe = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.pipe = os.fdopen(pipe, "rb", buffering=0)
        while not select.select([self.pipe], [], [], 0.02)[0]:
            if pending.done():
                break
        if self.pipe.read(1) == b"\n":
            os.set_blocking(self.pipe.fileno(), True)
            return True
        self.pipe.close()
        return False

    def ended(self) -> bool:
        """Wait until none is left: the test's own time limit says that one is."""
        with self.pipe:
            return self.pipe.read() == b""


@pytest.mark.parametrize("command", SURVIVORS.values(), ids=SURVIVORS.keys())
def test_shell_command_time_limit_ends_every_process(root: Path, command: str) -> None:
    alive = Alive(root)
    with NativeSpace() as space:
        me = space.add(Agent("me"))
        for seconds in (1, 4, 16):  # it may be over before the processes are there
            host = space.add(Host(f"Host {seconds}", root, YES, command_timeout=seconds))
            pending = me.ask(host.id, "shell_command", command=command)
            if alive.begun_before(pending):
                break
        with pytest.raises(ActionError, match=f"the command was killed after {seconds} s"):
            pending.result(timeout=30)
        assert alive.ended()
        assert me.ask(host.id, "shell_command", command="echo good").result(timeout=30) == "good\n"


@pytest.mark.parametrize("command", SURVIVORS.values(), ids=SURVIVORS.keys())
@pytest.mark.parametrize("how", ("cancel", "deadline", "remove", "close"))
def test_shell_command_cancelled_request_ends_every_process(
    root: Path, command: str, how: str
) -> None:
    alive = Alive(root)
    over = threading.Semaphore(0)
    asked = 0

    class Told(Host):
        def after_action(self, message: Any, return_value: Any, error: Any) -> None:
            over.release()

    with NativeSpace() as space:
        space.add(Told("Host", root, YES))
        me = space.add(Agent("me"))
        message = {"to": "Host", "action": {"name": "shell_command", "args": {"command": command}}}
        for seconds in (1, 4, 16) if how == "deadline" else (300,):
            pending = me.request(message, timeout=seconds)
            asked += 1
            if alive.begun_before(pending):
                break  # else it was over before the processes were there
        if how == "cancel":
            pending.cancel()
            with pytest.raises(RequestCancelled):
                pending.result(timeout=30)
        elif how == "deadline":
            with pytest.raises(RequestTimeout):
                pending.result(timeout=30)
        elif how == "remove":
            space.remove("Host")
        else:
            space.close()
        for _ in range(asked):
            assert over.acquire(timeout=30)
        assert alive.ended()


@pytest.mark.parametrize("leave", ("sleep 1000 &", "(sleep 1000 &) ;"))
def test_shell_command_background_processes_end_with_it(me: Agent, root: Path, leave: str) -> None:
    alive = Alive(root)
    command = f"exec 3>alive; echo >&3; {leave} echo started"
    pending = me.ask("Host", "shell_command", command=command)
    alive.begun()
    assert pending.result(timeout=30) == "started\n"
    assert alive.ended()


def test_cancelled_in_a_program_of_ones_own(root: Path) -> None:
    alive = Alive(root)

    async def main() -> None:
        task = asyncio.create_task(run(SURVIVORS["deaf"], str(root), 300))
        await asyncio.to_thread(alive.begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert alive.ended()


def test_cancelled_while_it_starts(root: Path) -> None:
    async def main() -> None:
        for turns in range(12):
            task = asyncio.create_task(run("sleep 0.3; touch made", str(root), 300))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        # As long as the commands would have taken, and longer.
        await run("sleep 0.6", str(root), 300)

    asyncio.run(main())
    assert os.listdir(root) == ["file"]
