"""An agent in another place, asked by messages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from moothall import (
    Agent,
    ChatMessage,
    ConversationalAgent,
    InvalidArguments,
    Reply,
    StopReason,
    Usage,
    event_of_json,
)
from moothall.agents import ReplyRequest
from moothall.build import (
    CallerContext,
    Thread,
    UnreadableText,
    check_seconds,
    context_value,
    json_text,
    names_checked,
)

_MAX_OBSERVED: Final = 100


@names_checked
class RemoteAgent(ConversationalAgent):
    """Another agent of a space, as a conversational agent: each reply is a `say` request to it.

    Each of its threads is a separate conversation with the other agent, if that agent separates
    threads. Messages carry text; a schema is used here only, to read the answer: after one that
    does not follow it, the other agent is asked once more, with the fault. The last hundred
    observations since the last reply are sent with the next request. A request that ends without
    its value raises as `request` does. `stream` yields the events of the other agent's reply.

    Args:
        via: our agent that asks; it must be in a space
        id: the id of the other agent
        timeout: seconds until a request ends; None for no limit
    """

    is_remote: bool = True
    is_untracked: bool = True

    def __init__(self, via: Agent, id: str | int, *, timeout: float | None = 300) -> None:
        super().__init__(id)
        self.check_part("via", via, "request")
        check_seconds(f"agent {self.id!r}: timeout=", timeout, optional=True)
        self._asker = via
        self._timeout = timeout
        self._takes_threads: bool | None = None

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        if thread.agent_state is None:
            thread.agent_state = deque(maxlen=_MAX_OBSERVED)
        thread.agent_state.append(json_text(message.get("content")))

    async def respond(self, request: ReplyRequest) -> Reply:
        """Answer a request."""
        thread = request.state
        observations, thread.agent_state = [*(thread.agent_state or ()), *thread.take_texts()], None
        try:
            try:
                return await self._ask(request, observations)
            except InvalidArguments:
                if not await self._is_replaced():
                    raise
                return await self._ask(request, observations)  # for nothing has been said yet
        except BaseException:  # sent with the next request
            self._takes_threads = None  # there may be another agent now
            thread.agent_state = deque([*observations, *(thread.agent_state or ())], _MAX_OBSERVED)
            raise

    async def _ask(self, request: ReplyRequest, observations: list[str]) -> Reply:
        content = json_text(request.content)
        args: dict[str, Any] = {"content": "\n\n".join([*observations, content])}
        if request.thread is not None and await self._has_threads():
            args["thread"] = request.thread
        message = {"to": str(self.id), "action": {"name": "say", "args": args}}
        emit_piece = self._piece_listener(request)
        for _ in ("first", "again"):
            with context_value(CallerContext.listener, emit_piece):
                pending = self._asker.request(message, self._timeout)
            value = await pending
            await asyncio.sleep(0)  # the events before it, which came by the loop, are told first
            text, fault = json_text(value), ""
            if request.answer is None:
                break
            try:
                value = request.answer.read(text)
                break
            except UnreadableText as error:
                value, args["content"] = None, (fault := str(error))
        reason: StopReason = "unreadable" if fault else "done"
        messages: list[ChatMessage] = [
            {"role": "user", "content": content},
            {"role": "assistant", "content": text},
        ]
        return Reply(text, value, messages, [], Usage(), reason, fault, None, request.run_id)

    def _piece_listener(self, request: ReplyRequest) -> Callable[[dict[str, Any]], None] | None:
        """Return what takes the events of the other agent, as JSON data, if somebody listens."""
        emit, loop = request.emit, asyncio.get_running_loop()
        if emit is None:
            return None

        def emit_piece(piece: dict[str, Any]) -> None:
            if (event := event_of_json(piece)) is None:
                return
            event = replace(event, **request.run_fields)
            if asyncio._get_running_loop() is loop:
                emit(event)
            else:
                with suppress(RuntimeError):  # the reader's loop has ended
                    loop.call_soon_threadsafe(emit, event)

        return emit_piece

    async def _is_replaced(self) -> bool:
        """Return whether the other agent's `say` takes other arguments by now."""
        had_threads, self._takes_threads = self._takes_threads, None
        return had_threads is not None and await self._has_threads() is not had_threads

    async def _has_threads(self) -> bool:
        """Return whether the other agent's `say` has the argument `thread`; ask once."""
        if self._takes_threads is None:
            args = {"action_name": "say"}
            message = {"to": str(self.id), "action": {"name": "help", "args": args}}
            help = await self._asker.request(message, self._timeout)
            say_help = help.get("say") if isinstance(help, dict) else None
            params = say_help.get("args") if isinstance(say_help, dict) else None
            self._takes_threads = isinstance(params, dict) and "thread" in params
        return self._takes_threads
