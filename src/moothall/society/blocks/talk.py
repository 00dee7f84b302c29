"""Topics that citizens talk about: interests, opinions, and messages by rule."""

from __future__ import annotations

import functools
from typing import Any, Final

from pydantic import Field

from moothall.foundation.errors import ConfigError
from moothall.society.arrays import np
from moothall.society.blocks.block import CitizenBlock, CitizenBlockParams
from moothall.society.blocks.columns import ACT, AGE
from moothall.society.columns.column import Column
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows

TOPICS: Final = ("art", "food", "music", "nature", "politics", "sport", "technology", "travel")
"""The default topics."""
NO_OPINION: Final = -32768
TALKS: Final = 3
"""The age from which on one tells others something: sentences of three and more words are usual
then (Centers for Disease Control and Prevention 2022, developmental milestones)."""
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
"""What a citizen says about a topic, from the given opinion on."""


def message_text(greeting: int, topic: str, opinion: int) -> str:
    """Return a message by rule: a greeting by its number, and a view of a topic."""
    text = GREETINGS[greeting % len(GREETINGS)]
    if topic:
        view = next(text for least, text in reversed(VIEWS) if opinion >= least)
        text = f"{text} {view.format(topic=topic)}"
    return text


@functools.cache
def message_words(topics: tuple[str, ...]) -> tuple[str, ...]:
    """Return all messages by rule on these topics: each greeting alone, then with each view."""
    return tuple(
        message_text(greeting, topic, view)
        for greeting in range(len(GREETINGS))
        for topic in ("", *topics)
        for view, _ in VIEWS
    )


@functools.cache
def topic_columns(topics: int) -> dict[str, Column]:
    """Return the columns of opinions (`NO_OPINION`: none) and interests, in a profile's order."""
    return {
        **ACT,
        **AGE,
        "opinions": Column("int16", NO_OPINION, width=topics, own=True),
        "interest_topic": Column("int8", -1, width=topics, own=True),  # an index; −1: none
        "interest": Column("int16", width=topics, own=True, slots=True),
    }


class TalkParams(CitizenBlockParams):
    """The parameters of blocks that talk about topics."""

    topics: tuple[str, ...] = Field(
        default=TOPICS,
        min_length=1,
        max_length=100,
        description="topics of a population's opinions",
    )
    youngest: int = Field(default=TALKS, ge=0, le=150, description="the age from which on it talks")


class TalkBlock(CitizenBlock):
    """The base of blocks that talk about topics."""

    params: TalkParams
    enabled_by = "enable_social"

    @property
    def interests(self) -> dict[str, int]:
        """The citizen's interest in each topic, 0 … 1000."""
        return (self.status.get("profile") or {}).get("interests") or {}

    @property
    def too_young(self) -> bool:
        """Whether the citizen is too young to say anything."""
        return self.age < self.params.youngest

    def opinion(self, topic: str) -> int:
        """Return the citizen's opinion on a topic; 0 if it has none."""
        return int(self.status.get("opinions", {}).get(topic, 0))

    # -- in columns --------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, Column]:
        """The block's columns."""
        return topic_columns(len(self.params.topics))

    @property
    def words(self) -> tuple[str, ...]:
        """The topics, and all messages by rule."""
        return (*self.params.topics, *message_words(self.params.topics))

    def to_status(self, population: Register, row: int, status: dict[str, Any]) -> None:
        """Write opinions and interests of a row into a status."""
        topics = self.params.topics
        opinions, which, interest = (
            population.arrays[name][row].tolist()
            for name in ("opinions", "interest_topic", "interest")
        )
        status["opinions"] = {
            topic: each for topic, each in zip(topics, opinions, strict=True) if each != NO_OPINION
        }
        status.setdefault("profile", {})["interests"] = {
            topics[topic]: each for topic, each in zip(which, interest, strict=True) if topic >= 0
        }

    def from_status(self, population: Register, row: int, status: dict[str, Any]) -> None:
        """Write opinions and interests of a status into columns. ConfigError: an unknown topic."""
        arrays, topics = population.arrays, self.params.topics
        interests = (status.get("profile") or {}).get("interests")
        opinions = status.get("opinions")
        for topic in (*(interests or ()), *(opinions or ())):
            if topic not in topics:
                raise ConfigError(
                    f"citizen {population.id_of(row)}: the topic {topic!r:.80} is not one of the "
                    f"block's topics: {', '.join(topics)}"
                )
        if opinions is not None:
            arrays["opinions"][row] = [opinions.get(topic, NO_OPINION) for topic in topics]
        if interests is not None:
            arrays["interest_topic"][row] = -1
            arrays["interest"][row] = 0
            for at, (topic, interest) in enumerate(interests.items()):
                arrays["interest_topic"][row, at] = topics.index(topic)
                arrays["interest"][row, at] = interest

    def young_rows(self, rows: Rows) -> Any:
        """Return `too_young` of rows."""
        return rows["age"] < self.params.youngest

    def main_topic_rows(self, rows: Rows) -> Any:
        """Return the index of each row's topic of most interest; −1 for none."""
        arrays, at = rows.population.arrays, rows.at
        topics, interest = arrays["interest_topic"], arrays["interest"]
        topic, most = topics[:, 0][at].astype(np.int64), interest[:, 0][at]
        for slot in range(1, topics.shape[1]):
            other = topics[:, slot][at]
            if not (other >= 0).any():
                break
            many = interest[:, slot][at]
            more = (other >= 0) & (many > most)
            np.copyto(topic, other, where=more)
            np.copyto(most, many, where=more)
        return topic

    def opinion_rows(self, rows: Rows, topic: Any, at: Any = None) -> Any:
        """Return `opinion` of all or some rows, by the index of each row's topic, −1 for none."""
        index = rows.at if at is None else rows.at[at]
        opinion = rows.population.arrays["opinions"][index, topic].astype(np.int64)
        return np.where((topic < 0) | (opinion == NO_OPINION), 0, opinion)

    def text_rows(self, rows: Rows, greeting: Any, topic: Any, opinion: Any) -> Any:
        """Return the word numbers of rows' messages, by the indices of topics, −1 for none."""
        topics = self.params.topics
        words = rows.once(
            f"talk.texts {topics}",
            lambda: np.array([rows.population._word[text] for text in message_words(topics)]),
        )
        view = np.searchsorted([least for least, _ in VIEWS], opinion, side="right") - 1
        return words[(greeting * (len(topics) + 1) + topic + 1) * len(VIEWS) + np.maximum(view, 0)]

    def word_rows(self, rows: Rows, topic: Any) -> Any:
        """Return the word numbers of topics by their indices; −1 is the empty word."""
        words = rows.population._word
        return np.array([words[each] for each in ("", *self.params.topics)])[topic + 1]

    def topic_rows(self, rows: Rows) -> Any:
        """Return the topic index of each word of a population, and −1 last; −1: no topic."""
        words, topics = rows.population.words, self.params.topics
        return rows.once(
            f"talk.topics {topics}",
            lambda: np.array([topics.index(w) if w in topics else -1 for w in [*words, ""]]),
        )
