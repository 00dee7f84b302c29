"""Citizens: agents that live in a society, what they remember, and what they may do."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import ConfigDict, Field

from civitas.action import action
from civitas.agent import Agent
from civitas.dispatch import BlockDispatcher, named
from civitas.errors import BudgetExceeded, DefinitionError, ModelError, StateError
from civitas.memory.memory import Memory, last
from civitas.params import AgentParams
from civitas.society.draw import Draws
from civitas.society.perception import Perception, View
from civitas.society.wants import Want
from civitas.text import one_line

logger = logging.getLogger("civitas.society")

STREAM: Final = 50
"""How many events a citizen remembers."""
_DECISIONS: Final = 10
"""How many decisions of its dispatcher a citizen keeps."""


class AgentType(StrEnum):
    """What kind of agent one is."""

    Citizen = "citizen"
    Firm = "firm"
    Bank = "bank"
    Government = "government"
    Supervisor = "supervisor"


class CitizenAgentParams(AgentParams):
    """What a citizen may do. A block that states `enabled_by`, the name of one, follows it."""

    model_config = ConfigDict(extra="forbid")

    enable_mobility: bool = Field(default=True, description="whether it moves")
    enable_social: bool = Field(default=True, description="whether it writes to others")
    enable_economy: bool = Field(default=True, description="whether it works and buys")


class CitizenMemory(Memory):
    """What a citizen knows: its own state, and a stream of short events, of which the last remain.

    Args:
        status: its own state, plain JSON data; kept, not copied
        stream: the events, the oldest first
        most: how many events there are at most

    Attributes:
        status: its own state, such as `needs`, `plan` and `relations`; `place`, `moving` and
            `money` are written by the commit stage alone
        stream: the events: `(step, text)`, and the chat messages that `add_memory` was given
    """

    def __init__(
        self,
        status: dict[str, Any] | None = None,
        stream: Iterable[Any] = (),
        *,
        most: int = STREAM,
    ) -> None:
        if status is not None and type(status) is not dict:
            raise DefinitionError(f"status= must be a dict, got {type(status).__name__}")
        if type(most) is not int or most < 1:
            raise DefinitionError(f"most= must be 1 or more, got {most!r}")
        self.status: dict[str, Any] = {} if status is None else status
        self.most = most
        self.stream: list[Any] = _events(stream)[-most:]

    def _start_empty(self) -> None:
        self.status = {}
        self.stream = []

    thread = Memory.thread

    def note(self, step: int, text: str) -> None:
        """Remember an event of a step; the oldest is forgotten where there are too many."""
        self._keep((step, text))

    def add_memory(self, memory: dict[str, Any]) -> None:
        """Add a chat message, `{"role": …, "content": …}`, to the stream."""
        self._keep(memory)

    def _keep(self, event: Any) -> None:
        self.stream.append(event)
        if len(self.stream) > self.most:
            del self.stream[0]

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The stream as chat messages, the oldest first; an event is a message of the user.

        Args:
            limit: only the last so many

        Raises:
            ValueError: the limit is negative
        """
        return [
            {"role": "user", "content": f"Step {each[0]}: {each[1]}"}
            if isinstance(each, tuple)
            else each
            for each in last(self.stream, limit)
        ]

    def state_dict(self) -> dict[str, Any]:
        """It as JSON data, which shares its parts with the memory."""
        return {"status": self.status, "stream": self.stream}

    def load_state_dict(self, given: Any) -> None:
        """Remember what another did, and nothing else.

        Raises:
            StateError: it is no such state
        """
        match given:
            case {"status": dict(status), "stream": list(stream) | tuple(stream)}:
                self.status, self.stream = status, _events(stream)
            case _:
                raise StateError("the state of a CitizenMemory must have a status and a stream")


def _events(stream: Iterable[Any]) -> list[Any]:
    """Events as they are kept: JSON has lists for tuples."""
    return [tuple(each) if isinstance(each, list) else each for each in stream]


class CitizenAgent(Agent):
    """An agent that lives in a society: it perceives, and runs the block that its dispatcher chose.

    A block that states `enabled_by`, the name of one of `CitizenAgentParams`, is left out where
    that parameter is False.

    Args:
        id: as of every agent; a number is the citizen's number for its random draws, and of a text
            its hash
        memory: its `CitizenMemory`; an empty one if left out
        blocks: its blocks, each of this citizen alone
        others: as of `Agent`

    Attributes:
        perceived: what it perceives in this step
        draws: its random numbers of this step
    """

    ParamsType: ClassVar[type[Any] | None] = CitizenAgentParams
    type = AgentType.Citizen
    memory: CitizenMemory
    _perceived: Perception | None = None
    _draws: Draws | None = None

    def __init__(
        self,
        id: str | int,
        name: str | None = None,
        type: Any = None,
        toolbox: Any = None,
        memory: CitizenMemory | None = None,
        agent_params: Any = None,
        blocks: Iterable[Any] | None = None,
        **options: Any,
    ) -> None:
        memory = CitizenMemory() if memory is None else memory
        if not isinstance(getattr(memory, "status", None), dict):
            raise DefinitionError(
                f"citizen {id!r}: memory= must be a CitizenMemory, got {memory!r}"
            )
        if blocks is not None and agent_params is not None:
            blocks = [
                block
                for block in blocks
                if getattr(agent_params, getattr(block, "enabled_by", ""), True)
            ]
        super().__init__(id, name, type, toolbox, memory, agent_params, blocks, **options)

    @property
    def status(self) -> dict[str, Any]:
        """Its own state, of its memory."""
        return self.memory.status

    @property
    def perceived(self) -> Perception:
        """What it perceives in this step; outside of a society, nothing but its own state."""
        if self._perceived is None:
            self._perceived = Perception(View(), str(self.id), self.memory.status)
        return self._perceived

    @perceived.setter
    def perceived(self, perceived: Perception) -> None:
        self._perceived = perceived
        self._draws = None  # another step has other random numbers

    @property
    def draws(self) -> Draws:
        """Its random numbers of this step: pure functions of seed, citizen, step and purpose."""
        if self._draws is None:
            seed = getattr(self.space, "seed", 0)
            self._draws = Draws(seed, number_of(self.id), self.perceived.step)
        return self._draws

    def want(self, want: Want) -> None:
        """Ask something of the world; what became of it is perceived in the next step.

        Raises:
            NotInSpace: it is in no society
            DefinitionError: it is no Want
        """
        mailbox: Any = self._mailbox
        if not hasattr(mailbox, "want"):
            raise self._homeless("want")
        if not isinstance(want, Want):
            raise DefinitionError(f"want must be a Want such as Move(…), got {want!r:.80}")
        mailbox.want(want)

    @property
    def dispatcher(self) -> BlockDispatcher:
        """What chooses among its blocks; it keeps the last decisions."""
        if self._dispatcher is None:
            made = super().dispatcher
            made.decisions = deque(maxlen=_DECISIONS)
        assert self._dispatcher is not None
        return self._dispatcher

    @dispatcher.setter
    def dispatcher(self, dispatcher: BlockDispatcher) -> None:
        self._dispatcher = dispatcher

    async def forward(self) -> Any:
        """Run the block that the dispatcher chooses for what is perceived; override it freely.

        Returns:
            what the block's `forward` gives; None where none was chosen
        """
        dispatcher = self.dispatcher
        if dispatcher.llm is None:
            block = dispatcher.by_rule(self.perceived)
        else:
            try:
                block = await dispatcher.dispatch(self.perceived)
            except (ModelError, BudgetExceeded) as error:
                self.fell_back(f"its dispatcher: {error}")
                block = dispatcher.by_rule(self.perceived)
            else:
                made = dispatcher.decisions[-1] if dispatcher.decisions else None
                if block is None and made is not None and made.given is not None:
                    self.fell_back(f"its dispatcher was given no block: {made.given}")
        if block is None:
            return None
        try:
            return await block.forward()
        except BaseException as error:
            error.add_note(f"in agent {self.id!r}, block {named(block)!r}: forward")
            raise

    @action(idempotent=True)
    async def say(self, content: str, topic: str = "", opinion: int | None = None) -> None:
        """Say something to it; it perceives it in this step.

        Args:
            content: what is said
            topic: what it is about
            opinion: what is thought of the topic, -1000 to 1000
        """

    def fell_back(self, why: str) -> None:
        """Count that a model was of no use; what becomes of that is the caller's."""
        logger.info("agent %r had no use of its model: %s", self.id, one_line(why, 300))
        society = self.space
        if hasattr(society, "fallbacks"):
            society.fallbacks += 1
            society._asking.fell_back(str(self.id), one_line(why, 300))

    @property
    def llm(self) -> Any:
        """The model that it may ask: its toolbox's, else its society's; None for neither.

        In a society each call is limited in time and recorded.
        """
        own = super().llm
        asked = getattr(self.space, "asked_model", None)
        return own if asked is None else asked(self, own)


def number_of(id: str | int) -> int | str:
    """What a citizen's draws are made of: its number, also where that is a text; else its id."""
    text = str(id)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else text
