"""What the records of societies and surveys have: checked where a journal is read."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

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


for _name in ("Society", "Survey"):
    RunKind(
        _name, {"state": _TownStateData, "answer": _TownAnswerEndData}, has_numbered_steps=True
    ).register()
