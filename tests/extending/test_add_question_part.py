"""A part of a question to a person stands where it is asked and where it is kept; all show it then.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

PART = (
    (
        '    answer_schema: ClassVar[dict[str, Any]] = {"type": "string"}\n',
        "    choices: tuple[str, ...] = ()\n\n"
        "    @property\n"
        "    def answer_schema(self) -> dict[str, Any]:\n"
        '        return {"type": "string"} | ({"enum": [*self.choices]} if self.choices else {})\n',
    ),
    ('        return {"text": self.text', ', "choices": [*self.choices]'),
)
ASKED = (
    ("    def ask_person(self, question: str", ", choices: tuple[str, ...] = ()"),
    ("Question(str(self.agent.id), question, self.run_id", ", choices=choices"),
)
KEPT = (
    ("    facts: Facts = field(default_factory=dict)\n", "    choices: Sequence[str] = ()\n"),
    ("return Question(agent, self.text, self.run", ", choices=self.choices"),
    (
        "= lambda run, answer, wait_data: None\n",
        "\n\ndef _check_choice(run: str, answer: Any, wait_data: Mapping[str, Any]) -> None:\n"
        '    if (choices := wait_data.get("choices")) and answer not in choices:\n'
        '        text = f"run {run!r}: the answer must be one of {choices}, got {answer!r}"\n'
        "        raise ConfigError(text)\n",
    ),
    ('"an answer to {text}", True, True, True, _text_answer', ", _check_choice"),
)
USES = """
from dataclasses import replace

from moothall import ConfigError, Context, Journal, ReActAgent, ScriptedModel, Waiting
from moothall.serving.doors.asks import answer_schema, asks_of
from moothall.studio.cards import Cards
from moothall.studio.event_feed import EventFeed

async def paint(context: Context) -> str:
    \"\"\"Paint it.\"\"\"
    return await context.ask_person("Which colour?", choices=("red", "blue"))

def agent() -> ReActAgent:
    script = ScriptedModel([{"name": "paint"}, "Painted."])
    return ReActAgent("a", script, actions=[paint], approver=Waiting(), journal="runs.db")

assert agent().reply_sync("go", run_id="r").stop_reason == "waiting"
journal = Journal("runs.db")
(wait,) = journal.waiting()
assert wait.to_json()["choices"] == ["red", "blue"]
(ask,) = asks_of([replace(wait, asks_caller=True)], may_permit=False).values()
assert ask.details == {"agent": "a", "text": "Which colour?", "choices": ["red", "blue"]}
assert answer_schema(ask, "permit")["properties"]["answer"]["enum"] == ["red", "blue"]
cards = Cards(EventFeed())
cards.refresh_waits(journal, "eva")
(card,) = cards.to_json()
assert card["choices"] == ["red", "blue"]
try:
    journal.answer("r", wait.key, "green")
except ConfigError as error:
    assert "must be one of ['red', 'blue'], got 'green'" in str(error), error
else:
    raise AssertionError
journal.answer("r", wait.key, "blue")
assert agent().reply_sync("go", run_id="r").steps[0].result["result"] == "blue"
"""


def test_part_of_a_question_added_in_three_files_is_kept_checked_and_shown_by_doors_and_cards(
    added: Added,
) -> None:
    files = {"actions/approval/request.py": PART, "agents/context.py": ASKED}
    added({**files, "journal/wait_kinds.py": KEPT})("-c", USES)
