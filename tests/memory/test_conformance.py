"""Every memory is held to the same cases."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from benchmarks.postgresql import Server

from moothall import ACCESS_REQUESTED, Action, Journal, Later, ReActAgent, ScriptedModel, Waiting
from moothall.memory import (
    Memory,
    PostgresMemory,
    SQLiteMemory,
    SummarizingMemory,
    TokenBoundedMemory,
)
from moothall.testing import MemoryConformance, StoredMemoryConformance, ThreadMemoryConformance
from moothall.testing.memory_suite import Item, assistant, look, user


class OurMemoryConformance(MemoryConformance):
    """What moothall's own memories do, too: they check items, and users derive from them."""

    kind: ClassVar[type[Memory]]

    def make(self, tokens: int) -> Any:
        return self.make_kind(self.kind, tokens)

    def make_kind(self, kind: type[Any], tokens: int) -> Any:
        """An empty memory of a kind: the class itself, or a user's subclass of it."""
        raise NotImplementedError

    def test_memory_is_one_and_its_threads_are_of_its_kind(self, memory: Any) -> None:
        assert isinstance(memory, Memory)
        assert type(memory.thread("ada")) is type(memory)

    @pytest.mark.parametrize("item", (None, "hello", [user("a")]))
    def test_memory_refuses_an_item_that_is_no_chat_message(self, memory: Any, item: Any) -> None:
        with pytest.raises(TypeError, match=r"a memory is a chat message .*, not "):
            memory.add_memory(item)
        assert memory.get_memories() == []

    def test_memory_subclass_needs_only_the_two_methods(self) -> None:
        class Own(self.kind):  # type: ignore[name-defined,misc]
            """A user's own, over a list of its own."""

            def add_memory(self, memory: Item) -> None:
                notes.append(memory)

            def get_memories(self, limit: int | None = None) -> list[Item]:
                return [{"role": "system", "content": "Today is Monday."}, *notes]

        notes: list[Item] = []
        model = ScriptedModel([{"name": "look", "args": {"where": "attic"}}, "Nothing."])
        agent = ReActAgent("a", model, actions=[look], memory=self.make_kind(Own, 1000))
        assert agent.reply_sync("Look").text == "Nothing."
        assert [item["role"] for item in notes] == ["user", "assistant", "tool", "assistant"]
        assert model.received[-1][0]["content"] == "Today is Monday."

    def test_memory_subclass_may_add_to_the_two_methods(self) -> None:
        class Loud(self.kind):  # type: ignore[name-defined,misc]
            """A user's own, over what is there."""

            def add_memory(self, memory: Item) -> None:
                super().add_memory({**memory, "content": memory["content"].upper()})

            def get_memories(self, limit: int | None = None) -> list[Item]:
                return super().get_memories(limit)[::-1]  # type: ignore[no-any-return]

        memory = self.make_kind(Loud, 1000)
        memory.add_memory(user("a"))
        memory.add_memory(assistant("b"))
        assert memory.get_memories() == [assistant("B"), user("A")]


class TestMemory(OurMemoryConformance, ThreadMemoryConformance):
    kind = Memory

    def make_kind(self, kind: type[Any], tokens: int) -> Any:
        return kind()


class TestTokenBoundedMemory(OurMemoryConformance, ThreadMemoryConformance):
    kind = TokenBoundedMemory

    def make_kind(self, kind: type[Any], tokens: int) -> Any:
        return kind(tokens)


class TestSummarizingMemory(OurMemoryConformance, ThreadMemoryConformance):
    kind = SummarizingMemory

    def make_kind(self, kind: type[Any], tokens: int) -> Any:
        return kind(ScriptedModel(itertools.repeat("They talked.", 100)), tokens)

    def settle(self, memory: Any) -> None:
        asyncio.run(memory.settled())


@pytest.fixture(scope="class")
def files(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Paths for a class of tests, whose memories are closed behind it."""
    folder = tmp_path_factory.mktemp("memories")
    request.cls.paths = (folder / f"{number}.db" for number in itertools.count())
    request.cls.made = []
    yield
    for memory in request.cls.made:
        memory.close()


class OurStoredConformance(OurMemoryConformance, StoredMemoryConformance):
    @pytest.fixture(params=("forget", "prune"))
    def forget(self, request: Any) -> Any:
        def forgets(memory: Any, thread: str) -> None:
            if request.param == "forget":
                memory.thread(thread).forget()
            else:
                assert thread in memory.prune(0)

        return forgets

    def test_memory_ahead_of_its_runs_sets_aside_what_they_have_no_record_of(
        self, memory: Any, forget: Any
    ) -> None:
        ada = memory.thread("ada")
        for key, texts in (("old", "ab"), ("kept", "cde"), ("gone", "fg")):
            for number, text in enumerate(texts):
                ada.add_once(user(text), key, number)
        ada.add_memory(user("h"))
        counts = {"kept": (1, 1), "old": (2, 2)}
        assert memory.thread("bob").set_aside_later(counts.get) == 0
        assert ada.set_aside_later(counts.get) == 5
        assert ada.set_aside_later(counts.get) == 0
        other = self.reopen(memory).thread("ada")
        for each in (ada, other):
            assert each.get_memories() == [*map(user, "abc")]
            assert each.recall("g") == each.recall("g", everywhere=True) == []
            assert each.messages_set_aside() == [*map(user, "defgh")]
        other.add_once(user("new"), "kept", 1)
        ada.add_once(user("newer"), "gone", 0)
        assert [each["content"] for each in ada.get_memories()] == ["a", "b", "c", "new", "newer"]
        forget(memory, "ada")
        assert ada.messages_set_aside() == []
        assert "ada" not in memory.threads()

    def test_memory_names_the_last_run_that_has_added_to_a_thread(self, memory: Any) -> None:
        ada = memory.thread("ada")
        assert ada.newest_run() is None
        for run in ("first", "last"):
            ada.add_once(user("a"), run, 0)
        ada.add_memory(user("b"))
        memory.add_once(user("c"), "another", 0)
        assert (ada.newest_run(), memory.newest_run()) == ("last", "another")

    def test_memory_set_aside_ends_where_a_run_went_on_after_the_restore(self, memory: Any) -> None:
        for key, text in (("kept", "a"), ("kept", "b"), ("gone", "c"), ("new", "d")):
            memory.add_once(user(text), key, "ab".find(text) if key == "kept" else 0)
        memory.add_memory(user("e"))
        assert memory.set_aside_later({"kept": (1, 1), "new": (1, 1)}.get) == 2
        assert memory.get_memories() == [*map(user, "ade")]

    def test_memory_has_of_a_restored_run_what_its_record_has(
        self, memory: Any, tmp_path: Path
    ) -> None:
        async def order() -> Later:
            return Later("k")

        def answer(messages: Any, _: Any) -> Any:
            return f"It is {messages[-1]['content']}."

        def clerk() -> ReActAgent:
            model = ScriptedModel([{"name": "order", "args": {}}, answer, answer])
            journal = Journal(tmp_path / "runs.db")
            return ReActAgent("clerk", model, actions=[order], memory=memory, journal=journal)

        async def go_on(text: str) -> str:
            agent = clerk()
            with agent.journal:
                agent.journal.answer("r", "k", text)
                (run,) = await agent.resume_decided()
                assert run.reply is not None
                if text == "first":
                    await agent.reply("And now?", run_id="later", thread="ada")
                return run.reply.text

        async def live() -> str:
            agent = clerk()
            with agent.journal:
                await agent.reply("Order.", run_id="r", thread="ada")
                agent.journal.backup(tmp_path / "copy.db")
            assert await go_on("first") == "It is first."
            Journal.restore(tmp_path / "copy.db", tmp_path / "runs.db")
            return await go_on("second")

        assert asyncio.run(live()) == "It is second."
        ada = memory.thread("ada")
        contents = [each["content"] for each in ada.messages()]
        assert contents == ["Order.", "", "second", "It is second."]
        set_aside = [each["content"] for each in ada.messages_set_aside()]
        assert set_aside == ["", "first", "It is first.", "And now?", "It is And now?."]


@pytest.mark.usefixtures("files")
class TestSQLiteMemory(OurStoredConformance):
    kind = SQLiteMemory
    bounded = True
    paths: Iterator[Path]
    made: list[Any]

    def make_kind(self, kind: type[Any], tokens: int) -> Any:
        memory = kind(next(self.paths), tokens=tokens if self.bounded else None)
        self.made.append(memory)
        return memory

    def reopen(self, memory: Any) -> Any:
        self.made.append(SQLiteMemory(memory.path, memory.id))
        return self.made[-1]


class TestSQLiteMemoryWithoutABound(TestSQLiteMemory):
    bounded = False


class TestAThreadOfSQLiteMemory(TestSQLiteMemory):
    def make_kind(self, kind: type[Any], tokens: int) -> Any:
        memory = super().make_kind(kind, tokens)
        SQLiteMemory.add_memory(memory.thread("another"), {"role": "user", "content": "not here"})
        return memory.thread("one")


@pytest.fixture
def schema(request: Any, postgresql: Server) -> Iterator[None]:
    """The URL of a schema for a test, whose memories are closed behind it."""
    request.instance.url = postgresql.url(f"memory_{next(SCHEMAS)}")
    request.instance.made = []
    yield
    for memory in request.instance.made:
        memory.close()


SCHEMAS = itertools.count()


@pytest.mark.usefixtures("schema")
class TestPostgresMemory(OurStoredConformance):
    kind = PostgresMemory
    url: str
    made: list[Any]

    def make_kind(self, kind: type[Any], tokens: int) -> Any:
        if len(self.made) > 10:  # a server has so many connections
            self.made.pop(0).close()
        thread = f"thread {len(self.made)} {next(SCHEMAS)}"
        self.made.append(kind(self.url, thread, tokens=tokens))
        return self.made[-1]

    def reopen(self, memory: Any) -> Any:
        self.made.append(PostgresMemory(self.url, memory.id))
        return self.made[-1]


def test_memory_of_an_own_class_sets_aside_what_a_restored_journal_lacks(tmp_path: Path) -> None:
    class Ahead(Memory):
        set_aside = 0

        def count_of_run(self, run: str) -> int:
            return 99

        def set_aside_later(self, recorded: Any) -> int:
            self.set_aside += 1
            return 1

    memory = Ahead()
    pay = Action("pay", lambda: "paid", "Pay.", access_policy=ACCESS_REQUESTED)
    with Journal(tmp_path / "runs.db") as journal:

        def clerk() -> ReActAgent:
            model = ScriptedModel([{"name": "pay", "args": {}}, "Paid."])
            options: Any = {"journal": journal, "approver": Waiting(), "memory": memory}
            return ReActAgent("clerk", model, actions=[pay], **options)

        assert clerk().reply_sync("Pay.", run_id="r").stop_reason == "waiting"
        journal.answer("r", journal.waiting("r")[0].key, True)
        (resumed,) = asyncio.run(clerk().resume_decided())
    assert resumed.reply is not None
    assert resumed.reply.text == "Paid."
    assert memory.set_aside
