"""`civitas act`: an agent that works on the files of a folder, while a person looks on."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.settings import FILE, chosen_model, made_model, settings
from civitas.cli.suggested import folders, models
from civitas.errors import FileError
from civitas.models import weights

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.budget import Budget
    from civitas.cli.json_lines import JSONLines
    from civitas.cli.keyboard import Permission
    from civitas.cli.shown import Shown

__all__ = ["command"]

_HELP = {"help_option_names": ["-h", "--help"]}
_ITERATIONS: Final = 10

_NOT_CONFINED: Final = (
    "(not confined: bubblewrap is not installed, or does not work here, so the command can do what "
    "you can)"
)
_WHO: Final = """\
You work on the files of one folder for a person, by the actions that you are given. The names of
files are relative to the folder. Look before you change anything; prefer edit_file to write_file
for a file that is there. Some actions are permitted by the person one by one: if one is refused, do
not try it again. When the task is done, answer in a few words what you did or found."""
_REVIEWER: Final = """\
You review what another agent does on the files of one folder for a person. Accept it only if what
it really called shows that the task is done."""


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
    help=f"How many answers the model may give.  [default: {_ITERATIONS}; 1 for local]",
)
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), help="Time limit.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Of all the models' calls together.")
@click.option(
    "--yes-read/--ask-read",
    default=None,
    help="Whether it may look at the folder's files without asking.  [default: yes, unless "
    f"{FILE} says which model or root]",
)
@click.option("--review", metavar="MODEL|me", help="Who has to accept the work before it ends.")
@click.option("--network", is_flag=True, help="Give commands in the sandbox the network.")
@click.option("--json", "as_json", is_flag=True, help="Print events as lines of JSON.")
def command(
    task: str,
    root: str | None,
    model: str | None,
    max_iterations: int | None,
    max_seconds: float | None,
    max_tokens: int | None,
    yes_read: bool | None,
    review: str | None,
    network: bool,
    as_json: bool,
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

    What is left out is taken from CIVITAS_MODEL and CIVITAS_ROOT, else from civitas.toml in the
    current folder (model, root, key; at the top or in [act]).

    \b
    Exit codes: 0 done, 1 failed or stopped,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if not task.strip():
        raise click.UsageError("TASK is empty")
    said = settings("act")
    if yes_read is None:
        # Whoever made the folder may have written the file: it must not be able to have files sent
        # to a server of its choice.
        yes_read = not (("model" in said and not model) or ("root" in said and not root))
    own_key = os.environ.get("CIVITAS_KEY")
    name, key = chosen_model(said, model, own_key)
    asked = _Asked(
        task,
        root or said.get("root", "."),
        name,
        key,
        own_key,
        max_iterations,
        yes_read,
        review,
        network,
        as_json,
    )
    # What the library logs is in the reply, in words.
    logging.getLogger("civitas").addHandler(logging.NullHandler())
    # Held here until the loop has ended, which closes the model's connections.
    made = _made(asked, _budget(max_seconds, max_tokens))
    return asyncio.run(_run(made, task))


@dataclass(frozen=True)
class _Asked:
    """What the command line, the environment and the file say together."""

    task: str
    root: str
    model: str
    key: str | None  # that goes with the model
    own_key: str | None  # that the environment says
    max_iterations: int | None
    yes_read: bool
    review: str | None
    network: bool
    as_json: bool


@dataclass(frozen=True)
class _Made:
    """What works, what shows it, and who permits it."""

    agent: Any
    screen: Shown | JSONLines
    permission: Permission
    for_a_person: bool


async def _run(made: _Made, task: str) -> int:
    from civitas.cli.outcome import exit_code

    began = time.monotonic()
    try:
        async with made.agent.stream(task) as events:
            async for event in events:
                if made.for_a_person:
                    await made.permission.answered()
                made.screen.event(event, time.monotonic() - began)
                made.permission.shown(event)
    except asyncio.CancelledError:
        # By now what was under way has ended, a command with all of its process group.
        made.screen.interrupted(time.monotonic() - began)
        raise
    return exit_code(events.reply)


def _made(asked: _Asked, budget: Budget | None) -> _Made:
    from civitas.action import ACCESS_REQUESTED
    from civitas.agents.sandbox import sandbox_for
    from civitas.cli.keyboard import Permission
    from civitas.reasoning.react import ReActAgent

    # A model this small does one thing, and does not judge what came of it.
    small = asked.model in ("local", f"local:{weights.DEFAULT.name}")
    actions = _actions(asked, small)
    screen = _screen(asked, actions)
    confined = sandbox_for("auto", asked.network) is not None
    permission = Permission(
        (a.name for a in actions if a.access_policy == ACCESS_REQUESTED),
        {} if confined else {"run_command": _NOT_CONFINED},
    )
    agent: Any = ReActAgent(
        "files",
        made_model(asked.model, asked.key),
        actions=actions,
        system_prompt=None if small else _WHO,
        max_iterations=asked.max_iterations or (1 if small else _ITERATIONS),
        approver=permission,
    )
    if asked.review is not None:
        from civitas.reasoning.dualact import DualActAgent, DualActConfig

        config = DualActConfig(
            human=_reviewer(asked.review, asked.own_key), reactive=agent, first="reactive"
        )
        agent = DualActAgent(config, "act")
    if budget is not None:
        agent.budget = budget
    return _Made(agent, screen, permission, not asked.as_json)


def _actions(asked: _Asked, small: bool) -> list[Action]:
    from civitas.action import ACCESS_PERMITTED, ACCESS_REQUESTED
    from civitas.agents.files import changing_actions, file_actions

    try:
        looking = file_actions(
            asked.root,
            small,
            only_listed=small,
            subfolders=not small,
            access_policy=ACCESS_PERMITTED if asked.yes_read else ACCESS_REQUESTED,
        )
        return [*looking, *changing_actions(asked.root, small, network=asked.network)]
    except FileError as error:
        raise click.UsageError(f"--root, CIVITAS_ROOT or {FILE}: {error}") from error


def _reviewer(name: str, key: str | None) -> Any:
    from civitas.agents.person import Person
    from civitas.cli.keyboard import keyboard
    from civitas.reasoning.react import ReActAgent

    if name != "me":
        return ReActAgent("reviewer", made_model(name, key), system_prompt=_REVIEWER)
    lines = keyboard()
    if lines is None:
        raise click.UsageError("--review me: standard input is no terminal to ask at")
    return Person("you", stdin=lines, stdout=sys.stderr)


def _screen(asked: _Asked, actions: list[Action]) -> Shown | JSONLines:
    if asked.as_json:
        from civitas.cli.json_lines import JSONLines

        return JSONLines()
    from civitas.cli.shown import Shown

    return Shown(
        (action.name for action in actions if action.terminal),
        reviewed=asked.review is not None,
        to_a_person=asked.review == "me",
    )


def _budget(seconds: float | None, tokens: int | None) -> Budget | None:
    if seconds is None and tokens is None:
        return None
    from civitas.budget import Budget

    return Budget(seconds=seconds, tokens=tokens, name="civitas act")
