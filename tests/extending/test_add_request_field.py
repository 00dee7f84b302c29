"""What a door's request says of the reply: the door that reads it gives it to its caller.

A door of a user's own does so by `Caller(options=…)`. A user cannot add it to ours, so that test
adds it to a copy of the package: the files are the doors.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.extending.conftest import Added

from moothall import ConfigError, ReActAgent, ScriptedModel
from moothall.serving.doors import Caller, Served


@pytest.fixture
def served(tmp_path: Path) -> Any:
    """Return an agent with a journal, served."""
    return Served(ReActAgent("bot", ScriptedModel(["Yes.", "No."]), journal=tmp_path / "runs.db"))


async def test_door_of_a_users_own_tags_the_run_of_a_message_and_that_of_its_own_request(
    served: Any,
) -> None:
    agent, loop = served.agents["bot"], asyncio.get_running_loop()
    caller = Caller(loop, None, run_id="one", options={"tags": {"customer": "acme"}})
    assert await served.call("text-ada", "bot", "say", {"content": "Yes?"}, caller) == "Yes."
    caller = Caller(loop, None, run_id="two", content="No?", options={"tags": ["urgent"]})
    with served.calling("text-ada", "bot", caller):
        reply = await agent.reply_to_request(caller.request(agent, "text-ada/1"))
    assert reply.text == "No."
    runs = {run.id: run.tags for run in agent.journal.runs()}
    assert runs == {"one": {"customer": "acme"}, "two": {"urgent": ""}}
    await served.close()


async def test_door_of_a_users_own_hears_what_is_wrong_in_what_it_says_of_a_reply(
    served: Any,
) -> None:
    caller = Caller(asyncio.get_running_loop(), None, content="Yes?", options={"tags": 5})
    with pytest.raises(ConfigError, match="tags= must be texts by name"):
        caller.request(served.agents["bot"], "text-ada/1")
    await served.close()


ADDED = {
    "serving/doors/openai/door.py": (
        (
            "Caller(loop, None, run_id=run_id, name=caller_name, content=content",
            ', options={"tags": openai_request.body.get("metadata")}',
        ),
    ),
    "serving/doors/a2a_store.py": (
        (
            "self._start_task((id, agent, sender, context, content), is_new=True",
            ', options={"tags": message.get("metadata")}',
        ),
    ),
    "serving/doors/mcp.py": (
        (
            "job = MCPCall(*job_args, can_ask(ctx), run_id",
            ', {"tags": dict(params.meta or {}).get("tags")}',
        ),
    ),
}
USES = """
import asyncio
import httpx2
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.serving import asgi

HEADERS = {"A2A-Version": "1.0", "Accept": "application/json, text/event-stream"}
FIELDS = {"role": "ROLE_USER", "messageId": "1", "parts": [{"text": "Hi"}]}
MCP_CLIENT = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}
}
BODIES = {
    "/v1/chat/completions": {
        "model": "bot", "messages": [{"role": "user", "content": "Hi"}], "metadata": {"at": "chat"}
    },
    "/v1/responses": {"model": "bot", "input": "Hi", "metadata": {"at": "responses"}},
    "/a2a/bot": {
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": {**FIELDS, "metadata": {"at": "a2a"}}},
    },
    "/mcp": {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "say", "arguments": {"content": "Hi"}, "_meta": {"tags": {"at": "mcp"}},
        },
    },
}

async def main(journal):
    app = asgi([ReActAgent("bot", ScriptedModel(["Good day."] * 4), journal=journal)])
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        begun = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": MCP_CLIENT}
        answer = await client.post("/mcp", json=begun, headers=HEADERS)
        HEADERS["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await client.post("/mcp", json=ready, headers=HEADERS)
        for path, body in BODIES.items():
            answer = await client.post(path, json=body, headers=HEADERS)
            assert answer.status_code == 200 and "Good day." in answer.text, (path, answer.text)

with Journal("runs.db") as journal:
    asyncio.run(main(journal))
    tags = sorted(run.tags["at"] for run in journal.runs())
    assert tags == ["a2a", "chat", "mcp", "responses"], tags
"""


def test_doors_with_a_request_field_added_say_it_of_the_run(added: Added) -> None:
    run = added(ADDED)
    run("-c", USES)
    listed = run("-m", "moothall", "runs", "--journal", "runs.db", "--tag", "at=mcp")
    assert "\nmcp-" in listed
    assert "\n1 run:" in listed
