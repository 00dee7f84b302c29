"""What was said in a conversation, by whom, in order; the oldest is dropped at a bound."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from civitas.approval import escaped
from civitas.reasoning.prompts import cut

__all__ = [
    "MAX_CHARS",
    "MAX_KEPT",
    "Content",
    "Transcript",
    "TurnEnded",
    "TurnStarted",
    "Utterance",
    "shown",
]

Content: TypeAlias = str | list[dict[str, Any]]
"""A text, or blocks of content."""

MAX_KEPT: Final = 1000
"""How many utterances a transcript keeps."""
MAX_CHARS: Final = 1_000_000
"""How many characters they may have together; the last one is kept however long it is."""
_MAX_ERROR = 500

_PLAIN = re.compile(r"[\w .@/+-]+")


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one speaker said.

    Attributes:
        number: counted from 1 over the whole conversation
        speaker: a participant's id; None for what came from outside
        content: a text, or blocks of content
        error: why the participant gave no answer; None if it gave one
    """

    number: int
    speaker: str | None
    content: Content
    error: str | None = None

    @property
    def text(self) -> str:
        """The content as text; of blocks, the text that is in them."""
        if isinstance(self.content, str):
            return self.content
        texts = (block.get("text") for block in self.content if isinstance(block, dict))
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def size(self) -> int:
        """About how many characters it has."""
        body = len(self.content) if isinstance(self.content, str) else len(repr(self.content))
        return body + len(self.error or "")

    def heard(self, ids: Iterable[str] = ()) -> Content:
        """The content as another participant gets it: with who says it at the beginning.

        Everything after the name is that speaker's: each utterance is a message of its own.

        Args:
            ids: the participants; what comes from outside and begins like something that one of
                them said is marked
        """
        if self.speaker is None:
            text = self.content
            if isinstance(text, str) and text.lstrip().startswith(
                tuple(f"{shown(i)}:" for i in ids)
            ):
                return f"(from outside the conversation) {text}"
            return text
        name = shown(self.speaker)
        if self.error is not None:
            return f"({name} gave no answer: {cut(self.error, _MAX_ERROR)})"
        if isinstance(self.content, str):
            return f"{name}: {self.content}"
        return [{"type": "text", "text": f"{name}:"}, *self.content]

    def message(self, ids: Iterable[str] = ()) -> dict[str, Any]:
        """The chat message that another participant observes."""
        message: dict[str, Any] = {"role": "user", "content": self.heard(ids)}
        if self.speaker is not None:
            message["name"] = self.speaker
        return message

    def to_json(self) -> dict[str, Any]:
        """The utterance as JSON data."""
        data = {"number": self.number, "speaker": self.speaker, "content": self.content}
        return data if self.error is None else {**data, "error": self.error}

    @classmethod
    def from_json(cls, data: Any) -> Utterance:
        """The utterance that JSON data stands for.

        Raises:
            ValueError: it stands for none
        """
        if not isinstance(data, dict):
            raise ValueError("an utterance is an object")
        number, speaker = data.get("number"), data.get("speaker")
        content, error = data.get("content"), data.get("error")
        if type(number) is not int or number < 1:
            raise ValueError("the number of an utterance is 1 or more")
        if not (speaker is None or isinstance(speaker, str)):
            raise ValueError("the speaker of an utterance is an id or null")
        if not isinstance(content, str) and not (
            isinstance(content, list) and all(isinstance(block, dict) for block in content)
        ):
            raise ValueError("the content of an utterance is a text or a list of blocks")
        if not (error is None or isinstance(error, str)):
            raise ValueError("the error of an utterance is a text or null")
        return cls(number, speaker, content, error)


class Transcript:
    """The last utterances of a conversation.

    Args:
        kept: how many at most

    Attributes:
        count: how many there have been, those that were dropped too
    """

    __slots__ = ("_chars", "_items", "count", "kept")

    def __init__(self, kept: int = MAX_KEPT) -> None:
        self.kept = kept
        self.count = 0
        self._items: deque[Utterance] = deque()
        self._chars = 0

    def add(self, speaker: str | None, content: Content, error: str | None = None) -> Utterance:
        """Add what somebody said, and drop what there is no longer room for."""
        utterance = Utterance(self.count + 1, speaker, content, error)
        self._append(utterance)
        return utterance

    def _append(self, utterance: Utterance) -> None:
        self.count = utterance.number
        items = self._items
        items.append(utterance)
        self._chars += utterance.size
        while len(items) > 1 and (len(items) > self.kept or self._chars > MAX_CHARS):
            self._chars -= items.popleft().size

    def restore(self, utterances: Iterable[Utterance], count: int) -> None:
        """Take these in place of what there is."""
        self._items.clear()
        self._chars = 0
        for utterance in utterances:
            self._append(utterance)
        self.count = count

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._items)

    def __reversed__(self) -> Iterator[Utterance]:
        return reversed(self._items)


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A participant begins to speak: the events that follow are of its turn.

    Attributes:
        agent: the id of the conversation
        speaker: the id of the participant
        turn: which turn of the reply it is, from 1
        run_id: the id of the run
        thread: the id of the thread; None for the conversation's own
    """

    kind: ClassVar[str] = "turn_started"
    agent: str
    speaker: str
    turn: int
    run_id: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A participant has spoken, or failed to.

    Attributes:
        agent: the id of the conversation
        speaker: the id of the participant
        turn: which turn of the reply it was, from 1
        utterance: what stands in the transcript
        run_id: the id of the run
        thread: the id of the thread; None for the conversation's own
    """

    kind: ClassVar[str] = "turn_ended"
    agent: str
    speaker: str
    turn: int
    utterance: Utterance
    run_id: str | None = None
    thread: str | None = None


def shown(id: str) -> str:
    """An id as it stands before what its agent says; in quotes if it could be taken for more."""
    if _PLAIN.fullmatch(id) and id == id.strip() and id.isprintable():
        return id
    return escaped(json.dumps(id, ensure_ascii=False))
