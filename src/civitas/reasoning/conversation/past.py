"""What was recorded of a conversation, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from civitas.errors import StateError
from civitas.journal import Entry
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.state import ConversationState
from civitas.reasoning.conversation.transcript import Utterance
from civitas.reasoning.reply import Reply, Step
from civitas.reasoning.resume import ENDED
from civitas.reasoning.state import reply_of_json

__all__ = ["ConversationPast"]


class ConversationPast:
    """How far a conversation had come.

    Of each turn only what it added to the transcript is recorded.

    Attributes:
        begun: what it began with; None if nothing was recorded
        over: why it ended, if it did and nothing came after it
        steps: what the participants called in the turns that are over
        values: what each said in the last of them, as a value
        turns: of each of them, how many there had been before and what was said
        chosen: who was chosen for the turn under way, or None
        questions: what was asked in each part, as the number of an utterance; 0 for another text
        replies: what those replied who keep no record of their own
        handed: whom was handed over to in each part
        told: the numbers of the utterances that each participant was told
        heard: what was said from outside since that turn
        answers: how often a model was asked who speaks next, what it took, and what was charged
    """

    def __init__(self, run_id: str, entries: Sequence[Entry]) -> None:
        self.run_id = run_id
        self.begun: dict[str, Any] | None = None
        self.over: dict[str, Any] | None = None
        self.steps: list[Step] = []
        self.values: dict[str, Any] = {}
        self.turns: list[tuple[int, list[Utterance]]] = []
        self.chosen: dict[str, Any] | None = None
        self.questions: dict[str, int] = {}
        self.replies: dict[str, Any] = {}
        self.handed: dict[str, str] = {}
        self.told: dict[str, list[int]] = {}
        self.answers: list[tuple[int, Usage, dict[str, Any] | None]] = []
        self._state: dict[str, Any] = {}
        self._said: list[dict[str, Any]] = []
        self.heard: list[dict[str, Any]] = []
        for entry in entries:
            self.over = None
            try:
                self._take(entry.kind, entry.data)
            except (KeyError, TypeError, ValueError) as error:
                raise StateError(
                    f"run {run_id!r}: entry {entry.sequence} ({entry.kind}) is not one that this "
                    f"civitas writes: {type(error).__name__}: {error}"
                ) from error

    def _take(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "begun":
            if self.begun is None:
                self._state = data["state"]
                self._said = list(self._state["transcript"])
            self.begun = data  # for the second time in a copy, by who goes on with it
        elif kind == "heard":
            self.heard.append(data)
        elif kind == "chosen":
            self.chosen = data
            self.answers.append((data["answers"], Usage(*data["usage"]), data.get("charged")))
        elif kind == "charged":
            self.answers.append((0, Usage(), data["charged"]))
        elif kind == "told":
            self.told.setdefault(data["agent"], []).append(data["number"])
        elif kind == "asked":
            self.questions[data["part"]] = data["question"]
        elif kind == "replied":
            self.replies[data["part"]] = data["reply"]
        elif kind == "handed_over":
            self.handed[data["part"]] = data["to"]
        elif kind == "turned":
            self._state = data["state"]
            self._said.extend(self._state["transcript"])
            self.heard, self.chosen = [], None
            self.steps.extend(Step(**each) for each in data["steps"])
            self.values = data["values"]
            said = [Utterance.from_json(each) for each in self._state["said"]]
            self.turns.append((self._state["turns"] - len(said), said))
        elif kind == "over":
            self.over = data

    @property
    def ended(self) -> bool:
        """Whether the run is over for good."""
        return self.over is not None and self.over["reason"] in ENDED

    def state(self, agents: Iterable[str], max_kept: int, last: bool) -> ConversationState:
        """Where it stood.

        Args:
            agents: the participants
            max_kept: how many utterances the transcript keeps
            last: at its end, if that was recorded; else after its last turn, from where it goes on

        Raises:
            StateError: what was recorded is no state of these participants
        """
        data, said, heard = self._state, self._said, self.heard
        if last and self.over is not None and self.over["state"] is not None:
            data, heard = self.over["state"], []
            said = [*said, *data["transcript"]]
        try:
            found = ConversationState.from_json(
                {**data, "transcript": said}, tuple(agents), max_kept
            )
        except ValueError as error:
            raise StateError(f"run {self.run_id!r} cannot be gone on with: {error}") from error
        for each in heard:
            found.add(None, each["content"], known_to=each["known_to"])
        return found

    def reply(self) -> Reply:
        """The reply that it ended with."""
        assert self.over is not None
        return reply_of_json({**self.over, "stop_reason": self.over["reason"]}, self.run_id)
