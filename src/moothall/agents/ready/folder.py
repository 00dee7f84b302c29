"""A folder that no untrusted file name leads out of.

A name is followed part by part from a handle of the folder, never by the system's own resolution
of a path. So neither `..`, nor symbolic links, nor concurrent changes lead out of the folder: each
step opens exactly what was checked, or starts again.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from moothall import ConfigError, FileError, NoSuchFile, NotAFile, OutsideFolder
from moothall.agents.ready import text_file
from moothall.agents.ready.text_file import MAX_LINE, quoted_name
from moothall.build import SQLiteFile, check_integer, check_path

T = TypeVar("T")

MAX_BYTES: Final = 2**20
"""The largest file that is read or written as a whole."""
MAX_NAMES: Final = 1000

_MAX_PATH = 4096
_MAX_DEPTH = 64
_MAX_LINKS = 40
_TRIES = 100
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
# Without O_NONBLOCK, opening a pipe that replaced the file would wait for its other end.
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class _FileReplaced(Exception):
    """A file was replaced between its check and its opening."""


class Folder:
    """Reads and writes text files below one root, and nowhere else.

    Every name is relative to the root. Symbolic links are followed as long as they stay inside;
    hard links and mounted file systems are treated as part of the folder. The methods block: call
    them in a thread. They may be called in several threads at once.

    Args:
        root: the folder
        max_bytes: the largest file that is read or written as a whole

    Raises:
        NotAFile: the root is not a folder, or not a path
        NoSuchFile: the root does not exist
        ConfigError: `max_bytes` is not a whole number from 1 up
    """

    def __init__(self, root: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> None:
        if root == "":  # realpath would return the current folder
            raise NoSuchFile('the root folder must be a path, got "": it may be an unset variable')
        try:
            check_path("the root folder", root, "folder")
        except ConfigError as error:
            raise NotAFile(str(error)) from None
        path = os.path.realpath(root)
        if not os.path.exists(path):
            raise NoSuchFile(f"the root folder {quoted_name(str(root))} does not exist")
        if not os.path.isdir(path):
            raise NotAFile(f"the root folder {quoted_name(str(root))} is not a folder")
        self.root = path
        check_integer("Folder: max_bytes=", max_bytes)
        self.max_bytes = max_bytes
        self._identity = _identity(os.stat(path))

    def require_root(self) -> None:
        """Raise FileError if the root's path no longer leads to the original folder."""
        os.close(self._open_root())

    def _open_root(self) -> int:
        try:
            root = os.open(self.root, _DIRECTORY_FLAGS)
        except OSError as error:
            raise FileError("the root folder is gone: put it back where it was") from error
        if _identity(os.fstat(root)) != self._identity:
            os.close(root)
            raise FileError("another folder has the place of the root folder: put it back")
        return root

    # -- operations --------------------------------------------------------------------------------

    def names(self, name: str = ".") -> list[str]:
        r"""Return the names in a folder, hidden ones last; folders end in `/`.

        At most 1,000 are returned; a last entry then says how many are left out. A name that is not
        UTF-8 shows `\x..` for the invalid bytes, and can be used in that form.
        """

        def list_names(parent: int, last: str, status: os.stat_result) -> list[str]:
            _require_kind(name, status, stat.S_ISDIR)
            folder = _open(last, _DIRECTORY_FLAGS, parent)
            try:
                return sorted(_scan_names(folder), key=lambda each: (each.startswith("."), each))
            finally:
                os.close(folder)

        names = self._with_entry(name, list_names)
        if len(names) > MAX_NAMES:
            omitted = len(names) - MAX_NAMES
            names[MAX_NAMES:] = [f"… {omitted} more are left out"]
        return names

    def read(self, name: str) -> str:
        """Return the text of a file, or raise FileTooLarge or NotText."""
        with self.reading(name) as file:
            return text_file.read(file, name, self.max_bytes)

    def search(self, name: str, term: str) -> list[tuple[int, str]]:
        """Return the lines of a file that have a term, each with its number, counted from 1.

        A line longer than 300 characters is cut around the term, with `…` for what is cut. At most
        100 lines are returned; a last entry then says that more follow. A last entry also says if
        the file continues after the 256 MiB that are searched.

        Raises:
            NotText: the searched part is not UTF-8
        """
        if not term or "\n" in term or len(term) > MAX_LINE:
            raise FileError(
                f"{quoted_name(name)}: what to search for is 1 to {MAX_LINE} characters of one line"
            )
        with self.reading(name) as file:
            return text_file.search(file, name, term)

    def write(self, name: str, text: str) -> None:
        """Write a file, replacing an existing one. It changes as a whole or not at all."""
        data = text_file.encode_text(name, text, self.max_bytes)

        def replace(parent: int, last: str, status: os.stat_result | None) -> None:
            if status is not None:
                _require_kind(name, status, stat.S_ISREG)
            elif name.endswith("/"):
                raise NotAFile(f"{quoted_name(name)} is the name of a folder")
            mode = None if status is None else status.st_mode & 0o777
            text_file.replace(parent, last, data, mode)

        self._with_entry(name, replace, new=True)

    def delete(self, name: str) -> None:
        """Delete a file. For a symbolic link, delete the link and not its target."""

        def unlink(parent: int, last: str, status: os.stat_result) -> None:
            if stat.S_ISDIR(status.st_mode):
                raise NotAFile(f"{quoted_name(name)} is a folder; only files are deleted")
            if not stat.S_ISLNK(status.st_mode):
                _require_kind(name, status, lambda _: True)
            os.unlink(last, dir_fd=parent)

        self._with_entry(name, unlink, follow=False)

    # -- resolving a name --------------------------------------------------------------------------

    @contextmanager
    def reading(self, name: str) -> Iterator[int]:
        """Open a regular file; yield its file descriptor, and close it at the end."""

        def open_file(parent: int, last: str, status: os.stat_result) -> int:
            _require_kind(name, status, stat.S_ISREG)
            file = _open(last, _READ_FLAGS, parent)
            if not stat.S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                raise _FileReplaced
            return file

        file = self._with_entry(name, open_file)
        with _naming_file_in_errors(name):
            try:
                yield file
            finally:
                os.close(file)

    def _with_entry(
        self, name: str, do: Callable[[int, str, Any], T], *, follow: bool = True, new: bool = False
    ) -> T:
        """Call `do` with a name's folder, last part and status (None if it is `new`)."""
        parts = _checked_parts(name)
        for _ in range(_TRIES):
            handles = [self._open_root()]
            try:
                with _naming_file_in_errors(name):
                    return do(*self._walk(name, deque(parts), handles, follow, new))
            except _FileReplaced:
                continue
            finally:
                for handle in handles:
                    os.close(handle)
        raise FileError(
            f"{quoted_name(name)} is replaced again and again while it is being opened: try later"
        )

    def _walk(
        self, name: str, todo: deque[str], handles: list[int], follow: bool, new: bool
    ) -> tuple[int, str, os.stat_result | None]:
        """Walk down the parts of a name. `trail` has the handles of its folders, the root first."""
        links = 0
        while todo:
            part = todo.popleft()
            if part == "..":
                # Back to the folder that the walk came from, even if it has been moved.
                if len(handles) == 1:
                    raise OutsideFolder(f"{quoted_name(name)} leads out of the folder")
                os.close(handles.pop())
                continue
            part, status = _find_part(handles[-1], part)
            if status is None:
                if todo or not new:
                    raise _no_such_file(name, handles[-1], part)
                return handles[-1], part, None
            if stat.S_ISLNK(status.st_mode) and (todo or follow):
                links += 1
                if links > _MAX_LINKS:
                    raise FileError(f"{quoted_name(name)} goes through too many symbolic links")
                try:
                    target = os.readlink(part, dir_fd=handles[-1])
                except OSError as error:
                    raise _replaced_if_gone(error) from None
                if os.path.isabs(target):
                    raise OutsideFolder(
                        f"{quoted_name(name)} leads out of the folder: a symbolic link on the way "
                        "is absolute"
                    )
                todo.extendleft(reversed(_path_parts(target)))
                continue
            if not todo:
                return handles[-1], part, status
            if not stat.S_ISDIR(status.st_mode):
                raise NotAFile(
                    f"{quoted_name(name)}: {quoted_name(_as_text(part))} on the way is not a folder"
                )
            if len(handles) > _MAX_DEPTH:
                raise FileError(f"{quoted_name(name)} lies more than {_MAX_DEPTH} folders deep")
            handles.append(_open(part, _DIRECTORY_FLAGS, handles[-1]))
        return handles[-1], ".", os.fstat(handles[-1])


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _path_parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part and part != "."]


def _checked_parts(name: str) -> list[str]:
    """Check an untrusted name and return its parts."""
    if not isinstance(name, str):
        raise FileError(f"a file's name must be text, got {type(name).__name__}")
    if not name:
        raise FileError("a file's name must not be empty")
    if "\0" in name:
        raise FileError(f"{quoted_name(name)} has a NUL character, which no file's name has")
    if name.startswith("/"):
        raise OutsideFolder(
            f"{quoted_name(name)} is an absolute path; names are relative to the folder"
        )
    parts = _path_parts(name)
    try:
        raw = [os.fsencode(part) for part in parts]
    except UnicodeEncodeError:
        raise FileError(f"{quoted_name(name)} has characters that no file's name has") from None
    if len(name) > _MAX_PATH or any(len(part) > 255 for part in raw):
        raise FileError(f"{quoted_name(name)} is longer than a file's name can be")
    return parts


def _find_part(folder: int, part: str) -> tuple[str, os.stat_result | None]:
    """Return a part's name and status; the form shown for a name that is not UTF-8 works, too."""
    try:
        return part, os.stat(part, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if "\\x" in part:
            for entry in os.listdir(folder):
                if entry != part and _as_text(entry) == part:
                    return _find_part(folder, entry)
        return part, None


def _open(part: str, flags: int, folder: int) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except OSError as error:
        raise _replaced_if_gone(error) from None


def _replaced_if_gone(error: OSError) -> Exception:
    """Return `_FileReplaced` if an error means that a file just checked is gone; else the error."""
    # ELOOP: it is a link now; ENOTDIR: it is no folder now; EINVAL: it is no link any more;
    # ENXIO: it is a pipe or a socket now.
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EINVAL, errno.ENXIO):
        return _FileReplaced()
    return error


def _require_kind(name: str, status: os.stat_result, fits: Callable[[int], bool]) -> None:
    if SQLiteFile.is_in_use(status):
        raise FileError(
            f"{quoted_name(name)} belongs to a journal, memory or inbox that this program uses; it "
            "is not read or changed here"
        )
    if fits(status.st_mode):
        return
    if stat.S_ISREG(status.st_mode):
        raise NotAFile(f"{quoted_name(name)} is a file, not a folder")
    kind = "folder" if stat.S_ISDIR(status.st_mode) else "pipe, socket or device"
    raise NotAFile(f"{quoted_name(name)} is a {kind}, not a file")


def _scan_names(folder: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield _as_text(entry.name) + ("/" if entry.is_dir(follow_symlinks=False) else "")


# -- errors ----------------------------------------------------------------------------------------


@contextmanager
def _naming_file_in_errors(name: str) -> Iterator[None]:
    """Turn a system error into an error that names the file as it was given."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise FileError(f"{quoted_name(name)}: {reason}") from error


def _no_such_file(name: str, folder: int, part: str) -> NoSuchFile:
    """Return the error for a part that is not in its folder, with similar names."""
    names = {existing.rstrip("/").casefold(): existing for existing in _scan_names(folder)}
    folded = _as_text(part).casefold()
    near = [each for key, each in names.items() if folded in (key, os.path.splitext(key)[0])]
    near += [names[key] for key in difflib.get_close_matches(folded, names)]
    text = f"{quoted_name(name)} does not exist"
    if "/" in name.strip("/"):
        text = f"{quoted_name(name)}: {quoted_name(_as_text(part))} does not exist"
    if near:
        text += f"; close to it: {', '.join(quoted_name(n) for n in dict.fromkeys(near[:3]))}"
    return NoSuchFile(text)


def _as_text(name: str) -> str:
    r"""Return a name from the system as text, with bytes that are not UTF-8 as `\x..`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
