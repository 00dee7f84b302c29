"""The command `moothall`: its subcommands, and how a failure is shown."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class

from moothall.errors import MoothallError

# By command: its module, imported when the command runs, its name there, and its short help.
_COMMANDS = {
    "act": ("run.act", "Have an agent work on the files of a folder."),
    "chat": ("chat.command", "Talk with agents at the terminal."),
    "completion": ("main:completion", "Print the completion script of a shell."),
    "dead-letters": ("broker:dead_letters", "Inspect and resend dead-lettered messages."),
    "models": ("models", "List models, and download weights."),
    "replay": ("runs:replay", "Replay a run from its record."),
    "research": ("run.research", "Research a question, and report with sources."),
    "resume": ("resume", "Resume a run that was stopped."),
    "runs": ("runs", "List the runs of a journal, or show one."),
    "serve": ("broker:serve", "Serve an agent over RabbitMQ."),
    "studio": ("studio", "Serve a web page to chat, review and watch."),
    "simulate": ("run.simulate", "Simulate a town of citizens, or run an experiment."),
}

_HELP = {"help_option_names": ["-h", "--help"]}  # for the subcommands, too


class _Lazy(click.Group):
    """A group whose commands are imported when they are used, and listed without that."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"moothall.cli.{module}"), name or "command"
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = difflib.get_close_matches(args[0], _COMMANDS, 1)
        if near and near[0] != args[0] and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])


@click.group(cls=_Lazy, invoke_without_command=True, context_settings=_HELP)
@click.version_option(package_name="moothall", prog_name="moothall")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Agents that talk, act, research, check each other's work and live in societies.

    Each command has its own --help, with examples.

    \b
    Examples:
      moothall models fetch
      moothall act "List the files"
      moothall chat
      moothall research "What is moothall?" --folder .
      moothall simulate --citizens 1000
      moothall studio

    Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
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
      fish  moothall completion fish \\
              >~/.config/fish/completions/moothall.fish

    The script runs `moothall` itself at each press of Tab. Bash must be 4.4 or later.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    kind: Any = get_completion_class(shell)
    # Not `source()`, which for bash first runs the installed bash to check its version.
    made = kind(command, {}, "moothall", "_MOOTHALL_COMPLETE")
    click.echo(made.source_template % made.source_vars())


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave the process with its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started the program has closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the output cannot hold is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(_status(args))


def _status(args: Sequence[str] | None) -> int:
    try:
        status: Any = command.main(args, prog_name="moothall", standalone_mode=False)
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is None:
            error.ctx = _context(sys.argv[1:] if args is None else args)
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("moothall: interrupted", err=True)
        return 130
    except OSError as error:  # the reader of the output has gone, or the disk is full
        told = ": ".join(str(each) for each in (error.filename, error.strerror or error) if each)
        try:
            os.getcwd()
        except FileNotFoundError:
            told = "the current folder was removed: change to another one"
        print(f"moothall: {told}", file=sys.stderr)
        return 1
    except MoothallError as error:
        click.echo(f"moothall: {error}", err=True)
        return 1
    return status if isinstance(status, int) else 0


def _context(args: Sequence[str]) -> click.Context:
    """Return a context for a UsageError that click raised without one, so that usage is shown."""
    context = click.Context(command, info_name="moothall")
    found = command.get_command(context, args[0]) if args else None
    return context if found is None else click.Context(found, context, info_name=args[0])
