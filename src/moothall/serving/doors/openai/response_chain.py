"""The conversations that responses continue: kept in the process, and read from a journal."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from moothall import ConversationalAgent, NoSuchRun, Reply
from moothall.build import Thread
from moothall.journal import RunView
from moothall.serving.doors.asks import GOING_ON, RESTING, waiting_text
from moothall.serving.doors.openai.input import without_pending
from moothall.serving.doors.openai.message_content import BadRequest
from moothall.serving.doors.openai.output import ResponseForm
from moothall.serving.doors.served.last_items import LastItems
from moothall.serving.doors.served_agents import Served

_RUN_ID: Final = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{16}")
ITEM_ID: Final = re.compile(rf"(?:msg|fc|rs|in)_({_RUN_ID.pattern})_.+", re.S)
"""The id of an item of a response."""
_MAX_CONVERSATIONS: Final = 1000
"""How many conversations are kept in the process."""
_EARLIER_DELETED: Final = " whole: an earlier one of its conversation was deleted"
_CONTINUED_MARK: Final = "continued"
"""The mark of a run that another one continues."""
ECHO_KEY: Final = "response"
"""Under what name the beginning of a run has what its response says of the request."""


@dataclass(slots=True)
class StoredConversation:
    """A conversation up to the end of a response: the runs, and all their messages."""

    agent: str
    sender: str
    runs: list[str]  # the response's own is the last
    messages: list[dict[str, Any]]
    new_messages: list[dict[str, Any]] | None = None  # what was new in the request
    form: ResponseForm | None = None  # the response that was given


class ResponseChain:
    """Which run continues which: its record says so, and all but a fork's have one thread.

    The id of a run is `ROOT.RANDOM`: those of one root have one thread. Who continues a response
    that is continued already begins a thread, with the messages up to it. What an agent with a
    journal has said is kept only as long as the journal has the runs.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._conversations = LastItems[str, StoredConversation](_MAX_CONVERSATIONS)
        # The runs of agents without a journal that are continued.
        self._continued = LastItems[str, None](10 * _MAX_CONVERSATIONS)

    def keep(self, conversation: StoredConversation) -> None:
        """Keep a conversation up to the end of a run."""
        self._conversations.keep(conversation.runs[-1], conversation)

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

    def _conversation_of(self, run_id: str, sender: str) -> StoredConversation | None:
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
    def new_id(mark: str, root: str = "") -> str:
        """Return a new, unique id of a run, in the thread of a root; the mark is in its last part.

        Without a root it begins a thread of its own.
        """
        own_part = f"{mark}{secrets.token_hex(8)}"[:16]
        return f"{root or secrets.token_hex(16)}.{own_part}"

    def next_id(self, agent: ConversationalAgent, previous_run: str, mark: str) -> str:
        """Return a new, unique id of a run that continues another; it writes the file."""
        is_fork = self._is_continued(agent, previous_run)
        return self.new_id(mark, "" if is_fork else previous_run.partition(".")[0])

    def _is_continued(self, agent: ConversationalAgent, previous_run: str) -> bool:
        """Note that a run is continued; return whether it was, also by another process."""
        journal = self._served.journal_of(str(agent.id))
        if journal is None:
            is_continued = previous_run in self._continued
            self._continued.keep(previous_run, None)
            return is_continued
        try:
            return journal.waits.mark(previous_run, _CONTINUED_MARK)
        except NoSuchRun:
            raise _unknown_response(f"resp_{previous_run}") from None

    def conversation(
        self, agent: ConversationalAgent, sender: str, response_id: str
    ) -> StoredConversation:
        """Return the conversation up to the end of a response; it reads the file."""
        run_id = _run_in(response_id)
        if run_id is None:
            raise _unknown_response(response_id)
        conversation = self._conversations.get(run_id)
        if conversation is not None and (conversation.agent, conversation.sender) == (
            str(agent.id),
            sender,
        ):
            if self._drop_if_deleted(conversation.agent, [run_id]):
                raise _unknown_response(response_id)
            if self._drop_if_deleted(conversation.agent, conversation.runs):
                raise _unknown_response(response_id, _EARLIER_DELETED)
            self.keep(conversation)
            return conversation
        if conversation is not None or self._served.journal_of(str(agent.id)) is None:
            hint = (
                ""
                if conversation
                else " (without a journal, an agent's responses end with its process)"
            )
            raise _unknown_response(response_id, hint)
        conversation = StoredConversation(str(agent.id), sender, [], [])
        earlier: str | None = run_id
        while earlier is not None:
            hint = _EARLIER_DELETED if conversation.runs else ""
            try:
                messages, previous = _recorded_messages(agent, sender, earlier, response_id)
            except NoSuchRun:
                raise _unknown_response(response_id, hint) from None
            conversation.runs.insert(0, earlier)
            conversation.messages[:0] = messages
            earlier = _run_in(previous)
            if earlier in conversation.runs:  # as only an imported run may say
                raise _unknown_response(response_id)
        self.keep(conversation)
        return conversation


def is_response(run_id: str) -> bool:
    """Return whether a run is that of a response, which its client may look for."""
    return _RUN_ID.fullmatch(run_id) is not None


def thread_of(sender: str, run_id: str) -> str:
    """Return the thread of a run."""
    return Thread.id_for(sender, run_id.rpartition(".")[0])


def run_id_of(response_id: str) -> str:
    """Return the run of a response; refuse an invalid id."""
    run_id = _run_in(response_id)
    if run_id is None:
        text = f"Response with id '{response_id[:300]}' not found."
        raise BadRequest(text, "response_id", "response_not_found", 404)
    return run_id


def _run_in(response_id: Any) -> str | None:
    """Return the run of a response; None if there can be none of this id."""
    run_id = response_id.removeprefix("resp_") if isinstance(response_id, str) else ""
    return run_id if f"resp_{run_id}" == response_id and is_response(run_id) else None


def _recorded_messages(
    agent: Any, sender: str, run_id: str, response_id: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the messages of a run in the agent's journal, and the response that it continues.

    They are for a response that is continued; NoSuchRun if the run is not there.
    """
    view = RunView(agent.journal, run_id)
    run = view.outline
    if (run.agent, run.thread) != (str(agent.id), thread_of(sender, run_id)):
        raise _unknown_response(response_id)
    if run.state in GOING_ON:
        waits = view.all_waits if run.state in RESTING else []
        raise _unfinished_response(f"resp_{run_id}", waiting_text(waits))
    previous = (view.begun_with(ECHO_KEY) or {}).get("previous_response_id")
    if not Reply.gives_text(agent, run.state):
        raise _unanswered_response(response_id, run.state, previous)
    # The members of a group have its messages.
    messages = without_pending(
        view.messages
        if hasattr(agent, "max_iterations")
        else question_and_answer(view.task, view.end_text)
    )
    return messages, previous


def question_and_answer(content: Any, text: str) -> list[dict[str, Any]]:
    """Return a question and its answer as chat messages."""
    return [{"role": "user", "content": content}, {"role": "assistant", "content": text}]


def _unknown_response(response_id: str, hint: str = "") -> BadRequest:
    text = f"Previous response with id '{response_id[:300]}' not found{hint}."
    return BadRequest(text, "previous_response_id", "previous_response_not_found", 400)


def _unanswered_response(response_id: str, state: str, previous: str | None) -> BadRequest:
    end = "was cancelled" if state == "cancelled" else f"has failed ({state})"
    advice = (
        f"continue {previous}, the one before it" if previous else "leave previous_response_id out"
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
