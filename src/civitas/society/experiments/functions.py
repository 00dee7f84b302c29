"""Functions that an experiment names: `file.py:function` beside its YAML, or the function."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from civitas.action import is_async
from civitas.errors import ConfigError
from civitas.text import error_text

Source = str | Callable[..., Any]
"""A function, or `file.py:function`."""

_FUNCTION = "$function"
_LOADED: dict[tuple[Path, int], ModuleType] = {}


def function_of(source: Source, folder: Path) -> Callable[..., Any]:
    """Return a function; the file that has it is run once, as an import does.

    Args:
        source: the function, or where it is: a file below `folder`, a colon, and its name
        folder: where the experiment's file is

    Raises:
        ConfigError: there is no such function
    """
    if callable(source):
        return source
    name, colon, attribute = source.rpartition(":")
    if not colon or not name.endswith(".py") or not attribute.isidentifier():
        raise ConfigError(f"must be file.py:function, got {source!r:.200}")
    path, root = (folder / name).resolve(), folder.resolve()
    if not path.is_relative_to(root):
        raise ConfigError(f"{name!r} is not in the folder of the experiment, {root}")
    found = getattr(_module(path, name), attribute, None)
    if not callable(found) or is_async(found):
        raise ConfigError(f"{name!r} has no plain function {attribute!r}")
    return found  # type: ignore[no-any-return]


def _module(path: Path, name: str) -> ModuleType:
    """The module of a file."""
    try:
        key = (path, path.stat().st_mtime_ns)
    except OSError:
        raise ConfigError(f"there is no file {name!r} in the folder of the experiment") from None
    if key not in _LOADED:
        spec = importlib.util.spec_from_file_location(f"_experiment_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # dataclasses look there
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ConfigError(f"{name!r} cannot be run: {error_text(error)}") from error
        _LOADED[key] = module
    return _LOADED[key]


def in_words(value: Any) -> Any:
    """JSON data in which functions are told by their name."""
    return _walked(value, lambda function: getattr(function, "__qualname__", repr(function)))


def portable(value: Any) -> Any:
    """JSON data in which functions are told so that another process finds them.

    Raises:
        ConfigError: a function is not at the top of a file
    """

    def told(function: Callable[..., Any]) -> dict[str, Any]:
        name = getattr(function, "__qualname__", "")
        file = inspect.getsourcefile(function) if name.isidentifier() else None
        if file is None or not Path(file).is_file():
            raise ConfigError(
                f"another process cannot import the function {name or function!r}: define it at "
                "the top of a file, or run with jobs=0, which lives all in this process"
            )
        return {_FUNCTION: [str(Path(file).resolve()), name]}

    return _walked(value, told)


def found(value: Any) -> Any:
    """What `portable` told, with its functions."""
    if isinstance(value, dict) and set(value) == {_FUNCTION}:
        file, name = value[_FUNCTION]
        return getattr(_module(Path(file), file), name)
    if isinstance(value, dict):
        return {key: found(each) for key, each in value.items()}
    return [found(each) for each in value] if isinstance(value, list) else value


def _walked(value: Any, told: Callable[[Callable[..., Any]], Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: _walked(each, told) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_walked(each, told) for each in value]
    return told(value) if callable(value) else value


def code_of(source: Source, folder: Path) -> bytes:
    """The text of the file that has a function, by which results of another version are told."""
    if isinstance(source, str):
        return (folder / source.rpartition(":")[0]).read_bytes()
    try:
        return inspect.getsource(source).encode()
    except (OSError, TypeError):
        return repr(getattr(source, "__qualname__", source)).encode()
