"""An option of one reply stands in two files: its name, and where it acts; records keep it.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

OPTION = (("    options: Mapping[str, Any] | None\n", "    most_turns: int | None\n"),)
ACTS = (
    (
        "        while state.iteration < agent.max_iterations",
        ' and not state.iteration >= request.options.get("most_turns", 99)',
    ),
)
USES = """
import inspect

from moothall import Conversation, DefinitionError, Journal, ReActAgent, ScriptedModel

def add(a: int, b: int) -> int:
    \"\"\"Add two integers.\"\"\"
    return a + b

def agent() -> ReActAgent:
    calls = [{"name": "add", "args": {"a": a, "b": 1}} for a in range(9)]
    return ReActAgent("a", ScriptedModel([*calls, "9"]), actions=[add], journal=Journal("runs.db"))

assert len(agent().reply_sync("go").steps) == 9
reply = agent().reply_sync("go", run_id="r", most_turns=2)
assert (reply.stop_reason, len(reply.steps)) == ("max_iterations", 2), reply
Journal("runs.db").fork("r", "again", upto=4)
assert len(agent().reply_sync("go", run_id="again").steps) == 2  # which the record has
assert inspect.signature(agent().stream).parameters["most_turns"].default is None
conversation = Conversation([agent()], id="c")
for asked, text in (
    (lambda: agent().reply_sync("go", most_turn=2), "has no argument most_turn= (did you mean"),
    (lambda: conversation.reply_sync("go", most_turns=2), "'c': most_turns= is for a ReAct"),
):
    try:
        asked()
    except DefinitionError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
"""


def test_reply_option_added_in_two_files_is_checked_shown_and_kept_by_a_resumed_run(
    added: Added,
) -> None:
    files = {"agents/replies/reply_request.py": OPTION, "agents/loop/run.py": ACTS}
    added(files)("-c", USES)
