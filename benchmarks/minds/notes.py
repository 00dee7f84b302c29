"""Notes of conversations: which facts they keep, in how many words. Every second one is shut."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.minds.mind import Outcomes
from moothall.memory.summarizing import SummarizingMemory
from moothall.models import Model

TALKS: list[tuple[list[tuple[str, str]], tuple[str, ...]]] = [
    (
        [
            ("user", "We move on 14 March. The flat is in Lindenweg 8, third floor."),
            ("assistant", "I note it. How many boxes do you need?"),
            ("user", "About 40. The mover is called Brandt, his number is 555-0122."),
            ("assistant", "Brandt asks 480 euros for the day."),
            ("user", "That is fine. The piano stays with my sister Ines."),
        ],
        ("14 March", "Lindenweg 8", "third", "40", "Brandt", "555-0122", "480", "Ines"),
    ),
    (
        [
            ("user", "Measure the battery: run 1 gave 4.91 volts at 20 degrees."),
            ("assistant", "Noted. Run 2 at 25 degrees?"),
            ("user", "4.87 volts. Run 3 failed, the cable was loose."),
            ("assistant", "Then run 3 has to be repeated by Omar on Tuesday."),
            ("user", "Yes. We decided to stop below 4.5 volts."),
        ],
        ("4.91", "20", "25", "4.87", "cable", "Omar", "Tuesday", "4.5"),
    ),
    (
        [
            ("user", "My order 7719 came broken. It is a lamp, bought on 2 May."),
            ("assistant", "I am sorry. Shall we send another, or pay back the 35 euros?"),
            ("user", "Send another one, to Hafenstr. 3 in Kiel, please."),
            ("assistant", "It leaves on Monday, with the parcel number K-204."),
        ],
        ("7719", "lamp", "2 May", "35", "Hafenstr", "Kiel", "Monday", "K-204"),
    ),
    (
        [
            ("user", "The class trip goes to Brugg on 9 June, with 26 children."),
            ("assistant", "The train leaves at 08:15. A group costs 130 francs."),
            ("user", "Pia cannot come, she has the measles. Mr. Duarte comes along."),
            ("assistant", "Shall I order lunch at the mill?"),
            ("user", "Yes, 26 plates of soup, none of it with nuts."),
        ],
        ("Brugg", "9 June", "26", "08:15", "130", "Pia", "Duarte", "nuts"),
    ),
    (
        [
            ("user", "Why is the page slow? It takes 9 seconds since version 3.2."),
            ("assistant", "The query of the table orders has no index."),
            ("user", "Who can add one?"),
            ("assistant", "Lena can. She needs the password of db-2, and 20 minutes."),
            ("user", "Then on Sunday. Before that we make a copy, and tell the shop in Kiel."),
        ],
        ("9 seconds", "3.2", "orders", "index", "Lena", "db-2", "Sunday", "Kiel"),
    ),
]


def noted(model: Model, lines: list[tuple[str, str]], facts: tuple[str, ...]) -> dict[str, Any]:
    """What the notes of a conversation keep."""
    memory = SummarizingMemory(model, 1200)
    batch = [{"role": role, "content": text} for role, text in lines]
    try:
        text = asyncio.run(memory._ask("", batch))
    except Exception as error:
        return {"right": 0, "of": len(facts), "text": str(error)}
    words, all_words = len(text.split()), sum(len(said.split()) for _, said in lines)
    kept = sum(any(each in text for each in fact.split("|")) for fact in facts)
    return {"right": kept, "of": len(facts), "length": round(words / all_words, 2), "text": text}


def run(model: Model, outcomes: Outcomes, count: int, shut: bool) -> Any:
    """The outcomes of the conversations."""
    return [
        outcomes.of("notes", each[1][0], lambda e=each: noted(model, *e))
        for each in TALKS[shut::2][:count]
    ]
