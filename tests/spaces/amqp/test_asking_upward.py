"""What an agent asks for a call over RabbitMQ: the run of the call waits, in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker

from commands import run as run_command
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


ASKED = """
import os, sys
from moothall import *
from moothall.models.protocol import Call

command, port, exchange, file, effects = sys.argv[1:]

async def ring(n: int) -> str:
    with open(effects, "a") as out: out.write("rang ")
    if command == "kill": os.kill(os.getpid(), 9)
    return f"rung {n}"

def said(ms): return [m["content"] for m in ms if m["role"] == "tool"]
def calling(name, **args):
    return ScriptedModel(lambda ms, _: said(ms)[-1] if said(ms) else Call("0", name, args))

options = AMQPOptions("127.0.0.1", int(port))
with AMQPSpace(amqp_options=options, exchange=exchange) as space:
    work = Action("ring", ring, "Ring.", guard=())
    helper = ReActAgent("helper", calling("ring", n=1), actions=[work], journal=file)
    asking = calling("helper_say", content="go")
    clerk = ReActAgent("clerk", asking, discover=["helper"], journal=file)
    for each in (helper, clerk):
        space.add(each)
    print(clerk.reply_sync("go", run_id="r").stop_reason)
    print(*sorted(each.state for each in Journal(file).runs()))
"""


def test_killed_process_leaves_its_say_over_the_broker_in_doubt_and_nothing_is_done_twice(
    broker: Broker, exchange: str, tmp_path: Path
) -> None:
    """There the message itself comes again: asked anew, the agent would do its work twice."""
    effects, file = tmp_path / "effects", str(tmp_path / "runs.db")
    places = (str(broker.port), exchange, file, str(effects))
    assert run_command("kill", *places, code=ASKED).returncode == -9
    ended = run_command("live", *places, code=ASKED)
    assert ended.stdout.split() == ["in_doubt", "in_doubt", "in_doubt"]
    assert effects.read_text() == "rang "
