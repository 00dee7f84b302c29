"""The long results of a thread's calls, by number: what a model may read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moothall.actions import Action
from moothall.actions.capability import ActionOrigin
from moothall.actions.provenance import reading
from moothall.actions.signature.schema import object_schema
from moothall.foundation.errors import ConfigError, JournalError
from moothall.foundation.text.pages import line_range, lines_of, matching_page, matching_pages, page

READ_RESULT: Final = "read_result"
"""The action by which a model reads a result again."""
RESULT_KEY: Final = "result"
"""The key of a tool message with the number of its result, and its hash in a journal.

The hash is None if the message has the whole result, and empty if nothing but the thread has it."""
LEAST_CHARS: Final = 300
"""A shorter result has no number: a line in its place would be no shorter."""

_MAX_KEPT_CHARS: Final = 16_000_000
"""How many characters of results a thread keeps that no journal has."""
_MAX_INLINE_CHARS: Final = 2000
"""A journal stores longer texts by their hashes in any case."""
_DESCRIPTION: Final = (
    "Read a result of an earlier call again, by its number: the beginning, or the lines that are "
    "named, or those that match words. Without a number, words are looked for in all results. A "
    "line of more than 500 characters counts as several."
)
_MAX_SEARCHED_CHARS: Final = 4_000_000
"""In how many characters words are looked for, the newest results first."""


@dataclass(slots=True)
class _StoredResult:
    name: str  # of the action
    text: str | None  # None if the journal has it, or if it is not kept any more
    hash: str | None
    arguments: str  # the arguments of the call
    sources: Sequence[str]  # where it comes from, if from outside


def number_of(message: dict[str, Any]) -> int | None:
    """Return the number of the result in a message, if it has one."""
    mark = message.get(RESULT_KEY)
    return mark[0] if isinstance(mark, list) and len(mark) in (2, 3) else None


def cleared_result(message: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    """Return a message with a line in the place of its result, and of those from `first` on."""
    subject, hint = f"Result {last} is", f"{READ_RESULT}({last}) shows it"
    if first < last:
        subject, hint = (
            f"Results {first} to {last} are",
            f"{READ_RESULT} shows one, by its number, or finds words in all",
        )
    line = f"[{subject} not shown any more: {hint}]"
    return {**message, "content": line, RESULT_KEY: [last, message[RESULT_KEY][1], first]}


def is_cleared(message: dict[str, Any]) -> bool:
    """Return whether a message has a line in the place of its result."""
    return len(message.get(RESULT_KEY, ())) == 3


def range_of(message: dict[str, Any]) -> tuple[int, int]:
    """Return which results a line stands for: the first and the last."""
    last, _, first = message[RESULT_KEY]
    return first, last


class ThreadResults:
    """The results of one thread, by number from 1."""

    def __init__(self) -> None:
        self.count: int = 0
        self.page_chars: int = 20_000  # how many characters are read at once
        # Reads a value of the journal by its hash.
        self.read_value: Callable[[str], bytes] | None = None
        self._results: dict[int, _StoredResult] = {}
        self._size = 0
        schema = object_schema(
            number={"type": "integer", "description": "the number of one result"},
            lines={"type": "string", "description": 'which lines, such as "120-180"'},
            words={"type": "string", "description": "words to search the lines for"},
        )
        schema["required"] = []
        self.action: Action = Action.unchecked(
            READ_RESULT, self._read_result, _DESCRIPTION, schema, idempotent=True
        )
        self.action.origin = ActionOrigin(may_return_arguments=False)

    def copy(self) -> ThreadResults:
        """Return what begins with the same results, for a conversation that begins with these."""
        results = ThreadResults()
        results.count, results._size = self.count, self._size
        results._results = {number: replace(each) for number, each in self._results.items()}
        return results

    def add(
        self,
        name: str,
        text: str,
        sources: Sequence[str],
        is_whole: bool,
        keep: Callable[[bytes], str] | None,
        arguments: str = "",
    ) -> list[Any]:
        """Give a result the next number; return the mark of its message.

        `is_whole`: whether the message has all of it; `keep` stores a value in the journal.
        """
        self.count += 1
        hash = None if is_whole else ""
        if keep is not None and (len(text) > _MAX_INLINE_CHARS or not is_whole):
            hash = keep(text.encode("utf-8", "surrogatepass"))
        self._put(self.count, _StoredResult(name, None if hash else text, hash, arguments, sources))
        return [self.count, hash]

    def mark(self, number: Any) -> list[Any] | None:
        """Return the mark of a message with a part of a result, or None."""
        result = self._results.get(number)
        return None if result is None else [number, result.hash]

    def restore(self, message: dict[str, Any], sources: Sequence[str], arguments: str = "") -> None:
        """Take a result from a message, as an earlier process has remembered it.

        `arguments` are those of its call.
        """
        number = number_of(message)
        if number is None or number in self._results:
            return
        hash, content = message[RESULT_KEY][1], message.get("content")
        has_text = hash is None and isinstance(content, str) and not is_cleared(message)
        text = content if has_text else None
        self._put(
            number, _StoredResult(str(message.get("name", "")), text, hash, arguments, sources)
        )
        self.count = max(self.count, number)

    def _put(self, number: int, result: _StoredResult) -> None:
        self._results[number] = result
        self._size += len(result.text or "")
        if self._size > _MAX_KEPT_CHARS:
            for each in self._results.values():
                if each is not result and each.text is not None:
                    self._size -= len(each.text)
                    each.text = None
                    if self._size <= _MAX_KEPT_CHARS:
                        break

    def _read_result(self, number: int | None = None, lines: str = "", words: str = "") -> str:
        if number is None:
            return self._find(words)
        result = self._results.get(number)
        if result is None:
            range_text = f"they are 1 to {self.count}" if self.count else "there is none yet"
            raise ConfigError(f"there is no result {number} in this conversation: {range_text}")
        reading.add_sources(result.sources)
        text = self._text(number, result)
        all_lines = lines_of(text, self.page_chars)
        indexes = line_range(lines, len(all_lines)) if lines.strip() else range(len(all_lines))
        if words.strip():
            return matching_page(all_lines, indexes, words, self.page_chars)
        return page(all_lines, indexes, self.page_chars)

    def _find(self, words: str) -> str:
        if not words.strip():
            raise ConfigError("give the number of a result, or words to look for in all results")
        texts: list[tuple[str, list[str]]] = []
        results, remaining = list[_StoredResult](), _MAX_SEARCHED_CHARS
        for number in sorted(self._results, reverse=True):
            result = self._results[number]
            try:
                text = self._text(number, result)
            except ConfigError:  # it is not kept any more; its call may say what it was
                text = ""
            if (remaining := remaining - len(text)) < 0 and texts:
                break
            title = f"result {number}, {result.name} {result.arguments}".rstrip()
            texts.append((title, lines_of(text, self.page_chars)))
            results.append(result)
        found_text, indexes = matching_pages(texts, words, self.page_chars)
        for index in indexes:
            reading.add_sources(results[index].sources)
        return found_text

    def _text(self, number: int, result: _StoredResult) -> str:
        if result.text is not None:
            return result.text
        if not result.hash:
            raise ConfigError(
                f"result {number} is not kept any more: without a journal a conversation keeps its "
                f"last {_MAX_KEPT_CHARS // 1_000_000} million characters; call {result.name} again"
            )
        try:
            data = None if self.read_value is None else self.read_value(result.hash)
        except JournalError:
            data = None
        if data is None:
            raise ConfigError(
                f"result {number} is in no journal any more: call {result.name} again"
            )
        return data.decode("utf-8", "surrogatepass")
