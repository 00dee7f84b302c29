"""The speaker hands over to another participant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moothall.actions import Action
from moothall.actions.message import address
from moothall.actions.signature.schema import object_schema
from moothall.agents.conversation.asking import Asked
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.conversation.speaking_order import Choice, Handover, Order, roles_of
from moothall.foundation.arguments import check_boolean
from moothall.foundation.errors import AskAgain, DefinitionError
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.text import excerpt, one_line
from moothall.models.ask import Unusable
from moothall.models.base import is_in_process

HAND_OVER: Final = "hand_over"
"""The name of the action."""
_LAST_CHARS: Final = 300  # of what was said last: its end, where a question stands
_IS_MINE: Final = """\
Is what was said last for you, or for one of the others? It is yours if you know the answer, or if \
it is for nobody else, as a greeting. It is not yours if it is what one of the others is for.
Examples, of another one, who knows when ships sail:
The others: Ulf: weighs freight. The last said: When does the Zorp sail?
{"asked_for": "when the Zorp sails", "is_mine": "yes"}
The others: Ulf: weighs freight. The last said: My crate for the Zorp seems too heavy.
{"asked_for": "what a crate weighs", "is_mine": "no"}
The others: Ulf: weighs freight. The last said: Good evening to you all!
{"asked_for": "only a greeting", "is_mine": "yes"}"""
_MINE_SCHEMA: Final = object_schema(
    asked_for={
        "type": "string",
        "maxLength": 200,
        "description": "what is asked for, in a few words",
    },
    is_mine={"enum": ["no", "yes"]},
)
_WHOSE: Final = """\
Who of the others is it for? The one whose role it needs.
Examples, of other people:
Odo: sews sails. Ulf: weighs freight. The last said: My crate for the Zorp seems too heavy.
{"to": "Ulf"}
Odo: sews sails. Ulf: weighs freight. The last said: There is a hole in the canvas.
{"to": "Odo"}"""


class HandOver(Order):
    """The speaker hands over to another participant, by the action `hand_over(to, message)`.

    The action is offered to the model of a participant that is a `ReActAgent`, in its turn only.
    It ends the turn; the others hear the message. A speaker that answers without handing over ends
    the conversation with its answer.

    If the model of the first speaker is in this process, which is small, it is asked two questions
    before its turn: whether what was said last is its own to answer, and if not, whose it is. That
    participant then speaks in its place.

    Args:
        first: who speaks first; defaults to the first participant
        about: the role of each participant, by id, for the action's description
        stay: whether each later reply of a thread begins with its last speaker instead of `first`
    """

    def __init__(
        self,
        first: str | int | None = None,
        *,
        about: Mapping[str | int, str] | None = None,
        stay: bool = False,
    ) -> None:
        check_boolean("HandOver: stay=", stay)
        self.stay = stay
        self.first: str | None = None if first is None else address(first)
        self.about: dict[str, str] = roles_of(about, "HandOver")
        self._agents: dict[str, Any] = {}

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse ids that name no participant, and participants with an action of the same name."""
        self._agents = agents
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
        """Return the reason to end if the last speaker answered without handing over; else None."""
        if not state.last or state.handed_to is not None:
            return None
        return f"{state.last[0]!r} answered without handing over"

    def described(self) -> Any:
        """Return the settings."""
        return ["HandOver", self.first, self.about, *(["stay"] if self.stay else [])]

    async def choose(self, state: ConversationState) -> Choice:
        """Return the participant that the last speaker handed over to."""
        if reason := self.over(state):
            return Choice((), detail=reason)
        before = (each.speaker for each in reversed(state.transcript) if each.speaker is not None)
        last = next(before, None) if self.stay else None
        if state.handed_to is not None:
            return Choice((state.handed_to,))
        id = last or self.first or state.agents[0]
        model = getattr(self._agents.get(id), "model", None)
        if is_in_process(model) and len(state.agents) > 1 and state.transcript:
            return await self._first_or_other(state, id, model)
        return Choice((id,))

    async def _first_or_other(self, state: ConversationState, id: str, model: Any) -> Choice:
        """Ask the first speaker's model whether it answers, and if not, who does."""
        others = [each for each in state.agents if each != id]
        known = [
            f"{each}: {one_line(self.about[each], 200)}" for each in others if each in self.about
        ]
        prompt = getattr(self._agents[id], "system_prompt", None)
        own = prompt if isinstance(prompt, str) else self.about.get(id, "")
        head = f"You are {excerpt(id)}. {own}"
        asked = Asked(model, state, head)
        last = one_line(state.transcript[-1].text[-_LAST_CHARS:], _LAST_CHARS)
        roles = ". ".join(known) or ", ".join(others)
        now = f"Now you. The others: {roles}. The last said: {last}"
        form = 'Answer with JSON alone: {"asked_for": in a few words, "is_mine": "yes" or "no"}'
        try:
            said = await asked.ask("mine", f"{_IS_MINE}\n{now}\n{form}", _MINE_SCHEMA)
            if said["is_mine"] == "yes":
                return Choice((id,), asked.usage)
            if len(others) == 1:
                return Choice((others[0],), asked.usage)
            now = f"Now these. {roles}. The last said: {last}"
            form = f'Answer with JSON alone: {{"to": one of {json_line(others)}}}'
            schema = object_schema(to={"enum": others})
            said = await asked.ask("whose", f"{_WHOSE}\n{now}\n{form}", schema)
        except Unusable:
            return Choice((id,), asked.usage)  # it may still hand over in its turn
        return Choice((said["to"],), asked.usage)

    def offered(self, state: ConversationState, id: str, handed: Handover) -> tuple[Action, ...]:
        """Return the action by which a participant hands over in its turn."""
        others = [each for each in state.agents if each != id]
        return (_HandOverAction(handed, others, self.about),) if others else ()

    def __repr__(self) -> str:
        return f"HandOver({self.first!r})"


class _HandOverAction(Action):
    """The action `hand_over` for one turn."""

    def __init__(self, handed: Handover, others: list[str], about: Mapping[str, str]) -> None:
        async def hand_over(to: str, message: str) -> str:
            if handed.is_over:
                raise AskAgain("your turn is over: hand over only during your turn")
            if handed.to is not None:
                raise AskAgain(f"you have handed over to {excerpt(handed.to)} already")
            handed.hand_over(to)
            return message

        described = "Hand over to another participant of the conversation, who answers next."
        for id in others:
            if id in about:
                described += f" {excerpt(id)}: {about[id]}"
        super().__init__(HAND_OVER, hand_over, described, {}, terminal=True, idempotent=True)
        # Set here: as an argument, the schema would be checked anew at each turn.
        self._parameters = object_schema(
            to={"type": "string", "enum": others, "description": "who it is"},
            message={"type": "string", "description": "what you tell everyone"},
        )
