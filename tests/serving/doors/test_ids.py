"""Every id of an agent that a space takes is reachable behind the HTTP doors, by any client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from moothall import A2AAgent, DefinitionError, ReActAgent, ScriptedModel
from moothall.serving import asgi
from serving.doors.conftest import client, serving
from serving.doors.test_a2a import connected, message, sent

IDS = (
    ".",
    "..",
    "a/../b",
    "../../etc",
    "~..",
    "~~.",
    "a/b",
    "/a//b/",
    "a%2Fb",
    "%2e%2e",
    "Zoë 寿司",
    "a b?c#d&e=f;g",
    "v1",
    "a2a",
    "line\nbreak\t",
    "x" * 255,
    "ä" * 255,
)

Serve = Callable[[Any], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))


def agent(id: str) -> ReActAgent:
    return ReActAgent(id, ScriptedModel([f"I am {id}."] * 4))


@pytest.fixture
def url(serve: Serve) -> str:
    return serve(asgi([agent("first"), *map(agent, IDS)]))


def address(id: str) -> str:
    """Return an id as docs/a2a.md says that it is written in an address."""
    parts = [f"~{each}" if each.strip("~") in (".", "..") else each for each in id.split("/")]
    return quote("/".join(parts), safe="")


async def test_card_leads_to_its_agent(url: str) -> None:
    async with httpx.AsyncClient() as http:
        for id in IDS:
            where = f"{url}/a2a/{address(id)}"
            card = (await http.get(f"{where}/.well-known/agent-card.json")).json()
            assert (card["name"], card["supportedInterfaces"][0]["url"]) == (id, where)
            assert (await A2AAgent("far", where).reply("Who?")).text == f"I am {id}."


async def test_protocols_own_client_finds_an_agent_of_dots(url: str) -> None:
    async with connected(url, address(".."), streaming=False) as a2a:
        assert "I am ..." in str(await sent(a2a, message("Who?")))


def test_model_is_found_by_its_address_and_answers(url: str) -> None:
    api = client(url)
    assert {each.id for each in api.models.list()} == {"first", *IDS}
    for id in IDS:
        assert httpx.get(f"{url}/v1/models/{address(id)}").json()["id"] == id
        told = api.chat.completions.create(
            model=id, messages=[{"role": "user", "content": "Who are you?"}]
        )
        assert told.choices[0].message.content == f"I am {id}."


def test_ag_ui_runs_each_agent(url: str) -> None:
    run = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {}}
    run["messages"] = [{"id": "1", "role": "user", "content": "Who are you?"}]
    for id in IDS:
        found = httpx.post(f"{url}/ag-ui/{address(id)}", json=run)
        assert found.status_code == 200, id
        assert "RUN_FINISHED" in found.text


def test_id_that_reads_as_another_agents_card_is_refused() -> None:
    id = "a/.well-known/agent-card.json"
    with pytest.raises(DefinitionError, match=f"agent '{id}' cannot be served: .* another id"):
        asgi(agent(id))
