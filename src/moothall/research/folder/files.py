"""The files of a folder: list them, and read any one of them."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from errno import EROFS
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from moothall import (
    ConfigError,
    FileError,
    FileTooLarge,
    FolderIndexError,
    MoothallError,
    UnreadableDocument,
)
from moothall.agents import Folder
from moothall.build import error_text, escaped, one_line
from moothall.models import weights_folder
from moothall.research.reading.archives import unpack_gzip
from moothall.research.reading.documents import PACKED_SUFFIX, kind_of, read_document
from moothall.research.reading.html import Document
from moothall.research.reading.own_reports import is_own_report
from moothall.research.reading.process import ReadingCutOff

MAX_BYTES: Final = 20 * 2**20  # larger files, packed or unpacked, are left out

MEDIA: Final = "a picture, sound, film or font"
_SKIPPED_FOLDERS: Final = {"node_modules", "__pycache__", "_sources"}  # the last: Sphinx's copies
_TRIES: Final = 5


class FileRead(NamedTuple):
    """The result of reading a file: a document, a fault, or both if a part is missing."""

    path: str
    status: os.stat_result
    read_ns: int
    document: Document | None
    fault: str | None


def walk(root: str, left_out: list[tuple[str, str]]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield regular files; what is left out goes to `left_out`; links, which may lead out, do."""

    def note(error: OSError) -> None:
        left_out.append(("in folders that cannot be read", os.path.relpath(error.filename, root)))

    for folder, folders, names in os.walk(root, onerror=note):
        inside = os.path.relpath(folder, root)
        folders[:] = sorted(filter(_is_indexed, folders))
        names = sorted([*filter(_is_indexed, names), *folders])
        for name in names:
            path = os.path.normpath(os.path.join(inside, name))
            try:
                status = os.lstat(os.path.join(root, path))
            except OSError:  # gone meanwhile
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status
            elif stat.S_ISLNK(status.st_mode):
                left_out.append(("links, which are not followed", path))


def path_text(path: str) -> str:
    """Return a path as a text."""
    return escaped(os.fsencode(path).decode("utf-8", "backslashreplace"))


def titles_of(path: bytes, title: str) -> str:
    """Return what is indexed of a file with each of its passages: its title and its name."""
    return f"{title} {os.path.splitext(os.path.basename(path_text(os.fsdecode(path))))[0]}"


def unread_reason(path: str) -> str:
    """Return why a file of a kind that is not read is left out."""
    major = (guess_type(path)[0] or "").partition("/")[0]
    if major in ("image", "audio", "video", "font"):
        return MEDIA
    packed = PACKED_SUFFIX * path.lower().endswith(PACKED_SUFFIX)
    suffix = PurePath(path[: len(path) - len(packed)]).suffix.lower() + packed
    return f"a kind that is not read, {escaped(suffix)[:20] or 'no suffix'}"


def _is_indexed(name: str) -> bool:
    # "~$plan.docx" is there while Word or Excel has plan.docx open.
    return not name.startswith((".", "~$")) and name not in _SKIPPED_FOLDERS


def read_file(folder: Folder, path: str) -> FileRead | None:
    """Read a file below a folder; None if it is gone."""
    read_ns = time.time_ns()
    status = document = fault = None
    try:
        data, status = _read_data(folder, path)
        url = Path(folder.root, path).as_uri()
        name = os.path.basename(path)
        if name.lower().endswith(PACKED_SUFFIX):
            name, data = name[: -len(PACKED_SUFFIX)], unpack_gzip(data, MAX_BYTES)
        kind = kind_of(path) or ""
        is_own = is_own_report(kind, data)
        document = None if is_own else read_document(kind, name, data, url)
        if document is None:
            fault = None if is_own else "it is binary or minified"
        else:
            (document.title + document.text).encode()  # a lone surrogate is a fault
            fault = document.missing or None
    except FileNotFoundError:
        return None
    except Exception as error:  # a parser may raise anything; one bad file stops nothing
        document, is_ours = None, isinstance(error, MoothallError)
        fault = one_line(str(error), 200) if is_ours else error_text(error)
        # A file that is damaged stays so; anything else may pass: rights, an extra, a time limit.
        if isinstance(error, ReadingCutOff) or not isinstance(
            error, FileTooLarge | UnreadableDocument
        ):
            read_ns = 0
    if status is None:
        try:
            status = os.lstat(os.path.join(folder.root, path))
        except OSError:
            return None
    return FileRead(path, status, read_ns, document, fault)


def _read_data(folder: Folder, path: str) -> tuple[bytes, os.stat_result]:
    """Return the bytes and status of a file that did not change while it was read."""
    for _ in range(_TRIES):
        with folder.reading(path) as handle:
            before = os.fstat(handle)
            if before.st_size > MAX_BYTES:
                raise FileTooLarge(f"it has more than {MAX_BYTES // 2**20} MiB")
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read(before.st_size + 1)
            after = os.fstat(handle)
        if len(data) == before.st_size and before.st_mtime_ns == after.st_mtime_ns:
            return data, after
    raise FileError("it changes again and again while it is read")


def index_path(index: object, root: str, pattern: str | None) -> str:
    """Return the path of the index of a folder; without one, in the user's cache."""
    if not isinstance(index, str | os.PathLike | None):
        raise ConfigError(f"search_folder: index must be a path, got {index!r:.80}")
    if index:
        return os.path.abspath(os.fspath(index))
    name = sha256(os.fsencode(root) + b"\0" + (pattern or "").encode()).hexdigest()[:32]
    folder = weights_folder().parent / "folders"
    path = str(folder / f"{name}.db")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise OSError(EROFS, os.strerror(EROFS))
    except OSError as error:
        reason = (
            f"its folder cannot be written ({error.strerror}): set XDG_CACHE_HOME, or "
            "MOOTHALL_HOME, to one that can"
        )
        raise FolderIndexError(path, reason) from error
    return path


def checked_base(base: object) -> str:
    """Return the address below which a folder's files are found, with a slash at its end."""
    if not isinstance(base, str) or not re.fullmatch(r"https?://[^\s?#<>]+", base):
        raise ConfigError(
            "search_folder: link_base must be an address such as https://wiki.example/docs, got "
            f"{base!r:.80}"
        )
    return base.rstrip("/") + "/"


def excluded_paths(exclude: Any, root: str) -> set[str]:
    """Return the paths, below a folder, of files that are no sources."""
    is_list = isinstance(exclude, Iterable) and not isinstance(exclude, str)
    paths: list[Any] = [*exclude] if is_list else [None]
    if not all(isinstance(each, str | os.PathLike) for each in paths):
        raise ConfigError(f"search_folder: exclude must be a list of paths, got {exclude!r:.80}")
    return {os.path.relpath(os.path.realpath(each), root) for each in paths}


def folder_at(root: str) -> Folder:
    """Return the folder that has a path now: it may have been made anew, as by a build."""
    if not os.path.isdir(root) or os.path.realpath(root) != root:
        raise FileError("the root folder is gone: put it back where it was")
    return Folder(root, max_bytes=MAX_BYTES)


def link_to(root: str, path: str, base: str | None) -> str:
    """Return the address of a file below a folder."""
    if base is None:
        return Path(root, path).as_uri()
    return base + quote(os.fsencode(path))
