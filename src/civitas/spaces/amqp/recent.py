"""Letters that the broker confirmed a moment ago, in case the queue that they went into is lost."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from civitas.spaces.amqp.letter import ANSWER, CANCEL, SEND, Letter

__all__ = ["Recent", "is_kept"]

_KEPT = frozenset((SEND, ANSWER, CANCEL))
_KEEP_S: Final = 60.0
"""A receiver that is busy may take as long to see that its queue is gone."""

_MOST: Final = 5_000
_MOST_BYTES: Final = 16 * 2**20


def is_kept(letter: Letter) -> bool:
    """Whether a letter is sent again if it is lost; who made a request keeps that till it ends."""
    return letter.kind in _KEPT and not letter.is_copy and letter.exchange is None


class Recent:
    """Keeps the last few, and no more of them than it can bear.

    Args:
        keep_s: how long receivers know what they have handled, at the least
    """

    def __init__(self, keep_s: float) -> None:
        self._keep_s = min(keep_s, _KEEP_S)
        self._letters: deque[tuple[float, Letter]] = deque()
        self._bytes = 0

    def keep(self, letter: Letter) -> None:
        """It has just been confirmed, and whoever waited for that knows."""
        if not is_kept(letter):
            return
        # What it was about may hold much more than the letter.
        letter.about = (None, *letter.about[1:]) if letter.kind == SEND else None
        letters = self._letters
        letters.append((time.monotonic(), letter))
        self._bytes += len(letter.body)
        while len(letters) > _MOST or self._bytes > _MOST_BYTES:
            self._bytes -= len(letters.popleft()[1].body)

    def to(self, id: str, routing_key: str) -> list[Letter]:
        """Those to an agent, and to all, of the last seconds, in their order: to be sent to it.

        Args:
            id: the agent's
            routing_key: what goes to that agent alone
        """
        since = time.monotonic() - self._keep_s
        return [
            letter.again(id, routing_key)
            for confirmed, letter in self._letters
            if confirmed >= since and letter.to in (id, "")
        ]
