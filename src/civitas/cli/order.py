"""What a person has `civitas act` do: enough to set the same agent up again, and never a key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from civitas.errors import RunMismatch, StateError

if TYPE_CHECKING:
    from civitas.journal import Entry, Journal

__all__ = ["KIND", "Order", "apart", "order_of", "record", "without_keys"]

KIND: Final = "ordered"
"""What the entry is called that holds an order."""
_PART: Final = "act"
"""The part of a run where it stands: no agent's, so none is told of it."""
_MAY_CHANGE: Final = ("max_iterations", "max_seconds", "max_tokens", "yes_read")


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


def order_of(entries: Sequence[Entry]) -> Order | None:
    """The order that a run of `civitas act` was begun with; None for any other run.

    Raises:
        StateError: it is not as this civitas writes it
    """
    for entry in reversed(entries):
        if entry.path == _PART and entry.kind == KIND:
            try:
                return Order(**entry.data)
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
            part.note(KIND, asdict(order))
            await part.commit()
    finally:
        opened.close()


def _check(run_id: str, before: Order, now: Order) -> None:
    was, is_ = asdict(before), asdict(now)
    changed = tuple(k for k in was if k not in _MAY_CHANGE and was[k] != is_[k])
    if changed:
        told = "; ".join(f"{k}: was {was[k]!r:.80}, is {is_[k]!r:.80}" for k in changed)
        raise RunMismatch(run_id, changed, told)
