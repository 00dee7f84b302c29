"""Tabs, commands and kinds of runs by entry points: our own, and those of installed packages."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from moothall import ConfigError, MoothallError
from moothall.build import error_text, one_line

if TYPE_CHECKING:
    from moothall.journal import Journal, Outline

Group: TypeAlias = Literal["moothall.tabs", "moothall.commands", "moothall.kinds"]
Resume: TypeAlias = "Callable[[Journal, str], Coroutine[Any, Any, object]]"

logger: logging.Logger = logging.getLogger("moothall.studio")
_OUR_PACKAGE: Final = "moothall"


@dataclass(frozen=True)
class Extension:
    """What a package adds to moothall by one entry point.

    Attributes:
        group: `moothall.tabs`, `moothall.commands` or `moothall.kinds`
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
        noun = {"moothall.tabs": "tab", "moothall.commands": "command"}.get(self.group, "kind")
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


def extensions_of(group: Group, targets: Mapping[str, str] | None = None) -> dict[str, Extension]:
    """Return what can be loaded by name: ours, which are `targets`, then other packages'.

    A package that takes another's name, or states its entry points wrongly, is logged and left out.
    """
    by_name = {name: Extension(group, name, target) for name, target in (targets or {}).items()}
    for each in _installed_extensions(group, tuple(sys.path)):
        earlier = by_name.setdefault(each.name, each)
        if earlier is not each and earlier.package != each.package:
            logger.error("%s is left out: %s comes first", each.label, earlier.label)
    return by_name


def extension_of(group: Group, name: str, targets: Mapping[str, str]) -> Extension | None:
    """Return one of `extensions_of`; other packages are not looked at for one of our own."""
    if name in targets:
        return Extension(group, name, targets[name])
    return extensions_of(group, targets).get(name)


@cache
def _installed_extensions(group: Group, path: tuple[str, ...]) -> tuple[Extension, ...]:
    """Return what the installed packages add; nothing of them is imported."""
    from importlib.metadata import distributions  # late: it takes longer than most commands

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


def _extension_of_run(run: Outline) -> Extension | None:
    return None if run.is_ours else extensions_of("moothall.kinds").get(run.kind)


def has_resume(run: Outline) -> bool:
    """Return whether a package states what resumes runs of this kind; nothing is imported."""
    return _extension_of_run(run) is not None


def resume_of(run: Outline) -> Resume | None:
    """Return what resumes runs of this kind, called with the journal and a run's id.

    None if no package states it; ConfigError if what one states cannot be used.
    """
    extension = _extension_of_run(run)
    if extension is None:
        return None
    with extension.naming():
        resume: Resume = extension.load()
        if not callable(resume):
            raise ConfigError(f"it must be a function, got {resume!r:.80}")
        return resume
