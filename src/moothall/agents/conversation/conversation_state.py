"""The state of a conversation: the utterances, and what decides who is next and when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moothall.actions.provenance import merged_sources
from moothall.agents.replies.reply import MAX_ERROR, Content, Step, Utterance
from moothall.agents.replies.resume import NULL_RECORD
from moothall.agents.replies.state import APPENDED, UNSAVED
from moothall.foundation.errors import StateError
from moothall.foundation.text import cut
from moothall.journal.stop_reason import StopReason
from moothall.models.protocol import Usage

MAX_UTTERANCES: Final = 1000
"""How many utterances a transcript keeps, and how many may wait to be heard by a participant."""
MAX_CHARS: Final = 1_000_000
"""How many characters a transcript keeps; the last utterance is kept at any length."""
MAX_STEPS: Final = 1000
"""How many of the participants' steps a reply has; the last ones are kept."""


@dataclass(slots=True, eq=False)
class ConversationState:
    """The state of a conversation. Read-only: only the conversation changes it.

    Attributes:
        agents: the ids of the participants, in their order
        open: whether a reply is unfinished
        begun: the number of the first utterance of this reply
        turns: how many turns this reply has had; each of several speakers at once counts as one
        usage: the tokens that this reply took
        last: the speakers of the last turn; empty before the first
        said: their utterances
        handed_to: the participant that the last speaker handed over to, or None
        stop: the stop reason with a detail; None until there is one
        kept: the data that the conditions keep from turn to turn
        pending: the utterances that each participant has not heard, by id
        transcript: the last utterances, of this reply and earlier ones; while a recorded reply is
            unfinished, all of them
        steps: the calls of the participants in this reply
        values: the value of each speaker's reply in the last turn, by id
        outside: what the participants had read from outside
        chars: how many characters the transcript has; not saved, like the next four
        participants: the participants, by id
        budget: what may be spent, or None
        record: the record of the reply
        run: the id of the recorded reply that is unfinished, or None
    """

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
    pending: dict[str, list[Utterance]] = field(default_factory=dict)
    transcript: list[Utterance] = field(default_factory=list, metadata=APPENDED)
    steps: list[Step] = field(default_factory=list, metadata=APPENDED)
    values: dict[str, Any] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    chars: int = field(default=0, metadata=UNSAVED)
    participants: dict[str, Any] = field(default_factory=dict, metadata=UNSAVED)
    budget: Any = field(default=None, metadata=UNSAVED)
    record: Any = field(default=NULL_RECORD, metadata=UNSAVED)
    run: str | None = field(default=None, metadata=UNSAVED)

    def __post_init__(self) -> None:
        self.chars = sum(each.size for each in self.transcript)
        for id in self.agents:
            self.pending.setdefault(id, [])

    def begin(self) -> None:
        """Begin a reply: reset the turns, the usage and the conditions."""
        self.open, self.begun, self.turns = True, self.count + 1, 0
        self.usage, self.last, self.said = Usage(), (), ()
        self.handed_to, self.stop, self.kept = None, None, {}
        self.steps, self.values = [], {}

    @property
    def count(self) -> int:
        """Return how many utterances there have been."""
        return self.transcript[-1].number if self.transcript else 0

    def add(
        self,
        speaker: str | None,
        content: Content,
        error: str | None = None,
        known_to: Iterable[str] = (),
        outside: Sequence[str] = (),
    ) -> Utterance:
        """Add an utterance, for all who have not heard it (`known_to`) to hear; return it."""
        utterance = Utterance(self.count + 1, speaker, content, error, tuple(outside))
        self.outside = merged_sources((*self.outside, *outside))
        self.transcript.append(utterance)
        self.chars += utterance.size
        for id in self.agents:
            if id != speaker and id not in known_to:
                self.pending[id].append(utterance)
        self.trim()
        return utterance

    @property
    def is_recorded(self) -> bool:
        """Return whether a journal records the reply that is under way."""
        return self.record is not NULL_RECORD

    def end_record(self) -> None:
        """Note that no reply is under way."""
        self.record = NULL_RECORD
        self.trim()

    def trim(self) -> None:
        """Drop the oldest items above the limits, except what is still to be recorded."""
        for unread in self.pending.values():
            del unread[:-MAX_UTTERANCES]
        if not self.is_recorded:
            del self.steps[:-MAX_STEPS]
            utterances = self.transcript
            while len(utterances) > 1 and (
                len(utterances) > MAX_UTTERANCES or self.chars > MAX_CHARS
            ):
                self.chars -= utterances.pop(0).size

    @property
    def own_utterances(self) -> list[Utterance]:
        """Return the utterances of this reply that are kept."""
        return [each for each in self.transcript if each.number >= self.begun][-MAX_UTTERANCES:]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the utterances of this reply that are kept, as chat messages."""
        return [_chat_message(each) for each in self.own_utterances]

    def check(self, agents: Iterable[str], label: str) -> None:
        """Refuse a loaded state that has other participants or contradicts itself; then trim it."""
        ids = tuple(agents)
        numbers = [each.number for each in self.transcript]
        receivers = () if self.handed_to is None else (self.handed_to,)
        for fault, is_wrong in (
            (f"it is of {self.agents!r:.200}, not of {ids!r:.200}", self.agents != ids),
            ("pending names others than the participants", self.pending.keys() ^ set(ids)),
            ("last names others than the participants", set(self.last) - set(ids)),
            ("handed_to names no participant", set(receivers) - set(ids)),
            ("turns and begun must be 0 or more", min(self.turns, self.begun) < 0),
            ("the numbers of the transcript must rise", sorted(set(numbers)) != numbers),
        ):
            if is_wrong:
                raise StateError(f"{label}: {fault}")
        self.trim()


def _chat_message(utterance: Utterance) -> dict[str, Any]:
    if utterance.speaker is None:
        return {"role": "user", "content": utterance.content}
    content = utterance.content
    if utterance.error is not None:
        content = f"(no answer: {cut(utterance.error, MAX_ERROR)})"
    return {"role": "assistant", "name": utterance.speaker, "content": content}
