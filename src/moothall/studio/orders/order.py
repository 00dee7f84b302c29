"""The order of a command: recorded in its run, which is resumed with the same order."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from moothall import ConfigError, RunMismatch, StateError
from moothall.budget import RUN_LIMITS
from moothall.build import escaped, load_state
from moothall.journal import Entry
from moothall.studio.orders.act import ActOrder as ActOrder
from moothall.studio.orders.research import ResearchOrder as ResearchOrder
from moothall.studio.orders.simulate import SimulateOrder

if TYPE_CHECKING:
    from moothall.journal import Journal


AnyOrder: TypeAlias = ActOrder | ResearchOrder | SimulateOrder
_KINDS: Final[dict[str, type[AnyOrder]]] = {
    kind.part: kind for kind in (ActOrder, ResearchOrder, SimulateOrder)
}
"""The kinds of orders by the part of a run that records them; no agent has such a part."""


_RAISABLE: Final[dict[str, Callable[[float], float]]] = {
    "iterations": int,
    **{name: int if each.is_whole_number else float for name, each in RUN_LIMITS.items()},
}
"""The limits that may change when a run is resumed."""


def check_no_keys(order: AnyOrder) -> None:
    """Check that an order holds nothing that might be a key; ConfigError if it may."""
    for name in order.addresses:
        try:
            parts = urlsplit((getattr(order, name) or "").partition("#")[0])
        except ValueError:
            continue  # no model has such a name: an error when it is made
        if parts.scheme in ("http", "https") and ("@" in parts.netloc or parts.query):
            raise ConfigError(
                f"the address of {parts.hostname} has a user or a query, which may be a key and "
                "would be recorded: leave it out; for a model, set MOOTHALL_KEY",
                argument=name,
            )


def with_new_limits(order: AnyOrder, limits: Mapping[str, float]) -> AnyOrder:
    """Return an order with other limits; ConfigError if one is unknown or not above 0."""
    if not limits.keys() <= _RAISABLE.keys() & {*order.may_change}:
        raise ConfigError(
            f"a run of moothall {order.command} has no such limits: {', '.join(limits)}"
        )
    wrong_name = next((name for name, value in limits.items() if not 0 < value < math.inf), None)
    if wrong_name is not None:
        text = f"{wrong_name} must be a number above 0, got {limits[wrong_name]}"
        raise ConfigError(text, argument=wrong_name)
    changes: dict[str, Any] = {name: _RAISABLE[name](value) for name, value in limits.items()}
    return replace(order, **changes)


def parse_order(entry: Entry) -> AnyOrder | None:
    """Return the order in an entry, or None; StateError if another version of moothall wrote it."""
    kind = _KINDS.get(entry.path)
    state = entry.state
    if kind is None or state is None:
        return None
    try:
        kind(**state)
    except TypeError as error:
        raise StateError(
            f"entry {entry.sequence} was written by another version of moothall, which can resume "
            f"the run: {error}"
        ) from error
    return load_state(kind, state, f"entry {entry.sequence}")


def readable_order(entry: Entry) -> AnyOrder | None:
    """Return the order in an entry, or None, also if another version of moothall wrote it."""
    try:
        return parse_order(entry)
    except StateError:
        return None


def order_line(entry: Entry) -> str:
    """Return what an entry records, in a line for a terminal or a page."""
    order = readable_order(entry)
    return entry.line if order is None else escaped(f"set up: {order.in_words}")


def order_of(entries: Sequence[Entry]) -> AnyOrder | None:
    """Return the last recorded order of a command's run; None for any other run."""
    return next((o for entry in reversed(entries) if (o := parse_order(entry)) is not None), None)


async def record_order(order: AnyOrder, journal: Journal, run_id: str, agent: Any) -> None:
    """Record a run's order before it begins or resumes; RunMismatch if it is of another order."""
    order = _with_absolute_paths(order)
    agent_id = str(getattr(agent, "id", "society"))
    run = await journal.begin(run_id, type(agent).__name__, agent_id, order.task)
    try:
        part = run.part(order.part)
        recorded = order_of(part.past_entries)
        if recorded is None and run.past_entries:
            raise RunMismatch(run_id, ("program",), f"it is not a run of moothall {order.command}")
        if recorded is not None:
            _check_unchanged(run_id, recorded, order)
        if recorded != order:
            part.note("state", {"state": asdict(order), "appended": {}})
            if (end := Entry.end_of(run.past_entries)) is not None:
                run.end(str(end.reason))  # still ended, unless it is resumed
            await part.commit()
    finally:
        run.close()


def _with_absolute_paths(order: AnyOrder) -> AnyOrder:
    """Return the order, which then means the same in whatever folder it resumes."""
    paths = {name: getattr(order, name) for name in order.paths}
    return replace(order, **{name: path and os.path.abspath(path) for name, path in paths.items()})


def _check_unchanged(run_id: str, recorded: AnyOrder, now: AnyOrder) -> None:
    old, new = asdict(recorded), asdict(now)
    changed = tuple(k for k in old if k not in now.may_change and old[k] != new[k])
    if changed:
        detail = "; ".join(f"{k}: was {old[k]!r:.80}, is {new[k]!r:.80}" for k in changed)
        raise RunMismatch(run_id, changed, detail)
