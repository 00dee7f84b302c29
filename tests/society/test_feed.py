"""The feed: what is posted, liked and followed, and in which order it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import ConfigError
from moothall.society.clock import Clock
from moothall.society.kernel.citizen import CitizenAgent
from moothall.society.kernel.commit import Books, Submission
from moothall.society.kernel.wants import Answer, Follow, Like, Move, Post, Unfollow, Want
from moothall.society.population.row_books import RowBooks
from moothall.society.services.feed import Feed
from moothall.society.services.posts import DECADE_S, Posted, heat, shown_rank


def town(feed: Feed, citizens: int = 20) -> Books:
    made = RowBooks(None, {feed.id: feed})
    for number in range(1, citizens + 1):
        made.enter(CitizenAgent(number))
    return made


def do(made: Books, sender: str, want: Want) -> Answer:
    ((_, answer),) = made.settle([Submission(sender, want, None)])
    return answer


def shown(feed: Feed, id: str, interests: Any = None, limit: int = 10) -> list[int]:
    return [post.number for post in feed.shown(id, interests, limit)]


def test_ten_times_the_likes_weigh_as_much_as_12_and_a_half_hours() -> None:
    assert heat(0, 0) == heat(1, 0) == 0
    assert heat(10, 0) == DECADE_S
    assert heat(100, 0) == heat(10, DECADE_S) == heat(1, 2 * DECADE_S)
    # 45,000 times the decimal logarithm, rounded: of 2, 3, 5 and 7 likes.
    assert [heat(likes, 100) for likes in (2, 3, 5, 7)] == [13_646, 21_570, 31_554, 38_129]


def test_feed_reads_the_last_fifty_of_many_who_are_followed() -> None:
    feed = Feed()
    made = town(feed, citizens=60)
    for number in range(2, 54):
        do(made, str(number), Post(f"of {number}"))
        do(made, "1", Follow(str(number)))
    for _ in range(60):  # newer than all of these
        made.clock = made.clock.after()
        do(made, "60", Post("again"))
    followed = {post.author for post in feed.shown("1", limit=200)} - {"60"}
    assert followed == {str(number) for number in range(4, 54)}
    for number in range(10, 50):  # an old post that many like now is hot at once
        do(made, str(number), Like(1))
    assert shown(feed, "1", limit=1) == [1]


def test_interest_and_following_move_a_post_up() -> None:
    assert shown_rank(0, 1000, False) == shown_rank(0, 0, True) == 45_000
    assert shown_rank(7, 0, False) == 7
    assert (shown_rank(0, 1, False), shown_rank(100, 333, True)) == (45, 100 + 14_985 + 45_000)
    post = Posted(3, "2", "A song.", "music", 0, {"1": None})
    assert str(post) == "post 3 of 2 about music (1 likes): A song."
    assert str(Posted(4, "2", "Hello.", "", 0)) == "post 4 of 2 (0 likes): Hello."


def test_feed_shows_the_newest_first_and_likes_outweigh_age() -> None:
    feed = Feed()
    made = town(feed)
    for number in range(3):
        made.clock = Clock(index=number)
        assert do(made, "1", Post(f"post {number}")).value == number + 1
    assert shown(feed, "2") == [3, 2, 1]
    assert shown(feed, "1") == []  # one's own is not news
    for number in range(2, 12):
        assert do(made, str(number), Like(1)).value == number - 1
    assert shown(feed, "2", limit=2) == [1, 3]
    for number in range(2, 14):  # what was just liked or posted is shown at once
        do(made, str(number), Like(2))
    assert shown(feed, "3", limit=2) == [2, 1]
    made.clock = Clock(index=60)
    assert do(made, "1", Post("new")).done
    assert shown(feed, "3", limit=2) == [4, 2]


def test_feed_is_ones_own_by_interest_and_by_whom_one_follows() -> None:
    feed = Feed()
    made = town(feed)
    do(made, "1", Post("a song", "music"))
    do(made, "2", Post("a match", "sport"))
    assert shown(feed, "3", {"music": 1000})[0] == 1
    assert shown(feed, "3", {"sport": 1000})[0] == 2
    do(made, "4", Follow("1"))
    assert shown(feed, "4")[0] == 1


def test_feed_citizen_who_unfollows_is_shown_an_author_as_before() -> None:
    feed = Feed()
    made = town(feed)
    do(made, "1", Post("a song"))
    do(made, "2", Post("a match"))
    for whom in ("2", "1", "3"):
        do(made, "4", Follow(whom))
    assert do(made, "4", Unfollow("2")) == Answer(Unfollow("2"), True)
    assert list(feed.follows["4"]) == ["1", "3"]
    assert shown(feed, "4") == [1, 2]
    assert not do(made, "4", Unfollow("2")).done
    do(made, "4", Unfollow("1"))
    assert shown(feed, "4") == [2, 1]


def test_feed_finds_a_post_of_a_followed_author_among_very_many() -> None:
    feed = Feed()
    made = town(feed)
    do(made, "1", Post("quiet"))
    made.clock = Clock(index=100)
    for _ in range(200):
        do(made, "2", Post("loud"))
    assert shown(feed, "3", limit=100) == list(range(201, 151, -1))
    assert [post.number for post in feed.shown("3")] == list(range(201, 191, -1))
    for _ in range(2):
        do(made, "3", Follow("1"))
    assert shown(feed, "3", limit=100) == [*range(201, 151, -1), 1]
    made.clock = Clock(index=0)
    for _ in range(3):  # of an author's posts the last three are candidates
        do(made, "1", Post("quiet"))
    assert shown(feed, "3", limit=100)[-3:] == [204, 203, 202]
    assert shown(feed, "3", limit=100)[-4] > 4
    assert feed.follows == {"3": {"1": None}}


@pytest.mark.parametrize(
    ("want", "reason"),
    (
        (Like(1), "its own"),
        (Like(9), "no post 9"),
        (Like("1"), "no post '1'"),
        (Follow("1"), "itself"),
        (Follow("99"), "who is not a citizen"),
        (Unfollow("2"), "1 does not follow '2'"),
        (Post(""), "1 to 280"),
        (Post("x" * 281), "1 to 280"),
    ),
)
def test_feed_senseless_want_is_refused(want: Want, reason: str) -> None:
    feed = Feed()
    made = town(feed)
    do(made, "1", Post("hello"))
    answer = do(made, "1", want)
    assert not answer.done
    assert reason in answer.reason


def test_feed_post_is_liked_once_by_each() -> None:
    feed = Feed()
    made = town(feed)
    do(made, "1", Post("hello"))
    assert do(made, "2", Like(1)).done
    assert not do(made, "2", Like(1)).done
    assert list(feed.posts[1].liked) == ["2"]


def test_feed_keeps_only_the_last_posts_and_takes_a_state_over_whole() -> None:
    feed = Feed(most=3)
    made = town(feed)
    for number in range(5):
        do(made, "1", Post(f"post {number}", "music"))
    do(made, "2", Like(5))
    do(made, "2", Follow("1"))
    assert list(feed.posts) == [3, 4, 5]
    again = Feed(most=3)
    again.load_state_dict(feed.state_dict())
    assert again.state_dict() == feed.state_dict()
    assert shown(again, "2") == shown(feed, "2")
    assert do(town(again), "1", Post("next")).value == 6
    again.load_state_dict(Feed().state_dict())
    assert (shown(again, "2"), do(town(again), "1", Post("first")).value) == ([], 1)
    with pytest.raises(ConfigError, match="most="):
        Feed(most=0)


def test_feed_takes_texts_that_citizens_have_in_other_wants_too() -> None:
    feed = Feed()
    made = town(feed)
    do(made, "1", Move("1", "on horseback"))
    assert do(made, "1", Post("on horseback")).value == 1
    assert feed.posts[1].text == "on horseback"
