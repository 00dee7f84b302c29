"""How much work a check by a JSON schema is, counted before it, since nothing can stop it.

A small schema may lead through one part of a value 2^60 times, and so may a small value through a
schema that names itself twice. So each schema is measured when it is compiled, and each value
before it is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from moothall.foundation.text import excerpt

MAX_SCHEMA: Final = 256 * 1024
"""How many characters a schema may have, as JSON."""
MAX_WORK: Final = 100_000
"""How many schemas a check may lead through for one part of a value."""
MAX_PATTERNS: Final = 200
"""How many regular expressions a schema may have."""
MAX_STEPS: Final = 2_000_000
"""How many steps a check may take; a step is less than a microsecond."""
MAX_TOLD: Final = 3_000
"""How many steps a check may take that also says what is wrong, which costs 100 times as much."""
_MAX_PAIRS: Final = 50_000
"""For so many pairs of a schema and a part of a value the steps are counted one by one."""
_MAX_CIRCLES: Final = 10_000
"""So often may a schema lead back to itself."""
_OTHER_SCHEMA: Final = 20
"""The steps that the schema of all schemas takes for each part of a value."""
_MOST_STATES: Final = 10_000
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
_TOKEN: Final = re.compile(
    r"\\[pPux]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{([0-9]{0,6}(?:,[0-9]{0,6})?)\}|[^*+?]", re.DOTALL
)
_PLAIN: Final = re.compile(r"[\w.~-]*[\w~-][\w.~-]*", re.ASCII)
_OF_SCHEMAS: Final = re.compile(r"https?://json-schema\.org/draft")
"""The addresses of the schemas of all schemas."""
_LISTED: Final = ("enum", "required", "dependentRequired", "dependencies")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_BY_NAME: Final = ("dependentSchemas", "dependencies")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_OTHER_KEYS: Final = ("additionalProperties", "unevaluatedProperties")
_OTHER_ITEMS: Final = ("items", "additionalItems", "contains", "unevaluatedItems")
_WALKS: Final = {*_OTHER_KEYS, *_OTHER_ITEMS, "uniqueItems", "patternProperties", "propertyNames"}
_PART_KEYS: Final = ("properties", "patternProperties", "prefixItems", "items", "propertyNames")


class _TooMuch(Exception):
    """More steps than are counted."""


class _Unmeasured(Exception):
    """A reference leads nowhere, or where it cannot be followed."""


@dataclass(slots=True)
class _Node:
    """What a schema costs for one part of a value.

    Attributes:
        listed: its steps without those of expressions
        weight: its steps
        share: its steps for each part within this one
        beside: the schemas that are applied to the same part
    """

    listed: int
    weight: int
    share: float
    applied: list[dict[str, Any]]


class CheckWork:
    """The measure of a schema.

    Args:
        schema: the schema, in which no two places share an object

    Attributes:
        fault: why nothing can be checked by it; empty if something can
        expressions: how many regular expressions are compiled for it
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self.fault: str = ""
        self._schema = schema
        # The schemas that `#` may mean in each schema.
        self._homes: dict[int, tuple[dict[str, Any], ...]] = {}
        self._by_id: dict[str, list[dict[str, Any]]] = {}
        self.expressions: int = 0
        self._places: dict[int, int] = {}
        self._totals: dict[int, int] = {}
        self._is_recursive = False
        self._circles = 0
        self._nodes: dict[int, _Node] = {}
        size = len(json.dumps(schema, ensure_ascii=False))
        if size > MAX_SCHEMA:
            self.fault = f"it has {size:,} characters, more than {MAX_SCHEMA:,}"
            return
        try:
            self._index(schema, (schema,))
            self._total = self._in_total(schema, set())
        except RecursionError:
            self.fault = "its references lead through too many schemas"
        except _Unmeasured as error:
            self.fault = str(error)
        except _TooMuch:
            self.fault = f"it leads through more than {MAX_WORK:,} schemas"
        if self.expressions > MAX_PATTERNS:
            self.fault = f"it has more than {MAX_PATTERNS} regular expressions"

    def allows(self, value: Any) -> bool:
        """Whether a check of a value takes few enough steps."""
        sizes: dict[int, int] = {}
        steps = self._total * _size(value, sizes)
        is_quick = steps <= MAX_STEPS and not self._is_recursive
        return is_quick or self._fits(value, MAX_STEPS, sizes)

    def tells(self, value: Any) -> bool:
        """Whether it takes few enough steps to say what is wrong in a value that `allows`."""
        sizes: dict[int, int] = {}
        _size(value, sizes)
        return self._fits(value, MAX_TOLD, sizes, telling=True)

    # -- the schema --------------------------------------------------------------------------------

    def _index(self, node: Any, homes: tuple[dict[str, Any], ...]) -> None:
        """Note what references may name, and count the expressions."""
        if isinstance(node, list):
            for each in node:
                self._index(each, homes)
        if not isinstance(node, dict):
            return
        for key in ("$id", "id"):
            if isinstance(name := node.get(key), str):
                if not name.startswith("#"):
                    homes = (*homes, node)
                    name = _last(name)
                self._by_id.setdefault(name, []).append(node)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(key), str):
                self._by_id.setdefault(f"#{name}", []).append(node)
        if node.get("$recursiveAnchor") is True:
            self._by_id.setdefault("#", []).append(node)
        self._homes[id(node)] = homes
        self.expressions += len(expressions_of(node))
        for each in node.values():
            self._index(each, homes)

    def _targets(self, node: dict[str, Any]) -> Iterator[Any]:
        """Yield all that the references of a schema may mean."""
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if not isinstance(reference := node.get(key), str):
                continue
            address, _, fragment = reference.partition("#")
            last = _last(address)
            if _OF_SCHEMAS.match(address) and last not in self._by_id:
                continue
            # Any other end may be spelled in a second way.
            is_plain = not address or ("?" not in address and _PLAIN.fullmatch(last))
            homes = self._by_id.get(last, ()) if address else self._homes[id(node)]
            targets = [*self._by_id.get("#", ())] if key == "$recursiveRef" else []
            if fragment and not fragment.startswith("/"):
                targets += self._by_id.get(f"#{fragment}", ())
            else:
                targets += (_at(home, fragment) for home in homes)
            if not is_plain or all(each is None for each in targets):
                raise _Unmeasured(
                    f"its reference {excerpt(reference)} leads nowhere in it (nothing is fetched), "
                    'or by an $id that is no plain name: put what it names under "$defs"'
                )
            yield from targets

    def _node_of(self, node: dict[str, Any]) -> _Node:
        """Return what is known of a schema."""
        if (cost := self._nodes.get(id(node))) is None:
            inner = [each for key in _LISTS for each in _list(node, key)]
            inner += [each for key in _BY_NAME for each in _dict(node, key).values()]
            inner += [*(node.get(key) for key in _SINGLE), *self._targets(node)]
            listed = sum(_size(node.get(key), {}) for key in _LISTED) // 10
            listed += 50 * isinstance(node.get("multipleOf"), float)
            factor = 2 if any(key in node for key in _UNEVALUATED) else 1
            applied = [each for each in inner if isinstance(each, dict)] * factor
            weight, share = 1 + listed + _patterns(node), 1 / (4 if _WALKS & node.keys() else 256)
            if _OF_SCHEMAS.match(str(node.get("$ref"))):
                weight, share = weight + _OTHER_SCHEMA, _OTHER_SCHEMA
            cost = self._nodes[id(node)] = _Node(1 + listed, weight, share, applied)
        return cost

    def _steps_of_part(self, node: dict[str, Any], open_ids: set[int]) -> int:
        """Return how many steps one part of a value takes, without what is in it."""
        key = id(node)
        if key in open_ids:  # a check does not follow a circle, but each way into it
            self._circles += 1
            return 0
        if key not in self._places:
            before = self._circles
            open_ids.add(key)
            cost = self._node_of(node)
            total = cost.listed + sum(self._steps_of_part(each, open_ids) for each in cost.applied)
            open_ids.discard(key)
            if total > MAX_WORK or self._circles > _MAX_CIRCLES:
                raise _TooMuch
            if self._circles > before:
                return total
            self._places[key] = total
        return self._places[key]

    def _in_total(self, node: dict[str, Any], open_ids: set[int]) -> int:
        """Return how many steps a part of a value takes with all that is in it, once each."""
        key = id(node)
        if key in open_ids:
            self._is_recursive = True
            return 0
        if key not in self._totals:
            self._steps_of_part(node, set())
            open_ids.add(key)
            cost = self._node_of(node)
            inner = (*cost.applied, *_part_schemas(node))
            self._totals[key] = cost.weight + sum(self._in_total(each, open_ids) for each in inner)
            open_ids.discard(key)
        return self._totals[key]

    # -- a value -----------------------------------------------------------------------------------

    def _fits(self, value: Any, cap: int, sizes: dict[int, int], *, telling: bool = False) -> bool:
        """Whether a check takes at most so many steps; telling, without those of expressions."""
        totals: dict[tuple[int, int], int] = {}
        within: set[tuple[int, int]] = set()
        calls = circles = 0

        def counted(node: dict[str, Any], part: Any) -> int:
            nonlocal calls, circles
            key = id(node), id(part)
            if (total := totals.get(key)) is not None:
                return total
            if key in within:
                circles += 1
                return 0
            calls, before = calls + 1, circles
            within.add(key)
            size = sizes[id(part)] if isinstance(part, dict | list) else _size(part, sizes)
            times = size if isinstance(part, str | int) else 1
            if isinstance(part, dict) and "patternProperties" in node:
                times += sum(1 + len(each) // 100 for each in part)
            node_cost = self._node_of(node)
            total = (node_cost.listed if telling else node_cost.weight) * times + int(
                size * node_cost.share
            )
            for each in node_cost.applied:
                total += counted(each, part)
                if total > cap:
                    raise _TooMuch
            for inner, piece in _applied_schemas(node, part):
                if isinstance(inner, dict):
                    total += counted(inner, piece)
            within.discard(key)
            if total > cap or calls > _MAX_PAIRS:
                raise _TooMuch
            if circles == before:
                totals[key] = total
            return total

        try:
            counted(self._schema, value)
        except (_TooMuch, RecursionError):
            return False
        return True


def expressions_of(node: dict[str, Any]) -> list[str]:
    """Return the regular expressions of a schema."""
    patterns = [*_dict(node, "patternProperties"), node.get("pattern")]
    return [each for each in patterns if isinstance(each, str)]


def _states(pattern: str) -> int:
    """Return about how many states an expression has, with what it repeats so many times."""
    if _VERBOSE.search(pattern):  # its comments could hide what is repeated
        return _MOST_STATES
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            groups.append(0)
        elif token[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token[1]:
            times = min(max(int(each or 0) for each in token[1].split(",")), _MOST_STATES)
            groups[-1] += last * max(times - 1, 0)
            last *= max(times, 1)
        else:
            last = 1
            groups[-1] += 1
    return min(sum(groups), _MOST_STATES)


def _patterns(node: dict[str, Any]) -> int:
    """Return the steps of the expressions of a schema, for 100 characters."""
    return 100 * sum(1 + _states(each) // 8 for each in expressions_of(node))


def _part_schemas(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that are applied to parts of what a schema is applied to."""
    for key in {*_PART_KEYS, *_OTHER_KEYS, *_OTHER_ITEMS}:
        inner = node.get(key)
        if isinstance(inner, dict) and key in ("properties", "patternProperties"):
            yield from (each for each in inner.values() if isinstance(each, dict))
        elif isinstance(inner, list):
            yield from (each for each in inner if isinstance(each, dict))
        elif isinstance(inner, dict):
            yield inner


def _applied_schemas(node: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the schemas that may be applied to each part of a value, each with the part."""
    if isinstance(value, dict):
        if properties := _dict(node, "properties"):
            fewer, more = (
                (properties, value) if len(properties) < len(value) else (value, properties)
            )
            yield from ((properties[key], value[key]) for key in fewer if key in more)
        if "propertyNames" in node:
            yield from ((node["propertyNames"], key) for key in value)
        schemas = [*_dict(node, "patternProperties").values(), *map(node.get, _OTHER_KEYS)]
        parts: Any = value.values()
    elif isinstance(value, list):
        yield from zip([*_list(node, "prefixItems"), *_list(node, "items")], value, strict=False)
        schemas, parts = [*map(node.get, _OTHER_ITEMS)], value
    else:
        return
    for each in schemas:
        if isinstance(each, dict):
            yield from ((each, part) for part in parts)


def _size(value: Any, sizes: dict[int, int]) -> int:
    """Return how many parts a value has; a long text or number counts as several."""
    if isinstance(value, str):
        return 1 + len(value) // 100
    if isinstance(value, int):
        return 1 + (value.bit_length() // 64) ** 2
    if isinstance(value, dict):
        size = 1 + sum(_size(each, sizes) + len(key) // 100 for key, each in value.items())
    elif isinstance(value, list):
        size = 1 + sum(_size(each, sizes) for each in value)
    else:
        return 1
    sizes[id(value)] = size
    return size


def _list(node: dict[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []


def _dict(node: dict[str, Any], key: str) -> dict[str, Any]:
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def _last(address: str) -> str:
    """Return the end of an address, by which what it names is found, however it begins."""
    return address.partition("#")[0].rstrip("/").rpartition("/")[2].rpartition(":")[2]


def _at(schema: Any, pointer: str) -> Any:
    """Return what a pointer (`/…`) names in a schema; None if it names nothing."""
    for part in pointer.split("/")[1:]:
        part = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict):
            schema = schema.get(part)
        elif isinstance(schema, list) and part.isdecimal() and len(part) < 9:
            schema = schema[int(part)] if int(part) < len(schema) else None
        else:
            return None
    return schema
