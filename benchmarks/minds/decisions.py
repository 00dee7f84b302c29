"""A dispatcher's choices, with situations that no block fits, and ends of conversations."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.minds.mind import Outcomes
from moothall import ChosenBy, Conversation, MaxTurns, ScriptedModel
from moothall.block import Block
from moothall.dispatch import BlockDispatcher
from moothall.models import Model
from moothall.reasoning.loop.react import ReActAgent


def block(called: str, about: str) -> Block:
    """A block of a name that can do what it says."""
    made = type(called, (Block,), {"description": about})()
    made.name = called
    return made


BLOCKS = [
    block("GardenBlock", "Looks after beds, trees and lawns"),
    block("KitchenBlock", "Prepares food and drinks"),
    block("LetterBlock", "Reads and writes mail"),
    block("RepairBlock", "Mends broken things in the house"),
]
SITUATIONS = [
    ("The tomatoes hang their leaves, it has not rained for a week.", "GardenBlock"),
    ("Two guests arrive in an hour, and they will be hungry.", "KitchenBlock"),
    ("An aunt has asked in her last message how we are.", "LetterBlock"),
    ("The tap in the bathroom drips all night.", "RepairBlock"),
    ("The hedge has grown over the path.", "GardenBlock"),
    ("It is seven in the morning and nobody has had coffee.", "KitchenBlock"),
    ("The tax office wants an answer until Friday.", "LetterBlock"),
    ("A leg of the table has come off.", "RepairBlock"),
    ("The flight to Lisbon has to be booked.", None),
    ("Somebody has to sing at the wedding.", None),
    ("The child has to learn the multiplication table.", None),
    ("We have to sell the old car.", None),
]
TALKS = [
    ([("Ann", "Is the report ready?"), ("Bob", "Yes, here it is."), ("Ann", "Thanks, bye!")], True),
    ([("Ann", "What does the boat cost?")], False),
    ([("Bob", "I have fixed the engine."), ("Ann", "Great. Then we are done. Goodbye!")], True),
    ([("Ann", "I drew the plan. Cleo, would you check it?")], False),
    ([("Cleo", "The sum is 12."), ("Ann", "That is what I wanted to know, thank you.")], True),
    ([("Bob", "Who has the key?"), ("Ann", "Ask Cleo.")], False),
]


def chosen(model: Model, situation: str, wanted: str | None) -> dict[str, Any]:
    """Which block is chosen."""
    dispatcher = BlockDispatcher(model)
    dispatcher.register_blocks(BLOCKS)
    found = asyncio.run(dispatcher.dispatch(situation))
    made = dispatcher.decisions[-1]
    name = None if found is None else found.name
    return {"right": name == wanted, "none": wanted is None, "made": name, "why": made.reason}


def over(model: Model, lines: list[tuple[str, str]], wanted: bool) -> dict[str, Any]:
    """Whether a conversation ends after its lines."""
    said = {name: [text for who, text in lines if who == name] for name in ("Ann", "Bob", "Cleo")}
    agents = [ReActAgent(name, ScriptedModel([*texts, "Well."])) for name, texts in said.items()]
    order = Told([who for who, _ in lines], model)
    talk = Conversation(agents, order, MaxTurns(len(lines) + 1))
    reply = talk.reply_sync("Begin.")
    ended = "ended the conversation" in reply.detail
    return {"right": ended is wanted, "over": wanted, "detail": reply.detail}


class Told(ChosenBy):
    """The lines that are told, and then a model's choice."""

    def __init__(self, first: list[str], model: Model) -> None:
        super().__init__(model, may_end=True)
        self._first = first

    async def choose(self, state: Any) -> Any:
        from moothall.reasoning.conversation.speaking_order import Choice

        if state.turns < len(self._first):
            return Choice((self._first[state.turns],))
        return await super().choose(state)


def run(model: Model, outcomes: Outcomes, count: int) -> tuple[Any, Any]:
    """The outcomes of choices and of ends."""
    choices = [
        outcomes.of("dispatcher", each[0], lambda e=each: chosen(model, *e))
        for each in [*SITUATIONS[:count], *SITUATIONS[8 : 8 + count // 2]]
    ]
    ends = [
        outcomes.of("ends", each[0][-1][1], lambda e=each: over(model, *e))
        for each in TALKS[:count]
    ]
    return choices, ends
