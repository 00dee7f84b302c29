"""What citizens say by rule: greetings, and what they think of a topic."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from civitas.society.arrays import numpy
from civitas.society.blocks.ties import NO_OPINION

if TYPE_CHECKING:
    from civitas.society.population.rows import Rows

GREETINGS: Final = (
    "Good to see you.",
    "How have you been?",
    "It has been a while, hasn't it?",
    "I was just thinking of you.",
)
VIEWS: Final = (
    (-1000, "I have had enough of {topic}."),
    (-300, "I do not think much of {topic}."),
    (-100, "I do not know what to think of {topic}."),
    (300, "There is something in {topic}, I find."),
    (600, "I really care about {topic}."),
)
"""From which opinion on, what one says of a topic."""


def message_text(greeting: int, topic: str, opinion: int) -> str:
    """Return what is written by rule: a greeting by its number, and what one thinks of a topic."""
    text = GREETINGS[greeting % len(GREETINGS)]
    if topic:
        view = next(text for least, text in reversed(VIEWS) if opinion >= least)
        text = f"{text} {view.format(topic=topic)}"
    return text


@functools.cache
def message_words(topics: Sequence[str]) -> tuple[str, ...]:
    """Return all that is written by rule of these topics: each greeting alone, then with a view."""
    return tuple(
        message_text(greeting, topic, view)
        for greeting in range(len(GREETINGS))
        for topic in ("", *topics)
        for view, _ in VIEWS
    )


def text_numbers(rows: Rows, greeting: Any, topic: Any, opinion: Any, topics: Sequence[str]) -> Any:
    """Return the numbers of `message_text` of rows, by the numbers of topics, −1 for none."""
    np = numpy()
    words = rows.once(
        f"social.texts {topics}",
        lambda: np.array([rows.population._word[text] for text in message_words(topics)]),
    )
    view = np.searchsorted([least for least, _ in VIEWS], opinion, side="right") - 1
    return words[(greeting * (len(topics) + 1) + topic + 1) * len(VIEWS) + np.maximum(view, 0)]


def main_topic(rows: Rows) -> tuple[Any, Any]:
    """Return of each what interests it most, −1 for nothing, and what it thinks of it."""
    np, arrays, at = numpy(), rows.population.arrays, rows.at
    topics, interest = arrays["interest_topic"], arrays["interest"]
    topic = topics[at, 0].astype(np.int64)
    most = interest[at, 0]
    for slot in range(1, topics.shape[1]):
        other = topics[at, slot]
        if not (other >= 0).any():
            break
        many = interest[at, slot]
        more = (other >= 0) & (many > most)
        np.copyto(topic, other, where=more)
        np.copyto(most, many, where=more)
    return topic, opinion_of(rows, topic)


def opinion_of(rows: Rows, topic: Any, at: Any = None) -> Any:
    """Return what each, or those at some positions, thinks of a topic; 0 without an opinion."""
    np = numpy()
    index = rows.at if at is None else rows.at[at]
    opinion = rows.population.arrays["opinions"][index, topic].astype(np.int64)
    return np.where((topic < 0) | (opinion == NO_OPINION), 0, opinion)


def topics_of_words(rows: Rows, topics: Sequence[str]) -> Any:
    """Return which of the topics each word of a population is; −1 for none, as for the last."""
    words = rows.population.words
    return rows.once(
        f"talk.topics {topics}",
        lambda: numpy().array([topics.index(w) if w in topics else -1 for w in [*words, ""]]),
    )
