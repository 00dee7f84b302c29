"""Each fault in the middle of a load, at a random moment: what came of every message, counted.

The worker is a process of its own, which keeps its own record of what it did. The table of
docs/reliability.md is what this prints, with every seed:

    .venv/bin/python -m pytest -n 2 -m "" -v tests/faults/test_counted.py
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
from benchmarks.broker import Broker

from faults import breaking
from faults.trial import Counts, Trial, trial

pytestmark = [pytest.mark.timeout(400)]

FEW, MANY = 1, 20
AT_ONCE = 5
LEAST = 1_000
IN_FLIGHT = 0.05


seeds = pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < FEW else pytest.mark.long) for n in range(MANY)]
)
"""Twenty moments, of which the short run takes one for each fault."""


@pytest.fixture
def count(
    fragile: Broker, tmp_path: Path, record_property: Callable[[str, object], None]
) -> Callable[..., Counts]:
    """Run a fault, see that it hit enough of the load, and keep its counts for the table."""

    def run(name: str, fault: Callable[[Trial], None], seed: int, **options: object) -> Counts:
        folder = tmp_path / str(seed)
        folder.mkdir()
        with trial(fragile, folder, seed, **options) as made:
            counts = made.run(fault)
        record_property("counts", (name, asdict(counts)))
        assert counts.messages >= LEAST
        assert counts.in_flight >= IN_FLIGHT * counts.messages
        assert (counts.lost, counts.unanswered, counts.answered_again) == (0, 0, 0)
        assert (counts.wrong, counts.left) == (0, 0)
        return counts

    return run


def whole(counts: Counts) -> bool:
    """Whether every message was handled once, and nothing is in doubt."""
    return (counts.handled, counts.again, counts.in_doubt) == (counts.messages, 0, 0)


@seeds
@pytest.mark.parametrize("kind", ("plain", "detached"))
def test_killed_worker_leaves_begun_messages_in_doubt_and_runs_nothing_again(
    count: Callable[..., Counts], kind: str, seed: int
) -> None:
    counts = count(f"worker killed, {kind} actions", breaking.kill_worker, seed, kind=kind)
    assert counts.again == 0
    assert counts.in_doubt == counts.dead == counts.unrecorded
    assert counts.handled + counts.in_doubt >= counts.messages


@seeds
def test_killed_worker_runs_idempotent_actions_again(
    count: Callable[..., Counts], seed: int
) -> None:
    name = "worker killed, idempotent actions"
    counts = count(name, breaking.kill_worker, seed, kind="idempotent")
    assert counts.handled == counts.messages
    assert (counts.again_ended, counts.in_doubt, counts.dead) == (0, 0, 0)
    assert counts.again <= counts.unrecorded


@seeds
def test_killed_worker_without_an_inbox_loses_nothing(
    count: Callable[..., Counts], seed: int
) -> None:
    counts = count("worker killed, no inbox", breaking.kill_worker, seed, inbox=False)
    assert counts.handled == counts.messages
    assert (counts.in_doubt, counts.dead) == (0, 0)


@seeds
@pytest.mark.parametrize(
    ("name", "fault"),
    (
        ("connections closed by the broker", breaking.close_connections),
        pytest.param("network cut", breaking.cut, marks=pytest.mark.long),
        pytest.param(
            "the queue of answers deleted", breaking.delete_answers, marks=pytest.mark.long
        ),
        pytest.param("inbox disk full", breaking.fill_disk, marks=pytest.mark.long),
        pytest.param(
            "two processes claim the agent's id", breaking.claim_id, marks=pytest.mark.long
        ),
    ),
)
def test_messages_are_each_handled_once_through_a_fault(
    count: Callable[..., Counts], name: str, fault: Callable[[Trial], None], seed: int
) -> None:
    assert whole(count(name, fault, seed))


@seeds
def test_requests_are_each_handled_once_when_the_agents_queue_is_deleted(
    count: Callable[..., Counts], seed: int
) -> None:
    """A message that is no request, and is in the queue then, goes with it."""
    name = "the agent's queue deleted, requests"
    assert whole(count(name, breaking.delete_queue, seed, sends=False))


@seeds
def test_messages_are_each_handled_once_when_the_broker_is_killed(
    count: Callable[..., Counts], seed: int
) -> None:
    assert whole(count("broker killed", breaking.kill_broker, seed))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "fault"),
    (
        ("network stalled", breaking.stall),
        pytest.param(
            "an action blocks for three heartbeats", breaking.block, marks=pytest.mark.long
        ),
    ),
)
@pytest.mark.parametrize(
    "moments",
    (
        pytest.param(range(FEW), id="0"),
        *(
            pytest.param(range(n, min(n + AT_ONCE, MANY)), id=str(n), marks=pytest.mark.long)
            for n in range(FEW, MANY, AT_ONCE)
        ),
    ),
)
def test_messages_are_each_handled_once_after_a_long_wait(
    count: Callable[..., Counts], name: str, fault: Callable[[Trial], None], moments: range
) -> None:
    """A few at a time, each with a network of its own: it is waiting that takes long here."""
    run = partial(count, name, fault)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert all(map(whole, pool.map(run, moments)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("seconds", "seed"), [(0.5, n) for n in range(MANY)] + [(10, n) for n in range(4)]
)
def test_messages_sent_while_the_broker_is_away_are_each_handled_once(
    count: Callable[..., Counts], seconds: float, seed: int
) -> None:
    fault = partial(breaking.stop_broker, seconds=seconds)
    assert whole(count(f"broker stopped, {seconds:g} s", fault, seed))
