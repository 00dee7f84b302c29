"""What tabs, jobs and the server use of the studio and of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from civitas.journal import Journal
    from civitas.orders.order import Order, ResearchOrder
    from civitas.studio.cards import Cards
    from civitas.studio.feed import Feed


class Tab(Protocol):
    """One tab of the page: `name` is what its routes and its script are called."""

    name: str
    title: str

    def routes(self, router: Any) -> None:
        """Add what pages call, below `/studio/NAME`."""
        ...

    def form(self) -> None:
        """Add its components of Gradio, above what its script shows."""
        ...


class _Background(Protocol):
    """The runs that are under way here; see `Jobs`."""

    def start(self, order: Order | ResearchOrder, *, run_id: str | None = None) -> str: ...

    def resume(self, run_id: str, more: Mapping[str, float] = ...) -> str: ...

    def stop(self, run_id: str) -> None: ...

    def pause(self, run_id: str) -> None: ...

    def go_on(self, run_id: str) -> None: ...

    def steer(self, run_id: str, text: str) -> None: ...

    def told(self, run_id: str) -> list[str]: ...

    def state(self, run_id: str) -> str | None: ...


class _Followed(Protocol):
    """The runs that pages are told of; see `RunsTab`."""

    def watch(self, run_id: str) -> None: ...


class _Towns(Protocol):
    """The town that pages watch; see `SocietyTab`."""

    def load(self, run_id: str) -> None: ...


class Hub(Protocol):
    """The studio, as its parts know it; see `Studio`."""

    feed: Feed
    cards: Cards
    opens: str

    @property
    def journal(self) -> Journal:
        """Where runs are read and recorded."""
        ...

    @property
    def jobs(self) -> _Background:
        """What runs in the background."""
        ...

    @property
    def runs(self) -> _Followed:
        """The runs of the journal, and who follows them."""
        ...

    @property
    def society(self) -> _Towns:
        """The town that pages watch."""
        ...

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs, in their order."""
        ...
