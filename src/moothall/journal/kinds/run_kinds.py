"""The kinds of runs whose records moothall's own classes write, as the owners register them.

Each house that has such a class says in its module `recorded_kinds` what the class records; it is
imported when somebody first reads such a run.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple, NotRequired

from typing_extensions import TypedDict

from moothall.journal.kinds.entry_kinds import data_fault

_PACKAGE: Final = "moothall"
_OWNERS_MODULE: Final = "recorded_kinds"
_NUMBERED_KEY: Final = re.compile(r"[0-9]{1,9}[./].*", re.DOTALL)


class _RunCallData(TypedDict):
    id: str
    name: str
    args: dict[str, Any] | str


class _RunAnswerData(TypedDict):
    text: str
    calls: list[_RunCallData]
    usage: list[int]
    reasoning: NotRequired[str]


class _RunAnswerEndData(TypedDict):
    result: _RunAnswerData


class _RunCallStartData(TypedDict):
    args: NotRequired[dict[str, Any] | str | None]


class _RunOutcomeData(TypedDict):
    args: dict[str, Any] | str | None
    result: dict[str, Any]


class _RunCallEndData(TypedDict):
    result: _RunOutcomeData


class _RunPartStartData(TypedDict):
    agent: str  # whose part it is


class _RunMessageData(TypedDict):
    role: str


class _RunMarksData(TypedDict):
    message: int
    provenance: NotRequired[dict[str, Any]]
    result: NotRequired[list[Any]]


class _RunAppendedData(TypedDict):
    messages: NotRequired[list[_RunMessageData]]
    marks: NotRequired[list[_RunMarksData]]


class _RunStateData(TypedDict):
    appended: _RunAppendedData


class RunKind(NamedTuple):
    """A kind of run: what its entries have and say besides those of every run, and its replay.

    Its types are TypedDicts, by which pydantic checks what is read.

    Attributes:
        name: the class of its agent, as its `begun` entry states it
        types: the type of an entry's data by the kind of the entry; of an `ended` one, by `answer`
            (of a model), `call` (of an action), or what its key names after a number, such as
            `plan` of `1.plan`
        end_fields: what its end has, of `text`, `value` and `usage`
        replay_module: the module whose `replayed_reply(run_id, entries)` rebuilds its reply; empty
            for a run without a reply
        has_numbered_steps: whether the key of a step begins with a number
        words: returns what the data of an entry says, in one line of plain words, by the kind of
            the entry; by `call`, what a dict says that an action returned. Empty: as of every run
        nouns: what one item of a list of its state is called, if not as the list without its `s`
    """

    name: str
    types: Mapping[str, Any]
    end_fields: tuple[str, ...] = ()
    replay_module: str = ""
    has_numbered_steps: bool = False
    words: Mapping[str, Callable[[dict[str, Any]], str]] = {}
    nouns: Mapping[str, str] = {}

    def register(self) -> None:
        """Have journals check and replay its runs."""
        _RUN_KINDS[self.name] = self

    def fault(self, kind: str, data: Any) -> str:
        """Return what of an entry is not as its class writes it; empty if nothing."""
        if kind == "ended" and self.has_numbered_steps and not _NUMBERED_KEY.fullmatch(data["key"]):
            must = f"key must begin with a number, as a step of a {self.name} does"
            return f"{must}, got {data['key']!r:.80}"
        data_type = self._data_type(kind, data if isinstance(data, dict) else {})
        return "" if data_type is None else data_fault(data_type, data)

    def _data_type(self, kind: str, data: dict[str, Any]) -> Any:
        """Return the type of an entry's data; None where nothing more is checked."""
        details = data.get("about", {})
        is_call = {"action", "iteration"} <= details.keys()
        if kind == "started":
            return _RunCallStartData if is_call else _RunPartStartData if "part" in data else None
        if kind != "ended":
            return self.types.get(kind, _RunStateData if kind == "state" else None)
        if "model" in details:
            return self.types.get("answer", _RunAnswerEndData)
        if is_call:
            return self.types.get("call", _RunCallEndData)
        return self.types.get(str(data.get("key")).partition(".")[2], self.types.get("step"))


_RUN_KINDS: Final[dict[str, RunKind]] = {}


def run_kind(name: object) -> RunKind | None:
    """Return the kind of a name; None for that of a program's own orchestrator."""
    _import_owners()
    return _RUN_KINDS.get(name) if isinstance(name, str) else None


def words_of_owners(kind: str, data: dict[str, Any]) -> str:
    """Return what an entry says by the words of whichever kind of run knows it; else empty."""
    _import_owners()
    for describe in [each.words[kind] for each in _RUN_KINDS.values() if kind in each.words]:
        with suppress(KeyError, TypeError, AttributeError, ValueError):  # not of this kind
            if words := describe(data):
                return words
    return ""


def noun_of(name: str) -> str:
    """Return what one item of a list of a state is called; empty if that is not known."""
    _import_owners()
    nouns = (each.nouns[name] for each in _RUN_KINDS.values() if name in each.nouns)
    return next(nouns, name[:-1] if name.endswith("s") else "")


@cache
def _import_owners() -> None:
    for house in pkgutil.iter_modules(importlib.import_module(_PACKAGE).__path__):
        # A house is not loaded to look into it: it may need an extra.
        spec = house.module_finder.find_spec(f"{_PACKAGE}.{house.name}", None)
        places = None if spec is None else spec.submodule_search_locations
        if any(each.name == _OWNERS_MODULE for each in pkgutil.iter_modules(places or ())):
            importlib.import_module(f"{_PACKAGE}.{house.name}.{_OWNERS_MODULE}")
