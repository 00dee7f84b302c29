"""The steps of the loop, a call of the model and a call of an action: shared, and for blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from moothall.actions.approval.decision import DECISION_KINDS
from moothall.actions.provenance import merged_sources
from moothall.agents.loop.call_result import CallResult, error_of
from moothall.agents.loop.later_results import as_result
from moothall.agents.loop.parts import context_of
from moothall.agents.loop.permission import add_user_texts
from moothall.agents.loop.provenance import note_execution, note_foreign, sources_of_result
from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.events import CallEnded
from moothall.agents.replies.hooks import expect_messages
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.sub_agents.ask_agent import run_id_of_call
from moothall.agents.replies.sub_agents.call_form import check_form
from moothall.agents.replies.sub_agents.restoring import budgets_new_to_call
from moothall.budget.bill import Bill, CallContext
from moothall.foundation import tracing
from moothall.foundation.errors import RunMismatch
from moothall.foundation.jsonvalue import as_json, copy_json

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from moothall.actions import Action
    from moothall.agents.context import Context
    from moothall.agents.loop.answer import ToolCall
    from moothall.agents.loop.parts import Looping
    from moothall.agents.loop.prompt.model_view import ModelView
    from moothall.agents.loop.recording import LoopState, LoopTurn
    from moothall.agents.replies.read_record import PastStep
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.step import StepHandle
    from moothall.budget import Budget
    from moothall.memory.memory import Memory
    from moothall.models.protocol import Model


class RunPort(Protocol):
    """What a call of the model needs of its run."""

    agent: Looping
    budget: Budget | None
    memory: Memory
    model: Model
    record: Record[Any] | None
    request: ReplyRequest
    view: ModelView
    state: LoopState
    model_blocks: Sequence[Any]  # that stand around a call of the model
    warned_limits: frozenset[str]  # of limits that are nearly reached

    def prompt_entry(self, step: LoopModelStep, is_retry: bool) -> dict[str, Any]:
        """Return what is recorded of a prompt; with `is_retry`, of the step's second try."""
        ...

    def next_prompt(self) -> list[dict[str, Any]]:
        """Return the prompt as it is once the messages up to now are recorded."""
        ...


@dataclass(slots=True, eq=False)
class CallBatch:
    """What the calls of one answer share."""

    agent: Looping
    calls: list[ToolCall]
    request: ReplyRequest
    iteration: int
    blocks: Sequence[Any] | None = None  # that stand around a call, if its run knows them
    budget: Budget | None = None  # that of the reply, once its calls are executed
    stops: list[Stop] = field(default_factory=list)  # of the reply, once all calls have ended
    running_count: int = 0  # how many calls neither have ended nor wait in the journal
    idle_event: asyncio.Event | None = None  # set once none is under way; made by who waits for it

    @property
    def record(self) -> Record[Any] | None:
        """The record of the reply, if a journal keeps it."""
        return self.request.recorded


@dataclass(slots=True, eq=False)
class LoopModelStep:
    """A call of the model, as what stands around it shares it."""

    run: RunPort
    turn: LoopTurn
    schema: dict[str, Any] | None
    prompt_messages: list[dict[str, Any]] | None = None  # the prompt; None until somebody looks
    record: StepHandle | None = None
    bill: AbstractContextManager[Any] | None = None

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """Return the prompt, made if nobody has looked at it."""
        if self.prompt_messages is None:
            self.prompt_messages = self.run.view.prompt()
        return self.prompt_messages

    def ensure_prompt(self) -> None:
        """Make the prompt if nobody has: calls of a recorded answer may have values from it."""
        if self.prompt_messages is None:
            self.run.view.prompt()

    def hook_fields(self, name: str, value: Any) -> dict[str, Any]:
        """Return what hooks get."""
        return {name: value, "iteration": self.turn.iteration, **self.run.request.run_fields}


class ModelStep:
    """A call of the model: what it is shown, which a block may change before it goes on."""

    __slots__ = ("_step",)

    def __init__(self, step: LoopModelStep) -> None:
        self._step = step

    @property
    def iteration(self) -> int:
        """Which answer of the reply it is, from 1."""
        return self._step.turn.iteration

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the answer; None for a text."""
        return self._step.schema

    @schema.setter
    def schema(self, schema: dict[str, Any] | None) -> None:
        self._step.schema = schema

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat messages of the prompt. Set another list to change them for this call."""
        return self._step.prompt

    @messages.setter
    def messages(self, messages: list[dict[str, Any]]) -> None:
        expect_messages({"messages": messages})
        self._step.prompt_messages = messages

    @property
    def actions(self) -> list[Action]:
        """The actions that the model is shown. Set another list to hide or add some."""
        return self._step.run.view.offered.agent_actions

    @actions.setter
    def actions(self, actions: list[Action]) -> None:
        self._step.run.view.choose(actions)

    @property
    def context(self) -> Context[Any]:
        """The agent, the run, the thread, the budget and the `deps` of the reply."""
        return context_of(self._step.run.agent, self._step.run.request)


class LoopActionStep:
    """A call of an action, as what stands around it shares it.

    `refused` is the result if a hook refused the call, `key` that of its record.
    """

    __slots__ = ("call", "is_announced", "key", "made_result", "place", "record", "refused", "turn")

    def __init__(self, turn: CallBatch, place: int) -> None:
        self.turn: CallBatch = turn
        self.place: int = place
        self.call: ToolCall = turn.calls[place]
        self.record: StepHandle | None = None
        self.refused: dict[str, Any] | None = None
        self.made_result: CallResult | None = None  # the last, which more than one may need
        self.is_announced: bool = False  # whether the stream has its start
        self.key: str = f"{turn.iteration}.{place}"

    @property
    def action(self) -> Action:
        """Return the action."""
        assert self.call.action is not None
        return self.call.action

    @property
    def context(self) -> Context[Any]:
        """Return what its action may know."""
        return context_of(self.turn.agent, self.turn.request, self.call)

    def change(self, args: dict[str, Any], original: dict[str, Any] | None = None) -> None:
        """Replace the arguments; `original` are the model's, if a person changed them."""
        self.call.original_args = original
        if original is not None:
            for name, value in args.items():
                add_user_texts(
                    self.call, self.turn.request.state.texts_by_origin, original.get(name), value
                )
        if args != self.call.args:
            self.call.args = copy_json(args)
            self.call.kwargs = self.action.check(self.call.args)

    @property
    def may_repeat(self) -> bool:
        """Return whether its action may run again if nobody knows whether it took effect."""
        action = self.call.action
        if action is None or action.origin.agent is None:
            return action is not None and action.idempotent is True
        return self._asks_recorded_agent

    @property
    def _asks_recorded_agent(self) -> bool:
        """Return whether it asks an agent whose record, in this run or its own, goes on."""
        agent = self.action.origin.agent
        return agent is not None and self.turn.record is not None and is_recording(agent)

    async def call_as_begun(self, past_step: PastStep, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call; raise Stop for the run to wait if that is not what the call had begun to do."""
        assert self.turn.record is not None
        try:
            end_former = check_form(self.action, past_step, self.turn.request, self.turn.record)
        except RunMismatch as error:
            raise Stop("waiting", str(error), error) from error
        if end_former is not None:
            await asyncio.to_thread(end_former)
        return await call()

    async def call_and_charge(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call, and record what that spends, unless the record of an asked agent has it."""
        assert self.record is not None
        assert self.turn.budget is not None
        if self._asks_recorded_agent:
            return await call()
        if self.action.origin.agent is not None:
            record = self.record.record
            budgets_new_to_call(self.action.origin.agent, self.turn.budget, record, self.key)
        bill = Bill(self.turn.budget.accounts[0])
        self.record.charge(bill.take_json)
        with CallContext(bill=bill):
            return await call()

    @property
    def event_fields(self) -> tuple[str, int, str, str]:
        """Return how its events name it."""
        return str(self.turn.agent.id), self.turn.iteration, self.call.id, self.call.name

    @property
    def details(self) -> dict[str, Any]:
        """Return what is recorded besides."""
        id = {"action": self.call.name, "id": self.call.id}
        fields = {**id, "iteration": self.turn.iteration, "call": self.place}
        action = self.call.action
        if action is not None and action.origin.agent is not None and not action.origin.is_part:
            run = run_id_of_call(action.origin.agent, self.turn.request, self.key)
            fields |= {} if run is None else {"asks": run}
        source = tracing.source_of(action)
        return fields if source is None else {**fields, "source": source}

    @property
    def hook_fields(self) -> dict[str, Any]:
        """Return what hooks get."""
        return {
            "action": self.call.name,
            "args": _copy_args(self.call.args),
            "iteration": self.turn.iteration,
            "call_id": self.call.id,
            **self.turn.request.run_fields,
        }

    def tell_end(self, result: dict[str, Any]) -> None:
        """Emit that the call has ended."""
        self.turn.request.tell(CallEnded, *self.event_fields, result, error_of(result))

    def result_of(self, data: dict[str, Any]) -> CallResult:
        """Return what came of the call, made once of each dict."""
        result = self.made_result
        if result is None or result.data is not data:
            sources = sources_of_result(self.call, self.turn.request.state.texts_by_origin, data)
            result = self.made_result = CallResult(data, sources)
        return result

    def dump(self, data_of_result: dict[str, Any]) -> dict[str, Any]:
        """Return its result as it is recorded."""
        call, result = self.call, self.result_of(data_of_result)
        data: dict[str, Any] = {"args": call.args, "result": result.to_json()}
        if call.original_args is not None:
            data["was"] = call.original_args
        if provenance := call.provenance(result.sources):
            data["provenance"] = as_json(provenance)
        return data if self.refused is None else {**data, "refused": True}

    def load(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return its recorded result."""
        self.change(data["args"], data.get("was"))
        result = dict(data["result"])
        self.refused = result if data.get("refused") else None
        call, record = self.call, self.turn.record
        past_step = None if record is None else record.find(self.key)
        call.restore(data.get("provenance"))
        if call.derived and call.resumed:
            note_foreign(call)
        if past_step is not None:
            self._restore_from(past_step)
        return result

    async def read_past_result(self) -> dict[str, Any]:
        """Return what came of a call that began before: to its `Later`, or a person's decision."""
        assert self.record is not None
        past_step, call = self.record.past, self.call
        texts = self.turn.request.state.texts_by_origin
        call.resumed = True
        self._restore_from(past_step)
        if past_step.is_decided and (decision := past_step.decision) is not None:
            call.is_stated = decision.type is not None or self.action.outside
            if error := decision.error_of(past_step.value):
                return {"tool_executed": False, "error": error}
            add_user_texts(call, texts, None, past_step.value)
            return {"tool_executed": True, "result": past_step.value}
        for key, each in past_step.requests.items():
            answer = past_step.answers.get(key)
            if answer is not None and each["kind"] == "question":  # before it returned `Later`
                add_user_texts(call, texts, None, answer.value)
        request = past_step.requests[past_step.later_key or ""]
        answer = past_step.answers[request["wait"]]
        call.read_sources = tuple(
            merged_sources((*call.read_sources, *request.get("read", ()), *answer.sources))
        )
        return as_result(request.get("name", request["wait"]), answer)

    def _restore_from(self, past_step: PastStep) -> None:
        """Note what its execution and its permission have changed before the run was cut off."""
        call, request = self.call, self.turn.request
        texts = request.state.texts_by_origin
        if call.foreign:
            note_execution(call, texts)
        request.allowed += [each for each in past_step.allowed if each not in request.allowed]
        if DECISION_KINDS.scope_of(past_step.permission) == "thread":
            call.always = tuple(past_step.allowed)
        if call.always and texts is not None:
            texts.permitted_values.update(call.always)


class ActionStep:
    """A call of an action, whose arguments a block may change before it goes on."""

    __slots__ = ("_step",)

    def __init__(self, step: LoopActionStep) -> None:
        self._step = step

    @property
    def key(self) -> str:
        """The key of its record, such as `2.0`: the first call of the second answer."""
        return self._step.key

    @property
    def iteration(self) -> int:
        """Which answer of the reply called it, from 1."""
        return self._step.turn.iteration

    @property
    def id(self) -> str:
        """The id of the call, as in the messages."""
        return self._step.call.id

    @property
    def name(self) -> str:
        """The action's name."""
        return self._step.call.name

    @property
    def action(self) -> Action:
        """The action."""
        return self._step.action

    @property
    def args(self) -> dict[str, Any]:
        """The arguments. Set others to change them; they are checked as the model's are."""
        return self._step.call.args

    @args.setter
    def args(self, args: dict[str, Any]) -> None:
        self._step.change(args)

    @property
    def context(self) -> Context[Any]:
        """The agent, the run, the thread, the budget and the `deps` of the reply."""
        return self._step.context


_SCALARS = frozenset((str, int, float, bool, type(None)))


def _copy_args(args: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of checked arguments that shares nothing mutable with them."""
    return args.copy() if _SCALARS.issuperset(map(type, args.values())) else copy_json(args)
