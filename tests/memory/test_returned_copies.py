"""What `get_memories` returns of a memory in a file is a copy, however long the memory is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moothall.memory import SQLiteMemory

Messages = list[dict[str, Any]]
CHANGES: dict[str, Callable[[Messages], object]] = {
    "nothing": len,
    "text of an old one": lambda prompt: prompt[3].update(content="x"),
    "text of the last": lambda prompt: prompt[-1].update(content="x"),
    "arguments of a call": lambda prompt: prompt[-2].get("tool_calls", [{}])[0].clear(),
    "list": lambda prompt: prompt.reverse(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_memory_in_a_file_returns_what_it_has_whatever_became_of_what_it_returned(
    tmp_path: Path, change: str
) -> None:
    memory = SQLiteMemory(tmp_path / "m.db", tokens=3000, count=lambda text: 8)
    other = SQLiteMemory(tmp_path / "m.db", tokens=3000, count=lambda text: 8)
    memory.add_memory({"role": "user", "content": "go"})
    for number in range(220):
        calls = [{"id": f"c{number}", "name": "do", "args": {"n": number}}]
        memory.add_memory({"role": "assistant", "content": "", "tool_calls": calls})
        memory.add_memory({"role": "tool", "content": str(number), "tool_call_id": f"c{number}"})
        if number > 1:
            prompt = memory.get_memories()
            assert prompt == other.get_memories(), number
            CHANGES[change](prompt)
    assert prompt[0]["content"] == "go" or change == "list"
    assert len(prompt) < 400
