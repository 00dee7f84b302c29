"""A2A tasks in the agents' journals: whose they are, and what is recorded of them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Any, Final

from moothall import Agent, ConversationalAgent, Reply
from moothall.build import escaped, json_text
from moothall.journal import Journal, Outline, RunView, Waits
from moothall.serving.a2a.task_json import artifact_of, first_message, status_json, task_json
from moothall.serving.a2a.wire import (
    CANCELED,
    COMPLETED,
    ENDED_STATES,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    A2AFault,
    text_part,
)
from moothall.serving.doors.a2a_tasks import resting_parts
from moothall.serving.doors.protocols import ended_text

SHARED_CONTEXT: Final = "shared"
"""The `contextId` of an agent that has one conversation with all callers."""
_RESUMABLE_STATES: Final = ("stopped", "in_doubt", "waiting")
_TASK_ID: Final = re.compile(r"a2a-([0-9a-f]{24})([0-9a-f]{16})")
_SENDER_ID: Final = re.compile(r"a2a(-[0-9a-zA-Z_.:-]{1,45})?")


def is_task(run_id: str) -> bool:
    """Return whether a run is a task of A2A, or one as it goes on: its door resumes it."""
    return _TASK_ID.fullmatch(Waits.began_as(run_id)) is not None


def task_id_of(nonce: str, agent: str, sender: str) -> str:
    """Return the id of a task; the id tells whose task it is, in the journal too."""
    owner_hash = hashlib.sha256(f"{nonce}\n{sender}\n{agent}".encode(errors="surrogatepass"))
    return f"a2a-{nonce}{owner_hash.hexdigest()[:16]}"


def task_id_of_message(message: dict[str, Any], agent: str, sender: str) -> str:
    """Return the id of the task that a message begins: the same if it is sent again."""
    context_and_task = (message.get("contextId") or "", message.get("taskId") or "")
    text = json_text([message["messageId"], *context_and_task, message["parts"]])
    digest = hashlib.sha256(text.encode(errors="surrogatepass"))
    return task_id_of(digest.hexdigest()[:24], agent, sender)


def is_task_of(id: str, agent: str, sender: str) -> bool:
    """Return whether a task, or the run as which it goes on, is a sender's, and of this agent."""
    match = _TASK_ID.fullmatch(Waits.began_as(id))
    return match is not None and task_id_of(match[1], agent, sender) == match[0]


def resumable_task(id: str, journal: Journal, run_id: str) -> tuple[str, str, str, str, Any] | None:
    """Return the next message of a task of the journal that can go on; None for other tasks."""
    run, task_id = journal.run(run_id), Waits.began_as(run_id)
    if run.held or run.state not in _RESUMABLE_STATES:
        return None
    if journal.waits.goes_on_as(task_id) != run_id:  # as its fork, of a changed program
        return None
    view = RunView(journal, run)
    if view.is_in_doubt:
        return None
    sender, _, context = (run.thread or "").partition("/")
    if run.thread is None:
        sender, context = view.asked_by, SHARED_CONTEXT
    if not context or not _SENDER_ID.fullmatch(sender) or not is_task_of(task_id, id, sender):
        return None
    if view.request is None:
        return None
    return task_id, id, sender, context, caller_content(view.request.text, run, sender)


def journal_of(agent: Agent) -> Journal | None:
    """Return the journal that keeps an agent's tasks; None without one."""
    if not isinstance(agent, ConversationalAgent) or not agent.resumes("say"):
        return None
    journal: Journal | None = getattr(agent, "journal", None)
    return journal


def caller_content(content: Any, run: Outline, sender: str) -> str | list[dict[str, Any]]:
    """Return what a caller has said, without the marks around it."""
    if isinstance(content, list):
        return content
    text = json_text(content)
    if run.thread is not None:
        return text
    mark = f"{escaped(sender)}: "
    return "\n".join(line.removeprefix(mark) for line in text.splitlines())


def context_of(run: Outline, sender: str) -> str:
    """Return the context of a task."""
    return SHARED_CONTEXT if run.thread is None else run.thread.removeprefix(f"{sender}/")


def state_of(agent: Agent, run: Outline) -> str:
    """Return how far a task of the journal is."""
    if run.state in ("running", "stopped"):
        return WORKING
    if run.state == "waiting":
        return WORKING if run.held else INPUT_REQUIRED
    if run.state == "in_doubt":
        journal = journal_of(agent)
        is_cancelled = journal is not None and RunView(journal, run).was_cancelled
        return CANCELED if is_cancelled else INPUT_REQUIRED
    if run.state == "cancelled":
        return CANCELED
    return COMPLETED if Reply.gives_text(agent, run.state) else FAILED


def recorded_task(
    agent: Agent,
    sender: str,
    run: Outline,
    may_permit: bool,
    limit: int | None,
    with_artifacts: bool,
) -> dict[str, Any]:
    """Return a task of the journal in the protocol's form, for a caller that may permit calls."""
    journal = journal_of(agent)
    assert journal is not None
    task_id, context, state = Waits.began_as(run.id), context_of(run, sender), state_of(agent, run)
    view = RunView(journal, run)
    reply = view.reply if state in ENDED_STATES else None
    content = run.task if view.request is None else caller_content(view.request.text, run, sender)
    note, artifact_list, parts = "", [], []
    if state == COMPLETED and reply is not None:
        artifact_list = (
            [artifact_of(reply.text, reply.value, reply.blocks)] if with_artifacts else []
        )
    elif state == INPUT_REQUIRED:
        parts = resting_parts(view.waits, may_permit)
    elif state == FAILED:
        note = f"the run has no reply ({run.state})"
        note = note if reply is None else ended_text(reply, task_id, logs=False)
    elif state == CANCELED:
        note = "the task was cancelled"
    parts = [text_part(note)] if note else parts
    status = status_json(task_id, context, state, run.changed, parts)
    return task_json(
        task_id,
        context,
        status,
        artifact_list,
        [first_message(task_id, context, content)],
        limit,
    )


def questions_of(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a task in the protocol's form asks, as its status has it."""
    message = task["status"].get("message", {})
    return [part["data"] for part in message.get("parts", ()) if "data" in part]


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
