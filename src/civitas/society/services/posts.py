"""Posts of a feed, and what ranks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from civitas.society import math
from civitas.society.arrays import numpy
from civitas.society.population.wants import number_of

DECADE_S: Final = 45_000
"""Ten times the likes are worth so many seconds of recency."""
INTEREST_S: Final = 45_000
"""A topic of full interest is worth so many."""
FOLLOWED_S: Final = 45_000
"""An author whom one follows is worth so many."""
HOTTEST: Final = 50
"""So many of the hottest posts are shown to all."""
OF_AN_AUTHOR: Final = 3
"""So many of the last posts of an author whom one follows."""
AUTHORS: Final = 50
"""Of so many authors, those whom one followed last."""


def heat(likes: Any, posted: Any) -> Any:
    """Return how hot a post is: seconds since the start when it was posted, and its likes'."""
    if type(likes) is int:
        return posted + int(DECADE_S * math.log(max(likes, 1)) / math.log(10) + 0.5)
    worth = DECADE_S * math.log(numpy().maximum(likes, 1)) / math.log(10) + 0.5
    return posted + worth.astype(numpy().int64)


def shown_rank(heat: Any, interest: Any, followed: Any) -> Any:
    """Return what ranks a post for a citizen, of numbers or arrays; an interest is 0 … 1000."""
    return heat + INTEREST_S * interest // 1000 + FOLLOWED_S * followed


@dataclass(slots=True)
class Posted:
    """A post in the feed.

    Attributes:
        number: its number, from 1
        author: the id of who posted it
        text: what it says
        topic: what it is about
        posted: seconds since the start
        liked: who liked it
        heat: how hot it is
    """

    number: int
    author: str
    text: str
    topic: str
    posted: int
    liked: Mapping[str, None] = field(default_factory=dict)
    heat: int = 0

    def __str__(self) -> str:
        about = f" about {self.topic}" if self.topic else ""
        return f"post {self.number} of {self.author}{about} ({len(self.liked)} likes): {self.text}"


class LikedBy(Mapping[str, None]):
    """Who liked a post of a `RowFeed`, by id."""

    def __init__(self, feed: Any, number: int) -> None:
        self._feed, self._number = feed, number

    def __getitem__(self, id: str) -> None:
        number = number_of(self._feed.population, id)
        if not self._feed.liked(numpy().array([self._number]), numpy().array([number]))[0]:
            raise KeyError(id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._feed.likers(self._number))

    def __len__(self) -> int:
        return int(self._feed.likes[self._number - self._feed.first])
