"""What `moothall act` does, begun and resumed by a program with its own approver and person."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from models.openai_server import OpenAIServer, call, calls, status, text
from moothall import Journal, Person
from moothall.actions.approval import ApprovalRequest
from moothall.foundation.errors import ConfigError, RunMismatch, UnknownPrice
from moothall.studio.orders.act import act_agent
from moothall.studio.orders.order import ActOrder, order_of, record_order

WRITES = calls(call("write_file", json.dumps({"file_name": "new.txt", "content": "hello\n"})))


class Permits:
    """Says yes to everything, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request.action)
        return True


@pytest.fixture
def order(tmp_path: Path) -> ActOrder:
    (tmp_path / "work").mkdir()
    return ActOrder("Write it", str(tmp_path / "work"), "", False, None, None, True, network=False)


def test_run_goes_on_by_the_order_that_its_record_has(order: ActOrder, tmp_path: Path) -> None:
    permits = Permits()

    async def replied(order: ActOrder) -> tuple[str, str]:
        agent = act_agent(order, key="k", approver=permits, journal=journal)
        await record_order(order, journal, "r", agent)
        reply = await agent.reply(order.task, run_id="r")
        return reply.stop_reason, reply.text

    with (
        OpenAIServer(WRITES, status(401), text("Done.")) as server,
        Journal(tmp_path / "runs.db") as journal,
    ):
        order = replace(order, model=f"{server.url}#m")
        assert asyncio.run(replied(order))[0] == "error"
        assert (Path(order.root) / "new.txt").read_text() == "hello\n"
        assert order_of(journal.entries("r")) == order
        with pytest.raises(RunMismatch, match="root: was"):
            asyncio.run(replied(replace(order, root=str(tmp_path))))
        assert asyncio.run(replied(replace(order, max_tokens=10_000))) == ("done", "Done.")
        # A run that has ended is not begun anew by another order for it.
        other = replace(order, max_tokens=20_000)
        agent = act_agent(other, key="k", approver=permits)
        asyncio.run(record_order(other, journal, "r", agent))
        assert (journal.run("r").state, order_of(journal.entries("r"))) == ("done", other)
    assert permits.asked == ["write_file"]
    assert {each.headers["authorization"] for each in server.requests} == {"Bearer k"}


def test_person_of_the_program_reviews(order: ActOrder) -> None:
    with OpenAIServer(WRITES, text("Done.")) as server:
        order = replace(order, model=f"{server.url}#m", review="me")
        person = Person("you", stdin=io.StringIO("accept\n"), stdout=io.StringIO())
        agent = act_agent(order, approver=Permits(), reviewer=person)
        assert asyncio.run(agent.reply(order.task)).stop_reason == "terminated"


def test_reviewers_model_gets_the_persons_own_key(order: ActOrder) -> None:
    accepts = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": "so"})
    with OpenAIServer(text("Done.")) as works, OpenAIServer(text(accepts)) as reviews:
        order = replace(order, model=f"{works.url}#m", review=f"{reviews.url}#m")
        agent = act_agent(order, key="k", own_key="own", approver=Permits())
        assert asyncio.run(agent.reply(order.task)).stop_reason == "terminated"
    told = [[each.headers["authorization"] for each in of.requests] for of in (works, reviews)]
    assert told == [["Bearer k"], ["Bearer own"]]


def test_person_who_reviews_must_be_given(order: ActOrder) -> None:
    order = replace(order, model="http://127.0.0.1:1/v1#m", review="me")
    with pytest.raises(ConfigError, match="reviewer="):
        act_agent(order, approver=Permits())


def test_limit_in_dollars_holds_for_all_its_models(order: ActOrder, tmp_path: Path) -> None:
    """Where the price of one is not known, that is said before anything is asked or recorded."""
    order = replace(order, model="openai:gpt-4o-mini", max_usd=0.000001)
    agent = act_agent(order, key="k", approver=Permits())
    reply = asyncio.run(agent.reply(order.task))
    assert reply.stop_reason == "budget"
    assert "US dollars" in reply.detail
    unknown = "https://models.example/v1#m"
    for other in (replace(order, model=unknown), replace(order, review=unknown)):
        with pytest.raises(UnknownPrice, match=f"'{unknown}' is not known.*limit its tokens"):
            act_agent(other, key="k", own_key="k", approver=Permits())
