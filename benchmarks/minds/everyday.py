"""Sixty tasks of everyday life, written before the prompts were read by whoever wrote them.

They are data, in `everyday.json`: choices of a block, next speakers, requests to hand over, tasks
that H judges, conversations to note, and tasks of two steps. Every second one is shut.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.minds import decisions, judgements, notes, twosteps
from benchmarks.minds.mind import Outcomes
from moothall import Conversation, HandOver, MaxTurns, ReActAgent, ScriptedModel
from moothall.actions import Action
from moothall.models import Model

DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
COLLEAGUE = "It is done."


def handed_over(
    model: Model, desk: str, text: str, wanted: str | None, says: list[str]
) -> dict[str, Any]:
    """Who answers a request: the desk, with what it knows, or the colleague whose it is."""
    (name, knows), *others = ((id, about) for id, (_, about) in DATA["desks"][desk].items())
    agents = [ReActAgent(name, model, system_prompt=knows)]
    agents += [ReActAgent(id, ScriptedModel([COLLEAGUE])) for id, _ in others]
    talk = Conversation(agents, HandOver(name, about=dict(others)), MaxTurns(3))
    reply = talk.reply_sync(text)
    spoken = [each.speaker for each in talk.state.transcript if each.speaker is not None]
    made = next((each for each in reversed(spoken) if each != name), None)
    right = made == wanted and (
        wanted is not None or any(each.lower() in reply.text.lower() for each in says)
    )
    return {
        "right": right,
        "mine": wanted is None,
        "kept": made is None,
        "made": made,
        "text": reply.text[:200],
        "detail": reply.detail[:200],
    }


def actions_of(names: list[str]) -> list[Action]:
    """Actions that look a text up in a table."""

    def made(name: str) -> Action:
        about, parameter, table = DATA["actions"][name]

        def gives(**given: Any) -> Any:
            return table[given[parameter]]

        properties = {parameter: {"type": "string"}}
        schema = {"type": "object", "properties": properties, "required": [parameter]}
        return Action(name, gives, about, {**schema, "additionalProperties": False})

    return [made(name) for name in names]


def run(model: Model, outcomes: Outcomes, count: int, shut: bool) -> dict[str, list[Any]]:
    """The outcomes of the tasks, by kind."""

    def every(kind: str, name_of: Any, do: Any) -> list[Any]:
        return [
            outcomes.of(f"everyday.{kind}", name_of(each), lambda e=each: do(*e))
            for each in DATA[kind][shut::2][:count]
        ]

    blocks = {
        set_: [decisions.block(*each) for each in of.items()] for set_, of in DATA["blocks"].items()
    }
    judged = [
        outcomes.of(
            "everyday.judgements",
            f"{each[0]} ({'right' if is_right else 'wrong'})",
            lambda e=each, r=is_right: judgements.judge(model, ("", *e), r, None),
        )
        for each in DATA["judgements"][shut::2][:count]
        for is_right in (True, False)
    ]
    return {
        "judgements": judged,
        "dispatch": every(
            "dispatch",
            lambda each: each[1],
            lambda of, text, wanted: decisions.chosen(model, text, wanted, blocks[of]),
        ),
        "speakers": every(
            "speakers",
            lambda each: each[1][-1][1],
            lambda of, lines, wanted: decisions.next_of(model, DATA["roles"][of], lines, wanted),
        ),
        "handover": every(
            "handover",
            lambda each: each[1],
            lambda *each: handed_over(model, *each),
        ),
        "notes": every(
            "notes",
            lambda each: each[0][0][1],
            lambda lines, facts: notes.noted(model, lines, facts),
        ),
        "two_steps": every(
            "two_steps",
            lambda each: each[1],
            lambda names, text, says: twosteps.one(model, actions_of(names), text, tuple(says)),
        ),
    }
