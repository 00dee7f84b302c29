"""The feed: posts, follows and likes, and the ranking of posts for each citizen.

A post's rank starts with its heat, as Reddit ranks (Salihefendic 2010, "How Reddit ranking
algorithms work") and OASIS simulates Reddit (Yang et al. 2024, arXiv:2411.11581): its time, plus
log10 of its likes, where ten times the likes weigh as much as 45,000 s. Two terms of OASIS's feed
modelled on X are added: the citizen's interest in the topic, and whether the citizen follows the
author (posts "in network" and "out of network"). All terms are in seconds of recency, so their sum
is the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from moothall.build import check_integer
from moothall.society.arrays import Array, np
from moothall.society.columns.register import Register, empty_register
from moothall.society.columns.want_table import Table
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.kept import sets_own
from moothall.society.kernel.wants import Answer, Follow, Like, Post, Unfollow, Want
from moothall.society.services.feed_rows import RowFeed
from moothall.society.services.posts import Posted

MAX_POST: Final = 280  # the characters of a post at most


def _publish(feed: RowFeed, now: int, sender: Array, want: Any) -> tuple[Array, Array]:
    text, topic = want["text"], want["topic"]
    length = feed.length(text)
    done = (length > 0) & (length <= MAX_POST)
    value = done.astype(np.int64)
    value[done] = feed.publish(sender[done], text[done], topic[done], now)
    return done, value


def _follow(feed: RowFeed, now: int, sender: Array, want: Any) -> tuple[Array, Array | None]:
    followed = want["id"]
    done = (followed >= 0) & (followed != sender)
    feed.follow(sender[done], followed[done])
    return done, None


_RULES: Final[dict[type[Want], tuple[Callable[..., tuple[Array, Array | None]], str]]] = {
    Follow: (_follow, "{by} cannot follow {want.id!r:.80}, who is not a citizen or is itself"),
    Unfollow: (
        lambda feed, _, by, want: (feed.follows.remove(feed.list_index(by), want["id"]), None),
        "{by} does not follow {want.id!r:.80}",
    ),
    Post: (_publish, f"a post has 1 to {MAX_POST} characters"),
    Like: (
        lambda feed, _, by, want: feed.like(by, want["post"]),
        "there is no post {want.post!r:.40}, or it is its own, or was liked before",
    ),
}
"""How each kind is settled, of senders and fields in arrays, and why a want is refused."""


class Feed(Service):
    """Takes posts, follows and likes, and shows each citizen the highest-ranked posts.

    Args:
        id: the id that messages to the feed name
        most: the number of posts kept; older ones are dropped

    Attributes:
        rows: the arrays of the feed if a population uses it, else None
    """

    takes: ClassVar[tuple[type[Want], ...]] = tuple(_RULES)

    @sets_own
    def __init__(self, id: str = "feed", most: int = 10_000) -> None:
        super().__init__(id)
        check_integer(f"feed {id!r}: most=", most, 1, None)
        self.most = most
        self.rows: RowFeed | None = None
        self._posts = RowFeed(empty_register(), most)

    def of_population(self, population: Register) -> None:
        """Store a population's posts, likes and follows in arrays."""
        self._posts = self.rows = RowFeed(population, self.most)

    @property
    def posts(self) -> Mapping[int, Posted]:
        """The posts by number."""
        return self._posts.posts()

    @property
    def follows(self) -> Mapping[str, Mapping[str, None]]:
        """The ids that each citizen follows."""
        return {id: dict.fromkeys(authors) for id, authors in self._posts.follows_by_id().items()}

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Settle a want, as `settle_rows` does those of many."""
        posts, (rule, refusal) = self._posts, _RULES[type(want)]
        senders, fields = posts.numbers((sender,)), posts.encode(want, books.where)
        (done,), value = rule(posts, books.clock.elapsed, senders, fields)
        if done:
            return Answer(want, True, value=None if value is None else value.item(0))
        posts.forget(fields)
        return Answer(want, False, refusal.format(by=sender, want=want))

    def settle_rows(self, books: Any, table: Table, entries: Array) -> None:
        """Settle the wants of many citizens of a population."""
        fields = {name: values[entries] for name, values in table.fields.items()}
        rule, now = _RULES[table.kind][0], books.clock.elapsed
        table.done(entries, *rule(self._posts, now, table.sender[entries], fields))

    def shown(
        self, id: str, interests: Mapping[str, int] | None = None, limit: int = 10
    ) -> list[Posted]:
        """Return the highest-ranked posts for a citizen, the best first.

        The candidates are the 50 hottest posts and the last three posts of each of up to 50 authors
        whom the citizen follows, without its own posts. Of equal ranks the newer is first.

        Args:
            id: the citizen's id
            interests: the citizen's interest in each topic, 0 … 1000
            limit: the number of posts at most
        """
        return self._posts.shown_to(id, interests or {}, limit)

    def state_dict(self) -> dict[str, Any]:
        """Return the posts and the follows; of a post, who liked it in order of id."""
        return self._posts.state()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore a state of `state_dict`."""
        self._posts.load(state)
