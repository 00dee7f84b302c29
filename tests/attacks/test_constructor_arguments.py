"""Constructors: a value of any wrong kind is taken, or refused in words that name the argument."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    AMQPOptions,
    AMQPSpace,
    AnthropicModel,
    Budget,
    CitizenMemory,
    City,
    Clock,
    Conversation,
    ConversationalAgent,
    DualActAgent,
    DualActConfig,
    Environment,
    Goal,
    HashEmbedder,
    Host,
    Journal,
    Memory,
    MoothallError,
    NativeSpace,
    OpenAIModel,
    Price,
    Prices,
    ReActAgent,
    RecordedModel,
    RemoteAgent,
    Researcher,
    ResourcePool,
    Retry,
    ScriptedModel,
    SQLiteMemory,
    SummarizingMemory,
    TokenBoundedMemory,
)
from moothall.agents import Folder
from moothall.agents.loop.parts import LoopSettings
from moothall.budget.limits import Limits
from moothall.models import OpenAIEmbedder, RateLimit
from moothall.models.remote.server_settings import ServerOptions
from moothall.serving import A2AAgent, MCPAgent, Restart, Schedule
from moothall.society import (
    Bank,
    Column,
    EconomyBlock,
    EventService,
    Facts,
    Feed,
    Firm,
    Government,
    Grid,
    LabourMarket,
    LocalEngine,
    MobilityBlock,
    Mode,
    Need,
    Network,
    Place,
    Plane,
    Question,
    RayEngine,
    Road,
    Society,
    Survey,
    Transfers,
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
        (AMQPOptions, {}),
        (AMQPSpace, {}),
        (AnthropicModel, {"name": "m", "api_key": "k"}),
        (Bank, {}),
        (Budget, {}),
        (CitizenMemory, {}),
        (City.generate, {"seed": 1, "citizens": 10}),
        (Clock, {}),
        (Column, {}),
        (Conversation, {"agents": [agent(), ReActAgent("ben", ScriptedModel(["x"]))]}),
        (ConversationalAgent, {"id": "anna"}),
        (DualActConfig, {"human": agent(), "reactive": ReActAgent("r", ScriptedModel(["x"]))}),
        (DualActAgent, {"human": agent(), "reactive": ReActAgent("r", ScriptedModel(["x"]))}),
        (EconomyBlock, {}),
        (Environment, {}),
        (EventService, {"id": "events"}),
        (Facts, {}),
        (Feed, {}),
        (Firm, {"id": "f", "place": "p"}),
        (Folder, {"root": "."}),
        (Goal, {"priority": 1, "name": "g", "description": "d"}),
        (Government, {}),
        (Grid, {"width": 3, "height": 3}),
        (HashEmbedder, {}),
        (Host, {"id": "host"}),
        (Journal, {"path": "journal.db"}),
        (LabourMarket, {}),
        (LocalEngine, {}),
        (MCPAgent, {"id": "m", "target": ["true"]}),
        (Memory, {}),
        (MobilityBlock, {}),
        (Mode, {"name": "walk", "metres": 5000}),
        (NativeSpace, {}),
        (Need, {"name": "n", "remedy": "eat", "seconds": 60, "rates": {"idle": 1}}),
        (Network, {"nodes": ["a", "b"], "edges": [("a", "b")]}),
        (OpenAIEmbedder, {"name": "m", "api_key": "k"}),
        (OpenAIModel, {"name": "m", "api_key": "k"}),
        (Place, {"id": "p", "kind": "shop", "x": 1, "y": 1}),
        (Plane, {"size": 3}),
        (Price, {"input": 1, "output": 2}),
        (Prices, {"stated": {}}),
        (Question, {"id": "q", "text": "How?"}),
        (RateLimit, {}),
        (RayEngine, {}),
        (ReActAgent, {"id": "anna", "model": ScriptedModel(["x"])}),
        (RecordedModel, {"path": "r.json", "model": ScriptedModel(["x"])}),
        (RemoteAgent, {"via": agent(), "id": "ben"}),
        (Researcher, {"id": "r", "model": None}),
        (ResourcePool, {}),
        (Restart, {}),
        (Retry, {}),
        (Road, {"a": "p", "b": "q", "metres": 4}),
        (SQLiteMemory, {"path": "memory.db"}),
        (Schedule, {"every": 60}),
        (ScriptedModel, {"replies": ["x"]}),
        (Society, {"citizens": 2}),
        (SummarizingMemory, {"model": ScriptedModel(["x"])}),
        (Survey, {"name": "s", "questions": [Question("q", "How?")]}),
        (TokenBoundedMemory, {}),
        (Transfers, {}),
        (Weather, {"seed": 1}),
    )
}


NUMBERS: dict[str, str] = {
    "A2AAgent": "timeout_s=300.0 >0..",
    "AMQPOptions": "port=None 1..65535, heartbeat=60 1..65535",
    "AMQPSpace": (
        "mailbox=10000 1.., keep=86400.0 1..2000000, mailbox_bytes=134217728 1.., "
        "prefetch=None 1..65535, prefetch_bytes=67108864 1.., deliveries=5 1.., grace=5.0 0.."
    ),
    "AnthropicModel": "max_tokens=4096 1.., temperature=None 0..10",
    "Bank": "money=0 0.., interest=27 0..1000000",
    "Budget": (
        "tokens 0..9007199254740992, usd 0..10000000000000000, model_calls 0..9007199254740992, "
        "actions 0..9007199254740992, seconds 0..9007199254740992"
    ),
    "CitizenMemory": "most=None 1..",
    "City.generate": "seed 0..18446744073709551615, citizens 10..",
    "Clock": "index=0 0.., before=0 0..",
    "Column": "width=None 1..",
    "Conversation": "max_turns=None 1..",
    "ConversationalAgent": "max_depth=8 1.., max_nested_model_calls=500 0..",
    "DualActConfig": "max_hr_loops=5 1..",
    "EventService": "money=0 0..",
    "Feed": "most=10000 1..",
    "Firm": (
        "money=0 0.., wage=2500 0..1000000000000, price=100 1..1000000000000, "
        "stock=0 0..1000000000000, output=25 0..1000000000000"
    ),
    "Folder": "max_bytes=1048576",
    "Government": (
        "money=0 0.., reserve=None 0.., seed=0, most_price=50 0..1000, most_wage=50 0..1000, "
        "month=30 1.., daily=50 0..1000, cover=2 0.., contribution=0 0..1000"
    ),
    "Grid": (
        "width 1..100000, height 1..100000, around=8, capacity=1 0..1000000000, "
        "cell_seconds=60 0..86400"
    ),
    "HashEmbedder": "dimensions=256 8..65536",
    "Host": "command_timeout=30.0 >0.., max_file_bytes=1073741824 0..",
    "Journal": "timeout=10 0..",
    "LabourMarket": (
        "seed=0 0..18446744073709551615, leaves=650 0..1000000, moves=600 0..1000000, "
        "finds=17000 0..1000000, fires=50 0..1000, benefit=400 0..1000, weeks=26 0.., "
        "wage=2500 0.., elasticity=500 0..1000, layoff_day=None 1.., layoffs=0 0..1000"
    ),
    "LocalEngine": "concurrency=64 1.., threads=1 1..",
    "MCPAgent": "timeout_s=60 >0..",
    "Mode": "metres 1..1000000, seconds=1 1..86400, wait=0 0..86400",
    "NativeSpace": "mailbox=10000 1.., mailbox_bytes=134217728 1.., grace=None 0..",
    "Need": "seconds 1..86400",
    "Network": "edge_seconds=60 1..86400",
    "OpenAIEmbedder": "dimensions=None 1.., timeout=60.0 >0.., max_retries=2 0..",
    "OpenAIModel": (
        "max_tokens=4096 1.., temperature=None 0..10, seed=None, context_tokens 1.., "
        "timeout >0.., max_retries 0.., connections 1.."
    ),
    "Place": (
        "x -10000000..10000000, y -10000000..10000000, capacity=1 0..1000000000, "
        "opens=0 0..86399, closes=86400 1..86400"
    ),
    "Price": (
        "input 0..10000000000000000, output 0..10000000000000000, "
        "cache_read=None 0..10000000000000000, cache_write=None 0..10000000000000000"
    ),
    "Question": "low=None, high=None",
    "RateLimit": "requests_per_minute=None 1.., tokens_per_minute=None 1..",
    "RayEngine": "workers=2 1.., concurrency=64 1..",
    "ReActAgent": (
        "warn_at=None >0..1, concurrency 1.., max_depth 1.., max_nested_model_calls 0.., "
        "max_iterations 1.., max_result_chars 1.., tries 0.., max_background 0.."
    ),
    "RecordedModel": "context_tokens=None 1.., max_tokens=None 1..",
    "RemoteAgent": "timeout=300 >0..",
    "Researcher": "iterations=3 1.., target=0.9 >0..1, max_tasks=8 1.., context_tokens=None 1..",
    "Restart": (
        "most=5 0.., within=600.0 0..1000000, first=0.2 0..1000000, longest=30.0 0..1000000, "
        "steady=60.0 0..1000000"
    ),
    "Retry": "times=3 1.., backoff=1.0 0.., longest=60.0 0..",
    "Road": "metres 1..1000000",
    "SQLiteMemory": "tokens=8192 1.., timeout=10 0..",
    "Schedule": "every=None 0.01..1e8",
    "ScriptedModel": "context_tokens=None 1.., max_tokens=None 1..",
    "Society": (
        "seed=0 0..18446744073709551615, model_timeout_s=60 >0.., turn_timeout_s=600 >0.., "
        "mailbox=1000 1.."
    ),
    "SummarizingMemory": "tokens=8192 4.., keep=None 1..8191",
    "TokenBoundedMemory": "max_tokens=8192 1.., reply_tokens=None 1..",
    "Transfers": "wage=2500 0.., pension=1000 0.., rent=450 0..",
    "Weather": "seed 0..18446744073709551615",
}
"""The numbers that a constructor takes: each with its default, and the least and the most of it."""

OPTIONS: dict[str, Any] = {
    "AnthropicModel": ServerOptions,
    "Budget": Limits,
    "OpenAIModel": ServerOptions,
    "ReActAgent": LoopSettings,
}
"""The further arguments of some constructors."""

CHECKED_LATER = {
    *("Bank", "Column", "EventService", "Feed", "Firm", "Goal", "Government", "LabourMarket"),
    *("Need", "Transfers"),
}
"""Whose other values are refused by the society, or the agent, that they are given to."""


def types_of(make: Callable[..., Any]) -> dict[str, str]:
    """Return the types of the arguments of a constructor, as they are written."""
    given = inspect.signature(make).parameters.values()
    types = {each.name: str(each.annotation) for each in given if each.kind < each.VAR_KEYWORD}
    options = getattr(OPTIONS.get(make.__qualname__), "__annotations__", {})
    return types | {name: each.__forward_arg__ for name, each in options.items()}


def made_with(make: Callable[..., Any], arguments: dict[str, Any], name: str, value: Any) -> None:
    """Make an object with another value of one argument."""
    chosen = arguments | {name: value}
    parameter = inspect.signature(make).parameters.get(name)
    is_first = parameter is not None and parameter.kind is parameter.POSITIONAL_ONLY
    made = make(*[chosen.pop(name)] if is_first else [], **chosen)
    if hasattr(made, "close") and not inspect.iscoroutinefunction(made.close):
        made.close()


def faults_of(make: Callable[..., Any], arguments: dict[str, Any]) -> list[str]:
    """Return what is neither taken nor refused in words that name the argument."""
    faults = []
    for each in inspect.signature(make).parameters.values():
        is_rest = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if is_rest:
            continue
        for value in VALUES:
            try:
                made_with(make, arguments, each.name, value)
            except MoothallError:
                continue
            except Exception as error:
                if not isinstance(error, TypeError | ValueError) or each.name not in str(error):
                    faults.append(f"{each.name}={value!r:.40}: {type(error).__name__}: {error}")
    return faults


@pytest.mark.parametrize("name", sorted({*VALID} - CHECKED_LATER))
def test_constructor_refuses_a_value_of_another_type_than_it_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, arguments = VALID[name]
    types: dict[str, tuple[type, ...]]
    types = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
    types["None"] = (type(None),)
    taken = []
    for argument, written in types_of(make).items():
        kinds = written.split(" | ")
        fitting = [it for kind in kinds for it in types.get(kind, (object,))]
        for value in (None, 1.5, 2, True, float("nan"), "x", b"x", [None], object()):
            if object in fitting or (type(value) in fitting and value == value):
                continue
            with suppress(MoothallError):
                made_with(make, arguments, argument, value)
                taken.append(f"{argument}={value!r}")
    assert taken == []


@pytest.mark.parametrize("name", NUMBERS)
def test_number_has_its_default_and_the_least_and_the_most_that_it_may_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, arguments = VALID[name]
    parameters = inspect.signature(make).parameters
    for entry in NUMBERS[name].split(", "):
        stated, _, span = entry.partition(" ")
        argument, has_default, default = stated.partition("=")
        if has_default:
            assert repr(parameters[argument].default) == default, entry
        is_whole = "float" not in types_of(make)[argument]
        for end, beyond in zip(span.split(".."), (-1, 1), strict=False):
            if not (number := end.removeprefix(">")):
                continue
            last = int(number) if is_whole else float(number)
            after = last + beyond if is_whole else math.nextafter(last, beyond * math.inf)
            if end == number:
                made_with(make, arguments, argument, last)
            else:
                after = last
            with pytest.raises(MoothallError):
                made_with(make, arguments, argument, after)


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
