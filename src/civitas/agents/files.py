"""File actions for an agent's own model: list, read and search, inside one folder."""

from __future__ import annotations

import os
from typing import Any, Final

from civitas.action import Action
from civitas.agents.folder import MAX_BYTES, Folder
from civitas.errors import FileError

__all__ = ["file_actions"]

MAX_LISTED: Final = 200
"""Up to so many files are named in a schema."""


def file_actions(
    root: str | os.PathLike[str],
    terminal: bool = False,
    *,
    only_listed: bool = False,
    max_bytes: int = MAX_BYTES,
) -> list[Action]:
    """Actions that look at the files of a folder and change nothing.

    `list_files()` gives names, `read_file(file_name)` text, and `search_in_file(file_name,
    search_term)` the number and text of each line that has the term. A name is relative to the
    folder; whatever leads out of it is refused.

    Args:
        root: the folder
        terminal: whether a successful call ends a model's run, its result being the reply
        only_listed: for small models: the actions' schemas name the files that `list_files` gives
            at that moment, up to 200, so that a model which is held to the schema names no other
        max_bytes: the largest file that `read_file` reads; searching has no such limit

    Raises:
        FileError: the root is not there, or is no folder
    """
    folder = Folder(root, max_bytes=max_bytes)

    def list_files() -> list[str]:
        """List all files in the current directory."""
        return folder.names()

    def read_file(file_name: str) -> str:
        """Read the contents of a specific file.

        Args:
            file_name: Name of the file to read
        """
        return folder.read(file_name)

    def search_in_file(file_name: str, search_term: str) -> list[tuple[int, str]]:
        """Search for a term in a specific file.

        Args:
            file_name: Name of the file to search in
            search_term: Term to search for
        """
        return folder.search(file_name, search_term)

    made = _of_listed(folder) if only_listed else Action
    return [
        Action("list_files", list_files, terminal=terminal, idempotent=True),
        made("read_file", read_file, terminal=terminal, idempotent=True),
        made("search_in_file", search_in_file, terminal=terminal, idempotent=True),
    ]


def _of_listed(folder: Folder) -> type[Action]:
    """Actions whose schemas name the files that are there when they are looked at.

    A call is checked as ever: a file that came a moment ago may be named too.
    """

    def parameters(self: Action) -> dict[str, Any]:
        schema = self.signature.parameters
        try:
            names = [name for name in folder.names() if not name.endswith("/")]
        except FileError:
            return schema  # the call will say what is wrong
        if not 0 < len(names) <= MAX_LISTED:
            return schema
        properties = dict(schema["properties"])
        # Not `enum`: prompts repeat an enumeration, and a small model takes its first name then.
        named = {**properties["file_name"], "anyOf": [{"const": name} for name in names]}
        return {**schema, "properties": {**properties, "file_name": named}}

    return type("OfListed", (Action,), {"parameters": property(parameters)})
