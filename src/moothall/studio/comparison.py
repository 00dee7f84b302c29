"""Two runs beside each other: their steps, aligned, and the first one that differs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from moothall.journal.entry import Entry
from moothall.studio.run_view import Totals, shown

_STEPS: Final = 2_000
"""The most steps of a run that are compared: the first ones."""
_SAID: Final = 600
_CALLS: Final = 50
"""The most calls of an answer."""


def compared(one: Sequence[Entry], other: Sequence[Entry]) -> dict[str, Any]:
    """Return both runs' totals, and `rows` of `[step, step]` in order; None where one has none.

    A step is a call of a model or an action. Steps of the same name and input stand in one row;
    `first` is the first row whose steps differ, in input or outcome, or None. `cut` says whether
    steps were left out.
    """
    left, right = _steps(one), _steps(other)
    cut = max(len(left), len(right)) > _STEPS
    left, right = left[:_STEPS], right[:_STEPS]
    rows: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    mine, theirs = ([each["is"] for each in steps] for steps in (left, right))
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    for _, a, to_a, b, to_b in matcher.get_opcodes():
        for at in range(max(to_a - a, to_b - b)):
            first_of = left[a + at] if a + at < to_a else None
            second_of = right[b + at] if b + at < to_b else None
            rows.append((first_of, second_of))
    first = next((at for at, pair in enumerate(rows) if not _same(*pair)), None)
    told = [[*map(_told, pair), _same(*pair)] for pair in rows]
    totals = [Totals(each).to_json() for each in (one, other)]
    return {"rows": told, "first": first, "cut": cut, "totals": totals}


def _steps(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the calls of models and actions that ended or failed, in order."""
    began: dict[tuple[str, Any], Entry] = {}
    steps: list[dict[str, Any]] = []
    for entry in entries:
        key, about = (entry.path, entry.data.get("key")), entry.data.get("about")
        if entry.kind == "started":
            began[key] = entry
        if entry.kind not in ("ended", "failed") or not isinstance(about, dict):
            continue
        is_tool = "action" in about
        if not is_tool and "model" not in about:
            continue
        start = began.pop(key, None)
        row = shown(entry)
        result = entry.data.get("result", entry.data.get("error"))
        args = start.data.get("args") if start is not None else None
        if is_tool and isinstance(result, dict):
            args, result = result.get("args", args), _outcome(result.get("result", result))
        name = str(about["action"] if is_tool else about["model"])
        given = _text(args) if is_tool else ""
        said = result.get("text") if isinstance(result, dict) and not is_tool else result
        calls = result.get("calls") if isinstance(result, dict) and not is_tool else None
        steps.append(
            {
                "is": (entry.path, name, given),
                "outcome": _text([said, calls]),
                "sequence": entry.sequence,
                "path": entry.path,
                "kind": "tool" if is_tool else "model",
                "name": name,
                "given": given[:_SAID],
                "said": _text(said)[:_SAID],
                "calls": [
                    (str(each.get("name")), _text(each.get("args"))[:_SAID])
                    for each in (calls if isinstance(calls, list) else ())[:_CALLS]
                    if isinstance(each, dict)
                ],
                "seconds": None if start is None else max(entry.at - start.at, 0.0),
                "spent": row.get("spent"),
                "fault": row.get("fault"),
            }
        )
    return steps


def _outcome(result: Any) -> Any:
    """Return what an action gave or its error, without when it did."""
    if not isinstance(result, dict) or not result.keys() & {"error", "result"}:
        return result
    error = result.get("error")
    return result.get("result") if error is None else error


def _same(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    if one is None or other is None:
        return False
    return all(one[each] == other[each] for each in ("is", "outcome"))


def _told(step: dict[str, Any] | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {name: each for name, each in step.items() if name not in ("is", "outcome")}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
