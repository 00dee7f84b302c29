"""Before a deployment: which runs that wait a program would take, and what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import run as run_command

PROGRAM = '''
import os
from moothall import *
from moothall.models.protocol import Call

VERSION = os.environ.get("VERSION", "")

async def order(key: str) -> Later:
    """Order."""
    return Later(key)

def model(call):
    def answer(messages, _):
        return messages[-1]["content"] if messages[-1]["role"] == "tool" else call
    return ScriptedModel(answer)

def clerk(id="clerk"):
    prompt = "Help briefly." if VERSION == "helper" else "Help."
    helper = ReActAgent("helper", model(Call("c", "order", {"key": "k"})), actions=[order],
                        system_prompt=prompt)
    asks = [helper.as_action(fresh=VERSION != "form")]
    if VERSION == "gone":
        asks = []
    prompt = "Be short." if VERSION == "prompt" else "Be kind."
    asked = model(Call("h", "helper", {"text": "go"}))
    return ReActAgent(id, asked, actions=asks, system_prompt=prompt, journal="j.db")
'''
COMPANY = 'journal: j.db\nagents:\n  {name}: {{ref: "firm.py:clerk"}}\n'


@pytest.fixture
def firm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, of whose agent a run waits."""
    (tmp_path / "firm.py").write_text(PROGRAM)
    (tmp_path / "firm.yaml").write_text(COMPANY.format(name="clerk"))
    monkeypatch.chdir(tmp_path)
    begin = "from firm import clerk; print(clerk().reply_sync('go', run_id='r').stop_reason)"
    begun = run_command(code=begin)
    assert begun.stdout == "waiting\n", begun.stderr
    return tmp_path


DIFFERENCES = {
    "": "",
    "prompt": 'agent \'clerk\': system prompt: was "Be kind.", is "Be short."',
    "helper": 'agent \'helper\': system prompt: was "Help.", is "Help briefly."',
    "form": "call 1.0 of 'helper' was what agent 'helper' does in a conversation of its own",
    "gone": "agent 'clerk': actions: helper is gone",
}


@pytest.mark.parametrize("version", DIFFERENCES)
@pytest.mark.parametrize("agent", ("firm:clerk", "firm.yaml"))
def test_check_names_the_runs_that_a_program_would_not_take_and_what_differs(
    firm: Path, monkeypatch: pytest.MonkeyPatch, agent: str, version: str
) -> None:
    monkeypatch.setenv("VERSION", version)
    before = (firm / "j.db").read_bytes()
    checked = run_command("runs", "check", "--agent", agent, "--journal", str(firm / "j.db"))
    lines = checked.stdout.splitlines()
    if not version:
        assert (checked.returncode, lines) == (0, ["1 run would go on, 0 would not"])
    else:
        assert checked.returncode == 1
        assert lines[0].startswith(
            f"run r of clerk (waiting) would not go on: {DIFFERENCES[version]}"
        )
        assert lines[1:] == ["0 runs would go on, 1 would not"]
    assert (firm / "j.db").read_bytes() == before


def test_check_of_a_company_without_the_agent_of_a_run_names_the_run(firm: Path) -> None:
    (firm / "firm.yaml").write_text(COMPANY.format(name="other"))
    checked = run_command("runs", "check", "--agent", "firm.yaml")
    assert checked.returncode == 1
    assert checked.stdout.startswith("run r of clerk (waiting) would not go on: no agent 'clerk'")


def test_check_of_one_agent_counts_the_runs_of_others(firm: Path) -> None:
    (firm / "two.py").write_text(
        "from firm import clerk as make\ndef two(id='two'): return make('two')"
    )
    checked = run_command("runs", "check", "--agent", "two:two", "--journal", "j.db")
    assert (checked.returncode, checked.stdout) == (
        *(0, "0 runs would go on, 0 would not\n1 run of other agents not looked at\n"),
    )


def test_check_says_of_a_run_that_finds_actions_of_others_that_it_may_go_on(firm: Path) -> None:
    (firm / "firm.py").write_text(
        PROGRAM.replace("actions=asks", "actions=asks, discover=['Bank']")
    )
    checked = run_command("runs", "check", "--agent", "firm:clerk", "--journal", "j.db")
    assert checked.returncode == 0
    may, sums = checked.stdout.splitlines()
    assert may.startswith("run r of clerk (waiting) may go on: its program fits; the agents whose")
    assert may.endswith("'Bank'")
    assert sums == "0 runs would go on, 0 would not, 1 may"
    (firm / "bank.py").write_text("from moothall import *\nclass Bank(Agent): pass\n")
    (firm / "firm.yaml").write_text(
        COMPANY.format(name="clerk") + '  Bank: {ref: "bank.py:Bank"}\n'
    )
    checked = run_command("runs", "check", "--agent", "firm.yaml")
    assert checked.stdout == "1 run would go on, 0 would not\n"
