"""The feed: posts, follows and likes, and the ranking of posts for each citizen.

A post's rank starts with its heat, as Reddit ranks (Salihefendic 2010, "How Reddit ranking
algorithms work") and OASIS simulates Reddit (Yang et al. 2024, arXiv:2411.11581): its time, plus
log10 of its likes, where ten times the likes weigh as much as 45,000 s. Two terms of OASIS's feed
modelled on X are added: the citizen's interest in the topic, and whether the citizen follows the
author (posts "in network" and "out of network"). All terms are in seconds of recency, so their sum
is the rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from moothall.foundation.arguments import check_integer
from moothall.society.arrays import np
from moothall.society.columns.register import Register
from moothall.society.kernel.commit import Books, Service
from moothall.society.kernel.wants import Answer, Follow, Like, Post, Want, id_order
from moothall.society.services.feed_rows import RowFeed
from moothall.society.services.posts import Posted

LONGEST: Final = 280  # the characters of a post at most


class Feed(Service):
    """Takes posts, follows and likes, and shows each citizen the highest-ranked posts.

    Args:
        id: the id that messages to the feed name
        most: the number of posts kept; older ones are dropped

    Attributes:
        rows: the arrays of the feed if a population uses it, else None
    """

    takes: ClassVar[tuple[type[Want], ...]] = (Follow, Post, Like)

    def __init__(self, id: str = "feed", most: int = 10_000) -> None:
        super().__init__(id)
        check_integer(f"feed {id!r}: most=", most, 1, None)
        self.most = most
        self.rows: RowFeed | None = None
        self._posts = RowFeed(Register(np.zeros(0, np.uint64), None, (), 0, None), most)

    def of_population(self, population: Any) -> None:
        """Store a population's posts, likes and follows in arrays."""
        self._posts = self.rows = RowFeed(population, self.most)

    @property
    def posts(self) -> Mapping[int, Posted]:
        """The posts by number."""
        return self._posts.posts()

    @property
    def follows(self) -> Mapping[str, Mapping[str, None]]:
        """The ids that each citizen follows."""
        return {id: dict.fromkeys(whom) for id, whom in self._posts.followed().items()}

    def settle(self, books: Books, sender: str, want: Want) -> Answer:
        """Publish a post, follow a citizen, or like a post."""
        if type(want) is Post:
            if not isinstance(want.text, str) or not 0 < len(want.text) <= LONGEST:
                return Answer(want, False, f"a post has 1 to {LONGEST} characters")
            value = self._posts.publish_one(sender, want, books.clock.elapsed)
            return Answer(want, True, value=value)
        if type(want) is Follow:
            if want.id == sender or want.id not in books.where:
                target = "itself" if want.id == sender else f"{want.id!r:.80}, who is not a citizen"
                return Answer(want, False, f"{sender} cannot follow {target}")
            self._posts.follow_one(sender, want.id)
            return Answer(want, True)
        assert type(want) is Like
        posts = self._posts
        if type(want.post) is not int or not posts.first <= want.post < posts.next:
            return Answer(want, False, f"there is no post {want.post!r:.40}, or no longer")
        likes = posts.like_one(sender, want.post)
        reason = "" if likes else f"post {want.post} is its own, or was liked before"
        return Answer(want, not reason, reason, likes or None)

    def settle_rows(self, books: Any, table: Any, entries: Any) -> None:
        """Do `settle` for many citizens of a population."""
        rows: Any = self.rows
        sender = table.sender[entries]
        if table.kind is Post:
            text, topic = (table.fields[name][entries] for name in ("text", "topic"))
            done = (text >= 0) & (rows.lengths[text] > 0) & (rows.lengths[text] <= LONGEST)
            value = done.astype(sender.dtype)
            value[done] = rows.publish(sender[done], text[done], topic[done], books.clock.elapsed)
        elif table.kind is Follow:
            whom = table.fields["id"][entries]
            done, value = (whom >= 0) & (whom != sender), 0
            rows.follow(sender[done], whom[done])
        else:
            done, value = rows.like(sender, table.fields["post"][entries])
        table.done(entries, done, value)

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
        follows = self.follows
        return {
            "next": self._posts.next,
            "posts": [
                [
                    *(post.number, post.author, post.text, post.topic, post.posted),
                    sorted(post.liked, key=id_order),
                ]
                for post in self.posts.values()
            ],
            "follows": {id: list(follows[id]) for id in sorted(follows, key=id_order)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self._posts.load(state)
