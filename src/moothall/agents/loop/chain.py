"""What stands around a step of the loop, in one order: a call of the model, a call of an action.

A concern is `around(step, call)`, where `await call()` goes on to the next one. What is off is not
in the chain. A recorded result passes no hook and no block again. One that comes later (to a
`Later`, or by a person's decision) has the place of the call, and passes all that is around it, but
what stands before an execution: hooks, guard and approval had their say. Arguments that a hook or a
block changed are traced, guarded and permitted as they then are; what waits for a permission has
not begun. The actions of one answer are reserved together, around all its calls (`execute_within`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moothall.actions import ACCESS_PERMITTED
from moothall.actions.acting import CALL_SCOPE, scope_with
from moothall.actions.approval import Later
from moothall.actions.approval.decision import DECISION_KINDS
from moothall.actions.environment import failed_result
from moothall.agents.dispatch import block_name, blocks_with
from moothall.agents.loop.call_steps import ActionStep, ModelStep
from moothall.agents.loop.permission import permits
from moothall.agents.loop.prompt.room import make_room
from moothall.agents.loop.provenance import trace
from moothall.agents.replies.charging import begin_call
from moothall.agents.replies.events import EVENT_KINDS, BudgetLow, CallStarted
from moothall.agents.replies.hooks import (
    expect,
    expect_answer,
    expect_args,
    expect_messages,
    hooked_value,
    run_hooks,
)
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.state import ANSWER, Codec
from moothall.agents.replies.step import StepForm
from moothall.foundation import tracing
from moothall.foundation.errors import ContextOverflow, HookError, InvalidArguments
from moothall.foundation.jsonvalue import as_json
from moothall.foundation.threads import context_value, is_cancelled
from moothall.models.ask import run_as_attempt
from moothall.models.protocol import ModelReply, Usage

if TYPE_CHECKING:
    from moothall.agents.loop.call_steps import LoopActionStep, LoopModelStep
    from moothall.agents.loop.prompt.budget_notices import BudgetNotices
    from moothall.agents.replies.step import StepHandle

logger: logging.Logger = logging.getLogger("moothall.agents")

Call: TypeAlias = Callable[[], Awaitable[Any]]
# Of a call of an action, by whether it may be repeated, and whether it asks an agent.
_FORMS: Final = {
    (r, a): StepForm(not r, None, True, a) for r in (True, False) for a in (True, False)
}


def around_model(step: LoopModelStep, call: Call) -> Awaitable[Any]:
    """Call the model with what stands around that: here from the inside out."""
    run = step.run
    record, hooks, blocks = run.record, run.agent.hooks, run.model_blocks
    notices = run.agent.budget_notices
    if not (hooks or blocks or notices or run.state.unusable) and record is None:
        return _ask_shorter(step, call)  # the most frequent case
    pre_hooks = hooks and hooks.get("pre_reasoning")
    if run.state.unusable:
        call = partial(_retry_call, step, call)
    if record is not None:
        call = partial(_call_with_bill, step, call)
    if notices:
        call = partial(_show_budget, notices, step, call)
    for block in reversed(blocks):
        call = partial(_call_block_of_model, block, step, call)
    if pre_hooks:
        call = partial(_run_pre_reasoning, step, call)
    if record is not None and (pre_hooks or blocks or notices):
        call = partial(_commit_step, step, call)
    call = partial(_ask_shorter, step, call)
    if record is not None:
        call = partial(_record_answer, step, call)
    if hooks and hooks.get("post_reasoning"):
        call = partial(_run_post_reasoning, step, call)
    return call()


def around_action(step: LoopActionStep, call: Call) -> Call:
    """Return a call of an action with what stands around it: here from the inside out."""
    agent, request, blocks = step.turn.agent, step.turn.request, step.turn.blocks
    record, emit, tracer = request.recorded, request.emit, tracing.active
    hooks, is_guarded = agent.hooks, request.state.texts_by_origin is not None
    if blocks is None:
        blocks = blocks_with(agent.blocks, "around_action")
    action: Any = step.call.action
    may_ask = is_guarded or action.access_policy != ACCESS_PERMITTED
    if not (hooks or blocks or may_ask) and record is None and emit is None and tracer is None:
        return call  # the most frequent case
    past_step = None if record is None else record.find(step.key)
    pre_hooks = hooks and hooks.get("pre_acting")
    may_change = pre_hooks or blocks  # who may change the arguments, and what the thread has read
    # Its result stands or comes from elsewhere; an agent that waited is asked again.
    if (
        past_step is not None
        and past_step.is_over
        and not (past_step.later_key and step.action.origin.agent is not None)
    ):
        call, pre_hooks = step.read_past_result, None
        if past_step.state == "ended":
            tracer = emit = None
    else:
        if record is not None:
            call = partial(_begin_and_call, step, call)
        if may_change or may_ask:
            call = partial(_ask_permission, step, call)
        if emit is not None:
            call = partial(_tell_start, step, call)
    if may_change or is_guarded:
        call = partial(_trace_origins, step, call)
    if record is not None:
        call = partial(_restore_first_args, step, call)
    for block in reversed(blocks):
        call = partial(_call_block_of_action, block, step, call)
    if pre_hooks:
        call = partial(_run_pre_acting, step, call)
    if record is not None:
        call = partial(_record_execution, step, call)
        if past_step is not None and past_step.state != "ended":
            call = partial(step.call_as_begun, past_step, call)
    if hooks and hooks.get("post_acting"):
        call = partial(_run_post_acting, step, call)
    if emit is not None:
        call = partial(_show_end, step, call)
    if tracer is not None:
        call = partial(_trace_call, step, call)
    return call


# -- around a call of the model --------------------------------------------------------------------


async def _run_post_reasoning(step: LoopModelStep, call: Call) -> Any:
    run, answer = step.run, await call()
    hook_fields, check = step.hook_fields("answer", answer), partial(expect_answer, answer)
    hook_args = (run.agent, "post_reasoning", hook_fields, "answer", check, run.budget)
    return await hooked_value(run.record, f"{step.turn.iteration}", *hook_args, of=ANSWER)


def _count_usage(step: LoopModelStep, answer: Any) -> None:
    """Count what an answer took, before it is read: one that cannot be used costs tokens too."""
    thoughts = step.run.request.thoughts
    if thoughts is not None:
        thoughts.append(str(getattr(answer, "reasoning", "")))
    step.turn.usage = Usage.in_answer(answer)


async def _ask_shorter(step: LoopModelStep, call: Call) -> Any:
    """Ask once more with less, if that was too long; hooks and blocks see the shorter prompt."""
    try:
        answer = await call()
    except ContextOverflow:
        if not make_room(step.run.memory):
            raise
        step.prompt_messages = None
        answer = await call()
    if step.run.record is None:  # else it is counted once it is recorded, or read there
        _count_usage(step, answer)
    return answer


async def _record_answer(step: LoopModelStep, call: Call) -> Any:
    run = step.run
    assert run.record is not None
    name = getattr(run.model, "name", None)
    answer = await run.record.once(
        f"{step.turn.iteration}", partial(_set_record, step, call), of=ANSWER, model=name
    )
    _count_usage(step, answer)
    return answer


async def _commit_step(step: LoopModelStep, call: Call) -> Any:
    assert step.run.record is not None
    await step.run.record.commit()  # which puts messages into memory, and so the prompt
    return await call()


async def _run_pre_reasoning(step: LoopModelStep, call: Call) -> Any:
    run = step.run
    hook_fields = step.hook_fields("messages", step.prompt)
    changed = await run_hooks(run.agent, "pre_reasoning", hook_fields, expect_messages, run.budget)
    step.prompt_messages = changed["messages"]  # they are checked
    return await call()


async def _call_with_bill(step: LoopModelStep, call: Call) -> Any:
    """Record that the call begins, with what it reserves; a second one is on the same bill."""
    run, record, is_retry = step.run, step.record, step.bill is not None
    assert record is not None
    if step.bill is None:
        reservation_args: tuple[Any, ...] = ()
        if run.budget is not None:  # `begins` commits, which adds the other messages to memory
            prompt = step.prompt_messages or run.next_prompt()
            reservation_args = (prompt, run.view.offered.actions or None, step.schema)
        step.bill = await begin_call(record, run.budget, run.model, *reservation_args)
    with step.bill:
        record.tell(prompt=run.prompt_entry(step, is_retry))
        return await call()


async def _retry_call(step: LoopModelStep, call: Call) -> Any:
    return await run_as_attempt(step.run.state.unusable + 1, call())


async def _show_budget(notices: BudgetNotices, step: LoopModelStep, call: Call) -> Any:
    run, budget = step.run, step.run.budget
    if budget is None:
        return await call()
    if line := notices.line(budget):
        step.prompt_messages = [*step.prompt, {"role": "user", "content": line}]
    try:
        return await call()
    finally:
        for name, *amounts in notices.new_warnings(budget, run.warned_limits):
            run.warned_limits |= {name}
            run.request.tell(BudgetLow, str(run.agent.id), name, *amounts)


async def _call_block_of_model(block: Any, step: LoopModelStep, call: Call) -> Any:
    result, inner, error = await _call_block(block.around_model, ModelStep(step), call)
    if error is None and not (inner and result is inner[-1]) and not ModelReply.can_read(result):
        error = TypeError(f"it gave no answer of a model but {result!r:.80}")
    if error is not None:
        raise _block_error(step.run.agent, block, "around_model", error)
    return result


# -- around a call of an action --------------------------------------------------------------------


async def _trace_call(step: LoopActionStep, call: Call) -> Any:
    work = tracing.search_work(step.call, call)
    return await tracing.in_span(work, "tool", step.turn.agent, step.call, step.key)


async def _show_end(step: LoopActionStep, call: Call) -> Any:
    result = await call()
    step.tell_end(result)
    return result


async def _run_post_acting(step: LoopActionStep, call: Call) -> Any:
    turn, result = step.turn, await call()
    if step.refused is not None:
        return result
    hook_fields, check = {**step.hook_fields, "result": result}, partial(expect, kind=dict)
    hook_args = (turn.agent, "post_acting", hook_fields, "result", check)
    step.made_result = None  # a hook may change the dict in its place
    try:
        return await hooked_value(turn.record, step.key, *hook_args, beside=len(turn.calls) > 1)
    except HookError as error:
        turn.stops.append(Stop.on_hook(turn.agent.id, error))
        return result


async def _record_execution(step: LoopActionStep, call: Call) -> Any:
    record = step.turn.request.recorded
    assert record is not None
    step.call.key = step.key
    form = _FORMS[step.may_repeat, step.action.origin.agent is not None]
    codec, has_others = Codec(step.dump, step.load), len(step.turn.calls) > 1
    call = partial(_set_record, step, call)
    return await record.perform(step.key, call, form, codec, has_others, step.details)


async def _run_pre_acting(step: LoopActionStep, call: Call) -> Any:
    turn = step.turn
    if turn.record is not None:
        await turn.record.commit()  # hooks may see messages only once they are recorded
    try:
        hook_fields = step.hook_fields
        changed = await run_hooks(turn.agent, "pre_acting", hook_fields, expect_args)
        if changed["args"] is not hook_fields["args"]:
            step.change(changed["args"])
    except HookError as error:
        if error.__cause__ is None:  # no arguments: the model cannot repair that
            turn.stops.append(Stop.on_hook(turn.agent.id, error))
        else:  # the hook's exception tells the model why the call was not executed
            logger.warning("%s; it was not executed", error)
        step.refused = failed_result(error.__cause__ or error)
    except InvalidArguments as error:
        logger.warning("agent %r: a pre_acting hook gave wrong arguments: %s", turn.agent.id, error)
        step.refused = failed_result(error)
    return await call()


async def _call_block_of_action(block: Any, step: LoopActionStep, call: Call) -> Any:
    result, inner, error = await _call_block(block.around_action, ActionStep(step), call)
    if error is None and not (inner and result is inner[-1]) and not isinstance(result, dict):
        error = TypeError(f"it gave no result of an action, a dict, but {result!r:.80}")
    if error is None:
        return result
    block_error = _block_error(step.turn.agent, block, "around_action", error)
    step.turn.stops.append(Stop.on_hook(step.turn.agent.id, block_error))
    # What has been executed is recorded as executed: a resumed run does not repeat it.
    return inner[-1] if inner else failed_result(block_error)


async def _restore_first_args(step: LoopActionStep, call: Call) -> Any:
    record = step.record
    if record is not None and isinstance(record.args, dict):
        step.change(record.args, record.past.original_args)  # not what hooks and blocks say now
    return await call()


async def _trace_origins(step: LoopActionStep, call: Call) -> Any:
    texts = step.turn.request.state.texts_by_origin
    if texts is not None:
        trace(step.call, texts)
        if step.record is not None:
            step.record.tell(origins=as_json(step.call.origins))
    return await call()


async def _tell_start(step: LoopActionStep, call: Call) -> Any:
    tell, tool_call, event_fields = step.turn.request.tell, step.call, step.event_fields
    if not step.is_announced:  # a second try is the same call
        step.is_announced = True
        tell(CallStarted, *event_fields, tool_call.args, tool_call.origins)
    tool_call.on_event = lambda kind, text: tell(EVENT_KINDS[kind], *event_fields, text)
    try:
        return await call()
    finally:
        tool_call.on_event = None


async def _ask_permission(step: LoopActionStep, call: Call) -> Any:
    """Ask the policy, the guard of values from outside and the approver, unless a hook refused."""
    turn, tool_call = step.turn, step.call
    if (refused := step.refused) is not None:
        return refused
    if step.action.access_policy == ACCESS_PERMITTED and turn.request.state.texts_by_origin is None:
        return await call()
    try:
        with context_value(CALL_SCOPE, scope_with(tool_call)):  # what the approver has read
            decision = await permits(turn.agent, tool_call, turn.request, step.record)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed_result(error)  # what was awaited was cancelled, not this task
    if decision is not True:
        return failed_result(DECISION_KINDS.refusal_of(tool_call.name, decision))
    return await call()


async def _begin_and_call(step: LoopActionStep, call: Call) -> Any:
    assert step.record is not None
    await step.record.begins(step.call.args, resumes=step.action.origin.agent is not None)
    return await (call() if step.turn.budget is None else step.call_and_charge(call))


async def _set_record(step: LoopModelStep | LoopActionStep, call: Call, record: StepHandle) -> Any:
    step.record = record
    return await call()


async def _call_block(
    wrapper: Any, step: Any, call: Call
) -> tuple[Any, list[Any], BaseException | None]:
    """Call a block's function; return its result, those that came from within, and its error."""
    inner, inner_errors = list[Any](), list[BaseException]()

    async def go_on() -> Any:
        try:
            inner.append(await call())
        except BaseException as error:
            inner_errors.append(error)
            raise
        return inner[-1]

    try:
        return await wrapper(step, go_on), inner, None
    except (Exception, Later, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        if any(error is each for each in inner_errors):  # not the block's own
            raise
        return None, inner, error


def _block_error(agent: Any, block: Any, function: str, error: BaseException) -> HookError:
    reason = f"{type(error).__name__}: {error}"
    block_error = HookError(str(agent.id), function, block_name(block), reason)
    block_error.__cause__ = error
    return block_error
