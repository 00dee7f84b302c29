"""Actions: how methods become actions, what their arguments may be, and who may not call what."""

import functools
import threading
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field

from conformance.conftest import WAIT_S, Recorder, message, settle
from moothall import Agent, Context, action
from moothall.foundation.errors import (
    ActionNotFound,
    DefinitionError,
    InvalidArguments,
)

# -- what is an action -----------------------------------------------------------------------------


class Base(Agent):
    @action
    async def bare(self) -> str:
        return "bare"

    @action()
    async def with_parentheses(self) -> str:
        return "with parentheses"

    @action(name="other name")
    async def renamed(self) -> str:
        return "renamed"

    @action
    def plain(self) -> str:
        return "plain"

    async def unmarked(self) -> str:
        return "unmarked"

    @action
    async def greet(self, name: str = "you") -> str:
        return f"hello {name}"


class Child(Base):
    @action
    async def bare(self) -> str:
        return f"child of {await super().bare()}"

    async def greet(self, name: str = "you") -> str:  # an action still, as in the base
        return f"{await super().greet(name)}!"

    @action
    async def more(self) -> str:
        return "more"


class Grandchild(Child):
    @action
    def bare(self) -> str:
        return "grandchild"

    async def renamed(self) -> str:
        return f"again {await super().renamed()}"


@pytest.fixture
def me(space):
    return space.add(Recorder("me"))


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    (
        (Base, "bare", "bare"),
        (Base, "with_parentheses", "with parentheses"),
        (Base, "other name", "renamed"),
        (Base, "plain", "plain"),
        (Base, "greet", "hello you"),
        (Child, "bare", "child of bare"),
        (Child, "greet", "hello you!"),
        (Child, "plain", "plain"),
        (Child, "other name", "renamed"),
        (Child, "more", "more"),
        (Grandchild, "bare", "grandchild"),
        (Grandchild, "other name", "again renamed"),
        (Grandchild, "greet", "hello you!"),
    ),
)
def test_action_of_a_marked_method_is_called_and_inherited(space, me, kind, name, value):
    space.add(kind("agent"))
    assert me.ask("agent", name).result(timeout=10) == value


OF_A_METHOD = {
    "unmarked": ": its method unmarked lacks @action",
    "renamed": ": its method renamed is the action 'other name'",
}
"""What is told besides of a method that is no action of that name."""


@pytest.mark.parametrize(
    "name",
    (
        "unmarked",
        "renamed",
        "more",
        "Bare",
        "bare ",
        "__init__",
        "__class__",
        "send",
        "request",
        "ask",
        "before_action",
        "after_add",
        "request_permission",
        "_current_message",
        "offers",
        "id",
        "space",
        "ü",
        "x" * 255,
    ),
)
def test_action_names_that_are_no_actions_are_not_found(space, me, name):
    agent = space.add(Base("agent"))
    near = "; did you mean bare?" if name in ("Bare", "bare ") else ""
    told = f'"{name}" not found on "agent"{OF_A_METHOD.get(name, near)}'
    with pytest.raises(ActionNotFound) as caught:
        me.ask("agent", name).result(timeout=10)
    assert str(caught.value) == told
    me.send(message("agent", name))
    assert me.told() == [("error", {"error": told, "original_message_id": None})]
    assert agent.space is space
    assert me.ask("agent", "bare").result(timeout=10) == "bare"


def test_override_may_change_the_arguments(space, me):
    class Wider(Base):
        async def greet(self, name: str, times: int = 2) -> str:
            return f"hello {name}" * times

    space.add(Wider("wider"))
    assert me.ask("wider", "greet", name="x", times=1).result(timeout=10) == "hello x"
    with pytest.raises(InvalidArguments, match=r'"wider\.greet" missing argument "name"'):
        me.ask("wider", "greet").result(timeout=10)


def test_override_without_self_is_refused(space):
    class Static(Base):
        @staticmethod
        async def greet(name: str) -> str:
            return name

    with pytest.raises(DefinitionError, match=r"Static\.greet: a static or class method has no"):
        space.add(Static("static"))


def test_function_in_place_of_one_agents_action_takes_all_its_arguments(space, me):
    agent = Base("agent")
    agent.greet = lambda name, times: f"hi {name}" * times
    space.add(agent)
    assert me.ask("agent", "greet", name="x", times=2).result(timeout=10) == "hi xhi x"
    assert me.ask("agent", "bare").result(timeout=10) == "bare"


def test_actions_of_two_bases_are_both_there(space, me):
    class Other(Agent):
        @action
        async def more(self) -> str:
            return "from the other"

    class Both(Base, Other):
        pass

    space.add(Both("both"))
    assert me.ask("both", "bare").result(timeout=10) == "bare"
    assert me.ask("both", "more").result(timeout=10) == "from the other"


def test_mixin_that_is_no_agent_brings_its_actions(space, me):
    class Mixin:
        @action
        async def mixed(self) -> str:
            return f"mixed into {self.id}"

    class Mixed(Mixin, Agent):
        pass

    space.add(Mixed("agent"))
    assert me.ask("agent", "mixed").result(timeout=10) == "mixed into agent"


def test_wrapped_method_keeps_its_arguments(space, me):
    def shouting(function):
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> str:
            return (await function(*args, **kwargs)).upper()

        return wrapper

    class Wrapped(Agent):
        @action
        @shouting
        async def greet(self, name: str) -> str:
            return f"hello {name}"

    space.add(Wrapped("agent"))
    assert me.ask("agent", "greet", name="x").result(timeout=10) == "HELLO X"
    with pytest.raises(InvalidArguments, match=r'"agent\.greet" missing argument "name"'):
        me.ask("agent", "greet").result(timeout=10)


def test_plain_action_runs_in_a_worker_thread_unlike_an_async_one(space, me):
    class Where(Agent):
        @action
        async def loop(self) -> int:
            return threading.get_ident()

        @action
        def thread(self) -> int:
            return threading.get_ident()

    space.add(Where("where"))
    space.add(Where("elsewhere"))
    loop = me.ask("where", "loop").result(timeout=10)
    assert me.ask("elsewhere", "loop").result(timeout=10) == loop
    assert loop != threading.get_ident()
    assert me.ask("where", "thread").result(timeout=10) not in (loop, threading.get_ident())


def test_action_methods_may_be_called_by_their_agent_as_ever(space):
    class Adder(Agent):
        @action
        def add(self, a: int, b: int) -> int:
            return a + b

    assert Adder("adder").add(1, 2) == 3
    assert space.add(Adder("adder")).add(1, b=2) == 3


class AnyName(Agent):
    """Its arguments have the names that are used where a call is on its way."""

    @action
    async def async_call(self, function: int, args: int, kwargs: int, context: int) -> list:
        return [function, args, kwargs, context]

    @action
    def plain_call(self, function: int, args: int, kwargs: int, context: int) -> list:
        return [function, args, kwargs, context]

    @action
    async def async_message(self, to: int, action: int, message: int, timeout: int) -> list:
        return [to, action, message, timeout]

    @action
    def plain_message(self, to: int, action: int, message: int, timeout: int) -> list:
        return [to, action, message, timeout]


@pytest.mark.parametrize(
    ("name", "arguments"),
    (
        ("async_call", ("function", "args", "kwargs", "context")),
        ("plain_call", ("function", "args", "kwargs", "context")),
        ("async_message", ("to", "action", "message", "timeout")),
        ("plain_message", ("to", "action", "message", "timeout")),
    ),
)
def test_argument_may_have_any_name(space, me, name, arguments):
    space.add(AnyName("agent"))
    args = {argument: number for number, argument in enumerate(arguments)}
    message = {"to": "agent", "action": {"name": name, "args": args}}
    assert me.request(message).result(timeout=10) == [0, 1, 2, 3]


# -- arguments -------------------------------------------------------------------------------------


class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @action
    def add_plainly(self, a: int, b: int = 10) -> int:
        return a + b


@pytest.mark.parametrize(
    ("args", "text"),
    (
        ({"a": 1}, 'missing argument "b"'),
        ({"a": 1, "b": 2, "c": 3, "self": 4}, 'unexpected arguments "c", "self"'),
        ({"a": 1, "c": 3}, 'missing argument "b", unexpected argument "c"'),
        ({"a": 1, "b": "2"}, 'argument "b" must be integer, not string'),
    ),
)
def test_arguments_that_do_not_fit_are_named(space, me, args, text):
    space.add(Calculator("Calculator"))
    with pytest.raises(InvalidArguments) as caught:
        me.request(message("Calculator", "add") | {"action": {"name": "add", "args": args}}).result(
            timeout=10
        )
    assert str(caught.value) == f'"Calculator.add" {text}'
    me.send({"to": "Calculator", "action": {"name": "add", "args": args}})
    assert me.told() == [
        ("error", {"error": f'"Calculator.add" {text}', "original_message_id": None})
    ]
    assert me.ask("Calculator", "add", a=1, b=2).result(timeout=10) == 3


def test_argument_default_stands_in_for_what_is_not_given(space, me):
    space.add(Calculator("Calculator"))
    assert me.ask("Calculator", "add_plainly", a=1).result(timeout=10) == 11
    assert me.ask("Calculator", "add_plainly", a=1, b=1).result(timeout=10) == 2


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Order(BaseModel):
    item: str
    count: int = Field(default=1, ge=1)
    at: list[Point] = []


FITTING: dict[str, tuple[Any, Any, Any]] = {
    "int of a whole float": (int, 3.0, 3),
    "list of Enum": (list[Color], ["red", "blue"], [Color.RED, Color.BLUE]),
    "TypedDict": (Movie, {"title": "M"}, {"title": "M"}),
    "pydantic model": (Order, {"item": "tea", "at": [{"x": 1}]}, Order(item="tea", at=[Point(1)])),
    "datetime": (datetime, "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
    "set": (set[int], [1, 2, 2], {1, 2}),
}


def taker(annotation: Any, form: str) -> Agent:
    """An agent whose `take` has one parameter of this type, and keeps what it was given."""
    got: list[Any] = []
    if form == "async def":

        async def take(self, value) -> None:
            got.append(value)

    else:

        def take(self, value) -> None:
            got.append(value)

    take.__annotations__["value"] = annotation
    agent = type("Taker", (Agent,), {"take": action(take)})("taker")
    agent.got = got
    return agent


@pytest.mark.parametrize("form", ("async def", "def"))
@pytest.mark.parametrize("case", FITTING)
def test_argument_arrives_as_the_python_object_of_its_type(space, me, case, form):
    annotation, given, wanted = FITTING[case]
    agent = space.add(taker(annotation, form))
    me.ask("taker", "take", value=given).result(timeout=10)
    assert agent.got == [wanted]
    assert type(agent.got[0]) is type(wanted)


# -- Context ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ("async def", "def"))
def test_context_parameter_is_filled_in(space, me, form):
    got = []

    class Async(Agent):
        @action
        async def use(self, value: int, ctx: Context) -> None:
            got.append((value, ctx.agent, ctx.message, ctx.deps, ctx.sender))

    class Plain(Agent):
        @action
        def use(self, ctx: Context, value: int) -> None:
            got.append((value, ctx.agent, ctx.message, ctx.deps, ctx.sender))

    deps = object()
    agent = space.add((Async if form == "async def" else Plain)("agent", deps=deps))
    me.request({"id": "one", **message("agent", "use", value=1)}).result(timeout=10)
    assert got == [
        (
            1,
            agent,
            {
                "id": "one",
                "from": "me",
                "to": "agent",
                "action": {"name": "use", "args": {"value": 1}},
            },
            deps,
            "me",
        )
    ]


def test_context_parameter_cannot_be_given_nor_stands_in_the_help(space, me):
    class User(Agent):
        @action
        async def use(self, ctx: Context[dict], other: Context | None = None) -> str:
            """Use it.

            Args:
                ctx: the context
            """
            return type(ctx).__name__

    space.add(User("user"))
    assert me.ask("user", "use").result(timeout=10) == "Context"
    assert me.ask("user", "help").result(timeout=10)["use"]["args"] == {}
    with pytest.raises(InvalidArguments, match=r'"user\.use" unexpected argument "ctx"'):
        me.ask("user", "use", ctx={}).result(timeout=10)


def test_deps_are_none_where_none_were_given(space, me):
    class User(Agent):
        @action
        async def use(self, ctx: Context) -> bool:
            return ctx.deps is None and ctx.agent is self

    space.add(User("user"))
    assert me.ask("user", "use").result(timeout=10) is True


# -- two agents of one class -----------------------------------------------------------------------


def test_agents_of_one_class_do_not_share(space, me):
    class Counter(Agent):
        def __init__(self, id):
            super().__init__(id)
            self.count = 0

        @action
        async def up(self) -> int:
            self.count += 1
            return self.count

    one, two = space.add(Counter("one")), space.add(Counter("two"))
    assert me.ask("one", "up").result(timeout=10) == 1
    assert me.ask("one", "up").result(timeout=10) == 2
    assert me.ask("two", "up").result(timeout=10) == 1
    settle(me, one, two)
    assert (one.count, two.count) == (2, 1)


@pytest.mark.parametrize("after", (False, True), ids=("plain", "with a callback"))
def test_action_returned_awaitable_is_awaited(space: Any, after: bool) -> None:
    told: list[Any] = []

    class Forgets(Agent):
        @action
        async def one(self) -> int:
            return 1

        @action
        async def two(self) -> Any:
            return self.ask("other", "one")

        @action
        async def three(self) -> Any:
            return self.two()

    class Told(Forgets):
        def after_action(self, message: Any, return_value: Any, error: Any) -> None:
            told.append(return_value)

    space.add(Forgets("other"))
    space.add((Told if after else Forgets)("it"))
    me = space.add(Agent("me"))
    assert [me.ask("it", each).result(timeout=WAIT_S) for each in ("two", "three")] == [1, 1]
    assert told == [1, 1] * after
