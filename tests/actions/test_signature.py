import enum
import functools
import gc
import inspect
import json
import subprocess
import sys
import traceback
import typing
import weakref
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Required, TypedDict
from uuid import UUID

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import BaseModel, Field, field_validator

import moothall
from moothall.actions.signature import Signature, checked_parameters
from moothall.foundation.errors import DefinitionError, InvalidArguments


class Context:
    __moothall_injected__ = True


class SubContext(Context):
    pass


class ContextOf(Context, typing.Generic[typing.TypeVar("Deps")]):  # type: ignore[misc]
    pass


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Switch:
    level: Literal[0, 1]


@dataclass
class Point:
    x: int
    y: float = 0.5


@dataclass
class Node:
    name: str
    children: list["Node"] = field(default_factory=list)


@dataclass
class Chain:
    rest: "Chain | None" = None


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Address(TypedDict):
    street: Required[str]
    number: NotRequired[int]


class Loose(TypedDict, total=False):
    name: Required[str]
    address: Address
    others: list["Loose"]


class User(BaseModel):
    title: str = Field(description="How to address them")
    age: int = Field(ge=0, default=1)
    home: Point | None = None

    @field_validator("title")
    @classmethod
    def not_empty(cls, title: str) -> str:
        if title == "boom":
            raise RuntimeError("the validator broke")
        if not title:
            raise ValueError("must not be empty")
        return title


class Calculator:
    def add(self, a: int, b: int = 2) -> int:
        """Add two integers.

        The result is exact,
        however large.

        Args:
            a: the first
            b: the second,
                on two lines

        Returns:
            The sum
        """
        return a + b


class Arbitrary:
    pass


def of(function: Any) -> Signature:
    return Signature.of(function, bound_to_self=False)


def arg(annotation: Any, **given: Any) -> Signature:
    """The signature of a function with one parameter `x` of a type, and a default if given."""

    def call(x): ...

    call.__annotations__ = {"x": annotation}
    if given:
        call.__defaults__ = (given["default"],)
    return of(call)


def check(signature: Signature, **args: Any) -> dict[str, Any]:
    return signature.check(args, "Agent.do")


def refused(signature: Signature, **args: Any) -> str:
    with pytest.raises(InvalidArguments) as error:
        signature.check(args, "Agent.do")
    text = str(error.value)
    assert text.startswith('"Agent.do" ')
    return text.removeprefix('"Agent.do" ')


# -- help ------------------------------------------------------------------------------------------


def test_help_of_a_method():
    assert Signature.of(Calculator.add, bound_to_self=True).help == {
        "description": "Add two integers.\n\nThe result is exact,\nhowever large.",
        "args": {
            "a": {"type": "integer", "description": "the first"},
            "b": {"type": "integer", "description": "the second, on two lines", "default": 2},
        },
        "returns": {"type": "integer", "description": "The sum"},
    }


def test_help_with_types_in_the_docstring_only():
    def shell_command(command):
        """
        Execute a shell command

        Args:
            command (str): The command to execute

        Returns:
            str: The output of the command
        """

    assert of(shell_command).help == {
        "description": "Execute a shell command",
        "args": {"command": {"type": "string", "description": "The command to execute"}},
        "returns": {"type": "string", "description": "The output of the command"},
    }


def test_signature_goes_before_the_docstring():
    def do(x: int) -> bool:
        """Do.

        Args:
            x (str): what

        Returns:
            str: whether
        """

    assert of(do).help["args"]["x"] == {"type": "integer", "description": "what"}
    assert of(do).help["returns"] == {"type": "boolean", "description": "whether"}
    assert refused(of(do), x="1") == 'argument "x" must be integer, not string'


def test_signature_without_docstring_or_types_takes_any():
    def do(x): ...

    assert of(do).help == {"description": "", "args": {"x": {}}}
    assert of(do).description == ""
    assert check(of(do), x={"any": ["thing"]}) == {"x": {"any": ["thing"]}}


def test_signature_of_a_function_that_returns_none_says_so():
    def do() -> None: ...

    assert of(do).help["returns"] == {"type": "null"}


def test_signature_return_type_without_json_form_is_not_described():
    def do() -> Arbitrary: ...
    def never() -> typing.NoReturn: ...
    def nor_this() -> typing.Never: ...

    assert "returns" not in of(do).help
    assert "returns" not in of(never).help
    assert "returns" not in of(nor_this).help


def test_schema_of_what_is_returned_takes_more_keys_and_times_without_a_zone():
    class Train(BaseModel, extra="forbid"):
        leaves: datetime
        day: date

    def next_train() -> list[Train]: ...

    check = Draft202012Validator(of(next_train).returned, format_checker=FormatChecker())
    train = {"leaves": "2026-05-01T10:00:00", "day": "2026-05-01"}
    assert check.is_valid([train, train | {"track": 4}])
    assert "date-time" not in json.dumps(check.schema)
    assert not check.is_valid([train | {"day": "the first"}])


def test_signature_annotated_return_type_has_its_description():
    def total() -> Annotated[int, "the sum"]: ...

    assert of(total).help["returns"] == {"type": "integer", "description": "the sum"}


def test_signature_return_type_is_described_by_its_json_form():
    class Answer(BaseModel):
        number: int = Field(alias="theNumber", default=1)

    def do() -> list[Answer]: ...

    assert of(do).help["returns"]["items"]["properties"] == {
        "number": {"type": "integer", "default": 1}
    }


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.5}},
    "required": ["x"],
    "additionalProperties": False,
}
OPEN_POINT = {key: POINT[key] for key in ("type", "properties", "required")}  # inside a model
ADDRESS = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
    "required": ["street"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    (
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (list, {"type": "array"}),
        (typing.List, {"type": "array"}),  # noqa: UP006
        (dict, {"type": "object"}),
        (list[Any], {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (list["int"], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, Any], {"type": "object"}),
        (
            dict[str, list[float]],
            {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "number"}},
            },
        ),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (tuple[int, str],
         {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
          "minItems": 2, "maxItems": 2}),
        (set[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[int, str], {"type": "object", "additionalProperties": {"type": "string"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Point, POINT),
        (list[Point], {"type": "array", "items": POINT}),
        (Point | None, {"anyOf": [POINT, {"type": "null"}]}),
        (Address, ADDRESS),
        (Optional[list[Address]],  # noqa: UP045
         {"anyOf": [{"type": "array", "items": ADDRESS}, {"type": "null"}]}),
        (datetime, {"type": "string", "format": "date-time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        ("Point", POINT),
        ("list[Point]", {"type": "array", "items": POINT}),
    ),
)  # fmt: skip
def test_schemas_of_types(annotation, schema):
    signature = arg(annotation)
    assert signature.help["args"]["x"] == schema
    assert signature.parameters == {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
    }
    Draft202012Validator.check_schema(signature.parameters)


def test_signature_nests_a_model_with_its_descriptions_but_without_titles():
    schema = arg(User).help["args"]["x"]
    assert schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "How to address them"},
            "age": {"type": "integer", "minimum": 0, "default": 1},
            "home": {"anyOf": [OPEN_POINT, {"type": "null"}], "default": None},
        },
        "required": ["title"],
    }


def test_argument_s_description_takes_the_place_of_its_class_s():
    class Documented(BaseModel):
        """What the class says."""

        x: int

    def do(a: Documented, b: Documented):
        """Do.

        Args:
            b: what the argument says
        """

    args = of(do).help["args"]
    assert args["a"]["description"] == "What the class says."
    assert args["b"]["description"] == "what the argument says"


def test_recursive_type_is_cut_in_help_but_kept_for_models():
    signature = arg(Node)
    children = signature.help["args"]["x"]["properties"]["children"]
    assert children["items"] == {"type": "object", "description": "recursive: again a Node"}
    assert signature.parameters["properties"]["x"] == {"$ref": "#/$defs/Node"}
    definition = signature.parameters["$defs"]["Node"]
    assert definition["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    validator = Draft202012Validator(signature.parameters)
    assert validator.is_valid({"x": {"name": "a", "children": [{"name": "b"}]}})
    assert not validator.is_valid({"x": {"name": "a", "children": [{"name": 1}]}})


def test_recursive_type_within_a_union_is_cut_and_kept_too():
    signature = arg(Chain)
    cut, none = signature.help["args"]["x"]["properties"]["rest"]["anyOf"]
    assert (cut["description"], none) == ("recursive: again a Chain", {"type": "null"})
    validator = Draft202012Validator(signature.parameters)
    assert validator.is_valid({"x": {"rest": {"rest": None}}})
    assert not validator.is_valid({"x": {"rest": {"rest": 1}}})


def test_classes_of_one_name_do_not_mix():
    def make(annotation: Any) -> Any:
        return dataclass(type("Same", (), {"__annotations__": {"x": annotation}}))

    def do(a, b): ...

    do.__annotations__ = {"a": make(int), "b": make(str)}
    args = of(do).help["args"]
    assert args["a"]["properties"]["x"] == {"type": "integer"}
    assert args["b"]["properties"]["x"] == {"type": "string"}


def test_annotated_gives_description_and_constraints():
    def do(
        a: Annotated[int, "the first"],
        b: Annotated[int, Field(ge=3, description="the second")],
        c: Annotated[str, typing_extensions.Doc("the third")],
        d: Annotated[int, Field(ge=3, description="the fourth")] = None,  # noqa: RUF013
    ):
        """Do.

        Args:
            a: not this one
        """

    args = of(do).help["args"]
    assert args["a"] == {"type": "integer", "description": "the first"}
    assert args["b"] == {"type": "integer", "minimum": 3, "description": "the second"}
    assert args["c"] == {"type": "string", "description": "the third"}
    assert args["d"]["description"] == "the fourth"
    assert check(of(do), a=1, b=3, c="", d=None) == {"a": 1, "b": 3, "c": "", "d": None}
    assert (
        refused(of(do), a=1, b=2, c="") == 'argument "b" must be greater than or equal to 3, not 2'
    )


def test_field_s_default_without_a_json_form_is_left_out_without_a_warning(recwarn):
    @dataclass
    class Marked:
        mark: Any = Arbitrary()  # noqa: RUF009

    assert arg(Marked).help["args"]["x"]["properties"] == {"mark": {}}
    assert list(recwarn) == []


def test_defaults_are_shown_as_json():
    sentinel = object()

    point = Point(1)

    def do(a=Color.RED, b=point, c: list[int] = (), d=sentinel, e: int = None): ...  # noqa: RUF013

    args = of(do).help["args"]
    assert args["a"]["default"] == "red"
    assert args["b"]["default"] == {"x": 1, "y": 0.5}
    assert args["c"] == {"type": "array", "items": {"type": "integer"}, "default": []}
    assert "default" not in args["d"]
    assert of(do).parameters["required"] == []
    # A default of None says that null may be given, whatever the annotation says.
    assert args["e"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert check(of(do), e=None) == {"e": None}
    assert check(of(do)) == {}


def test_help_and_parameters_are_the_reader_s_own():
    signature = Signature.of(Calculator.add, bound_to_self=True)
    signature.help["args"].clear()
    signature.parameters["properties"]["a"]["type"] = "string"
    assert set(signature.help["args"]) == {"a", "b"}
    assert signature.parameters["properties"]["a"]["type"] == "integer"


# -- docstrings ------------------------------------------------------------------------------------

GOOGLE = """Do it.

Args:
    x (list[str]): the names
"""
REST = """Do it.

:param x: the names
:type x: list[str]
"""
NUMPY = """Do it.

Parameters
----------
x : list[str]
    the names
"""
EPYDOC = """Do it.

@param x: the names
@type x: list[str]
"""


def documented(text: str | None) -> Signature:
    def do(x): ...

    do.__doc__ = text
    return of(do)


def test_docstring_of_numpys_style_describes_several_arguments_in_one_entry():
    def do(x, y): ...

    do.__doc__ = NUMPY.replace("x : list[str]", "x, y : list[str]")
    args = of(do).help["args"]
    assert {name: each["description"] for name, each in args.items()} == dict.fromkeys(
        "xy", "the names"
    )


@pytest.mark.parametrize("text", (GOOGLE, REST, NUMPY, EPYDOC))
def test_docstring_of_every_style_is_read(text):
    assert documented(text).help == {
        "description": "Do it.",
        "args": {
            "x": {"type": "array", "items": {"type": "string"}, "description": "the names"},
        },
    }


@pytest.mark.parametrize(
    "text",
    (
        "Just words",
        "Do it.\n\nArgs:\nnot indented",
        "Do it.\n\nArgs:\n    no colon anywhere",
        "Args:",
        "\u0000 odd ( [ characters :: : @",
        ":param",
        "Parameters\n----------\n",
        "x" * 10_000,
        "",
        "   \n  ",
        None,
    ),
)
def test_docstring_of_any_text_leaves_a_usable_signature(text):
    signature = documented(text)
    assert isinstance(signature.help["description"], str)
    assert check(signature, x=1) == {"x": 1}


@pytest.mark.parametrize("text", ("Do it.\n\nArgs:\n    no colon anywhere", "Shrug.\n: : a face"))
def test_docstring_that_cannot_be_parsed_is_the_description_as_a_whole(text):
    assert documented(text).description == text


@given(text=st.text())
def test_docstring_of_any_kind_breaks_no_signature(text):
    signature = documented(text)
    assert set(signature.help["args"]) == {"x"}
    assert signature.parameters["properties"].keys() == {"x"}


def test_paragraphs_and_lists_in_an_argument_s_description_stay_apart():
    text = """Do it.

Args:
    x: the first line
        and the second

        another paragraph
        - one
        - two
"""
    assert (
        documented(text).help["args"]["x"]["description"]
        == "the first line and the second\n\nanother paragraph\n- one\n- two"
    )


def test_docstring_sentence_with_a_colon_is_not_the_returned_type():
    text = "Do it.\n\nReturns:\n    The names found: one a line"
    assert documented(text).help["returns"] == {"description": "The names found: one a line"}


def test_docstring_is_inherited_by_an_overriding_method():
    assert Signature.of(Scientific.add, bound_to_self=True).description.startswith("Add two")


class Scientific(Calculator):
    def add(self, a: int, b: int = 2) -> int:
        return a - -b


@pytest.mark.parametrize(
    ("written", "schema"),
    (
        ("str", {"type": "string"}),
        ("string", {"type": "string"}),
        ("integer", {"type": "integer"}),
        ("int, optional", {"type": "integer"}),
        ("int, default 5", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list", {"type": "array"}),
        ("dict", {"type": "object"}),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("typing.List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("Optional[int]", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("str | None", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("int or None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("Union[int, str]", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("set[int]", {"type": "array", "items": {"type": "integer"}}),
        ("list[Unknown]", {"type": "array"}),
        ("Unknown | None", {}),
        ("np.ndarray", {}),
        ("the name of it", {}),
        ("list[", {}),
        ("Literal[[]]", {}),
        ("dict[str]", {"type": "object"}),
        ("__import__('os').system('true')", {}),
        ("[" * 100 + "]" * 100, {}),
        ("x" * 1000, {}),
    ),
)
def test_types_written_in_docstrings(written, schema):
    text = f"Do it.\n\n:param x: what\n:type x: {written}\n"
    assert documented(text).help["args"]["x"] == {**schema, "description": "what"}


# -- what cannot be a parameter --------------------------------------------------------------------


def variadic(*names): ...
def keywords(**options): ...
def positional(x, /): ...
def field_default(x: int = Field(5)): ...


@pytest.mark.parametrize(
    ("function", "named", "advice"),
    (
        (variadic, "variadic: *names", "take a list parameter instead"),
        (keywords, "keywords: **options", "take a dict parameter instead"),
        (positional, 'positional: parameter "x" is positional-only', 'remove the "/"'),
        (field_default, 'field_default: parameter "x" has a Field', "Annotated[type, Field(…)]"),
    ),
)
def test_parameters_that_cannot_be_given_by_name_are_refused(function, named, advice):
    with pytest.raises(DefinitionError) as early:
        checked_parameters(function, bound_to_self=False, label=function.__name__)
    with pytest.raises(DefinitionError) as late:
        of(function)
    assert str(early.value) == str(late.value)
    assert named in str(early.value)
    assert advice in str(early.value)


def test_method_without_self_is_refused():
    def no_self(): ...
    def only_keywords(*, x): ...

    def only_unnamed(*args): ...

    for function in (no_self, only_keywords):
        with pytest.raises(DefinitionError, match="here: a method needs `self`"):
            checked_parameters(function, bound_to_self=True, label="here")
    with pytest.raises(DefinitionError, match=r"here: \*args cannot be given by name"):
        checked_parameters(only_unnamed, bound_to_self=True, label="here")


def test_method_with_a_positional_only_self_is_fine():
    def method(self, /, x: int): ...

    assert list(Signature.of(method, bound_to_self=True).parameters["properties"]) == ["x"]


def test_definition_check_looks_at_no_annotation():
    def do(x: "NotYetDefined") -> "NorThis": ...  # noqa: F821

    checked_parameters(do, bound_to_self=False, label="do")
    with pytest.raises(DefinitionError) as error:
        of(do)
    text = str(error.value)
    assert "test_definition_check_looks_at_no_annotation.<locals>.do" in text
    assert 'the annotation NotYetDefined of parameter "x" cannot be resolved' in text
    assert "not under TYPE_CHECKING only" in text


def test_return_annotation_that_cannot_be_resolved_is_named():
    def do(x: int) -> "Nowhere": ...  # noqa: F821

    with pytest.raises(DefinitionError, match="annotation Nowhere of what it returns"):
        of(do)


@pytest.mark.parametrize(
    ("annotation", "spelled"),
    (
        (Arbitrary, "Arbitrary"),
        (list[Arbitrary], "list["),
        (typing.Callable[[int], int], "typing.Callable"),
    ),
)
def test_parameter_type_without_a_json_form_is_refused(annotation, spelled):
    with pytest.raises(DefinitionError) as error:
        arg(annotation)
    text = str(error.value)
    assert f'arg.<locals>.call: parameter "x" is of type {spelled}' in text
    assert "use a JSON type, a dataclass, a TypedDict or a pydantic model" in text


def test_parameter_class_whose_schema_code_breaks_is_refused_the_same_way():
    class Broken:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            raise ZeroDivisionError("oh")

    with pytest.raises(DefinitionError, match=r'"x" is of type .*Broken.*ZeroDivisionError: oh'):
        arg(Broken)


def test_builtin_without_a_signature_is_refused():
    with pytest.raises(DefinitionError, match="Python does not know its signature"):
        checked_parameters(max, bound_to_self=False, label="max")


# -- check -----------------------------------------------------------------------------------------

ADD = Signature.of(Calculator.add, bound_to_self=True)


@pytest.mark.parametrize(
    ("args", "text"),
    (
        ({}, '"Calculator.add" missing argument "a"'),
        ({"b": 1}, '"Calculator.add" missing argument "a"'),
        ({"a": 1, "c": 3}, '"Calculator.add" unexpected argument "c"'),
        ({"a": 1, "c": 3, "d": 4}, '"Calculator.add" unexpected arguments "c", "d"'),
        ({"c": 3}, '"Calculator.add" missing argument "a", unexpected argument "c"'),
        ({"a": "1"}, '"Calculator.add" argument "a" must be integer, not string'),
        ({"a": True}, '"Calculator.add" argument "a" must be integer, not boolean'),
        ({"a": None}, '"Calculator.add" argument "a" must be integer, not null'),
        ({"a": 1.5}, '"Calculator.add" argument "a" must be integer, not number'),
        ({"a": [1]}, '"Calculator.add" argument "a" must be integer, not array'),
        ({"a": 1, "b": {}}, '"Calculator.add" argument "b" must be integer, not object'),
        (
            {"a": "1", "b": None},
            '"Calculator.add" argument "a" must be integer, not string; '
            'argument "b" must be integer, not null',
        ),
    ),
)
def test_wrong_arguments(args, text):
    with pytest.raises(InvalidArguments) as error:
        ADD.check(args, "Calculator.add")
    assert str(error.value) == text


def test_missing_arguments_are_all_named():
    def do(a, b, *, c): ...

    assert refused(of(do), b=1) == 'missing arguments "a", "c"'


@pytest.mark.parametrize("args", ({}, {"a": 1, "b": 2, "c": 3}, {"a": "x", "b": 2}))
def test_wrong_argument_shows_no_traceback_of_the_checks_behind_it(args):
    def add(a: int, b: int) -> int: ...

    with pytest.raises(InvalidArguments) as error:
        Signature.of(add, bound_to_self=False).check(args, "add")
    assert "pydantic" not in "".join(traceback.format_exception(error.value))


def test_self_and_unknown_names_are_unexpected():
    assert refused(ADD, a=1, self=2) == 'unexpected argument "self"'


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    (
        (float, 1, 1.0),
        (int, 2.0, 2),
        (int, -0.0, 0),
        (float, 1.5, 1.5),
        (bool, True, True),
        (str, "é", "é"),
        (None, None, None),
        (int | None, None, None),
        (int | None, 3.0, 3),
        (float | None, 3, 3.0),
        (int | float, 3, 3),
        (int | float, 3.0, 3.0),
        (int | str, "3", "3"),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (dict[str, float], {"a": 1}, {"a": 1.0}),
        (list[int] | None, [1.0], [1]),
        (list[float] | list[int], [1], [1]),
        (Any, [1, {}], [1, {}]),
        (object, None, None),
        (list, [1, "a"], [1, "a"]),
        (dict, {"a": None}, {"a": None}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2.0], (1, 2)),
        (set[str], ["a", "b"], {"a", "b"}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Literal["a", 1], 1, 1),
        (Literal[0, 1, True], True, True),
        (Literal[True, 0], 0, 0),
        (Level, 2, Level.HIGH),
        (tuple[Level, Level], [1, 2.0], (Level.LOW, Level.HIGH)),
        (Color, "red", Color.RED),
        (list[Color], ["red"], [Color.RED]),
        (Point, {"x": 1}, Point(1)),
        (Point, {"x": 2.0, "y": 3}, Point(2, 3.0)),
        (Point | None, None, None),
        (Point | int, 4.0, 4),
        (list[Point], [{"x": 1}, {"x": 2.0}], [Point(1), Point(2)]),
        (Node, {"name": "a", "children": [{"name": "b"}]}, Node("a", [Node("b")])),
        (Pair, [1, "x"], Pair(1, "x")),
        (Pair, {"left": 1}, Pair(1)),
        (User, {"title": "Dr", "home": {"x": 1}}, User(title="Dr", home=Point(1))),
        (Address, {"street": "A"}, {"street": "A"}),
        (datetime, "2024-01-02T03:04:05", datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001, RUF100
        (date, "2024-01-02", date(2024, 1, 2)),
        (timedelta, "PT1H", timedelta(hours=1)),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (Decimal, "1.5", Decimal("1.5")),
        (Path, "a/b", Path("a/b")),
        ("Point", {"x": 1}, Point(1)),
    ),
)
def test_json_becomes_the_annotated_type(annotation, value, expected):
    before = json.dumps(value)
    result = check(arg(annotation), x=value)["x"]
    assert result == expected
    assert type(result) is type(expected)
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    (
        (str, 1, 'argument "x" must be string, not integer'),
        (float, "1", 'argument "x" must be number, not string'),
        (float, True, 'argument "x" must be number, not boolean'),
        (float, 10**400, 'argument "x" must be a number that a float can hold'),
        (bool, 1, 'argument "x" must be boolean, not integer'),
        (None, 0, 'argument "x" must be null, not integer'),
        (list, {}, 'argument "x" must be array, not object'),
        (dict, [], 'argument "x" must be object, not array'),
        (int | None, "a", 'argument "x" must be integer or null, not string'),
        (int | str | None, [], 'argument "x" must be integer or string or null, not array'),
        (list[int], 1, 'argument "x" must be array, not integer'),
        (list[int], [1, "a"], 'argument "x[1]" must be integer, not string'),
        (list[int] | None, [1, "a"], 'argument "x[1]" must be integer, not string'),
        (dict[str, int], 1, 'argument "x" must be object, not integer'),
        (dict[str, list[int]], {"k": [None]}, 'argument "x.k[0]" must be integer, not null'),
        (dict[str, int], {"a b": ""}, 'argument "x["a b"]" must be integer, not string'),
        (Point, 3, 'argument "x" must be object, not integer'),
        (Point, {"x": "1"}, 'argument "x.x" must be integer, not string'),
        (Point, {"x": True}, 'argument "x.x" must be integer, not boolean'),
        (Point, {"x": 1.5}, 'argument "x.x" must be integer, not number'),
        (Point, {}, 'argument "x.x" is missing'),
        (list[Point], [{"x": 1}, {"y": 1}], 'argument "x[1].x" is missing'),
        (Point | int, "a", 'argument "x" must be object or integer, not string'),
        (Point | int, {"x": "a"}, 'argument "x.x" must be integer, not string'),
        (Node, {"name": "a", "children": [{"name": 1}]},
         'argument "x.children[0].name" must be string, not integer'),
        (tuple[int, str], [1], 'argument "x[1]" is missing'),
        (typing.Iterable[int], "12", 'argument "x" must be array, not string'),
        (typing.Iterable[int], [1, "a"], 'argument "x[1]" must be integer, not string'),
        (Literal["read", "write"], "append",
         'argument "x" must be "read" or "write", not "append"'),
        (Color, "green", 'argument "x" must be "red" or "blue", not "green"'),
        (Color, 5, 'argument "x" must be "red" or "blue", not 5'),
        (Literal["a"], {"b": "c"}, 'argument "x" must be "a", not object'),
        (User, {"title": ""}, 'argument "x.title" is not valid (must not be empty)'),
        (User, {"title": "boom"},
         'argument "x" is not valid (RuntimeError: the validator broke)'),
        (User, {"title": "a", "age": -1},
         'argument "x.age" must be greater than or equal to 0, not -1'),
        (datetime, "zz", 'argument "x" must be a valid datetime (input is too short), not "zz"'),
        (datetime, 3, 'argument "x" must be a valid datetime, not 3'),
        (timedelta, 90, 'argument "x" must be a valid duration, not 90'),
        (Annotated[str, Field(min_length=3)], "a",
         'argument "x" must have at least 3 characters, not "a"'),
        (Annotated[list[int], Field(min_length=2)], [1],
         'argument "x" must have at least 2 items, not 1'),
        (tuple[int, str], [1, "a", 3], 'argument "x" must have at most 2 items, not 3'),
        (Address, {}, 'argument "x.street" is missing'),
        (Point, {"x": 1, "Y": 7}, 'argument "x.Y" is unexpected'),
        (list[Point] | None, [{"x": 1, "Y": 7}], 'argument "x[0].Y" is unexpected'),
        (list[Point] | None, "a", 'argument "x" must be array or null, not string'),
        (Point | None, [], 'argument "x" must be object or null, not array'),
        (set[int] | None, 5, 'argument "x" must be array or null, not integer'),
        (Address, {"street": "A", "nr": 1}, 'argument "x.nr" is unexpected'),
        (Node, {"name": "a", "children": [{"name": "b", "age": 1}]},
         'argument "x.children[0].age" is unexpected'),
        (Literal[0, 1, 2], True, 'argument "x" must be 0, 1 or 2, not true'),
        (Literal[0, 1, 2] | None, False, 'argument "x" must be 0, 1 or 2 or null, not false'),
        (Literal[True], 1, 'argument "x" must be True, not 1'),
        (Level, 3, 'argument "x" must be 1 or 2, not 3'),
        (Level, "1", 'argument "x" must be 1 or 2, not "1"'),
        (tuple[Level, Level], [1, True], 'argument "x[1]" must be 1 or 2, not true'),
        (Level, True, 'argument "x" must be 1 or 2, not true'),
        (Switch, {"level": True}, 'argument "x.level" must be 0 or 1, not true'),
    ),
)  # fmt: skip
def test_values_of_another_type_are_refused_with_their_place(annotation, value, text):
    assert refused(arg(annotation), x=value) == text


def test_extra_keys_that_a_model_forbids_are_named():
    class Strict(BaseModel, extra="forbid"):
        a: int

    assert refused(arg(Strict), x={"a": 1, "b": 2}) == 'argument "x.b" is unexpected'


def test_dataclass_exception_is_the_caller_s_error_with_its_cause():
    @dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise KeyError("odd")

    with pytest.raises(InvalidArguments, match=r"is not valid \(KeyError: 'odd'\)") as error:
        check(arg(Even), x={"n": 1})
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("annotation", "value"),
    (
        (Literal["a"], "v" * 10_000),
        (datetime, "v" * 10_000),
        (dict[str, int], {"v" * 10_000: "a"}),
        (Point, {"x": "v" * 10_000}),
        (Annotated[str, Field(max_length=3)], "v" * 10_000),
    ),
)
def test_long_values_are_not_echoed(annotation, value):
    text = refused(arg(annotation), x=value)
    assert "v" * 81 not in text
    assert len(text) < 300


def test_wrong_values_in_very_great_number_are_not_all_told():
    assert refused(arg(list[int]), x=[""] * 1_000_000) == (
        'argument "x[0]" must be integer, not string'
    )
    assert refused(arg(list[Point]), x=[{}] * 100_001) == 'argument "…" has 100,001 wrong values'
    text = refused(arg(dict[str, Point]), x={str(n): {} for n in range(1000)})
    assert text == 'argument "x["0"].x" is missing'


def test_whole_numbers_may_be_written_as_floats_everywhere():
    assert check(arg(list[int]), x=[2.0] * 20_000) == {"x": [2] * 20_000}
    assert check(arg(list[Point]), x=[{"x": 2.0}] * 2000) == {"x": [Point(2)] * 2000}


def test_unexpected_names_many_or_long_are_not_all_echoed():
    text = refused(ADD, a=1, **{"v" * 5000 + str(n): n for n in range(100)})
    assert len(text) < 1000
    assert text.endswith("and 92 more")
    assert refused(ADD, a=1, b=2, **dict.fromkeys("cdefghij")).endswith('"j"')


def test_wrong_values_in_great_number_are_told_up_to_eight():
    def do(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int, j: int): ...

    text = refused(of(do), **dict.fromkeys("abcdefghij", "x"))
    assert (text.count("must be integer"), '"h"' in text, '"i"' in text) == (8, True, False)


def test_union_error_tells_the_member_that_fits_best():
    assert (
        refused(arg(int | list[int]), x=[1, "a"]) == 'argument "x[1]" must be integer, not string'
    )


def test_description_that_is_annotated_first_is_the_one_told():
    def do(
        a: Annotated[int, "one", "two"],
        b: Annotated[int, Field(description="of the field")],
    ):
        """Do.

        Args:
            a: of the docstring
            b: of the docstring
        """

    told = {name: about["description"] for name, about in of(do).help["args"].items()}
    assert told == {"a": "one", "b": "of the field"}


def test_signature_converted_arguments_are_fresh_for_each_call():
    signature = arg(Point)
    args = {"x": {"x": 1}}
    assert check(signature, **args)["x"] is not check(signature, **args)["x"]


def test_defaults_are_left_to_the_function():
    def do(a: Point, b: int = 3, c: list[int] = []): ...  # noqa: B006

    assert check(of(do), a={"x": 1}) == {"a": Point(1)}
    assert check(of(do), a={"x": 1}, b=4.0) == {"a": Point(1), "b": 4}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["x", "y", "name"]), inner),
    max_leaves=10,
)  # fmt: skip
TYPES = [
    int, float, str, bool, int | None, list[int], dict[str, float], list[int] | str, Point, Node,
    User, Color, Pair, Address, Loose, Point | int, list[Point | None], tuple[int, str], set[int],
    datetime, UUID, Decimal, Literal["a", 1], Annotated[int, Field(ge=3)], bytes,
]  # fmt: skip


@given(value=JSON, annotation=st.sampled_from(TYPES))
def test_signature_checks_or_refuses_any_json(value, annotation):
    before = json.dumps(value)
    try:
        result = check(arg(annotation), x=value)
    except InvalidArguments as error:
        str(error).encode()
    else:
        assert result.keys() == {"x"}
    assert json.dumps(value) == before


# -- injected --------------------------------------------------------------------------------------


def test_injected_parameters_are_not_the_caller_s():
    def do(
        context: Context,
        a: int,
        maybe: SubContext | None = None,
        noted: Annotated[Context, "who asks"] = None,
        later: "Context | None" = None,
        inside: Annotated[Context, "who asks"] | None = None,
        with_deps: ContextOf[int] | None = None,
    ): ...

    signature = of(do)
    assert signature.injected == {
        "context": Context, "maybe": SubContext, "noted": Context, "later": Context,
        "inside": Context, "with_deps": ContextOf,
    }  # fmt: skip
    assert list(signature.help["args"]) == ["a"]
    assert signature.parameters["properties"] == {"a": {"type": "integer"}}
    assert check(signature, a=1) == {"a": 1}
    assert refused(signature, a=1, context={}) == 'unexpected argument "context"'


# -- typing.TypedDict ------------------------------------------------------------------------------


def test_typeddict_of_the_standard_library_keeps_what_may_be_missing():
    signature = arg(Loose)
    value = {"name": "a", "address": {"street": "b"}, "others": [{"name": "c"}]}
    assert check(signature, x=value) == {"x": value}
    definition = signature.parameters["$defs"]["Loose"]
    assert definition["required"] == ["name"]
    assert definition["properties"]["address"] == ADDRESS
    assert definition["properties"]["others"]["items"] == {"$ref": "#/$defs/Loose"}
    assert refused(signature, x={}) == 'argument "x.name" is missing'
    assert (
        refused(signature, x={"name": "a", "others": [{"name": "a", "address": {}}]})
        == 'argument "x.others[0].address.street" is missing'
    )


@pytest.mark.parametrize(
    ("annotation", "value", "place"),
    (
        (dict[str, Address], {"k": {"street": 1}}, "x.k.street"),
        (tuple[Address, ...], [{"street": 1}], "x[0].street"),
        (list[Annotated[Address, Field(description="d")]], [{"street": 1}], "x[0].street"),
        (list[Address] | None, [{"street": 1}], "x[0].street"),
    ),
)
def test_typeddict_is_found_inside_generic_types(annotation, value, place):
    assert refused(arg(annotation), x=value) == f'argument "{place}" must be string, not integer'


def test_typeddict_of_typing_extensions_works_too():
    class Extended(typing_extensions.TypedDict):
        a: int
        b: typing_extensions.NotRequired[Address]

    assert check(arg(Extended), x={"a": 1}) == {"x": {"a": 1}}
    assert refused(arg(Extended), x={}) == 'argument "x.a" is missing'


# -- callables and the cache -----------------------------------------------------------------------


def test_signature_is_made_once():
    def do(x: int): ...

    assert of(do) is of(do)
    assert Signature.of(Calculator.add, bound_to_self=True) is ADD
    assert of(Calculator().add) is ADD
    unbound = of(Calculator.add)
    assert unbound is not ADD
    assert list(unbound.parameters["properties"]) == ["self", "a", "b"]


def test_signature_goes_with_its_function():
    def do(x: int): ...

    gone = weakref.ref(of(do)), weakref.ref(do)
    del do
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_signature_of_a_function_made_at_the_place_of_another_is_its_own():
    for name in [f"p{n}" for n in range(200)]:
        scope: Any = functools.partial(lambda **given: given)
        scope.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=int)]
        )
        assert of(scope).parameters["properties"] == {name: {"type": "integer"}}


def test_partial_wrapped_and_callable_objects():
    def plain(a: int, b: str = "x") -> None:
        """Do it."""

    @functools.wraps(plain)
    def wrapper(*args, **kwargs):
        return plain(*args, **kwargs)

    class Caller:
        def __call__(self, a: int, b: str = "x") -> None:
            """Do it."""

    class Slotted(Caller):
        __slots__ = ()

        def __hash__(self) -> int:
            raise TypeError("not hashable")

    named = functools.partial(plain)
    named.note = "a partial with an attribute is not joined with one around it"
    several = (plain, wrapper, named, functools.partial(named), Caller(), Slotted())
    for function in several:
        assert of(function).help == of(plain).help
    bound = of(functools.partial(plain, 1))
    assert list(bound.parameters["properties"]) == ["b"]


def test_signature_of_a_class_has_its_constructor_s_parameters():
    assert list(of(Point).parameters["properties"]) == ["x", "y"]


def test_signature_that_a_decorator_states_is_what_counts():
    def do(*args): ...

    do.__signature__ = inspect.Signature(
        [inspect.Parameter("n", inspect.Parameter.KEYWORD_ONLY, annotation=int)]
    )
    assert of(do).parameters["properties"] == {"n": {"type": "integer"}}


def test_simple_functions_need_neither_pydantic_nor_the_docstring_parser():
    program = """
import sys
from typing import Any, Optional
from moothall.actions.signature import Signature
def do(a: int, b: list[str], c: dict[str, float], d: Optional[bool] = None, e: Any = 1):
    "Do it."
signature = Signature.of(do, bound_to_self=False)
assert signature.check({"a": 1, "b": ["x"], "c": {"k": 1}}, "do")["c"] == {"k": 1.0}
print([name for name in ("pydantic", "docstring_parser") if name in sys.modules])
assert signature.description == "Do it."
assert signature.parameters["properties"]["a"] == {"type": "integer"}
print("pydantic" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.split("\n")[:2] == ["[]", "False"]


@pytest.mark.parametrize("kind", (set[int], frozenset[int]))
def test_set_parameter_takes_what_its_schema_admits(kind):
    def pick(numbers: kind) -> None: ...

    made = moothall.Action("pick", pick)
    assert "uniqueItems" not in str(made.parameters)
    assert made.check({"numbers": [1, 2, 2]}) == {"numbers": {1, 2}}


def pays(amount: int, items: list[int], note: str = "") -> str:
    """Pay."""
    return "paid"


def checks_by_its_own_schema() -> moothall.Action:
    number = {"type": "integer"}
    schema = {"type": "object", "properties": {"due-date": number, "a": {"items": number}}}
    return moothall.Action("pay", lambda **args: "paid", "Pay.", schema)


@pytest.mark.parametrize(
    ("args", "argument"),
    (
        ({"amount": "x", "items": [], "note": 'argument "items"'}, "amount"),
        ({"amount": 1, "items": [1, "argument"]}, "items"),
        ({"items": []}, "amount"),
        ({"amount": 1, "items": [], "other": 1}, "other"),
    ),
)
def test_wrong_arguments_error_has_the_first_argument_at_fault(
    args: dict[str, Any], argument: str
) -> None:
    with pytest.raises(InvalidArguments) as error:
        moothall.Action("pay", pays).check(args)
    assert error.value.argument == argument


@pytest.mark.parametrize(
    ("args", "argument"),
    (({"due-date": "soon"}, "due-date"), ({"due-date": 1, "a": [1, "b"]}, "a")),
)
def test_wrong_arguments_error_of_a_schema_has_the_argument_at_fault(
    args: dict[str, Any], argument: str
) -> None:
    with pytest.raises(InvalidArguments) as error:
        checks_by_its_own_schema().check(args)
    assert error.value.argument == argument
