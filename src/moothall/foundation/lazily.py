"""The public names of a package, which its `__init__.pyi` states: each is loaded on first use.

A class reads as the package that exports it: `moothall.NoSuchRun`, not the file that defines it.
"""

from __future__ import annotations

import sys

# It imports nothing at first: a signal that comes before a command has its handler can be lost.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOVED = {
    "a2a": "moothall.serving",
    "approval": "moothall",
    "company": "moothall.serving",
    "doors": "moothall.serving",
    "errors": "moothall",
    "gradio": "moothall.studio.gradio",
    "mcp": "moothall.serving",
    "orders": "moothall.studio.orders",
    "reasoning": "moothall.agents.replies",
    "signature": "moothall.actions.signature",
    "telemetry": "moothall.serving.telemetry",
}
_HOMES: dict[str, dict[str, str]] = {}
_PACKAGES: dict[str, None] = {}  # those with public names, in the order of their import
_PENDING: dict[str, dict[str, str]] = {}  # names whose classes do not yet read as their package


class PublicModule(str):
    """A public class's `__module__`: it reads as the package that exports the class.

    It is found in `sys.modules` as the module that defines the class: `inspect` reads the source
    there, and `typing`, dataclasses and pydantic the names of the annotations.
    """

    __slots__ = ("home",)
    home: str

    def __new__(cls, package: str, home: str) -> PublicModule:
        """Return the name of a package, equal to that of the module that defines the class."""
        self = super().__new__(cls, package)
        self.home = home
        return self

    def __eq__(self, other: object) -> bool:
        return self.home == other

    def __ne__(self, other: object) -> bool:
        return self.home != other

    def __hash__(self) -> int:
        return hash(self.home)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (format(self),)  # a pickle names the public path


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
            if package == "moothall" and name in MOVED:
                raise AttributeError(_moved_message(f"moothall.{name}"))
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


def set_public_modules(package: str = "") -> None:
    """Have each public class that is loaded read as its public package: `moothall`, if it is there.

    A package that loads its names itself calls this at its end, with its name.
    """
    if package:
        _PACKAGES[package] = None
        _HOMES[package] = dict.fromkeys(sys.modules[package].__all__, package)
    for each in sorted(_PACKAGES, key=len):  # a class belongs to the first that has it
        if each not in _PENDING:
            _PENDING[each] = {**homes_of(each)}
        pending = _PENDING[each]
        for name, home in [*pending.items()]:
            if home in sys.modules and name in vars(sys.modules[home]):
                pending.pop(name, None)  # another thread may load names, too
                _set_public_module(vars(sys.modules[home])[name], name, each)


def is_ours(kind: type) -> bool:
    """Return whether a class is one of moothall's, public or not."""
    # Not by `==`, nor a part of the text that may be the text itself: of a public class, these
    # compare the module that defines it.
    return f"{kind.__module__}.".startswith("moothall.")


class MovedPaths:
    """Says where a public module of an earlier layout stands, when nothing else has found it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise ModuleNotFoundError with the new path of a module that has moved."""
        head, _, last = name.rpartition(".")
        if head == "moothall" and last in MOVED:
            # Without `name=`: `from moothall import …` would replace an error that has it.
            raise ModuleNotFoundError(_moved_message(name))


def _moved_message(path: str) -> str:
    new = MOVED[path.rpartition(".")[2]]
    return f"{path} has moved to {new}: write `from {new} import …` (docs/versions.md has the list)"


def _set_public_module(value: Any, name: str, package: str) -> None:
    if not isinstance(value, type) or value.__qualname__ != name:
        return
    home = value.__module__
    if type(home) is str and home != package and is_ours(value):
        line = vars(value).get("__firstlineno__")  # from Python 3.13, which now forgets it
        value.__module__ = PublicModule(package, home)
        if line is not None:
            value.__firstlineno__ = line  # type: ignore[attr-defined]


def _all_of(home: str) -> list[str]:
    """Return the names in `__all__` of a package; of a module, the public classes it defines."""
    from importlib import import_module

    module = import_module(home)
    members = vars(module).items()
    if hasattr(module, "__path__"):
        return [*module.__all__]
    return [
        name
        for name, member in members
        if name[0] != "_" and getattr(member, "__module__", "") == home
    ]
