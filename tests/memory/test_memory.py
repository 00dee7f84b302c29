"""The plain memory."""

from __future__ import annotations

import pytest

from civitas.memory.memory import Memory


def items(*texts: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": text} for text in texts]


def test_it_keeps_what_it_is_given_in_order() -> None:
    memory = Memory()
    assert memory.get_memories() == []
    for item in items("a", "b", "c"):
        memory.add_memory(item)
    assert memory.items == memory.get_memories() == items("a", "b", "c")


@pytest.mark.parametrize(
    ("limit", "texts"),
    ((None, "abc"), (0, ""), (1, "c"), (2, "bc"), (3, "abc"), (4, "abc"), (1000, "abc")),
)
def test_a_limit_gives_the_last_so_many(limit: int | None, texts: str) -> None:
    memory = Memory()
    for item in items(*"abc"):
        memory.add_memory(item)
    assert memory.get_memories(limit) == items(*texts)


def test_a_negative_limit_is_refused() -> None:
    memory = Memory()
    with pytest.raises(ValueError, match="limit is 0 or more, not -1"):
        memory.get_memories(-1)
    memory.add_memory({"role": "user", "content": "a"})
    assert memory.get_memories(limit=1) == items("a")


def test_the_list_is_the_callers_own() -> None:
    memory = Memory()
    memory.add_memory({"role": "user", "content": "a"})
    memory.get_memories().clear()
    memory.get_memories(1).clear()
    assert memory.get_memories() == items("a")
