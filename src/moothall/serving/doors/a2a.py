"""The agents as A2A servers, versions 1.0 and 0.3: cards, and the methods over JSON-RPC."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from email.utils import formatdate
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from moothall import ACCESS_DENIED
from moothall.build import one_line
from moothall.journal import Outline
from moothall.serving.a2a.wire import (
    ACCEPTED_MEDIA,
    CARD_PATH,
    ENDED_STATES,
    PAUSED_STATES,
    SUBMITTED,
    VERSION,
    WORKING,
    A2AFault,
    check_params,
)
from moothall.serving.a2a.wire_03 import VERSION_03
from moothall.serving.doors.a2a_call import A2ACall, protocol_faults
from moothall.serving.doors.a2a_records import questions_of, task_id_of_message
from moothall.serving.doors.a2a_store import TaskStore
from moothall.serving.doors.a2a_tasks import Task
from moothall.serving.doors.callers import caller_of, sender_of
from moothall.serving.doors.checks import as_json
from moothall.serving.doors.front import NO_FRONT, Front
from moothall.serving.doors.protocols import A2A, to_id, to_path
from moothall.serving.doors.served_agents import Served

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_START_WAIT_S: Final = 1.0
"""How long `returnImmediately` waits until the journal has the task's run."""
_POLL_S: Final = 0.5
"""Seconds between two looks whether a task that waits has gone on."""
_CACHE_CONTROL: Final = "public, max-age=300"
"""Clients may keep a card for five minutes."""
_MAX_ANSWER_IDS: Final = 10_000
_STREAMING_METHODS: Final = ("SendStreamingMessage", "SubscribeToTask")
_TASK_METHODS: Final = ("GetTask", "CancelTask", "SubscribeToTask")


class A2ADoor:
    """Serves agents that have `reply` by A2A.

    Args:
        served: the agents
        title: what the server is called
        has_token: whether callers send a token; without one, the network address identifies them
        front: the public address
    """

    def __init__(
        self,
        served: Served,
        title: str,
        has_token: bool,
        front: Front = NO_FRONT,
        drain_s: float = 0.0,
    ) -> None:
        self._served = served
        self._title = title
        self._has_token = has_token
        self._front = front
        self._start_date = formatdate(usegmt=True)
        self._tasks = TaskStore(served, has_token)
        self._drain_s = drain_s
        self._answer_ids: dict[str, None] = {}  # the last messages that have answered a task

    def routes(self) -> list[Any]:
        """Return the routes of the cards and of the agents."""
        from starlette.routing import Route

        return [
            Route(CARD_PATH, self._first_card, methods=["GET"]),
            Route(f"{A2A.path}/{{agent:path}}{CARD_PATH}", self._card, methods=["GET"]),
            Route(f"{A2A.path}/{{agent:path}}", self._call, methods=["POST"]),
        ]

    async def resume(self) -> None:
        """Go on with the tasks whose process was killed, or for which an answer has come."""
        await self._tasks.resume()

    async def close(self) -> None:
        """Cancel the tasks that do not end in time."""
        await self._tasks.close(self._drain_s)

    # -- cards -------------------------------------------------------------------------------------

    def _agents(self) -> list[str]:
        """Return the ids of the agents that reply."""
        return [
            id
            for id, agent in self._served.offered.items()
            if (say := agent.offers.get("say")) is not None and say.access_policy != ACCESS_DENIED
        ]

    async def _first_card(self, request: Request) -> Response:
        return self._card_of(next(iter(self._agents()), None), request)

    async def _card(self, request: Request) -> Response:
        id = self._agent_id(request)
        return self._card_of(id if id in self._agents() else None, request)

    def _agent_id(self, request: Request) -> str:
        """Return the id of the agent that an address names; clients may add a slash."""
        path, agents = request.path_params["agent"], self._served.agents
        if (id := to_id(path, agents)) in agents or not path.endswith("/"):
            return id
        return to_id(path[:-1], agents)

    def _card_of(self, id: str | None, request: Request) -> Response:
        from starlette.responses import PlainTextResponse, Response

        if id is None:
            return PlainTextResponse("no such agent replies here\n", 404)
        root = request.scope.get("root_path", "").rstrip("/")
        own_url = f"{request.url.scheme}://{request.headers['host']}{root}"
        front = self._front
        base = f"{front.origin}{front.base[:-1]}" if front.origin else own_url
        agent_url = f"{base}{A2A.path}/{to_path(id)}"
        agent = self._served.agents[id]
        description = agent.offers["say"].description
        skill = {"id": "say", "name": id, "description": description, "tags": ["conversation"]}
        card: dict[str, Any] = {
            "name": id,
            "description": agent.description or f"Agent {id} of {self._title}: {description}",
            "version": version("moothall"),
            "supportedInterfaces": [
                {"url": agent_url, "protocolBinding": "JSONRPC", "protocolVersion": each}
                for each in (VERSION, VERSION_03)
            ],
            # As 0.3 says the same.
            "protocolVersion": f"{VERSION_03}.0",
            "url": agent_url,
            "preferredTransport": "JSONRPC",
            "capabilities": {
                "streaming": True,
                "pushNotifications": False,
                "extendedAgentCard": False,
            },
            "defaultInputModes": [*ACCEPTED_MEDIA],
            "defaultOutputModes": ["text/plain", "application/json"],
            "skills": [skill],
        }
        if self._has_token:
            scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
            scheme_03 = {"type": "http", "scheme": "bearer"}
            card["securitySchemes"] = {"bearer": {**scheme, **scheme_03}}
            card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
            card["security"] = [{"bearer": []}]
        body = as_json(card)
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {
            "etag": etag,
            "last-modified": self._start_date,
            "cache-control": _CACHE_CONTROL,
            "vary": "host",
        }
        if etag in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers)
        return Response(body, 200, headers, "application/json")

    # -- calls -------------------------------------------------------------------------------------

    async def _call(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        agent = self._agent_id(request)
        if agent not in self._agents():
            return PlainTextResponse("no such agent replies here\n", 404)
        call = A2ACall()
        try:
            with protocol_faults():
                await call.read(request)
                sender = self._sender(request)
                if call.method in _STREAMING_METHODS:
                    return call.stream(await self._stream_method(call, agent, sender))
                return call.answer(await self._answer_method(call, agent, sender))
        except A2AFault as fault:
            return call.refusal(fault)

    def _sender(self, request: Request) -> str:
        """Return the sender of a caller: by the token's name, or by the network address."""
        if self._has_token or request.client is None:
            return sender_of(A2A.sender, caller_of(request.scope))
        return f"{A2A.sender}-{request.client.host.partition('%')[0]}"

    async def _answer_method(self, call: A2ACall, agent: str, sender: str) -> Any:
        """Answer a call; raise A2AFault for one that is refused."""
        method, params = call.method, call.params
        if method == "SendMessage":
            task, limit, is_immediate = await self._accept_message(agent, sender, params)
            if isinstance(task, Task):
                if is_immediate:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_START_WAIT_S):
                            await task.wait_until(lambda task: task.state != SUBMITTED)
                else:
                    await task.wait_until(lambda task: task.state in ENDED_STATES | PAUSED_STATES)
                if is_immediate or not task.runs_elsewhere:
                    return {"task": task.to_json(limit)}
            if not is_immediate and task.state in ("running", WORKING):
                await self._tasks.wait_until_idle(agent, task.id)
            return {"task": await self._tasks.get(agent, sender, task.id, limit)}
        if method in _TASK_METHODS:
            params = check_params("GetTask", params)
            if method == "CancelTask":
                return await self._cancel(agent, sender, params["id"])
            return await self._tasks.get(agent, sender, params["id"], params.get("historyLength"))
        if method == "ListTasks":
            return await self._tasks.list_page(agent, sender, check_params(method, params))
        if "PushNotification" in method:
            raise A2AFault("PUSH_NOTIFICATION_NOT_SUPPORTED", "push notifications are not offered")
        if method == "GetExtendedAgentCard":
            raise A2AFault("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "there is no extended card")
        raise A2AFault("METHOD_NOT_FOUND", f"there is no method {one_line(method, 100)!r}")

    async def _accept_message(
        self, agent: str, sender: str, params: Any
    ) -> tuple[Task | Outline, int | None, bool]:
        """Take a message, which begins a task or answers a task's question, once.

        If it was sent before, its task may be in the journal alone.
        """
        params = check_params("SendMessage", params)
        message, options = params["message"], params.get("configuration", {})
        if options.get("taskPushNotificationConfig"):
            raise A2AFault("PUSH_NOTIFICATION_NOT_SUPPORTED", "push notifications are not offered")
        reply_options = options.get("historyLength"), bool(options.get("returnImmediately"))
        if not (id := message.get("taskId")):
            return await self._tasks.start(agent, sender, message), *reply_options
        task: Task | Outline | None = await self._tasks.find_live(agent, sender, id)
        answer_id = task_id_of_message(message, agent, sender)
        if answer_id in self._answer_ids:
            task = task or await self._tasks.outline(agent, sender, id)
        elif isinstance(task, Task):
            if message.get("contextId") not in (None, "", task.context):
                raise A2AFault("INVALID_PARAMS", "the task belongs to another context")
            task.answer_question(message)
        else:
            task = await self._tasks.answer(agent, sender, id, message)
        self._answer_ids[answer_id] = None
        while len(self._answer_ids) > _MAX_ANSWER_IDS:
            self._answer_ids.pop(next(iter(self._answer_ids)))
        return task, *reply_options

    async def _cancel(self, agent: str, sender: str, id: str) -> Any:
        task = await self._tasks.find_live(agent, sender, id)
        ended_before = task is not None and task.state in ENDED_STATES
        if task is not None and not ended_before and task.work is not None:
            task.work.cancel()
            await task.wait_until(lambda task: task.state in ENDED_STATES)
            if task.state in ENDED_STATES:
                return task.to_json()
        # Its run may have begun to wait meanwhile.
        if not ended_before and await self._tasks.cancel(agent, sender, id):
            return await self._tasks.get(agent, sender, id)
        raise A2AFault("TASK_NOT_CANCELABLE", "the task has ended, or its process does not answer")

    async def _stream_method(
        self, call: A2ACall, agent: str, sender: str
    ) -> AsyncIterator[dict[str, Any]]:
        """Answer a call by updates; raise A2AFault for one that is refused."""
        method, params = call.method, call.params
        if method == "SendStreamingMessage":
            task, limit, _ = await self._accept_message(agent, sender, params)
            if isinstance(task, Outline):
                return self._follow_task(agent, sender, task.id, limit, task.state != "running")
            return self._with_end(task, _updates(task, limit, task.state in PAUSED_STATES))
        id = check_params("GetTask", params)["id"]
        live_task = await self._tasks.find_live(agent, sender, id)
        if live_task is not None and live_task.state not in ENDED_STATES:
            return self._with_end(live_task, _updates(live_task, None, False))
        if live_task is None:
            run = await self._tasks.outline(agent, sender, id)
            if run.state in ("running", "waiting"):
                return self._follow_task(agent, sender, id)
        raise A2AFault("UNSUPPORTED_OPERATION", "nothing works on the task: get it by GetTask")

    async def _with_end(self, task: Task, updates: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield updates of a task, and its end where another process works on it."""
        async for update in updates:
            yield update
        if task.runs_elsewhere:
            await self._tasks.wait_until_idle(task.agent, task.id)
            yield {"task": await self._tasks.get(task.agent, task.sender, task.id)}

    async def _follow_task(
        self, agent: str, sender: str, id: str, limit: int | None = None, only_now: bool = False
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the state of a task that waits, or of another process: now, and after its end."""
        first_state = await self._tasks.get(agent, sender, id, limit)
        yield {"task": first_state}
        if only_now:
            return
        run = await self._tasks.outline(agent, sender, id)
        while (
            task := await self._tasks.find_live(agent, sender, id)
        ) is None and run.state == "waiting":
            await asyncio.sleep(_POLL_S)
            earlier_run, run = run, await self._tasks.outline(agent, sender, id)
            if run.changed != earlier_run.changed and run.state == "waiting":
                task_data = await self._tasks.get(agent, sender, id, limit)
                # It has gone on meanwhile, and asks something else.
                if questions_of(task_data) not in ([], questions_of(first_state)):
                    yield {"task": task_data}
                    return
        if task is None:  # another process goes on with it, or it has ended
            await self._tasks.wait_until_idle(agent, id)
            yield {"task": await self._tasks.get(agent, sender, id)}
            return
        async for update in self._with_end(task, _updates(task, None, False)):
            yield update  # its run ends before it does


def _updates(task: Task, limit: int | None, is_paused: bool) -> AsyncIterator[dict[str, Any]]:
    """Return a task as it is now, and then its updates until it has ended or asks something."""
    # Read from now on: when the first update is asked for, a quick agent has ended.
    return _read_updates(task, {"task": task.to_json(limit)}, task.subscribe(), is_paused)


async def _read_updates(
    task: Task, first: dict[str, Any], queue: asyncio.Queue[dict[str, Any] | None], is_paused: bool
) -> AsyncIterator[dict[str, Any]]:
    try:
        yield first
        while not is_paused and (update := await queue.get()) is not None:
            yield update
            status = update.get("statusUpdate", {}).get("status", {})
            is_paused = status.get("state") in PAUSED_STATES
    finally:
        task.unsubscribe(queue)
