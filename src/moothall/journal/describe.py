"""The entries of a journal in plain words, a line for each, for the display of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from moothall.actions.approval.decision import DECISION_ENTRIES, DECISION_KINDS
from moothall.actions.provenance import Origin, origins_of
from moothall.foundation.text import counted, escaped, escaped_json
from moothall.journal.kinds.entry_kinds import ENTRY_KINDS
from moothall.journal.kinds.run_kinds import noun_of, words_of_owners
from moothall.journal.tally import fault_line, is_refused
from moothall.journal.wait_kinds import DECISIONS, RESUME, moment_text, wait_in_words, wait_of
from moothall.models.protocol import call_line

_FACTS_OF_ANSWERS: Final = {"answered_by": "answered by {}"}
"""What a line says of an answer's `meta`, in words, beside its text and calls."""


def entry_line(kind: str, data: dict[str, Any]) -> str:
    """Return what happened, in one line of plain words."""
    describe = ENTRY_KINDS[kind].line if kind in ENTRY_KINDS else _LINE_BY_KIND.get(kind)
    with suppress(KeyError, TypeError, AttributeError, ValueError):
        if line := words_of_owners(kind, data) or (describe and describe(data)):
            return escaped(line)
    return f"{escaped(kind)} {escaped_json(data)}"


def origins_in(result: Any) -> tuple[dict[str, list[Origin]], list[str]]:
    """Return the origins of a recorded call's arguments, and the sources of its result."""
    provenance = result.get("provenance") if isinstance(result, dict) else None
    if not isinstance(provenance, dict):
        return {}, []
    try:
        return origins_of(provenance.get("origins")), [
            str(each) for each in provenance.get("sources", ())
        ]
    except (TypeError, AttributeError):  # a user's own orchestrator uses the name for another thing
        return {}, []


def _outside_note(result: Any) -> str:
    """Return which arguments of a call came from outside, in words; empty for none."""
    notes = [
        f"{name}: {origin}"
        for name, origins in origins_in(result)[0].items()
        for origin in origins
        if origin.kind == "outside"
    ]
    return f" [{'; '.join(notes)}]" if notes else ""


def _begin_line(data: dict[str, Any]) -> str:
    if "handed_over" in data and data["fingerprint"] is None:
        return "handed over to the program as it is now"
    return f"task: {_text(data['task'])}" if data["task"] else f"begun: {data['kind']}"


def _started_line(data: dict[str, Any]) -> str:
    fields = data.get("about", {})
    if "part" in data:
        return f"turn of {data['agent']}: {data['part']}"
    if "action" in fields:
        return f"tool call: {call_line(fields['action'], data.get('args'))}"
    if "model" in fields:
        return f"model call {data['key']}: {fields['model'] or 'the model'}"
    args = "" if data.get("args") is None else f": {_text(data['args'])}"
    return f"step {data['key']} started{args}"


def _end_line(data: dict[str, Any]) -> str:
    details, result = data.get("about", {}), data.get("result")
    if "action" in details:
        return _tool_result_line(details["action"], result)
    if "model" in details:
        return _model_answer_line(data["key"], result)
    if "kept" in data:
        result = f"a value, kept as {data['kept'][:12]}"
    elif isinstance(result, dict):  # a reply, or a message that was passed on
        result = result.get("text" if "stop_reason" in result else "content", result)
    return f"step {data['key']} ended" + ("" if result is None else f": {_text(result)}")


def _tool_result_line(action: str, result: Any) -> str:
    source_note = ""
    if isinstance(result, dict) and isinstance(result.get("result"), dict):
        source_note = _outside_note(result)
        if sources := origins_in(result)[1]:
            source_note = f" (from outside: {', '.join(sources)}){source_note}"
        outcome = result["result"]
        if is_refused(action, result):
            return (
                f"tool call refused{_outside_note(result)}: {call_line(action, result.get('args'))}"
            )
        if outcome.get("error") is not None:
            return f"tool error: {action}{source_note}: {_text(outcome['error'])}"
        result = outcome.get("result")
    words = words_of_owners("call", result) if isinstance(result, dict) else ""
    return f"tool result: {action}{source_note}: {words or escaped_json(result)}"


def _model_answer_line(key: str, answer: Any) -> str:
    if answer.keys() == {"failed"}:  # the run goes on without the answer
        return f"model call {key} failed: {fault_line(answer['failed'])}"
    if answer.keys() == {"answer"}:
        answer = answer["answer"]
    parts = [_text(answer["text"])] if answer.get("text") else []
    calls = answer.get("calls") or ()
    parts += [f"call {call_line(call['name'], call['args'])}" for call in calls]
    if "type" not in answer:  # not the answer of an agent's loop; such as who is to speak next
        parts = [_text(answer)]
    meta = answer.get("meta") or {}
    facts = [words.format(meta[name]) for name, words in _FACTS_OF_ANSWERS.items() if name in meta]
    return f"model answer {key}: {'; '.join([*parts, *facts]) or '(empty)'}"


def _failure_line(data: dict[str, Any]) -> str:
    details = data.get("about", {})
    subject = f"step {data['key']}"
    if "model" in details:
        subject = f"model call {data['key']}"
    elif "action" in details:
        subject = f"tool call {details['action']}"
    cancelled = data.get("cancelled") or fault_line(data["error"]) == "cancelled"
    line = (
        f"{subject} was cancelled"
        if cancelled
        else f"{subject} failed: {fault_line(data['error'])}"
    )
    if charged := data.get("charged"):
        line += f"; charged {counted(charged['tokens'], 'token')}, {charged['usd']} US dollars"
    return line


def _decision_line(data: dict[str, Any]) -> str:
    decision = data["decision"]
    if decision == RESUME:
        return f"resumed by {data.get('by') or 'a person'}"
    words = DECISIONS[decision].line(data.get("value"))
    return f"decided by {data.get('by') or 'a person'}, step {data['key']}: {words}"


def _wait_line(data: dict[str, Any]) -> str:
    wait = wait_of(data, run="", agent="", thread=None, path="", step="")
    until = "" if wait.until is None else f", until {moment_text(wait.until)}"
    return f"step {data['key']} waits for {wait_in_words(wait)}{until}"


def _answer_line(data: dict[str, Any]) -> str:
    if data.get("expired"):
        return f"step {data['key']}: nobody has answered in time"
    if data.get("withdrawn"):
        return f"step {data['key']} waits no longer: it was answered elsewhere"
    by = f" by {data['by']}" if data.get("by") else ""
    return f"step {data['key']} was answered{by}: {escaped_json(data.get('value'))}"


def _heard_line(data: Any) -> str:
    if isinstance(data, dict) and data.keys().isdisjoint(("content", "text")):
        return "; ".join(f"{name}: {_text(value)}" for name, value in data.items())
    text = data.get("content", data.get("text")) if isinstance(data, dict) else data
    return "interrupted by the user" + ("" if text is None else f": {_text(text)}")


def _state_line(data: dict[str, Any]) -> str:
    state, appended = data["state"], data["appended"]
    counts = [_added_text(name, len(items)) for name, items in appended.items() if items]
    added = f" ({', '.join(counts)})" if counts else ""
    if not state.get("iteration", state.get("turns", 1)):
        return f"ready for the first turn{added}"
    messages = appended.get("messages", ())
    if state.get("faults"):
        return f"turn finished; the answer was unusable: {state['faults']}"
    if messages and all(each["role"] == "user" for each in messages):  # not what the model said
        return f"interrupted by the user: {'; '.join(_text(each['content']) for each in messages)}"
    return f"turn finished{added}"


def _added_text(name: str, count: int) -> str:
    noun = noun_of(name)
    return counted(count, noun) if noun else f"{count:,} in {name}"  # of the user's own state


def _over_line(data: dict[str, Any]) -> str:
    detail = f" ({data['detail']})" if data.get("detail") else ""
    text = f": {_text(data['text'])}" if data.get("text") else ""
    return f"over, {data['reason'].replace('_', ' ')}{detail}{text}"


def _doubt_decision_line(data: dict[str, Any]) -> str:
    args, old_args = data.get("args", data.get("asked", {})), data.get("was", {})
    call = call_line(data["action"], args) if "action" in data else f"step {data['key']}"
    outcome = DECISION_KINDS.outcome_of(DECISION_KINDS.read_entry(data))
    line = f"{outcome} by {data.get('by') or 'the approver'}: {call}"
    if "args" not in data:
        return line
    changes = [
        f"{name}: {escaped_json(old_args[name]) if name in old_args else '(not given)'} → "
        f"{escaped_json(args[name]) if name in args else '(left out)'}"
        for name in {**old_args, **args}
        if name not in old_args or name not in args or old_args[name] != args[name]
    ]
    return f"{line}, with arguments that a person changed: {'; '.join(changes)}"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else escaped_json(content)


_LINE_BY_KIND: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "begun": _begin_line,
    "started": _started_line,
    "ended": _end_line,
    "failed": _failure_line,
    **dict.fromkeys(DECISION_ENTRIES, _doubt_decision_line),
    "decided": _decision_line,
    "waits": _wait_line,
    "answered": _answer_line,
    "heard": _heard_line,
    "state": _state_line,
    "over": _over_line,
}
