"""A feed that a population uses: posts, likes, follows, what is shown; the same as one by one."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.society.population.pairs import CITY, Todo, all_equal, lived
from tests.society.population.test_social_rows import people

from moothall import Society
from moothall.society import CitizenAgent, Column, LocalEngine, Pay, RowBlock, Rows
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.blocks.feed import FeedBlock, FeedBlockParams
from moothall.society.blocks.social import SocialBlock, SocialBlockParams
from moothall.society.blocks.talk_block import TOPICS
from moothall.society.clock import Clock
from moothall.society.columns.lists import Lists
from moothall.society.kernel.commit import Books, Submission
from moothall.society.kernel.wants import Follow, Like, Post, Unfollow, id_order
from moothall.society.population.population import Population
from moothall.society.population.row_books import RowBooks
from moothall.society.services.feed import Feed

CITIZENS = 8
QUICK = settings(deadline=None, phases=[Phase.explicit, Phase.generate])
WORDS = FeedBlock().words
wants = st.one_of(
    st.builds(
        Post,
        st.sampled_from([*WORDS[8:12], "free", "", "x" * 281]),
        st.sampled_from([*TOPICS[:2], "", "chess"]),
    ),
    st.builds(Follow, st.sampled_from(["1", "2", "3", "8", "9", "mayor", "bank"])),
    st.builds(Unfollow, st.sampled_from(["1", "2", "3", "8", "9", "mayor", "bank"])),
    st.builds(Like, st.integers(-1, 30)),
)
steps = st.lists(
    st.lists(st.tuples(st.sampled_from([*"12345678", "mayor", "0"]), wants), max_size=20),
    max_size=12,
)


def fed(given: list[Any], most: int, bulk: int, gap: int, in_rows: bool) -> list[Any]:
    """What was answered and is kept after each step, and what each is shown."""
    feed = Feed(most=most)
    population = Population(CITIZENS, None, [FeedBlock()])
    books: Books
    if in_rows:
        population.services = ["feed"]
        books = RowBooks(None, {"feed": feed}, population)
    else:
        books = RowBooks(None, {"feed": feed})
        for row in range(CITIZENS):
            books.enter(CitizenAgent(row + 1))
    seen = []
    for number in range(bulk):
        id = str(1 + number % 5)
        books.settle([Submission(id, Post(WORDS[8 + number % 9], "art"), 0)])
    for step, wanted in enumerate(given):
        books.clock = Clock(index=gap * step)
        # What rows cannot want is settled after what they do: it is asked for apart.
        parts = [[each for each in enumerate(wanted) if _of_rows(each[1])]]
        parts += [[each] for each in enumerate(wanted) if not _of_rows(each[1])]
        answers = {}
        for part in parts:
            made = [Submission(id, want, number) for number, (id, want) in part]
            answers.update({n: (a.done, a.value or 0) for n, a in books.settle(made)})
        state = json.loads(json.dumps(feed.state_dict()))
        for post in state["posts"]:
            post[5].sort(key=id_order)
        state["follows"] = {id: whom for id, whom in state["follows"].items() if whom}
        interests: dict[str, int] = {"art": 1000, "food": 333}
        shown = {
            id: [str(post) for post in feed.shown(id, interests, limit)]
            for id in ("1", "3", "mayor")
            for limit in (1, 5, 100)
        }
        seen.append((sorted(answers.items()), state, shown))
        if in_rows:
            again = Feed(most=most)
            again.of_population(population)
            for _ in range(2):  # into an empty feed, and in place of what is there
                again.load_state_dict(json.loads(json.dumps(feed.state_dict())))
            assert again.state_dict() == feed.state_dict()
            assert again.rows is not None
            interest = np.zeros((CITIZENS, 3), np.int64)
            interest[:, :2] = 1000, 333
            about = np.array([("art", "food", w).index(w) for w in [*population.words, ""]])
            about[about == 2] = -1
            about = about[np.maximum(again.rows.topic, -1)]
            for limit in (1, 5, 100):
                found = again.rows.shown_rows(np.arange(CITIZENS), interest, about, limit)
                liked = again.rows.liked(found, np.arange(CITIZENS)[:, None])
                for row in (0, 2):
                    posts = feed.shown(str(row + 1), interests, limit)
                    numbers = [each for each in found[row].tolist() if each]
                    assert numbers == [each.number for each in posts]
                    assert liked[row, : len(posts)].tolist() == [
                        str(row + 1) in each.liked for each in posts
                    ]
    return seen


def _of_rows(wanted: tuple[str, Any]) -> bool:
    id, want = wanted
    known = not isinstance(want, Post) or {want.text, want.topic} <= {*WORDS, ""}
    return known and id in "12345678"


STRANGERS = [(f"s{number}", Follow("1")) for number in range(20)]


@example([[("1", Follow("8"))]], 100, 0, 40)  # and nobody has posted yet
@example([STRANGERS, [("1", Post(WORDS[8])), ("s3", Follow("2")), ("s19", Like(1))]], 100, 0, 40)
@given(steps, st.sampled_from([1, 3, 100]), st.sampled_from([0, 55]), st.sampled_from([40, 40_000]))
@settings(QUICK, max_examples=10)
def test_feed_keeps_the_same_in_arrays(given: list[Any], most: int, bulk: int, gap: int) -> None:
    both = (fed(given, most, bulk, gap, in_rows) for in_rows in (True, False))
    for rows, one_by_one in zip(*both, strict=True):
        for found, expected in zip(rows, one_by_one, strict=True):
            assert found == expected


@pytest.mark.parametrize("in_rows", (True, False))
def test_beyond_the_hottest_the_last_50_authors_one_followed_are_shown(in_rows: bool) -> None:
    feed, population = Feed(), Population(60, None, [FeedBlock()])
    books: Books
    if in_rows:
        population.services = ["feed"]
        books = RowBooks(None, {"feed": feed}, population)
    else:
        books = RowBooks(None, {"feed": feed})
        for row in range(60):
            books.enter(CitizenAgent(row + 1))
    for author in (*range(2, 60), *[60] * 60):
        books.settle([Submission(str(author), Post(WORDS[8]), 0)])
    for author in range(59, 1, -1):
        books.settle([Submission("1", Follow(str(author)), 0)])
    shown = feed.shown("1", {}, 200)
    authors = [int(post.author) for post in shown]
    assert sorted(authors) == [*range(2, 52), *[60] * 50]
    if feed.rows is not None:
        about = np.full(len(population.words) + 1, -1)
        found = feed.rows.shown_rows(np.array([0]), np.zeros((1, 2), np.int64), about, 200)
        assert [each for each in found[0].tolist() if each] == [post.number for post in shown]


feeds = st.builds(
    FeedBlockParams,
    shown=st.sampled_from([1, 5, 60]),
    posts=st.sampled_from([0, 300, 1000]),
    likes=st.sampled_from([0, 500, 1000]),
    follows=st.sampled_from([0, 200, 1000]),
)


class Browsing(Todo):
    """Most of the time it reads the feed."""

    does = ("browse", "browse", "social")


class Chronological(Feed):
    """Shows the last posts of all."""

    def shown(self, id: str, interests: Any = None, limit: int = 10) -> list[Any]:
        return [post for _, post in sorted(self.posts.items(), reverse=True)][:limit]


def feed(people: list[dict[str, Any]], params: FeedBlockParams, make_feed: Any) -> Any:
    def make() -> tuple[Population, list[Any]]:
        home = np.array([each["place"] for each in people], np.int32)
        social = SocialBlock(block_params=SocialBlockParams(friends=4))
        made = Population(
            {"money": np.zeros(len(people), np.int64), "home": home},
            CITY,
            [Browsing(), social, FeedBlock(block_params=params)],
            seed=5,
        )
        for row, each in enumerate(people):
            known = {id: s for id, s in each["relations"].items() if int(id) <= len(people)}
            made.pull(row, {**each, "relations": known})
        return made, [] if make_feed is None else [make_feed(most=25)]

    return make


FAINT = {
    "relations": {},
    "opinions": {},
    "profile": {"interests": {TOPICS[0]: 0, TOPICS[1]: 2}},
    "place": 0,
}


@pytest.mark.long
@given(people, feeds, st.sampled_from([Feed, Feed, Chronological, None]))
@example([FAINT] * 6, FeedBlockParams(posts=1000), Feed)
@settings(QUICK, max_examples=3)
def test_reading_liking_following_and_posting_are_the_same(
    people: list[dict[str, Any]], params: FeedBlockParams, make_feed: Any
) -> None:
    asyncio.run(all_equal(feed(people, params, make_feed), 20))


async def test_feed_with_a_rule_of_its_own_is_told_what_interests() -> None:
    told: list[Any] = []

    class Own(Feed):
        def shown(self, id: str, interests: Any = None, limit: int = 10) -> list[Any]:
            told.append(dict(interests))
            return []

    interests = {TOPICS[0]: 700, TOPICS[1]: 300}
    person = {"relations": {}, "opinions": {}, "profile": {"interests": interests}, "place": 0}
    await lived(feed([person] * 6, FeedBlockParams(), lambda most: Own(most=most)), 20)
    assert told
    assert all(each == interests for each in told)


class Busy(RowBlock):
    """Pays more than some have, and likes the last post."""

    columns: ClassVar = {"liked": Column("int64")}

    def step_rows(self, rows: Rows) -> None:
        """Pay the next and like."""
        rows["liked"] += rows.answers(Like)[0] == 1
        rows.want(Pay, to=(rows.index + 1) % rows.citizens, cents=2)
        rows.want(Like, post=rows.step)


class Posts(CitizenBlock):
    """Posts in each step."""

    async def forward(self) -> None:
        """Post."""
        self.want(Post("again"))

    def fits(self, context: Any) -> float:
        """It fits always."""
        return 1.0


async def test_threads_like_after_full_agents_have_posted() -> None:
    """Of a feed that keeps one post, the post that is liked is gone in each step."""
    count = 30_000
    population = Population({"money": np.arange(count) % 3}, None, [Busy()])
    services, engine = [Feed(most=1)], LocalEngine(threads=2)
    async with Society(population, services=services, engine=engine) as society:
        population.promote(1, blocks=[Posts()])
        await society.run(steps=6)
    assert services[0].posts.keys() == {6}
    assert not population.columns["liked"].any()


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=7, unique=True),
        max_size=12,
    )
)
@settings(QUICK, max_examples=20)
def test_lists_keep_their_order_when_numbers_are_removed(
    parts: list[list[tuple[int, int]]],
) -> None:
    made, expected = Lists(3), [list[int](), [], []]
    for part in parts:
        new = [(at, number) for at, number in part if number not in expected[at]]
        made.append(np.array([at for at, _ in new], int), np.array([n for _, n in new], int))
        for at, number in new:
            expected[at].append(number)
        gone = [(at, 9 - number) for at, number in part]
        there = made.remove(np.array([at for at, _ in gone], int), np.array([n for _, n in gone]))
        assert there.tolist() == [number in expected[at] for at, number in gone]
        for at, number in gone:
            if number in expected[at]:
                expected[at].remove(number)
        made = made.extend(0)
        assert [made.numbers_of(at) for at in range(3)] == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=80))
@settings(QUICK, max_examples=20)
def test_lists_grow_in_their_order(given: list[tuple[int, int]]) -> None:
    made, expected = Lists(3), [[], [], []]
    for start in range(0, len(given), 7):
        part = given[start : start + 7]
        made.append(np.array([at for at, _ in part]), np.array([n for _, n in part]))
        for at, number in part:
            expected[at].append(number)
    assert [made.numbers_of(at) for at in range(3)] == expected
    assert made.contains(np.arange(3), np.array([7, 8, 9])).tolist() == [
        number in expected[at] for at, number in enumerate((7, 8, 9))
    ]
