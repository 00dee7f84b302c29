"""What several commands share: moothall.toml, options and their completion, a journal."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from moothall import ConfigError, FileError, JournalError, MoothallError
from moothall.budget import RUN_LIMITS, Limit
from moothall.build import escaped
from moothall.cli.exit_codes import NotBegun
from moothall.cli.option_types import NonEmptyText, WholeNumberType, above_0

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.journal import Journal

SETTINGS_FILE: Final = "moothall.toml"

_KEYS = ("model", "root", "key")
_COMMANDS: Final[dict[str, tuple[str, ...]]] = {"act": _KEYS, "chat": (*_KEYS, "agents")}
_LIST_KEYS = ("agents",)
_VARIABLE: Final = "MOOTHALL_JOURNAL"
_MAX_ID: Final = 255


def read_settings(command: str) -> dict[str, Any]:
    """Return the settings of moothall.toml for a command; its own table overrides the top level."""
    # The whole file is checked: an unknown key would be a setting that does nothing.
    if Path(SETTINGS_FILE).exists() and not Path(SETTINGS_FILE).is_file():
        raise click.UsageError(f"{SETTINGS_FILE} must be a file")  # a pipe would be waited for
    try:
        text = Path(SETTINGS_FILE).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{SETTINGS_FILE} cannot be read: {error}") from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{SETTINGS_FILE} is not TOML: {error}") from error
    tables = {name: data.pop(name) for name in _COMMANDS if name in data}
    own_settings = _check_table(data, "", (*_KEYS, *(f"[{name}]" for name in _COMMANDS)))
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise click.UsageError(
                f"{SETTINGS_FILE}: {name!r} must be a table, [{name}], got {table!r:.80}"
            )
        own_table = _check_table(table, f"{name}.", _COMMANDS[name])
        if name == command:
            own_settings |= own_table
    return own_settings


def _check_table(table: dict[str, Any], prefix: str, names: tuple[str, ...]) -> dict[str, Any]:
    for key, value in table.items():
        if key not in names:
            allowed = ", ".join(names)
            raise click.UsageError(
                f"{SETTINGS_FILE}: there is no key {prefix + key!r}; there are {allowed}"
            )
        if key in _LIST_KEYS:
            if not isinstance(value, list) or not all(v and isinstance(v, str) for v in value):
                raise click.UsageError(
                    f"{SETTINGS_FILE}: {prefix + key!r} must be a list of texts, got {value!r:.80}"
                )
        elif not isinstance(value, str) or not value:
            got = "" if key == "key" else f", got {value!r:.80}"
            raise click.UsageError(f"{SETTINGS_FILE}: {prefix + key!r} must be a text{got}")
    return table


@contextmanager
def as_usage_error(subject: str = "") -> Iterator[None]:
    """Turn what is wrong with what was typed or configured, the `subject`, into exit code 2."""
    try:
        yield
    except (ConfigError, FileError) as error:
        raise click.UsageError(_with_subject(subject, error)) from error
    except MoothallError as error:
        raise NotBegun(_with_subject(subject, error)) from error


def check_all(*checks: tuple[str, Callable[[], object]]) -> None:
    """Check all that was typed or configured, each with what names it; tell all faults at once."""
    faults = []
    for subject, check in checks:
        try:
            check()
        except (ConfigError, FileError) as error:
            faults.append(_with_subject(subject, error))
    if faults:
        raise click.UsageError("\n".join(faults))


def _with_subject(subject: str, error: MoothallError) -> str:
    return f"{subject}: {error}" if subject else str(error)


def source_of(name: str, *, of_file: bool = False) -> str:
    """Return what gave a parameter its value: its option, its variable, or moothall.toml."""
    context = click.get_current_context()
    option = next((each for each in context.command.params if each.name == name), None)
    if option is None:
        return f"the recorded --{name}"
    if context.get_parameter_source(name) is click.core.ParameterSource.ENVIRONMENT:
        return str(option.envvar)
    return SETTINGS_FILE if of_file and not is_on_command_line(name) else option.opts[0]


def journal_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that names a journal."""
    return click.option(
        "--journal",
        metavar="PATH",
        envvar=_VARIABLE,
        type=click.Path(dir_okay=False),
        help=f"{help}  [default: {_VARIABLE}]",
    )


def is_on_command_line(name: str) -> bool:
    """Return whether the command line gives a parameter of the command, or of one above it."""
    context: click.Context | None = click.get_current_context()
    while context is not None:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            return True
        context = context.parent
    return False


def chosen_journal(group_journal: str | None, journal: str | None) -> str | None:
    """Return the journal that is typed behind a subcommand, else that of its group.

    The group's may be typed, too: it comes before the variable, which both read.
    """
    source = click.get_current_context().get_parameter_source("journal")
    return journal if source is click.core.ParameterSource.COMMANDLINE else group_journal


def recording_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command whose run may be recorded."""
    run_id = click.option(
        "--run-id",
        metavar="ID",
        callback=_checked_id,
        help="Id of the run in the journal.  [default: a new one]",
    )
    return journal_option("File in which the run is recorded.")(run_id(function))


def open_journal(path: str | None) -> Journal:
    """Open the journal of a path, which must exist."""
    from moothall.journal import Journal

    with as_usage_error(source_of("journal")):
        if path is not None and not Journal.is_url(path) and not os.path.exists(path):
            raise JournalError(
                path, "there is no such file; `moothall act TASK --journal PATH` makes one"
            )
    return make_journal(path)


def make_journal(path: str | None) -> Journal:
    """Open the journal of a path, and create it if it does not exist."""
    if path is None:
        raise NotBegun(f"no journal was named: give --journal PATH, or set {_VARIABLE}")
    from moothall.journal import Journal

    with as_usage_error(source_of("journal")):
        return Journal(path)


@contextmanager
def open_for_reading(path: str | None) -> Iterator[Journal]:
    """Open a journal to read it; name one whose entries are not those of a moothall."""
    with open_journal(path) as journal, as_written(journal):
        yield journal


@contextmanager
def as_written(journal: Journal) -> Iterator[None]:
    """Name a journal in the error that its entries cause, which no code of the user's can have."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, MoothallError):
            raise
        raise JournalError(
            journal.path, f"an entry is not as moothall writes it: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def recording_agents(agents: Iterable[Agent], path: str | None, agent: str) -> Iterator[None]:
    """Record the replies of the agents that can record them and have no journal."""
    recordable = [each for each in agents if getattr(each, "journal", path) is None]
    if path is None or not recordable:
        if path is not None and is_on_command_line("journal"):
            can_record = any(hasattr(each, "journal") for each in agents)
            reason = (
                "has one already: leave it out"
                if can_record
                else "gives no replies that a journal holds"
            )
            raise click.UsageError(f"--journal: {agent} {reason}")
        yield
        return
    with make_journal(path) as journal:
        for each in recordable:
            each.journal = journal  # type: ignore[attr-defined]
        yield


_TIME_FIELDS: Final = ("at", "answered", "began", "changed", "since", "until")
"""The fields of records that are seconds since 1970, which JSON of a command has as ISO 8601."""


def print_json(**data: Any) -> None:
    """Print one JSON object, in which records of a journal are objects and their times texts."""
    click.echo(json.dumps(data, indent=2, default=_record_fields))


def _record_fields(value: Any) -> Any:
    if not is_dataclass(value):
        raise TypeError(f"must be JSON or a record, got {type(value).__name__}")
    fields_of = {each.name: getattr(value, each.name) for each in fields(value)}
    for name in _TIME_FIELDS:
        if isinstance(fields_of.get(name), float):
            fields_of[name] = datetime.fromtimestamp(fields_of[name], UTC).isoformat(
                timespec="milliseconds"
            )
    return fields_of


def print_text(text: str) -> None:
    """Print a text below a name, folded to the terminal's width."""
    # Commands in it stay whole words: they are there to be copied.
    width = max(20, shutil.get_terminal_size().columns)
    no_breaks: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    text = textwrap.fill(
        escaped(text), width, initial_indent="  ", subsequent_indent="    ", **no_breaks
    )
    click.echo(text)


def _checked_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None or (
        0 < len(value) <= _MAX_ID and value.isprintable() and not value.startswith("-")
    ):
        return value
    raise click.BadParameter(
        f"an id is printable, of 1 to {_MAX_ID} characters, and begins with no dash", ctx, param
    )


# -- what a shell completes ------------------------------------------------------------------------


def models(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Complete names of models, and the beginnings of the others."""
    from moothall.models import LISTED_WEIGHTS

    names = ["local", *(f"local:{each.name}" for each in LISTED_WEIGHTS)]
    return _completions(incomplete, [*names, "openai:", "http://", "gguf:"])


def weights_of(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Complete names of weights that can be fetched."""
    from moothall.models import LISTED_WEIGHTS

    return _completions(incomplete, [each.name for each in LISTED_WEIGHTS])


def folders(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Complete folders, by the shell itself."""
    return [CompletionItem(incomplete, type="dir")]


def _completions(incomplete: str, names: list[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def limit_options(
    help_of: Callable[[Limit], str],
    limits: Mapping[str, Limit] = RUN_LIMITS,
    minimum: int = 1,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the options for limits, those of a run by default, with the help of `help_of`."""

    def add_options(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, limit in sorted(limits.items(), reverse=True):  # the last is shown first
            kind = WholeNumberType(min=minimum) if limit.is_whole_number else above_0(limit.unit)
            option = f"--{name.replace('_', '-')}"
            function = click.option(option, type=kind, help=help_of(limit), **options)(function)
        return function

    return add_options


def run_limits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that limit a run, such as `--max-tokens`."""
    return limit_options(lambda limit: f"{limit.option_help[0].upper()}{limit.option_help[1:]}")(
        function
    )


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json`, as `as_json`: print events as lines of JSON."""
    help = "Print events as lines of JSON."
    return click.option("--json", "as_json", is_flag=True, help=help)(function)


def _json_of_group(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    """Return whether JSON is wanted, of this command or of the group before it."""
    return value or bool(ctx.parent and ctx.parent.params.get(param.name))


def json_data_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json`, as `as_json`: print JSON, for programs; also where the group before has it."""
    help = "Print JSON, for programs."
    options: Any = {"is_flag": True, "callback": _json_of_group, "help": help}
    return click.option("--json", "as_json", **options)(function)


model_option: Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]] = partial(
    click.option, "--model", metavar="MODEL", type=NonEmptyText(), shell_complete=models
)
root_option: Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]] = partial(
    click.option,
    "--root",
    metavar="DIR",
    type=NonEmptyText(),
    envvar="MOOTHALL_ROOT",
    shell_complete=folders,
)
