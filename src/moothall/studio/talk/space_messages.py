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

MAX_MESSAGES: Final = 100_000
"""How many messages are kept, the newest."""
_MAX_CHARACTERS: Final = 32 << 20
"""How many characters of arguments are kept in all."""
_PAGE_MESSAGES: Final = 300
"""The most messages that a page gets at once."""
_MAX_ARG_CHARS: Final = 20_000
"""How many characters of a message's arguments are kept."""
_MAX_NAME: Final = 255
"""How many characters of a message's id and of its action's name are kept."""
_MAX_OPEN: Final = 10_000
"""How many unanswered messages may still find their answer."""
_MAX_WAITING: Final = 100
"""How many of what one said to another may still find their answer."""
_FIELD_FILTER: Final = re.compile(r"(from|to|action):\s*(.*?)\s*", re.IGNORECASE)


class Head(NamedTuple):
    """Who sent a message, whom to, and the name of its action."""

    sender: str
    to: str
    action: str


@dataclass(slots=True, eq=False)
class SeenMessage:
    """A message that was seen; `request` is the message that it answers, `args` JSON text."""

    number: int
    at: float
    head: Head
    id: str | None
    args: str
    request: SeenMessage | None = None
    outcomes: int = 0
    failed: bool = False
    heard_by: set[str] | None = None
    run: str | None = None  # whose answer it is
    calls: tuple[str, ...] = ()  # the actions that the run called

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, as data."""
        args_data: dict[str, Any] = json.loads(self.args)
        return args_data

    def to_json(self) -> dict[str, Any]:
        """Return the message as pages get it."""
        row: dict[str, Any] = {"number": self.number, "at": self.at}
        row |= {"from": self.head.sender, "to": self.head.to}
        if self.id is not None:
            row["id"] = self.id
        row["action"] = {"name": self.head.action, "args": self.arguments}
        if (request := self.request) is not None:
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
        self._last_number = 0
        self._open_requests: dict[tuple[str | None, str, str], deque[SeenMessage]] = {}
        self._said_by_pair: dict[tuple[str, str], deque[SeenMessage]] = {}
        self._unclear_answers: Counter[tuple[str, str]] = Counter()  # answers, to which of several
        self._heads: dict[Head, Head] = {}
        self._lock = guard()

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
        head = Head(message["from"], message["to"], action["name"][:_MAX_NAME])
        id = (message.get("id") or "")[:_MAX_NAME] or None
        args = _args_text(action["args"])
        with self._lock:
            head = self._heads.setdefault(head, head)  # one for all: there are few
            seen_message = SeenMessage(next(self._numbers), at, head, id, args)
            if reply is not None and reply.calls:
                seen_message.run, seen_message.calls = reply.source.run, tuple(reply.calls)
            seen_message.request = self._request_of(
                seen_message,
                action["args"].get("original_message_id"),
                (head.sender, BROADCAST, *groups),
            )
            if (request := seen_message.request) is not None:
                request.outcomes += 1
                request.failed = seen_message.head.action == "error"
            self._last_number = seen_message.number
            self._messages.append(seen_message)
            self._characters += len(args)
            while len(self._messages) > MAX_MESSAGES or self._characters > _MAX_CHARACTERS:
                self._characters -= len(self._messages.popleft().args)
            if len(self._heads) > 2 * MAX_MESSAGES:  # of actions that strangers invent
                self._heads = {each.head: each.head for each in self._messages}
        return seen_message

    def _request_of(
        self, message: SeenMessage, original_id: object, addresses: Sequence[str]
    ) -> SeenMessage | None:
        """Return the message that one answers; note one that may be answered.

        `addresses` are those by which its sender is reached.
        """
        request: SeenMessage | None = None
        if message.head.action in ("response", "error"):
            request_id = original_id[:_MAX_NAME] if isinstance(original_id, str) else None
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
        if len(self._open_requests) > _MAX_OPEN:
            del self._open_requests[next(iter(self._open_requests))]
        return self._request_of_say(message, addresses) if message.head.action == "say" else None

    def _request_of_say(self, message: SeenMessage, addresses: Sequence[str]) -> SeenMessage | None:
        """Return what a `say` answers: what was said to its sender, to its groups or to all.

        A `say` does not state it. If several wait for an answer of its sender, it is None: in
        threads of their own they are answered in any order. Once as many have come, none waits.
        """
        pair = message.head.sender, message.head.to
        for to in addresses:
            candidates = [
                (each, each.heard_by) for each in self._said_by_pair.get((message.head.to, to), ())
            ]
            waiting = [
                (each, receivers)
                for each, receivers in candidates
                if receivers is not None and message.head.sender not in receivers
            ]
            if not waiting:
                continue
            self._unclear_answers[pair] += 1
            if self._unclear_answers[pair] < len(waiting):
                return None
            del self._unclear_answers[pair]
            for _, receivers in waiting:
                receivers.add(message.head.sender)
            return waiting[0][0] if len(waiting) == 1 else None
        message.heard_by = set()
        max_said = 1 if message.head.to[:1] in (BROADCAST, "#") else _MAX_WAITING
        self._said_by_pair.setdefault(pair, deque(maxlen=max_said)).append(message)
        if len(self._said_by_pair) > _MAX_OPEN:
            del self._said_by_pair[next(iter(self._said_by_pair))]
        return None

    def newest(self) -> Iterator[SeenMessage]:
        """Yield the messages, the newest first."""
        with self._lock:
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
        with self._lock:
            messages, last, heads = [*self._messages], self._last_number, [*self._heads]
        passing = _filtered(messages, heads, filter)
        start = bisect_right(passing, after, key=_number_of) if after else 0
        end = bisect_left(passing, before, key=_number_of) if before else len(passing)
        page_messages = passing[max(start, end - _PAGE_MESSAGES) : end]
        counts = {"passing": len(passing), "of": len(messages), "most": MAX_MESSAGES, "last": last}
        return {"messages": [each.to_json() for each in page_messages], **counts}


def _filtered(messages: list[SeenMessage], heads: list[Head], filter: str) -> list[SeenMessage]:
    """Return the messages that pass a filter."""
    if match := _FIELD_FILTER.fullmatch(filter):
        field, name, rest = match[1].lower(), match[2], ""
        while not (hits := _heads_with(heads, field, name.casefold())) and " " in name:
            name, _, word = name.rpartition(" ")  # a name may have several words
            rest = f"{word} {rest}"
        matching = [each for each in messages if each.head in hits]
        return _filtered(matching, heads, rest) if rest else matching
    needle = filter.strip().casefold()
    if not needle:
        return messages
    if needle == "failed":  # as the page says it
        return [
            each
            for each in messages
            if each.failed or each.head.action == "error" or needle in each.args.casefold()
        ]
    hits = {each for each in heads if needle in " ".join(each).casefold()}
    if not hits:
        return [each for each in messages if needle in each.args.casefold()]
    return [each for each in messages if each.head in hits or needle in each.args.casefold()]


def _heads_with(heads: list[Head], field: str, name: str) -> set[Head]:
    """Return the heads in which the name of a part begins so."""
    index = ("from", "to", "action").index(field)
    matches = {each for each in heads if each[index].casefold().startswith(name)}
    if field == "to" and "all".startswith(name):
        matches |= {each for each in heads if each.to == BROADCAST}
    return matches


def _number_of(message: SeenMessage) -> int:
    return message.number


def _args_text(args: dict[str, Any]) -> str:
    """Return arguments as JSON text that a page can show: of long ones, each has its share."""
    text = _json_text(args)
    if len(text) <= _MAX_ARG_CHARS:
        return text
    items = list(args.items())[:100]
    share = _MAX_ARG_CHARS // len(items)
    return _json_text({name[:share]: _cut_value(value, share) for name, value in items})


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut_value(value: Any, max_chars: int) -> Any:
    text = value if isinstance(value, str) else _json_text(value)
    return value if len(text) <= max_chars else f"{text[:max_chars]} … ({len(text):,} characters)"
