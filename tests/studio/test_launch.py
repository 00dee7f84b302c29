"""launch(): what it refuses and says then, and how a program with a studio ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from commands import Command
from models.openai_server import HANG, OpenAIServer
from moothall import Journal, SQLiteMemory
from moothall.foundation.errors import ConfigError, JournalError
from moothall.studio import Studio, Tab
from moothall.studio.orders.order import ActOrder


def launch(studio: Studio, **options: Any) -> str:
    return studio.launch(**{"port": 0, "prevent_thread_lock": True, "quiet": True, **options})


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test records in the user's own place."""
    monkeypatch.setenv("MOOTHALL_JOURNAL", str(tmp_path / "journal.db"))
    (tmp_path / "folder").mkdir()


@pytest.mark.parametrize(
    ("options", "told"),
    (
        ({"port": -1}, "port must be a whole number from 0 to 65535, got -1"),
        ({"port": 65536}, "port must be"),
        ({"port": "8080"}, 'port must be a whole number from 0 to 65535, got "8080"'),
        ({"port": True}, "port must be"),
        ({"port": 8080.0}, "port must be"),
        ({"host": None}, "host must be a name or an address, got None"),
        ({"host": "0.0.0.0"}, "needs a password: set MOOTHALL_STUDIO_PASSWORD"),
        ({"host": ""}, "needs a password: set MOOTHALL_STUDIO_PASSWORD"),
        ({"host": "::"}, "needs a password: set MOOTHALL_STUDIO_PASSWORD"),
        ({"host": "192.0.2.1", "password": "p" * 8}, "give another host or port"),
        ({"host": "a" * 70 + ".example", "password": "p" * 8}, "give another host or port"),
        ({"host": "a\0b", "password": "p" * 8}, "host must be a name or an address"),
        ({"password": "short"}, "the password must be text of 8 characters or more"),
        ({"password": ""}, "the password must be"),
        ({"password": 12345678}, "the password must be"),
        ({"token": "short"}, "the token must be text of 16 characters or more"),
        ({"token": ""}, "the token must be"),
        ({"token": b"t" * 20}, "the token must be"),
        ({"token": "t" * 20 + "\ud800"}, "characters that can be printed"),
        ({"token": "t" * 20 + "\r\nSet-Cookie: x"}, "characters that can be printed"),
    ),
)
def test_wrong_argument_is_refused_in_words(options: dict[str, Any], told: str) -> None:
    """And nothing is left behind: the studio can be launched rightly."""
    with Studio() as studio:
        with pytest.raises(ConfigError) as refused:
            launch(studio, **options)
        assert told in str(refused.value)
        assert studio.url is None


def test_port_that_is_taken_is_named() -> None:
    """Also where the port is taken at loopback only, and by another studio."""
    with socket.create_server(("127.0.0.1", 0)) as other, Studio() as studio:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f":{port}: Address already in use; .* \\(0 takes"):
            launch(studio, port=port)
        launch(studio)
        with Studio() as second, pytest.raises(ConfigError, match="already in use"):
            launch(second, port=int(str(studio.url).rstrip("/").rpartition(":")[2]))


def test_studio_is_launched_and_closed_any_number_of_times(tmp_path: Path) -> None:
    """Twice at once is refused; closing twice, or before, is nothing. Its runs end with it."""
    studio = Studio()
    studio.close()
    for number in range(2):
        launch(studio)  # with the journal of the environment
        assert [each.state for each in studio.journal.runs()] == ["cancelled"] * number
        with pytest.raises(ConfigError, match=r"is served at http://127.0.0.1:.*close"):
            launch(studio)
        with OpenAIServer(HANG) as server:
            studio.jobs.start(ActOrder("go", str(tmp_path / "folder"), f"{server.url}#m"))
            server.wait_for_request()
            studio.close()
            server.wait_for_close()
        studio.close()
        assert (studio.url, studio.jobs.running()) == (None, [])
        with pytest.raises(ConfigError, match="from launch"):
            studio.journal  # noqa: B018


def test_journal_that_cannot_be_used_leaves_no_port(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("no database")
    with Studio() as studio:
        with pytest.raises(JournalError, match=r"runs\.db"):
            launch(studio, journal=tmp_path / "runs.db")
        launch(studio)


def test_state_folder_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOOTHALL_JOURNAL", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with Studio() as studio, pytest.raises(JournalError, match="its folder cannot be made"):
        launch(studio)


def test_page_that_cannot_be_built_leaves_no_journal() -> None:
    """Of a studio that has a tab of one's own."""

    class Broken(Tab):
        name = title = "broken"

        def routes(self, router: Any) -> None:
            raise ZeroDivisionError("no tab")

    with Studio() as studio:
        studio.tabs.append(Broken())
        with pytest.raises(ZeroDivisionError, match="no tab"):
            launch(studio)
        with pytest.raises(ConfigError, match="from launch"):
            studio.journal  # noqa: B018


def test_journal_that_was_given_stays_open(tmp_path: Path) -> None:
    with Studio() as studio:
        journal = Journal(tmp_path / "runs.db")
        launch(studio, journal=journal)
        studio.close()
        assert journal.runs() == []
        journal.close()


def test_token_with_signs_is_quoted_in_the_address() -> None:
    """So that the printed address opens the page."""
    with Studio() as studio:
        assert launch(studio, token="a&b=c#d %+" + "t" * 16).endswith(
            "?token=a%26b%3Dc%23d%20%25%2B" + "t" * 16
        )


def test_localhost_is_told_as_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name may lead a browser to ::1, where another program could have the port.

    The token may be of the environment; without a journal there, it is in a folder of the person.
    """
    monkeypatch.setenv("MOOTHALL_JOURNAL", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("MOOTHALL_STUDIO_TOKEN", "e" * 16)
    with Studio() as studio:
        address = launch(studio, host="localhost")
        assert address == f"{studio.url}?token={'e' * 16}"
        assert address.startswith("http://127.0.0.1:")
        studio.close()
        assert launch(studio, host="::1").startswith("http://[::1]:")
        kept = tmp_path / "state" / "moothall" / "studio.db"
        assert studio.journal.path == str(kept)
        assert kept.parent.stat().st_mode & 0o077 == 0


def test_studio_at_every_address_names_one_that_can_be_opened(tmp_path: Path) -> None:
    """Not 0.0.0.0, which leads nowhere."""
    for host in ("0.0.0.0", "::"):
        with Studio() as studio:
            address = launch(studio, host=host, password="p" * 8, journal=tmp_path / "runs.db")
            named = ip_address(urlsplit(address).hostname or "")
            assert not named.is_unspecified
            request = Request(address, headers={"Authorization": f"Bearer {'p' * 8}"})
            with urlopen(request) as page:
                assert page.status == 200


AGENTS = """
import os
from moothall import Agent, OpenAIFunctionAgent

class Calculator(Agent):
    pass

def solver():
    return OpenAIFunctionAgent("Solver", os.environ["SOLVES"], user_id="Ann")
"""


@pytest.mark.timeout(120)  # on a loaded machine the program takes long to start
def test_command_serves_its_agents_and_records_their_runs(tmp_path: Path) -> None:
    """The small model's are without FunctionAI, which needs a larger one."""
    (tmp_path / "my_agents.py").write_text(AGENTS)
    program = ["studio", "--port", "0", "--journal", "runs.db", "--name", "Ann", "--model", "local"]
    program += ["--agent", "my_agents:Calculator", "--agent", "my_agents:solver"]
    with OpenAIServer(HANG) as server:
        environment = {**os.environ, "MOOTHALL_STUDIO_TOKEN": "t" * 16, "SOLVES": f"{server.url}#m"}
        options: Any = {"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE}
        with Command(*program, text=True, **options) as command, ExitStack() as failed:
            failed.callback(command.kill)
            assert command.stdout is not None
            url = command.stdout.readline().split()[-1].partition("?")[0]

            def asked(path: str, body: bytes | None = None) -> Any:
                known = {"Authorization": "Bearer " + "t" * 16, "Content-Type": "application/json"}
                with urlopen(Request(f"{url}studio/{path}", body, known), timeout=20) as answer:
                    return json.load(answer)

            wanted = {"Calculator", "Chatty", "Host", "Solver"}
            while len(found := asked("space/agents")["agents"]) < len(wanted):
                pass
            assert {each["id"] for each in found} == wanted
            asked("space/line", b'{"line": "/Solver.say content: \\"How many?\\""}')
            server.wait_for_request()
            assert [each["agent"] for each in asked("runs/list")] == ["Solver"]
            command.send_signal(signal.SIGINT)
            assert command.communicate(timeout=30)[0] == "moothall studio: ends\n"
        assert command.returncode == 0


def test_command_names_the_journals_and_towns_that_lie_in_its_folder(tmp_path: Path) -> None:
    """It looks at each, and leaves each as it is; what is another program's is not named."""
    folder = tmp_path / "folder"
    Journal(folder / "my runs.db").close()
    SQLiteMemory(folder / "memory.db").close()
    sqlite3.connect(folder / "other.db").execute("CREATE TABLE a (b)")
    with Journal(folder / "live.db"):
        (folder / "town").mkdir()
        (folder / "town" / "manifest.json").write_text('{"settings": {"citizens": 30, "seed": 1}}')
        (folder / "package").mkdir()
        (folder / "package" / "manifest.json").write_text("{}")
        before = sorted(each.name for each in folder.iterdir())
        options: Any = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        own = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        own.pop("MOOTHALL_JOURNAL")
        with Command("studio", "--port", "0", text=True, env=own, **options) as command:
            assert command.stdout is not None
            command.stdout.readline()
            command.send_signal(signal.SIGINT)
            _, told = command.communicate(timeout=30)
        assert told.splitlines() == [
            "moothall studio: 'live.db' is a journal in this folder: --journal live.db opens it",
            "moothall studio: 'my runs.db' is a journal in this folder: --journal 'my runs.db' "
            "opens it",
            "moothall studio: 'town' is a town in this folder: --town town opens it",
        ]
        assert sorted(each.name for each in folder.iterdir()) == before


def test_command_tells_no_address_where_it_cannot_serve(tmp_path: Path) -> None:
    with socket.socket() as taken:  # nobody listens
        taken.bind(("127.0.0.1", 0))
        broker = {"AMQP_HOST": "127.0.0.1", "AMQP_PORT": str(taken.getsockname()[1])}
        done = subprocess.run(
            [sys.executable, "-m", "moothall", "studio", "--amqp", "--port", "0"],
            capture_output=True,
            text=True,
            timeout=50,
            cwd=tmp_path,
            env={**os.environ, **broker},
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"127.0.0.1:{broker['AMQP_PORT']}" in done.stderr


@pytest.mark.parametrize(
    "package",
    (
        "fastapi",
        *(pytest.param(p, marks=pytest.mark.long) for p in ("uvicorn", "websockets")),
    ),
)
def test_missing_extra_is_named(package: str) -> None:
    program = f"""
import sys
sys.modules[{package!r}] = None
from moothall.foundation.errors import MissingExtra
from moothall.studio import demo
try:
    demo.launch(0)
except MissingExtra as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50
    )
    assert "pip install 'moothall[studio]'" in told.stdout, told.stderr
