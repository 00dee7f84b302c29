"""Two processes that want an id that is free."""

from __future__ import annotations

from uuid import uuid4

import pytest
from benchmarks.broker import Broker

from faults.process import Rivals, wait_for
from moothall import Agent, AMQPOptions, AMQPSpace, DuplicateAgent

pytestmark = pytest.mark.xdist_group("faults")


def test_agent_id_belongs_to_one_process_until_that_is_killed(
    fragile: Broker,
) -> None:
    exchange = f"faults.{uuid4().hex}"
    with Rivals(fragile.port, exchange, "wanted") as rivals:
        rivals.wait()
        said = rivals.claim()
        assert sorted(said) == ["mine", "taken"]
        options = AMQPOptions("127.0.0.1", fragile.port)
        with AMQPSpace(amqp_options=options, exchange=exchange) as space:
            with pytest.raises(DuplicateAgent):
                space.add(Agent("wanted"))
            winner = rivals.processes[said.index("mine")]
            winner.kill()
            winner.wait()

            def free() -> bool:
                try:
                    space.add(Agent("wanted"))
                except DuplicateAgent:
                    return False
                return True

            wait_for(free, "the id is free", 2)
