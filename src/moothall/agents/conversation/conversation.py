"""Conversations: agents that speak in turn, or several at once, until a condition ends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from moothall.actions.message import ENCLOSING_REPLIES
from moothall.actions.provenance import sources_of
from moothall.actions.provenance.origin import SourcedText
from moothall.agents.agent import CURRENT, leads_to
from moothall.agents.conversation.conversation_record import (
    prepare_state,
    restore_run,
    state_at_end,
)
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.conversation.exchange import Exchange
from moothall.agents.conversation.participants import KIND, Participants, Setup, restore_members
from moothall.agents.conversation.speaking_order import Order
from moothall.agents.conversation.termination import Condition
from moothall.agents.replies.charging import budget_of
from moothall.agents.replies.checked_parts import Participant
from moothall.agents.replies.group import Group
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import REASONS_WITH_TEXT, Content, Reply
from moothall.agents.replies.reply_context import current_request, sources_of_asker
from moothall.agents.replies.reply_request import ReplyRequest, checked_content
from moothall.agents.replies.resume import end_data
from moothall.agents.replies.state import dump_state, load_state
from moothall.agents.replies.thread import Interruption, Thread, steer
from moothall.foundation.errors import NotPermitted, StateError
from moothall.journal.stop_reason import FINAL_REASONS

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.agents.workflow import ReplyingOptions
    from moothall.budget import Budget
    from moothall.journal import Journal, RunPart


class Conversation(Group):
    """Agents that talk with each other; a conversation is itself an agent.

    For each reply, its participants speak in turn until it is over; the last utterance is the
    reply. Each participant hears everything that the others say, once, in order: before its turn
    it observes the utterances since its last turn, and the newest becomes its prompt.

    If several spoke at once in the last turn, the reply's text joins their texts, and its value is
    a dict of their values by id. With a schema, the last speaker is asked for the value at the end.
    The reply's messages are the utterances; its steps and tokens are those of all participants.
    Cancelling it cancels the speakers; `resume` continues with the next turn. A participant that
    asks the conversation in which it speaks gets `NotPermitted`.

    Each thread is a conversation of its own, with a transcript; the participants reply and observe
    in the same thread. Replies of one thread wait for each other, others run side by side.

    A participant is anything with `id`, `reply` and `observe`; see `Conversational`. It may be in
    a space, in another conversation too, or be a conversation. Without `stream`, its only event is
    `Done`; without `interrupt`, it hears an interruption after its turn; without `state_dict`, its
    memory is not saved with the conversation.

    With a `journal`, or as part of a recorded run, a run resumes after a crash from the state after
    the last turn and repeats the interrupted turn. The speaker stays the same, and steps that ended
    in that turn are not done again. A participant without a record of its own is asked again
    unless its reply was recorded; it observes no message twice.

    Args:
        agents: the participants, with different ids
        next: who speaks next: `RoundRobin()`, `ChosenBy(model)`, `HandOver()`, or a function of the
            `ConversationState`, plain or `async`, that returns a participant or its id, a list of
            these to speak at once, `ChosenBy(model)` to have it choose, or None to end
        until: when it is over: a condition, or a function of the `ConversationState`; checked after
            every turn. Without one it is over when nobody is next.
        id: its id
        max_turns: how many turns one reply may have; several speakers at once count one each.
            Defaults to the limit that `MaxTurns` in `until` sets, or 20.
        stop_if_failed: when a failed turn ends the reply: `all` if all its speakers failed, `any`
            if one failed, or `none`. A spent budget and a deadline always end it.
        budget: what the participants, and a model that chooses them, may spend together
        journal: a `Journal`, or the path of one, that records its replies and what the participants
            do in them, so that they can be resumed after a crash
        **options: the options of `Agent`, and `shared=`

    Attributes:
        agents: the participants by their ids

    Raises:
        DefinitionError: an argument is not valid
    """

    run_kind: str = KIND
    kind_label: str = "conversation"
    state_type: type[Any] = ConversationState

    def __init__(
        self,
        agents: Iterable[Participant],
        next: Order | Callable[[ConversationState], Any] | None = None,
        until: Condition | Callable[[ConversationState], Any] | None = None,
        *,
        id: str | int = "conversation",
        max_turns: int | None = None,
        stop_if_failed: Literal["all", "any", "none"] = "all",
        budget: Budget | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        **options: Unpack[ReplyingOptions],
    ) -> None:
        super().__init__(id, **options)
        setup = Setup(str(self.id), agents, next, until, max_turns, stop_if_failed)
        self.agents: Final[dict[str, Any]] = setup.agents
        self.next: Final[Order] = setup.next
        self.until: Final[Condition | None] = setup.until
        self._setup = setup
        if max_turns is not None:  # then that many turns are an answer, as by `MaxTurns`
            self.reasons_with_text: frozenset[str] = REASONS_WITH_TEXT | {"max_iterations"}
        self.journal = journal
        if budget is not None:
            self.budget = budget

    @property
    def state(self) -> ConversationState:
        """Return the state of its own thread: utterances, last speaker. Read-only."""
        return self._state_of(self.all_threads.default)

    def _state_of(self, thread: Thread) -> ConversationState:
        if thread.agent_state is None:
            thread.agent_state = ConversationState(tuple(self.agents))
        return thread.agent_state  # type: ignore[no-any-return]

    @property
    def member_agents(self) -> list[Any]:
        """The members that reply on its behalf."""
        return list(self.agents.values())

    # -- asking it ---------------------------------------------------------------------------------

    def interrupt(self, text: Content, thread: str | int | None = None) -> Interruption:
        """Send a text to a reply under way; callable in any thread of the process.

        The speakers are interrupted; the others, and a speaker that cannot be interrupted, hear the
        text when the turn is over. With no reply under way, the next one of the thread begins with
        it. A participant's own `interrupt` is called on the loop that the reply runs on, and must
        not wait for it; if it returns False, it has not taken the text.

        Args:
            text: the text
            thread: the id of the thread, an empty text for the conversation's own; defaults to that
                of the reply under way, or else to the conversation's own

        Raises:
            MailboxFull: a hundred interruptions and observations wait already
        """
        sourced_text = checked_content(text, "interrupt"), sources_of_asker(self)[0]
        return steer(self._thread_to_steer(thread), sourced_text, self._keep_for_all)

    def steer_thread(self, thread: Thread, text: str) -> Interruption:
        """Interrupt the speakers of a thread with a text; else its next reply begins with it."""
        sources = text.sources if isinstance(text, SourcedText) else []
        return steer(thread, (text, sources), self._keep_for_all)

    def _keep_for_all(self, sourced_text: tuple[Content, list[str]], thread: Thread) -> None:
        """Keep a text, and its sources, for everyone to hear in the reply under way or the next."""
        content, sources = sourced_text
        self._keep_text((content, (), sources), thread)

    def as_observed(self, message: Any) -> dict[str, Any]:
        """Return a message that a hook changed, as it is remembered."""
        item = super().as_observed(message)
        checked_content(item.get("content"), "observe")
        return item

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Let every participant observe a message; while one speaks, after the turn."""
        content = checked_content(message.get("content"), "observe")
        sources = sources_of(message)
        # A reply that leads here, of any thread, holds the turn until this returns.
        if thread.reply is not None or current_request(self) is not None:
            self._keep_for_all((content, sources), thread)
            return
        await thread.turn_lock.take()
        try:
            state = self._state_of(thread)
            if state.run is not None:  # heard when that run resumes, or in the next
                self._keep_for_all((content, sources), thread)
                return
            state.add(None, content, outside=sources)
            participants = Participants(self._setup, state, thread.id, self._observation_key())
            # In an unfinished reply, the last message becomes the next speaker's prompt.
            await participants.deliver(state.agents, keep_last=1 if state.open else 0)
        finally:
            thread.turn_lock.end()

    def check_request(self, request: ReplyRequest) -> None:
        """Refuse an invalid request before a run begins."""
        state = self._state_of(request.state)
        if self._waits_for_itself(request.state):
            raise NotPermitted(
                f"conversation {self.id!r} is asked by a participant that is speaking in it, and "
                "would wait for itself"
            )
        if request.resumed:
            if not state.open:
                raise StateError(
                    f"conversation {self.id!r} has no reply to resume: it has ended, or none "
                    "was begun"
                )
            if state.run is not None:
                request.run_id = state.run
        super().check_request(request)

    def _waits_for_itself(self, thread: Thread) -> bool:
        """Return whether a reply of its own, of any thread, waits for this one."""
        if thread.reply is not None or any(
            each.agent is self for each in ENCLOSING_REPLIES.get()[:-1]
        ):
            return True
        handling = CURRENT.get()
        handlings = [each.turn_lock.handling for each in self.all_threads.busy_threads()]
        return any(each is not None and leads_to(each, handling) for each in handlings)

    async def recorded_reply(
        self, request: ReplyRequest, record: Record[ConversationState]
    ) -> Reply:
        """Answer, or resume from the record."""
        thread, state = request.state, self._state_of(request.state)
        budget = self.budget if request.budget is None else request.budget
        if request.recorded is not None:
            model = getattr(self.next, "model", None)
            if model is not None:
                record.at_end = partial(record.mark_known, model, budget)
            if record.state is not None:
                request.note_sources(record.state.outside)
                own_budget = budget_of(self, request.budget)
                past_reply = await restore_run(self._setup, record, request, own_budget)
                if past_reply is not None:
                    if record.is_over:
                        self._set_state(thread, record.state)
                    return past_reply
                thread.agent_state = state = record.state
            state.run = record.run_id
        state.budget = budget
        if record.state is None and request.resumed:
            state.steps.clear()
        elif record.state is None:
            state.begin()
            texts = thread.take_texts()
            record.take_told(content for content, *_ in texts)
            for content, known_to, outside in (*texts, (request.content, (), ())):
                state.add(None, content, known_to=known_to, outside=outside)
        if self.until is not None:
            self.until.begin(state.kept, "u")
        thread.reply = exchange = Exchange(self._setup, state, request, record, self._keep_text)
        try:
            at_end = partial(end_data, record, state, "saved")
            reply: Reply = await record.run_to_end(exchange.run, at_end, exchange.stopped_reply)
        finally:
            thread.reply = None
            state.end_record()
        if reply.stop_reason in FINAL_REASONS:
            state.run = None
        return reply

    def _set_state(self, thread: Thread, state: ConversationState) -> None:
        """Set a thread to the state at a reply's end, unless the thread is further."""
        state.end_record()
        if state.count > self._state_of(thread).count:
            thread.agent_state = state

    def describe_program(self) -> dict[str, Any]:
        """Return its program, independent of the request."""
        return self._setup.program()

    async def restore_part(self, part: RunPart, budget: Budget | None) -> None:
        """Restore what it did in a part that is over."""
        record = Record(part, ConversationState)
        if record.start is None or record.state is None:
            return
        await restore_members(self._setup, record, budget_of(self, budget))
        state = state_at_end(record)
        prepare_state(state, record, self._setup)
        state.run = None if record.is_over else record.run_id
        self._set_state(self.all_threads.get(record.start["thread"]), state)

    # -- saved and loaded --------------------------------------------------------------------------

    @property
    def _saved_members(self) -> dict[str, Any]:
        return self.agents

    def _check_between_turns(self, *, for_loading: bool) -> None:
        exchanges: list[Any] = [each.reply for each in self.all_threads.busy_threads()]
        if for_loading and exchanges:
            raise RuntimeError(
                f"conversation {self.id!r} is replying: load its state before or after"
            )
        if not all(each.is_between_turns for each in exchanges):
            raise RuntimeError(
                f"conversation {self.id!r} is in a turn: take its state between two turns, "
                "such as at a TurnEnded of its stream"
            )
        for each in exchanges:
            each.add_new_texts()

    def _dump_state(self, state: ConversationState) -> dict[str, Any]:
        # This reply's steps and values are not saved.
        return {**dump_state(state), "steps": [], "values": {}}

    def _load_state(self, state: Any, label: str) -> ConversationState:
        loaded = load_state(ConversationState, state, label)
        loaded.check(self.agents, label)
        return loaded
