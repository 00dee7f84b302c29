"""Files: written whole, locked, and YAML as data with the line of each part."""

from moothall.foundation.files.open_file_locks import (
    OPEN_FILE_LOCKS,
    lock_problem,
    locked_range,
    set_lock,
)
from moothall.foundation.files.whole import copy_owner, copy_permissions, written_whole
from moothall.foundation.files.yaml_file import read_yaml

__all__ = [
    "OPEN_FILE_LOCKS",
    "copy_owner",
    "copy_permissions",
    "lock_problem",
    "locked_range",
    "read_yaml",
    "set_lock",
    "written_whole",
]
