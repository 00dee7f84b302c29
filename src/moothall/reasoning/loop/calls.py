"""The calls of an answer: permitted, recorded and executed concurrently, with hooks."""

from __future__ import annotations

import asyncio
import logging
import shlex
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall import tracing
from moothall.action import ACCESS_PERMITTED
from moothall.approval.approval import not_permitted
from moothall.context import Context, filled, injected
from moothall.environment import execute_in_thread, failed
from moothall.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    HookError,
    InvalidArguments,
    JournalError,
)
from moothall.jsonvalue import as_json, copy_json, json_text
from moothall.provenance import reading
from moothall.reasoning.events import CallEnded, CallProgress, CallStarted
from moothall.reasoning.hooks import as_hooked, expect, expect_args, run_hooks
from moothall.reasoning.loop.answer import RequestedCall
from moothall.reasoning.loop.parts import Looping, context_of
from moothall.reasoning.loop.permission import LIMIT, Limit, permits
from moothall.reasoning.loop.provenance import begins, sources_of_result, trace
from moothall.reasoning.loop.results import error_of
from moothall.reasoning.record import NULL_RECORD, NULL_STEP, Past, Record, Step
from moothall.reasoning.reply import Stop
from moothall.reasoning.reply_request import ReplyRequest
from moothall.reasoning.state import Codec
from moothall.reasoning.sub_agents.asking import doubts_of_asked
from moothall.text import cut, log_failure
from moothall.threads import is_cancelled, reset, side_by_side

if TYPE_CHECKING:
    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.reasoning")

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_CUT_OFF: Final = "cancelled before it ended; whether it had an effect is not known"
_NEVER_BEGUN: Final = "not executed: cancelled before it began"
_SKIPPED: Final = (
    "skipped: the run was cut off while it was executed, and a person has decided not to execute "
    "it again; whether it had an effect is not known"
)


def doubts_of(record: Record[Any], iteration: int) -> str:
    """Return which calls of an answer are in doubt, and how to decide; empty if none is."""
    doubts = [
        f'"{past.about["action"]}" {cut(json_text(past.args), 200)}'
        for past in record.past(f"{iteration}.")
        if past.in_doubt
    ]
    doubts += doubts_of_asked(record, iteration)
    if not doubts:
        return ""
    were = "was" if len(doubts) == 1 else "were"
    decide = shlex.join(("moothall", "resume", record.run_id, "--journal", record.file.path))
    return (
        f"outcome unknown: {', '.join(doubts)} {were} running when the run was cut off. Look "
        f"whether it took effect, and decide: `{decide} --repeat`, --skip or --done N=RESULT "
        "(journal.decide)"
    )


@dataclass(slots=True, eq=False)
class Calls:
    """The calls of one answer, executed concurrently; each gets its result."""

    agent: Looping
    wanted: list[RequestedCall]
    request: ReplyRequest
    record: Record[Any]
    iteration: int
    keeps_refused: bool = True  # record the calls that the budget refused as ended
    broken: list[HookError] = field(default_factory=list)  # hooks that ended the reply

    async def execute(self) -> None:
        """Execute the calls."""
        await side_by_side([Call(self, place).run() for place in range(len(self.wanted))])
        if self.broken:
            raise Stop.on_hook(self.agent.id, self.broken[0]) from self.broken[0]

    async def within(self, budget: Budget) -> None:
        """Execute the calls within a budget's actions and seconds."""
        calls = [Call(self, place) for place in range(len(self.wanted))]
        ended = [self.record.has_ended(call.key) for call in calls]
        try:
            held = await budget.in_turn(partial(budget.reserve, actions=ended.count(False)))
        except BudgetExceeded as error:
            refused = {"tool_executed": False, "error": f"not executed: {error}"}
            for place, call in enumerate(calls):
                if ended[place]:
                    await call.run()
                elif self.keeps_refused:
                    call.end_as({**refused})
                else:
                    self.wanted[place].result = {**refused}
            raise Stop.at_limit(error) from error
        limit = asyncio.timeout(budget.remaining_seconds())
        token = LIMIT.set(Limit(limit, budget))
        try:
            async with limit:
                await self.execute()
        except TimeoutError as error:
            if not limit.expired():
                raise
            late = DeadlineExceeded("the time of the run was over while its actions were executed")
            raise Stop.at_limit(late) from error
        finally:
            reset(token)
            held._ledger.settle(held, (0, 0, 0, sum(call.begun for call in self.wanted)))

    @property
    def in_doubt(self) -> bool:
        """Return whether a call has begun and not ended, and may not be repeated unasked."""
        return any(
            call.begun and call.result is None and not Call(self, place).may_repeat
            for place, call in enumerate(self.wanted)
        )

    def cut_off(self, place: int, ends: bool = True) -> dict[str, Any]:
        """Emit the result of a call that was cut off, and return it; record it if the call ends."""
        call, wanted = Call(self, place), self.wanted[place]
        past = self.record.find(call.key) if self.record is not NULL_RECORD else None
        began = wanted.begun or (past is not None and past.state == "started")
        error = wanted.fault or (_CUT_OFF if began else _NEVER_BEGUN)
        result = {"tool_executed": False, "error": error}
        if ends:
            call.end_as(result)
        else:
            wanted.result = result
        call.tell_end(result)
        return result


class Call:
    """One call of an answer."""

    __slots__ = ("_agent", "_of", "_place", "_record", "_refused", "_request", "_wanted")

    def __init__(self, of: Calls, place: int) -> None:
        self._agent = of.agent
        self._request = of.request
        self._record = of.record
        self._wanted = of.wanted[place]
        self._of = of
        self._place = place
        self._refused = False  # by a hook: not executed, and no `post_acting` hook is called

    @property
    def key(self) -> str:
        """Return the key of the call's step."""
        return f"{self._of.iteration}.{self._place}"

    @property
    def may_repeat(self) -> bool:
        """Return whether its action may run again if nobody knows whether it took effect."""
        action = self._wanted.action
        return action is not None and (action.idempotent is True or action._resumes is not None)

    @property
    def _named(self) -> tuple[str, int, str, str]:
        """Return how its events name it."""
        return str(self._agent.id), self._of.iteration, self._wanted.id, self._wanted.name

    @property
    def _about(self) -> dict[str, Any]:
        """Return what the step records besides."""
        wanted = self._wanted
        id = {"action": wanted.name, "id": wanted.id}
        about = {**id, "iteration": self._of.iteration, "call": self._place}
        source = tracing.source_of(wanted.action)
        return about if source is None else {**about, "source": source}

    async def run(self) -> None:
        """Give the call its result: the recorded one, or that of executing it now."""
        if tracing.active is None or self._record.has_ended(self.key):
            await self._run()
        else:
            span = tracing.active.tool(self._agent, self._wanted, self.key)
            await tracing.traced(span, tracing.searching(self._wanted, self._run))

    async def _run(self) -> None:
        agent, record, chosen = self._agent, self._record, self._wanted.action
        assert chosen is not None
        known, beside = record.has_ended(self.key), len(self._of.wanted) > 1
        if record is NULL_RECORD:  # the faster way
            result = await self._execute(NULL_STEP)
        else:
            self._wanted.key = self.key
            result = await record.step(
                self.key,
                self._execute,
                of=Codec(self._dump, self._load),
                outcome="repeat" if self.may_repeat else "ask",
                beside=beside,
                decided=self._decided,
                **self._about,
            )
        if not self._refused and agent._hooks.get("post_acting"):
            about, check = {**self._about_hooked(), "result": result}, partial(expect, kind=dict)
            hooks = (agent, "post_acting", about, "result", check)
            try:
                result = await as_hooked(record, self.key, *hooks, beside=beside)
            except HookError as error:
                self._of.broken.append(error)
        if not known:
            self.tell_end(result)
        self._wanted.result = result

    def end_as(self, result: dict[str, Any]) -> None:
        """Record the result of a call that was not executed or was cut off."""
        self._record.mark(self.key, self._dump(result), **self._about)
        self._wanted.result = result

    def tell_end(self, result: dict[str, Any]) -> None:
        """Emit that the call has ended."""
        self._request.tell(CallEnded, *self._named, result, error_of(result))

    # -- as it is recorded -------------------------------------------------------------------------

    def _dump(self, result: dict[str, Any]) -> dict[str, Any]:
        data, texts = {"args": self._wanted.args}, self._request.state.texts
        data["result"] = as_json(result)
        if self._wanted.was is not None:
            data["was"] = self._wanted.was
        if kept := self._wanted.provenance(sources_of_result(self._wanted, texts, result)):
            data["provenance"] = as_json(kept)
        return {**data, "refused": True} if self._refused else data

    def _load(self, data: dict[str, Any]) -> dict[str, Any]:
        _change(self._wanted, data["args"], data.get("was"))
        self._refused = data.get("refused", False)
        self._wanted.restore(data.get("provenance"))
        return dict(data["result"])

    def _decided(self, past: Past) -> dict[str, Any]:
        if isinstance(past.args, dict):
            _change(self._wanted, past.args, past.was)
        if past.decision == "done":
            return {"tool_executed": True, "result": past.value}
        return {"tool_executed": False, "error": _SKIPPED}

    # -- executing it ------------------------------------------------------------------------------

    async def _execute(self, step: Step) -> dict[str, Any]:
        agent, wanted, request = self._agent, self._wanted, self._request
        refused = await self._before() if agent._hooks.get("pre_acting") else None
        if isinstance(step.args, dict):  # those of the first attempt hold, not the hooks'
            _change(wanted, step.args, step.past.was)
        if request.state.texts is not None:
            trace(wanted, request.state.texts)
            if step is not NULL_STEP:
                step.tell(origins=as_json(wanted.origins))
        request.tell(CallStarted, *self._named, wanted.args, wanted.origins)
        if refused is not None:
            self._refused = True
            return refused
        if request.emit is None:
            return await execute(agent, wanted, request, step)
        wanted.watched = partial(request.tell, CallProgress, *self._named)
        try:
            return await execute(agent, wanted, request, step)
        finally:
            wanted.watched = None

    def _about_hooked(self) -> dict[str, Any]:
        """Return what hooks get about the call."""
        wanted, request = self._wanted, self._request
        return {
            "action": wanted.name,
            "args": _copied(wanted.args),
            "iteration": self._of.iteration,
            "call_id": wanted.id,
            "run_id": request.run_id,
            "thread": request.thread,
        }

    async def _before(self) -> dict[str, Any] | None:
        """Call the `pre_acting` hooks; return the call's result if one refused it, else None."""
        await self._record.commit()  # hooks may see messages only once they are recorded
        try:
            given = self._about_hooked()
            made = await run_hooks(self._agent, "pre_acting", given, expect_args)
            if made["args"] is not given["args"]:
                _change(self._wanted, made["args"])
        except HookError as error:
            if error.__cause__ is None:
                self._of.broken.append(error)  # no arguments: the model cannot repair that
                return failed(error)
            # The hook's exception tells the model why the call was not executed.
            logger.warning("%s; it was not executed", error)
            return failed(error.__cause__)
        except InvalidArguments as error:
            about = "agent %r: a pre_acting hook gave wrong arguments: %s"
            logger.warning(about, self._agent.id, error)
            return failed(error)
        return None


def _copied(args: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of checked arguments that shares nothing mutable with them."""
    return args.copy() if _SCALARS.issuperset(map(type, args.values())) else copy_json(args)


def _change(call: RequestedCall, args: dict[str, Any], was: dict[str, Any] | None = None) -> None:
    """Replace the arguments of a call, checked as the model's are."""
    call.was = was
    if args == call.args:
        return
    assert call.action is not None
    call.args = copy_json(args)
    call.kwargs = call.action.check(call.args)


async def execute(
    agent: Looping, call: RequestedCall, request: ReplyRequest, step: Step = NULL_STEP
) -> dict[str, Any]:
    """Execute a call if it is permitted, and return its result."""
    chosen = call.action
    assert chosen is not None
    environment = agent.environment
    result: Any = None
    context: Context[Any] | None = None
    token = reading.execute(call)
    try:
        if chosen.access_policy != ACCESS_PERMITTED or request.state.texts is not None:
            decision = await permits(agent, call, request, step)
            if decision is not True:
                return failed(not_permitted(call.name, decision))
        if call.foreign and (texts := request.state.texts) is not None:
            begins(call, texts)
        if step is not NULL_STEP:
            await step.begins(call.args)
        call.begun = True
        kwargs = call.kwargs
        if kinds := injected(chosen):
            context = context_of(agent, request, call)
            kwargs = filled(kinds, kwargs, context)
        method = getattr(environment, "aexecute_action", None)
        if method is None:  # a user's own environment may have only the sync method
            result = await execute_in_thread(environment, chosen, kwargs)
        else:
            result = await method(chosen, kwargs)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed(error)  # what the action awaited was cancelled, not this task
    except JournalError:
        raise
    except Exception as error:
        log_failure(logger, f"the environment of agent {agent.id!r} failed on {call.name!r}", error)
        return failed(error)
    finally:
        reading.executed(call, token, result)
        if context is not None and (not isinstance(result, dict) or "error" in result):
            context._withdraw()
    if not isinstance(result, dict):
        return failed(TypeError(f"an environment must give a dict, got {type(result).__name__}"))
    return result
