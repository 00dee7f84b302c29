"""Ids of spans: they follow from the run where there is one, and are random elsewhere."""

from __future__ import annotations

from contextvars import ContextVar
from hashlib import sha256
from typing import Any

NEXT: ContextVar[tuple[int | None, int] | None] = ContextVar("moothall_next_ids", default=None)
"""The ids of the trace, if it is new, and of the span that is being begun."""


def trace_id_of(run_id: str) -> int:
    """Return the id of the trace of a run: the same in each process that works on it."""
    digest = sha256(b"trace\0" + run_id.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:16], "big") or 1


def span_id_of(*parts: str | bytes) -> bytes:
    """Return the id of the span of which these are the parts of its place in the run."""
    joined_parts = b"\0".join(
        each if isinstance(each, bytes) else each.encode(errors="surrogatepass") for each in parts
    )
    return sha256(joined_parts).digest()[:8]


class DerivedIds:
    """The id generator of a tracer: the ids in `NEXT` if there are any, else another's."""

    def __init__(self, other: Any) -> None:
        self._other = other

    def generate_span_id(self) -> int:
        """Return the id of the next span."""
        ids = NEXT.get()
        return self._other.generate_span_id() if ids is None else ids[1]

    def generate_trace_id(self) -> int:
        """Return the id of the next trace."""
        ids = NEXT.get()
        if ids is None or ids[0] is None:
            return self._other.generate_trace_id()  # type: ignore[no-any-return]
        return ids[0]

    def is_trace_id_random(self) -> bool:
        """Return whether the next trace's id is random, as W3C's flag says."""
        ids = NEXT.get()
        if ids is not None and ids[0] is not None:
            return False
        other = getattr(self._other, "is_trace_id_random", None)
        return bool(other is not None and other())
