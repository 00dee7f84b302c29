"""Memory: what an agent remembers, as chat messages. Each kind loads when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.memory.bounded import TokenBoundedMemory as TokenBoundedMemory
    from civitas.memory.embedder import Embedder as Embedder
    from civitas.memory.embedder import HashEmbedder as HashEmbedder
    from civitas.memory.file import MemoryFileError as MemoryFileError
    from civitas.memory.memory import Memory as Memory
    from civitas.memory.sqlite import SQLiteMemory as SQLiteMemory
    from civitas.memory.summarizing import SummarizingMemory as SummarizingMemory

_HOME = {
    "Embedder": "embedder",
    "HashEmbedder": "embedder",
    "Memory": "memory",
    "MemoryFileError": "file",
    "SQLiteMemory": "sqlite",
    "SummarizingMemory": "summarizing",
    "TokenBoundedMemory": "bounded",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.memory' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"civitas.memory.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
