"""The suites of memories: any, with threads, and in a store that outlives the process."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Call,
    DefinitionError,
    Journal,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)

Item: TypeAlias = dict[str, Any]


def user(text: str) -> Item:
    """A message of a person."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Item:
    """A message of a model."""
    return {"role": "assistant", "content": text}


def call(*ids: str) -> Item:
    """A message with a call for each id."""
    calls = [{"id": id, "name": "look", "args": {"where": ["a", {"b": 1.5}]}} for id in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(id: str, content: str = "seen") -> Item:
    """The result of a call."""
    return {"role": "tool", "tool_call_id": id, "name": "look", "content": content}


def look(where: str) -> str:
    """Look somewhere.

    Args:
        where: the place
    """
    return f"{where}: nothing"


def add_side_by_side(memories: dict[str, Any]) -> None:
    """Add 25 items to each memory, each in a thread, at the same time."""
    start = threading.Barrier(len(memories))

    def add(name: str, memory: Any) -> None:
        start.wait(10)
        for number in range(25):
            memory.add_memory(user(f"{name} {number}"))

    threads = [threading.Thread(target=add, args=each) for each in memories.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)


def check_side_by_side(memory: Any, names: str) -> None:
    """Check that a memory has the 25 items of each thread, in their order."""
    texts = [item["content"] for item in memory.get_memories()]
    assert len(texts) == 25 * len(names)
    for name in names:
        in_order = [text for text in texts if text.startswith(name)]
        assert in_order == [f"{name} {number}" for number in range(25)]


item_groups = st.one_of(
    st.builds(lambda text: [user(text)], st.text(max_size=60)),
    st.builds(lambda text: [assistant(text)], st.text(max_size=60)),
    st.builds(
        lambda n, text: [call(*map(str, range(n))), *(result(str(i), text) for i in range(n))],
        st.integers(1, 3),
        st.text(max_size=40),
    ),
)


Forget: TypeAlias = Callable[[Any, str], None]
"""Makes a memory forget one of its threads."""


class MemoryConformance:
    """What each memory does: tests of `add_memory` and `get_memories`, alone and in an agent.

    Derive a class `Test…` from it whose `make` returns a memory of yours.
    """

    def make(self, tokens: int) -> Any:
        """Return an empty memory, apart from all others, with room for so many tokens.

        Args:
            tokens: what `get_memories` shows at least; one with a bound shows no more
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define make: it returns a memory of yours"
        )

    def settle(self, memory: Any) -> None:
        """Wait for what a memory does in the background; most do nothing there."""

    @pytest.fixture
    def memory(self) -> Any:
        """A memory with room for everything that a test adds."""
        return self.make(100_000)

    def test_memory_new_is_empty(self, memory: Any) -> None:
        assert memory.get_memories() == []
        assert memory.get_memories(3) == []
        assert memory.get_memories(0) == []

    def test_memory_keeps_items_in_order(self, memory: Any) -> None:
        items = [
            {"role": "system", "content": "Be brief."},
            user("look"),
            call("1", "2"),
            result("1"),
            result("2", ""),
            assistant("Nothing there."),
            {"role": "user", "content": [{"type": "text", "text": "and here?"}], "extra": None},
        ]
        for item in items:
            memory.add_memory(copy.deepcopy(item))
        assert memory.get_memories() == items
        assert memory.get_memories() == items

    @pytest.mark.parametrize("limit", (None, 0, 1, 2, 3, 4, 10**30))
    def test_memory_limit_gives_the_last_items(self, memory: Any, limit: int | None) -> None:
        items = [user("a"), assistant("b"), user("c")]
        for item in items:
            memory.add_memory(item)
        expected = items if limit is None else items[max(3 - limit, 0) :]
        assert memory.get_memories(limit) == memory.get_memories(limit=limit) == expected

    def test_memory_refuses_a_negative_limit(self, memory: Any) -> None:
        memory.add_memory(user("a"))
        with pytest.raises(ValueError, match="-1"):
            memory.get_memories(-1)
        assert memory.get_memories() == [user("a")]

    def test_memory_get_memories_returns_a_new_list(self, memory: Any) -> None:
        for text in "abc":
            memory.add_memory(user(text))
        for limit in (None, 2, 99):
            returned = memory.get_memories(limit)
            returned.reverse()
            returned.append(user("d"))
        assert memory.get_memories() == [user("a"), user("b"), user("c")]

    @pytest.mark.parametrize(
        "text",
        (
            "",
            " \n\t ",
            "naïve Straße İstanbul",
            "日本語の文章、中文",
            "👩‍👩‍👧 \u202e rtl עברית",
            "a\0b\x1b[31m",
            "\ufeff\uffff\U0010ffff",
            "'; DROP TABLE memories; --",
            '"quotes" \\ back\\slashes',
            "NaN",
        ),
    )
    def test_memory_keeps_any_text_unchanged(self, memory: Any, text: str) -> None:
        item = {"role": "user", "content": text, text: text}
        memory.add_memory(dict(item))
        assert memory.get_memories() == [item]

    def test_memory_keeps_a_huge_item_whole(self, memory: Any) -> None:
        content = "0123456789abcde\n" * (10 * 1024 * 1024 // 16)
        memory.add_memory(user("read it"))
        memory.add_memory(call("1"))
        memory.add_memory(result("1", content))
        last = memory.get_memories()[-1]
        assert len(last["content"]) == len(content)
        assert last["content"] == content
        memory.add_memory(assistant("done"))
        assert memory.get_memories()[-1] == assistant("done")

    def test_memory_keeps_or_refuses_an_item_that_is_not_json_as_a_whole(self, memory: Any) -> None:
        memory.add_memory(user("a"))
        for value in (object(), b"bytes", {1, 2}, float("inf"), {1: "a"}):
            odd = {"role": "user", "content": "odd", "value": value}
            before = memory.get_memories()
            try:
                memory.add_memory(odd)
            except ValueError:
                assert memory.get_memories() == before
            else:
                assert memory.get_memories() == [*before, odd]
        memory.add_memory(user("b"))
        assert memory.get_memories(1) == [user("b")]

    @settings(
        max_examples=40, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
    )
    @given(st.lists(item_groups, max_size=25), st.integers(40, 300))
    def test_memory_shows_calls_and_results_together(
        self, added: list[list[Item]], bound: int
    ) -> None:
        memory = self.make(bound)
        for group in added:
            for item in group:
                memory.add_memory(copy.deepcopy(item))
            items = memory.get_memories()
            ids = [c["id"] for item in items for c in item.get("tool_calls", ())]
            assert ids == [item["tool_call_id"] for item in items if item["role"] == "tool"]
            # The newest is always there, with its call.
            assert items[-len(group) :] == group

    def test_memory_add_is_safe_from_several_threads(self, memory: Any) -> None:
        add_side_by_side(dict.fromkeys("abcd", memory))
        check_side_by_side(memory, "abcd")

    def test_memory_gives_an_agent_its_earlier_messages(self, memory: Any) -> None:
        model = ScriptedModel([{"name": "look", "args": {"where": "attic"}}, "Nothing.", "Ada."])
        agent = ReActAgent("a", model, actions=[look], memory=memory)
        assert agent.reply_sync("I am Ada. What is in the attic?").text == "Nothing."
        assert agent.reply_sync("Who am I?").text == "Ada."
        roles = ["user", "assistant", "tool", "assistant", "user"]
        assert [item["role"] for item in model.received[-1]] == roles
        assert model.received[-1][0]["content"] == "I am Ada. What is in the attic?"
        assert model.received[-1][2]["content"] == "attic: nothing"
        assert memory.get_memories()[-1] == assistant("Ada.")
        asyncio.run(agent.observe("By the way"))
        assert memory.get_memories(1) == [user("By the way")]


class ThreadMemoryConformance(MemoryConformance):
    """What a memory with `thread(id)` and `add_once` does, too: it serves several conversations."""

    @pytest.fixture
    def forget(self) -> Forget:
        """How a memory forgets a thread."""
        return lambda memory, thread: memory.forget_thread(thread)

    def test_memory_thread_keeps_items_apart(self, memory: Any) -> None:
        memory.add_memory(user("in none"))
        ada, bob = memory.thread("ada"), memory.thread("bob")
        ada.add_memory(user("I am Ada"))
        bob.add_memory(user("I am Bob"))
        assert memory.get_memories() == [user("in none")]
        assert ada.get_memories() == memory.thread("ada").get_memories() == [user("I am Ada")]
        assert bob.thread("ada").get_memories() == [user("I am Ada")]
        memory.thread("ada").add_memory(assistant("Hello Ada"))
        assert ada.get_memories(1) == [assistant("Hello Ada")]

    def test_memory_without_a_thread_is_itself(self, memory: Any) -> None:
        assert memory.thread(None) is memory
        ada = memory.thread("ada")
        assert ada.thread(None) is ada

    @pytest.mark.parametrize("id", ("", 7, b"ada"))
    def test_memory_thread_refuses_an_id_that_is_not_text(self, memory: Any, id: Any) -> None:
        with pytest.raises(DefinitionError):
            memory.thread(id)

    def test_memory_thread_inherits_settings(self) -> None:
        memory = self.make(60)
        thread = memory.thread("ada")
        for number in range(50):
            for each in (memory, thread):
                each.add_memory(user(f"message {number}"))
                self.settle(each)
        assert len(thread.get_memories()) == len(memory.get_memories())
        assert thread.get_memories(1) == [user("message 49")]

    def test_memory_adds_an_item_of_a_run_once(self, memory: Any) -> None:
        for _ in range(2):
            for place, text in enumerate("abc"):
                memory.add_once(user(text), "run", place)
        memory.add_once(user("a"), "another", 0)
        memory.add_memory(user("a"))
        memory.thread("ada").add_once(user("d"), "run", 0)
        assert memory.get_memories() == [user(text) for text in "abcaa"]
        assert memory.thread("ada").get_memories() == [user("d")]

    def test_memory_forgotten_thread_is_empty(self, memory: Any, forget: Forget) -> None:
        memory.thread("ada").add_memory(user("I am Ada"))
        forget(memory, "ada")
        assert memory.thread("ada").get_memories() == []

    @pytest.mark.parametrize("restarts", (False, True))
    def test_memory_forgotten_keeps_the_task_of_a_waiting_run(
        self, memory: Any, tmp_path: Path, restarts: bool, forget: Forget
    ) -> None:
        book = Action("book", lambda: "booked", "Book.", access_policy=ACCESS_REQUESTED)
        with Journal(tmp_path / "runs.db") as journal:

            def make() -> ReActAgent:
                model = ScriptedModel([{"name": "book", "args": {}}, "Done."])
                options: Any = {"journal": journal, "approver": Waiting(), "memory": memory}
                return ReActAgent("a", model, actions=[book], **options)

            agent = make()
            waiting = agent.reply_sync("Book the hall for Anna.", run_id="r", thread="anna")
            assert waiting.stop_reason == "waiting"
            forget(memory, "anna")
            journal.answer("r", journal.waiting("r")[0].key, True)
            agent = make() if restarts else agent
            (resumed,) = asyncio.run(agent.resume_decided())
            assert resumed.reply is not None
            assert resumed.reply.text == "Done."
            model: Any = agent.model
            first, *_, last = model.received[-1]
            assert (first["content"], last["content"]) == ("Book the hall for Anna.", "booked")

    @pytest.mark.parametrize("recorded", (False, True))
    def test_memory_forgotten_keeps_the_turns_of_a_reply_under_way(
        self, memory: Any, tmp_path: Path, recorded: bool, forget: Forget
    ) -> None:
        with Journal(tmp_path / "runs.db") as journal:

            @action
            async def drop() -> str:
                """Forget."""
                forget(memory, "anna")
                return "forgotten"

            model = ScriptedModel([Call("1", "drop", {}), Call("2", "drop", {}), "Done."])
            options: Any = {"journal": journal} if recorded else {}
            agent = ReActAgent("a", model, actions=[drop], memory=memory, **options)
            assert agent.reply_sync("Forget Anna.", thread="anna").text == "Done."
        turn = ["user", *("assistant", "tool") * 2]
        assert [each["role"] for each in model.received[-1]] == turn
        if memory.is_in_file:
            stored = memory.thread("anna").get_memories()
            assert [each["role"] for each in stored] == [*turn, "assistant"]


class StoredMemoryConformance(ThreadMemoryConformance):
    """What a memory does, too, whose items outlive its process: one with `is_in_file = True`."""

    def reopen(self, memory: Any) -> Any:
        """Return another memory over the same store and thread, as another process opens it."""
        raise NotImplementedError(
            f"{type(self).__name__} must define reopen: it returns a memory of yours"
        )

    def test_memory_reopened_has_all_items(self, memory: Any) -> None:
        assert memory.is_in_file
        items = [user("look"), call("1"), result("1"), assistant("Nothing there.")]
        for item in items:
            memory.add_memory(item)
        memory.thread("ada").add_memory(user("I am Ada"))
        other = self.reopen(memory)
        assert other.get_memories() == items
        assert other.thread("ada").get_memories() == [user("I am Ada")]
        other.add_memory(user("Again"))
        assert memory.get_memories(1) == [user("Again")]

    def test_memory_reopened_adds_an_item_of_a_run_once(self, memory: Any) -> None:
        for place, text in enumerate("ab"):
            memory.add_once(user(text), "run", place)
        other = self.reopen(memory)
        for place, text in enumerate("abc"):
            other.add_once(user(text), "run", place)
        assert other.get_memories() == [user(text) for text in "abc"]

    def test_memory_reopened_keeps_fields_that_it_does_not_know(self, memory: Any) -> None:
        # Without its `provenance`, what was read outside counts as what the user wants.
        provenance = {"outside": True, "sources": ["https://a.example"], "later": {"a": [None]}}
        items = [{**user("pay"), "provenance": provenance, "later": [{"b": 1.5}]}]
        items += [call("1"), {**result("1"), "provenance": provenance}]
        for place, item in enumerate(items):
            memory.add_memory(copy.deepcopy(item))
            memory.thread("ada").add_once(copy.deepcopy(item), "run", place)
        other = self.reopen(memory)
        assert other.get_memories() == other.thread("ada").get_memories() == items

    def test_memory_threads_of_similar_ids_are_apart(self, memory: Any) -> None:
        ids = ("ada", "alex", "Ada", "ADA", "ada ", "a/da", "a.da", "a_da", "a\u0301da", "\u00e1da")
        for id in ids:
            memory.thread(id).add_memory(user(f"I am {id!a}"))
        other = self.reopen(memory)
        for id in ids:
            assert other.thread(id).get_memories() == [user(f"I am {id!a}")]

    def test_memory_opened_twice_keeps_what_both_add_at_the_same_time(self, memory: Any) -> None:
        add_side_by_side({"a": memory, "b": self.reopen(memory)})
        check_side_by_side(self.reopen(memory), "ab")
