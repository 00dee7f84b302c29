"""H's judgement by an answer of its own: what it is asked, and what code makes of its answers.

A small model copies a claim that it is shown into whatever it writes before its verdict. So H
answers the task from R's results before it sees what R says. Then it compares the two answers, and
code turns that into a decision. The examples come first, where a cache keeps them; their names can
pass for nobody's data.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from moothall.actions.provenance.reckoned import length_of
from moothall.actions.signature.schema import object_schema
from moothall.agents.decision import Conclusion, DecisionAction, HumanDecision
from moothall.agents.dualact.briefing import evidence_text, said_by, text_of
from moothall.agents.dualact.conclusions import MAX_SHORT_CHARS
from moothall.agents.replies.reply_request import AnswerSchema
from moothall.foundation.jsonvalue import Unreadable
from moothall.foundation.text import cut, marked
from moothall.foundation.text.values import fold, keys_of, spelled_out

_SHORT: Final = {"type": "string", "maxLength": MAX_SHORT_CHARS}
UNKNOWN: Final = "The results do not say."
"""What H answers where the results do not."""

OWN_SCHEMA: Final = object_schema(
    results_say={**_SHORT, "description": "what the results say about the task"},
    answer={**_SHORT, "description": "the answer to the task, in one sentence"},
)
"""What H's model writes before it sees R's answer."""
COMPARED_SCHEMA: Final = object_schema(
    A_in_short={**_SHORT, "description": "what A says about the task, in a few words"},
    B_in_short={**_SHORT, "description": "what B says about the task, in a few words"},
    B_is={"enum": ["as A", "different"], "description": "whether both say the same"},
)
"""What H's model writes about its own answer and R's."""

_OWN = f"""\
Answer a task from results alone: from nothing that you know, and nothing that the task says of \
itself. Look at each result: its values, its units, what it is about. If the task asks to change \
something, say whether the results show that it was changed. If they do not say it, answer: \
{UNKNOWN}

Examples:
Task: Is pump Zorp running?
Results: state {{"pump": "Zorp"}} gave: {{"state": "off"}}
{{"results_say": "the state of Zorp is off", "answer": "No, pump Zorp is not running."}}
Task: How many open hatches are there?
Results: hatches {{}} gave: [{{"id": 3, "open": true}}, {{"id": 4, "open": false}}, \
{{"id": 9, "open": true}}]
{{"results_say": "3 and 9 are open, 4 is not", "answer": "There are 2 open hatches, 3 and 9."}}
Task: Set the limit in plan.zz to 9.
Results: replace {{"in": "plan.zz", "by": "9"}} gave: nothing was found to replace
{{"results_say": "nothing was replaced", "answer": "No, the limit was not set."}}
Task: Who leads the Blue Guild?
Results: read {{"page": "guild"}} failed: there is no such page
{{"results_say": "the page could not be read", "answer": "{UNKNOWN}"}}

Now this one."""
_COMPARE = """\
Two answers to one task, A and B. Do they say the same about what the task asks? Another wording, \
or more detail beside it, is the same. Another value, name, unit or number, a part that is missing \
in one, or yes against no, is different.

Examples:
A: No, pump Zorp is not running. B: Yes, Zorp is running.
{"A_in_short": "not running", "B_in_short": "running", "B_is": "different"}
A: There are 2 open hatches, 3 and 9. B: Hatches 3 and 9 stand open, so two of them.
{"A_in_short": "3 and 9", "B_in_short": "3 and 9", "B_is": "as A"}
A: The hull is 12 metres long. B: 12 m
{"A_in_short": "12 metres", "B_in_short": "12 metres", "B_is": "as A"}
A: The guilds are Blue, Grey and Tin. B: Blue and Tin
{"A_in_short": "Blue, Grey, Tin", "B_in_short": "Blue, Tin", "B_is": "different"}
A: No, the limit was not set. B: I have set the limit to 9.
{"A_in_short": "not set", "B_in_short": "set to 9", "B_is": "different"}
A: The results do not say. B: Ann Grey leads the guild.
{"A_in_short": "not known", "B_in_short": "Ann Grey", "B_is": "different"}
A: The results do not say. B: I could not find out who leads it.
{"A_in_short": "not known", "B_in_short": "not known", "B_is": "as A"}

Now this one."""


async def compared(
    ask: Callable[..., Awaitable[dict[str, str]]],
    task: Any,
    conclusion: Conclusion | None,
    told: Sequence[str],
    before: Sequence[HumanDecision],
) -> HumanDecision:
    """Return H's decision; `ask` puts a question to it, by a schema and a reader, as a part."""
    if conclusion is None:
        return HumanDecision(DecisionAction.CONTINUE, "", "R begins with the task as it is")
    if conclusion.error is not None:
        why = f"You did not finish: {conclusion.error}. Go on, and conclude."
        return _sent_back(why, conclusion.error, before)
    text = text_of(task)
    own = await ask(_for_own(text, conclusion, told), OWN_SCHEMA, _reader(OWN_SCHEMA), ".own")
    question = _for_comparison(text, own, said_by(conclusion))
    found = await ask(question, COMPARED_SCHEMA, _reader(COMPARED_SCHEMA))
    return _decision(own, found, before)


def _for_own(task: str, conclusion: Conclusion, told: Sequence[str]) -> str:
    """Return the question for an answer of H's own."""
    more = "".join(f"\nMessage from the user:\n{marked(text)}" for text in told)
    results = marked(evidence_text(conclusion)) if conclusion.evidence else "nothing was called"
    return f"{_OWN}\nTask:\n{marked(task)}{more}\nResults:\n{results}\nAnswer with JSON."


def _for_comparison(task: str, own: dict[str, str], said: str) -> str:
    """Return the question whether R's answer is H's own."""
    both = f"A:\n{marked(own['answer'])}\nB:\n{marked(said)}"
    return f"{_COMPARE}\nTask:\n{marked(task)}\n{both}\nAnswer with JSON."


def _reader(schema: dict[str, Any]) -> Callable[[str], dict[str, str]]:
    def read(text: str) -> dict[str, str]:
        made: dict[str, str] = AnswerSchema(schema).parse(text)
        if not all(each.strip() for each in made.values()):
            raise Unreadable("has an empty part")
        return made

    return read


def _decision(
    own: dict[str, str], compared: dict[str, str], before: Sequence[HumanDecision]
) -> HumanDecision:
    """Return the decision that follows from H's two answers."""
    same = _same_value(compared["A_in_short"], compared["B_in_short"])
    if same or (same is None and compared["B_is"] == "as A"):
        return HumanDecision(DecisionAction.TERMINATE, "", cut(own["results_say"], MAX_SHORT_CHARS))
    said = compared["B_in_short"].rstrip(".")
    if own["answer"].strip() == UNKNOWN:
        what = f"Your answer says: {said}. The results of your calls do not show this."
        todo = "Call what shows it, or say that you do not know."
    else:
        what = f"Your answer says: {said}. By the results: {own['answer'].rstrip('.')}."
        todo = "Look at the results again, do what is missing, and answer by them."
    return _sent_back(f"{what} {todo}", own["answer"], before)


def _same_value(one: str, other: str) -> bool | None:
    """Return whether two texts are the same value or list; None if code cannot say."""
    ours, theirs = (spelled_out(fold(each)).rstrip(".") for each in (one, other))
    lists = [{each.strip() for each in text.split(",")} for text in (ours, theirs)]
    if ours == theirs or (len(lists[0]) > 1 and lists[0] == lists[1]):
        return True
    if min(map(len, lists)) > 1 and (lists[0] < lists[1] or lists[1] < lists[0]):
        return False
    lengths = {length_of(ours), length_of(theirs)}
    if None not in lengths:
        return len(lengths) == 1
    # A number with a unit is no plain number: 12 m is not 12 kg.
    values = [
        {key for key in keys_of(text) if key[0] != "number" or not re.search("[a-z%]", text)}
        for text in (ours, theirs)
    ]
    if not {key[0] for key in values[0]} & {key[0] for key in values[1]}:
        return None
    return bool(values[0] & values[1])


def _sent_back(instruction: str, why: str, before: Sequence[HumanDecision]) -> HumanDecision:
    """Return CONTINUE with an instruction; REDIRECT if R was told the same before."""
    told = any(each.new_instruction == instruction for each in before)
    action = DecisionAction.REDIRECT if told else DecisionAction.CONTINUE
    return HumanDecision(action, instruction, why)
