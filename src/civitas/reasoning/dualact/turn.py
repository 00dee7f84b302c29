"""What a turn of H and one of R have in common: asking either, functions of the user's, hooks."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from civitas.errors import BudgetExceeded, DeadlineExceeded, HookError
from civitas.reasoning.dualact.conclusions import Conclusion, HumanDecision
from civitas.reasoning.dualact.config import DualActConfig
from civitas.reasoning.dualact.progress import Progress
from civitas.reasoning.events import Done, Event
from civitas.reasoning.group import in_thread, takes
from civitas.reasoning.members import Group, ask_member
from civitas.reasoning.record import Record, Step
from civitas.reasoning.reply import Reply, Stop
from civitas.reasoning.reply_request import Asked
from civitas.text import log_failure
from civitas.threads import WORKERS

logger = logging.getLogger("civitas.reasoning")

T = TypeVar("T")


class Work:
    """One task of a dual act; `decide_by` and `extract_by` are the user's functions, or None."""

    def __init__(
        self,
        agent: Group,
        config: DualActConfig,
        progress: Progress,
        asked: Asked,
        record: Record[Progress],
        decide_by: Callable[..., Any] | None,
        extract_by: Callable[..., Any] | None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._agent = agent
        self._human = config.human
        self._reactives = config.reactives
        self._config = config
        self._progress = progress
        self._asked = asked
        self._record = record
        self._decide_by = decide_by
        self._extract_by = extract_by
        self._briefing = config.briefing()
        self._budget = agent.budget if asked.budget is None else asked.budget
        self._speaking: list[Any] = []
        self._told: list[str] = list(asked.state.hear())

    def interrupt(self, text: str) -> None:
        """Tell whoever is at work; if nobody listens just now, whoever is asked next."""
        listening = [each for each in self._speaking if hasattr(each, "interrupt")]
        for each in listening:
            each.interrupt(text, **in_thread(each.interrupt, self._asked.thread))
        if not listening:
            self._told.append(text)

    async def _ask(self, agent: Any, text: str, schema: Any, part: str) -> Reply:
        """The reply of H or R, as it was recorded or as it is given now."""
        asked, emit = self._asked, self._asked.emit

        def shown(event: Event) -> None:
            if emit is not None and not isinstance(event, Done):
                emit(event)

        wanted = schema if takes(agent.reply, "schema") else None
        to = None if emit is None else shown
        return await ask_member(agent, text, part, asked, self._record, to, wanted)

    def _tell(self, kind: Any, number: int, made: HumanDecision | Conclusion) -> None:
        asked = self._asked
        if asked.emit is not None:
            asked.emit(kind(str(self._agent.id), number, made, **asked.of_run))

    def _heard(self) -> list[str]:
        """What was said to the dual act since it last heard something."""
        told, self._told = self._told, []
        return told

    async def _call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the user's, in time."""
        limit = asyncio.timeout(None if self._budget is None else self._budget.remaining_seconds())
        try:
            async with limit:
                if inspect.iscoroutinefunction(fn):
                    return await fn(*args)
                given = await WORKERS.run(self.loop, fn, *args)
                return await given if inspect.isawaitable(given) else given
        except Exception as error:
            name = getattr(fn, "__name__", repr(fn))
            if limit.expired():
                raise Stop("deadline", f"the time was over before {name} had ended") from error
            log_failure(logger, f"{name} of dual act {self._agent.id!r} failed", error)
            detail = f"{name} failed: {type(error).__name__}: {error}"
            raise Stop("error", detail, error) from error

    async def _hooked(
        self,
        type: str,
        about: dict[str, Any],
        name: str,
        value: T,
        check: Callable[[Any], object],
        of: type[T] | None = None,
    ) -> T:
        """What hooks make of a value, once: as it was recorded, or as they make of it now."""
        hooks = self._agent._hooks
        if hooks is None or not hooks.has(type):
            return value
        run = hooks.run
        kwargs = {**about, **self._asked.of_run, name: value}

        async def call(step: Step) -> T:
            made = await run(
                type, self._agent, kwargs, lambda made: check(made[name]), self._budget
            )
            return made[name]  # type: ignore[no-any-return]

        try:
            return await self._record.step(f"{type}.{about['loop']}", call, of=of)
        except DeadlineExceeded as error:
            raise Stop.at_limit(error) from error
        except HookError as error:
            raise Stop.on_hook(self._agent.id, error) from error

    def _broken(self, who: str, agent: Any, error: Exception) -> Stop:
        """Why all ends with a member that failed."""
        detail = f"{who} ({agent.id!r}): {type(error).__name__}: {error}"
        if isinstance(error, BudgetExceeded):
            return Stop.at_limit(error, detail)
        log_failure(logger, f"dual act {self._agent.id!r}: {who} ({agent.id!r}) failed", error)
        return Stop("error", detail, error)

    def _expect_as_many(self, instruction: str | list[str], what: str) -> None:
        """Refuse instructions that are not one for each R; it raises a ValueError."""
        agents = len(self._reactives)
        if isinstance(instruction, list) and len(instruction) != agents:
            raise ValueError(
                f"{what} has {len(instruction)} instructions, and there are {agents} R"
            )
