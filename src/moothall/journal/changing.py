"""Recorded results of steps, changed in a copy of their run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from moothall.errors import ConfigError
from moothall.journal.entry import Entry
from moothall.jsonvalue import NotJSON, to_json


def with_results(entries: list[Entry], results: Mapping[int, Any]) -> list[Entry]:
    """Return the entries of a run up to the turn in which these steps ended, with new results.

    What came of the old result is left out: the copy does it anew. The calls of an answer do not
    depend on each other's results, so those beside a changed one stay.
    """
    if not isinstance(results, Mapping) or not results:
        raise ConfigError(
            "fork: results= must have a value for the number of each entry that it changes, such "
            f"as {{7: 3}}, got {results!r:.80}"
        )
    kept = {each.sequence: each for each in entries}
    for number in sorted(results, key=str):
        entry = kept.get(number) if type(number) is int else None
        if entry is None or entry.kind != "ended" or "result" not in entry.data:
            what = "there is none" if entry is None else f"it is of the kind {entry.kind!r}"
            raise ConfigError(
                f"fork: results= takes the numbers of entries in which a step ended with a result, "
                f"got {number!r:.80}: {what}"
            )
    ends = {number: _end(entries, kept[number]) for number in results}
    first = min(results)
    if (last := max(results)) > ends[first]:
        raise ConfigError(
            f"fork: results= has the entries {first} and {last}, but what follows the first is "
            "done anew, so the other has no result yet: fork the copy once more when it has"
        )
    dropped = {f"post_acting.{kept[number].data['key']}" for number in results}
    return [
        replace(each, data={**each.data, "result": _changed(each, results[each.sequence])})
        if each.sequence in results
        else each
        for each in entries[: min(ends.values())]
        if each.data.get("key") not in dropped
    ]


def _end(entries: list[Entry], changed: Entry) -> int:
    """Return the number of the last entry that does not depend on a step's result."""
    if "action" not in changed.data.get("about", {}):
        return changed.sequence
    later: Iterator[Entry] = (
        each
        for each in entries[changed.sequence :]
        if each.path == changed.path and each.kind in ("state", "over")
    )
    end = next(later, None)
    return len(entries) if end is None else end.sequence - 1


def _changed(entry: Entry, value: Any) -> Any:
    """Return the recorded form of a result."""
    where, about, was = f"fork: results[{entry.sequence}]", entry.data.get("about", {}), entry.data
    try:
        made = to_json(value)
    except NotJSON as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error
    if "action" in about:
        return {**was["result"], "result": {"tool_executed": True, "result": made}}
    if "model" not in about:
        return made
    if not isinstance(made, str):
        raise ConfigError(f"{where} must be the text of a model's answer, got {value!r:.80}")
    return {**was["result"], "text": made, "calls": [], "finish_reason": None}
