"""The one who speaks hands over to the next, by an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from civitas.action import Action
from civitas.errors import AskAgain, DefinitionError
from civitas.message import address
from civitas.reasoning.conversation.order import Choice, Handed, Order
from civitas.reasoning.conversation.state import ConversationState
from civitas.text import excerpt

HAND_OVER: Final = "hand_over"
"""The name of the action."""


class HandOver(Order):
    """The one who speaks hands over to another participant, by the action `hand_over(to, message)`.

    The action is offered to the model of a participant that is a `ReActAgent`, for its turn alone.
    It ends the turn; the message is what the others hear. Who answers without handing over ends the
    conversation with its answer.

    Args:
        first: who speaks first; the first participant if left out
        about: what each participant is there for, by id; it stands in the action's description
    """

    def __init__(
        self,
        first: str | int | None = None,
        *,
        about: Mapping[str | int, str] | None = None,
    ) -> None:
        self.first = None if first is None else address(first)
        self.about = {address(id): text for id, text in (about or {}).items()}

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse a first who takes no part, and participants with an action of the same name."""
        named = self.about.keys() | ({self.first} if self.first is not None else set())
        if unknown := named - agents.keys():
            raise DefinitionError(f"HandOver names no participant: {sorted(unknown)!r:.200}")
        for id, agent in agents.items():
            find = getattr(getattr(agent, "actions", None), "get_action", None)
            if find is not None and find(HAND_OVER) is not None:
                raise DefinitionError(
                    f"agent {id!r} has an action {HAND_OVER!r} of its own: give it another name"
                )

    def over(self, state: ConversationState) -> str | None:
        """Whether the last speaker has answered without handing over."""
        if not state.last or state.handed_to is not None:
            return None
        return f"{state.last[0]!r} answered without handing over"

    def described(self) -> Any:
        """Who is first, and what is told of each."""
        return ["HandOver", self.first, self.about]

    async def choose(self, state: ConversationState) -> Choice:
        """Whoever was handed over to."""
        if reason := self.over(state):
            return Choice((), detail=reason)
        return Choice((state.handed_to or self.first or state.agents[0],))

    def offered(self, state: ConversationState, id: str, handed: Handed) -> tuple[Action, ...]:
        """The action by which a participant hands over, for its turn."""
        others = [each for each in state.agents if each != id]
        return (_HandOverAction(handed, others, self.about),) if others else ()

    def __repr__(self) -> str:
        return f"HandOver({self.first!r})"


class _HandOverAction(Action):
    """Handing over, of one turn."""

    def __init__(self, handed: Handed, others: list[str], about: Mapping[str, str]) -> None:
        async def hand_over(to: str, message: str) -> str:
            if handed.is_over:
                raise AskAgain("the turn in which this could be done is over")
            if handed.to is not None:
                raise AskAgain(f"you have handed over to {excerpt(handed.to)} already")
            handed.over(to)
            return message

        described = "Hand over to another participant of the conversation, who answers next."
        for id in others:
            if id in about:
                described += f" {excerpt(id)}: {about[id]}"
        super().__init__(HAND_OVER, hand_over, described, {}, terminal=True, idempotent=True)
        # Not given above, where it would be checked anew at each turn.
        self._parameters = {
            "type": "object",
            "properties": {
                "to": {"type": "string", "enum": others, "description": "who it is"},
                "message": {"type": "string", "description": "what you tell everyone"},
            },
            "required": ["to", "message"],
            "additionalProperties": False,
        }
