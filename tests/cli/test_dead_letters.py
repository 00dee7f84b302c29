from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker

from commands import run as command
from moothall import Agent, AMQPOptions, AMQPSpace

WAIT_S = 30
TIME = "2026-01-31T09:00:00Z"

Bury = Callable[..., None]


@pytest.fixture
def options(broker: Broker) -> AMQPOptions:
    return AMQPOptions(port=broker.port)


@pytest.fixture
def bury(options: AMQPOptions, exchange: str) -> Iterator[Bury]:
    """Puts what it is given among the dead letters, as a space does; there is an agent, Bob."""
    with (
        AMQPSpace(amqp_options=options, exchange=exchange) as space,
        pika.BlockingConnection(pika.ConnectionParameters(port=options.port)) as connection,
    ):
        space.add(Agent("Bob"))
        channel = connection.channel()
        channel.confirm_delivery()  # what was buried is there

        def bury(message: Any, reason: str = "in doubt", agent: str = "Bob") -> None:
            body = message if isinstance(message, bytes) else json.dumps(message).encode()
            headers = {"agent": agent, "reason": reason, "time": TIME}
            properties = pika.BasicProperties(message_id="m", type="send", headers=headers)
            channel.basic_publish(f"{exchange}.dead", "", body, properties)

        yield bury


@pytest.fixture
def run(
    options: AMQPOptions, exchange: str, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "AMQP_PORT": str(options.port), **environment}
        return command("dead-letters", *args, cwd=tmp_path, env=env)

    return run


def to_bob(name: str) -> dict[str, Any]:
    return {"from": "Ann", "to": "Bob", "action": {"name": name, "args": {}}}


def test_letters_are_listed_and_sent_again(run: Any, exchange: str, bury: Bury) -> None:
    here = ("--exchange", exchange)
    assert run(*here).stdout == "There are no dead letters.\n"
    bury(to_bob("help"), 'in doubt: "Bob.help" was running when its process ended')
    bury(to_bob("help") | {"to": "Carl"}, "it is to 'Carl', but was in the queue of 'Bob'")
    listed = run(*here)
    assert (listed.returncode, listed.stderr) == (0, "")
    first, second = (row for row in listed.stdout.splitlines() if not row.startswith(" "))
    size = len(json.dumps(to_bob("help")))
    assert listed.stdout.startswith(
        f"{first}\n"
        "  send to Bob from Ann\n"
        f'  "help", {size} bytes\n'
        f'  {TIME}: in doubt: "Bob.help" was running'
    )
    sent = run("resend", "--all", *here)
    assert sent.returncode == 1
    assert sent.stdout == f"{first} is sent to Bob\n"
    assert sent.stderr == (
        f"moothall: {second} stays: it is to 'Carl', but was in the queue of 'Bob'\n"
    )
    bury(to_bob("help"))
    rows = run(*here).stdout.splitlines()
    stayed, third = (row for row in rows if not row.startswith(" "))
    assert stayed == second
    sent = run("resend", third, *here)
    assert (sent.returncode, sent.stdout) == (0, f"{third} is sent to Bob\n")
    gone = run(*here, "resend", first)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr == (
        f"moothall: there is no dead letter {first}: `moothall dead-letters` lists them\n"
    )


def test_letters_fit_and_are_not_obeyed(run: Any, exchange: str, bury: Bury) -> None:
    evil = {
        "from": "\x1b[2JAnn",
        "to": "Bob",
        "action": {"name": "a\nb\x07", "args": {"é": "\x9b"}},
    }
    bury(evil, "because \x1b]0;title\x07 of " + "long words " * 20)
    bury(b"\x1b[2J\r")
    for columns in ("40", "80"):
        listed = run("--exchange", exchange, COLUMNS=columns)
        assert listed.returncode == 0
        assert all(c.isprintable() or c == "\n" for c in listed.stdout)
        assert max(len(line) for line in listed.stdout.splitlines()) <= int(columns)
        assert r"\x1b[2JAnn" in listed.stdout


def test_dead_letters_error_is_one_line(run: Any, exchange: str, options: AMQPOptions) -> None:
    def fault(*args: str, **environment: str) -> str:
        done = run(*args, **environment)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("moothall: ")
        assert done.stderr.count("\n") == 1
        return str(done.stderr)

    assert f"no exchange '{exchange}'" in fault("--exchange", exchange)
    assert "start RabbitMQ" in fault(AMQP_PORT="9")
    assert "start RabbitMQ" in fault(AMQP_HOST="a..b")
    assert "AMQP_PASSWORD" in fault("resend", "x", AMQP_PASSWORD="wrong")
    assert "AMQP_VHOST" in fault(AMQP_VHOST="nowhere")


@pytest.mark.parametrize(
    ("args", "port", "text"),
    (
        (("resend",), "", "either a KEY or --all"),
        (("resend", "x", "--all"), "", "either a KEY or --all"),
        (("show", "x"), "", "No such command 'show'"),
        (("--exchange", "amq.direct"), "", "not amq "),
        ((), "many", "AMQP_PORT must be 1 to 65535"),
    ),
)
def test_wrong_usage_says_what_is_right(
    run: Any, args: tuple[str, ...], port: str, text: str
) -> None:
    done = run(*args, **({"AMQP_PORT": port} if port else {}))
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
