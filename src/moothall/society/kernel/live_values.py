"""Lists and dicts of a status that a block reads of columns and writes into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def live(value: Any, save: Callable[[Any], None]) -> Any:
    """Return a list or a dict whose changes, also within, are saved at once."""
    if isinstance(value, dict):
        return _LiveDict(value, save)
    return _LiveList(value, save) if isinstance(value, list) else value


def plain_of(value: Any) -> Any:
    """Return a part, or a live value, as a copy that saves nothing; another value itself."""
    if hasattr(value, "plain"):
        return value.plain()
    if isinstance(value, _LiveDict):
        return {key: plain_of(each) for key, each in value.items()}
    return [*map(plain_of, value)] if isinstance(value, _LiveList) else value


def _saving(name: str) -> Any:
    """Return a method of a live list or dict that saves it after a change."""

    def changing(self: Any, *args: Any, **options: Any) -> Any:
        result = getattr(super(type(self), self), name)(*args, **options)
        self.save()
        return self if name.startswith("__i") else result

    return changing


class _LiveDict(dict[str, Any]):
    """A dict that is saved after each change."""

    save: Callable[[], None]

    def __init__(self, values: dict[str, Any], save: Callable[[Any], None]) -> None:
        self.save = lambda: save(self)
        super().__init__({k: live(v, lambda _: self.save()) for k, v in values.items()})

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, ({**self},)


class _LiveList(list[Any]):
    """A list that is saved after each change."""

    save: Callable[[], None]

    def __init__(self, values: list[Any], save: Callable[[Any], None]) -> None:
        self.save = lambda: save(self)
        super().__init__(live(each, lambda _: self.save()) for each in values)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, ([*self],)


for _name in ("__setitem__", "__delitem__", "pop", "popitem", "setdefault", "update", "clear"):
    setattr(_LiveDict, _name, _saving(_name))
for _name in (
    *("__setitem__", "__delitem__", "__iadd__", "append", "extend", "insert", "pop", "remove"),
    *("clear", "sort", "reverse"),
):
    setattr(_LiveList, _name, _saving(_name))
