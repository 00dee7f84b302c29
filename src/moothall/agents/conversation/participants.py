"""The participants of a conversation: what they observe, their prompts and their replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall.actions.message import address
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.conversation.speaking_order import Order, Transfer, as_order
from moothall.agents.conversation.termination import Condition, as_condition
from moothall.agents.replies.charging import ReplayOffsets
from moothall.agents.replies.checked_parts import Participant, check_part, is_recording
from moothall.agents.replies.events import Done, TurnStarted
from moothall.agents.replies.group import ask_member, cancellation_as_error, thread_option
from moothall.agents.replies.read_record import group_program
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Content, Reply, Stop, Utterance
from moothall.agents.replies.reply_context import ask_context
from moothall.agents.replies.threaded import Threaded
from moothall.foundation.arguments import check_integer
from moothall.foundation.errors import ConfigError, DefinitionError, JournalError, RunMismatch
from moothall.foundation.text import error_text, log_failure
from moothall.foundation.threads import awaited, side_by_side
from moothall.journal.stop_reason import ANSWERED_REASONS

if TYPE_CHECKING:
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.agents")

NOTHING_NEW: Final = "(It is your turn again, and nobody has said anything since.)"
"""The prompt of a speaker that has heard everything already."""
_CONCLUDE: Final = "(The conversation is over. Give its outcome in the form that is wanted.)"
"""The prompt for the last speaker, if there is a schema for the outcome."""
KIND: Final = "Conversation"
MAX_ERROR: Final = 1000
"""How many characters of an error are kept."""
_MAX_TURNS = 20  # of one reply, if neither `max_turns` nor `until` sets it
_FAILURE_RULES: Final = ("all", "any", "none")
_OFFSETS = ReplayOffsets()


class Setup:
    """The checked settings of a `Conversation`."""

    def __init__(
        self,
        id: str,
        agents: Iterable[Participant],
        next: Order | Callable[[ConversationState], Any] | None,
        until: Condition | Callable[[ConversationState], Any] | None,
        max_turns: int | None,
        stop_if_failed: str,
    ) -> None:
        self.id = id
        self.agents: dict[str, Any] = _participants(agents, id)
        self.next: Order = as_order(next)
        self.next.check(self.agents)
        self.until: Condition | None = None if until is None else as_condition(until)
        if self.until is not None and (unknown := self.until.ids - self.agents.keys()):
            raise DefinitionError(
                f"conversation {id!r}: until={self.until} waits for {sorted(unknown)!r:.200}, "
                "who takes no part"
            )
        if max_turns is None:
            max_turns = (self.until.most_turns if self.until is not None else None) or _MAX_TURNS
        check_integer(f"conversation {id!r}: max_turns=", max_turns)
        if stop_if_failed not in _FAILURE_RULES:
            raise DefinitionError(
                f"conversation {id!r}: stop_if_failed= is one of {', '.join(_FAILURE_RULES)}, not "
                f"{stop_if_failed!r:.80}"
            )
        self.max_turns = max_turns
        self.stop_if_failed = stop_if_failed

    def program(self) -> dict[str, Any]:
        """Return the program of the conversation and its participants."""
        return group_program(
            self.agents.values(),
            agent=[KIND, self.id],
            agents=list(self.agents),
            next=self.next.settings_data(),
            until=None if self.until is None else str(self.until),
            max_turns=self.max_turns,
            stop_if_failed=self.stop_if_failed,
        )


def _participants(agents: Iterable[Any], id: str) -> dict[str, Any]:
    if isinstance(agents, str | dict) or not isinstance(agents, Iterable):
        raise ConfigError(
            f"conversation {id!r}: agents= must be a list of agents, got {agents!r:.80}"
        )
    by_id: dict[str, Any] = {}
    for agent in agents:
        check_part(agent, ("id", "reply", "observe"), "agents", id)
        name = address(agent.id)
        if name in by_id:
            raise DefinitionError(
                f"conversation {id!r}: two participants have the id {name!r}: give each its own"
            )
        by_id[name] = agent
    if not by_id:
        raise DefinitionError(f"conversation {id!r} has no participants")
    return by_id


@dataclass(slots=True)
class Contribution:
    """The outcome of asking one participant; `fault` says why it gave no answer."""

    id: str
    reply: Reply | None = None
    handed_to: str | None = None
    fault: str | None = None
    error: BaseException | None = None


class Participants:
    """Delivers utterances to the participants and asks them. Everything runs on their loop.

    `speaking` are those that speak now.
    """

    def __init__(
        self,
        setup: Setup,
        state: ConversationState,
        thread: str | None,
        observation: tuple[str, int] | None = None,
    ) -> None:
        self.speaking: tuple[str, ...] = ()
        self._setup = setup
        self._state = state
        self._thread = thread
        self._observation = observation
        self._record = state.record
        self._is_recorded = state.is_recorded

    async def deliver(self, ids: Iterable[str], keep_last: int = 0) -> None:
        """Let participants observe their pending utterances, except the last `leave`."""
        deliveries = []
        for id in ids:
            pending = self._state.pending[id]
            deliveries += [(id, each) for each in pending[: len(pending) - keep_last]]
        observations = [self._note_delivery(*each) for each in deliveries]
        if any(observations):
            await self._record.commit()
        for (id, utterance), observation in zip(deliveries, observations, strict=True):
            # Remove it first: a delivery that is cut off is not repeated.
            self._state.pending[id].remove(utterance)
            if self._is_recorded and observation is None:
                continue  # delivered by the process before, or by `restore`
            message = utterance.message(self._state.agents)
            try:
                await _observe_once(self._setup.agents[id], message, self._thread, observation)
            except Exception as error:
                failure = "participant %r of %r failed to observe what was said: %s"
                logger.warning(failure, id, self._setup.id, error_text(error, MAX_ERROR))

    def _note_delivery(self, id: str, utterance: Utterance) -> tuple[str, int] | None:
        """Note a delivery; return its run and number, or None."""
        if not self._is_recorded:
            # One of several utterances that came as one observation.
            mark = self._observation
            return None if mark is None else (f"{mark[0]}/{utterance.number}", mark[1])
        key = f"told.{utterance.number}.{id}"
        if self._record.has_ended(key):
            return None
        mark = (f"{self._record.key}/told/{id}", utterance.number)
        self._record.mark(key, utterance.message(self._state.agents), once=mark)
        return mark

    async def take_turn(self, ids: tuple[str, ...], request: ReplyRequest) -> list[Contribution]:
        """Let participants speak, at once if several, when the others have heard what is new."""
        await self.deliver([id for id in self._state.agents if id not in ids])
        self.speaking = ids
        try:
            numbered = enumerate(ids, self._state.turns + 1)
            return await side_by_side([self._speak(id, n, request) for n, id in numbered])
        finally:
            self.speaking = ()

    async def _speak(self, id: str, number: int, request: ReplyRequest) -> Contribution:
        """Let a participant speak in the turn of this number."""
        state, record = self._state, self._record
        part = f"T{number}/{id}"
        newest = await self._take_prompt(id, part)
        question = NOTHING_NEW if newest is None else newest.heard(state.agents)
        number_asked = 0 if newest is None else newest.number
        request.tell(TurnStarted, self._setup.id, id, number)
        transfer = Transfer(partial(record.mark, f"handed.{part}"))
        offered = self._setup.next.offer(state, id, transfer)
        try:
            turn = await self._ask(
                id, question, part, request, request.emit, offered=offered, question=number_asked
            )
        finally:
            transfer.is_over = True
        if turn.reply is not None:
            turn.handed_to = transfer.to
            if transfer.to is None and (past_step := record.find(f"handed.{part}")) is not None:
                turn.handed_to = past_step.result
        return turn

    async def conclude(self, id: str, request: ReplyRequest) -> Contribution:
        """Ask a participant for the outcome by the schema of the request."""
        self.speaking = (id,)
        try:
            await self.deliver((id,))
            part, schema = f"conclusion/{id}", request.schema
            turn = await self._ask(id, _CONCLUDE, part, request, None, schema=schema, question=0)
        finally:
            self.speaking = ()
        if turn.reply is not None:
            request.tell(Done, id, turn.reply)
        return turn

    async def _ask(
        self, id: str, prompt: Content, part: str, request: ReplyRequest, emit: Any, **options: Any
    ) -> Contribution:
        """Ask a participant; an error that is not the participant's is raised."""
        turn, agent = Contribution(id), self._setup.agents[id]
        try:
            reply = await ask_member(agent, prompt, part, request, self._record, emit, **options)
        except Exception as error:
            if self._is_recorded and isinstance(error, JournalError | RunMismatch):
                raise
            turn.error, turn.fault = error, error_text(error, MAX_ERROR)
            if isinstance(error, Stop):  # it is paused
                turn.fault = error.detail
                return turn
            logger.warning("participant %r of %r failed: %s", id, self._setup.id, turn.fault)
            return turn
        turn.reply = reply
        if reply.stop_reason not in ANSWERED_REASONS:
            turn.error = reply.error
            reason = [reply.stop_reason, reply.detail] if reply.detail else [str(reply.stop_reason)]
            says_all = reason[0] in ("error", "waiting") and reason[1:]
            turn.fault = ": ".join(says_all or reason)
        return turn

    async def _take_prompt(self, id: str, part: str) -> Utterance | None:
        """Return the pending utterance that is a participant's prompt; deliver the others."""
        pending = self._state.pending[id]
        details = self._record.members.get(part)
        if details is None and (past_step := self._record.find(part)) is not None:
            details = past_step.about
        if details is None:
            await self.deliver((id,), keep_last=1)
            return pending.pop() if pending else None
        # The process before asked it already: later utterances come after that prompt.
        request = next((each for each in pending if each.number == details.get("question")), None)
        if request is not None:
            pending.remove(request)
        await self.deliver((id,))
        return request


async def restore_members(
    setup: Setup, record: Record[ConversationState], budget: Budget | None
) -> None:
    """Restore the participants that keep a record, and the model that chooses, from the record."""
    thread = None if record.start is None else record.start["thread"]
    for entry in record.entries():
        data, key = entry.data, entry.data.get("key", "")
        told_id = key.split(".", 2)[2] if key.startswith("told.") else ""  # to whom it was told
        agent: Any = setup.agents.get(told_id or data.get("agent", ""))
        if not is_recording(agent):
            continue
        if entry.kind == "started" and "part" in data:
            await agent.restore_part(record.member(data["part"], data["agent"]), budget)
        elif entry.kind == "ended" and told_id:
            try:
                await _observe_once(agent, data["result"], thread, tuple(data["about"]["once"]))
            except Exception as error:
                failure = f"participant {agent.id!r} of {setup.id!r} failed to observe"
                log_failure(logger, failure, error)
    model = getattr(setup.next, "model", None)
    if model is not None:
        record.catch_up(model, model, budget)


async def _observe_once(
    agent: Any, message: dict[str, Any], thread: str | None, observation: tuple[str, int] | None
) -> None:
    """Let a participant observe a message; its thread has a message of a run only once."""
    if observation is not None:
        run, number = observation
        has_threads, is_shared = isinstance(agent, Threaded), getattr(agent, "shared", False)
        observer = agent.all_threads.get(None if is_shared else thread) if has_threads else agent
        # A memory that adds once knows it itself, and may have forgotten it since.
        adds_once = getattr(getattr(agent, "memory", None), "add_once", None)
        if _OFFSETS.get(observer, run) > number and adds_once is None:
            return
        # Mark it first: a delivery that is cut off is not repeated.
        _OFFSETS.set(observer, run, number + 1)
    with ask_context(observation=observation), cancellation_as_error():
        await awaited(agent.observe(message, **thread_option(agent.observe, thread)))
