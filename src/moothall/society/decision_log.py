"""The decisions of citizens' models, looked up in the journal of a run: prompt, cost and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from moothall import ConfigError, Usage
from moothall.build import UnreadableText, read_json
from moothall.journal import Entry, Journal

_RUN_KINDS: Final = ("Society", "Survey")


@dataclass(frozen=True)
class Decision:
    """One decision that a citizen asked its model for.

    Attributes:
        citizen: the citizen's id, as it is addressed
        step: the number of the step
        time: when that step began, in simulated time; None where it is not recorded
        model: the model's name
        messages: the prompt
        answer: what the model answered; None if it gave no answer
        failed: why it gave no answer; None if it gave one
        unused: why the rule decided in its place; None if the answer decided
        reason: the reason that the answer states, as the dispatcher asks for one; else `unused`, or
            empty
        tokens: how many tokens the call took; 0 if its server has not told
        usd: what it cost; None without a budget, which knows the prices
    """

    citizen: str
    step: int
    time: str | None
    model: str
    messages: list[dict[str, Any]]
    answer: str | None
    failed: str | None
    unused: str | None
    reason: str
    tokens: int
    usd: float | None

    @property
    def by(self) -> str:
        """Who decided: `model` or `rule`."""
        return "rule" if self.unused or self.failed else "model"


def decisions(
    journal: Journal,
    run_id: str,
    citizen: str | int | None = None,
    step: int | None = None,
) -> list[Decision]:
    """Return what citizens asked their models in a recorded run, in the order of the calls.

    An answer that citizens shared (`ask_once`) is there for each of them, with its cost for each.

    Args:
        journal: the journal
        run_id: the id of the run, or of a recorded survey
        citizen: only those of this citizen; None for all
        step: only those of this step; None for all

    Raises:
        ConfigError: the run is not one of a society
        NoSuchRun: there is no run of that id
    """
    kind = journal.run(run_id).kind
    if kind not in _RUN_KINDS:
        raise ConfigError(f"decisions are of a society's run, and {run_id!r} is of a {kind}")
    citizen_id = None if citizen is None else str(citizen)
    calls: dict[str, dict[str, Any]] = {}
    unused_by: dict[
        tuple[str, str], str | None
    ] = {}  # why an answer was unused, by call and citizen
    times: dict[int, str] = {}
    for entry in journal.entries(run_id):
        details = entry.subject
        times |= {row["step"]: row["time"] for row in entry.added.get("rows", ())}
        if "citizen" not in details:
            continue
        key = details.get("unused") or details.get("shared") or entry.key
        number = int(key.partition("/")[0])
        if step is not None and number != step:
            continue
        if citizen_id in (None, details["citizen"]):
            own_key = key, details["citizen"]
            unused_by[own_key] = entry.result if "unused" in details else unused_by.get(own_key)
        if "model" in details:
            call = calls.setdefault(
                key, {"step": number, "model": details["model"], "messages": []}
            )
            call |= _ended_call(entry) if entry.ends_step else _started_call(entry)
    records = [
        Decision(
            citizen=id,
            time=times.get(calls[key]["step"]),
            unused=unused,
            reason=_reason(calls[key]["answer"]) or unused or "",
            **calls[key],
        )
        for (key, id), unused in unused_by.items()
    ]
    return _with_repeats(records)


def _with_repeats(records: list[Decision]) -> list[Decision]:
    """Say of an answer after which a model was asked once more what was wrong with it."""
    next_decisions: dict[tuple[str, int], Decision] = {}
    for index in reversed(range(len(records))):
        decision = records[index]
        repeat = next_decisions.get((decision.citizen, decision.step))
        next_decisions[decision.citizen, decision.step] = decision
        count = len(decision.messages)
        if repeat is None or repeat.messages[:count] != decision.messages:
            continue
        if count == len(repeat.messages):
            continue
        if decision.unused is None and decision.failed is None:
            reason = str(repeat.messages[-1].get("content"))
            records[index] = replace(decision, unused=reason, reason=decision.reason or reason)
    return records


def _started_call(entry: Entry) -> dict[str, Any]:
    messages = (entry.args or {}).get("messages", [])
    unknown = {"answer": None, "failed": "no answer is recorded", "tokens": 0, "usd": None}
    return {"messages": messages, **unknown}


def _ended_call(entry: Entry) -> dict[str, Any]:
    result, charged = entry.result, entry.charged
    if not isinstance(result, dict):  # such as a call that was cancelled
        result = {"failed": "no answer is recorded"}
    answer = result.get("answer") or {}
    usage = answer.get("usage")
    tokens = 0 if usage is None else Usage(*usage).total
    return {
        "answer": answer.get("text"),
        "failed": result.get("failed"),
        "tokens": tokens if charged is None else charged["tokens"],
        "usd": None if charged is None else float(charged["usd"]),
    }


def _reason(answer: str | None) -> str:
    """Return the reason that an answer of JSON states; empty for none."""
    try:
        data = read_json(answer or "")
    except UnreadableText:
        return ""
    reason = data.get("reason") if isinstance(data, Mapping) else None
    return reason if isinstance(reason, str) else ""
