"""Names and files that mean harm, on every operation that takes a name."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, NativeSpace
from moothall.actions.approval import Rule, RuleApprover
from moothall.agents import Host, file_actions
from moothall.agents.ready.folder import Folder
from moothall.foundation.errors import (
    ActionError,
    FileError,
    FileTooLarge,
    NoSuchFile,
    NotAFile,
    NotText,
    OutsideFolder,
)

SECRET = "the secret outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder beside a secret, with everything in it that is no plain file."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "secret").write_text(SECRET)
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "good").write_text("good\n")
    (root / "sub" / "good").write_text("good\n")
    (root / "out").symlink_to("../secret")
    (root / "out_folder").symlink_to("..")
    (root / "out_later").symlink_to("sub/../../secret")
    (root / "out_absolute").symlink_to(tmp_path / "secret")
    (root / "sub" / "out").symlink_to("../../secret")
    (root / "in_absolute").symlink_to(root / "good")
    (root / "loop").symlink_to("loop")
    (root / "there").symlink_to("back")
    (root / "back").symlink_to("there")
    (root / "dangling").symlink_to("nothing")
    os.mkfifo(root / "pipe")
    (root / "device").symlink_to("/dev/zero")
    return root


def read(folder: Folder, name: str) -> object:
    return folder.read(name)


def search(folder: Folder, name: str) -> object:
    return folder.search(name, "e")


def write(folder: Folder, name: str) -> object:
    return folder.write(name, "overwritten")


def delete(folder: Folder, name: str) -> object:
    return folder.delete(name)


def names(folder: Folder, name: str) -> object:
    return folder.names(name)


Operation = Callable[[Folder, str], object]
OPERATIONS: tuple[Operation, ...] = (read, search, write, delete, names)


def names_below(folder: Path) -> list[str]:
    """Return the paths of all that is in a folder, without following links."""
    return sorted(
        os.path.join(where, name)
        for where, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )


def refused(root: Path, do: Operation, name: str, error: type[FileError], text: str) -> None:
    """The call raises exactly that, nothing outside has changed, and a good call still works."""
    before = names_below(root.parent)
    with pytest.raises(FileError) as caught:
        do(Folder(root), name)
    assert type(caught.value) is error
    assert names_below(root.parent) == before
    assert text in str(caught.value)
    assert str(root) not in str(caught.value)
    assert (root.parent / "secret").read_text() == SECRET
    assert (root.parent / "beside" / "secret").read_text() == SECRET
    assert Folder(root).read("good") == "good\n"


NOWHERE = (
    ("..", OutsideFolder, '".." leads out of the folder'),
    ("../secret", OutsideFolder, '"../secret" leads out of the folder'),
    ("sub/../../secret", OutsideFolder, "leads out of the folder"),
    ("sub/../../root/good", OutsideFolder, "leads out of the folder"),
    ("./.././../etc/passwd", OutsideFolder, "leads out of the folder"),
    ("out_folder/secret", OutsideFolder, "leads out of the folder"),
    ("out_folder/beside/secret", OutsideFolder, "leads out of the folder"),
    ("/etc/passwd", OutsideFolder, '"/etc/passwd" is an absolute path'),
    ("//etc/passwd", OutsideFolder, "is an absolute path"),
    ("", FileError, "a file's name must not be empty"),
    ("a\0b", FileError, '"a\\x00b" has a NUL character'),
    ("good\0.txt", FileError, "has a NUL character"),
    ("x" * 256, FileError, "is longer than a file's name can be"),
    ("é" * 128, FileError, "is longer than a file's name can be"),
    ("a/" * 2049, FileError, "is longer than a file's name can be"),
    ("\ud800", FileError, '"\\ud800" has characters that no file\'s name has'),
    ("good/x", NotAFile, '"good" on the way is not a folder'),
    ("good/../good", NotAFile, '"good" on the way is not a folder'),
    ("pipe/x", NotAFile, '"pipe" on the way is not a folder'),
    ("nowhere/x", NoSuchFile, '"nowhere" does not exist'),
    ("loop/x", FileError, "goes through too many symbolic links"),
)
NO_PLAIN_FILE = (
    ("out", OutsideFolder, '"out" leads out of the folder'),
    ("out_later", OutsideFolder, "leads out of the folder"),
    ("sub/out", OutsideFolder, "leads out of the folder"),
    ("out_absolute", OutsideFolder, "a symbolic link on the way is absolute"),
    ("in_absolute", OutsideFolder, "a symbolic link on the way is absolute"),
    ("device", OutsideFolder, "a symbolic link on the way is absolute"),
    ("loop", FileError, "goes through too many symbolic links"),
    ("there", FileError, "goes through too many symbolic links"),
    ("pipe", NotAFile, '"pipe" is a pipe, socket or device, not a file'),
)


@pytest.mark.parametrize(
    ("do", "name", "error", "text"),
    (
        *((do, *row) for do in OPERATIONS for row in NOWHERE),
        # A link that leads nowhere good is deleted itself, and so is a pipe.
        *((do, *row) for do in OPERATIONS if do is not delete for row in NO_PLAIN_FILE),
    ),
)
def test_file_name_that_leads_nowhere_good_is_refused(
    root: Path, do: Operation, name: str, error: type[FileError], text: str
) -> None:
    refused(root, do, name, error, text)


@pytest.mark.parametrize("do", (read, search, write, delete))
@pytest.mark.parametrize("name", (".", "sub", "sub/", "sub/."))
def test_folder_in_the_place_of_a_file_is_refused(root: Path, do: Operation, name: str) -> None:
    refused(root, do, name, NotAFile, f'"{name}" is a folder')


def test_deleting_a_link_that_leads_out_deletes_the_link(root: Path) -> None:
    for name in ("out", "out_folder", "out_absolute", "loop", "dangling", "device"):
        Folder(root).delete(name)
        assert not (root / name).is_symlink()
    assert (root.parent / "secret").read_text() == SECRET
    assert Folder(root).read("good") == "good\n"


def test_socket_in_the_place_of_a_file_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        refused(root, read, "socket", NotAFile, '"socket" is a pipe, socket or device')


@pytest.mark.parametrize("do", (read, search))
@pytest.mark.parametrize(
    "data",
    (
        b"\x89PNG\r\n\x1a\n\0\0",
        b"text then\0",
        b"\xff\xfe",
        "text".encode("utf-16"),
        b"abc\xc3",
        b"\xed\xa0\x80",
    ),
    ids=("png", "nul", "bytes", "utf-16", "cut", "surrogate"),
)
def test_binary_file_is_not_read_as_text(root: Path, do: Operation, data: bytes) -> None:
    (root / "data.bin").write_bytes(data)
    text = f'"data.bin" is binary, not UTF-8 text; it has {len(data)} bytes'
    refused(root, do, "data.bin", NotText, text)


def test_huge_file_is_searched_but_not_read(root: Path) -> None:
    (root / "huge.log").write_bytes(b"nothing here\n" * 400_000 + b"the needle\n")
    refused(
        root, read, "huge.log", FileTooLarge, '"huge.log" has 5 MiB, and at most 1 MiB are read'
    )
    assert Folder(root).search("huge.log", "needle") == [(400_001, "the needle")]
    small = Folder(root, max_bytes=4)
    with pytest.raises(
        FileTooLarge, match='"good" has 5 bytes, and at most 4 bytes are read at once'
    ):
        small.read("good")
    with pytest.raises(FileTooLarge, match='"good": the text has 5 bytes, and at most 4 bytes are'):
        small.write("good", "1é34")
    assert (root / "good").read_text() == "good\n"


def test_sparse_file_of_a_terabyte_is_refused(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(2**40)
    refused(root, read, "sparse", FileTooLarge, '"sparse" has 1024 GiB')
    refused(root, search, "sparse", NotText, '"sparse" is binary')


def test_file_search_in_a_line_without_an_end_takes_no_memory(root: Path) -> None:
    (root / "line").write_bytes(b"x" * 2**25 + b"needle" + b"x" * 2**20)
    ((number, line),) = Folder(root).search("line", "needle")
    assert number == 1
    assert "needle" in line
    assert len(line) <= 302


@pytest.mark.parametrize("term", ("", "two\nlines", "x" * 301))
def test_file_search_for_what_no_line_can_have_is_refused(root: Path, term: str) -> None:
    with pytest.raises(FileError, match="what to search for is 1 to 300 characters of one line"):
        Folder(root).search("good", term)
    assert Folder(root).search("good", "oo") == [(1, "good")]


def test_file_write_of_half_a_character_is_refused(root: Path) -> None:
    with pytest.raises(FileError, match='"good": the text has half a character'):
        Folder(root).write("good", "\ud800")
    assert Folder(root).read("good") == "good\n"


def test_file_name_that_is_not_utf_8_is_shown_and_can_be_used(root: Path) -> None:
    with open(os.fsencode(root) + b"/caf\xe9", "w") as file:
        file.write("bytes")
    folder = Folder(root)
    assert "caf\\xe9" in folder.names()
    assert folder.read("caf\\xe9") == "bytes"
    (root / "caf\\xe9").write_text("backslash")
    assert folder.read("caf\\xe9") == "backslash"  # a name that is so goes first
    assert folder.read("good") == "good\n"


def test_control_characters_in_a_name_are_not_obeyed(root: Path) -> None:
    refused(root, read, "\x1b[2Jgo\nod", NoSuchFile, '"\\x1b[2Jgo\\nod" does not exist')


def test_file_without_read_permission_is_refused(root: Path) -> None:
    (root / "good").chmod(0)
    try:
        (root / "good").read_text()
    except PermissionError:
        with pytest.raises(FileError, match=r'^"good": permission denied$'):
            Folder(root).read("good")
    else:  # root reads everything
        assert Folder(root).read("good") == "good\n"


def test_root_folder_that_is_gone_is_said(root: Path) -> None:
    folder = Folder(root / "sub")
    (root / "sub").rename(root / "moved")
    with pytest.raises(FileError, match=r"^the root folder is gone"):
        folder.read("good")
    (root / "sub").symlink_to("../beside")
    with pytest.raises(FileError, match=r"^the root folder is gone"):
        folder.read("secret")
    assert Folder(root).read("good") == "good\n"


def test_root_folder_replaced_by_another_is_not_the_root(root: Path) -> None:
    folder = Folder(root / "sub")
    (root / "sub").rename(root / "moved")
    (root / "sub").mkdir()
    (root / "sub" / "secret").write_text("secret")
    for look in (folder.names, lambda: folder.read("secret")):
        with pytest.raises(FileError, match="another folder has the place of the root folder"):
            look()
    (root / "sub" / "secret").unlink()
    (root / "sub").rmdir()
    (root / "moved").rename(root / "sub")
    folder.names()


def link_and_file(root: Path) -> None:
    (root / "new").write_text("inside")
    os.replace(root / "new", root / "swap")
    os.symlink("../secret", root / "new")
    os.replace(root / "new", root / "swap")


def link_and_folder(root: Path) -> None:
    for kind in ("plain_folder", "link_out"):
        os.rename(root / kind, root / "swap")
        os.rename(root / "swap", root / kind)


@pytest.mark.parametrize(
    ("swap", "name"), ((link_and_file, "swap"), (link_and_folder, "swap/secret"))
)
def test_file_swapped_for_a_link_during_use_stays_in_the_folder(
    root: Path, swap: Callable[[Path], None], name: str
) -> None:
    """The race between looking at a name and opening it, run as fast as it goes."""
    (root / "plain_folder").mkdir()
    (root / "plain_folder" / "secret").write_text("inside")
    (root / "link_out").symlink_to("../beside")
    folder = Folder(root)
    over = threading.Event()

    def swap_on() -> None:
        while not over.is_set():
            swap(root)

    thread = threading.Thread(target=swap_on)
    thread.start()
    outcomes = set()
    try:
        for _ in range(1000):
            for do in (read, search, write):
                try:
                    outcomes.add(str(do(folder, name)))
                except FileError as error:
                    outcomes.add(type(error).__name__)
    finally:
        over.set()
        thread.join()
    assert "OutsideFolder" in outcomes  # the race did take place
    assert SECRET not in str(outcomes)
    assert (root.parent / "secret").read_text() == SECRET
    assert (root.parent / "beside" / "secret").read_text() == SECRET
    assert folder.read("good") == "good\n"


def test_pipe_swapped_into_a_files_place_keeps_nobody_waiting(root: Path) -> None:
    folder = Folder(root)
    (root / "plain").write_text("inside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "plain", root / "swap")
            os.rename(root / "swap", root / "plain")
            os.rename(root / "pipe", root / "swap")
            os.rename(root / "swap", root / "pipe")

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = set()
    try:
        for _ in range(3000):
            try:
                outcomes.add(folder.read("swap"))
            except FileError as error:
                outcomes.add(type(error).__name__)
    finally:
        over.set()
        thread.join()
    assert {"inside", "NotAFile"} <= outcomes <= {"inside", "NotAFile", "NoSuchFile"}
    assert folder.read("good") == "good\n"


def test_pipe_that_replaces_a_file_between_look_and_opening_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opens(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if path == "good" and (root / "good").is_file():
            (root / "good").unlink()
            os.mkfifo(root / "good")
        return real(path, flags, *args, **options)

    folder = Folder(root)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opens)
        with pytest.raises(NotAFile, match='"good" is a pipe, socket or device'):
            folder.read("good")


def test_file_that_outgrows_the_limit_while_it_is_read_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.read

    def reads(handle: int, count: int) -> bytes:
        with (root / "good").open("a") as file:
            file.write("more and more")
        return real(handle, count)

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", reads)
        with pytest.raises(FileTooLarge, match=r'"good" has 1. bytes, and at most 10 bytes'):
            Folder(root, max_bytes=10).read("good")


def test_file_write_that_fails_leaves_the_folder_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(os.listdir(root))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FileError, match='"good": no space left on device'):
            Folder(root).write("good", "other")
    assert sorted(os.listdir(root)) == before
    assert Folder(root).read("good") == "good\n"


def test_file_replacing_a_private_one_is_private_from_the_beginning(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    real = os.write

    def writes(handle: int, data: Any) -> int:
        modes.append(os.fstat(handle).st_mode & 0o777)
        return real(handle, data)

    (root / "good").chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", writes)
        Folder(root).write("good", "other")
    assert modes == [0o600]
    assert (root / "good").stat().st_mode & 0o777 == 0o600


def test_file_operations_leave_no_handle_open(root: Path) -> None:
    def count() -> int:
        return len(os.listdir("/dev/fd"))

    def all_of_it() -> None:
        for name in ("good", "sub/good", "out", "pipe", "nowhere", "sub/../..", "good/x", "loop/x"):
            for do in (read, search, names):
                try:
                    do(Folder(root), name)
                except FileError:
                    continue

    all_of_it()
    before = count()
    for _ in range(20):
        all_of_it()
    assert count() == before


def test_file_actions_refuse_models_and_agents_alike(root: Path) -> None:
    list_files, read_file, _ = file_actions(root)
    with pytest.raises(OutsideFolder):
        read_file.execute(file_name="../secret")
    with NativeSpace(approver=RuleApprover([Rule()])) as space:
        space.add(Host("Host", root))
        me = space.add(Agent("me"))
        for name in ("../secret", "out", "out_absolute", "/etc/passwd"):
            for action, more in (
                ("read_file", {}),
                ("write_to_file", {"content": "x"}),
            ):
                with pytest.raises(ActionError, match=r"^OutsideFolder: ") as caught:
                    me.ask("Host", action, file_name=name, **more).result(timeout=10)
                assert caught.value.type == "OutsideFolder"
        with pytest.raises(ActionError, match=r"^OutsideFolder: "):
            me.ask("Host", "list_files", folder_name="..").result(timeout=10)
        with pytest.raises(ActionError, match=r"^OutsideFolder: "):
            me.ask("Host", "delete_file", file_name="../secret").result(timeout=10)
        assert me.ask("Host", "read_file", file_name="good").result(timeout=10) == "good\n"
    assert (root.parent / "secret").read_text() == SECRET
    assert "good" in list_files.execute()
