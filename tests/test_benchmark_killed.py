"""Tasks that are killed inside and after each call and resumed: a shop of one order, and tau2's."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.killed import PLACES, Counts, Work, judge, moothall
from benchmarks.tau2 import DOMAINS, Domain, Said, Task
from pydantic import BaseModel


class Order(BaseModel):
    id: str
    paid: int = 0


class Orders(BaseModel):
    orders: dict[str, Order]


class Tools:
    """What the harness needs of a domain's tools; paying twice is seen."""

    def __init__(self) -> None:
        self.db = Orders(orders={each: Order(id=each) for each in ("1", "2")})

    def get_order(self, id: str) -> str:
        return self.db.orders[id].model_dump_json()

    def pay(self, id: str, coins: int) -> str:
        if coins < 0:
            raise Said("coins must be from 0 on")
        self.db.orders[id].paid += coins
        return "paid"


class Small(Domain):
    def hash_of(self, calls: tuple[tuple[str, dict[str, object]], ...]) -> str:
        for name, args in calls:
            try:
                getattr(self.tools, name)(**args)
            except Said:
                continue
        return self.tools.db.model_dump_json()  # type: ignore[no-any-return]


TASK = Task(
    "shop",
    "1",
    (
        ("get_order", {"id": "1"}),
        ("pay", {"id": "1", "coins": 3}),
        ("pay", {"id": "1", "coins": -3}),
        ("pay", {"id": "1", "coins": 3}),
    ),
)


def from_the_beginning(work: Work) -> int:
    """Run it without any record, as if nothing had been before."""
    desk = work.desk()
    done = 0
    while (call := work.next_call(done)) is not None:
        desk.call(*call)
        done += 1
    return 0


def test_killed_task_resumed_with_a_journal_changes_nothing_twice(tmp_path: Path) -> None:
    counts = judge(moothall, Small("shop", Tools(), tmp_path), [TASK])
    kills = len(PLACES) * len(TASK.calls)
    assert counts == Counts(tasks=1, right=1, kills=kills, in_doubt=2 * TASK.writes)


@pytest.mark.long
def test_killed_task_started_again_without_a_journal_is_seen_to_pay_twice(tmp_path: Path) -> None:
    counts = judge(from_the_beginning, Small("shop", Tools(), tmp_path), [TASK])
    assert (counts.right, counts.in_doubt) == (1, 0)
    # Killed after the first payment at eight places, at two of them after the second one, too.
    assert (counts.differs, counts.changed_twice) == (8, 10)
    assert counts.writes_again == 15


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DOMAINS)
def test_ten_tasks_of_tau2_killed_and_resumed_change_nothing_twice(name: str) -> None:
    domain = Domain.load(name)
    writing = [task for task in domain.tasks() if task.writes]
    tasks = writing[:: len(writing) // 5][:5]
    counts = judge(moothall, domain, tasks)
    calls = sum(len(task.calls) for task in tasks)
    doubts = 2 * sum(task.writes for task in tasks)
    assert counts == Counts(tasks=5, right=5, kills=3 * calls, in_doubt=doubts)
