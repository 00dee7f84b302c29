"""The mathematics of rules: the same bits for one citizen and for rows of citizens.

So rules use + − × ÷, comparisons and these functions, never the standard library's `math`, whose
last bit may differ. Each function is numpy's on contiguous float64; a scalar is a row of one. A
number returns a float, an array or a sequence a float64 array; two arguments are broadcast. Outside
a function's domain the value is NaN or infinite. `sqrt`, `clip`, `minimum`, `maximum` and `where`
are equal on every platform, the others on one platform with the same numpy.
"""

from __future__ import annotations

from typing import Any

from moothall.society.arrays import ArrayLike, Number, np


def exp(x: ArrayLike) -> Any:
    """Return e to the power of x."""
    return _apply("exp", x)


def log(x: ArrayLike) -> Any:
    """Return the natural logarithm of x."""
    return _apply("log", x)


def sqrt(x: ArrayLike) -> Any:
    """Return the square root of x, correctly rounded."""
    return _apply("sqrt", x)


def sin(x: ArrayLike) -> Any:
    """Return the sine of x, in radians."""
    return _apply("sin", x)


def cos(x: ArrayLike) -> Any:
    """Return the cosine of x, in radians."""
    return _apply("cos", x)


def hypot(x: ArrayLike, y: ArrayLike) -> Any:
    """Return the length of (x, y)."""
    return _apply("hypot", x, y)


def power(x: ArrayLike, y: ArrayLike) -> Any:
    """Return x to the power of y."""
    return _apply("power", x, y)


def minimum(x: ArrayLike, y: ArrayLike) -> Any:
    """Return the smaller of x and y; NaN if one is; y if they are equal."""
    x, y = _as_float(x), _as_float(y)
    return where((x < y) | (x != x), x, y)


def maximum(x: ArrayLike, y: ArrayLike) -> Any:
    """Return the larger of x and y; NaN if one is; y if they are equal."""
    x, y = _as_float(x), _as_float(y)
    return where((x > y) | (x != x), x, y)


def clip(x: ArrayLike, low: ArrayLike, high: ArrayLike) -> Any:
    """Return x, at least `low` and at most `high`; `high` if low > high; NaN stays NaN."""
    return minimum(maximum(x, low), high)


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Any:
    """Return x where the condition holds, otherwise y."""
    x, y = _as_float(x), _as_float(y)
    if type(condition) is bool and type(x) is type(y) is float:
        return x if condition else y
    chosen = np.where(condition, x, y)
    return chosen if chosen.ndim else float(chosen)


def _as_float(x: ArrayLike) -> Number:
    """Return a number as a Python float, all else as a float64 array."""
    if type(x) is float:
        return x
    array = np.asarray(x, dtype="float64")
    return array if array.ndim else float(array)


def _apply(name: str, *arguments: ArrayLike) -> Any:
    values = [_as_float(argument) for argument in arguments]
    is_scalar = all(type(argument) is float for argument in values)
    if is_scalar:
        rows = [np.array([argument]) for argument in values]
    else:
        # numpy has other loops for strides and for scalars with rows; their last bit may differ.
        rows = [np.ascontiguousarray(row) for row in np.broadcast_arrays(*values)]
    with np.errstate(all="ignore"):
        result = getattr(np, name)(*rows)
    return float(result[0]) if is_scalar else result
