"""`moothall doctor`: what is there, what is missing, what is wrong, each with its remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from commands import run
from moothall import Journal, ReActAgent, ScriptedModel

SET_BY_OTHERS = ("PROXY", "API_KEY", "OFFLINE", "SSL_CERT", "CA_BUNDLE")
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not any(each in name.upper() for each in SET_BY_OTHERS)
}


def findings(folder: Path, *args: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and what is found by name, of a folder in which nothing has been fetched."""
    env = {**CLEAN, "MOOTHALL_HOME": str(folder), **environment}
    done = run("doctor", "--json", *args, cwd=folder, env=env)
    assert done.stderr == ""
    return done.returncode, {each["name"]: each for each in json.loads(done.stdout)["findings"]}


def test_doctor_tells_what_is_missing_with_a_remedy_and_ends_with_0(tmp_path: Path) -> None:
    code, found = findings(tmp_path)
    assert code == 0
    assert found["weights"]["state"] == "missing"
    assert found["weights"]["remedy"].endswith("run: moothall models fetch")
    assert found["journal"]["state"] == "missing"
    assert "MOOTHALL_JOURNAL" in found["journal"]["remedy"]
    assert found["Python"]["state"] == found["settings"]["state"] == "ok"


def test_doctor_tells_what_is_there(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        ReActAgent("a", ScriptedModel(["Yes."]), journal=journal).reply_sync("go")
    proxy = "http://user:secret@proxy.example:3128"
    code, found = findings(
        tmp_path, "--journal", "runs.db", OPENAI_API_KEY="sk-secret", HTTPS_PROXY=proxy
    )
    assert code == 0
    assert found["journal"]["text"] == "runs.db: 1 run"
    assert "openai" in found["keys"]["text"]
    assert found["network"]["text"] == "https through proxy.example:3128"
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("variables", "text"),
    (
        ({"HTTPS_PROXY": "proxy.example:3128"}, "https through proxy.example:3128"),
        (
            {"ALL_PROXY": "http://me:secret@proxy.example:3128"},
            "http through proxy.example:3128, https through proxy.example:3128",
        ),
        ({}, "no proxy"),
    ),
)
def test_doctor_tells_the_proxy_that_is_used(
    tmp_path: Path, variables: dict[str, str], text: str
) -> None:
    code, found = findings(tmp_path, **variables)
    assert (code, found["network"]["text"]) == (0, text)


def test_doctor_ends_with_1_for_a_proxy_that_is_not_used(tmp_path: Path) -> None:
    code, found = findings(tmp_path, ALL_PROXY="socks5://me:secret@proxy.example:1080")
    assert code == 1
    assert found["network"]["state"] == "wrong"
    assert "ALL_PROXY must be an HTTP proxy" in found["network"]["text"]
    assert "secret" not in json.dumps(found)


def test_doctor_ends_with_1_for_what_is_set_and_does_not_work(tmp_path: Path) -> None:
    (tmp_path / "moothall.toml").write_text("modell = 'local'\n")
    code, found = findings(
        tmp_path, "--journal", "missing.db", SSL_CERT_FILE=str(tmp_path / "missing.pem")
    )
    assert code == 1
    wrong = {name: each["text"] for name, each in found.items() if each["state"] == "wrong"}
    assert {*wrong} == {"journal", "settings", "certificates"}
    assert "there is no such file" in wrong["journal"]
    assert "there is no key 'modell'" in wrong["settings"]
    assert found["certificates"]["remedy"].endswith("or unset SSL_CERT_FILE")


@pytest.mark.parametrize(
    ("line", "fault"),
    (
        ("model = 'opnai:gpt-4'", "model: there is no model 'opnai:gpt-4'"),
        ("root = 'nowhere'", "root: 'nowhere' is not a folder"),
    ),
)
def test_doctor_reads_what_the_settings_name(tmp_path: Path, line: str, fault: str) -> None:
    (tmp_path / "moothall.toml").write_text(f"[chat]\n{line}\n")
    code, found = findings(tmp_path)
    assert code == 1
    assert found["settings"]["text"].startswith(f"moothall.toml: {fault}")


def test_doctor_names_the_variable_of_certificates_that_has_an_effect(tmp_path: Path) -> None:
    code, found = findings(tmp_path, REQUESTS_CA_BUNDLE="/etc/own.pem")
    assert code == 1
    assert found["certificates"]["remedy"] == "set SSL_CERT_FILE=/etc/own.pem"


def test_doctor_prints_a_line_for_each_with_its_remedy_below(tmp_path: Path) -> None:
    env = {**CLEAN, "MOOTHALL_HOME": str(tmp_path), "COLUMNS": "60"}
    done = run("doctor", cwd=tmp_path, env=env)
    assert done.returncode == 0
    assert "missing  weights       none\n" + 23 * " " + "→ " in done.stdout
