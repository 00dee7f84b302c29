"""The two applications of examples/amqp, each a process, and a third that asks both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.broker import Broker

from cli.broker_programs import Program
from models.openai_server import OpenAIServer, text
from moothall import Agent, AMQPOptions, AMQPSpace
from moothall.foundation.errors import AgentNotFound, NotPermitted

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "amqp"
WAIT_S = 30


def test_host_and_chatty_answer_from_processes_of_their_own(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Milk\n")
    python, port = (sys.executable, "-W", "error"), broker.port
    with (
        OpenAIServer(text("Good morning to you.")) as server,
        Program(*python, EXAMPLES / "host.py", cwd=tmp_path, port=port) as host,
        Program(*python, EXAMPLES / "chatty.py", f"{server.url}#m", cwd=tmp_path, port=port) as ai,
        AMQPSpace(amqp_options=AMQPOptions(port=port)) as space,
    ):
        assert host.line() == "Host is here. Ctrl-C ends it."
        assert ai.line() == "Chatty is here. Ctrl-C ends it."
        me = space.add(Agent("me"))
        assert me.ask("Host", "list_files").result(WAIT_S) == ["notes.txt"]
        assert me.ask("Chatty", "say", content="Morning").result(WAIT_S) == "Good morning to you."
        with pytest.raises(NotPermitted):
            me.ask("Host", "delete_file", file_name="notes.txt").result(WAIT_S)
        for name, program in (("Host", host), ("Chatty", ai)):
            program.signal(signal.SIGINT)
            assert program.end() == 0, program.errors
            assert program.line() == f"{name} has left."
            with pytest.raises(AgentNotFound):
                me.ask(name, "help").result(WAIT_S)
        assert host.errors == []


@pytest.mark.parametrize("example", ("host.py", "chatty.py"))
def test_example_processes_without_a_broker_say_what_to_do(tmp_path: Path, example: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / example],
        cwd=tmp_path,
        env={**os.environ, "AMQP_PORT": "9"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "start RabbitMQ" in done.stderr
