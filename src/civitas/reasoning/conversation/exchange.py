"""One reply of a conversation, from what is asked to the reason to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from civitas.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    JournalError,
    MailboxFull,
    ModelError,
    RunMismatch,
)
from civitas.models.protocol import Usage
from civitas.reasoning.conversation.order import Choice, NoChoice
from civitas.reasoning.conversation.transcript import (
    Content,
    TurnEnded,
    TurnStarted,
    Utterance,
    shown,
)
from civitas.reasoning.conversational import told_once
from civitas.reasoning.events import Done
from civitas.reasoning.past import ENDED
from civitas.reasoning.prompts import cut, readable
from civitas.reasoning.reply import ANSWERED, Reply, Step, StopReason

if TYPE_CHECKING:
    from civitas.reasoning.asked import Asked
    from civitas.reasoning.conversation.conversation import Conversation
    from civitas.reasoning.conversation.recording import ConversationRecording
    from civitas.reasoning.conversation.state import ConversationState

__all__ = ["GO_ON", "MAX_STEPS", "Emit", "Exchange"]

logger = logging.getLogger("civitas.reasoning")

Emit: TypeAlias = Callable[[Any], Awaitable[None]]
"""Takes an event, and returns when the next one may come."""

GO_ON: Final = "(It is your turn again, and nobody has said anything since.)"
"""What a speaker is asked that has heard everything already."""
CONCLUDE: Final = "(The conversation is over. Give its outcome in the form that is wanted.)"
"""What the last speaker is asked if the outcome is wanted by a schema."""
MAX_STEPS: Final = 1000
"""How many of the participants' steps a reply tells of: the last."""
_MAX_HEARD = 100
"""How many interruptions and observations may wait for the end of a turn."""

# The run cannot go on, or not by this program: no participant's failure.
_NO_TURN: Final = (JournalError, RunMismatch)

# What one participant met, the others would meet too: nobody is asked after it.
_FINAL: Final = frozenset(("budget", "deadline", "in_doubt"))


class _Turn:
    """What came of asking one participant."""

    __slots__ = ("error", "fault", "handed_to", "id", "reply")

    def __init__(self, id: str) -> None:
        self.id = id
        self.reply: Reply | None = None
        self.handed_to: str | None = None
        self.fault: str | None = None
        self.error: BaseException | None = None


class _Lane:
    """The events of one speaker of several: kept until those before it have ended.

    What is kept is of one reply, and bounded as that is.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._kept: deque[Any] = deque()
        self._open = False

    async def put(self, event: Any) -> None:
        """Pass an event on, or keep it."""
        if self._open:
            await self._emit(event)
        else:
            self._kept.append(event)

    async def open(self) -> None:
        """Pass on what was kept, and from now on everything at once."""
        while self._kept:
            await self._emit(self._kept.popleft())
        self._open = True


class Exchange:
    """One reply of a conversation under way.

    Attributes:
        speaking: who speaks now
        between: whether it stands between two turns, where its state can be saved
    """

    def __init__(
        self,
        conversation: Conversation,
        state: ConversationState,
        asked: Asked | None = None,
        recording: ConversationRecording | None = None,
    ) -> None:
        self.conversation = conversation
        self.state = state
        self.recording = recording
        state.budget = conversation.budget
        self.schema = None if asked is None else asked.schema
        self.run_id = None if asked is None else asked.run_id
        self.emit: Emit | None = None if asked is None else asked.emit
        self.speaking: tuple[str, ...] = ()
        self.between = True
        self.open = True
        self._steps: deque[Step] = deque(maxlen=MAX_STEPS)
        self._error: BaseException | None = None
        self._values: dict[str, Any] = {}
        if recording is not None:
            self._steps.extend(recording.past.steps)
            self._values = dict(recording.past.values)
        # Filled in any thread.
        self._heard: deque[tuple[Content, tuple[str, ...]]] = deque()
        self._guard = threading.RLock()

    # -- what is said meanwhile, in any thread -----------------------------------------------------

    def interrupt(self, content: Content) -> bool:
        """Tell those who speak, and after this turn everyone else. False if it has ended."""
        marked = Utterance(1, None, content).heard(self.state.agents)
        # Held while they are told, or the turn could end before it is known who has heard it.
        with self._guard:
            if not self.open or len(self._heard) >= _MAX_HEARD:
                return False
            told = []
            for id in self.speaking:
                interrupt = getattr(self.conversation.agents[id], "interrupt", None)
                if interrupt is not None:
                    try:
                        if interrupt(marked) is not False:
                            told.append(id)
                    except Exception:
                        logger.exception("agent %r could not be interrupted", id)
            self._heard.append((content, tuple(told)))
            return True

    def observe(self, content: Content) -> bool:
        """Tell everyone after this turn. False if the reply has ended.

        Raises:
            MailboxFull: too much waits for that already
        """
        with self._guard:
            if not self.open:
                return False
            if len(self._heard) >= _MAX_HEARD:
                raise MailboxFull(
                    f"conversation {self.conversation.id!r} has {_MAX_HEARD} observations to tell "
                    "when the present turn ends, and takes no more until then"
                )
            self._heard.append((content, ()))
            return True

    def close(self) -> None:
        """Take in nothing more; what waits is heard by the next reply, or when this goes on."""
        self.hear(last=True)

    def hear(self, *, last: bool = False, speaking: tuple[str, ...] | None = None) -> None:
        """Take what came meanwhile into what is to be heard.

        Args:
            last: take in nothing more
            speaking: who speaks from now on
        """
        with self._guard:
            if last:
                self.open = False
            if speaking is not None:
                self.speaking = speaking
            while self._heard:
                content, told = self._heard.popleft()
                self.state.add(None, content, known_to=told)
                if self.recording is not None:
                    self.recording.heard(content, told)

    # -- the loop ----------------------------------------------------------------------------------

    async def go(self) -> Reply:
        """Have the participants speak until there is a reason to stop."""
        try:
            return await self._go()
        except JournalError as error:
            if self.recording is None:
                raise
            logger.exception("run %r of %r stops", self.run_id, self.conversation.id)
            return self.reply("error", str(error), *self._outcome(), error)

    async def _go(self) -> Reply:
        conversation, state = self.conversation, self.state
        task = asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        while state.stop is None:
            if task is not None and task.cancelling() > cancelled:
                raise asyncio.CancelledError  # a participant has kept it to itself
            left = conversation.max_turns - state.turns
            self.hear()
            try:
                if conversation.budget is not None:
                    conversation.budget.start()
                    conversation.budget.check()
                choice = await self._choose()
            except BudgetExceeded as error:
                self._fail(str(error), error)
                break
            except NoChoice as error:
                state.usage = state.usage + error.usage
                state.stop = ("unreadable", str(error))
                break
            except Exception as error:
                logger.exception("who speaks next in %r could not be told", conversation.id)
                self._fail(f"who speaks next could not be told: {_told(error)}", error)
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
                return await _own(asked)
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
                await self.deliver(id)
            self.speaking = ids
            if len(ids) == 1:
                turns = [await self._speak(ids[0], before + 1, self.emit)]
            else:
                turns = await self._speak_together(ids, before)
            self.hear(speaking=())
            said = [self._keep(turn) for turn in turns]
            state.last, state.said = ids, tuple(said)
            state.handed_to = turns[-1].handed_to
            await self._judge(turns)
            if self.recording is not None:
                steps = [step for turn in turns if turn.reply for step in turn.reply.steps]
                await self.recording.turned(state, steps, self._values)
        finally:
            self.speaking = ()
            self.between = True
        if self.emit is not None:
            for number, utterance in enumerate(said, before + 1):
                assert utterance.speaker is not None
                id = str(self.conversation.id)
                await self.emit(TurnEnded(id, utterance.speaker, number, utterance))

    async def deliver(self, id: str, leave: int = 0) -> None:
        """Have a participant observe what it has not heard, but for the last `leave`."""
        agent = self.conversation.agents[id]
        waiting = self.state.pending[id]
        recording = self.recording
        if recording is not None:
            await recording.telling(self.state, ((id, leave),))
        once = self.conversation._as_once()
        while len(waiting) > leave:
            # Gone before it is told: what breaks off in the middle is not told twice.
            utterance = waiting.popleft()
            message = utterance.message(self.state.agents)
            try:
                if recording is not None:
                    await _own(recording.tell(id, utterance, message))
                elif once is not None:
                    # One of several, of what was told as one.
                    with told_once(f"{once[0]}/{utterance.number}", once[1]):
                        await _own(agent.observe(message))
                else:
                    await _own(agent.observe(message))
            except Exception as error:
                logger.warning(
                    "participant %r of %r failed to observe what was said: %s",
                    id,
                    self.conversation.id,
                    _told(error),
                )

    async def _speak(self, id: str, number: int, emit: Emit | None) -> _Turn:
        """Ask one participant."""
        state, recording = self.state, self.recording
        part = f"T{number}/{id}"
        asked = await self._question(id, part)
        question = GO_ON if asked is None else asked.heard(state.agents)
        if emit is not None:
            await emit(TurnStarted(str(self.conversation.id), id, number))
        turn = _Turn(id)
        agent = self.conversation.agents[id]
        try:
            with self.conversation.next.speaking(state, id, agent) as handed:
                if handed is not None and recording is not None:
                    turn.handed_to = recording.past.handed.get(part)
                    handed.note = partial(recording.handed_over, part)
                place = (part, 0 if asked is None else asked.number)
                turn.reply = _checked(await _own(self._ask(agent, question, emit, place)))
            if handed is not None and handed.to is not None:
                turn.handed_to = handed.to
        except Exception as error:
            if recording is not None and isinstance(error, _NO_TURN):
                raise
            logger.warning(
                "participant %r of %r failed: %s", id, self.conversation.id, _told(error)
            )
            turn.error = error
            turn.fault = _told(error)
            return turn
        reply = turn.reply
        if reply.stop_reason not in ANSWERED:
            turn.fault = _fault(reply)
            turn.error = reply.error
        return turn

    async def _question(self, id: str, part: str) -> Utterance | None:
        """What a participant is asked, of what it has not heard; the rest it observes."""
        waiting = self.state.pending[id]
        known = None if self.recording is None else self.recording.past.questions.get(part)
        if known is None:
            await self.deliver(id, leave=1)
            return waiting.pop() if waiting else None
        # It was asked in the process before; what it heard since comes after that.
        asked = next((each for each in waiting if each.number == known), None)
        if asked is not None:
            waiting.remove(asked)
        await self.deliver(id)
        return asked

    async def _ask(
        self,
        agent: Any,
        question: Content,
        emit: Emit | None,
        place: tuple[str, int],
        **wanted: Any,
    ) -> Any:
        """What a participant gives, now or in the process before.

        Args:
            agent: the participant
            question: what it is asked
            emit: where events go
            place: which turn it is, and the number of the utterance that it is asked
            **wanted: what else it is given
        """
        recording = self.recording
        if recording is None:
            return await self._asked(agent, question, emit, wanted, {})
        part, number = place
        if getattr(agent, "_records", False):
            run = {"run_id": recording.run_id}
        else:
            run = {}
        return await recording.ask(
            part, agent, number, lambda: self._asked(agent, question, emit, wanted, run)
        )

    async def _asked(
        self,
        agent: Any,
        question: Content,
        emit: Emit | None,
        wanted: dict[str, Any],
        run: dict[str, Any],
    ) -> Any:
        if emit is None or wanted or not hasattr(agent, "stream"):
            given: Any = agent.reply(question, **wanted, **run)
            reply = await given if inspect.isawaitable(given) else given
            if emit is not None and isinstance(reply, Reply):
                await emit(Done(str(agent.id), reply))
            return reply
        reply = None
        events = agent.stream(question, **run)
        try:
            async for event in events:
                await emit(event)
                if isinstance(event, Done):
                    reply = event.reply  # those of participants of its own come before
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        return reply

    async def _speak_together(self, ids: tuple[str, ...], before: int) -> list[_Turn]:
        """Ask several participants at once. What they gave is in the order of `ids`."""
        lanes = [_Lane(self.emit) for _ in ids] if self.emit is not None else []
        tasks = [
            asyncio.create_task(
                self._speak(id, before + 1 + place, lanes[place].put if lanes else None)
            )
            for place, id in enumerate(ids)
        ]
        try:
            turns = []
            for place, task in enumerate(tasks):
                if lanes:
                    await lanes[place].open()
                turns.append(await task)
            return turns
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, turn: _Turn) -> Utterance:
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

    async def _judge(self, turns: list[_Turn]) -> None:
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
                logger.exception("whether %r is over could not be told", conversation.id)
                self._fail(f"whether it is over could not be told: {_told(error)}", error)
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
            self.hear(last=True)
            if self.recording is None or reason in ENDED:
                # Else the turn is taken again, and what came of this one is not heard.
                for id in state.agents:
                    await self.deliver(id)
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
        return self.reply("cancelled", _told(error), *self._outcome(), None)

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
        agent = self.conversation.agents[id]
        await self.deliver(id)
        turn = _Turn(id)
        self.speaking = (id,)
        try:
            place = (f"conclusion/{id}", 0)
            given = self._ask(agent, CONCLUDE, self.emit, place, schema=self.schema)
            reply = turn.reply = _checked(await _own(given))
            if reply.stop_reason not in ANSWERED:
                turn.fault = _fault(reply)
        except Exception as error:
            if self.recording is not None and isinstance(error, _NO_TURN):
                raise
            reply = None
            turn.fault = _told(error)
            self._error = error
        finally:
            self.speaking = ()
        self._keep(turn)
        if reply is None:
            return "error", f"agent {id!r} gave no outcome: {turn.fault}", text, None
        if turn.fault is not None:
            self._error = reply.error
            return reply.stop_reason, f"agent {id!r} gave no outcome: {turn.fault}", text, None
        return reason, detail, readable(reply.text), reply.value


def _fault(reply: Reply) -> str:
    """Why a reply is no answer, in words."""
    if reply.stop_reason == "error" and reply.detail:
        return reply.detail
    return f"{reply.stop_reason}: {reply.detail}" if reply.detail else str(reply.stop_reason)


def _reason(error: BaseException | None) -> StopReason:
    """Why a reply ends with this error."""
    reason: Any = "error"
    if isinstance(error, BudgetExceeded):
        reason = "deadline" if isinstance(error, DeadlineExceeded) else "budget"
    return reason  # type: ignore[no-any-return]


def _checked(reply: Any) -> Reply:
    """What a participant gave, if it is a reply.

    Raises:
        ModelError: it is none
    """
    if not isinstance(reply, Reply):
        raise ModelError(f"it gave no Reply but {type(reply).__name__}")
    if not isinstance(reply.text, str) or not isinstance(reply.steps, list):
        raise ModelError("its Reply has no text, or no list of steps")
    return reply


async def _own(given: Any) -> Any:
    """Await what is not ours.

    A cancellation that it ends with, although nobody cancelled us, is a failure like others.
    """
    if not inspect.isawaitable(given):
        return given
    try:
        return await given
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        _was_cancelled(error)


def _was_cancelled(error: BaseException) -> NoReturn:
    raise ModelError("it was cancelled from elsewhere") from error


def _as_chat(utterance: Utterance) -> dict[str, Any]:
    if utterance.speaker is None:
        return {"role": "user", "content": utterance.content}
    content = utterance.content
    if utterance.error is not None:
        content = f"(no answer: {cut(utterance.error, 500)})"
    return {"role": "assistant", "name": utterance.speaker, "content": content}


def _told(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return cut(text, 1000)
