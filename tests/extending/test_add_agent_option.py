"""An option of `ReActAgent` stands in one file: its name, type, default, check and help.

A user cannot add one, so this test adds it to a copy of the package, with a stop reason of its own.
"""

from __future__ import annotations

from tests.extending.conftest import Added

OPTION = (
    ("    outside_policy: AccessPolicy\n", "    stop_on_refusal: bool\n"),
    (
        "    outside_policy: AccessPolicy = ACCESS_REQUESTED\n",
        "    stop_on_refusal: bool = False\n",
    ),
    (
        "LOOP_SETTINGS: Final = {\n",
        '    "stop_on_refusal": LoopSetting(\n'
        '        "whether a reply ends, as `refused`, once a call was not permitted",\n'
        "        _checked_by(check_boolean),\n"
        "    ),\n",
    ),
)
REASON = (
    ('    "unreadable",\n', '    "refused",\n'),
    (
        '"the model repeated the same calls", is_final=True),\n',
        '    "refused": ReasonMeaning("stopped", "a call was not permitted", is_final=True),\n',
    ),
)
ACTS = (
    (
        "from moothall.foundation.threads import is_cancelled\n",
        "from moothall.journal.describe import is_refused\n",
    ),
    (
        "        if is_interrupted:\n            return None\n",
        "        if agent.stop_on_refusal:\n"
        "            for step in turn.steps:\n"
        '                if is_refused(step.action, {"result": step.result}):\n'
        '                    return self.end(Stop("refused", str(step.error)))\n',
    ),
)
USES = """
import inspect

from moothall import ACCESS_REQUESTED, Action, CallbackApprover, DefinitionError
from moothall import Journal, ReActAgent, ScriptedModel

def send() -> str:
    \"\"\"Send it.\"\"\"
    return "sent"

def agent(**options) -> ReActAgent:
    return ReActAgent(
        "a",
        ScriptedModel([{"name": "send"}, "It was refused."]),
        actions=[Action("send", send, access_policy=ACCESS_REQUESTED)],
        approver=CallbackApprover(lambda request: False),
        journal="runs.db",
        **options,
    )

assert agent().reply_sync("go", run_id="on").stop_reason == "done"
reply = agent(stop_on_refusal=True, tries=3).reply_sync("go", run_id="off")
assert (reply.stop_reason, reply.detail) == ("refused", '"send" not permitted'), reply
assert [run.id for run in Journal("runs.db").runs(state="refused")] == ["off"]
assert "    stop_on_refusal: whether a reply ends, as" in inspect.getdoc(ReActAgent)
for wrong, text in (
    ({"stop_on_refusal": 2}, "agent 'a': stop_on_refusal= must be "),
    ({"stop_on_refusals": True}, "(did you mean 'stop_on_refusal'?)"),
):
    try:
        agent(**wrong)
    except DefinitionError as error:
        assert text in str(error), error
    else:
        raise AssertionError(wrong)
"""


def test_agent_option_added_in_one_file_is_checked_documented_and_stops_a_run(
    added: Added,
) -> None:
    files = {"agents/loop/parts.py": OPTION, "journal/stop_reason.py": REASON}
    run = added({**files, "agents/loop/run.py": ACTS})
    run("-c", USES)
    assert "a call was not permitted" in run("-m", "moothall", "runs", "off", "--journal=runs.db")
