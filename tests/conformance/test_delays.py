"""Messages that are delivered later."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conformance.conftest import Kept, Recorder, message
from moothall import Agent, action
from moothall.foundation.errors import ConfigError, DefinitionError

EARLY_S = 0.01  # clocks differ by so much
LATE_S = 5.0  # a busy machine


class Alarm(Agent):
    """Keeps what it is told, and when."""

    def __init__(self, id: str = "alarm") -> None:
        super().__init__(id)
        self.rung: Kept[tuple[str, float]] = Kept()

    @action
    async def ring(self, what: str) -> str:
        self.rung.add((what, time.monotonic()))
        return what


def test_send_with_delay_is_delivered_after_it_in_the_order_of_the_times(space: Any) -> None:
    alarm = space.add(Alarm())
    me = space.add(Agent("me"))
    me.send(message("alarm", "ring", what="first"), delay=0.01)  # a broker makes its queues for it
    alarm.rung.wait_for(1)
    begun = time.monotonic()
    for what, delay in (("late", 0.7), ("soon", 0.29), ("now", 0), ("between", 0.4)):
        me.send(message("alarm", "ring", what=what), delay=delay)
    rung = dict(alarm.rung.wait_for(5)[1:])
    for what, delay in (("now", 0), ("soon", 0.29), ("between", 0.4), ("late", 0.7)):
        assert delay - EARLY_S <= rung[what] - begun <= delay + LATE_S
    assert next(iter(rung)) == "now"
    assert list(rung).index("soon") < list(rung).index("late")


@pytest.mark.parametrize("zone", (None, UTC))
def test_send_at_a_time_is_delivered_then(space: Any, zone: Any) -> None:
    alarm = space.add(Alarm())
    me = space.add(Agent("me"))
    now, begun = datetime.now(zone), time.monotonic()
    me.send(message("alarm", "ring", what="then"), at=now + timedelta(seconds=0.5))
    me.send(message("alarm", "ring", what="past"), at=now - timedelta(days=1))
    (past, _), (then, when) = alarm.rung.wait_for(2)
    assert (past, then) == ("past", "then")
    assert 0.5 - EARLY_S <= when - begun <= 0.5 + LATE_S


def test_send_with_delay_is_answered_and_may_go_to_all_and_to_groups(space: Any) -> None:
    alarms = [space.add(Alarm("one"), groups=("alarms",)), space.add(Alarm("two"))]
    me = space.add(Recorder("me"))
    me.send({"id": "to one", **message("one", "ring", what="one")}, delay=0.1)
    me.send(message("#alarms", "ring", what="group"), delay=0.1)
    me.send(message("*", "ring", what="all"), delay=0.1)
    me.wait_for(4)
    assert [sorted(what for what, _ in each.rung) for each in alarms] == [
        ["all", "group", "one"],
        ["all"],
    ]
    assert ("response", {"data": "one", "original_message_id": "to one"}) in me.told(4)


def test_send_with_delay_goes_to_who_is_there_then(space: Any) -> None:
    me = space.add(Agent("me"))
    me.send(message("alarm", "ring", what="later"), delay=0.3)
    me.send(message("nobody", "ring", what="lost"), delay=0.1)
    alarm = space.add(Alarm())
    assert alarm.rung.wait_for(1)[0][0] == "later"


@pytest.mark.parametrize(
    ("given", "told"),
    (
        ({"delay": -1}, "delay= must be a number of seconds"),
        ({"delay": float("nan")}, "delay= must be a number of seconds"),
        ({"delay": "5"}, "delay= must be a number of seconds"),
        ({"delay": True}, "delay= must be a number of seconds"),
        ({"delay": 300 * 86_400 + 1}, r"300 days \(25,920,000 seconds\), got 25,920,001 seconds"),
        ({"at": 5}, "at= must be a datetime, got 5"),
        ({"at": datetime(9999, 12, 31, 23)}, "may wait for 300 days"),
    ),
)
def test_send_refuses_a_wrong_delay(space: Any, given: dict[str, Any], told: str) -> None:
    me = space.add(Agent("me"))
    with pytest.raises(ConfigError, match=told):
        me.send(message("alarm", "ring", what="never"), **given)


def test_send_takes_a_delay_or_a_time(space: Any) -> None:
    me = space.add(Agent("me"))
    with pytest.raises(DefinitionError, match="either delay= or at="):
        me.send(message("alarm", "ring", what="never"), delay=1, at=datetime.now(UTC))
