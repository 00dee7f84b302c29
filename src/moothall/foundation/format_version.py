"""The versions of formats: of databases, exported runs and saved states, each from 1 on.

What was written before 0.1.0 has versions of its own, 1 to 11: a number alone does not say which
of the two it is. The name beside it does. Until then an SQLite file had another application id in
its header, a PostgreSQL schema a table `versions` and not `formats`, JSON a key `version` and not
`format`. So neither program takes the other's for its own, and none has to write to find out.
"""

from __future__ import annotations

from typing import Any


def newer_version(version: object, newest: int) -> str:
    """Return why another version of a format is refused, and what to do."""
    return (
        f"it has version {version!r:.80}, and this moothall knows up to {newest}: use the moothall "
        "that wrote it, or a newer one"
    )


def written_before(is_journal: bool = False) -> str:
    """Return why what was written before 0.1.0 is refused, and how to keep it."""
    exports = ", where `moothall runs export ID` writes a run as text" if is_journal else ""
    return (
        "it was written before moothall 0.1.0, which does not read it, and was left as it is: keep "
        f"it with the moothall that wrote it{exports}"
    )


def json_version_problem(data: dict[str, Any], newest: int) -> str:
    """Return why JSON data of another version is refused; empty if it is of this one."""
    if "format" not in data:
        return written_before()
    version = data["format"]
    is_known = type(version) is int and version == newest
    return "" if is_known else newer_version(version, newest)
