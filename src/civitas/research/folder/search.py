"""The tool that searches a folder: the passages of its files that answer a question best."""

from __future__ import annotations

import os

from civitas.action import Action
from civitas.research.findings import Resource, positive
from civitas.research.folder.index import FolderIndex


def search_folder(
    path: str | os.PathLike[str],
    *,
    index: str | os.PathLike[str] | None = None,
    results: int = 8,
    pattern: str | None = None,
) -> Action:
    """An action `search_folder` that finds passages in the files below a folder.

    Text, Markdown, reStructuredText, HTML, PDF, CSV and source files are brought into a full-text
    index (SQLite FTS5), which each search brings up to date; of a folder with more than 500
    entries at most once a second. Hidden files and folders, `node_modules`, `__pycache__`, links,
    binary files and those larger than 20 MiB are left out, and what cannot be read is logged.

    The action gives a `Resource` for each file, best first, whose content is its best passages,
    with a section for each; a passage is cited as `file:///…#anchor`.

    Args:
        path: the folder
        index: the file of the index; by default one in the user's cache folder, never in the folder
        results: how many passages a search gives at most, at most three of one file
        pattern: which files, by name or by path below the folder: `*.md`, `docs/*`

    Raises:
        DefinitionError: `results` is no positive number
        FileError: the folder is not there, or is no folder
        FolderIndexError: the index cannot be used, or is of another folder or program
    """
    positive(results, "search_folder: results")
    files = FolderIndex(path, None if index is None else os.fspath(index), pattern)

    def search(query: str) -> list[Resource]:
        """Search the files of a folder for the passages that answer a question best.

        Args:
            query: The question, or words to look for
        """
        return files.search(query, results)

    return Action("search_folder", search, idempotent=True)
