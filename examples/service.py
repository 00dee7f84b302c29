"""A web service that streams answers to many users at once, each with a thread and a budget.

    python examples/service.py [MODEL [PORT]]

    curl -N -H 'Authorization: Bearer ada-token' -d '{"text": "I am Ada."}' http://127.0.0.1:8000/chat

Each line of an answer is an event: data: {"text": "Hel"} for a piece, and last data: {"stop_reason": "done"}.
Asked again with the same "run_id", a question gets the same answer, also after a crash of the service.
It needs the extras `openai`, for aiohttp, and `local` for the model in the box.
"""  # noqa: E501 - a command to copy

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from aiohttp import web

from moothall import Budget, Context, Journal, Model, ReActAgent, RunHeld, RunMismatch, SQLiteMemory

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
        journal: where the questions and what was done for them are kept
        users: who is let in, by the token
        whole: what all users together may spend, kept in the journal
        limits: what each of them may spend
    """

    def __init__(
        self,
        model: Model | str,
        memory: SQLiteMemory,
        journal: Journal,
        users: Mapping[str, str],
        whole: Budget,
        **limits: Any,
    ) -> None:
        self.agent = ReActAgent(
            "desk",
            model,
            actions=[my_order],
            memory=memory,
            system_prompt="You answer customers of a furniture shop, in one sentence.",
            budget=whole,
            journal=journal,
        )
        self.users = users
        # Named children of a budget in a journal: what a user has spent survives a restart.
        self.budgets = {user: whole.child(**limits, name=user) for user in users.values()}

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Stream the answer to one text of one user."""
        user = self.users.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if user is None:
            raise web.HTTPUnauthorized(text="unknown token\n")
        text, run_id = await asked(request)
        if run_id is not None:
            run_id = f"{user}/{run_id}"  # nobody can name a run of another user
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        streamed = False

        async def send(**event: Any) -> None:
            if not response.prepared:
                await response.prepare(request)
            await response.write(f"data: {json.dumps(event)}\n\n".encode())

        # Leaving the stream, as when the user goes away, cancels the model's answer.
        stream = self.agent.stream(
            text, thread=user, run_id=run_id, deps=user, budget=self.budgets[user]
        )
        try:
            async with stream as events:
                async for event in events:
                    match event.kind:
                        case "text":
                            streamed = True
                            await send(text=event.text)
                        case "call_started":
                            await send(action=event.action)
                        case "done":
                            if not streamed:  # a run that had ended before has no pieces
                                await send(text=event.reply.text)
                            await send(stop_reason=event.reply.stop_reason)
        except (RunMismatch, RunHeld) as error:  # raised before the first event, so nothing is sent
            raise web.HTTPConflict(text=f"{error}\n") from None
        return response

    async def resumed(self, app: web.Application) -> AsyncIterator[None]:
        """Prepare the agent, and resume in the background what a crash has stopped."""
        await self.agent.prepare()
        resuming = asyncio.create_task(
            self.agent.resume_runs(
                deps=lambda run: run.thread, budget=lambda run: self.budgets[run.thread]
            )
        )
        yield
        resuming.cancel()
        with suppress(asyncio.CancelledError):
            await resuming

    def app(self) -> web.Application:
        """The application, to be served."""
        app = web.Application(client_max_size=100_000)
        app.router.add_post("/chat", self.chat)
        app.cleanup_ctx.append(self.resumed)
        return app


async def asked(request: web.Request) -> tuple[str, str | None]:
    """The text of a request's body, and the id of the run, if it names one."""
    try:
        body = json.loads(await request.text())
        text, run_id = body["text"], body.get("run_id")
    except (ValueError, KeyError, TypeError, AttributeError):
        text = run_id = None
    if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT:
        raise web.HTTPBadRequest(
            text=f'the body must be {{"text": "1 to {MAX_TEXT} characters"}}\n'
        )
    if run_id is not None and not (
        isinstance(run_id, str) and 0 < len(run_id) <= 100 and run_id.isprintable()
    ):
        raise web.HTTPBadRequest(text='"run_id" must be 1 to 100 printable characters\n')
    return text, run_id


if __name__ == "__main__":
    name, port = [*sys.argv[1:], *("local", "8000")[len(sys.argv) - 1 :]]
    with SQLiteMemory("desk.db") as memory, Journal("runs.db") as journal:
        whole = Budget(tokens=1_000_000, per="day", journal=journal, name="desk")
        desk = Desk(name, memory, journal, TOKENS, whole, tokens=50_000, per="day")
        web.run_app(desk.app(), host="127.0.0.1", port=int(port), handler_cancellation=True)
