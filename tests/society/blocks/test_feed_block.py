"""The feed as a citizen uses it."""

from __future__ import annotations

import asyncio
import json

from tests.society.blocks.living import HOUR, citizen, live, shown

from moothall import ScriptedModel
from moothall.society.blocks.feed import FeedBlock, FeedBlockParams, like_odds
from moothall.society.kernel.wants import Follow, Like, Post, Unfollow
from moothall.society.services.posts import Posted

BROWSE = [{"do": "browse", "where": None, "from": 0, "until": 24 * HOUR}]
POSTS = [Posted(1, "2", "a song", "music", 0), Posted(2, "3", "a match", "sport", 0)]


def test_feed_block_likes_by_interest_and_acquaintance() -> None:
    assert like_odds(1000, 0, 500) == 500
    assert (like_odds(800, 400, 500), like_odds(999, 0, 1)) == (600, 0)
    assert like_odds(1000, 1000, 1000) == 1000
    always = FeedBlock(block_params=FeedBlockParams(likes=1000, follows=1000, posts=0))
    agent = citizen([always], plan=BROWSE, profile={"interests": {"music": 1000}})
    assert live(agent, feed=POSTS) == [Like(1), Follow("2")]
    assert agent.status["act"] == "browse"
    always = FeedBlock(block_params=always.params)
    known = citizen([always], id=2, plan=BROWSE, profile={}, relations={"3": 1000})
    assert live(known, feed=POSTS) == [Like(2), Follow("3")]
    alone = FeedBlock(block_params=FeedBlockParams(likes=1000, follows=0, posts=0, shown=1))
    agent = citizen([alone], plan=BROWSE, profile={"interests": {"music": 1000, "sport": 1000}})
    assert live(agent, feed=POSTS) == [Like(1)]  # it reads one post
    assert live(citizen([FeedBlock(block_params=FeedBlockParams(posts=1000))], profile={})) == []


def test_feed_block_is_for_those_who_are_old_enough() -> None:
    always = FeedBlockParams(likes=1000, posts=1000)
    for age, act in ((0, "leisure"), (12, "leisure"), (13, "browse")):
        profile = {"age": age, "interests": {"music": 1000}}
        agent = citizen([FeedBlock(block_params=always)], plan=BROWSE, profile=profile)
        assert bool(live(agent, feed=POSTS)) == (act == "browse")
        assert agent.status["act"] == act


def test_feed_block_actions_are_wants() -> None:
    agent = citizen([FeedBlock()])
    (block,) = agent.blocks
    for each in (block.post("Hello.", "music"), block.like(3), block.follow("2"), block.post("Hi")):
        asyncio.run(each)
    asyncio.run(block.unfollow(id="2"))
    assert agent.wants == [
        *(Post("Hello.", "music"), Like(3), Follow("2"), Post("Hi", "")),
        Unfollow("2"),
    ]
    assert block.actions["unfollow"] == "Follow a citizen in the feed no longer."


def test_feed_block_likes_a_post_once() -> None:
    always = FeedBlock(block_params=FeedBlockParams(likes=1000, posts=0))
    liked = Posted(1, "2", "a song", "music", 0, {"1": None})
    agent = citizen([always], plan=BROWSE, profile={"interests": {"music": 1000}})
    assert live(agent, feed=[liked]) == []


def test_feed_block_posts_about_interests() -> None:
    talks = FeedBlock(block_params=FeedBlockParams(posts=1000))
    (post,) = live(citizen([talks], plan=BROWSE))
    assert isinstance(post, Post)
    assert post.topic == "music"
    assert "music" in post.text


def test_feed_block_model_reads_and_writes_and_its_nonsense_falls_back() -> None:
    answer = {"like": [2], "follow": ["3"], "post": "What a match!", "topic": "sport"}
    block = FeedBlock(llm=ScriptedModel([json.dumps(answer), json.dumps({**answer, "like": [7]})]))
    agent = citizen([block], plan=BROWSE)
    assert live(agent, feed=POSTS) == [Like(2), Follow("3"), Post("What a match!", "sport")]
    assert shown(block.llm)["posts"] == [str(each) for each in POSTS]
    live(agent, feed=POSTS)
    assert block.fallbacks == 1


def test_feed_block_model_is_shown_the_name_of_an_author() -> None:
    answer = {"like": [], "follow": [], "post": "", "topic": ""}
    block = FeedBlock(llm=ScriptedModel([json.dumps(answer)]))
    agent = citizen([block], plan=BROWSE)
    live(agent, feed=POSTS, name_of=lambda id: "Mary" if id == "2" else "")
    assert shown(block.llm)["posts"] == [
        "post 1 of Mary (2) about music (0 likes): a song",
        "post 2 of 3 about sport (0 likes): a match",
    ]


def test_feed_block_model_that_is_shown_nothing_likes_and_follows_nobody() -> None:
    answer = {"like": [0], "follow": [""], "post": "", "topic": "sport"}
    block = FeedBlock(llm=ScriptedModel([json.dumps(answer)]))
    assert live(citizen([block], plan=BROWSE)) == []
    assert block.fallbacks == 0
