"""The folders of notes: one for each key, below the root, and nothing leads out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from moothall import FileError, OutsideFolder
from moothall.agents import Folder
from moothall.agents.notes import note
from moothall.agents.notes.note import SUFFIX, Note

MARKER: Final = ".moothall-notes"
"""The file by which a folder is known as one of notes: nothing is deleted in any other."""
_SAFE_BYTES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_MAX_PART_CHARS: Final = 200


def folder_of(root: Path, key: str) -> Path:
    """Return the folder of a key below a root; the parts of the key are folders of their own."""
    return root.joinpath(*map(_folder_name, key.split("/")))


def _folder_name(part: str) -> str:
    """Return a part of a key as the name of a folder, another one for each part."""
    # Capitals too: some systems take `Anna` and `anna` for one folder.
    raw = part.encode(errors="surrogatepass")
    encoded = "".join(chr(each) if each in _SAFE_BYTES else f"%{each:02X}" for each in raw)
    if len(encoded) > _MAX_PART_CHARS:
        return f"%sha256-{sha256(part.encode(errors='surrogatepass')).hexdigest()}"
    return encoded or "%"


class NoteFolder:
    """The notes of one key; `reader` is the conversation that reads what others share."""

    def __init__(
        self, root: Path, key: str | None, trusted: bool, reader: str | None = None
    ) -> None:
        self._root = root
        self._reader = reader
        self._path = root if key is None else folder_of(root, key)
        self._trusted = trusted

    def _open(self, create: bool = False) -> Folder | None:
        """Return the folder, or None before the first note."""
        if create:
            self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            marker = self._root / MARKER
            if not marker.exists():
                marker.write_bytes(b"Notes of an agent. `moothall runs delete` deletes here.\n")
        if not self._path.is_dir():
            return None
        real_root = Path(os.path.realpath(self._root))
        if Path(os.path.realpath(self._path)) != real_root / self._path.relative_to(self._root):
            raise OutsideFolder(f"{self._path} is a link, or leads through one: notes follow none")
        return Folder(self._path)

    def write(self, name: str, text: str, sources: list[str], thread: str) -> bool:
        """Write a note; return whether it replaces one.

        The same note once more, as after a kill, changes nothing and returns the same.
        """
        folder = self._open(create=True)
        assert folder is not None
        file, exists = f"{name}{SUFFIX}", self._is_there(name)
        content = note.file_text(text, sources, thread, exists)
        if exists and note.is_same(old_content := folder.read(file), content):
            return note.has_replaced(old_content)
        folder.write(file, content)
        return exists

    def read(self, name: str) -> Note | None:
        """Return the note of a name, or None."""
        folder = self._open()
        if folder is None or not self._is_there(name):
            return None
        return note.read(name, folder.read(f"{name}{SUFFIX}"), self._trusted, self._reader)

    def forget(self, name: str) -> bool:
        """Delete a note; return whether there was one."""
        folder = self._open()
        if folder is None or not self._is_there(name):
            return False
        folder.delete(f"{name}{SUFFIX}")
        return True

    def names(self) -> list[str]:
        """Return the names of the notes, those written last first."""
        if self._open() is None:
            return []
        by_time = list[tuple[int, str]]()
        with os.scandir(self._path) as entries:
            for each in entries:
                with suppress(FileNotFoundError):  # it has just been forgotten
                    if note.is_name(each.name) and each.is_file(follow_symlinks=False):
                        time = each.stat(follow_symlinks=False).st_mtime_ns
                        by_time.append((-time, each.name.removesuffix(SUFFIX)))
        return [name for _, name in sorted(by_time)]

    def notes(self) -> Iterator[Note]:
        """Yield the notes, those written last first; what cannot be read is left out."""
        for name in self.names():
            with suppress(FileError):
                entry = self.read(name)
                if entry is not None:
                    yield entry

    def _is_there(self, name: str) -> bool:
        """Return whether a note is there; a link in its place is refused."""
        path = self._path / f"{name}{SUFFIX}"
        if path.is_symlink():
            raise OutsideFolder(f"the note {name!r} is a link, and notes follow none")
        return path.is_file()


def forget_thread(folder: str | os.PathLike[str], thread: str) -> int:
    """Delete the notes of a conversation, and of those below it, `THREAD/…`.

    These are all notes below `folder` whose head names it as where they were written, and those
    in the conversation's own folder whose head names none. Git keeps what it has committed.

    Args:
        folder: a folder of `Notes`
        thread: the id of the conversation

    Returns:
        How many notes were deleted.

    Raises:
        FileError: a note cannot be deleted
    """
    root = Path(folder)
    if not (root / MARKER).is_file():
        return 0
    own_folder, count = folder_of(root, thread), 0
    for folder_path, _, files in os.walk(root, topdown=False):
        thread_folder = Path(folder_path)
        is_own = thread_folder == own_folder or own_folder in thread_folder.parents
        for name in filter(note.is_name, files):
            path = thread_folder / name
            if path.is_symlink() or not _belongs_to(path, thread, is_own):
                continue
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise FileError(f"{path} cannot be deleted: {error.strerror}") from error
            count += 1
        if is_own:
            with suppress(OSError):  # something else is in it
                thread_folder.rmdir()
    return count


def _belongs_to(path: Path, thread: str, is_own: bool) -> bool:
    """Return whether a note is of a thread; `is_own` counts where its head names none."""
    try:
        owner = note.read("", path.read_text("utf-8", "replace"), trusted=True).thread
    except OSError:
        return is_own
    return is_own if owner is None else f"{owner}/".startswith(f"{thread}/")
