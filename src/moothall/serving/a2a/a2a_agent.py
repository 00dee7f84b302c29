"""A remote A2A agent, as one that replies."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from moothall import (
    Action,
    ApprovalRequest,
    ChatMessage,
    Conversation,
    ConversationalAgent,
    Later,
    MaxTurns,
    ModelError,
    NobodyToAsk,
    Question,
    Reply,
    StopReason,
    TextPiece,
    Usage,
    action,
)
from moothall.agents import ReplyRequest
from moothall.build import (
    AllowedHosts,
    ServerURL,
    Thread,
    UnreadableText,
    answer,
    approve,
    as_json,
    check_seconds,
    json_text,
    names_checked,
    one_line,
    shorten,
)
from moothall.models import HeadersLike
from moothall.serving.a2a.client import ConnectionBroken, MissingMethod, RemoteServer
from moothall.serving.a2a.remote_conversation import MAX_OBSERVED, RemoteConversation
from moothall.serving.a2a.remote_task import RemoteTask
from moothall.serving.a2a.wire import COMPLETED, INPUT_REQUIRED, as_part, data_part, text_part

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.agents import AgentOptions
    from moothall.memory import MemoryPart

_MAX_FAULT_CHARS: Final = 500
"""How many characters of a fault a page is shown."""
_CANCEL_S: Final = 5.0
"""How long a reply that is cancelled waits for the server to hear of it."""
_REST_S: Final = 1.0
"""How long the stream of a task that rests is read on."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_MAX_REASON_CHARS: Final = 10_000
"""How many characters of why a task stands are told: an address to log in at is long."""


@names_checked
class A2AAgent(ConversationalAgent):
    """A remote agent behind A2A, as a conversational agent: each reply is a task there.

    Each thread is a separate conversation (a context) with the other agent. Texts arrive as they
    come, where the server streams. An approval that a moothall server asks for is asked of this
    agent's approver; without one it is refused. What another server requires as input is asked of
    the approver as a question; with nobody to answer, it is the reply's text, and the next reply of
    the thread answers it. The last hundred observations since the last reply are sent with the
    next one. A schema is used here only, to read the answer: after one that does not follow it, the
    other agent is asked once more, with the fault. A reply that is cancelled cancels the task.

    What it says is not trusted, and no call is sent twice: where an answer breaks off, the task is
    looked for by its id, and without one the reply fails.

    Args:
        id: its id
        url: the address of the server, where its card is at `/.well-known/agent-card.json`, or the
            card's own address, which ends in `.json`
        headers: what each request states besides, such as `{"Authorization": "Bearer …"}`; or a
            function, plain or `async`, that returns it for each request. They are sent to the
            card's server alone
        timeout_s: seconds until the task has ended or asks something
        allow_hosts: other hosts that may be called if the card names them, such as
            `agents.example.org` or `10.0.0.5:8000`; without them only the card's own server is,
            by the same scheme, host and port
        memory: a memory with threads, or its path or URL, that keeps what was said, and in which
            conversation of the server: after a restart each thread goes on there, and an open
            question is answered by the next reply. Without it each process begins new ones
        **options: the options of `Agent`

    Raises:
        ConfigError: an argument is wrong
        DefinitionError: the address holds a password
        MissingExtra: the extra `openai`, whose HTTP client it uses, is not installed
    """

    is_remote: bool = True
    is_untracked: bool = True

    def __init__(
        self,
        id: str | int,
        url: str,
        *,
        headers: HeadersLike = None,
        timeout_s: float = 300.0,
        allow_hosts: Iterable[str] = (),
        memory: MemoryPart | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(id, **options)
        self.take_parts(memory=memory)
        label = f"agent {id!r}"
        self.url: str = ServerURL.checked(url, f"{label}: url=")
        check_seconds(f"{label}: timeout_s=", timeout_s)
        self._timeout_s = float(timeout_s)
        hosts = AllowedHosts(allow_hosts, f"{label}: allow_hosts=")
        self._server = RemoteServer(label, self.url, headers, self._timeout_s, hosts)
        self._reply_counts = [0, 0]  # replies, and how many of them failed
        self._last_fault: tuple[float, str] | None = None  # when and why the last one failed

    def door_row(self) -> dict[str, Any]:
        """Return what it is connected to, for a page."""
        parts = urlsplit(self.url)
        where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        calls, failed = self._reply_counts
        row = {"kind": "A2A agent", "where": where, "calls": calls, "failed": failed}
        return {**row, "last_fault": self._last_fault}

    @action(guard=(), addresses=("content",))
    async def say(self, content: str, thread: str | None = None) -> str:
        """Say something to the agent.

        Args:
            content: what to say
            thread: which of your conversations with the agent this belongs to

        Returns:
            what the agent replies
        """
        text: str = await super().say(content, thread)
        return text

    def as_action(
        self, name: str | None = None, description: str | None = None, **forms: Any
    ) -> Action:
        """Return an action that asks this agent, as that of every replying agent.

        The other house takes what it is told for its user's words: after something was read from
        outside, addresses in it are asked for. In the background it is a conversation of its own.
        """
        is_late = forms.get("background") or forms.get("background_after") is not None
        replier: Any = Conversation([self], id=self.id, until=MaxTurns(1)) if is_late else super()
        action: Action = replier.as_action(name, description or self.description, **forms)
        action.addresses = ("text",)
        return action

    async def aclose(self) -> None:
        """Close the connections of the running loop; a later reply opens new ones."""
        await self._server.aclose()

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        self._conversation_of(thread).observed_texts.append(json_text(message.get("content")))

    async def respond(self, request: ReplyRequest) -> Reply:
        """Answer a request."""
        conversation = self._conversation_of(request.state)
        messages = [*conversation.observed_texts, *request.state.take_texts()]
        conversation.observed_texts.clear()
        self._reply_counts[0] += 1
        try:
            reply = await self._exchange_until_read(request, conversation, messages)
            conversation.keep(reply.messages)
            return reply
        except BaseException as error:  # what the server has not is sent with the next request
            conversation.observed_texts = deque(
                (*messages, *conversation.observed_texts), MAX_OBSERVED
            )
            self._reply_counts[1] += 1
            text = str(error) or type(error).__name__
            self._last_fault = time.time(), shorten(text, _MAX_FAULT_CHARS)
            raise

    def _conversation_of(self, thread: Thread) -> RemoteConversation:
        if thread.agent_state is None:
            thread.agent_state = RemoteConversation.from_memory(self.memory_for(thread.id))
        conversation: RemoteConversation = thread.agent_state
        return conversation

    async def _exchange_until_read(
        self, request: ReplyRequest, conversation: RemoteConversation, new_messages: list[str]
    ) -> Reply:
        parts = [*map(text_part, new_messages), *_message_parts(request.content)]
        value, fault, task = None, "", RemoteTask()
        for _ in ("first", "again"):
            task = RemoteTask()
            try:
                await self._send_to_task(request, conversation, parts, task)
            finally:
                if task.context_id:  # the server has them there
                    conversation.context_id = task.context_id
                    new_messages.clear()
            text = task.text
            value = task.data[0] if len(task.data) == 1 else text
            if request.answer is None:
                break
            candidates = [text, *map(json_text, task.data)]
            for each in candidates:
                try:
                    value, fault = request.answer.read(each), ""
                    break
                except UnreadableText as error:
                    value, fault = None, fault or str(error)
            if not fault or conversation.task_id:  # which waits for an answer, not for the fault
                break
            parts = [text_part(fault)]
        reason: StopReason = "unreadable" if fault else "done"
        messages: list[ChatMessage] = [
            {"role": "user", "content": json_text(request.content)},
            {"role": "assistant", "content": task.content},
        ]
        return Reply(task.text, value, messages, [], Usage(), reason, fault, None, request.run_id)

    async def _send_to_task(
        self,
        request: ReplyRequest,
        conversation: RemoteConversation,
        parts: list[dict[str, Any]],
        task: RemoteTask,
    ) -> None:
        """Send a message, and return when the task has ended or asks what nobody answers."""
        task.id, conversation.task_id = conversation.task_id, ""
        while True:
            await self._exchange(request, conversation, parts, task)
            conversation.context_id = task.context_id or conversation.context_id
            asks_operator = task.state == INPUT_REQUIRED and task.waits_for_others  # the server's
            if asks_operator or task.message_parts is not None or task.state == COMPLETED:
                return
            if task.state != INPUT_REQUIRED:
                state = task.state.removeprefix("TASK_STATE_").lower()
                reason = one_line(task.reason, _MAX_REASON_CHARS)
                raise ModelError(
                    f"agent {self.id!r}: its task is {state}" + (reason and f": {reason}")
                )
            try:
                answer_part = await self._answer_part(request, task)
            except BaseException:
                await self._cancel(task)
                raise
            if answer_part is None:  # the next reply of the thread answers
                conversation.task_id = task.id
                return
            parts = [answer_part]

    async def _exchange(
        self,
        request: ReplyRequest,
        conversation: RemoteConversation,
        parts: list[dict[str, Any]],
        task: RemoteTask,
    ) -> None:
        """Send a message, and follow the task until it rests; if cancelled, cancel the task."""
        message = {"messageId": secrets.token_hex(16), "role": "ROLE_USER", "parts": parts}
        message |= {"contextId": conversation.context_id} if conversation.context_id else {}
        message |= {"taskId": task.id} if task.id else {}
        task.state = ""  # that of a task which is answered now is over
        work = asyncio.ensure_future(self._follow_task(request, message, task))
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.shield(work)
        except TimeoutError:
            await self._cancel(task, work)
            text = f"agent {self.id!r}: its task has not ended within {self._timeout_s:g} s"
            text += self._server.fault
            raise ModelError(text) from None
        except BaseException as error:
            if task.id and not task.state and isinstance(error, ConnectionBroken):
                conversation.task_id = task.id  # it still waits for an answer
            else:
                await self._cancel(task, work)
            raise

    async def _follow_task(
        self, request: ReplyRequest, message: dict[str, Any], task: RemoteTask
    ) -> None:
        options: dict[str, Any] = {"acceptedOutputModes": ["text/plain", "application/json", "*/*"]}
        params = {"message": message, "configuration": options}
        streams = await self._server.can_stream()
        if streams:
            try:
                await self._take_stream(request, params, task)
            except MissingMethod:
                if streams := await self._server.can_stream():
                    raise
            except ConnectionBroken:
                if not task.id:
                    raise
        if not streams:
            options["returnImmediately"] = True
            self._apply_update(request, task, await self._server.call("SendMessage", params))
        pause_s = _FIRST_PAUSE_S
        while not task.is_at_rest:
            if not task.id:
                raise ModelError(f"agent {self.id!r}: the server told of no task")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self._apply_update(request, task, {"task": await self._server.get_task(task.id)})
        if task.is_empty:  # some servers stream states alone
            with suppress(ModelError):
                self._apply_update(request, task, {"task": await self._server.get_task(task.id)})

    async def _take_stream(
        self, request: ReplyRequest, params: dict[str, Any], task: RemoteTask
    ) -> None:
        """Send a message, and take what the server streams of its task until the task rests."""
        loop = asyncio.get_running_loop()
        updates = self._server.stream("SendStreamingMessage", params)
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit, aclosing(updates) as stream:  # type: ignore[type-var]
                async for update in stream:
                    self._apply_update(request, task, update)
                    # Some servers keep the stream open, and some tell the artifacts afterwards.
                    is_at_rest = task.is_at_rest and task.message_parts is None
                    limit.reschedule(loop.time() + _REST_S if is_at_rest else None)

    def _apply_update(self, request: ReplyRequest, task: RemoteTask, update: Any) -> None:
        try:
            added_text = task.apply_update(update)
        except ModelError as error:
            raise ModelError(f"agent {self.id!r}: {error}") from None
        if added_text and request.emit is not None:
            request.emit(TextPiece(added_text, str(self.id), **request.run_fields))

    async def _answer_part(self, request: ReplyRequest, task: RemoteTask) -> dict[str, Any] | None:
        """Ask for what a task requires, and return the part that answers; None with nobody."""
        for part in task.status_parts:
            approval = part.get("data")
            if isinstance(approval, dict) and isinstance(approval.get("approval"), str):
                decision = await approve(self.find_approver(), self._request_of(request, approval))
                return data_part({"approval": approval["approval"], "permit": decision is True})
        question = Question(str(self.id), task.reason, request.run_id)
        try:
            return text_part(await answer(self.find_approver(), question))
        except (NobodyToAsk, Later):  # its own reply cannot wait in a journal
            return None

    def _request_of(self, request: ReplyRequest, approval: dict[str, Any]) -> ApprovalRequest:
        """Return what the remote agent asks approval for; no `Rule` permits it unseen."""
        name, args = approval.get("action"), approval.get("args")
        message = {
            "from": str(self.id),
            "to": str(self.id),
            "action": {
                "name": name if isinstance(name, str) else "unknown",
                "args": args if isinstance(args, dict) else {"args": args},
            },
        }
        note = f"asked by agent {json_text(as_json(approval.get('agent')))} at {self.url}"
        if approval.get("facts"):  # as its server says: no fact of ours
            note += f" ({json_text(as_json(approval['facts']))})"
        if approval.get("note"):
            note += f": {json_text(as_json(approval['note']))}"
        return ApprovalRequest.of(message, request.run_id, request.thread, note)

    async def _cancel(self, task: RemoteTask, work: asyncio.Future[None] | None = None) -> None:
        """Have the server cancel a task that it may be working on, once its id is known."""
        if work is not None and not work.done():
            id_wait = asyncio.ensure_future(task.id_event.wait())
            try:
                await asyncio.wait(
                    (work, id_wait), timeout=_CANCEL_S, return_when="FIRST_COMPLETED"
                )
            finally:
                id_wait.cancel()
                work.cancel()
            await asyncio.wait((work,))
        if not task.id or (task.is_at_rest and task.state != INPUT_REQUIRED):
            return
        with suppress(ModelError, TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                await self._server.call("CancelTask", {"id": task.id})


def _message_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [text_part(content)] if isinstance(content, str) else list(map(as_part, content))
