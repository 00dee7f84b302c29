"""An option of `Later` stands where it is given and where waits are read: records keep it.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

OPTION = (
    ('        text: str = "",\n', "        urgent: bool = False,\n"),
    ("        self.text: str = text\n", "        self.urgent = urgent\n"),
    ('        parts = {"who": [*self.who], ', '"urgent": self.urgent, '),
)
READ = (("    facts: Facts = field(default_factory=dict)\n", "    urgent: bool = False\n"),)
USES = """
from moothall import Journal, Later, ReActAgent, ScriptedModel

def pack() -> Later:
    \"\"\"Pack it.\"\"\"
    return Later("batch", who="eva", urgent=True)

def agent() -> ReActAgent:
    script = ScriptedModel([{"name": "pack"}, "Packed."])
    return ReActAgent("a", script, actions=[pack], journal="runs.db")

assert agent().reply_sync("go", run_id="r").stop_reason == "waiting"
journal = Journal("runs.db")
(wait,) = journal.waiting()
assert (wait.urgent, wait.who, wait.to_json()["urgent"]) == (True, ("eva",), True)
"""


def test_option_of_later_added_in_two_files_is_recorded_and_listed(added: Added) -> None:
    run = added({"actions/approval/later.py": OPTION, "journal/wait_kinds.py": READ})
    run("-c", USES)
    assert '"urgent": true' in run("-m", "moothall", "waiting", "--json", "--journal", "runs.db")
