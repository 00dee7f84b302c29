"""Citizens whose model plans their day, talks, and answers an interview from what they remember.

A plan is usable if the model's own is followed, and has sleep, meals, and work where there is some.
A message is new if most of its pairs of words have not been said. An interview's answer agrees with
the trace if it has one of the texts that do. The second citizens are shut.
"""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

from benchmarks.minds.mind import Outcomes
from moothall import CitizenAgent, CitizenMemory, City, Society
from moothall.models import Model
from moothall.society import PlanBlock, SocialBlock

START = "2026-01-05"  # a Monday
PEOPLE = [
    ("Lea", {"age": 34, "gender": "female", "occupation": "nurse"}, True),
    ("Omar", {"age": 41, "gender": "male", "occupation": "clerk"}, True),
    ("Ines", {"age": 71, "gender": "female"}, False),
    ("Tom", {"age": 29, "gender": "male", "occupation": "cook"}, True),
]
PAIRS = [(("Lea", "choir"), ("Omar", "garden")), (("Ines", "grandson"), ("Tom", "kitchen"))]
DAYS: list[tuple[str, list[str], list[tuple[str, tuple[str, ...]]]]] = [
    (
        "Lea",
        [
            "From 07:00 to 07:30 its plan was: eat at home",
            "It heard from Omar (2): The choir sings on Friday at the old mill.",
            "From 08:00 to 12:00 its plan was: work at hospital-1",
            "From 12:00 to 12:30 its plan was: eat at restaurant-4",
            "It said to Ines (3): Omar says that the choir sings on Friday.",
        ],
        [
            ("Who told you about the choir?", ("Omar",)),
            ("Where does the choir sing?", ("mill",)),
            ("Whom have you told about the choir?", ("Ines",)),
            ("Where did you eat at noon?", ("restaurant",)),
            ("What did you do between eight and twelve?", ("work",)),
        ],
    ),
    (
        "Tom",
        [
            "From 06:30 to 07:00 its plan was: eat at home",
            "From 07:00 to 11:00 its plan was: leisure at park-2",
            "It heard from Lea (1): The bridge is closed until Thursday.",
            "From 11:30 to 12:00 its plan was: shop at shop-3",
            "It said to Omar (2): I look for a flat with a balcony.",
        ],
        [
            ("Who told you that the bridge is closed?", ("Lea",)),
            ("Until when is the bridge closed?", ("Thursday",)),
            ("What have you said to Omar?", ("flat", "balcony")),
            ("Where were you in the morning until eleven?", ("park",)),
            ("Have you been to work today?", ("No", "not", "n't")),
        ],
    ),
]


def citizen(number: int, name: str, blocks: list[Any], **status: Any) -> CitizenAgent:
    """A citizen of the town."""
    profile, works = next((about, works) for who, about, works in PEOPLE if who == name)
    status = {"home": "home-1", "profile": profile, "needs": {}, **status}
    if works:
        status["work"] = "work-1"
    return CitizenAgent(number, name, memory=CitizenMemory(status), blocks=blocks)


def society(model: Model, people: list[CitizenAgent], time: str) -> Society:
    """A town with these citizens."""
    city = City.generate(seed=7, citizens=200)
    options: dict[str, Any] = {"model": model, "model_timeout_s": 600.0}
    return Society(people, city, seed=7, start=f"{START}T{time}", **options)


def planned(model: Model, name: str) -> dict[str, Any]:
    """A plan of the day."""
    agent = citizen(1, name, [PlanBlock()])

    async def day() -> None:
        async with society(model, [agent], "00:00") as town:
            await town.step()

    asyncio.run(day())
    status = agent.memory.status
    does = {each["do"] for each in status["plan"]}
    needed = {"sleep", "eat", *(["work"] if "work" in status else ())}
    return {
        "right": not status.get("fallbacks") and needed <= does,
        "fallbacks": status.get("fallbacks"),
        "plan": [(each["from"] // 3600, each["do"], each["where"]) for each in status["plan"]],
    }


def talked(model: Model, pair: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """What two citizens say to each other in two steps, and how much of it is new."""
    plan = [{"do": "social", "where": "home-1", "from": 0, "until": 86_400}]
    agents = [
        citizen(n, name, [SocialBlock()], plan=plan, now=0, relations={str(3 - n): 600})
        for n, (name, _) in enumerate(pair, 1)
    ]
    for agent, (_, about) in zip(agents, pair, strict=True):
        agent.memory.note(0, f"It thought: today it was all about the {about}.")
    said: list[tuple[str, str]] = []

    def hear(message: dict[str, Any]) -> dict[str, Any]:
        said.append((str(message["from"]), message["action"]["args"]["content"]))
        return message

    async def evening() -> None:
        async with society(model, agents, "18:00") as town:
            town.intercept(hear)
            await town.run(steps=2, step="15min")

    asyncio.run(evening())
    new, known = 0, set[tuple[str, str]]()
    for _, text in said:
        words = re.findall(r"\w+", text.lower())
        pairs = {*pairwise(words)}
        new += len(pairs - known) * 2 > len(pairs)
        known |= pairs
    fell = sum(sum((a.memory.status.get("fallbacks") or {}).values()) for a in agents)
    return {
        "right": new - fell,  # what the rule said in the model's place is not the model's
        "of": len(said),
        "fallbacks": fell,
        "said": said,
    }


def interviewed(
    model: Model, name: str, stream: list[str], question: str, says: tuple[str, ...]
) -> dict[str, Any]:
    """What a citizen answers after its morning."""
    agent = citizen(1, name, [])
    for text in stream:
        agent.memory.note(0, text)

    async def noon() -> Any:
        async with society(model, [agent], "13:00") as town:
            return await town.interview(1, question)

    given = asyncio.run(noon())
    return {
        "right": given.source == "model" and any(each in given for each in says),
        "text": str(given),
        "source": given.source,
    }


def run(model: Model, outcomes: Outcomes, count: int, shut: bool) -> tuple[Any, Any, Any]:
    """The outcomes of plans, talks and interviews."""
    plans = [
        outcomes.of("plans", name, lambda n=name: planned(model, n))
        for name, *_ in PEOPLE[shut::2][:count]
    ]
    talks = [
        outcomes.of("messages", pair[0][0], lambda p=pair: talked(model, p))
        for pair in PAIRS[shut::2][:count]
    ]
    answers = [
        outcomes.of(
            "interviews", each[0], lambda n=name, s=stream, e=each: interviewed(model, n, s, *e)
        )
        for name, stream, questions in DAYS[shut::2]
        for each in questions[:count]
    ]
    return plans, talks, answers
