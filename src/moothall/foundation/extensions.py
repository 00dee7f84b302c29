"""What installed packages add by entry points: tabs, commands, kinds of runs, rows of tables."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final, Literal, TypeAlias, TypeVar

from moothall.foundation.errors import ConfigError, MoothallError
from moothall.foundation.text import error_text, one_line

Group: TypeAlias = Literal[
    "moothall.tabs",
    "moothall.commands",
    "moothall.kinds",
    "moothall.providers",
    "moothall.documents",
]
T = TypeVar("T")

logger: logging.Logger = logging.getLogger("moothall.foundation")
_OUR_PACKAGE: Final = "moothall"


@dataclass(frozen=True)
class Extension:
    """What a package adds to moothall by one entry point.

    Attributes:
        group: `moothall.tabs` or another of moothall's groups
        name: its name there
        target: what is loaded, as `module:name`
        package: the package that adds it, with its version
    """

    group: Group
    name: str
    target: str
    package: str = _OUR_PACKAGE

    @property
    def label(self) -> str:
        """What it is, in words: `the tab 'map' of maps 1.0`."""
        noun = self.group.removeprefix("moothall.").removesuffix("s")
        return f"the {noun} {self.name!r} of {self.package}"

    def load(self) -> Any:
        """Import it."""
        return resolve_name(self.target)

    @property
    def is_ours(self) -> bool:
        """Whether it is moothall's own."""
        return self.package == _OUR_PACKAGE

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Have a ConfigError name the package, whatever of it fails within; ours fails as it is."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if self.is_ours:
                raise
            text = str(error) if isinstance(error, MoothallError) else error_text(error)
            raise ConfigError(f"{self.label} cannot be used: {one_line(text, 400)}") from error

    @classmethod
    def all_of(cls, group: Group, targets: Mapping[str, str] | None = None) -> dict[str, Extension]:
        """Return what can be loaded by name: ours, which are `targets`, then other packages'.

        A package that takes another's name, or states its entry points wrongly, is logged and left
        out.
        """
        by_name = {name: cls(group, name, target) for name, target in (targets or {}).items()}
        for each in _installed_extensions(group, tuple(sys.path)):
            earlier = by_name.setdefault(each.name, each)
            if earlier is not each and earlier.package != each.package:
                logger.error("%s is left out: %s comes first", each.label, earlier.label)
        return by_name

    @classmethod
    def find(cls, group: Group, name: str, targets: Mapping[str, str]) -> Extension | None:
        """Return one of `all_of`; other packages are not looked at for one of our own."""
        if name in targets:
            return cls(group, name, targets[name])
        return cls.all_of(group, targets).get(name)

    @staticmethod
    def rows(group: Group, kind: type[T]) -> Mapping[str, T]:
        """Return the rows of a table that installed packages add, by name.

        A row that cannot be loaded, or is no `kind`, is logged once and left out.
        """
        row_class: Any = kind  # a class is hashable, which no type checker believes
        rows: Mapping[str, T] = _installed_rows(group, row_class, tuple(sys.path))
        return rows


@cache
def _installed_rows(group: Group, kind: type[Any], path: tuple[str, ...]) -> dict[str, Any]:
    rows = {}
    for name, each in Extension.all_of(group).items():
        try:
            with each.naming():
                if not isinstance(row := each.load(), kind):
                    raise ConfigError(f"it must be a {kind.__name__}, got {row!r:.80}")
            rows[name] = row
        except ConfigError as error:
            logger.error("%s", error)
    return rows


@cache
def _installed_extensions(group: Group, path: tuple[str, ...]) -> tuple[Extension, ...]:
    """Return what the installed packages add; nothing of them is imported."""
    try:
        from importlib.metadata import distributions  # late: it takes longer than most commands
    except ImportError as error:  # the program has given up the right to read it
        logger.error("the packages of others cannot be looked for: %s", error_text(error))
        return ()
    installed = []
    for each in distributions(path=[*path]):
        try:
            # Not `entry_points()`: one package with a damaged file would take all others down.
            if f"[{group}]" not in (each.read_text("entry_points.txt") or ""):
                continue
            metadata = each.metadata
            package = f"{metadata['Name']} {metadata['Version']}"
            installed += [
                Extension(group, point.name, point.value, package)
                for point in each.entry_points.select(group=group)
            ]
        except Exception as error:  # of a file of another's, in any form
            name = "a package"
            with suppress(Exception):
                name = f"package {each.metadata['Name']!r:.80}"
            logger.error("%s: its entry points cannot be read: %s", name, error_text(error))
    return tuple(installed)
