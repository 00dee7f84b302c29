"""A command of a user's own, and what is typed in the chat."""

from __future__ import annotations

from pathlib import Path

from commands import run

PROGRAM = """
import click
from moothall.cli.main import command, main

@command.command(short_help="Say hello.")
@click.argument("name")
def hello(name):
    "Say hello to NAME."
    click.echo(f"hello {name}")

main()
"""
AGENTS = '''
from moothall import Agent, action

class Calculator(Agent):
    @action
    def double(self, number: int) -> int:
        """Double a number."""
        return 2 * number
'''


def test_command_of_a_users_own_is_run_listed_and_suggested() -> None:
    assert run("hello", "Eve", code=PROGRAM).stdout == "hello Eve\n"
    assert "  hello         Say hello." in run("--help", code=PROGRAM).stdout
    near = run("helo", code=PROGRAM)
    assert (near.returncode, "Did you mean 'hello'?" in near.stderr) == (2, True)
    assert "  runs " in run("help", code=PROGRAM).stdout


def test_chat_command_of_a_users_own_is_an_action_of_an_agent(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    told = run(
        "chat", "--agent", "mine:Calculator", input="/Calculator.double number:21\n", cwd=tmp_path
    )
    assert told.returncode == 0, told.stderr
    assert "42" in told.stdout
