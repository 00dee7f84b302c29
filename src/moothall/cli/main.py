"""The command `moothall`: its subcommands, and how a failure is shown."""

from __future__ import annotations

import difflib
import inspect
import io
import os
import sys
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any, Final, NoReturn

import click
from click.shell_completion import get_completion_class

from moothall import ConfigError, MoothallError
from moothall.build import Extension, escaped
from moothall.cli.exit_codes import DONE, code_of
from moothall.cli.help_text import HelpContext
from moothall.cli.option_types import OneOf

_GROUPS = {
    "Work": {
        "act": ("run.act", "Have an agent work on the files of a folder."),
        "chat": ("chat.command", "Talk with agents at the terminal."),
        "research": ("run.research", "Research a question, and report with sources."),
        "simulate": ("run.simulate", "Simulate a town of citizens, or run an experiment."),
        "studio": ("studio", "Serve a web page to chat, review and watch."),
    },
    "What waits": {
        "waiting": ("operate.waiting:waiting", "List, show, permit and refuse what runs wait for."),
        "answer": ("operate.waiting:answer", "Give a run what it waits for."),
        "resume": ("resume", "Resume a run that was stopped."),
    },
    "Journal": {
        "runs": ("runs", "List, show, delete and move the runs of a journal."),
        "replay": ("replay", "Replay a run from its record."),
        "eval": ("run.evaluate", "Run recorded runs again, and grade them."),
        "memory": ("operate.memories", "Forget old conversations."),
    },
    "Serve": {
        "serve": ("serving.serve", "Serve agents over RabbitMQ, HTTP or MCP, or a company."),
        "budgets": ("operate.budgets", "Show and change the budgets that processes share."),
        "schedules": ("operate.schedules", "Pause and fire the schedules of a company."),
        "dead-letters": (
            "serving.broker_commands:dead_letters",
            "Inspect and resend dead-lettered messages.",
        ),
    },
    "Set up": {
        "doctor": ("doctor", "Check what this machine has, and say what is missing."),
        "models": ("models", "List models, and download weights."),
        "mcp": ("serving.mcp", "List an MCP server's tools, and accept their definitions."),
        "completion": ("main:completion", "Print the completion script of a shell."),
        "help": ("main:help_", "Show how a command is used."),
    },
}
"""By heading and command: its module in here, its name there, its help."""

_COMMANDS = {name: row for rows in _GROUPS.values() for name, row in rows.items()}
_TARGETS = {
    name: f"moothall.cli.{place if ':' in place else f'{place}:command'}"
    for name, (place, _) in _COMMANDS.items()
}
"""Our commands as other packages state theirs, by entry points; each is imported when it runs."""

_SYNONYMS = {
    "version": "--version",
    "status": "waiting",
    **dict.fromkeys(("list", "ls", "show", "logs"), "runs"),
}
"""What other programs call a command, and what it is here."""

_FOLDER_OPTIONS = ("--root", "--folder")
_FOLDER_SYNONYMS = (*_FOLDER_OPTIONS, "--dir", "--directory", "--path")
"""The options that name the folder to work on, and what people call them."""

_HELP_CHARS = 100
"""How much of its help the list has of a package's command."""

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}  # for the subcommands, too


_EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."
"""What the help of a command ends with, unless it says it more exactly."""


def _with_fitting_help(command: click.Command, codes: str = "") -> click.Command:
    """Have the help of a command, and of those below it, fit the terminal and name exit codes."""
    command.context_class = HelpContext
    if codes and "Exit codes:" not in (command.help or ""):
        command.help = f"{inspect.cleandoc(command.help or '')}\n\n{codes}"
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        _with_fitting_help(each, codes)
    return command


def _load_command(extension: Extension) -> click.Command:
    """Import a command; ConfigError if it cannot be used."""
    with extension.naming():
        command = extension.load()
        if not isinstance(command, click.Command):
            raise ConfigError(f"it must be a click.Command, got {command!r:.80}")
        return command


def _help_line(extension: Extension) -> str:
    try:
        return _load_command(extension).get_short_help_str(_HELP_CHARS)
    except ConfigError:  # whoever runs it hears why
        return f"A command of {extension.package} that cannot be used."


def _check_values(context: click.Context, args: Sequence[str]) -> None:
    """Refuse an option in the place of another one's value, which click would take as that value.

    `--out --json` would write a file of the name `--json`.
    """
    command = context.command
    if isinstance(command, click.Group) and args and args[0] in command.commands:
        child = command.commands[args[0]]
        return _check_values(HelpContext(child, context, info_name=args[0], **_SETTINGS), args[1:])
    if not command.context_settings.get("allow_interspersed_args", True):
        return None  # what follows may be another program's
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
    valued_options = [x for x in options if not x.count and x.to_info_dict()["flag_value"] is None]
    valued_names = {name for each in valued_options for name in each.opts}
    for option, value in pairwise(takewhile("--".__ne__, args)):
        if option in valued_names and value in names:
            raise click.BadOptionUsage(option, f"Option {option!r} requires an argument.", context)
    return None


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are used, and listed without that."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(Extension.all_of("moothall.commands", _TARGETS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        extension = Extension.find("moothall.commands", cmd_name, _TARGETS)
        if extension is None:
            return None
        try:
            command = _load_command(extension)
        except ConfigError:
            if ctx.resilient_parsing:  # a shell completes what can be used
                return None
            raise
        return _with_fitting_help(command, _EXIT_CODES)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_known = args[0] in _COMMANDS or args[0].startswith("-") or ctx.resilient_parsing
        names = [] if is_known else self.list_commands(ctx)
        if not is_known and args[0] not in names:
            matches = [each for each in names if each.startswith(args[0])]
            matches = matches or difflib.get_close_matches(args[0], [*_SYNONYMS, *names], 1)
            match = _SYNONYMS.get(matches[0], matches[0]) if matches else ""
            proposal = f" Did you mean {match!r}?" if matches else ""
            raise click.UsageError(f"No such command {args[0]!r}.{proposal}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _check_values(HelpContext(command, ctx, info_name=name, **_SETTINGS), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = {
            heading: [(name, help_line[1]) for name, help_line in commands.items()]
            for heading, commands in _GROUPS.items()
        }
        extensions = Extension.all_of("moothall.commands", _TARGETS).values()
        if foreign := [each for each in extensions if not each.is_ours]:
            groups["Of other packages"] = [
                (escaped(each.name), escaped(_help_line(each)))
                for each in sorted(foreign, key=lambda each: each.name)
            ]
        width = max(len(name) for rows in groups.values() for name, _ in rows)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), help_line) for name, help_line in rows])


@click.group(cls=_LazyGroup, invoke_without_command=True, context_settings=_SETTINGS)
@click.version_option(None, "-V", "--version", package_name="moothall", prog_name="moothall")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Agents that talk, act, research, check each other's work and live in societies.

    `moothall help COMMAND` shows how a command is used, with examples.

    \b
    Examples:
      moothall models fetch
      moothall act "List the files"
      moothall chat
      moothall research "What is moothall?" --folder .
      moothall simulate --citizens 1000
      moothall studio

    Exit codes: 0 done, 1 failed, 2 not begun, because something typed or configured is wrong, 130
    interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
def help_(words: tuple[str, ...]) -> None:
    """Show how a COMMAND is used; without one, list the commands.

    \b
    Examples:
      moothall help
      moothall help act
      moothall help models fetch
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    context = HelpContext(command, info_name="moothall", **_SETTINGS)
    current: click.Command = command
    for word in words:
        if not isinstance(current, click.Group):
            raise click.UsageError(f"{context.command_path} has no commands, got {word!r}", context)
        _, subcommand, _ = current.resolve_command(context, [word])
        assert subcommand is not None  # else it has raised
        context, current = HelpContext(subcommand, context, info_name=word), subcommand
    click.echo(context.get_help())


_BASH_CHANGES: Final = (
    # Bash makes words of the parts of `talk:1` and `--state=done`, and puts in the last one alone.
    (
        "local response\n",
        r"""local response piece before join words=()

    for piece in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ $piece =~ ^[:=]+$ ]]; then
            words[-1]+=$piece before=${words[-1]} join=1
        elif [[ $join ]]; then
            words[-1]+=$piece join=
        else
            words+=("$piece") before=
        fi
    done
    before=${before#--*=}
""",
    ),
    (
        'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD',
        'COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1))',
    ),
    # It would put a value in as it is: an id of two words would be two.
    (
        "COMPREPLY+=($value)",
        r"""[[ $value == *[!A-Za-z0-9_./:,=@%+-]* ]] && value=$(printf %q "$value")
            COMPREPLY+=("${value#"$before"}")""",
    ),
)
"""What is another way in its script for bash."""


@click.command()
@click.argument("shell", type=OneOf(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print a script for SHELL that completes commands, options, models and folders.

    \b
    Examples:
      moothall completion bash
      moothall completion zsh
      moothall completion fish

    \b
    To complete in every new shell, run once:
      bash  moothall completion bash >>~/.bashrc
      zsh   moothall completion zsh >>~/.zshrc
            (below the line with compinit)
      fish  in ~/.config/fish/completions:
            moothall completion fish >moothall.fish

    The script runs `moothall` itself at each press of Tab. Bash must be 4.4 or later.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    kind: Any = get_completion_class(shell)
    # Not `source()`, which for bash first runs the installed bash to check its version.
    source = kind(command, {}, "moothall", "_MOOTHALL_COMPLETE")
    script = source.source_template % source.source_vars()
    for each in _BASH_CHANGES if shell == "bash" else ():
        script = script.replace(*each)
    click.echo(script)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave the process with its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the parent process has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the output cannot hold is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(_run_command(args))


def _run_command(args: Sequence[str] | None) -> int:
    try:
        status: Any = command.main(args, prog_name="moothall", standalone_mode=False)
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            error = _with_proposal(error)
        if isinstance(error, click.UsageError) and error.ctx is None:
            error.ctx = _context(sys.argv[1:] if args is None else args)
        error.show()
        return code_of(error)
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo("moothall: interrupted", err=True)
        return code_of(error)
    except MoothallError as error:
        click.echo(f"moothall: {error}", err=True)
        return code_of(error)
    except OSError as error:  # the reader of the output has gone, or the disk is full
        problem = ": ".join(str(each) for each in (error.filename, error.strerror or error) if each)
        try:
            os.getcwd()
        except FileNotFoundError:
            problem = "the current folder was removed: change to another one"
        print(f"moothall: {problem}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # the interpreter would try again as it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code_of(error)
    return status if isinstance(status, int) else DONE


def _with_proposal(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return the error with the option of this command that names a folder, if that was meant."""
    if error.option_name not in _FOLDER_SYNONYMS or error.ctx is None:
        return error
    names = {name for each in error.ctx.command.params for name in each.opts}
    options = [each for each in _FOLDER_OPTIONS if each in names]
    text = f"No such option {error.option_name!r}. Did you mean {options[0]!r}?" if options else ""
    return click.NoSuchOption(error.option_name, text or None, ctx=error.ctx)


def _context(args: Sequence[str]) -> click.Context:
    """Return a context for a UsageError that click raised without one, so that usage is shown."""
    context = HelpContext(command, info_name="moothall")
    subcommand = command.get_command(context, args[0]) if args else None
    return context if subcommand is None else HelpContext(subcommand, context, info_name=args[0])
