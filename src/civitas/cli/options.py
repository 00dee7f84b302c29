"""What several commands take: civitas.toml, a model's name, a journal, and a broker's exchange."""

from __future__ import annotations

import logging
import math
import os
import shlex
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.errors import ConfigError, FileError, JournalError
from civitas.reasoning.resume import ENDED

if TYPE_CHECKING:
    from civitas.agent import Agent
    from civitas.journal import Journal
    from civitas.spaces.amqp.space import AMQPSpace

FILE: Final = "civitas.toml"

_KEYS = ("model", "root", "key")
_COMMANDS: Final[dict[str, tuple[str, ...]]] = {"act": _KEYS, "chat": (*_KEYS, "agents")}
_LISTS = ("agents",)
NOBODY: Final = "MODULE:AGENT"
"""What a command names where it is not known which agent it is."""
_VARIABLE: Final = "CIVITAS_JOURNAL"
_MAX_ID: Final = 255
EXCHANGE: Final = "civitas"

exchange_option = click.option(
    "--exchange", metavar="E", help=f"Which exchange of the broker.  [default: {EXCHANGE}]"
)


def settings(command: str) -> dict[str, Any]:
    """What the file says for a command: its own table goes before the top level.

    The whole file is looked at: a key that nobody reads would be a setting that does nothing.
    """
    try:
        # Not blocking: the file may have come with the folder, and be a pipe.
        handle = os.open(FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(handle, encoding="utf-8-sig") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise click.UsageError(f"{FILE} must be a regular file")
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{FILE} cannot be read: {error}") from error
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{FILE} is no TOML: {error}") from error
    tables = {name: found.pop(name) for name in _COMMANDS if name in found}
    said = _checked(found, "", (*_KEYS, *(f"[{name}]" for name in _COMMANDS)))
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise click.UsageError(f"{FILE}: {name!r} is a table, [{name}], not {table!r:.80}")
        own = _checked(table, f"{name}.", _COMMANDS[name])
        if name == command:
            said |= own
    return said


def _checked(table: dict[str, Any], where: str, known: tuple[str, ...]) -> dict[str, Any]:
    for key, value in table.items():
        if key not in known:
            there = ", ".join(known)
            raise click.UsageError(f"{FILE}: there is no key {where + key!r}; there are {there}")
        if key in _LISTS:
            if not isinstance(value, list) or not all(v and isinstance(v, str) for v in value):
                raise click.UsageError(
                    f"{FILE}: {where + key!r} is a list of texts, not {value!r:.80}"
                )
        elif not isinstance(value, str) or not value:
            shown = "" if key == "key" else f", not {value!r:.80}"
            raise click.UsageError(f"{FILE}: {where + key!r} is a text{shown}")
    return table


@contextmanager
def usage(folder: str = "") -> Iterator[None]:
    """Have a wrong setting, or a folder by what names it, be wrong usage: exit code 2."""
    try:
        yield
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except FileError as error:
        raise click.UsageError(f"{folder}: {error}" if folder else str(error)) from error


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

    def ways(self, stop_reason: str, doubts: Sequence[int] = (1,)) -> list[tuple[str, str]]:
        """How to go on after it ended so: each in words, and the command. None if it is over."""
        if stop_reason in ENDED:
            return []
        if stop_reason == "in_doubt":
            it, on = "it" if len(doubts) == 1 else "all", " and go on"
            decide = self.command
            if self.agent == NOBODY:  # to decide needs no agent, so the commands work as copied
                on, decide = "", replace(self, agent=None).command
            ways = [
                (f"to run {it} again{on}", decide("resume", "--repeat")),
                (f"to skip {it}{on}", decide("resume", "--skip")),
            ]
            done = ("--done", f"{doubts[0]}=RESULT")
            if len(doubts) == 1:
                return [*ways, (f"to give its result{on}", decide("resume", *done))]
            rest = ("--repeat", str(doubts[1]), "--skip")
            return [*ways, ("to decide one by one", decide("resume", *done, *rest))]
        if stop_reason == "budget" and self.max_tokens is not None:
            # How many it will take, nobody knows.
            words = f"to go on with a limit of more than {self.max_tokens}"
            return [(words, self.command("resume", "--max-tokens", "N"))]
        return [("to go on with it", self.command("resume"))]


class Above0(click.FloatRange):
    """A number above 0, and not infinity or NaN, which click takes for numbers."""

    def __init__(self, unit: str = "seconds") -> None:
        super().__init__(min=0, min_open=True)
        self._unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} must be a number of {self._unit}", param, ctx)
        return number


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
    """The journal of a path, which is there."""
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
    """Have the replies of agents recorded, of those that record any and have no journal."""
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


def broker_space(exchange: str | None, **options: Any) -> AMQPSpace:
    """A space on an exchange of the environment's broker."""
    from civitas.spaces.amqp.space import AMQPSpace

    hush_pika()
    with usage():
        return AMQPSpace(exchange=exchange or EXCHANGE, **options)


def hush_pika() -> None:
    """What pika has to say of a failure, civitas says in one line."""
    logging.getLogger("pika").setLevel(logging.CRITICAL + 1)


def _checked_id(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is None or (
        0 < len(given) <= _MAX_ID and given.isprintable() and not given.startswith("-")
    ):
        return given
    raise click.BadParameter(
        f"an id is printable, of 1 to {_MAX_ID} characters, and begins with no dash", ctx, param
    )
