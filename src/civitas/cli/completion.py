"""`civitas completion`: how a shell completes commands, and what it offers for options."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from civitas.models import weights

_SHELLS = ("bash", "zsh", "fish")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that has SHELL complete commands, options, models and folders.

    \b
    Examples:
      civitas completion bash
      civitas completion zsh
      civitas completion fish

    \b
    For every shell to come, once:
      bash  civitas completion bash >>~/.bashrc
      zsh   civitas completion zsh >>~/.zshrc
            (below the line with compinit)
      fish  civitas completion fish \\
              >~/.config/fish/completions/civitas.fish

    The script runs `civitas` itself at each press of Tab. Bash is to be 4.4 or later.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    kind: Any = get_completion_class(shell)
    # Not `source()`, which for bash first runs the one that it finds, to look at its version.
    made = kind(ctx.find_root().command, {}, "civitas", "_CIVITAS_COMPLETE")
    click.echo(made.source_template % made.source_vars())


def models(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Names of models, and how those begin that are no list."""
    names = ["local", *(f"local:{each.name}" for each in weights.LISTED)]
    names += ["openai:", "http://", "litellm:", "hf:", "gguf:"]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def folders(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Folders, which the shell itself knows."""
    return [CompletionItem(incomplete, type="dir")]


def weights_of(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Names of weights that can be fetched."""
    names = [each.name for each in weights.LISTED]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def run_ids(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """The runs of the journal that is named, the last first; none if it cannot be read."""
    import os

    from civitas.errors import CivitasError
    from civitas.journal import Journal

    path = ctx.params.get("journal") or os.environ.get("CIVITAS_JOURNAL")
    if not path or not os.path.isfile(path):
        return []
    try:
        with Journal(path) as journal:
            runs = journal.runs()
    except (CivitasError, OSError):
        return []
    found = [each for each in reversed(runs) if each.id.startswith(incomplete)]
    return [CompletionItem(each.id, help=each.task[:60]) for each in found]
