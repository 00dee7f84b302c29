"""The feed: posts, follows and likes, and which posts are shown to whom.

A post's place in the feed is its heat, as Reddit ranks (Salihefendic 2010, "How Reddit ranking
algorithms work") and OASIS simulates Reddit (Yang et al. 2024, arXiv:2411.11581): when it was
posted, and log10 of its likes, where ten times the likes weigh as much as 45,000 s. To it comes
what OASIS's feed of the kind of X has: how far the topic is among the citizen's interests, and
whether the citizen follows the author (posts "in network" and "out of network"). All is in seconds
of recency, so that one sum ranks.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from civitas.errors import ConfigError
from civitas.society import math
from civitas.society.commit import Books, Service
from civitas.society.wants import Answer, Follow, Like, Post, Want

DECADE_S: Final = 45_000
"""Ten times the likes are worth so many seconds of recency."""
INTEREST_S: Final = 45_000
"""A topic of full interest is worth so many."""
FOLLOWED_S: Final = 45_000
"""An author whom one follows is worth so many."""
LONGEST: Final = 280
"""So many characters a post has at most."""
_HOTTEST = 50
_OF_AN_AUTHOR = 3
_AUTHORS = 50


def heat(likes: int, posted: int) -> int:
    """Return how hot a post is: seconds since the start when it was posted, and its likes'."""
    return posted + int(DECADE_S * math.log(max(likes, 1)) / math.log(10) + 0.5)


def shown_rank(heat: int, interest: int, followed: bool) -> int:
    """Return what ranks a post for a citizen; an interest is 0 … 1000."""
    return heat + INTEREST_S * interest // 1000 + (FOLLOWED_S if followed else 0)


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


class Feed(Service):
    """Takes posts, follows and likes, and shows each citizen the posts that rank highest.

    Args:
        id: by which messages reach it
        most: how many posts it keeps; the oldest go

    Attributes:
        posts: the posts by number
        follows: whom each citizen follows
    """

    takes: ClassVar[tuple[type[Want], ...]] = (Follow, Post, Like)

    def __init__(self, id: str = "feed", most: int = 10_000) -> None:
        super().__init__(id)
        if type(most) is not int or most < 1:
            raise ConfigError(f"feed {id!r}: most= must be 1 or more, got {most!r:.40}")
        self.most = most
        self.posts: dict[int, Posted] = {}
        self.follows: dict[str, dict[str, None]] = {}
        self._next = 1
        self._hottest: list[Posted] | None = None
        self._by_author: dict[str, deque[int]] = {}

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Publish a post, follow a citizen, or like a post."""
        if type(want) is Post:
            return self._publish(sender, want, books.step * books.seconds)
        if type(want) is Follow:
            if want.id == sender or want.id not in books.where:
                who = "itself" if want.id == sender else f"{want.id!r:.80}, who is no citizen"
                return Answer(want, False, f"{sender} cannot follow {who}")
            self.follows.setdefault(sender, {})[want.id] = None
            return Answer(want, True)
        assert type(want) is Like
        post = self.posts.get(want.post) if type(want.post) is int else None
        if post is None:
            return Answer(want, False, f"there is no post {want.post!r:.40}, or no longer")
        if post.author == sender or sender in post.liked:
            return Answer(want, False, f"post {post.number} is its own, or was liked before")
        post.liked[sender] = None
        post.heat = heat(len(post.liked), post.posted)
        self._hottest = None
        return Answer(want, True, value=len(post.liked))

    def _publish(self, sender: str, want: Post, now: int) -> Answer:
        if not isinstance(want.text, str) or not 0 < len(want.text) <= LONGEST:
            return Answer(want, False, f"a post has 1 to {LONGEST} characters")
        self._keep(Posted(self._next, sender, want.text, want.topic, now, {}, heat(0, now)))
        self._next += 1
        self._hottest = None
        return Answer(want, True, value=self._next - 1)

    def _keep(self, post: Posted) -> None:
        self.posts[post.number] = post
        self._by_author.setdefault(post.author, deque(maxlen=_OF_AN_AUTHOR)).append(post.number)
        if len(self.posts) > self.most:
            del self.posts[next(iter(self.posts))]

    def shown(
        self, id: str, interests: Mapping[str, int] | None = None, limit: int = 10
    ) -> list[Posted]:
        """Return the posts that rank highest for a citizen, the best first.

        They are chosen from the 50 hottest of all and the last three of each of up to 50 authors
        whom the citizen follows; its own are not among them. Of equal ones the newer is first.

        Args:
            id: the citizen
            interests: how much each topic interests it, 0 … 1000
            limit: at most so many
        """
        if self._hottest is None:
            self._hottest = heapq.nlargest(
                _HOTTEST, self.posts.values(), key=lambda post: (post.heat, post.number)
            )
        interests = interests or {}
        follows = self.follows.get(id, {})
        found = {post.number: post for post in self._hottest}
        for author, _ in zip(reversed(follows), range(_AUTHORS), strict=False):
            for number in self._by_author.get(author, ()):
                if number in self.posts:
                    found[number] = self.posts[number]
        return heapq.nlargest(
            limit,
            (post for post in found.values() if post.author != id),
            key=lambda post: (
                shown_rank(post.heat, interests.get(post.topic, 0), post.author in follows),
                post.number,
            ),
        )

    def state_dict(self) -> dict[str, Any]:
        """The posts and who follows whom."""
        return {
            "next": self._next,
            "posts": [
                [post.number, post.author, post.text, post.topic, post.posted, list(post.liked)]
                for post in self.posts.values()
            ],
            "follows": {id: list(whom) for id, whom in self.follows.items()},
        }

    def load_state_dict(self, given: dict[str, Any]) -> None:
        """Go on where another was."""
        self.posts, self._by_author, self._hottest = {}, {}, None
        for number, author, text, topic, posted, liked in given["posts"]:
            hot = heat(len(liked), posted)
            self._keep(Posted(number, author, text, topic, posted, dict.fromkeys(liked), hot))
        self._next = given["next"]
        self.follows = {id: dict.fromkeys(whom) for id, whom in given["follows"].items()}
