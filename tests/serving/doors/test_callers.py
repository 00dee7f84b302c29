"""What each caller of the doors may spend, and how often it may ask, by whatever protocol."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import openai
import pytest

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    AMQPOptions,
    AMQPSpace,
    Budget,
    Call,
    ConfigError,
    Context,
    Journal,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.serving import asgi
from moothall.serving.doors.callers import Callers
from serving.doors.conftest import client, serving

Serve = Callable[[Any], str]
TOKENS = {"ada": "t-ada", "bob": "t-bob"}
DOORS = ("responses", "chat", "mcp", "a2a", "ag-ui")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def bot(**options: Any) -> ReActAgent:
    return ReActAgent("bot", ScriptedModel(lambda *asked: "Good day."), **options)


def post(url: str, path: str, token: str | None, data: Any, **headers: str) -> httpx2.Response:
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return httpx2.post(f"{url}{path}", json=data, headers=headers, timeout=30)


def tool(url: str, token: str | None, name: str, **args: Any) -> httpx2.Response:
    params = {"name": name, "arguments": args, "_meta": META}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    accept = "application/json, text/event-stream"
    about = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    return post(url, "/mcp", token, call, Accept=accept, **about)


def last_event(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.text.endswith("\n\n")  # else a client does not take the last event
    lines = [each for each in answer.text.splitlines() if each]
    return dict(json.loads(lines[-1][6:]))


def say(url: str, door: str, token: str | None = None) -> tuple[bool, str]:
    """Say something through a door; return whether it was answered, and the error's code."""
    if door == "responses":
        found = post(url, "/v1/responses", token, {"model": "bot", "input": "Hi"})
    elif door == "chat":
        data = {"model": "bot", "messages": [{"role": "user", "content": "Hi"}]}
        found = post(url, "/v1/chat/completions", token, data)
    elif door == "mcp":
        found = tool(url, token, "say", content="Hi")
    elif door == "a2a":
        message = {
            "messageId": secrets.token_hex(8),
            "role": "ROLE_USER",
            "parts": [{"text": "Hi"}],
        }
        call = {"method": "SendMessage", "params": {"message": message}}
        version = {"A2A-Version": "1.0"}
        found = post(url, "/a2a/bot", token, {"jsonrpc": "2.0", "id": 7, **call}, **version)
    else:
        asked = {"messages": [{"id": "m", "role": "user", "content": "Hi"}]}
        more = {"threadId": "t", "runId": "r", "tools": [], "context": []}
        found = post(url, "/ag-ui", token, {**asked, **more})
    if door == "ag-ui":
        last = last_event(found)
        assert (found.status_code, last["type"][:4]) == (200, "RUN_"), found.text
        return last["type"] == "RUN_FINISHED", last.get("code", "")
    if "Good day." in found.text:
        return True, ""
    error = found.json()["error"]
    if door in ("responses", "chat"):
        assert found.status_code == 429
    else:
        assert found.json()["id"] == 7
    return False, str(error["code"])


REFUSED = {
    "responses": "insufficient_quota",
    "chat": "insufficient_quota",
    "mcp": "-32029",
    "a2a": "-32029",
    "ag-ui": "BudgetExceeded",
}


def test_caller_spends_one_budget_through_all_doors(serve: Serve) -> None:
    url = serve(asgi(bot(), token=TOKENS, budget=lambda name: Budget(model_calls=len(DOORS))))
    assert [say(url, door, "t-ada") for door in DOORS] == [(True, "")] * len(DOORS)
    assert {door: say(url, door, "t-ada")[1] for door in DOORS} == REFUSED
    assert [say(url, door, "t-bob") for door in DOORS] == [(True, "")] * len(DOORS)


def test_caller_with_two_tokens_is_one_caller_while_its_key_is_changed(serve: Serve) -> None:
    tokens = {"ada": ["t-new", "t-old"], "bob": "t-bob"}
    url = serve(asgi(bot(), token=tokens, budget=lambda name: Budget(model_calls=2)))
    assert say(url, "mcp", "t-old") == say(url, "chat", "t-new") == (True, "")
    assert not say(url, "mcp", "t-old")[0]
    assert say(url, "mcp", "t-bob") == (True, "")


def test_caller_that_has_spent_its_budget_is_refused_after_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    for door, answered in (("chat", True), ("mcp", True), ("a2a", False)):
        with Journal(tmp_path / "runs.db") as journal:
            whole = Budget(name="callers", journal=journal)

            def of(name: str, whole: Budget = whole) -> Budget:
                return whole.child(name=name, model_calls=2, per="month")

            url = serve(asgi(bot(), token=TOKENS, budget=of))
            assert say(url, door, "t-ada")[0] is answered
            assert whole.spent.model_calls == 2 if door != "chat" else 1


def test_application_that_a_server_starts_again_answers_at_all_doors() -> None:
    app = asgi(bot())
    for _ in range(3):
        with serving(app) as url:
            assert [say(url, door) for door in DOORS] == [(True, "")] * len(DOORS)


def test_callers_share_one_budget_that_knows_what_each_spends(serve: Serve, tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        whole = Budget(name="all", model_calls=3, journal=journal)
        url = serve(asgi(bot(), token=TOKENS, budget=whole))
        for token in ("t-ada", "t-bob", "t-ada"):
            assert say(url, "chat", token)[0]
        assert say(url, "chat", "t-bob") == (False, "insufficient_quota")
        spent = {each.name: each.spent.model_calls for each in journal.budgets.list()}
    assert spent == {"all": 3, "all/ada": 2, "all/bob": 1}


def test_callers_are_one_without_a_token_and_one_with_a_token(serve: Serve) -> None:
    names: list[str] = []

    def of(name: str) -> None:
        names.append(name)

    assert say(serve(asgi(bot(), budget=of)), "a2a") == (True, "")
    assert say(serve(asgi(bot(), budget=of, token="t")), "a2a", "t") == (True, "")
    assert names == ["local", "token"]


@pytest.mark.parametrize("over", ("no broker", "a broker"))
def test_caller_pays_for_actions_and_for_agents_that_these_ask(
    serve: Serve, over: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    class Clerk(Agent):
        @action
        async def relay(self, context: Context) -> str:
            """Ask the bot."""
            assert context.budget is not None
            return str(await self.ask("bot", "say", content="Hi"))

    budget, agents = Budget(model_calls=9, actions=2), [Clerk("clerk"), bot()]
    with ExitStack() as stack:
        if over == "a broker":
            port = request.getfixturevalue("broker").port
            options = AMQPOptions("127.0.0.1", port)
            more = {"exchange": f"x{uuid4().hex}", "inbox": tmp_path / "inbox.db"}
            space = stack.enter_context(AMQPSpace(amqp_options=options, **more))
            agents = [space.add(each) for each in agents]
        url = serve(asgi(agents, budget=lambda name: budget))
        for _ in range(2):
            assert "Good day." in tool(url, None, "clerk_relay").text
        assert (budget.spent.model_calls, budget.spent.actions) == (2, 2)
        assert tool(url, None, "clerk_relay").json()["error"]["code"] == -32029
        assert budget.spent.model_calls == 2


def test_agent_that_another_asks_keeps_a_budget_of_its_own(serve: Serve) -> None:
    class Clerk(Agent):
        @action
        async def relay(self) -> str:
            """Ask the bot."""
            return str(await self.ask("bot", "say", content="Hi"))

    own, of_callers = Budget(model_calls=9), Budget(model_calls=9)
    url = serve(asgi([Clerk("clerk"), bot(budget=own)], budget=lambda name: of_callers))
    assert "Good day." in tool(url, None, "clerk_relay").text
    assert (own.spent.model_calls, of_callers.spent.model_calls) == (1, 0)


def test_agent_whose_budget_the_callers_is_no_part_of_is_not_asked(serve: Serve) -> None:
    own = Budget(model_calls=9)
    url = serve(asgi(bot(budget=own), budget=lambda name: Budget(model_calls=9)))
    found = post(url, "/v1/responses", None, {"model": "bot", "input": "Hi"})
    assert (found.status_code, found.json()["error"]["code"]) == (500, "ConfigError")
    assert own.spent.model_calls == 0
    with pytest.raises(ConfigError, match="has a budget: give the reply a child"):
        asgi(bot(budget=own), budget=Budget(model_calls=9))
    url = serve(asgi(bot(budget=own), budget=own))
    assert say(url, "chat")[0]
    assert own.spent.model_calls == 1


class Priceless:
    """A model without a price."""

    name = "priceless"
    context_tokens = None

    async def complete(self, *asked: Any, **options: Any) -> ModelReply:
        return ModelReply("Good day.")


def test_mistake_of_the_program_is_no_mistake_of_the_openai_client(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    agents = [ReActAgent("bot", Priceless()), bot(budget=Budget(model_calls=9))]
    for agent, told in zip(agents, ("no price is known for", "has a budget"), strict=True):
        url = serve(asgi(agent, budget=lambda name: Budget(usd=9)))
        found = post(url, "/v1/responses", None, {"model": "bot", "input": "Hi"})
        assert (found.status_code, found.json()["error"]["type"]) == (500, "server_error")
        assert told not in found.text
        assert told in caplog.records[-1].getMessage()


def test_caller_that_asks_too_often_is_told_when_to_ask_again(serve: Serve) -> None:
    url = serve(asgi(bot(), token=TOKENS, rate=3))
    ada = client(url, "t-ada")
    for _ in range(3):
        assert [each.id for each in ada.models.list()] == ["bot"]
    with pytest.raises(openai.RateLimitError) as refused:
        ada.responses.create(model="bot", input="Hi")
    assert refused.value.code == "rate_limit_exceeded"
    assert 0 < int(refused.value.response.headers["retry-after"]) <= 20
    told = {door: say(url, door, "t-ada")[1] for door in DOORS}
    assert told == {
        "responses": "rate_limit_exceeded",
        "chat": "rate_limit_exceeded",
        "mcp": "-32029",
        "a2a": "-32029",
        "ag-ui": "rate_limit_exceeded",
    }
    assert say(url, "mcp", "t-bob") == (True, "")


def test_caller_that_has_asked_nothing_for_long_saves_no_requests_up() -> None:
    rate = 60_000  # one in a millisecond: nobody need wait for long
    callers = Callers(TOKENS, rate=rate)

    def ask(caller: str) -> int:
        count = 0
        while not callers.wait_s(caller):
            count += 1
        return count

    callers.wait_s("ada")
    ask("bob")  # takes some milliseconds
    start = time.monotonic()
    assert ask("ada") <= rate + (time.monotonic() - start) * rate / 60


def test_callers_have_conversations_and_interrupts_of_their_own(serve: Serve) -> None:
    bought: list[str] = []

    @action(access_policy=ACCESS_REQUESTED)
    def buy(item: str) -> str:
        """Buy an item."""
        bought.append(item)
        return "bought"

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        last = messages[-1]
        return Call("c", "buy", {"item": "lamp"}) if last["content"] == "buy" else "Good day."

    agent = ReActAgent("bot", ScriptedModel(answer), actions=[buy])
    url = serve(asgi(agent, token=TOKENS, approves=["ada"]))
    ada, bob = (client(url, each) for each in TOKENS.values())
    first = ada.responses.create(model="bot", input="Hi")
    with pytest.raises(openai.BadRequestError, match="not found"):
        bob.responses.create(model="bot", input="And?", previous_response_id=first.id)
    ada.responses.create(model="bot", input="And?", previous_response_id=first.id)

    asked = {"messages": [{"id": "m", "role": "user", "content": "buy"}]}
    more = {"threadId": "t", "runId": "r", "tools": [], "context": []}
    told = last_event(post(url, "/ag-ui", "t-ada", {**asked, **more}))
    (wanted,) = told["outcome"]["interrupts"]
    entry = {"interruptId": wanted["id"], "status": "resolved", "payload": {"approved": True}}
    resumed = {**more, "messages": [], "resume": [entry]}
    assert post(url, "/ag-ui", "t-bob", resumed).status_code == 400
    assert bought == []
    assert last_event(post(url, "/ag-ui", "t-ada", resumed))["type"] == "RUN_FINISHED"
    assert bought == ["lamp"]


def test_session_of_one_caller_is_none_of_anothers(serve: Serve) -> None:
    url = serve(asgi(bot(), token=TOKENS))
    accept = "application/json, text/event-stream"
    about = {"protocolVersion": "2025-11-25", "capabilities": {}}
    begin = {**about, "clientInfo": {"name": "x", "version": "1"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    opened = post(url, "/mcp", "t-ada", call, Accept=accept)
    session = {"Accept": accept, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    assert post(url, "/mcp", "t-bob", listing, **session).status_code == 404
    assert post(url, "/mcp", "t-ada", listing, **session).status_code == 200


@pytest.mark.parametrize(
    ("options", "told"),
    (
        ({"token": {}}, "token= must be"),
        ({"token": {"ada": ""}}, "token= must be"),
        ({"token": "a secret\n"}, "one line without spaces around it"),
        ({"token": {"ada": " x"}}, "one line without spaces around it"),
        ({"token": {"token": "x"}}, "must name callers"),
        ({"token": {"a/b": "x"}}, "must name callers"),
        ({"token": {"a": "x", "b": "x"}}, "the same token"),
        ({"token": {"a": []}}, "token= must be"),
        ({"token": {"a": ["x", 5]}}, "token= must be"),
        ({"rate": 0}, "rate= must be"),
        ({"rate": 1.5}, "rate= must be"),
        ({"budget": 5}, "budget= must be"),
        ({"title": ""}, "title= must be"),
        ({"title": 5}, "title= must be"),
    ),
)
def test_doors_with_a_wrong_argument_say_which(options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told), NativeSpace() as space:
        asgi(space.add(bot()), **options)


def test_caller_behind_mcp_is_deleted_by_its_name_and_no_caller_whose_name_begins_so(
    serve: Serve, journal: Journal
) -> None:
    agent = ReActAgent("bot", ScriptedModel(["Good day."] * 2), journal=journal)
    url = serve(asgi(agent, token={"ada": "t-ada", "ada-lovelace": "t-lovelace"}))
    assert say(url, "mcp", "t-ada") == (True, "")
    assert say(url, "mcp", "t-lovelace") == (True, "")
    journal.delete(thread="mcp-ada")
    (left,) = journal.runs()
    assert left.thread is not None
    assert left.thread.startswith("mcp-ada-lovelace/")


def test_callers_file_has_a_name_a_token_and_rights_in_each_line() -> None:
    """A name with several lines has several tokens, so that a key can be changed."""
    tokens, rights = Callers.read("ada t-new approves\nada t-ada\n\nbob t-bob\n")
    assert tokens == {"ada": ["t-new", "t-ada"], "bob": ["t-bob"]}
    assert rights == {"approves": ["ada"]}
    for wrong in ("ada t-ada\nbob", "ada t-ada\nbob t-bob pays"):
        with pytest.raises(ConfigError, match="line 2: must be a name and a token"):
            Callers.read(wrong)
