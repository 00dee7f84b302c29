"""Engines: what runs the turns of a step."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from civitas.errors import ConfigError

if TYPE_CHECKING:
    from civitas.society.router import SocietySeat, VirtualOffice

_AT_ONCE: Final = 100
"""After so many turns that did not wait, those that do have theirs."""


class Engine(Protocol):
    """What runs the turns of a step."""

    async def run(self, seats: Iterable[SocietySeat], office: VirtualOffice) -> None:
        """Run the turn of each agent, in any order; returns when all have ended."""


class LocalEngine:
    """Runs the turns on the society's loop.

    A turn that waits for nothing, as those of citizens with rules alone, is run without a task of
    its own. Turns that wait, for a model say, wait side by side.

    Args:
        concurrency: how many turns may wait at a time

    Raises:
        ConfigError: it is not 1 or more
    """

    def __init__(self, *, concurrency: int = 64) -> None:
        if type(concurrency) is not int or concurrency < 1:
            raise ConfigError(f"concurrency must be 1 or more, got {concurrency!r}")
        self.concurrency = concurrency

    async def run(self, seats: Iterable[SocietySeat], office: VirtualOffice) -> None:
        """Run the turn of each agent; returns when all have ended."""
        most = self.concurrency
        for number, seat in enumerate(seats):
            while len(office.turns) >= most:
                await office.fewer()
            office.begin(seat)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        while office.turns:
            await office.fewer()


@contextmanager
def only_new_garbage() -> Iterator[None]:
    """Have the collector leave alone what was there before.

    What a turn makes and drops is found all the same; but each time that much was made, the whole
    city would be walked, which takes a fifth of a step of 10,000 citizens.
    """
    if gc.get_freeze_count():
        yield  # the program has frozen something, which must stay so
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
