"""The messages of a space as pages get them: kept, paired with their answers, found by words."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moothall.actions.message import BROADCAST
from moothall.foundation.threads import guard

if TYPE_CHECKING:
    from moothall.studio.growing import Growth

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
_SAID: Final = 100
"""How many of what one said to another may still find their answer."""
_PART: Final = re.compile(r"(from|to|action):\s*(.*?)\s*", re.IGNORECASE)


class Head(NamedTuple):
    """Who sent a message, whom to, and the name of its action."""

    sender: str
    to: str
    action: str


@dataclass(slots=True, eq=False)
class Seen:
    """A message that was seen; `answers` is the message that it answers, `args` JSON text."""

    number: int
    at: float
    head: Head
    id: str | None
    args: str
    answers: Seen | None = None
    outcomes: int = 0
    failed: bool = False
    heard: set[str] | None = None
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
        if (asked := self.answers) is not None:
            row["answers"] = {"number": asked.number, "action": asked.head.action, "at": asked.at}
            row["answers"] |= {"outcomes": asked.outcomes}
        if self.calls:
            row |= {"run": self.run, "calls": self.calls}
        if self.outcomes:
            row |= {"outcomes": self.outcomes, "outcome": "failed" if self.failed else "answered"}
        return row


class Messages:
    """The last messages of a space, in any thread."""

    def __init__(self) -> None:
        self._kept: deque[Seen] = deque()
        self._characters = 0
        self._numbers = itertools.count(1)
        self._last = 0
        self._asked: dict[tuple[str | None, str, str], deque[Seen]] = {}
        self._said: dict[tuple[str, str], deque[Seen]] = {}
        self._unclear: Counter[tuple[str, str]] = Counter()  # answers, to which of several
        self._heads: dict[Head, Head] = {}
        self._guard = guard()

    def add(self, message: dict[str, Any], at: float, reply: Growth | None = None) -> Seen:
        """Keep a message, of a reply if it answers; return it with the one that it answers."""
        action = message["action"]
        head = Head(message["from"], message["to"], action["name"][:_NAME])
        id = (message.get("id") or "")[:_NAME] or None
        args = _short(action["args"])
        with self._guard:
            head = self._heads.setdefault(head, head)  # one for all: there are few
            seen = Seen(next(self._numbers), at, head, id, args)
            if reply is not None and reply.calls:
                seen.run, seen.calls = reply.whose.run, tuple(reply.calls)
            seen.answers = self._request_of(seen, action["args"].get("original_message_id"))
            if (asked := seen.answers) is not None:
                asked.outcomes += 1
                asked.failed = seen.head.action == "error"
            self._last = seen.number
            self._kept.append(seen)
            self._characters += len(args)
            while len(self._kept) > MESSAGES or self._characters > _KEPT_CHARACTERS:
                self._characters -= len(self._kept.popleft().args)
            if len(self._heads) > 2 * MESSAGES:  # of actions that strangers invent
                self._heads = {each.head: each.head for each in self._kept}
        return seen

    def _request_of(self, seen: Seen, id: object) -> Seen | None:
        """Return the message that one answers; note one that may be answered."""
        found: Seen | None = None
        if seen.head.action in ("response", "error"):
            of = id[:_NAME] if isinstance(id, str) else None
            for to in (seen.head.sender, BROADCAST):
                if waiting := self._asked.get((of, seen.head.to, to)):
                    found = waiting[0] if of is not None else waiting.popleft()
                    break
            if found is not None and found.heard is not None:
                found.heard.add(seen.head.sender)
            return found
        key = (seen.id, seen.head.sender, seen.head.to)
        if seen.id is None:
            self._asked.setdefault(key, deque(maxlen=100)).append(seen)
        else:
            self._asked[key] = deque([seen])
        if len(self._asked) > _OPEN:
            del self._asked[next(iter(self._asked))]
        return self._said_back(seen) if seen.head.action == "say" else None

    def _said_back(self, seen: Seen) -> Seen | None:
        """Return what a `say` answers: what was said to its sender, or to all.

        A `say` does not state it. If several wait for an answer of its sender, it is None: in
        threads of their own they are answered in any order. Once as many have come, none waits.
        """
        pair = seen.head.sender, seen.head.to
        for to in (seen.head.sender, BROADCAST):
            all = [(each, each.heard) for each in self._said.get((seen.head.to, to), ())]
            waiting = [
                (each, by) for each, by in all if by is not None and seen.head.sender not in by
            ]
            if not waiting:
                continue
            self._unclear[pair] += 1
            if self._unclear[pair] < len(waiting):
                return None
            del self._unclear[pair]
            for _, by in waiting:
                by.add(seen.head.sender)
            return waiting[0][0] if len(waiting) == 1 else None
        seen.heard = set()
        most = 1 if seen.head.to == BROADCAST else _SAID
        self._said.setdefault(pair, deque(maxlen=most)).append(seen)
        if len(self._said) > _OPEN:
            del self._said[next(iter(self._said))]
        return None

    def newest(self) -> Iterator[Seen]:
        """Yield the messages, the newest first."""
        with self._guard:
            kept = [*self._kept]
        return reversed(kept)

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
            kept, last, heads = [*self._kept], self._last, [*self._heads]
        passing = _passing(kept, heads, filter)
        first = bisect_right(passing, after, key=_number) if after else 0
        end = bisect_left(passing, before, key=_number) if before else len(passing)
        shown = passing[max(first, end - _PAGE) : end]
        counts = {"passing": len(passing), "of": len(kept), "most": MESSAGES, "last": last}
        return {"messages": [each.to_json() for each in shown], **counts}


def _passing(kept: list[Seen], heads: list[Head], filter: str) -> list[Seen]:
    """Return the messages that pass a filter."""
    if match := _PART.fullmatch(filter):
        part, name, more = match[1].lower(), match[2], ""
        while not (good := _named(heads, part, name.casefold())) and " " in name:
            name, _, word = name.rpartition(" ")  # a name may have several words
            more = f"{word} {more}"
        found = [each for each in kept if each.head in good]
        return _passing(found, heads, more) if more else found
    wanted = filter.strip().casefold()
    if not wanted:
        return kept
    if wanted == "failed":  # as the page says it
        return [
            each
            for each in kept
            if each.failed or each.head.action == "error" or wanted in each.args.casefold()
        ]
    good = {each for each in heads if wanted in " ".join(each).casefold()}
    if not good:
        return [each for each in kept if wanted in each.args.casefold()]
    return [each for each in kept if each.head in good or wanted in each.args.casefold()]


def _named(heads: list[Head], part: str, name: str) -> set[Head]:
    """Return the heads in which the name of a part begins so."""
    at = ("from", "to", "action").index(part)
    good = {each for each in heads if each[at].casefold().startswith(name)}
    if part == "to" and "all".startswith(name):
        good |= {each for each in heads if each.to == BROADCAST}
    return good


def _number(seen: Seen) -> int:
    return seen.number


def _short(args: dict[str, Any]) -> str:
    """Return arguments as JSON text that a page can show: of long ones, each has its share."""
    text = _text(args)
    if len(text) <= _CHARACTERS:
        return text
    shown = list(args.items())[:100]
    share = _CHARACTERS // len(shown)
    return _text({name[:share]: _cut(value, share) for name, value in shown})


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any, most: int) -> Any:
    text = value if isinstance(value, str) else _text(value)
    return value if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"
