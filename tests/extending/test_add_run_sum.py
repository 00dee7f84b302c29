"""What is added up of a run stands in two files: outlines, sums and orders have it then.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

COUNTED = (
    ('__slots__ = ("actions", ', '"steps", '),
    ("    errors: int = 0\n\n", "    steps: int = 0\n"),
    ("        self.actions: int = 0\n", "        self.steps: int = 0\n"),
    ('        if kind == "started":\n', "            self.steps += 1\n"),
    ("self.actions, self.errors", ", self.steps"),
)
MIGRATIONS = (
    (
        "        errors BIGINT NOT NULL DEFAULT 0,\n",
        "        steps BIGINT NOT NULL DEFAULT 0,\n",
    ),
)
USES = """
from moothall import Journal, ReActAgent, ScriptedModel

def look() -> str:
    return "seen"

script = ScriptedModel([{"name": "look"}, "Done.", "Done."])
agent = ReActAgent("a", script, actions=[look], journal="runs.db")
agent.reply_sync("Look.", run_id="two")
agent.reply_sync("Say it.", run_id="one")
journal = Journal("runs.db")
assert [(run.id, run.steps, run.actions) for run in journal.runs(sort="-steps")] == [
    ("two", 3, 1), ("one", 1, 0)
]
assert (journal.sums().steps, journal.sums().actions) == (4, 1)
"""


def test_run_sum_added_in_two_files_is_counted_listed_and_sorted_by(added: Added) -> None:
    run = added({"journal/tally.py": COUNTED, "journal/store/tables.py": MIGRATIONS})
    run("-c", USES)
    listed = run("-m", "moothall", "runs", "--journal", "runs.db", "--sort=-steps")
    assert listed.index("two") < listed.index("one")
