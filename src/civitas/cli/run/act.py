"""`civitas act`: an agent that works on the files of a folder, while a person looks on."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.completion import folders, models
from civitas.cli.options import FILE, Above0, journal_option, run_id_option, settings, usage
from civitas.cli.run.order import carried_out
from civitas.orders.act import ITERATIONS, act_agent, actions_of, apart, keys
from civitas.orders.models import chosen_model
from civitas.orders.order import Order, record

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.cli.options import Recorded
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.permission import Permission
    from civitas.cli.run.show import Shown
    from civitas.journal import Journal
    from civitas.orders.order import AnyOrder

_NOT_CONFINED: Final = (
    "(not confined: bubblewrap is not installed, or does not work here, so the command can do what "
    "you can)"
)
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


async def watched(
    agent: Any, permission: Permission, task: Any, run_id: str | None = None, **options: Any
) -> int:
    """Have an agent reply, and show what happens; give the exit code."""
    from civitas.cli.run.show import exit_code

    began, screen = time.monotonic(), permission.screen
    screen.begin()
    try:
        async with agent.stream(task, run_id=run_id, **options) as events:
            async for event in events:
                if screen.for_a_person:  # a question stands alone there
                    await permission.answered()
                screen.event(event, time.monotonic() - began)
                permission.shown(event)
    except asyncio.CancelledError:
        # By now what was under way has ended, a command with all of its process group.
        screen.interrupted(time.monotonic() - began)
        raise
    finally:
        screen.finish()
    return exit_code(events.reply)


async def ordered(
    agent: Any,
    permission: Permission,
    order: AnyOrder,
    journal: Journal | None,
    recorded: Recorded | None,
) -> int:
    """Have an agent do what was ordered, and show it; give the exit code."""
    if journal is None or recorded is None:
        return await watched(agent, permission, order.task)
    await record(order, journal, recorded.run_id, agent)
    return await watched(agent, permission, order.task, recorded.run_id)


def acted(
    order: Order, as_json: bool, journal: Journal | None = None, recorded: Recorded | None = None
) -> int:
    """Work on files as it was ordered; give the exit code."""
    from civitas.action import ACCESS_REQUESTED
    from civitas.agents.sandbox import sandbox_for
    from civitas.cli.run.permission import Permission

    key, own_key = keys(order, settings("act") if order.model_of_file else {})
    with usage(f"--root, CIVITAS_ROOT or {FILE}"):
        actions = actions_of(order)
    confined = sandbox_for("auto", order.network) is not None
    screen = _screen(order, actions, as_json, recorded)
    permission = Permission(
        screen,
        (a.name for a in actions if a.access_policy == ACCESS_REQUESTED),
        {} if confined else {"run_command": _NOT_CONFINED},
    )
    with usage():
        # Held here until the loop has ended, which closes the model's connections.
        agent = act_agent(
            order,
            key=key,
            own_key=own_key,
            approver=permission,
            reviewer=_person() if order.review == "me" else None,
            journal=journal,
            actions=actions,
        )
    works = agent if order.review is None else agent.config.reactives[0]
    screen.is_loaded = lambda: getattr(works.model, "loaded", True)
    return asyncio.run(ordered(agent, permission, order, journal, recorded))


def _person() -> Any:
    from civitas.agents.person import Person
    from civitas.cli.run.permission import keyboard

    lines = keyboard()
    if lines is None:
        raise click.UsageError("--review me: standard input is no terminal to ask at")
    return Person("you", stdin=lines, stdout=sys.stderr)


def _screen(
    order: Order, actions: list[Action], as_json: bool, recorded: Recorded | None
) -> Shown | JSONLines:
    if as_json:
        from civitas.cli.run.json_lines import JSONLines

        return JSONLines(recorded)
    from civitas.cli.run.show import Shown

    return Shown(
        (action.name for action in actions if action.terminal),
        reviewed=order.review is not None,
        to_a_person=order.review == "me",
        recorded=recorded,
        model=order.model.rpartition("#")[2],
    )
