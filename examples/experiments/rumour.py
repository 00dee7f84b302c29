"""A rumour that citizens pass on in their talk, and a stand-in for a language model.

The stand-in needs no key and no weights. It answers only from what a citizen is shown, so it
passes on what the citizen remembers, and nothing else.
"""

from __future__ import annotations

import json
from typing import Any

from moothall import ScriptedModel
from moothall.society import Respondent, Society

TOPIC = "old mill"


def answer(messages: list[dict[str, Any]], actions: Any = None) -> str:
    """Answer a prompt: talk where that is offered, and tell the rumour if it is remembered."""
    task, shown = messages[0]["content"], messages[1]["content"]
    if "which block" in task:
        offered = [each["block"] for each in json.loads(shown)["blocks"]]
        block = "SocialBlock" if "SocialBlock" in offered else offered[0]
        return json.dumps({"block": block, "reason": "to talk, if possible"})
    known = json.loads(shown[shown.index("\n{") :])
    asked = known.pop("questions", {})
    knows = TOPIC in shown.partition("\n{")[0] or TOPIC in json.dumps(known)
    if "to say something to" in task:
        said = f"Have you heard? The {TOPIC} will be sold!" if knows else "Good day."
        return json.dumps({"to": known["people"][0]["id"], "content": said})
    if "knows" in asked:
        return json.dumps({"knows": knows})
    if "answer" in asked:
        return json.dumps({"answer": f"The {TOPIC}." if knows else "The weather."})
    return "the rule decides"


def mind() -> ScriptedModel:
    """The model of every citizen."""
    return ScriptedModel(answer)


def heard(society: Society) -> int:
    """How many citizens remember the rumour."""
    return sum(TOPIC in str(each.memory.stream) for each in society.agents)


def knows(one: Respondent) -> bool:
    """Whether a citizen remembers the rumour: the rule of the survey's question."""
    return TOPIC in str(one.stream)
