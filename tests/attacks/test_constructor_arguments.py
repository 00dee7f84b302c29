"""Constructors: a value of any wrong kind is taken, or refused in words that name the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Budget,
    City,
    Clock,
    Conversation,
    DualActAgent,
    Environment,
    Goal,
    Journal,
    Memory,
    MoothallError,
    NativeSpace,
    OpenAIModel,
    Price,
    Prices,
    ReActAgent,
    Researcher,
    ResourcePool,
    Retry,
    ScriptedModel,
    SQLiteMemory,
    TokenBoundedMemory,
)
from moothall.models import RateLimit
from moothall.serving import A2AAgent, MCPAgent, Restart, Schedule
from moothall.society import (
    Bank,
    Column,
    EconomyBlock,
    Facts,
    Feed,
    Firm,
    Government,
    Grid,
    MobilityBlock,
    Mode,
    Need,
    Network,
    Place,
    Plane,
    Question,
    Road,
    Society,
    Survey,
    Weather,
)

VALUES: tuple[Any, ...] = (
    *(None, -1, 0, 1.5, float("nan"), 10**400, True),
    *("", "\0", "\ud800", "x", b"x"),
    *([None], [b"x"], {1: 2}, {"x": None}, {b"x"}),
    *(object(), object, int, lambda *, given: given, range(2)),
)
"""What somebody may hand over by mistake; each of them is right somewhere."""


def agent(**options: Any) -> Any:
    return ReActAgent("anna", ScriptedModel(["x"]), **options)


VALID: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    each.__qualname__: (each, arguments)
    for each, arguments in (
        (A2AAgent, {"id": "anna", "url": "http://127.0.0.1:9"}),
        (Bank, {}),
        (Budget, {}),
        (City.generate, {"seed": 1, "citizens": 3}),
        (Clock, {}),
        (Column, {}),
        (Conversation, {"agents": [agent(), ReActAgent("ben", ScriptedModel(["x"]))]}),
        (DualActAgent, {"human": agent(), "reactive": ReActAgent("r", ScriptedModel(["x"]))}),
        (EconomyBlock, {}),
        (Environment, {}),
        (Facts, {}),
        (Feed, {}),
        (Firm, {"id": "f", "place": "p"}),
        (Goal, {"priority": 1, "name": "g", "description": "d"}),
        (Government, {}),
        (Grid, {"width": 3, "height": 3}),
        (Journal, {"path": "journal.db"}),
        (MCPAgent, {"id": "m", "command": ["true"]}),
        (Memory, {}),
        (MobilityBlock, {}),
        (Mode, {"name": "walk", "metres": 5000}),
        (NativeSpace, {}),
        (Need, {"name": "n", "remedy": "eat", "seconds": 60, "rates": {}}),
        (Network, {"nodes": ["a", "b"], "edges": [("a", "b")]}),
        (OpenAIModel, {"name": "m", "api_key": "k"}),
        (Place, {"id": "p", "kind": "shop", "x": 1, "y": 1}),
        (Plane, {"size": 3}),
        (Price, {"input": 1, "output": 2}),
        (Prices, {"stated": {}}),
        (Question, {"id": "q", "text": "How?"}),
        (RateLimit, {}),
        (ReActAgent, {"id": "anna", "model": ScriptedModel(["x"])}),
        (Researcher, {"id": "r", "model": None}),
        (ResourcePool, {}),
        (Restart, {}),
        (Retry, {}),
        (Road, {"a": "p", "b": "q", "metres": 4}),
        (SQLiteMemory, {"path": "memory.db"}),
        (Schedule, {"every": "1h"}),
        (ScriptedModel, {"replies": ["x"]}),
        (Society, {"citizens": 2}),
        (Survey, {"name": "s", "questions": [Question("q", "How?")]}),
        (TokenBoundedMemory, {}),
        (Weather, {"seed": 1}),
    )
}


def faults_of(make: Callable[..., Any], arguments: dict[str, Any]) -> list[str]:
    """Return what is neither taken nor refused in words that name the argument."""
    faults = []
    for each in inspect.signature(make).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        for value in VALUES:
            chosen = arguments | {each.name: value}
            given = [chosen.pop(each.name)] if each.kind is each.POSITIONAL_ONLY else []
            try:
                made = make(*given, **chosen)
            except MoothallError:
                continue
            except Exception as error:
                if not isinstance(error, TypeError | ValueError) or each.name not in str(error):
                    faults.append(f"{each.name}={value!r:.40}: {type(error).__name__}: {error}")
            else:
                if hasattr(made, "close") and not inspect.iscoroutinefunction(made.close):
                    made.close()
    return faults


@pytest.mark.parametrize("name", VALID)
def test_constructor_refuses_a_wrong_value_of_any_kind_in_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert faults_of(*VALID[name]) == []


@pytest.mark.parametrize("method", ("waiting", "delete", "run"))
def test_journal_refuses_a_wrong_filter_of_any_kind_in_words(method: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    agent(journal=journal).reply_sync("Hello.", run_id="r")
    arguments = {"run_id": "r"} if method == "run" else {}
    assert faults_of(getattr(journal, method), arguments) == []
