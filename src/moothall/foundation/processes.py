"""Processes that end with this program."""

from __future__ import annotations

import subprocess
from typing import Final

# A shell script that kills a process group when the program that holds its standard input ends.
_WATCH: Final = 'read -r line; kill -s KILL -- "-$0"'


def watch_group(group: int) -> subprocess.Popen[bytes]:
    """Start the process that kills a process group if this program dies; kill it when it has ended.

    Args:
        group: the number of the group, which is that of a process with `start_new_session=True`
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCH, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
