"""Folders and files that mean harm to whom searches them, and indexes that are not whole."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moothall.foundation.errors import FileError, FolderIndexError
from moothall.research import search_folder
from moothall.research.findings import Resource
from moothall.research.resource_pool import passages_in

SECRET = "moonstone"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one good file, beside a secret."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "secret.txt").write_text(SECRET)
    root = tmp_path / "root"
    root.mkdir()
    (root / "good.txt").write_text("A good file speaks of gravity.")
    return root


@pytest.fixture
def search(root: Path, tmp_path: Path) -> Any:
    return search_folder(root, index=tmp_path / "index.db")


def found(search: Any, query: str) -> list[str]:
    resources: list[Resource] = search.execute(query=query)
    return [Path(each.url).name for each in resources]


def test_links_are_not_followed(root: Path, search: Any, caplog: Any) -> None:
    (root / "file.txt").symlink_to("../beside/secret.txt")
    (root / "folder").symlink_to("../beside")
    (root / "absolute").symlink_to(root.parent / "beside")
    (root / "loop").symlink_to(".")
    (root / "self.txt").symlink_to("self.txt")
    (root / "again.txt").symlink_to("good.txt")
    with caplog.at_level(logging.WARNING):
        assert found(search, SECRET) == []
    assert found(search, "gravity") == ["good.txt"]
    assert "6 files are not read, or not whole: 6 × links, which are not followed" in caplog.text


def test_folder_search_of_a_folder_that_becomes_a_link_leads_nowhere(
    root: Path, search: Any
) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "secret.txt").write_text("harmless")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (root / "sub").rename(root / "away")
            (root / "sub").symlink_to("../beside")
            (root / "sub").unlink()
            (root / "away").rename(root / "sub")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(100):
            assert found(search, SECRET) == []
    finally:
        done.set()
        thread.join()
    assert found(search, "harmless") == ["secret.txt"]


def test_folder_search_does_not_open_pipes_sockets_and_devices(root: Path, search: Any) -> None:
    os.mkfifo(root / "pipe.txt")  # opening it would wait for its other end
    (root / "folder.txt").mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(root / "socket.txt"))
        assert found(search, "gravity") == ["good.txt"]


def test_hidden_and_made_folders_are_left_out(root: Path, search: Any) -> None:
    for name in (".git", ".venv", "node_modules", "__pycache__", "a/.hidden"):
        (root / name).mkdir(parents=True)
        (root / name / "a.txt").write_text(SECRET)
    (root / ".env").write_text(SECRET)
    assert found(search, SECRET) == []


def test_files_that_change_while_they_are_read(root: Path, search: Any) -> None:
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            (root / "live.log").write_text(f"gravity {number}\n" * 5000)
            (root / f"gone{number % 3}.txt").write_text("gravity")
            (root / f"gone{(number + 1) % 3}.txt").unlink(missing_ok=True)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(20):
            assert "good.txt" in found(search, "gravity")
    finally:
        done.set()
        thread.join()
    (root / "live.log").write_text("at rest")
    assert found(search, "rest") == ["live.log"]
    assert "live.log" not in found(search, "gravity")


def test_folder_search_leaves_out_and_counts_unreadable_files(
    root: Path, search: Any, caplog: Any
) -> None:
    with (root / "huge.txt").open("wb") as file:
        file.write(SECRET.encode())
        file.truncate(21 * 2**20)
    (root / "binary.txt").write_bytes(b"\x7fELF\0\0" + SECRET.encode())
    (root / "bad.pdf").write_bytes(b"%PDF-1.7\n1 0 obj <</Type /Catalog /Pages 1 0 R>> endobj\n")
    (root / "no.pdf").write_text("not a PDF")
    (root / "bad.html").write_text("<html><p>" + "<div>" * 50_000 + "nonsense <a href='" * 1000)
    (root / "empty.html").write_text("")
    (root / "empty.md").write_text("")
    with caplog.at_level(logging.WARNING):
        assert found(search, SECRET) == []
    assert found(search, "gravity") == ["good.txt"]
    for fault in ("more than 20 MiB", "it is binary"):
        assert fault in caplog.text
    (root / "binary.txt").write_text(SECRET)
    assert found(search, SECRET) == ["binary.txt"]


def test_table_with_too_large_a_value_is_read_by_lines(root: Path, search: Any) -> None:
    (root / "field.csv").write_text("a,b\n" + "x" * 200_000 + ",1\namber,2\n")
    assert found(search, "amber") == ["field.csv"]


def test_text_that_is_not_as_it_should_be(root: Path, search: Any) -> None:
    (root / "late.txt").write_bytes(b"pearl\n" * 2000 + b"a\0b\x1b[2J\x07 opal \xff\xfe")
    (root / "surrogate.json").write_bytes(b'{"a": "\xed\xa0\x80 jasper"}')
    (root / "wide.csv").write_text(
        ",".join(f"column{n}" for n in range(10_000))
        + "\n"
        + ",".join(f'"v ""{n}"" here"' for n in range(10_000))
    )
    (resource,) = search.execute(query="opal")
    assert "ab opal" in resource.content
    assert found(search, "jasper") == ["surrogate.json"]
    (resource,) = search.execute(query="column7654")
    assert 'column7654: v "7654" here' in resource.content
    assert resource.sections[0].anchor == "row-1"


def test_table_whose_column_names_would_fill_the_disk_is_not_indexed(
    root: Path, search: Any
) -> None:
    names = ",".join("n" * 80 for _ in range(5000))
    (root / "bomb.csv").write_text(names + "\n" + (",".join("1" * 5000) + "\n") * 100)
    assert found(search, "gravity") == ["good.txt"]
    index = root.parent / "index.db"
    assert index.stat().st_size + Path(f"{index}-wal").stat().st_size < 50e6


@pytest.mark.parametrize(
    "text",
    (
        " \n" * 75_000,
        "\n" * 75_000,
        "# " + "[" * 150_000,
        "---\n" * 25_000,
        "@a\n" * 30_000,
        "=\n" * 30_000,
        "=" * 150_000 + "x\n",
        "a" * 150_000,
        "```\n" * 25_000,
        "# a\n" * 8_000,
    ),
    ids=lambda text: repr(text[:6]),
)
def test_repetitive_text_takes_no_longer(root: Path, search: Any, text: str) -> None:
    for suffix in ("md", "rst", "py", "csv", "txt"):
        (root / f"odd.{suffix}").write_text(text)
    assert found(search, "gravity") == ["good.txt"]


def test_passages_of_blank_lines_are_found_in_one_walk() -> None:
    text = "a\n" + " \n" * 300_000 + "b"
    assert [passage for passage, _ in passages_in(text, [])] == ["a", "b"]


def test_names_that_no_text_can_carry(root: Path, search: Any) -> None:
    for name in (b"new\nline.txt", b"\xff\xfe.txt", b"\x1b[31m.md", b"%41#?.txt", b"\\x41.txt"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("agate")
    resources = search.execute(query="agate")
    ends = sorted(each.url.rpartition("/")[2] for each in resources)
    wanted = ["%1B%5B31m.md", "%2541%23%3F.txt", "%5Cx41.txt", "%FF%FE.txt", "new%0Aline.txt"]
    assert ends == wanted
    for each in resources:
        assert (each.description or "").isprintable()


def test_folders_deeper_than_can_be_opened(root: Path, search: Any) -> None:
    os.makedirs(root / "/".join("d" * 50))
    (root / "/".join("d" * 50) / "deep.txt").write_text("jade")
    handle = os.open(root, os.O_RDONLY)
    for _ in range(20):  # longer than a path may be
        os.mkdir("d" * 250, dir_fd=handle)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    assert found(search, "jade") == ["deep.txt"]


def test_folder_search_without_its_root_says_so_and_keeps_the_index(
    root: Path, search: Any
) -> None:
    assert found(search, "gravity") == ["good.txt"]
    root.rename(root.parent / "away")
    with pytest.raises(FileError, match="the root folder is gone"):
        search.execute(query="gravity")
    (root.parent / "away").rename(root)
    assert found(search, "gravity") == ["good.txt"]


def damage(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def test_folder_index_that_is_damaged_is_said(root: Path, tmp_path: Path) -> None:
    assert found(search_folder(root, index=tmp_path / "mine.db"), "gravity") == ["good.txt"]
    damage(tmp_path / "mine.db")
    with pytest.raises(FolderIndexError, match=r"mine\.db': it is damaged"):
        search_folder(root, index=tmp_path / "mine.db").execute(query="gravity")


def test_folder_index_path_of_another_kind_of_file_is_refused_and_left(
    root: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
    (tmp_path / "text.db").write_text("not a database " * 20)
    for name in ("theirs.db", "text.db"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(FolderIndexError, match="left as it is"):
            search_folder(root, index=tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_questions_of_any_length_and_kind_are_answered(search: Any) -> None:
    for query in ("gravity " * 200_000, "g" * 3_000_000 + " gravity", "gravity \0 \ud800 'or\" *"):
        found(search, query)
    assert found(search, "NEAR(gravity, title:*) AND NOT -x ^ {") == ["good.txt"]
    assert found(search, " ".join(f"word{n}" for n in range(100_000))) == []
