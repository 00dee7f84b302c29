"""In which form a call asks an agent: what a record has of it, and what it would be now.

A call that has begun in one form is made again in that form alone: another one would not find what
was done, and do it again. A program's fingerprint does not have the form: it has an action's name,
description and parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.resume import shares_journal
from moothall.foundation.errors import RunMismatch
from moothall.journal.store.run_requests import ask_to_cancel

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.agents.replies.read_record import PastStep
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest


class CallForm(NamedTuple):
    """Where what a call has an agent do is recorded; for a part of the run, of which agent."""

    text: str
    agent: str = ""

    def __str__(self) -> str:
        return self.text.format(repr(self.agent))


_PART: Final = "what agent {} does in a conversation of its own, which this run records"
_KEPT_PART: Final = "what agent {} does in a conversation that goes on, which this run records"
_OWN_RUN: Final = CallForm("an agent's run of its own in this journal")
_UNRECORDED: Final = CallForm("what no agent records")


def _form_now(action: Action, caller: ReplyRequest) -> CallForm:
    """Return the form in which an action would be called now."""
    agent = action.origin.agent
    if agent is None or not is_recording(agent):
        return _UNRECORDED
    if not action.origin.is_part and shares_journal(agent, caller):
        return _OWN_RUN  # if it is another agent, its program is: that run says so
    return CallForm(_PART if action.origin.is_part else _KEPT_PART, str(agent.id))


def _recorded_forms(past_step: PastStep, record: Record[Any]) -> list[CallForm]:
    """Return the forms in which a call has begun; empty if it has done nothing yet."""
    forms = [
        CallForm(_KEPT_PART if data.get("kept") else _PART, data["agent"])
        for name, data in record.members.items()
        if name.partition("/")[0] == past_step.key
    ]
    if "asks" in past_step.about:
        forms.append(_OWN_RUN)
    # One that may be repeated begins before its part is noted: then it has done nothing.
    waits = any(each["kind"] != "approval" for each in past_step.requests.values())
    if not forms and (waits or (past_step.has_begun and past_step.asks_person)):
        forms.append(_UNRECORDED)
    return forms


def _end_former_run(past_step: PastStep, record: Record[Any]) -> None:
    """Have the run end in which a call had asked an agent, unless another run waits for it."""
    waits = [each["wait"] for each in past_step.requests.values() if each["kind"] == "result"]
    run = record.run
    query = (
        "SELECT number FROM runs r WHERE r.id = ? AND NOT r.deleted AND NOT EXISTS "
        "(SELECT 1 FROM waits o WHERE o.key = r.id AND o.run <> ? AND NOT o.taken)"
    )
    with run.file.writing() as db:
        for run_id in {past_step.about.get("asks"), *waits} - {None}:
            for (number,) in db.execute(query, (run_id, run.number)).fetchall():
                ask_to_cancel(db, number, f"run {run.id!r} asks anew, in another form")


def check_form(
    action: Action, past_step: PastStep, caller: ReplyRequest, record: Record[Any]
) -> Callable[[], None] | None:
    """Raise RunMismatch if a call that has begun would be made in another form now.

    Return what ends what the call had asked before, if that is asked anew, and can block.

    A call that a person has decided to repeat is made as it is now. So is one that was begun before
    the run was copied, or handed over to a changed program: whoever does that has it ask anew.
    """
    forms = _recorded_forms(past_step, record)
    now = _form_now(action, caller)
    if not forms or now in forms or past_step.decision is not None:
        return None
    if (count := record.inherited_count) and not any(
        entry.data.get("key") == past_step.key for entry in record.entries()[count:]
    ):
        is_handed_over = not record.copied  # else the run that was copied may go on
        return partial(_end_former_run, past_step, record) if is_handed_over else None
    detail = f"call {past_step.key} of {action.name!r} was {forms[0]}, and is now {now}"
    raise RunMismatch(record.run_id, (f"what {action.name!r} asks",), detail)
