"""`civitas act`: an agent that works on the files of a folder, while a person looks on."""

from __future__ import annotations

from typing import Any

import click

from civitas.cli.completion import folders, models
from civitas.cli.options import FILE, Above0, journal_option, run_id_option, settings, usage
from civitas.cli.run.order import carried_out
from civitas.cli.run.worker import acted
from civitas.orders.act import ITERATIONS, apart
from civitas.orders.models import chosen_model
from civitas.orders.order import Order

_HELP = {"help_option_names": ["-h", "--help"]}


@click.command(context_settings=_HELP)
@click.argument("task")
@click.option(
    "--root",
    metavar="DIR",
    envvar="CIVITAS_ROOT",
    shell_complete=folders,
    help="The folder.  [default: .]",
)
@click.option(
    "--model",
    metavar="MODEL",
    envvar="CIVITAS_MODEL",
    shell_complete=models,
    help="The model's name; `civitas models` lists them.  [default: local]",
)
@click.option(
    "--max-iterations",
    type=click.IntRange(min=1),
    help=f"How many answers the model may give.  [default: {ITERATIONS}; 1 for local]",
)
@click.option("--max-seconds", type=Above0(), help="Time limit.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Of all the models' calls together.")
@click.option(
    "--yes-read/--ask-read",
    default=None,
    help="Whether it may look at the folder's files without asking.  [default: yes, unless "
    f"{FILE} says which model or root]",
)
@click.option("--review", metavar="MODEL|me", help="Who has to accept the work before it ends.")
@click.option("--network", is_flag=True, help="Give commands in the sandbox the network.")
@journal_option("A file to record the run in.")
@run_id_option
@click.option("--json", "as_json", is_flag=True, help="Print events as lines of JSON.")
def command(
    root: str | None,
    model: str | None,
    yes_read: bool | None,
    journal: str | None,
    run_id: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Have an agent do TASK with the files of a folder.

    Each step is shown as it happens. Writing or editing a file and running a command are asked
    about one by one, with exactly what would be done, and only y permits. Looking at files (list,
    read, search) is permitted, unless you say --ask-read, or civitas.toml decides which model or
    folder it is and you do not say --yes-read; what it reads, the model is sent. Nothing outside of
    the folder is read or written but by a command that you permit: in bubblewrap that can read what
    you can, write below the folder only, and has no network without --network; where there is no
    bubblewrap, which the question says, it can do what you can. Where standard input is no
    terminal, all that asks is refused.

    The small model in the box does one plain instruction, by one action:

    \b
    Examples:
      civitas act 'Search for "Python" in README.md'
      civitas act "List the files" --root docs
      civitas act "Fix the typos" --model openai:gpt-4o
      civitas act "Fix the typos" --review me
      civitas act "List the files" --json
      civitas act "Fix the typos" --journal ~/runs.db

    With a journal, a file outside of the folder that is made if it is not there, the run is
    recorded, and after Ctrl-C, a limit or a crash `civitas resume` goes on with it. What the model
    was told, and what the actions gave, is in the journal.

    What is left out is taken from CIVITAS_MODEL and CIVITAS_ROOT, else from civitas.toml in the
    current folder (model, root, key; at the top or in [act]).

    Exit codes: 0 done, 1 failed or stopped,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if not given["task"].strip():
        raise click.UsageError("TASK is empty")
    said = settings("act")
    if yes_read is None:
        # Whoever made the folder may have written the file: it must not be able to have files sent
        # to a server of its choice.
        yes_read = not (("model" in said and not model) or ("root" in said and not root))
    name, _ = chosen_model(said, model, None)
    order = Order(
        root=root or said.get("root", "."),
        model=name,
        model_of_file="model" in said and not model,
        yes_read=yes_read,
        **given,
    )
    if journal is not None:
        with usage():
            apart(order, journal)
    return carried_out(acted, order, journal, run_id, as_json)
