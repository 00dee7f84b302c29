"""One reply of a conversation, from what is asked to the reason to stop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from civitas.errors import BudgetExceeded, DeadlineExceeded, JournalError, ModelError
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.meanwhile import Meanwhile
from civitas.reasoning.conversation.order import Choice, NoChoice
from civitas.reasoning.conversation.participants import Emit, Participants, Turn, own, told
from civitas.reasoning.conversation.transcript import TurnEnded, Utterance, shown
from civitas.reasoning.prompts import cut, readable
from civitas.reasoning.reply import Reply, Step, StopReason, log_failure
from civitas.reasoning.resume import ENDED

if TYPE_CHECKING:
    from civitas.reasoning.conversation.conversation import Conversation
    from civitas.reasoning.conversation.recording import ConversationRecording
    from civitas.reasoning.conversation.state import ConversationState
    from civitas.reasoning.reply_request import Asked

__all__ = ["MAX_STEPS", "Exchange"]

logger = logging.getLogger("civitas.reasoning")

MAX_STEPS: Final = 1000
"""How many of the participants' steps a reply tells of: the last."""

# What one participant met, the others would meet too: nobody is asked after it.
_FINAL: Final = frozenset(("budget", "deadline", "in_doubt"))


class Exchange:
    """One reply of a conversation under way.

    Attributes:
        participants: who is asked, and told
        meanwhile: what is said in the midst of a turn
        between: whether it stands between two turns, where its state can be saved
        thread: the thread that it belongs to
        budget: what it may spend, or None
    """

    def __init__(
        self,
        conversation: Conversation,
        state: ConversationState,
        asked: Asked,
        recording: ConversationRecording | None,
    ) -> None:
        self.conversation = conversation
        self.state = state
        self.recording = recording
        self.thread = asked.state
        self.budget = conversation.budget if asked.budget is None else asked.budget
        state.budget = self.budget
        self.schema = asked.schema
        self.run_id = asked.run_id
        self.emit: Emit | None = asked.emit
        self.meanwhile = Meanwhile(conversation, state, recording, asked.thread)
        self.participants = Participants(conversation, state, asked.thread, recording, asked)
        self.between = True
        self._steps: deque[Step] = deque(maxlen=MAX_STEPS)
        self._error: BaseException | None = None
        self._values: dict[str, Any] = {}
        if recording is not None:
            self._steps.extend(recording.past.steps)
            self._values = dict(recording.past.values)

    # -- the loop ----------------------------------------------------------------------------------

    async def go(self) -> Reply:
        """Have the participants speak until there is a reason to stop."""
        try:
            return await self._go()
        except JournalError as error:
            if self.recording is None:
                raise
            log_failure(logger, f"run {self.run_id!r} of {self.conversation.id!r} stops", error)
            return self.reply("error", str(error), *self._outcome(), error)

    async def _go(self) -> Reply:
        conversation, state = self.conversation, self.state
        task = asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        while state.stop is None:
            if task is not None and task.cancelling() > cancelled:
                raise asyncio.CancelledError  # a participant has kept it to itself
            left = conversation.max_turns - state.turns
            self.meanwhile.hear()
            try:
                if self.budget is not None:
                    self.budget.start()
                    self.budget.check()
                choice = await self._choose()
            except BudgetExceeded as error:
                self._fail(str(error), error)
                break
            except NoChoice as error:
                state.usage = state.usage + error.usage
                state.stop = ("unreadable", str(error))
                break
            except Exception as error:
                about = f"who speaks next in {conversation.id!r} could not be told"
                log_failure(logger, about, error)
                self._fail(f"who speaks next could not be told: {told(error)}", error)
                break
            state.usage = state.usage + choice.usage
            if not choice.ids:
                state.stop = ("done", choice.detail or "nobody was to speak next")
            elif len(choice.ids) > left:
                state.stop = (
                    "max_iterations",
                    f"{len(choice.ids)} were to speak at once, and {left} of "
                    f"{conversation.max_turns} turns were left",
                )
            else:
                await self._take_turn(choice.ids)
        return await self._end()

    async def _choose(self) -> Choice:
        """Who speaks next: as it was recorded, or as it is told now."""
        state, recording = self.state, self.recording
        if recording is None:
            return await self._choose_now()
        known = recording.choice(state)
        if known is not None:
            return known
        try:
            choice = await recording.choosing(self._choose_now)
        except NoChoice as error:
            recording.chose(state, error)
            raise
        except BaseException:
            recording.unchosen()
            raise
        recording.chose(state, choice)
        return choice

    async def _choose_now(self) -> Choice:
        choosing = self.conversation.next.choose(self.state)
        return await self._in_time(choosing, "who speaks next")  # type: ignore[no-any-return]

    async def _in_time(self, asked: Awaitable[Any], what: str) -> Any:
        """What comes of asking something of the user's, if it does before the deadline.

        Args:
            asked: it
            what: what it tells, in words

        Raises:
            DeadlineExceeded: the seconds were over before
        """
        budget = self.state.budget
        limit = asyncio.timeout(None if budget is None else budget.remaining_seconds())
        try:
            async with limit:
                return await own(asked)
        except TimeoutError as error:
            if not limit.expired():  # one of its own
                raise
            raise DeadlineExceeded(
                f"the seconds of {budget} were over before it was told {what}"
            ) from error

    async def _take_turn(self, ids: tuple[str, ...]) -> None:
        """Have participants speak, at once if there are several, and keep what they said."""
        state = self.state
        before = state.turns
        self.between = False
        try:
            others = [id for id in state.agents if id not in ids]
            if self.recording is not None:
                await self.recording.telling(state, [(id, 0) for id in others])
            for id in others:
                await self.participants.deliver(id)
            self.meanwhile.speaking = ids
            turns = await self.participants.speak(ids, before)
            self.meanwhile.hear(speaking=())
            said = [self._keep(turn) for turn in turns]
            state.last, state.said = ids, tuple(said)
            state.handed_to = turns[-1].handed_to
            await self._judge(turns)
            if self.recording is not None:
                steps = [step for turn in turns if turn.reply for step in turn.reply.steps]
                await self.recording.turned(state, steps, self._values)
        finally:
            self.meanwhile.speaking = ()
            self.between = True
        if self.emit is not None:
            for number, utterance in enumerate(said, before + 1):
                assert utterance.speaker is not None
                id = str(self.conversation.id)
                of = (self.run_id, self.thread.id)
                await self.emit(TurnEnded(id, utterance.speaker, number, utterance, *of))

    def _keep(self, turn: Turn) -> Utterance:
        """Keep what came of a turn, for everyone else to hear."""
        state, reply = self.state, turn.reply
        state.turns += 1
        text = ""
        if reply is not None:
            text = readable(reply.text)
            if isinstance(reply.usage, Usage):
                state.usage = state.usage + reply.usage
            self._steps.extend(reply.steps)
        fault = None if turn.fault is None else readable(turn.fault)
        return state.add(turn.id, text, fault)

    # -- stopping ----------------------------------------------------------------------------------

    async def _judge(self, turns: list[Turn]) -> None:
        """Whether the turn that was just taken is the last."""
        conversation, state = self.conversation, self.state
        self._values = {
            turn.id: turn.reply.value for turn in turns if turn.reply and turn.fault is None
        }
        failed = [turn for turn in turns if turn.fault is not None]
        for turn in failed:
            met = _reason(turn.error) if turn.reply is None else turn.reply.stop_reason
            if met in _FINAL:
                self._error = turn.error
                state.stop = (met, f"agent {turn.id!r}: {turn.fault}")
                return
        rule = conversation.stop_if_failed
        if failed and (rule == "any" or (rule == "all" and len(failed) == len(turns))):
            names = " and ".join(repr(turn.id) for turn in failed)
            detail = f"agent {names} gave no answer: {'; '.join(t.fault or '' for t in failed)}"
            error = next((turn.error for turn in failed if turn.error is not None), None)
            self._fail(detail, error)
            return
        if conversation.until is not None:
            try:
                checking = conversation.until.check(state, "u")
                reason = await self._in_time(checking, "whether it is over")
            except BudgetExceeded as error:
                self._fail(str(error), error)
                return
            except Exception as error:
                about = f"whether {conversation.id!r} is over could not be told"
                log_failure(logger, about, error)
                self._fail(f"whether it is over could not be told: {told(error)}", error)
                return
            if reason is not None:
                state.stop = ("done", reason)
                return
        reason = conversation.next.over(state)
        if reason is not None and len(failed) == len(turns):
            self._fail(f"{reason}: {failed[-1].fault}", failed[-1].error)
        elif reason is not None:
            state.stop = ("done", reason)
        elif state.turns >= conversation.max_turns:
            state.stop = (
                "max_iterations",
                f"the conversation was not over after {state.turns} turns",
            )

    def _fail(self, detail: str, error: BaseException | None) -> None:
        self._error = error
        self.state.stop = (_reason(error), detail)

    async def _end(self) -> Reply:
        """Tell everyone what was said last, and give the reply."""
        state = self.state
        assert state.stop is not None
        reason, detail = state.stop
        text, value = self._outcome()
        self.between = False
        try:
            if self.schema is not None:
                value = None
                if reason == "done" and state.last:
                    reason, detail, text, value = await self._conclude(reason, detail, text)
            self.meanwhile.hear(last=True)
            if self.recording is None or reason in ENDED:
                # Else the turn is taken again, and what came of this one is not heard.
                for id in state.agents:
                    await self.participants.deliver(id)
        finally:
            self.between = True
        state.open = False
        error = self._error
        if reason == "error" and error is None:
            error = ModelError(f"conversation {self.conversation.id!r}: {detail}")
        reply = self.reply(reason, detail, text, value, error)
        if self.recording is not None:
            await self.recording.ends(state, reply)
        return reply

    def cut_off(self, error: BaseException) -> Reply:
        """What there is of a reply that is stopped from outside."""
        return self.reply("cancelled", told(error), *self._outcome(), None)

    def reply(
        self, reason: StopReason, detail: str, text: str, value: Any, error: BaseException | None
    ) -> Reply:
        """The reply as it stands."""
        state = self.state
        messages = [_as_chat(each) for each in state.own]
        return Reply(
            text,
            value,
            messages,
            list(self._steps),
            state.usage,
            reason,
            detail,
            error,
            self.run_id,
        )

    def _outcome(self) -> tuple[str, Any]:
        """The text and the value of the last turn."""
        state = self.state
        said = [each for each in state.said if each.error is None]
        if len(said) > 1:
            text = "\n\n".join(f"{shown(each.speaker or '')}: {each.text}" for each in said)
            # Without the values, as after loading, what was said is what there is.
            return text, {
                each.speaker: self._values.get(each.speaker or "", each.text) for each in said
            }
        if said:
            text = said[0].text
            return text, self._values.get(said[0].speaker or "", text)
        for each in reversed(state.own):
            if each.speaker is not None and each.error is None:
                return each.text, each.text
        return "", ""

    async def _conclude(
        self, reason: StopReason, detail: str, text: str
    ) -> tuple[StopReason, str, str, Any]:
        """Ask the last speaker for the outcome by the schema."""
        state = self.state
        id = state.last[-1]
        self.meanwhile.speaking = (id,)
        try:
            turn = await self.participants.conclude(id, self.schema)
        finally:
            self.meanwhile.speaking = ()
        self._keep(turn)
        if turn.fault is None and turn.reply is not None:
            return reason, detail, readable(turn.reply.text), turn.reply.value
        self._error = turn.error
        why = "error" if turn.reply is None else turn.reply.stop_reason
        return why, f"agent {id!r} gave no outcome: {turn.fault}", text, None


def _reason(error: BaseException | None) -> StopReason:
    """Why a reply ends with this error."""
    reason: Any = "error"
    if isinstance(error, BudgetExceeded):
        reason = "deadline" if isinstance(error, DeadlineExceeded) else "budget"
    return reason  # type: ignore[no-any-return]


def _as_chat(utterance: Utterance) -> dict[str, Any]:
    if utterance.speaker is None:
        return {"role": "user", "content": utterance.content}
    content = utterance.content
    if utterance.error is not None:
        content = f"(no answer: {cut(utterance.error, 500)})"
    return {"role": "assistant", "name": utterance.speaker, "content": content}
