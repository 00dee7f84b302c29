"""Posts of a feed, their ranking, and their storage without a population."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.society import math
from moothall.society.arrays import np

DECADE_S: Final = 45_000  # the seconds of recency that ten times the likes are worth
INTEREST_S: Final = 45_000  # the seconds of recency that a topic of full interest is worth
FOLLOWED_S: Final = 45_000  # the seconds of recency that a followed author is worth
HOTTEST: Final = 50  # the number of hottest posts that are candidates for everyone
OF_AN_AUTHOR: Final = 3  # the number of last posts of a followed author that are candidates
AUTHORS: Final = 50
"""The number of followed authors whose posts are candidates: those followed last."""


def heat(likes: Any, posted: Any) -> Any:
    """Return a post's heat: its time in seconds since the start, plus the worth of its likes."""
    if type(likes) is int:
        return posted + int(DECADE_S * math.log(max(likes, 1)) / math.log(10) + 0.5)
    worth = DECADE_S * math.log(np.maximum(likes, 1)) / math.log(10) + 0.5
    return posted + worth.astype(np.int64)


def shown_rank(heat: Any, interest: Any, followed: Any) -> Any:
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
        return self.of(self.author)

    def of(self, author: str) -> str:
        """Return the post in words, its author called so."""
        about = f" about {self.topic}" if self.topic else ""
        return f"post {self.number} of {author}{about} ({len(self.liked)} likes): {self.text}"


class PostsById:
    """The posts, likes and follows of a feed without a population, by id."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.next: int = 1
        self._posts: dict[int, Posted] = {}
        self._follows: dict[str, dict[str, None]] = {}
        self._hottest: list[Posted] | None = None
        self._by_author: dict[str, deque[int]] = {}

    def posts(self) -> Mapping[int, Posted]:
        """Return all posts by number."""
        return self._posts

    def followed(self) -> Mapping[str, Mapping[str, None]]:
        """Return the ids that each agent follows."""
        return self._follows

    @property
    def first(self) -> int:
        """The number of the oldest post."""
        return self.next - len(self._posts)

    def post(self, number: int) -> Posted:
        """Return a post by its number."""
        return self._posts[number]

    def publish_one(self, sender: str, want: Any, now: int) -> int:
        """Publish a post; return its number."""
        self._keep(Posted(self.next, sender, want.text, want.topic, now, {}, heat(0, now)))
        self.next += 1
        return self.next - 1

    def follow_one(self, sender: str, whom: str) -> None:
        """Let an agent follow another."""
        self._follows.setdefault(sender, {})[whom] = None

    def like_one(self, sender: str, number: int) -> int:
        """Let an agent like a post; return the post's likes."""
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
        """Return the highest-ranked posts for one agent, the best first."""
        if self._hottest is None:
            self._hottest = heapq.nlargest(
                HOTTEST, self._posts.values(), key=lambda post: (post.heat, post.number)
            )
        follows = self._follows.get(id, {})
        candidates = {post.number: post for post in self._hottest}
        for author, _ in zip(reversed(follows), range(AUTHORS), strict=False):
            for number in self._by_author.get(author, ()):
                if number in self._posts:
                    candidates[number] = self._posts[number]
        return heapq.nlargest(
            limit,
            (post for post in candidates.values() if post.author != id),
            key=lambda post: (
                shown_rank(post.heat, interests.get(post.topic, 0), post.author in follows),
                post.number,
            ),
        )

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `Feed.state_dict`."""
        self._posts, self._by_author, self._hottest = {}, {}, None
        for number, author, text, topic, posted, liked in state["posts"]:
            hot = heat(len(liked), posted)
            self._keep(Posted(number, author, text, topic, posted, dict.fromkeys(liked), hot))
        self.next = state["next"]
        self._follows = {id: dict.fromkeys(whom) for id, whom in state["follows"].items()}


# `place` has the author of each post, `hot` those of the hottest, rising, of `count` agents.
def authors_of(place: Any, hot: Any, count: int) -> tuple[Any, Any, Any]:
    """Return each agent's number as an author, authors' last posts, and indices in `hot`; or −1."""
    order = np.argsort(place, kind="stable")
    own = place[order]
    end = np.flatnonzero(np.r_[own[1:] != own[:-1], True][: len(own)])
    authors = own[end]
    back = end[:, None] - np.arange(OF_AN_AUTHOR)[::-1]
    post = order[np.maximum(back, 0)]
    last = np.where((back >= 0) & (place[post] == authors[:, None]), post, -1)
    of = np.full(count, -1, np.int32)
    of[authors] = np.arange(len(authors))
    of_hot = np.full(len(authors) + 1, -1, np.int8)  # the last entry: no author
    of_hot[of[hot]] = np.arange(len(hot))
    return of, last, of_hot
