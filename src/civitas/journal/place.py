"""Where civitas keeps what it remembers for a user."""

from __future__ import annotations

import os
from pathlib import Path


def state_file(name: str) -> Path:
    """The path of a file in the user's folder for what programs remember: `XDG_STATE_HOME`."""
    given = os.environ.get("XDG_STATE_HOME", "")
    # A path that is not absolute is to be ignored, says the XDG specification.
    state = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return state / "civitas" / name
