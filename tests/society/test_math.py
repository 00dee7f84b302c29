"""The functions of rules give the same bits for one citizen and for rows of any length."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.society import math as rules

ONE = ("exp", "log", "sqrt", "sin", "cos")
TWO = ("hypot", "power", "minimum", "maximum")
numbers = st.floats() | st.floats(-50, 50) | st.integers(-100, 100)


def bits(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


@pytest.mark.parametrize("name", ONE)
@given(st.lists(numbers, max_size=40))
def test_math_of_a_scalar_is_that_of_a_row_of_one(name: str, values: list[float]) -> None:
    function = getattr(rules, name)
    rows = function(np.array(values, dtype=float))
    assert [bits(value) for value in rows.tolist()] == [bits(function(v)) for v in values]
    # Every second value of a longer array: numpy has other loops for strides.
    strided = function(np.repeat(np.array(values, dtype=float), 2)[::2])
    assert [bits(value) for value in strided.tolist()] == [bits(v) for v in rows.tolist()]


@pytest.mark.parametrize("name", TWO)
@given(st.lists(st.tuples(numbers, numbers), max_size=40), numbers)
def test_functions_of_two_arguments_are_the_same_and_one_may_be_for_all(
    name: str, pairs: list[tuple[float, float]], same: float
) -> None:
    function = getattr(rules, name)
    x = np.array([a for a, _ in pairs], dtype=float)
    y = np.array([b for _, b in pairs], dtype=float)
    assert [bits(v) for v in function(x, y).tolist()] == [bits(function(a, b)) for a, b in pairs]
    assert [bits(v) for v in function(x, same).tolist()] == [
        bits(function(a, same)) for a, _ in pairs
    ]


@given(st.lists(numbers, max_size=10), numbers, numbers)
def test_clip_and_where(values: list[float], low: float, high: float) -> None:
    x = np.array(values, dtype=float)
    assert [bits(v) for v in rules.clip(x, low, high).tolist()] == [
        bits(rules.clip(v, low, high)) for v in values
    ]
    assert [bits(v) for v in rules.where(x > 0, x, low).tolist()] == [
        bits(rules.where(v > 0, v, low)) for v in values
    ]


def test_values_are_those_of_mathematics() -> None:
    assert rules.exp(0) == 1.0
    assert rules.power(2, 10) == 1024.0
    assert rules.hypot(3, 4) == 5.0
    assert rules.clip(7, 0, 1) == 1.0
    assert rules.sqrt(np.array([[4, 9]])).tolist() == [[2.0, 3.0]]
    assert math.isnan(rules.sqrt(-1))
    assert rules.log(0) == -math.inf
    assert type(rules.cos(1)) is float
