"""The speaker hands over to another participant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moothall.actions import Action
from moothall.actions.message import address
from moothall.actions.signature.schema import object_schema
from moothall.agents.conversation.choice_questions import ChoiceQuestions
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.conversation.speaking_order import Choice, Order, Transfer, roles_of
from moothall.agents.replies.checked_parts import actions_of_agent
from moothall.foundation.arguments import check_boolean
from moothall.foundation.errors import AskAgain, DefinitionError
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.text import excerpt, one_line
from moothall.models.ask import Unusable
from moothall.models.base import is_in_process

HAND_OVER: Final = "hand_over"
"""The name of the action."""
_LAST_CHARS: Final = 300  # of what was said last: its end, where a question stands
_ROLE_CHARS: Final = 500
_WHO_ANSWERS: Final = """\
Examples, of other people (Ada: knows when ships sail. Odo: sews sails. Ulf: weighs freight.):
When does the Zorp sail? {"asked_for": "when a ship sails", "to": "Ada"}
There is a hole in the canvas. {"asked_for": "mending a sail", "to": "Odo"}
Good evening! {"asked_for": "a greeting", "to": "Ada"}
Now for the people above. The request: """
_ASKED_FOR: Final = {
    "type": "string",
    "maxLength": 100,
    "description": "what is asked for, in a few words",
}


class HandOver(Order):
    """The speaker hands over to another participant, by the action `hand_over(to, message)`.

    The action is offered to the model of a participant that is a `ReActAgent`, in its turn only.
    It ends the turn; the others hear the message. A speaker that answers without handing over ends
    the conversation with its answer.

    If the model of the first speaker is in this process, which is small, it is asked before its
    turn whose it is to answer what was said last, itself among the participants. That participant
    then speaks.

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

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse ids that name no participant, and participants with an action of the same name."""
        ids = self.about.keys() | ({self.first} if self.first is not None else set())
        if unknown := ids - agents.keys():
            raise DefinitionError(f"HandOver names no participant: {sorted(unknown)!r:.200}")
        for id, agent in agents.items():
            if any(each.name == HAND_OVER for each in actions_of_agent(agent)):
                raise DefinitionError(
                    f"agent {id!r} has an action {HAND_OVER!r} of its own: give it another name"
                )

    def end_reason(self, state: ConversationState) -> str | None:
        """Return the reason to end if the last speaker answered without handing over; else None."""
        if not state.last or state.handed_to is not None:
            return None
        return f"{state.last[0]!r} answered without handing over"

    def settings_data(self) -> Any:
        """Return the settings."""
        return ["HandOver", self.first, self.about, *(["stay"] if self.stay else [])]

    async def choose(self, state: ConversationState) -> Choice:
        """Return the participant that the last speaker handed over to."""
        if reason := self.end_reason(state):
            return Choice((), detail=reason)
        speakers = (each.speaker for each in reversed(state.transcript) if each.speaker is not None)
        last_speaker = next(speakers, None) if self.stay else None
        if state.handed_to is not None:
            return Choice((state.handed_to,))
        id = last_speaker or self.first or state.agents[0]
        model = getattr(state.participants.get(id), "model", None)
        if is_in_process(model) and len(state.agents) > 1 and state.transcript:
            return await self._ask_who_answers(state, id, model)
        return Choice((id,))

    async def _ask_who_answers(self, state: ConversationState, id: str, model: Any) -> Choice:
        """Ask the first speaker's model who answers, itself or another one."""
        own_prompt = getattr(state.participants[id], "system_prompt", None)
        roles = {**self.about, **({id: own_prompt} if isinstance(own_prompt, str) else {})}
        ids = [id, *(each for each in state.agents if each != id)]
        lines = [f"- {each}: {one_line(roles.get(each, ''), _ROLE_CHARS)}" for each in ids]
        questions = ChoiceQuestions(
            model, state, "These people answer requests:\n" + "\n".join(lines)
        )
        last_text = one_line(state.transcript[-1].text[-_LAST_CHARS:], _LAST_CHARS)
        names = json_line(ids)
        form = f'Answer with JSON alone: {{"asked_for": in a few words, "to": one of {names}}}'
        schema = object_schema(asked_for=_ASKED_FOR, to={"enum": ids})
        try:
            answer = await questions.ask("whose", f"{_WHO_ANSWERS}{last_text}\n{form}", schema)
        except Unusable:
            return Choice((id,), questions.usage)  # it may still hand over in its turn
        return Choice((answer["to"],), questions.usage)

    def offer(self, state: ConversationState, id: str, transfer: Transfer) -> tuple[Action, ...]:
        """Return the action by which a participant hands over in its turn."""
        receivers = [each for each in state.agents if each != id]
        return (_HandOverAction(transfer, receivers, self.about),) if receivers else ()

    def __repr__(self) -> str:
        return f"HandOver({self.first!r})"


class _HandOverAction(Action):
    """The action `hand_over` for one turn."""

    def __init__(self, transfer: Transfer, receivers: list[str], roles: Mapping[str, str]) -> None:
        async def hand_over(to: str, message: str) -> str:
            if transfer.is_over:
                raise AskAgain("your turn is over: hand over only during your turn")
            if transfer.to is not None:
                raise AskAgain(f"you have handed over to {excerpt(transfer.to)} already")
            transfer.hand_over(to)
            return message

        description = "Hand over to another participant of the conversation, who answers next."
        for id in receivers:
            if id in roles:
                description += f" {excerpt(id)}: {roles[id]}"
        super().__init__(HAND_OVER, hand_over, description, {}, terminal=True, idempotent=True)
        # Set here: as an argument, the schema would be checked anew at each turn.
        self._parameters = object_schema(
            to={"type": "string", "enum": receivers, "description": "who it is"},
            message={"type": "string", "description": "what you tell everyone"},
        )
