"""Commands on a journal in PostgreSQL: they take its URL where they take a path."""

from __future__ import annotations

import json
import secrets
import shlex
import subprocess
from pathlib import Path

import pytest
from benchmarks.postgresql import Server

from cli import journal_programs
from moothall import Budget, Journal, Later, PostgresMemory, ReActAgent, ScriptedModel
from moothall.models.protocol import Call


@pytest.fixture
def url(postgresql: Server) -> str:
    """A journal and a memory that have something of anna."""
    url = postgresql.url(f"c{secrets.token_hex(6)}")

    def act(what: str) -> str:
        """Act."""
        return what

    with Journal(url) as journal, PostgresMemory(url) as memory:
        for run, thread in (("one", None), ("two", "anna"), ("three", "anna/orders")):
            model = ScriptedModel([Call("c", "act", {"what": run}), f"Yes, {run}."])
            clerk = ReActAgent("clerk", model, actions=[act], journal=journal, memory=memory)
            clerk.reply_sync(f"go {run}", run_id=run, thread=thread)
        Budget(tokens=100, journal=journal, name="team").reserve(tokens=7).settle(tokens=5)
    return url


def run(url: str, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    done = journal_programs.moothall(*args, cwd=folder, MOOTHALL_JOURNAL=url)
    assert Server.password not in done.stdout + done.stderr
    return done


def test_commands_of_a_journal_take_a_url(url: str, tmp_path: Path) -> None:
    listed = json.loads(run(url, tmp_path, "runs", "--json", "--thread", "anna").stdout)
    assert [each["id"] for each in listed["runs"]] == ["two", "three"]
    assert "Yes, one." in run(url, tmp_path, "replay", "one").stdout
    assert "go one" in run(url, tmp_path, "runs", "one", "--journal", url).stdout
    assert "team" in run(url, tmp_path, "budgets").stdout
    assert run(url, tmp_path, "runs", "export", "one", "--jsonl", "one.jsonl").returncode == 0
    again = run(url, tmp_path, "runs", "import", "one.jsonl", "--run-id", "copy")
    assert again.stdout == "copy\n"
    refused = run(url, tmp_path, "runs", "backup", "copy.db")
    assert (refused.returncode, "pg_dump" in refused.stderr) == (2, True)


def test_waiting_shows_commands_without_the_password_of_a_url(url: str, tmp_path: Path) -> None:
    def later() -> Later:
        """Later."""
        return Later("batch")

    with Journal(url) as journal:
        model = ScriptedModel([Call("c", "later", {})])
        ReActAgent("clerk", model, actions=[later], journal=journal).reply_sync("go", run_id="w")
        shown_url = journal.path
    listed = run(url, tmp_path, "waiting", "--journal", url).stdout
    assert f"moothall answer w batch VALUE --journal {shlex.quote(shown_url)}\n" in listed


def test_runs_delete_thread_removes_a_persons_data_from_a_server(url: str, tmp_path: Path) -> None:
    done = run(url, tmp_path, "runs", "delete", "--thread", "anna", "--memory", url)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "2 runs deleted"
    assert second.endswith(": 2 conversations forgotten")
    assert "the server keeps its files as they are" in done.stderr
    with PostgresMemory(url) as memory:
        assert memory.threads() == ["default"]
    assert run(url, tmp_path, "runs", "compact").returncode == 0


def test_server_that_is_not_there_is_told_in_a_sentence(url: str, tmp_path: Path) -> None:
    gone = url.replace("127.0.0.1:", "127.0.0.1:1")
    done = run(gone, tmp_path, "runs")
    assert done.returncode in (1, 2)
    assert "the server cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
