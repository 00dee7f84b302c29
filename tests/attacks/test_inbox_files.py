"""Inbox files that are cut, overwritten, foreign, newer or out of reach."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from civitas.errors import CivitasError, DefinitionError, InboxError
from civitas.spaces.amqp.inbox import ENDED, Entry
from civitas.spaces.amqp.sqlite_inbox import SQLiteInbox


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inbox.db"


@pytest.fixture
def full(path: Path) -> Path:
    """An inbox of a thousand messages, closed."""
    inbox = SQLiteInbox(path)
    for n in range(1000):
        inbox.start([(f"k{n}", "a")])
        inbox.end(f"k{n}", "a", b"answer")
    inbox.accept("accepted", "a", b"message")
    inbox.close()
    return path


def changed(path: Path, *statements: str) -> None:
    """Change the file behind the inbox's back."""
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


def test_the_error_is_ours_and_names_the_file(tmp_path: Path) -> None:
    name = str(tmp_path / "none" / "inbox.db")
    with pytest.raises(CivitasError) as raised:
        SQLiteInbox(name)
    assert isinstance(raised.value, InboxError)
    assert raised.value.path == name
    folder = str(tmp_path / "none")
    assert str(raised.value) == f"inbox {name!r}: there is no folder {folder!r}: make it first"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_a_pipe_and_no_name_are_no_inbox(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(InboxError, match="it is no file: name one"):
            SQLiteInbox(path)
    for name in ("", "a\0b", None, 7, b"inbox.db"):
        with pytest.raises(DefinitionError, match="an inbox's path is the name of a file, not"):
            SQLiteInbox(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", (b"SQLite format 3", b"hello\n", b"\0" * 4096, bytes(range(256))))
def test_another_kind_of_file_is_left_as_it_is(path: Path, given: bytes) -> None:
    path.write_bytes(given)
    with pytest.raises(InboxError, match="it is no inbox but another kind of file, and was left"):
        SQLiteInbox(path)
    assert path.read_bytes() == given
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "statement",
    ("CREATE TABLE inbox (a)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"),
)
def test_another_programs_database_is_left_as_it_is(path: Path, statement: str) -> None:
    changed(path, statement)
    before = path.read_bytes()
    with pytest.raises(InboxError, match="it is another program's database"):
        SQLiteInbox(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("version", (2, 1000, -1))
def test_another_version_is_named(full: Path, version: int) -> None:
    changed(full, f"PRAGMA user_version = {version}")
    with pytest.raises(InboxError, match=f"it has version {version}, and this civitas knows up to"):
        SQLiteInbox(full)
    changed(full, "PRAGMA user_version = 1")
    inbox = SQLiteInbox(full)
    assert inbox.look_up("k999", "a") == Entry("k999", ENDED, None, b"answer")
    inbox.close()


@pytest.mark.parametrize("part", (0.99, 0.5, 0.1, 0.02))
def test_a_file_cut_short_is_found_when_it_is_opened(full: Path, part: float) -> None:
    size = full.stat().st_size
    os.truncate(full, int(size * part))
    with pytest.raises(InboxError, match=r"it is damaged \(.*restore a copy"):
        SQLiteInbox(full)
    assert full.stat().st_size == int(size * part)


def test_an_empty_file_is_a_new_inbox(path: Path) -> None:
    path.touch()
    inbox = SQLiteInbox(path)
    inbox.start([("k", "a")])
    assert inbox.look_up("k", "a") is not None
    inbox.close()


@pytest.mark.parametrize("seed", range(12))
def test_an_overwritten_file_gives_an_error_or_what_was_there(full: Path, seed: int) -> None:
    content = bytearray(full.read_bytes())
    pages = len(content) // 1024
    place = 1024 * (1 + seed * (pages - 1) // 12)
    content[place : place + 1024] = bytes((seed * 37 + n * n) % 256 for n in range(1024))
    full.write_bytes(content)
    told = []
    try:
        inbox = SQLiteInbox(full)
        for n in range(1000):
            try:
                found = inbox.look_up(f"k{n}", "a")
                assert found in (None, Entry(f"k{n}", ENDED, None, b"answer"))
            except InboxError as error:
                told.append(str(error))
        inbox.close()
    except InboxError as error:
        told.append(str(error))
    assert told
    assert all("it is damaged (" in text for text in told)


@pytest.mark.parametrize(
    ("statement", "text"),
    (
        ("UPDATE inbox SET state = 7", "the entry of 'accepted' is none"),
        ("UPDATE inbox SET state = 'x'", "the entry of 'accepted' is none"),
        ("UPDATE inbox SET message = 'text'", "the entry of 'accepted' is none"),
        ("UPDATE inbox SET answer = 7", "the entry of 'accepted' is none"),
        ("DROP TABLE inbox", "no such table: inbox"),
        ("ALTER TABLE inbox RENAME COLUMN answer TO reply", "no such column: answer"),
    ),
)
def test_contents_that_are_none_are_found_when_read(full: Path, statement: str, text: str) -> None:
    changed(full, statement)

    def read() -> None:
        inbox = SQLiteInbox(full)
        try:
            inbox.look_up("accepted", "a")
        except InboxError:
            with pytest.raises(InboxError, match="it is damaged"):
                inbox.unfinished("a")
            raise
        finally:
            inbox.close()

    with pytest.raises(InboxError, match=rf"it is damaged \({text}"):
        read()


@pytest.mark.parametrize(
    ("mode", "text"),
    (
        (0o777, "it may not be read and written: change its permissions"),
        (0o555, "may not be written to, where SQLite keeps files beside this one: change its"),
    ),
)
def test_what_may_not_be_written_is_named(mode: int, text: str) -> None:
    # In a process without root's rights, for whom nothing is read-only.
    program = (
        "import os, sys\n"
        "from civitas.errors import InboxError\n"
        "from civitas.spaces.amqp.sqlite_inbox import SQLiteInbox\n"
        "path = sys.argv[1] + '/inbox.db'\n"
        "SQLiteInbox(path).close()\n"
        "os.chmod(path, 0o444)\n"
        "os.chmod(sys.argv[1], int(sys.argv[2]))\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    SQLiteInbox(path)\n"
        "except InboxError as error:\n"
        "    print(error.reason)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, folder, str(mode)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    assert text in done.stdout
