"""Reading, searching, editing and replacing an open text file, and its name in errors."""

from __future__ import annotations

import codecs
import os
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

from moothall import FileError, FileTooLarge, NotText
from moothall.build import counted, escaped, shorten

MAX_SEARCHED: Final = 256 * 2**20
"""How many bytes of a file are searched: the search's thread cannot be stopped."""
MAX_MATCHES: Final = 100
MAX_LINE: Final = 300
"""The most characters of a line that are shown."""

_PIECE_BYTES = 2**16
_MORE_TEXT = "include more of the surrounding text"
_CREATE_FLAGS = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL


def read(file: int, name: str, max_bytes: int) -> str:
    """Return the whole text of a file, given its handle and name."""
    size = os.fstat(file).st_size
    pieces = []
    if size <= max_bytes:
        # One byte more than allowed: the file may grow, or not state its size.
        remaining = max_bytes + 1
        while remaining and (piece := os.read(file, min(remaining, _PIECE_BYTES))):
            pieces.append(piece)
            remaining -= len(piece)
    data = b"".join(pieces)
    size = max(size, len(data))
    if size > max_bytes:
        raise FileTooLarge(
            f"{quoted_name(name)} has {in_bytes(size)}, and at most {in_bytes(max_bytes)} are "
            "read at once; search in it instead"
        )
    return _decode_text(name, size, data)


def encode_text(name: str, text: str, max_bytes: int) -> bytes:
    """Return a text as the bytes of a file of that name."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise FileError(
            f"{quoted_name(name)}: the text has half a character, which no file holds"
        ) from None
    if len(data) > max_bytes:
        raise FileTooLarge(
            f"{quoted_name(name)}: the text has {in_bytes(len(data))}, and at most "
            f"{in_bytes(max_bytes)} are written at once"
        )
    return data


def search(file: int, name: str, term: str) -> list[tuple[int, str]]:
    """Return the lines that have a term, each with its number; see `Folder.search`."""
    matches: list[tuple[int, str]] = []
    size = os.fstat(file).st_size
    number, tail, has_matched, from_start, searched = 1, "", False, True, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    with os.fdopen(file, "rb", closefd=False) as lines:
        # A line is read in pieces, since a file may have no line ends. The end of each piece is
        # put before the next, so that a term on the border is found.
        while piece := lines.readline(_PIECE_BYTES):
            searched += len(piece)
            line_ends = piece.endswith(b"\n")
            goes_on = not line_ends and len(piece) == _PIECE_BYTES
            text = tail + _decode_text(
                name, size, piece, partial(decoder.decode, final=not goes_on)
            )
            if not has_matched and (index := text.find(term)) >= 0:
                if len(matches) == MAX_MATCHES:
                    return [
                        *matches,
                        (number, f"… only {MAX_MATCHES} lines are given; more follow"),
                    ]
                matches.append((number, _excerpt(text, index, len(term), not from_start, goes_on)))
                has_matched = True
            if line_ends:
                number, tail, has_matched, from_start = number + 1, "", False, True
            else:
                tail, from_start = text[-MAX_LINE:], False
            if searched >= MAX_SEARCHED:
                limit_note = f"… only the first {in_bytes(searched)} were searched"
                return [*matches, (number, limit_note)]
    return matches


def _excerpt(line: str, index: int, length: int, cut_before: bool, cut_after: bool) -> str:
    """Return a line as it is shown: without surrounding space, and cut around the term."""
    text = line.strip()
    index = max(index - (len(line) - len(line.lstrip())), 0)
    start, end = 0, len(text)
    if end > MAX_LINE:
        start = min(max(index - (MAX_LINE - length) // 2, 0), end - MAX_LINE)
        end = start + MAX_LINE
    prefix = "…" if start or cut_before else ""
    suffix = "…" if end < len(text) or cut_after else ""
    return f"{prefix}{text[start:end]}{suffix}"


def _decode_text(
    name: str, size: int, data: bytes, decode: Callable[[bytes], str] = bytes.decode
) -> str:
    try:
        text = decode(data)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise NotText(f"{quoted_name(name)} is binary, not UTF-8 text; it has {in_bytes(size)}")
    return text


def replace_once(name: str, text: str, old: str, new: str) -> tuple[str, int]:
    """Replace `old`, which must occur exactly once; return the new text and the line number."""
    if not old:
        raise FileError(
            f"{quoted_name(name)}: the text to replace is empty; write_file writes a whole file"
        )
    count, first = 0, text.find(old)
    index = first
    while index >= 0:
        count, index = count + 1, text.find(old, index + 1)
    if count != 1:
        advice = "read the file first" if not count else _MORE_TEXT
        raise FileError(
            f'{quoted_name(name)} has "{escaped(shorten(old))}" {count} times, so nothing was '
            f"changed; {advice}"
        )
    return text[:first] + new + text[first + len(old) :], text.count("\n", 0, first) + 1


def replace(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """Replace a file's data atomically."""
    temporary = f".moothall-{secrets.token_hex(8)}"
    file = os.open(temporary, _CREATE_FLAGS, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        try:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(file, remaining) :]
            if mode is not None:
                os.fchmod(file, mode)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


# -- texts of errors -------------------------------------------------------------------------------


def quoted_name(name: str) -> str:
    """Return a name as errors show it."""
    return f'"{escaped(shorten(name, 120))}"'


def in_bytes(count: int) -> str:
    """Return a size in words."""
    if count < 1024:
        return counted(count, "byte")
    units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
    unit, size = next((unit, size) for unit, size in units if count >= size)
    return f"{count / size:.1f} {unit}".replace(".0 ", " ")
