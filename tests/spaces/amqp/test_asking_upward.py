"""What an agent asks for a call over RabbitMQ: the run of the call waits, in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from journal.test_upward import Bank, call, calling
from moothall import Journal, ReActAgent, Waiting
from spaces.amqp.conftest import MakeSpace


@pytest.mark.parametrize(
    ("name", "answer", "end"),
    (("pay", True, "paid 1"), ("hand_in", "came", "came"), ("choose", "blue", "chose blue blue 1")),
)
def test_run_waits_for_what_another_agent_of_its_process_asks_over_the_broker(
    make_space: MakeSpace, tmp_path: Path, name: str, answer: Any, end: str
) -> None:
    file = str(tmp_path / "runs.db")
    space = make_space(approver=Waiting())
    bank = space.add(Bank())
    model = calling(call(f"Bank_{name}"))
    clerk = space.add(ReActAgent("clerk", model, discover=["Bank"], journal=file))
    assert clerk.reply_sync("go", run_id="r").stop_reason == "waiting"
    with Journal(file) as journal:
        while waits := journal.waiting("r"):
            journal.answer("r", waits[0].key, answer, by="eva")
            reply = clerk.reply_sync("go", run_id="r")
    assert (reply.stop_reason, reply.text) == ("done", end)
    assert len(bank.done) == 1


@pytest.mark.parametrize("name", ("pay", "choose"))
def test_agent_of_another_process_refuses_in_words_what_would_wait_before_it_does_anything(
    make_space: MakeSpace, tmp_path: Path, name: str
) -> None:
    bank = make_space(approver=Waiting()).add(Bank())
    space, file = make_space(), str(tmp_path / "runs.db")
    model = calling(call(f"Bank_{name}"))
    clerk = space.add(ReActAgent("clerk", model, discover=["Bank"], journal=file))
    reply = clerk.reply_sync("go", run_id="r")
    assert (reply.stop_reason, bank.done) == ("done", [])
    assert "needs a reply" in reply.text
