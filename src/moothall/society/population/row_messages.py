"""What rows say and hear: messages as arrays; those of full agents are real messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moothall import BROADCAST, MailboxFull
from moothall.build import Delivery, Envelope
from moothall.society.arrays import Array, np
from moothall.society.columns.lists import occurrence_of
from moothall.society.columns.want_table import Say, Table
from moothall.society.kernel.draw import id_words, number_or_text, turn_keys
from moothall.society.kernel.mind import SAID_TO
from moothall.society.kernel.router import SentItem
from moothall.society.kernel.wants import AGENT_ID
from moothall.society.population.population import Population

logger: logging.Logger = logging.getLogger("moothall.society")

PARTS: Final = ("receiver", "sender", "topic", "opinion", "text")


@dataclass
class Messages:
    """Messages to rows, by receiver, as heard; −1: no topic or known text."""

    receiver: Array
    sender: Array
    topic: Array
    opinion: Array
    text: Array

    def __len__(self) -> int:
        return len(self.receiver)

    def rows_of(self, first: int, until: int) -> slice:
        """Return the slice of messages to rows `first` … `until` − 1."""
        low, high = np.searchsorted(self.receiver, [first, until])
        return slice(int(low), int(high))

    def select(self, at: object) -> Messages:
        """Return a selection of the messages."""
        return Messages(*(getattr(self, name)[at] for name in PARTS))


def split_utterances(society: Any, utterances: Table) -> Table:
    """Return what rows said to rows; send the rest, or all if somebody observes, as messages."""
    population, router = society.population, society.router
    _remember_said(society, utterances)
    to = utterances.fields["to"]
    is_real = (to < 0) | population.full[np.maximum(to, 0)]
    is_real |= bool(society.interceptors or router.observers)
    router.sent += [
        sent_message(population, utterances, at) for at in np.flatnonzero(is_real).tolist()
    ]
    fields = {name: values[~is_real] for name, values in utterances.fields.items()}
    return Table(Say, utterances.sender[~is_real], fields)


def _remember_said(society: Any, utterances: Table) -> None:
    """Have the agents of rows that remember keep what these have said."""
    population = society.population
    for at, row in enumerate(utterances.sender.tolist()) if population.remembers else ():
        # A row may have become an agent since it spoke.
        agent = population.handles.get(row) or population.agents.get(row)
        if agent is not None:
            say: Any = utterances.want(at, population)
            agent.memory.note(society.number, f"{SAID_TO}{say.to}: {say.text}")


def deliver_to_rows(
    society: Any, sent: list[SentItem], keep_earlier: bool, utterances: Table | None = None
) -> int:
    """Deliver messages to rows, besides earlier ones if `keep_earlier`; return how many."""
    population, router, books = society.population, society.router, society.books
    if len(population.agents) == len(population):
        books.messages = None
        return 0
    earlier = books.messages if keep_earlier else None
    delivered: list[SentItem] = []
    entries: list[tuple[int, int, int, int, int]] = []
    for each in sent:
        envelope = each.envelope
        to = population.find_row(envelope.to) if envelope.to != BROADCAST else -1
        if to is None or (to >= 0 and population.full[to]):
            continue
        if not population.is_given and not is_heard_in_full(population, each):
            router.sent.append(each)  # of another thread: before the next step somebody hears it
            continue
        if envelope.name != "say":
            logger.debug("%s: rows receive only what is sent by `say`", envelope)
            continue
        number = population.number_of(envelope.sender)
        entry = (number, *_numbers_of(population, envelope.args))
        rows = [to] if to >= 0 else np.flatnonzero(~population.full).tolist()
        for row in rows:
            if row != number or to >= 0:
                entries.append((row, *entry))
                delivered.append(each)
    if utterances is None and not delivered:
        if earlier is None:
            books.messages = Messages(*np.empty((len(PARTS), 0), np.int64))
        return 0
    parts = [[getattr(earlier, name) for name in PARTS]] if earlier is not None else []
    if utterances is not None:
        topic = utterances.fields["topic"]
        topic = np.where(topic <= 0, -1, topic)
        to, opinion, text = (utterances.fields[name] for name in ("to", "opinion", "text"))
        parts.append([to, utterances.sender, topic, opinion, text])
    parts.append([*np.array(entries, np.int64).reshape(-1, len(PARTS)).T])
    messages = Messages(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    count, earlier_count = len(messages) - len(delivered), len(earlier or ())
    words = np.concatenate(
        [population.ids[messages.sender[earlier_count:count]], _sender_words(population, delivered)]
    )
    turn_ranks = np.zeros(len(messages), np.uint64)  # who waits comes before all others
    turn_ranks[earlier_count:] = turn_keys(population.seed, words, society.number) // 2 + 1
    order = np.lexsort((turn_ranks, messages.receiver))
    messages = messages.select(order)
    excess = occurrence_of(messages.receiver) >= router.capacity
    for index, row in zip(order[excess].tolist(), messages.receiver[excess].tolist(), strict=True):
        if index >= count:
            refused = Delivery(delivered[index - count].envelope, delivered[index - count].kind)
            reason = f'the mailbox of "{population.id_of(row)}" is full: {router.capacity} messages'
            router.refuse(refused, MailboxFull(f"{reason} wait"))
    books.messages = messages.select(~excess) if excess.any() else messages
    return len(books.messages) - earlier_count


def is_heard_in_full(population: Population, sent: SentItem) -> bool:
    """Return whether no row that receives a message loses any of it."""
    envelope, args = sent.envelope, sent.envelope.args
    to = population.find_row(envelope.to)
    if envelope.to != BROADCAST and (to is None or population.full[to]):
        return True
    topic, opinion, text = _numbers_of(population, args)
    restored: dict[str, object] = {"content": population.words[text]} if text >= 0 else {}
    restored |= {"topic": population.words[topic], "opinion": opinion} if topic >= 0 else {}
    return sent.kind == Delivery.SEND and envelope.name == "say" and restored == args


def messages_heard(
    population: Population, row: int, messages: Sequence[dict[str, Any]]
) -> Messages:
    """Return what a full agent perceives that it was told, as messages to its row."""
    entries = [
        (row, population.number_of(each["from"]), *_numbers_of(population, each["action"]["args"]))
        for each in messages
        if each["action"]["name"] == "say"
    ]
    return Messages(*np.array(entries, np.int64).reshape(-1, len(PARTS)).T)


def messages_of(society: Any, row: int) -> list[SentItem]:
    """Return a row's messages as real messages."""
    messages: Messages | None = society.books.messages
    if messages is None:
        return []
    part = messages.select(messages.rows_of(row, row + 1))
    fields = {"to": part.receiver, "text": part.text, "topic": part.topic, "opinion": part.opinion}
    table = Table(Say, part.sender, fields)
    return [sent_message(society.population, table, entry) for entry in range(len(part))]


def sent_message(population: Population, table: Table, entry: int) -> SentItem:
    """Return what a row says as a real message."""
    say: Any = table.want(entry, population)
    sender = str(population.decode(AGENT_ID, int(table.sender[entry])))
    args = {"content": say.text or ""}
    if say.topic:
        args |= {"topic": say.topic, "opinion": say.opinion}
    return SentItem(Envelope(sender, say.to, "say", args))


def _numbers_of(population: Population, args: Mapping[str, object]) -> tuple[int, int, int]:
    """Return a message's topic, opinion and text as numbers."""
    topic, opinion = args.get("topic"), args.get("opinion")
    number = population.word_numbers.get(topic, -1) if isinstance(topic, str) and topic else -1
    if type(opinion) is not int:
        number, opinion = -1, 0
    content = args.get("content")
    text = population.word_numbers.get(content, -1) if isinstance(content, str) else -1
    return number, max(-1000, min(1000, opinion)), text


def _sender_words(population: Population, sent: Iterable[SentItem]) -> Array:
    """Return the senders as `turn_keys` takes them; uint64."""
    senders = [each.envelope.sender for each in sent]
    rows = [population.find_row(each) for each in senders]
    return id_words(
        number_or_text(id) if row is None else int(population.ids[row])
        for id, row in zip(senders, rows, strict=True)
    )
