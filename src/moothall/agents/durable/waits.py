"""`durable`: makes durable functions, and has what they wait for."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

from moothall.actions.approval import Later
from moothall.actions.approval.decision import DECISION_KINDS
from moothall.agents.durable.function import DurableFunction
from moothall.agents.durable.run import branch_of, telling
from moothall.agents.durable.values import codec_for
from moothall.agents.replies.events import Emitted
from moothall.agents.replies.step import StepForm
from moothall.foundation.arguments import check_text
from moothall.foundation.errors import ConfigError, NobodyToAsk

if TYPE_CHECKING:
    from datetime import timedelta

    from moothall.actions.approval.later import Moment
    from moothall.agents.replies.step import StepHandle
    from moothall.budget import Budget
    from moothall.journal import Journal

P = ParamSpec("P")
R = TypeVar("R")
_NONE_GIVEN: Final[Any] = object()


class Durable:
    """`durable` makes durable functions, and has what they wait for."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> DurableFunction[P, R]: ...
    @overload
    def __call__(
        self,
        journal: Journal | str | os.PathLike[str] | None = None,
        *,
        budget: Budget | None = None,
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], DurableFunction[P, R]]: ...
    def __call__(self, journal: Any = None, *, budget: Budget | None = None) -> Any:
        """Make a function durable: after a crash it goes on behind the last step that had ended.

        It begins at its first line again, and each step that has ended gives its recorded result.
        What its agents reply is part of its run.

        Args:
            journal: a `Journal`, or the path of one, opened at the first call; without it,
                `on(journal)` gives one
            budget: what its runs together may spend

        Raises:
            DefinitionError: it is no `async def` function
        """
        if callable(journal):
            return DurableFunction(journal)
        return lambda function: DurableFunction(function, journal, budget=budget)

    @overload
    async def ask(
        self,
        text: str,
        *,
        who: str | Iterable[str] = ...,
        until: Moment | None = ...,
        remind: float | timedelta | None = ...,
    ) -> bool: ...
    @overload
    async def ask(
        self,
        text: str,
        *,
        of: type[str],
        who: str | Iterable[str] = ...,
        until: Moment | None = ...,
        remind: float | timedelta | None = ...,
    ) -> str: ...
    async def ask(
        self,
        text: str,
        *,
        of: type[Any] = bool,
        who: str | Iterable[str] = (),
        until: Moment | None = None,
        remind: float | timedelta | None = None,
    ) -> Any:
        """Return a person's decision, or with `of=str` an answer; the run waits for it.

        Args:
            text: what is asked; compared when the run is resumed
            of: `bool` for an approval, False unless permitted; `str` for the answer to a question
            who: the names of those who may answer; empty for anybody
            until: when it is over: an approval is then False
            remind: how often somebody is reminded, in seconds or as a timedelta

        Raises:
            NobodyToAsk: nobody has answered a question in time
            ConfigError: an argument is not valid, or it is called outside of a durable function
        """
        if of not in (bool, str):
            raise ConfigError(f"durable.ask: of= must be bool or str, got {of!r:.80}")
        check_text("durable.ask: text", text)
        branch = branch_of("durable.ask")
        later = Later(until=until, who=who, remind=remind, text=text)

        async def answer(step: StepHandle) -> str:
            wait = step.hash_of("question", text)
            outcome = await step.find_outcome(wait) or await step.wait(wait, "question", later)
            if outcome.value is None:
                raise NobodyToAsk(
                    f"durable function {branch.run.agent.id!r} asked {text!r}: no answer"
                )
            return str(outcome.value)

        async def decision(step: StepHandle) -> bool:
            async def ask_later() -> Later:
                return later

            wait_about = {"action": "ask", "args": {}}
            permission = await step.permitted(
                step.hash_of("ask", text), ask_later, about=wait_about
            )
            return DECISION_KINDS.permits(permission)

        form = StepForm(goes_on=True)
        return await branch.run.do(
            branch, "ask", (text,), telling(answer if of is str else decision), form, text=text
        )

    async def sleep(self, length: Moment) -> None:
        """Wait for a time: seconds, a timedelta or a datetime. The run waits, not the process."""
        branch = branch_of("durable.sleep")
        await branch.run.do(branch, "sleep", (), _giving(Later(until=length)))

    async def result(
        self, key: str, *, until: Moment | None = None, default: Any = _NONE_GIVEN, text: str = ""
    ) -> Any:
        """Return what `journal.answer(run_id, key, value)` brings; the run waits for it.

        Raises:
            NobodyToAsk: nothing has come in time, and there is no default
        """
        options: dict[str, Any] = {} if default is _NONE_GIVEN else {"default": default}
        branch, later = branch_of("durable.result"), Later(key, until=until, text=text, **options)
        return await branch.run.do(branch, "result", (key,), _giving(later))

    def emit(self, value: Any) -> None:
        """Tell who streams the run of a value, JSON data, as an `Emitted`; once for each run."""
        run = (branch := branch_of("durable.emit")).run
        key, details = run.take(branch, "emit", (value,))
        is_past = run.record.has_ended(key)
        if not is_past:
            run.record.mark(key, codec_for(None, "durable.emit: value").dump(value), **details)
        run.request.tell(Emitted, str(run.agent.id), value, past=is_past)


def _giving(later: Later) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    async def give(step: StepHandle) -> Any:
        return later

    return give


durable: Final = Durable()
"""Makes durable functions; within one, `durable.ask`, `sleep`, `result` and `emit`."""
