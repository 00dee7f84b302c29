"""The feed as a citizen uses it."""

from __future__ import annotations

import json

from tests.society.blocks.living import HOUR, citizen, live, shown

from civitas import ScriptedModel
from civitas.society.blocks.feed import FeedBlock, FeedBlockParams, likes
from civitas.society.services.posts import Posted
from civitas.society.wants import Follow, Like, Post

BROWSE = [{"do": "browse", "where": None, "from": 0, "until": 24 * HOUR}]
POSTS = [Posted(1, "2", "a song", "music", 0), Posted(2, "3", "a match", "sport", 0)]


def test_one_likes_what_interests_and_whom_one_knows() -> None:
    assert likes(1000, 0, 500) == 500
    assert likes(500, 0, 500) < likes(500, 500, 500)
    always = FeedBlock(block_params=FeedBlockParams(likes=1000, follows=1000, posts=0))
    agent = citizen([always], plan=BROWSE, profile={"interests": {"music": 1000}})
    assert live(agent, feed=POSTS) == [Like(1), Follow("2")]


def test_what_was_liked_is_not_liked_again() -> None:
    always = FeedBlock(block_params=FeedBlockParams(likes=1000, posts=0))
    liked = Posted(1, "2", "a song", "music", 0, {"1": None})
    agent = citizen([always], plan=BROWSE, profile={"interests": {"music": 1000}})
    assert live(agent, feed=[liked]) == []


def test_one_posts_about_what_interests_one() -> None:
    talks = FeedBlock(block_params=FeedBlockParams(posts=1000))
    (post,) = live(citizen([talks], plan=BROWSE))
    assert isinstance(post, Post)
    assert post.topic == "music"
    assert "music" in post.text


def test_a_model_reads_and_writes_and_its_nonsense_falls_back() -> None:
    answer = {"like": [2], "follow": ["3"], "post": "What a match!", "topic": "sport"}
    block = FeedBlock(llm=ScriptedModel([json.dumps(answer), json.dumps({**answer, "like": [7]})]))
    agent = citizen([block], plan=BROWSE)
    assert live(agent, feed=POSTS) == [Like(2), Follow("3"), Post("What a match!", "sport")]
    assert shown(block.llm)["posts"] == [str(each) for each in POSTS]
    live(agent, feed=POSTS)
    assert block.fallbacks == 1


def test_a_model_that_is_shown_nothing_likes_and_follows_nobody() -> None:
    answer = {"like": [0], "follow": [""], "post": "", "topic": "sport"}
    block = FeedBlock(llm=ScriptedModel([json.dumps(answer)]))
    assert live(citizen([block], plan=BROWSE)) == []
    assert block.fallbacks == 0
