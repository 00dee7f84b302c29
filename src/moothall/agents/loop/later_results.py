"""The results of calls that come later, from the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moothall.actions.approval import Later
from moothall.actions.environment import failed_result
from moothall.actions.provenance.origin import merged_sources
from moothall.agents.replies.step import StepHandle
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import as_json
from moothall.journal.store.wait_rows import WaitOutcome

if TYPE_CHECKING:
    from moothall.agents.loop.answer import ToolCall


def data_of_call(call: ToolCall) -> dict[str, Any]:
    """Return what the journal keeps of a call that waits."""
    about: dict[str, Any] = {"action": call.name, "args": call.args, "call": call.id}
    if call.origins:
        about["origins"] = as_json(call.origins)
    if call.action is not None and call.action.facts:
        about["facts"] = {**call.action.facts}
    if call.read_sources:
        about["read"] = [*call.read_sources]
    return about


async def later_result(later: Later, call: ToolCall, step: StepHandle | None) -> dict[str, Any]:
    """Return the result of a call that comes later; raise Stop for its run to wait."""
    kind, name = "result", later.key or ""
    if step is None:
        text = f'"{call.name}" gives its result later, which needs an agent with a journal='
        return failed_result(ConfigError(text))
    if later.question is not None:
        raise await step.ask(later, **data_of_call(call))
    if later.key is not None:
        asks_agent = call.action is not None and call.action.origin.agent is not None
        key = name if asks_agent else step.key_of(name)  # of an agent, the run that it answers in
    elif later.until is not None:
        kind, key = "moment", f"moment-{step.hash_of('moment')[:16]}"
    else:
        return failed_result(ConfigError(f'"{call.name}" returned Later() without a key or until='))
    outcome = await step.find_outcome(key)
    if outcome is None:
        details = data_of_call(call)
        if kind == "result":
            details["name"] = name
        outcome = await step.wait(key, kind, later, **details)
    call.read_sources = (*merged_sources((*call.read_sources, *outcome.sources)),)
    return as_result(name or key, outcome)


def as_result(name: str, outcome: WaitOutcome) -> dict[str, Any]:
    """Return what came as the result of its call."""
    if outcome.expired:
        return {"tool_executed": True, "error": f"no result {name!r}: {outcome.late_text}"}
    return {"tool_executed": True, "result": outcome.value}
