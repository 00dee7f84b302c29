"""Forty tasks alone, under review by H, and alone as often as the tokens of the review pay for.

R and H are the same model. Twenty tasks are those of two steps, twenty those of the judgements,
with actions that give their results. Repeated attempts are made at a temperature of 0.7, and the
majority must be right. Every second task is shut.
"""

from __future__ import annotations

import re
from typing import Any

from benchmarks.minds import judgements, twosteps
from benchmarks.minds.mind import Outcomes
from moothall import AskAgain, DualActAgent, ReActAgent
from moothall.actions import Action
from moothall.models import Model

ABOUT = {
    "find_person": "Return what is known of a person, such as the phone number.",
    "status": "Return the state of a server.",
    "hours": "Return the hours that a person has logged on a day.",
    "price": "Return the price of a ticket.",
    "list_files": "Return the names of the files in a folder.",
    "rooms": "Return which rooms are free or taken on a day.",
    "payments": "Return which member has paid, and whose payment is open.",
    "line": "Return the towns at which a line stops.",
    "replace": "Replace a text in a file by another one.",
    "read": "Return the text of a file.",
    "delete": "Delete a file.",
    "book": "Book a room.",
    "refund": "Pay back an order.",
    "weigh": "Return how heavy a parcel is.",
    "film": "Return what is known of a film, such as its length.",
    "report": "Return what is known of a report: its author and its date.",
    "run_tests": "Run the tests, and return how many passed and failed.",
    "fridge": "Return what is in the fridge.",
    "look_up": "Look a place up in the encyclopedia.",
    "company": "Return what the register knows of a company.",
}
_NOT = r"\b(not?|none|nothing|cannot|couldn|can't|don't|isn't|wasn't|unknown|unable|failed)\b"
SAYS = [
    *("555-0148", rf"stopped|{_NOT}", r"\b13\b", r"\b55\b", r"\b(3|three)\b"),
    *(r"\b(2|two)\b", r"(?s)(?=.*Omar)(?=.*Pia)(?!.*Lena)", r"(?s)(?=.*Altdorf)(?=.*Brugg).*Chur"),
    *("9000", rf"denied|{_NOT}", rf"taken|refused|{_NOT}", rf"older|refused|{_NOT}"),
    *(r"\b2\.5\b", r"\b105\b", "Duarte", r"\b11\b", rf"\b2\b.*fail|two.*fail|{_NOT}", _NOT),
    *(_NOT, _NOT),
]
"""What is found in a right answer to each of the first twenty tasks of the judgements."""
ATTEMPTS = 3


def actions_of(calls: list[tuple[str, dict[str, Any], Any]]) -> list[Action]:
    """Actions that give the results of these calls; a text among the arguments may say more."""

    def made(name: str) -> Action:
        of = [(args, result) for called, args, result in calls if called == name]

        def gives(**given: Any) -> Any:
            for args, result in of:
                if all(str(v).lower() in str(given[k]).lower() for k, v in args.items()):
                    return result
            raise AskAgain("there is nothing of that name")

        properties = {
            name: {"type": "integer" if isinstance(value, int) else "string"}
            for name, value in of[0][0].items()
        }
        schema = {"type": "object", "properties": properties, "required": [*properties]}
        return Action(name, gives, ABOUT[name], {**schema, "additionalProperties": False})

    return [made(name) for name in dict.fromkeys(name for name, _, _ in calls)]


def tasks() -> list[tuple[list[Any], str, Any]]:
    """Actions, the task, and whether a text answers it."""

    def either(says: tuple[str, ...], held: Any) -> Any:
        return lambda text: held(each in text for each in says)

    two = [
        (actions, text, either(says, all if text in twosteps.ALL_OF else any))
        for actions, text, says in twosteps.TASKS
    ]
    one = [
        (actions_of(calls), text, re.compile(says, re.IGNORECASE).search)
        for (_, text, calls, _, _), says in zip(judgements.TASKS, SAYS, strict=False)
    ]
    return [each for at in range(0, 20, 2) for each in (*two[at : at + 2], *one[at : at + 2])]


def one(model: Model, warm: Model, actions: list[Any], text: str, fits: Any) -> dict[str, Any]:
    """What comes of a task in the three ways."""

    def worker(of: Model) -> ReActAgent:
        return ReActAgent("R", of, actions=actions, max_iterations=8)

    def right(reply: Any) -> bool:
        return bool(fits(reply.text)) and reply.stop_reason in ("done", "terminated", "max_loops")

    alone = worker(model).reply_sync(text)
    dual = DualActAgent(
        human=ReActAgent("H", model), reactive=worker(model), first="reactive", max_hr_loops=2
    )
    reply = dual.reply_sync(text)
    spent, attempts = alone.usage.total, [right(alone)]
    while spent < reply.usage.total and len(attempts) < ATTEMPTS:
        again = worker(warm).reply_sync(text)
        spent += again.usage.total
        attempts.append(right(again))
    return {
        "right": right(reply),
        "alone": right(alone),
        "repeated": sum(attempts) * 2 > len(attempts),
        "attempts": attempts,
        "tokens": [alone.usage.total, reply.usage.total, spent],
        "texts": [alone.text[:200], reply.text[:200]],
        "decisions": [each.to_json() for each in reply.decisions],
        "stop": reply.stop_reason,
    }


def run(model: Model, warm: Model, outcomes: Outcomes, count: int, shut: bool) -> Any:
    """The outcomes of some tasks."""
    return [
        outcomes.of("reviewed", task[1], lambda t=task: one(model, warm, *t))
        for task in tasks()[shut::2][:count]
    ]
