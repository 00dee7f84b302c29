"""What every memory does, wherever it keeps what it is given.

A subclass says how its memory is made: `make(kind, tokens)`, where `kind` is the class itself or a
user's subclass of it, and `tokens` a bound for those that have one.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Call,
    Journal,
    ReActAgent,
    ScriptedModel,
    Waiting,
    action,
)
from moothall.foundation.errors import DefinitionError
from moothall.memory import Memory

Item = dict[str, Any]


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def said(text: str) -> Item:
    return {"role": "assistant", "content": text}


def call(*ids: str) -> Item:
    calls = [{"id": id, "name": "look", "args": {"where": ["a", {"b": 1.5}]}} for id in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(id: str, content: str = "seen") -> Item:
    return {"role": "tool", "tool_call_id": id, "name": "look", "content": content}


def look(where: str) -> str:
    """Look somewhere.

    Args:
        where: the place
    """
    return f"{where}: nothing"


groups = st.one_of(
    st.builds(lambda text: [user(text)], st.text(max_size=60)),
    st.builds(lambda text: [said(text)], st.text(max_size=60)),
    st.builds(
        lambda n, text: [call(*map(str, range(n))), *(result(str(i), text) for i in range(n))],
        st.integers(1, 3),
        st.text(max_size=40),
    ),
)


class MemoryConformance:
    """The suite. A class of tests inherits it and says what `make` gives."""

    kind: ClassVar[type[Memory]]

    def make(self, kind: type[Any], tokens: int) -> Any:
        """An empty memory of a kind; each one is apart from the others."""
        raise NotImplementedError

    def settle(self, memory: Any) -> None:
        """Wait for what a memory does in the background."""

    def forget(self, memory: Any, thread: str, how: str) -> None:
        """Have a memory forget one of its threads."""
        memory.forget_thread(thread)

    @pytest.fixture
    def memory(self) -> Any:
        """A memory with room for everything that a test adds."""
        return self.make(self.kind, 100_000)

    def test_memory_new_is_empty(self, memory: Any) -> None:
        assert isinstance(memory, Memory)
        assert memory.get_memories() == []
        assert memory.get_memories(3) == []
        assert memory.get_memories(0) == []

    def test_memory_keeps_items_in_order(self, memory: Any) -> None:
        given = [
            {"role": "system", "content": "Be brief."},
            user("look"),
            call("1", "2"),
            result("1"),
            result("2", ""),
            said("Nothing there."),
            {"role": "user", "content": [{"type": "text", "text": "and here?"}], "extra": None},
        ]
        for item in given:
            memory.add_memory(copy.deepcopy(item))
        assert memory.get_memories() == given
        assert memory.get_memories() == given

    @pytest.mark.parametrize("item", (None, "hello", [user("a")]))
    def test_memory_refuses_what_is_no_chat_message(self, memory: Any, item: Any) -> None:
        with pytest.raises(TypeError, match=r"a memory is a chat message .*, not "):
            memory.add_memory(item)
        assert memory.get_memories() == []

    @pytest.mark.parametrize("limit", (None, 0, 1, 2, 3, 4, 10**30))
    def test_a_limit_gives_the_last_so_many(self, memory: Any, limit: int | None) -> None:
        given = [user("a"), said("b"), user("c")]
        for item in given:
            memory.add_memory(item)
        expected = given if limit is None else given[max(3 - limit, 0) :]
        assert memory.get_memories(limit) == memory.get_memories(limit=limit) == expected

    def test_a_negative_limit_is_refused(self, memory: Any) -> None:
        memory.add_memory(user("a"))
        with pytest.raises(ValueError, match="limit= must be a whole number from 0 up, got -1"):
            memory.get_memories(-1)
        assert memory.get_memories() == [user("a")]

    def test_memory_get_memories_returns_a_new_list(self, memory: Any) -> None:
        for text in "abc":
            memory.add_memory(user(text))
        for limit in (None, 2, 99):
            got = memory.get_memories(limit)
            got.reverse()
            got.append(user("d"))
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

    def test_a_huge_message_is_whole(self, memory: Any) -> None:
        content = "0123456789abcde\n" * (10 * 1024 * 1024 // 16)
        memory.add_memory(user("read it"))
        memory.add_memory(call("1"))
        memory.add_memory(result("1", content))
        last = memory.get_memories()[-1]
        assert len(last["content"]) == len(content)
        assert last["content"] == content
        memory.add_memory(said("done"))
        assert memory.get_memories()[-1] == said("done")

    def test_memory_keeps_or_refuses_an_item_that_is_not_json_as_a_whole(self, memory: Any) -> None:
        memory.add_memory(user("a"))
        for value in (object(), b"bytes", {1, 2}, float("inf"), {1: "a"}):
            odd = {"role": "user", "content": "odd", "value": value}
            before = memory.get_memories()
            try:
                memory.add_memory(odd)
            except ValueError as error:
                refused = str(error)
            else:
                refused = ""
            # An error says where, so that who has written it finds it.
            assert not refused or "memory.value" in refused
            assert memory.get_memories() == (before if refused else [*before, odd])
        memory.add_memory(user("b"))
        assert memory.get_memories(1) == [user("b")]

    @settings(max_examples=40, suppress_health_check=[HealthCheck.differing_executors])
    @given(st.lists(groups, max_size=25), st.integers(40, 300))
    def test_calls_and_results_are_never_apart(self, added: list[list[Item]], bound: int) -> None:
        memory = self.make(self.kind, bound)
        for group in added:
            for item in group:
                memory.add_memory(copy.deepcopy(item))
            kept = memory.get_memories()
            ids = [c["id"] for item in kept for c in item.get("tool_calls", ())]
            assert ids == [item["tool_call_id"] for item in kept if item["role"] == "tool"]
            # The newest is always there, with its call.
            assert kept[-len(group) :] == group

    def test_memory_add_is_safe_from_several_threads(self, memory: Any) -> None:
        start = threading.Barrier(4)

        def add(name: str) -> None:
            start.wait(10)
            for number in range(25):
                memory.add_memory(user(f"{name} {number}"))

        threads = [threading.Thread(target=add, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        texts = [item["content"] for item in memory.get_memories()]
        assert len(texts) == 100
        for name in "abcd":
            mine = [text for text in texts if text.startswith(name)]
            assert mine == [f"{name} {number}" for number in range(25)]

    def test_memory_thread_keeps_items_apart(self, memory: Any) -> None:
        memory.add_memory(user("in none"))
        ada, bob = memory.thread("ada"), memory.thread("bob")
        assert type(ada) is type(memory)
        ada.add_memory(user("I am Ada"))
        bob.add_memory(user("I am Bob"))
        assert memory.get_memories() == [user("in none")]
        assert ada.get_memories() == memory.thread("ada").get_memories() == [user("I am Ada")]
        assert bob.thread("ada").get_memories() == [user("I am Ada")]
        memory.thread("ada").add_memory(said("Hello Ada"))
        assert ada.get_memories(1) == [said("Hello Ada")]

    def test_no_thread_is_the_memory_itself(self, memory: Any) -> None:
        assert memory.thread(None) is memory
        ada = memory.thread("ada")
        assert ada.thread(None) is ada

    @pytest.mark.parametrize("id", ("", 7, b"ada"))
    def test_memory_thread_refuses_an_id_that_is_not_text(self, memory: Any, id: Any) -> None:
        with pytest.raises(DefinitionError, match="a thread's id must be a text"):
            memory.thread(id)

    def test_memory_thread_inherits_settings(self) -> None:
        whole = self.make(self.kind, 60)
        thread = whole.thread("ada")
        for number in range(50):
            for each in (whole, thread):
                each.add_memory(user(f"message {number}"))
                self.settle(each)
        assert len(thread.get_memories()) == len(whole.get_memories())
        assert thread.get_memories(1) == [user("message 49")]

    def test_a_message_of_a_run_is_added_once(self, memory: Any) -> None:
        for _ in range(2):
            for place, text in enumerate("abc"):
                memory.add_once(user(text), "run", place)
        memory.add_once(user("a"), "another", 0)
        memory.add_memory(user("a"))
        memory.thread("ada").add_once(user("d"), "run", 0)
        assert memory.get_memories() == [user(text) for text in "abcaa"]
        assert memory.thread("ada").get_memories() == [user("d")]

    def test_memory_gives_an_agent_its_earlier_messages(self, memory: Any) -> None:
        model = ScriptedModel([{"name": "look", "args": {"where": "attic"}}, "Nothing.", "Ada."])
        agent = ReActAgent("a", model, actions=[look], memory=memory)
        assert agent.reply_sync("I am Ada. What is in the attic?").text == "Nothing."
        assert agent.reply_sync("Who am I?").text == "Ada."
        roles = ["user", "assistant", "tool", "assistant", "user"]
        assert [item["role"] for item in model.received[-1]] == roles
        assert model.received[-1][0]["content"] == "I am Ada. What is in the attic?"
        assert model.received[-1][2]["content"] == "attic: nothing"
        assert memory.get_memories()[-1] == said("Ada.")
        asyncio.run(agent.observe("By the way"))
        assert memory.get_memories(1) == [user("By the way")]

    @pytest.mark.parametrize("how", ("forget", "prune"))
    @pytest.mark.parametrize("restarts", (False, True))
    def test_waiting_run_keeps_its_task_if_its_thread_is_forgotten(
        self, memory: Any, tmp_path: Path, restarts: bool, how: str
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
            self.forget(memory, "anna", how)
            journal.answer("r", journal.waiting("r")[0].key, True)
            agent = make() if restarts else agent
            (resumed,) = asyncio.run(agent.resume_decided())
            assert resumed.reply is not None
            assert resumed.reply.text == "Done."
            model: Any = agent.model
            first, *_, last = model.received[-1]
            assert (first["content"], last["content"]) == ("Book the hall for Anna.", "booked")

    @pytest.mark.parametrize("how", ("forget", "prune"))
    @pytest.mark.parametrize("recorded", (False, True))
    def test_reply_keeps_its_turns_if_its_thread_is_forgotten_meanwhile(
        self, memory: Any, tmp_path: Path, recorded: bool, how: str
    ) -> None:
        with Journal(tmp_path / "runs.db") as journal:

            @action
            async def forget() -> str:
                """Forget."""
                self.forget(memory, "anna", how)
                return "forgotten"

            model = ScriptedModel([Call("1", "forget", {}), Call("2", "forget", {}), "Done."])
            options: Any = {"journal": journal} if recorded else {}
            agent = ReActAgent("a", model, actions=[forget], memory=memory, **options)
            assert agent.reply_sync("Forget Anna.", thread="anna").text == "Done."
        turn = ["user", *("assistant", "tool") * 2]
        assert [each["role"] for each in model.received[-1]] == turn
        if memory.is_in_file:
            kept = memory.thread("anna").get_memories()
            assert [each["role"] for each in kept] == [*turn, "assistant"]

    def test_a_subclass_needs_only_the_two_methods(self) -> None:
        class Own(self.kind):  # type: ignore[name-defined,misc]
            """A user's own, over a list of its own."""

            def add_memory(self, memory: Item) -> None:
                notes.append(memory)

            def get_memories(self, limit: int | None = None) -> list[Item]:
                return [{"role": "system", "content": "Today is Monday."}, *notes]

        notes: list[Item] = []
        model = ScriptedModel([{"name": "look", "args": {"where": "attic"}}, "Nothing."])
        agent = ReActAgent("a", model, actions=[look], memory=self.make(Own, 1000))
        assert agent.reply_sync("Look").text == "Nothing."
        assert [item["role"] for item in notes] == ["user", "assistant", "tool", "assistant"]
        assert model.received[-1][0]["content"] == "Today is Monday."

    def test_a_subclass_may_add_to_the_two_methods(self) -> None:
        class Loud(self.kind):  # type: ignore[name-defined,misc]
            """A user's own, over what is there."""

            def add_memory(self, memory: Item) -> None:
                super().add_memory({**memory, "content": memory["content"].upper()})

            def get_memories(self, limit: int | None = None) -> list[Item]:
                return super().get_memories(limit)[::-1]  # type: ignore[no-any-return]

        memory = self.make(Loud, 1000)
        memory.add_memory(user("a"))
        memory.add_memory(said("b"))
        assert memory.get_memories() == [said("B"), user("A")]
