"""`moothall serve` for MCP clients: at standard streams, and over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from commands import Command
from commands import run as moothall
from moothall import ACCESS_PERMITTED, Agent, NativeSpace
from moothall.serving import MCPAgent

CLIENT = {"name": "test", "version": "1"}
AGENTS = '''
import sys
from moothall import Agent, ReActAgent, ScriptedModel, action

clerk = ReActAgent("clerk", ScriptedModel(["hello"]))
print("a line of the module's own")

class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        print("a line of the action's own")
        return a + b
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sums.py").write_text(AGENTS)
    (tmp_path / "binary").write_bytes(b"ada \xff")
    return tmp_path


def test_serve_speaks_mcp_at_standard_streams(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command = [sys.executable, "-m", "moothall", "serve", "sums:Calculator", "--mcp-stdio"]
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with NativeSpace() as space:
        space.add(MCPAgent("sums", command, env=env, access=ACCESS_PERMITTED))
        assert space.add(Agent("me")).ask("sums", "add", a=2, b=3).result(50) == 5


def test_serve_says_what_an_agent_is_good_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    told = moothall("serve", "sums:clerk", "sums:Calculator", "--mcp-stdio", "--description", "x")
    assert (told.returncode, "--description are for one agent" in told.stderr) == (2, True)
    command = [sys.executable, "-m", "moothall", "serve", "sums:clerk", "--mcp-stdio"]
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command += ["--description", "Knows sums."]
    with MCPAgent("sums", command, env=env, access=ACCESS_PERMITTED) as agent:
        assert agent.offers["say"].description == "Knows sums."


def test_serve_over_http_lets_each_caller_spend_its_limits_until_it_is_interrupted(
    folder: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "dear.py").write_text(
        "from moothall import ModelReply, ReActAgent, ScriptedModel, Usage\n"
        "model = ScriptedModel([ModelReply('hello', usage=Usage(100, 400))] * 9, max_tokens=400)\n"
        "clerk = ReActAgent('clerk', model)\n"
    )
    (folder / "callers.txt").write_text("ada t-new\nada t-ada\nbob t-bob\n")
    command = [sys.executable, "-u", "-m", "moothall", "serve", "dear:clerk", "--http", place]
    command += ["--callers", "callers.txt", "--max-tokens", "1000", "--per", "day", "--rate", "3"]
    command += ["--description", "Greets.", "--log-format", "json"]
    asked = {"model": "clerk", "messages": [{"role": "user", "content": "Hi"}]}

    def answer(token: str) -> tuple[int, str | None]:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"http://{place}/v1/chat/completions"
        found = httpx2.post(url, json=asked, headers=headers, timeout=50)
        said = found.json()
        return found.status_code, (
            said["error"]["code"] if "error" in said else said["choices"][0]["message"]["content"]
        )

    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        while "is served" not in (line := serving.stdout.readline()):
            pass
        doors = "A2A at /a2a, OpenAI at /v1, AG-UI at /ag-ui"
        assert line == f"MCP is served at http://{place}/mcp, {doors}. Ctrl-C ends it.\n"
        assert answer("t-ada") == (200, "hello")
        assert answer("t-new") == (429, "insufficient_quota")
        assert answer("t-nobody") == (401, None)
        assert answer("t-ada") == (429, "insufficient_quota")
        assert answer("t-ada") == (429, "rate_limit_exceeded")
        assert answer("t-bob") == (200, "hello")
        serving.send_signal(signal.SIGTERM)
        output, errors = serving.communicate(timeout=50)
    assert (serving.returncode, output, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("options", "told"),
    (
        (("--http", "8100"), "takes HOST:PORT"),
        (("--http", "127.0.0.1:x"), "takes HOST:PORT"),
        (("--http", "127.0.0.1:65536"), "takes HOST:PORT"),
        (("--http", "0.0.0.0:8100"), "can be reached from elsewhere"),
        (("--http", "127.0.0.1:8100", "--mcp-stdio"), "either --http or --mcp-stdio"),
        (("--http", "127.0.0.1:8100", "--inbox", "x"), "are for RabbitMQ"),
        (("--rate", "5"), "are for --http"),
        (("--max-replies", "5"), "are for --http"),
        (("--token", "x"), "--token are for --http"),
        (("--http", "127.0.0.1:8100", "--per", "day"), "--per is for --max-tokens"),
        (("--http", "127.0.0.1:8100", "--callers", "sums.py"), "must be a name and a token"),
        (("--http", "127.0.0.1:8100", "--callers", "sums.py", "--token", "x"), "either --token"),
        (("--http", "127.0.0.1:8100", "--callers", "binary"), "binary must be text in UTF-8"),
        (("--mcp-stdio", "--rate", "5"), "--callers, --max-replies, --rate and --token are"),
        (("--mcp-stdio", "--token", "x"), "--callers, --max-replies, --rate and --token are"),
        (("sums:Calculator", "--mcp-stdio"), "two of the agents have the id 'Calculator'"),
        (("sums:Calculator",), "over RabbitMQ: start one for each, or serve a company"),
    ),
)
def test_serve_with_wrong_options_says_which(
    folder: Path, options: tuple[str, ...], told: str
) -> None:
    done = moothall("serve", "sums:Calculator", *options, cwd=folder)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())


def test_serve_keeps_the_budgets_of_callers_beside_an_agent_with_its_own_journal(
    folder: Path,
) -> None:
    (folder / "clerks.py").write_text(
        "from moothall import ReActAgent, ScriptedModel\n"
        "clerk = ReActAgent('clerk', ScriptedModel([]), journal='own.db')\n"
    )
    command = ("serve", "clerks:clerk", "--journal", "books.db", "--http", "127.0.0.1:x")
    refused = moothall(*command, cwd=folder)
    assert "clerk has one already: leave it out" in " ".join(refused.stderr.split())
    begins = moothall(*command, "--max-tokens", "9", cwd=folder)
    assert "takes HOST:PORT" in begins.stderr


def test_serve_logs_lines_of_json_with_what_a_record_has_beside(folder: Path) -> None:
    (folder / "loud.py").write_text(
        "import logging\n"
        "from moothall import Agent, action\n"
        "class Loud(Agent):\n"
        "    @action\n"
        "    def shout(self) -> str:\n"
        "        log = logging.getLogger('moothall.loud')\n"
        "        log.info('not this')\n"
        "        try:\n"
        "            raise KeyError('ada')\n"
        "        except KeyError:\n"
        "            log.error('no\\n%s', 'ada', exc_info=True, extra={'customer': 'acme'})\n"
        "        return 'ok'\n"
    )
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {**about, "clientInfo": CLIENT}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "shout", "arguments": {}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in asked)
    form = ("--log-format", "json", "--log-level", "warning")
    streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = ("serve", "loud:Loud", "--mcp-stdio", *form)
    with Command(*command, cwd=folder, text=True, **streams) as serving:
        serving.stdin.write(lines)
        serving.stdin.flush()
        while '"id":2' not in serving.stdout.readline():
            pass
        (line,) = serving.communicate()[1].splitlines()
    record = json.loads(line)
    assert record["message"] == "no\nada"
    assert (record["level"], record["logger"]) == ("error", "moothall.loud")
    assert record["customer"] == "acme"
    assert record["traceback"].endswith("KeyError: 'ada'")
    assert datetime.fromisoformat(record["time"]).tzinfo is not None
