"""Every memory is held to the same cases."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.postgresql import Server

from conformance.memory import MemoryConformance
from moothall import ScriptedModel
from moothall.memory import (
    Memory,
    PostgresMemory,
    SQLiteMemory,
    SummarizingMemory,
    TokenBoundedMemory,
)


class TestMemory(MemoryConformance):
    kind = Memory

    def make(self, kind: type[Any], tokens: int) -> Any:
        return kind()


class TestTokenBoundedMemory(MemoryConformance):
    kind = TokenBoundedMemory

    def make(self, kind: type[Any], tokens: int) -> Any:
        return kind(tokens)


class TestSummarizingMemory(MemoryConformance):
    kind = SummarizingMemory

    def make(self, kind: type[Any], tokens: int) -> Any:
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


class StoredConformance(MemoryConformance):
    def forget(self, memory: Any, thread: str, how: str) -> None:
        if how == "forget":
            memory.thread(thread).forget()
        else:
            assert thread in memory.prune(0)


@pytest.mark.usefixtures("files")
class TestSQLiteMemory(StoredConformance):
    kind = SQLiteMemory
    bounded = True
    paths: Iterator[Path]
    made: list[Any]

    def make(self, kind: type[Any], tokens: int) -> Any:
        memory = kind(next(self.paths), tokens=tokens if self.bounded else None)
        self.made.append(memory)
        return memory


class TestSQLiteMemoryWithoutABound(TestSQLiteMemory):
    bounded = False


class TestAThreadOfSQLiteMemory(TestSQLiteMemory):
    def make(self, kind: type[Any], tokens: int) -> Any:
        memory = super().make(kind, tokens)
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
class TestPostgresMemory(StoredConformance):
    kind = PostgresMemory
    url: str
    made: list[Any]

    def make(self, kind: type[Any], tokens: int) -> Any:
        if len(self.made) > 10:  # a server has so many connections
            self.made.pop(0).close()
        thread = f"thread {len(self.made)} {next(SCHEMAS)}"
        self.made.append(kind(self.url, thread, tokens=tokens))
        return self.made[-1]
