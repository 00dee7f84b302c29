"""The worker of `civitas act`: its agent, its screen, and permission of a person."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.options import FILE, made_model
from civitas.errors import FileError
from civitas.models import weights

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.budget import Budget
    from civitas.cli.options import Recorded
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.order import AnyOrder, Order
    from civitas.cli.run.permission import Permission
    from civitas.cli.run.show import Shown
    from civitas.journal import Journal

ITERATIONS: Final = 10

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


def apart(order: Order, path: str) -> None:
    """See to it that a journal is out of the reach of what works in the folder.

    A command that was permitted may write below the folder, and nowhere else: but whoever writes a
    journal says what was permitted, and in which folder the run goes on.
    """
    root, journal = Path(order.root).resolve(), Path(path).resolve()
    if journal.is_relative_to(root):
        raise click.UsageError(
            f"the journal {path!r} is in the folder that the agent works on, which could change it "
            f"there: name one elsewhere, such as {str(Path.home() / 'runs.db')!r}"
        )


@dataclass(frozen=True)
class Worker:
    """What works, what shows it, and who permits it.

    Attributes:
        agent: what works
        screen: what shows it
        permission: who permits it
        for_a_person: whether the screen is read by a person, so that a question stands alone there
    """

    agent: Any
    screen: Shown | JSONLines
    permission: Permission
    for_a_person: bool


async def watched(worker: Worker, task: Any, run_id: str | None = None, **options: Any) -> int:
    """Have an agent reply, and show what happens; give the exit code."""
    from civitas.cli.run.show import exit_code

    began = time.monotonic()
    screen = worker.screen
    screen.begin()
    try:
        async with worker.agent.stream(task, run_id=run_id, **options) as events:
            async for event in events:
                if worker.for_a_person:
                    await worker.permission.answered()
                screen.event(event, time.monotonic() - began)
                worker.permission.shown(event)
    except asyncio.CancelledError:
        # By now what was under way has ended, a command with all of its process group.
        screen.interrupted(time.monotonic() - began)
        raise
    finally:
        screen.finish()
    return exit_code(events.reply)


def made(
    order: Order,
    key: str | None,
    own_key: str | None,
    *,
    as_json: bool,
    journal: Journal | None = None,
    recorded: Recorded | None = None,
) -> Worker:
    """The worker that an order asks for."""
    from civitas.action import ACCESS_REQUESTED
    from civitas.agents.sandbox import sandbox_for
    from civitas.cli.run.permission import Permission
    from civitas.reasoning.loop.react import ReActAgent

    small = is_small(order.model)
    actions = _actions(order, small)
    screen = _screen(order, actions, as_json, recorded)
    confined = sandbox_for("auto", order.network) is not None
    permission = Permission(
        (a.name for a in actions if a.access_policy == ACCESS_REQUESTED),
        {} if confined else {"run_command": _NOT_CONFINED},
        screen,
    )
    agent: Any = ReActAgent(
        "files",
        made_model(order.model, key),
        actions=actions,
        system_prompt=None if small else _WHO,
        max_iterations=order.max_iterations or (1 if small else ITERATIONS),
        approver=permission,
    )
    if order.review is not None:
        from civitas.reasoning.dualact import DualActAgent, DualActConfig

        config = DualActConfig(
            human=_reviewer(order.review, own_key), reactive=agent, first="reactive"
        )
        agent = DualActAgent(config, "act")
    agent.journal = journal
    budget = budget_of(order)
    if budget is not None:
        agent.budget = budget
    return Worker(agent, screen, permission, not as_json)


def is_small(model: str) -> bool:
    """Whether a model does one thing, and does not judge what came of it.

    It is given the names of the files that there are, as the only ones that it may write.
    """
    return model in ("local", f"local:{weights.DEFAULT.name}")


def keys(order: Order, said: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The key for the model of an order, and that for its reviewer.

    As when it was ordered: a key of civitas.toml is for a model that the file chose, and is the
    only one that such a model gets.
    """
    own = os.environ.get("CIVITAS_KEY")
    if not order.model_of_file:
        return own, own
    return (said.get("key") if said.get("model") == order.model else None), own


def _actions(order: Order, small: bool) -> list[Action]:
    from civitas.action import ACCESS_PERMITTED, ACCESS_REQUESTED
    from civitas.agents.files import changing_actions, file_actions

    try:
        looking = file_actions(
            order.root,
            small,
            only_listed=small,
            subfolders=not small,
            access_policy=ACCESS_PERMITTED if order.yes_read else ACCESS_REQUESTED,
        )
        return [*looking, *changing_actions(order.root, small, network=order.network)]
    except FileError as error:
        raise click.UsageError(f"--root, CIVITAS_ROOT or {FILE}: {error}") from error


def _reviewer(name: str, key: str | None) -> Any:
    from civitas.agents.person import Person
    from civitas.cli.run.permission import keyboard
    from civitas.reasoning.loop.react import ReActAgent

    if name != "me":
        return ReActAgent("reviewer", made_model(name, key), system_prompt=_REVIEWER)
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


def budget_of(order: AnyOrder) -> Budget | None:
    """What the run of an order may spend, or None."""
    limits: dict[str, Any] = {
        "seconds": order.max_seconds,
        "tokens": order.max_tokens,
        "usd": getattr(order, "max_usd", None),
    }
    if set(limits.values()) == {None}:
        return None
    from civitas.budget import Budget

    return Budget(**limits, name=f"civitas {order.command}")
