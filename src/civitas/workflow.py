"""The step of an agent: preparation, its own logic, and cleanup, with those of its blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol


class Stepped(Protocol):
    """What a block is to the agent that it belongs to.

    Attributes:
        name: what it is called
    """

    name: str

    async def before_forward(self) -> None:
        """Prepare."""
        ...

    async def after_forward(self) -> None:
        """Clean up."""
        ...


class Workflow:
    """One step of an agent, `run()`, as seed 000 has it; override what the agent needs.

    `run` calls `before_forward`, `before_blocks`, `forward`, `after_blocks` and `after_forward`.
    The last two are cleanup: they run, every block's included, also where something before them
    has failed or was cancelled. The first failure is raised, with notes that say which agent, block
    and step failed, and what failed after it.

    Attributes:
        blocks: the blocks of the agent
    """

    id: str | int
    blocks: Sequence[Any] = ()

    async def run(self) -> Any:
        """One step of the agent.

        Returns:
            what `forward` gives

        Raises:
            Exception: the first failure, once the cleanup is over
        """
        result = None
        failure: BaseException | None = None
        try:
            await self._noted("before_forward", self.before_forward)
            await self.before_blocks()
            result = await self._noted("forward", self.forward)
        except BaseException as error:
            failure = error
        for name, cleanup in (("after_blocks", None), ("after_forward", self.after_forward)):
            try:
                await (self.after_blocks() if cleanup is None else self._noted(name, cleanup))
            except BaseException as error:
                failure = _first(failure, error)
        if failure is not None:
            raise failure
        return result

    async def before_forward(self) -> None:
        """Prepare for the step."""

    async def before_blocks(self) -> None:
        """Have every block prepare for the step."""
        for block in self.blocks:
            await self._noted("before_forward", block.before_forward, block)

    async def forward(self) -> Any:
        """What the agent does in a step."""
        raise NotImplementedError(
            f"agent {self.id!r}: {type(self).__name__} must define `async def forward(self)`"
        )

    async def after_blocks(self) -> None:
        """Have every block clean up; one that fails keeps no other from it."""
        failure: BaseException | None = None
        for block in self.blocks:
            try:
                await self._noted("after_forward", block.after_forward, block)
            except BaseException as error:
                failure = _first(failure, error)
        if failure is not None:
            raise failure

    async def after_forward(self) -> None:
        """Clean up after the step."""

    async def _noted(self, step: str, call: Callable[[], Awaitable[Any]], block: Any = None) -> Any:
        """Call a step; what it raises says where."""
        try:
            return await call()
        except BaseException as error:
            of = "" if block is None else f", block {named(block)!r}"
            error.add_note(f"in agent {self.id!r}{of}: {step}")
            raise


def named(block: Any) -> str:
    """What a block is called: its name, or its class's."""
    return getattr(block, "name", "") or type(block).__name__


def _first(failure: BaseException | None, error: BaseException) -> BaseException:
    """The first of two failures, which the later one is a note of."""
    if failure is None or failure is error:
        return error
    where = "".join(f" ({note})" for note in getattr(error, "__notes__", ())[-1:])
    failure.add_note(f"then, in the cleanup: {type(error).__name__}: {error}{where}")
    return failure
