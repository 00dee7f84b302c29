"""What resumes the runs of orchestrators of other packages: the entry points `moothall.kinds`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from moothall import ConfigError
from moothall.build import Extension

if TYPE_CHECKING:
    from moothall.journal import Journal, Outline

Resume: TypeAlias = "Callable[[Journal, str], Coroutine[Any, Any, object]]"


def _extension_of_run(run: Outline) -> Extension | None:
    return None if run.is_ours else Extension.all_of("moothall.kinds").get(run.kind)


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
