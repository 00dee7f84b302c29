"""An option of memories in a database, with a column of its own, stands in two files.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

COLUMN = (
    (
        "        item TEXT NOT NULL,\n",
        "        added DOUBLE PRECISION NOT NULL DEFAULT 0,\n",
    ),
    ("(thread, role, item, run", ", added"),
    ("VALUES (?, ?, ?, ?", ", ?"),
    ("            (thread, role, text, run", ", time.time()"),
)
OPTION = (
    ("        clear: bool\n", "        only_since: float\n"),
    ("        clear: bool = True,\n", "        only_since: float = 0,\n"),
    ("        self._clears = clear\n", "        self._only_since = only_since\n"),
    (
        "  # what of the thread it reads\n",
        '        self._view_filter = "AND added >= ?", (self._only_since,)\n',
    ),
)
USES = """
import time

from moothall import DefinitionError, PostgresMemory, SQLiteMemory

memory = SQLiteMemory("memory.db")
memory.add_memory({"role": "user", "content": "early"})
noon = time.time()
memory.add_memory({"role": "user", "content": "late"})
for tokens in (None, 100):
    later = SQLiteMemory("memory.db", tokens=tokens, only_since=noon)
    assert [each["content"] for each in later.get_memories()] == ["late"]
    assert [each["content"] for each in later.thread("other").get_memories()] == []
assert len(memory.get_memories()) == 2
try:
    PostgresMemory("postgresql://nobody@localhost/none", only_sinc=noon)
except DefinitionError as error:
    assert "(did you mean 'only_since'?)" in str(error), error
else:
    raise AssertionError
"""


def test_memory_option_added_in_two_files_has_its_column_in_both_databases(added: Added) -> None:
    files = {"memory/memory_tables.py": COLUMN, "memory/stored_memory.py": OPTION}
    run = added(files)
    run("-c", USES)
    from_server = "from moothall.memory.postgres_tables import _MIGRATIONS as m; print(m[-1])"
    assert "added DOUBLE" in run("-c", from_server)
