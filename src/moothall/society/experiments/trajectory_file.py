"""The trajectories of a cell: rows in a nameless file beside the results, which becomes Parquet."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from moothall.society.society import Society
from moothall.society.tables import convert, import_arrow, write_whole, writing_errors
from moothall.society.trajectories import TYPES, csv_rows, header


class TrajectoryFile:
    """Where the citizens of a society were after each step; written at the end, or not at all."""

    def __init__(self, society: Society, path: Path) -> None:
        self._society, self._path = society, path
        self._arrow, _ = import_arrow()
        with writing_errors(path):
            path.parent.mkdir(exist_ok=True)
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - `close`
            self._file.write(header())

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the rows of a step, by its row of metrics."""
        with writing_errors(self._path):
            self._file.writelines(csv_rows(self._society, row["step"], self._arrow))

    def write(self) -> None:
        """Write the file, whole."""
        with writing_errors(self._path):
            self._file.seek(0)
            write_whole(self._path, lambda file: convert(self._file, file, TYPES))

    def close(self) -> None:
        """Discard what was not written."""
        with suppress(OSError):  # of a full disk, which `add` has told
            self._file.close()
