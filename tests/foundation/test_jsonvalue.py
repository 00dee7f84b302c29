import json
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import NotJSON, as_json, copy_json, json_text, read_json, to_json

BOTH = pytest.mark.parametrize("copy", (to_json, copy_json))


class Color(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    HIGH = 3


class Mode(StrEnum):
    READ = "read"


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list)


class Model(BaseModel):
    when: date
    points: list[Point] = []


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


Pair = namedtuple("Pair", "left right")


def path_and_reason(error: pytest.ExceptionInfo[NotJSON]) -> tuple[str, str]:
    return error.value.path, error.value.reason


# -- both ------------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)))
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=30,
)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same plain types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@BOTH
@given(value=json_values)
def test_json_values_come_back_as_json_would_bring_them_back(copy, value):
    assert same(copy(value), json.loads(json.dumps(value)))


odd_values = st.recursive(
    scalars
    | st.text()
    | st.floats()
    | st.binary()
    | st.complex_numbers()
    | st.datetimes()
    | st.decimals()
    | st.uuids()
    | st.sampled_from([Color.RED, Color.PAIR, Level.HIGH, Mode.READ, object(), int, ..., print])
    | st.builds(Text, st.text())
    | st.integers(min_value=10**4299, max_value=10**4301),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.one_of(st.text(), st.integers(), st.none(), st.builds(Text)), inner)
        | st.builds(Point, inner, inner)
        | st.builds(Pair, inner, inner)
        | st.frozensets(st.integers() | st.text() | st.binary())
        | st.dictionaries(st.text(), inner).map(OrderedDict)
    ),
    max_leaves=20,
)


@BOTH
@given(value=odd_values)
def test_json_of_any_value_is_json_or_raises_not_json(copy, value):
    try:
        result = copy(value)
    except NotJSON as error:
        str(error).encode()  # an error can be sent and printed
        return
    assert same(result, json.loads(json.dumps(result, allow_nan=False)))
    json.dumps(result, ensure_ascii=False).encode()


@BOTH
def test_json_copy_shares_nothing_mutable(copy):
    original = {"a": [{"b": [1]}], "c": {"d": {}}}
    result = copy(original)
    result["a"][0]["b"].append(2)
    result["c"]["d"]["e"] = 1
    assert original == {"a": [{"b": [1]}], "c": {"d": {}}}


@BOTH
def test_flat_dict_is_a_copy_too(copy):
    original = {"a": 1, "b": "x", "c": None, "d": 1.5, "e": True}
    result = copy(original)
    assert result == original
    assert result is not original


@BOTH
@pytest.mark.parametrize(
    ("value", "plain"),
    (
        (Level.HIGH, 3),
        (Mode.READ, "read"),
        (Text("as it is"), "as it is"),
        ((1, (2,)), [1, [2]]),
        (Pair(1, "r"), [1, "r"]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        ({Mode.READ: Level.HIGH, Text("k"): 1}, {"read": 3, "k": 1}),
        ({"é": ["日本", "😀"]}, {"é": ["日本", "😀"]}),
    ),
)
def test_subclasses_are_reduced_to_the_plain_types(copy, value, plain):
    assert same(copy(value), plain)


@BOTH
@pytest.mark.parametrize(
    ("value", "path", "reason"),
    (
        (b"x", "", "bytes is not JSON"),
        ({"a": [1, object()]}, "a[1]", "object is not JSON"),
        ({"a b": {"c": 1j}}, '["a b"].c', "complex is not JSON"),
        ([float("nan")], "[0]", "nan is not JSON"),
        (float("inf"), "", "inf is not JSON"),
        ({"low": -float("inf")}, "low", "-inf is not JSON"),
        ({"a": {1: 2}}, "a", "a key is integer, not string"),
        ({None: 2}, "", "a key is null, not string"),
        ([10**4300], "[0]", "an integer of more than 4300 digits"),
        ({"n": -(10**4300)}, "n", "an integer of more than 4300 digits"),
        ("\ud800", "", "a lone surrogate in the text, which UTF-8 cannot carry"),
        ({"a": "x\udfff"}, "a", "a lone surrogate in the text, which UTF-8 cannot carry"),
        (Point, "", "type is not JSON"),
        ({"a": (x for x in ())}, "a", "generator is not JSON"),
    ),
)
def test_json_copy_of_what_is_not_json_names_its_place(copy, value, path, reason):
    with pytest.raises(NotJSON) as error:
        copy(value)
    assert path_and_reason(error) == (path, reason)
    assert str(error.value) == (f"{path}: {reason}" if path else reason)


def test_path_starts_where_the_caller_says():
    with pytest.raises(NotJSON) as error:
        copy_json({"a": [b""]}, "action.args")
    assert error.value.path == "action.args.a[0]"


@BOTH
def test_key_with_a_lone_surrogate_gives_a_printable_error(copy):
    with pytest.raises(NotJSON) as error:
        copy({"\ud800": 1})
    assert str(error.value).encode()


@BOTH
def test_integers_of_4300_digits_are_let_through(copy):
    assert copy([10**4300 - 1]) == [10**4300 - 1]


@BOTH
def test_cycle_is_refused(copy):
    ring: list[Any] = []
    ring.append({"again": ring})
    with pytest.raises(NotJSON, match="contains itself") as error:
        copy({"a": [0, ring]})
    assert error.value.path.startswith("a[1][0].again")


@BOTH
@pytest.mark.parametrize("wrap", (lambda inner: [inner], lambda inner: {"k": inner}))
def test_depth_beyond_any_stack_is_refused_in_words(copy, wrap):
    value: Any = 1
    for _ in range(100_000):
        value = wrap(value)
    with pytest.raises(NotJSON, match="nested deeper than 1"):
        copy(value)
    while isinstance(value, list | dict):  # taken apart, since freeing it is recursive
        value = value[0] if isinstance(value, list) else value["k"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_deepest_value_that_can_be_returned_can_be_wrapped_and_sent():
    assert copy_json({"args": {"data": to_json(nested(100))}})
    with pytest.raises(NotJSON, match="nested deeper than 100 levels"):
        to_json(nested(101))


def test_stack_nearly_used_up_is_refused_in_words():
    def at_the_end_of_the_stack() -> Any:
        try:
            return at_the_end_of_the_stack()
        except RecursionError:
            return copy_json(nested(60))

    with pytest.raises(NotJSON, match=r"nested too deep for the stack"):
        at_the_end_of_the_stack()


@BOTH
@pytest.mark.parametrize(
    "value",
    (
        "x" * (16 * 1024 * 1024 + 1),
        ["x" * 1024 * 1024] * 17,
        ["é" * 1024 * 1024] * 9,
        {"k" * 9_000_000: 1, "l" * 9_000_000: 2},
        [None] * 5_000_000,
    ),
    ids=["text", "texts", "bytes, not characters", "keys", "items"],
)
def test_value_of_more_than_16_mib_is_refused(copy, value):
    with pytest.raises(NotJSON, match="larger than 16 MiB in all"):
        copy(value)


@BOTH
def test_small_value_that_unfolds_into_a_huge_one_is_refused(copy):
    value: Any = ["x" * 100]
    for _ in range(12):
        value = [value] * 10
    with pytest.raises(NotJSON, match="larger than 16 MiB"):
        copy(value)


@BOTH
def test_long_ways_and_keys_are_cut_in_the_path(copy):
    value: Any = b""
    for _ in range(90):
        value = {"k" * 5000: value}
    with pytest.raises(NotJSON) as error:
        copy(value)
    assert len(error.value.path) < 2000


@BOTH
def test_class_that_raises_when_read_is_refused(copy):
    class Hostile(dict[str, Any]):
        def __iter__(self):
            raise RuntimeError("not today")

        def keys(self):
            raise RuntimeError("not today")

    with pytest.raises(NotJSON, match=r"a: Hostile cannot be converted \(RuntimeError: not today"):
        copy({"a": Hostile(x=1)})


@BOTH
def test_object_that_claims_to_be_text_is_refused(copy):
    class Liar:
        __class__ = str  # type: ignore[assignment]

    with pytest.raises(NotJSON, match="Liar is not JSON"):
        copy([Liar()])


# -- to_json only ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "plain"),
    (
        (Color.RED, "red"),
        ({"c": Color.PAIR}, {"c": [1, 2]}),
        (Point(1, ["a"]), {"x": 1, "tags": ["a"]}),
        ([Point(1)], [{"x": 1, "tags": []}]),
        (
            Model(when=date(2024, 1, 2), points=[Point(3)]),
            {"when": "2024-01-02", "points": [{"x": 3, "tags": []}]},
        ),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset("ba"), ["a", "b"]),
        ({(2, "b"), (1, "a")}, [[1, "a"], [2, "b"]]),
        ({1, "a", None}, ["a", 1, None]),
        (datetime(2024, 1, 2, 3, 4, tzinfo=UTC), "2024-01-02T03:04:00+00:00"),
        (date(2024, 1, 2), "2024-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(hours=1), "PT1H"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (Decimal("1.50"), "1.50"),
    ),
)
def test_json_of_values_with_an_obvious_form(value, plain):
    assert same(to_json(value), plain)


@pytest.mark.parametrize("value", (Color.RED, Point(1), {1}, date(2024, 1, 2), UUID(int=1)))
def test_messages_take_nothing_that_would_change_its_type(value):
    with pytest.raises(NotJSON, match="is not JSON"):
        copy_json({"a": value})


def test_dataclass_that_contains_itself_is_refused():
    point = Point(1)
    point.tags = [point]  # type: ignore[list-item]
    with pytest.raises(NotJSON, match="contains itself"):
        to_json({"p": point})


def test_model_that_cannot_be_dumped_is_refused():
    class Holder(BaseModel):
        thing: Any

    with pytest.raises(NotJSON, match=r"h: Holder cannot be converted \(PydanticSerialization"):
        to_json({"h": Holder(thing=object())})


def test_model_with_a_number_that_is_not_finite_is_refused():
    class Holder(BaseModel):
        number: float

    with pytest.raises(NotJSON, match="number: nan is not JSON"):
        to_json(Holder(number=float("nan")))


def test_path_that_utf8_cannot_carry_is_refused():
    with pytest.raises(NotJSON, match="lone surrogate"):
        to_json(PurePosixPath("\udcff"))


def test_text_of_any_class_is_shown_as_the_text_that_it_is():
    assert str(json_text(Text("as it is"))) == "as it is"


@pytest.mark.parametrize(
    ("value", "data"),
    (
        (np.arange(3), [0, 1, 2]),
        (np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        ({"mean": np.float32(0.5), "all": np.bool_(True)}, {"mean": 0.5, "all": True}),
        (np.array([1.0, np.nan]), [1.0, None]),
        (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        (pd.DataFrame({0: [pd.NaT, pd.Timestamp(0)]}), [{"0": None}, {"0": "1970-01-01T00:00:00"}]),
        (pd.Series([1, 1, 2]).value_counts(), [{"index": 1, "count": 2}, {"index": 2, "count": 1}]),
        (pd.Series([1, None], dtype="Int64"), [1, None]),
        (pa.table({"a": [1, None]}), [{"a": 1}, {"a": None}]),
    ),
)
def test_arrays_and_tables_are_json_with_every_value(value: Any, data: Any) -> None:
    assert to_json(value) == data
    assert json.loads(json_text(value)) == data


def test_array_of_more_than_100_000_cells_is_shown_in_short() -> None:
    assert as_json(np.zeros(100_001)) == "[0. 0. 0. ... 0. 0. 0.]"
    with pytest.raises(NotJSON, match="ndarray is not JSON"):
        to_json(np.zeros(100_001))


@pytest.mark.parametrize(
    ("value", "reason"),
    (
        (object(), "object is not JSON"),
        (b"bytes", "bytes is not JSON"),
        ({"a": [1, object()]}, r"a\[1\]: object is not JSON"),
        ({"share": float("inf")}, "share: inf is not JSON"),
        ({1: "a key"}, "a key is integer, not string"),
    ),
)
def test_text_of_what_is_no_json_is_refused_with_its_place(value: Any, reason: str) -> None:
    with pytest.raises(NotJSON, match=reason):
        json_text(value)


def test_json_of_bytes_is_refused_as_no_text() -> None:
    data: Any = b"{}"
    with pytest.raises(ConfigError, match="JSON must be a text, got bytes"):
        read_json(data)
