"""The messages of a space as pages get them: kept, paired with their answers, found by words."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moothall import BROADCAST
from moothall.build import guard

if TYPE_CHECKING:
    from moothall.studio.partial_answers import PartialAnswer

MESSAGES: Final = 100_000
"""How many messages are kept, the newest."""
_KEPT_CHARACTERS: Final = 32 << 20
"""How many characters of arguments are kept in all."""
_PAGE: Final = 300
"""The most messages that a page gets at once."""
_CHARACTERS: Final = 20_000
"""How many characters of a message's arguments are kept."""
_NAME: Final = 255
"""How many characters of a message's id and of its action's name are kept."""
_OPEN: Final = 10_000
"""How many unanswered messages may still find their answer."""
_MOST_WAITING: Final = 100
"""How many of what one said to another may still find their answer."""
_PART: Final = re.compile(r"(from|to|action):\s*(.*?)\s*", re.IGNORECASE)


class Head(NamedTuple):
    """Who sent a message, whom to, and the name of its action."""

    sender: str
    to: str
    action: str


@dataclass(slots=True, eq=False)
class SeenMessage:
    """A message that was seen; `answers` is the message that it answers, `args` JSON text."""

    number: int
    at: float
    head: Head
    id: str | None
    args: str
    answers: SeenMessage | None = None
    outcomes: int = 0
    failed: bool = False
    heard_by: set[str] | None = None
    run: str | None = None  # whose answer it is
    calls: tuple[str, ...] = ()  # the actions that the run called

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, as data."""
        read: dict[str, Any] = json.loads(self.args)
        return read

    def to_json(self) -> dict[str, Any]:
        """Return the message as pages get it."""
        row: dict[str, Any] = {"number": self.number, "at": self.at}
        row |= {"from": self.head.sender, "to": self.head.to}
        if self.id is not None:
            row["id"] = self.id
        row["action"] = {"name": self.head.action, "args": self.arguments}
        if (request := self.answers) is not None:
            row["answers"] = {
                "number": request.number,
                "action": request.head.action,
                "at": request.at,
            }
            row["answers"] |= {"outcomes": request.outcomes}
        if self.calls:
            row |= {"run": self.run, "calls": self.calls}
        if self.outcomes:
            row |= {"outcomes": self.outcomes, "outcome": "failed" if self.failed else "answered"}
        return row


class SpaceMessages:
    """The last messages of a space, in any thread."""

    def __init__(self) -> None:
        self._messages: deque[SeenMessage] = deque()
        self._characters = 0
        self._numbers = itertools.count(1)
        self._last = 0
        self._open_requests: dict[tuple[str | None, str, str], deque[SeenMessage]] = {}
        self._said_by_pair: dict[tuple[str, str], deque[SeenMessage]] = {}
        self._unclear: Counter[tuple[str, str]] = Counter()  # answers, to which of several
        self._heads: dict[Head, Head] = {}
        self._guard = guard()

    def add(
        self,
        message: dict[str, Any],
        at: float,
        reply: PartialAnswer | None = None,
        groups: Sequence[str] = (),
    ) -> SeenMessage:
        """Keep a message, of a reply if it answers; return it with the one that it answers.

        `groups` are those of its sender, as `#NAME`: it may answer what was said to them.
        """
        action = message["action"]
        head = Head(message["from"], message["to"], action["name"][:_NAME])
        id = (message.get("id") or "")[:_NAME] or None
        args = _short(action["args"])
        with self._guard:
            head = self._heads.setdefault(head, head)  # one for all: there are few
            seen_message = SeenMessage(next(self._numbers), at, head, id, args)
            if reply is not None and reply.calls:
                seen_message.run, seen_message.calls = reply.source.run, tuple(reply.calls)
            seen_message.answers = self._request_of(
                seen_message,
                action["args"].get("original_message_id"),
                (head.sender, BROADCAST, *groups),
            )
            if (request := seen_message.answers) is not None:
                request.outcomes += 1
                request.failed = seen_message.head.action == "error"
            self._last = seen_message.number
            self._messages.append(seen_message)
            self._characters += len(args)
            while len(self._messages) > MESSAGES or self._characters > _KEPT_CHARACTERS:
                self._characters -= len(self._messages.popleft().args)
            if len(self._heads) > 2 * MESSAGES:  # of actions that strangers invent
                self._heads = {each.head: each.head for each in self._messages}
        return seen_message

    def _request_of(
        self, message: SeenMessage, id: object, addresses: Sequence[str]
    ) -> SeenMessage | None:
        """Return the message that one answers; note one that may be answered.

        `addresses` are those by which its sender is reached.
        """
        request: SeenMessage | None = None
        if message.head.action in ("response", "error"):
            request_id = id[:_NAME] if isinstance(id, str) else None
            for to in addresses:
                if waiting := self._open_requests.get((request_id, message.head.to, to)):
                    request = waiting[0] if request_id is not None else waiting.popleft()
                    break
            if request is not None and request.heard_by is not None:
                request.heard_by.add(message.head.sender)
            return request
        key = (message.id, message.head.sender, message.head.to)
        if message.id is None:
            self._open_requests.setdefault(key, deque(maxlen=100)).append(message)
        else:
            self._open_requests[key] = deque([message])
        if len(self._open_requests) > _OPEN:
            del self._open_requests[next(iter(self._open_requests))]
        return self._request_of_say(message, addresses) if message.head.action == "say" else None

    def _request_of_say(self, message: SeenMessage, addresses: Sequence[str]) -> SeenMessage | None:
        """Return what a `say` answers: what was said to its sender, to its groups or to all.

        A `say` does not state it. If several wait for an answer of its sender, it is None: in
        threads of their own they are answered in any order. Once as many have come, none waits.
        """
        pair = message.head.sender, message.head.to
        for to in addresses:
            all = [
                (each, each.heard_by) for each in self._said_by_pair.get((message.head.to, to), ())
            ]
            waiting = [
                (each, receivers)
                for each, receivers in all
                if receivers is not None and message.head.sender not in receivers
            ]
            if not waiting:
                continue
            self._unclear[pair] += 1
            if self._unclear[pair] < len(waiting):
                return None
            del self._unclear[pair]
            for _, receivers in waiting:
                receivers.add(message.head.sender)
            return waiting[0][0] if len(waiting) == 1 else None
        message.heard_by = set()
        most = 1 if message.head.to[:1] in (BROADCAST, "#") else _MOST_WAITING
        self._said_by_pair.setdefault(pair, deque(maxlen=most)).append(message)
        if len(self._said_by_pair) > _OPEN:
            del self._said_by_pair[next(iter(self._said_by_pair))]
        return None

    def newest(self) -> Iterator[SeenMessage]:
        """Yield the messages, the newest first."""
        with self._guard:
            messages = [*self._messages]
        return reversed(messages)

    def page(self, filter: str = "", before: int = 0, after: int = 0) -> dict[str, Any]:
        """Return the newest messages that pass a filter, the oldest of them first.

        Args:
            filter: words, or `from:`, `to:` or `action:` with the beginning of a name, and then
                words; `failed` finds what failed
            before: only those before this number; 0 for all
            after: only those after this number

        Returns:
            `messages`; how many pass in all (`passing`), how many there are (`of`) and may be
            (`most`), and the number of the `last`
        """
        with self._guard:
            messages, last, heads = [*self._messages], self._last, [*self._heads]
        passing = _filtered(messages, heads, filter)
        first = bisect_right(passing, after, key=_number) if after else 0
        end = bisect_left(passing, before, key=_number) if before else len(passing)
        page_messages = passing[max(first, end - _PAGE) : end]
        counts = {"passing": len(passing), "of": len(messages), "most": MESSAGES, "last": last}
        return {"messages": [each.to_json() for each in page_messages], **counts}


def _filtered(messages: list[SeenMessage], heads: list[Head], filter: str) -> list[SeenMessage]:
    """Return the messages that pass a filter."""
    if match := _PART.fullmatch(filter):
        part, name, more = match[1].lower(), match[2], ""
        while not (good := _heads_with(heads, part, name.casefold())) and " " in name:
            name, _, word = name.rpartition(" ")  # a name may have several words
            more = f"{word} {more}"
        matching = [each for each in messages if each.head in good]
        return _filtered(matching, heads, more) if more else matching
    needle = filter.strip().casefold()
    if not needle:
        return messages
    if needle == "failed":  # as the page says it
        return [
            each
            for each in messages
            if each.failed or each.head.action == "error" or needle in each.args.casefold()
        ]
    good = {each for each in heads if needle in " ".join(each).casefold()}
    if not good:
        return [each for each in messages if needle in each.args.casefold()]
    return [each for each in messages if each.head in good or needle in each.args.casefold()]


def _heads_with(heads: list[Head], part: str, name: str) -> set[Head]:
    """Return the heads in which the name of a part begins so."""
    at = ("from", "to", "action").index(part)
    good = {each for each in heads if each[at].casefold().startswith(name)}
    if part == "to" and "all".startswith(name):
        good |= {each for each in heads if each.to == BROADCAST}
    return good


def _number(message: SeenMessage) -> int:
    return message.number


def _short(args: dict[str, Any]) -> str:
    """Return arguments as JSON text that a page can show: of long ones, each has its share."""
    text = _text(args)
    if len(text) <= _CHARACTERS:
        return text
    items = list(args.items())[:100]
    share = _CHARACTERS // len(items)
    return _text({name[:share]: _cut_value(value, share) for name, value in items})


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut_value(value: Any, max_chars: int) -> Any:
    text = value if isinstance(value, str) else _text(value)
    return value if len(text) <= max_chars else f"{text[:max_chars]} … ({len(text):,} characters)"
