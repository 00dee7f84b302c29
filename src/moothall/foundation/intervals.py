"""Means, shares and their 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import TypeVar

from moothall.foundation.errors import ConfigError

T = TypeVar("T")
_LEVEL = 0.975  # what lies below the high end: 95 % are within
_DRAWS = 2000  # samples of a bootstrap
_MAX_STEPS = 10_000


@dataclass(frozen=True)
class Interval:
    """A mean over `n` values and its 95 % interval; of one value, the mean alone.

    Attributes:
        mean: the mean
        low: the low end of the interval
        high: its high end
        n: how many values there are
    """

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of_values(cls, values: Sequence[float], level: float = _LEVEL) -> Interval:
        """Return the mean of values and its interval by Student's t.

        Args:
            values: the values
            level: the share of the distribution below the high end: 0.975 for 95 %

        Raises:
            ConfigError: there is no value
        """
        n = _count_of(values)
        mean = math.fsum(values) / n
        if n == 1:
            return cls(mean, mean, mean, 1)
        variance = math.fsum((each - mean) ** 2 for each in values) / (n - 1)
        half_width = t_quantile(level, n - 1) * math.sqrt(variance / n)
        return cls(mean, mean - half_width, mean + half_width, n)

    @classmethod
    def of_looks(cls, values: Sequence[float], looks: int) -> Interval:
        """Return the mean of values that are looked at again as there are more, and its interval.

        All looks together are wrong at most once in 20 times, if the values lie symmetrically about
        what they measure, as the differences of two equal conditions do: the k-th look has the
        share 1/2**k of that chance, by Hoeffding's bound for sums of random signs.

        Args:
            values: the values so far
            looks: how often they have been looked at, this time included; at most 30

        Raises:
            ConfigError: there is no value
        """
        n = _count_of(values)
        mean = math.fsum(values) / n
        square = 2 * math.log(2**looks / (1 - _LEVEL))
        if n <= square:  # so few signs may all be equal by chance
            return cls(mean, -math.inf, math.inf, n)
        squares = math.fsum((each - mean) ** 2 for each in values)
        half_width = math.sqrt(square * squares / (n * (n - square)))
        return cls(mean, mean - half_width, mean + half_width, n)

    @classmethod
    def of_share(cls, values: Sequence[float]) -> Interval:
        """Return the mean of shares, such as of 0 and 1, and its interval by Wilson.

        Raises:
            ConfigError: there is no value
        """
        n = _count_of(values)
        share = math.fsum(values) / n
        z2 = NormalDist().inv_cdf(_LEVEL) ** 2
        middle = (share + z2 / (2 * n)) / (1 + z2 / n)
        spread = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
        return cls(share, max(0.0, middle - spread), min(1.0, middle + spread), n)

    @classmethod
    def of_samples(
        cls, cases: Sequence[T], measure: Callable[[Sequence[T]], float], seed: int = 0
    ) -> Interval:
        """Return what is measured of cases, and its interval by a bootstrap over them.

        Args:
            cases: the cases
            measure: measures some cases, of which one may be there several times
            seed: of the samples that are drawn

        Raises:
            ConfigError: there is no case
        """
        n = _count_of(cases)
        draw = Random(seed)
        measures = sorted(measure(draw.choices(cases, k=n)) for _ in range(_DRAWS))
        low, high = measures[int(_DRAWS * (1 - _LEVEL))], measures[int(_DRAWS * _LEVEL) - 1]
        return cls(measure(cases), low, high, n)

    def __str__(self) -> str:
        if self.n == 1:
            return _short_number(self.mean)
        return f"{_short_number(self.mean)} [{_short_number(self.low)}, {_short_number(self.high)}]"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def _count_of(values: Sequence[object]) -> int:
    if len(values) == 0:
        raise ConfigError("there is no value to take the mean of")
    return len(values)


def t_quantile(level: float, freedom: int) -> float:
    """Return the value below which this share of Student's t distribution lies.

    Args:
        level: the share, above 0 and below 1
        freedom: the degrees of freedom, from 1
    """
    if level < 0.5:
        return -t_quantile(1 - level, freedom)
    above, low, high = 1 - level, 0.0, 1.0
    while _share_above(high, freedom) > above:
        low, high = high, 2 * high
    value = (low + high) / 2
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale = math.exp(log_scale) / math.sqrt(freedom * math.pi)
    for _ in range(_MAX_STEPS):
        error = _share_above(value, freedom) - above
        low, high = (value, high) if error > 0 else (low, value)
        density = scale * (1 + value * value / freedom) ** (-(freedom + 1) / 2)
        next_value = value + error / density  # by Newton, as far as that stays between the bounds
        if not low < next_value < high:
            next_value = (low + high) / 2
        is_exact = abs(next_value - value) <= 1e-14 * (1 + value)
        value = next_value
        if is_exact:
            break
    return float(value)


def _share_above(t: float, freedom: int) -> float:
    """Return the share of Student's t distribution above a value that is not negative."""
    x = freedom / (freedom + t * t)
    return _beta_share(x, freedom / 2, 0.5) / 2


def _beta_share(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function, by a continued fraction."""
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logs + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _MAX_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return front * fraction


def _short_number(value: float) -> str:
    """Return a number as text with four significant digits."""
    size = abs(value)
    if size >= 1000 or size == int(size):
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.1e}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"
