"""`moothall serve company.yaml`: signals, exit codes, HTTP, and what is told of mistakes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Command
from commands import run as moothall
from moothall import ACCESS_PERMITTED, Agent, NativeSpace
from moothall.serving import MCPAgent
from serving.company.conftest import value
from serving.company.served import Served

# A loaded machine starts processes slowly.
pytestmark = pytest.mark.timeout(180)

COMPANY = """
http: {listen: '127.0.0.1:0', token: '${TOKEN}'}
agents:
  Clerk:
    ref: program.py:Clerk
    restart: {first: 1ms, most: 1}
drain: 20s
"""


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    (folder / "company.yaml").write_text(COMPANY)
    served = Served(folder)
    yield served
    served.process.kill()
    served.end()


def test_serve_a_company_answers_over_http_and_drains_at_sigterm(served: Served) -> None:
    assert served.line.startswith("company serves Clerk, with HTTP at port ")
    assert served.get("/health") == (200, '{"live":true,"ready":true}')
    assert served.get("/health/live") == (200, '{"live":true,"ready":true}')
    status, health = served.get("/health", "secret")
    assert status == 200
    assert json.loads(health)["agents"]["Clerk"]["state"] == "running"
    assert [served.get(path)[0] for path in ("/metrics", "/mcp", "/v1/models")] == [401] * 3
    assert served.get("/health", "wrong")[0] == 401
    url = f"http://127.0.0.1:{served.port}/mcp"
    with NativeSpace() as space:
        me = space.add(Agent("me"))
        headers = {"Authorization": "Bearer secret"}
        space.add(MCPAgent("far", url, headers=headers, access=ACCESS_PERMITTED))
        assert me.ask("far", "greet").result(30) == "hello"
        held = me.ask("far", "hold")
        while value(served.get("/metrics", "secret")[1], "moothall_handling", agent="Clerk") < 1:
            pass
        metrics = served.get("/metrics", "secret")[1]
        assert metrics.endswith("# EOF\n")
        assert value(metrics, "moothall_requests_total", agent="Clerk", outcome="ok") == 1
        served.process.send_signal(signal.SIGTERM)
        assert served.process.stdout is not None
        assert served.process.stdout.readline() == "company drains, within 20 s.\n"
        assert held.result(30) == "held"
        assert served.process.stdout.readline() == "company has stopped.\n"
    assert served.end() == 0


def test_serve_a_company_ends_with_1_when_an_agent_is_given_up(served: Served) -> None:
    url = f"http://127.0.0.1:{served.port}/mcp"
    with NativeSpace() as space:
        me = space.add(Agent("me"))
        headers = {"Authorization": "Bearer secret"}
        space.add(MCPAgent("far", url, headers=headers, access=ACCESS_PERMITTED))
        for _ in range(2):
            me.ask("far", "die").result(30)
            deaths = 0.0
            while not deaths:
                try:
                    metrics = served.get("/metrics", "secret")[1]
                    deaths = value(metrics, "moothall_deaths_total", agent="Clerk")
                except OSError:
                    break
            if served.process.poll() is not None:
                break
    assert served.process.stderr is not None
    errors = served.process.stderr.read()
    assert served.end() == 1
    assert "moothall: 'Clerk' died 2 times and is not started again" in errors


@pytest.mark.parametrize(
    ("text", "args", "told"),
    (
        ("agents: {}", (), "company.yaml:1: agents: there must be at least one"),
        (
            "agents:\n  A: {rfe: x.py:Y}",
            (),
            "company.yaml:2: agents.A.rfe: there is no such key (did you mean 'ref'?)",
        ),
        ("agents: {A: {ref: 'x.py:Y'}}", (), "there is no file"),
        (COMPANY, (), "company.yaml:2: http.token: the variable TOKEN is not set"),
        (COMPANY, ("--http", "127.0.0.1:0"), "settings are in its file: give no options"),
        (COMPANY, ("other.yaml",), "one process serves one company"),
        (
            "agents: {Clerk: {ref: 'program.py:Clerk'}}\nhttp: {listen: '0.0.0.0:0'}",
            (),
            "can be reached from elsewhere: set http.token",
        ),
    ),
)
def test_serve_a_company_with_a_mistake_says_which_and_where(
    folder: Path, text: str, args: tuple[str, ...], told: str
) -> None:
    (folder / "company.yaml").write_text(text)
    done = moothall("serve", "company.yaml", *args, cwd=folder)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())


def test_serve_company_at_an_address_in_use_does_nothing(folder: Path) -> None:
    (folder / "program.py").write_text(
        """
from pathlib import Path

from moothall import Agent


def made(id):
    Path("made").touch()
    return Agent(id)
"""
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        (folder / "company.yaml").write_text(
            f"journal: runs.db\nhttp: {{listen: '{place}'}}\n"
            "agents: {A: {ref: 'program.py:made'}}"
        )
        done = moothall("serve", "company.yaml", cwd=folder)
    assert done.returncode == 2
    assert f"nothing can be served at {place}" in done.stderr
    assert not (folder / "made").exists()
    assert not (folder / "runs.db").exists()


def test_serve_company_that_is_still_starting_ends_with_0_at_sigterm(folder: Path) -> None:
    (folder / "program.py").write_text(
        """
import asyncio

from moothall import Agent


class Slow(Agent):
    async def after_add(self):
        print("it comes", flush=True)
        await asyncio.Event().wait()

    async def before_remove(self):
        print("it goes", flush=True)
"""
    )
    (folder / "company.yaml").write_text("agents: {A: {ref: 'program.py:Slow'}}\ndrain: 20s")
    process = Command("serve", "company.yaml", cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == "it comes\n"
        process.send_signal(signal.SIGTERM)
        assert said.readlines()[-1] == "company has stopped.\n"
    assert process.wait(40) == 0
