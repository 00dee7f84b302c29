"""`moothall memory prune`: conversations that are forgotten by age."""

from __future__ import annotations

import click

from moothall.build import counted, escaped
from moothall.cli.operate.erasing import MemoryPath, compact_memory
from moothall.cli.option_types import Age
from moothall.cli.shared_options import json_data_option, print_json


@click.group()
def command() -> None:
    """Forget old conversations of memories.

    \b
    Example:
      moothall memory prune clerk.memory --older 90d
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are


@command.command(short_help="Forget conversations by age.")
@click.argument("paths", metavar="PATH...", type=MemoryPath(), nargs=-1, required=True)
@click.option(
    "--older",
    metavar="AGE",
    type=Age(),
    required=True,
    help="Conversations to which nothing was added for so long, such as 90d (s, m, h, d, w).",
)
@json_data_option
def prune(paths: tuple[str, ...], older: float, as_json: bool) -> None:
    """Forget the conversations in the memories PATH... to which nothing was added for so long."""
    from moothall.memory import memory_at  # the memories take long to import

    pruned: dict[str, list[str]] = {}
    for path in paths:
        with memory_at(path) as memory:
            pruned[memory.path] = memory.prune(older)
            if pruned[memory.path]:
                compact_memory(memory)
    if as_json:
        print_json(memory=pruned)
        return
    for path, threads in pruned.items():
        click.echo(f"{escaped(path)}: {counted(len(threads), 'conversation')} forgotten")
