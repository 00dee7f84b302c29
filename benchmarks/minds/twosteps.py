"""Tasks whose second call needs the first one's result, by an agent with three or more actions.

A task is right if the answer holds what only the results say. Every second task is shut.
"""

from __future__ import annotations

from typing import Any

from benchmarks.minds.mind import Outcomes
from moothall import ReActAgent
from moothall.models import Model

PEOPLE = {"Ada": 41, "Bo": 42, "Cem": 57}
ORDERS = {41: "two lamps", 42: "a ladder", 57: "nine candles"}
PRICES = {"lamp": 30, "ladder": 85, "candle": 4}
RATES = {"USD": 1.25, "CHF": 0.5}
CAPITALS = {"Norland": "Kirchdorf", "Sudland": "Moorstadt", "Ostland": "Birkhain"}
SOULS = {"Kirchdorf": 48_200, "Moorstadt": 9_310, "Birkhain": 127_000}
ROOMS = {"Ines": "B12", "Omar": "C3", "Pia": "A7"}
PHONES = {"B12": "555-0112", "C3": "555-0193", "A7": "555-0171"}
TRAINS = {"Altdorf": "R4", "Brugg": "S9", "Chur": "R1"}
LEAVES = {"R4": "07:42", "S9": "08:05", "R1": "09:17"}


def user_id(name: str) -> int:
    """Return the number of a customer.

    Args:
        name: the customer's first name
    """
    return PEOPLE[name]


def orders_of(user: int) -> str:
    """Return what a customer has ordered.

    Args:
        user: the customer's number
    """
    return ORDERS[user]


def price_of(item: str) -> int:
    """Return the price of an item of the shop, in euros.

    Args:
        item: the item, such as "chair"
    """
    return PRICES[item]


def rate_of(currency: str) -> float:
    """Return how much of a currency one euro buys.

    Args:
        currency: three letters
    """
    return RATES[currency]


def capital_of(country: str) -> str:
    """Return the capital of a country."""
    return CAPITALS[country]


def population_of(city: str) -> int:
    """Return how many people live in a city."""
    return SOULS[city]


def room_of(person: str) -> str:
    """Return the room of a person in the office."""
    return ROOMS[person]


def phone_in(room: str) -> str:
    """Return the phone number of a room of the office."""
    return PHONES[room]


def train_to(town: str) -> str:
    """Return the train that goes to a town."""
    return TRAINS[town]


def departure_of(train: str) -> str:
    """Return when a train leaves."""
    return LEAVES[train]


SHOP, MAP = [user_id, orders_of, price_of, rate_of], [capital_of, population_of, price_of]
OFFICE, RAIL = [room_of, phone_in, user_id], [train_to, departure_of, capital_of]
TASKS: list[tuple[list[Any], str, tuple[str, ...]]] = [
    (SHOP, "What has Ada ordered?", ("lamp",)),
    (SHOP, "What did Bo order?", ("ladder",)),
    (MAP, "How many people live in the capital of Norland?", ("48,200", "48200", "48.200")),
    (MAP, "How many inhabitants has the capital of Sudland?", ("9,310", "9310", "9.310")),
    (OFFICE, "Which phone number reaches Ines?", ("555-0112",)),
    (OFFICE, "Under what number can I call Omar in the office?", ("555-0193",)),
    (RAIL, "When does the train to Altdorf leave?", ("07:42", "7:42")),
    (RAIL, "At what time does the train to Brugg depart?", ("08:05", "8:05")),
    (SHOP, "What does a lamp cost in USD?", ("37.5",)),
    (SHOP, "What does a ladder cost in CHF?", ("42.5",)),
    (SHOP, "What does the customer Cem have on order?", ("candle",)),
    (SHOP, "What is the price of a candle in USD?", ("5",)),
    (MAP, "Tell me the population of Ostland's capital.", ("127,000", "127000", "127.000")),
    (OFFICE, "Give me the phone number of Pia's room.", ("555-0171",)),
    (RAIL, "I want to go to Chur: when does my train leave?", ("09:17", "9:17")),
    (SHOP, "How many euros do a lamp and a ladder cost together?", ("115",)),
    (MAP, "Do more people live in the capital of Norland or in the one of Sudland?", ("Norland",)),
    (OFFICE, "What are the numbers of Ines and of Pia?", ("555-0112", "555-0171")),
    (SHOP, "How much more does a ladder cost than a lamp, in euros?", ("55",)),
    (RAIL, "When do the trains to Chur and to Brugg leave?", ("09:17", "08:05")),
]
ALL_OF = {
    "What are the numbers of Ines and of Pia?",
    "When do the trains to Chur and to Brugg leave?",
}


def one(model: Model, actions: list[Any], text: str, says: tuple[str, ...]) -> dict[str, Any]:
    """What an agent answers."""
    reply = ReActAgent("a", model, actions=actions, max_iterations=8).reply_sync(text)
    held = all if text in ALL_OF else any
    right = reply.stop_reason == "done" and held(each in reply.text for each in says)
    return {
        "right": right and bool(reply.steps),
        "text": reply.text[:300],
        "stop": f"{reply.stop_reason}: {reply.detail}"[:200],
        "calls": [[each.action, each.args, each.error] for each in reply.steps],
    }


def run(model: Model, outcomes: Outcomes, count: int, shut: bool) -> Any:
    """The outcomes of some tasks."""
    return [
        outcomes.of("two steps", task[1], lambda t=task: one(model, *t))
        for task in TASKS[shut::2][:count]
    ]
