"""The user's state folder, where moothall keeps its own files."""

from __future__ import annotations

import os
from pathlib import Path

from moothall.foundation.errors import ConfigError


def home() -> Path:
    """Return the user's home folder. Raises ConfigError: there is none, as in a bare container."""
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigError(
            "the user has no home folder: set HOME, or MOOTHALL_HOME for weights and "
            "XDG_STATE_HOME for what commands keep"
        ) from None


def state_file(name: str) -> Path:
    """Return the path of a file of moothall in the user's state folder, `XDG_STATE_HOME`."""
    folder = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a path that is not absolute.
    base = Path(folder) if os.path.isabs(folder) else home() / ".local" / "state"
    return base / "moothall" / name
