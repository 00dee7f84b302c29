"""What a model says of its answer is kept in `meta`; a row of the journal's words shows it.

A journal keeps what a user's model says. The words, a user cannot add: this test adds them to a
copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

WORDS = (('"answered_by": "answered by {}"', ', "region": "computed in {}"'),)
USES = """
import os
from moothall import Journal, ModelReply, ReActAgent
from moothall.studio.orders.order import order_line as line_of

class Model:
    name, context_tokens, max_tokens = "mine", None, 100

    async def complete(self, messages, actions=None, schema=None):
        return ModelReply("Yes.", meta={"region": "Europe"})

with Journal("runs.db") as journal:
    ReActAgent("a", Model(), journal=journal).reply_sync("go", run_id="r")
    assert "model answer 1: Yes.; computed in Europe" in map(line_of, journal.entries("r"))
"""


def test_fact_of_an_answer_added_as_a_row_is_in_the_lines_of_commands_and_pages(
    added: Added,
) -> None:
    added({"journal/describe.py": WORDS})("-c", USES)
