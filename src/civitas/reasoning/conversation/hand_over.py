"""The one who speaks hands over to the next, by an action."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from civitas.action import Action
from civitas.errors import AskAgain, DefinitionError
from civitas.message import address
from civitas.reasoning.conversation.order import Choice, Handed, Order
from civitas.reasoning.conversation.state import ConversationState
from civitas.text import excerpt

HAND_OVER: Final = "hand_over"
"""The name of the action."""

_TURN: ContextVar[Action | None] = ContextVar("civitas_hand_over", default=None)
"""The action of the turn that leads to what is being done, in its task."""


class HandOver(Order):
    """The one who speaks hands over to another participant, by the action `hand_over(to, message)`.

    The action is offered to each participant's own model while it has its turn, and to nobody else.
    It ends the turn; the message is what the others hear. Who answers without handing over, or has
    no `actions` to be offered one among, ends the conversation with its answer.

    Args:
        first: who speaks first; the first participant if left out
        about: what each participant is there for, by id; it stands in the action's description
        back_to_first: who does not hand over gives back to the first, and only the first, not
            handing over, ends the conversation
    """

    def __init__(
        self,
        first: str | int | None = None,
        *,
        about: Mapping[str | int, str] | None = None,
        back_to_first: bool = False,
    ) -> None:
        self.first = None if first is None else address(first)
        self.about = {address(id): text for id, text in (about or {}).items()}
        self.back_to_first = back_to_first

    def check(self, agents: dict[str, Any]) -> None:
        """Refuse a first who takes no part, and participants with an action of the same name."""
        named = self.about.keys() | ({self.first} if self.first is not None else set())
        if unknown := named - agents.keys():
            raise DefinitionError(f"HandOver names no participant: {sorted(unknown)!r:.200}")
        for id, agent in agents.items():
            registry: Any = getattr(agent, "actions", None)
            if _is_registry(registry) and registry.get_action(HAND_OVER) is not None:
                raise DefinitionError(
                    f"agent {id!r} has an action {HAND_OVER!r} of its own: give it another name"
                )

    def over(self, state: ConversationState) -> str | None:
        """Whether the last speaker has answered without handing over."""
        if not state.last or state.handed_to is not None:
            return None
        if self.back_to_first and state.last != (self._first(state),):
            return None
        return f"{state.last[0]!r} answered without handing over"

    def described(self) -> Any:
        """Who is first, and what is told of each."""
        return ["HandOver", self.first, self.about, self.back_to_first]

    async def choose(self, state: ConversationState) -> Choice:
        """Whoever was handed over to."""
        if reason := self.over(state):
            return Choice((), detail=reason)
        return Choice((state.handed_to or self._first(state),))

    def _first(self, state: ConversationState) -> str:
        return self.first or state.agents[0]

    @contextmanager
    def speaking(
        self, state: ConversationState, id: str, agent: Any, handed: Handed
    ) -> Iterator[None]:
        """Offer the action to a participant's model for as long as its turn lasts."""
        others = [each for each in state.agents if each != id]
        registry = getattr(agent, "actions", None)
        if not others or not _is_registry(registry):
            yield
            return
        action = _HandOverAction(handed, others, self.about)
        beside = agent.actions = _Beside(registry, action)
        token = _TURN.set(action)
        try:
            yield
        finally:
            _TURN.reset(token)
            action.over = True
            beside.action = None
            # Another conversation may have put its own around this one meanwhile.
            if agent.actions is beside:
                while isinstance(registry, _Beside) and registry.action is None:
                    registry = registry.registry
                agent.actions = registry

    def __repr__(self) -> str:
        return f"HandOver({self.first!r})"


class _Beside:
    """A registry with one action more: the registry itself may be other agents' too."""

    def __init__(self, registry: Any, action: Action) -> None:
        self.registry = registry
        self.action: Action | None = action

    def get_action(self, name: str) -> Any:
        if name == HAND_OVER and (action := self._here()) is not None:
            return action
        return self.registry.get_action(name)

    def get_actions(self) -> list[Any]:
        given = list(self.registry.get_actions())
        action = self._here()
        if action is None:
            return given
        return [each for each in given if each.name != HAND_OVER] + [action]

    def _here(self) -> Action | None:
        """The action, unless this is the turn of another conversation with the same agent."""
        turn = _TURN.get()
        return self.action if turn is None or turn is self.action else None

    def __getattr__(self, name: str) -> Any:
        # What an agent registers in its turn goes where it belongs.
        return getattr(self.registry, name)


class _HandOverAction(Action):
    """Handing over, of one turn."""

    def __init__(self, handed: Handed, others: list[str], about: Mapping[str, str]) -> None:
        async def hand_over(to: str, message: str) -> str:
            if self.over:
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
        self.over = False


def _is_registry(registry: Any) -> bool:
    return hasattr(registry, "get_action") and hasattr(registry, "get_actions")
