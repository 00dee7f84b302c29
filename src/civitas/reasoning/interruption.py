"""Telling a reply that is under way something more."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Generator
from typing import Any

__all__ = ["Interruption"]


class Interruption:
    """What was said to an agent that may be replying.

    True where a reply was under way. Awaited, it waits until that has heard it.
    """

    __slots__ = ("_heard",)

    def __init__(self, heard: concurrent.futures.Future[None] | None) -> None:
        self._heard = heard

    def __bool__(self) -> bool:
        return self._heard is not None

    def __await__(self) -> Generator[Any, None, bool]:
        if self._heard is not None:
            yield from asyncio.wrap_future(self._heard).__await__()
        return bool(self)

    def __repr__(self) -> str:
        return f"<Interruption of {'a reply' if self else 'nothing'}>"
