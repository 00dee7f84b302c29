"""The agents as A2A servers, version 1.0: cards, and the methods over JSON-RPC."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from email.utils import formatdate
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from moothall import ACCESS_DENIED, JournalError, NoSuchRun
from moothall.build import UnreadableText, one_line
from moothall.journal import Outline
from moothall.serving.a2a.wire import (
    CARD_PATH,
    MEDIA,
    PAUSED,
    SUBMITTED,
    TERMINAL,
    VERSION,
    WORKING,
    A2AFault,
    check_params,
)
from moothall.serving.doors.a2a_records import id_of_message, questions_of
from moothall.serving.doors.a2a_store import Tasks
from moothall.serving.doors.a2a_tasks import Task
from moothall.serving.doors.callers import caller_of, sender_of
from moothall.serving.doors.checks import COMMENT, as_json, json_of, sent_event, with_silences
from moothall.serving.doors.front import NO_FRONT, Front
from moothall.serving.doors.protocols import A2A, REFUSED, TooOften, fault_of, id_in, in_path
from moothall.serving.doors.served_agents import Served

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_BEGUN_S: Final = 1.0
"""How long `returnImmediately` waits until the journal has the task's run."""
_LOOK_S: Final = 0.5
"""Seconds between two looks whether a task that waits has gone on."""
_CACHE_CONTROL: Final = "public, max-age=300"
"""Clients may keep a card for five minutes."""
_MOST_ANSWERS: Final = 10_000
_STREAMED: Final = ("SendStreamingMessage", "SubscribeToTask")
_OF_TASK: Final = ("GetTask", "CancelTask", "SubscribeToTask")


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
        self._started = formatdate(usegmt=True)
        self._tasks = Tasks(served, has_token)
        self._drain_s = drain_s
        self._answers: dict[str, None] = {}  # the last messages that have answered a task

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

    def agents(self) -> list[str]:
        """Return the ids of the agents that reply."""
        return [
            id
            for id, agent in self._served.offered.items()
            if (say := agent.offers.get("say")) is not None and say.access_policy != ACCESS_DENIED
        ]

    async def _first_card(self, request: Request) -> Response:
        return self._card_of(next(iter(self.agents()), None), request)

    async def _card(self, request: Request) -> Response:
        id = self.agent_id(request)
        return self._card_of(id if id in self.agents() else None, request)

    def agent_id(self, request: Request) -> str:
        """Return the id of the agent that an address names; clients may add a slash."""
        path, agents = request.path_params["agent"], self._served.agents
        if (id := id_in(path, agents)) in agents or not path.endswith("/"):
            return id
        return id_in(path[:-1], agents)

    def _card_of(self, id: str | None, request: Request) -> Response:
        from starlette.responses import PlainTextResponse, Response

        if id is None:
            return PlainTextResponse("no such agent replies here\n", 404)
        root = request.scope.get("root_path", "").rstrip("/")
        own_url = f"{request.url.scheme}://{request.headers['host']}{root}"
        front = self._front
        base = f"{front.origin}{front.base[:-1]}" if front.origin else own_url
        agent_url = f"{base}{A2A.path}/{in_path(id)}"
        agent = self._served.agents[id]
        description = agent.offers["say"].description
        skill = {"id": "say", "name": id, "description": description, "tags": ["conversation"]}
        card: dict[str, Any] = {
            "name": id,
            "description": agent.description or f"Agent {id} of {self._title}: {description}",
            "version": version("moothall"),
            "supportedInterfaces": [
                {"url": agent_url, "protocolBinding": "JSONRPC", "protocolVersion": VERSION},
                {
                    "url": f"{agent_url}/v1",
                    "protocolBinding": "HTTP+JSON",
                    "protocolVersion": VERSION,
                },
            ],
            "capabilities": {
                "streaming": True,
                "pushNotifications": False,
                "extendedAgentCard": False,
            },
            "defaultInputModes": [*MEDIA],
            "defaultOutputModes": ["text/plain", "application/json"],
            "skills": [skill],
        }
        if self._has_token:
            card["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
            card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
        body = as_json(card)
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {
            "etag": tag,
            "last-modified": self._started,
            "cache-control": _CACHE_CONTROL,
            "vary": "host",
        }
        if tag in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers)
        return Response(body, 200, headers, "application/json")

    # -- calls -------------------------------------------------------------------------------------

    async def _call(self, request: Request) -> Response:
        from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

        agent = self.agent_id(request)
        if agent not in self.agents():
            return PlainTextResponse("no such agent replies here\n", 404)
        id: Any = None
        try:
            with faults():
                call = _read_call(await request.body(), request.headers.get("content-type", ""))
                id = call.get("id")
                check_version(request)
                method, params = call["method"], call.get("params") or {}
                sender = self.sender(request)
                if method in _STREAMED:
                    updates = await self.stream_method(method, agent, sender, params)
                    events = sent_events(
                        updates,
                        lambda update: {"jsonrpc": "2.0", "id": id, "result": update},
                        lambda fault: {"jsonrpc": "2.0", "id": id, "error": fault.to_json()},
                    )
                    return StreamingResponse(events, media_type="text/event-stream")
                result = await self.answer_method(method, agent, sender, params)
                return JSONResponse({"jsonrpc": "2.0", "id": id, "result": result})
        except A2AFault as fault:
            return JSONResponse({"jsonrpc": "2.0", "id": id, "error": fault.to_json()})

    def sender(self, request: Request) -> str:
        """Return the sender of a caller: by the token's name, or by the network address."""
        if self._has_token or request.client is None:
            return sender_of(A2A.sender, caller_of(request.scope))
        return f"{A2A.sender}-{request.client.host.partition('%')[0]}"

    async def answer_method(self, method: str, agent: str, sender: str, params: Any) -> Any:
        """Answer a method; raise A2AFault for one that is refused."""
        if method == "SendMessage":
            task, history, at_once = await self._accept_message(agent, sender, params)
            if isinstance(task, Task):
                if at_once:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_BEGUN_S):
                            await task.wait_until(lambda task: task.state != SUBMITTED)
                else:
                    await task.wait_until(lambda task: task.state in TERMINAL | PAUSED)
                if at_once or not task.is_elsewhere:
                    return {"task": task.to_json(history)}
            if not at_once and task.state in ("running", WORKING):
                await self._tasks.wait_until_idle(agent, task.id)
            return {"task": await self._tasks.get(agent, sender, task.id, history)}
        if method in _OF_TASK:
            params = check_params("GetTask", params)
            if method == "CancelTask":
                return await self._cancel(agent, sender, params["id"])
            return await self._tasks.get(agent, sender, params["id"], params.get("historyLength"))
        if method == "ListTasks":
            return await self._tasks.list(agent, sender, check_params(method, params))
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
        options_of_reply = options.get("historyLength"), bool(options.get("returnImmediately"))
        if not (id := message.get("taskId")):
            return await self._tasks.start(agent, sender, message), *options_of_reply
        task: Task | Outline | None = await self._tasks.live(agent, sender, id)
        answer = id_of_message(message, agent, sender)
        if answer in self._answers:
            task = task or await self._tasks.outline(agent, sender, id)
        elif isinstance(task, Task):
            if message.get("contextId") not in (None, "", task.context):
                raise A2AFault("INVALID_PARAMS", "the task belongs to another context")
            task.answer_ask(message)
        else:
            task = await self._tasks.answer(agent, sender, id, message)
        self._answers[answer] = None
        while len(self._answers) > _MOST_ANSWERS:
            self._answers.pop(next(iter(self._answers)))
        return task, *options_of_reply

    async def _cancel(self, agent: str, sender: str, id: str) -> Any:
        task = await self._tasks.live(agent, sender, id)
        ended_before = task is not None and task.state in TERMINAL
        if task is not None and not ended_before and task.work is not None:
            task.work.cancel()
            await task.wait_until(lambda task: task.state in TERMINAL)
            if task.state in TERMINAL:
                return task.to_json()
        # Its run may have begun to wait meanwhile.
        if not ended_before and await self._tasks.cancel(agent, sender, id):
            return await self._tasks.get(agent, sender, id)
        raise A2AFault("TASK_NOT_CANCELABLE", "the task has ended, or its process does not answer")

    async def stream_method(
        self, method: str, agent: str, sender: str, params: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Answer a method by updates; raise A2AFault for one that is refused."""
        if method == "SendStreamingMessage":
            task, history, _ = await self._accept_message(agent, sender, params)
            if isinstance(task, Outline):
                return self._follow_task(agent, sender, task.id, history, task.state != "running")
            return self._to_end(task, _updates(task, history, task.state in PAUSED))
        id = check_params("GetTask", params)["id"]
        live_task = await self._tasks.live(agent, sender, id)
        if live_task is not None and live_task.state not in TERMINAL:
            return self._to_end(live_task, _updates(live_task, None, False))
        if live_task is None:
            run = await self._tasks.outline(agent, sender, id)
            if run.state in ("running", "waiting"):
                return self._follow_task(agent, sender, id)
        raise A2AFault("UNSUPPORTED_OPERATION", "nothing works on the task: get it by GetTask")

    async def _to_end(self, task: Task, updates: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield updates of a task, and its end where another process works on it."""
        async for update in updates:
            yield update
        if task.is_elsewhere:
            await self._tasks.wait_until_idle(task.agent, task.id)
            yield {"task": await self._tasks.get(task.agent, task.sender, task.id)}

    async def _follow_task(
        self, agent: str, sender: str, id: str, history: int | None = None, once: bool = False
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the state of a task that waits, or of another process: now, and after its end."""
        first_state = await self._tasks.get(agent, sender, id, history)
        yield {"task": first_state}
        if once:
            return
        run = await self._tasks.outline(agent, sender, id)
        while (
            task := await self._tasks.live(agent, sender, id)
        ) is None and run.state == "waiting":
            await asyncio.sleep(_LOOK_S)
            earlier_run, run = run, await self._tasks.outline(agent, sender, id)
            if run.changed != earlier_run.changed and run.state == "waiting":
                task_data = await self._tasks.get(agent, sender, id, history)
                # It has gone on meanwhile, and asks something else.
                if questions_of(task_data) not in ([], questions_of(first_state)):
                    yield {"task": task_data}
                    return
        if task is None:  # another process goes on with it, or it has ended
            await self._tasks.wait_until_idle(agent, id)
            yield {"task": await self._tasks.get(agent, sender, id)}
            return
        async for update in self._to_end(task, _updates(task, None, False)):
            yield update  # its run ends before it does


def _updates(task: Task, history: int | None, rests: bool) -> AsyncIterator[dict[str, Any]]:
    """Return a task as it is now, and then its updates until it has ended or asks something."""
    # Read from now on: when the first update is asked for, a quick agent has ended.
    return _read_updates(task, {"task": task.to_json(history)}, task.subscribe(), rests)


async def _read_updates(
    task: Task, now: dict[str, Any], queue: asyncio.Queue[dict[str, Any] | None], rests: bool
) -> AsyncIterator[dict[str, Any]]:
    try:
        yield now
        while not rests and (update := await queue.get()) is not None:
            yield update
            status = update.get("statusUpdate", {}).get("status", {})
            rests = status.get("state") in PAUSED
    finally:
        task.unsubscribe(queue)


@contextmanager
def faults() -> Iterator[None]:
    """Raise moothall's errors in the `with` block as the protocol's errors."""
    try:
        yield
    except TooOften:  # answered in the form of its binding
        raise
    except REFUSED as refused:
        raise fault_of(refused) from refused
    except NoSuchRun as deleted:
        raise A2AFault("TASK_NOT_FOUND", "there is no such task any more") from deleted
    except JournalError as failed:
        raise A2AFault("INTERNAL_ERROR", f"the task cannot be read: {failed}") from failed


async def sent_events(
    updates: AsyncIterator[dict[str, Any]],
    form: Callable[[dict[str, Any]], dict[str, Any]],
    refusal: Callable[[A2AFault], dict[str, Any]],
) -> AsyncIterator[bytes]:
    """Yield updates as server-sent events, and a comment after a while without updates."""
    try:
        with faults():
            async with aclosing(with_silences(updates)) as stream:
                async for update in stream:
                    yield COMMENT if update is None else sent_event(form(update))
    except A2AFault as fault:  # such as of a task that was deleted meanwhile
        yield sent_event(refusal(fault))


def _read_call(body: bytes, media: str) -> dict[str, Any]:
    """Return a request of JSON-RPC, or refuse it; a wrong type matters for a body that is wrong."""
    try:
        call = json_of(body)
    except UnreadableText as error:
        kind = "PARSE_ERROR" if "json" in media else "CONTENT_TYPE_NOT_SUPPORTED"
        raise A2AFault(kind, f"the body is not JSON: {error}") from None
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0":
        raise A2AFault("INVALID_REQUEST", 'a call must be one object with "jsonrpc": "2.0"')
    if not isinstance(call.get("method"), str):
        raise A2AFault("INVALID_REQUEST", "a call must have a method")
    if isinstance(call.get("id"), bool) or not isinstance(call.get("id"), str | int | None):
        raise A2AFault("INVALID_REQUEST", "the id of a call must be a text, an integer or null")
    return call


def check_version(request: Request) -> None:
    """Refuse a request of another version of the protocol."""
    version = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or "0.3"
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        text = f"version {one_line(version, 20)!r} is not supported: state A2A-Version: {VERSION}"
        raise A2AFault("VERSION_NOT_SUPPORTED", text)
