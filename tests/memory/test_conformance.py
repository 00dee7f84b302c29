"""Every memory is held to the same cases."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from benchmarks.postgresql import Server

from moothall import ReActAgent, ScriptedModel
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
