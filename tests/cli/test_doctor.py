"""`moothall doctor`: what is there, what is missing, what is wrong, each with its remedy."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
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


def words(finding: dict[str, Any]) -> tuple[str, str, str]:
    """What is said of one thing."""
    return finding["state"], finding["text"], finding["remedy"]


NO_WEIGHTS = "the weights of SmolLM2 135M Instruct are not there yet; run: moothall models fetch"


def test_doctor_tells_what_is_missing_with_a_remedy_and_ends_with_0(tmp_path: Path) -> None:
    code, found = findings(tmp_path)
    assert code == 0
    assert {name: words(found[name]) for name in ("weights", "keys", "journal", "settings")} == {
        "weights": ("missing", "none", NO_WEIGHTS),
        "keys": (
            "missing",
            "the environment has no key of a provider",
            "for a model behind a server, set its key, such as OPENAI_API_KEY; `moothall models` "
            "names all of them",
        ),
        "journal": (
            "missing",
            "runs of commands are not recorded",
            "to record runs, give --journal PATH, or set MOOTHALL_JOURNAL",
        ),
        "settings": ("ok", "there is no moothall.toml in this folder", ""),
    }
    version = f"CPython {platform.python_version()}, moothall {metadata.version('moothall')}"
    assert words(found["Python"]) == ("ok", version, "")
    assert found["certificates"]["text"].startswith("those of /")
    assert [*found] == [
        *("Python", "extras", "weights", "keys", "sandbox", "journal", "settings"),
        *("certificates", "network"),
    ]


def test_doctor_tells_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "moothall.toml").write_text("root = '.'\n[act]\nmodel = 'openai:gpt-5'\n")
    with Journal(tmp_path / "runs.db") as journal:
        ReActAgent("a", ScriptedModel(["Yes."]), journal=journal).reply_sync("go")
    key, proxy = "sk-secret", "http://user:secret@proxy.example:3128"
    options = ("--journal", "runs.db")
    code, found = findings(tmp_path, *options, OPENAI_API_KEY=key, HTTPS_PROXY=proxy)
    assert code == 0
    assert {name: words(found[name]) for name in ("keys", "journal", "settings", "network")} == {
        "keys": ("ok", "the environment has a key or an address of openai", ""),
        "journal": ("ok", "runs.db: 1 run", ""),
        "settings": ("ok", "moothall.toml is right", ""),
        "network": ("ok", "https through proxy.example:3128", ""),
    }
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("variables", "said"),
    (
        ({"HTTPS_PROXY": "proxy.example:3128"}, ("https through proxy.example:3128", "")),
        (
            {"ALL_PROXY": "http://me:secret@proxy.example:3128"},
            ("http through proxy.example:3128, https through proxy.example:3128", ""),
        ),
        (
            {"MOOTHALL_OFFLINE": "1"},
            (
                "MOOTHALL_OFFLINE forbids calls to other machines",
                "unset MOOTHALL_OFFLINE to reach other machines",
            ),
        ),
        ({}, ("no proxy", "")),
    ),
)
def test_doctor_tells_the_proxy_that_is_used(
    tmp_path: Path, variables: dict[str, str], said: tuple[str, str]
) -> None:
    code, found = findings(tmp_path, **variables)
    assert (code, words(found["network"])) == (0, ("ok", *said))


def test_doctor_ends_with_1_for_a_proxy_that_is_not_used(tmp_path: Path) -> None:
    code, found = findings(tmp_path, ALL_PROXY="socks5://me:secret@proxy.example:1080")
    assert code == 1
    assert found["network"]["state"] == "wrong"
    assert "ALL_PROXY must be an HTTP proxy" in found["network"]["text"]
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("variables", "said"),
    (
        (
            {"SSL_CERT_FILE": "/missing.pem"},
            (
                "SSL_CERT_FILE: there is no '/missing.pem'",
                "name the file that has your network's certificates, or unset SSL_CERT_FILE",
            ),
        ),
        (
            {"REQUESTS_CA_BUNDLE": "/etc/own.pem"},
            ("REQUESTS_CA_BUNDLE has no effect here", "set SSL_CERT_FILE=/etc/own.pem"),
        ),
        (
            {"REQUESTS_CA_BUNDLE": "/etc/own.pem", "SSL_CERT_FILE": __file__},
            (f"those of {__file__}", ""),
        ),
    ),
)
def test_doctor_names_the_variable_of_certificates_that_has_an_effect(
    tmp_path: Path, variables: dict[str, str], said: tuple[str, str]
) -> None:
    code, found = findings(tmp_path, **variables)
    is_wrong = bool(said[1])
    assert code == is_wrong
    assert words(found["certificates"]) == ("wrong" if is_wrong else "ok", *said)


@pytest.mark.parametrize(
    ("line", "fault"),
    (
        ("model = 'opnai:gpt-4'", "moothall.toml: model: there is no model 'opnai:gpt-4'"),
        ("root = 'nowhere'", "moothall.toml: root: 'nowhere' is not a folder"),
        ("modell = 'local'", "moothall.toml: there is no key 'chat.modell'; there are "),
    ),
)
def test_doctor_ends_with_1_for_settings_and_a_journal_that_do_not_work(
    tmp_path: Path, line: str, fault: str
) -> None:
    (tmp_path / "moothall.toml").write_text(f"[chat]\n{line}\n")
    code, found = findings(tmp_path, "--journal", "missing.db")
    assert code == 1
    assert (found["settings"]["state"], found["settings"]["remedy"]) == ("wrong", "")
    assert fault in found["settings"]["text"]
    assert found["journal"]["state"] == "wrong"
    assert found["journal"]["text"] == (
        "--journal: journal 'missing.db': there is no such file; "
        "`moothall act TASK --journal PATH` makes one"
    )


@pytest.mark.parametrize(
    ("columns", "lines"),
    (
        (
            "60",
            [
                "missing  weights       none",
                "                       → the weights of SmolLM2 135M",
                "                       Instruct are not there yet; run:",
                "                       moothall models fetch",
            ],
        ),
        (
            "59",
            [
                "missing  weights       none",
                "  → the weights of SmolLM2 135M Instruct are not there yet;",
                "  run: moothall models fetch",
            ],
        ),
    ),
)
def test_doctor_prints_a_line_for_each_with_its_remedy_below(
    tmp_path: Path, columns: str, lines: list[str]
) -> None:
    env = {**CLEAN, "MOOTHALL_HOME": str(tmp_path), "COLUMNS": columns}
    done = run("doctor", cwd=tmp_path, env=env)
    printed = done.stdout.splitlines()
    at = next(n for n, each in enumerate(printed) if each.startswith("missing  weights"))
    assert (done.returncode, printed[at : at + len(lines)]) == (0, lines)
