"""The plain memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from moothall import ScriptedModel
from moothall.foundation.errors import StateError
from moothall.memory import Memory, SQLiteMemory, SummarizingMemory, TokenBoundedMemory


def items(*texts: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": text} for text in texts]


Change = Callable[[list[dict[str, object]]], object]
CHANGES: dict[str, Change] = {
    "nothing": len,
    "insert": lambda prompt: prompt.insert(0, *items("x")),
    "replace": lambda prompt: prompt.__setitem__(slice(300, 301), items("x")),
    "delete": lambda prompt: prompt.__delitem__(300),
    "clear": list.clear,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("holds", (False, True))
def test_get_memories_of_a_long_memory_returns_what_it_has_whatever_became_of_its_last_list(
    change: str, holds: bool
) -> None:
    memory = TokenBoundedMemory(6000, count=lambda text: 6)  # room for 600 messages
    expected: list[dict[str, object]] = []
    held = []
    for number in range(700):
        (item,) = items(str(number))
        memory.add_memory(item)
        expected = [*expected, item][-600:]
        if number > 510:
            prompt = memory.get_memories()
            assert prompt == expected
            CHANGES[change](prompt)
            if holds:
                held.append((prompt, prompt[:]))
            del prompt
    assert all(prompt == then for prompt, then in held)


def test_thousand_threads_are_kept_and_those_in_use() -> None:
    memory = Memory()
    used = memory.thread("used")
    for name in ("used", "unused", "again"):
        memory.thread(name).add_memory({"role": "user", "content": name})
    for number in range(998):
        memory.thread(str(number))
        memory.thread("again")
    assert memory.thread("unused").items  # now it is not the oldest
    for number in range(998, 1996):
        memory.thread(str(number))
        memory.thread("again")
    gc.collect()
    assert memory.thread("unused").items  # the thousandth: 998 others and "again" are newer
    for number in range(1996, 2995):
        memory.thread(str(number))
        memory.thread("again")
    gc.collect()
    assert memory.thread("unused").items == []
    assert memory.thread("again").items == items("again")
    assert memory.thread("used") is used
    assert used.items == items("used")


def test_forgotten_thread_takes_no_place_of_the_thousand_that_are_kept() -> None:
    memory = Memory()
    for number in range(1000):
        memory.thread(str(number)).add_memory({"role": "user", "content": "Hello"})
    memory.forget_thread("999")
    memory.thread("new")
    gc.collect()
    assert memory.thread("0").items == items("Hello")
    assert memory.thread("999").items == []


def test_memory_add_once_skips_messages_of_recent_runs() -> None:
    memory = Memory()
    for number in range(10_000):
        memory.add_once({"role": "user", "content": "a"}, "long", number)
        memory.add_once({"role": "user", "content": "a"}, str(number), 0)
    told = len(memory.items)
    for run, sequence in (("long", 9_999), ("1", 0), ("9999", 0)):
        memory.add_once({"role": "user", "content": "a"}, run, sequence)
    assert len(memory.items) == told == 20_000
    memory.add_once({"role": "user", "content": "a"}, "0", 0)
    assert len(memory.items) == told + 1  # of the oldest it is known no more


def test_memory_of_a_run_that_has_ended_is_in_no_state_and_takes_its_later_messages() -> None:
    first, second, third = items("first", "second", "third")
    memory, loaded = Memory(), Memory()
    memory.add_once(first, "run/1", 0)
    Memory.restore(loaded, Memory.state_of(memory), "agent")
    assert Memory.state_of(memory)["told"] == {"run/1": 1}
    memory.end_run("run/")
    assert "told" not in Memory.state_of(memory)
    for each in (memory, loaded):
        each.add_once(first, "run/1", 0)
        each.add_once(second, "run/1", 1)
        each.add_once(third, "run/1", 2)
        assert each.items == [first, second, third]


def test_memory_add_once_counts_per_thread() -> None:
    memory = Memory()
    memory.add_once({"role": "user", "content": "a"}, "run", 0)
    memory.thread("ada").add_once({"role": "user", "content": "a"}, "run", 0)
    assert memory.thread("ada").items == memory.items == items("a")


@pytest.mark.parametrize("kind", (Memory, TokenBoundedMemory, SummarizingMemory))
@pytest.mark.parametrize("method", ("add_memory", "get_memories"))
def test_memory_subclass_with_own_storage_has_no_threads(kind: type[Memory], method: str) -> None:
    """The base class cannot separate threads in a subclass's own storage."""
    own = type("Own", (kind,), {method: lambda self, *_: None})
    for name in ("thread", "add_once"):
        assert callable(getattr(kind, name))
        assert getattr(own, name) is None
        assert getattr(type("Further", (own,), {}), name) is None
        with_it = type("WithIt", (kind,), {method: lambda self, *_: None, name: lambda *_: 7})
        assert getattr(with_it, name)() == 7


def test_subclass_may_take_over_the_threads_of_a_list() -> None:
    class LastTwo(Memory):
        thread = Memory.thread

        def get_memories(self, limit: int | None = None) -> list[dict[str, object]]:
            return super().get_memories(2)

    ada = LastTwo().thread("ada")
    for item in items("a", "b", "c"):
        ada.add_memory(item)
    assert ada.get_memories() == items("b", "c")


def test_sqlite_memory_subclass_keeps_threads(tmp_path: Path) -> None:
    class Loud(SQLiteMemory):
        def add_memory(self, memory: dict[str, object]) -> None:
            super().add_memory({**memory, "content": str(memory["content"]).upper()})

    with Loud(tmp_path / "memory.db") as memory:
        for _ in range(2):
            memory.thread("ada").add_once({"role": "user", "content": "a"}, "run", 0)
        assert memory.thread("ada").get_memories() == items("A")
        assert memory.get_memories() == []


@pytest.mark.parametrize("told", (5, {"run": "many"}))
def test_state_that_is_damaged_says_what_is_wrong_and_what_to_load(told: object) -> None:
    memory = SummarizingMemory(ScriptedModel([]), 100)
    state = {**memory.state_dict(), "told": told}
    with pytest.raises(StateError, match=r"damaged: `told` must be .* load one that state_dict"):
        memory.load_state_dict(state)
