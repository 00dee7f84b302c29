"""The form of a frame: a head as JSON, then where citizens are."""

from __future__ import annotations

import json
import struct
from typing import Any


def with_head(head: dict[str, Any], packed: bytes = b"") -> bytes:
    """Return a frame, as `Town.frame` describes it."""
    head_bytes = json.dumps(head).encode()
    return struct.pack("<I", len(head_bytes)) + head_bytes + packed
