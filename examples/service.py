"""A web service that streams answers to many users at once, each with a thread and a budget.

    python examples/service.py [MODEL [PORT]]

    curl -N -H 'Authorization: Bearer ada-token' -d '{"text": "I am Ada."}' http://127.0.0.1:8000/chat

Each line of an answer is an event: data: {"text": "Hel"} for a piece, and last data: {"stop_reason": "done"}.
It needs the extras `openai`, for aiohttp, and `local` for the model in the box.
"""  # noqa: E501 - a command to copy

import json
import sys
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from moothall import Budget, Context, Model, ReActAgent, SQLiteMemory

ORDERS = {"ada": "a lamp, on its way", "bo": "two chairs, delivered"}
# In a service of yours: a table of sessions, or the claims of a signed token.
TOKENS = {"ada-token": "ada", "bo-token": "bo"}
MAX_TEXT = 4000


def my_order(context: Context) -> str:
    """Tell the user who asks what they have ordered."""
    # The user is what the service found out, never what a model says.
    return ORDERS.get(context.deps, "nothing")


class Desk:
    """One agent for all users. Each has a thread in the memory's file, and a part of the budget.

    Args:
        model: answers them all
        memory: where the threads are kept
        users: who is let in, by the token
        whole: what all users together may spend
        limits: what each of them may spend
    """

    def __init__(
        self,
        model: Model | str,
        memory: SQLiteMemory,
        users: Mapping[str, str],
        whole: Budget,
        **limits: float,
    ) -> None:
        self.agent = ReActAgent(
            "desk",
            model,
            actions=[my_order],
            memory=memory,
            system_prompt="You answer customers of a furniture shop, in one sentence.",
            budget=whole,
        )
        self.users = users
        self.budgets = {user: whole.child(**limits, name=user) for user in users.values()}

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Stream the answer to one text of one user."""
        user = self.users.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if user is None:
            raise web.HTTPUnauthorized(text="unknown token\n")
        text = await asked(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)

        async def send(**event: Any) -> None:
            await response.write(f"data: {json.dumps(event)}\n\n".encode())

        # Leaving the stream, as when the user goes away, cancels the model's answer.
        stream = self.agent.stream(text, thread=user, deps=user, budget=self.budgets[user])
        async with stream as events:
            async for event in events:
                match event.kind:
                    case "text":
                        await send(text=event.text)
                    case "call_started":
                        await send(action=event.action)
                    case "done":
                        await send(stop_reason=event.reply.stop_reason)
        return response

    def app(self) -> web.Application:
        """The application, to be served."""
        app = web.Application(client_max_size=100_000)
        app.router.add_post("/chat", self.chat)
        return app


async def asked(request: web.Request) -> str:
    """The text of a request's body."""
    try:
        text = json.loads(await request.text())["text"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT:
        raise web.HTTPBadRequest(
            text=f'the body must be {{"text": "1 to {MAX_TEXT} characters"}}\n'
        )
    return text


if __name__ == "__main__":
    name, port = [*sys.argv[1:], *("local", "8000")[len(sys.argv) - 1 :]]
    with SQLiteMemory("desk.db") as memory:
        desk = Desk(name, memory, TOKENS, Budget(tokens=1_000_000), tokens=50_000)
        web.run_app(desk.app(), host="127.0.0.1", port=int(port), handler_cancellation=True)
