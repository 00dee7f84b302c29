"""Traces over HTTP: into each door, and out to other servers; the names and times of a call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest
from opentelemetry import trace

from moothall import Call, CallbackApprover, NativeSpace, OpenAIModel, ReActAgent, ScriptedModel
from moothall.serving import A2AAgent, MCPAgent, asgi
from serving.doors.conftest import serving
from serving.telemetry.conftest import Traced

TRACE = "0af7651916cd43dd8448eb211c80319c"
STATED = {
    "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
    "tracestate": "vendor=abc",
    "a2a-version": "1.0",
}
TEXT = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}
USER = {"id": "1", "role": "user", "content": "x"}
BODIES: dict[str, Any] = {
    "/v1/chat/completions": {"model": "clerk", "messages": [USER]},
    "/v1/responses": {"model": "clerk", "input": "x", "stream": True},
    "/ag-ui": {"threadId": "t", "runId": "r", "messages": [USER]},
    "/a2a/clerk": {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": TEXT}},
}


def clerk(**options: Any) -> ReActAgent:
    return ReActAgent("clerk", ScriptedModel(["hello"] * 9), **options)


def traces(traced: Traced, name: str) -> set[str]:
    """Return the traces that the spans of a name are in."""
    found = [span.context for span in traced.spans if span.name == name]
    return {f"{each.trace_id:032x}" for each in found if each is not None}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("recorded", (True, False))
async def test_trace_of_a_request_goes_on_behind_each_door(
    traced: Traced, tmp_path: Path, path: str, recorded: bool
) -> None:
    agent = clerk(**({"journal": tmp_path / "runs.db"} if recorded else {}))
    here = httpx2.ASGITransport(asgi(agent))
    async with httpx2.AsyncClient(transport=here, base_url="http://127.0.0.1") as client:
        answer = await client.post(path, json=BODIES[path], headers=STATED)
        assert answer.status_code == 200
    assert traces(traced, "invoke_agent clerk") == {TRACE}
    states = [span.context.trace_state for span in traced.spans if span.context]
    assert {each.get("vendor") for each in states} == {"abc"}


def test_trace_of_a_header_goes_on_behind_the_mcp_door(traced: Traced) -> None:
    from mcp.client.streamable_http import streamable_http_client

    async def main(url: str) -> None:
        async with httpx2.AsyncClient(headers=STATED) as client:
            transport = streamable_http_client(f"{url}/mcp", http_client=client)
            async with mcp.Client(transport) as session:
                await session.call_tool("say", {"content": "x"})

    with serving(asgi(clerk())) as url:
        asyncio.run(main(url))
    assert TRACE in traces(traced, "invoke_agent clerk")


def test_trace_goes_on_at_a_remote_agent(traced: Traced) -> None:
    async def main(url: str) -> None:
        far = A2AAgent("far", f"{url}/a2a/clerk/.well-known/agent-card.json")
        with traced.provider.get_tracer("mine").start_as_current_span("mine"):
            await far.reply("x")
        await far.aclose()

    with serving(asgi(clerk())) as url:
        asyncio.run(main(url))
    (mine,) = traces(traced, "mine")
    assert traces(traced, "invoke_agent clerk") == {mine}
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_trace_goes_on_at_an_mcp_server_over_http(traced: Traced) -> None:
    heard: list[str] = []
    inner = asgi(clerk())

    async def app(scope: Any, receive: Any, send: Any) -> None:
        named = dict(scope.get("headers") or ())
        if scope["type"] == "http" and scope["method"] == "POST" and b"traceparent" in named:
            heard.append(named[b"traceparent"].decode())
        await inner(scope, receive, send)

    model = ScriptedModel([Call("c", "shop.say", {"content": "x"}), "done"])
    permits = CallbackApprover(lambda request: True)
    with serving(app) as url, NativeSpace(approver=permits) as space:
        space.add(MCPAgent("shop", f"{url}/mcp"))
        asker = space.add(ReActAgent("asker", model, discover=["shop"]))
        with traced.provider.get_tracer("mine").start_as_current_span("mine"):
            assert asker.reply_sync("x").text == "done"
    (mine,) = traces(traced, "mine")
    assert {each.split("-")[1] for each in heard} == {mine}
    assert traces(traced, "invoke_agent clerk") == {mine}


def test_model_has_the_name_of_its_provider_and_the_answer_its_id(traced: Traced) -> None:
    def read(name: str) -> str:
        """Read."""
        return name

    with serving(asgi(clerk())) as url:
        model = OpenAIModel("clerk", base_url=f"{url}/v1", api_key="none", context_tokens=9999)
        ReActAgent("asker", model, actions=[read]).reply_sync("x")
    chat = traced.named("chat clerk").attributes or {}
    assert chat["gen_ai.request.model"] == chat["gen_ai.response.model"] == "clerk"
    assert str(chat["gen_ai.response.id"]).startswith("chatcmpl-")
    assert (traced.named("invoke_agent asker").attributes or {})["gen_ai.request.model"] == "clerk"


def test_replies_and_calls_have_their_durations_as_metrics(traced: Traced) -> None:
    def fail() -> None:
        """Fail."""
        raise LookupError

    script = [{"name": "fail", "args": {}}, "done"]
    ReActAgent("clerk", ScriptedModel(script), actions=[fail]).reply_sync("x")
    data = traced.reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: dict(point.attributes or {})
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    }
    agent = {"gen_ai.agent.name": "clerk", "gen_ai.request.model": "scripted"}
    agent["gen_ai.operation.name"] = "invoke_agent"
    assert points["gen_ai.invoke_agent.duration"] == agent
    assert points["gen_ai.execute_tool.duration"] == {
        "gen_ai.tool.name": "fail",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "clerk",
        "error.type": "LookupError",
    }
