"""Whether a call of an answer may be executed: by policy, approver and the origins of values."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from moothall.action import ACCESS_DENIED, ACCESS_PERMITTED
from moothall.approval import ASKED, Always, ApprovalRequest, Asked, Refused
from moothall.approval.approval import Decision
from moothall.errors import JournalError
from moothall.jsonvalue import as_json, copy_json
from moothall.reasoning.loop.answer import RequestedCall
from moothall.reasoning.loop.parts import Looping
from moothall.reasoning.loop.provenance import note_of, questions, rewrite, trace
from moothall.reasoning.record import NULL_STEP, Step
from moothall.reasoning.reply_request import ReplyRequest
from moothall.text import log_failure
from moothall.threads import called

logger: logging.Logger = logging.getLogger("moothall.reasoning")

NOT_BEGUN: Final = "not executed: cancelled before it was permitted"


async def permits(
    agent: Looping, call: RequestedCall, request: ReplyRequest, step: Step
) -> Decision:
    """Return whether this call may be executed; the approver gets a copy of its arguments."""
    chosen, texts = call.action, request.state.texts
    if chosen is None or chosen.access_policy == ACCESS_DENIED:
        return False
    asked: list[tuple[str, str]] = []
    if texts is not None:
        if not call.origins:
            trace(call, texts)
        if call.from_outside and agent.outside_policy != ACCESS_PERMITTED:
            asked = questions(call, texts, request)
    if asked and agent.outside_policy == ACCESS_DENIED:
        return Refused(note_of(asked[:1]))
    if not asked and chosen.access_policy == ACCESS_PERMITTED:
        return True
    id = str(agent.id)
    args = copy_json(call.args)
    message = {"from": id, "to": id, "action": {"name": call.name, "args": args}}

    async def asks() -> Any:
        if request.seen is not None:
            await request.seen()  # the reader sees the call before it is asked
        # An override may be a plain function that waits for a person.
        decision = await called(agent.request_permission, message)
        if isinstance(decision, Always):
            call.always = tuple(keys)
            return True
        return decision

    def exact() -> str:
        return ApprovalRequest.of(message, note=getattr(chosen, "_note", "")).fingerprint

    def change(args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        was = rewrite(call, args, texts)
        more = [] if texts is None else questions(call, texts, request)
        keys[:] = [key for key, _ in more]
        message["action"] = {"name": call.name, "args": call.args}
        ASKED.set(Asked(call.name, call.args, note_of(more) if more else "", tuple(keys)))
        if step is not NULL_STEP and texts is not None:
            step.tell(origins=as_json(call.origins))
        return exact(), was

    keys = [key for key, _ in asked]
    note = note_of(asked) if asked else ""
    token = ASKED.set(Asked(call.name, args, note, tuple(keys), chosen.check))
    try:
        permitted: Decision = await step.permitted(exact(), asks, change)
        if permitted is True and texts is not None:
            request.allowed += keys
            texts.always.update(call.always)
        if permitted is False and asked and agent._approver() is None:
            return Refused(f"{note_of(asked[:1])}; nobody can be asked, without an approver")
        return permitted
    except asyncio.CancelledError:
        call.fault = NOT_BEGUN
        raise
    except JournalError:
        raise
    except Exception as error:
        failure = f"request_permission of agent {agent.id!r} failed on {call.name!r}"
        log_failure(logger, failure, error)
        return False
    finally:
        ASKED.reset(token)
