"""How a sub-agent works beside the reply that asks for it, in a task and a run of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.actions import Action
from moothall.actions.acting import CALL_SCOPE, CallScope
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance.reading import MemberReading
from moothall.agents.replies.reply_context import ASK_CONTEXT, Replying, ask_context
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.thread import Thread
from moothall.foundation.threads import WORKERS
from moothall.journal.store.wait_rows import WorkerRow

if TYPE_CHECKING:
    from moothall.agents.replies.reply import Reply
    from moothall.budget import Budget
    from moothall.journal import Journal


def may_work_beside(asker: Any, caller: ReplyRequest | None) -> bool:
    """Return whether a sub-agent may work beside a reply, whose later turns hear of it.

    What works in the background itself, a part of another run, and a reply whose conversation its
    client keeps wait for theirs.
    """
    return (
        caller is not None
        and getattr(asker, "max_background", 0) > 0
        and caller.background != "worker"
        and caller.record is None
        and caller.fresh is None
        and caller.conversation is None
    )


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
    request.door_data = {"asked_for": row.asker, "background": "worker"}
    return request


async def work(action: Action, request: ReplyRequest, asking: Replying) -> Reply:
    """Have the agent of an action work, in a task of its own."""
    agent = action.origin.agent
    CALL_SCOPE.set(CallScope(_BackgroundCall(action.name, action=action)))
    ENCLOSING_REPLIES.set((asking,))
    try:
        with with_passing_thread(agent, str(request.thread)):
            reply: Reply = await agent.reply_to_request(request)
        return reply
    finally:
        if (journal := request.journal) is not None:
            finish = partial(journal.deletions.finish_run, request.run_id)
            await WORKERS.run(asyncio.get_running_loop(), finish)
