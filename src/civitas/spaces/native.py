"""A space for agents in one process."""

from __future__ import annotations

from civitas.spaces.space import Space

__all__ = ["NativeSpace"]


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
