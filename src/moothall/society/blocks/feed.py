"""The block of the feed: a citizen reads the posts shown, posts, likes and follows."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from moothall.actions import action
from moothall.actions.signature.schema import object_schema
from moothall.agents.params import BlockParams
from moothall.society.arrays import np, smaller
from moothall.society.blocks.columns import code
from moothall.society.blocks.talk import TalkBlock, TalkParams, message_text
from moothall.society.blocks.ties import Ties, code_of
from moothall.society.columns.rows import Rows
from moothall.society.kernel.draw import belows
from moothall.society.kernel.wants import Follow, Like, Post
from moothall.society.services.feed import LONGEST, Feed


def likes(interest: Any, relation: Any, likes_of_1000: int) -> Any:
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

    def shown(self) -> list[Any]:
        """Return the posts that the feed shows the citizen, the best first."""
        shown = list(self.perceived.feed)
        services = getattr(self.agent.space, "services", None) or {}
        feed = services.get("feed")
        if not shown and feed is not None:
            shown = feed.shown(str(self.agent.id), self.interests, self.params.shown)
        return shown[: self.params.shown]

    async def forward(self) -> int:
        """Read the feed once; return the number of posts shown."""
        self.act("leisure" if self.too_young else "browse")
        if self.too_young:
            return 0
        shown = self.shown()
        if await self._by_model(shown):
            return len(shown)
        draws, params = self.draws, self.params
        interests, relations = self.interests, self.status.get("relations", {})
        me = str(self.agent.id)
        for each in shown:
            odds = likes(interests.get(each.topic, 0), relations.get(each.author, 0), params.likes)
            if me in each.liked or draws.below(1000, "feed.like", each.number) >= odds:
                continue
            self.want(Like(each.number))
            if draws.below(1000, "feed.follow", each.number) < params.follows:
                self.want(Follow(each.author))
        if draws.below(1000, "feed.post") < params.posts and interests:
            topics = list(interests)
            topic = topics[draws.choice([interests[each] + 1 for each in topics], "feed.topic")]
            greeting = draws.below(4, "feed.greeting")
            self.want(Post(message_text(greeting, topic, self.opinion(topic)), topic))
        return len(shown)

    # -- in columns --------------------------------------------------------------------------------

    def step_rows(self, rows: Rows) -> None:
        """Do `forward` for rows."""
        params, population, index = self.params, rows.population, rows.at
        arrays = population.arrays
        young = self.young_rows(rows)
        rows["act"] = np.where(young, code("leisure"), code("browse")).astype(np.uint8)
        interest = np.zeros((len(rows), len(params.topics) + 1), np.int32)
        used = 0  # slots in use
        while used < len(params.topics):
            topic = arrays["interest_topic"][:, used][index]
            some = np.flatnonzero(topic >= 0)
            if not len(some):
                break
            interest[some, topic[some]] = arrays["interest"][:, used][index[some]]
            used += 1
        feed = rows.moment.feed
        if feed is not None and feed.rows is not None:
            self._react_rows(rows, feed, interest, young)
        posts = ~young & (rows.below(1000, "feed.post") < params.posts)
        some = np.flatnonzero(posts)
        some = some[arrays["interest_topic"][index[some], 0] >= 0]
        if len(some):
            topics = arrays["interest_topic"][index[some], :used]
            weights = arrays["interest"][index[some], :used].astype(np.int64) + 1
            weights = np.cumsum(np.where(topics >= 0, weights, 0), 1)
            at = (population.seed, rows.ids[some], rows.step)
            share = belows(weights[:, -1], *at, "feed.topic")
            topic = topics[np.arange(len(some)), (weights > share[:, None]).argmax(1)]
            topic = topic.astype(np.int64)
            opinion = self.opinion_rows(rows, topic, some)
            text = self.text_rows(rows, belows(4, *at, "feed.greeting"), topic, opinion)
            rows.want_each(Post, some, text=text, topic=self.word_rows(rows, topic))

    def _react_rows(self, rows: Rows, feed: Any, interest: Any, young: Any) -> None:
        """Like posts that the feed shows, and follow some of their authors."""
        params, kept = self.params, feed.rows
        if not len(kept.author):
            return
        width = interest.shape[1]
        about = self.topic_rows(rows)[np.maximum(kept.topic, -1)] % width  # the last: no topic
        shown = self._shown_rows(rows, feed, interest, about)
        number = shown.reshape(-1)
        place = np.maximum(number - kept.first, 0)
        at = np.broadcast_to(np.arange(len(rows))[:, None], shown.shape).reshape(-1)
        chance = interest.reshape(-1).take(at * width + about.take(place))
        close: Any = 0
        if "friends" in rows.population.arrays:
            codes = code_of(kept.author).astype(np.int32).take(place) * (number > 0)
            close = Ties(rows).strength(codes.reshape(shown.shape)).reshape(-1)
        chance = likes(chance, close, params.likes)
        may = np.flatnonzero((chance > 0) & (number > 0) & ~young[at])
        at, number, author, chance = at[may], number[may], kept.author[place[may]], chance[may]

        def drawn(purpose: str) -> Any:
            return belows(1000, rows.population.seed, rows.ids[at], rows.step, purpose, draw=number)

        likes_it = np.flatnonzero(drawn("feed.like") < chance)
        likes_it = likes_it[~kept.liked(number[likes_it], rows.index[at[likes_it]])]
        at, number, author = at[likes_it], number[likes_it], author[likes_it]
        rows.want_each(Like, at, post=number)
        follows = np.flatnonzero(drawn("feed.follow") < params.follows)
        rows.want_each(Follow, at[follows], id=author[follows])

    def _shown_rows(self, rows: Rows, feed: Any, interest: Any, about: Any) -> Any:
        """Return the numbers of the posts shown to each row, the best first; 0 for none."""
        limit = self.params.shown
        if type(feed).shown is Feed.shown:
            rows.once("feed.hottest", feed.rows.hottest)
            return feed.rows.shown(rows.index, interest, about, limit)
        shown = np.zeros((len(rows), limit), np.int64)  # a subclass with its own ranking
        for at, row in enumerate(rows.index.tolist()):
            status: dict[str, Any] = {}
            self.to_status(rows.population, row - rows.population.base, status)
            own = status["profile"]["interests"]
            found = feed.shown(rows.population.id_of(row), own, limit)[:limit]
            shown[at, : len(found)] = [each.number for each in found]
        return shown

    # -- as a full agent ---------------------------------------------------------------------------

    async def _by_model(self, shown: list[Any]) -> bool:
        """Let the model decide; return whether it did."""
        if self.llm is None:
            return False
        liked = {"enum": [each.number for each in shown] or [0], "title": "the number of a post"}
        authors = sorted({each.author for each in shown})
        answer = await self.decide(
            "You read the feed. Say which posts you like, whom you follow, and what you post "
            "yourself (an empty text for nothing).",
            object_schema(
                like={"type": "array", "items": liked},
                follow={
                    "type": "array",
                    "items": {"enum": authors or [""], "title": "the id of an author"},
                },
                post={"type": "string", "maxLength": LONGEST},
                topic={"type": "string", "maxLength": 80},
            ),
            posts=[each.of(self.perceived.label(each.author)) for each in shown],
        )
        if answer is None:
            return False
        for number in dict.fromkeys(answer["like"] if shown else ()):
            self.want(Like(number))
        for author in dict.fromkeys(answer["follow"] if shown else ()):
            self.want(Follow(author))
        if answer["post"]:
            self.want(Post(answer["post"], answer["topic"]))
        return True

    @action
    async def post(self, text: str, topic: str = "") -> None:
        """Publish a post.

        Args:
            text: what it says, at most 280 characters
            topic: what it is about
        """
        self.want(Post(text, topic))

    @action
    async def like(self, post: int) -> None:
        """Like a post.

        Args:
            post: the post's number
        """
        self.want(Like(post))

    @action
    async def follow(self, id: str) -> None:
        """Follow a citizen.

        Args:
            id: the citizen's id
        """
        self.want(Follow(id))
