"""A part of a dual act stands in one file: the agent takes by name what its configuration has.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from dataclasses import fields

from tests.extending.conftest import Added

from moothall.agents.dualact.config import DUAL_ACT_PARTS, DualActConfig

PART = (
    ("    shared_memory: bool | None\n", "    patience_s: float | None\n"),
    ("    shared_memory: bool = False\n", "    patience_s: float = 60.0\n"),
)
USES = """
from moothall import DefinitionError, DualActAgent, ReActAgent, ScriptedModel

human, reactive = (ReActAgent(each, ScriptedModel([])) for each in ("h", "r"))
both = DualActAgent(human=human, reactive=reactive, patience_s=5.0)
assert (both.config.patience_s, both.config.max_hr_loops) == (5.0, 5)
try:
    DualActAgent(human=human, reactive=reactive, patience=5.0)
except DefinitionError as error:
    text = "DualActAgent has no argument patience= (did you mean 'patience_s'?)"
    assert str(error) == text, error
else:
    raise AssertionError
"""


def test_dual_act_part_added_in_one_file_is_taken_by_the_agent(added: Added) -> None:
    assert [each.name for each in fields(DualActConfig)] == [*DUAL_ACT_PARTS]
    added({"agents/dualact/config.py": PART})("-c", USES)
