"""Whether a call of an answer may be executed: by policy, approver and the origins of values."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from moothall.actions import ACCESS_DENIED, ACCESS_PERMITTED
from moothall.actions.acting import CALL_SCOPE
from moothall.actions.approval import ApprovalRequest, CallToApprove, Refused
from moothall.actions.approval.approval import decider_title
from moothall.actions.approval.decision import DECISION_KINDS, Decision
from moothall.actions.approval.paused_clocks import clocks_paused
from moothall.agents.loop.answer import ToolCall
from moothall.agents.loop.later_results import data_of_call
from moothall.agents.loop.parts import Looping
from moothall.agents.loop.provenance import questions, questions_in_words, trace
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.step import StepHandle, ask_unrecorded
from moothall.foundation.errors import JournalError
from moothall.foundation.jsonvalue import as_json, copy_json, json_line
from moothall.foundation.text import log_failure
from moothall.foundation.threads import call_user, reset

if TYPE_CHECKING:
    from moothall.actions.provenance.texts import Texts
    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.agents")

_MAX_WORDS: Final = 4_000
"""In texts of more words together, it is not looked for what a person has changed."""

NOT_BEGUN: Final = "not executed: cancelled before it was permitted"


class PausableLimit:
    """The seconds of some calls, which stand still while one of them waits for a person.

    So do those of the calls around them. Each limit is of one loop; any may enter it.
    """

    def __init__(self, timeout: asyncio.Timeout, budget: Budget) -> None:
        self._timeout = timeout
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._outer_limit = CALL_SCOPE.get().clock_pause
        self._wait_count = 0

    def __enter__(self) -> None:
        if self._outer_limit is not None:
            self._outer_limit.__enter__()
        self._run_on_loop(self._pause)

    def __exit__(self, *exit_info: Any) -> None:
        self._run_on_loop(self._resume_time)
        if self._outer_limit is not None:
            self._outer_limit.__exit__(*exit_info)

    def _run_on_loop(self, function: Callable[[], None]) -> None:
        if asyncio.get_running_loop() is self._loop:
            function()
        else:
            with suppress(RuntimeError):  # the loop has ended, and the calls with it
                self._loop.call_soon_threadsafe(function)

    def _pause(self) -> None:
        if not self._wait_count:
            self._reschedule(None)
        self._budget.stand_still(True)
        self._wait_count += 1

    def _resume_time(self) -> None:
        self._wait_count -= 1
        self._budget.stand_still(False)
        if not self._wait_count:
            remaining = self._budget.remaining_seconds()
            self._reschedule(None if remaining is None else self._loop.time() + remaining)

    def _reschedule(self, when: float | None) -> None:
        with suppress(RuntimeError):  # the time is over, or the calls are
            self._timeout.reschedule(when)


async def permits(
    agent: Looping, call: ToolCall, request: ReplyRequest, step: StepHandle | None
) -> Decision:
    """Return whether this call may be executed; the approver gets a copy of its arguments."""
    action, texts = call.action, request.state.texts_by_origin
    if action is None or action.access_policy == ACCESS_DENIED:
        return False
    open_questions = _open_questions(agent, call, request)
    if open_questions and agent.outside_policy == ACCESS_DENIED:
        return Refused(questions_in_words(open_questions[:1]))
    if not open_questions and action.access_policy == ACCESS_PERMITTED:
        return True
    id = str(agent.id)
    args = copy_json(call.args)
    message = {"from": id, "to": id, "action": {"name": call.name, "args": args}}

    async def ask() -> Any:
        if (decision := DECISION_KINDS.decided_in_run(request_now(), run_decisions)) is not None:
            return decision
        if request.wait_for_reader is not None:
            await request.wait_for_reader()  # the reader sees the call before it is asked
        with clocks_paused():  # an override may ask by itself
            return await call_user(agent.request_permission, message)

    def request_now() -> ApprovalRequest:
        run_fields = (request.run_id, request.thread, action.origin.note)
        return replace(ApprovalRequest.of(message, *run_fields), facts=action.facts)

    def change(args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        old_args = rewrite(call, args, texts)
        new_questions = [] if texts is None else questions(call, texts, request)
        keys[:] = [key for key, _ in new_questions]
        message["action"] = {"name": call.name, "args": call.args}
        note = questions_in_words(new_questions) if new_questions else ""
        changed_call = CallToApprove(call.name, call.args, note, tuple(keys))
        CALL_SCOPE.set(replace(CALL_SCOPE.get(), call_to_approve=changed_call))
        if step is not None and texts is not None:
            step.tell(origins=as_json(call.origins))
        return request_now().fingerprint, old_args

    keys = [key for key, _ in open_questions]
    note = questions_in_words(open_questions) if open_questions else ""
    waiting_run = None if step is None else step.run_id
    run_decisions = (
        request.allowed if request.recorded is None else request.recorded.run.standing_decisions
    )
    call_to_approve = CallToApprove(call.name, args, note, tuple(keys), action.check, waiting_run)
    token = CALL_SCOPE.set(replace(CALL_SCOPE.get(), call_to_approve=call_to_approve))
    try:
        permitted: Decision
        if step is None:
            permitted = await ask_unrecorded(ask, change)
        else:
            details = {**data_of_call(call), "args": args, "text": note}
            details["schema"] = action.parameters
            exact = request_now()
            by = decider_title(agent.find_approver())
            permitted = await step.permitted(exact.fingerprint, ask, change, details, exact, by)
        if step is None:
            request.allowed += DECISION_KINDS.keys_in_run(request_now(), permitted)
        scope, permitted = DECISION_KINDS.scope_of(permitted), DECISION_KINDS.of_call(permitted)
        if permitted is True and texts is not None:
            call.always = tuple(keys) if scope == "thread" else call.always
            request.allowed += keys
            texts.permitted_values.update(call.always)
            if step is not None and keys:
                step.tell(allowed=[*keys])
        if permitted is False and open_questions and agent.find_approver() is None:
            question = questions_in_words(open_questions[:1])
            return Refused(f"{question}; nobody can be asked, without an approver")
        return permitted
    except asyncio.CancelledError:
        call.fault = NOT_BEGUN
        raise
    except (JournalError, Stop):
        raise
    except Exception as error:
        failure = f"request_permission of agent {agent.id!r} failed on {call.name!r}"
        log_failure(logger, failure, error)
        return False
    finally:
        reset(token)


def _open_questions(agent: Looping, call: ToolCall, request: ReplyRequest) -> list[tuple[str, str]]:
    """Return what must be asked of a call's arguments from outside, by their keys."""
    texts = request.state.texts_by_origin
    if texts is None:
        return []
    if not call.origins:
        trace(call, texts)
    if not call.from_outside or agent.outside_policy == ACCESS_PERMITTED:
        return []
    return questions(call, texts, request)


def rewrite(call: ToolCall, args: dict[str, Any], texts: Texts | None) -> dict[str, Any]:
    """Give a call the arguments that a person wrote; return those that they replace.

    They are checked as the model's are. What the person wrote in them is the user's text, and
    nothing else: of a text, the words that are new in it.
    """
    action = call.action
    assert action is not None
    args = copy_json(args)
    kwargs = action.check(copy_json(args))
    call.original_args, call.args, call.kwargs = call.args, args, kwargs
    for name, value in args.items():
        add_user_texts(call, texts, call.original_args.get(name), value)
    if texts is not None:
        trace(call, texts)
    return call.original_args


def add_user_texts(call: ToolCall, texts: Texts | None, old: Any, new: Any) -> None:
    """Take what a person wrote in a value as the user's."""
    for text in _new_texts(old, new):
        if text not in call.statements:
            call.add_statement(text)
        if texts is not None:
            texts.add(text, "user")


def _new_texts(old_value: Any, new_value: Any) -> Iterator[str]:
    """Yield what is new in a value: of a text, its new words; of another, each new part."""
    if _is_same(old_value, new_value) or new_value is None:
        return
    if isinstance(old_value, str) and isinstance(new_value, str):
        old, new = (re.split(r"(\s+)", each) for each in (old_value, new_value))
        if len(old) + len(new) > _MAX_WORDS:
            return  # then a guarded value in it is asked about once more
        for kind, _, _, begin, end in SequenceMatcher(None, old, new, False).get_opcodes():
            if kind in ("insert", "replace") and (words := "".join(new[begin:end]).strip()):
                yield words
    elif isinstance(new_value, list):
        old_items = old_value if isinstance(old_value, list) else []
        for each in new_value:
            if not any(_is_same(each, other) for other in old_items):
                yield from _new_texts(None, each)
    elif isinstance(new_value, dict):
        for name, each in new_value.items():
            yield from _new_texts(
                old_value.get(name) if isinstance(old_value, dict) else None, each
            )
    else:
        yield new_value if isinstance(new_value, str) else json_line(new_value)


def _is_same(first: Any, second: Any) -> bool:
    return type(first) is type(second) and first == second
