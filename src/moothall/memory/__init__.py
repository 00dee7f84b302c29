"""Memory: what an agent remembers, as chat messages. Each kind loads on first use."""

from __future__ import annotations

from moothall.text import lazily

_HOME = {
    "Embedder": "embedder",
    "HashEmbedder": "embedder",
    "Memory": "memory",
    "MemoryFileError": "memory_file",
    "MemoryT": "memory_config",
    "PostgresMemory": "postgres",
    "SQLiteMemory": "sqlite",
    "SummarizingMemory": "summarizing",
    "TokenBoundedMemory": "bounded",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazily(__name__, _HOME)
