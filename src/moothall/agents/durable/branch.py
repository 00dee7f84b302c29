"""The tasks of a durable function: each is a branch, which numbers its steps and its own tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Final


class FunctionTask:
    """A task of a durable function, with the counters of its steps, and of the tasks it makes."""

    __slots__ = ("children", "parent", "prefix", "run", "steps", "task")

    def __init__(self, run: Any, parent: FunctionTask | None, prefix: str) -> None:
        self.run: Any = run
        self.parent: FunctionTask | None = parent
        self.prefix: str = prefix
        self.task: Any = None
        self.steps: int = 0
        self.children: int = 0
        run.branches[prefix] = self

    def awaits(self, other: FunctionTask) -> bool:
        """Return whether another branch is this one, or has ended below it."""
        below: FunctionTask | None = other
        while below is not None and below is not self:
            below = below.parent
        return below is not None and (other is self or other.task.done())


BRANCH: ContextVar[FunctionTask | None] = ContextVar("moothall_durable", default=None)
"""The branch of a durable function that runs here; None elsewhere, and in a step."""
branch_here: Final = BRANCH.get


class BranchingTasks:
    """The task factory of a loop on which durable functions run: each task is a branch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.run_count = 0
        self.before: Any = loop.get_task_factory()

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        """Make a task."""
        make: Any = self.before or asyncio.Task
        of_loop = (loop, coro) if self.before else (coro,)
        if self.before is None:
            options["loop"] = loop
        if (parent := BRANCH.get()) is None:
            return make(*of_loop, **options)
        parent.children += 1
        branch = FunctionTask(parent.run, parent, f"{parent.prefix}t{parent.children}.")
        context = options.pop("context", None) or copy_context()
        context.run(BRANCH.set, branch)
        branch.task = make(*of_loop, context=context, **options)
        return branch.task

    @classmethod
    @contextmanager
    def on_loop(cls) -> Iterator[None]:
        """Have the tasks that are made in a `with` block be branches."""
        loop = asyncio.get_running_loop()
        current = loop.get_task_factory()
        factory = current if isinstance(current, cls) else cls(loop)
        loop.set_task_factory(factory)
        factory.run_count += 1
        try:
            yield
        finally:
            factory.run_count -= 1
            if not factory.run_count and loop.get_task_factory() is factory:
                loop.set_task_factory(factory.before)
