"""The public names of a package, which its `__init__.pyi` states: each is loaded on first use.

A class has the package that exports it as its `__module__`: it reads as `moothall.NoSuchRun`, not
as the file that defines it.
"""

from __future__ import annotations

import sys

# It imports nothing at first: a signal that comes before a command has its handler can be lost.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_HOMES: dict[str, dict[str, str]] = {}
_PACKAGES: dict[str, None] = {}  # those with public names, in the order of their import
_PENDING: dict[str, dict[str, str]] = {}  # names whose classes do not yet read as their package


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose `__init__.pyi` has its names.

    The program, type checkers and editors read the one list. `__all__` is made of it, too.
    """
    names = vars(sys.modules[package])
    _PACKAGES[package] = None

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(homes_of(package))
        if name.startswith("__"):  # Python asks each module for its `__path__`
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        homes = homes_of(package)
        if name not in homes:
            from moothall.foundation.text import nearest

            hint = "" if name.startswith("_") else nearest(name, homes)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        home = import_module(homes[name])
        # A module may be a public name, too.
        value = vars(home)[name] if name in vars(home) else import_module(f"{homes[name]}.{name}")
        names[name] = value
        set_public_modules()
        return value

    return load, lambda: sorted({*names, *homes_of(package)})


def homes_of(package: str) -> dict[str, str]:
    """Return the module of each public name; `import *` stands for all names of another."""
    if package in _HOMES:
        return _HOMES[package]
    module: Any = sys.modules[package]
    stub = module.__file__.rpartition(".")[0] + ".pyi"
    try:
        text = module.__spec__.loader.get_data(stub).decode()  # also from a zip
    except OSError as error:
        problem = f"{stub} cannot be read ({error.strerror})"
        raise ImportError(f"{problem}: a program that is frozen must contain it, too") from error
    homes = {}
    for line in text.replace("(\n", "").splitlines():  # `re` would be imported for it alone
        words = line.split()
        if words[:1] == ["from"] and (words[3] == "*" or words[4:5] == ["as"]):
            home = words[1]
            for each in _all_of(home) if words[3] == "*" else [words[3]]:
                homes[each] = _HOMES.get(home, {}).get(each, home)
    _HOMES[package] = homes
    return homes


def set_public_modules() -> None:
    """Give each public class that is loaded its public package: `moothall`, if it is there."""
    for each in sorted(_PACKAGES, key=len):  # a class belongs to the first that has it
        if each not in _PENDING:
            _PENDING[each] = {**homes_of(each)}
        pending = _PENDING[each]
        for name, home in [*pending.items()]:
            if home in sys.modules and name in vars(sys.modules[home]):
                pending.pop(name, None)  # another thread may load names, too
                _set_public_module(vars(sys.modules[home])[name], name, each)


def is_ours(definition: object) -> bool:
    """Return whether a class or a function is one of moothall's, public or not."""
    return str(getattr(definition, "__module__", "")).partition(".")[0] == "moothall"


def _set_public_module(value: Any, name: str, package: str) -> None:
    if not isinstance(value, type) or value.__qualname__ != name:
        return
    home = value.__module__
    if home in _PACKAGES or not is_ours(value):
        return
    value.__module__ = package
    # A hint is evaluated in the class's module, unless it names another one itself.
    from typing import ForwardRef

    members = vars(value)
    hints = members.get("__annotations__", {})
    for each, hint in hints.items():
        if isinstance(hint, ForwardRef) and hint.__forward_module__ is None:  # of a NamedTuple
            hint = hint.__forward_arg__
        if isinstance(hint, str):
            hints[each] = ForwardRef(hint, module=home, is_class=True)
    for each, field in members.get("__dataclass_fields__", {}).items():
        field.type = hints.get(each, field.type)


def _all_of(home: str) -> list[str]:
    """Return the names in `__all__` of a package; of a module, the public classes it defines."""
    from importlib import import_module

    module = import_module(home)
    members = vars(module).items()
    if hasattr(module, "__path__"):
        return [*module.__all__]
    # `moothall` alone has all names of a module, and asks before a class has another `__module__`.
    return [
        name
        for name, member in members
        if name[0] != "_" and getattr(member, "__module__", "") == home
    ]
