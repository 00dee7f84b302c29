"""The worker of `civitas act`: its agent, its screen, and permission of a person."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.options import FILE, usage
from civitas.orders.act import act_agent, actions_of

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.cli.options import Recorded
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.permission import Permission
    from civitas.cli.run.show import Shown
    from civitas.journal import Journal
    from civitas.orders.order import Order

_NOT_CONFINED: Final = (
    "(not confined: bubblewrap is not installed, or does not work here, so the command can do what "
    "you can)"
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

    with usage(f"--root, CIVITAS_ROOT or {FILE}"):
        actions = actions_of(order)
    screen = _screen(order, actions, as_json, recorded)
    confined = sandbox_for("auto", order.network) is not None
    permission = Permission(
        (a.name for a in actions if a.access_policy == ACCESS_REQUESTED),
        {} if confined else {"run_command": _NOT_CONFINED},
        screen,
    )
    with usage():
        agent = act_agent(
            order,
            key=key,
            own_key=own_key,
            approver=permission,
            reviewer=_person() if order.review == "me" else None,
            journal=journal,
            actions=actions,
        )
    return Worker(agent, screen, permission, not as_json)


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
