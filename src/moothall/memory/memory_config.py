"""What a memory's status holds at the beginning, as a class states it in `memory_config`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from moothall.foundation.errors import DefinitionError
from moothall.foundation.jsonvalue import NotJSON, copy_json

MemoryT: TypeAlias = (
    type[Any] | tuple[type[Any], Any] | bool | int | float | str | list[Any] | dict[str, Any] | None
)
"""What `memory_config` states of a value: a type, what it is at the beginning, or both.

The types are `bool`, `int`, `float`, `str`, `list` and `dict`; of a type alone the value is empty:
`False`, 0, `""`, `[]`. Examples: `int`, `0.5`, `(float, 0.5)`, `(list, ["Ann"])`.
"""
_TYPES: Final = (bool, int, float, str, list, dict)


def first_status(config: Mapping[str, MemoryT], class_name: str) -> dict[str, Any]:
    """Return new values of all names of a `memory_config`.

    Args:
        config: what is stated, by name
        class_name: the name of the class that states it, for errors

    Raises:
        DefinitionError: a value is not a `MemoryT`
    """
    if not isinstance(config, Mapping):
        raise DefinitionError(f"{class_name}.memory_config must be a dict, got {config!r:.80}")
    return {name: _initial_value(name, entry, class_name) for name, entry in config.items()}


def _initial_value(name: object, entry: Any, class_name: str) -> Any:
    label = f"{class_name}.memory_config[{name!r:.80}]"
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"{label}: a name must be a text of at least 1 character")
    type_names = ", ".join(each.__name__ for each in _TYPES)
    kind, value = type(entry), entry
    if isinstance(entry, tuple):
        if len(entry) != 2:
            raise DefinitionError(f"{label} must be (type, default), got {entry!r:.80}")
        kind, value = entry
    elif isinstance(entry, type):
        kind, value = entry, None
        if kind in _TYPES:
            return kind()
    elif entry is None:
        return None
    if kind not in _TYPES:
        raise DefinitionError(f"{label}: the type must be one of {type_names}, got {kind!r:.80}")
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise DefinitionError(f"{label} must be of {kind.__name__}, got {value!r:.80}")
    try:
        return copy_json(value, label)
    except NotJSON as error:
        raise DefinitionError(f"{label}: the default must be JSON data: {error}") from None
