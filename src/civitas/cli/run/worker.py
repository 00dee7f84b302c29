"""The worker of `civitas act`: its agent, its screen, and permission of a person."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.cli.options import FILE, settings, usage
from civitas.orders.act import act_agent, actions_of, keys
from civitas.orders.order import record

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.cli.options import Recorded
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.permission import Permission
    from civitas.cli.run.show import Shown
    from civitas.journal import Journal
    from civitas.orders.order import AnyOrder, Order

_NOT_CONFINED: Final = (
    "(not confined: bubblewrap is not installed, or does not work here, so the command can do what "
    "you can)"
)


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
