"""One call of a model's answer: permitted, recorded, executed, with hooks around it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from civitas.action import ACCESS_DENIED, ACCESS_PERMITTED, Action, is_async
from civitas.agent import CURRENT, Context
from civitas.approval import ApprovalRequest
from civitas.environment import execute_in_thread, failed
from civitas.errors import DefinitionError, HookError, InvalidArguments, JournalError, NotPermitted
from civitas.jsonvalue import copy_json
from civitas.reasoning.events import CallEnded, CallStarted
from civitas.reasoning.hooks import expect, expect_args
from civitas.reasoning.loop.answer import Wanted
from civitas.reasoning.prompts import cut, json_text
from civitas.reasoning.record import NULL_STEP, NullRecord, Past, Record, Step
from civitas.reasoning.reply import log_failure
from civitas.reasoning.state import Codec, as_json
from civitas.threads import WORKERS

if TYPE_CHECKING:
    from civitas.reasoning.loop.react import ReActAgent
    from civitas.reasoning.reply_request import Asked

__all__ = ["CUT_OFF", "Call", "as_action", "doubts_of", "error_of", "execute"]

logger = logging.getLogger("civitas.reasoning")

CUT_OFF: Final = "cancelled before it ended; whether it had an effect is not known"
_SKIPPED: Final = (
    "skipped: the process ended while it was executed, and a person has decided not to execute it "
    "again; whether it had an effect is not known"
)

_FOREIGN: WeakKeyDictionary[Any, Action] = WeakKeyDictionary()
"""Actions as models are shown them, where they are not as they were given."""


def as_action(given: Any) -> Action:
    """An action of whatever class as one of civitas's, the same each time.

    A registry of a user's own may have actions of its own class, with `name`, `function`,
    `description`, `parameters` and `terminal` as in the paper that civitas follows.
    """
    if isinstance(given, Action):
        function = given.function
        if type(function) is not MethodType or function.__name__ != "say":
            return given
        return _without_thread(given)
    made = _FOREIGN.get(given)
    if made is None:
        parts = (given.name, given.function, given.description, given.parameters)
        made = _FOREIGN[given] = Action(*parts, getattr(given, "terminal", False))
    return made


def _without_thread(say: Action) -> Action:
    """An agent's `say` without the thread, which is not the model's to name."""
    parameters = say.parameters
    properties = parameters.get("properties", {})
    if "thread" not in properties:
        return say
    made = _FOREIGN.get(say)
    if made is None:
        shown = {name: each for name, each in properties.items() if name != "thread"}
        made = _FOREIGN[say] = Action._described(
            say.name,
            say.function,
            say.description,
            {**parameters, "properties": shown},
            terminal=say.terminal,
            access_policy=say.access_policy,
            idempotent=say.idempotent,
            timeout=say.timeout,
            help=say.help,
        )
    return made


def error_of(result: dict[str, Any]) -> str | None:
    """What went wrong, as a result says it; None if nothing did."""
    error = result.get("error")
    return None if error is None else str(error)


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
    return (
        f"outcome unknown: {', '.join(doubts)} {were} running when the process died. Look whether "
        f"it took effect, and decide: `civitas resume {record.run_id} --repeat`, --skip or --done "
        "(journal.decide)"
    )


class Call:
    """One call of an answer.

    Args:
        agent: on whose behalf
        wanted: what the model calls
        asked: what the run is asked
        record: where it is recorded
        iteration: which answer of the model it is of
        place: which call of that answer, from 0
        beside: whether others are executed at the same time
        broken: the errors of hooks that end the reply are put here
    """

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
        agent: ReActAgent,
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
        """What comes of it: as it was recorded, or of executing it now.

        Raises:
            JournalError: it cannot be written; it was not executed
        """
        record, chosen = self._record, self._wanted.action
        assert chosen is not None
        known = False
        if isinstance(record, NullRecord):
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
            result = await self._after(result)
        if not known:
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
        data = {"args": as_json(self._wanted.args), "result": as_json(result)}
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
        if agent._hooks is not None:
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
        try:
            made = await agent._hooks.run(
                "pre_acting", agent, self._told, lambda made: expect_args(made["args"])
            )
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

    async def _after(self, result: dict[str, Any]) -> dict[str, Any]:
        """What the `post_acting` hooks make of a result."""
        agent, hooks = self._agent, self._agent._hooks

        async def call(step: Step) -> dict[str, Any]:
            assert hooks is not None
            told = {**self._told, "result": result}
            made = await hooks.run(
                "post_acting", agent, told, lambda made: expect(made["result"], dict)
            )
            return made["result"]  # type: ignore[no-any-return]

        try:
            return await self._record.step(f"post_acting.{self.key}", call, beside=self._beside)
        except HookError as error:
            self._broken.append(error)
            return result


async def execute(
    agent: ReActAgent, call: Wanted, asked: Asked, step: Step = NULL_STEP
) -> dict[str, Any]:
    """Execute a call, as far as it is permitted, and give its result.

    Args:
        agent: on whose behalf
        call: the call
        asked: what the run is asked
        step: is told when it begins, and knows what was permitted

    Raises:
        JournalError: it cannot be written; it was not executed
    """
    chosen = call.action
    assert chosen is not None
    environment = agent.environment
    try:
        if chosen.access_policy != ACCESS_PERMITTED and not await _permits(
            agent, call, asked, step
        ):
            return failed(NotPermitted(f'"{call.name}" not permitted'))
        if step is not NULL_STEP:
            await step.begins(as_json(call.args))
        kwargs = _injected(agent, chosen, call.kwargs, asked)
        method = getattr(environment, "aexecute_action", None)
        if method is None:  # an environment of the user's own, with only the sync form
            result = await execute_in_thread(environment, chosen, kwargs)
        else:
            result = await method(chosen, kwargs)
        if inspect.isawaitable(result):  # an override of the sync form may be async
            result = await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return failed(error)  # something that was awaited was cancelled, not this
    except JournalError:
        raise
    except Exception as error:
        log_failure(logger, f"the environment of agent {agent.id!r} failed on {call.name!r}", error)
        return failed(error)
    if not isinstance(result, dict):
        return failed(TypeError(f"the environment gave no result but {type(result).__name__}"))
    return result


def _change(call: Wanted, args: dict[str, Any]) -> None:
    """Put a hook's arguments in the place of the model's, checked like these."""
    if args == call.args:
        return
    assert call.action is not None
    call.args = copy_json(args)
    call.kwargs = call.action.check(call.args)


def _injected(
    agent: ReActAgent, chosen: Action, kwargs: dict[str, Any], asked: Asked
) -> dict[str, Any]:
    try:
        injected = chosen.signature.injected
    except DefinitionError:
        return kwargs  # its parameters were given by hand: the function says nothing usable
    if injected:
        handling = CURRENT.get()
        message = None if handling is None else handling.message()
        context: Context[Any] = Context(
            agent,
            run_id=asked.run_id,
            thread=asked.thread,
            sender=None if message is None else message["from"],
            budget=agent.budget if asked.budget is None else asked.budget,
            deps=agent.deps if asked.deps is None else asked.deps,
        )
        fill = [name for name, kind in injected.items() if issubclass(kind, Context)]
        return {**kwargs, **dict.fromkeys(fill, context)}
    return kwargs


async def _permits(agent: ReActAgent, call: Wanted, asked: Asked, step: Step) -> bool:
    """Whether this very call may be executed; whoever is asked cannot change it."""
    if call.action is None or call.action.access_policy == ACCESS_DENIED:
        return False
    id = str(agent.id)
    args = copy_json(call.args)
    message = {"from": id, "to": id, "action": {"name": call.name, "args": args}}

    async def asks() -> bool:
        if asked.seen is not None and not getattr(agent._approver(), "awaits_reader", False):
            await asked.seen()  # the call was shown: nobody is asked about what they do not know of
        ask: Callable[..., Any] = agent.request_permission
        if is_async(ask):
            return await ask(message) is True
        # An override may be a plain function, and wait for a person.
        return await WORKERS.run(asyncio.get_running_loop(), ask, message) is True

    try:
        if step is NULL_STEP:
            return await asks()
        return await step.permitted(ApprovalRequest.of(message).fingerprint, asks)
    except JournalError:
        raise
    except Exception as error:
        about = f"request_permission of agent {agent.id!r} failed on {call.name!r}"
        log_failure(logger, about, error)
        return False
