"""Help: of every command, at every width, and by each of its names."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from commands import run
from moothall.cli.main import command as program


def names(command: click.Command, *before: str) -> list[tuple[str, ...]]:
    """The words of a command and of all below it."""
    found = [before]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += names(below, *before, name)
    return found


COMMANDS = names(program)


def shown(*args: str, columns: int = 80) -> str:
    """What a command writes at a width; a process of its own would show the same."""
    env = {"COLUMNS": str(columns)}
    done = CliRunner().invoke(program, args, prog_name="moothall", env=env)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_narrow_terminal_without_breaking_a_word(words: tuple[str, ...]) -> None:
    texts = {columns: shown(*words, "--help", columns=columns) for columns in (40, 60, 80)}
    whole = texts[80].replace("\\\n", "").split()
    for columns, text in texts.items():
        wide = [line for line in text.splitlines() if len(line) > columns]
        assert not wide, columns
        assert text.replace("\\\n", "").split() == whole, columns


def test_command_that_is_folded_can_be_copied() -> None:
    text = " ".join(shown("simulate", "--help", columns=40).replace("\\\n", " ").split())
    assert "moothall simulate --citizens 5000 --days 7 --seed 3 --out week moothall" in text


@pytest.mark.parametrize("words", ((), ("act",), ("models", "fetch"), ("dead-letters", "resend")))
def test_help_is_a_command_too(words: tuple[str, ...]) -> None:
    assert shown("help", *words) == shown(*words, "--help")


@pytest.mark.parametrize(
    ("words", "said"),
    (
        (("help", "atc"), "No such command 'atc'. Did you mean 'act'?"),
        (("help", "nope"), "No such command 'nope'."),
        (("help", "act", "x"), "moothall act has no commands, got 'x'"),
        (("nope",), "No such command 'nope'."),
        (("sim",), "No such command 'sim'. Did you mean 'simulate'?"),
        (("show",), "No such command 'show'. Did you mean 'runs'?"),
        (("verson",), "No such command 'verson'. Did you mean '--version'?"),
        (("version",), "No such command 'version'. Did you mean '--version'?"),
        (("list",), "No such command 'list'. Did you mean 'runs'?"),
    ),
)
def test_command_that_is_none_is_said_with_where_they_are_listed(
    words: tuple[str, ...], said: str
) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--help' for help." in done.stderr
    assert done.stderr.endswith(f"Error: {said}\n")


def test_help_lists_each_command_once_below_what_it_is_for() -> None:
    headings = ("Work:", "What waits:", "Journal:", "Serve:", "Set up:")
    lines = shown("--help").splitlines()
    places = [lines.index(heading) for heading in headings]
    assert places == sorted(places)
    below = [line.split()[0] for line in lines[places[0] :] if line.startswith("  ")]
    assert sorted(below) == sorted(words[0] for words in COMMANDS if len(words) == 1)


def test_version_has_a_short_option() -> None:
    assert shown("-V") == shown("--version")
