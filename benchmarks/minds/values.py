"""Values of a type, read from texts or reckoned: `reply(…, schema=)`. Every second one is shut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from benchmarks.minds.mind import Outcomes
from moothall import ReActAgent
from moothall.models import Model


@dataclass
class Visit:
    """A visit to the doctor."""

    name: str
    day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    hour: int


class Line(BaseModel):
    """A line of an order."""

    item: str
    count: int


class Invoice(BaseModel):
    """What is to be paid."""

    number: str
    euros: float
    paid: bool


Colours = list[Annotated[str, Field(description="the name of a colour, one word")]]
TASKS: list[tuple[Any, str, Any]] = [
    (
        Visit,
        "Mrs. Okafor comes on Tuesday at 3 in the afternoon, that is 15 o'clock.",
        Visit("Okafor", "Tuesday", 15),
    ),
    (Visit, "On Friday at 9 o'clock we expect Lena Brandt.", Visit("Lena Brandt", "Friday", 9)),
    (
        list[Line],
        "Please send four chairs and one table.",
        [Line(item="chair", count=4), Line(item="table", count=1)],
    ),
    (
        list[Line],
        "I need 12 candles, 3 lamps and a ladder.",
        [
            Line(item="candle", count=12),
            Line(item="lamp", count=3),
            Line(item="ladder", count=1),
        ],
    ),
    (
        Invoice,
        "Invoice K-204 over 35.50 euros has been paid.",
        Invoice(number="K-204", euros=35.5, paid=True),
    ),
    (
        Invoice,
        "We still owe 1200 euros for invoice 7719-B.",
        Invoice(number="7719-B", euros=1200, paid=False),
    ),
    (
        Literal["complaint", "praise", "question"],
        "The lamp came broken, and nobody answers the phone.",
        "complaint",
    ),
    (
        Literal["complaint", "praise", "question"],
        "Do you also sell bulbs for this lamp?",
        "question",
    ),
    (
        Colours,
        "Which colours? The red car stood before a blue door and a white wall.",
        ["red", "blue", "white"],
    ),
    (
        Colours,
        "Which colours? She has green eyes, and her coat is black.",
        ["green", "black"],
    ),
    (int, "How many minutes are 2 hours?", 120),
    (int, "How many days do three weeks have?", 21),
    (bool, "Is a whale a fish?", False),
    (bool, "Is 17 a prime number?", True),
]


def alike(made: Any, wanted: Any) -> bool:
    """Whether two values are the same; texts may differ in their case, a title and a plural."""
    if isinstance(wanted, str):
        return isinstance(made, str) and _plain(made) == _plain(wanted)
    if isinstance(wanted, list):
        return len(made) == len(wanted) and all(map(alike, made, wanted))
    if isinstance(wanted, BaseModel | Visit):
        return all(alike(getattr(made, name), value) for name, value in vars(wanted).items())
    return bool(made == wanted)


def _plain(text: str) -> str:
    return text.lower().removeprefix("mrs. ").removesuffix("s")


def valued(model: Model, schema: Any, text: str, wanted: Any) -> dict[str, Any]:
    """What an agent makes of a text."""
    reply = ReActAgent("a", model).reply_sync(text, schema=schema)
    done = reply.stop_reason == "done"
    return {
        "right": done and alike(reply.value, wanted),
        "read": done,
        "text": reply.text[:300],
    }


def run(model: Model, outcomes: Outcomes, count: int, shut: bool) -> Any:
    """The outcomes of the values."""
    return [
        outcomes.of("values", each[1], lambda e=each: valued(model, *e))
        for each in TASKS[shut::2][:count]
    ]
