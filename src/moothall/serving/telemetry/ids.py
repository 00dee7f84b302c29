"""Ids of spans that follow from a run."""

from __future__ import annotations

from hashlib import sha256


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
