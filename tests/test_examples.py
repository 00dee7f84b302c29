"""Every example runs to its end as its reader would start it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands import OF_DOCUMENTATION, run
from models.openai_server import OpenAIServer, Request, call, calls, text

# The process that starts programs with so much imported is one worker's.
pytestmark = pytest.mark.xdist_group("documentation")

ROOT = Path(__file__).resolve().parent.parent
# They have tests of their own.
OWN = (
    *("demo.py", "desk.py", "redis_space.py", "service.py", "smolagents_agent.py"),
    "studio.py",
)
MODELS = sorted((ROOT / "examples" / "models").glob("*.py"))
EXAMPLES = (
    *(p for p in sorted((ROOT / "examples").glob("*.py")) if p.name not in OWN),
    *MODELS,
    *(p for p in sorted((ROOT / "examples" / "theirs").glob("*.py")) if p.name not in OWN),
    ROOT / "examples" / "company" / "run.py",
)
EXAMPLES_BY_NAME = {path.name: path for path in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs_to_its_end(
    example: Path, tmp_path: Path, shallow_home: dict[str, str]
) -> None:
    done = run(
        script=example,
        options=("-W", "error"),
        imports=OF_DOCUMENTATION,
        cwd=tmp_path,
        env=os.environ | shallow_home,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), "an example shows something"


def test_segregation_prints_what_its_page_shows() -> None:
    model = ROOT / "examples" / "models" / "schelling.py"
    done = subprocess.run([sys.executable, model], capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in (ROOT / "docs" / "population.md").read_text()


def test_readme_serves_an_agent_of_the_examples() -> None:
    readme = (ROOT / "README.md").read_text()
    (name,) = re.findall(r"moothall serve (examples[\w.:]+)", readme)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "moothall",
            "chat",
            "--agent",
            name,
            "--model",
            "http://127.0.0.1:9#m",
        ],
        cwd=ROOT,
        input="/Calculator.add a:1 b:2\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Calculator: 3\n")


def test_demo_installs_what_the_readmes_commands_need() -> None:
    (extras,) = re.findall(r"scripts/install (\S+) \$@\n", (ROOT / "Makefile").read_text())[:1]
    # The commands' screens, the model in the box, serve and chat --amqp, a town.
    assert set(extras.split(",")) == {"cli", "local", "amqp", "society"}


def test_application_example_answers_lines_and_ends(
    tmp_path: Path, shallow_home: dict[str, str]
) -> None:
    (tmp_path / "notes.txt").write_text("Milk\n")

    def answer(request: Request) -> object:
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return text(f"There is {last['content']}.")
        return calls(call("Host_list_files", "{}"))

    with OpenAIServer(answer) as server:
        done = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLES_BY_NAME["application.py"], f"{server.url}#m"],
            cwd=tmp_path,
            env=os.environ | shallow_home,
            input="What files are there?\n",
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    first, *answers = done.stdout.splitlines()
    assert first.startswith("Here are Chatty, Host, FunctionAI, User.")
    assert 'FunctionAI: There is ["notes.txt"].' in answers
    # What the local model says is its own affair; that it answers is not.
    assert sum(line.startswith("Chatty: ") for line in answers) == 1


def test_application_example_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES_BY_NAME["application.py"], "local:smollm3"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "there are no weights called 'smollm3'" in done.stderr
