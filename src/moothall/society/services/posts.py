"""Posts of a feed, and their ranking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from moothall.society import math
from moothall.society.arrays import Array, WholeNumber, np

DECADE_S: Final = 45_000  # the seconds of recency that ten times the likes are worth
INTEREST_S: Final = 45_000  # the seconds of recency that a topic of full interest is worth
FOLLOWED_S: Final = 45_000  # the seconds of recency that a followed author is worth
HOTTEST: Final = 50  # the number of hottest posts that are candidates for everyone
PER_AUTHOR: Final = 3  # the number of last posts of a followed author that are candidates
AUTHORS: Final = 50
"""The number of followed authors whose posts are candidates: those followed last."""


def heat(likes: WholeNumber, posted: WholeNumber) -> Any:
    """Return a post's heat: its time in seconds since the start, plus the worth of its likes."""
    if type(likes) is int:
        return posted + int(DECADE_S * math.log(max(likes, 1)) / math.log(10) + 0.5)
    worth = DECADE_S * math.log(np.maximum(likes, 1)) / math.log(10) + 0.5
    return posted + worth.astype(np.int64)


def shown_rank(heat: WholeNumber, interest: WholeNumber, followed: WholeNumber) -> Any:
    """Return a post's rank for a citizen; numbers or arrays; an interest is 0 … 1000."""
    return heat + INTEREST_S * interest // 1000 + FOLLOWED_S * followed


@dataclass(slots=True)
class Posted:
    """A post in the feed.

    Attributes:
        number: the post's number, from 1
        author: the author's id
        text: the text
        topic: the topic
        posted: when it was posted, in seconds since the start
        liked: the ids of the agents who liked it
        heat: the post's heat
    """

    number: int
    author: str
    text: str
    topic: str
    posted: int
    liked: dict[str, None] = field(default_factory=dict)
    heat: int = 0

    def __str__(self) -> str:
        return self.describe(self.author)

    def describe(self, author: str) -> str:
        """Return the post in words, its author called so."""
        topic = f" about {self.topic}" if self.topic else ""
        return f"post {self.number} of {author}{topic} ({len(self.liked)} likes): {self.text}"


# `place` has the author of each post, `hot` those of the hottest, rising, of `count` agents.
def authors_of(place: Array, hot: Array, count: int) -> tuple[Array, Array, Array]:
    """Return each agent's number as an author, authors' last posts, and indices in `hot`; or −1."""
    order = np.argsort(place, kind="stable")
    writer = place[order]
    ends = np.flatnonzero(np.r_[writer[1:] != writer[:-1], True][: len(writer)])
    authors = writer[ends]
    back = ends[:, None] - np.arange(PER_AUTHOR)[::-1]
    post = order[np.maximum(back, 0)]
    last = np.where((back >= 0) & (place[post] == authors[:, None]), post, -1)
    numbers = np.full(count, -1, np.int32)
    numbers[authors] = np.arange(len(authors))
    hot_of = np.full(len(authors) + 1, -1, np.int8)  # the last entry: no author
    hot_of[numbers[hot]] = np.arange(len(hot))
    return numbers, last, hot_of
