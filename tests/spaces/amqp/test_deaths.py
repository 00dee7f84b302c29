"""A message whose process dies each time that it starts: it is given up, and others are handled."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.conftest import Recorder, message
from spaces.amqp.conftest import Dead, MakeSpace, StartProcess, until
from spaces.amqp.worker import Notes


@pytest.mark.parametrize(
    ("inbox", "action"),
    ((False, "hold_again"), (True, "hold_again"), (True, "hold_detached_again")),
    ids=("at the broker", "at the broker, noted", "in the inbox"),
)
def test_amqp_message_that_kills_its_process_becomes_a_dead_letter_after_its_deliveries(
    inbox: bool,
    action: str,
    make_space: MakeSpace,
    start: StartProcess,
    notes: Notes,
    dead: Dead,
    tmp_path: Path,
) -> None:
    options = {"deliveries": 3} | ({"inbox": str(tmp_path / "inbox.db")} if inbox else {})
    process = start(**options)
    process.add("there", holds=True)
    me = make_space().add(Recorder("me"))
    me.send({"id": "poison", **message("there", action, text="poison")})
    me.send(message("there", "note", text="behind"))
    for deaths in range(1, 4):
        until(lambda deaths=deaths: notes.lines() == ["begun poison"] * deaths)
        process.kill()
        process = start(**options)
        process.add("there", holds=True)
    (_, told), (_, answer) = sorted(me.told(2), key=lambda each: each[0])
    assert told["original_message_id"] == "poison"
    assert told["error"] == (
        f'InDoubt: in doubt: "there.{action}" was started 3 times, and its process ended; '
        "it is unknown whether it took effect"
    )
    assert answer["data"] == "behind by there"
    assert notes.lines() == [*["begun poison"] * 3, "done behind"]
    assert "was started 3 times" in dead.next()[0].headers["reason"]


def test_amqp_messages_behind_a_poisoned_one_are_not_counted(
    make_space: MakeSpace, start: StartProcess, notes: Notes
) -> None:
    process = start(deliveries=2)
    process.add("there", holds=True)
    me = make_space().add(Recorder("me"))
    me.send(message("there", "hold_again", text="poison"))
    texts = [str(number) for number in range(50)]
    for text in texts:
        me.send(message("there", "note", text=text))
    for deaths in range(1, 3):
        until(lambda deaths=deaths: notes.lines() == ["begun poison"] * deaths)
        process.kill()
        process = start(deliveries=2)
        process.add("there", holds=True)
    me.wait_for(len(texts) + 1)
    assert notes.lines()[2:] == [f"done {text}" for text in texts]


def test_amqp_without_a_limit_a_message_is_started_after_each_death(
    make_space: MakeSpace, start: StartProcess, notes: Notes
) -> None:
    process = start(deliveries=None)
    process.add("there", holds=True)
    me = make_space().add(Recorder("me"))
    me.send(message("there", "hold_again", text="long"))
    for deaths in range(1, 7):
        until(lambda deaths=deaths: notes.lines() == ["begun long"] * deaths)
        process.kill()
        process = start(deliveries=None)
        process.add("there", holds=deaths < 6)
    assert me.told(1)[0][0] == "response"
