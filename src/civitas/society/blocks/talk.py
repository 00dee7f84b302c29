"""What citizens talk about: their interests and opinions, and what they say by rule."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from civitas.errors import ConfigError
from civitas.society.arrays import numpy
from civitas.society.blocks.block import CitizenBlock, CitizenBlockParams
from civitas.society.blocks.columns import ACT
from civitas.society.population.column import Column

if TYPE_CHECKING:
    from civitas.society.population.column import Register
    from civitas.society.population.rows import Rows

TOPICS: Final = ("art", "food", "music", "nature", "politics", "sport", "technology", "travel")
"""What people talk about."""
NO_OPINION: Final = -32768
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
def message_words(topics: tuple[str, ...]) -> tuple[str, ...]:
    """Return all that is written by rule of these topics: each greeting alone, then with a view."""
    return tuple(
        message_text(greeting, topic, view)
        for greeting in range(len(GREETINGS))
        for topic in ("", *topics)
        for view, _ in VIEWS
    )


@functools.cache
def topic_columns(topics: int) -> dict[str, Column]:
    """Return the columns of opinions (`NO_OPINION`: none) and of interests, in a profile's order.

    `interest_topic` has the numbers of the topics, −1 for none.
    """
    return {
        **ACT,
        "opinions": Column("int16", NO_OPINION, width=topics, own=True),
        "interest_topic": Column("int8", -1, width=topics, own=True),
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


class TalkBlock(CitizenBlock):
    """What the blocks share that talk about topics."""

    params: TalkParams
    enabled_by = "enable_social"

    @property
    def interests(self) -> dict[str, int]:
        """How much topics interest the citizen, 0 … 1000."""
        return (self.status.get("profile") or {}).get("interests") or {}

    def opinion(self, topic: str) -> int:
        """What the citizen thinks of a topic; 0 without an opinion."""
        return int(self.status.get("opinions", {}).get(topic, 0))

    # -- in columns --------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, Column]:
        """What it keeps of each citizen."""
        return topic_columns(len(self.params.topics))

    @property
    def words(self) -> tuple[str, ...]:
        """What it says."""
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
        """Write opinions and interests of a status into the columns.

        Raises:
            ConfigError: a topic is none of the block's
        """
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

    def main_topic_rows(self, rows: Rows) -> Any:
        """What interests each of rows most, by the number of the topic; −1 for nothing."""
        np, arrays, at = numpy(), rows.population.arrays, rows.at
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
        """`opinion` of rows, or of some, by the number of the topic of each, −1 for none."""
        np = numpy()
        index = rows.at if at is None else rows.at[at]
        opinion = rows.population.arrays["opinions"][index, topic].astype(np.int64)
        return np.where((topic < 0) | (opinion == NO_OPINION), 0, opinion)

    def text_rows(self, rows: Rows, greeting: Any, topic: Any, opinion: Any) -> Any:
        """The numbers of `message_text` of rows, by the numbers of topics, −1 for none."""
        np, topics = numpy(), self.params.topics
        words = rows.once(
            f"talk.texts {topics}",
            lambda: np.array([rows.population._word[text] for text in message_words(topics)]),
        )
        view = np.searchsorted([least for least, _ in VIEWS], opinion, side="right") - 1
        return words[(greeting * (len(topics) + 1) + topic + 1) * len(VIEWS) + np.maximum(view, 0)]

    def word_rows(self, rows: Rows, topic: Any) -> Any:
        """The numbers of the words of topics, by their numbers; −1 gives that of no topic."""
        words = rows.population._word
        return numpy().array([words[each] for each in ("", *self.params.topics)])[topic + 1]

    def topic_rows(self, rows: Rows) -> Any:
        """Which of the topics each word of a population is; −1 for none, as for the last."""
        words, topics = rows.population.words, self.params.topics
        return rows.once(
            f"talk.topics {topics}",
            lambda: numpy().array([topics.index(w) if w in topics else -1 for w in [*words, ""]]),
        )
