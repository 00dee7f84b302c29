"""The host: files below one folder and shell commands, for those who are permitted."""

from __future__ import annotations

import asyncio
import io
import os
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
    CommandError,
    CommandTimeout,
    ConfigError,
    NotPermitted,
)
from pseudo_terminal import Written

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


@pytest.mark.parametrize("file", ("stdin", "stdout"))
def test_host_asks_at_no_terminal_of_which_only_half_is_there(
    monkeypatch: pytest.MonkeyPatch, root: Path, file: str
) -> None:
    for each in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{each}", io.StringIO() if each == file else Written())
    assert Host("Host", root).find_approver() is None


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
    for most in (512, 0):
        said = asyncio.run(run("head -c 9999 /dev/zero >big", root, max_file_bytes=most))
        assert ("exit code" in said, (root / "big").stat().st_size) == (True, most)
    with pytest.raises(ConfigError, match=r"timeout_s= must be a number of seconds above 0"):
        asyncio.run(run("touch made", root, 0))
    with pytest.raises(ConfigError, match=r"max_file_bytes= must be 0 or more"):
        asyncio.run(run("touch made", root, max_file_bytes=-1))
    with pytest.raises(ConfigError, match=r"network= must be True or False, got 1"):
        Shell("none", 1)  # type: ignore[arg-type]
    assert not (root / "made").exists()


def test_command_of_a_cancelled_task_ends_with_every_process(root: Path) -> None:
    deaf = "trap '' TERM INT HUP; exec 3>alive; sleep 1000 & echo >&3; wait"
    os.mkfifo(root / "alive")  # its processes hold it open: the end tells of the last one's death

    async def main() -> None:
        task = asyncio.create_task(run(deaf, str(root), 300))
        pipe = await asyncio.to_thread((root / "alive").open, "rb", buffering=0)
        with pipe:
            assert pipe.read(1) == b"\n"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert pipe.read() == b""

    asyncio.run(main())


def test_shell_commands_that_end_fail_or_take_too_long_leave_no_file_open(tmp_path: Path) -> None:
    async def main() -> None:
        shell = Shell("none")
        await shell.run("echo one", tmp_path)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            await shell.run("echo one", tmp_path)
            await shell.run("exit 3", tmp_path)
            with pytest.raises(CommandTimeout):
                await shell.run("cat /dev/zero", tmp_path, 0.2)
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(main())
