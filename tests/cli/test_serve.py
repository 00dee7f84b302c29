from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.broker import Broker

from cli.broker_programs import Program, moothall
from commands import run
from moothall import Agent, AMQPOptions, AMQPSpace, Journal, action
from moothall.foundation.errors import ActionError, AgentNotFound, SpaceClosed

WAIT_S = 30

AGENTS = '''
import asyncio
from moothall import Agent, action

class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action
    async def slow(self, pipe: str) -> str:
        """Wait until a pipe says something."""
        print("begun", flush=True)
        return await asyncio.to_thread(lambda: open(pipe).read())

    @action
    async def fail(self) -> None:
        raise ValueError("no \\x1b[2J luck")

    @action
    async def leave(self) -> None:
        self.space.remove(self)

made = Calculator("My calculator")

def make(id="Made"):
    return Calculator(id)

def wrong():
    return 7

class Other:
    pass

def failing():
    raise ValueError("no luck")

class Unready(Agent):
    def after_add(self):
        raise ValueError("no luck")

number = 7
'''


@pytest.fixture
def me(broker: Broker, exchange: str) -> Iterator[Agent]:
    """An agent in another process than those that are served."""
    with AMQPSpace(amqp_options=AMQPOptions(port=broker.port), exchange=exchange) as space:
        yield space.add(Agent("me"))


@pytest.fixture
def serve(tmp_path: Path, broker: Broker, exchange: str) -> Callable[..., Program]:
    (tmp_path / "my_agents.py").write_text(AGENTS)

    def serve(*args: str, **environment: str) -> Program:
        args = ("serve", *args, "--exchange", exchange)
        return moothall(*args, cwd=tmp_path, port=broker.port, **environment)

    return serve


@pytest.mark.parametrize(
    ("name", "args", "id"),
    (
        ("Calculator", (), "Calculator"),
        ("Calculator", ("--id", "Ann's sums"), "Ann's sums"),
        ("made", (), "My calculator"),
        ("make", (), "Made"),
        ("make", ("--id", "other"), "other"),
    ),
)
@pytest.mark.parametrize("stop", (signal.SIGINT, signal.SIGTERM))
def test_agent_is_served_until_it_is_stopped(
    serve: Callable[..., Program],
    me: Agent,
    broker: Broker,
    exchange: str,
    name: str,
    args: tuple[str, ...],
    id: str,
    stop: signal.Signals,
) -> None:
    with serve(f"my_agents:{name}", *args) as program:
        assert program.line() == (
            f"{id} is served at localhost:{broker.port}, exchange {exchange}. Ctrl-C ends it."
        )
        assert me.ask(id, "add", a=1, b=2).result(WAIT_S) == 3
        program.signal(stop)
        assert program.end() == 0
        assert program.line() == f"{id} has stopped."
        assert f"connected to the message broker at localhost:{broker.port}" in program.errors[0]
        assert len(program.errors) == 1
    with pytest.raises(AgentNotFound):
        me.ask(id, "add", a=1, b=2).result(WAIT_S)


def test_serve_sigterm_finishes_what_is_being_handled(
    serve: Callable[..., Program], me: Agent, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with serve("my_agents:Calculator") as program:
        program.line()
        slow = me.ask("Calculator", "slow", pipe="pipe")
        assert program.line() == "begun"
        waits = me.request(
            {"to": "Calculator", "action": {"name": "add", "args": {"a": 1, "b": 2}}}, wait=True
        )
        program.signal(signal.SIGTERM)
        assert program.line() == ("Calculator finishes slow, within 30 s. Ctrl-C ends it at once.")
        (tmp_path / "pipe").write_text("done")
        assert slow.result(WAIT_S) == "done"
        assert program.end() == 0
    # What it had not begun waits for the next.
    with serve("my_agents:Calculator") as program:
        assert waits.result(WAIT_S) == 3


@pytest.mark.parametrize(("args", "again", "code"), (((), True, 130), (("--grace", "0"), False, 0)))
def test_second_signal_or_no_grace_ends_it_at_once(
    serve: Callable[..., Program],
    me: Agent,
    tmp_path: Path,
    args: tuple[str, ...],
    again: bool,
    code: int,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with serve("my_agents:Calculator", *args) as program:
        program.line()
        slow = me.ask("Calculator", "slow", pipe="pipe")
        assert program.line() == "begun"
        program.signal(signal.SIGINT)
        assert "finishes slow" in program.line()
        if again:
            program.signal(signal.SIGINT)
            assert program.end() == code
            slow.cancel()
            return
        with pytest.raises(SpaceClosed):
            slow.result(WAIT_S)
        # A thread cannot be stopped: it is let go when what it reads has ended. Opened for both,
        # since the process may be gone already, and with it whoever read.
        pipe = os.open(tmp_path / "pipe", os.O_RDWR)
        os.write(pipe, b"done")
        os.close(pipe)
        assert program.end() == code


def test_serve_errors_are_printed_with_control_characters_escaped(
    serve: Callable[..., Program], me: Agent
) -> None:
    with serve("my_agents:Calculator") as program:
        program.line()
        me.send({"to": "Calculator", "action": {"name": "fail"}})
        with pytest.raises(ActionError, match="no"):
            me.ask("Calculator", "fail").result(WAIT_S)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert any("ValueError: no [2J luck" in line for line in program.errors)
    assert all(line.isprintable() for line in program.errors)


def test_agent_that_leaves_ends_its_program(serve: Callable[..., Program], me: Agent) -> None:
    with serve("my_agents:Calculator") as program:
        program.line()
        me.send({"to": "Calculator", "action": {"name": "leave"}})
        assert program.end() == 1
        assert program.errors[-1] == "moothall: Calculator is in its space no longer"


def test_serve_without_rabbitmq_names_the_option_that_needs_none() -> None:
    code = (
        "import sys; sys.modules['pika'] = None\n"
        "from moothall.cli.main import main\nmain(['serve', 'my_agents:Calculator'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 2
    assert "moothall serve without --http needs the extra 'amqp'" in done.stderr


def test_inbox_is_of_one_process(serve: Callable[..., Program], me: Agent, tmp_path: Path) -> None:
    with serve("my_agents:Calculator", "--inbox", "in.box") as first:
        first.line()
        assert (tmp_path / "in.box").exists()
        with serve("my_agents:Calculator", "--id", "second", "--inbox", "in.box") as second:
            assert second.end() == 1
        assert second.errors[-1].startswith("moothall: ")
        assert "in.box" in second.errors[-1]


def test_id_is_of_one_process(serve: Callable[..., Program], me: Agent) -> None:
    with serve("my_agents:Calculator") as first:
        first.line()
        with serve("my_agents:Calculator") as second:
            assert second.end() == 1
        assert second.errors[-1] == (
            "moothall: an agent 'Calculator' is in another process of this exchange, and ids are "
            "unique: give this one another id, or end that process, or add each with shared=True"
        )
        assert me.ask("Calculator", "add", a=1, b=2).result(WAIT_S) == 3


def test_serve_shared_id_is_served_by_several_processes_until_the_last_stops(
    serve: Callable[..., Program], me: Agent
) -> None:
    with serve("my_agents:Calculator", "--shared") as first:
        assert first.line().startswith("Calculator is served")
        with serve("my_agents:Calculator", "--shared") as second:
            assert second.line().startswith("Calculator is served")
            assert me.ask("Calculator", "add", a=1, b=2).result(WAIT_S) == 3
        assert me.ask("Calculator", "add", a=2, b=2).result(WAIT_S) == 4


def test_agent_that_cannot_be_added_is_told_in_a_line(serve: Callable[..., Program]) -> None:
    with serve("my_agents:Unready") as program:
        assert program.end() == 2
    said = "moothall: agent 'Unready': its after_add failed: ValueError: no luck"
    assert (len(program.errors), program.errors[-1]) == (2, said)  # the first: connected


@pytest.mark.parametrize(
    ("args", "environment", "code", "text"),
    (
        (("no_such:Agent",), {}, 2, "there is no module 'no_such'"),
        (("my_agents:Nobody",), {}, 2, "has no 'Nobody'"),
        (("my_agents",), {}, 2, "not of the form MODULE:NAME"),
        (("my_agents.py:Nobody",), {}, 2, "has no 'Nobody'"),
        (("no_such.py:Agent",), {}, 2, "there is no file"),
        (("my_agents:number",), {}, 2, "is of type int: neither an agent"),
        (("my_agents:Other",), {}, 2, "is a class, but not of agents"),
        (("my_agents:wrong",), {}, 2, "it made a int, not an agent"),
        (("my_agents:failing",), {}, 2, "ValueError: no luck"),
        (("my_agents:made", "--id", "x"), {}, 2, "whose id is 'My calculator': leave --id out"),
        (("my_agents:Calculator", "--id", "*"), {}, 2, "is not an id"),
        (("my_agents:Calculator", "--grace", "-1"), {}, 2, "-1"),
        (("my_agents:Calculator", "--exchange", "a b"), {}, 2, "exchange="),
        (("my_agents:Calculator", "--inbox", "."), {}, 2, "directory"),
        (
            ("my_agents:Calculator", "--inbox", "no/such/folder"),
            {},
            2,
            "no folder 'no/such'",
        ),
        (("my_agents:Calculator",), {"AMQP_PORT": "9"}, 1, "start RabbitMQ"),
        (("my_agents:Calculator",), {"AMQP_PORT": "x"}, 2, "AMQP_PORT must be 1 to 65535"),
        (("my_agents:Calculator",), {"AMQP_PASSWORD": "no"}, 1, "set AMQP_USERNAME and AMQP_P"),
        (("my_agents:Calculator",), {"AMQP_VHOST": "no"}, 1, "has no virtual host 'no'"),
    ),
)
def test_serve_wrong_use_is_explained_in_one_line(
    tmp_path: Path,
    broker: Broker,
    args: tuple[str, ...],
    environment: dict[str, str],
    code: int,
    text: str,
) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    env = {**os.environ, "AMQP_PORT": str(broker.port), **environment}
    done = run("serve", *args, cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (code, "")
    *usage, last = done.stderr.splitlines()
    assert text in last
    assert last.startswith("Error: " if usage else "moothall: ")
    assert "Traceback" not in done.stderr


CLERK = '''
import asyncio
from pathlib import Path
from moothall import ReActAgent, action
from moothall.models import Call, ScriptedModel

def note(text):
    with open("notes", "a") as file:
        file.write(text + "\\n")
    print(text, flush=True)

async def first() -> str:
    """Do what is not to be done twice."""
    note("first")
    return "one"

@action(idempotent=True)
async def second() -> str:
    """Wait until it may go on."""
    note("second")
    while not Path("go on").exists():
        await asyncio.sleep(0.01)
    return "two"

@action
async def careful() -> str:
    """Wait until it may go on; not to be done twice."""
    note("careful")
    while not Path("go on").exists():
        await asyncio.sleep(0.01)
    return "three"

def clerk(*names):
    calls = [Call(str(number), name, {}) for number, name in enumerate(names)]
    model = ScriptedModel([*calls, "all is done"])
    return ReActAgent("Clerk", model, actions=[first, second, careful])

def patient():
    return clerk("first", "second")

def careful_one():
    return clerk("first", "careful")
'''


@pytest.fixture
def clerks(tmp_path: Path) -> tuple[str, ...]:
    """Modules of agents that reply, and the options to serve them with."""
    (tmp_path / "clerks.py").write_text(CLERK)
    return ("--inbox", "clerk.inbox", "--journal", "runs.db")


def test_killed_agent_with_a_journal_goes_on_with_the_reply_that_it_was_giving(
    serve: Callable[..., Program], me: Agent, tmp_path: Path, clerks: tuple[str, ...]
) -> None:
    with serve("clerks:patient", *clerks) as killed:
        killed.line()
        asked = me.request(
            {"to": "Clerk", "action": {"name": "say", "args": {"content": "Do it"}}}, wait=True
        )
        assert (killed.line(), killed.line()) == ("first", "second")
        killed.signal(signal.SIGKILL)
        killed.end()
    (tmp_path / "go on").touch()
    with serve("clerks:patient", *clerks):
        assert asked.result(timeout=WAIT_S) == "all is done"
    assert (tmp_path / "notes").read_text().split() == ["first", "second", "second"]


def test_killed_agent_with_a_journal_tells_of_what_is_in_doubt(
    serve: Callable[..., Program], me: Agent, tmp_path: Path, clerks: tuple[str, ...]
) -> None:
    with serve("clerks:careful_one", *clerks) as killed:
        killed.line()
        asked = me.request(
            {"to": "Clerk", "action": {"name": "say", "args": {"content": "Do it"}}}, wait=True
        )
        assert (killed.line(), killed.line()) == ("first", "careful")
        killed.signal(signal.SIGKILL)
        killed.end()
    in_doubt = pytest.raises(
        ActionError, match=r"in_doubt.*careful.*`moothall resume \S+ --journal \S+ --repeat`"
    )
    with serve("clerks:careful_one", *clerks), in_doubt:
        asked.result(timeout=WAIT_S)
    assert (tmp_path / "notes").read_text().split() == ["first", "careful"]


class Hearer(Agent):
    """Hears what is said to it, also without having asked just now."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.heard: queue.Queue[str] = queue.Queue()

    @action
    async def say(self, content: str) -> None:
        """Say something."""
        self.heard.put(content)


def test_reply_that_was_in_doubt_reaches_its_sender_once_a_person_has_decided(
    serve: Callable[..., Program], me: Agent, tmp_path: Path, clerks: tuple[str, ...]
) -> None:
    assert me.space is not None
    you = me.space.add(Hearer("you"))
    with serve("clerks:careful_one", *clerks) as killed:
        killed.line()
        asked = you.request(
            {"to": "Clerk", "action": {"name": "say", "args": {"content": "Do it"}}}, wait=True
        )
        assert (killed.line(), killed.line()) == ("first", "careful")
        killed.signal(signal.SIGKILL)
        killed.end()
    with serve("clerks:careful_one", *clerks):
        with pytest.raises(ActionError, match="in_doubt"):
            asked.result(timeout=WAIT_S)
        with Journal(tmp_path / "runs.db") as journal:
            (run,) = journal.runs(needs_person=True)
            assert run.state == "in_doubt"
            journal.decide(run.id, "skip")
            assert you.heard.get(timeout=WAIT_S) == "all is done"
            assert journal.run(run.id).state == "done"
    assert (tmp_path / "notes").read_text().split() == ["first", "careful"]
    assert you.heard.empty()


def test_served_agent_that_has_changed_goes_on_once_its_operator_says_so(
    serve: Callable[..., Program], me: Agent, tmp_path: Path, clerks: tuple[str, ...]
) -> None:
    assert me.space is not None
    you = me.space.add(Hearer("you"))
    with serve("clerks:patient", *clerks) as killed:
        killed.line()
        asked = you.request(
            {"to": "Clerk", "action": {"name": "say", "args": {"content": "Do it"}}}, wait=True
        )
        assert (killed.line(), killed.line()) == ("first", "second")
        killed.signal(signal.SIGKILL)
        killed.end()
    (tmp_path / "go on").touch()
    changed = CLERK.replace("actions=[", 'system_prompt="Be quick.", actions=[')
    (tmp_path / "clerks.py").write_text(changed)
    with serve("clerks:patient", *clerks), Journal(tmp_path / "runs.db") as journal:
        with pytest.raises(ActionError, match="system prompt"):
            asked.result(timeout=WAIT_S)
        (run,) = journal.runs(needs_person=True)
        assert run.state == "mismatch"
        journal.answer(run.id, "operator:program", "fork")
        assert you.heard.get(timeout=WAIT_S) == "all is done"
        assert journal.run(run.id).state == "done"
    assert (tmp_path / "notes").read_text().split() == ["first", "second", "second"]


def test_messages_that_say_the_same_are_two_runs(
    serve: Callable[..., Program], me: Agent, tmp_path: Path, clerks: tuple[str, ...]
) -> None:
    (tmp_path / "go on").touch()
    with serve("clerks:patient", *clerks) as program:
        program.line()
        assert me.ask("Clerk", "say", content="Do it").result(timeout=WAIT_S) == "all is done"
        with pytest.raises(ActionError, match="it was given 3"):  # it has said all
            me.ask("Clerk", "say", content="Do it").result(timeout=WAIT_S)


def test_journal_for_one_that_keeps_none_is_wrong_usage(
    serve: Callable[..., Program],
) -> None:
    with serve("my_agents:Calculator", "--journal", "runs.db") as program:
        assert program.end() == 2
    assert "--journal: my_agents:Calculator gives no replies that a" in "".join(program.errors)
    with serve("my_agents:Calculator", MOOTHALL_JOURNAL="runs.db") as program:
        assert program.line().startswith("Calculator is served")
        program.signal(signal.SIGTERM)
        assert program.end() == 0
