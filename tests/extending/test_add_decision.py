"""A kind of decision stands in one file: prompt, terminal, cards and page read it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ADDED = (
    ('    CONTINUE = "CONTINUE"\n', '    NARROW = "NARROW"\n'),
    (
        "DECISIONS: Final[dict[DecisionAction, DecisionWords]] = {\n",
        """    DecisionAction.NARROW: DecisionWords(
        "narrow",
        instructs=True,
        for_model="R does less, as new_instruction says.",
        menu_text="have less done, with a remark",
        effect="does less",
        outcome="narrowed",
        announcement="the review asks for less",
    ),
""",
    ),
)
USES = """
import asyncio, io, json, re
from html import unescape
from moothall import DualActAgent, DualActConfig, Person, ReActAgent, ScriptedModel, show
from moothall.cli.run.run_display import RunDisplay
from moothall.agents.decision import DecisionAction
from moothall.agents.dualact.briefing import Briefing
from moothall.agents.decision import HumanDecision
from moothall.agents.replies.events import DecisionMade
from moothall.studio.page import shell_html

said = io.StringIO()
ann = Person("Ann", stdin=io.StringIO("n Only notes.md.\\n" + "a\\n"), stdout=said)
worker = ReActAgent("R", ScriptedModel(["All of it.", "One."]))
reply = DualActAgent(DualActConfig(ann, worker, first="reactive")).reply_sync("Mend them.")
narrowed, accepted = reply.decisions
assert reply.text == "One." and narrowed.new_instruction == "Only notes.md."
assert (narrowed.action, narrowed.reasoning) == (DecisionAction.NARROW, "narrowed by a person")
assert "  n REMARK   have less done, with a remark\\n" in said.getvalue()

prompt = Briefing(None, None, None).answer_form(1)
assert '| "NARROW"' in prompt or '"NARROW" |' in prompt, prompt
assert "NARROW: R does less, as new_instruction says." in prompt

data = re.search('data-told="([^"]*)"', shell_html([], "", "/"))[1]
told = json.loads(unescape(data))["decisions"]
assert ("NARROW", "narrow", "does less") in {(d["action"], d["choice"], d["effect"]) for d in told}
"""


def test_decision_added_in_one_file_is_known_to_prompt_terminal_and_page(added: Added) -> None:
    added({"agents/decision.py": ADDED})("-c", USES)
