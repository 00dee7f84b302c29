"""What the records of societies and surveys have: checked where a journal is read."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from moothall.build import json_line
from moothall.journal import RunKind


class _TownRowData(TypedDict):
    step: int
    time: str


class _TownMessageData(TypedDict):
    role: str


class _TownAppendedData(TypedDict):
    messages: NotRequired[list[_TownMessageData]]
    rows: NotRequired[list[_TownRowData]]


class _TownStateData(TypedDict):
    appended: _TownAppendedData


class _TownAnswerData(TypedDict):
    text: str
    calls: list[Any]
    usage: list[int]


class _TownAnsweredData(TypedDict):
    answer: _TownAnswerData


class _TownFailedData(TypedDict):
    failed: str


class _TownAnswerEndData(TypedDict):
    result: _TownAnsweredData | _TownFailedData | str  # a text: why an answer was not used


def _intervention_in_words(data: dict[str, Any]) -> str:
    if "at_step" not in data:
        return ""
    when = data.get("when") or f"step {data['at_step']}"
    changes = {name: each for name, each in data.items() if each not in (None, [], {})}
    changes = {name: each for name, each in changes.items() if name not in ("at_step", "when")}
    return f"intervention at {when}: " + "; ".join(
        f"{name} {each if isinstance(each, str) else json_line(each, escapes=True)}"
        for name, each in sorted(changes.items())
    )


for _name in ("Society", "Survey"):
    RunKind(
        _name,
        {"state": _TownStateData, "answer": _TownAnswerEndData},
        has_numbered_steps=True,
        words={"heard": _intervention_in_words},
    ).register()
