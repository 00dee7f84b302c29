"""Citizens: agents that live in a society, their memory and their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import Field

from moothall import (
    DISPATCHER_PROMPT,
    Agent,
    AgentParams,
    Block,
    BudgetExceeded,
    ConfigError,
    DefinitionError,
    Memory,
    ModelError,
    NotInSpace,
    StateError,
    action,
)
from moothall.build import one_line
from moothall.society.kernel.draw import Draws, number_or_text
from moothall.society.kernel.mind import lightest_index, prompt_context
from moothall.society.kernel.perception import RULES, SCALES, Perception, View
from moothall.society.kernel.wants import Want

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.agents import AgentSettings

MAX_EVENTS: Final = 50  # the events that a citizen remembers
MAX_EVENTS_LED: Final = 200  # the events that a citizen led by a model remembers


class AgentType(StrEnum):
    """The kinds of agents."""

    Citizen = "citizen"
    Firm = "firm"
    Bank = "bank"
    Government = "government"
    Supervisor = "supervisor"


class CitizenAgentParams(AgentParams):
    """What a citizen may do. A block's `enabled_by` names the parameter that enables it."""

    enable_mobility: bool = Field(default=True, description="whether it moves")
    enable_social: bool = Field(default=True, description="whether it writes to others")
    enable_economy: bool = Field(default=True, description="whether it works and buys")
    block_dispatch_prompt: str = Field(
        default=f"{DISPATCHER_PROMPT}\n{SCALES}",
        description="the prompt of the block dispatcher's model",
    )
    decision_prompt: str = Field(
        default=RULES,
        min_length=1,
        description="what its model is told before each decision, survey and interview",
    )
    memory_tokens: int = Field(
        default=600,
        ge=0,
        le=100_000,
        description="tokens of its memory in a prompt, at most",
    )


class CitizenMemory(Memory):
    """A citizen's memory: its state, and a stream of the latest short events.

    Args:
        status: the citizen's state, plain JSON data; used without a copy. Where a society or a
            shipped block keeps it in columns it is a view of these, and refuses what does not fit
        stream: the events, the oldest first
        most: the number of events at most; 50 if left out, and 200 in a society with a model.
            Above it the oldest is forgotten; with a model, the one of least importance and recency

    Attributes:
        status: the citizen's state, such as `needs`, `plan` and `relations`; only the commit stage
            writes `place`, `moving` and `money`
        stream: the events: `(step, text)`, and the chat messages of `add_memory`
    """

    status: dict[str, Any]
    stream: list[Any]
    most: int
    _has_limit: bool
    _has_model: bool

    def __init__(
        self,
        status: dict[str, Any] | None = None,
        stream: Iterable[object] = (),
        *,
        most: int | None = None,
    ) -> None:
        if status is not None and not isinstance(status, dict):
            raise DefinitionError(f"status= must be a dict, got {type(status).__name__}")
        if most is not None and (type(most) is not int or most < 1):
            raise DefinitionError(f"most= must be 1 or more, got {most!r}")
        if isinstance(stream, str) or not isinstance(stream, Iterable):
            raise ConfigError(f"stream= must be a list of events, got {stream!r:.80}")
        self.status = {} if status is None else status
        self._has_limit = most is not None
        self._has_model = False
        self.most = MAX_EVENTS if most is None else most
        self.stream = _events(stream, self.most)

    def start_empty(self) -> None:
        """Begin without memories."""
        self.status = {}
        self.stream = []

    def thread(self, id: str | None) -> Self:
        """Return the memory of a thread, as `Memory.thread` does."""
        return super().thread(id)

    def lead(self) -> None:
        """Keep the weightiest events, as many as a model needs, unless `most` was given."""
        self._has_model = True
        if not self._has_limit:
            self.most = MAX_EVENTS_LED

    def note(self, step: int, text: str) -> None:
        """Remember an event of a step; above `most` forget the oldest, or what weighs least."""
        self._keep((step, text))

    def add_memory(self, memory: Mapping[str, object]) -> None:
        """Add a chat message, `{"role": …, "content": …}`, to the stream."""
        self._keep(memory)

    def _keep(self, event: object) -> None:
        self.stream.append(event)
        if len(self.stream) > self.most:
            del self.stream[lightest_index(self.stream) if self._has_model else 0]

    def get_memories(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the stream as chat messages, the oldest first; an event is a user message.

        Args:
            limit: return only the last `limit` messages

        Raises:
            ValueError: the limit is negative
        """
        return [
            {"role": "user", "content": f"Step {each[0]}: {each[1]}"}
            if isinstance(each, tuple)
            else each
            for each in self.last_of(self.stream, limit)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the memory as JSON data, which shares its parts with the memory."""
        status = self.status
        if hasattr(status, "extras"):  # its columns are the population's
            status = status.extras()
        return {"status": status, "stream": self.stream}

    def load_state_dict(self, state: object) -> None:
        """Replace the memory by a state of `state_dict`.

        Raises:
            StateError: it is not such a state
        """
        match state:
            case {"status": dict(status), "stream": list(stream) | tuple(stream)}:
                self.stream = _events(stream, self.most)
                if hasattr(self.status, "take_extras"):
                    self.status.take_extras(status)
                else:
                    self.status = status
            case _:
                raise StateError("the state of a CitizenMemory must have a status and a stream")


def _events(stream: Iterable[object], most: int) -> list[Any]:
    """Return the last events as stored: JSON's lists as tuples."""
    return [tuple(each) if isinstance(each, list) else each for each in stream][-most:]


class CitizenAgent(Agent):
    """An agent that lives in a society: it perceives, and runs the block that its dispatcher chose.

    A block is left out if the parameter of `CitizenAgentParams` that its `enabled_by` names is
    False.

    Args:
        id: the agent's id; random draws use the number, or the hash of a text
        memory: the `CitizenMemory`; an empty one if left out
        blocks: the blocks, which no other citizen shares
        **options: these and `name`, `type`, `toolbox` and `agent_params`: as for `Agent`

    Attributes:
        perceived: the citizen's perception in this step
        draws: the citizen's random numbers of this step
    """

    ParamsType: ClassVar[type[Any] | None] = CitizenAgentParams
    type = AgentType.Citizen
    max_decisions: ClassVar[int] = 10
    memory: CitizenMemory
    _perceived: Perception | None = None
    _draws: Draws | None = None
    own_row: Any = None  # itself as a row in this step, for its blocks
    prepared: Any = 0  # how many blocks have prepared with others', or what went wrong

    def __init__(
        self,
        id: str | int,
        name: str | None = None,
        type: Any = None,
        toolbox: Any = None,
        memory: CitizenMemory | None = None,
        agent_params: object = None,
        blocks: Iterable[object] | None = None,
        **options: Unpack[AgentSettings],
    ) -> None:
        memory = CitizenMemory() if memory is None else memory
        if not isinstance(getattr(memory, "status", None), dict):
            raise DefinitionError(f"citizen {id!r}: memory must be a CitizenMemory, got {memory!r}")
        agent_params = self.params_from(agent_params)
        if isinstance(blocks, Iterable):
            params = agent_params or (self.ParamsType or object)()
            blocks = [
                each for each in blocks if getattr(params, getattr(each, "enabled_by", ""), True)
            ]
        super().__init__(id, name, type, toolbox, memory, agent_params, blocks, **options)
        for block in self.blocks:
            if getattr(block, "agent", self) is not self:
                reason = (
                    f"block {block.name or type(block).__name__!r} is citizen {block.agent.id!r}'s"
                )
                raise DefinitionError(f"citizen {id!r}: {reason}: give each citizen its own blocks")

    @property
    def status(self) -> dict[str, Any]:
        """The citizen's state, from its memory."""
        return self.memory.status

    @property
    def perceived(self) -> Perception:
        """The perception of this step; outside a society, only the citizen's state."""
        if self._perceived is None:
            self._perceived = Perception(View(), str(self.id), self.memory.status)
        return self._perceived

    @perceived.setter
    def perceived(self, perceived: Perception) -> None:
        self._perceived = perceived
        self._draws = self.own_row = None  # each step has its own random numbers
        self.prepared = 0

    @property
    def draws(self) -> Draws:
        """The random numbers of this step: pure functions of seed, citizen, step and purpose."""
        if self._draws is None:
            seed = getattr(self.space, "seed", 0)
            self._draws = Draws(seed, number_or_text(self.id), self.perceived.step)
        return self._draws

    def want(self, want: Want) -> None:
        """Send a want to the world; the citizen perceives the answer in the next step.

        Raises:
            NotInSpace: the citizen is not in a society
            DefinitionError: `want` is not a Want
        """
        mailbox: Any = self.space_mailbox
        if not hasattr(mailbox, "want"):
            raise NotInSpace(f"agent {self.id!r} cannot want: it is not in a Society")
        if not isinstance(want, Want):
            raise DefinitionError(f"want must be a Want such as Move(…), got {want!r:.80}")
        mailbox.want(want)

    async def before_blocks(self) -> None:
        """Let every block prepare for the step that has not together with others'."""
        if isinstance(self.prepared, Exception):
            raise self.prepared
        for block in self.blocks[self.prepared :]:
            if getattr(block.before_forward, "__func__", None) is Block.before_forward:
                continue
            try:
                await block.before_forward()
            except BaseException as error:
                self.with_note(error, "before_forward", block)
                raise

    async def forward(self) -> Any:
        """Run the block that the dispatcher chooses for the perception; you may override this.

        Returns:
            the result of the block's `forward`; None if no block was chosen
        """
        dispatcher = self.dispatcher
        if dispatcher.show is None:
            dispatcher.show = self._dispatch_context
        if dispatcher.llm is None:
            block = dispatcher.by_rule(self.perceived)
        else:
            try:
                block = await dispatcher.dispatch(self.perceived)
            except (ModelError, BudgetExceeded) as error:
                self.fell_back(f"its dispatcher: {error}")
                block = dispatcher.by_rule(self.perceived)
            else:
                decision = dispatcher.decisions[-1] if dispatcher.decisions else None
                if block is None and decision is not None and decision.given is not None:
                    self.fell_back(f"its dispatcher: the answer names no block: {decision.given}")
        if block is None:
            return None
        try:
            return await block.forward()
        except BaseException as error:
            self.with_note(error, "forward", block)
            raise

    async def _dispatch_context(self, context: object) -> dict[str, Any]:
        """Return what the dispatcher's model is shown of a perception."""
        return {"now": str(context), **await prompt_context(self, str(context))}

    @action(idempotent=True)
    async def say(self, content: str, topic: str = "", opinion: int | None = None) -> None:
        """Say something to it; it perceives it in this step.

        Args:
            content: what is said
            topic: what it is about
            opinion: what is thought of the topic, -1000 to 1000
        """

    def fell_back(self, why: str) -> None:
        """Count and record that a model's answer was unusable; the caller decides instead."""
        society: Any = self.space
        if hasattr(society, "fallbacks"):
            society.fallbacks += 1
            society.model_calls.fell_back(str(self.id), one_line(why, 300))

    @property
    def llm(self) -> Any:
        """The citizen's model: its toolbox's, else its society's; None for neither.

        In a society, calls are limited in time and recorded.
        """
        own_model = super().llm
        model_for = getattr(self.space, "citizen_model", None)
        return own_model if model_for is None else model_for(self, own_model)
