"""The names of `__init__.py` for type checkers and editors."""

from civitas.memory.bounded import TokenBoundedMemory as TokenBoundedMemory
from civitas.memory.embedder import Embedder as Embedder
from civitas.memory.embedder import HashEmbedder as HashEmbedder
from civitas.memory.file import MemoryFileError as MemoryFileError
from civitas.memory.memory import Memory as Memory
from civitas.memory.sqlite import SQLiteMemory as SQLiteMemory
from civitas.memory.summarizing import SummarizingMemory as SummarizingMemory
