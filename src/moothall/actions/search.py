"""Actions found by words of their names, descriptions and parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from moothall.actions.capability import Action

FOUND: Final = 5
"""How many actions one search finds."""
OF_ONE_SERVER: Final = 3
"""How many of these may be of one server, as long as others match."""

_NAME, _ABOUT, _VALUES = 2.0, 1.0, 0.5  # the weights of words: of a name, what it does, its values
_MOST_PARTS: Final = 500
_MOST_CHARS: Final = 4000
_BY_NAME: Final = ("properties", "$defs")
_WITHIN: Final = ("items", "anyOf", "oneOf", "allOf", "prefixItems", "additionalProperties")
_CASES: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_.\W]+")


_KNOWN: WeakKeyDictionary[Action, tuple[Any, dict[str, float]]] = WeakKeyDictionary()
"""The words of actions, for the next index of them, as of another thread."""


class ActionIndex:
    """Finds actions, each by the words of its name, description and parameters."""

    def __init__(self, actions: Iterable[Action]) -> None:
        from moothall.foundation.text.ranking import (
            Ranking,  # its words' patterns take long to compile
        )
        from moothall.foundation.text.terms import terms

        self._actions = list(actions)
        self._terms = terms
        self._ranking = Ranking([self._words(each) for each in self._actions])

    def find(self, words: str) -> list[Action]:
        """Return the actions that match best, the best first: at most five.

        At most three are of one server, as long as others match: its descriptions are its own, so
        it could name every word.
        """
        wanted = self._terms(_parted(words))
        best = self._ranking.best({term: self._ranking.weight(term) for term in wanted})
        ranked = [self._actions[each.place] for each in best]
        ranked.sort(key=lambda each: each.name != words.strip())
        found: list[Action] = []
        others: list[Action] = []
        of: Counter[str] = Counter()
        for each in ranked:
            of[each._server] += 1
            is_over = each._server and of[each._server] > OF_ONE_SERVER
            (others if is_over else found).append(each)
        return [*found, *others][:FOUND]

    def _words(self, action: Action) -> dict[str, float]:
        """Return the words of an action by weight."""
        about = (action.description, action.parameters)
        known = _KNOWN.get(action)
        if known is not None and known[0] == about:
            return known[1]
        counts: Counter[str] = Counter()
        made: dict[str, float] = {}
        for weight, text in _texts(action):
            counts.clear()
            counts.update(self._terms(text[:_MOST_CHARS]))
            for term, count in counts.items():
                made[term] = made.get(term, 0.0) + weight * count
        _KNOWN[action] = (about, made)
        return made


def _texts(action: Action) -> Iterator[tuple[float, str]]:
    """Yield the texts of an action with their weights."""
    yield _NAME, _parted(action.name)
    yield _ABOUT, action.description
    waiting: list[Any] = [action.parameters]
    for schema in waiting:  # it grows
        if isinstance(schema, list):
            waiting += schema
        elif isinstance(schema, dict):
            if isinstance(named := schema.get("properties"), dict):
                yield _ABOUT, " ".join(map(_parted, named))
            yield _VALUES, str(schema.get("description", ""))
            if isinstance(values := schema.get("enum"), list):
                yield _VALUES, " ".join(map(str, values))
            for name in _BY_NAME:
                if isinstance(inner := schema.get(name), dict):
                    waiting += inner.values()
            waiting += [schema[name] for name in _WITHIN if name in schema]
        if len(waiting) > _MOST_PARTS:
            return


def _parted(name: str) -> str:
    """Return the words of a name: `getUser_by.id` is `get User by id`."""
    return _CASES.sub(" ", name)
