"""The agent that the compatibility kit of A2A (`a2a-tck`) calls; docs/a2a.md has its figures.

`python tests/serving/doors/compatible.py PORT` serves it. The kit says by the prefix of a message's
id what the agent is to do, and a model sees no ids: so the application adds the id to the text.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import uvicorn

from moothall import Call, Context, ModelReply, ReActAgent, ScriptedModel, action
from moothall.serving import asgi

RAW = base64.b64encode(b"from the kit").decode()
FILE = {"filename": "output.txt", "file_data": f"data:text/plain;base64,{RAW}"}
URL = {"filename": "output.txt", "file_url": "https://example.com/output.txt"}
SAID: dict[str, Any] = {
    "artifact-text": "Generated text content",
    "artifact-file": ModelReply(blocks=({"type": "file", "file": FILE},)),
    "stream-artifact-file": ModelReply(blocks=({"type": "file", "file": FILE},)),
    "artifact-file-url": ModelReply(blocks=({"type": "file", "file": URL},)),
    "artifact-data": Call("data", "answer", {"value": {"key": "value", "count": 42}}),
    "message-response": "Direct message response",
    "stream-001": "Stream hello from TCK",
    "stream-003": "Stream task lifecycle",
    "stream-ordering-001": "Ordered output",
    "stream-artifact-text": "Streamed text content",
    "stream-artifact-chunked": "chunk-1 chunk-2",
    "input-required": Call("ask", "ask", {}),
}


@action
async def ask(context: Context) -> str:
    """Ask the client."""
    return await context.ask_person("What else?")


@action(terminal=True)
def answer(value: dict[str, Any]) -> dict[str, Any]:
    """Answer with data."""
    return value


def model(messages: list[dict[str, Any]], actions: Any) -> Any:
    """Do what the last message asks for."""
    if messages[-1]["role"] == "tool":
        return "Thank you."
    asked = str(messages[-1]["content"])
    named = [said for prefix, said in SAID.items() if f"tck-{prefix}" in asked]
    return named[-1] if named else "Hello from TCK"


class WithIds:
    """Adds the id of each message to its text."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def read() -> Any:
            event = await receive()
            try:
                body = json.loads(event["body"])
                message = body.get("params", body)["message"]
                message["parts"].append({"text": message["messageId"]})
            except (KeyError, TypeError, ValueError, AttributeError):
                return event  # a body that is meant to be wrong
            return {**event, "body": json.dumps(body).encode()}

        await self._app(scope, read if scope["type"] == "http" else receive, send)


if __name__ == "__main__":
    agent = ReActAgent("tck", ScriptedModel(model), actions=[ask, answer])
    uvicorn.run(WithIds(asgi(agent)), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
