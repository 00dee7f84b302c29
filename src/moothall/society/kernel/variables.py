"""The variables that blocks keep beside columns and statuses, as part of a society's state."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moothall.foundation.errors import StateError
from moothall.foundation.lazily import is_ours
from moothall.society.arrays import np

_OF_EVERY: Final = frozenset(("agent", "actions", "_llm", "environment", "params"))
_DEEPEST: Final = 8


def states_of(blocks: Iterable[Any], first: Mapping[tuple[int, str], int]) -> dict[str, Any]:
    """Return what blocks keep, as JSON data by their numbers: by `state_dict`, or each variable.

    Raises:
        StateError: a variable has changed since `first`, and has no JSON form
    """
    own: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        if hasattr(block, "state_dict"):
            own[str(number)] = block.state_dict()
            continue
        written = {name: _written(value) for name, value in _variables(block)}
        if kept := {name: each for name, each in written.items() if each}:
            variables[str(number)] = kept
    now = unwritten(blocks)
    for number, name in now.keys() | first.keys():
        if now.get((number, name), 0) != first.get((number, name), 0):
            block = [*blocks][number]
            kind = type(getattr(block, name, None)).__name__
            raise StateError(
                f"block {block.name!r} has changed its variable {name!r} ({kind}), which has no "
                "JSON form: make it of numbers, texts, lists, dicts by text or arrays of numbers, "
                "or give the block state_dict() and load_state_dict()"
            )
    return {key: each for key, each in (("blocks", own), ("variables", variables)) if each}


def load_states(blocks: Iterable[Any], given: Mapping[str, Any]) -> None:
    """Restore what `states_of` returned."""
    made = [*blocks]
    for number, state in given.get("blocks", {}).items():
        made[int(number)].load_state_dict(state)
    for number, variables in given.get("variables", {}).items():
        for name, written in variables.items():
            setattr(made[int(number)], name, _read(written))


def unwritten(blocks: Iterable[Any]) -> dict[tuple[int, str], int]:
    """Return a hash of each variable without a JSON form; 0 of what no step should change."""
    return {
        (number, name): hash(_image(value))
        for number, block in enumerate(blocks)
        if not hasattr(block, "state_dict")
        for name, value in _variables(block)
        if not _written(value)
    }


def _variables(block: Any) -> Iterable[tuple[str, Any]]:
    if is_ours(type(block)):  # which keep nothing between two steps
        return ()
    return [(name, value) for name, value in vars(block).items() if name not in _OF_EVERY]


def _written(value: Any) -> list[Any]:
    """Return a value's JSON form; empty if it has none that comes back as it was."""
    if isinstance(value, float) and not np.isfinite(value):
        value = np.float64(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return [value.dtype.str, list(value.shape), data]
    return [value] if _is_json(value) else []


def _is_json(value: Any, depth: int = 0) -> bool:
    if type(value) is list:
        return depth < _DEEPEST and all(_is_json(each, depth + 1) for each in value)
    if type(value) is dict:
        return depth < _DEEPEST and all(
            type(name) is str and _is_json(each, depth + 1) for name, each in value.items()
        )
    if type(value) is float:
        return bool(np.isfinite(value))
    return value is None or type(value) in (bool, int, str)


def _read(written: list[Any]) -> Any:
    if len(written) == 1:
        return written[0]
    kind, shape, data = written
    if np.dtype(kind).kind not in "biuf":
        raise ValueError(f"the type of a variable is {kind!r:.40}")
    values = np.frombuffer(base64.b64decode(data, validate=True), kind).reshape(shape)
    return values.copy() if shape else values[()]


def _image(value: Any, depth: int = 0) -> Any:
    """Return something hashable that differs if a value has changed, as far as can be seen."""
    if depth > _DEEPEST or callable(value) or is_ours(type(value)):
        return 0
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, hash(value.tobytes()) if value.dtype != object else 0)
    if isinstance(value, Mapping):
        return tuple((repr(name), _image(each, depth + 1)) for name, each in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(map(repr, value))
    if isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, str):
        return tuple(_image(each, depth + 1) for each in value)
    if hasattr(value, "__dict__"):
        return (type(value).__name__, _image(vars(value), depth + 1))
    return repr(value)
