"""`help`: how agents discover what others can do."""

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field

from conformance.conftest import WAIT_S, Recorder, message
from conformance.gate import Holder
from moothall import Agent, action
from moothall.foundation.errors import ActionError, ActionNotFound, DefinitionError

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


@pytest.fixture
def me(space):
    return space.add(Recorder("me", receive_own_broadcasts=False))


def help_of(space, me, agent) -> dict[str, Any]:
    space.add(agent)
    return me.ask(agent.id, "help").result(timeout=10)


# -- the shape -------------------------------------------------------------------------------------


def test_help_has_the_documented_shape(space, me):
    class Host(Agent):
        @action
        def shell_command(self, command: str) -> str:
            """
            Execute a shell command

            Args:
                command (str): The command to execute

            Returns:
                str: The output of the command
            """
            raise AssertionError(command)

    assert help_of(space, me, Host("Host")) == {
        "shell_command": {
            "description": "Execute a shell command",
            "args": {"command": {"type": "string", "description": "The command to execute"}},
            "returns": {"type": "string", "description": "The output of the command"},
        }
    }


def test_help_may_be_sent_and_comes_back_as_a_response(space, me):
    class One(Agent):
        @action
        async def go(self, far: int) -> None:
            """Go."""

    space.add(One("one"))
    me.send({"id": "h", **message("one", "help")})
    [(name, args)] = me.told()
    assert name == "response"
    assert args["original_message_id"] == "h"
    assert args["data"]["go"]["description"] == "Go."
    assert args["data"]["go"]["args"] == {"far": INTEGER}


def test_help_to_everyone_is_answered_by_each_agent(space, me):
    class One(Agent):
        @action
        async def go(self) -> None:
            """Go."""

    class Two(Agent):
        @action
        async def stop(self) -> None:
            """Stop."""

    space.add(One("one"))
    space.add(Two("two"))
    me.send(message("*", "help"))
    answers = {m["from"]: list(m["action"]["args"]["data"]) for m in me.wait_for(2)}
    assert answers == {"one": ["go"], "two": ["stop"]}


def test_help_of_an_agent_without_actions_of_its_own_is_empty(space, me):
    assert help_of(space, me, Agent("bare")) == {}


def test_help_lists_own_actions_and_not_the_special_ones(space, me):
    class Base(Agent):
        @action
        async def inherited(self) -> None:
            pass

        @action(name="a name of its own")
        async def renamed(self) -> None:
            pass

        async def unmarked(self) -> None:
            pass

    class Child(Base):
        @action
        async def own(self) -> None:
            pass

        @action
        async def response(self, data: Any, original_message_id: str | None = None) -> None:
            pass

        @action
        async def error(self, error: str, original_message_id: str | None = None) -> None:
            pass

    assert set(help_of(space, me, Child("child"))) == {"inherited", "a name of its own", "own"}


def test_help_of_an_override_is_its_own(space, me):
    class Base(Agent):
        @action
        async def go(self, a: int) -> None:
            """The base's."""

    class Child(Base):
        async def go(self, a: int, b: str = "x") -> None:
            """The child's."""

    assert help_of(space, me, Child("child"))["go"] == {
        "description": "The child's.",
        "args": {"a": INTEGER, "b": {"type": "string", "default": "x"}},
        "returns": {"type": "null"},
    }


# -- one action ------------------------------------------------------------------------------------


class Two(Agent):
    @action
    async def first(self) -> None:
        """The first."""

    @action(name="second one")
    async def second(self) -> None:
        """The second."""


@pytest.mark.parametrize(("name", "text"), (("first", "The first."), ("second one", "The second.")))
def test_help_of_one_action_gives_only_that_one(space, me, name, text):
    space.add(Two("two"))
    found = me.ask("two", "help", action_name=name).result(timeout=10)
    assert list(found) == [name]
    assert found[name]["description"] == text
    assert found[name] == me.ask("two", "help").result(timeout=10)[name]


@pytest.mark.parametrize("name", ("third", "second", "", "send", "*"))
def test_help_of_an_unknown_action_is_an_error(space, me, name):
    space.add(Two("two"))
    with pytest.raises((ActionError, ActionNotFound)) as caught:
        me.ask("two", "help", action_name=name).result(timeout=10)
    assert f'"{name}" not found on "two"' in str(caught.value)
    me.send({"id": "h", **message("two", "help", action_name=name)})
    [(told, args)] = me.told()
    assert told == "error"
    assert f'"{name}" not found on "two"' in args["error"]
    assert args["original_message_id"] == "h"


# -- help= and overriding --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "help",
    (
        {"You": "can define", "any": {"structure": ["you", "want", "here."]}},
        "only a text",
        ["a", "list"],
        {},
        "",
        0,
        False,
    ),
    ids=repr,
)
def test_help_given_by_hand_replaces_the_generated_wholly(space, me, help):
    class Custom(Agent):
        @action(help=help)
        def say(self, content: str) -> None:
            """This docstring is not shown."""

    shown = help_of(space, me, Custom("custom"))
    assert shown == {"say": help}
    assert type(shown["say"]) is type(help)
    assert me.ask("custom", "help", action_name="say").result(timeout=10) == {"say": help}


@pytest.mark.parametrize("marked", (True, False), ids=("marked", "unmarked"))
@pytest.mark.parametrize("form", ("async def", "def"))
def test_help_may_be_overridden_to_control_what_is_shown(space, me, marked, form):
    mark = action if marked else lambda function: function

    class Async(Two):
        @mark
        async def help(self, action_name: str | None = None) -> dict:
            return {"only": await super().help("first")}

    class Plain(Two):
        @mark
        def help(self, action_name: str | None = None) -> dict:
            return {"only": {"first": {"description": "The first."}}}

    agent = (Async if form == "async def" else Plain)("agent")
    shown = help_of(space, me, agent)
    assert list(shown) == ["only"]
    assert shown["only"]["first"]["description"] == "The first."


def test_help_changed_by_its_reader_stays_as_it_was(space, me):
    class Meddler(Two):
        @action
        async def help(self, action_name: str | None = None) -> dict:
            shown = await super().help(action_name)
            shown["first"]["description"] += " Changed."
            shown["first"]["args"]["made"] = "up"
            return shown

    space.add(Meddler("meddler"))
    for _ in range(2):
        shown = me.ask("meddler", "help").result(timeout=10)
        assert shown["first"]["description"] == "The first. Changed."
    space.add(Two("two"))
    assert me.ask("two", "help").result(timeout=10)["first"]["description"] == "The first."


# -- docstrings ------------------------------------------------------------------------------------


def test_help_without_a_docstring_is_by_the_signature(space, me):
    class Silent(Agent):
        @action
        async def go(self, far: int, fast: bool = False) -> str:
            return ""

    assert help_of(space, me, Silent("silent"))["go"] == {
        "description": "",
        "args": {"far": INTEGER, "fast": {"type": "boolean", "default": False}},
        "returns": STRING,
    }


def test_help_without_types_in_the_signature_is_by_the_docstring(space, me):
    class Documented(Agent):
        @action
        async def go(self, far, name):
            """Go somewhere.

            Args:
                far (int): how far
                name (str): whose

            Returns:
                bool: whether it got there
            """

    assert help_of(space, me, Documented("documented"))["go"] == {
        "description": "Go somewhere.",
        "args": {
            "far": {"type": "integer", "description": "how far"},
            "name": {"type": "string", "description": "whose"},
        },
        "returns": {"type": "boolean", "description": "whether it got there"},
    }


UNPARSABLE = {
    "empty sections": "Args:\n\nReturns:\n",
    "only args": "Args:\n    far: how far",
    "no colon": "Do it.\n\nArgs:\n    far how far\n  bad indent\n\tTab",
    "unknown argument": "Do it.\n\nArgs:\n    near (int): how near",
    "brackets": "Do it.\n\nArgs:\n    far (dict[str, list[): how far",
    "code in a type": "Do it.\n\nArgs:\n    far (__import__('os').abort()): how far",
    "mixed styles": "Do it.\n\n:param far: x\n\nArgs:\n    far: x\n\nParameters\n-----\n",
    "blank": "   \n\t\n  ",
    "control characters": "Do \x00 it \x1b[31m.",
    "long": "word " * 20_000,
    "markup": "<b>Do</b> `it` {json: [1, 2\n}\n    * a\n    * b\n>>> not(",
}


@pytest.mark.parametrize("case", UNPARSABLE)
def test_help_of_a_docstring_that_cannot_be_read_is_harmless(space, me, case):
    async def go(self, far: int) -> int:
        return far

    go.__doc__ = UNPARSABLE[case]
    agent = type("Odd", (Agent,), {"go": action(go)})("odd")
    shown = help_of(space, me, agent)["go"]
    assert isinstance(shown["description"], str)
    assert list(shown["args"]) == ["far"]
    assert shown["args"]["far"]["type"] == "integer"
    assert shown["returns"]["type"] == "integer"
    assert me.ask("odd", "go", far=2).result(timeout=10) == 2


def test_help_description_keeps_both_of_its_parts(space, me):
    class Talkative(Agent):
        @action
        async def go(self) -> None:
            """Go there.

            And come back, since
            nobody stays.
            """

    text = help_of(space, me, Talkative("talkative"))["go"]["description"]
    assert text.startswith("Go there.")
    assert "And come back" in text
    assert text.endswith("nobody stays.")


# -- types -----------------------------------------------------------------------------------------


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
    """An order."""

    item: str = Field(description="what is ordered")
    at: Point | None = None


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


POINT = {
    "type": "object",
    "properties": {
        "x": INTEGER,
        "y": {"type": "number", "default": 0.0},
        "tags": {"type": "array", "items": STRING},
    },
    "required": ["x"],
}

TYPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "str": (str, STRING),
    "int": (int, INTEGER),
    "float": (float, {"type": "number"}),
    "bool": (bool, {"type": "boolean"}),
    "Any": (Any, {}),
    "Optional": (Optional[int], {"anyOf": [INTEGER, {"type": "null"}]}),  # noqa: UP045
    "union": (int | str, {"anyOf": [INTEGER, STRING]}),
    "list": (list, {"type": "array"}),
    "list of str": (list[str], {"type": "array", "items": STRING}),
    "list of lists": (
        list[list[int]],
        {"type": "array", "items": {"type": "array", "items": INTEGER}},
    ),
    "dict": (dict, {"type": "object"}),
    "dict of int": (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    "Literal": (Literal["fast", "slow"], {"type": "string", "enum": ["fast", "slow"]}),
    "Enum": (Color, {"type": "string", "enum": ["red", "blue"]}),
    "dataclass": (Point, POINT),
    "list of dataclass": (list[Point], {"type": "array", "items": POINT}),
    "TypedDict": (
        Movie,
        {
            "type": "object",
            "properties": {"title": STRING, "year": INTEGER},
            "required": ["title"],
        },
    ),
    "pydantic model": (
        Order,
        {
            "type": "object",
            "description": "An order.",
            "properties": {
                "item": {"type": "string", "description": "what is ordered"},
                "at": {"anyOf": [POINT, {"type": "null"}], "default": None},
            },
            "required": ["item"],
        },
    ),
    "date": (date, {"type": "string", "format": "date"}),
    "Annotated": (
        Annotated[int, Field(ge=1, description="at least one")],
        {"type": "integer", "minimum": 1, "description": "at least one"},
    ),
}


def without(schema: Any, *keys: str) -> Any:
    """A schema without keywords that a rule leaves open."""
    if isinstance(schema, list):
        return [without(item, *keys) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without(item, *keys) for key, item in schema.items() if key not in keys}


@pytest.mark.parametrize("case", TYPES)
def test_types_have_json_schema_names_and_nested_types_are_nested(space, me, case):
    annotation, schema = TYPES[case]

    async def go(self, value) -> None:
        pass

    go.__annotations__["value"] = annotation
    shown = help_of(space, me, type("Typed", (Agent,), {"go": action(go)})("typed"))["go"]
    assert without(shown["args"]["value"], "additionalProperties") == without(
        schema, "additionalProperties"
    )
    assert "$ref" not in str(shown)
    assert "$defs" not in str(shown)


@pytest.mark.parametrize("case", ("str", "list of dataclass", "TypedDict", "Enum"))
def test_help_describes_return_types_like_parameters(space, me, case):
    annotation, schema = TYPES[case]

    async def go(self):
        """Go.

        Returns:
            what there is
        """

    go.__annotations__["return"] = annotation
    shown = help_of(space, me, type("Typed", (Agent,), {"go": action(go)})("typed"))["go"]
    returns = without(shown["returns"], "additionalProperties", "required", "default")
    assert returns == {
        **without(schema, "additionalProperties", "required", "default"),
        "description": "what there is",
    }


def test_help_of_a_type_that_contains_itself_ends_somewhere(space, me):
    class Gardener(Agent):
        @action
        async def plant(self, tree: Tree) -> int:
            return len(tree.children)

    shown = help_of(space, me, Gardener("gardener"))["plant"]["args"]["tree"]
    assert shown["type"] == "object"
    assert shown["properties"]["name"] == STRING
    assert shown["properties"]["children"]["type"] == "array"
    assert "$ref" not in str(shown)
    given = {"name": "a", "children": [{"name": "b"}, {"name": "c"}]}
    assert me.ask("gardener", "plant", tree=given).result(timeout=10) == 2


@pytest.mark.parametrize(
    ("default", "shown"),
    (
        (1, 1),
        (None, None),
        ("", ""),
        ([1], [1]),
        ({"a": [1]}, {"a": [1]}),
        (Color.RED, "red"),
        (Point(1), {"x": 1, "y": 0.0, "tags": []}),
        ((1, 2), [1, 2]),
    ),
    ids=repr,
)
def test_help_shows_a_default_as_json(space, me, default, shown):
    async def go(self, value: Any = default) -> None:
        pass

    agent = type("Defaulted", (Agent,), {"go": action(go)})("defaulted")
    assert help_of(space, me, agent)["go"]["args"]["value"]["default"] == shown


def test_help_leaves_out_a_default_that_is_no_json(space, me):
    missing = object()

    class Sentinel(Agent):
        @action
        async def go(self, value: Any = missing) -> bool:
            return value is missing

    shown = help_of(space, me, Sentinel("sentinel"))["go"]["args"]
    assert "default" not in shown["value"]
    assert me.ask("sentinel", "go").result(timeout=10) is True


# -- what cannot be described ----------------------------------------------------------------------


def test_star_args_are_refused_at_definition(space):
    with pytest.raises(DefinitionError) as caught:

        class Wrong(Agent):
            @action
            async def go(self, *places: str) -> None:
                pass

    assert "Wrong.go" in str(caught.value)
    assert "*places" in str(caught.value)
    space.add(Agent("still works"))
    assert space.ids() == ["still works"]


def test_star_star_kwargs_are_refused_at_definition(space):
    with pytest.raises(DefinitionError) as caught:

        class Wrong(Agent):
            @action(name="go")
            def went(self, **options: str) -> None:
                pass

    assert "Wrong.went" in str(caught.value)
    assert "**options" in str(caught.value)
    space.add(Agent("still works"))
    assert space.ids() == ["still works"]


class Asks(Agent):
    @action
    async def look(self) -> list[str]:
        return list(await self.ask("holder", "help"))


def test_help_is_answered_beside_the_work_of_a_busy_agent(space, me) -> None:
    holder = space.add(Holder("holder"))
    held = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    me.send(message("holder", "note", name="behind it"))
    assert "hold" in me.ask("holder", "help").result(timeout=WAIT_S)
    asked_within_an_action = space.add(Asks("asks")).id
    assert "hold" in me.ask(asked_within_an_action, "look").result(timeout=WAIT_S)
    space.remove("asks")
    me.send(message("*", "help"))
    assert [sorted(args["data"]) for _, args in me.told(1)] == [sorted(holder.offers)]
    assert not held.done()
    holder.gate("one").open()
    assert held.result(timeout=WAIT_S) == "one"
    assert holder.begun.wait_for(2) == ["one", "behind it"]
