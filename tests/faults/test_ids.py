"""Two processes that want one id, and a connection that is kept over a blocking action."""

from __future__ import annotations

import subprocess
import sys
from uuid import uuid4

import pytest
from benchmarks.broker import Broker

from civitas import Agent, AMQPOptions, AMQPSpace, DuplicateAgent, action
from faults.process import TESTS, wait_for

pytestmark = pytest.mark.xdist_group("faults")

WAIT_S = 20
BLOCKED_S = 6

CLAIM = """
import sys
from civitas import Agent, AMQPOptions, AMQPSpace, DuplicateAgent
space = AMQPSpace(amqp_options=AMQPOptions("127.0.0.1", int(sys.argv[1])), exchange=sys.argv[2])
space.add(Agent(f"number {sys.argv[3]}"))
print("ready", flush=True)
sys.stdin.readline()
try:
    space.add(Agent("wanted"))
    print("mine", flush=True)
except DuplicateAgent:
    print("taken", flush=True)
sys.stdin.readline()
"""


def test_one_of_two_processes_gets_an_id_and_it_is_free_when_that_one_is_killed(
    fragile: Broker,
) -> None:
    exchange = f"faults.{uuid4().hex}"
    claimants = [
        subprocess.Popen(
            (sys.executable, "-c", CLAIM, str(fragile.port), exchange, str(number)),
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for number in range(2)
    ]
    try:
        for claimant in claimants:
            assert claimant.stdout is not None
            assert claimant.stdout.readline() == "ready\n"
        for claimant in claimants:
            assert claimant.stdin is not None
            claimant.stdin.write("now\n")
        said = [claimant.stdout.readline().strip() for claimant in claimants if claimant.stdout]
        assert sorted(said) == ["mine", "taken"]
        options = AMQPOptions("127.0.0.1", fragile.port)
        with AMQPSpace(amqp_options=options, exchange=exchange) as space:
            with pytest.raises(DuplicateAgent):
                space.add(Agent("wanted"))
            winner = claimants[said.index("mine")]
            winner.kill()
            winner.wait()

            def free() -> bool:
                try:
                    space.add(Agent("wanted"))
                except DuplicateAgent:
                    return False
                return True

            wait_for(free, "the id is free", 2)
    finally:
        for claimant in claimants:
            claimant.kill()
            claimant.communicate()


class Blocking(Agent):
    @action
    def block(self, seconds: float) -> str:
        """Hold a thread, as a long computation does."""
        subprocess.run((sys.executable, "-c", f"import time; time.sleep({seconds})"), check=True)
        return "done"


def test_a_connection_is_kept_while_an_action_blocks_for_three_heartbeats(fragile: Broker) -> None:
    events: list[str] = []
    options = AMQPOptions("127.0.0.1", fragile.port, heartbeat=2)
    with AMQPSpace(
        amqp_options=options,
        exchange=f"faults.{uuid4().hex}",
        on_connection=lambda what, _: events.append(what),
    ) as space:
        agent = space.add(Blocking("blocking"))
        asked = agent.request(
            {"to": "blocking", "action": {"name": "block", "args": {"seconds": BLOCKED_S}}}
        )
        assert asked.result(WAIT_S) == "done"
    assert events == ["connected"]
