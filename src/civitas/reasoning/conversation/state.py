"""Where a conversation stands: what decides who speaks next and when it ends, and is saved."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, get_args

from civitas.models.protocol import Usage
from civitas.reasoning.conversation.transcript import MAX_KEPT, Content, Transcript, Utterance
from civitas.reasoning.reply import StopReason

if TYPE_CHECKING:
    from civitas.budget import Budget

__all__ = ["ConversationState"]

_VERSION: Final = 1
_REASONS: Final = frozenset((*get_args(StopReason), "in_doubt"))


class ConversationState:
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
    """

    __slots__ = (
        "agents",
        "begun",
        "budget",
        "handed_to",
        "kept",
        "last",
        "open",
        "pending",
        "said",
        "stop",
        "transcript",
        "turns",
        "usage",
    )

    def __init__(self, agents: Iterable[str], max_kept: int = MAX_KEPT) -> None:
        self.agents: Final = tuple(agents)
        self.transcript = Transcript(max_kept)
        self.pending: dict[str, deque[Utterance]] = {
            id: deque(maxlen=max_kept) for id in self.agents
        }
        self.budget: Budget | None = None
        self.open = False
        self.begin()
        self.open = False

    def begin(self) -> None:
        """Begin a reply: nobody has spoken, nothing was used, no condition is met."""
        self.turns = 0
        self.usage = Usage()
        self.last: tuple[str, ...] = ()
        self.said: tuple[Utterance, ...] = ()
        self.handed_to: str | None = None
        self.stop: tuple[StopReason, str] | None = None
        self.kept: dict[str, Any] = {}
        self.begun = self.transcript.count + 1
        self.open = True

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

    # -- saved and loaded --------------------------------------------------------------------------

    def to_json(self, after: int = 0) -> dict[str, Any]:
        """The state as JSON data.

        Args:
            after: only utterances with a higher number are in the transcript
        """
        return {
            "version": _VERSION,
            "agents": list(self.agents),
            "transcript": [each.to_json() for each in self.transcript if each.number > after],
            "count": self.transcript.count,
            "pending": {
                id: [each.to_json() for each in waiting] for id, waiting in self.pending.items()
            },
            "open": self.open,
            "begun": self.begun,
            "turns": self.turns,
            "usage": [self.usage.input_tokens, self.usage.output_tokens],
            "last": list(self.last),
            "said": [each.to_json() for each in self.said],
            "handed_to": self.handed_to,
            "stop": None if self.stop is None else list(self.stop),
            "kept": dict(self.kept),
        }

    @classmethod
    def from_json(cls, data: Any, agents: tuple[str, ...], max_kept: int) -> ConversationState:
        """The state that JSON data stands for.

        Args:
            data: what `to_json` gave
            agents: the participants that it must be of
            max_kept: how many utterances the transcript keeps

        Raises:
            ValueError: it stands for none, or for one of other participants
        """
        if not isinstance(data, dict):
            raise ValueError("it is no object")
        if data.get("version") != _VERSION:
            raise ValueError(f"its version is {data.get('version')!r:.20}, not {_VERSION}")
        if data.get("agents") != list(agents):
            raise ValueError(f"it is of {data.get('agents')!r:.200}, not of {list(agents)!r:.200}")
        state = cls(agents, max_kept)
        known = frozenset(agents)
        utterances = _utterances(data.get("transcript"), "transcript")
        state.transcript.restore(utterances, _count(data, "count"))
        pending = data.get("pending")
        if not isinstance(pending, dict) or pending.keys() != known:
            raise ValueError("pending names others than the participants")
        for id in agents:
            state.pending[id].extend(_utterances(pending[id], "pending"))
        if not isinstance(data.get("open"), bool):
            raise ValueError("open is true or false")
        state.open = data["open"]
        state.begun = _count(data, "begun")
        state.turns = _count(data, "turns")
        state.usage = _usage(data.get("usage"))
        last = data.get("last")
        if not isinstance(last, list) or not all(isinstance(i, str) and i in known for i in last):
            raise ValueError("last names others than the participants")
        state.last = tuple(last)
        state.said = tuple(_utterances(data.get("said"), "said"))
        handed = data.get("handed_to")
        if not (handed is None or (isinstance(handed, str) and handed in known)):
            raise ValueError("handed_to is no participant")
        state.handed_to = handed
        state.stop = _stop(data.get("stop"))
        kept = data.get("kept")
        if not isinstance(kept, dict):
            raise ValueError("kept is no object")
        state.kept = dict(kept)
        return state


def _utterances(data: Any, what: str) -> list[Utterance]:
    if not isinstance(data, list):
        raise ValueError(f"{what} is no list")
    return [Utterance.from_json(each) for each in data]


def _count(data: dict[str, Any], what: str) -> int:
    number = data.get(what)
    if type(number) is not int or number < 0:
        raise ValueError(f"{what} is 0 or more")
    return number


def _usage(data: Any) -> Usage:
    if not isinstance(data, list) or len(data) != 2 or any(type(n) is not int for n in data):
        raise ValueError("usage is two numbers of tokens")
    return Usage(*data)


def _stop(data: Any) -> tuple[StopReason, str] | None:
    if data is None:
        return None
    if (
        isinstance(data, list)
        and len(data) == 2
        and isinstance(data[0], str)
        and data[0] in _REASONS
        and isinstance(data[1], str)
    ):
        return data[0], data[1]  # type: ignore[return-value]
    raise ValueError("stop is a reason and a text, or null")
