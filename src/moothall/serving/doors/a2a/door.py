"""The agents as A2A servers, versions 1.0 and 0.3: cards, and the methods over JSON-RPC."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from email.utils import formatdate
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from moothall import NoSuchRun
from moothall.build import one_line
from moothall.serving.a2a.wire import (
    ACCEPTED_MEDIA,
    ANY_STATE,
    CARD_PATH,
    VERSION,
    A2AFault,
    check_params,
    seconds_of,
)
from moothall.serving.a2a.wire_03 import VERSION_03
from moothall.serving.doors.a2a.call import A2ACall, protocol_faults
from moothall.serving.doors.a2a.form import STATES, TaskUpdates, add_message, answers_in, task_of
from moothall.serving.doors.a2a.runs import (
    TaskRuns,
    page_position,
    page_token,
    task_id_of_message,
)
from moothall.serving.doors.callers import caller_of, sender_of
from moothall.serving.doors.checks import as_json
from moothall.serving.doors.front import NO_FRONT, Front
from moothall.serving.doors.protocols import A2A, to_id, to_path
from moothall.serving.doors.served.served_run import ENDS, PAUSES, RunQuestions, RunState, ServedRun
from moothall.serving.doors.served.served_runs import Item, ServedRuns
from moothall.serving.doors.served_agents import Served

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_START_WAIT_S: Final = 1.0
"""How long `returnImmediately` waits until the journal has the task's run."""
_ANSWER_WAIT_S: Final = 86_400.0
"""How long a task waits for an answer to its question."""
_CACHE_CONTROL: Final = "public, max-age=300"
"""Clients may keep a card for five minutes."""
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
        self._tasks = TaskRuns(served, A2A)
        self._runs = ServedRuns(served, self._tasks, _ANSWER_WAIT_S)
        self._drain_s = drain_s

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
        await self._runs.resume()

    async def close(self) -> None:
        """Cancel the tasks that do not end in time."""
        await self._runs.close(self._drain_s)

    # -- cards -------------------------------------------------------------------------------------

    async def _first_card(self, request: Request) -> Response:
        return self._card_of(next(iter(self._served.saying()), None), request)

    async def _card(self, request: Request) -> Response:
        id = self._agent_id(request)
        return self._card_of(id if id in self._served.saying() else None, request)

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
        if agent not in self._served.saying():
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
            run, options = await self._accept_message(agent, sender, params)
            if options.get("returnImmediately"):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_START_WAIT_S):
                        await run.until(STATES.keys() - {"new"})
            else:
                await run.until(ENDS | PAUSES)
                run = await self._runs.once_idle(run)
            return {"task": task_of(run, options.get("historyLength"))}
        if method in _TASK_METHODS:
            params = check_params("GetTask", params)
            run = await self._runs.find_run(agent, sender, params["id"])
            if method == "GetTask":
                return task_of(run, params.get("historyLength"))
            if (cancelled_run := await self._runs.cancel(run)) is not None:
                return task_of(cancelled_run)
            text = "the task has ended, or its process does not answer"
            raise A2AFault("TASK_NOT_CANCELABLE", text)
        if method == "ListTasks":
            return await self._list_page(agent, sender, check_params(method, params))
        if "PushNotification" in method:
            raise A2AFault("PUSH_NOTIFICATION_NOT_SUPPORTED", "push notifications are not offered")
        if method == "GetExtendedAgentCard":
            raise A2AFault("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "there is no extended card")
        raise A2AFault("METHOD_NOT_FOUND", f"there is no method {one_line(method, 100)!r}")

    async def _accept_message(
        self, agent: str, sender: str, params: Any
    ) -> tuple[ServedRun, dict[str, Any]]:
        """Take a message, which begins a task or answers a task's question, once.

        Return the task's run, and how the caller wants it.
        """
        params = check_params("SendMessage", params)
        message, options = params["message"], params.get("configuration", {})
        if options.get("taskPushNotificationConfig"):
            raise A2AFault("PUSH_NOTIFICATION_NOT_SUPPORTED", "push notifications are not offered")
        message_id = task_id_of_message(message, agent, sender)
        if not (id := message.get("taskId")):
            request = self._tasks.request_of(message_id, message, agent, sender)
            return await self._runs.begin(request), options
        run = await self._runs.find_run(agent, sender, id)
        if message.get("contextId") not in (None, "", run.request.context):
            raise A2AFault("INVALID_PARAMS", "the task belongs to another context")
        is_answer = await self._runs.answer(run, message_id, partial(self._read, message, run))
        if is_answer and run.view is not None:
            live_run = await self._runs.go_on(run)
            if live_run is None:
                text = "the answer is kept: get the task by GetTask"
                raise A2AFault("UNSUPPORTED_OPERATION", text)
            run = live_run
        if is_answer:
            add_message(run, message)
        return run, options

    def _read(
        self, message: dict[str, Any], run: ServedRun, questions: RunQuestions
    ) -> dict[str, Any]:
        answers = answers_in(message, run, questions)
        if run.view is not None:
            # Before it is kept: a task that fails now would go on once there is budget again.
            self._served.check(run.request.caller)
        return answers

    async def _list_page(self, agent: str, sender: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a page of a caller's tasks; the tasks that changed last come first."""
        position = page_position(params.get("pageToken") or "")
        after = params.get("statusTimestampAfter")
        since = 0.0 if after is None else seconds_of(after)
        status = params.get("status", ANY_STATE[0])
        runs = sorted(
            (
                each
                for each in await self._runs.runs_of(agent, sender)
                if params.get("contextId") in (None, "", each.request.context)
                and status in (*ANY_STATE, STATES[each.state.name])
                and each.state.at >= since
            ),
            key=_place_of,
        )
        page_size = params.get("pageSize", 50)
        remaining = [each for each in runs if position is None or _place_of(each) > position]
        page, limit = remaining[:page_size], params.get("historyLength", 0)
        tasks = []
        for each in page:
            with suppress(NoSuchRun):  # it was deleted meanwhile
                run = await self._runs.load(each)
                tasks.append(task_of(run, limit, params.get("includeArtifacts", False)))
        token = page_token(page[-1].state.at, page[-1].id) if len(remaining) > page_size else ""
        counts = {"pageSize": len(tasks), "totalSize": len(runs)}
        return {"tasks": tasks, "nextPageToken": token, **counts}

    async def _stream_method(
        self, call: A2ACall, agent: str, sender: str
    ) -> AsyncIterator[dict[str, Any]]:
        """Answer a call by updates; raise A2AFault for one that is refused."""
        method, params = call.method, call.params
        if method == "SendStreamingMessage":
            run, options = await self._accept_message(agent, sender, params)
            # One that asks is told as it is: its caller has to answer first.
            is_now = run.state.is_paused
            return self._updates(run, options.get("historyLength"), is_now)
        run = await self._runs.find_run(agent, sender, check_params("GetTask", params)["id"])
        is_worked_on = run.view is None or run.state.is_elsewhere or run.state.is_paused
        if run.state.is_over or not is_worked_on:
            raise A2AFault("UNSUPPORTED_OPERATION", "nothing works on the task: get it by GetTask")
        return self._updates(run, None, False)

    def _updates(
        self, run: ServedRun, limit: int | None, is_now: bool
    ) -> AsyncIterator[dict[str, Any]]:
        """Return a task as it is now, and then its updates until it has ended or asks something."""
        # Read from now on: when the first update is asked for, a quick agent has ended.
        return self._read_updates(
            {"task": task_of(run, limit)}, TaskUpdates(run, limit), self._runs.follow(run), is_now
        )

    @staticmethod
    async def _read_updates(
        first: dict[str, Any], form: TaskUpdates, items: AsyncGenerator[Item], is_now: bool
    ) -> AsyncIterator[dict[str, Any]]:
        async with aclosing(items):
            yield first
            if is_now:
                return
            async for item in items:
                for update in form.updates(item):
                    yield update
                if isinstance(item, RunState) and item.is_paused:
                    return


def _place_of(run: ServedRun) -> tuple[float, str]:
    """Return by what tasks are sorted: those that changed last come first."""
    return -run.state.at, run.id
