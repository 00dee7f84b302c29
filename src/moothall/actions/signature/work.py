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

MAX_SCHEMA_CHARS: Final = 256 * 1024
"""How many characters a schema may have, as JSON."""
MAX_WORK: Final = 100_000
"""How many schemas a check may lead through for one part of a value."""
MAX_PATTERNS: Final = 200
"""How many regular expressions a schema may have."""
MAX_STEPS: Final = 2_000_000
"""How many steps a check may take; a step is less than a microsecond."""
MAX_TELLING_STEPS: Final = 3_000
"""How many steps a check may take that also says what is wrong, which costs 100 times as much."""
_MAX_PAIRS: Final = 50_000
"""For so many pairs of a schema and a part of a value the steps are counted one by one."""
_MAX_CIRCLES: Final = 10_000
"""So often may a schema lead back to itself."""
_META_SCHEMA_STEPS: Final = 20
"""The steps that the schema of all schemas takes for each part of a value."""
_MAX_STATES: Final = 10_000
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
_TOKEN: Final = re.compile(
    r"\\[pPux]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{([0-9]{0,6}(?:,[0-9]{0,6})?)\}|[^*+?]", re.DOTALL
)
_PLAIN: Final = re.compile(r"[\w.~-]*[\w~-][\w.~-]*", re.ASCII)
_META_SCHEMA: Final = re.compile(r"https?://json-schema\.org/draft")
"""The addresses of the schemas of all schemas."""
_LISTED_KEYS: Final = ("enum", "required", "dependentRequired", "dependencies")
_SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE_SCHEMAS: Final = ("not", "if", "then", "else")
_SCHEMAS_BY_NAME: Final = ("dependentSchemas", "dependencies")
_UNEVALUATED_KEYS: Final = ("unevaluatedProperties", "unevaluatedItems")
_OTHER_KEYS: Final = ("additionalProperties", "unevaluatedProperties")
_OTHER_ITEMS: Final = ("items", "additionalItems", "contains", "unevaluatedItems")
_WALKING_KEYS: Final = {
    *_OTHER_KEYS,
    *_OTHER_ITEMS,
    "uniqueItems",
    "patternProperties",
    "propertyNames",
}
_PART_KEYS: Final = ("properties", "patternProperties", "prefixItems", "items", "propertyNames")


class _TooManySteps(Exception):
    """More steps than are counted."""


class _UnresolvedReference(Exception):
    """A reference leads nowhere, or where it cannot be followed."""


@dataclass(slots=True)
class _NodeCost:
    """What a schema costs for one part of a value.

    Attributes:
        listed_steps: its steps without those of expressions
        steps: all of them
        steps_per_part: its steps for each part within this one
        applied_schemas: the schemas that are applied to the same part
    """

    listed_steps: int
    steps: int
    steps_per_part: float
    applied_schemas: list[dict[str, Any]]


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
        self._roots_by_node: dict[int, tuple[dict[str, Any], ...]] = {}
        self._by_id: dict[str, list[dict[str, Any]]] = {}
        self.expressions: int = 0
        self._steps_by_node: dict[int, int] = {}
        self._totals_by_node: dict[int, int] = {}
        self._is_recursive = False
        self._circle_count = 0
        self._nodes: dict[int, _NodeCost] = {}
        size = len(json.dumps(schema, ensure_ascii=False))
        if size > MAX_SCHEMA_CHARS:
            self.fault = f"it has {size:,} characters, more than {MAX_SCHEMA_CHARS:,}"
            return
        try:
            self._index(schema, (schema,))
            self._total = self._total_steps(schema, set())
        except RecursionError:
            self.fault = "its references lead through too many schemas"
        except _UnresolvedReference as error:
            self.fault = str(error)
        except _TooManySteps:
            self.fault = f"it leads through more than {MAX_WORK:,} schemas"
        if self.expressions > MAX_PATTERNS:
            self.fault = f"it has more than {MAX_PATTERNS} regular expressions"

    def allows(self, value: Any) -> bool:
        """Whether a check of a value takes few enough steps."""
        sizes: dict[int, int] = {}
        steps = self._total * _size(value, sizes)
        is_quick = steps <= MAX_STEPS and not self._is_recursive
        return is_quick or self._fits(value, MAX_STEPS, sizes)

    def can_tell(self, value: Any) -> bool:
        """Whether it takes few enough steps to say what is wrong in a value that `allows`."""
        sizes: dict[int, int] = {}
        _size(value, sizes)
        return self._fits(value, MAX_TELLING_STEPS, sizes, telling=True)

    # -- the schema --------------------------------------------------------------------------------

    def _index(self, node: Any, roots: tuple[dict[str, Any], ...]) -> None:
        """Note what references may name, and count the expressions."""
        if isinstance(node, list):
            for each in node:
                self._index(each, roots)
        if not isinstance(node, dict):
            return
        for key in ("$id", "id"):
            if isinstance(name := node.get(key), str):
                if not name.startswith("#"):
                    roots = (*roots, node)
                    name = _address_end(name)
                self._by_id.setdefault(name, []).append(node)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(key), str):
                self._by_id.setdefault(f"#{name}", []).append(node)
        if node.get("$recursiveAnchor") is True:
            self._by_id.setdefault("#", []).append(node)
        self._roots_by_node[id(node)] = roots
        self.expressions += len(expressions_of(node))
        for each in node.values():
            self._index(each, roots)

    def _targets(self, node: dict[str, Any]) -> Iterator[Any]:
        """Yield all that the references of a schema may mean."""
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if not isinstance(reference := node.get(key), str):
                continue
            address, _, fragment = reference.partition("#")
            last = _address_end(address)
            if _META_SCHEMA.match(address) and last not in self._by_id:
                continue
            # Any other end may be spelled in a second way.
            is_plain = not address or ("?" not in address and _PLAIN.fullmatch(last))
            roots = self._by_id.get(last, ()) if address else self._roots_by_node[id(node)]
            targets = [*self._by_id.get("#", ())] if key == "$recursiveRef" else []
            if fragment and not fragment.startswith("/"):
                targets += self._by_id.get(f"#{fragment}", ())
            else:
                targets += (_resolve_pointer(home, fragment) for home in roots)
            if not is_plain or all(each is None for each in targets):
                raise _UnresolvedReference(
                    f"its reference {excerpt(reference)} leads nowhere in it (nothing is fetched), "
                    'or by an $id that is no plain name: put what it names under "$defs"'
                )
            yield from targets

    def _cost_of(self, node: dict[str, Any]) -> _NodeCost:
        """Return what is known of a schema."""
        if (cost := self._nodes.get(id(node))) is None:
            inner = [each for key in _SCHEMA_LISTS for each in _list_at(node, key)]
            inner += [each for key in _SCHEMAS_BY_NAME for each in _dict_at(node, key).values()]
            inner += [*(node.get(key) for key in _SINGLE_SCHEMAS), *self._targets(node)]
            listed = sum(_size(node.get(key), {}) for key in _LISTED_KEYS) // 10
            listed += 50 * isinstance(node.get("multipleOf"), float)
            factor = 2 if any(key in node for key in _UNEVALUATED_KEYS) else 1
            applied = [each for each in inner if isinstance(each, dict)] * factor
            weight, share = (
                1 + listed + _pattern_steps(node),
                1 / (4 if _WALKING_KEYS & node.keys() else 256),
            )
            if _META_SCHEMA.match(str(node.get("$ref"))):
                weight, share = weight + _META_SCHEMA_STEPS, _META_SCHEMA_STEPS
            cost = self._nodes[id(node)] = _NodeCost(1 + listed, weight, share, applied)
        return cost

    def _steps_of_part(self, node: dict[str, Any], open_ids: set[int]) -> int:
        """Return how many steps one part of a value takes, without what is in it."""
        key = id(node)
        if key in open_ids:  # a check does not follow a circle, but each way into it
            self._circle_count += 1
            return 0
        if key not in self._steps_by_node:
            before = self._circle_count
            open_ids.add(key)
            cost = self._cost_of(node)
            total = cost.listed_steps + sum(
                self._steps_of_part(each, open_ids) for each in cost.applied_schemas
            )
            open_ids.discard(key)
            if total > MAX_WORK or self._circle_count > _MAX_CIRCLES:
                raise _TooManySteps
            if self._circle_count > before:
                return total
            self._steps_by_node[key] = total
        return self._steps_by_node[key]

    def _total_steps(self, node: dict[str, Any], open_ids: set[int]) -> int:
        """Return how many steps a part of a value takes with all that is in it, once each."""
        key = id(node)
        if key in open_ids:
            self._is_recursive = True
            return 0
        if key not in self._totals_by_node:
            self._steps_of_part(node, set())
            open_ids.add(key)
            cost = self._cost_of(node)
            inner = (*cost.applied_schemas, *_part_schemas(node))
            self._totals_by_node[key] = cost.steps + sum(
                self._total_steps(each, open_ids) for each in inner
            )
            open_ids.discard(key)
        return self._totals_by_node[key]

    # -- a value -----------------------------------------------------------------------------------

    def _fits(self, value: Any, cap: int, sizes: dict[int, int], *, telling: bool = False) -> bool:
        """Whether a check takes at most so many steps; telling, without those of expressions."""
        totals: dict[tuple[int, int], int] = {}
        open_pairs: set[tuple[int, int]] = set()
        calls = circles = 0

        def count_steps(node: dict[str, Any], part: Any) -> int:
            nonlocal calls, circles
            key = id(node), id(part)
            if (total := totals.get(key)) is not None:
                return total
            if key in open_pairs:
                circles += 1
                return 0
            calls, before = calls + 1, circles
            open_pairs.add(key)
            size = sizes[id(part)] if isinstance(part, dict | list) else _size(part, sizes)
            times = size if isinstance(part, str | int) else 1
            if isinstance(part, dict) and "patternProperties" in node:
                times += sum(1 + len(each) // 100 for each in part)
            node_cost = self._cost_of(node)
            total = (node_cost.listed_steps if telling else node_cost.steps) * times + int(
                size * node_cost.steps_per_part
            )
            for each in node_cost.applied_schemas:
                total += count_steps(each, part)
                if total > cap:
                    raise _TooManySteps
            for inner, piece in _applied_schemas(node, part):
                if isinstance(inner, dict):
                    total += count_steps(inner, piece)
            open_pairs.discard(key)
            if total > cap or calls > _MAX_PAIRS:
                raise _TooManySteps
            if circles == before:
                totals[key] = total
            return total

        try:
            count_steps(self._schema, value)
        except (_TooManySteps, RecursionError):
            return False
        return True


def expressions_of(node: dict[str, Any]) -> list[str]:
    """Return the regular expressions of a schema."""
    patterns = [*_dict_at(node, "patternProperties"), node.get("pattern")]
    return [each for each in patterns if isinstance(each, str)]


def _states(pattern: str) -> int:
    """Return about how many states an expression has, with what it repeats so many times."""
    if _VERBOSE.search(pattern):  # its comments could hide what is repeated
        return _MAX_STATES
    groups, last_states = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            groups.append(0)
        elif token[0] == ")" and len(groups) > 1:
            last_states = groups.pop()
            groups[-1] += last_states
        elif token[1]:
            times = min(max(int(each or 0) for each in token[1].split(",")), _MAX_STATES)
            groups[-1] += last_states * max(times - 1, 0)
            last_states *= max(times, 1)
        else:
            last_states = 1
            groups[-1] += 1
    return min(sum(groups), _MAX_STATES)


def _pattern_steps(node: dict[str, Any]) -> int:
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
        if properties := _dict_at(node, "properties"):
            smaller, larger = (
                (properties, value) if len(properties) < len(value) else (value, properties)
            )
            yield from ((properties[key], value[key]) for key in smaller if key in larger)
        if "propertyNames" in node:
            yield from ((node["propertyNames"], key) for key in value)
        schemas = [*_dict_at(node, "patternProperties").values(), *map(node.get, _OTHER_KEYS)]
        parts: Any = value.values()
    elif isinstance(value, list):
        yield from zip(
            [*_list_at(node, "prefixItems"), *_list_at(node, "items")], value, strict=False
        )
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


def _list_at(node: dict[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []


def _dict_at(node: dict[str, Any], key: str) -> dict[str, Any]:
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def _address_end(address: str) -> str:
    """Return the end of an address, by which what it names is found, however it begins."""
    return address.partition("#")[0].rstrip("/").rpartition("/")[2].rpartition(":")[2]


def _resolve_pointer(schema: Any, pointer: str) -> Any:
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
