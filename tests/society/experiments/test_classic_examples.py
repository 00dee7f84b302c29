"""The classic experiments of examples/, each one command, come to their known results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moothall.society import Experiment

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ("wealth", "segregation", "epidemic", "opinions"))
def test_classic_experiment_can_be_read(name: str) -> None:
    assert Experiment.from_yaml(EXAMPLES / f"{name}.yaml").name == name


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_wealth_is_as_unequal_as_its_law(tmp_path: Path) -> None:
    """All give at once, so each citizen is a queue with Poisson arrivals, here of ten gifts."""
    results = await Experiment.from_yaml(EXAMPLES / "wealth.yaml").run(jobs=0, out=tmp_path)
    mean = 10
    givers = mean + 1 - np.sqrt((mean + 1) ** 2 - 2 * mean)
    arrivals = np.exp(-givers) * np.cumprod(np.r_[1.0, givers / np.arange(1, 40)])
    law = np.eye(1, 400)[0]
    for _ in range(4_000):
        law = np.convolve(np.r_[law[0] + law[1], law[2:], 0.0], arrivals)[:400]
    above = 1 - np.cumsum(law)
    gini = 1 - float((above**2).sum()) / float(above.sum())
    found = results.interval("gini", "chance")
    assert found.low < gini < found.high


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_segregation_experiment_separates_all_by_a_wish_for_some_neighbours(
    tmp_path: Path,
) -> None:
    results = await Experiment.from_yaml(EXAMPLES / "segregation.yaml").run(jobs=0, out=tmp_path)
    assert results.interval("alike", "none").mean == pytest.approx(500, abs=10)
    assert results.interval("alike", "third").low > 650
    assert results.difference("alike", "half", "third").low > 0


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_epidemic_experiment_reaches_its_final_size(tmp_path: Path) -> None:
    results = await Experiment.from_yaml(EXAMPLES / "epidemic.yaml").run(jobs=0, out=tmp_path)
    # Newman 2002; the fifty who are ill at the start add at most their own share and offspring.
    assert results.interval("recovered", "random").mean == pytest.approx(0.504, abs=0.03)
    assert results.difference("recovered", "random", "spatial").low > 0.3


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_opinions_gather_by_the_bound(tmp_path: Path) -> None:
    results = await Experiment.from_yaml(EXAMPLES / "opinions.yaml").run(jobs=0, out=tmp_path)
    groups = [results.interval("groups", f"bound_{bound}").mean for bound in (50, 25, 10)]
    assert groups == pytest.approx([1, 2, 5], abs=0.75)
