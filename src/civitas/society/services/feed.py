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
from typing import Any, ClassVar, Final

from civitas.errors import ConfigError
from civitas.society.commit import Books, Service
from civitas.society.services.feed_rows import RowFeed
from civitas.society.services.posts import (
    AUTHORS,
    DECADE_S,
    FOLLOWED_S,
    HOTTEST,
    INTEREST_S,
    OF_AN_AUTHOR,
    Posted,
    heat,
    shown_rank,
)
from civitas.society.wants import Answer, Follow, Like, Post, Want

__all__ = [
    "DECADE_S",
    "FOLLOWED_S",
    "INTEREST_S",
    "LONGEST",
    "Feed",
    "Posted",
    "heat",
    "shown_rank",
]
LONGEST: Final = 280
"""So many characters a post has at most."""


class Feed(Service):
    """Takes posts, follows and likes, and shows each citizen the posts that rank highest.

    Args:
        id: by which messages reach it
        most: how many posts it keeps; the oldest go

    Attributes:
        rows: what it keeps where a population uses it, as arrays; else None
    """

    takes: ClassVar[tuple[type[Want], ...]] = (Follow, Post, Like)

    def __init__(self, id: str = "feed", most: int = 10_000) -> None:
        super().__init__(id)
        if type(most) is not int or most < 1:
            raise ConfigError(f"feed {id!r}: most= must be 1 or more, got {most!r:.40}")
        self.most = most
        self.rows: RowFeed | None = None
        self._posts: dict[int, Posted] = {}
        self._follows: dict[str, dict[str, None]] = {}
        self._next = 1
        self._hottest: list[Posted] | None = None
        self._by_author: dict[str, deque[int]] = {}

    def of_population(self, population: Any) -> None:
        """Keep what a population posts, likes and follows in arrays."""
        self.rows = RowFeed(population, self.most)

    @property
    def posts(self) -> Mapping[int, Posted]:
        """The posts by number."""
        return self._posts if self.rows is None else self.rows.posts()

    @property
    def follows(self) -> Mapping[str, Mapping[str, None]]:
        """Whom each citizen follows."""
        if self.rows is None:
            return self._follows
        return {id: dict.fromkeys(whom) for id, whom in self.rows.followed().items()}

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Publish a post, follow a citizen, or like a post."""
        if type(want) is Post:
            return self._publish(sender, want, books.step * books.seconds)
        if type(want) is Follow:
            if want.id == sender or want.id not in books.where:
                who = "itself" if want.id == sender else f"{want.id!r:.80}, who is no citizen"
                return Answer(want, False, f"{sender} cannot follow {who}")
            if self.rows is None:
                self._follows.setdefault(sender, {})[want.id] = None
            else:
                self.rows.follow_one(sender, want.id)
            return Answer(want, True)
        assert type(want) is Like
        post = self._post(want.post) if type(want.post) is int else None
        if post is None:
            return Answer(want, False, f"there is no post {want.post!r:.40}, or no longer")
        if post.author == sender or sender in post.liked:
            return Answer(want, False, f"post {post.number} is its own, or was liked before")
        if self.rows is not None:
            return Answer(want, True, value=self.rows.like_one(sender, want.post))
        post.liked[sender] = None  # type: ignore[index]
        post.heat = heat(len(post.liked), post.posted)
        self._hottest = None
        return Answer(want, True, value=len(post.liked))

    def settle_rows(self, books: Any, table: Any, entries: Any) -> None:
        """`settle` for many of a population."""
        rows: Any = self.rows
        sender = table.sender[entries]
        if table.kind is Post:
            text, topic = (table.fields[name][entries] for name in ("text", "topic"))
            done = rows.publishable(text, LONGEST)
            value = done.astype(sender.dtype)
            value[done] = rows.publish(
                sender[done], text[done], topic[done], books.step * books.seconds
            )
        elif table.kind is Follow:
            whom = table.fields["id"][entries]
            done, value = (whom >= 0) & (whom != sender), 0
            rows.follow(sender[done], whom[done])
        else:
            done, value = rows.like(sender, table.fields["post"][entries])
        table.done(entries, done, value)

    def _post(self, number: int) -> Posted | None:
        if self.rows is None:
            return self._posts.get(number)
        return self.rows.post(number) if self.rows.first <= number < self.rows.next else None

    def _publish(self, sender: str, want: Post, now: int) -> Answer:
        if not isinstance(want.text, str) or not 0 < len(want.text) <= LONGEST:
            return Answer(want, False, f"a post has 1 to {LONGEST} characters")
        if self.rows is not None:
            return Answer(want, True, value=self.rows.publish_one(sender, want, now))
        self._keep(Posted(self._next, sender, want.text, want.topic, now, {}, heat(0, now)))
        self._next += 1
        self._hottest = None
        return Answer(want, True, value=self._next - 1)

    def _keep(self, post: Posted) -> None:
        self._posts[post.number] = post
        self._by_author.setdefault(post.author, deque(maxlen=OF_AN_AUTHOR)).append(post.number)
        if len(self._posts) > self.most:
            del self._posts[next(iter(self._posts))]

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
        if self.rows is not None:
            return self.rows.shown_to(id, interests or {}, limit)
        if self._hottest is None:
            self._hottest = heapq.nlargest(
                HOTTEST, self._posts.values(), key=lambda post: (post.heat, post.number)
            )
        interests = interests or {}
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

    def state_dict(self) -> dict[str, Any]:
        """The posts and who follows whom."""
        return {
            "next": self._next if self.rows is None else self.rows.next,
            "posts": [
                [post.number, post.author, post.text, post.topic, post.posted, list(post.liked)]
                for post in self.posts.values()
            ],
            "follows": {id: list(whom) for id, whom in self.follows.items()},
        }

    def load_state_dict(self, given: dict[str, Any]) -> None:
        """Go on where another was."""
        if self.rows is not None:
            self.rows.load(given)
            return
        self._posts, self._by_author, self._hottest = {}, {}, None
        for number, author, text, topic, posted, liked in given["posts"]:
            hot = heat(len(liked), posted)
            self._keep(Posted(number, author, text, topic, posted, dict.fromkeys(liked), hot))
        self._next = given["next"]
        self._follows = {id: dict.fromkeys(whom) for id, whom in given["follows"].items()}
