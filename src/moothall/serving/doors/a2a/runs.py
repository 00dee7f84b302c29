"""What a task of A2A is among runs: its id, whose it is, and how its agent is asked."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Any, Final

from moothall import ConversationalAgent
from moothall.build import escaped, json_line, json_text
from moothall.journal import Journal, Outline, RunView
from moothall.serving.a2a.task_json import first_message
from moothall.serving.a2a.wire import A2AFault, content_of, text_in
from moothall.serving.doors.asks import Caller
from moothall.serving.doors.checks import hash_of
from moothall.serving.doors.served.recorded_runs import DoorRuns
from moothall.serving.doors.served.served_run import CallerRequest, Content, ServedRun, Work

SHARED_CONTEXT: Final = "shared"
"""The `contextId` of an agent that has one conversation with all callers."""
_TASK_ID: Final = re.compile(r"a2a-([0-9a-f]{24})([0-9a-f]{16})")
_SENDER_ID: Final = re.compile(r"a2a(-[0-9a-zA-Z_.:-]{1,45})?")


class TaskRuns(DoorRuns):
    """The runs of the A2A door, which are its tasks."""

    noun = "task"
    outlives_request = True

    def journal(self, agent: str) -> Journal | None:
        """Return the journal that keeps an agent's tasks; None without one."""
        served_agent = self._served.agents[agent]
        if not isinstance(served_agent, ConversationalAgent) or not served_agent.resumes("say"):
            return None
        return super().journal(agent)

    def is_mine(self, run_id: str) -> bool:
        """Return whether a run is a task."""
        return is_task(run_id)

    def request_in(self, view: RunView, sender: str | None) -> CallerRequest | None:
        """Return who asks for a task of the journal; None if it is no task of this sender."""
        run, request = view.outline, view.request
        if sender is None:
            sender = view.asked_by if run.thread is None else run.thread.partition("/")[0]
            if request is None or not _SENDER_ID.fullmatch(sender):
                return None
        if (context := self.context_of(run, sender)) is None:
            return None
        content = run.task if request is None else _content(request.text, run, sender)
        return self.request(run.id, run.agent, sender, context, content)

    def context_of(self, run: Outline, sender: str) -> str | None:
        """Return the context of a sender's task of the journal; None for any other run."""
        match = _TASK_ID.fullmatch(run.id)
        if match is None or _task_id(match[1], run.agent, sender) != run.id:
            return None
        return SHARED_CONTEXT if run.thread is None else run.thread.removeprefix(f"{sender}/")

    def request_of(
        self, id: str, message: dict[str, Any], agent: str, sender: str
    ) -> CallerRequest:
        """Return what a message asks for that begins a task, in a new context if it names none."""
        context = message.get("contextId") or ""
        if getattr(self._served.agents[agent], "shared", False):
            if context not in ("", SHARED_CONTEXT):
                reason = "this agent has one conversation with all callers: leave contextId out"
                raise A2AFault("INVALID_PARAMS", reason)
            context = SHARED_CONTEXT
        context = context or secrets.token_hex(16)
        return self.request(id, agent, sender, context, content_of(message["parts"]))

    def work(self, request: CallerRequest) -> Work:
        """Return what says it to the agent."""
        say = self._served.agents[request.agent].offers["say"]
        args: dict[str, Any] = {"content": text_in(request.content)}
        if request.context != SHARED_CONTEXT and "thread" in say.parameters.get("properties", {}):
            args["thread"] = request.context

        def work(run: ServedRun, caller: Caller) -> Any:
            return self._served.call(request.sender, request.agent, "say", args, caller)

        return work

    def door_data(self, request: CallerRequest) -> list[dict[str, Any]]:
        """Return the messages of a task: its first one; those that answer it follow."""
        return [first_message(request.id, request.context, request.content)]


def is_task(run_id: str) -> bool:
    """Return whether a run is a task of A2A: its door resumes it."""
    return _TASK_ID.fullmatch(run_id) is not None


def _task_id(nonce: str, agent: str, sender: str) -> str:
    """Return the id of a task; the id tells whose task it is, in the journal too."""
    owner = f"{nonce}\n{sender}\n{agent}"
    return f"a2a-{nonce}{hash_of(owner, 16)}"


def task_id_of_message(message: dict[str, Any], agent: str, sender: str) -> str:
    """Return the id of the task that a message begins: the same if it is sent again."""
    context_and_task = (message.get("contextId") or "", message.get("taskId") or "")
    text = json_line([message["messageId"], *context_and_task, message["parts"]])
    return _task_id(hash_of(text, 24), agent, sender)


def _content(content: Any, run: Outline, sender: str) -> Content:
    """Return what a caller has said, without the marks around it."""
    if isinstance(content, list):
        return content
    text = json_text(content)
    if run.thread is not None:
        return text
    mark = f"{escaped(sender)}: "
    return "\n".join(line.removeprefix(mark) for line in text.splitlines())


def page_token(changed: float, id: str) -> str:
    """Return what names the end of a page of tasks."""
    return base64.urlsafe_b64encode(f"{changed!r} {id}".encode()).decode()


def page_position(token: str) -> tuple[float, str] | None:
    """Return the place after which a page begins; None for the first page."""
    if not token:
        return None
    try:
        changed, _, id = base64.urlsafe_b64decode(token.encode()).decode().partition(" ")
        if not is_task(id):
            raise ValueError
        return -float(changed), id
    except (ValueError, binascii.Error):
        raise A2AFault(
            "INVALID_PARAMS", "pageToken must be one that this server returned"
        ) from None
