"""The public names of this package: `__init__.py` loads them from here."""

from moothall.memory.bounded import DEFAULT_TOKENS as DEFAULT_TOKENS
from moothall.memory.bounded import TokenBoundedMemory as TokenBoundedMemory
from moothall.memory.bounded import estimate_tokens as estimate_tokens
from moothall.memory.by_path import memory_at as memory_at
from moothall.memory.embedder import Embedder as Embedder
from moothall.memory.embedder import HashEmbedder as HashEmbedder
from moothall.memory.memory import Memory as Memory
from moothall.memory.memory import MemoryPart as MemoryPart
from moothall.memory.memory_config import MemoryT as MemoryT
from moothall.memory.memory_file import MemoryFileError as MemoryFileError
from moothall.memory.postgres import PostgresMemory as PostgresMemory
from moothall.memory.refused import with_unanswered as with_unanswered
from moothall.memory.reply_memory import join_messages as join_messages
from moothall.memory.reply_memory import split_message as split_message
from moothall.memory.sqlite import SQLiteMemory as SQLiteMemory
from moothall.memory.stored_memory import StoredMemory as StoredMemory
from moothall.memory.summarizing import SummarizingMemory as SummarizingMemory
