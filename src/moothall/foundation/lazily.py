"""The public names of a package, which its `__init__.pyi` states: each is loaded on first use."""

from __future__ import annotations

import sys

# It imports nothing at first: a signal that comes before a command has its handler can be lost.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NAME = r"(?m)^from (\S+) import (?:\*|\(?\s*(\w+) as \2\b)"
_HOMES: dict[str, dict[str, str]] = {}


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose `__init__.pyi` has its names.

    The program, type checkers and editors read the one list. `__all__` is made of it, too.
    """
    names = vars(sys.modules[package])

    def load(name: str) -> Any:
        from importlib import import_module

        homes = homes_of(package)
        if name == "__all__":
            return sorted(homes)
        if name not in homes:
            from moothall.foundation.text import nearest

            near = "" if name.startswith("_") else nearest(name, homes)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")
        value = names[name] = getattr(import_module(homes[name]), name)
        return value

    return load, lambda: sorted({*names, *homes_of(package)})


def homes_of(package: str) -> dict[str, str]:
    """Return the module of each public name; `import *` stands for all names of another."""
    if package in _HOMES:
        return _HOMES[package]
    import re

    module: Any = sys.modules[package]
    stub = module.__file__.rpartition(".")[0] + ".pyi"
    try:
        text = module.__spec__.loader.get_data(stub).decode()  # also from a zip
    except OSError as error:
        where = f"{stub} cannot be read ({error.strerror})"
        raise ImportError(f"{where}: a program that is frozen must contain it, too") from error
    homes = {}
    for home, name in re.findall(_NAME, text):
        for each in [name] if name else _all_of(home):
            homes[each] = home
    _HOMES[package] = homes
    return homes


def _all_of(home: str) -> list[str]:
    """Return the names in `__all__` of a package; of a module, the public classes it defines."""
    from importlib import import_module

    module = import_module(home)
    members = vars(module).items()
    if hasattr(module, "__path__"):
        return [*module.__all__]
    return [
        name for name, it in members if name[0] != "_" and getattr(it, "__module__", "") == home
    ]
