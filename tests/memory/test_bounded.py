"""The memory that keeps within a number of tokens."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.memory.bounded import TokenBoundedMemory, estimate_tokens

Item = dict[str, Any]


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def said(text: str) -> Item:
    return {"role": "assistant", "content": text}


def call(*ids: str) -> Item:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": id, "name": "look", "args": {}} for id in ids],
    }


def result(id: str, content: str = "seen") -> Item:
    return {"role": "tool", "tool_call_id": id, "name": "look", "content": content}


def length(text: str) -> int:
    return len(text)


def filled(max_tokens: int, *items: Item) -> TokenBoundedMemory:
    memory = TokenBoundedMemory(max_tokens, length)
    for item in items:
        memory.add_memory(item)
    return memory


def test_oldest_goes_first() -> None:
    # Each message takes its text and four tokens.
    memory = filled(30, user("aaaaaa"), said("bbbbbb"), user("cccccc"), said("dddddd"))
    assert memory.get_memories() == [said("bbbbbb"), user("cccccc"), said("dddddd")]
    assert memory.tokens == 30
    assert memory.get_memories(2) == [user("cccccc"), said("dddddd")]


def test_bounded_memory_takes_only_messages() -> None:
    memory = filled(30)
    with pytest.raises(TypeError, match=r"a memory is a chat message .*, not NoneType"):
        memory.add_memory(None)  # type: ignore[arg-type]
    assert memory.get_memories() == []


def test_token_bounded_memory_drops_a_call_with_its_results() -> None:
    pair = [call("1", "2"), result("1", "x" * 50), result("2", "y" * 50)]
    memory = filled(400, user("look"), *pair, user("and now?"))
    assert memory.get_memories() == [user("look"), *pair, user("and now?")]
    memory.add_memory(said("z" * 330))
    assert memory.get_memories() == [user("and now?"), said("z" * 330)]


def test_token_bounded_memory_keeps_a_call_without_all_results() -> None:
    memory = filled(60, said("x" * 50), call("1", "2"))
    assert memory.get_memories() == [call("1", "2")]
    memory.add_memory(result("1", "y" * 500))
    memory.add_memory(result("2"))
    assert memory.get_memories() == [call("1", "2"), result("1", "y" * 500), result("2")]
    memory.add_memory(user("now"))
    assert memory.get_memories() == [user("now")]


def test_system_message_stays() -> None:
    system = {"role": "system", "content": "s" * 20}
    memory = filled(60, user("a" * 20), system, said("b" * 20))
    memory.add_memory(user("c" * 20))
    assert memory.get_memories() == [system, user("c" * 20)]


def test_token_bounded_memory_keeps_the_task_longest() -> None:
    steps = [item for n in range(20) for item in (call(str(n)), result(str(n), "x" * 10))]
    memory = filled(150, user("old"), said("older"), user("the task"), *steps)
    kept = memory.get_memories()
    assert kept[0] == user("the task")
    assert kept[1]["role"] == "assistant"
    assert kept[-1] == result("19", "x" * 10)
    assert memory.tokens <= 150


def test_token_bounded_memory_keeps_the_task_beside_an_oversized_result() -> None:
    task = user("the task")
    memory = filled(50, user("old"), task, call("1"), result("1", "x" * 100))
    assert memory.get_memories() == [task, call("1"), result("1", "x" * 100)]
    memory.add_memory(said("y"))
    assert memory.get_memories() == [task, said("y")]


def test_last_message_stays_even_alone_too_large() -> None:
    memory = filled(10, user("a"), user("b" * 100))
    assert memory.get_memories() == [user("b" * 100)]
    memory.add_memory(user("c"))
    assert memory.get_memories() == [user("c")]


def test_list_may_be_changed_from_outside() -> None:
    memory = filled(30, user("aaaaaa"), said("bbbbbb"))
    memory.items.clear()
    assert memory.tokens == 0
    memory.items.extend([user("cccccc"), said("dddddd")])
    memory.add_memory(user("eeeeee"))
    memory.add_memory(said("ffffff"))
    assert memory.get_memories() == [said("dddddd"), user("eeeeee"), said("ffffff")]


def test_token_bounded_memory_keeps_the_last_task_after_items_changed() -> None:
    memory = TokenBoundedMemory(40, length)
    memory.items.extend([user("the old task"), user("the new task")])
    memory.add_memory(said("x" * 15))
    assert memory.get_memories() == [user("the new task"), said("x" * 15)]


def test_token_bounded_memory_counts_content_other_than_text() -> None:
    picture = {"role": "user", "content": [{"type": "image", "data": "…"}]}
    assert filled(3000, picture, picture).get_memories() == [picture]
    table = {"role": "assistant", "content": {"cells": "x" * 50}}
    assert filled(60, table, said("b")).get_memories() == [said("b")]


@pytest.mark.parametrize(
    ("text", "least"),
    (
        ("", 0),
        ("hello world", 2),
        ('{"a": 1, "b": [2, 3]}', 11),
        ("日本語", 7),
        ("🙂", 4),
        ("\ud800", 1),
    ),
)
def test_estimate_is_on_the_high_side(text: str, least: int) -> None:
    assert least <= estimate_tokens(text) <= max(4 * len(text), 1)


messages = st.one_of(
    st.builds(user, st.text(max_size=30)),
    st.builds(said, st.text(max_size=30)),
    st.builds(lambda text: {"role": "system", "content": text}, st.text(max_size=5)),
)
pairs = st.builds(
    lambda n, text: [call(*map(str, range(n))), *(result(str(i), text) for i in range(n))],
    st.integers(1, 4),
    st.text(max_size=20),
)


@given(
    st.lists(st.one_of(messages.map(lambda item: [item]), pairs), max_size=40),
    st.integers(30, 400),
)
def test_calls_and_results_are_never_apart(groups: list[list[Item]], bound: int) -> None:
    memory = TokenBoundedMemory(bound)
    given_so_far: list[Item] = []
    for group in groups:
        for item in group:
            memory.add_memory(item)
            given_so_far.append(item)
        kept = memory.get_memories()
        # What is kept is what was given, in order, with every system message and the last one.
        rest = iter(given_so_far)
        assert all(any(item is other for other in rest) for item in kept)
        assert kept[-1] is given_so_far[-1]
        assert [item for item in kept if item["role"] == "system"] == [
            item for item in given_so_far if item["role"] == "system"
        ]
        ids = [c["id"] for item in kept for c in item.get("tool_calls", ())]
        assert ids == [item["tool_call_id"] for item in kept if item["role"] == "tool"]
        assert memory.tokens == filled_freely(kept).tokens
        # Beyond the bound is only what may not be dropped.
        task = [item for item in given_so_far if item["role"] == "user"][-1:]
        assert all(any(item is each for item in kept) for each in task)
        droppable = [i for i in kept if i["role"] != "system" and not any(i is t for t in task)]
        assert memory.tokens <= bound or len(droppable) == len(group) or len(droppable) <= 1


def filled_freely(items: list[Item]) -> TokenBoundedMemory:
    memory = TokenBoundedMemory(10**9)
    for item in items:
        memory.add_memory(item)
    return memory


def test_long_life_does_not_grow() -> None:
    memory = TokenBoundedMemory(2000)

    def live(messages: int) -> None:
        for number in range(messages):
            memory.add_memory(user(f"message {number} " + "x" * 100))
            memory.add_memory(call(str(number)))
            memory.add_memory(result(str(number), "y" * 100))

    live(200)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        live(10_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000
    assert memory.tokens <= 2000
    assert len(memory.items) < 100
