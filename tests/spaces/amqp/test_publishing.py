"""The order of what is sent, over a connection that is slow or lost."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.proxy import Proxy

from civitas import AMQPOptions
from conformance.conftest import Kept, Recorder, message
from conformance.gate import Doer, Gate
from spaces.amqp.conftest import MakeSpace

MANY = 5_500
"""More than are under way to the broker at a time."""


@pytest.mark.parametrize("cut", (False, True))
def test_what_an_agent_sends_comes_in_order(cut: bool, make_space: MakeSpace, proxy: Proxy) -> None:
    """Nothing overtakes what waits for the broker, nor what is sent again."""
    there = make_space(mailbox=10_000).add(Recorder("there"))
    make_space().add(Recorder("other"))
    gates = {"one": Gate(), "many": Gate()}
    done: Kept[str] = Kept()

    async def send(agent: Any, what: str) -> str | None:
        done.add(f"{what} begun")
        await gates[what]
        if what == "one":
            agent.send(message("other", "say", content="x"))
            done.add("one")
            return "answer"  # which goes when the broker has what was sent
        for number in range(MANY):
            agent.send(message("there", "say", content=str(number)))
        done.add("many")
        return None

    space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port))
    space.add(Doer("doer", do=send, concurrency=2))
    for what in ("one", "many"):
        there.send({"id": what, **message("doer", "do", value=what)})
    done.wait_for(2)
    proxy.stall()
    for count, what in enumerate(("one", "many"), 3):
        gates[what].open()
        done.wait_for(count)
    if cut:
        proxy.cut()
    proxy.resume()
    there.wait_for(MANY + 1, timeout=30)
    told = there.told(MANY + 1)
    assert [args["content"] for _, args in told[:-1]] == [str(number) for number in range(MANY)]
    assert told[-1] == ("response", {"data": "answer", "original_message_id": "one"})
