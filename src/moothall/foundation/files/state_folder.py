"""The user's state folder, where moothall keeps its own files."""

from __future__ import annotations

import os
from pathlib import Path


def state_file(name: str) -> Path:
    """Return the path of a file of moothall in the user's state folder, `XDG_STATE_HOME`."""
    given = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a path that is not absolute.
    state = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return state / "moothall" / name
