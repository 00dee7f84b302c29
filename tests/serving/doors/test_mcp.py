"""Agents as an MCP server, called by the SDK's own client and by ours."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import httpx2
import mcp
import mcp_types as types
import pytest
from mcp.client.streamable_http import streamable_http_client
from pydantic import Field

from moothall import (
    ACCESS_DENIED,
    ACCESS_PERMITTED,
    ACCESS_REQUESTED,
    ActionError,
    Agent,
    Call,
    CallbackApprover,
    Context,
    DefinitionError,
    Journal,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.serving import MCPAgent, asgi

Serve = Callable[[Any], str]
MODES = pytest.mark.parametrize("mode", ("legacy", "auto"))


class Shop(Agent):
    """An agent with an action for each policy."""

    def __init__(self, id: str = "shop") -> None:
        super().__init__(id)
        self.bought: list[str] = []
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    @action(idempotent=True, facts={"unit": "EUR"})
    async def price(self, item: str, pieces: int = 1) -> dict[str, Any]:
        """Tell the price of an item.

        Args:
            item: which one
            pieces: how many
        """
        return {"item": item, "price": 3 * pieces}

    @action(access_policy=ACCESS_REQUESTED)
    async def buy(self, item: str) -> str:
        """Buy an item."""
        self.bought.append(item)
        return f"bought {item}"

    @action(access_policy=ACCESS_DENIED)
    async def rob(self) -> None:
        """Rob the till."""

    @action
    async def fail(self) -> None:
        """Fail."""
        raise OSError("the till is stuck")

    @action
    async def wait(self) -> None:
        """Wait for ever."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    @action
    async def ask(self, context: Context) -> str:
        """Ask a person."""
        return await context.ask_person("What colour?")

    @action
    async def who(self, context: Context) -> str:
        """Tell who asks."""
        return str(context.sender)


def asked(answers: dict[str, Any] | None, seen: list[str]) -> Any:
    """Return an elicitation callback that accepts with these values, or declines."""

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        seen.append(params.message)
        if answers is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=answers)

    return elicit


def text(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@MODES
def test_mcp_door_offers_actions_as_tools_with_their_schemas(serve: Serve, mode: str) -> None:
    shop = Shop()

    async def main() -> None:
        async with mcp.Client(f"{serve(asgi([shop]))}/mcp", mode=mode) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert tools.keys() == {"price", "buy", "fail", "wait", "ask", "who"}
            assert tools["price"].input_schema == shop.offers["price"].parameters
            assert tools["price"].description == "Tell the price of an item."
            assert tools["price"].annotations is not None
            assert tools["price"].annotations.idempotent_hint is True
            assert tools["price"].meta == {"moothall/facts": {"unit": "EUR"}}
            result = await client.call_tool("price", {"item": "lamp", "pieces": 2})
            assert result.structured_content == {"item": "lamp", "price": 6}
            assert json.loads(text(result)) == {"item": "lamp", "price": 6}

    asyncio.run(main())


@dataclass
class Parcel:
    to: str
    sent: datetime
    within: Parcel | None = None


@dataclass
class Fragile(Parcel):
    glass: bool = True


Line = Annotated[str, Field(pattern="^[a-z]{1,800}$")]


class Post(Agent):
    """An agent whose actions return values of many types."""

    @action
    async def weigh(self, kilos: int) -> int:
        """Weigh something."""
        return kilos

    @action
    async def names(self) -> list[str] | None:
        """Tell who has a parcel."""
        return ["Ann"]

    @action
    async def drop(self) -> None:
        """Drop everything."""

    @action
    async def pack(self, to: str) -> Parcel:
        """Pack a parcel, with another in it."""
        at = datetime(2026, 1, 2, 3, 4)
        return Fragile(to, at, Parcel("Bo", at))

    @action
    async def shelf(self) -> dict[str, int]:
        """Tell what is on the shelf."""
        return {"Ann": 1}

    @action
    async def anything(self) -> Any:
        """Return something."""
        return 5

    @action
    async def lines(self) -> list[Line]:
        """Return what takes too many steps to check."""
        return ["a" * 700] * 50

    @action
    async def lie(self) -> int:
        """Return what it does not say."""
        return cast(int, "five")


@MODES
def test_mcp_door_results_are_structured_as_their_output_schemas_say(
    serve: Serve, mode: str
) -> None:
    async def main() -> None:
        async with mcp.Client(f"{serve(asgi(Post('post')))}/mcp", mode=mode) as client:
            tools = {each.name: each.output_schema for each in (await client.list_tools()).tools}
            assert tools["anything"] is None
            assert tools["weigh"] == {
                "type": "object",
                "properties": {"result": {"type": "integer"}},
                "required": ["result"],
                "x-fastmcp-wrap-result": True,
            }
            assert tools["shelf"] == {
                "type": "object",
                "additionalProperties": {"type": "integer"},
            }
            packed = {"to": "Cy", "sent": "2026-01-02T03:04:00", "glass": True}
            packed["within"] = {"to": "Bo", "sent": "2026-01-02T03:04:00", "within": None}
            for name, args, expected in (
                ("weigh", {"kilos": 3}, {"result": 3}),
                ("names", {}, {"result": ["Ann"]}),
                ("drop", {}, {"result": None}),
                ("pack", {"to": "Cy"}, {"result": packed}),
                ("shelf", {}, {"Ann": 1}),
                ("anything", {}, None),
                ("lines", {}, {"result": ["a" * 700] * 50}),
            ):
                # The client checks the content by the schema that the server has stated.
                result = await client.call_tool(name, args)
                assert (name, result.structured_content) == (name, expected)
                assert not result.is_error
                assert json.loads(text(result)) == (
                    5 if expected is None else expected.get("result", expected)
                )
            wrong = await client.call_tool("lie", {})
            assert wrong.is_error
            assert text(wrong).startswith("the server has failed (TypeError); its log has")

    asyncio.run(main())


@MODES
def test_mcp_door_checks_arguments_before_anything_runs(serve: Serve, mode: str) -> None:
    async def main() -> None:
        async with mcp.Client(f"{serve(asgi(Shop()))}/mcp", mode=mode) as client:
            for args in ({}, {"item": 5}, {"item": "x", "more": 1}, {"item": "x", "pieces": "2"}):
                result = await client.call_tool("price", args)
                assert result.is_error
                assert '"shop.price"' in text(result)
            with pytest.raises(mcp.MCPError, match="there is no tool 'rob'"):
                await client.call_tool("rob", {})
            failed = await client.call_tool("fail", {})
            assert failed.is_error
            assert text(failed).startswith("the server has failed (OSError); its log has")

    asyncio.run(main())


@MODES
@pytest.mark.parametrize("permit", (True, False, None, "true", 1))
def test_mcp_door_asks_the_client_for_approval(serve: Serve, mode: str, permit: Any) -> None:
    shop, seen = Shop(), list[str]()

    async def main() -> types.CallToolResult:
        answers = None if permit is None else {"permit": permit}
        callback = asked(answers, seen)
        url = f"{serve(asgi(shop))}/mcp"
        async with mcp.Client(url, mode=mode, elicitation_callback=callback) as client:
            return await client.call_tool("buy", {"item": "lamp"})

    result = asyncio.run(main())

    assert seen == ['Permit /shop.buy item:"lamp"']
    assert shop.bought == (["lamp"] if permit is True else [])
    assert bool(result.is_error) is (permit is not True)
    if permit is not True:
        assert "not permitted: the caller has not permitted it" in text(result)


@MODES
def test_mcp_door_refuses_what_a_client_without_elicitation_cannot_approve(
    serve: Serve, mode: str
) -> None:
    shop = Shop()

    async def main() -> types.CallToolResult:
        async with mcp.Client(f"{serve(asgi(shop))}/mcp", mode=mode) as client:
            return await client.call_tool("buy", {"item": "lamp"})

    result = asyncio.run(main())

    assert result.is_error
    assert "its caller's client cannot ask anybody" in text(result)
    assert shop.bought == []


@MODES
def test_mcp_door_asks_the_questions_of_an_action(serve: Serve, mode: str) -> None:
    async def main() -> str:
        callback = asked({"answer": "red"}, [])
        url = f"{serve(asgi(Shop()))}/mcp"
        async with mcp.Client(url, mode=mode, elicitation_callback=callback) as client:
            return text(await client.call_tool("ask", {}))

    assert asyncio.run(main()) == "red"


class Painter(Agent):
    """An agent whose action asks a person twice, and goes on before there is an answer."""

    def __init__(self) -> None:
        super().__init__("painter")
        self.shown = threading.Event()
        self.withdrawn = threading.Event()

    @action
    async def paint(self, context: Context) -> str:
        """Paint."""
        texts = ("What colour?", "And the door?")
        asks = [asyncio.ensure_future(context.ask_person(each)) for each in texts]
        await asyncio.to_thread(self.shown.wait, 20)
        for each in asks:
            each.cancel()
        await asyncio.wait(asks)
        self.withdrawn.set()
        return "white"


@MODES
def test_mcp_door_call_goes_on_whose_questions_were_withdrawn(serve: Serve, mode: str) -> None:
    painter = Painter()

    async def answer_late(context: Any, params: Any) -> types.ElicitResult:
        painter.shown.set()
        assert await asyncio.to_thread(painter.withdrawn.wait, 20)
        return types.ElicitResult(action="accept", content={"answer": "red"})

    async def main() -> str:
        url = f"{serve(asgi(painter))}/mcp"
        async with mcp.Client(url, mode=mode, elicitation_callback=answer_late) as client:
            return text(await client.call_tool("paint", {}))

    assert asyncio.run(main()) == "white"


def test_mcp_door_call_ends_although_nobody_answers_its_withdrawn_question(serve: Serve) -> None:
    painter = Painter()

    async def main() -> str:
        ended = asyncio.Event()

        async def leave_open(context: Any, params: Any) -> types.ElicitResult:
            painter.shown.set()
            await ended.wait()
            return types.ElicitResult(action="decline")

        url = f"{serve(asgi(painter))}/mcp"
        async with mcp.Client(url, mode="legacy", elicitation_callback=leave_open) as client:
            try:
                return text(await asyncio.wait_for(client.call_tool("paint", {}), 20))
            finally:
                ended.set()

    assert asyncio.run(main()) == "white"


def talker(folder: Path | None = None) -> ReActAgent:
    """Return an agent that calls an action if it is told to look, and tells what it has heard."""

    @action
    async def look(where: str, context: Context[Any]) -> str:
        """Look somewhere."""
        context.progress("still dark")
        return f"nothing {where}"

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        said = [m["content"] for m in messages if m["role"] == "user"]
        if messages[-1]["role"] == "user" and said[-1] == "look":
            return Call("1", "look", {"where": "there"})
        return f"heard {', '.join(said)}"

    kept: Any = {} if folder is None else {"journal": folder / "runs", "memory": folder / "memory"}
    return ReActAgent("talker", ScriptedModel(answer), actions=[look], **kept)


@MODES
def test_mcp_door_tells_the_progress_of_a_reply(serve: Serve, mode: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def main() -> str:
        async def progress(number: float, total: float | None, message: str | None) -> None:
            told.append((number, message))

        async with mcp.Client(f"{serve(asgi(talker()))}/mcp", mode=mode) as client:
            args = {"content": "look"}
            return text(await client.call_tool("say", args, progress_callback=progress))

    assert asyncio.run(main()) == "heard look"
    assert told == [
        (1, 'talker: look {"where": "there"}'),
        (2, "talker: look: still dark"),
        (3, "talker: look has ended"),
    ]


@MODES
def test_mcp_door_tells_the_progress_of_an_action(serve: Serve, mode: str) -> None:
    class Digger(Agent):
        @action
        async def dig(self, context: Context[Any]) -> str:
            """Dig."""
            context.progress("1 m")
            context.progress("2 m")
            return "deep"

    told: list[tuple[float, str | None]] = []

    async def main() -> str:
        async def progress(number: float, total: float | None, message: str | None) -> None:
            told.append((number, message))

        async with mcp.Client(f"{serve(asgi(Digger('digger')))}/mcp", mode=mode) as client:
            return text(await client.call_tool("dig", {}, progress_callback=progress))

    assert asyncio.run(main()) == "deep"
    assert told == [(1, "1 m"), (2, "2 m")]


async def test_mcp_door_sessions_have_threads_of_their_own(serve: Serve) -> None:
    url = f"{serve(asgi([talker(), Shop()]))}/mcp"
    async with mcp.Client(url, mode="legacy") as one, mcp.Client(url, mode="legacy") as other:
        assert text(await one.call_tool("talker_say", {"content": "a"})) == "heard a"
        assert text(await other.call_tool("talker_say", {"content": "b"})) == "heard b"
        assert text(await one.call_tool("talker_say", {"content": "c"})) == "heard a, c"
        senders = {text(await each.call_tool("shop_who", {})) for each in (one, other)}
        assert len(senders) == 2


@MODES
def test_mcp_door_caller_is_deleted_with_the_threads_of_its_sessions(
    serve: Serve, mode: str, journal: Journal
) -> None:
    clerk = ReActAgent("clerk", ScriptedModel(["hi"]), journal=journal)

    async def main() -> None:
        async with mcp.Client(f"{serve(asgi(clerk))}/mcp", mode=mode) as client:
            assert text(await client.call_tool("say", {"content": "a"})) == "hi"

    asyncio.run(main())
    assert [each.id for each in journal.runs(thread="mcp")] == journal.delete(thread="mcp").runs
    assert journal.runs() == []


async def test_mcp_door_without_sessions_takes_only_threads_that_it_has_named(serve: Serve) -> None:
    url = f"{serve(asgi(talker()))}/mcp"
    async with mcp.Client(url) as one, mcp.Client(url) as other:
        first = await one.call_tool("say", {"content": "a"})
        assert text(await other.call_tool("say", {"content": "b"})) == "heard b"
        thread = (first.meta or {})["thread"]
        again = await one.call_tool("say", {"content": "c", "thread": thread})
        assert text(again) == "heard a, c"
        for forged in ("t", thread[:-1], f"{thread}0", "", thread.partition(".")[0]):
            refused = await other.call_tool("say", {"content": "d", "thread": forged})
            assert refused.is_error
            assert "there is no such thread" in text(refused)


@pytest.mark.parametrize(("mode", "name"), (("legacy", None), ("legacy", "mine"), ("auto", None)))
async def test_mcp_door_goes_on_with_a_thread_of_an_earlier_process(
    serve: Serve, tmp_path: Path, mode: str, name: str | None
) -> None:
    def begun() -> str:
        """Return the address of another server over the same files."""
        return f"{serve(asgi(talker(tmp_path), token={'a': 'one', 'b': 'two'}))}/mcp"

    async def said(url: str, token: str, content: str, thread: str | None) -> Any:
        given = {"content": content, **({} if thread is None else {"thread": thread})}
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            return await client.call_tool("say", given)

    url = begun()
    first = await said(url, "one", "a", name)
    thread = first.meta["thread"]
    assert text(await said(url, "one", "b", thread)) == "heard a, b"
    url = begun()
    assert text(await said(url, "one", "c", thread)) == "heard a, b, c"
    again = await said(url, "one", "d", thread)
    assert (text(again), again.meta["thread"]) == ("heard a, b, c, d", thread)
    for token, forged in (("two", thread), ("one", f"{thread[:-1]}~"), ("one", thread[:9])):
        other = await said(url, token, "e", forged)
        assert text(other) in ("heard e", "there is no such thread: leave it out to begin one")


async def test_mcp_door_takes_no_answer_that_was_not_asked_for_or_is_for_another_call(
    serve: Serve,
) -> None:
    shop = Shop()
    url = f"{serve(asgi(shop))}/mcp"
    accepted = types.ElicitResult(action="accept", content={"permit": True})
    yes: Any = {"question": accepted}
    callback = asked({"permit": True}, [])
    async with mcp.Client(url, elicitation_callback=callback) as client:
        session = client.session

        async def ask(item: str) -> types.InputRequiredResult:
            result = await session.call_tool("buy", {"item": item}, allow_input_required=True)
            assert isinstance(result, types.InputRequiredResult)
            return result

        async def answered(tool: str, args: Any, state: str | None, answers: Any) -> Any:
            return await session.call_tool(tool, args, input_responses=answers, request_state=state)

        # A state that nobody gave, and an answer to a question that was not asked.
        with pytest.raises(mcp.MCPError, match="no call waits"):
            await answered("buy", {"item": "a"}, "forged", yes)
        # The state of another call: other arguments, or another tool.
        for tool, args in (("buy", {"item": "other"}), ("price", {"item": "lamp"})):
            state = (await ask("lamp")).request_state
            with pytest.raises(mcp.MCPError, match="not the one that was asked about"):
                await answered(tool, args, state, yes)
            with pytest.raises(mcp.MCPError, match="no call waits"):  # nor again
                await answered("buy", {"item": "lamp"}, state, yes)
        # No answer, one to another question, or a refusal that carries a yes.
        declined = types.ElicitResult(action="decline", content={"permit": True})
        for answers in (None, {"other": accepted}, {"question": declined}):
            state = (await ask("lamp")).request_state
            refused = await answered("buy", {"item": "lamp"}, state, answers)
            assert refused.is_error
        assert shop.bought == []
        state = (await ask("lamp")).request_state
        for _ in range(2):  # sent again, it gets the result of the one call
            assert text(await answered("buy", {"item": "lamp"}, state, yes)) == "bought lamp"
        assert shop.bought == ["lamp"]


async def test_mcp_door_of_agents_in_a_space_asks_the_spaces_approver(serve: Serve) -> None:
    with NativeSpace(
        approver=CallbackApprover(lambda request: request.args == {"item": "x"})
    ) as space:
        shop = space.add(Shop())
        async with mcp.Client(f"{serve(asgi(shop))}/mcp") as client:
            assert text(await client.call_tool("buy", {"item": "x"})) == "bought x"
            assert (await client.call_tool("buy", {"item": "y"})).is_error


async def test_mcp_door_names_of_odd_agents_stay_apart(serve: Serve) -> None:
    agents = [Shop("a b"), Shop("a.b"), Shop("é" * 200)]
    async with mcp.Client(f"{serve(asgi(agents))}/mcp") as client:
        names = [each.name for each in (await client.list_tools()).tools]
        assert len(names) == len(set(names)) == 18
        # Hosts pass the names on to their models, whose providers take these alone.
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each) for each in names)
        for name in names:
            if "price" in name:
                assert not (await client.call_tool(name, {"item": "x"})).is_error


def test_mcp_door_names_of_agents_and_actions_with_dots_stay_apart(serve: Serve) -> None:
    class First(Agent):
        @action(name="b.c")
        async def one(self) -> str:
            """Be the first."""
            return "first"

    class Second(Agent):
        @action
        async def c(self) -> str:
            """Be the second."""
            return "second"

    async def main() -> list[str]:
        url = f"{serve(asgi([First('a'), Second('a.b')]))}/mcp"
        async with mcp.Client(url) as client:
            tools = (await client.list_tools()).tools
            return [text(await client.call_tool(each.name, {})) for each in tools]

    assert asyncio.run(main()) == ["first", "second"]


def test_mcp_agent_calls_agents_behind_a_door_over_http(serve: Serve) -> None:
    url = f"{serve(asgi(Shop(), token='s3cret'))}/mcp"
    headers = {"Authorization": "Bearer s3cret"}
    with NativeSpace() as space:
        far = MCPAgent("far", url, headers=headers, access=ACCESS_PERMITTED)
        space.add(far)
        me = space.add(Agent("me"))
        assert me.ask("far", "price", item="lamp").result(20) == {"item": "lamp", "price": 3}
        with pytest.raises(ActionError, match=r"the server has failed \(OSError\)"):
            me.ask("far", "fail").result(20)
        assert far.offer is not None
        assert far.offer.revision == "2026-07-28"


@pytest.mark.parametrize("stated", ("2025-06-18, 2025-11-25", "2031-01-01", "x", ""))
@pytest.mark.parametrize("method", ("initialize", "server/discover", "tools/list"))
def test_mcp_door_names_the_revisions_that_it_speaks(
    serve: Serve, stated: str, method: str
) -> None:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": stated}
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    answer = httpx2.post(f"{serve(asgi(talker()))}/mcp", json=asked, headers=headers)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["data"]["requested"]) == (-32022, stated)
    assert {"2025-06-18", "2026-07-28"} < {*error["data"]["supported"]}
    assert "2025-11-25, 2026-07-28, got" in error["message"]


def test_mcp_door_opens_a_new_stream_for_a_client_that_asks_for_events_it_missed(
    serve: Serve,
) -> None:
    url = f"{serve(asgi(talker()))}/mcp"
    headers = {"accept": "application/json, text/event-stream"}
    client_info = {"name": "client", "version": "1"}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    session = httpx2.post(url, json=begin, headers=headers).headers["mcp-session-id"]
    headers |= {"mcp-session-id": session, "last-event-id": "5"}
    with httpx2.stream("GET", url, headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")


def test_doors_need_agents_of_one_space() -> None:
    with NativeSpace() as space:
        one = space.add(Shop())
        for agents in ([], [one, Shop("b")], ["x"]):
            with pytest.raises(DefinitionError, match="doors need agents"):
                asgi(agents)  # type: ignore[arg-type]
