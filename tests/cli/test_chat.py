from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from commands import Command, run
from models.openai_server import (
    HANG,
    Answer,
    OpenAIServer,
    Request,
    call,
    delta,
    events,
    streamed,
    text,
)
from moothall import Journal, ScriptedModel
from moothall.cli.main import main
from moothall.cli.own_agents import Forgetful
from pseudo_terminal import CONTROL_C, Terminal

WAIT = 30
CHAT = (sys.executable, "-m", "moothall", "chat")
# prompt_toolkit writes it when it begins to read a line.
READY = "\x1b[?2004h"
NO_MODEL = "http://127.0.0.1:9/v1#m"
SETTINGS = {"MOOTHALL_MODEL": "", "MOOTHALL_ROOT": "", "MOOTHALL_KEY": "", "MOOTHALL_AGENTS": ""}

AGENTS = '''
import threading
from moothall import Agent, action

class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action
    async def shout(self) -> str:
        return "one\\ntwo\\x1b[2J" + "x" * 5000

    @action
    async def told(self, path: str) -> None:
        """Say and ask for something when a pipe says so, long after this has ended."""
        threading.Thread(target=self._wait, args=(path,), daemon=True).start()

    @action
    async def fail(self, left: int) -> None:
        if not left:
            raise ValueError("no luck")
        self.send({"to": str(self.id), "action": {"name": "fail", "args": {"left": 0}}})

    def _wait(self, path):
        with open(path) as pipe:
            what = pipe.read()
        if what == "say":
            self.send({"to": "You", "action": {"name": "say", "args": {"content": "by the way"}}})
        else:
            self.send({"to": "Host", "action": {"name": "list_files"}})

class Teller(Agent):
    @action
    async def say(self, content: str) -> dict:
        return {"heard": content}

    @action
    async def forget(self) -> None:
        """Return nothing."""

made = Calculator("My calculator")

def make():
    return Calculator("Made")

def wrong():
    return 7

def failing():
    raise ValueError("no luck")

class Unready(Agent):
    def after_add(self):
        raise ValueError("no luck")

number = 7
'''

PAIR = """
from moothall import DualActAgent, DualActConfig, ReActAgent, ScriptedModel

decision = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "so"}'
boss = ReActAgent("boss", ScriptedModel([decision]))
worker = ReActAgent("worker", ScriptedModel(["It is written."]))
made = DualActAgent(DualActConfig(human=boss, reactive=worker, first="reactive"), "Pair")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The current folder of a chat, which is its root too."""
    (tmp_path / "my_agents.py").write_text(AGENTS)
    (tmp_path / "notes.txt").write_text("Milk, bread\n")
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    return {**clean, **SETTINGS, **more}


# What tells who is at work when nothing has come for a moment, and is taken back before anything
# else is shown.
AT_WORK = re.compile(r"[^\r\n]* (?:is|are) at work(?:, \d+ s)?\r")


class Chat(Terminal):
    """A chat at a pseudo-terminal."""

    def until(self, mark: str) -> str:
        """Read until a mark is there; give what is new up to it, and was not taken back."""
        return AT_WORK.sub("", super().until(mark))

    def line(self, line: str, ready: str = READY) -> str:
        """Write a line when it is time for one; what is shown until the next may be written."""
        self.type(f"{line}\r")
        return self.until(ready)


@contextmanager
def chat(
    folder: Path, *args: str, model: str = NO_MODEL, columns: int = 100, **more: str
) -> Iterator[Chat]:
    given = ("-m", "moothall", "chat", "--model", model, *args)
    settings = {**SETTINGS, "XDG_STATE_HOME": str(folder / "state"), **more}
    with Chat(*given, cwd=folder, columns=columns, environment=dict(settings)) as terminal:
        terminal.until("> " if more.get("TERM") == "dumb" else READY)
        yield terminal


def answers(**by: Any) -> Callable[[Request], Any]:
    """Answers of a server to each agent: FunctionAI is told its id, Chatty is not."""
    left = {id: [*given] if isinstance(given, list) else [given] for id, given in by.items()}

    def answer(request: Request) -> Any:
        system = request.body["messages"][0]["content"]
        id = "FunctionAI" if "You are 'FunctionAI'" in system else "Chatty"
        return left[id].pop(0)

    return answer


def either(said: str) -> Callable[[Request], Any]:
    """An answer in pieces to who wants it so."""
    return lambda request: (streamed if request.body.get("stream") else text)(said)


def gated(given: Answer, pieces: int, gate: threading.Event) -> Answer:
    """An answer of which no more than so many pieces come before the gate is open."""
    whole = list(given.pieces)
    return Answer((*whole[:pieces], gate, *whole[pieces:]))


def piped(
    folder: Path, lines: str | bytes, *args: str, **more: str
) -> subprocess.CompletedProcess[str]:
    given = ("--model", NO_MODEL, *args)
    return run("chat", *given, input=lines, cwd=folder, env=environment(**more))


# -- at a terminal ---------------------------------------------------------------------------------


def test_text_is_said_to_all_and_the_chat_agent_answers(folder: Path) -> None:
    with (
        OpenAIServer(
            answers(
                Chatty=[streamed("Hello, You."), streamed("Again.")],
                FunctionAI=streamed("At your service."),
            )
        ) as server,
        chat(folder, model=f"{server.url}#m") as terminal,
    ):
        shown = terminal.line("Good morning")
        assert shown.count("Chatty: Hello, You.\r\n") == 1
        assert shown.count("FunctionAI: At your service.\r\n") == 1
        assert "Chatty: Again." in terminal.line('/Chatty.say content:"More"')
        assert terminal.leave() == 0
    said = [message["content"] for message in server.requests[-1].body["messages"][1:]]
    assert said == ["Good morning", "Hello, You.", "More"]


def test_action_that_asks_first_is_approved_at_the_terminal(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.type("/Host.list_files\r")
        assert "You propose: /Host.list_files\r\n" in terminal.until("[y/N/always]")
        assert "notes.txt" in terminal.line("y")
        terminal.line("/Host.list_files")
        shown = terminal.line("n")
        assert '"Host.list_files" not permitted' in shown
        terminal.line("/Host.list_files")
        assert "notes.txt" in terminal.line("always")
        # Not asked again for this, and asked for anything else.
        assert "notes.txt" in terminal.line("/Host.list_files")
        terminal.type('/Host.list_files folder_name:"."\r')
        terminal.until("[y/N/always]")
        assert "not permitted" in terminal.line("")
        assert terminal.leave() == 0


def test_chat_keys_typed_before_a_question_do_not_answer_it(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.type("/Host.list_files\ry\ry\r")
        terminal.until("[y/N/always]")
        assert "not permitted" in terminal.line("n")


def test_ctrl_c_cancels_the_reply_and_not_the_program(folder: Path) -> None:
    with (
        OpenAIServer(HANG, streamed("Here I am.")) as server,
        chat(folder, model=f"{server.url}#m") as terminal,
    ):
        terminal.type('/Chatty.say content:"Are you there?"\r')
        server.wait_for_request()
        terminal.type(CONTROL_C)
        assert "Chatty: error: " in terminal.until(READY)
        server.wait_for_close()
        assert "Here I am." in terminal.line('/Chatty.say content:"And now?"')
        assert terminal.leave() == 0


def test_ctrl_c_at_a_question_refuses_and_goes_on(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.type("/Host.list_files\r")
        terminal.until("[y/N/always]")
        terminal.type(CONTROL_C)
        assert "cancelled" in terminal.until(READY)
        # A line that was begun is taken back.
        terminal.type("nonsense")
        terminal.until("nonsense")
        terminal.type(CONTROL_C)
        terminal.until(READY)
        terminal.type("/A\r")
        terminal.until("column 3: expected")
        assert terminal.leave() == 0


@pytest.mark.parametrize("line", ("nonsense", "/Host.list_files\r"))
def test_sigterm_ends_a_chat_at_a_line_or_a_question(folder: Path, line: str) -> None:
    with chat(folder) as terminal:
        terminal.type(line)
        terminal.until("[y/N/always]" if line.endswith("\r") else line)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == 130
        assert "moothall: interrupted" in terminal.seen


def test_agents_actions_and_arguments_are_completed(folder: Path) -> None:
    with chat(folder, "--agent", "my_agents:made") as terminal:
        # Only what a candidate adds is drawn.
        for keys, shown in (("/My\t", "calculator"), ("a\t", "dd"), ("a\t", ":"), ("20 b\t", ":")):
            terminal.type(keys)
            terminal.until(shown)
        assert "My calculator: 42" in terminal.line("22")
        for keys, shown in (
            ("/qu\t", "it"),
            (CONTROL_C, READY),
            ("/*.he\t", "lp"),
            ("act\t", 'ion_name:"'),
        ):
            terminal.type(keys)
            terminal.until(shown)
        assert "Add two integers." in terminal.line('add"')


def test_chat_messages_appear_above_the_line_being_typed(folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with chat(folder, "--agent", "my_agents:Calculator") as terminal:
        terminal.line('/Calculator.told path:"pipe"')
        terminal.type("/Calculator.add a:1")
        terminal.until("a:1")
        pipe.write_text("say")
        assert "Calculator: by the way" in terminal.until("by the way")
        terminal.type(" b:2\r")
        terminal.until(": 3")


def test_failure_behind_the_scenes_is_one_line(folder: Path) -> None:
    with chat(folder, "--agent", "my_agents:Calculator", NO_COLOR="1") as terminal:
        terminal.type("/Calculator.fail left:1\r")
        shown = terminal.until("got an error from 'Calculator': ValueError: no luck")
        assert "(error: action 'fail' of agent 'Calculator' failed" in shown
        assert "Traceback" not in shown


def test_question_that_comes_while_a_line_is_written_gives_it_back(folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with chat(folder, "--agent", "my_agents:Calculator") as terminal:
        terminal.line('/Calculator.told path:"pipe"')
        terminal.type("/Calculator.add a:1")
        terminal.until("a:1")
        pipe.write_text("ask")
        shown = terminal.until("[y/N/always]")
        assert "Calculator proposes: /Host.list_files" in shown
        before = terminal.raw.partition("Calculator proposes")[0].rpartition("a:1")[2]
        assert ("\x1b[J" in before, "\n" in before) == (True, False)  # the line is taken away
        terminal.line("y")
        terminal.type(" b:2\r")
        terminal.until(": 3")


def test_chat_output_escapes_control_characters(folder: Path) -> None:
    with chat(folder, "--agent", "my_agents:Calculator", NO_COLOR="1") as terminal:
        terminal.type("/Calculator.shout\r")
        shown = terminal.until("(1,011 more characters)")
        assert "Calculator: one\r\n  two\\x1b[2Jxxx" in shown


@pytest.mark.parametrize(("more", "coloured"), (({}, True), ({"NO_COLOR": "1"}, False)))
def test_colours_are_left_out_where_they_are_not_wanted(
    folder: Path, more: dict[str, str], coloured: bool
) -> None:
    with chat(folder, "--agent", "my_agents:Calculator", **more) as terminal:
        terminal.type("/Calculator.add a:1 b:2\r")
        terminal.until(": 3")
        assert ("\x1b[1mCalculator:\x1b[0m 3" in terminal.raw) is coloured
        assert "\x1b[1m" not in terminal.raw or coloured


def test_narrow_terminal_is_wide_enough(folder: Path) -> None:
    with chat(folder, "--agent", "my_agents:Calculator", columns=40) as terminal:
        assert ": 300000" in terminal.line("/Calculator.add" + " " * 40 + "a:100000 b:200000")
        assert "column 3" in terminal.line("/A")
        assert terminal.leave() == 0


def test_chat_without_the_extra_reads_lines_from_elsewhere(folder: Path) -> None:
    code = (
        "import sys; sys.modules['prompt_toolkit'] = None\n"
        "from moothall.cli.main import main\nmain(['chat', *sys.argv[1:]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--model", NO_MODEL, "--agent", "my_agents:Calculator"],
        input='/Calculator.add a:1 b:2\n/"字".x\n',
        capture_output=True,
        text=True,
        timeout=WAIT,
        cwd=folder,
        env=environment(),
    )
    assert "Calculator: 3\n" in done.stdout
    assert '字: error: no agent "字"' in done.stdout
    assert done.stderr == ""


def test_chat_without_the_extra_says_what_to_install(folder: Path) -> None:
    code = (
        "import sys; sys.modules['prompt_toolkit'] = None\n"
        "from moothall.cli.main import main\nmain(['chat', *sys.argv[1:]])\n"
    )
    with Terminal("-c", code, "--model", NO_MODEL, cwd=folder) as terminal:
        shown = terminal.until("moothall[cli]")
        assert "moothall chat at a terminal needs the extra 'cli'" in shown
        assert terminal.end() == 2


# -- answers as they come --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "more"),
    ((100, {}), (40, {}), (40, {"NO_COLOR": "1"})),
    ids=("wide", "narrow", "no colours"),
)
def test_answer_comes_piece_by_piece_and_stands_there_once(
    folder: Path, columns: int, more: dict[str, str]
) -> None:
    gate = threading.Event()
    answer = "Good morning to you, 字 and \x1b[2J\nall the others.\n"
    # Its lines are lines, folded between words, and only the first begins at the margin.
    fold = "\r\n  " if columns == 40 else " "
    shown = f"Chatty: Good morning to you, 字 and{fold}\\x1b[2J\r\n  all the others.\r\n"
    with (
        OpenAIServer(gated(streamed(answer), 8, gate)) as server,
        chat(folder, model=f"{server.url}#m", columns=columns, **more) as terminal,
    ):
        terminal.type('/Chatty.say content:"Hello"\r')
        # The rest has not left the server.
        terminal.until("Good morning")
        gate.set()
        terminal.until("others.\r\n")
        terminal.until(READY)
        seen = terminal.seen
        assert seen.count("Chatty: ") == 1
        assert AT_WORK.sub("", seen).count(shown) == 1
        assert "\x1b[2J" not in terminal.raw


def test_ctrl_c_ends_an_answer_in_its_midst(folder: Path) -> None:
    begun = events(delta("I will"), delta(" tell"), hang=True)
    with (
        OpenAIServer(begun, streamed("Yes.")) as server,
        chat(folder, model=f"{server.url}#m") as terminal,
    ):
        terminal.type('/Chatty.say content:"Tell me"\r')
        terminal.until("Chatty: I will")
        terminal.type(CONTROL_C)
        shown = terminal.until(READY)
        assert shown.startswith(" tell\r\nChatty: error: ")
        server.wait_for_close()
        assert "Chatty: Yes." in terminal.line('/Chatty.say content:"Are you there?"')
        assert terminal.leave() == 0


def test_model_that_breaks_off_leaves_what_came_and_says_why(folder: Path) -> None:
    broken = events(delta("I will"), delta(" tell"), cut=True)
    with (
        OpenAIServer(broken) as server,
        chat(folder, model=f"{server.url}#m") as terminal,
    ):
        shown = terminal.line('/Chatty.say content:"Tell me"')
    assert "Chatty: I will tell\r\nChatty: error: " in shown


def test_long_answer_is_cut(folder: Path) -> None:
    with (
        OpenAIServer(streamed("x" * 4007)) as server,
        chat(folder, model=f"{server.url}#m") as terminal,
    ):
        shown = terminal.line('/Chatty.say content:"Go on"')
    assert shown.count("x") == 4000
    assert "x… (7 more characters)\r\n" in shown


def test_chat_shows_who_is_working_while_no_answer_has_come(folder: Path) -> None:
    with (
        OpenAIServer(HANG) as server,
        chat(folder, model=f"{server.url}#m", columns=40) as terminal,
    ):
        terminal.type("Hello\r")
        for _ in range(2):  # of how many seconds, a slow machine may leave one out
            terminal.until("Chatty, FunctionAI are at work, ")
        terminal.type(CONTROL_C)
        terminal.until(READY)
        # The line about it is gone before anything else is shown.
        assert "\r\x1b[K" in terminal.raw.rpartition("are at work")[2]


def test_dumb_terminal_is_told_nothing_that_is_taken_back(folder: Path) -> None:
    gate = threading.Event()
    with (
        OpenAIServer(gated(streamed("Good morning to you."), 8, gate)) as server,
        chat(folder, "--agent", "my_agents:made", model=f"{server.url}#m", TERM="dumb") as terminal,
    ):
        terminal.type('/Chatty.say content:"Hello"\r')
        server.wait_for_request()
        gate.set()
        assert "Chatty: Good morning to you.\r\n" in terminal.until("> ")  # whole
        assert ": 3" in terminal.line('/"My calculator".add a:1 b:2', "> ")
        assert "at work" not in terminal.raw
        assert "\x1b[K" not in terminal.raw
        assert "\x1b[32m" not in terminal.raw


def test_chat_keys_typed_during_an_answer_become_the_next_line(folder: Path) -> None:
    gate = threading.Event()
    with (
        OpenAIServer(gated(streamed("Good morning."), 5, gate)) as server,
        chat(folder, "--agent", "my_agents:Calculator", model=f"{server.url}#m") as terminal,
    ):
        terminal.type('/Chatty.say content:"Hello"\r')
        terminal.until("Chatty: Good")
        terminal.type("/Calculator.add a:1 b:2")
        gate.set()
        # Not in the midst of the answer.
        assert terminal.until("\r\n") == " morning.\r\n"
        terminal.until("b:2")
        terminal.type("\r")
        terminal.until(": 3")


def test_chat_messages_during_an_answer_are_shown_and_the_answer_goes_on(folder: Path) -> None:
    gate = threading.Event()
    adds = streamed([call("Calculator_add", '{"a": 1, "b": 2}')])
    server = OpenAIServer(
        answers(
            Chatty=gated(streamed("Good morning to you."), 5, gate),
            FunctionAI=[gated(adds, 0, gate), streamed("It is 3.")],
        )
    )
    with (
        server,
        chat(folder, "--agent", "my_agents:Calculator", model=f"{server.url}#m") as terminal,
    ):
        terminal.type("Hello\r")
        terminal.until("Chatty: Good")
        gate.set()
        shown = terminal.until(READY)
        assert shown.count("FunctionAI → Calculator: add a:1 b:2\r\n") == 1
        assert shown.count("FunctionAI: It is 3.\r\n") == 1
        whole = "".join(
            line.rpartition("Chatty: ")[2].replace("…", " ")
            for line in terminal.seen.split("\r\n")
            if "Chatty: " in line
        )
        assert whole == "Good morning to you."
        # How it knows what they offer is no news.
        assert "help" not in terminal.seen


def test_question_in_the_midst_of_an_answer_has_a_line_of_its_own(folder: Path) -> None:
    first, second = threading.Event(), threading.Event()
    lists = streamed([call("Host_list_files", "{}")])
    server = OpenAIServer(
        answers(
            Chatty=gated(streamed("Good morning to you."), 5, second),
            FunctionAI=[gated(lists, 0, first), streamed("There are two.")],
        )
    )
    with server, chat(folder, model=f"{server.url}#m") as terminal:
        terminal.type("Hello\r")
        terminal.until("Chatty: Good")
        first.set()
        shown = terminal.until("[y/N/always/run/never]")
        assert "\r\nFunctionAI proposes: /Host.list_files\r\n" in shown
        second.set()
        terminal.type("y\r")
        shown = terminal.until(READY)
        assert "Chatty: …morning" in shown  # it goes on, and others may come between once more
        assert "FunctionAI: There are two.\r\n" in shown
        assert terminal.leave() == 0


def test_agent_that_streams_nothing_answers_whole(folder: Path) -> None:
    """So does a pair of agents: what its members write to each other is no answer."""
    (folder / "pairs.py").write_text(PAIR)
    agents = ("--agent", "my_agents:Calculator", "--agent", "pairs:made")
    with chat(folder, *agents) as terminal:
        assert "Calculator: 3\r\n" in terminal.line("/Calculator.add a:1 b:2")
        shown = terminal.line('/Pair.say content:"Write it."')
        assert "Pair: It is written.\r\n" in shown
        assert "boss" not in shown
        assert "worker" not in shown


def test_function_agent_with_a_local_model_hears_its_name_alone(
    folder: Path, shallow_home: dict[str, str]
) -> None:
    with chat(folder, model="local", **shallow_home) as terminal:
        assert "FunctionAI needs a larger one" in terminal.raw
        shown = terminal.line("Name one large city.")
        assert shown.count("Chatty: ") == 1
        assert "FunctionAI" not in shown.partition("Name one")[2]
        assert "say" in terminal.line("/FunctionAI.help")
        assert terminal.leave() == 0


def test_model_in_the_box_does_not_go_round_in_circles(folder: Path, weights: Path) -> None:
    line = "Tell me of a chatty chatty chatty chatty parrot\n"
    done = piped(folder, line, "--model", "local")
    assert done.returncode == 0, done.stderr
    words = done.stdout.partition("Chatty: ")[2].lower().split()
    assert words
    assert not any(len(set(words[n : n + 6])) == 1 for n in range(len(words) - 5)), words


def test_chat_greeting_says_what_to_type_and_what_the_small_model_is(
    folder: Path, weights: Path
) -> None:
    with chat(folder, model="local") as terminal:
        greeting = " ".join(terminal.raw.split())
        for told in (
            "Here are Chatty, FunctionAI, Host.",
            "/help says what each can do",
            "The model is small (135 million parameters) and often wrong.",
            "A larger one: moothall chat --model NAME; `moothall models` lists the names.",
            "FunctionAI needs a larger one, and hears only what is said to it by name.",
        ):
            assert told in greeting, greeting
        assert terminal.leave() == 0


@pytest.mark.parametrize("line", ("help", "?", "/help"))
def test_chat_help_lists_what_can_be_typed(folder: Path, line: str) -> None:
    done = piped(folder, f"{line}\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "/Host.list_files [folder_name]" in done.stdout


def test_small_model_is_not_given_what_was_said_before() -> None:
    model = ScriptedModel(["one", "two"])
    chatty = Forgetful("Chatty", model)
    for line in ("Say one.", "Say two."):
        asyncio.run(chatty.say(line))
    assert [each["content"] for each in model.received[1][1:]] == ["Say two."]


@pytest.mark.parametrize("line", ("/quit", "/exit", "quit", "EXIT", "bye", "Goodbye!"))
def test_person_leaves_in_a_word(folder: Path, line: str) -> None:
    done = piped(folder, f"{line}\n/Nobody.x\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("line", "told"),
    (
        ("/Calculator.add 1 2", "; did you mean /Calculator.add a:1 b:2"),
        ("/Host.read_file notes.txt", '; did you mean /Host.read_file file_name:"notes.txt"'),
        ("/Host.shell_command ls -l", '; did you mean /Host.shell_command command:"ls -l"'),
        ("/Calculator.ad a:1 b:2", '"ad" not found on "Calculator"; did you mean add?'),
    ),
)
def test_line_that_is_nearly_right_is_answered_with_what_was_meant(
    folder: Path, line: str, told: str
) -> None:
    done = piped(folder, f"{line}\n", "--agent", "my_agents:Calculator")
    assert done.returncode == 1
    assert told in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("line", ("/help", "?", "Help"))
@pytest.mark.parametrize("columns", (100, 50))
def test_help_is_a_table_of_what_to_type(folder: Path, line: str, columns: int) -> None:
    with chat(folder, "--agent", "my_agents:made", columns=columns) as terminal:
        shown = terminal.line(line)
        assert "{" not in shown.partition("Agents here:")[2]
        # Beside what to type, or below it, stands what it does.
        between = r" +" if columns == 100 else r"\r\n {6}"
        for call, does in (
            ('/"My calculator".add a b', "Add two integers."),
            ("/Host.list_files [folder_name]", "List the files in a folder."),
            ("/Chatty.say content [thread]", "Say something to the agent."),
        ):
            assert re.search(rf"  {re.escape(call)}{between}{re.escape(does)}\r\n", shown)
        assert "/quit, /exit or Ctrl-D leaves" in " ".join(shown.split())
        assert all(len(each) <= columns for each in shown.split("\r\n")[1:-1])
        # The help of one agent is such a table, too.
        shown = terminal.line("/Host.help")
        assert re.search(rf"  /Host.list_files \[folder_name\]{between}List the files", shown)
        terminal.type("/quit\r")
        assert terminal.end() == 0


# -- history ---------------------------------------------------------------------------------------

UP = "\x1b[A"


def test_lines_are_there_the_next_time_for_nobody_else(folder: Path) -> None:
    with chat(folder, "--agent", "my_agents:Calculator") as terminal:
        assert ": 3" in terminal.line("/Calculator.add a:1 b:2")
        assert terminal.leave() == 0
    kept = folder / "state" / "moothall" / "chat-history"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().endswith("\n+/Calculator.add a:1 b:2\n")
    with chat(folder, "--agent", "my_agents:Calculator") as terminal:
        terminal.type(UP)
        terminal.until("a:1 b:2")
        assert ": 3" in terminal.line("")


def test_chat_no_history_writes_no_file(folder: Path) -> None:
    with chat(folder, "--no-history") as terminal:
        terminal.line("/Nobody.x")
        terminal.type(UP)
        terminal.until("/Nobody.x")
    assert not (folder / "state").exists()


def test_answers_to_questions_are_not_kept(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.type("/Host.list_files\r")
        terminal.until("[y/N/always]")
        terminal.line("y")
        assert terminal.leave() == 0
    kept = folder / "state" / "moothall" / "chat-history"
    assert kept.read_text().count("\n+") == 1


@pytest.mark.parametrize("wrong", ("a file for a folder", "a folder for a file"))
def test_history_that_cannot_be_written_is_said_once(folder: Path, wrong: str) -> None:
    kept = folder / "state" / "moothall" / "chat-history"
    if wrong == "a file for a folder":
        (folder / "state").write_text("a file")
    else:
        kept.mkdir(parents=True)
    with chat(folder, columns=400) as terminal:
        terminal.line("/Nobody.x")
        terminal.line("/Nobody.y")
        assert terminal.raw.count("no history: ") == 1
        assert terminal.leave() == 0


# -- settings --------------------------------------------------------------------------------------


def test_command_line_goes_before_the_environment_and_that_before_the_file(
    folder: Path,
) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "in.txt").write_text("")
    with OpenAIServer(either("Hello.")) as server:
        (folder / "moothall.toml").write_text(
            f'model = "{server.url}#top"\n[chat]\nmodel = "{server.url}#table"\nroot = "inner"\n'
        )
        said = '/Chatty.say content:"Hello"'
        for given, environment_ in (
            ((), {}),
            ((), {"MOOTHALL_MODEL": f"{server.url}#environment", "MOOTHALL_ROOT": "."}),
            (("--model", f"{server.url}#line"), {"MOOTHALL_MODEL": f"{server.url}#environment"}),
        ):
            given = ("chat", *given)
            done = run(*given, input=f"{said}\n", cwd=folder, env=environment(**environment_))
            assert done.returncode == 0, done.stderr
        assert [r.body["model"] for r in server.requests] == ["table", "environment", "line"]
        given = ("-m", "moothall", "chat", "--no-history")
        with Chat(*given, cwd=folder, environment=dict(SETTINGS)) as terminal:
            shown = terminal.until(READY)
            assert f"moothall.toml says that the model is {server.url}#table." in shown
            terminal.type("/Host.list_files\r")
            terminal.until("[y/N/always]")
            assert 'Host: ["in.txt"]' in terminal.line("y")


@pytest.mark.parametrize(
    ("file", "environment_", "sent"),
    (
        ('model = "{url}#m"\nkey = "of-the-file"', {}, "of-the-file"),
        ('model = "{url}#m"\nkey = "of-the-file"', {"MOOTHALL_KEY": "mine"}, "of-the-file"),
        # Whoever wrote the file is not to be sent what is mine, nor another server what is theirs.
        ('model = "{url}#m"', {"MOOTHALL_KEY": "mine"}, "none"),
        ('key = "of-the-file"', {"MOOTHALL_MODEL": "{url}#m"}, "none"),
        ("", {"MOOTHALL_MODEL": "{url}#m", "MOOTHALL_KEY": "mine"}, "mine"),
    ),
)
def test_key_goes_with_the_model_that_is_named_beside_it(
    folder: Path, file: str, environment_: dict[str, str], sent: str
) -> None:
    with OpenAIServer(either("Hello.")) as server:
        (folder / "moothall.toml").write_text(file.format(url=server.url))
        more = {name: value.format(url=server.url) for name, value in environment_.items()}
        for arguments, lines in (
            (("chat",), '/Chatty.say content:"Hello"\n'),
            (("act", "Do it"), ""),
        ):
            done = run(*arguments, input=lines, cwd=folder, env=environment(**more))
            assert done.returncode == 0, done.stderr
        keys = {request.headers["authorization"] for request in server.requests}
    assert keys == {f"Bearer {sent}"}


@pytest.mark.parametrize(("key", "there"), (("y", True), ("n", False), ("", False)))
def test_agents_that_the_file_names_are_asked_about(folder: Path, key: str, there: bool) -> None:
    (folder / "moothall.toml").write_text('[chat]\nagents = ["my_agents:Calculator"]\n')
    given = ("-m", "moothall", "chat", "--model", NO_MODEL, "--no-history")
    with Chat(*given, cwd=folder, environment=dict(SETTINGS)) as terminal:
        shown = terminal.until("Permit this? [y/N] ")
        assert "moothall.toml would have this run, from this folder: my_agents:Calculator" in shown
        terminal.type(f"{key}\n")
        shown = terminal.until(READY)
        assert ("Calculator" in shown) is there
        assert (": 3" in terminal.line("/Calculator.add a:1 b:2")) is there


def test_agents_that_the_file_names_are_not_run_without_a_question(folder: Path) -> None:
    (folder / "moothall.toml").write_text('[chat]\nagents = ["my_agents:Calculator"]\n')
    (folder / "my_agents.py").write_text("open('run', 'w')\n" + AGENTS)
    done = piped(folder, "/Calculator.add a:1 b:2\n")
    assert done.returncode == 2
    assert "name them by --agent" in " ".join(done.stderr.split())
    assert not (folder / "run").exists()
    # What the command line or the environment names goes before.
    done = piped(folder, "/Calculator.add a:1 b:2\n", MOOTHALL_AGENTS="my_agents:Calculator")
    assert ": 3" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("[chat]\nx = 1", "there is no key 'chat.x'; there are model, root, key, agents"),
        ("chat = 1", "moothall.toml: 'chat' must be a table, [chat], got 1"),
        ("root = 'nowhere'", "Error: moothall.toml: the root folder"),
    ),
)
def test_wrong_file_is_said_with_its_key(folder: Path, text: str, said: str) -> None:
    (folder / "moothall.toml").write_text(text)
    done = piped(folder, "")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


# -- without a terminal ----------------------------------------------------------------------------


def test_lines_may_come_from_elsewhere(folder: Path) -> None:
    done = piped(
        folder,
        "/Calculator.add a:1 b:2\n\n/Calculator.add a:3 b:4",
        "--agent",
        "my_agents:Calculator",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "> /Calculator.add a:1 b:2",
        "Calculator: 3",
        "> /Calculator.add a:3 b:4",
        "Calculator: 7",
    ]
    assert done.stderr == ""


def test_chat_answers_that_are_no_text_are_shown_as_data(folder: Path) -> None:
    lines = '/Teller.forget\n/Teller.say content:"hi"\n'
    done = piped(folder, lines, "--agent", "my_agents:Teller")
    assert done.stdout.splitlines() == [
        "> /Teller.forget",
        "Teller: (nothing)",
        '> /Teller.say content:"hi"',
        'Teller: {"heard": "hi"}',
    ]


def test_broadcast_goes_to_whoever_has_the_action(folder: Path) -> None:
    done = piped(
        folder, "/*.add a:1 b:2\n", "--agent", "my_agents:made", "--agent", "my_agents:make"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "> /*.add a:1 b:2",
        "Made: 3",
        "My calculator: 3",
    ]
    nobody = piped(folder, "/*.nothing\n")
    assert nobody.returncode == 1
    assert nobody.stderr == 'moothall: no agent here has the action "nothing"\n'


def test_pipe_approves_nothing(folder: Path) -> None:
    done = piped(folder, '/Host.list_files\ny\n/Host.read_file file_name:"notes.txt"\nalways\n')
    assert done.returncode == 1
    assert done.stdout.count("not permitted") == 2
    assert "refused, since there is no terminal to ask at: /Host.list_files\n" in done.stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    (
        ("/A\n", "moothall: column 3: expected"),
        (b'/A.b c:"\xff"\n', "moothall: column 9: expected text"),
        ("/Calculator.add a:NaN\n", "moothall: column 19: expected a JSON value"),
    ),
)
def test_line_that_is_no_message_is_complained_of_and_the_rest_is_read(
    folder: Path, lines: str | bytes, said: str
) -> None:
    lines = lines.encode() if isinstance(lines, str) else lines
    more = lines + b"/Calculator.add a:1 b:2\n"
    done = piped(folder, more, "--agent", "my_agents:Calculator")
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    # What was complained of is shown too, so that the person finds it among many lines.
    assert done.stdout.splitlines()[0].startswith(f"> {lines[:2].decode()}")
    assert done.stdout.endswith("\n> /Calculator.add a:1 b:2\nCalculator: 3\n")


def test_failure_is_shown_and_is_exit_code_1(folder: Path) -> None:
    done = piped(folder, "/Nobody.at_home\n")
    assert done.returncode == 1
    assert 'Nobody: error: no agent "Nobody" in this space\n' in done.stdout


def test_server_that_is_down_is_one_line_for_each_agent(folder: Path) -> None:
    done = piped(folder, "Hi")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for agent in ("Chatty", "FunctionAI"):
        (line,) = [x for x in done.stdout.splitlines() if x.startswith(f"{agent}: error: ")]
        assert "no answer from http://127.0.0.1:9/v1" in line
    assert done.stderr == ""


def test_chat_a_failure_of_an_action_is_said_once(folder: Path) -> None:
    done = piped(folder, "/Calculator.fail left:0", "--agent", "my_agents:Calculator")
    assert (done.stdout + done.stderr).count("no luck") == 1


@pytest.mark.parametrize("closed", ("<&-", "</dev/null"))
def test_chat_without_input_ends(folder: Path, closed: str) -> None:
    command = f'"$0" -m moothall chat --model http://127.0.0.1:9/v1#m {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        capture_output=True,
        timeout=WAIT,
        cwd=folder,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_reader_that_leaves_ends_it_quietly(folder: Path) -> None:
    process = subprocess.Popen(
        [*CHAT, "--model", NO_MODEL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment(),
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.write(b"/*.help\n" * 3)
    process.stdin.close()
    assert process.stderr is not None
    with process.stderr:
        said = process.stderr.read().decode()
    assert process.wait(WAIT) == 1
    assert said == ""


def test_interrupted_while_it_reads_it_is_exit_code_130(folder: Path) -> None:
    process = subprocess.Popen(
        [*CHAT, "--model", NO_MODEL, "--agent", "my_agents:Calculator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"/Calculator.add a:1 b:2\n")
    process.stdin.flush()
    while b": 3" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert [line for line in said.splitlines() if line] == [
        b"stopping; Ctrl-C again ends it at once",
        b"moothall: interrupted",
    ]


def test_interrupted_while_it_waits_for_an_answer_it_runs_no_further_line(folder: Path) -> None:
    with OpenAIServer(HANG) as server:
        process = Command(
            *("chat", "--model", f"{server.url}#m", "--agent", "my_agents:Calculator"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment(),
        )
        assert process.stdin is not None
        process.stdin.write(b'/Chatty.say content:"Hello?"\n/Calculator.add a:1 b:2\n')
        process.stdin.flush()
        server.wait_for_request()
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=WAIT)
        server.wait_for_close()
    assert process.returncode == 130
    assert "add" not in shown.decode()
    assert [line for line in said.splitlines() if line] == [
        b"stopping; Ctrl-C again ends it at once",
        b"moothall: interrupted",
    ]


# -- whom it is with -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "id"),
    (("Calculator", "Calculator"), ("made", '"My calculator"'), ("make", "Made")),
)
def test_agents_of_ones_own_are_there(folder: Path, name: str, id: str) -> None:
    done = piped(folder, f"/{id}.add a:1 b:2\n", "--agent", f"my_agents:{name}")
    assert done.returncode == 0, done.stderr
    assert ": 3" in done.stdout


def test_replies_are_recorded_in_a_journal(folder: Path) -> None:
    (folder / "speakers.py").write_text(
        "from moothall import ReActAgent\n"
        "from moothall.models import ScriptedModel\n"
        "bob = ReActAgent('Bob', ScriptedModel(['I saw a cat']))\n"
    )
    line, options = '/Bob.say content:"What is there?"\n', ("--journal", "runs.db")
    done = piped(folder, line, "--agent", "speakers:bob", *options)
    assert (done.returncode, done.stderr) == (0, "")
    with Journal(folder / "runs.db") as journal:
        (run,) = journal.runs()
        assert (run.agent, run.task) == ("Bob", "What is there?")
        assert journal.replay(run.id).text == "I saw a cat"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    (
        ("my_agents", 2, "'my_agents' is not of the form MODULE:NAME"),
        ("my agents:x", 2, "not of the form MODULE:NAME"),
        ("nowhere:Agent", 2, "'nowhere:Agent': there is no module 'nowhere'"),
        ("my_agents:nobody", 2, "the module 'my_agents' has no 'nobody'"),
        ("my_agents:number", 2, "'my_agents:number' is of type int: neither an agent, nor a class"),
        ("my_agents:threading", 2, "neither an agent, nor a class"),
        ("pathlib:Path", 2, "is a class, but not of agents"),
        ("my_agents:wrong", 2, "--agent my_agents:wrong: it made a int, not an agent"),
        (
            "my_agents:failing",
            2,
            "--agent my_agents:failing: calling it failed: ValueError: no luck",
        ),
        (
            "broken:x",
            2,
            "--agent broken:x: importing broken failed: ZeroDivisionError: "
            "division by zero (broken.py, line 2)",
        ),
        ("ends:x", 2, "--agent ends:x: importing ends failed: SystemExit: 0"),
        ("needy:x", 2, "importing needy failed: ModuleNotFoundError: No module named 'not_here'"),
    ),
)
def test_chat_agent_option_that_names_no_agent_is_refused(
    folder: Path,
    name: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "broken.py").write_text("import math\n1 / 0\n")
    (folder / "ends.py").write_text("raise SystemExit(0)  # a main() without its guard\n")
    (folder / "needy.py").write_text("import not_here\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as ended:
        main(["chat", "--model", NO_MODEL, "--agent", name])
    sys.modules.pop("my_agents", None)
    assert ended.value.code == code
    # In a box of click's or not, it is the same text.
    assert said in " ".join(capsys.readouterr().err.split())


def test_agent_that_cannot_be_added_is_told_in_a_line(folder: Path) -> None:
    done = piped(folder, "", "--agent", "my_agents:Unready")
    said = "moothall: agent 'Unready': its after_add failed: ValueError: no luck\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_agents_of_one_id_are_refused(folder: Path) -> None:
    twice = ("--agent", "my_agents:make") * 2
    done = piped(folder, "", *twice)
    assert done.returncode == 1
    assert "moothall: an agent 'Made' is in the space already" in done.stderr
