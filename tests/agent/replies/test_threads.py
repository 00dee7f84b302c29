"""Threads of conversation, blocks of content, and the state of an agent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    DefinitionError,
    Memory,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
    StateError,
    TokenBoundedMemory,
)
from moothall.agents.replies.thread import MAX_THREADS


def echo(messages: list[dict[str, Any]], _: Any) -> str:
    """Says how many messages it was given, and the last."""
    return f"{len(messages)}: {messages[-1]['content']}"


def agent(memory: Memory | None = None, answers: int = 50) -> ReActAgent:
    return ReActAgent("thinker", ScriptedModel([echo] * answers), memory=memory)


# -- threads ---------------------------------------------------------------------------------------


def test_threads_are_each_a_conversation_of_its_own() -> None:
    thinker = agent()
    assert thinker.reply_sync("a", thread="Ann").text == "1: a"
    assert thinker.reply_sync("b", thread="Bo").text == "1: b"
    assert thinker.reply_sync("c").text == "1: c"
    assert thinker.reply_sync("d", thread="Ann").text == "3: d"
    assert thinker.reply_sync("e", thread=7).text == "1: e"
    assert thinker.reply_sync("f", thread="7").text == "3: f"
    assert [m["content"] for m in thinker.memory.get_memories()] == ["c", "1: c"]


@pytest.mark.parametrize("memory", (None, Memory(), TokenBoundedMemory(500)))
def test_thread_memory_can_be_read_from_the_agent(memory: Memory | None) -> None:
    thinker = agent(memory)
    thinker.reply_sync("a", thread="Ann")
    thinker.reply_sync("b")
    for read, said in ((thinker.memory.thread("Ann"), "a"), (thinker.memory, "b")):
        assert [each["content"] for each in read.get_memories()] == [said, f"1: {said}"]


async def test_reply_cancelled_as_its_turn_comes_holds_up_no_other() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def held(_: Any, __: Any) -> str:
        begun.set()
        await goes_on.wait()
        return "one"

    thinker = ReActAgent("thinker", ScriptedModel([held, "three"]))

    async def first() -> None:
        await thinker.reply("first")
        second.cancel()  # it has its turn, and has not gone on yet

    one = asyncio.create_task(first())
    await begun.wait()
    second = asyncio.create_task(thinker.reply("second"))
    await asyncio.sleep(0)
    goes_on.set()
    await one
    with pytest.raises(asyncio.CancelledError):
        await second
    async with asyncio.timeout(10):
        assert (await thinker.reply("third")).text == "three"


def test_observed_message_of_a_space_is_remembered_with_its_sender() -> None:
    thinker = agent()
    for name, args in (("say", {"content": "It rains."}), ("say", {}), ("move", {"to": "shop"})):
        asyncio.run(thinker.observe({"from": "Ann", "action": {"name": name, "args": args}}))
    remembered = [m["content"] for m in thinker.memory.get_memories()]
    assert remembered == ["Ann: It rains.", "Ann: say {}", 'Ann: move {"to": "shop"}']


def test_threads_of_a_durable_memory_are_kept(tmp_path: Path) -> None:
    with SQLiteMemory(tmp_path / "memory.db") as memory:
        thinker = agent(memory)
        thinker.reply_sync("a", thread="Ann")
        thinker.reply_sync("b", thread="Bo")
    with SQLiteMemory(tmp_path / "memory.db") as memory:
        thinker = agent(memory)
        assert thinker.reply_sync("c", thread="Ann").text == "3: c"
        assert sorted(memory.threads()) == ["Ann", "Bo"]
        assert thinker.reply_sync("d").text == "1: d"


def test_memory_without_threads_says_what_has_them() -> None:
    thinker = agent(Graph())
    with pytest.raises(DefinitionError, match=r"thread= needs a memory with threads, such as SQL"):
        thinker.reply_sync("a", thread="Ann")
    assert thinker.reply_sync("a").text == "1: a"


@pytest.mark.parametrize("thread", ("", "x" * 256, b"Ann", 1.5))
def test_thread_id_is_a_text_of_1_to_255_characters(thread: Any) -> None:
    with pytest.raises(ValueError, match="thread= must be a text of 1 to 255 characters"):
        agent().reply_sync("a", thread=thread)


def test_threads_in_very_great_number_lose_the_one_used_longest_ago() -> None:
    thinker = agent(answers=MAX_THREADS + 10)
    for number in range(MAX_THREADS):
        thinker.reply_sync("a", thread=number)
    assert thinker.reply_sync("b", thread=0).text == "3: b"
    thinker.reply_sync("one more", thread="another")
    thinker.reply_sync("one more", thread="yet another")
    assert thinker.reply_sync("c", thread=0).text == "5: c"
    assert thinker.reply_sync("c", thread=1).text == "1: c"


async def test_thread_under_way_is_not_lost_among_very_many_others() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def held(*_: Any) -> str:
        begun.set()
        await goes_on.wait()
        return "never said"

    thinker = ReActAgent("thinker", ScriptedModel([held, *[echo] * (MAX_THREADS + 10)]))
    under_way = asyncio.create_task(thinker.reply("a", thread="busy"))
    await begun.wait()
    for number in range(MAX_THREADS + 1):
        await thinker.reply("b", thread=str(number))
    assert thinker.interrupt("Listen!", thread="busy")
    assert (await under_way).text == "2: Listen!"


# -- blocks ----------------------------------------------------------------------------------------

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}


def test_blocks_reach_the_model_and_memory_as_they_are() -> None:
    model = ScriptedModel(["a cat", "yes"])
    thinker = ReActAgent("thinker", model)
    blocks = [{"type": "text", "text": "What is this?"}, IMAGE]
    thinker.reply_sync(blocks)
    assert model.received[0] == [{"role": "user", "content": blocks}]
    blocks.clear()
    thinker.reply_sync("Sure?")
    assert model.received[1][0]["content"] == [{"type": "text", "text": "What is this?"}, IMAGE]


def test_image_does_not_drive_the_conversation_out_of_memory() -> None:
    memory = TokenBoundedMemory(4000)
    memory.add_memory({"role": "user", "content": "I am Ann."})
    memory.add_memory({"role": "user", "content": [{"type": "text", "text": "Look."}, IMAGE]})
    assert len(memory.get_memories()) == 2
    assert 1000 < memory.tokens < 4000


@pytest.mark.parametrize(
    ("blocks", "error", "told"),
    (
        ([], ValueError, "an empty list of blocks"),
        (["text"], TypeError, "block 0 is 'text'"),
        ([{"text": "no type"}], TypeError, "block 0"),
        ([{"type": "text"}], TypeError, "block 0 is of type 'text' and has no text"),
        ([{"type": "image", "data": b"raw"}], ValueError, "blocks that are JSON"),
        ({"type": "text", "text": "Hi"}, TypeError, "a list of blocks, got dict"),
        (None, TypeError, "a text or a list of blocks"),
    ),
)
def test_wrong_blocks_are_named(blocks: Any, error: type[Exception], told: str) -> None:
    thinker = agent()
    with pytest.raises(error, match=told):
        thinker.reply_sync(blocks)
    assert thinker.memory.get_memories() == []


# -- state -----------------------------------------------------------------------------------------


def test_agent_state_continues_in_another_process(tmp_path: Path) -> None:
    thinker = agent()
    thinker.reply_sync("a")
    thinker.reply_sync("b", thread="Bo")
    saved = tmp_path / "state.json"
    saved.write_text(json.dumps(thinker.state_dict()))
    program = f"""
import json
from moothall import ReActAgent, ScriptedModel
echo = lambda messages, _: f"{{len(messages)}}: {{messages[-1]['content']}}"
thinker = ReActAgent("thinker", ScriptedModel([echo] * 3))
thinker.load_state_dict(json.load(open({str(saved)!r})))
print(thinker.reply_sync("c").text, thinker.reply_sync("d", thread="Bo").text)
print(thinker.reply_sync("e", thread="Ann").text)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n")[:2] == ["3: c 3: d", "1: e"]


@pytest.mark.parametrize("memory", (Memory, TokenBoundedMemory, lambda: None))
def test_loading_takes_the_place_of_what_was_remembered(memory: Any) -> None:
    thinker = agent(memory())
    thinker.reply_sync("a")
    before = thinker.state_dict()
    thinker.reply_sync("b")
    thinker.reply_sync("t", thread="Ann")
    thinker.load_state_dict(before)
    assert thinker.state_dict() == before
    assert thinker.reply_sync("c").text == "3: c"
    assert thinker.reply_sync("c", thread="Ann").text == "1: c"


def test_agent_state_shares_nothing_with_the_agent() -> None:
    thinker = agent()
    thinker.reply_sync("a")
    saved = thinker.state_dict()
    saved["memory"]["items"].clear()
    assert thinker.reply_sync("b").text == "3: b"
    other = agent()
    kept = thinker.state_dict()
    other.load_state_dict(kept)
    other.reply_sync("c")
    assert len(kept["memory"]["items"]) == 4


class Graph(Memory):
    """A memory of a user's own, with only what the loop needs."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[int, dict[str, Any]] = {}

    def add_memory(self, memory: dict[str, Any]) -> None:
        self.nodes[len(self.nodes)] = memory

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        return list(self.nodes.values())


def test_memory_of_ones_own_is_saved_and_loaded_into_an_empty_one() -> None:
    thinker = agent(Graph())
    thinker.reply_sync("a")
    saved = thinker.state_dict()
    other = agent(Graph())
    other.load_state_dict(saved)
    assert other.reply_sync("b").text == "3: b"
    with pytest.raises(StateError, match="load into an agent with a new memory"):
        other.load_state_dict(saved)


ONE = {"items": [{"role": "user", "content": "one"}]}


@pytest.mark.parametrize(
    ("saved", "told"),
    (
        (None, "not a state of a ReActAgent, but of 'NoneType'"),
        ({}, "not a state of a ReActAgent, but of None"),
        ({"kind": "Conversation", "format": 1}, "but of 'Conversation'"),
        ({"kind": "ReActAgent", "format": 2}, "it has version 2, and this moothall knows up to 1"),
        ({"kind": "ReActAgent", "format": 1}, "threads is not an object"),
        ({"kind": "ReActAgent", "format": 1, "threads": {}}, "not a list of chat messages"),
        (
            {"kind": "ReActAgent", "format": 1, "threads": {}, "memory": {"items": ["text"]}},
            "not a list of chat messages",
        ),
        (
            {"kind": "ReActAgent", "format": 1, "threads": {"z": ONE, "y": 1}}
            | {"memory": {"items": []}},
            "not a list of chat messages",
        ),
        (
            {"kind": "ReActAgent", "format": 1, "threads": {"z": ONE}}
            | {"memory": {"items": [], "told": 1}},
            "is damaged",
        ),
        ({"kind": "ReActAgent", "format": 1, "x": object()}, "is damaged"),
    ),
)
def test_threads_wrong_state_is_refused_and_changes_nothing(saved: Any, told: str) -> None:
    thinker = agent()
    thinker.reply_sync("a")
    before = thinker.state_dict()
    with pytest.raises(StateError, match=told):
        thinker.load_state_dict(saved)
    assert thinker.state_dict() == before
    assert thinker.reply_sync("b", thread="z").text == "1: b"


def test_threads_state_that_is_no_json_cannot_be_saved() -> None:
    thinker = agent()
    asyncio.run(thinker.observe({"role": "user", "content": object()}))
    with pytest.raises(StateError, match="cannot be written as JSON"):
        thinker.state_dict()
