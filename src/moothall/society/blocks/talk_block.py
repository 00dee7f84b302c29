"""Topics that citizens talk about: interests, opinions, and messages by rule."""

from __future__ import annotations

import functools
from functools import cached_property
from typing import Any, ClassVar, Final

from pydantic import Field

from moothall import ConfigError
from moothall.society.arrays import Array, Flag, np
from moothall.society.blocks.citizen_block import CitizenBlock, CitizenBlockParams
from moothall.society.blocks.columns import ACT, AGE
from moothall.society.columns.column import Column
from moothall.society.columns.register import Register
from moothall.society.columns.rows import Rows

TOPICS: Final = ("art", "food", "music", "nature", "politics", "sport", "technology", "travel")
"""The default topics."""
NO_OPINION: Final = -32768
MIN_AGE: Final = 3
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
        view = next(text for lowest, text in reversed(VIEWS) if opinion >= lowest)
        text = f"{text} {view.format(topic=topic)}"
    return text


def opinion_after(own_opinion: Any, other: object, bound: int, pull: int) -> Any:
    """Return an opinion, −1000 … 1000, after hearing another by bounded confidence."""
    difference = (
        other - own_opinion
    )  # if at most `bound`, it moves by `pull` thousandths, rounded towards 0
    step = abs(difference) * pull // 1000 * (abs(difference) <= bound)
    return own_opinion + step * ((difference > 0) * 2 - 1)


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
    youngest: int = Field(
        default=MIN_AGE, ge=0, le=150, description="the age from which on it talks"
    )


class TalkBlock(CitizenBlock):
    """The base of blocks that talk about topics."""

    params: TalkParams
    enabled_by = "enable_social"
    status_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("opinions",), ("profile", "interests"))

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
        opinions, indexes, interest = (
            population.arrays[name][row].tolist()
            for name in ("opinions", "interest_topic", "interest")
        )
        status["opinions"] = {
            topic: each for topic, each in zip(topics, opinions, strict=True) if each != NO_OPINION
        }
        status.setdefault("profile", {})["interests"] = {
            topics[topic]: each for topic, each in zip(indexes, interest, strict=True) if topic >= 0
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
            for slot, (topic, interest) in enumerate(interests.items()):
                arrays["interest_topic"][row, slot] = topics.index(topic)
                arrays["interest"][row, slot] = interest

    def is_young(self, rows: Rows) -> Flag:
        """Return `too_young` of rows."""
        return rows["age"] < self.params.youngest

    def topics(self, rows: Rows) -> Topics:
        """Return interests and opinions of rows."""
        return Topics(rows, self.params.topics)


class Topics:
    """Interests and opinions of rows, by the index of a topic in the block's, −1 for none."""

    def __init__(self, rows: Rows, topics: tuple[str, ...]) -> None:
        self._rows = rows
        self._topics = topics
        self._arrays = rows.population.arrays

    @cached_property
    def _in_order(self) -> tuple[Array, Array]:
        """The topics of each row's profile in their order, and its interest in each."""
        rows, count = self._rows.at, 0
        topics, interest = self._arrays["interest_topic"], self._arrays["interest"]
        while count < topics.shape[1] and (topics[:, count][rows] >= 0).any():
            count += 1
        return topics[:, :count][rows].astype(np.int64), interest[:, :count][rows].astype(np.int64)

    @cached_property
    def interests(self) -> Array:
        """The interest of each row in each topic, and 0 last, in none; int32."""
        interests = np.zeros((len(self._rows), len(self._topics) + 1), np.int32)
        for topic, interest in zip(*(each.T for each in self._in_order), strict=True):
            positions = (topic >= 0).nonzero()[0]
            interests[positions, topic[positions]] = interest[positions]
        return interests

    @property
    def has_any(self) -> Array:
        """Which rows have any interest."""
        return self._arrays["interest_topic"][:, 0][self._rows.at] >= 0

    def main_topic(self) -> Any:
        """Return the topic of most interest, of equal ones the first."""
        topics, interest = self._in_order
        if not topics.size:
            return np.full(len(self._rows), -1)
        slot = np.where(topics >= 0, interest, -1).argmax(1)
        return topics[np.arange(len(topics)), slot]

    def draw_topic(self, purpose: str) -> Any:
        """Return a topic drawn by the interests, each and 1; every row has one."""
        topics, interest = self._in_order
        weights = np.cumsum(np.where(topics >= 0, interest + 1, 0), 1)
        share = self._rows.below(weights[:, -1], purpose)
        return topics[np.arange(len(topics)), (weights > share[:, None]).argmax(1)]

    def opinion(self, topic: Array) -> Array:
        """Return the opinion on each row's topic; 0 if there is none."""
        opinion = self._arrays["opinions"][self._rows.at, topic].astype(np.int64)
        return np.where((topic < 0) | (opinion == NO_OPINION), 0, opinion)

    def hear(self, word: Array, opinion: Array, bound: int, pull: int) -> None:
        """Move the opinions on topics, given by words; NO_OPINION is beyond every bound."""
        topic = self.by_word[word]
        positions = (topic >= 0).nonzero()[0]
        cells = (self._rows.at[positions], topic[positions])
        opinions = self._arrays["opinions"][cells].astype(np.int64)
        self._arrays["opinions"][cells] = opinion_after(opinions, opinion[positions], bound, pull)

    @property
    def by_word(self) -> Array:
        """The topic of each word of a population, and −1 last; −1: no topic."""
        words, topics = self._rows.population.words, self._topics
        return self._rows.once(
            f"talk.topics {topics}",
            lambda: np.array([topics.index(w) if w in topics else -1 for w in [*words, ""]]),
        )

    def message(self, greeting: Array, topic: Array) -> Any:
        """Return the word numbers of messages by rule on topics."""
        topics, word_numbers = self._topics, self._rows.population.word_numbers
        words = self._rows.once(
            f"talk.texts {topics}",
            lambda: np.array([word_numbers[text] for text in message_words(topics)]),
        )
        lows = [low for low, _ in VIEWS]
        view = np.searchsorted(lows, self.opinion(topic), side="right") - 1
        return words[(greeting * (len(topics) + 1) + topic + 1) * len(VIEWS) + np.maximum(view, 0)]

    def word(self, topic: Array) -> Any:
        """Return the word numbers of topics."""
        word_numbers = self._rows.population.word_numbers
        return np.array([word_numbers[each] for each in ("", *self._topics)])[topic + 1]
