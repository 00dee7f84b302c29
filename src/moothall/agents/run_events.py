"""The events of a run as its record has them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from moothall.agents.decision import Conclusion, HumanDecision
from moothall.agents.loop.recording import call_events
from moothall.agents.replies.events import (
    BlockEnded,
    BlockStarted,
    ConclusionReached,
    DecisionMade,
    Event,
    MessageAdded,
)
from moothall.journal.entry import Entry
from moothall.models.protocol import ReasoningPiece, TextPiece

_TURN_OF_H = re.compile(r"H\d+(\.again)?")
"""The part of a dual act's run that is a turn of its H."""


def recorded_events(entries: Sequence[Entry]) -> Iterator[Event]:
    """Yield the events of a recorded run in order, those of members' turns too.

    Pieces of text come whole, and what a step without a record has told is not there.

    Args:
        entries: those of the run, as `journal.entries` returns them
    """
    names: dict[str, str] = {}  # the agent of each part
    kinds: dict[str, str] = {}
    researchers = set()  # their parts; their steps say what their models answer
    started_calls: dict[tuple[str, str], str] = {}
    rounds: Counter[tuple[str, str]] = Counter()
    end = Entry.end_of(entries)
    for entry in entries:
        data, path = entry.data, entry.path
        author = names.get(path, path)
        details = data.get("about", {})
        if entry.kind == "state":
            yield from _events_of_items(author, path, data["appended"], rounds)
        elif entry.kind == "begun":
            names[path], kinds[path] = data["agent"], data["kind"]
            if data["kind"] == "Researcher":
                researchers.add(path)
        elif entry is end and "progress" in data:
            # From the turn in which the run stopped.
            lists = ("conclusions", "decisions")
            new_items = {name: data["progress"][name][rounds[path, name] :] for name in lists}
            yield from _events_of_items(author, path, new_items, rounds)
        elif entry.kind == "ended" and path in researchers and "iteration" not in details:
            iteration, _, block = data["key"].partition(".")
            if "model" not in details:
                yield BlockStarted(author, block, int(iteration))
                yield BlockEnded(author, block, int(iteration), data["result"])
        elif entry.kind == "ended" and "model" in details:
            answer = data["result"]
            for piece, name in ((ReasoningPiece, "reasoning"), (TextPiece, "text")):
                if isinstance(text := answer.get(name), str) and text:
                    yield piece(text, author, decides=_decides(path, kinds))
        else:
            for event, *parts in call_events(author, entry, started_calls):
                yield event(*parts)


def _decides(path: str, kinds: dict[str, str]) -> bool:
    """Return whether a part is a turn of a dual act's H, or lies in one, as its stream says."""
    parts = path.split("/")
    return any(
        kinds.get("/".join(parts[:depth])) == "DualActAgent" and _TURN_OF_H.fullmatch(part)
        for depth, part in enumerate(parts)
    )


def _events_of_items(
    author: str, path: str, new_items: dict[str, Any], rounds: Counter[tuple[str, str]]
) -> Iterator[Event]:
    """Yield the events of what a state adds."""
    for message in new_items.get("messages", ()):
        yield MessageAdded(author, message)
    for data in new_items.get("conclusions", ()):
        rounds[path, "conclusions"] += 1
        yield ConclusionReached(author, rounds[path, "conclusions"], Conclusion(**data))
    for data in new_items.get("decisions", ()):
        rounds[path, "decisions"] += 1
        yield DecisionMade(author, rounds[path, "decisions"], HumanDecision.from_json(data))
