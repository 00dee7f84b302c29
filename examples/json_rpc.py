"""A door for JSON-RPC, in which a reply that waits is `pending`, and goes on with an answer."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import asynccontextmanager
from functools import partial
from urllib.request import Request, urlopen

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from moothall import (
    ACCESS_REQUESTED,
    BudgetExceeded,
    InvalidArguments,
    MoothallError,
    NotPermitted,
    ReActAgent,
    RunWaiting,
    ScriptedModel,
    action,
)
from moothall.agents import ResumeHost, Resumer
from moothall.build import UnreadableText, json_text
from moothall.serving.doors import (
    Caller,
    Callers,
    DoorGuard,
    HTTPServer,
    Served,
    TooOften,
    caller_of,
    checks,
    sender_of,
)

CODES = {UnreadableText: -32700, InvalidArguments: -32602, NotPermitted: -32003}
CODES |= {TooOften: -32029, BudgetExceeded: -32029, MoothallError: -32000}
CODES |= {KeyError: -32600, TypeError: -32602}


class RPCDoor(ResumeHost):
    def __init__(self, agents, callers):
        self.callers, self.served = callers, Served(agents, callers)
        routes = [Route("/rpc", self.post, methods=["POST"])]
        self.app = DoorGuard(Starlette(routes=routes, lifespan=self.go_on), callers)

    @asynccontextmanager
    async def go_on(self, app):
        """Go on with runs that somebody else has answered, such as by `moothall answer`."""
        async with Resumer(self):
            yield

    def agents(self):
        return [*self.served.offered.values()]

    def is_wanted(self, run):
        return run.id not in self.served.answered_runs

    async def post(self, request):
        id = None
        try:
            call = checks.json_of(await request.body())
            id = call["id"]
            answer = {"result": await self.say(caller_of(request.scope), **call["params"])}
        except tuple(CODES) as error:
            code = next(code for kind, code in CODES.items() if isinstance(error, kind))
            answer = {"error": {"code": code, "message": str(error)}}
        return Response(json_text({"jsonrpc": "2.0", "id": id, **answer}))

    async def say(self, name, agent, content, run=None, answers=()):
        sender, loop = sender_of("rpc", name), asyncio.get_running_loop()
        if agent not in self.served.replying():
            raise InvalidArguments(f"no agent {agent!r}")
        if run is not None:
            await self.answer(name, sender, agent, run, answers)
        caller = Caller(loop, None, run_id=run or secrets.token_hex(16), name=name)
        ended = self.served.count_reply(is_new=run is None)
        try:
            said = self.served.call(sender, agent, "say", {"content": content}, caller)
            return {"text": await said}
        except RunWaiting as error:
            waits = await self.served.waits(agent, error.run_id)
            asks = {each.key: str(each) for each in waits if self.may_answer(name, each)}
            return {"pending": error.run_id, "asks": asks}
        finally:
            self.served.answered_runs.discard(run)
            ended()

    def may_answer(self, name, wait):
        return wait.asks_caller and (wait.kind == "question" or self.callers.permits(name))

    async def answer(self, name, sender, agent, run, answers):
        journal = self.served.journal_of(agent)
        for wait in await self.served.waits(agent, run, sender):  # no run of another's
            if wait.key in answers and self.may_answer(name, wait):
                give = partial(journal.answer, run, wait.key, answers[wait.key], by=name)
                await self.served.answer(run, give)


@action(access_policy=ACCESS_REQUESTED)
def refund(order: str) -> str:
    return f"refunded {order}"


model = ScriptedModel([{"name": "refund", "args": {"order": "A1"}}, "It is refunded."])
clerk = ReActAgent("clerk", model, actions=[refund], journal="clerk.db")
door = RPCDoor(clerk, Callers({"ada": "a-long-secret"}, approves=["ada"]))
server = HTTPServer(door.app, "127.0.0.1", 0)
server.start()
server.listening.result()


def say(**params):
    call = {"jsonrpc": "2.0", "id": 1, "method": "say", "params": {"agent": "clerk", **params}}
    headers = {"Authorization": "Bearer a-long-secret"}
    url = f"http://127.0.0.1:{server.port}/rpc"
    with urlopen(Request(url, json.dumps(call).encode(), headers)) as answer:
        return json.load(answer)["result"]


pending = say(content="Refund A1.")
print(list(pending))
answers = dict.fromkeys(pending["asks"], True)
print(say(content="Refund A1.", run=pending["pending"], answers=answers))
server.stop()
server.join()
asyncio.run(door.served.close())
