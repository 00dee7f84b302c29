"""Server-sent events, read from bytes as they arrive.

They are untrusted data: bounded. Nothing here reads from a network.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import IncrementalNewlineDecoder

from moothall.foundation.errors import ModelError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What the standard lets stand before the first event: tests/peers/recorded/gateways.jsonl."""
_MAX_EVENT_BYTES = 8 * 2**20
_MAX_LINES = 2**20


class EventStreamParser:
    """Reads the events of one answer; `name` is the model's, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._newlines = IncrementalNewlineDecoder(None, translate=True)
        self._partial_line = ""  # the unfinished one
        self._line_count = 0
        self._event_kind = b""
        self._data: list[bytes] = []
        self._event_bytes = 0

    def feed(self, data: bytes, final: bool = False) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the data of each event that some bytes complete."""
        # Each byte is a character, since a piece may end within one of UTF-8.
        text = self._newlines.decode(data.decode("latin-1"), final)
        *lines, self._partial_line = (self._partial_line + text).split("\n")
        if len(self._partial_line) > _MAX_EVENT_BYTES:
            raise self._too_large_error()
        for line in lines:
            if self._read_line(line.encode("latin-1")):
                kind, value = self._event_kind.decode("latin-1"), b"\n".join(self._data).strip()
                has_data = bool(self._data)
                self._event_kind, self._event_bytes = b"", 0
                self._data.clear()
                if has_data:
                    yield kind, value

    def _read_line(self, line: bytes) -> bool:
        """Take a line; return whether it ends an event."""
        if not self._line_count:
            line = line.removeprefix(BYTE_ORDER_MARK)
        self._line_count += 1
        if self._line_count > _MAX_LINES:
            raise ModelError(f"{self._name}: the answer has more than {_MAX_LINES} lines")
        if not line:
            return True
        field, _, value = line.partition(b":")
        if field == b"data":
            self._event_bytes += len(value)
            if self._event_bytes > _MAX_EVENT_BYTES:
                raise self._too_large_error()
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._event_kind = value.strip()
        return False

    def unfinished_data(self) -> str:
        """Return the data of an event that lacks its end, once no more bytes follow."""
        rest = self._partial_line.strip() or b"\n".join(self._data).decode("latin-1").strip()
        return rest.removeprefix("data:").strip()

    def _too_large_error(self) -> ModelError:
        return ModelError(f"{self._name}: an event has more than {_MAX_EVENT_BYTES} bytes")
