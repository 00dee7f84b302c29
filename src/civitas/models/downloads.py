"""What every download of weights needs: pieces, hashes, and how it says that it broke off."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from civitas.errors import WeightsError

Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how many bytes are done, and of how many, if that is known."""

PIECE_BYTES = 1 << 20
SILENCE_S = 30.0
"""After so long a server that sends nothing is given up."""
SHA256 = re.compile(r"[0-9a-f]{64}")


def broken_off(what: str, error: Exception) -> WeightsError:
    """The error of a download that broke off; the next one goes on with it."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return WeightsError(
        f"the download of {what} broke off ({reason}); run the command again to go on with it"
    )


def pieces(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """The pieces of a file, each with how many bytes there are by then."""
    done = 0
    while piece := file.read(PIECE_BYTES):
        done += len(piece)
        yield piece, done


def digest_of(path: Path, told: Progress, what: str) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    with path.open("rb") as file:
        for piece, done in pieces(file):
            digest.update(piece)
            told(what, done, total)
    return digest.hexdigest()
