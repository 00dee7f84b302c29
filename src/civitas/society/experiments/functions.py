"""Functions that an experiment names: `file.py:function` beside its YAML, or the function."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from civitas.action import is_async
from civitas.errors import ConfigError
from civitas.society.experiments.models import MODELS
from civitas.text import error_text

Source = str | Callable[..., Any]
"""A function, `file.py:function`, or a name of `MODELS`."""

_PREFIX: Final = "_experiment_"
_LOADED: dict[tuple[Path, int], ModuleType] = {}
_NEIGHBOURS: dict[str, dict[str, ModuleType]] = {}
"""By folder, the modules beside its files: two experiments may each have a `helpers.py`."""


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Have the files of a folder be importable meanwhile, as those beside a script are."""
    root = str(folder.resolve())
    if root in sys.path:
        yield
        return
    before = set(sys.modules)
    sys.modules.update(_NEIGHBOURS.get(root, {}))
    sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path.remove(root)
        new = set(sys.modules) - before
        own = [name for name in new if _is_in(sys.modules[name], root)]
        _NEIGHBOURS[root] = {name: sys.modules.pop(name) for name in own}


def _is_in(module: ModuleType, root: str) -> bool:
    """Whether a module was imported from a folder, and not run as a file of an experiment."""
    file = getattr(module, "__file__", None)
    is_of_ours = module.__name__.startswith(_PREFIX)
    return file is not None and not is_of_ours and Path(file).is_relative_to(root)


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
    found: Any = getattr(_module(path, name, root), attribute, None)
    if not callable(found) or is_async(found):
        raise ConfigError(f"{name!r} has no plain function {attribute!r}")
    return found  # type: ignore[no-any-return]


def _module(path: Path, name: str, root: Path) -> ModuleType:
    """The module of a file."""
    try:
        key = (path, path.stat().st_mtime_ns)
    except OSError:
        raise ConfigError(f"there is no file {name!r} in the folder of the experiment") from None
    if key not in _LOADED:
        spec: Any = importlib.util.spec_from_file_location(f"{_PREFIX}{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # dataclasses look there
        try:
            with importable(root):
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
