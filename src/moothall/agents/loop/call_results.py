"""The results of calls, as a model is shown them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moothall.actions.approval import Later
from moothall.actions.environment import failed_result
from moothall.actions.provenance.origin import merged_sources
from moothall.agents.replies.step import StepHandle
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import as_json, json_text, readable
from moothall.journal.store.wait_rows import WaitOutcome
from moothall.models.blocks import block_note, is_seen, without_seen

if TYPE_CHECKING:
    from moothall.agents.loop.answer import ToolCall

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

SCALARS: Final = frozenset((type(None), bool, int, float, str))
"""The classes of values that have no parts, such as images."""

NOT_RUN = "not executed, because another call of the same answer was wrong"


def error_of(result: dict[str, Any]) -> str | None:
    """Return the error in a result, as text; None without one."""
    error = result.get("error")
    return None if error is None else str(error)


def result_content(result: dict[str, Any]) -> str:
    """Return a result as a model reads it: the value as JSON (a text unchanged), or the error."""
    if result.get("error") is not None:
        return json.dumps({"error": readable(str(result["error"]))}, ensure_ascii=False)
    if "result" in result:
        value = result["result"]
        if value.__class__ not in SCALARS:
            with suppress(RecursionError):  # json_text says what contains itself
                value = _with_notes(value)
        return json_text(value)
    return json_text({key: value for key, value in result.items() if key != "traceback"})


def shown_content(model: Any, content: str, result: dict[str, Any]) -> str | list[dict[str, Any]]:
    """Return a result as a message has it: with its images and files, for a model that sees."""
    value = result.get("result")
    if not isinstance(value, list | dict) or not getattr(model, "reads_images", False):
        return content
    blocks = [each for each in _as_list(value) if is_seen(each)]
    return [{"type": "text", "text": content}, *blocks] if blocks else content


def as_seen(model: Any, prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a prompt with notes for what its model does not see."""
    if getattr(model, "reads_images", False) or not any(map(has_blocks, prompt)):
        return prompt
    return without_seen(prompt)


def has_blocks(message: dict[str, Any]) -> bool:
    """Return whether a message is a result with images or files."""
    return type(message.get("content")) is list and message.get("role") == "tool"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _with_notes(value: Any) -> Any:
    """Return a value with notes for its images, files and bytes, which are no text."""
    if isinstance(value, list):
        return list(map(_with_notes, value))
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"[{len(value):,} bytes, which are no text]"
    return block_note(value) if is_seen(value) else value


# -- that come later ------------------------------------------------------------------------------


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


async def result_of(later: Later, call: ToolCall, step: StepHandle | None) -> dict[str, Any]:
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
