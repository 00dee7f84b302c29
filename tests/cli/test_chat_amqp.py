"""`moothall chat --amqp`: a person among agents of other processes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker

from commands import run
from models.openai_server import OpenAIServer, Request, streamed, text
from moothall import Agent, AMQPOptions, AMQPSpace, Context, action
from pseudo_terminal import Terminal

WAIT_S = 30
# prompt_toolkit writes it when it begins to read a line.
READY = "\x1b[?2004h"
SETTINGS = {"MOOTHALL_MODEL": "", "MOOTHALL_ROOT": "", "MOOTHALL_KEY": "", "MOOTHALL_AGENTS": ""}


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action
    async def say(self, content: str) -> str:
        return f"{len(content)} characters"

    @action
    async def who_asks(self, context: Context[Any]) -> str:
        return str(context.sender)

    @action
    async def greet(self, who: str) -> None:
        self.send({"to": who, "action": {"name": "say", "args": {"content": "by\x1b[2J the way"}}})


@pytest.fixture
def elsewhere(broker: Broker, exchange: str) -> Iterator[AMQPSpace]:
    """A space of another process than the chat's."""
    with AMQPSpace(amqp_options=AMQPOptions(port=broker.port), exchange=exchange) as space:
        yield space


class Chat(Terminal):
    def line(self, line: str) -> str:
        self.type(f"{line}\r")
        return self.until(READY)


@pytest.fixture
def chat(broker: Broker, exchange: str, tmp_path: Path) -> Callable[..., Chat]:
    def chat(*args: str, columns: int = 100, **environment: str) -> Chat:
        given = {**SETTINGS, "AMQP_PORT": str(broker.port), "XDG_STATE_HOME": str(tmp_path)}
        return Chat(
            *("-m", "moothall", "chat", "--amqp", "--exchange", exchange, *args),
            cwd=tmp_path,
            columns=columns,
            environment={**given, **environment},
        )

    return chat


@pytest.fixture
def piped(
    broker: Broker, exchange: str, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    def piped(lines: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **SETTINGS, "AMQP_PORT": str(broker.port), **environment}
        return run("chat", *args, input=lines, cwd=tmp_path, env=env)

    return piped


def test_person_talks_with_agents_of_other_processes(
    chat: Callable[..., Chat], elsewhere: AMQPSpace
) -> None:
    calculator = elsewhere.add(Calculator("Calculator"))
    with chat() as terminal:
        assert "Here are Calculator. What you write goes to all" in terminal.until(READY)
        assert "Calculator: 3" in terminal.line("/Calculator.add a:1 b:2")
        assert "Calculator: 5 characters" in terminal.line("Hello")
        # Completed from the help of an agent that is elsewhere.
        for keys, shown in (("/Ca\t", "lculator"), ("a\t", "dd"), ("a\t", ":"), ("1 b\t", ":")):
            terminal.type(keys)
            terminal.until(shown)
        assert "Calculator: 8" in terminal.line("7")
        # What others say by themselves is shown, and not obeyed.
        ids = terminal.line("/Calculator.who_asks")
        (me,) = re.findall(r"Calculator: (USER-[0-9A-F]{4})\r\n", ids)  # an id of one's own
        shown = terminal.line(f'/Calculator.greet who:"{me}"')
        if "the way" not in shown:
            shown = terminal.until("the way")
        assert r"Calculator: by\x1b[2J the way" in shown
        # One that comes later is heard, and one that has left is not waited for.
        elsewhere.add(Calculator("Late"))
        while "Late" not in (shown := terminal.line("Good morning")):
            continue  # who takes longer than a moment to answer is heard of later
        assert "Late: 12 characters" in shown
        elsewhere.remove(calculator)
        shown = terminal.line("Good evening")
        assert "Late: 12 characters" in shown
        assert "Calculator" not in shown
        assert 'error: no agent "Calculator"' in terminal.line("/Calculator.add a:1 b:2")
        assert terminal.leave() == 0


def test_help_names_only_who_is_there(chat: Callable[..., Chat], elsewhere: AMQPSpace) -> None:
    elsewhere.add(Calculator("Calculator"))
    with chat() as terminal:
        assert "Host" not in terminal.until(READY)
        shown = terminal.line("/help")
        assert re.search(r"/Calculator\.add a b +Add two integers\.\r\n", shown)
        assert "Host" not in shown
        # To people, goodbye is said.
        assert "Calculator: 3 characters" in terminal.line("bye")
        terminal.type("/quit\r")
        assert terminal.end() == 0


def test_alone_one_is_told_so(chat: Callable[..., Chat]) -> None:
    with chat(columns=40) as terminal:
        assert "Nobody else is here yet." in terminal.until(READY)
        assert "no other agent is here" in terminal.line("Hello")
        assert terminal.leave() == 0


@pytest.mark.long
def test_people_of_two_chats_have_names_of_their_own(chat: Callable[..., Chat]) -> None:
    with chat("--name", "Ann") as ann:
        ann.until(READY)
        with chat("--name", "Bob") as bob:
            bob.until("Here are Ann.")
            bob.until(READY)
            bob.type('/Ann.say content:"Hi, Ann"\r')
            assert "Bob: Hi, Ann" in ann.until("Hi, Ann")
            bob.until("(delivered to Ann)")
            assert ann.leave() == bob.leave() == 0


def test_name_is_of_one_alone(chat: Callable[..., Chat], elsewhere: AMQPSpace) -> None:
    elsewhere.add(Agent("Ann"))
    with chat("--name", "Ann") as terminal:
        assert terminal.end() == 1
        assert "moothall: an agent 'Ann' is in another process" in terminal.seen


def test_whom_the_command_line_names_comes_too(
    chat: Callable[..., Chat], elsewhere: AMQPSpace, tmp_path: Path
) -> None:
    me = elsewhere.add(Agent("me"))
    (tmp_path / "mine.py").write_text("from moothall import Agent\nclass Mine(Agent): pass\n")
    (tmp_path / "moothall.toml").write_text('root = "nowhere"\n[chat]\nagents = ["no:Agent"]\n')

    def answer(request: Request) -> Any:
        return (streamed if request.body.get("stream") else text)("Good day.")

    with OpenAIServer(answer) as server:
        model = ("--model", f"{server.url}#m")
        with chat(*model, "--root", ".", "--agent", "mine:Mine") as terminal:
            # Who is elsewhere may take longer than a moment to answer.
            assert "Here are Chatty, FunctionAI, Host, Mine" in terminal.until(READY)
            # Who is elsewhere may ask; the person here is asked for permission.
            asked = me.ask("Host", "list_files")
            terminal.until("[y/N/always]")
            terminal.type("y\r")
            assert "mine.py" in asked.result(WAIT_S)
            assert me.ask("Chatty", "say", content="Hi").result(WAIT_S) == "Good day."
            terminal.until(READY)
            assert terminal.leave() == 0


def test_connection_that_is_lost_and_made_again_is_told(
    chat: Callable[..., Chat], broker: Broker
) -> None:
    with chat(NO_COLOR="1") as terminal:
        terminal.until(READY)
        broker.close_connections()
        terminal.until("(warning: the connection to the message broker")
        terminal.until(f"(connected to the message broker at localhost:{broker.port})")
        terminal.until(READY)  # the line that is written is back
        assert terminal.leave() == 0


def test_lines_may_come_from_elsewhere(piped: Any, exchange: str, elsewhere: AMQPSpace) -> None:
    elsewhere.add(Calculator("Calculator"))
    lines = "Hello\n/Calculator.add a:1 b:2\n/*.add a:3 b:4\n"
    done = piped(lines, "--amqp", "--exchange", exchange)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "> Hello",
        "Calculator: 5 characters",
        "> /Calculator.add a:1 b:2",
        "Calculator: 3",
        "> /*.add a:3 b:4",
        "Calculator: 7",
    ]
    done = piped("/Nobody.add a:1 b:2\n", "--amqp", "--exchange", exchange)
    assert done.returncode == 1
    assert 'Nobody: error: no agent "Nobody" in this space' in done.stdout


def test_chat_amqp_wrong_connection_setting_is_named(piped: Any) -> None:
    for environment, part in (
        ({"AMQP_PORT": "9"}, "start RabbitMQ"),
        ({"AMQP_PASSWORD": "no"}, "AMQP_PASSWORD"),
        ({"AMQP_VHOST": "no"}, "AMQP_VHOST"),
    ):
        done = piped("", "--amqp", **environment)
        assert (done.returncode, done.stdout) == (1, "")
        assert part in done.stderr
        assert done.stderr.count("\n") == 1
    for args in (("--exchange", "x"), ("--name", "Ann"), ("--amqp", "--exchange", "amq.topic")):
        done = piped("", *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert "exchange" in done.stderr
    done = piped("", "--amqp", "--name", "*")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not an id" in done.stderr
