"""A research plan, shown to the person at the terminal before it begins."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from moothall import InvalidArguments
from moothall.build import WORKERS
from moothall.cli.run.watch import Permission, forget_keys, keyboard

if TYPE_CHECKING:
    from moothall import Action
    from moothall.research import ProposedPlan

_PROMPT = "Begin? [Enter: yes, e: edit, n: stop, or say what is to change] "


class PlanReview:
    """Asks the person at the terminal about a plan; without a terminal it is not accepted."""

    def __init__(self, permission: Permission) -> None:
        self._permission = permission
        self._reader = keyboard()
        self.tools: Mapping[str, Action] = {}

    async def review(self, plan: ProposedPlan) -> Any:
        """Return what the person answers."""
        if self._reader is None:
            return False
        display = self._permission.display
        display.hold()
        try:
            async with self._permission.question_lock:
                return await self._ask(plan)
        finally:
            display.release()

    async def _ask(self, plan: ProposedPlan) -> Any:
        assert self._reader is not None
        loop = asyncio.get_running_loop()
        plan_text = str(plan)
        while True:
            forget_keys()
            print(f"\n{plan_text}\n\n{_PROMPT}", end="", file=sys.stderr, flush=True)
            line = await WORKERS.run(loop, self._reader.readline)
            try:
                if line.strip() != "e":
                    return plan.answered(line, self.tools) if line else False
                edited = await WORKERS.run(loop, click.edit, plan_text)
                plan_text = plan_text if edited is None else str(edited).strip()
                plan = plan.edited(plan_text, self.tools) or plan
            except (InvalidArguments, click.ClickException) as error:  # also of the editor
                print(f"{error}", file=sys.stderr, flush=True)
                continue
            plan_text = str(plan)
