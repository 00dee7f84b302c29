"""The block of the feed: a citizen reads the posts shown, posts, likes and follows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Final

from pydantic import Field

from moothall import BlockParams
from moothall.build import object_schema
from moothall.society.arrays import Array, Numbers, WholeNumber, any_of, np, smaller
from moothall.society.blocks.columns import ACTS, act_code
from moothall.society.blocks.talk_block import TalkBlock, TalkParams
from moothall.society.blocks.ties import Ties, code_of
from moothall.society.columns.rows import Rows
from moothall.society.columns.turn_row import Row
from moothall.society.kernel.wants import Follow, Like, Post, Want
from moothall.society.services.feed import MAX_POST, Feed

_READER_ACTS: Final = Numbers(map(act_code, ("browse", "leisure")), "uint8")
"""The act of who reads the feed, and of who is too young to."""


def like_odds(interest: WholeNumber, relation: WholeNumber, likes_of_1000: int) -> Any:
    """Return the thousandths of a chance to like a post, of interest and relation of 0 … 1000."""
    return smaller(1000, likes_of_1000 * (interest + relation) // 1000)


class FeedBlockParams(TalkParams):
    """How a citizen uses the feed."""

    shown: int = Field(default=5, ge=1, le=100, description="posts read at a time")
    posts: int = Field(default=100, ge=0, le=1000, description="posts itself, of a thousand")
    likes: int = Field(default=500, ge=0, le=1000, description="likes, of a thousand")
    youngest: int = Field(default=13, ge=0, le=150, description="the age from which on it reads")
    follows: int = Field(default=200, ge=0, le=1000, description="follows, of a thousand")


class FeedBlock(TalkBlock):
    """Reads the feed, posts, likes, and follows authors whose posts it likes.

    These are the acts of OASIS's users (Yang et al. 2024, arXiv:2411.11581), and the feed ranks
    posts by heat and interest as there (`services/feed.py`). By rule, the probability of a like
    grows with the citizen's interest in the topic and with its relation to the author (homophily:
    McPherson, Smith-Lovin, Cook 2001, "Birds of a feather"), and it follows some liked authors. The
    frequencies are assumed. With a model, the model's answer says what the citizen posts, likes and
    follows. Without a feed, no posts are shown or accepted. Who is younger than `youngest` is
    at leisure instead: services are for those of 13 and older (Children's Online Privacy Protection
    Act of 1998).
    """

    description = "Reads the feed, posts, likes and follows"
    actions: dict[str, str] = {"browse": "Read the feed, and react to it"}  # noqa: RUF012
    ParamsType: ClassVar[type[BlockParams]] = FeedBlockParams
    params: FeedBlockParams
    does: ClassVar[tuple[str, ...]] = ("browse",)
    want_actions: ClassVar[tuple[type[Want], ...]] = Feed.takes

    def shown(self) -> list[Any]:
        """Return the posts that the feed shows the citizen, the best first."""
        posts = list(self.perceived.feed)
        services = getattr(self.agent.space, "services", None) or {}
        feed = services.get("feed")
        if not posts and feed is not None:
            posts = feed.shown(str(self.agent.id), self.interests, self.params.shown)
        return posts[: self.params.shown]

    async def forward(self) -> Any:
        """Read the feed once; return the act of this step."""
        row = self.own_row()
        if self.too_young or not await self._decide_by_model():
            self.step_rows(row)
        else:
            row["act"] = act_code("browse")
        return ACTS[row["act"]]

    def step_rows(self, rows: Rows) -> None:
        """Let those who are old enough read the feed, like, follow and post."""
        is_young = self.is_young(rows)
        rows["act"] = _READER_ACTS[is_young + 0]
        for readers in rows.only(is_young != True):  # noqa: E712 - of arrays, too
            topics = self.topics(readers)
            self._react(readers, topics)
            posts = readers.below(1000, "feed.post") < self.params.posts
            for authors in readers.only(topics.has_any & posts):
                topics = self.topics(authors)
                topic = topics.draw_topic("feed.topic")
                text = topics.message(authors.below(4, "feed.greeting"), topic)
                authors.want(Post, text=text, topic=topics.word(topic))

    def _react(self, rows: Rows, topics: Any) -> None:
        """Like posts that the feed shows, and follow some of their authors."""
        params = self.params
        shown_posts = (
            self._read_by_one(rows) if isinstance(rows, Row) else _read_by_rows(self, rows, topics)
        )
        for readers, number, author, odds, unliked in shown_posts:
            liked = unliked(readers.below(1000, "feed.like", number) < odds)
            if any_of(liked):
                readers.want(Like, liked, post=number)
                follows = liked & (readers.below(1000, "feed.follow", number) < params.follows)
                readers.want(Follow, follows, id=author)

    def _read_by_one(self, row: Row) -> Iterator[tuple[Any, ...]]:
        """Yield of each post shown its reader, number, author, and odds to like it.

        And a function that leaves of those who would like a post who has not liked it before.
        """
        relations, me = self.status.get("relations") or {}, str(self.agent.id)
        interests = self.interests
        for post in self.shown():
            relation = relations.get(post.author, 0)
            odds = like_odds(interests.get(post.topic, 0), relation, self.params.likes)
            yield row, post.number, post.author, odds, partial(_unliked, post, me)

    # -- as a full agent ---------------------------------------------------------------------------

    async def _decide_by_model(self) -> bool:
        """Let the model decide; return whether it did."""
        if self.llm is None:
            return False
        posts = self.shown()
        numbers = {"enum": [each.number for each in posts] or [0], "title": "the number of a post"}
        authors = sorted({each.author for each in posts})
        answer = await self.decide(
            "You read the feed. Say which posts you like, whom you follow, and what you post "
            "yourself (an empty text for nothing).",
            object_schema(
                like={"type": "array", "items": numbers},
                follow={
                    "type": "array",
                    "items": {"enum": authors or [""], "title": "the id of an author"},
                },
                post={"type": "string", "maxLength": MAX_POST},
                topic={"type": "string", "maxLength": 80},
            ),
            posts=[each.describe(self.perceived.label(each.author)) for each in posts],
        )
        if answer is None:
            return False
        for number in dict.fromkeys(answer["like"] if posts else ()):
            self.want(Like(number))
        for author in dict.fromkeys(answer["follow"] if posts else ()):
            self.want(Follow(author))
        if answer["post"]:
            self.want(Post(answer["post"], answer["topic"]))
        return True


# -- what a feed shows to rows ---------------------------------------------------------------------


def _unliked(post: Any, me: str, would_like: bool) -> bool:
    return would_like and me not in post.liked


def _read_by_rows(self: FeedBlock, rows: Rows, topics: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the same at once for all posts that rows may like, of each reader one after another."""
    feed = rows.moment.feed
    posts = None if feed is None else feed.rows
    if posts is None or not len(posts.author):
        return
    interests = topics.interests
    subject = topics.by_word[np.maximum(posts.topic, -1)] % interests.shape[1]  # the last: no topic
    numbers = _numbers_shown(self, rows, feed, interests, subject)
    index = np.maximum(numbers - posts.first, 0)
    interest = np.take_along_axis(interests, subject[index], axis=1)
    tie = np.zeros(numbers.shape, np.int64)
    if "friends" in rows.population.arrays:
        tie = Ties(rows).strength_to(code_of(posts.author).astype(np.int32)[index] * (numbers > 0))
    odds = like_odds(interest, tie, self.params.likes) * (numbers > 0)
    likeable = np.nonzero(odds)
    for readers in rows.some(likeable[0]):
        number = numbers[likeable]

        def unliked(would_like: Array, readers: Rows = readers, number: Array = number) -> Array:
            positions = would_like.nonzero()[0]
            would_like[positions] = ~posts.liked(number[positions], readers.index[positions])
            return would_like

        yield readers, number, posts.author[index[likeable]], odds[likeable], unliked


def _numbers_shown(self: FeedBlock, rows: Rows, feed: Any, interest: object, topic: object) -> Any:
    """Return the numbers of the posts shown to each row, the best first; 0 for none."""
    limit = self.params.shown
    if type(feed).shown is Feed.shown:
        rows.once("feed.hottest", feed.rows.hottest)
        return feed.rows.shown_rows(rows.index, interest, topic, limit)
    numbers = np.zeros((len(rows), limit), np.int64)  # a subclass with its own ranking
    for position, row in enumerate(rows.index.tolist()):
        status: dict[str, Any] = {}
        self.to_status(rows.population, row - rows.population.base, status)
        interests = status["profile"]["interests"]
        posts = feed.shown(rows.population.id_of(row), interests, limit)[:limit]
        numbers[position, : len(posts)] = [each.number for each in posts]
    return numbers
