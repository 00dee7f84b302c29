"""The participants of a conversation: what they are told, what they are asked, what they give."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from civitas.errors import JournalError, ModelError, RunMismatch
from civitas.reasoning.conversation.record import Told, step_of, tell
from civitas.reasoning.conversation.setup import Setup
from civitas.reasoning.conversation.state import (
    Content,
    ConversationState,
    TurnStarted,
    Utterance,
)
from civitas.reasoning.events import Done
from civitas.reasoning.group import options_for
from civitas.reasoning.prompts import cut
from civitas.reasoning.record import NULL_RECORD, Step
from civitas.reasoning.reply import ANSWERED, Reply
from civitas.reasoning.replying import joined
from civitas.reasoning.state import REPLY

if TYPE_CHECKING:
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


class Participants:
    """Tells the participants what the others said, and asks them. Everything is on their loop.

    Args:
        setup: the conversation
        state: where it stands
        thread: the thread that it belongs to
        asked: the reply that they work for; None where they are only told
        once: as which message of a run what is said is observed, if it is one
    """

    def __init__(
        self,
        setup: Setup,
        state: ConversationState,
        thread: str | None,
        asked: Asked | None = None,
        once: tuple[str, int] | None = None,
    ) -> None:
        self._setup = setup
        self._state = state
        self._thread = thread
        self._works_for = asked
        self._once = once
        self._record = state.record
        self._told = None if self._record is NULL_RECORD else Told(self._record, setup)
        self._emit: Emit | None = None if asked is None else asked.emit

    async def deliver(self, ids: Iterable[str], leave: int = 0) -> None:
        """Have participants observe what they have not heard, but for the last `leave`.

        Raises:
            JournalError: it cannot be written down that they are told
        """
        state, told_before = self._state, self._told
        if told_before is not None:
            for id in ids:
                waiting = state.pending[id]
                for place in range(len(waiting) - leave):
                    told_before.note(id, waiting[place], waiting[place].message(state.agents))
            await told_before.commit()
        for id in ids:
            waiting = state.pending[id]
            while len(waiting) > leave:
                # Gone before it is told: what breaks off in the middle is not told twice.
                utterance = waiting.popleft()
                message = utterance.message(state.agents)
                once = self._once
                if told_before is not None:
                    if (once := told_before.due(id, utterance)) is None:
                        continue
                elif once is not None:  # one of several, of what was told as one
                    once = (f"{once[0]}/{utterance.number}", once[1])
                try:
                    await own(tell(self._setup.agents[id], message, self._thread, once))
                except Exception as error:
                    logger.warning(
                        "participant %r of %r failed to observe what was said: %s",
                        id,
                        self._setup.id,
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
        if len(ids) == 1:
            return [await self._speak(ids[0], before + 1)]
        tasks = [
            asyncio.create_task(self._speak(id, number))
            for number, id in enumerate(ids, before + 1)
        ]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _speak(self, id: str, number: int) -> Turn:
        state, record = self._state, self._record
        part = f"T{number}/{id}"
        asked = await self._question(id, part)
        question = GO_ON if asked is None else asked.heard(state.agents)
        if self._emit is not None:
            await self._emit(TurnStarted(self._setup.id, id, number, *self._of()))
        turn = Turn(id)
        agent = self._setup.agents[id]
        try:
            with self._setup.next.speaking(state, id, agent) as handed:
                if handed is not None:
                    before = step_of(record, f"handed.{part}")
                    turn.handed_to = None if before is None else before.result
                    handed.note = partial(record.mark, f"handed.{part}")
                number = 0 if asked is None else asked.number
                turn.gave(await own(self._ask(agent, question, part, number)))
            if handed is not None and handed.to is not None:
                turn.handed_to = handed.to
        except Exception as error:
            self._failed(turn, error)
            logger.warning("participant %r of %r failed: %s", id, self._setup.id, told(error))
        return turn

    async def conclude(self, id: str, schema: Any) -> Turn:
        """Ask a participant for the outcome by a schema."""
        await self.deliver((id,))
        turn = Turn(id)
        try:
            agent, part = self._setup.agents[id], f"conclusion/{id}"
            turn.gave(await own(self._ask(agent, _CONCLUDE, part, 0, schema=schema)))
        except Exception as error:
            self._failed(turn, error)
        return turn

    def _failed(self, turn: Turn, error: Exception) -> None:
        """Note that a participant failed; raise what is no participant's failure."""
        if self._told is not None and isinstance(error, _NO_TURN):
            raise error
        turn.error = error
        turn.fault = told(error)

    async def _question(self, id: str, part: str) -> Utterance | None:
        """What a participant is asked, of what it has not heard; the rest it observes."""
        waiting = self._state.pending[id]
        begun = self._record.members.get(part)
        if begun is None and (past := step_of(self._record, part)) is not None:
            begun = past.about
        if begun is None:
            await self.deliver((id,), leave=1)
            return waiting.pop() if waiting else None
        # It was asked in the process before; what it heard since comes after that.
        asked = next((each for each in waiting if each.number == begun["question"]), None)
        if asked is not None:
            waiting.remove(asked)
        await self.deliver((id,))
        return asked

    async def _ask(
        self, agent: Any, question: Content, part: str, number: int, **wanted: Any
    ) -> Reply:
        """What a participant gives, now or in the process before.

        Args:
            agent: the participant
            question: what it is asked
            part: which turn it is
            number: that of the utterance that it is asked; 0 for another text
            **wanted: what else it is given
        """
        record = self._record
        options = {} if self._works_for is None else options_for(agent, self._works_for)
        if getattr(agent, "_records", False):
            if self._told is not None:
                options["run_id"] = record.run_id
            with joined(agent, record.member(part, str(agent.id), question=number)):
                return await self._asked(agent, question, wanted, options)

        async def ask_once(step: Step) -> Reply:
            await step.begins()
            return await self._asked(agent, question, wanted, options)

        reply = await record.step(part, ask_once, of=REPLY, question=number)
        await record.commit()  # before anything is made of it
        return reply

    async def _asked(
        self, agent: Any, question: Content, wanted: dict[str, Any], options: dict[str, Any]
    ) -> Reply:
        emit = self._emit
        if emit is None or wanted or not hasattr(agent, "stream"):
            given: Any = agent.reply(question, **wanted, **options)
            reply = await given if inspect.isawaitable(given) else given
            if emit is not None and isinstance(reply, Reply):
                await emit(Done(str(agent.id), reply, *self._of()))
            return _checked(reply)
        reply = None
        events = agent.stream(question, **options)
        try:
            async for event in events:
                await emit(event)
                if isinstance(event, Done):
                    reply = event.reply  # those of participants of its own come before
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        return _checked(reply)

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
