"""A help desk on FastAPI: answers stream to customers, and refunds wait for a person of the staff.

    pip install '.[local,studio]'
    python examples/desk.py [MODEL [PORT]]

A customer asks, and reads events; the last one says why the answer ended:

    curl -N -H 'Authorization: Bearer ada-token' --json '{"text": "Refund order A1.", "run_id": "q1"}' http://127.0.0.1:8000/chat

The answer to this one ends as "waiting". Staff see what waits, and decide:

    curl -H 'Authorization: Bearer staff-token' http://127.0.0.1:8000/refunds
    curl -H 'Authorization: Bearer staff-token' --json '{"run": "ada/q1", "key": "KEY", "permit": true}' http://127.0.0.1:8000/refunds

A question goes on when its customer has left, and after a crash; asked again with its "run_id", it gives its answer.
"""  # noqa: E501 - commands to copy

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import Body, Depends, FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse

from moothall import (
    ACCESS_REQUESTED,
    Budget,
    Context,
    Journal,
    NoSuchRun,
    ReActAgent,
    Refused,
    RunHeld,
    RunMismatch,
    SQLiteMemory,
    StateError,
    Waiting,
    action,
)
from moothall.models import Model

ORDERS = {"ada": {"A1": 20}, "bo": {"B7": 180}}
# In a service of yours: a table of sessions, or the claims of a signed token.
TOKENS = {"ada-token": "ada", "bo-token": "bo", "staff-token": "staff"}


def my_orders(context: Context) -> dict[str, int]:
    """List the user's orders, and what each cost."""
    # The user is what the service found out, never what a model says.
    return ORDERS.get(context.deps, {})


@action(access_policy=ACCESS_REQUESTED)
def refund(order: str, context: Context) -> str:
    """Pay an order of the user back."""
    if order not in ORDERS.get(context.deps, {}):
        raise ValueError(f"there is no order {order}")
    return f"{ORDERS[context.deps][order]} paid back"


class Desk:
    """One agent for all customers. Each has a thread in the memory's file, and a daily budget."""

    def __init__(self, model: Model | str, memory: SQLiteMemory, journal: Journal) -> None:
        self.journal = journal
        whole = Budget(tokens=1_000_000, per="day", journal=journal, name="desk")
        # What a customer has spent today stays, also across a restart.
        self.budgets = {
            user: whole.child(tokens=50_000, per="day", name=user) for user in TOKENS.values()
        }
        self.agent = ReActAgent(
            "desk",
            model,
            actions=[my_orders, refund],
            memory=memory,
            system_prompt="You answer customers of a furniture shop, in one sentence.",
            budget=whole,
            journal=journal,
            approver=Waiting(who="staff"),  # in the journal, so that any process may answer
        )
        self.whose = {
            "deps": lambda run: run.thread,
            "budget": lambda run: self.budgets[run.thread],
        }
        self._tasks: set[asyncio.Task[Any]] = set()

    def keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let work go on when its request has ended."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answer(
        self, user: str, text: str, run_id: str | None, events: asyncio.Queue[Any]
    ) -> None:
        """Answer one text of a customer; an exception is an event, too."""
        shown = False
        try:
            stream = self.agent.stream(
                text, thread=user, run_id=run_id, deps=user, budget=self.budgets[user]
            )
            async with stream as told:
                async for event in told:
                    match event.kind:
                        case "text":
                            shown = True
                            events.put_nowait({"text": event.text})
                        case "call_started":
                            events.put_nowait({"action": event.action})
                        case "done":
                            more = {} if shown else {"text": event.reply.text}
                            events.put_nowait({**more, "stop_reason": event.reply.stop_reason})
        except (RunMismatch, RunHeld) as error:  # another question, or it is still being answered
            events.put_nowait({"error": str(error)})
        events.put_nowait(None)


def application(desk: Desk) -> FastAPI:
    """The application, to be served by uvicorn."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await desk.agent.prepare()
        desk.keep(desk.agent.resume_runs(**desk.whose))  # what a crash has stopped
        yield

    def user(authorization: Annotated[str, Header()] = "") -> str:
        found = TOKENS.get(authorization.removeprefix("Bearer "))
        if found is None:
            raise HTTPException(401, "unknown token")
        return found

    def staff(name: Annotated[str, Depends(user)]) -> None:
        if name != "staff":
            raise HTTPException(403, "for the staff")

    app = FastAPI(lifespan=lifespan)

    @app.post("/chat")
    async def chat(
        name: Annotated[str, Depends(user)],
        text: Annotated[str, Body(min_length=1, max_length=4000)],
        run_id: Annotated[str | None, Body(min_length=1, max_length=100)] = None,
    ) -> StreamingResponse:
        events: asyncio.Queue[Any] = asyncio.Queue()
        # Nobody can name a run of another customer.
        desk.keep(desk.answer(name, text, run_id and f"{name}/{run_id}", events))

        async def lines() -> AsyncIterator[str]:
            while (event := await events.get()) is not None:
                yield f"data: {json.dumps(event)}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    @app.get("/refunds", dependencies=[Depends(staff)])
    def refunds() -> list[dict[str, Any]]:
        return [
            {"run": each.run, "key": each.key, "customer": each.thread, **each.args}
            for each in desk.journal.waiting(kind="approval")
        ]

    @app.post("/refunds", dependencies=[Depends(staff)])
    async def decide(
        run: Annotated[str, Body()], key: Annotated[str, Body()], permit: Annotated[bool, Body()]
    ) -> None:
        decision = permit or Refused("the staff refused it")
        try:
            await asyncio.to_thread(desk.journal.answer, run, key, decision, by="staff")
        except NoSuchRun as error:
            raise HTTPException(404, str(error)) from error
        except StateError as error:  # it was decided otherwise before
            raise HTTPException(409, str(error)) from error
        desk.keep(desk.agent.resume_decided(**desk.whose))

    return app


if __name__ == "__main__":
    model, port = [*sys.argv[1:], *("local", "8000")[len(sys.argv) - 1 :]]
    with SQLiteMemory("desk.db") as memory, Journal("runs.db") as journal:
        uvicorn.run(
            application(Desk(model, memory, journal)),
            port=int(port),
            timeout_graceful_shutdown=5,
        )
