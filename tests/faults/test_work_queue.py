"""Three processes behind one id, of which one is killed each second for a minute.

Its rows of the table of docs/reliability.md:

    .venv/bin/python -m pytest -m "" -v tests/faults/test_work_queue.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
from benchmarks.broker import Broker

from faults import breaking
from faults.trial import Counts, trial

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("faults")]

PROCESSES = 3
FEW, MANY = 3, 60
"""How many processes are killed."""


@pytest.fixture
def count(
    fragile: Broker, tmp_path: Path, record_property: Callable[[str, object], None]
) -> Callable[..., Counts]:
    """Kill so many processes during a load, and count what came of its messages."""

    def run(deaths: int, **options: object) -> Counts:
        with trial(fragile, tmp_path, deaths, workers=PROCESSES, **options) as made:
            counts = made.run(partial(breaking.kill_workers, times=deaths))
        name = f"one of {PROCESSES} processes of one id killed, {deaths} times"
        kind = "no inbox" if options.get("inbox") is False else f"{options['kind']} actions"
        record_property("counts", (f"{name}, {kind}", asdict(counts)))
        assert (counts.lost, counts.unanswered, counts.answered_again) == (0, 0, 0)
        assert (counts.wrong, counts.left) == (0, 0)
        return counts

    return run


deaths = pytest.mark.parametrize(
    "deaths", (FEW, pytest.param(MANY, marks=pytest.mark.long)), ids=("few", "minute")
)
minute = pytest.mark.parametrize("deaths", (pytest.param(MANY, marks=pytest.mark.long),))


@deaths
@pytest.mark.parametrize("kind", ("plain", pytest.param("detached", marks=pytest.mark.long)))
def test_shared_agent_with_inboxes_whose_processes_die_runs_nothing_twice(
    count: Callable[..., Counts], deaths: int, kind: str
) -> None:
    counts = count(deaths, kind=kind)
    assert counts.again == 0
    assert counts.in_doubt == counts.dead <= counts.unrecorded
    assert counts.handled + counts.in_doubt >= counts.messages


@minute
def test_shared_agent_whose_processes_die_runs_idempotent_actions_to_their_end(
    count: Callable[..., Counts], deaths: int
) -> None:
    counts = count(deaths, kind="idempotent")
    assert (counts.handled, counts.in_doubt, counts.dead) == (counts.messages, 0, 0)


@minute
def test_shared_agent_without_an_inbox_whose_processes_die_loses_nothing(
    count: Callable[..., Counts], deaths: int
) -> None:
    counts = count(deaths, inbox=False)
    assert (counts.handled, counts.in_doubt, counts.dead) == (counts.messages, 0, 0)
