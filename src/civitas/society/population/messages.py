"""What rows say and hear: messages as arrays; those of full agents are real messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from civitas.errors import MailboxFull
from civitas.message import BROADCAST, Envelope
from civitas.society.arrays import np
from civitas.society.population.population import Population
from civitas.society.population.wants import WHO, Say, Table, number_of
from civitas.society.router import Sent, SocietyRouter
from civitas.society.services.lists import turn_of
from civitas.spaces.delivery import Delivery

logger = logging.getLogger("civitas.society")

PARTS: Final = ("receiver", "sender", "topic", "opinion", "text")


@dataclass
class Messages:
    """Messages to rows, in the order (receiver, sender, sequence); −1: no topic or known text."""

    receiver: Any
    sender: Any
    topic: Any
    opinion: Any
    text: Any

    def __len__(self) -> int:
        return len(self.receiver)

    def rows_of(self, first: int, until: int) -> slice:
        """Return the slice of messages to rows `first` … `until` − 1."""
        low, high = np.searchsorted(self.receiver, [first, until])
        return slice(int(low), int(high))

    def taken(self, at: Any) -> Messages:
        """Return a selection of the messages."""
        return Messages(*(getattr(self, name)[at] for name in PARTS))


def row_messages(society: Any, said: Table | None) -> Table | None:
    """Return what rows said to rows; send the rest, or all if somebody observes, as messages."""
    population, router = society.population, society.router
    if said is None or population is None:
        return None
    to = said.fields["to"]
    real = (to < 0) | population.full[np.maximum(to, 0)]
    real |= bool(society._interceptors or router.observers)
    router.sent += [_sent(population, said, at) for at in np.flatnonzero(real).tolist()]
    fields = {name: values[~real] for name, values in said.fields.items()}
    return Table(Say, said.sender[~real], fields)


def deliver_to_rows(society: Any, sent: list[Sent], more: bool, said: Table | None = None) -> int:
    """Deliver messages to rows, besides earlier ones if `more`; return how many."""
    books: Any = society.books
    if society.population is None:
        return 0
    before = books.messages if more else None
    books.messages = _delivered(society.population, society.router, before, sent, said)
    return len(books.messages) - (0 if before is None else len(before))


def messages_of(society: Any, row: int) -> list[Sent]:
    """Return a row's messages as real messages."""
    messages: Messages | None = society.books.messages
    if messages is None:
        return []
    own = messages.taken(messages.rows_of(row, row + 1))
    fields = {"to": own.receiver, "text": own.text, "topic": own.topic, "opinion": own.opinion}
    table = Table(Say, own.sender, fields)
    return [_sent(society.population, table, at) for at in range(len(own))]


def _sent(population: Population, said: Table, at: int) -> Sent:
    say = said.want(at, population)
    sender = str(population.decoded(WHO, int(said.sender[at])))
    args = {"content": say.text or ""}
    if say.topic:
        args |= {"topic": say.topic, "opinion": say.opinion}
    return Sent(Envelope(sender, say.to, "say", args))


def _delivered(
    population: Population,
    router: SocietyRouter,
    before: Messages | None,
    sent: Iterable[Sent],
    said: Table | None = None,
) -> Messages:
    """Return the messages to rows, as many of each as a mailbox takes."""
    came: list[Sent] = []
    listed: list[tuple[int, int, int, int, int]] = []
    for each in sent:
        envelope = each.envelope
        to = population._row(envelope.to) if envelope.to != BROADCAST else -1
        if to is None or (to >= 0 and population.full[to]):
            continue
        if envelope.name != "say":
            logger.debug("%s: rows receive only what is sent by `say`", envelope)
            continue
        number = number_of(population, envelope.sender)
        heard = (number, *_heard(population, envelope.args))
        rows = [to] if to >= 0 else np.flatnonzero(~population.full).tolist()
        for row in rows:
            if row != number or to >= 0:
                listed.append((row, *heard))
                came.append(each)
    earlier = Messages(*np.zeros((len(PARTS), 0), np.int64)) if before is None else before
    new = Messages(*np.array(listed, np.int64).reshape(-1, len(PARTS)).T)
    if said is not None:
        to, text, topic, opinion = (
            said.fields[each] for each in ("to", "text", "topic", "opinion")
        )
        own = (to, said.sender, np.where(topic <= 0, -1, topic), opinion, text)
        new = Messages(
            *(np.concatenate([each, getattr(new, p)]) for p, each in zip(PARTS, own, strict=True))
        )
    if not len(new):
        return earlier
    count = len(new) - len(came)
    order = np.argsort(new.receiver, kind="stable")
    if came:
        rank = np.concatenate([2 * new.sender[:count], _ranks(population, came)])
        order = np.lexsort((rank, new.receiver))
    new = new.taken(order)
    if len(earlier):
        new = Messages(*(np.concatenate([getattr(earlier, p), getattr(new, p)]) for p in PARTS))
        again = np.argsort(new.receiver, kind="stable")
        order = np.concatenate([np.full(len(earlier), -1), order])[again]
        new = new.taken(again)
    over = turn_of(new.receiver) >= router.capacity
    if not over.any():
        return new
    for at, row in zip(order[over].tolist(), new.receiver[over].tolist(), strict=True):
        if at >= count:
            refused = Delivery(came[at - count].envelope, came[at - count].kind)
            full = f'the mailbox of "{population.id_of(row)}" is full: {router.capacity} messages'
            router.refuse(refused, MailboxFull(f"{full} wait"))
    return new.taken(~over)


def _heard(population: Population, args: dict[str, Any]) -> tuple[int, int, int]:
    """Return a message's topic, opinion and text as numbers."""
    topic, opinion = args.get("topic"), args.get("opinion")
    number = population._word.get(topic, -1) if isinstance(topic, str) and topic else -1
    if type(opinion) is not int:
        number, opinion = -1, 0
    content = args.get("content")
    text = population._word.get(content, -1) if isinstance(content, str) else -1
    return number, max(-1000, min(1000, opinion)), text


def _ranks(population: Population, sent: Iterable[Sent]) -> Any:
    """Return keys that sort senders in id order; a row's key is twice its number."""
    made = []
    for each in sent:
        text, number, _ = each.rank
        row = population._row(each.envelope.sender)
        if row is not None:
            made.append(2 * row)
        elif text or number >= 1 << 64:
            made.append(2 * len(population))
        else:
            made.append(2 * int(np.searchsorted(population.ids, max(0, number))) - 1)
    return np.array(made, np.int64)
