"""The conversations that responses continue: kept in the process, and read from a journal."""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from moothall import ConversationalAgent, NoSuchRun, Reply
from moothall.build import Thread
from moothall.journal import Entry
from moothall.serving.doors.asks import GOING_ON, RESTING, waiting_text
from moothall.serving.doors.openai.input import without_pending
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.openai.output import ResponseForm
from moothall.serving.doors.served_agents import Served

_RUN_ID: Final = re.compile(r"[0-9a-f]{32}\.[1-9]\d{0,5}(_[0-9a-f]{8}\.[1-9]\d{0,5})*")
ITEM_ID: Final = re.compile(rf"(?:msg|fc|rs|in)_({_RUN_ID.pattern})_.+", re.S)
"""The id of an item of a response."""
_MAX_CONVERSATIONS: Final = 1000
"""How many conversations are kept in the process."""
_MAX_ID_CHARS: Final = 200
_EARLIER_DELETED: Final = " whole: an earlier one of its conversation was deleted"
_CONTINUED_MARK: Final = "continued"
"""The mark of a run that another one continues."""


@dataclass(slots=True)
class _StoredConversation:
    agent: str
    sender: str
    messages: list[dict[str, Any]]  # the whole conversation, the run's own included
    new_messages: list[dict[str, Any]] | None = None  # what was new in the request
    form: ResponseForm | None = None  # the response that was given


class ResponseChain:
    """Which run continues which: `ROOT.1`, `ROOT.2` and so on; `ROOT.2_BRANCH.1` is a branch.

    All runs of one line have one thread. A second answer to the same response begins a branch.
    What an agent with a journal has said is kept only as long as the journal has the runs.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._conversations: OrderedDict[str, _StoredConversation] = OrderedDict()
        self._used_ids: dict[str, None] = {}  # of the runs of agents without a journal

    def keep(
        self,
        run_id: str,
        agent: str,
        sender: str,
        messages: list[dict[str, Any]],
        new_messages: list[dict[str, Any]] | None = None,
        form: ResponseForm | None = None,
    ) -> None:
        """Keep the conversation up to the end of a run."""
        self._conversations[run_id] = _StoredConversation(
            agent, sender, messages, new_messages, form
        )
        while len(self._conversations) > _MAX_CONVERSATIONS:
            self._conversations.popitem(last=False)

    def response(self, run_id: str, sender: str) -> dict[str, Any] | None:
        """Return a sender's response, if this process has it."""
        conversation = self._conversation_of(run_id, sender)
        return (
            None
            if conversation is None or conversation.form is None
            else conversation.form.final_response
        )

    def new_messages_of(self, run_id: str, sender: str) -> list[dict[str, Any]] | None:
        """Return the new messages of the request for a response, if this process has it."""
        conversation = self._conversation_of(run_id, sender)
        return None if conversation is None else conversation.new_messages

    def drop(self, run_id: str, sender: str) -> bool:
        """Remove a sender's response; return whether this process had it."""
        return self._conversation_of(run_id, sender) is not None and bool(
            self._conversations.pop(run_id, None)
        )

    def _conversation_of(self, run_id: str, sender: str) -> _StoredConversation | None:
        conversation = self._conversations.get(run_id)
        if (
            conversation is None
            or conversation.sender != sender
            or self._drop_if_deleted(conversation.agent, [run_id])
        ):
            return None
        return conversation

    def _drop_if_deleted(self, agent: str, run_ids: list[str]) -> bool:
        """Drop the last of these runs if one was deleted from the agent's journal; return so."""
        journal = self._served.journal_of(agent)
        if journal is None or journal.deletions.ids_present(run_ids) >= {*run_ids}:
            return False
        self._conversations.pop(run_ids[-1], None)
        return True

    @staticmethod
    def new_id(mark: str) -> str:
        """Return a new, unique id of a run that continues none; it begins with the mark."""
        return f"{mark}{secrets.token_hex(16)}"[:32] + ".1"

    def next_id(self, agent: ConversationalAgent, previous_run: str) -> str:
        """Return a new, unique id of a run that continues another; it writes the file."""
        line, _, number = previous_run.rpartition(".")
        next_id = f"{line}.{int(number) + 1}"
        if self._is_continued(agent, previous_run, next_id):
            next_id = f"{previous_run}_{secrets.token_hex(4)}.1"
        if len(next_id) > _MAX_ID_CHARS:
            raise BadRequest("this conversation has branched too often", "previous_response_id")
        return next_id

    def _is_continued(self, agent: ConversationalAgent, previous_run: str, next_id: str) -> bool:
        """Note that a run is continued; return whether it was, also by another process."""
        journal = self._served.journal_of(str(agent.id))
        if journal is None:
            is_used = next_id in self._used_ids
            self._used_ids[next_id] = None
            while len(self._used_ids) > 10 * _MAX_CONVERSATIONS:
                del self._used_ids[next(iter(self._used_ids))]
            return is_used
        try:
            # An import has left no mark.
            return journal.waits.mark(previous_run, _CONTINUED_MARK) or _is_recorded(
                journal, next_id
            )
        except NoSuchRun:
            raise _unknown_response(f"resp_{previous_run}") from None

    def run_and_history(
        self, agent: ConversationalAgent, sender: str, response_id: str
    ) -> tuple[str, list[dict[str, Any]]]:
        """Return the run of a response, and the conversation up to its end; it reads the file."""
        run_id = response_id.removeprefix("resp_")
        if not response_id.startswith("resp_") or not _RUN_ID.fullmatch(run_id):
            raise _unknown_response(response_id)
        conversation = self._conversations.get(run_id)
        if conversation is not None and (conversation.agent, conversation.sender) == (
            str(agent.id),
            sender,
        ):
            if self._drop_if_deleted(conversation.agent, [run_id]):
                raise _unknown_response(response_id)
            if self._drop_if_deleted(conversation.agent, _runs_up_to(run_id)):
                raise _unknown_response(response_id, _EARLIER_DELETED)
            self._conversations.move_to_end(run_id)
            return run_id, conversation.messages
        if conversation is not None or self._served.journal_of(str(agent.id)) is None:
            hint = (
                ""
                if conversation
                else " (without a journal, an agent's responses end with its process)"
            )
            raise _unknown_response(response_id, hint)
        own_messages = _recorded_messages(agent, sender, run_id, response_id)
        messages: list[dict[str, Any]] = []
        for each in _runs_up_to(run_id)[:-1]:
            messages += _recorded_messages(agent, sender, each, response_id, _EARLIER_DELETED)
        messages += own_messages
        self.keep(run_id, str(agent.id), sender, messages)
        return run_id, messages


def is_response(run_id: str) -> bool:
    """Return whether a run is that of a response, which its client may look for."""
    return _RUN_ID.fullmatch(run_id) is not None


def thread_of(sender: str, run_id: str) -> str:
    """Return the thread of a run."""
    return Thread.id_for(sender, run_id.rpartition(".")[0])


def run_id_of(response_id: str) -> str:
    """Return the run of a response; refuse an invalid id."""
    run_id = response_id.removeprefix("resp_")
    if not response_id.startswith("resp_") or not _RUN_ID.fullmatch(run_id):
        text = f"Response with id '{response_id[:300]}' not found."
        raise BadRequest(text, "response_id", "response_not_found", 404)
    return run_id


def previous_of(run_id: str) -> str | None:
    """Return the id of the response that a run continues, or None."""
    line, _, number = run_id.rpartition(".")
    if number != "1":
        return f"resp_{line}.{int(number) - 1}"
    return f"resp_{line.rpartition('_')[0]}" if "_" in line else None


def _runs_up_to(run_id: str) -> list[str]:
    """Return the runs of a conversation, from the first to this one."""
    line, _, number = run_id.rpartition(".")
    earlier_runs = _runs_up_to(line.rpartition("_")[0]) if "_" in line else []
    return [*earlier_runs, *(f"{line}.{each}" for each in range(1, int(number) + 1))]


def _is_recorded(journal: Any, run_id: str) -> bool:
    try:
        journal.run(run_id)
    except NoSuchRun:
        return False
    return True


def _recorded_messages(
    agent: Any, sender: str, run_id: str, response_id: str, hint: str = ""
) -> list[dict[str, Any]]:
    """Return the messages of a run in the agent's journal, for a response that is continued.

    `hint` says more of one that is not there.
    """
    try:
        run = agent.journal.run(agent.journal.waits.goes_on_as(run_id))
        entries = agent.journal.entries(run.id)
        waits = agent.journal.waiting(run.id) if run.state in RESTING else []
    except NoSuchRun:
        raise _unknown_response(response_id, hint) from None
    if (run.agent, run.thread) != (str(agent.id), thread_of(sender, run_id)):
        raise _unknown_response(response_id)
    if run.state in GOING_ON:
        raise _unfinished_response(f"resp_{run_id}", waiting_text(waits))
    if not Reply.gives_text(agent, run.state):
        raise _unanswered_response(response_id, run.state)
    task: Any = None
    text = ""
    for entry in entries:
        if entry.path:
            continue
        if entry.kind == "begun":
            task = entry.data["task"]
        elif entry.kind == "over":
            text = entry.data["text"]
    # The members of a group have its messages.
    return without_pending(
        Entry.messages_in(entries)
        if hasattr(agent, "max_iterations")
        else question_and_answer(task, text)
    )


def question_and_answer(content: Any, text: str) -> list[dict[str, Any]]:
    """Return a question and its answer as chat messages."""
    return [{"role": "user", "content": content}, {"role": "assistant", "content": text}]


def _unknown_response(response_id: str, hint: str = "") -> BadRequest:
    text = f"Previous response with id '{response_id[:300]}' not found{hint}."
    return BadRequest(text, "previous_response_id", "previous_response_not_found", 400)


def _unanswered_response(response_id: str, state: str) -> BadRequest:
    end = "was cancelled" if state == "cancelled" else f"has failed ({state})"
    earlier_id = previous_of(response_id.removeprefix("resp_"))
    advice = (
        f"continue {earlier_id}, the one before it"
        if earlier_id
        else "leave previous_response_id out"
    )
    text = f"Previous response with id '{response_id}' {end}, so it has no answer: {advice}."
    return BadRequest(text, "previous_response_id", "response_without_answer")


def _unfinished_response(response_id: str, wait_text: str) -> BadRequest:
    text = (
        f"Previous response with id '{response_id}' is in progress"
        + (f", {wait_text}" if wait_text else "")
        + f": continue it once GET /v1/responses/{response_id} returns it completed, or cancel it."
    )
    return BadRequest(text, "previous_response_id", "response_in_progress", 409)
