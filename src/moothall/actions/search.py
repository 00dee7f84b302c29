"""Actions found by words of their names, descriptions and parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from moothall.actions.capability import Action

MAX_MATCHES: Final = 5
"""How many actions one search finds."""
MAX_OF_SERVER: Final = 3
"""How many of these may be of one server, as long as others match."""

# The weights of words: of a name, what it does, its values.
_NAME_WEIGHT, _DESCRIPTION_WEIGHT, _VALUES_WEIGHT = (2.0, 1.0, 0.5)
_MAX_SCHEMAS: Final = 500
_MAX_CHARS: Final = 4000
_NAMED_SCHEMA_KEYS: Final = ("properties", "$defs")
_NESTED_KEYS: Final = ("items", "anyOf", "oneOf", "allOf", "prefixItems", "additionalProperties")
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_.\W]+")


_TERM_WEIGHTS: WeakKeyDictionary[Action, tuple[Any, dict[str, float]]] = WeakKeyDictionary()
"""The words of actions, for the next index of them, as of another thread."""


class ActionIndex:
    """Finds actions, each by the words of its name, description and parameters."""

    def __init__(self, actions: Iterable[Action]) -> None:
        # Its words' patterns take long to compile.
        from moothall.foundation.text.ranking import Ranking
        from moothall.foundation.text.vocabulary import Words

        self._actions = list(actions)
        self._words_class = Words
        self._ranking = Ranking([self._weighted_words(each) for each in self._actions])

    def find(self, words: str) -> list[Action]:
        """Return the actions that match best, the best first: at most five.

        At most three are of one server, as long as others match: its descriptions are its own, so
        it could name every word.
        """
        terms = self._words_class(_split_words(words)).terms()
        best = self._ranking.best({term: self._ranking.weight(term) for term in terms})
        ranked = [self._actions[each.place] for each in best]
        ranked.sort(key=lambda each: each.name != words.strip())
        matches: list[Action] = []
        surplus: list[Action] = []
        counts: Counter[str] = Counter()
        for each in ranked:
            counts[each.origin.server] += 1
            is_surplus = each.origin.server and counts[each.origin.server] > MAX_OF_SERVER
            (surplus if is_surplus else matches).append(each)
        return [*matches, *surplus][:MAX_MATCHES]

    def _weighted_words(self, action: Action) -> dict[str, float]:
        indexed_parts = (action.description, action.parameters)
        cached = _TERM_WEIGHTS.get(action)
        if cached is not None and cached[0] == indexed_parts:
            return cached[1]
        counts: Counter[str] = Counter()
        weights: dict[str, float] = {}
        for weight, text in _weighted_texts(action):
            counts.clear()
            counts.update(self._words_class(text[:_MAX_CHARS]).terms())
            for term, count in counts.items():
                weights[term] = weights.get(term, 0.0) + weight * count
        _TERM_WEIGHTS[action] = (indexed_parts, weights)
        return weights


def _weighted_texts(action: Action) -> Iterator[tuple[float, str]]:
    yield _NAME_WEIGHT, _split_words(action.name)
    yield _DESCRIPTION_WEIGHT, action.description
    schemas: list[Any] = [action.parameters]
    for schema in schemas:  # it grows
        if isinstance(schema, list):
            schemas += schema
        elif isinstance(schema, dict):
            if isinstance(properties := schema.get("properties"), dict):
                yield _DESCRIPTION_WEIGHT, " ".join(map(_split_words, properties))
            yield _VALUES_WEIGHT, str(schema.get("description", ""))
            if isinstance(values := schema.get("enum"), list):
                yield _VALUES_WEIGHT, " ".join(map(str, values))
            for name in _NAMED_SCHEMA_KEYS:
                if isinstance(inner := schema.get(name), dict):
                    schemas += inner.values()
            schemas += [schema[name] for name in _NESTED_KEYS if name in schema]
        if len(schemas) > _MAX_SCHEMAS:
            return


def _split_words(name: str) -> str:
    """Return the words of a name: `getUser_by.id` is `get User by id`."""
    return _WORD_BOUNDARY.sub(" ", name)
