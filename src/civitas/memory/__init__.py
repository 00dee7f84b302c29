"""Memory: what an agent remembers, as chat messages. Each kind loads on first use."""

from __future__ import annotations

import importlib
from typing import Any

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
    return getattr(importlib.import_module(f"civitas.memory.{home}"), name)
