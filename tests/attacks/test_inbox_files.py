"""Inbox files that are overwritten."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moothall.foundation.errors import InboxError
from moothall.spaces.amqp.inbox import ENDED, Entry, Inbox


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inbox.db"


@pytest.fixture
def full(path: Path) -> Path:
    """An inbox of a thousand messages, closed."""
    inbox = Inbox(path)
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


@pytest.mark.parametrize("seed", range(12))
def test_an_overwritten_file_gives_an_error_or_what_was_there(full: Path, seed: int) -> None:
    content = bytearray(full.read_bytes())
    pages = len(content) // 1024
    place = 1024 * (1 + seed * (pages - 1) // 12)
    content[place : place + 1024] = bytes((seed * 37 + n * n) % 256 for n in range(1024))
    full.write_bytes(content)
    told = []
    try:
        inbox = Inbox(full)
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
        ("UPDATE inbox SET state = 7", "the entry of 'accepted' is not valid"),
        ("UPDATE inbox SET state = 'x'", "the entry of 'accepted' is not valid"),
        ("UPDATE inbox SET message = 'text'", "the entry of 'accepted' is not valid"),
        ("UPDATE inbox SET answer = 7", "the entry of 'accepted' is not valid"),
        ("DROP TABLE inbox", "no such table: inbox"),
        ("ALTER TABLE inbox RENAME COLUMN answer TO reply", "no such column: answer"),
    ),
)
def test_contents_that_are_none_are_found_when_read(full: Path, statement: str, text: str) -> None:
    changed(full, statement)

    def read() -> None:
        inbox = Inbox(full)
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
