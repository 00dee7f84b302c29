"""AgentSociety's four experiments by rules: each effect, and none without what makes it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moothall import Interval
from moothall.society import Experiment, Results

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class Effect(NamedTuple):
    """A difference that is expected: above 0, unless the mechanism is ablated."""

    metric: str
    higher: str
    lower: str
    step: int | None = None


class Claim(NamedTuple):
    """An experiment, the parameter that ablates its mechanism, and its effects."""

    name: str
    ablated: str
    effects: tuple[Effect, ...]
    small: dict[str, Any]
    small_steps: int = 0


POLARISATION = Claim(
    "polarisation",
    "real",
    (
        Effect("extremity", "homophilic", "control"),
        Effect("extremity", "homophilic", "heterophilic"),
        Effect("polarised", "homophilic", "control"),
        Effect("extremity", "control", "heterophilic"),
    ),
    {"citizens": [40], "friends": [4], "memory": [7]},
    10,
)
INFLAMMATORY = Claim(
    "inflammatory",
    "feels",
    (
        Effect("reach", "inflammatory", "neutral"),
        Effect("reach", "inflammatory", "node"),
        Effect("reach", "edge", "node"),
        Effect("feeling", "edge", "node"),
        Effect("feeling", "inflammatory", "edge"),
    ),
    {"citizens": [60]},
    24,
)
INCOME = Claim(
    "basic_income",
    "keeps",
    (Effect("spent", "income", "control"), Effect("depression.score", "control", "income")),
    {},
)
HURRICANE = Claim(
    "hurricane",
    "heeds",
    tuple(Effect("active", "calm", "hurricane", 24 * day) for day in (4, 5, 6)),
    {},
)


def lived(claim: Claim, seeds: int, *, small: bool, jobs: int) -> Results:
    """The experiment as it is, and with its mechanism ablated."""
    path = EXAMPLES / f"{claim.name}.yaml"
    swept: dict[str, Any] = {claim.ablated: [True, False]}
    workflow = {}
    if small:
        swept |= claim.small
        workflow = {"workflow": [{"step": claim.small_steps}]}
    experiment = Experiment.from_yaml(path, seeds=seeds, parameters=swept, **workflow)
    return asyncio.run(experiment.run(jobs=jobs))


def of(results: Results, claim: Claim, effect: Effect, *, ablated: bool) -> Interval:
    (values,) = [
        each for each in results.grid if f'"{claim.ablated}": {str(not ablated).lower()}' in each
    ]
    return results.difference(effect.metric, effect.higher, effect.lower, effect.step, values)


@pytest.mark.parametrize(
    ("claim", "effects"),
    ((POLARISATION, 2), pytest.param(INFLAMMATORY, 3, marks=pytest.mark.long)),
)
def test_experiment_effect_comes_from_its_mechanism(claim: Claim, effects: int) -> None:
    results = lived(claim, 5, small=True, jobs=0)
    for effect in claim.effects[:effects]:
        assert of(results, claim, effect, ablated=False).low > 0, effect
    assert 0 in of(results, claim, claim.effects[0], ablated=True)


@pytest.mark.long
def test_experiment_whose_platform_finds_nothing_stops_nothing() -> None:
    path = EXAMPLES / "inflammatory.yaml"
    swept = {"citizens": [40], "found": [0]}
    results = asyncio.run(Experiment.from_yaml(path, seeds=5, parameters=swept).run(jobs=0))
    for effect in INFLAMMATORY.effects[1:]:
        assert 0 in results.difference(effect.metric, effect.higher, effect.lower), effect


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "claim", (POLARISATION, INFLAMMATORY, INCOME, HURRICANE), ids=lambda each: each.name
)
def test_experiment_at_twenty_seeds_has_each_effect_from_its_mechanism(claim: Claim) -> None:
    results = lived(claim, 20, small=False, jobs=2)
    for effect in claim.effects:
        assert of(results, claim, effect, ablated=False).low > 0, effect
    # What a platform finds does not depend on feeling, so what it stops is stopped all the same.
    ablated = claim.effects[:1] if claim is INFLAMMATORY else claim.effects
    for effect in ablated:
        assert 0 in of(results, claim, effect, ablated=True), effect


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "workflow"),
    (
        ("inflammatory", [{"step": 1}]),
        ("hurricane", [{"intervene": {"facts": {"wind_kmh": 150}}}, {"step": 1}]),
    ),
)
def test_ten_citizens_ask_the_bundled_model_once_and_are_recorded(
    name: str, workflow: list[Any], tmp_path: Path, weights: Path
) -> None:
    # It shows the way, and claims nothing of what the model answers.
    shutil.copytree(EXAMPLES / "experiments", tmp_path / "experiments")
    shutil.copy(EXAMPLES / f"{name}.yaml", tmp_path)
    asked: dict[str, Any] = {"citizens": [10], "llm": ["local"], "answers": ["answers.jsonl"]}
    experiment = Experiment.from_yaml(
        tmp_path / f"{name}.yaml",
        seeds=1,
        parameters=asked,
        workflow=workflow,
        metrics=["model_calls", "fallbacks"],
        published=[],
        every=1,
        conditions={"base": {}},
    )
    first = asyncio.run(experiment.run(jobs=0))
    answers = (tmp_path / "answers.jsonl").read_bytes()
    assert answers
    assert sum(sum(each.values()) for each in first.curve("model_calls").values()) > 0
    # What is recorded is given again; only a call that had failed is made once more.
    asyncio.run(experiment.run(jobs=0))
    assert (tmp_path / "answers.jsonl").read_bytes().startswith(answers)
