"""The tool that searches a folder, and its index: an SQLite file kept up to date."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from sqlite3 import Connection
from typing import Any, Final

from moothall import Action, ConfigError, FolderIndexError, SearchError
from moothall.agents import Folder
from moothall.build import (
    SearchWords,
    SQLiteFile,
    SQLitePool,
    WorkSpan,
    check_integer,
    escaped,
    guard,
)
from moothall.research.findings import Resource, Section, is_place
from moothall.research.folder.files import (
    MAX_BYTES,
    MEDIA,
    FileRead,
    checked_base,
    excluded_paths,
    folder_at,
    index_path,
    link_to,
    path_text,
    read_file,
    titles_of,
    unread_reason,
    walk,
)
from moothall.research.folder.ranking import ranked_passages
from moothall.research.reading.documents import kind_of
from moothall.research.reading.html import Document
from moothall.research.resource_pool import ResourcePool, passages_in, with_lines

logger: logging.Logger = logging.getLogger("moothall.research.folder")

APPLICATION_ID: Final = 0x63766631  # `cvf1` in the file's header: no other database is changed
MAX_PER_FILE: Final = 3  # passages of one file that come before those of others

_BATCH_CHARS, _BATCH_FILES, _BATCH_S = 8_000_000, 500, 2.0
_FEW_ENTRIES: Final = 500  # a folder with no more entries is looked at before each search
# The clocks of file systems are coarse: a file that was read within this many nanoseconds of its
# mtime may have changed since. It is read again at each search, until its mtime is older.
_RECENT_NS: Final = 2_000_000_000
_CAUSES: Final = 8
_PAUSE_FACTOR: Final = 20  # for what fails for a time a search waits a twentieth of the time

_EMPTIED: Final = (
    "INSERT INTO words (words) VALUES ('delete-all')",
    "DELETE FROM passages",
    "DELETE FROM files",
)
# Append only, like those of memory. If documents.py, pool.py or `indexed` change what they return
# for a file, add a migration that empties the tables; the next search fills them again.
# `words` keeps no text: to delete from it, pass the deleted text again, word for word.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE folder (path BLOB NOT NULL, pattern TEXT)",
        """CREATE TABLE files (
            number INTEGER PRIMARY KEY,
            path BLOB NOT NULL UNIQUE,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            read_ns INTEGER NOT NULL,
            title TEXT NOT NULL,
            fault TEXT
        )""",
        """CREATE TABLE passages (
            number INTEGER PRIMARY KEY,
            file INTEGER NOT NULL REFERENCES files (number),
            anchor TEXT NOT NULL,
            title TEXT NOT NULL,
            text TEXT NOT NULL
        )""",
        "CREATE INDEX passages_of_file ON passages (file)",
        """CREATE VIRTUAL TABLE words USING fts5 (
            title, text, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
        )""",
        # Written out after 16 MB, not 1: a third faster to fill.
        "INSERT INTO words (words, rank) VALUES ('hashsize', 16777216)",
    ),
    *26 * (_EMPTIED,),  # what is read of a file, or where it is cut, has changed
)
_SELECT_PASSAGE: Final = (
    "SELECT files.path, files.title, read_ns, anchor, passages.title, text "
    "FROM passages JOIN files ON files.number = file WHERE passages.number = ?"
)


def search_folder(
    path: str | os.PathLike[str],
    *,
    index: str | os.PathLike[str] | None = None,
    results: int = 8,
    pattern: str | None = None,
    link_base: str | None = None,
    exclude: Iterable[str | os.PathLike[str]] = (),
) -> Action:
    """Return an action `search_folder` that finds passages in the files below a folder.

    Text, Markdown, reStructuredText, HTML, PDF, DOCX, RTF, office files, mails, calendars, EPUB,
    manual pages, notebooks, CSV and source files are put into a full-text index (SQLite FTS5),
    which each search updates; of more than 500 files at most once a second, and for a twentieth of
    the time. Hidden files and folders, `node_modules` and `__pycache__` are left out. So are links,
    binary and unreadable files, those of another kind and those larger than 20 MiB, unpacked if
    gzip packs them: how many, and why, is logged, and a report says so.

    The action returns a `Resource` for each file, best first. Its content is the file's best
    passages, each as a section; a passage is cited as `file:///…#anchor`. A passage that another
    file has word for word comes after all others. If no file has text that can be read, it fails
    and says why.

    Args:
        path: the folder
        index: the file of the index; by default one in the user's cache folder, never in the folder
        results: how many passages a search returns at most; three of one file, or a quarter of
            `results` if that is more, unless other files have too few
        pattern: which files, by name or by path below the folder: `*.md`, `docs/*`
        exclude: paths of files that are no sources, such as those that a report is written to
        link_base: the address below which readers find the files, in the place of `file:///…`

    Raises:
        DefinitionError: an argument is of the wrong type, or `results` is not a positive number
        FileError: the folder does not exist, or is not a folder
        FolderIndexError: the index cannot be used, or belongs to another folder or program
    """
    check_integer("search_folder: results", results)
    if not isinstance(pattern, str | None):
        raise ConfigError(f"search_folder: pattern must be a text, got {pattern!r:.80}")
    base = None if link_base is None else checked_base(link_base)
    files = FolderIndex(path, index, pattern, base)
    excluded = excluded_paths(exclude, files.root)

    @WorkSpan.searches(os.path.basename(files.root))
    def search(query: str, pool: ResourcePool | None = None) -> list[Resource]:
        """Search the files of a folder for the passages that answer a question best.

        Args:
            query: The question, or words to look for
        """
        resources = files.search(query, results, excluded)
        if pool is not None and (missing := files.unread_files()):
            pool.missing.append(missing)
        return resources

    return Action("search_folder", search, idempotent=True)


class FolderIndex:
    """Finds passages in the files of a folder. It blocks: call it in a thread."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        index: str | os.PathLike[str] | None,
        pattern: str | None,
        base: str | None = None,
    ):
        self._base = base
        self._folder = Folder(folder, max_bytes=MAX_BYTES)
        self.root: str = self._folder.root
        self._pattern = pattern
        self._refresh_lock = guard(threading.Lock())
        self._next_check_at = 0.0
        db_path = index_path(index, self.root, pattern)  # it may lie in its folder
        self._skipped = {os.path.relpath(db_path + end, self.root) for end in ("", "-wal", "-shm")}
        self._faults: list[tuple[str, str]] = []  # why and which file
        self._retries: dict[str, float] = {}  # when a file that failed for a time may be read again
        file = SQLiteFile(
            db_path,
            kind="folder index",
            class_name="search_folder",
            application=APPLICATION_ID,
            migrations=MIGRATIONS,
            error=FolderIndexError,
        )
        self._pool = SQLitePool(file, 30.0, "SELECT count(*) FROM folder")
        folder_row, select = (os.fsencode(self.root), pattern), "SELECT path, pattern FROM folder"
        with self._pool.reading() as db:
            stored = db.execute(select).fetchone()
        if stored is None:
            insert = "INSERT INTO folder SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM folder)"
            with self._pool.writing() as db:
                db.execute(insert, folder_row)
                stored = db.execute(select).fetchone()
        if stored != folder_row:
            other = path_text(os.fsdecode(stored[0]))
            reason = f"it is of the folder {other} with pattern={stored[1]!r}: name another file"
            raise file.error(reason)

    def search(self, query: str, results: int, excluded: Collection[str] = ()) -> list[Resource]:
        """Return the files with the best passages for a query, best first, with only these."""
        self._refresh()
        chosen: list[tuple[Any, ...]] = []
        spare: list[tuple[Any, ...]] = []
        counts: Counter[bytes] = Counter()
        duplicates: list[tuple[Any, ...]] = []  # pages of one program repeat options: these last
        texts: set[str] = set()
        with self._pool.reading() as db:
            for number in ranked_passages(db, query, 4 * results + 50):
                row = db.execute(_SELECT_PASSAGE, (number,)).fetchone()
                if row is None:
                    raise self._pool.damaged(
                        f"passage {number} is in the index but not in the file"
                    )
                if os.fsdecode(row[0]) in excluded:
                    continue
                if row[5] in texts:
                    duplicates.append(row)
                    continue
                texts.add(row[5])
                counts[row[0]] += 1
                (chosen if counts[row[0]] <= max(MAX_PER_FILE, results // 4) else spare).append(row)
                if len(chosen) == results:
                    break
            if not counts and db.execute("SELECT 1 FROM passages LIMIT 1").fetchone() is None:
                fault = f"folder {escaped(self.root)} has no text to search{self._fault_text()}"
                raise SearchError(fault)
        by_path: dict[bytes, Resource] = {}
        for path, title, read_ns, anchor, section, text in (chosen + spare + duplicates)[:results]:
            if path not in by_path:
                url = link_to(self.root, os.fsdecode(path), self._base)
                read_at = datetime.fromtimestamp(read_ns / 1e9, UTC).isoformat(timespec="seconds")
                by_path[path] = Resource(url, title, True, "", [], read_at)
            resource = by_path[path]
            before = f"{resource.content}\n\n" if resource.content else ""
            resource.sections.append(Section(len(before), anchor, section))
            resource.content = before + text
        return list(by_path.values())

    def _refresh(self) -> None:
        """Index new and changed files, and remove those that are gone."""
        with self._refresh_lock:
            if (start := time.monotonic()) < self._next_check_at:
                return
            self._folder = folder_at(self.root)
            with self._pool.reading() as db:
                rows = db.execute("SELECT path, size, mtime_ns, read_ns FROM files")
                stored = {os.fsdecode(path): row for path, *row in rows}
            faults: list[tuple[str, str]] = []
            files = [*walk(self.root, faults)]
            files = [(p, at) for p, at in files if self._matches(p) and p not in self._skipped]
            readable = {p: at for p, at in files if kind_of(p) is not None}
            faults += [(unread_reason(p), p) for p, _ in files if p not in readable]
            seconds = time.monotonic() - start
            if removed := stored.keys() - readable.keys():
                with self._pool.writing() as db:
                    for path in removed:
                        _remove(db, path)
            self._index_files(
                path
                for path, status in readable.items()
                if path not in stored
                or not _is_current(status, self._retries.get(path, 0.0) > start, *stored[path])
            )
            if len(files) > _FEW_ENTRIES:
                self._next_check_at = time.monotonic() + max(1.0, 20 * seconds)
            self._log_faults(faults)

    def _matches(self, path: str) -> bool:
        names = (path, os.path.basename(path))
        return self._pattern is None or any(fnmatchcase(each, self._pattern) for each in names)

    def _index_files(self, paths: Iterable[str]) -> None:
        """Read files, and write them in batches, each a transaction."""
        batch: list[FileRead] = []
        chars, last_write = 0, time.monotonic()
        for path in paths:
            start = time.monotonic()
            read = read_file(self._folder, path)
            if read is not None:
                batch.append(read)
                chars += len(read.document.text) if read.document else 0
                if read.read_ns == 0:
                    now = time.monotonic()
                    self._retries[path] = now + _PAUSE_FACTOR * (now - start)
            is_late = time.monotonic() - last_write > _BATCH_S
            if chars > _BATCH_CHARS or len(batch) >= _BATCH_FILES or (batch and is_late):
                self._write(batch)
                batch, chars, last_write = [], 0, time.monotonic()
        if batch:
            self._write(batch)

    def _write(self, batch: list[FileRead]) -> None:
        with self._pool.writing() as db:
            (last,) = db.execute("SELECT max(number) FROM passages").fetchone()
            number = (last or 0) + 1
            for read in batch:
                # Looked up here, not before: another process may have indexed it meanwhile.
                select = "SELECT read_ns FROM files WHERE path = ?"
                row = db.execute(select, (os.fsencode(read.path),)).fetchone()
                if row is None or row[0] <= read.read_ns:
                    _remove(db, read.path)
                    number = _insert(db, read, number)

    def _log_faults(self, faults: list[tuple[str, str]]) -> None:
        """Log which files are not read, or not whole, and why, if that has changed."""
        select = "SELECT fault, path FROM files WHERE fault IS NOT NULL ORDER BY path"
        with self._pool.reading() as db:
            faults += [(fault, os.fsdecode(path)) for fault, path in db.execute(select)]
        old_faults, self._faults = self._faults, faults
        if faults and faults != old_faults:
            level = logging.WARNING if self.unread_files() else logging.INFO
            logger.log(level, "folder %s%s", escaped(self.root), self._fault_text())

    def unread_files(self) -> str:
        """Return which files are not read, in a line; empty if these are pictures and the like."""
        # Pictures beside texts are nothing to mend.
        is_mendable = any(fault != MEDIA for fault, _ in self._faults)
        return f"folder {escaped(self.root)}{self._fault_text()}" if is_mendable else ""

    def _fault_text(self) -> str:
        """Return which files are not read and why, as the end of a line; empty for none."""
        if not self._faults:
            return ""
        paths: dict[str, list[str]] = {}
        for fault, path in self._faults:
            paths.setdefault(fault, []).append(path)
        most = sorted(paths.items(), key=lambda each: (each[0] == MEDIA, -len(each[1])))[:_CAUSES]
        text = "; ".join(
            f"{len(names)} × {fault} ({escaped(', '.join(names[:3]))}{', …' * (len(names) > 3)})"
            for fault, names in most
        )
        files = "file is" if len(self._faults) == 1 else "files are"
        return f": {len(self._faults)} {files} not read, or not whole: {text}"


def _is_current(st: os.stat_result, pauses: bool, size: int, mtime_ns: int, read_ns: int) -> bool:
    is_settled = read_ns != 0 and abs(read_ns - mtime_ns) > _RECENT_NS
    return (size, mtime_ns) == (st.st_size, st.st_mtime_ns) and (is_settled or pauses)


def _remove(db: Connection, path: str) -> None:
    """Remove a file, if it is there: another process may have removed it, or given it a number."""
    files = db.execute("SELECT number, path, title FROM files WHERE path = ?", (os.fsencode(path),))
    for file_number, *parts in files.fetchall():
        titles = titles_of(*parts)
        rows = db.execute("SELECT number, title, text FROM passages WHERE file = ?", (file_number,))
        words = [(number, *_indexed_words(titles, section, text)) for number, section, text in rows]
        insert = "INSERT INTO words (words, rowid, title, text) VALUES ('delete', ?, ?, ?)"
        db.executemany(insert, words)
        db.execute("DELETE FROM passages WHERE file = ?", (file_number,))
        db.execute("DELETE FROM files WHERE number = ?", (file_number,))


def _insert(db: Connection, read: FileRead, number: int) -> int:
    """Store a file and its passages; return the number of the next passage."""
    document = read.document or Document("", "", [])
    title = " ".join(document.title.split())[:300] or path_text(read.path)
    stat = read.status
    row = os.fsencode(read.path), stat.st_size, stat.st_mtime_ns, read.read_ns, title, read.fault
    file_number = db.execute("INSERT INTO files VALUES (NULL, ?, ?, ?, ?, ?, ?)", row).lastrowid
    pieces = [*passages_in(document.text, document.sections)]
    if kind_of(read.path) == "text" and len(pieces) > 1:
        pieces = [*with_lines(document.text, pieces)]
    titles = titles_of(row[0], title)
    passages = [
        (passage_number, file_number, section.anchor, section.title, text)
        for passage_number, (text, section) in enumerate(pieces, number)
    ]
    db.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?)", passages)
    db.executemany(
        "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
        [
            (passage_number, *_indexed_words(titles, section, text))
            for passage_number, _, _, section, text in passages
        ],
    )
    return number + len(passages)


def _indexed_words(titles: str, section: str, text: str) -> tuple[str, str]:
    """Return what is indexed of a passage: titles, which weigh more, and its text."""
    head = f"{titles} {'' if is_place(section) else section}"
    return SearchWords.indexed(head), SearchWords.indexed(text)
