"""What several commands take: civitas.toml, a model's name, a journal, and a broker's exchange."""

from __future__ import annotations

import logging
import math
import os
import shlex
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.errors import ConfigError, DefinitionError, JournalError, ModelError
from civitas.reasoning.resume import ENDED

if TYPE_CHECKING:
    from civitas.agent import Agent
    from civitas.journal import Journal
    from civitas.models.protocol import Model
    from civitas.spaces.amqp.space import AMQPSpace

__all__ = [
    "EXCHANGE",
    "FILE",
    "NOBODY",
    "Recorded",
    "Seconds",
    "broker_space",
    "chosen_model",
    "exchange_option",
    "hush_pika",
    "is_named",
    "journal_option",
    "made_model",
    "opened",
    "recorded",
    "run_id_option",
    "settings",
]

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

    Args:
        command: the name of the command

    Returns:
        texts by their keys; `agents` is a list of them

    Raises:
        click.UsageError: the file cannot be read, or has a key or a value that it may not have
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


def chosen_model(
    said: Mapping[str, Any], model: str | None, key: str | None
) -> tuple[str, str | None]:
    """The name of the model to use, and the key that goes with it.

    A key of the file is for the model of the file, and one of the environment for any that the file
    did not choose: the file may be by somebody who wants the key.

    Args:
        said: what the file says
        model: what the command line or the environment says
        key: what the environment says
    """
    if model:
        return model, key
    if "model" in said:
        return said["model"], said.get("key")
    return "local", None


def made_model(name: str, key: str | None) -> Model:
    """The model of a name, with a key of its own for a server that takes one.

    Raises:
        click.UsageError: nothing is called so
        ModelError: there is no key for it, or the key is wrong
        WeightsError: the weights are missing
        MissingExtra: the extra that this kind of model needs is not installed
    """
    from civitas.models.names import SPELLINGS, model

    scheme, _, rest = name.partition(":")
    if scheme not in ("https", *(each.partition(":")[0] for each in SPELLINGS)):
        names = ", ".join(SPELLINGS)
        raise click.UsageError(
            f"there is no model {name!r}; names are {names}; `civitas models` lists what is usable"
        )
    if not key or scheme not in ("openai", "http", "https"):
        return model(name)
    from civitas.models.remote.openai import OpenAIModel

    url, _, listed = name.partition("#")
    if scheme == "openai":
        url, listed = "", rest
    if not listed:
        return model(name)  # which says what is missing
    try:
        return OpenAIModel(listed, url or None, api_key=key)
    except DefinitionError as error:
        raise ModelError(f"there is no such model: {error}") from error


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
        """How to go on after it ended so: each in words, and the command. None if it is over.

        Args:
            stop_reason: why it ended
            doubts: the numbers of the calls in doubt, as far as they are known
        """
        if stop_reason in ENDED:
            return []
        if stop_reason == "in_doubt":
            it = "it" if len(doubts) == 1 else "all"
            ways = [
                (f"to run {it} again and go on", self.command("resume", "--repeat")),
                (f"to skip {it} and go on", self.command("resume", "--skip")),
            ]
            done = ("--done", f"{doubts[0]}=RESULT")
            if len(doubts) == 1:
                return [*ways, ("to give its result and go on", self.command("resume", *done))]
            rest = ("--repeat", str(doubts[1]), "--skip")
            return [*ways, ("to decide one by one", self.command("resume", *done, *rest))]
        if stop_reason == "budget" and self.max_tokens is not None:
            # How many it will take, nobody knows.
            words = f"to go on with a limit of more than {self.max_tokens}"
            return [(words, self.command("resume", "--max-tokens", "N"))]
        return [("to go on with it", self.command("resume"))]


class Seconds(click.FloatRange):
    """A time limit: more than 0 seconds, and not infinity or NaN, which click takes for numbers."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of seconds."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} must be a number of seconds", param, ctx)
        return seconds


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


def broker_space(exchange: str | None, **options: Any) -> AMQPSpace:
    """A space on an exchange of the environment's broker.

    Raises:
        MissingExtra: pika is not installed
        click.UsageError: a variable, the exchange's name or an option is not what it has to be
    """
    from civitas.spaces.amqp.space import AMQPSpace

    hush_pika()
    try:
        return AMQPSpace(exchange=exchange or EXCHANGE, **options)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


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
