"""The form of a frame: a head as JSON, then where citizens are."""

from __future__ import annotations

import struct
from typing import Any

from moothall.studio.event_feed import as_json


def pack_frame(head: dict[str, Any], position_bytes: bytes = b"") -> bytes:
    """Return a frame, as `Town.frame` describes it."""
    head_bytes = as_json(head).encode()
    return struct.pack("<I", len(head_bytes)) + head_bytes + position_bytes
