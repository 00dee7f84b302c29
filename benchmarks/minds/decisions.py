"""A dispatcher's choices, and who speaks next in a conversation, or whether it is over.

Of the situations some fit no block. Every second case is shut.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.minds.mind import Outcomes
from moothall import ChosenBy, Conversation, MaxTurns, ScriptedModel
from moothall.agents.block import Block
from moothall.agents.conversation.speaking_order import Choice
from moothall.agents.dispatch import BlockDispatcher
from moothall.agents.loop.react import ReActAgent
from moothall.models import Model


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
    ("The apples lie on the grass and begin to rot.", "GardenBlock"),
    ("Two guests arrive in an hour, and they will be hungry.", "KitchenBlock"),
    ("The soup for tonight has yet to be made.", "KitchenBlock"),
    ("The flight to Lisbon has to be booked.", None),
    ("The neighbour asks for a partner for a game of chess.", None),
    ("An aunt has asked in her last message how we are.", "LetterBlock"),
    ("The insurance has sent a form that has to go back signed.", "LetterBlock"),
    ("The tap in the bathroom drips all night.", "RepairBlock"),
    ("The bell at the door makes no sound any more.", "RepairBlock"),
    ("Somebody has to sing at the wedding.", None),
    ("A room in a hotel in Rome is still to be found.", None),
    ("The hedge has grown over the path.", "GardenBlock"),
    ("Snails eat the young lettuce.", "GardenBlock"),
    ("It is seven in the morning and nobody has had coffee.", "KitchenBlock"),
    ("The children come home from school and want a snack.", "KitchenBlock"),
    ("The child has to learn the multiplication table.", None),
    ("The baby has a fever of 39 degrees.", None),
    ("The tax office wants an answer until Friday.", "LetterBlock"),
    ("A friend has invited us in writing, and waits for a yes or no.", "LetterBlock"),
    ("A leg of the table has come off.", "RepairBlock"),
    ("A pane of the kitchen window is cracked.", "RepairBlock"),
    ("We have to sell the old car.", None),
    ("The bulb in the hall has burnt out.", "RepairBlock"),
    ("Leaves cover the whole lawn.", "GardenBlock"),
]
YARD = {
    "Ann": "plans the work and decides",
    "Bob": "builds and repairs",
    "Cleo": "pays the bills and knows what there is to spend",
}
HOME = {
    "Grandpa": "has looked after the garden for forty years",
    "Mia": "goes to school",
    "Nora": "is a doctor",
}
TALKS: list[tuple[dict[str, str], list[tuple[str, str]], str | None]] = [
    (YARD, [("Ann", "How much money is left for paint?")], "Cleo"),
    (HOME, [("Mia", "My knee hurts since the game.")], "Nora"),
    (
        YARD,
        [("Ann", "Is the report ready?"), ("Bob", "Yes, here it is."), ("Ann", "Thanks, bye!")],
        None,
    ),
    (
        HOME,
        [("Nora", "Dinner is at seven."), ("Mia", "Good, that was all. See you then!")],
        None,
    ),
    (YARD, [("Ann", "I drew the plan. Cleo, would you check the costs?")], "Cleo"),
    (HOME, [("Nora", "When are the pears ripe?")], "Grandpa"),
    (
        YARD,
        [("Bob", "I have fixed the engine."), ("Ann", "Great. Then we are done. Goodbye!")],
        None,
    ),
    (
        HOME,
        [
            ("Mia", "Where is the ladder?"),
            ("Grandpa", "Behind the shed."),
            ("Mia", "I have found it, thank you. That was all."),
        ],
        None,
    ),
    (YARD, [("Cleo", "The motor makes a noise. Somebody has to look at it.")], "Bob"),
    (HOME, [("Grandpa", "What did you learn in class today?")], "Mia"),
    (YARD, [("Bob", "The roof is mended. What shall I do next?")], "Ann"),
    (HOME, [("Nora", "Mia, have you done your sums?")], "Mia"),
    (
        YARD,
        [("Cleo", "The sum is 12."), ("Ann", "That is what I wanted to know, thank you.")],
        None,
    ),
    (HOME, [("Nora", "Can you read the thermometer for me, Mia?")], "Mia"),
    (YARD, [("Bob", "Cleo, have you the key?")], "Cleo"),
    (HOME, [("Mia", "Why do the roses have spots?")], "Grandpa"),
    (YARD, [("Cleo", "We can pay 300 for wood. Bob, is that enough?")], "Bob"),
    (HOME, [("Grandpa", "These new pills make me dizzy.")], "Nora"),
    (
        YARD,
        [
            ("Ann", "Is the door in?"),
            ("Bob", "It is, but somebody must decide about the colour."),
        ],
        "Ann",
    ),
    (HOME, [("Mia", "Grandpa, may I pick the cherries?")], "Grandpa"),
]


def chosen(
    model: Model, situation: str, wanted: str | None, blocks: list[Block] = BLOCKS
) -> dict[str, Any]:
    """Which block is chosen."""
    dispatcher = BlockDispatcher(model)
    dispatcher.register_blocks(blocks)
    found = asyncio.run(dispatcher.dispatch(situation))
    made = dispatcher.decisions[-1]
    name = None if found is None else found.name
    return {"right": name == wanted, "none": wanted is None, "made": name, "why": made.reason}


def next_of(
    model: Model, roles: dict[str, str], lines: list[tuple[str, str]], wanted: str | None
) -> dict[str, Any]:
    """Who speaks after some lines, or None if the conversation is over."""
    said = {name: [text for who, text in lines if who == name] for name in roles}
    agents = [ReActAgent(name, ScriptedModel([*texts, "Well."])) for name, texts in said.items()]
    order = Told([who for who, _ in lines], model, about=roles, may_end=True)
    talk = Conversation(agents, order, MaxTurns(len(lines) + 1))
    reply = talk.reply_sync("Begin.")
    ended = "ended the conversation" in reply.detail
    made = None if ended else talk.state.transcript[-1].speaker
    # One that goes on although it is over is told apart from one that chooses the wrong one.
    return {
        "right": made == wanted,
        "over": wanted is None,
        "ended": ended is (wanted is None),
        "made": made,
        "detail": reply.detail,
    }


class Told(ChosenBy):
    """The lines that are told, and then a model's choice."""

    def __init__(self, first: list[str], *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._first = first

    async def choose(self, state: Any) -> Choice:
        if state.turns < len(self._first):
            return Choice((self._first[state.turns],))
        return await super().choose(state)


def run(model: Model, outcomes: Outcomes, count: int, shut: bool) -> tuple[Any, Any]:
    """The outcomes of choices of blocks and of speakers."""
    choices = [
        outcomes.of("dispatcher", each[0], lambda e=each: chosen(model, *e))
        for each in SITUATIONS[shut::2][:count]
    ]
    speakers = [
        outcomes.of("speakers", each[1][-1][1], lambda e=each: next_of(model, *e))
        for each in TALKS[shut::2][:count]
    ]
    return choices, speakers
