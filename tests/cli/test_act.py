"""`moothall act` as a person, a program and a script use it, with models on loopback."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.journal_programs import MOMENT_S
from commands import run
from models.openai_server import HANG, OpenAIServer, call, status, streamed
from pseudo_terminal import CONTROL_C, CONTROL_D, Terminal, plain, uncoloured

SEARCH = ("search_in_file", {"file_name": "notes.txt", "search_term": "milk"})
WRITE = ("write_file", {"file_name": "new.txt", "content": "hello\n"})
ENVIRONMENT = {
    "MOOTHALL_MODEL": "",
    "MOOTHALL_ROOT": "",
    "MOOTHALL_KEY": "",
    "MOOTHALL_JOURNAL": "",
}
CONNECT = """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), 5).close()
    print("connected")
except OSError as error:
    print(error)
"""


def does(*listed: tuple[str, dict[str, Any]]) -> Any:
    """An answer of the server that calls actions."""
    return streamed(
        [call(name, json.dumps(args), f"call_{n}") for n, (name, args) in enumerate(listed)]
    )


def decides(action: str, instruction: str = "", reasoning: str = "") -> Any:
    return streamed(
        json.dumps({"action": action, "new_instruction": instruction, "reasoning": reasoning})
    )


def act(
    *args: str, cwd: Path, environment: dict[str, str] | None = None, stdin: Any = None
) -> subprocess.CompletedProcess[str]:
    """The command as a script runs it."""
    given = {} if stdin is None else {"stdin": stdin}
    env = {**os.environ, **ENVIRONMENT, **(environment or {})}
    return run("act", *args, cwd=cwd, env=env, **given)


@pytest.fixture
def outside_of_tmp() -> Iterator[Path]:
    """A folder that is not in the sandbox's own /tmp, where all may be written."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="moothall-") as path:
        yield Path(path)


def at_terminal(server: OpenAIServer, folder: Path, *args: str, **options: Any) -> Terminal:
    environment = {**ENVIRONMENT, **options.pop("environment", {})}
    return Terminal(
        "-m", "moothall", "act", "Do it", "--model", f"{server.url}#m", *args,
        cwd=folder, environment=environment, **options,
    )  # fmt: skip


# -- what is shown ---------------------------------------------------------------------------------


def test_act_shows_each_step_and_a_summary(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("It is in line 2,\nbelow bread.")) as server:
        done = act("Where is milk?", "--model", f"{server.url}#m", cwd=folder)
    assert done.stderr == ""
    assert done.returncode == 0
    *lines, last = done.stdout.splitlines()
    assert lines == [
        '→ search_in_file(file_name="notes.txt", search_term="milk")',
        "  line 2: milk, oat",
        "It is in line 2,",
        "below bread.",
        "",
        "done: the model has answered",
    ]
    assert last.startswith("1 step, ")
    assert last.endswith(" s, 20 tokens (14 in, 6 out)")


def test_act_sends_the_settings_in_the_names_of_its_models(folder: Path) -> None:
    accepts = '{"action": "TERMINATE", "reason": "Right."}'
    with OpenAIServer(streamed("Done."), streamed(accepts)) as server:
        names = (f"{server.url}#m?temperature=0.5", f"{server.url}#h?seed=7")
        act("Do it", "--model", names[0], "--review", names[1], cwd=folder)
    first, second = (each.body for each in server.requests[:2])
    assert (first["model"], first["temperature"], first.get("seed")) == ("m", 0.5, None)
    assert (second["model"], second["seed"], second.get("temperature")) == ("h", 7, None)


def test_results_of_calls_made_at_once_are_told_apart(folder: Path) -> None:
    (folder / "other.txt").write_text("tea\n")
    both = [("read_file", {"file_name": name}) for name in ("notes.txt", "other.txt")]
    with OpenAIServer(does(*both), streamed("Read.")) as server:
        done = act("Read both", "--model", f"{server.url}#m", cwd=folder)
    lines = done.stdout.splitlines()
    for name, first in (("notes.txt", "  bread"), ("other.txt", "  tea")):
        call = f'read_file(file_name="{name}")'
        assert lines[lines.index(first) - 1] in (f"← {call}", f"→ {call}")


def test_summary_says_which_actions_failed(folder: Path) -> None:
    lost = ("read_file", {"file_name": "none.txt"})
    with OpenAIServer(does(lost), does(SEARCH), streamed("It is in line 2.")) as server:
        done = act("Where is milk?", "--model", f"{server.url}#m", cwd=folder)
    assert done.returncode == 0
    assert "\ndone: the model has answered; 1 of 2 actions failed: read_file\n" in done.stdout


def test_summary_gives_the_exit_code_of_a_command_that_failed(folder: Path) -> None:
    typo = ("run_command", {"command": "no-such-command-here"})
    with (
        OpenAIServer(does(typo), streamed("Done.")) as server,
        at_terminal(server, folder) as terminal,
    ):
        terminal.until("Permit this?")
        terminal.type("y\n")
        terminal.until("1 of 1 action failed: run_command (exit code 127)")


def test_file_that_ends_like_a_failed_command_has_not_failed(folder: Path) -> None:
    (folder / "log.txt").write_text("make: no rule\n[exit code 2]")
    with OpenAIServer(does(("read_file", {"file_name": "log.txt"})), streamed("Read.")) as server:
        done = act("Read the log", "--model", f"{server.url}#m", cwd=folder)
    assert "\ndone: the model has answered\n" in done.stdout


def test_long_result_is_cut_and_the_model_is_shown_more(folder: Path) -> None:
    (folder / "long.txt").write_text("".join(f"{n}\n" for n in range(100)))
    read = ("read_file", {"file_name": "long.txt"})
    with OpenAIServer(does(read), streamed("Numbers.")) as server:
        done = act("Read it", "--model", f"{server.url}#m", cwd=folder)
        heard = server.requests[1].body["messages"][-1]["content"]
    assert "  11\n  … 88 more lines\nNumbers.\n" in done.stdout
    assert heard.endswith("\n99\n")


def test_small_model_is_loaded_in_sight_and_does_one_instruction(
    folder: Path, weights: Path
) -> None:
    given = ("-m", "moothall", "act", 'Search for "milk" in notes.txt', "--model", "local")
    with Terminal(*given, cwd=folder) as terminal:
        terminal.until("loading the model local (Ctrl-C stops it)")
        terminal.until("search_in_file is running (Ctrl-C stops it)")
        assert terminal.end() == 0
    shown = terminal.seen
    assert '→ search_in_file(file_name="notes.txt", search_term="milk")\r\n' in shown
    assert "  line 2: milk, oat\r\n" in shown
    assert "\r\ndone: the last action's result is the answer\r\n" in shown


def test_terminal_shows_at_once_what_is_waited_for(folder: Path) -> None:
    with (
        OpenAIServer(does(WRITE), HANG) as server,
        at_terminal(server, folder) as terminal,
    ):
        assert "m is thinking (Ctrl-C stops it)" in terminal.until("stops it)")
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type("y\r")
        assert "m is thinking, 1 s" in terminal.until("m is thinking, 1 s")
        # Nothing was written across the question, and the line is gone when the run has ended.
        asked = terminal.raw.partition("Permit this?")[2].partition("y\r\n")[0]
        assert asked == " [y/N/always/run/never] "
        terminal.type(CONTROL_C)
        assert terminal.end() == 130
        assert terminal.raw.rpartition("stops it)")[2].startswith("\x1b[0m")
        assert "\r\x1b[K" in terminal.raw.rpartition("stops it)")[2]


WAITING = re.compile(r"\r\x1b\[K(?:\x1b\[2m)?([^\r\x1b]*)(?:\x1b\[0m)?(?=\r\x1b\[K)|\r\x1b\[K")
"""The line that says what is waited for, which the next one or the end takes away."""


def lasting(raw: str) -> str:
    """What stays on a terminal: without the line that says what is waited for."""
    return WAITING.sub("", raw)


def width(line: str) -> int:
    """How many columns of a terminal a line takes."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in line)


@pytest.mark.parametrize("columns", (30, 80))
@pytest.mark.parametrize("colours", (True, False))
def test_act_output_escapes_control_characters_and_fits_the_terminal(
    folder: Path, columns: int, colours: bool
) -> None:
    name = "é\x1b[2J\u202egpj.txt"
    (folder / name).write_text("字" * 100 + "\n\x1b]0;title\x07[bold red]\r\tend\n")
    steps = [does(("list_files", {})), does(("read_file", {"file_name": name}))]
    with OpenAIServer(*steps, streamed("It says \x1b[31m字 [/bold] :smile:")) as server:
        environment = {} if colours else {"NO_COLOR": "1"}
        with at_terminal(server, folder, columns=columns, environment=environment) as terminal:
            assert terminal.end() == 0
    shown = uncoloured(lasting(terminal.raw))
    assert "\x1b" not in shown
    assert all(c.isprintable() or c in "\r\n" for c in shown)
    assert ("\x1b[1;36m" in terminal.raw) is colours
    assert all(width(line) <= columns for line in shown.splitlines())
    # In the last column a terminal may go on to the next line.
    assert 0 < max(map(width, WAITING.findall(terminal.raw))) < columns
    joined = "".join(line.strip() for line in shown.splitlines()).replace(" ", "")
    for text in (
        r"é\x1b[2J\u202egpj.txt",
        "字" * 100,
        r"\x1b]0;title\x07[boldred]\rend",
        r"Itsays\x1b[31m字[/bold]:smile:",
    ):
        assert text in joined


def test_act_without_rich_says_which_extra_is_missing(folder: Path) -> None:
    code = (
        "import sys; sys.modules['rich'] = None; sys.modules['rich.console'] = None\n"
        "from moothall.cli.main import main\nmain(sys.argv[1:])\n"
    )
    with OpenAIServer(streamed("Hello.")) as server:
        command = [sys.executable, "-c", code, "act", "Greet", "--model", f"{server.url}#m"]
        done, as_json = (
            subprocess.run(
                [*command, *more], capture_output=True, text=True, timeout=50, cwd=folder,
                stdin=subprocess.DEVNULL,
            )
            for more in ([], ["--json"])
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.endswith("needs the extra 'cli': pip install 'moothall[cli]'\n")
    assert as_json.returncode == 0, as_json.stderr


# -- permission ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "written"), (("y", True), ("n", False), ("", False)))
def test_change_is_asked_about_with_its_exact_arguments(
    folder: Path, key: str, written: bool
) -> None:
    with OpenAIServer(does(WRITE), streamed("Well.")) as server:
        with at_terminal(server, folder) as terminal:
            terminal.until("Permit this? [y/N/always/run/never] ")
            said = plain(lasting(terminal.raw))
            assert not (folder / "new.txt").exists()
            terminal.type(f"{key}\n")
            assert terminal.end() == 0
        heard = server.requests[1].body["messages"][-1]["content"]
    # First the step, then the question about it.
    assert said.replace("\r", "") == (
        '→ write_file(file_name="new.txt", content="hello\\n")\n'
        'files proposes: /files.write_file file_name:"new.txt" content:"hello\\n"\n'
        "Permit this? [y/N/always/run/never] "
    )
    assert (folder / "new.txt").exists() is written
    assert ("not permitted" in heard) is not written
    assert ("✗" in terminal.seen) is not written


def test_questions_come_one_by_one_each_after_its_step(folder: Path) -> None:
    other = ("write_file", {"file_name": "other.txt", "content": "x"})
    with (
        OpenAIServer(does(WRITE, other), streamed("Well.")) as server,
        at_terminal(server, folder) as terminal,
    ):
        shown = uncoloured(terminal.until("Permit this? [y/N/always/run/never] "))
        assert shown.index('write_file(file_name="new.txt"') < shown.index('file_name:"new.txt"')
        assert 'file_name:"other.txt"' not in shown
        terminal.type("n\n")
        shown = terminal.until("Permit this? [y/N/always/run/never] ")
        assert 'file_name:"other.txt"' in shown
        assert 'file_name:"new.txt"' not in shown
        terminal.type("y\n")
        assert terminal.end() == 0
    assert not (folder / "new.txt").exists()
    assert (folder / "other.txt").read_text() == "x"


def test_act_keys_typed_before_a_question_do_not_answer_it(folder: Path) -> None:
    with (
        OpenAIServer(does(WRITE), streamed("Well.")) as server,
        at_terminal(server, folder) as terminal,
    ):
        terminal.type("y\ny\n")  # long before there is anything to ask
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type("n\n")
        assert terminal.end() == 0
    assert "not permitted" in terminal.seen
    assert not (folder / "new.txt").exists()


def test_control_d_at_a_question_refuses(folder: Path) -> None:
    with (
        OpenAIServer(does(WRITE), streamed("Well.")) as server,
        at_terminal(server, folder) as terminal,
    ):
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type(CONTROL_D)
        assert terminal.end() == 0
    assert "no answer: refused" in terminal.seen
    assert not (folder / "new.txt").exists()


def test_act_without_a_terminal_refuses_calls_that_ask_and_says_so(folder: Path) -> None:
    yes = folder / "yes"
    yes.write_text("y\ny\n")
    for name in ("yes", os.devnull):
        with (
            OpenAIServer(does(WRITE, SEARCH), streamed("Well.")) as server,
            open(folder / name) as stdin,
        ):
            done = act("Do it", "--model", f"{server.url}#m", cwd=folder, stdin=stdin)
        assert done.returncode == 0
        assert done.stderr == (
            "refused, since standard input is not a terminal, so nobody can be asked: "
            '/files.write_file file_name:"new.txt" content:"hello\\n"\n'
        )
        assert '✗ "write_file" not permitted' in done.stdout
        assert "line 2: milk, oat" in done.stdout
        assert not (folder / "new.txt").exists()


def test_closed_standard_input_is_no_terminal(folder: Path) -> None:
    with OpenAIServer(does(WRITE), streamed("Well.")) as server:
        line = f'exec "{sys.executable}" -m moothall act "Do it" --model "{server.url}#m" <&-'
        done = subprocess.run(
            ["/bin/sh", "-c", line], capture_output=True, text=True, timeout=50, cwd=folder
        )
    assert (done.returncode, "refused" in done.stderr) == (0, True)
    assert "Traceback" not in done.stderr


def test_reading_is_asked_about_if_one_says_so(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("Well.")) as server:
        asked = act("Do it", "--model", f"{server.url}#m", "--ask-read", cwd=folder)
    assert "/files.search_in_file" in asked.stderr
    assert "milk, oat" not in asked.stdout


def test_act_path_out_of_its_folder_is_refused(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    read = ("read_file", {"file_name": "../notes.txt"})
    with OpenAIServer(does(read), streamed("Well.")) as server:
        done = act("Do it", "--model", f"{server.url}#m", "--root", "inner", cwd=folder)
    assert '"../notes.txt" leads out of the folder' in done.stdout
    assert "milk" not in done.stdout


# -- for programs ----------------------------------------------------------------------------------


def test_json_is_one_object_a_line_and_the_last_the_reply(folder: Path) -> None:
    (folder / "long.txt").write_text("x" * 50_000)
    read = ("read_file", {"file_name": "long.txt"})
    steps = [does(SEARCH), does(read), does(WRITE), streamed("Two \x1b[31mé.")]
    with OpenAIServer(*steps) as server:
        done = act("Do it", "--model", f"{server.url}#m", "--json", cwd=folder)
    assert done.returncode == 0
    assert "refused" in done.stderr
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout
    events = [json.loads(line) for line in done.stdout.splitlines()]
    began = [event for event in events if event["kind"] == "call_started"]
    assert [(event["action"], event["args"]) for event in began] == [SEARCH, read, WRITE]
    ended = [event for event in events if event["kind"] == "call_ended"]
    assert json.loads(ended[0]["result"]) == [[2, "milk, oat"]]
    assert len(ended[1]["result"]) < 11_000
    assert (ended[2]["result"], ended[2]["error"]) == (None, '"write_file" not permitted')
    assert "".join(e["text"] for e in events if e["kind"] == "text") == "Two \x1b[31mé."
    assert any(event["kind"] == "message" for event in events)
    last = events[-1]
    assert last["kind"] == "done"
    assert (last["text"], last["stop_reason"], last["steps"]) == ("Two \x1b[31mé.", "done", 3)
    assert (last["input_tokens"], last["output_tokens"]) == (28, 12)
    assert last["exit_code"] == 0


def test_json_asks_on_standard_error(folder: Path) -> None:
    # Both come to one terminal; what is no JSON is the question.
    with (
        OpenAIServer(does(WRITE), streamed("Well.")) as server,
        at_terminal(server, folder, "--json") as terminal,
    ):
        terminal.until("Permit this? [y/N/always/run/never] ")
        assert '"call_started"' in terminal.seen
        terminal.type("y\n")
        assert terminal.end() == 0
    assert (folder / "new.txt").exists()


RUN = "echo kept >in.txt; (echo lost >../out.txt) 2>/dev/null"


@pytest.mark.parametrize(("options", "network"), (((), False), (("--network",), True)))
def test_command_is_confined_to_the_folder(
    outside_of_tmp: Path, options: tuple[str, ...], network: bool
) -> None:
    folder = outside_of_tmp / "root"
    folder.mkdir()
    connects = f"{RUN}\npython3 -I connect.py"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        (folder / "connect.py").write_text(CONNECT.format(port=port))
        command = ("run_command", {"command": connects})
        with (
            OpenAIServer(does(command), streamed("Well.")) as server,
            at_terminal(server, folder, *options) as terminal,
        ):
            shown = terminal.until("Permit this? [y/N/always/run/never]")
            assert "not confined" not in shown
            terminal.type("y\n")
            assert terminal.end() == 0
    assert (folder / "in.txt").read_text() == "kept\n"
    assert not (outside_of_tmp / "out.txt").exists()
    assert ("connected" in terminal.seen) is network


def test_act_without_bubblewrap_and_without_a_key_says_that_there_is_no_key(folder: Path) -> None:
    bare = folder / "bin"
    bare.mkdir()
    environment = {"PATH": str(bare), "OPENAI_API_KEY": ""}
    done = act("Do it", "--model", "openai:x", cwd=folder, environment=environment)
    assert done.returncode == 2
    assert done.stderr == "moothall: openai:x: there is no key: set OPENAI_API_KEY\n"


def test_act_without_bubblewrap_says_so_in_its_question(folder: Path) -> None:
    bare = folder / "bin"
    bare.mkdir()
    command = ("run_command", {"command": "echo done"})
    with (
        OpenAIServer(does(command, WRITE), streamed("Well.")) as server,
        at_terminal(server, folder, environment={"PATH": str(bare)}) as terminal,
    ):
        shown = terminal.until("Permit this? [y/N/always/run/never]")
        assert shown.index("(not confined: bubblewrap is not") < shown.index("files proposes")
        terminal.type("y\n")
        # Of what is confined without it, it says nothing.
        assert "not confined" not in terminal.until("Permit this? [y/N/always/run/never]")
        terminal.type("n\n")
        assert terminal.end() == 0
    assert "  done\r\n" in uncoloured(terminal.raw)


# -- how it ends -----------------------------------------------------------------------------------


def test_interrupted_it_kills_the_command_and_says_what_was_done(folder: Path) -> None:
    os.mkfifo(folder / "alive")
    # Both the shell and what it started hold the pipe open for as long as they live.
    command = ("run_command", {"command": "exec 3>alive; echo begun >&3; sleep 300 & wait"})
    with (
        OpenAIServer(does(SEARCH), does(command)) as server,
        at_terminal(server, folder) as terminal,
    ):
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type("y\n")
        with (folder / "alive").open() as alive:
            assert alive.readline() == "begun\n"
            terminal.type(CONTROL_C)
            assert terminal.end() == 130
            assert alive.read() == ""
    assert "stopped before it had ended: run_command" in terminal.seen
    assert "until then 1 step, " in terminal.seen
    assert "moothall: interrupted" in terminal.seen
    assert "Traceback" not in terminal.seen


def test_interrupted_while_it_asks(folder: Path) -> None:
    with OpenAIServer(does(WRITE)) as server, at_terminal(server, folder) as terminal:
        terminal.until("Permit this? [y/N/always/run/never] ")
        terminal.type(CONTROL_C)
        assert terminal.end() == 130
    assert "Fatal" not in terminal.seen
    assert "stopped before" not in terminal.seen
    assert not (folder / "new.txt").exists()


@pytest.mark.parametrize("options", ((), ("--json",)))
def test_interrupted_while_the_model_answers(folder: Path, options: tuple[str, ...]) -> None:
    with OpenAIServer(does(SEARCH), HANG) as server:
        with at_terminal(server, folder, *options) as terminal:
            server.wait_for_request()
            server.wait_for_request()
            terminal.type(CONTROL_C)
            assert terminal.end() == 130
        server.wait_for_close()
    assert ('{"kind": "interrupted"' in terminal.seen) is bool(options)


@pytest.mark.parametrize(
    ("answers", "options", "said"),
    (
        (
            (does(SEARCH),),
            ("--max-iterations", "2"),
            "the iterations were used up without an answer",
        ),
        ((does(SEARCH),), (), "stopped: the model repeated the same calls"),
        ((does(SEARCH),), ("--max-tokens", "10"), ": raise the limit, or lower one of these)"),
        ((HANG,), ("--max-seconds", "0.5"), "stopped: time limit reached"),
        ((status(400, "no such model"),), (), "failed: "),
        ((status(400, "no such model"),), ("--json",), '"exit_code": 1'),
    ),
    ids=("iterations", "progress", "tokens", "seconds", "error", "json"),
)
def test_run_without_an_answer_is_exit_code_1(
    folder: Path, answers: tuple[Any, ...], options: tuple[str, ...], said: str
) -> None:
    with OpenAIServer(*answers) as server:
        done = act("Do it", "--model", f"{server.url}#m", *options, cwd=folder)
    assert done.returncode == 1
    streams = (done.stdout, done.stderr) if "--json" in options else (done.stderr, done.stdout)
    assert said in streams[0]
    assert said not in streams[1]


def test_tokens_are_limited_over_all_calls(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("Well.")) as server:
        limited = ("--max-tokens", "10000")
        done = act("Do it", "--model", f"{server.url}#m", *limited, cwd=folder)
    assert (done.returncode, done.stdout.count("20 tokens")) == (0, 1)


@pytest.mark.parametrize(
    ("args", "said"),
    (
        ((), "Missing argument 'TASK'"),
        ((" ",), "TASK is empty"),
        (("x", "--max-iterations", "0"), "--max-iterations"),
        (("x", "--max-seconds", "0"), "--max-seconds"),
        (("x", "--root", "nowhere"), 'the root folder "nowhere" does not exist'),
        (("x", "--root", "notes.txt"), 'the root folder "notes.txt" is not a folder'),
        (("x", "--review", "me", "--model", "http://127.0.0.1:1/v1#m"), "--review me: standard"),
        (("x", "--run-id", "r"), "--run-id is for a run in a journal: give --journal too"),
        (("x", "--journal", "../runs.db", "--run-id", "-r"), "begins with no dash"),
        (("x", "--journal", "../runs.db", "--run-id", ""), "an id is printable, of 1 to 255"),
        (("x", "--journal", "."), "--journal"),
        (("x", "--journal", "runs.db"), "the journal 'runs.db' is in the folder that the agent"),
        (("x", "--journal", "work/../runs.db"), "name one elsewhere"),
        (
            ("x", "--journal", "../runs.db", "--model", "http://me:secret@127.0.0.1:1/v1#m"),
            "must hold no password",
        ),
    ),
)
def test_wrong_usage_is_exit_code_2(folder: Path, args: tuple[str, ...], said: str) -> None:
    done = act(*args, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


# -- a journal -------------------------------------------------------------------------------------


def test_recorded_run_says_which_it_is(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("Well.")) as server:
        plain, recorded = (
            act("Do it", "--model", f"{server.url}#m", *options, cwd=folder)
            for options in ((), ("--journal", "../runs.db"))
        )
    assert (recorded.returncode, recorded.stderr) == (0, "")
    first, *lines, _ = recorded.stdout.splitlines()
    id = first.removeprefix("run ").removesuffix(", recorded in ../runs.db")
    assert len(id) == 16
    assert lines[-1] == "done: the model has answered"
    assert plain.stdout.count("run ") == 0  # and without a journal, nothing is said of one


@pytest.mark.parametrize(
    ("options", "environment", "command"),
    (
        (("--journal", "../my runs.db"), {}, "moothall resume r --journal '../my runs.db'"),
        ((), {"MOOTHALL_JOURNAL": "../my runs.db"}, "moothall resume r"),
    ),
)
def test_recorded_run_that_was_stopped_says_how_to_go_on(
    folder: Path, options: tuple[str, ...], environment: dict[str, str], command: str
) -> None:
    with OpenAIServer(HANG) as server:
        limits = ("--max-seconds", "0.5", "--run-id", "r")
        args = ("Do it", "--model", f"{server.url}#m", *limits, *options)
        done = act(*args, cwd=folder, environment=environment)
    assert done.returncode == 1
    assert done.stderr.endswith(f"\nto resume it: {command}\n")


def test_run_that_is_over_for_good_says_nothing_of_going_on(folder: Path) -> None:
    with OpenAIServer(does(SEARCH)) as server:
        journal = ("--journal", "../runs.db", "--max-iterations", "1")
        done = act("Do it", "--model", f"{server.url}#m", *journal, cwd=folder)
    assert done.returncode == 1
    assert "resume" not in done.stdout


def test_same_command_goes_on_with_a_run_and_another_does_not(folder: Path) -> None:
    (folder / "other").mkdir()
    with OpenAIServer(does(SEARCH), HANG, streamed("Well.")) as server:
        journal = ("--journal", "../runs.db", "--run-id", "r", "--model", f"{server.url}#m")
        act("Do it", *journal, "--max-seconds", MOMENT_S, cwd=folder)
        for args, changed in (
            (("Do that",), "task: was 'Do it', is 'Do that'"),
            (("Do it", "--root", "other"), "root: was "),
            (("Do it", "--network"), "network: was False, is True"),
        ):
            done = act(*args, *journal, cwd=folder)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith("moothall: run 'r' was begun by another program")
            assert changed in done.stderr
            assert done.stderr.count("\n") == 1
        done = act("Do it", *journal, cwd=folder)
        assert len(server.requests) == 3
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("→ search_in_file") == 1


def test_journal_in_no_folder_is_said(folder: Path) -> None:
    args = ("Do it", "--model", "http://127.0.0.1:1/v1#m", "--journal", "../no/runs.db")
    done = act(*args, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    said = "moothall: --journal: journal '../no/runs.db': there is no folder"
    assert done.stderr.startswith(said)


def test_file_of_a_folder_cannot_name_a_journal(folder: Path) -> None:
    # What a journal says was permitted is done, and the file may be by anybody.
    (folder / "moothall.toml").write_text("[act]\njournal = 'runs.db'\n")
    done = act("Do it", "--model", "http://127.0.0.1:1/v1#m", cwd=folder)
    assert (done.returncode, "there is no key 'act.journal'" in done.stderr) == (2, True)


# -- settings --------------------------------------------------------------------------------------


def in_environment(folder: Path, url: str) -> dict[str, str]:
    return {"MOOTHALL_MODEL": f"{url}#environment", "MOOTHALL_ROOT": str(folder / "environment")}


@pytest.mark.parametrize(
    ("wins", "environment", "args"),
    (
        ("table", None, ()),
        ("environment", in_environment, ()),
        ("line", in_environment, ("--model", "{url}#line", "--root", "line")),
    ),
)
def test_command_line_goes_before_the_environment_and_that_before_the_file(
    folder: Path,
    wins: str,
    environment: Callable[[Path, str], dict[str, str]] | None,
    args: tuple[str, ...],
) -> None:
    for name in ("top", "table", "environment", "line"):
        (folder / name).mkdir()
        (folder / name / f"in_{name}").write_text("")
    with OpenAIServer(does(("list_files", {})), streamed("Well.")) as server:
        (folder / "moothall.toml").write_text(
            f'model = "{server.url}#top"\nroot = "top"\n'
            f'[act]\nmodel = "{server.url}#table"\nroot = "table"\n'
        )
        given = environment(folder, server.url) if environment else None
        options = [arg.format(url=server.url) for arg in args]
        done = act("Do it", "--yes-read", *options, cwd=folder, environment=given)
        assert server.requests[0].body["model"] == wins
    assert f"in_{wins}\n" in done.stdout


def test_top_level_of_the_file_is_for_every_command(folder: Path) -> None:
    with OpenAIServer(streamed("Well.")) as server:
        (folder / "moothall.toml").write_text(f'model = "{server.url}#top"\n')
        assert act("Do it", cwd=folder).returncode == 0
        assert server.requests[0].body["model"] == "top"


@pytest.mark.parametrize(
    ("text", "options", "asks"),
    (
        ('model = "{url}#m"', (), True),
        ('[act]\nroot = "."', ("--model", "{url}#m"), True),
        ('model = "{url}#m"', ("--yes-read",), False),
        ('model = "nobody"\nroot = "nowhere"', ("--model", "{url}#m", "--root", "."), False),
    ),
)
def test_file_cannot_have_files_read_without_asking(
    folder: Path, text: str, options: tuple[str, ...], asks: bool
) -> None:
    # It may have come with the folder, from who knows whom.
    with OpenAIServer(does(SEARCH), streamed("Well.")) as server:
        (folder / "moothall.toml").write_text(text.format(url=server.url))
        done = act("Do it", *(each.format(url=server.url) for each in options), cwd=folder)
    assert ("refused" in done.stderr) is asks
    assert ("milk, oat" in done.stdout) is not asks


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("modle = 'x'", "there is no key 'modle'; there are model, root, key, [act], [chat]"),
        ("key = 7", "moothall.toml: 'key' must be a text"),
        ("agents = ['a:b']", "moothall.toml: there is no key 'agents'"),
        (
            "[chat]\nagents = 'a:b'",
            "moothall.toml: 'chat.agents' must be a list of texts, got 'a:b'",
        ),
        ("[chat]\nagents = ['']", "moothall.toml: 'chat.agents' must be a list of texts, got ['']"),
        ("[act]\nmax = 1", "moothall.toml: there is no key 'act.max'; there are model, root"),
        ("model = 3", "moothall.toml: 'model' must be a text, got 3"),
        ("[act]\nroot = ''", "moothall.toml: 'act.root' must be a text, got ''"),
        ("act = 'x'", "moothall.toml: 'act' must be a table, [act], got 'x'"),
        ("model = ", "moothall.toml is not TOML"),
    ),
)
def test_wrong_file_is_said_with_its_key(folder: Path, text: str, said: str) -> None:
    (folder / "moothall.toml").write_text(text)
    done = act("Do it", "--model", "http://127.0.0.1:1/v1#m", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_file_that_cannot_be_read_is_said(folder: Path) -> None:
    (folder / "moothall.toml").write_bytes(b"\xff")
    done = act("Do it", cwd=folder)
    assert (done.returncode, "moothall.toml cannot be read" in done.stderr) == (2, True)


# -- review ----------------------------------------------------------------------------------------


def test_person_reviews_at_the_terminal(folder: Path) -> None:
    with OpenAIServer(does(SEARCH), streamed("Line 1."), streamed("Line 2.")) as server:
        with at_terminal(server, folder, "--review", "me") as terminal:
            terminal.until("you> ")
            assert "The agent's answer:\r\n  Line 1.\r\n" in terminal.seen
            assert terminal.seen.index("line 2: milk, oat") < terminal.seen.index("The task:")
            assert "You review" not in terminal.seen
            terminal.type("r Look again.\n")
            terminal.until("you> ")
            assert "the review asks for another way: Look again." in terminal.seen
            assert "  Line 2.\r\n" in terminal.seen
            terminal.type("a\n")
            assert terminal.end() == 0
        assert "Look again." in json.dumps(server.requests[2].body["messages"])
    assert "done: the review accepted it" in terminal.seen


def test_person_who_reviews_may_stop_and_go_on_later(folder: Path) -> None:
    with OpenAIServer(streamed("Line 1.")) as server:
        options = ("--review", "me", "--journal", "../runs.db", "--run-id", "r")
        with at_terminal(server, folder, *options) as terminal:
            terminal.type("a\n")  # before there is anything to accept
            terminal.until("you> ")
            terminal.type("s\n")
            assert terminal.end() == 1
        assert "cancelled: H ('you'): stopped by you" in terminal.seen
        assert "to resume it: moothall resume r --journal ../runs.db" in terminal.seen
        given = ("-m", "moothall", "resume", "r", "--journal", "../runs.db")
        with Terminal(*given, cwd=folder) as terminal:
            terminal.until("you> ")
            terminal.type("a\n")
            assert terminal.end() == 0


def test_model_reviews(folder: Path) -> None:
    reviews = [decides("CONTINUE", "Look at notes.txt"), decides("TERMINATE", "", "it looked")]
    works = [streamed("I guess."), does(SEARCH), streamed("Line 2.")]
    with OpenAIServer(*works) as worker, OpenAIServer(*reviews) as reviewer:
        models = ("--model", f"{worker.url}#m", "--review", f"{reviewer.url}#h")
        done = act("Where is milk?", *models, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:-1] == [
        "I guess.",
        "the review asks for more: Look at notes.txt",
        '→ search_in_file(file_name="notes.txt", search_term="milk")',
        "  line 2: milk, oat",
        "Line 2.",
        "the review accepts: it looked",
        "",
        "done: the review accepted it",
    ]


def test_review_has_the_same_limits(folder: Path) -> None:
    with OpenAIServer(streamed("Well.")) as server:
        both = ("--model", f"{server.url}#m", "--review", f"{server.url}#h")
        done = act("Do it", *both, "--max-tokens", "10", cwd=folder)
        assert server.requests == []
    assert done.returncode == 1
    assert "budget limit reached" in done.stderr
