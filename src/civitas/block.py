"""Blocks: plugins that give an agent behaviour in each step, and actions."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from civitas.action import actions_of


class BlockParams(BaseModel):
    """The parameters of a block.

    Attributes:
        block_memory: what the block is to remember at the start, by name
    """

    block_memory: dict[str, Any] | None = Field(
        default=None, description="what the block is to remember at the start, by name"
    )


class Block:
    """A plugin of an agent: what it does in each step, and the actions that it provides.

    A subclass defines `forward`, which its agent calls when it decides to, and what is to happen
    before and after each step of the agent.

    Args:
        llm: the model that it may ask; its agent's if left out
        environment: where it acts
        block_params: its parameters; those of `ParamsType` by default

    Attributes:
        name: what it is called; the class's name if the class states none
        description: what it does, in words for people, models and dispatchers
        actions: what it can do, by name, in words: its `@action` methods, and what the class states
            by hand of what only `forward` does
    """

    name: str = ""
    description: str = ""
    actions: dict[str, str] = {}  # noqa: RUF012 - as seed 000 declares it; never changed in place
    ParamsType: ClassVar[type[BlockParams]] = BlockParams

    def __init__(
        self, llm: Any = None, environment: Any = None, block_params: BlockParams | None = None
    ) -> None:
        self.llm = llm
        self.environment = environment
        self.params = self.ParamsType() if block_params is None else block_params

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name") or cls.__name__
        marked = actions_of(cls)
        described = {name: _summary(getattr(cls, at)) for name, (at, _) in marked.items()}
        cls.actions = {**cls.actions, **described, **cls.__dict__.get("actions", {})}

    async def before_forward(self) -> None:
        """Called before each step of the agent."""

    async def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the block does, when its agent calls it."""
        raise NotImplementedError(f"{type(self).__name__} must define `async def forward(self)`")

    async def after_forward(self) -> None:
        """Called after each step of the agent, also after one that failed."""


def _summary(function: Any) -> str:
    """The first line of a docstring."""
    return (function.__doc__ or "").strip().partition("\n")[0]
