"""A conversation as it is recorded in a journal, and taken up again from there."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from civitas.budget.bill import Bill
from civitas.errors import JournalError, StateError
from civitas.journal import Record
from civitas.models.protocol import Usage
from civitas.reasoning.charging import Spending, charge
from civitas.reasoning.conversation.order import Choice, NoChoice
from civitas.reasoning.conversation.past import ConversationPast
from civitas.reasoning.conversation.state import ConversationState
from civitas.reasoning.conversation.transcript import Content, TurnEnded, TurnStarted, Utterance
from civitas.reasoning.fingerprint import check, fingerprint, of_group
from civitas.reasoning.jsonform import as_json, reply_json, reply_of_json, step_json, usage_json
from civitas.reasoning.marks import Marks
from civitas.reasoning.reply import Reply, Step
from civitas.reasoning.replying import joined, told_once
from civitas.reasoning.resume import ENDED
from civitas.reasoning.schema import AnswerSchema
from civitas.reasoning.sharing import budget_of, in_thread

if TYPE_CHECKING:
    from civitas.budget import Budget
    from civitas.reasoning.asked import Asked
    from civitas.reasoning.conversation.conversation import Conversation

__all__ = ["ConversationRecording", "program_of", "recall", "replayed"]

logger = logging.getLogger("civitas.reasoning")

_MARKS = Marks()


class ConversationRecording:
    """What a conversation writes down, and what had been written before.

    Where it stands is written after each turn. Participants that can, record their own turns as
    parts of the same run; what the others reply is written when they have. What a participant is
    told is written before it is.

    Attributes:
        past: what had been recorded

    Raises:
        RunMismatch: another program began it
        StateError: what was recorded is not what this civitas writes
    """

    def __init__(self, conversation: Conversation, record: Record, asked: Asked) -> None:
        self.past = ConversationPast(record.run_id, record.past)
        self._conversation = conversation
        self._record = record
        self._asked = asked
        self._count = 0  # how many utterances were written
        self._told = {id: list(numbers) for id, numbers in self.past.told.items()}
        self._to_tell: set[tuple[str, int]] = set()  # written, and not yet told
        self._answers = sum(answers for answers, _, _ in self.past.answers)
        self._choices = len(self.past.answers)
        self._bill: Bill | None = None  # of choosing who speaks next
        self._schema = None if asked.schema is None else AnswerSchema(asked.schema).json
        self._program = fingerprint(task=asked.given, schema=self._schema)
        self._program |= program_of(conversation)
        begun = self.past.begun
        if begun is None:
            return
        program = dict(self._program)
        if asked.record is not None or asked.resumed:
            program.pop("task")  # whoever made it has recorded that, or nobody says it again
        if asked.resumed and asked.schema is None:
            program.pop("schema")
        check(record.run_id, str(conversation.id), begun["fingerprint"], program)
        if begun["fingerprint"] is None:
            record.note("begun", {**begun, "fingerprint": program})
        asked.content = begun["task"]

    @property
    def key(self) -> str:
        """What tells this part of this run from all others."""
        return self._record.key

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._record.run_id

    # -- beginning, and going on -------------------------------------------------------------------

    def begin(self, state: ConversationState) -> None:
        """Note where it begins."""
        asked = self._asked
        data = {
            "kind": "Conversation",
            "agent": str(self._conversation.id),
            "task": asked.content,
            "thread": asked.thread,
            "schema": self._schema,
            "fingerprint": self._program,
        }
        self._record.note("begun", {**data, "state": self._written(state)})

    async def recall(self) -> None:
        """Have the participants know what they did and were told.

        Raises:
            BudgetExceeded: the budget does not reach for what the run has spent already
        """
        await recall(self._conversation, self._record, self.past, self._asked.budget)
        emit: Any = self._asked.emit
        if emit is None:
            return
        id = str(self._conversation.id)
        for before, said in self.past.turns:
            for number, utterance in enumerate(said, before + 1):
                assert utterance.speaker is not None
                of = (self._asked.run_id, self._asked.thread)
                await emit(TurnStarted(id, utterance.speaker, number, *of))
                await emit(TurnEnded(id, utterance.speaker, number, utterance, *of))

    def state(self) -> ConversationState:
        """Where it goes on, or where it ended."""
        conversation = self._conversation
        found = self.past.state(conversation.agents, conversation.max_kept, self.past.ended)
        # What was heard since the last turn is written as that, not yet as part of the state.
        self._count = found.transcript.count - len(self.past.heard)
        return found

    # -- what happens ------------------------------------------------------------------------------

    def heard(self, content: Content, known_to: Sequence[str]) -> None:
        """Note what was said from outside."""
        self._record.note("heard", {"content": content, "known_to": list(known_to)})

    def choice(self, state: ConversationState) -> Choice | None:
        """Who was chosen for the next turn in the process before; None if nobody was yet.

        Raises:
            NoChoice: it could not be told
        """
        chosen, self.past.chosen = self.past.chosen, None
        if chosen is None or chosen["turn"] != state.turns + 1:
            return None
        usage = Usage(*chosen["usage"])
        if chosen["ids"] is None:
            raise NoChoice(chosen["detail"], usage, chosen["answers"])
        return Choice(tuple(chosen["ids"]), usage, chosen["detail"], chosen["answers"])

    async def choosing(self, choose: Callable[[], Awaitable[Choice]]) -> Choice:
        """Who is to speak next, as it is told now, with what telling it came to."""
        budget = self._conversation.budget
        if budget is None:
            return await choose()
        self._bill = Bill(budget)
        with self._bill.opened():
            return await choose()

    def unchosen(self) -> None:
        """Note what was charged where it could not even be told that nobody was chosen."""
        charged = self._charged()
        if charged:
            self._record.note("charged", charged)
            self._chosen()

    def chose(self, state: ConversationState, choice: Choice | NoChoice) -> None:
        """Note who speaks next; written before anybody is asked."""
        data = {
            "turn": state.turns + 1,
            "ids": None if isinstance(choice, NoChoice) else list(choice.ids),
            "detail": str(choice) if isinstance(choice, NoChoice) else choice.detail,
            "usage": usage_json(choice.usage),
            "answers": choice.answers,
        }
        self._record.note("chosen", data | self._charged())
        self._answers += choice.answers
        self._chosen()

    def _charged(self) -> dict[str, Any]:
        bill, self._bill = self._bill, None
        return {} if bill is None else {"charged": bill.json()}

    def _chosen(self) -> None:
        self._choices += 1
        model = _chooser(self._conversation)
        if model is not None:
            _MARKS.set(model, self.key, self._answers)
        budget = budget_of(self._conversation, self._asked.budget)
        for account in () if budget is None else budget._accounts:
            _MARKS.set(account, self.key, self._choices)

    async def telling(self, state: ConversationState, whom: Iterable[tuple[str, int]]) -> None:
        """Write down what participants are about to be told.

        Args:
            state: where it stands
            whom: participants, each with how many of the last utterances are left

        Raises:
            JournalError: it cannot be written
        """
        noted = False
        for id, leave in whom:
            waiting = state.pending[id]
            known = self._told.setdefault(id, [])
            for place in range(len(waiting) - leave):
                utterance = waiting[place]
                if utterance.number in known:
                    continue
                known.append(utterance.number)
                self._to_tell.add((id, utterance.number))
                message = utterance.message(state.agents)
                data = {"agent": id, "number": utterance.number, "message": message}
                self._record.note("told", data)
                noted = True
        if noted:
            await self._record.commit()

    async def tell(self, id: str, utterance: Utterance, message: dict[str, Any]) -> None:
        """Tell a participant what it was not told before."""
        if (id, utterance.number) in self._to_tell:
            self._to_tell.discard((id, utterance.number))
            place = self._told[id].index(utterance.number)
            agent = self._conversation.agents[id]
            key = self._record.part(f"told/{id}").key
            await _tell(agent, key, place, message, self._asked.thread)

    async def ask(
        self, part: str, agent: Any, question: int, ask: Callable[[], Awaitable[Any]]
    ) -> Any:
        """What a participant replies: now, or as it was recorded.

        Args:
            part: which turn it is
            agent: the participant
            question: the number of the utterance that it is asked; 0 for another text
            ask: asks it

        Raises:
            JournalError: it cannot be written
        """
        if getattr(agent, "_records", False):
            self._note_asked(part, agent, question)
            with joined(agent, self._record.part(part)):
                return await ask()
        known = self.past.replies.get(part)
        if known is not None:
            return reply_of_json(known, self.run_id)
        self._note_asked(part, agent, question)
        await self._record.commit()
        reply = await ask()
        if isinstance(reply, Reply):
            self._record.note("replied", {"part": part, "reply": reply_json(reply)})
            await self._record.commit()
        return reply

    def _note_asked(self, part: str, agent: Any, question: int) -> None:
        if part not in self.past.questions:
            self._record.note("asked", {"part": part, "agent": str(agent.id), "question": question})

    def handed_over(self, part: str, to: str) -> None:
        """Note whom was handed over to."""
        self._record.note("handed_over", {"part": part, "to": to})

    async def turned(
        self, state: ConversationState, steps: Iterable[Step], values: dict[str, Any]
    ) -> None:
        """Write down where it stands after a turn, unless that is taken again when it goes on.

        Raises:
            JournalError: it cannot be written
        """
        if state.stop is not None and state.stop[0] not in ENDED:
            return
        data = {
            "state": self._written(state),
            "steps": [step_json(each) for each in steps],
            "values": as_json(values),
        }
        self._record.note("turned", data)
        await self._record.commit()

    async def ends(self, state: ConversationState, reply: Reply) -> None:
        """Write down why it ended.

        Raises:
            JournalError: it cannot be written
        """
        self._note_over(reply, self._written(state))
        await self._record.commit()

    def broken_off(self, reply: Reply) -> None:
        """Write down that it was stopped from outside. What cannot be written is logged."""
        try:
            self._note_over(reply, None)
            self._record.commit_now()
        except JournalError:
            logger.exception(
                "conversation %r: its end is not in the journal", self._conversation.id
            )

    def _note_over(self, reply: Reply, state: dict[str, Any] | None) -> None:
        data = reply_json(reply)
        reason = data.pop("stop_reason")
        self._record.note("over", {"reason": reason, **data, "state": state})
        if not self._record.path:
            self._record.end(reason)

    def _written(self, state: ConversationState) -> dict[str, Any]:
        """The state, with what was said since the last time."""
        data = state.to_json(after=self._count)
        self._count = state.transcript.count
        data["kept"] = as_json(data["kept"])
        return data


async def recall(
    conversation: Conversation, record: Record, past: ConversationPast, budget: Budget | None
) -> None:
    """Have the participants of a conversation know what they did and were told in it.

    Those that keep no record of their own keep their own counsel.

    Raises:
        BudgetExceeded: their budget does not reach for what they have spent
    """
    asked = set()
    told: dict[str, int] = {}
    for entry in record.past:
        if entry.kind not in ("told", "asked"):
            continue
        id = entry.data["agent"]
        agent: Any = conversation.agents.get(id)
        if not getattr(agent, "_records", False):
            continue
        if entry.kind == "told":
            place = told[id] = told.get(id, -1) + 1
            message = entry.data["message"]
            try:
                thread = None if past.begun is None else past.begun["thread"]
                await _tell(agent, record.part(f"told/{id}").key, place, message, thread)
            except Exception:
                logger.exception("participant %r of %r failed to observe", id, conversation.id)
        elif entry.data["part"] not in asked:
            asked.add(entry.data["part"])
            await agent._recall(record.part(entry.data["part"]), budget)
    _recall_choices(conversation, record.key, past, budget_of(conversation, budget))


async def _tell(
    agent: Any, key: str, place: int, message: dict[str, Any], thread: str | None
) -> None:
    """Have a participant observe something, unless it has in this process.

    Args:
        agent: the participant
        key: what tells what this participant is told in this run from all else
        place: which of these messages it is
        message: it
        thread: the thread that it belongs to
    """
    if _MARKS.get(agent, key) > place:
        return
    # Before it is told: what breaks off in the middle is not told twice.
    _MARKS.set(agent, key, place + 1)
    with told_once(key, place):
        given = agent.observe(message, **in_thread(agent.observe, thread))
        if inspect.isawaitable(given):
            await given


def _recall_choices(
    conversation: Conversation, key: str, past: ConversationPast, budget: Budget | None
) -> None:
    """Have the model that chooses go on where it was, and count what it has spent."""
    answers = sum(count for count, _, _ in past.answers)
    model = _chooser(conversation)
    if not past.answers or model is None:
        return
    new = answers - _MARKS.get(model, key)
    _MARKS.set(model, key, answers)
    skip = getattr(model, "skip", None)
    if new > 0 and callable(skip):
        skip(new)
    if budget is not None:
        known = partial(_MARKS.get, run=key)
        charge(budget, model, known, len(past.answers), partial(_spent, past), _MARKS, key)


def _spent(past: ConversationPast, known: int) -> Spending:
    """What choosing took, but for the first times."""
    spent = Spending()
    for count, usage, charged in past.answers[known:]:
        spent.add(charged, usage, count)
    return spent


def _chooser(conversation: Conversation) -> Any:
    """The model that chooses who speaks next, or None."""
    return getattr(conversation.next, "model", None)


def program_of(conversation: Conversation) -> dict[str, Any]:
    """What a conversation and its participants do, whatever they are asked."""
    return of_group(
        conversation.agents.values(),
        agent=["Conversation", str(conversation.id)],
        agents=list(conversation.agents),
        next=conversation.next.described(),
        until=None if conversation.until is None else str(conversation.until),
        max_turns=conversation.max_turns,
        stop_if_failed=conversation.stop_if_failed,
    )


def replayed(part: Any) -> Reply:
    """The reply that a run ended with.

    Raises:
        StateError: it has not ended
    """
    past = ConversationPast(part.run_id, part.past)
    if past.over is None:
        raise StateError(
            f"run {part.run_id!r} has not ended: call its agent with this run_id to go on with it"
        )
    return past.reply()
