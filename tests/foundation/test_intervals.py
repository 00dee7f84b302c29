"""Means, shares and their intervals: against scipy's, and at their edges."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from scipy.special import stdtrit

from moothall import ConfigError, Interval
from moothall.foundation.intervals import t_quantile


@pytest.mark.parametrize("freedom", (*range(1, 41), 99, 1000, 100_000))
def test_t_quantile_is_scipys_to_nine_digits(freedom: int) -> None:
    for level in (0.001, 0.025, 0.5, 0.6, 0.9, 0.975, 0.9999):
        assert t_quantile(level, freedom) == pytest.approx(
            float(stdtrit(freedom, level)), rel=1e-9, abs=1e-9
        )


def test_interval_of_a_share_is_wilsons_and_no_point_at_its_ends() -> None:
    share = Interval.of_share([1.0] * 20)
    assert (share.mean, round(share.low, 4), share.high) == (1.0, 0.8389, 1.0)
    assert round(Interval.of_share([0.0] * 20).high, 4) == 0.1611


def test_interval_of_samples_is_as_narrow_as_that_of_the_share_of_as_many() -> None:
    cases = [0.0, 1.0] * 50
    drawn = Interval.of_samples(cases, lambda some: sum(some) / len(some))
    assert (drawn.mean, drawn.n) == (0.5, 100)
    assert drawn.low == pytest.approx(0.42, abs=0.05)
    assert drawn.high == pytest.approx(0.58, abs=0.05)


def test_interval_of_samples_is_the_same_each_time() -> None:
    cases = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]

    def mean(values: object) -> float:
        return sum(values) / len(values)  # type: ignore[call-overload, arg-type, no-any-return]

    first = Interval.of_samples(cases, mean)
    assert first == Interval.of_samples(cases, mean)
    assert first.low < first.mean < first.high


def test_interval_of_no_value_is_an_error() -> None:
    for make in (Interval.of_values, Interval.of_share):
        with pytest.raises(ConfigError, match="no value"):
            make([])


@pytest.mark.parametrize("draw", (lambda r: r.choice((-1, 0, 0, 1)), lambda r: r.gauss(0, 3)))
def test_interval_of_looks_is_wrong_in_at_most_one_of_20_series_however_often_one_looks(
    draw: Callable[[Random], float],
) -> None:
    random, wrong_count = Random(7), 0
    for _ in range(400):
        values = [draw(random) for _ in range(512)]
        looks = [Interval.of_looks(values[: 16 << each], each + 1) for each in range(6)]
        wrong_count += any(0 not in each for each in looks)
    assert wrong_count <= 20


def test_interval_of_looks_decides_a_clear_difference_at_the_first_look() -> None:
    assert Interval.of_looks([1.0] * 16, 1) == Interval(1.0, 1.0, 1.0, 16)
    assert 0 not in Interval.of_looks([1.0, 1.0, 1.0, 0.0] * 8, 2)
    assert 0 in Interval.of_looks([1.0] * 8, 1)  # eight signs may be equal by chance
