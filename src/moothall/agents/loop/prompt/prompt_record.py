"""The prompts of a run in its journal: each is recorded by what is new in it, and read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import ref

from moothall.actions.capability import Action
from moothall.foundation.jsonvalue import as_json, json_text
from moothall.journal.entry import read_list

if TYPE_CHECKING:
    from moothall.agents.loop.answer import OfferedActions
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.thread import Thread
    from moothall.journal.store.store import Store

MAX_COPIED: Final = 8
"""So many messages or utterances of earlier runs are recorded as they are."""


class PromptRecord:
    """Records the prompts of one part of a run, each without what is recorded already."""

    def __init__(self, record: Record[Any], thread: Thread) -> None:
        self._record = record
        self._thread = thread
        self._head: list[dict[str, Any]] | None = None
        self._earlier_messages: list[dict[str, Any]] = []
        self._offered: OfferedActions | None = None
        self._previous: tuple[Any, ...] = ()
        # The run's messages as the last prompt showed them, and how many the run had then.
        self._last_span: tuple[list[dict[str, Any]], int] = [], 0

    def note(
        self,
        prompt: list[dict[str, Any]],
        run_messages: list[dict[str, Any]],
        offered: OfferedActions,
        schema: dict[str, Any] | None,
        is_retry: bool = False,
        may_differ: bool = False,
    ) -> dict[str, Any]:
        """Return what to record of a call; `run_messages` are the run's messages, recorded already.

        With `is_retry`, it takes the place of what was returned last. `may_differ`: whether hooks
        or blocks may have changed messages of the prompt, also those that the last one had.
        """
        if is_retry:
            self._head, self._earlier_messages, self._offered = self._previous
        self._previous = (self._head, self._earlier_messages, self._offered)
        first = -1 if may_differ else self._first_shown(prompt, run_messages)
        first, last = (first, len(prompt)) if first >= 0 else _span_in_prompt(prompt, run_messages)
        self._last_span = prompt[first:last], len(run_messages)
        entry: dict[str, Any] = {"own": [len(run_messages) - (last - first), len(run_messages)]}
        system = int(first > 0 and prompt[0].get("role") == "system")
        head, before = prompt[:system], prompt[system:first]
        dropped = len(self._earlier_messages) - len(before)
        if head == self._head and dropped >= 0 and self._earlier_messages[dropped:] == before:
            if dropped:  # the memory is full: it has dropped the oldest
                entry["gone"] = dropped
        elif len(before) > MAX_COPIED:
            entry["earlier"] = keep_list(self._record, self._thread, before)
            entry["before"] = _json_bytes(head).decode()
        else:
            entry["before"] = _json_bytes([*head, *before]).decode()
        self._head, self._earlier_messages = head, before
        if last < len(prompt):
            entry["after"] = _json_bytes(prompt[last:]).decode()
        if offered is not self._offered:
            self._offered = offered
            tools = [
                {"name": each.name, "description": each.description, "parameters": each.parameters}
                for each in offered.actions
            ]
            # As text: the journal stores equal texts of several runs once.
            entry |= {"tools": _json_bytes(tools).decode(), "schema": schema}
        return entry

    def _first_shown(self, prompt: list[Any], run_messages: list[Any]) -> int:
        """Return where a prompt's messages of the run begin, by those of the last prompt, or -1.

        To compare the same objects costs nothing; the run's are others, if its memory is a file.
        """
        messages, count = self._last_span
        before, message_count = len(prompt) - len(run_messages) + count, len(messages)
        if message_count and prompt[before:] == run_messages[count:]:
            most = message_count if message_count < before else before
            for overlap in (most, most - 1, most - 2):
                if (
                    overlap > 0
                    and prompt[before - overlap : before] == messages[message_count - overlap :]
                ):
                    return before - overlap
        return -1


def _span_in_prompt(prompt: list[Any], run_messages: list[Any]) -> tuple[int, int]:
    """Return where in a prompt the run's last messages begin and end."""
    last, overlap = len(prompt), min(len(prompt), len(run_messages))
    if prompt[last - overlap :] == run_messages[len(run_messages) - overlap :]:
        # Mostly, they are its end.
        return last - overlap, last
    while last and prompt[last - 1] != run_messages[-1]:  # a hook may have added something
        last -= 1
    if not last:
        return len(prompt), len(prompt)
    return last - _common_end(prompt[:last], run_messages), last


# -- lists of earlier runs -------------------------------------------------------------------------


class _StoredList(NamedTuple):
    """A list as a journal has it."""

    file: ref[Store]  # another one of the same path need not have the values
    items: list[Any]
    digests: list[bytes]  # of the items
    groups: frozenset[bytes]  # the digests of its groups
    deletions: int | None  # how often values had been deleted from the file then


def keep_list(record: Record[Any], thread: Thread, items: list[Any]) -> str:
    """Keep a list of a thread's earlier runs, and return its name, for `read_list`.

    Each item is kept once by its hash, then the hashes in groups, the groups' hashes in groups, and
    so on. The hashes themselves say where a group ends: so lists share their groups, wherever they
    begin, no matter who made them. Nothing depends on what the thread knows: that saves time.
    """
    stored: _StoredList | None = thread.stored_messages
    if stored is None or stored.file() is not record.run.file:
        stored = _StoredList(ref(record.run.file), [], [], frozenset(), None)
    digests = _known_digests(stored, items)
    digests += [bytes.fromhex(record.keep(_json_bytes(each))) for each in items[len(digests) :]]
    name, groups = _group_digests(digests)
    for digest, group in groups.items():
        if digest not in stored.groups:
            record.keep(group)
    record.run.reuse_values((stored.deletions, partial(_values_by_hash, items)))

    def remember() -> None:
        group_digests = frozenset(groups)
        thread.stored_messages = _StoredList(
            stored.file, items, digests, group_digests, record.run.deletion_count
        )

    # If they do not come into the file, the next list keeps them again.
    record.after_commit(remember)
    return name


def keep_conversation(record: Record[Any], request: ReplyRequest) -> dict[str, Any]:
    """Keep the conversation that a request was given, and the actions left to the caller."""
    messages = [*(request.conversation or ())]
    tools = [
        {"name": each.name, "description": each.description, "parameters": each.parameters}
        for each in request.offered
    ]
    data: dict[str, Any] = {"tools": tools, "must_call": request.must_call} if tools else {}
    return {**data, "conversation": keep_list(record, request.state, messages) if messages else ""}


def restore_conversation(record: Record[Any], request: ReplyRequest) -> None:
    """Give the request that resumes a run the conversation with which the run began."""
    start = record.start or {}
    if request.conversation is None and "conversation" in start:
        name = start["conversation"]
        request.conversation = read_list(name, record.stored_value) if name else ()
        request.offered = tuple(Action.left_to_caller(**each) for each in start.get("tools", ()))
        request.must_call = start.get("must_call", False)


def _values_by_hash(items: list[Any]) -> dict[str, bytes]:
    """Return all that `keep_list` keeps of a list of which nothing is kept, by hash."""
    values = [_json_bytes(each) for each in items]
    digests = [sha256(value).digest() for value in values]
    _, groups = _group_digests(digests)
    pairs = (*zip(digests, values, strict=True), *groups.items())
    return {digest.hex(): value for digest, value in pairs}


def _group_digests(digests: list[bytes]) -> tuple[str, dict[bytes, bytes]]:
    """Return the name of a list whose items have these digests, and its groups by theirs."""
    by_digest: dict[bytes, bytes] = {}
    levels = 0
    while not levels or len(digests) > 1:
        groups = [b"".join(group) for group in _groups(digests)]
        digests, levels = [sha256(group).digest() for group in groups], levels + 1
        by_digest.update(zip(digests, groups, strict=True))
    return f"{levels}:{digests[0].hex()}", by_digest


def _known_digests(stored: _StoredList, items: list[Any]) -> list[bytes]:
    """Return the digests of the first items, if the last list ended with these."""
    stored_items = stored.items
    for dropped, each in enumerate(stored_items):
        if each == items[0] and stored_items[dropped:] == items[: len(stored_items) - dropped]:
            return stored.digests[dropped:]
    return []


def _groups(digests: list[bytes]) -> Iterator[list[bytes]]:
    """Yield digests in groups, each of some sixteen, and of two at least where there are two."""
    begin = 0
    for end, digest in enumerate(digests, 1):
        if (digest[-1] < 16 and end - begin > 1) or end - begin == 256:
            yield digests[begin:end]
            begin = end
    if begin < len(digests):
        yield digests[begin:]


def _json_bytes(data: Any) -> bytes:
    """Return JSON data as bytes, in the cheapest way."""
    import pydantic_core  # an agent without a journal does not load it

    try:
        return pydantic_core.to_json(data, inf_nan_mode="strings")
    except ValueError:  # something that is not JSON
        return json_text(as_json(data)).encode()


def _common_end(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return the length of the common suffix."""
    # Each item once: those of a memory in a file are copies, which are compared whole.
    pairs = zip(reversed(first), reversed(second), strict=False)
    return next(
        (n for n, (a, b) in enumerate(pairs) if a is not b and a != b), min(len(first), len(second))
    )
