"""Fitting parameters to known figures, and how much each of them matters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import Experiment, Fit, Society


class Line(Society):
    """A society whose metrics are a known function of its parameters."""

    x = y = 0.0
    z = 1


def made(seed: int, x: float = 0.0, y: float = 0.0, z: int = 1) -> Line:
    society = Line((), seed=seed)
    society.x, society.y, society.z = x, y, z
    return society


def total(society: Any) -> float:
    return float(society.x + 3 * society.y)


def product(society: Any) -> float:
    return float(society.x * society.z)


def line(**fields: Any) -> Experiment:
    given: dict[str, Any] = {
        "name": "line",
        "society": {"make": made, "step": "1h"},
        "metrics": [{"name": "total", "by": total}, {"name": "product", "by": product}],
        "workflow": [{"run": {"steps": 1}}],
    }
    return Experiment(**{**given, **fields})


BOUNDS: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def test_sobol_tells_the_share_of_the_variance_that_is_known() -> None:
    found = line().sensitivity_sync("sobol", BOUNDS, samples=16, jobs=0)
    x, y = (found.of("total")[name]["ST"] or 0.0 for name in "xy")  # 1/10 and 9/10
    assert x == pytest.approx(0.1, abs=0.05)
    assert 4 * x < y < 1.2
    assert len(found.points) == 16 * 4
    with pytest.raises(ConfigError, match="there is no metric 'sum'; there are: total, product"):
        found.of("sum")


@pytest.mark.long
def test_sobol_draws_each_whole_number_between_the_bounds_as_often() -> None:
    found = line().sensitivity_sync("sobol", {"z": (1, 4)}, samples=64, jobs=0)
    drawn = Counter(each["z"] for each in found.points)
    assert sorted(drawn) == [1, 2, 3, 4]
    assert max(drawn.values()) < 1.3 * min(drawn.values())


def test_morris_tells_the_effects_and_whole_bounds_have_whole_values() -> None:
    swept = line(parameters={"x": [0.0, 1.0], "y": [0.0, 0.5, 1.0], "z": [1, 5]})
    found = swept.sensitivity_sync("morris", samples=4, jobs=0)
    total, product = found.of("total"), found.of("product")
    assert [total[name]["mu"] for name in "xyz"] == pytest.approx([1, 3, 0])
    assert product["x"]["sigma"]  # its effect depends on z
    assert product["y"]["mu_star"] == 0
    assert {type(each["z"]) for each in found.points} == {int}
    flat = line().sensitivity_sync("morris", {"z": (1, 5)}, samples=2, jobs=0)
    assert flat.of("total")["z"]["mu_star"] is None


def test_fit_comes_near_its_targets_and_continues_where_it_stopped(tmp_path: Path) -> None:
    import scipy.stats  # here, as it takes a second, and each worker collects all tests

    targets: dict[str, Any] = {"total": 2.0, "product": {"value": 0.5, "scale": 0.2, "step": 1}}
    priors: dict[str, Any] = {"x": scipy.stats.beta(2, 2), "y": (0.0, 1.0), "z": (1, 3)}
    lived: list[int] = []

    def fitted(rounds: int) -> Fit:
        lived.clear()
        options: Any = {"points": 16, "jobs": 0, "out": tmp_path, "seed": 1, "least": 0.0}
        return line().fit_sync(
            targets, priors, rounds=rounds, progress=lambda far: lived.append(far.lived), **options
        )

    first = fitted(2)
    assert sum(first.weights) == pytest.approx(1)
    assert first.distances == sorted(first.distances)
    assert [each["simulated"] for each in first.rounds] == [16, 8]
    more = fitted(4)
    assert lived[-1] > 0
    assert more.rounds[:2] == first.rounds
    assert more.rounds[3]["distance"] < first.rounds[1]["distance"]
    again = fitted(4)
    assert max(lived) == 0  # no cell runs again
    assert again == more
    assert more.means["total"] == pytest.approx(2.0, abs=0.5)
    low, high = more.interval("y")
    assert low <= more.mean("y") <= high
    assert type(more.best["z"]) is int
    assert set(more.rows[0]) == {"x", "y", "z", "weight", "distance"}


def test_fit_keeps_a_parameter_that_has_one_value() -> None:
    experiment = line(parameters={"z": [5], "y": [0.0, 2.0]})
    options: Any = {"points": 4, "rounds": 1, "jobs": 0}
    found = experiment.fit_sync({"product": 1.0}, BOUNDS, **options)
    assert found.means["product"] == pytest.approx(5 * found.best["x"])


WRONG: list[tuple[Any, str]] = [
    (
        lambda: line(parameters={"z": [1, 2]}).fit_sync({"total": 1}, BOUNDS, jobs=0),
        "'z' is swept: give its bounds too",
    ),
    (lambda: line().fit_sync({"totl": 1}, BOUNDS), r"'totl' is measured \(did you mean 'total'"),
    (lambda: line().fit_sync({}, BOUNDS), "targets must have one metric"),
    (lambda: line().fit_sync({"total": {"value": 1, "at": 2}}, BOUNDS), "got 'at'"),
    (lambda: line().fit_sync({"total": "much"}, BOUNDS), "total.value must be a number"),
    (lambda: line().fit_sync({"total": 1}, {"x": (1, 0)}), "the lower first"),
    (lambda: line().fit_sync({"total": 1}, {"q": (0, 1)}, jobs=0), "no such parameter"),
    (lambda: line().sensitivity_sync("saltelli", BOUNDS), "one of sobol, morris"),
    (lambda: line().sensitivity_sync("sobol", BOUNDS, samples=6), "power of 2"),
    (lambda: line().sensitivity_sync(), "nothing is swept"),
    (lambda: line().sensitivity_sync("morris", BOUNDS, condition="bse"), "did you mean 'base'"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_fit_names_a_wrong_argument(wrong: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        wrong()
