"""A space for agents in one process."""

from __future__ import annotations

from civitas.agent import Agent
from civitas.spaces.delivery import Delivery
from civitas.spaces.mailbox import Seat
from civitas.spaces.router import PostOffice
from civitas.spaces.space import Space


class NativeSpace(Space):
    """A space for agents in one process; nothing else is needed to run it.

    Example:
        >>> from civitas import Agent, NativeSpace, action
        >>> class Calculator(Agent):
        ...     @action
        ...     async def add(self, a: int, b: int) -> int:
        ...         return a + b
        >>> with NativeSpace() as space:
        ...     _ = space.add(Calculator("Calculator"))
        ...     me = space.add(Agent("me"))
        ...     me.ask("Calculator", "add", a=1, b=2).result(timeout=5)
        3
    """

    # Those that keep something for each sender, which goes when the sender leaves.
    _keepers: dict[str, Agent] | None = None

    def _add(self, agent: Agent, office: PostOffice) -> Seat:
        seat = super()._add(agent, office)
        if hasattr(agent, "_sender_left"):
            if self._keepers is None:
                self._keepers = {}
            self._keepers[seat.id] = agent
        return seat

    def _vacate(self, seat: Seat, *spared: Delivery | None) -> None:
        super()._vacate(seat, *spared)
        keepers = self._keepers
        if keepers is None or seat.office.ending:
            return
        if keepers.get(seat.id) is seat.agent:
            del keepers[seat.id]
        for keeper in list(keepers.values()):
            keeper._sender_left(seat.id)  # type: ignore[attr-defined]
