"""The journal that a command is told of, and what a person types to go on with a run of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.errors import JournalError
from civitas.reasoning.past import ENDED

if TYPE_CHECKING:
    from civitas.agent import Agent
    from civitas.journal import Journal

__all__ = [
    "NOBODY",
    "Recorded",
    "is_named",
    "journal_option",
    "opened",
    "recorded",
    "run_id_option",
]

NOBODY: Final = "MODULE:AGENT"
"""What a command names where it is not known which agent it is."""
_VARIABLE: Final = "CIVITAS_JOURNAL"
_MAX_ID: Final = 255


@dataclass(frozen=True)
class Recorded:
    """A run in a journal.

    Attributes:
        run_id: its id
        path: the journal, as it was named
        named: whether it was named on the command line, so that commands name it too
        max_tokens: what it may spend
        agent: MODULE:AGENT, where it is not a run of `civitas act`
        about: what is to be known of one that goes on, in words
    """

    run_id: str
    path: str
    named: bool
    max_tokens: int | None = None
    agent: str | None = None
    about: str = ""

    def command(self, name: str, *options: str) -> str:
        """A command about the run, as it is typed."""
        journal = ("--journal", self.path) if self.named else ()
        agent = ("--agent", self.agent) if self.agent and name == "resume" else ()
        return shlex.join(("civitas", name, self.run_id, *options, *journal, *agent))

    def ways(self, stop_reason: str) -> list[tuple[str, str]]:
        """How to go on after it ended so: each in words, and the command. None if it is over."""
        if stop_reason in ENDED:
            return []
        if stop_reason == "in_doubt":
            return [
                ("to execute it again and go on", self.command("resume", "--repeat")),
                ("to skip it and go on", self.command("resume", "--skip")),
            ]
        if stop_reason == "budget" and self.max_tokens is not None:
            # How many it will take, nobody knows.
            words = f"to go on with a limit of more than {self.max_tokens}"
            return [(words, self.command("resume", "--max-tokens", "N"))]
        return [("to go on with it", self.command("resume"))]


def journal_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option that names a journal."""
    return click.option(
        "--journal",
        metavar="PATH",
        envvar=_VARIABLE,
        type=click.Path(dir_okay=False),
        help=f"{help}  [default: {_VARIABLE}]",
    )


def is_named() -> bool:
    """Whether the command line names the journal of the command that is running."""
    source = click.get_current_context().get_parameter_source("journal")
    return source is click.core.ParameterSource.COMMANDLINE


def run_id_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option that says which id a run is to have."""
    return click.option(
        "--run-id",
        metavar="ID",
        callback=_checked_id,
        help="The run's id in the journal.  [default: a new one]",
    )(function)


def opened(path: str | None) -> Journal:
    """The journal of a path, which is there.

    Raises:
        click.ClickException: none was named
        JournalError: there is no such file, or it is no journal
    """
    if path is None:
        raise _NotNamed(f"no journal was named: give --journal PATH, or set {_VARIABLE}")
    if not os.path.exists(path):
        raise JournalError(
            path, "there is no such file; `civitas act TASK --journal PATH` makes one"
        )
    from civitas.journal import Journal

    return Journal(path)


@contextmanager
def recorded(agents: Iterable[Agent], path: str | None, whose: str) -> Iterator[None]:
    """Have the replies of agents recorded, of those that record any and have no journal.

    Args:
        agents: whose
        path: the journal; it is made if it is not there
        whose: what they are called in an error

    Raises:
        click.UsageError: none of them does, though the command line named the journal
        JournalError: it cannot be used
    """
    takes = [each for each in agents if getattr(each, "journal", path) is None]
    if path is None or not takes:
        if path is not None and is_named():
            raise click.UsageError(
                f"--journal: {whose} has one already, or gives no replies that a journal could hold"
            )
        yield
        return
    from civitas.journal import Journal

    with Journal(path) as journal:
        for each in takes:
            each.journal = journal  # type: ignore[attr-defined]
        yield


class _NotNamed(click.ClickException):
    """Wrong usage, in a line: how the command is used would not say more."""

    exit_code = 2


def _checked_id(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is None or (
        0 < len(given) <= _MAX_ID and given.isprintable() and not given.startswith("-")
    ):
        return given
    raise click.BadParameter(
        f"an id is printable, of 1 to {_MAX_ID} characters, and begins with no dash", ctx, param
    )
