"""Where a conversation stands: what was said, what decides who is next and when it ends."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from civitas.approval import escaped
from civitas.errors import StateError
from civitas.models.protocol import Usage
from civitas.reasoning.prompts import cut
from civitas.reasoning.record import APPENDED, NULL_RECORD, Record
from civitas.reasoning.reply import Step, StopReason

if TYPE_CHECKING:
    from civitas.budget import Budget

__all__ = [
    "MAX_CHARS",
    "MAX_KEPT",
    "MAX_STEPS",
    "Content",
    "ConversationState",
    "SavedTalk",
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
MAX_STEPS: Final = 1000
"""How many of the participants' steps a reply tells of: the last."""
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


class Transcript:
    """The last utterances of a conversation.

    Args:
        kept: how many at most
        utterances: those that there have been

    Attributes:
        count: how many there have been, those that were dropped too
    """

    __slots__ = ("_chars", "_items", "count", "kept")

    def __init__(self, kept: int = MAX_KEPT, utterances: Iterable[Utterance] = ()) -> None:
        self.kept = kept
        self.count = 0
        self._items: deque[Utterance] = deque()
        self._chars = 0
        for utterance in utterances:
            self._append(utterance)

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

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._items)

    def __reversed__(self) -> Iterator[Utterance]:
        return reversed(self._items)


@dataclass(slots=True, eq=False)
class Stand:
    """What of a conversation's state is saved as it is, whole each time."""

    agents: tuple[str, ...] = ()
    open: bool = False
    begun: int = 1
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    last: tuple[str, ...] = ()
    said: tuple[Utterance, ...] = ()
    handed_to: str | None = None
    stop: tuple[StopReason, str] | None = None
    kept: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SavedTalk(Stand):
    """What is saved of a conversation: by `state_dict`, and between two turns in a journal.

    Attributes:
        max_kept: how many utterances the transcript keeps
        pending: what each participant has still to hear
        transcript: what was said; in a journal all of it, since the first that was recorded
        steps: what the participants called in a reply that is recorded
        values: what each of them said in its last turn, as a value
    """

    max_kept: int = MAX_KEPT
    pending: dict[str, list[Utterance]] = field(default_factory=dict)
    transcript: list[Utterance] = field(default_factory=list, metadata=APPENDED)
    steps: list[Step] = field(default_factory=list, metadata=APPENDED)
    values: dict[str, Any] = field(default_factory=dict)


class ConversationState(Stand):
    """Where a conversation stands. To be read; the conversation alone changes it.

    Attributes:
        agents: the ids of the participants, in their order
        transcript: the last utterances, of this reply and those before it
        turns: how many turns this reply has had; each speaker of a fan-out had one
        usage: the tokens that this reply took
        last: who spoke in the last turn; empty before the first
        said: what they said
        handed_to: whom the last speaker handed over to, or None
        stop: why the reply is to end, with more in words; None while it goes on
        open: whether a reply was begun and has not ended
        begun: the number of the first utterance of this reply
        budget: what may be spent, or None; it is not saved
        kept: what the conditions keep from turn to turn
        pending: what each participant has still to hear
        record: where the reply is recorded; it is not saved
    """

    __slots__ = ("budget", "pending", "record", "transcript")

    def __init__(self, agents: Iterable[str], max_kept: int = MAX_KEPT) -> None:
        super().__init__(tuple(agents))
        self.transcript = Transcript(max_kept)
        self.pending: dict[str, deque[Utterance]] = {
            id: deque(maxlen=max_kept) for id in self.agents
        }
        self.budget: Budget | None = None
        self.record: Record[SavedTalk] = NULL_RECORD

    def begin(self) -> None:
        """Begin a reply: nobody has spoken, nothing was used, no condition is met."""
        super().__init__(self.agents, True, self.transcript.count + 1)

    def add(
        self,
        speaker: str | None,
        content: Content,
        error: str | None = None,
        known_to: Iterable[str] = (),
    ) -> Utterance:
        """Add what somebody said, for everyone else to hear.

        Args:
            speaker: a participant's id, or None
            content: what it said
            error: why it gave no answer
            known_to: who has heard it already
        """
        utterance = self.transcript.add(speaker, content, error)
        for id in self.agents:
            if id != speaker and id not in known_to:
                self.pending[id].append(utterance)
        return utterance

    @property
    def own(self) -> list[Utterance]:
        """The utterances of this reply that are kept."""
        return [each for each in self.transcript if each.number >= self.begun]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The same as chat messages."""
        return [_as_chat(each) for each in self.own]

    # -- saved and loaded --------------------------------------------------------------------------

    def saved(
        self, after: SavedTalk | None = None, values: dict[str, Any] | None = None
    ) -> SavedTalk:
        """What is saved of it.

        Args:
            after: what was recorded before, whose lists go on
            values: what each speaker of the last turn said, as a value
        """
        after = SavedTalk() if after is None else after
        known = after.transcript[-1].number if after.transcript else 0
        after.transcript.extend(each for each in self.transcript if each.number > known)
        stand: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Stand)}
        return SavedTalk(
            **stand,
            max_kept=self.transcript.kept,
            pending={id: list(waiting) for id, waiting in self.pending.items()},
            transcript=after.transcript,
            steps=after.steps,
            values=values or {},
        )

    @classmethod
    def of(
        cls, saved: SavedTalk, agents: Iterable[str], max_kept: int, whose: str
    ) -> ConversationState:
        """The state that was saved.

        Args:
            saved: it
            agents: the participants that it must be of
            max_kept: how many utterances the transcript keeps
            whose: whose state it is, for errors

        Raises:
            StateError: it is of other participants, or contradicts itself
        """
        made = cls(agents, max_kept)
        if saved.agents != made.agents:
            raise StateError(
                f"{whose}: it is of {saved.agents!r:.200}, not of {made.agents!r:.200}"
            )
        numbers = [each.number for each in saved.transcript]
        handed = () if saved.handed_to is None else (saved.handed_to,)
        for field_name, wrong in (
            ("pending names others than the participants", saved.pending.keys() ^ set(agents)),
            ("last names others than the participants", set(saved.last) - set(agents)),
            ("handed_to names no participant", set(handed) - set(agents)),
            ("turns and begun must be 0 or more", min(saved.turns, saved.begun) < 0),
            ("the numbers of the transcript must rise", sorted(set(numbers)) != numbers),
        ):
            if wrong:
                raise StateError(f"{whose}: {field_name}")
        for each in fields(Stand):
            setattr(made, each.name, getattr(saved, each.name))
        made.transcript = Transcript(max_kept, saved.transcript)
        for id, waiting in saved.pending.items():
            made.pending[id].extend(waiting)
        return made


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


def _as_chat(utterance: Utterance) -> dict[str, Any]:
    if utterance.speaker is None:
        return {"role": "user", "content": utterance.content}
    content = utterance.content
    if utterance.error is not None:
        content = f"(no answer: {cut(utterance.error, _MAX_ERROR)})"
    return {"role": "assistant", "name": utterance.speaker, "content": content}


def shown(id: str) -> str:
    """An id as it stands before what its agent says; in quotes if it could be taken for more."""
    if _PLAIN.fullmatch(id) and id == id.strip() and id.isprintable():
        return id
    return escaped(json.dumps(id, ensure_ascii=False))
