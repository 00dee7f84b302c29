"""`@durable`: a function that goes on where it was cut off, as an agent that others may ask."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from moothall.actions.approval import Later
from moothall.agents.durable.branch import branch_here
from moothall.agents.durable.run import FunctionRun, telling
from moothall.agents.durable.values import codec_for, hints_of
from moothall.agents.replies.events import Emitted
from moothall.agents.replies.read_record import ReadRecord
from moothall.agents.replies.recorded_agent import RecordedAgent
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.reply_context import ask_context
from moothall.agents.replies.resume import NULL_RECORD, reply_at_end
from moothall.agents.replies.step import StepForm
from moothall.foundation.arguments import check_text, is_async
from moothall.foundation.errors import (
    BudgetExceeded,
    ConfigError,
    DefinitionError,
    InDoubt,
    JournalError,
)
from moothall.foundation.jsonvalue import json_text
from moothall.foundation.text import error_text
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.state import Codec
    from moothall.agents.replies.step import StepHandle
    from moothall.agents.replies.sub_agents.resumable import ResumedRun
    from moothall.agents.replies.thread import Thread
    from moothall.budget import Budget
    from moothall.journal import Entry, Journal, RunPart

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class FunctionState:
    """The state of a durable function is its steps: it saves none."""


class DurableFunction(RecordedAgent, Generic[P, R]):
    """A durable function: call it as the function that it is, or ask it as any agent.

    `durable` makes it. Its id is the function's name. As an agent, it takes a text as its one text
    parameter, or a JSON object of its parameters.
    """

    run_kind: str = "DurableFunction"
    kind_label: str = "durable function"
    _is_open: bool = False

    def __init__(
        self,
        function: Callable[P, Coroutine[Any, Any, R]],
        journal: Journal | str | os.PathLike[str] | None = None,
        *,
        budget: Budget | None = None,
    ) -> None:
        label = getattr(function, "__name__", repr(function)[:80])
        if not is_async(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(
                f"durable: {label!r} must be an `async def` function, got a "
                f"{type(function).__name__}; a plain function can be a step"
            )
        super().__init__(label, description=inspect.getdoc(function) or f"Run {label}.")
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.budget = budget
        self._given_journal = journal
        self._parameters = inspect.signature(function).parameters
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if any(each.kind in kinds for each in self._parameters.values()):
            raise DefinitionError(
                f"durable: {label!r} must name its parameters: no *args, **kwargs"
            )

    # -- as a function ---------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run it, in a run of a new id; within another durable function, as a part of its run.

        Raises:
            RunWaiting: the run `run_id` waits for an answer, a result or a moment; `resume` goes on
            InDoubt: an effect was cut off, and a person has to decide
            BudgetExceeded: its budget is spent
            RunMismatch: the function has changed since it began the run
            JournalError: the journal cannot be used, or is damaged
        """
        return self._run(None, args, kwargs)

    def run(self, run_id: str, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        """Run it in a run of this id: begin it, go on with it, or return what it returned.

        Within another durable function it has a run of its own. It raises what a call raises, and
        RunMismatch if the run began with other arguments.
        """
        check_text(f"durable function {self.id!r}: run_id", run_id)
        return self._run(run_id, args, kwargs)

    async def _run(self, run_id: str | None, args: Any, kwargs: Any) -> R:
        content = self._content_of(args, kwargs)
        branch = branch_here()
        if branch is None:
            run_id = os.urandom(8).hex() if run_id is None else run_id
            try:  # a thread of its own: runs do not wait for each other
                return self._value_of(await self.reply(content, thread=run_id, run_id=run_id))
            finally:
                self.end_thread(run_id)
        if run_id is None:
            return self._value_of(await self.reply(content))
        asking = branch.run.agent.journal
        child = self if self.journal is not None or asking is None else self.on(asking)
        own_journal = child.journal
        if own_journal is None or own_journal.file.identity != branch.run.record.run.file.identity:
            raise ConfigError(
                f"durable function {self.id!r}: run({run_id!r}) in {branch.run.agent.id!r} must "
                "have the journal of that, or none"
            )

        async def ask(step: StepHandle) -> Any:
            await step.begins()
            with ask_context(stand_ins=None):
                reply = await child.reply(content, thread=run_id, run_id=run_id)
            if reply.stop_reason in ("waiting", "in_doubt"):
                later = Later(run_id, text=reply.detail)
                await step.wait(run_id, "result", later, action=str(self.id))
            return self._codecs["return"].dump(self._value_of(reply))

        step_args, form = (run_id, content), StepForm(goes_on=True)
        result = await branch.run.do(branch, str(self.id), step_args, telling(ask), form)
        value: R = self._codecs["return"].load(result)
        return value

    @staticmethod
    def _value_of(reply: Reply[Any]) -> R:
        if reply.error is not None:
            raise reply.error
        reply.raise_for_error()
        value: R = reply.value
        return value

    async def resume(self) -> list[ResumedRun]:
        """Go on with the runs that were cut off, or have what they waited for.

        Returns one outcome for each, as `resume_runs` of an agent; one that fails stops no other.
        """
        return await self.resume_runs()

    def on(self, journal: Journal | str | os.PathLike[str]) -> DurableFunction[P, R]:
        """Return the same function on another journal, such as that of a test or a tenant."""
        return DurableFunction(self.function, journal, budget=self.budget)

    # -- as an agent -----------------------------------------------------------------------------

    state_type: type[Any] = FunctionState

    @property
    def journal(self) -> Journal | None:
        """The journal that records its runs, opened at the first use; None without one."""
        if not self._is_open:
            self._is_open = True
            RecordedAgent.journal.fset(self, self._given_journal)  # type: ignore[attr-defined]
        return self._opened_journal

    @journal.setter
    def journal(self, journal: Journal | str | os.PathLike[str] | None) -> None:
        self._given_journal, self._is_open = journal, False

    @property
    def _journal(self) -> Journal | None:
        return self.journal

    @_journal.setter
    def _journal(self, journal: Journal | None) -> None:
        self._opened_journal = journal

    def stand_in(self) -> Self:
        """Return a copy that replies in its place, without its journal."""
        twin = super().stand_in()
        twin.journal = None
        return twin

    @property
    def source_line(self) -> str:
        """The file and line of the function."""
        code = self.function.__code__
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"

    def budget_of(self, request: ReplyRequest) -> Budget | None:
        """Return what a run may spend."""
        return self.budget if request.budget is None else request.budget

    def check_request(self, request: ReplyRequest) -> None:
        """Refuse a run that nothing would record."""
        super().check_request(request)
        if request.record is None and self.journal is None:
            raise ConfigError(
                f"durable function {self.id!r} has no journal: @durable(PATH), or on(journal)"
            )

    def describe_program(self) -> dict[str, Any]:
        """Return its program: its steps are compared one by one."""
        return NULL_RECORD.fingerprint(agent=[self.run_kind, str(self.id)])

    async def restore_part(self, part: RunPart, budget: Budget | None) -> None:
        """Restore nothing: what its agents did is restored where it asks them."""

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember nothing: a function has no conversation."""

    @functools.cached_property
    def _codecs(self) -> dict[str, Codec]:
        hints = hints_of(self.function)
        labels = {name: f"argument {name!r} of {self.id!r}" for name in self._parameters}
        labels["return"] = f"what {self.id!r} returns"
        return {n: codec_for(hints.get(n, inspect.Parameter.empty), labels[n]) for n in labels}

    @functools.cached_property
    def _text_parameter(self) -> str | None:
        """The parameter that takes the message, if it is the only one, and a text."""
        hints = hints_of(self.function)
        name = next(iter(self._parameters), "")
        is_text = len(self._parameters) == 1 and hints.get(name, str) is str
        return name if is_text else None

    def _content_of(self, args: Any, kwargs: Any) -> str:
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        values = {name: self._codecs[name].dump(each) for name, each in bound.arguments.items()}
        text = values.get(self._text_parameter or "")
        return text if isinstance(text, str) else json.dumps(values, ensure_ascii=False)

    def _arguments_of(self, content: Any) -> dict[str, Any]:
        if self._text_parameter is not None:
            return {self._text_parameter: json_text(content)}
        try:
            values = json.loads(content) if self._parameters else {}
            bound = inspect.signature(self.function).bind(**values)
            return {name: self._codecs[name].load(each) for name, each in bound.arguments.items()}
        except (TypeError, ValueError) as error:  # also of JSON, and of pydantic
            raise ConfigError(
                f"durable function {self.id!r} must be given a JSON object of its parameters "
                f"{[*self._parameters]!r:.200}, got {content!r:.80} ({error_text(error)})"
            ) from error

    async def recorded_reply(self, request: ReplyRequest, record: Record[Any]) -> Reply:
        """Run the function, or return what it returned."""
        if record.is_over:
            for each in record.past():
                if each.about.get("action") == "emit":
                    request.tell(Emitted, str(self.id), each.result, past=True)
            past_reply = reply_at_end(record, None, [], [], Usage())
            return replace(past_reply, value=self._codecs["return"].load(past_reply.value))
        if (budget := self.budget_of(request)) is not None:
            budget.start()
        run = FunctionRun(self, request, record)

        async def work() -> Reply:
            try:
                arguments = self._arguments_of(request.content)
                value = await run.work(partial(self.function, **arguments))
                data = self._codecs["return"].dump(value)
            except (Stop, InDoubt, BudgetExceeded, JournalError):
                raise
            except Exception as error:
                stop = Stop("error", error_text(error), error)
                return Reply(
                    "", None, [], [], run.usage, stop.reason, stop.detail, error, record.run_id
                )
            value = self._codecs["return"].load(data)
            return Reply(json_text(data), value, [], [], run.usage, run_id=record.run_id)

        def at_end(reply: Reply) -> dict[str, Any]:
            is_done = reply.stop_reason == "done"
            value = self._codecs["return"].dump(reply.value) if is_done else None
            return {"text": reply.text, "value": value, "detail": reply.detail}

        def stopped(stop: Stop) -> Reply:
            end = (stop.reason, stop.detail, stop.error, record.run_id)
            return Reply("", None, [], [], run.usage, *end)

        return await record.run_to_end(work, at_end, stopped)


def replayed_reply(run_id: str, entries: Sequence[Entry]) -> Reply[Any]:
    """Return the reply of a run, with the value as JSON data."""
    record = ReadRecord.read(run_id, entries, FunctionState)
    return reply_at_end(record, None, [], [], Usage())
