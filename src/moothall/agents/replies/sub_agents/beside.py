"""How a sub-agent works beside the reply that asks for it, in a task and a run of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moothall.actions import Action
from moothall.actions.acting import CALL_SCOPE, CallScope
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance.origin import SourcedText
from moothall.actions.provenance.reading import MemberReading
from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_context import (
    ASK_CONTEXT,
    Replying,
    ask_context,
    note_on_thread,
)
from moothall.agents.replies.reply_request import ReplyRequest, with_speaker
from moothall.agents.replies.thread import Thread
from moothall.foundation.errors import NoSuchRun, RequestCancelled, RunHeld, RunMismatch
from moothall.foundation.threads import WORKERS
from moothall.journal.run_view import RunView
from moothall.journal.stop_reason import ANSWERED_REASONS, FINAL_REASONS, PARKED_STATES
from moothall.journal.store.wait_rows import WorkerRow, woken_id

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.journal import Journal, Outline
    from moothall.journal.store.run_requests import ToldText


NO_END: Final = (RequestCancelled, NoSuchRun, RunHeld, RunMismatch)
"""What is raised by work that may go on elsewhere, or whose run has what came of it."""


def has_ended(task: asyncio.Task[Reply]) -> bool:
    """Return whether work here has ended, well or not: it neither waits nor goes on elsewhere."""
    if not task.done() or task.cancelled() or isinstance(task.exception(), NO_END):
        return False
    return task.exception() is not None or task.result().stop_reason not in ("waiting", "in_doubt")


@dataclass(slots=True, eq=False)
class ParentQuestion:
    """What an agent in the background asks who asked."""

    text: SourcedText
    answer: asyncio.Future[tuple[str, list[str]] | None]
    is_told: bool = False


def may_work_beside(asker: Any, caller: ReplyRequest | None) -> bool:
    """Return whether a sub-agent may work beside a reply, whose later turns hear of it.

    What works in the background itself, a part of another run, a reply that its client takes up,
    and one whose conversation its program keeps wait for theirs.
    """
    return (
        caller is not None
        and getattr(asker, "max_background", 0) > 0
        and caller.background != "worker"
        and caller.record is None
        and caller.fresh is None
        and (not caller.offered if caller.background == "held" else caller.conversation is None)
    )


def may_have_workers(asker: Any) -> bool:
    """Return whether agents may work in the background for an agent."""
    actions = asker.actions.get_actions() if hasattr(asker, "max_background") else ()
    return any(isinstance(each, Action) and each.origin.in_background for each in actions)


def worker_id(run_id: str, key: str) -> str:
    """Return the id of the run that works in the background for a call of a run."""
    return f"{run_id}/{key}"


@contextmanager
def with_passing_thread(
    agent: Any, thread: str, caller_thread: str | None = None
) -> Iterator[None]:
    """Have a thread end with this block, with all that the process keeps of it.

    `caller_thread` is the thread on whose behalf it is.
    """
    with ExitStack() as stack:
        stack.callback(agent.end_thread, thread)
        stack.enter_context(ask_context(fresh=ASK_CONTEXT.get().fresh or (caller_thread,)))
        yield


@dataclass(slots=True)
class _BackgroundCall(MemberReading):
    """The call that asked, for what it says of the agent that works."""

    action: Any = None


def asking_in_background(
    row: WorkerRow, asker: Any, replying: Replying | None, texts: Any
) -> Replying:
    """Return who asks in the place of a reply that goes on, and may end, meanwhile.

    `texts` are those of the conversation that the work serves.
    """
    request = ReplyRequest(row.text, run_id=row.asker)
    request.outside, request.on_behalf, request.state = row.sources, texts, Thread(None)
    asking = Replying(asker, None, request=request)
    if replying is not None and replying.request is not None:
        request.attributes = replying.request.attributes
        asking.depth, asking.asker = replying.depth, replying.asker
    return asking


def worker_request(
    row: WorkerRow, journal: Journal | None, deps: Any, budget: Budget | None
) -> ReplyRequest:
    """Return the request for the work of a row."""
    request = ReplyRequest(row.text, None, row.thread, row.id, deps, budget)
    request.background, request.journal = "worker", journal
    request.door_data = {"asked_for": row.asker}
    return request


async def work(
    action: Action,
    request: ReplyRequest,
    asking: Replying,
    earlier: Sequence[tuple[str, Reply]] = (),
) -> Reply:
    """Have the agent of an action work, in a task of its own.

    `earlier` is what it was asked before in the conversation, each with its reply: its model has
    their messages, that of an agent of another kind reads them in its task.
    """
    agent = action.origin.agent
    if earlier and agent.begins_with_messages:
        request.first_messages = [{**m} for _, each in earlier for m in each.messages]
    elif earlier:
        parts = [
            f"You were asked before:\n{text}\n\nYour answer:\n{each.text}" for text, each in earlier
        ]
        request.content = request.original_content = "\n\n".join(
            [*parts, f"Now:\n{request.content}"]
        )
    CALL_SCOPE.set(CallScope(_BackgroundCall(action.name, action=action)))
    ENCLOSING_REPLIES.set((asking,))
    try:
        with with_passing_thread(agent, str(request.thread)):
            reply: Reply = await agent.reply_to_request(request)
        return reply
    finally:
        if (journal := request.journal) is not None:
            await in_thread(journal.deletions.finish_run, request.run_id)


def earlier_replies(journal: Journal, row: WorkerRow) -> list[tuple[str, Reply]]:
    """Return what was asked before in the conversation of a run, each with the reply."""
    views = [RunView(journal, each) for each in journal.runs(thread=row.thread)]
    before = itertools.takewhile(lambda each: each.outline.id != row.id, views)
    return [(each.outline.task, each.reply) for each in before if each.reply is not None]


def read_end(journal: Journal, row: WorkerRow) -> tuple[str, tuple[str, ...]]:
    """Return what is told of a run that has ended, and where that is from."""
    if row.fault is not None:
        return told_end(row, row.fault)
    view = RunView(journal, row.id)
    if (reply := view.reply) is not None:
        return told_end(row, reply)
    end = {} if view.end is None else view.end.data
    return told_end(row, str(end.get("detail") or end.get("reason", "its end is not known")))


def told_end(row: WorkerRow, end: Reply | str) -> tuple[str, tuple[str, ...]]:
    """Return what is told of an end, and where that is from."""
    head = f"{row.action} ({row.id}), in the background"
    if isinstance(end, str):
        return f"{head}, has no result: {end}", row.sources
    if Reply.gives_text(None, end.stop_reason, end.text):
        return f"Result of {head}:\n{end.text}", end.outside
    detail = end.detail or end.stop_reason
    return f"{head}, has no result ({end.stop_reason}): {detail}", end.outside


async def reply_to_results(
    asker: Any, caller: ReplyRequest, thread: str | None, told_ids: Collection[str] = ()
) -> Reply | None:
    """Reply to what came of the work for a run, with the options of that.

    None if another process does now. Two that begin at a time have one id: one of them does.
    """
    journal, number = asker.journal, len(told_ids) + 1
    while journal is not None:
        try:
            run = await in_thread(journal.run, woken_id(caller.run_id, number))
        except NoSuchRun:
            break
        if run.held:
            return None
        number += 1
    id = woken_id(caller.run_id, number)
    text, options = "What came of the work in the background.", (caller.deps, caller.budget)
    request = ReplyRequest(text, None, thread, id, *options)
    request.attributes = caller.attributes
    request.background = "woken"
    request.sender, request.door_data = caller.sender, {**caller.sender}
    reply: Reply = await asker.reply_to_request(request)
    if caller.sender and reply.stop_reason in ANSWERED_REASONS:
        asker.resuming.late_replies.send(reply.run_id, reply.text, caller.sender, thread)
    return reply


def may_be_woken(asker: Any, run_id: str) -> bool:
    """Return whether a run of an agent has ended: one that goes on hears what has come itself."""
    with suppress(NoSuchRun):
        return asker.journal is None or asker.journal.run(run_id).state in FINAL_REASONS
    return False


def workers_to_resume(agent: Any, runs: Container[str], cut_off: bool) -> list[Outline]:
    """Return the runs in the background that can go on, and that none of these runs goes on with.

    `cut_off`: also those that were cut off.
    """
    journal: Journal = agent.journal
    rows = [each for each in journal.waits.workers(str(agent.id)) if each.end_time is None]
    due_ids = {*journal.waits.run_ids()} if rows else set[str]()
    outlines: list[Outline] = []
    for row in rows:
        with suppress(NoSuchRun):  # it was deleted, or who asked for it
            run, asker = journal.run(row.id), journal.run(row.asker)
            is_cut_off = cut_off and run.state == "stopped" and not asker.held
            is_due = run.state in PARKED_STATES and run.id in due_ids
            if asker.state == "cancelled":
                journal.waits.end_workers(row.asker, journal.cancel)
            elif row.asker not in runs and (is_cut_off or is_due):
                outlines.append(run)
    return outlines


def hear(agent: Any, thread: Thread, message: ToldText) -> None:
    """Have an agent hear a text in a thread, as the words of who says it."""
    content = with_speaker(message.by or "operator", message.text)
    if message.sources:
        note_on_thread(thread, message.sources)
    agent.steer_thread(thread, SourcedText(content, message.sources, message.key))


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Return what awaits a function's call in a worker thread."""
    return WORKERS.run(asyncio.get_running_loop(), lambda: function(*args))
