"""The weights in the box with a few of their layers: what they say has no sense and comes quickly.

The tokens, the grammar and the runtime are the same, which most tests of a model in the process are
about.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its kind in GGUF."""
TEXT, LIST = 8, 9
ALIGNMENT = 32


def write_shallow(whole: Path, shallow: Path, layers: int) -> None:
    """Write a copy of GGUF weights, as large as the whole, that has only the first layers."""
    data = whole.read_bytes()
    version, tensors, keys = struct.unpack_from("<4xIQQ", data)
    at = start = 24
    head = b""
    for _ in range(keys):
        value = _end(data, at, TEXT)
        end = _end(data, value + 4, int.from_bytes(data[value : value + 4], "little"))
        if data[at:value].endswith(b".block_count"):
            head = data[start : value + 4] + struct.pack("<I", layers)
            start = end
        at = end
    head += data[start:at]
    found = []
    for _ in range(tensors):
        form = _end(data, at, TEXT)
        place = form + 8 + 8 * int.from_bytes(data[form : form + 4], "little")
        found.append((int.from_bytes(data[place : place + 8], "little"), data[at:place]))
        at = place + 8
    begin = _aligned(at)
    found.sort()
    kept, content = [], bytearray()
    for (place, info), (after, _) in zip(
        found, [*found[1:], (len(data) - begin, b"")], strict=True
    ):
        layer = re.match(rb"blk\.(\d+)\.", info[8:])
        if layer is None or int(layer[1]) < layers:
            kept.append(info + struct.pack("<Q", len(content)))
            content += data[begin + place : begin + after]
    head = struct.pack("<4sIQQ", b"GGUF", version, len(kept), keys) + head + b"".join(kept)
    shallow.write_bytes(head.ljust(_aligned(len(head)), b"\0") + content)
    os.truncate(shallow, len(data))  # by which damaged weights are known


def _end(data: bytes, at: int, kind: int) -> int:
    """Where a value ends that begins there."""
    if kind == TEXT:
        return at + 8 + int.from_bytes(data[at : at + 8], "little")
    if kind != LIST:
        return at + SIZES[kind]
    of, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if of != TEXT:
        return at + SIZES[int(of)] * int(count)
    for _ in range(count):
        at = _end(data, at, TEXT)
    return at


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
