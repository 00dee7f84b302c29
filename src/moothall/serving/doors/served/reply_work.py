"""Has an agent reply to what a client says whole, with what was said before: not to a message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from moothall import Reply, ReplyStream, RunHeld
from moothall.agents import ReplyRequest
from moothall.serving.doors.asks import Caller
from moothall.serving.doors.served.served_run import ServedRun, Work
from moothall.serving.doors.served_agents import Served

_POLL_S: Final = 0.5
"""Seconds between two looks whether another server still works on a run."""


def reply_work(
    served: Served,
    agent: Any,
    request: ReplyRequest,
    earlier_messages: Sequence[dict[str, Any]] = (),
    *,
    is_new: bool = True,
    tells: bool = True,
) -> Work:
    """Return what has an agent reply to a request, in a thread of the run's own.

    Args:
        served: the agents
        agent: the agent
        request: the request
        earlier_messages: what it observes first
        is_new: whether somebody may have to permit it
        tells: whether its events are told
    """
    thread = str(request.thread)

    async def work(run: ServedRun, caller: Caller) -> Reply:
        caller.tell = lambda event: None  # else each event would come twice
        request.background = "held"  # nobody hears of what comes after its end
        if run.request.options:
            request.take_options(agent, run.request.options)
        try:
            with served.calling(run.request.sender, run.request.agent, caller):
                if is_new:
                    await served.permit(run.request.sender, agent, request.content)
                while True:
                    agent.end_thread(thread)  # what a run that went on later has left
                    for message in earlier_messages:
                        await agent.observe(message, thread)
                    try:
                        return await reply(run)
                    except RunHeld as error:
                        if error.run_id != run.id:
                            raise
                    # It was sent again while another server works on it: that has the reply soon.
                    await asyncio.sleep(_POLL_S)
        finally:
            agent.end_thread(thread)

    async def reply(run: ServedRun) -> Reply:
        if not tells:
            agents_reply: Reply = await agent.reply_to_request(request)
            return agents_reply
        stream: ReplyStream[Reply] = ReplyStream(run.request.agent, request, agent.reply_to_request)
        async with stream as events:
            async for each in events:
                run.take(each)
                await run.until_read()
        assert stream.reply is not None
        return stream.reply

    return work
