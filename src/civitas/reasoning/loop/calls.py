"""The calls of a model's answer: recorded and executed at once, with hooks around each."""

from __future__ import annotations

import asyncio
import logging
import shlex
from typing import TYPE_CHECKING, Any, Final

from civitas.environment import failed
from civitas.errors import BudgetExceeded, DeadlineExceeded, HookError, InvalidArguments
from civitas.jsonvalue import copy_json
from civitas.reasoning.events import CallEnded, CallStarted
from civitas.reasoning.hooks import Hooks, expect, expect_args
from civitas.reasoning.loop.answer import Wanted
from civitas.reasoning.loop.execute import execute
from civitas.reasoning.loop.parts import LoopAgent
from civitas.reasoning.prompts import as_json, cut, json_text
from civitas.reasoning.record import NULL_RECORD, NULL_STEP, Past, Record, Step
from civitas.reasoning.reply import Stop
from civitas.reasoning.reply_request import Asked
from civitas.reasoning.state import Codec

if TYPE_CHECKING:
    from civitas.budget import Budget

logger = logging.getLogger("civitas.reasoning")

_CUT_OFF: Final = "cancelled before it ended; whether it had an effect is not known"
_SKIPPED: Final = (
    "skipped: the process ended while it was executed, and a person has decided not to execute it "
    "again; whether it had an effect is not known"
)


def error_of(result: dict[str, Any]) -> str | None:
    """What went wrong, as a result says it; None if nothing did."""
    error = result.get("error")
    return None if error is None else str(error)


def cut_off() -> dict[str, Any]:
    """The result of a call that this run has cut off."""
    return {"tool_executed": False, "error": _CUT_OFF}


def doubts_of(record: Record[Any], iteration: int) -> str:
    """Which calls of an answer are in doubt, and what to do about it; empty if none is."""
    doubts = [
        f'"{past.about["action"]}" {cut(json_text(past.args), 200)}'
        for past in record.past(f"{iteration}.")
        if past.in_doubt
    ]
    if not doubts:
        return ""
    were = "was" if len(doubts) == 1 else "were"
    decide = shlex.join(("civitas", "resume", record.run_id, "--journal", record.journal))
    return (
        f"outcome unknown: {', '.join(doubts)} {were} running when the process died. Look whether "
        f"it took effect, and decide: `{decide} --repeat`, --skip or --done N=RESULT "
        "(journal.decide)"
    )


class Call:
    """One call of an answer."""

    __slots__ = (
        "_agent",
        "_asked",
        "_beside",
        "_broken",
        "_iteration",
        "_place",
        "_record",
        "_refused",
        "_wanted",
    )

    def __init__(
        self,
        agent: LoopAgent,
        wanted: Wanted,
        asked: Asked,
        record: Record[Any],
        iteration: int,
        place: int,
        beside: bool,
        broken: list[HookError],
    ) -> None:
        self._agent = agent
        self._wanted = wanted
        self._asked = asked
        self._record = record
        self._iteration = iteration
        self._place = place
        self._beside = beside
        self._broken = broken
        self._refused = False  # by a hook: it was not executed, and no other hook is told

    @property
    def key(self) -> str:
        """What its step is called."""
        return f"{self._iteration}.{self._place}"

    @property
    def about(self) -> dict[str, Any]:
        """What is recorded of it besides."""
        wanted = self._wanted
        id = {"action": wanted.name, "id": wanted.id}
        return {**id, "iteration": self._iteration, "call": self._place}

    async def result(self) -> dict[str, Any]:
        """What comes of it: as it was recorded, or of executing it now."""
        record, chosen = self._record, self._wanted.action
        assert chosen is not None
        known = False
        if record is NULL_RECORD:
            result = await self._execute(NULL_STEP)
        else:
            known = record.has_ended(self.key)
            result = await record.step(
                self.key,
                self._execute,
                of=Codec(self._dump, self._load),
                outcome="repeat" if chosen.idempotent is True else "ask",
                beside=self._beside,
                decided=self._decided,
                **self.about,
            )
        hooks = self._agent._hooks
        if hooks is not None and not self._refused and hooks.has("post_acting"):
            result = await self._after(hooks, result)
        if not known and self._asked.emit is not None:
            self.tell_end(result)
        return result

    def end_as(self, result: dict[str, Any]) -> dict[str, Any]:
        """Record a result of a call that was not executed, or whose end was not waited for."""
        self._record.mark(self.key, self._dump(result), **self.about)
        return result

    def tell_end(self, result: dict[str, Any]) -> None:
        """Tell whoever looks on that it has ended."""
        emit, wanted, asked = self._asked.emit, self._wanted, self._asked
        if emit is not None:
            about = (str(self._agent.id), self._iteration, wanted.id, wanted.name)
            emit(CallEnded(*about, result, error_of(result), False, asked.run_id, asked.thread))

    # -- as it is recorded -------------------------------------------------------------------------

    def _dump(self, result: dict[str, Any]) -> dict[str, Any]:
        data = {"args": self._wanted.args, "result": as_json(result)}
        return {**data, "refused": True} if self._refused else data

    def _load(self, data: dict[str, Any]) -> dict[str, Any]:
        _change(self._wanted, data["args"])
        self._refused = data.get("refused", False)
        result: dict[str, Any] = data["result"]
        return result

    def _decided(self, past: Past) -> dict[str, Any]:
        if isinstance(past.args, dict):
            _change(self._wanted, past.args)
        if past.decision == "done":
            return {"tool_executed": True, "result": past.value}
        return {"tool_executed": False, "error": _SKIPPED}

    # -- executing it ------------------------------------------------------------------------------

    async def _execute(self, step: Step) -> dict[str, Any]:
        agent, wanted, asked = self._agent, self._wanted, self._asked
        hooks = agent._hooks
        if hooks is not None and hooks.has("pre_acting"):
            refused = await self._before()
            if refused is not None:
                self._refused = True
                return refused
        if isinstance(step.args, dict):  # as it had begun, whatever hooks make of it now
            _change(wanted, step.args)
        if asked.emit is not None:
            about = (str(agent.id), self._iteration, wanted.id, wanted.name, wanted.args)
            asked.emit(CallStarted(*about, False, asked.run_id, asked.thread))
        return await execute(agent, wanted, asked, step)

    @property
    def _told(self) -> dict[str, Any]:
        """What hooks are told."""
        wanted, asked = self._wanted, self._asked
        return {
            "action": wanted.name,
            "args": copy_json(wanted.args),
            "iteration": self._iteration,
            "call_id": wanted.id,
            "run_id": asked.run_id,
            "thread": asked.thread,
        }

    async def _before(self) -> dict[str, Any] | None:
        """Call the `pre_acting` hooks; gives the result of a call that one refused."""
        agent, wanted = self._agent, self._wanted
        assert agent._hooks is not None
        if self._record is not NULL_RECORD:
            await self._record.commit()  # what is recorded is shown
        try:
            made = await agent._hooks.run("pre_acting", agent, self._told, _expect_args)
            _change(wanted, made["args"])
        except HookError as error:
            if error.__cause__ is None:
                self._broken.append(error)  # no arguments: nothing for the model to mend
                return failed(error)
            # What the hook raised says to the model why the call was not executed.
            logger.warning("%s; it was not executed", error)
            return failed(error.__cause__)
        except InvalidArguments as error:
            logger.warning("agent %r: a pre_acting hook gave wrong arguments: %s", agent.id, error)
            return failed(error)
        return None

    async def _after(self, hooks: Hooks, result: dict[str, Any]) -> dict[str, Any]:
        """What the `post_acting` hooks make of a result."""

        async def call(step: Step) -> dict[str, Any]:
            told = {**self._told, "result": result}
            made = await hooks.run("post_acting", self._agent, told, _expect_result)
            return made["result"]  # type: ignore[no-any-return]

        try:
            if self._record is NULL_RECORD:
                return await call(NULL_STEP)
            return await self._record.step(f"post_acting.{self.key}", call, beside=self._beside)
        except HookError as error:
            self._broken.append(error)
            return result


def _expect_args(made: dict[str, Any]) -> None:
    expect_args(made["args"])


def _expect_result(made: dict[str, Any]) -> None:
    expect(made["result"], dict)


class Calls:
    """The calls of one answer, executed at once, each result put in its place of `results`."""

    __slots__ = ("_agent", "_asked", "_broken", "_iteration", "_record", "_results", "_wanted")

    def __init__(
        self,
        agent: LoopAgent,
        wanted: list[Wanted],
        asked: Asked,
        record: Record[Any],
        iteration: int,
        results: list[dict[str, Any] | None],
    ) -> None:
        self._agent = agent
        self._wanted = wanted
        self._asked = asked
        self._record = record
        self._iteration = iteration
        self._results = results
        self._broken: list[HookError] = []

    async def execute(self) -> None:
        """Execute them."""
        count = len(self._wanted)
        if count == 1:
            await self._into(0)
        else:
            works = [asyncio.ensure_future(self._into(place)) for place in range(count)]
            try:
                await asyncio.gather(*works)
            except BaseException:  # the journal's, or cancelled: then no other goes on either
                for work in works:
                    work.cancel()
                await asyncio.wait(works)
                raise
        if self._broken:
            raise Stop.on_hook(self._agent.id, self._broken[0]) from self._broken[0]

    async def within(self, budget: Budget) -> None:
        """Execute them as far as a budget reaches, and in its time."""
        places = range(len(self._wanted))
        ended = [self._record.has_ended(f"{self._iteration}.{place}") for place in places]
        try:
            held = budget.reserve(actions=ended.count(False))
        except BudgetExceeded as error:
            for place, has_ended in enumerate(ended):
                call = self._call(place)
                if has_ended:
                    self._results[place] = await call.result()
                else:
                    result = {"tool_executed": False, "error": f"not executed: {error}"}
                    self._results[place] = call.end_as(result)
            raise Stop.at_limit(error) from error
        limit = asyncio.timeout(budget.remaining_seconds())
        try:
            async with limit:
                await self.execute()
        except TimeoutError as error:
            if not limit.expired():
                raise
            late = DeadlineExceeded("the time of the run was over while its actions were executed")
            raise Stop.at_limit(late) from error
        finally:
            held.settle()

    def cut_off(self, place: int) -> dict[str, Any]:
        """The result of a call that was cut off, recorded and told."""
        call = self._call(place)
        result = call.end_as(cut_off())
        call.tell_end(result)
        return result

    async def _into(self, place: int) -> None:
        self._results[place] = await self._call(place).result()

    def _call(self, place: int) -> Call:
        of = (self._agent, self._wanted[place], self._asked, self._record, self._iteration, place)
        return Call(*of, len(self._wanted) > 1, self._broken)


def _change(call: Wanted, args: dict[str, Any]) -> None:
    """Put a hook's arguments in the place of the model's, checked like these."""
    if args == call.args:
        return
    assert call.action is not None
    call.args = copy_json(args)
    call.kwargs = call.action.check(call.args)
