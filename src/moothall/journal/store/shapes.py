"""What the entries of a journal are like: checked once, where they are read.

Whoever reads an entry's data (a display, an agent that resumes, the studio) relies on these shapes.
What a program of the user's own records beside them is its own, and not checked. Saved states are
checked where they are loaded, by their dataclasses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from moothall.actions.approval.decision import DECISION_KINDS
from moothall.actions.facts import Fact
from moothall.budget.limits import RESERVABLE
from moothall.foundation.jsonvalue import as_json, json_text
from moothall.foundation.text import cut
from moothall.journal.entry import Entry, begin_data_of
from moothall.journal.kinds.entry_kinds import data_fault, kind_at
from moothall.journal.kinds.run_kinds import run_kind
from moothall.journal.kinds.shares import SHARE as SHARE  # so that it is registered
from moothall.journal.wait_kinds import DECISIONS, RESUME, WAIT_KINDS
from moothall.models.protocol import Usage

Shape: TypeAlias = Any
"""A type; a list of one shape; a dict of shapes by key (`key?` may be left out, other keys are
free); a tuple of which one fits; None; or a function that returns whether a value fits."""

_TYPE_NAMES: Final[dict[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
_EXCERPT_CHARS: Final = 60
_MAX_TIME_S: Final = 253_000_000_000
"""The year 9987, in seconds since 1970: later ones have no date."""


def _is_program(value: Any) -> bool:
    """Return whether it is the fingerprint of a program, which has those of its members."""
    if not isinstance(value, dict):
        return False
    members = value.get("members", [])
    return isinstance(members, list) and all(
        isinstance(each, list)
        and len(each) == 2
        and isinstance(each[0], str)
        and _is_program(each[1])
        for each in members
    )


def _has_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, list) for each in value.values())


def _has_hashes(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _has_facts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, Fact) for each in value.values())


def _is_cost(value: Any) -> bool:
    """Return whether it is an amount of US dollars, which is written as a text."""
    return (
        isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,20})?", value) is not None
    )


_DETAILS: Final = {
    **dict.fromkeys(("action?", "citizen?", "unused?", "shared?"), str),
    **dict.fromkeys(("model?", "id?"), (str, None)),
    "iteration?": int,
    "once?": list,
}
_AMOUNTS: Final = {
    f"{limit.name}?": int if limit.is_whole_number else _is_cost for limit in RESERVABLE
}
_CHARGE: Final = (None, {"tokens": int, "usd": _is_cost, "model_calls": int, **_AMOUNTS})
_STEP_DATA: Final = {
    "key": str,
    "about?": _DETAILS,
    "charged?": _CHARGE,
    "reserved?": _CHARGE,
    "allowed?": [str],
    "always?": bool,
}
_PERMISSION: Final = {
    "key": str,
    "fingerprint": str,
    **dict.fromkeys(("asked?", "args?", "was?"), dict),
    **dict.fromkeys(("action?", "proposed?", "by?"), str),
    **{f"{each.key}?": (bool, each.reads) for each in DECISION_KINDS if each.scope != "call"},
}

_SHAPE_BY_KIND: Final[dict[str, Shape]] = {
    "begun": {
        "kind": str,
        "agent": str,
        "fingerprint": (None, _is_program),
        "copied?": [{"key": str, "messages": int, "entries": int}],
        "handed_over?": {"entries": int, "withdrawn": [str]},
    },
    "started": {**_STEP_DATA, "part?": str, "agent?": str, "asks?": bool},
    "ended": {**_STEP_DATA, "kept?": (str, None)},
    "failed": {**_STEP_DATA, "error": str},
    "permitted": {**_PERMISSION, "allowed?": [str]},
    "refused": {**_PERMISSION, "refused": [str]},
    "waits": {
        "key": str,
        "wait": str,
        "kind": WAIT_KINDS.__contains__,
        "action?": str,
        "args?": dict,
        "text?": str,
        "who?": [str],
        "until?": (float, None),
        "remind?": (float, None),
        "name?": str,
        "takes?": [str],
        "schema?": dict,
        "read?": [str],
        "facts?": _has_facts,
        "charged?": _CHARGE,
    },
    "answered": {
        "key": str,
        "wait": str,
        "by?": (str, None),
        "expired?": bool,
        "sources?": [str],
    },
    "decided": {"key": str, "decision": (RESUME, *DECISIONS).__contains__},
    "state": {"state": dict, "appended": _has_lists, "earlier?": _has_hashes, "told_keys?": [str]},
    "over": {"reason": str, "detail?": (str, None)},
}
"""Of every run, by the kind of entry: a run of the user's own orchestrator has these, too."""


def end_of_cut_off(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the data of an end, but for its reason, of a run that was cut off: as its kind has it.

    A report is what its records say.
    """
    kind = run_kind((begin_data_of(entries) or {}).get("kind"))
    if kind is None or not kind.end_fields:
        return {}
    usage = Usage(**(Entry.state_in(entries) or {}).get("usage", {}))
    parts = {"text": "", "value": None, "usage": usage.to_json()}
    return {name: parts[name] for name in kind.end_fields}


class EntryChecker:
    """The shapes of a run's entries, in order: what began a part says what is in it."""

    def __init__(self) -> None:
        self._kind_by_path: dict[str, str] = {}

    def fault(self, path: Any, kind: Any, at: Any, data: Any) -> str:
        """Return what of an entry is not as moothall writes it; empty if nothing."""
        if not isinstance(path, str) or not isinstance(kind, str):
            return f"its part and kind must be texts, got {_excerpt([path, kind])}"
        if not _fits(at, float) or not 0 <= at < _MAX_TIME_S:
            return f"its time must be in seconds since 1970, got {_excerpt(at)}"
        if kind == "heard":  # whatever the user's own program was told
            return self._fault_of_ours(path, kind, data)
        if (noted_kind := kind_at(path)) is not None:
            return data_fault(noted_kind.data_type, data)
        problem = _fault(data, _SHAPE_BY_KIND.get(kind, dict), "")
        if kind == "begun" and not problem:
            self._kind_by_path[path] = data["kind"]
        return problem or self._fault_of_ours(path, kind, data)

    def _fault_of_ours(self, path: str, kind: str, data: Any) -> str:
        part_kind = run_kind(self._kind_by_path.get(path))
        return "" if part_kind is None else part_kind.fault(kind, data)


def fault_of(value: Any, shape: dict[str, Shape]) -> str:
    """Return what of an object does not have a shape; empty if nothing."""
    return _fault(value, shape, "")


def _fits(value: Any, shape: Shape) -> bool:
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, shape)


def _fault(value: Any, shape: Shape, path: str) -> str:
    """Return what does not fit a shape, and where; empty if it fits."""
    if shape is None:
        return "" if value is None else f"{path or 'it'} must be null, got {_excerpt(value)}"
    if isinstance(shape, type):
        if _fits(value, shape):
            return ""
        return f"{path or 'it'} must be {_TYPE_NAMES.get(shape, 'data')}, got {_excerpt(value)}"
    if isinstance(shape, tuple):
        faults = [_fault(value, each, path) for each in shape]
        return "" if "" in faults else faults[0]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{path or 'it'} must be a list, got {_excerpt(value)}"
        problems = (_fault(each, shape[0], f"{path}[{n}]") for n, each in enumerate(value))
        return next(filter(None, problems), "")
    if callable(shape):
        check: Callable[[Any], bool] = shape
        return "" if check(value) else f"{path or 'it'} must not be {_excerpt(value)}"
    return _fault_of_object(value, shape, path)


def _fault_of_object(value: Any, shape: dict[str, Shape], path: str) -> str:
    if not isinstance(value, dict):
        return f"{path or 'it'} must be an object, got {_excerpt(value)}"
    for key, inner_shape in shape.items():
        name = key.removesuffix("?")
        where = f"{path}.{name}" if path else name
        if name not in value:
            if name == key:
                return f"{where} is missing"
        elif problem := _fault(value[name], inner_shape, where):
            return problem
    return ""


def _excerpt(value: Any) -> str:
    return cut(json_text(as_json(value)), _EXCERPT_CHARS)
