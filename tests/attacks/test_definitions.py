"""Actions that cannot work are refused where they are defined, or at the latest where added.

Each error names the action and what is wrong with it, and another agent still works.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any

import pytest

from conformance.conftest import Recorder, message
from moothall import (
    Action,
    ActionRegistry,
    Agent,
    Block,
    Call,
    OpenAIFunctionAgent,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.foundation.errors import DefinitionError, MoothallError
from moothall.research import Researcher


def works(space):
    me, other = space.add(Agent("me")), space.add(Recorder("other"))
    me.send(message("other", "say", content="good"))
    assert other.told() == [("say", {"content": "good"})]
    assert me.ask("other", "help").result(timeout=10) == {"say": other.offers["say"].help}


def refused(caught, *texts):
    error = caught.value
    assert isinstance(error, DefinitionError)
    assert isinstance(error, MoothallError)
    assert isinstance(error, TypeError)
    for text in texts:
        assert text in str(error)
    assert len(str(error)) < 2000


# -- the ways to define an action ------------------------------------------------------------------


def as_method(function: Callable[..., Any]) -> None:
    action(function)


def as_method_with_options(function: Callable[..., Any]) -> None:
    action(name="go", terminal=True)(function)


def as_action(function: Callable[..., Any]) -> None:
    Action("go", function)


def as_action_of(function: Callable[..., Any]) -> None:
    Action.of(function)


def as_registered(function: Callable[..., Any]) -> None:
    ActionRegistry().register(function)


MECHANISMS = pytest.mark.parametrize(
    "define", (as_method, as_method_with_options, as_action, as_action_of, as_registered)
)


# -- parameters that nobody can give by name -------------------------------------------------------


def star(*places): ...


@MECHANISMS
def test_parameters_that_nobody_can_give_are_refused_at_definition(space, define):
    with pytest.raises(DefinitionError) as caught:
        define(star)
    refused(caught, "*places")
    works(space)


def test_definition_error_names_the_method(space):
    with pytest.raises(DefinitionError) as caught:

        class Wrong(Agent):
            @action
            async def go(self, *places: str) -> None: ...

    refused(caught, "Wrong.go", "*places", "list parameter instead")
    works(space)


def test_override_that_nobody_can_call_is_refused_by_add(space):
    class Base(Agent):
        @action
        async def go(self, place: str) -> None: ...

    class Wrong(Base):
        async def go(self, *places: str) -> None: ...

    with pytest.raises(DefinitionError) as caught:
        space.add(Wrong("wrong"))
    refused(caught, "Wrong.go", "*places")
    assert space.ids() == []
    works(space)


# -- things that are no functions ------------------------------------------------------------------


def test_override_that_yields_is_no_action(space):
    class Counter(Agent):
        @action
        async def count(self, n: int) -> int:
            return n

    class Yielding(Counter):
        async def count(self, n: int):
            yield n

    for use in (space.add, lambda agent: agent.offers):
        with pytest.raises(DefinitionError) as caught:
            use(Yielding("counter"))
        refused(caught, "Yielding", "count", "yield")
    works(space)


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ("object", [], 1, True, {"type": "object"}.items()))
def test_parameters_by_hand_are_a_schema(space, parameters):
    with pytest.raises(DefinitionError, match="parameters must be a JSON schema"):
        Action("go", star, "Goes", parameters)
    works(space)


# -- two actions of one name -----------------------------------------------------------------------


def test_actions_of_one_name_in_two_methods_are_refused(space):
    class Twins(Agent):
        @action(name="go")
        async def first(self) -> None: ...

        @action(name="go")
        async def second(self) -> None: ...

    with pytest.raises(DefinitionError) as caught:
        space.add(Twins("twins"))
    refused(caught, "Twins", "first", "second", '"go"')
    assert space.ids() == []
    works(space)


def test_action_name_that_takes_the_place_of_another_method_is_refused(space):
    class Taken(Agent):
        @action
        async def go(self) -> None: ...

        @action(name="go")
        async def went(self) -> None: ...

    with pytest.raises(DefinitionError, match='"go"'):
        space.add(Taken("taken"))
    works(space)


# -- types -----------------------------------------------------------------------------------------


class NoJSON:
    """A class that nothing can be made of."""


class Meddling:
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        raise RuntimeError("this class breaks whoever asks it")


def hinted(annotation: Any) -> Callable[..., Any]:
    def go(self, thing) -> None: ...

    go.__qualname__ = "Typed.go"
    go.__annotations__["thing"] = annotation
    return go


TYPES: dict[str, Any] = {
    "class": NoJSON,
    "unresolved name": "NoSuchName",
    "syntax error": "list[",
    "meddling class": Meddling,
}


@pytest.mark.parametrize("case", TYPES)
def test_parameter_type_without_a_json_form_is_refused_by_add(space, case):
    agent = type("Typed", (Agent,), {"go": action(hinted(TYPES[case]))})("typed")
    with pytest.raises(DefinitionError) as caught:
        space.add(agent)
    refused(caught, "Typed.go", '"thing"')
    assert space.ids() == []
    assert agent.space is None
    works(space)


def test_return_type_without_a_json_form_is_no_fault(space):
    class Maker(Agent):
        @action
        async def make(self) -> NoJSON:
            return NoJSON()

    space.add(Maker("maker"))
    me = space.add(Agent("asker"))
    assert "returns" not in me.ask("maker", "help").result(timeout=10)["make"]
    with pytest.raises(MoothallError, match="not a JSON value"):
        me.ask("maker", "make").result(timeout=10)
    works(space)


def test_surrogate_in_the_description_of_an_action_is_escaped(space):
    def odd(self, a: Annotated[int, "more \udfff"]) -> int:
        return a

    odd.__doc__ = "Odd \ud800 text."

    @dataclass
    class Place:
        x: int

    Place.__doc__ = "Where \ud800 it is."

    class Odd(Agent):
        say_odd = action(odd)

        @action
        async def go(self, to: Place) -> None:
            """Go there."""

    space.add(Odd("odd"))
    me = space.add(Agent("asker"))
    shown = me.ask("odd", "help").result(timeout=10)
    assert shown["say_odd"]["description"] == "Odd \\ud800 text."
    assert shown["say_odd"]["args"]["a"]["description"] == "more \\udfff"
    assert shown["go"]["description"] == "Go there."
    assert shown["go"]["args"]["to"]["description"] == "Where \\ud800 it is."
    works(space)


# -- methods that are not quite ------------------------------------------------------------------


@pytest.mark.parametrize("kind", (staticmethod, classmethod))
@pytest.mark.parametrize("order", ("action outside", "action inside"))
def test_static_or_class_method_as_an_action_works_or_is_refused(space, kind, order):
    if kind is staticmethod:

        def double(n: int) -> int:
            return 2 * n

    else:

        def double(cls, n: int) -> int:
            return 2 * n

    def define():
        marked = action(kind(double)) if order == "action outside" else kind(action(double))
        return space.add(type("Odd", (Agent,), {"double": marked})("odd"))

    error = None
    try:
        define()
    except DefinitionError as refused:
        error = refused
    if error is not None:
        assert "double" in str(error) or kind.__name__ in str(error)
        assert space.ids() == []
    else:
        me = space.add(Agent("asker"))
        assert list(me.ask("odd", "help").result(timeout=10)["double"]["args"]) == ["n"]
        assert me.ask("odd", "double", n=2).result(timeout=10) == 4
    works(space)


@pytest.mark.parametrize("marked", (True, False), ids=("marked", "unmarked"))
@pytest.mark.parametrize("name", ("help", "response", "error"))
def test_override_of_a_special_action_that_nobody_can_call_is_refused(space, name, marked):
    async def override(self, *everything) -> None: ...

    def define():
        body = {name: action(override) if marked else override}
        space.add(type("Wrong", (Agent,), body)("wrong"))

    with pytest.raises(DefinitionError) as caught:
        define()
    refused(caught, "*everything")
    assert space.ids() == []
    works(space)


def test_agent_that_was_refused_can_be_mended_and_added(space):
    class Late(Agent):
        @action
        async def go(self, thing: "Later") -> int:  # noqa: F821 - defined after
            return thing["n"]

    agent = Late("late")
    with pytest.raises(DefinitionError, match="Later"):
        space.add(agent)
    assert agent.space is None
    Late.go.__annotations__["thing"] = dict
    space.add(agent)
    me = space.add(Agent("asker"))
    assert me.ask("late", "go", thing={"n": 1}).result(timeout=10) == 1
    works(space)


# -- tools of an agent with a model ----------------------------------------------------------------


def unresolved(thing: "Nowhere") -> str:  # noqa: F821 - as one imported under TYPE_CHECKING only
    """Do it."""
    return ""


def not_json(thing: threading.Lock) -> str:  # type: ignore[valid-type]
    """Do it."""
    return ""


def with_half_a_description() -> Action:
    return Action("unresolved", unresolved, parameters={"type": "object"})


class Unresolved(Block):
    """A block whose action cannot be described."""

    @action
    def unresolved(self, thing: "Nowhere") -> str:  # noqa: F821
        return ""


@pytest.mark.parametrize(
    "tool", (unresolved, not_json, with_half_a_description()), ids=("name", "type", "half")
)
@pytest.mark.parametrize("takes", ("ReActAgent", "OpenAIFunctionAgent", "Researcher", "registry"))
def test_tool_that_cannot_be_described_is_refused_where_it_is_given(takes: str, tool: Any) -> None:
    model = ScriptedModel(["fine"])
    registry = ActionRegistry()
    registry.register(tool)
    make: dict[str, Callable[[], Any]] = {
        "ReActAgent": lambda: ReActAgent("odd one", model, actions=[tool]),
        "OpenAIFunctionAgent": lambda: OpenAIFunctionAgent("odd one", model, actions=[tool]),
        "Researcher": lambda: Researcher("odd one", model, ["it"], [tool]),
        "registry": lambda: ReActAgent("odd one", model, actions=registry),
    }
    with pytest.raises(DefinitionError) as caught:
        make[takes]()
    refused(caught, "odd one", registry.get_actions()[0].name, "thing")


def test_block_whose_action_cannot_be_described_is_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        ReActAgent("odd one", ScriptedModel([]), blocks=[Unresolved()])
    refused(caught, "odd one", "unresolved", "thing")


def test_tool_registered_later_that_cannot_be_described_ends_the_reply_by_its_name(
    caplog: Any,
) -> None:
    agent = ReActAgent("odd one", ScriptedModel(["fine"] * 2))
    agent.actions.register(unresolved)
    reply = agent.reply_sync("Go")
    assert (reply.stop_reason, type(reply.error)) == ("error", DefinitionError)
    assert 'cannot use "unresolved"' in reply.detail
    assert "the model of" not in caplog.text


def test_tool_whose_types_are_known_once_it_is_given_is_described() -> None:
    def go(thing: "Later") -> str:  # noqa: F821 - made below
        """Go."""
        return thing.word

    made = Action.of(go)
    go.__globals__["Later"] = make_dataclass("Later", [("word", str)])
    try:
        agent = ReActAgent("a", ScriptedModel([Call("1", "go", {"thing": {"word": "hi"}}), "ok"]))
        agent.actions.register(made)
        assert agent.reply_sync("Go").steps[0].result["result"] == "hi"
    finally:
        del go.__globals__["Later"]


@pytest.mark.parametrize("type_", ("string", "array", ["object", "null"], "null"))
def test_parameters_that_are_no_object_schema_are_refused(type_: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        Action("f", len, "Count.", {"type": type_})
    refused(caught, "'f'", "object", str(type_))
