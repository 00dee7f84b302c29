"""The participants of a conversation: what they are told, what they are asked, what they give."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from civitas.errors import JournalError, ModelError, RunMismatch
from civitas.reasoning.conversation.transcript import Content, TurnStarted, Utterance
from civitas.reasoning.events import Done
from civitas.reasoning.group import in_thread, options_for
from civitas.reasoning.prompts import cut
from civitas.reasoning.reply import ANSWERED, Reply
from civitas.reasoning.replying import told_once

if TYPE_CHECKING:
    from civitas.reasoning.conversation.conversation import Conversation
    from civitas.reasoning.conversation.recording import ConversationRecording
    from civitas.reasoning.conversation.state import ConversationState
    from civitas.reasoning.reply_request import Asked

__all__ = ["GO_ON", "Emit", "Participants", "Turn", "own", "told"]

logger = logging.getLogger("civitas.reasoning")

Emit: TypeAlias = Callable[[Any], Awaitable[None]]
"""Takes an event, and returns when the next one may come."""

GO_ON: Final = "(It is your turn again, and nobody has said anything since.)"
"""What a speaker is asked that has heard everything already."""
_CONCLUDE: Final = "(The conversation is over. Give its outcome in the form that is wanted.)"
"""What the last speaker is asked if the outcome is wanted by a schema."""

# The run cannot go on, or not by this program: no participant's failure.
_NO_TURN: Final = (JournalError, RunMismatch)


class Turn:
    """What came of asking one participant."""

    __slots__ = ("error", "fault", "handed_to", "id", "reply")

    def __init__(self, id: str) -> None:
        self.id = id
        self.reply: Reply | None = None
        self.handed_to: str | None = None
        self.fault: str | None = None
        self.error: BaseException | None = None

    def gave(self, reply: Reply) -> None:
        """The participant gave a reply, which is an answer or tells why there is none."""
        self.reply = reply
        if reply.stop_reason not in ANSWERED:
            self.fault = _fault(reply)
            self.error = reply.error


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


class Participants:
    """Tells the participants what the others said, and asks them. Everything is on their loop."""

    def __init__(
        self,
        conversation: Conversation,
        state: ConversationState,
        thread: str | None,
        recording: ConversationRecording | None = None,
        asked: Asked | None = None,
    ) -> None:
        self._conversation = conversation
        self._state = state
        self._thread = thread
        self._recording = recording
        self._works_for = asked
        self._emit: Emit | None = None if asked is None else asked.emit

    async def deliver(self, id: str, leave: int = 0) -> None:
        """Have a participant observe what it has not heard, but for the last `leave`."""
        agent = self._conversation.agents[id]
        waiting = self._state.pending[id]
        recording = self._recording
        if recording is not None:
            await recording.telling(self._state, ((id, leave),))
        once = self._conversation._as_once()
        there = in_thread(agent.observe, self._thread)
        while len(waiting) > leave:
            # Gone before it is told: what breaks off in the middle is not told twice.
            utterance = waiting.popleft()
            message = utterance.message(self._state.agents)
            try:
                if recording is not None:
                    await own(recording.tell(id, utterance, message))
                elif once is not None:
                    # One of several, of what was told as one.
                    with told_once(f"{once[0]}/{utterance.number}", once[1]):
                        await own(agent.observe(message, **there))
                else:
                    await own(agent.observe(message, **there))
            except Exception as error:
                logger.warning(
                    "participant %r of %r failed to observe what was said: %s",
                    id,
                    self._conversation.id,
                    told(error),
                )

    async def speak(self, ids: tuple[str, ...], before: int) -> list[Turn]:
        """Have participants speak, at once if there are several.

        Args:
            ids: who speaks
            before: how many turns were taken before these

        Returns:
            what they gave, in the order of `ids`
        """
        if len(ids) > 1:
            return await self._speak_together(ids, before)
        return [await self._speak(ids[0], before + 1, self._emit)]

    async def _speak(self, id: str, number: int, emit: Emit | None) -> Turn:
        state, recording = self._state, self._recording
        part = f"T{number}/{id}"
        asked = await self._question(id, part)
        question = GO_ON if asked is None else asked.heard(state.agents)
        if emit is not None:
            await emit(TurnStarted(str(self._conversation.id), id, number, *self._of()))
        turn = Turn(id)
        agent = self._conversation.agents[id]
        try:
            with self._conversation.next.speaking(state, id, agent) as handed:
                if handed is not None and recording is not None:
                    turn.handed_to = recording.past.handed.get(part)
                    handed.note = partial(recording.handed_over, part)
                place = (part, 0 if asked is None else asked.number)
                turn.gave(_checked(await own(self._ask(agent, question, emit, place))))
            if handed is not None and handed.to is not None:
                turn.handed_to = handed.to
        except Exception as error:
            if recording is not None and isinstance(error, _NO_TURN):
                raise
            logger.warning(
                "participant %r of %r failed: %s", id, self._conversation.id, told(error)
            )
            turn.error = error
            turn.fault = told(error)
        return turn

    async def _speak_together(self, ids: tuple[str, ...], before: int) -> list[Turn]:
        lanes = [_Lane(self._emit) for _ in ids] if self._emit is not None else []
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

    async def conclude(self, id: str, schema: Any) -> Turn:
        """Ask a participant for the outcome by a schema."""
        agent = self._conversation.agents[id]
        await self.deliver(id)
        turn = Turn(id)
        try:
            place = (f"conclusion/{id}", 0)
            given = self._ask(agent, _CONCLUDE, self._emit, place, schema=schema)
            turn.gave(_checked(await own(given)))
        except Exception as error:
            if self._recording is not None and isinstance(error, _NO_TURN):
                raise
            turn.error = error
            turn.fault = told(error)
        return turn

    async def _question(self, id: str, part: str) -> Utterance | None:
        """What a participant is asked, of what it has not heard; the rest it observes."""
        waiting = self._state.pending[id]
        known = None if self._recording is None else self._recording.past.questions.get(part)
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
        recording = self._recording
        run = {} if self._works_for is None else options_for(agent, self._works_for)
        if recording is None:
            return await self._asked(agent, question, emit, wanted, run)
        part, number = place
        if getattr(agent, "_records", False):
            run["run_id"] = recording.run_id
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
                await emit(Done(str(agent.id), reply, *self._of()))
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

    def _of(self) -> tuple[str | None, str | None]:
        """The run and the thread of which events are."""
        run_id = None if self._works_for is None else self._works_for.run_id
        return run_id, self._thread


def _fault(reply: Reply) -> str:
    """Why a reply is no answer, in words."""
    if reply.stop_reason == "error" and reply.detail:
        return reply.detail
    return f"{reply.stop_reason}: {reply.detail}" if reply.detail else str(reply.stop_reason)


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


async def own(given: Any) -> Any:
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


def told(error: BaseException) -> str:
    """What an error says, in a line that is not too long."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return cut(text, 1000)
