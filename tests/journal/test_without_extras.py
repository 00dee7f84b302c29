"""Journals where nothing is installed but what moothall itself needs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import moothall
import packages

_PROGRAM = """
from moothall import Journal, ReActAgent, ScriptedModel
journal = Journal("runs.db")
agent = ReActAgent("desk", ScriptedModel(["Hello."]), journal=journal)
agent.reply_sync("Hi", run_id="r")
print([each.kind for each in journal.entries("r")][-1])
"""


def test_journal_reads_the_run_of_an_agent_where_no_extra_is_installed(tmp_path: Path) -> None:
    base = ("docstring_parser", "jsonschema-rs", "pydantic", "snowballstemmer", "typing_extensions")
    done = subprocess.run(
        [packages.python(*base), "-c", _PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(moothall.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("over\n", 0), done.stderr
