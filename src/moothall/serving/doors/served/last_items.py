"""The last items that a door keeps, of a number that is bounded."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LastItems(dict[K, V], Generic[K, V]):
    """The items that were kept last, the oldest first.

    Args:
        most: how many are kept
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, item: V) -> list[V]:
        """Keep an item as the last one; return those that are dropped for it."""
        self.pop(key, None)
        self[key] = item
        if len(self) <= self._most:
            return []
        return [self.pop(next(iter(self))) for _ in range(len(self) - self._most)]
