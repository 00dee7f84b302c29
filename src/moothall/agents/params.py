"""The parameters of agents and blocks, as pydantic models."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from moothall.agents.dispatch import DISPATCHER_PROMPT


class AgentParams(BaseModel):
    """The parameters of an agent; a subclass states more.

    Attributes:
        block_dispatch_prompt: the prompt of the block dispatcher's model
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    block_dispatch_prompt: str = Field(
        default=DISPATCHER_PROMPT, description="the prompt of the block dispatcher's model"
    )


class BlockParams(BaseModel):
    """The parameters of a block; a subclass states more.

    Attributes:
        block_memory: what the block is to remember at the start, by name
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    block_memory: dict[str, Any] | None = Field(
        default=None, description="what the block is to remember at the start, by name"
    )
