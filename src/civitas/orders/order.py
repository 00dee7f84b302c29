"""What a command was ordered to do: recorded in its run, which goes on with the same order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias
from urllib.parse import urlsplit

from civitas.errors import ConfigError, RunMismatch, StateError
from civitas.orders.simulate import SimulateOrder

if TYPE_CHECKING:
    from civitas.journal import Entry, Journal


@dataclass(frozen=True)
class Order:
    """What the command line, the environment and civitas.toml say together to `civitas act`.

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

    command: ClassVar = "act"
    part: ClassVar = "act"
    may_change: ClassVar = ("max_iterations", "max_seconds", "max_tokens", "yes_read")
    paths: ClassVar = ("root",)
    addresses: ClassVar = ("model", "review")

    task: str
    root: str = "."
    model: str = "local"
    model_of_file: bool = False
    review: str | None = None
    max_iterations: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    yes_read: bool = True
    network: bool = False

    @property
    def in_words(self) -> str:
        """What is set up, in a line."""
        review = f", reviewed by {self.review}" if self.review else ""
        network = ", commands have the network" if self.network else ""
        return f"{self.model} in {self.root}{review}{network}"


@dataclass(frozen=True)
class ResearchOrder:
    """What the command line says to `civitas research`.

    Attributes:
        objectives: what is to be found out
        folder: the folder to search, or None
        search_web: whether a search engine of the web is asked
        searxng: the address of the SearXNG that is asked, or None
        iterations: how many there may be
        model: the model's name; None for the extractive form
        role: who the researcher is, in words for the model
        site: the host that the web is restricted to, or None
        allow_hosts: hosts that may be visited though they are of this machine or network
        max_usd: what it may cost, or None
        max_tokens: of all calls together, or None
        max_seconds: the time limit, or None
        out: the file of the report, or None
        html: the file of the page, or None
    """

    command: ClassVar = "research"
    part: ClassVar = "civitas research"
    may_change: ClassVar = (
        *("objectives", "iterations", "max_usd", "max_tokens", "max_seconds"),
        *("out", "html"),
    )
    paths: ClassVar = ("folder", "out", "html")
    addresses: ClassVar = ("model", "searxng")

    objectives: list[str]
    folder: str | None = None
    search_web: bool = False
    searxng: str | None = None
    iterations: int = 3
    model: str | None = None
    role: str = ""
    site: str | None = None
    allow_hosts: list[str] = field(default_factory=list)
    max_usd: float | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    out: str | None = None
    html: str | None = None

    @property
    def task(self) -> str:
        """The objectives in one text."""
        return "\n".join(self.objectives)

    @property
    def in_words(self) -> str:
        """What is set up, in a line."""
        where = [self.folder] if self.folder else []
        where += [f"the web by {self.searxng}"] if self.searxng else []
        where += ["the web"] if self.search_web and not self.searxng else []
        site = f", {self.site} alone" if self.site else ""
        return f"{self.model or 'no model, extractive'}; {' and '.join(where)}{site}"


AnyOrder: TypeAlias = Order | ResearchOrder | SimulateOrder
_KINDS: Final[dict[str, type[AnyOrder]]] = {
    kind.part: kind for kind in (Order, ResearchOrder, SimulateOrder)
}
"""By the part of a run whose state the order is: no agent's, so none is told of it."""


def without_keys(order: AnyOrder) -> None:
    """See that an order holds nothing that might be a key; ConfigError where it may."""
    for name in order.addresses:
        try:
            parts = urlsplit((getattr(order, name) or "").partition("#")[0])
        except ValueError:
            continue  # no model is called so, which is said when it is made
        if parts.scheme in ("http", "https") and ("@" in parts.netloc or parts.query):
            raise ConfigError(
                f"the address of {parts.hostname} has a user or a query, which may be a key and "
                "would be recorded: leave it out; for a model, set CIVITAS_KEY"
            )


def of_entry(entry: Entry) -> AnyOrder | None:
    """The order that an entry holds, or None.

    Raises:
        StateError: another version of civitas wrote it
    """
    kind = _KINDS.get(entry.path)
    if kind is None or entry.kind != "state":
        return None
    try:
        return kind(**entry.data["state"])
    except TypeError as error:
        raise StateError(
            f"entry {entry.sequence} is of another civitas, which can go on with the run: {error}"
        ) from error


def order_of(entries: Sequence[Entry]) -> AnyOrder | None:
    """The order that a run of a command was begun with; None for any other run."""
    return next((o for entry in reversed(entries) if (o := of_entry(entry)) is not None), None)


async def record(order: AnyOrder, journal: Journal, run_id: str, agent: Any) -> None:
    """Write down the order of a run, before its agent or society begins it or goes on.

    Raises:
        RunMismatch: the run is no such command's, or has another order; `may_change` may differ
        RunHeld: somebody works on the run
        JournalError: the journal cannot be used
    """
    order = _from_anywhere(order)
    id = str(getattr(agent, "id", "society"))
    opened = await journal.begin(run_id, type(agent).__name__, id, order.task)
    try:
        part = opened.part(order.part)
        before = order_of(part.past)
        if before is None and opened.past:
            raise RunMismatch(run_id, ("program",), f"it is no run of civitas {order.command}")
        if before is not None:
            _check(run_id, before, order)
        if before != order:
            part.note("state", {"state": asdict(order), "appended": {}})
            await part.commit()
    finally:
        opened.close()


def _from_anywhere(order: AnyOrder) -> AnyOrder:
    """The same order, with its paths as they are called from every other folder."""
    paths = {name: getattr(order, name) for name in order.paths}
    return replace(order, **{name: path and os.path.abspath(path) for name, path in paths.items()})


def _check(run_id: str, before: AnyOrder, now: AnyOrder) -> None:
    was, is_ = asdict(before), asdict(now)
    changed = tuple(k for k in was if k not in now.may_change and was[k] != is_[k])
    if changed:
        told = "; ".join(f"{k}: was {was[k]!r:.80}, is {is_[k]!r:.80}" for k in changed)
        raise RunMismatch(run_id, changed, told)
