"""The step of an agent: preparation, its own logic, and cleanup, with those of its blocks."""

from __future__ import annotations

import difflib
import inspect
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from moothall.actions import Action, ActionRegistry
from moothall.actions.marking import MarkedOptions, check_name
from moothall.agents.block import Block, actions_of, check_block, checked_params
from moothall.agents.dispatch import (
    DISPATCHER_PROMPT,
    MAX_DECISIONS,
    AgentToolbox,
    BlockDispatcher,
    block_name,
)
from moothall.foundation.errors import ActionNotFound, ConfigError, DefinitionError
from moothall.foundation.lazily import is_ours
from moothall.memory.memory_config import first_status

if TYPE_CHECKING:
    from moothall.actions.approval import Approver
    from moothall.memory.memory_config import MemoryT
    from moothall.models.protocol import Model


class AgentParts(TypedDict, total=False):
    """What an agent's step is made of, by name. A `memory=` is each class's own."""

    name: str | None
    description: str | None
    type: Any
    toolbox: AgentToolbox | None
    agent_params: Any
    blocks: Iterable[Block] | None


class AgentSettings(TypedDict, total=False):
    """How an agent takes messages, and who permits what it does."""

    receive_own_broadcasts: bool
    concurrency: int | None
    approver: Approver | None
    deps: Any


class AgentOptions(AgentParts, AgentSettings, total=False):
    """What every agent takes by name; `Agent` documents it."""


class ReplyingOptions(AgentOptions, total=False):
    """What every agent takes by name that replies; `ConversationalAgent` documents it."""

    shared: bool
    trusted: Iterable[str | int]
    max_depth: int
    max_nested_model_calls: int


class Workflow:
    """One step of an agent, `run()`, as seed 000 defines it; override what the agent needs.

    `run` calls `before_forward`, `before_blocks`, `forward`, `after_blocks` and `after_forward`.
    The last two are cleanup: they run, every block's included, even if something before them has
    failed or was cancelled. The first failure is raised, with notes that name its agent, block and
    step, and later failures.

    Attributes:
        name: what people call it; None for its id
        type: what kind of agent it is
        toolbox: its model and its environment, or None
        memory: what it remembers, or None
        memory_config: what its memory's `status` holds at the beginning, by name: a type, a
            value, or both, `(float, 0.5)`; what the status has already stays
        blocks: its blocks
        params_or_none: its parameters; None until they are given, or read as `params`
        dispatcher_or_none: its dispatcher; None until it is given, or read as `dispatcher`
    """

    ParamsType: ClassVar[type[Any] | None] = None
    memory_config: dict[str, MemoryT] = {}  # noqa: RUF012 - as seed 000 declares it; only read

    id: str | int
    name: str | None = None
    type: Any = None
    toolbox: AgentToolbox | None = None
    memory: Any = None
    blocks: Sequence[Block] = ()
    params_or_none: Any = None
    dispatcher_or_none: BlockDispatcher | None = None
    max_decisions: ClassVar[int] = MAX_DECISIONS
    """How many decisions the dispatcher keeps."""

    def _take_parts(
        self,
        name: str | None,
        type: Any,
        toolbox: AgentToolbox | None,
        memory: Any,
        params: Any,
        blocks: Iterable[Any] | None,
    ) -> None:
        """Store only what was given; the class has the defaults: a city holds very many agents."""
        params = self.params_from(params)
        if not isinstance(name, str | None):
            raise DefinitionError(f"agent {self.id!r}: name= must be a text, got {name!r:.80}")
        if not isinstance(toolbox, AgentToolbox | None):
            fault = f"agent {self.id!r}: toolbox= must be an AgentToolbox, got {toolbox!r:.80}"
            raise DefinitionError(fault)
        parts = {"name": name, "type": type, "toolbox": toolbox, "memory": memory}
        for each, value in {**parts, "params_or_none": params}.items():
            if value is not None:
                setattr(self, each, value)
        if self.memory_config:
            self._begin_memory(memory)
        if blocks is not None:
            label = f"agent {self.id!r}"
            if not isinstance(blocks, Iterable):
                fault = f"{label}: blocks= must be blocks, got {blocks!r:.80}: give a list of them"
                raise DefinitionError(fault)
            self.blocks = [*blocks]
            for block in self.blocks:
                check_block(label, block)
                if getattr(block, "agent", self) is None:
                    block.agent = self

    def params_from(self, params: Any) -> Any:
        """Return its parameters, made of a dict of fields; ConfigError for what are none."""
        params_type = self.ParamsType
        params = checked_params(params_type, params)
        if params_type is not None and not isinstance(params, params_type | None):
            from pydantic import BaseModel  # which takes long to import

            if not isinstance(params, BaseModel):
                required = f"{params_type.__name__} or a dict of its fields"
                owner = type(self).__name__
                raise ConfigError(f"{owner}: agent_params= must be {required}, got {params!r:.80}")
        return params

    def _begin_memory(self, memory: Any) -> None:
        """Set what `memory_config` states in the status of its memory, where that lacks it."""
        status = getattr(memory, "status", None)
        if not isinstance(status, dict):
            raise DefinitionError(
                f"agent {self.id!r}: {type(self).__name__} has a memory_config, so its memory must "
                f"have a `status`, as CitizenMemory has, got {memory!r:.80}"
            )
        for name, value in self.first_status().items():
            status.setdefault(name, value)

    @classmethod
    def first_status(cls) -> dict[str, Any]:
        """Return new values of all names of its `memory_config`; DefinitionError if one is none."""
        return first_status(cls.memory_config, cls.__name__)

    @cached_property
    def actions(self) -> ActionRegistry:
        """Its blocks' actions, as `block.action`; its model, plan or dispatcher may call them."""
        registry = ActionRegistry()
        for each in block_actions(self.blocks).values():
            registry.register(each)
        return registry

    @property
    def llm(self) -> Model | None:
        """The model of its toolbox, or its own, or None."""
        return getattr(self, "model", None) if self.toolbox is None else self.toolbox.llm

    if TYPE_CHECKING:
        params: Any
        """Its parameters; a class may state their type: `params: ShopParams`."""
    else:

        @property
        def params(self) -> Any:
            """Its parameters."""
            if self.params_or_none is None:
                from moothall.agents.params import AgentParams  # pydantic takes long to import

                self.params_or_none = (self.ParamsType or AgentParams)()
            return self.params_or_none

        @params.setter
        def params(self, params: Any) -> None:
            self.params_or_none = params

    @property
    def dispatcher(self) -> BlockDispatcher:
        """The dispatcher that chooses among its blocks when `forward` asks it to."""
        if self.dispatcher_or_none is None:
            self.dispatcher_or_none = BlockDispatcher(
                self.llm, getattr(self.params, "block_dispatch_prompt", DISPATCHER_PROMPT)
            )
            self.dispatcher_or_none.decisions = deque(maxlen=self.max_decisions)
            self.dispatcher_or_none.register_blocks(self.blocks)
        return self.dispatcher_or_none

    @dispatcher.setter
    def dispatcher(self, dispatcher: BlockDispatcher) -> None:
        self.dispatcher_or_none = dispatcher

    async def run(self) -> Any:
        """Run one step of the agent.

        Returns:
            what `forward` returns

        Raises:
            Exception: the first failure, once the cleanup is over
        """
        result = None
        failure: BaseException | None = None
        step = "before_forward"
        try:
            await self.before_forward()
            step = ""
            await self.before_blocks()
            step = "forward"
            result = await self.forward()
        except BaseException as error:
            failure = self.with_note(error, step)
        try:
            await self.after_blocks()
        except BaseException as error:
            failure = _first_failure(failure, error)
        try:
            await self.after_forward()
        except BaseException as error:
            failure = _first_failure(failure, self.with_note(error, "after_forward"))
        if failure is not None:
            raise failure
        return result

    def find_action(self, name: str) -> Action | None:
        """Return the action of that name of those that it calls itself."""
        return self.actions.get_action(name)

    async def before_forward(self) -> None:
        """Prepare for the step."""

    async def before_blocks(self) -> None:
        """Let every block prepare for the step."""
        for block in self.blocks:
            if getattr(block.before_forward, "__func__", None) is Block.before_forward:
                continue  # not overridden, as in most blocks of a city's citizens
            try:
                await block.before_forward()
            except BaseException as error:
                self.with_note(error, "before_forward", block)
                raise

    async def forward(self) -> Any:
        """Do the agent's own work of a step."""
        raise NotImplementedError(
            f"agent {self.id!r}: {type(self).__name__} must define `async def forward(self)`"
        )

    async def after_blocks(self) -> None:
        """Let every block clean up, even if another fails."""
        failure: BaseException | None = None
        for block in self.blocks:
            if getattr(block.after_forward, "__func__", None) is Block.after_forward:
                continue
            try:
                await block.after_forward()
            except BaseException as error:
                failure = _first_failure(failure, self.with_note(error, "after_forward", block))
        if failure is not None:
            raise failure

    async def after_forward(self) -> None:
        """Clean up after the step."""

    def with_note(self, error: BaseException, step: str, block: Any = None) -> BaseException:
        """Return what a step raised, with a note that says where."""
        if step:
            block_note = "" if block is None else f", block {block_name(block)!r}"
            method = getattr(block or self, step)
            if isinstance(error, TypeError) and not inspect.iscoroutinefunction(method):
                step += ", which must be `async def`"
            error.add_note(f"in agent {self.id!r}{block_note}: {step}")
        return error


def not_found(agent: Any, name: str) -> ActionNotFound:
    """Return the error for a call of an action that an agent does not have."""
    text = f'"{name}" not found on "{agent.id}"'
    own_classes = [each for each in type(agent).__mro__ if not is_ours(each)]
    is_public = not name.startswith("_")
    values = [vars(each)[name] for each in own_classes if is_public and name in vars(each)]
    method: Any = values[0] if values else None
    if hasattr(method, "__moothall_action__"):
        text += f": its method {name} is the action {method.__moothall_action__.get('name')!r}"
    elif callable(method):
        text += f": its method {name} lacks @action"
    elif near := difflib.get_close_matches(name, sorted(agent.all_offers()), 1, 0.7):
        text += f"; did you mean {near[0]}?"
    return ActionNotFound(text)


def proposed_actions(agent: Any, proposed: Mapping[str, Any]) -> list[Action]:
    """Return the actions that a proposed message may mean."""
    name = proposed["action"]["name"]
    # Its model may call the action, or other agents.
    actions = (agent.find_action(name), agent.all_offers().get(name))
    return [each for each in actions if each is not None]


def own_actions(owner: Any, prefix: str = "") -> dict[str, Action]:
    """Return the actions of an agent or a block, by name; for an agent also help and the like."""
    cls = type(owner)
    table: dict[str, tuple[str, MarkedOptions]] | None = cls.__dict__.get("__moothall_actions__")
    if table is None:
        table = actions_of(cls)
        for name in table:
            check_name(name, "Action")
        cls.__moothall_actions__ = table
    return {
        (full_name := prefix + name): Action.marked(full_name, getattr(owner, attribute), options)
        for name, (attribute, options) in table.items()
    }


def block_actions(blocks: Iterable[Any]) -> dict[str, Action]:
    """Return the `@action` methods of blocks, as `block.action`."""
    actions: dict[str, Action] = {}
    for block in blocks:
        for name, each in own_actions(block, f"{block_name(block)}.").items():
            check_name(name, "Action")
            if name in actions:
                raise DefinitionError(f"two blocks have the action {name!r}: name one otherwise")
            actions[name] = each
    return actions


def _first_failure(failure: BaseException | None, error: BaseException) -> BaseException:
    """Return the first of two failures, with the later one added to it as a note."""
    if failure is None or failure is error:
        return error
    where = "".join(f" ({note})" for note in getattr(error, "__notes__", ())[-1:])
    failure.add_note(f"then, in the cleanup: {type(error).__name__}: {error}{where}")
    return failure
