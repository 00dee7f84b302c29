"""Posts of a feed, what ranks them, and how they are kept where agents use it."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from civitas.society import math
from civitas.society.arrays import numpy

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
    liked: dict[str, None] = field(default_factory=dict)
    heat: int = 0

    def __str__(self) -> str:
        about = f" about {self.topic}" if self.topic else ""
        return f"post {self.number} of {self.author}{about} ({len(self.liked)} likes): {self.text}"


class PostsById:
    """The posts, likes and follows of a feed that agents use, by id."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.next = 1
        self._posts: dict[int, Posted] = {}
        self._follows: dict[str, dict[str, None]] = {}
        self._hottest: list[Posted] | None = None
        self._by_author: dict[str, deque[int]] = {}

    def posts(self) -> Mapping[int, Posted]:
        """All posts by number."""
        return self._posts

    def followed(self) -> Mapping[str, Mapping[str, None]]:
        """Whom each follows, by id."""
        return self._follows

    @property
    def first(self) -> int:
        """The number of the oldest post."""
        return self.next - len(self._posts)

    def post(self, number: int) -> Posted:
        """Return a post that it keeps."""
        return self._posts[number]

    def publish_one(self, sender: str, want: Any, now: int) -> int:
        """Take in a post; gives its number."""
        self._keep(Posted(self.next, sender, want.text, want.topic, now, {}, heat(0, now)))
        self.next += 1
        return self.next - 1

    def follow_one(self, sender: str, whom: str) -> None:
        """Note that one follows another."""
        self._follows.setdefault(sender, {})[whom] = None

    def like_one(self, sender: str, number: int) -> int:
        """Note that one likes a post; gives how many do."""
        post = self._posts[number]
        post.liked[sender] = None
        post.heat = heat(len(post.liked), post.posted)
        self._hottest = None
        return len(post.liked)

    def _keep(self, post: Posted) -> None:
        self._posts[post.number] = post
        self._by_author.setdefault(post.author, deque(maxlen=OF_AN_AUTHOR)).append(post.number)
        if len(self._posts) > self.most:
            del self._posts[next(iter(self._posts))]
        self._hottest = None

    def shown_to(self, id: str, interests: Mapping[str, int], limit: int) -> list[Posted]:
        """Return the posts that rank highest for one, the best first."""
        if self._hottest is None:
            self._hottest = heapq.nlargest(
                HOTTEST, self._posts.values(), key=lambda post: (post.heat, post.number)
            )
        follows = self._follows.get(id, {})
        found = {post.number: post for post in self._hottest}
        for author, _ in zip(reversed(follows), range(AUTHORS), strict=False):
            for number in self._by_author.get(author, ()):
                if number in self._posts:
                    found[number] = self._posts[number]
        return heapq.nlargest(
            limit,
            (post for post in found.values() if post.author != id),
            key=lambda post: (
                shown_rank(post.heat, interests.get(post.topic, 0), post.author in follows),
                post.number,
            ),
        )

    def load(self, given: Mapping[str, Any]) -> None:
        """Be what `Feed.state_dict` says."""
        self._posts, self._by_author = {}, {}
        for number, author, text, topic, posted, liked in given["posts"]:
            hot = heat(len(liked), posted)
            self._keep(Posted(number, author, text, topic, posted, dict.fromkeys(liked), hot))
        self.next = given["next"]
        self._follows = {id: dict.fromkeys(whom) for id, whom in given["follows"].items()}


def authors_of(place: Any, hot: Any, count: int) -> tuple[Any, Any, Any]:
    """Return who has posted what, as arrays.

    Args:
        place: of each post where its author stands among all agents
        hot: where the authors of the hottest posts stand, rising
        count: how many agents there are

    Returns:
        of each agent which author it is, −1 for none; of each author its last posts, −1 for none;
        and of each author which one of `hot` it is, −1 for none
    """
    np = numpy()
    order = np.argsort(place, kind="stable")
    own = place[order]
    end = np.flatnonzero(np.r_[own[1:] != own[:-1], True][: len(own)])
    authors = own[end]
    back = end[:, None] - np.arange(OF_AN_AUTHOR)[::-1]
    post = order[np.maximum(back, 0)]
    last = np.where((back >= 0) & (place[post] == authors[:, None]), post, -1)
    of = np.full(count, -1, np.int32)
    of[authors] = np.arange(len(authors))
    of_hot = np.full(len(authors) + 1, -1, np.int8)  # the last is that of no author
    of_hot[of[hot]] = np.arange(len(hot))
    return of, last, of_hot
