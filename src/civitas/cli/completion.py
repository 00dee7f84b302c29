"""`civitas completion`: the script by which a shell completes the commands and their options."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]

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
