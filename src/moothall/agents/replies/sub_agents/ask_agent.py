"""The action by which one agent asks another: in a conversation that goes on, or in a fresh one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from moothall.actions import Action
from moothall.actions.approval import Later
from moothall.actions.capability import ActionOrigin
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance.reading import current_reading
from moothall.agents.agent import CURRENT
from moothall.agents.caller_context import CallerContext
from moothall.agents.context import Context
from moothall.agents.replies.charging import budget_in_call
from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.reply_context import (
    ReplySetup,
    ask_context,
    current_request,
    thread_of_caller,
    upward_of,
)
from moothall.agents.replies.resume import shares_journal
from moothall.agents.replies.sub_agents.background import Workers
from moothall.agents.replies.sub_agents.beside import may_work_beside, with_passing_thread
from moothall.agents.replies.thread import Thread, shortened_id
from moothall.foundation.arguments import check_boolean, check_seconds
from moothall.foundation.errors import ConfigError, NoSuchRun, RunHeld, RunMismatch
from moothall.foundation.jsonvalue import as_json
from moothall.journal.doubt import Doubt, in_order
from moothall.journal.stop_reason import ELSEWHERE_STATE, FINAL_REASONS, NO_ANSWER_TEXT
from moothall.journal.store.wait_rows import WaitOutcome

if TYPE_CHECKING:
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.journal import RunPart


_RESUME_HELP: Final = (
    " It works in the background: you get an id, and its result later. With the id of work that "
    "has ended as `resume`, it goes on in that conversation; leave it out for new work."
)


def ask_action(
    agent: Any,
    name: str | None,
    description: str | None,
    fresh: bool,
    fork: bool,
    background: bool,
    background_after: float | None,
) -> Action:
    """Return the action that asks an agent; `as_action` documents it."""
    for option, value in (("fresh", fresh), ("fork", fork), ("background", background)):
        check_boolean(f"agent {agent.id!r}: as_action: {option}=", value)
    if fork and not agent.begins_with_messages:
        raise ConfigError(
            f"agent {agent.id!r}: as_action: fork=True is for a ReActAgent, whose conversation can "
            f"begin with messages; a {type(agent).__name__} takes fresh=True"
        )
    after_name = f"agent {agent.id!r}: as_action: background_after="
    check_seconds(after_name, background_after, optional=True)
    background = background or background_after is not None
    if background and (fork or not is_recording(agent)):
        raise ConfigError(
            f"agent {agent.id!r}: as_action: background=True is for an agent whose replies can be "
            f"recorded, and not with fork=; a {type(agent).__name__} takes fresh=True"
        )
    is_fresh = fresh or fork or background

    async def ask(text: str, context: Context, resume: str = "") -> Any:
        caller = current_request(context.agent)
        deps = None if caller is None else caller.deps
        budget = budget_in_call(agent, context.budget)
        reading: Any = current_reading()
        call = reading if getattr(reading, "action", None) is action else None
        if not is_fresh:
            ask_options = {"thread": thread_of_caller(agent, None), "deps": deps, "budget": budget}
            return await reply_to_call(agent, text, caller, call, **ask_options)
        thread = _thread_of_call(caller, call)
        if background and caller is not None and call and may_work_beside(context.agent, caller):
            if caller.state.workers is None:
                caller.state.workers = Workers(context.agent, caller.state)
            call_args = (agent, text, thread, caller, call, context.budget)
            return await caller.state.workers.begin(*call_args, resume, background_after)
        if resume:
            raise ConfigError(f"resume= must be left out: no work of {id} has ended here")
        before: Sequence[dict[str, Any]] = ()
        results = None
        if fork and caller is not None and caller.memory is not None:
            before, earlier = caller.memory.get_memories(), caller.state.results
            results = None if earlier is None else earlier.copy()
        part = run_id = None
        if caller is not None and call is not None and call.key and is_recording(agent):
            part, before = _recorded_part(caller.recorded, call.key, agent, before)
        if caller is not None and part is not None:
            run_id = caller.run_id
        caller_thread = None if caller is None else caller.thread
        setup = ReplySetup(agent, part, (), before, results)
        with with_passing_thread(agent, thread, caller_thread):
            options = _without_none(thread=thread, run_id=run_id, deps=deps, budget=budget)
            return await _reply_in_part(setup, text, call, options)

    id = str(agent.id)
    about_agent = description or agent.description or f"Ask the agent {id}."

    async def ask_once(text: str, context: Context) -> Any:
        return await ask(text, context)

    if background:
        about_agent += _RESUME_HELP
    function = ask if background else ask_once
    action = Action(id if name is None else name, function, about_agent, guard=())
    is_part = is_fresh and is_recording(agent)
    action.origin = ActionOrigin(agent=agent, is_part=is_part, in_background=background)
    return action


def call_of_own_say(agent: Any) -> tuple[ReplyRequest | None, Any] | None:
    """Return the reply, and its call, of which an agent's own `say` is an action; None without."""
    if (upward := upward_of(agent)) is not None:  # another agent's model has found it
        return upward.request, upward.call
    call: Any = current_reading()
    action = getattr(call, "action", None)
    target: Any = action.origin.agent if isinstance(action, Action) else None
    if target is None or target is not agent or target.current_message is not None:
        return None
    replies = [each for each in ENCLOSING_REPLIES.get() if each.open and each.agent is not agent]
    return (replies[-1].request, call) if replies else None


async def reply_to_call(
    agent: Any, text: Any, caller: ReplyRequest | None, call: Any, **options: Any
) -> str:
    """Return what an agent says to a call; raise Later as long as its run waits."""
    if caller is not None and call is not None and is_part_of_caller(agent, caller, call.key):
        async with _kept_turn(caller.recorded, agent, call):
            part, _ = _recorded_part(caller.recorded, call.key, agent, (), goes_on=True)
            setup = ReplySetup(agent, part)
            options = _without_none(run_id=caller.run_id, **options)
            return await _reply_in_part(setup, text, call, options)
    run_id = None if call is None else run_id_of_call(agent, caller, call.key)
    if run_id is not None and _was_deleted(agent, caller, call.key, run_id):
        return NO_ANSWER_TEXT
    options = _without_none(run_id=run_id, **options)
    try:
        asking_run = None if caller is None else caller.run_id
        setup = ReplySetup(agent, background="held")
        with CallerContext.waiting_run(CURRENT.get(), asking_run, run_id):
            try:
                with ask_context(setup=setup):
                    reply = await agent.reply(text, **options)
            except RunMismatch as error:
                if not await asyncio.to_thread(_takes_over_ended, agent, run_id, error):
                    raise
                with ask_context(setup=setup):
                    reply = await agent.reply(text, **options)
    except (RunHeld, RunMismatch) as error:
        if run_id is None:
            raise
        fault: Exception = error
        if isinstance(error, RunMismatch) and error.run_id == run_id:  # not of one that it asks
            advice = (
                "have it go on by the program as it is now (`moothall waiting`), or delete the "
                "run: the call then gets no answer"
            )
            fault = RunMismatch(run_id, error.changed, error.detail, advice)
        raise Later(run_id, text=str(fault)) from fault
    if reply.stop_reason in ("waiting", "in_doubt") and run_id is not None:
        raise Later(reply.run_id, text=reply.detail)  # the call is made again then
    return str(agent.reply_text(reply))


def _takes_over_ended(agent: Any, run_id: str | None, error: RunMismatch) -> bool:
    """Hand the run of a call to the agent as it is now, if that has ended: its reply counts."""
    if error.run_id != run_id or {"task", "thread"} & set(error.changed):
        return False
    if agent.journal.run(run_id).state not in FINAL_REASONS:
        return False
    agent.journal.waits.hand_over(run_id)
    return True


@asynccontextmanager
async def _kept_turn(record: Any, agent: Any, call: Any) -> AsyncIterator[None]:
    """Have the calls of a run continue a conversation in order: what waits holds up the next."""
    turns = record.kept_turns = record.kept_turns or {}
    turn = turns.setdefault(str(agent.id), _KeptTurn())
    async with turn.lock:
        if turn.waiting is not None and turn.waiting is not call:
            call.wait = turn.waiting.wait
            raise Later
        turn.waiting = call
        try:
            yield
        except Later:
            raise
        except BaseException:
            turn.waiting = None
            raise
        turn.waiting = None


class _KeptTurn:
    """Whose turn it is in a conversation that several calls of a run continue."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting: Any = None  # the call that is under way, or waits


async def _reply_in_part(setup: ReplySetup, text: Any, call: Any, options: dict[str, Any]) -> str:
    """Return what an agent says; if a part of the caller's run records that, the run waits, too."""
    agent: Any = setup.agent
    try:
        with ask_context(setup=setup):
            reply = await agent.reply(text, **options)
    except RunMismatch as error:
        if setup.part is None or error.run_id != setup.part.run_id:
            raise
        stop = Stop("waiting", str(error), error)
    else:
        if setup.part is None or reply.stop_reason != "waiting":
            return str(agent.reply_text(reply))
        stop = Stop("waiting", reply.detail, reply.error)
    call.wait = stop
    raise Later


def is_part_of_caller(agent: Any, caller: ReplyRequest | None, key: str) -> bool:
    """Return whether the run of a caller records what an agent does for a call that is no `fresh`.

    So it is if the agent has no journal, or another one: that counts when it replies by itself.
    """
    is_recorded = caller is not None and caller.recorded is not None and bool(key)
    return is_recorded and is_recording(agent) and not shares_journal(agent, caller)


def _was_deleted(agent: Any, caller: Any, key: str, run_id: str) -> bool:
    """Return whether the run for which a copied call has waited is gone, without an answer to it.

    No other run is begun for a call. If its run is in another journal, the call waits on, or has
    the answer that this run gave before; so has the call of one that a person has cancelled.
    """
    past = caller.recorded.find(key)
    if past is None or all(each["wait"] != run_id for each in past.requests.values()):
        return False
    record = caller.recorded

    def is_answered() -> bool:
        return isinstance(record.run.find_outcome(run_id, record.path, key), WaitOutcome)

    try:
        state = agent.journal.run(run_id).state
        if state != ELSEWHERE_STATE and not (state == "cancelled" and is_answered()):
            return False
    except NoSuchRun:
        if record.copied and not is_answered():
            return True
    raise Later(run_id)


def run_id_of_call(agent: Any, caller: ReplyRequest | None, key: str) -> str | None:
    """Return the run in which an agent is asked by a call of a recorded reply, or of its copy.

    It is the same each time the call is made. None: the agent's runs are in no journal, or in
    another one.
    """
    if caller is None or not key or not shares_journal(agent, caller):
        return None
    record: Any = caller.recorded
    if (past := record.find(key)) is not None:
        waits = [each["wait"] for each in past.requests.values() if each["kind"] == "result"]
        if run_id := waits[-1] if waits else past.about.get("asks"):
            return str(run_id)
    return sha256("\n".join((record.key, key, str(agent.id))).encode()).hexdigest()[:32]


def _without_none(**options: Any) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _thread_of_call(caller: ReplyRequest | None, call: Any) -> str:
    """Return the thread of one call: below the caller's, so that what deletes that finds it."""
    if caller is None or call is None:
        return f"call/{os.urandom(8).hex()}"
    asker = next(each.agent for each in reversed(ENCLOSING_REPLIES.get()) if each.request is caller)
    path = "" if caller.recorded is None else caller.recorded.path
    # The members of a group share a run, and their calls have the same keys.
    parts = (caller.run_id, str(asker.id), path, call.key or call.id)
    thread_hash = sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:12]
    caller_thread = caller.thread
    if caller_thread is None:
        return Thread.id_for(str(asker.id), thread_hash)
    return shortened_id(f"{caller_thread}/{thread_hash}")


def _recorded_part(
    record: Record[Any] | None,
    key: str,
    agent: Any,
    messages: Sequence[dict[str, Any]],
    goes_on: bool = False,
) -> tuple[RunPart | None, Sequence[dict[str, Any]]]:
    """Return the part of the caller's run that records a call, and the messages it begins with.

    `goes_on`: whether its conversation goes on after the call.
    """
    if record is None:
        return None, messages
    id = str(agent.id)
    name = f"{key}/{id}"
    start = record.members.get(name)
    if start is not None:  # it was cut off: it goes on with what it had
        digest = start.get("before")
        return record.member(name, id), () if digest is None else json.loads(
            record.stored_value(digest)
        )
    details: dict[str, Any] = {"kept": True} if goes_on else {}
    if messages:
        text = json.dumps(as_json(messages), ensure_ascii=False, sort_keys=True)
        details["before"] = record.keep(text.encode(errors="surrogatepass"))
    return record.member(name, id, **details), messages


def doubts_of_asked(record: Record[Any], iteration: int | str) -> list[str]:
    """Return the calls in doubt of the agents that the calls of an answer have asked."""
    paths = [record.run_part.part(n).path for n in record.members if n.startswith(f"{iteration}.")]
    if not paths:
        return []
    past = record.run_part.run.past_entries
    parts = (past[key] for key in past if any(f"{key}/".startswith(f"{path}/") for path in paths))
    return [str(each) for each in Doubt.among(in_order(parts))]
