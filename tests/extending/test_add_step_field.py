"""What is told of a call after it: a step has it, what its run records, and a resumed one, too.

A user cannot add it, so this test adds it to a copy of the package: the step's field, what a call
keeps, and where it is known.
"""

from __future__ import annotations

from tests.extending.conftest import Added

FIELD = (('    repaired: str = ""\n', "    seconds: float = 0.0\n"),)
KEPT = (
    ("    fault: str | None = None  # what is wrong with the call\n", "    seconds: float = 0.0\n"),
    ("            self.origins\n", "            or self.seconds\n"),
    ('data = {"origins": self.origins, ', '"seconds": self.seconds, '),
    (
        '            self.origins = origins_of(data.get("origins"))\n',
        '            self.seconds = data.get("seconds", 0.0)\n',
    ),
    ("*ids, origins, self.repaired", ", self.seconds"),
)
MEASURED = (
    ("import asyncio\n", "import time\n"),
    ("        call.has_started = True\n", "        begun = time.monotonic()\n"),
    (
        "        reading.end_execution(call, token, result)\n",
        "        call.seconds = time.monotonic() - begun\n",
    ),
)
USES = """
import asyncio
import time
from moothall import Journal, ReActAgent, ScriptedModel

def look() -> str:
    time.sleep(0.01)
    return "seen"

def agent(script):
    return ReActAgent("a", ScriptedModel(script), actions=[look], journal="runs.db")

steps = agent([{"name": "look"}, "Done."]).reply_sync("Look.", run_id="one").steps
assert steps[0].seconds >= 0.01, steps
read = agent([]).reply_sync("Look.", run_id="one").steps
assert read == steps, (read, steps)
"""


def test_step_field_added_in_three_files_is_in_a_reply_and_in_one_read_from_a_journal(
    added: Added,
) -> None:
    run = added(
        {
            "agents/replies/reply.py": FIELD,
            "agents/loop/answer.py": KEPT,
            "agents/loop/calls.py": MEASURED,
        }
    )
    run("-c", USES)
