"""One reply of a conversation, from the request to the stop reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moothall.agents.conversation.conversation_state import MAX_STEPS, ConversationState
from moothall.agents.conversation.participants import MAX_ERROR, Contribution, Participants, Setup
from moothall.agents.conversation.speaking_order import Choice, NoChoice, choose_in_time
from moothall.agents.loop.prompt.prompt_record import MAX_COPIED, keep_list
from moothall.agents.replies.events import TurnEnded
from moothall.agents.replies.group import await_in_time, thread_option
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Content, Reply, Stop, Utterance, speaker_label
from moothall.agents.replies.reply_context import sources_of_thread
from moothall.foundation.errors import BudgetExceeded, ModelError
from moothall.foundation.jsonvalue import readable
from moothall.foundation.text import counted, error_text, log_failure
from moothall.journal.stop_reason import FINAL_REASONS, REASONS_FOR_ALL, StopReason
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.thread import Thread

logger: logging.Logger = logging.getLogger("moothall.agents")


class Exchange:
    """One reply of a conversation under way; between two turns its state can be saved."""

    def __init__(
        self,
        setup: Setup,
        state: ConversationState,
        request: ReplyRequest,
        record: Record[ConversationState],
        keep_for_later: Callable[[Any, Thread], None],
    ) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.is_between_turns: bool = True
        self._setup = setup
        self._state = state
        self._record = state.record = record
        state.participants = setup.agents
        self._request = request
        self._keep_for_later = keep_for_later  # keeps what the participants hear after the turn
        self._participants = Participants(setup, state, request.thread)
        self._error: BaseException | None = None
        request.note_sources(state.outside)
        if record.state is None:
            earlier = [each for each in state.transcript if each.number < state.begun]
            if request.recorded is None or len(earlier) <= MAX_COPIED:
                record.save(state)
            else:
                record.save(
                    state, transcript=(len(earlier), keep_list(record, request.state, earlier))
                )

    # -- the loop ----------------------------------------------------------------------------------

    async def run(self) -> Reply:
        """Run turns until there is a reason to stop."""
        task = asyncio.current_task()
        cancel_count = task.cancelling() if task is not None else 0
        try:
            while self._state.stop is None:
                if task is not None and task.cancelling() > cancel_count:
                    raise asyncio.CancelledError  # swallowed by a participant
                self.add_new_texts()
                try:
                    await self._take_turn(await self._choose())
                except Stop as stop:
                    self._stop(stop)
            return await self._finish()
        finally:
            self.add_new_texts()

    def _stop(self, stop: Stop) -> None:
        self._error = stop.error
        self._state.stop = (stop.reason, stop.detail)

    async def _choose(self) -> tuple[str, ...]:
        state, limit = self._state, self._setup.max_turns
        try:
            if state.budget is not None:
                state.budget.start()
                state.budget.check()
            key = f"choose.{state.turns + 1}"
            choose = partial(choose_in_time, self._setup.next, state)
            choice = await self._record.once(key, choose, of=Choice)
        except NoChoice as error:
            state.usage = state.usage + error.usage
            raise Stop("unreadable", str(error)) from error
        except Stop:  # it is paused
            raise
        except Exception as error:
            raise self._failure_stop("choosing the next speaker", error) from error
        state.usage = state.usage + choice.usage
        if not choice.ids:
            raise Stop("done", choice.detail or "no next speaker")
        remaining = limit - state.turns
        if len(choice.ids) > remaining:
            speakers = f"{len(choice.ids)} speakers were chosen at once"
            raise Stop("max_iterations", f"{speakers}, and {remaining} of {limit} turns were left")
        return choice.ids

    async def _take_turn(self, ids: tuple[str, ...]) -> None:
        """Let participants speak, concurrently if there are several, and keep what they said."""
        state = self._state
        turns_before = state.turns
        self.is_between_turns = False
        try:
            turns = await self._participants.take_turn(ids, self._request)
            self.add_new_texts()
            utterances = [self._add_turn(turn) for turn in turns]
            state.last, state.said = ids, tuple(utterances)
            state.handed_to = turns[-1].handed_to
            state.outside = sources_of_thread(self._request)
            try:
                await self._check_end(turns)
            except Stop as stop:
                self._stop(stop)
            if state.stop is None or state.stop[0] in FINAL_REASONS:
                # Else the turn is repeated when the run is resumed.
                self._record.save(state)
                await self._record.commit()
        finally:
            self.is_between_turns = True
        request = self._request
        for number, utterance in enumerate(utterances, turns_before + 1):
            request.tell(TurnEnded, self._setup.id, utterance.speaker, number, utterance)
            if request.wait_for_reader is not None:
                await request.wait_for_reader()  # wait for the reader, who may save the state here

    def _add_turn(self, turn: Contribution) -> Utterance:
        """Add a turn's outcome to the state, for the others to hear; return the utterance."""
        state, reply = self._state, turn.reply
        state.turns += 1
        text = ""
        if reply is not None:
            text = readable(reply.text)
            if isinstance(reply.usage, Usage):
                state.usage = state.usage + reply.usage
            state.steps.extend(reply.steps)
        fault = None if turn.fault is None else readable(turn.fault)
        return state.add(turn.id, text, fault)

    # -- stopping ----------------------------------------------------------------------------------

    async def _check_end(self, turns: list[Contribution]) -> None:
        """Raise Stop with the reason if the turn just taken is the last."""
        setup, state = self._setup, self._state
        state.values = {
            turn.id: turn.reply.value for turn in turns if turn.reply and turn.fault is None
        }
        failures = [turn for turn in turns if turn.fault is not None]
        for turn in failures:
            stop_reason = reason_of(turn.error) if turn.reply is None else turn.reply.stop_reason
            if stop_reason in REASONS_FOR_ALL:
                raise Stop(stop_reason, f"agent {turn.id!r}: {turn.fault}", turn.error)
        all_failed = len(failures) == len(turns)
        if failures and (
            setup.stop_if_failed == "any" or (setup.stop_if_failed == "all" and all_failed)
        ):
            names = " and ".join(repr(turn.id) for turn in failures)
            detail = f"agent {names} gave no answer: {'; '.join(t.fault or '' for t in failures)}"
            error = next((turn.error for turn in failures if turn.error is not None), None)
            raise Stop(reason_of(error), detail, error)
        if setup.until is not None:
            try:
                condition = setup.until.check(state, "u")
                reason = await await_in_time(condition, state.budget, "until= was checked")
            except Stop:
                raise
            except Exception as fault:
                raise self._failure_stop("the until= condition", fault) from fault
            if reason is not None:
                raise Stop("done", reason)
        reason = setup.next.end_reason(state)
        if reason is not None and all_failed:
            last = failures[-1]
            raise Stop(reason_of(last.error), f"{reason}: {last.fault}", last.error)
        if reason is not None:
            raise Stop("done", reason)
        if state.turns >= setup.max_turns:
            detail = f"the conversation had not ended after {counted(state.turns, 'turn')}"
            raise Stop("max_iterations", detail)

    def _failure_stop(self, label: str, error: Exception) -> Stop:
        """Return the Stop for a function or a model that failed to answer."""
        if isinstance(error, BudgetExceeded):
            return Stop(reason_of(error), str(error), error)
        log_failure(logger, f"conversation {self._setup.id!r}: {label} failed", error)
        return Stop("error", f"{label} failed: {error_text(error, MAX_ERROR)}", error)

    async def _finish(self) -> Reply:
        """Deliver the last utterances to everyone, and return the reply."""
        state = self._state
        assert state.stop is not None
        reason, detail = state.stop
        text, value = self._outcome()
        self.is_between_turns = False
        try:
            if self._request.schema is not None:
                value = None
                if reason == "done" and state.last:
                    turn = await self._participants.conclude(state.last[-1], self._request)
                    self._add_turn(turn)
                    if turn.fault is None and turn.reply is not None:
                        text, value = readable(turn.reply.text), turn.reply.value
                    else:
                        self._error = turn.error
                        reason = "error" if turn.reply is None else turn.reply.stop_reason
                        detail = f"agent {turn.id!r} gave no outcome: {turn.fault}"
            self.add_new_texts()
            if self._request.recorded is None or reason in FINAL_REASONS:
                # Else the turn is repeated, and nobody hears this one's outcome.
                await self._participants.deliver(state.agents)
        finally:
            self.is_between_turns = True
        state.open = False
        error = self._error
        if reason == "error" and error is None:
            error = ModelError(f"conversation {self._setup.id!r}: {detail}")
        return self.stopped_reply(Stop(reason, detail, error), text, value)

    def stopped_reply(self, stop: Stop, *outcome: Any) -> Reply:
        """Return the reply as it stands, with the last turn's outcome by default."""
        state = self._state
        state.outside = sources_of_thread(self._request)
        text, value = outcome or self._outcome()
        messages: Any = state.messages
        outcome_fields = (text, value, messages, state.steps[-MAX_STEPS:], state.usage)
        end_fields = (stop.reason, stop.detail, stop.error, self._request.run_id)
        return Reply(*outcome_fields, *end_fields, outside=(*state.outside,))

    def _outcome(self) -> tuple[str, Any]:
        """Return the text and the value of the last turn."""
        state = self._state
        utterances = [each for each in state.said if each.error is None]
        if not utterances:
            answers = (
                each
                for each in reversed(state.own_utterances)
                if each.speaker and each.error is None
            )
            text = next((each.text for each in answers), "")
            return text, text
        # Values are not saved: after loading, the texts take their place.
        values = {
            each.speaker: state.values.get(each.speaker or "", each.text) for each in utterances
        }
        if len(utterances) == 1:
            return utterances[0].text, values[utterances[0].speaker]
        text = "\n\n".join(
            f"{speaker_label(each.speaker or '')}: {each.text}" for each in utterances
        )
        return text, values

    # -- what is said while somebody speaks --------------------------------------------------------

    def interrupt(self, sourced_text: tuple[Content, list[str]]) -> None:
        """Interrupt the speakers with a text and its sources; others hear it after this turn."""
        content, outside = sourced_text
        plain = str(content) if isinstance(content, str) else content  # its record has the key
        heard_text = Utterance(1, None, plain).heard(self._state.agents)
        informed_ids: list[str] = []
        # Raises MailboxFull if too many wait.
        self._keep_for_later((content, informed_ids, outside), self._request.state)
        for id in self._participants.speaking:
            interrupt = getattr(self._setup.agents[id], "interrupt", None)
            if interrupt is not None:
                try:
                    options = thread_option(interrupt, self._request.thread)
                    if interrupt(heard_text, **options) is not False:
                        informed_ids.append(id)
                except Exception as error:
                    log_failure(logger, f"agent {id!r} could not be interrupted", error)

    def add_new_texts(self) -> None:
        """Add the texts that came during the turn to the transcript."""
        for content, known_to, outside in self._request.state.take_texts():
            self._state.add(None, content, known_to=known_to, outside=outside)
            self._request.note_sources(outside)
            sources = {"outside": outside} if outside else {}
            self._record.hear({"content": content, "known_to": list(known_to), **sources})


def reason_of(error: BaseException | None) -> StopReason:
    """Return the stop reason for this error."""
    if isinstance(error, Stop):
        return error.reason
    return Stop.at_limit(error).reason if isinstance(error, BudgetExceeded) else "error"
