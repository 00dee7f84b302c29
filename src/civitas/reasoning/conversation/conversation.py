"""Conversations: agents that speak one after the other, or several at once, until it is over."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from civitas.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    DefinitionError,
    NotPermitted,
    StateError,
)
from civitas.journal.journal import Journal, as_journal
from civitas.jsonvalue import NotJSON, copy_json
from civitas.message import address
from civitas.models.protocol import Usage
from civitas.reasoning.asked import Asked, checked_content
from civitas.reasoning.conversation.channel import Channel
from civitas.reasoning.conversation.exchange import Exchange
from civitas.reasoning.conversation.order import Order, as_order
from civitas.reasoning.conversation.participants import Participants
from civitas.reasoning.conversation.state import ConversationState
from civitas.reasoning.conversation.termination import Condition, as_condition
from civitas.reasoning.conversation.transcript import MAX_KEPT, Content
from civitas.reasoning.conversational import ConversationalAgent
from civitas.reasoning.events import Done
from civitas.reasoning.interruption import Interruption
from civitas.reasoning.parsing import Unreadable
from civitas.reasoning.prompts import json_text
from civitas.reasoning.reply import Reply
from civitas.reasoning.resume import ENDED
from civitas.reasoning.schema import AnswerSchema
from civitas.reasoning.sharing import share_budget
from civitas.reasoning.state import opened, state

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.journal import Record
    from civitas.reasoning.conversation.recording import ConversationRecording

__all__ = ["MAX_TURNS", "Conversation"]

MAX_TURNS: Final = 20
"""How many turns one reply may have, if neither `max_turns` nor `until` says it."""
_RULES: Final = ("all", "any", "none")

_KIND = "Conversation"


class Conversation(ConversationalAgent):
    """Agents that talk with each other; itself an agent that can be talked to.

    Asked something, it has its participants speak in turn until it is over; what was said last is
    its reply. Each participant hears everything that the others say, once, in order: what was said
    before its turn it observes, and the last of it is what it is asked.

    A participant is anything with `id`, `reply` and `observe`; see `Conversational`. It may be in
    a space, in another conversation too, or be a conversation. Without `stream` its events are its
    reply alone; without `interrupt` it hears an interruption after its turn; without `state_dict`
    what it remembers is not saved with the conversation.

    With a `journal`, or as part of something that has one, a run goes on after a crash with the
    turn that was under way, as it stood after the turn before: whoever was chosen is not chosen
    anew, and what ended in that turn is not done again. A participant that keeps no record of its
    own is asked again unless its reply was recorded, and is told nothing twice.

    Args:
        agents: the participants, with different ids
        next: who speaks next: `RoundRobin()`, `ChosenBy(model)`, `HandOver()`, or a function of the
            `ConversationState`, plain or `async`, that gives a participant or its id, a list of
            these who speak at once, or None to end
        until: when it is over: a condition, or a function of the `ConversationState`; looked at
            after every turn. Without one it is over when nobody is next.
        id: its id
        max_turns: how many turns one reply may have; each speaker of several at once has one. Left
            out, it is as many as `until` admits by `MaxTurns`, or 20.
        stop_if_failed: when a turn that failed ends the reply: `all` if everyone who spoke in it
            failed, `any`, or `none`. A spent budget and a deadline end it in any case.
        max_kept: how many utterances the transcript keeps, with at most a million characters; and
            how many may wait to be heard by a participant, when replies are broken off
        budget: what the participants, and a model that chooses them, may spend together
        journal: where its replies are recorded, with what the participants do in them, so that they
            go on after a crash: a `Journal`, or the path of one
        **options: what every `Agent` takes

    Attributes:
        agents: the participants by their ids
        next: who speaks next
        until: when it is over, or None

    Raises:
        DefinitionError: an argument is none of what it may be
    """

    _records = True

    def __init__(
        self,
        agents: Iterable[Any],
        next: Order | Callable[[ConversationState], Any] | None = None,
        until: Condition | Callable[[ConversationState], Any] | None = None,
        *,
        id: str | int = "conversation",
        max_turns: int | None = None,
        stop_if_failed: Literal["all", "any", "none"] = "all",
        max_kept: int = MAX_KEPT,
        budget: Budget | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(id, **options)
        self.agents: Final = _participants(agents, id)
        self.next: Final = as_order(next)
        self.next.check(self.agents)
        self.until: Final = None if until is None else as_condition(until)
        if self.until is not None and (unknown := self.until.ids() - self.agents.keys()):
            raise DefinitionError(
                f"conversation {id!r}: until={self.until} waits for {sorted(unknown)!r:.200}, "
                "who takes no part"
            )
        if max_turns is None:
            bound = self.until.most_turns() if self.until is not None else None
            max_turns = MAX_TURNS if bound is None else bound
        for number, what in ((max_turns, "max_turns"), (max_kept, "max_kept")):
            if type(number) is not int or number < 1:
                raise DefinitionError(
                    f"conversation {id!r}: {what}= is 1 or more, not {number!r:.80}"
                )
        if stop_if_failed not in _RULES:
            raise DefinitionError(
                f"conversation {id!r}: stop_if_failed= is one of {', '.join(_RULES)}, not "
                f"{stop_if_failed!r:.80}"
            )
        self.max_turns: Final = max_turns
        self.max_kept: Final = max_kept
        self.stop_if_failed: Final = stop_if_failed
        self._state = ConversationState(self.agents, max_kept)
        self._exchange: Exchange | None = None
        self._own_budget: Budget | None = None
        self._journal = (
            None if journal is None else as_journal(journal, f"conversation {self.id!r}")
        )
        self._run: tuple[str, str] | None = None  # the key and the id of one that is not over
        self._since: list[Content] = []  # what was said to it since that was stopped
        if budget is not None:
            self.budget = budget

    @property
    def budget(self) -> Budget | None:
        """What the participants may spend together, or None."""
        return self._own_budget

    @budget.setter
    def budget(self, budget: Budget | None) -> None:
        share_budget(self, list(self.agents.values()), budget)
        self._own_budget = budget

    @property
    def journal(self) -> Journal | None:
        """Where its replies are recorded, or None."""
        return self._journal

    @property
    def state(self) -> ConversationState:
        """Where it stands: what was said, who spoke last. To be read."""
        return self._state

    @property
    def _member_agents(self) -> list[Any]:
        return list(self.agents.values())

    # -- asking it ---------------------------------------------------------------------------------

    async def reply(
        self,
        text: Content,
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> Reply:
        """Have the participants speak until it is over.

        The reply's text is what was said in the last turn; after several at once, what each of them
        said, and its value is a dict of their values by id. Its messages are what was said, its
        steps and tokens those of all participants and of the model that chose them.

        Replies wait for each other. Cancelled, it cancels whoever speaks; `resume` goes on with the
        next turn.

        Args:
            text: what is asked: a text, or blocks of content
            schema: what the value of the reply is to follow; the last speaker is asked for it,
                when the conversation is over
            thread: not for conversations: each keeps one thread
            run_id: the id of the run; a new one if left out

        Raises:
            TypeError, ValueError: it is given neither a text nor blocks
            DefinitionError: it is given a thread
            NotPermitted: a participant asks the conversation that it is speaking in
        """
        return await super().reply(text, schema, thread, run_id)

    async def resume(self, schema: Any = None) -> Reply:
        """Go on with a reply that was cancelled, or saved between two turns and loaded.

        With a journal, one that was cancelled goes on in its run, with the turn that was under way.

        Its text, value, messages and usage are of the whole reply, its steps those from now on.

        Args:
            schema: what the value of the reply is to follow; it is not saved

        Raises:
            StateError: no reply was begun that has not ended
        """
        asked = Asked("", schema)
        asked.resumed = True
        return await self._carried(asked)

    def stream(  # type: ignore[override]
        self,
        text: Content,
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> AsyncIterator[Any]:
        """Reply, and give what happens meanwhile.

        Around the events of each participant's turn are a `TurnStarted` and a `TurnEnded`. Of
        several that speak at once, the events are in the order of their list. The last event is the
        conversation's own `Done`.

        The conversation goes no further than its reader: when `TurnEnded` is looked at, it stands
        between two turns, and its state can be saved. Closing the stream cancels the reply.
        """
        return self._stream(Asked(text, schema, thread, run_id))

    async def _stream(self, asked: Asked) -> AsyncIterator[Any]:
        channel = Channel()
        asked.emit = channel.put
        task = asyncio.create_task(self._carried(asked))
        task.add_done_callback(lambda _: channel.end())
        try:
            while (event := await channel.get()) is not None:
                yield event
            yield Done(str(self.id), await task)
        finally:
            if not task.done():
                task.cancel()
                channel.close()
                await asyncio.wait((task,))
            if not task.cancelled():
                task.exception()  # looked at: who closed the stream does not want it

    def _shown_too(self, emit: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        """As any agent's, but waited for: a conversation goes no further than its reader."""

        async def both(event: Any) -> None:
            if emit is not None:
                await emit(event)
            self._tell(event)

        return both

    def interrupt(self, text: Content) -> Interruption:
        """Tell a reply under way something more, in any thread.

        Whoever speaks is interrupted; everyone else, and a speaker that cannot be interrupted,
        hears it when the turn is over. With no reply under way, the next one begins with it. A
        participant's own `interrupt` must not wait for the loop that it runs on; giving False, it
        has not taken it.
        """
        content = checked_content(text, "interrupt")
        exchange = self._exchange
        if exchange is not None and exchange.meanwhile.interrupt(content):
            heard: concurrent.futures.Future[None] = concurrent.futures.Future()
            heard.set_result(None)
            return Interruption(heard)
        self._keep(content)
        return Interruption(None)

    def _as_observed(self, message: Any) -> dict[str, Any]:
        item = super()._as_observed(message)
        checked_content(item.get("content"), "observe")
        return item

    async def _remember(self, message: dict[str, Any]) -> None:
        """Have every participant observe something; while one speaks, when its turn is over.

        Raises:
            MailboxFull: too much waits for the end of a turn already
        """
        content = checked_content(message.get("content"), "observe")
        exchange = self._exchange
        if exchange is not None and exchange.meanwhile.observe(content):
            return
        async with self._my_turn():
            now = self._state
            now.add(None, content)
            if self._run is not None:
                # Heard when that run goes on, or in the next: what waits for it stands there.
                self._since.append(content)
                return
            participants = Participants(self, now)
            for id in now.agents:
                # The next speaker of a reply to be gone on with is asked the last.
                await participants.deliver(id, leave=1 if now.open else 0)

    async def _respond(self, asked: Asked) -> Reply:
        if self._exchange is not None:
            raise NotPermitted(
                f"conversation {self.id!r} is asked by a participant that is speaking in it, and "
                "would wait for itself"
            )
        if asked.thread is not None:
            raise DefinitionError(
                f"conversation {self.id!r} keeps one thread: make a Conversation for each, of "
                "agents of its own"
            )
        if asked.schema is not None:
            AnswerSchema(asked.schema)  # refused now, and not when all has been said
        if asked.resumed and not self._state.open:
            raise StateError(
                f"conversation {self.id!r} has no reply to go on with: it has ended, or none was "
                "begun"
            )
        record = asked.record
        if record is None:
            if self._journal is None:
                self._begin(asked)
                return await self._exchanged(asked)
            if asked.resumed and self._run is not None:
                asked.run_id = self._run[1]
            task = json_text(asked.content)
            record = await self._journal.begin(asked.run_id, _KIND, str(self.id), task)
        try:
            return await self._recorded(asked, record)
        finally:
            if asked.record is None:
                record.close()

    async def _recorded(self, asked: Asked, record: Record) -> Reply:
        """Reply, and record it; or go on with what was recorded."""
        from civitas.reasoning.conversation.recording import ConversationRecording

        recording = ConversationRecording(self, record, asked)
        past = recording.past
        if past.begun is None:
            self._begin(asked)
            recording.begin(self._state)
        else:
            try:
                await recording.recall()
            except BudgetExceeded as error:
                reason: Any = "deadline" if isinstance(error, DeadlineExceeded) else "budget"
                return Reply("", "", [], [], Usage(), reason, str(error), None, asked.run_id)
            stands = recording.state()
            if past.ended:
                self._be_at(stands)
                return self._as_it_ended(past.reply(), asked.schema)
            since = self._since if self._run is not None and self._run[0] == record.key else []
            self._state = stands
            for content in (*since, *self._take_unheard()):
                stands.add(None, content)
                recording.heard(content, ())
        self._run, self._since = (record.key, record.run_id), []
        reply = await self._exchanged(asked, recording)
        if reply.stop_reason in ENDED:
            self._run = None
        return reply

    def _as_it_ended(self, reply: Reply, schema: Any) -> Reply:
        if schema is None or reply.stop_reason != "done":
            return reply
        try:  # as the type that was asked for
            return replace(reply, value=AnswerSchema(schema).read(reply.text))
        except Unreadable:
            return reply  # a terminal action gave it

    def _be_at(self, state: ConversationState) -> None:
        """Stand where a reply ended, unless this has gone further since."""
        if state.transcript.count > self._state.transcript.count:
            self._state = state

    def _program(self) -> dict[str, Any]:
        from civitas.reasoning.conversation.recording import program_of

        return program_of(self)

    async def _recall(self, record: Record) -> None:
        """Know what was said in a part of a run that is over, as the participants do."""
        from civitas.reasoning.conversation.past import ConversationPast
        from civitas.reasoning.conversation.recording import recall

        past = ConversationPast(record.run_id, record.past)
        if past.begun is not None:
            await recall(self, record, past)
            self._run = None if past.ended else (record.key, record.run_id)
            self._be_at(past.state(self.agents, self.max_kept, last=True))

    def _begin(self, asked: Asked) -> None:
        """Begin a reply, unless one goes on."""
        now = self._state
        if not asked.resumed:
            now.begin()
            for told in self._take_unheard():
                now.add(None, told)
            now.add(None, asked.content)

    async def _exchanged(
        self, asked: Asked, recording: ConversationRecording | None = None
    ) -> Reply:
        now = self._state
        if self.until is not None:
            self.until.begin(now.kept, "u")
        exchange = Exchange(self, now, asked, recording)
        self._exchange = exchange
        try:
            return await exchange.go()
        except BaseException as error:
            exchange.meanwhile.hear(last=True)
            if recording is not None:
                recording.broken_off(exchange.cut_off(error))
            raise
        finally:
            exchange.meanwhile.hear(last=True)
            self._exchange = None

    # -- saved and loaded --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that it needs to go on elsewhere, as JSON data, participants included.

        A participant without `state_dict` keeps its own counsel: it must be made anew as it was.

        Raises:
            RuntimeError: a participant is speaking; a state is of the time between two turns
            StateError: a participant's state is not JSON
        """
        exchange = self._exchange
        if exchange is not None and not exchange.between:
            raise RuntimeError(
                f"conversation {self.id!r} is in the midst of a turn: take its state between two, "
                "such as at a TurnEnded of its stream"
            )
        if exchange is not None:
            exchange.meanwhile.hear()
        participants: dict[str, Any] = {}
        for id, agent in self.agents.items():
            if hasattr(agent, "state_dict"):
                try:
                    participants[id] = copy_json(agent.state_dict())
                except NotJSON as error:
                    raise StateError(
                        f"conversation {self.id!r}: the state of {id!r} is not JSON: {error}"
                    ) from None
        return state(_KIND, conversation=self._state.to_json(), participants=participants)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take what `state_dict` gave in place of what was said so far.

        Raises:
            StateError: it is no such state, or one of other participants; nothing was taken
            Exception: what a participant raises that does not take its own; those before it have
            RuntimeError: a reply is under way
        """
        if self._exchange is not None:
            raise RuntimeError(
                f"conversation {self.id!r} is replying: load its state before or after"
            )
        data = opened(saved, _KIND)
        try:
            mine = ConversationState.from_json(
                data.get("conversation"), tuple(self.agents), self.max_kept
            )
            theirs = data.get("participants")
            if not isinstance(theirs, dict) or not theirs.keys() <= self.agents.keys():
                raise ValueError("participants names others than the participants")
            for id in theirs:
                if not hasattr(self.agents[id], "load_state_dict"):
                    raise ValueError(f"participant {id!r} has no load_state_dict")
        except ValueError as error:
            raise StateError(
                f"conversation {self.id!r} cannot go on from this state: {error}"
            ) from None
        for id, each in theirs.items():
            self.agents[id].load_state_dict(each)
        self._state = mine
        self._run, self._since = None, []


def _participants(agents: Iterable[Any], id: str | int) -> dict[str, Any]:
    """The participants by id.

    Raises:
        DefinitionError: there are none, one cannot be talked to, or two have one id
    """
    if isinstance(agents, str | dict) or not isinstance(agents, Iterable):
        raise DefinitionError(
            f"conversation {id!r}: agents= is a list of agents, not {agents!r:.80}"
        )
    found: dict[str, Any] = {}
    for agent in agents:
        missing = [n for n in ("id", "reply", "observe") if not hasattr(agent, n)]
        if missing or isinstance(agent, type):
            given = f"the class {agent.__name__}" if isinstance(agent, type) else repr(agent)[:80]
            raise DefinitionError(
                f"conversation {id!r}: a participant has id, reply and observe, and {given} has "
                f"not{' ' + ', '.join(missing) if missing else ''}"
            )
        name = address(agent.id)
        if name in found:
            raise DefinitionError(
                f"conversation {id!r}: two participants have the id {name!r}: give each its own"
            )
        found[name] = agent
    if not found:
        raise DefinitionError(f"conversation {id!r} has no participants")
    return found
