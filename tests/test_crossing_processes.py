"""What programs pass between processes: public errors and values come back equal from a pickle and
a copy, and what belongs to one process says what to do in its place.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import dataclasses
import inspect
import multiprocessing
import pickle  # noqa: TID251 - users pickle; we read our own bytes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moothall
from moothall import (
    AMQPSpace,
    Budget,
    BudgetExceeded,
    Conversation,
    DefinitionError,
    Journal,
    Later,
    ModelError,
    MoothallError,
    NativeSpace,
    NoSuchFile,
    OpenAIModel,
    RateLimit,
    ReActAgent,
    RecordedModel,
    Reply,
    ScriptedModel,
    SQLiteMemory,
    TerminalApprover,
    Usage,
)
from moothall.spaces import Inbox
from test_public_paths import CLASSES

WAYS: dict[str, Callable[[Any], Any]] = {
    **{
        f"pickle {n}": lambda value, n=n: pickle.loads(pickle.dumps(value, n))  # noqa: S301
        for n in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
# Older pickles are Python 2's: they have no classes with slots, and `OSError` for its subclasses.
VALUE_WAYS = {name: way for name, way in WAYS.items() if name not in {f"pickle {n}" for n in "012"}}
ERRORS = {path: each for path, each in CLASSES.items() if issubclass(each, BaseException)}


def made(kind: type[BaseException]) -> BaseException:
    """An error of a class, with a text for each argument that it needs."""
    if "__init__" not in {name for each in kind.__mro__[:-2] for name in vars(each)}:
        return kind("a text")
    try:
        parameters = inspect.signature(kind).parameters.values()
    except ValueError:  # its `__init__` is a built-in class's
        return kind("a text")
    needed = [each for each in parameters if each.default is each.empty and each.kind < 2]
    return kind(*(f"a {each.name}" for each in needed))


def parts(error: BaseException) -> tuple[object, ...]:
    fields = {name: getattr(error, name, None) for name in ("errno", "filename", "name", "path")}
    return type(error), str(error), error.args, vars(error), fields


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ERRORS)
def test_public_error_comes_back_equal(path: str, way: str) -> None:
    error = made(ERRORS[path])
    error.add_note("a note")
    assert parts(WAYS[way](error)) == parts(error)


class Shut(moothall.ActionError):
    """A user's own."""

    def __init__(self, shop: str, *, until: int) -> None:
        super().__init__("Shut", f"{shop} is shut", "Shop.sell")
        self.shop, self.until = shop, until


class Worn(NoSuchFile):
    def __init__(self, path: str) -> None:
        super().__init__(2, "worn", path)


@pytest.mark.parametrize("way", WAYS)
def test_error_with_attributes_comes_back_equal(way: str) -> None:
    model_error = ModelError("no", of_content=True)
    model_error.status, model_error.usage = 429, Usage(3, 4)
    waiting = moothall.RunWaiting("waits", "desk.ask")
    waiting.run_id = "r"
    errors = (
        *(Shut("the shop", until=9), Worn("a.txt"), moothall.NoSuchFile(2, "no such file", "b")),
        *(model_error, waiting, moothall.MissingExtra("plots", "viz")),
        moothall.RunMismatch("r", ("task", "model"), "both", "begin anew"),
        Later("key", until=60, default=[1], who="Ada", text="Well?"),
    )
    for error in errors:
        again = WAYS[way](error)
        assert parts(again) == parts(error)
        assert repr(again) == repr(error)


def test_exceeded_budget_comes_back_without_the_accounts_of_its_process() -> None:
    with pytest.raises(BudgetExceeded) as caught:
        Budget(model_calls=1).reserve(model_calls=2)
    again = WAYS["pickle 4"](caught.value)
    assert (type(again), str(again), again.limit) == (
        BudgetExceeded,
        str(caught.value),
        "model_calls",
    )


# -- values ----------------------------------------------------------------------------------------


def down(messages: object, actions: object) -> str:
    raise ModelError("the server is down")


@moothall.action
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def replies() -> list[Reply]:
    calls = ScriptedModel([[moothall.Call("1", "double", {"n": 2})], "4"])
    return [
        ReActAgent("a", calls, actions=[double]).reply_sync("Twice 2?", tags={"for": "Ada"}),
        ReActAgent("b", ScriptedModel([down])).reply_sync("x"),
        ReActAgent("c", ScriptedModel(["x"]), budget=Budget(model_calls=0)).reply_sync("x"),
    ]


@pytest.mark.parametrize("way", VALUE_WAYS)
def test_reply_comes_back_equal_also_of_a_failure(way: str) -> None:
    for reply in replies():
        again = WAYS[way](reply)
        assert again == reply
        assert (str(again.error), type(again.error)) == (str(reply.error), type(reply.error))


def type_text(parameter: inspect.Parameter) -> str:
    """The text of a type; it is within a ForwardRef in Python 3.14."""
    return str(getattr(parameter.annotation, "__forward_arg__", parameter.annotation))


def filled(kind: type) -> Any:
    """A value of a public dataclass or named tuple, from its defaults and a text for the others."""
    parameters = inspect.signature(kind).parameters.values()
    words = {"str": "a text", "int": 1, "float": 0.5, "bool": True}
    return kind(
        **{
            each.name: words.get(type_text(each).split(" ")[0], {"a": 1})
            for each in parameters
            if each.default is each.empty and each.kind is not each.VAR_KEYWORD
        }
    )


def is_value(kind: type) -> bool:
    is_one = dataclasses.is_dataclass(kind) or issubclass(kind, tuple)
    return is_one and kind.__eq__ is not object.__eq__ and kind.__hash__ is not object.__hash__


KINDS_OF_VALUES = {path: each for path, each in CLASSES.items() if is_value(each)}


def made_values() -> dict[str, Any]:
    found = {}
    for path, kind in KINDS_OF_VALUES.items():
        with contextlib.suppress(MoothallError, TypeError, ValueError, AttributeError):
            found[path] = filled(kind)  # the others have agents, functions or rules of their own
    return found


VALUES = made_values()


@pytest.mark.parametrize("path", VALUES)
def test_public_value_comes_back_equal(path: str) -> None:
    for way in VALUE_WAYS.values():
        assert way(VALUES[path]) == VALUES[path]


def test_public_values_are_mostly_tried() -> None:
    assert len(VALUES) > 90
    assert len(VALUES) > 0.9 * len(KINDS_OF_VALUES), {*KINDS_OF_VALUES} - {*VALUES}


# -- what belongs to one process -------------------------------------------------------------------


def bound(folder: Path) -> dict[str, Any]:
    model, budget = ScriptedModel(["x"]), Budget(tokens=9)
    agent = ReActAgent("a", model, actions=[double])
    return {
        "make the agent in the function": agent,
        "make the agent in": Conversation([agent]),
        "make a space there": NativeSpace(),
        "an AMQPSpace spans": AMQPSpace(),
        "give its path": Journal(folder / "runs.db"),
        "open it there": SQLiteMemory(folder / "memory.db"),
        "by another path": Inbox(folder / "inbox.db"),
        "the same journal= and name=": budget,
        "make it there, or give its name": OpenAIModel("m", "http://h/v1", "key"),
        "same journal=": moothall.BudgetedModel(model, budget),
        "make it there": RecordedModel(model, folder / "calls.jsonl"),
        "with its share": RateLimit(requests_per_minute=9),
        "where the terminal is": TerminalApprover(),
        "its events or its reply": agent.stream("x"),
    }


def test_agent_and_what_else_belongs_to_a_process_says_what_to_do(tmp_path: Path) -> None:
    for remedy, each in bound(tmp_path).items():
        for way in ("pickle 2", "pickle 5", "deepcopy"):
            with pytest.raises(DefinitionError, match="cannot be pickled or copied") as caught:
                WAYS[way](each)
            assert remedy in str(caught.value)
            assert "the process that made it" in str(caught.value)


def test_agent_copied_flat_shares_its_parts() -> None:
    agent = ReActAgent("a", ScriptedModel(["x"]))
    assert copy.copy(agent).model is agent.model


# -- pools -----------------------------------------------------------------------------------------


def over_budget(n: int) -> str:
    agent = ReActAgent("a", ScriptedModel(["x"]), budget=Budget(model_calls=n))
    agent.reply_sync("x").raise_for_error()
    return "done"


def reply_of(n: int) -> Reply:
    return ReActAgent("a", ScriptedModel([f"{n}"])).reply_sync("x")


def agent_of(n: int) -> ReActAgent:
    return ReActAgent(f"a{n}", ScriptedModel(["x"]))


@pytest.mark.parametrize("start", ("spawn", "forkserver"))
def test_process_pool_gets_errors_and_replies_and_goes_on(start: str) -> None:
    context = multiprocessing.get_context(start)
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        with pytest.raises(BudgetExceeded, match="1 model calls are needed"):
            pool.submit(over_budget, 0).result()
        with pytest.raises(DefinitionError, match="make the agent in the function"):
            pool.submit(agent_of(1).reply_sync, "x").result()
        with pytest.raises(DefinitionError, match="make the agent in the function"):
            pool.submit(agent_of, 1).result()
        assert pool.submit(reply_of, 3).result().text == "3"
        assert pool.submit(over_budget, 1).result() == "done"


def test_multiprocessing_pool_does_not_wait_for_ever() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(BudgetExceeded):
            pool.apply_async(over_budget, (0,)).get(30)
        with pytest.raises(DefinitionError, match="make the agent in the function"):
            pool.apply_async(len, (agent_of(1),)).get(30)
        with pytest.raises(multiprocessing.pool.MaybeEncodingError, match="make the agent"):
            pool.apply_async(agent_of, (1,)).get(30)
