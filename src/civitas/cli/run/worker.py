"""The worker of `civitas act`: its order, its agent, its screen, and permission of a person."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from civitas.cli.options import FILE, made_model
from civitas.errors import FileError, RunMismatch, StateError
from civitas.models import weights

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.budget import Budget
    from civitas.cli.options import Recorded
    from civitas.cli.run.json_lines import JSONLines
    from civitas.cli.run.permission import Permission
    from civitas.cli.run.show import Shown
    from civitas.journal import Entry, Journal

__all__ = [
    "ITERATIONS",
    "Order",
    "Worker",
    "apart",
    "is_order",
    "is_small",
    "keys",
    "made",
    "order_of",
    "record",
    "watched",
    "without_keys",
]

_PART: Final = "act"
"""The part of a run whose state the order is: no agent's, so none is told of it."""
_MAY_CHANGE: Final = ("max_iterations", "max_seconds", "max_tokens", "yes_read")
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


@dataclass(frozen=True)
class Order:
    """What the command line, the environment and civitas.toml say together.

    Attributes:
        task: what is to be done
        root: the folder
        model: the model's name
        model_of_file: whether civitas.toml chose it, which decides whose key it is given
        review: who has to accept the work: a model's name, `me`, or None
        max_iterations: how many answers the model may give; None for as many as is usual
        max_seconds: the time limit, or None
        max_tokens: of all calls together, or None
        yes_read: whether files may be looked at without asking
        network: whether commands in the sandbox have the network
    """

    task: str
    root: str
    model: str
    model_of_file: bool
    review: str | None
    max_iterations: int | None
    max_seconds: float | None
    max_tokens: int | None
    yes_read: bool
    network: bool

    def from_anywhere(self) -> Order:
        """The same order, with the folder as it is called from every other folder."""
        return replace(self, root=os.path.abspath(self.root))


def without_keys(order: Order) -> Order:
    """The same order, seen to hold nothing that might be a key.

    Raises:
        click.UsageError: the address of a model may hold one
    """
    for name in (order.model, order.review or ""):
        try:
            parts = urlsplit(name.partition("#")[0])
        except ValueError:
            continue  # no model is called so, which is said when it is made
        if parts.scheme in ("http", "https") and ("@" in parts.netloc or parts.query):
            raise click.UsageError(
                "the model's address has a user or a query, which may be a key and would be "
                "recorded: leave it out, and set CIVITAS_KEY"
            )
    return order


def apart(order: Order, path: str) -> None:
    """See to it that a journal is out of the reach of what works in the folder.

    A command that was permitted may write below the folder, and nowhere else: but whoever writes a
    journal says what was permitted, and in which folder the run goes on.

    Raises:
        click.UsageError: it is in the folder
    """
    root, journal = Path(order.root).resolve(), Path(path).resolve()
    if journal.is_relative_to(root):
        raise click.UsageError(
            f"the journal {path!r} is in the folder that the agent works on, which could change it "
            f"there: name one elsewhere, such as {str(Path.home() / 'runs.db')!r}"
        )


def is_order(entry: Entry) -> bool:
    """Whether an entry holds the order of a run of `civitas act`."""
    return entry.path == _PART and entry.kind == "state"


def order_of(entries: Sequence[Entry]) -> Order | None:
    """The order that a run of `civitas act` was begun with; None for any other run.

    Raises:
        StateError: it is not as this civitas writes it
    """
    for entry in reversed(entries):
        if is_order(entry):
            try:
                return Order(**entry.data["state"])
            except TypeError as error:
                raise StateError(
                    f"entry {entry.sequence} is of another civitas, which can go on with the run: "
                    f"{error}"
                ) from error
    return None


async def record(order: Order, journal: Journal, run_id: str, agent: Any) -> None:
    """Write down the order of a run, before its agent begins it or goes on.

    Raises:
        RunMismatch: the run was begun with another
        RunHeld: somebody works on the run
        JournalError: it cannot be written
    """
    order = order.from_anywhere()
    opened = await journal.begin(run_id, type(agent).__name__, str(agent.id), order.task)
    try:
        part = opened.part(_PART)
        before = order_of(part.past)
        if before is None and opened.past:
            raise RunMismatch(run_id, ("program",), "it is no run of civitas act")
        if before is not None:
            _check(run_id, before, order)
        if before != order:
            part.note("state", {"state": asdict(order), "appended": {}})
            await part.commit()
    finally:
        opened.close()


def _check(run_id: str, before: Order, now: Order) -> None:
    was, is_ = asdict(before), asdict(now)
    changed = tuple(k for k in was if k not in _MAY_CHANGE and was[k] != is_[k])
    if changed:
        told = "; ".join(f"{k}: was {was[k]!r:.80}, is {is_[k]!r:.80}" for k in changed)
        raise RunMismatch(run_id, changed, told)


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
    """Have an agent reply, and show what happens; give the exit code.

    Raises:
        RunMismatch, RunHeld, JournalError: as the agent
    """
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
    """The worker that an order asks for.

    Args:
        order: the order
        key: the key that goes with its model
        own_key: that which the environment says, for a reviewer
        as_json: whether a program reads what is shown
        journal: where the run is recorded, if it is
        recorded: which run it is there

    Raises:
        click.UsageError: the folder is none, or a person is to review who is not there
        ModelError, WeightsError, MissingExtra: the model cannot be used
    """
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
    budget = _budget(order)
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

    Args:
        order: the order
        said: what the file says now
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


def _budget(order: Order) -> Budget | None:
    if order.max_seconds is None and order.max_tokens is None:
        return None
    from civitas.budget import Budget

    return Budget(seconds=order.max_seconds, tokens=order.max_tokens, name="civitas act")
