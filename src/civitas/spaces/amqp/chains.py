"""Chains of requests across processes: by the keys of the handlers that wait in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from civitas.spaces.delivery import Delivery


class Chains:
    """The handlers of this process that wait for requests of their own."""

    def __init__(self, new_key: Callable[[], str]) -> None:
        self._new_key = new_key
        self._asking: dict[str, list[Any]] = {}  # by key: a handler, and how many requests it has

    def trail(self, handling: Any) -> tuple[str, ...]:
        """The keys of the handlers, the outermost first, that wait for a request made now."""
        keys: list[str] = []
        while handling is not None:
            if not handling.key:
                handling.key = self._new_key()
            entry = self._asking.setdefault(handling.key, [handling, 0])
            entry[1] += 1
            keys.append(handling.key)
            if handling.trail is not None:
                return (*handling.trail, *reversed(keys))
            handling = handling.parent
        return tuple(reversed(keys))

    def ancestor(self, trail: tuple[str, ...]) -> Delivery | None:
        """The innermost handler of this process that waits for a message of this trail."""
        for key in reversed(trail):
            entry = self._asking.get(key)
            if entry is not None:
                found: Delivery = entry[0]
                return found
        return None

    def ended(self, handling: Any) -> None:
        """A request of this handler, and of those that wait for it, has ended."""
        while handling is not None:
            entry = self._asking.get(handling.key)
            if entry is not None:
                entry[1] -= 1
                if not entry[1]:
                    del self._asking[handling.key]
            if handling.trail is not None:
                return
            handling = handling.parent
