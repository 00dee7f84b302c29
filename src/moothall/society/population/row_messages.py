"""What rows say and hear: messages as arrays; those of full agents are real messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moothall import BROADCAST, MailboxFull
from moothall.build import Delivery, Envelope
from moothall.society.arrays import Array, np
from moothall.society.columns.lists import turn_of
from moothall.society.columns.want_table import Say, Table
from moothall.society.kernel.draw import id_words, number_of, turn_keys
from moothall.society.kernel.router import Sent
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


def row_messages(society: Any, utterances: Table) -> Table:
    """Return what rows said to rows; send the rest, or all if somebody observes, as messages."""
    population, router = society.population, society.router
    to = utterances.fields["to"]
    real = (to < 0) | population.full[np.maximum(to, 0)]
    real |= bool(society.interceptors or router.observers)
    router.sent += [
        sent_message(population, utterances, at) for at in np.flatnonzero(real).tolist()
    ]
    fields = {name: values[~real] for name, values in utterances.fields.items()}
    return Table(Say, utterances.sender[~real], fields)


def deliver_to_rows(
    society: Any, sent: list[Sent], more: bool, utterances: Table | None = None
) -> int:
    """Deliver messages to rows, besides earlier ones if `more`; return how many."""
    population, router, books = society.population, society.router, society.books
    if len(population.agents) == len(population):
        books.messages = None
        return 0
    before = books.messages if more else None
    came: list[Sent] = []
    listed: list[tuple[int, int, int, int, int]] = []
    for each in sent:
        envelope = each.envelope
        to = population.find_row(envelope.to) if envelope.to != BROADCAST else -1
        if to is None or (to >= 0 and population.full[to]):
            continue
        if society.in_columns and not is_heard_whole(population, each):
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
                listed.append((row, *entry))
                came.append(each)
    if utterances is None and not came:
        if before is None:
            books.messages = Messages(*np.empty((len(PARTS), 0), np.int64))
        return 0
    parts = [[getattr(before, name) for name in PARTS]] if before is not None else []
    if utterances is not None:
        topic = utterances.fields["topic"]
        topic = np.where(topic <= 0, -1, topic)
        to, opinion, text = (utterances.fields[name] for name in ("to", "opinion", "text"))
        parts.append([to, utterances.sender, topic, opinion, text])
    parts.append([*np.array(listed, np.int64).reshape(-1, len(PARTS)).T])
    new = Messages(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    count, waiting = len(new) - len(came), len(before or ())
    words = np.concatenate(
        [population.ids[new.sender[waiting:count]], _sender_words(population, came)]
    )
    turn = np.zeros(len(new), np.uint64)  # who waits comes before all others
    turn[waiting:] = turn_keys(population.seed, words, society.number) // 2 + 1
    order = np.lexsort((turn, new.receiver))
    new = new.select(order)
    exceeds = turn_of(new.receiver) >= router.capacity
    for at, row in zip(order[exceeds].tolist(), new.receiver[exceeds].tolist(), strict=True):
        if at >= count:
            refused = Delivery(came[at - count].envelope, came[at - count].kind)
            full = f'the mailbox of "{population.id_of(row)}" is full: {router.capacity} messages'
            router.refuse(refused, MailboxFull(f"{full} wait"))
    books.messages = new.select(~exceeds) if exceeds.any() else new
    return len(books.messages) - waiting


def is_heard_whole(population: Population, sent: Sent) -> bool:
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
    listed = [
        (row, population.number_of(each["from"]), *_numbers_of(population, each["action"]["args"]))
        for each in messages
        if each["action"]["name"] == "say"
    ]
    return Messages(*np.array(listed, np.int64).reshape(-1, len(PARTS)).T)


def messages_of(society: Any, row: int) -> list[Sent]:
    """Return a row's messages as real messages."""
    messages: Messages | None = society.books.messages
    if messages is None:
        return []
    part = messages.select(messages.rows_of(row, row + 1))
    fields = {"to": part.receiver, "text": part.text, "topic": part.topic, "opinion": part.opinion}
    table = Table(Say, part.sender, fields)
    return [sent_message(society.population, table, at) for at in range(len(part))]


def sent_message(population: Population, table: Table, at: int) -> Sent:
    """Return what a row says as a real message."""
    say: Any = table.want(at, population)
    sender = str(population.decoded(AGENT_ID, int(table.sender[at])))
    args = {"content": say.text or ""}
    if say.topic:
        args |= {"topic": say.topic, "opinion": say.opinion}
    return Sent(Envelope(sender, say.to, "say", args))


def _numbers_of(population: Population, args: Mapping[str, object]) -> tuple[int, int, int]:
    """Return a message's topic, opinion and text as numbers."""
    topic, opinion = args.get("topic"), args.get("opinion")
    number = population.word_numbers.get(topic, -1) if isinstance(topic, str) and topic else -1
    if type(opinion) is not int:
        number, opinion = -1, 0
    content = args.get("content")
    text = population.word_numbers.get(content, -1) if isinstance(content, str) else -1
    return number, max(-1000, min(1000, opinion)), text


def _sender_words(population: Population, sent: Iterable[Sent]) -> Array:
    """Return the senders as `turn_keys` takes them; uint64."""
    senders = [each.envelope.sender for each in sent]
    rows = [population.find_row(each) for each in senders]
    return id_words(
        number_of(id) if row is None else int(population.ids[row])
        for id, row in zip(senders, rows, strict=True)
    )
