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
from civitas.society.experiments.models import MODELS
from civitas.text import error_text

Source = str | Callable[..., Any]
"""A function, `file.py:function`, or a name of `MODELS`."""

_LOADED: dict[tuple[Path, int], ModuleType] = {}


def function_of(source: Source, folder: Path) -> Callable[..., Any]:
    """Return a function; the file below `folder` that has it is run once, as an import does."""
    if not isinstance(source, str):
        return source
    if source in MODELS:
        return MODELS[source]
    name, _, attribute = source.rpartition(":")
    if not name.endswith(".py") or not attribute.isidentifier():
        raise ConfigError(f"must be file.py:function, got {source!r:.200}")
    path, root = (folder / name).resolve(), folder.resolve()
    if not path.is_relative_to(root):
        raise ConfigError(f"{name!r} is not in the folder of the experiment, {root}")
    found: Any = getattr(_module(path, name), attribute, None)
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
        spec: Any = importlib.util.spec_from_file_location(f"_experiment_{path.stem}", path)
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
    if isinstance(value, Mapping):
        return {key: in_words(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [in_words(each) for each in value]
    return getattr(value, "__qualname__", repr(value)) if callable(value) else value


def code_of(source: Source, folder: Path) -> bytes:
    """The text of the file that has a function, by which results of other code are told."""
    if isinstance(source, str) and source not in MODELS:
        return (folder / source.rpartition(":")[0]).read_bytes()
    try:
        return inspect.getsource(function_of(source, folder)).encode()
    except (OSError, TypeError):  # typed at a prompt
        return repr(in_words(source)).encode()
