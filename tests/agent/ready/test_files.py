"""The file actions: what they give of the files of a folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from moothall import ACCESS_REQUESTED, Action, ReActAgent, ScriptedModel
from moothall.actions.approval import ApprovalRequest, CallbackApprover
from moothall.agents import changing_actions, file_actions
from moothall.agents.ready.folder import Folder
from moothall.foundation.errors import (
    CommandTimeout,
    FileError,
    FileTooLarge,
    NoSuchFile,
    NotAFile,
    OutsideFolder,
)


def actions(root: Path, **options: Any) -> dict[str, Action]:
    return {action.name: action for action in file_actions(root, **options)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small folder of text files."""
    (tmp_path / "README.md").write_text("# Widgets\n\nRETRY_LIMIT is 3.\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "widget.py").write_text(
        "import os\n\n  RETRY_LIMIT = 3\nprint(RETRY_LIMIT)\n"
    )
    (tmp_path / ".hidden").write_text("")
    return tmp_path


def test_file_actions_list_names_the_hidden_ones_last(root: Path) -> None:
    assert actions(root)["list_files"].execute() == ["README.md", "src/", ".hidden"]


def test_file_actions_read_a_file_as_it_is(root: Path) -> None:
    (root / "text").write_bytes("é\r\n\tend".encode())
    read = actions(root)["read_file"]
    assert read.execute(file_name="README.md") == "# Widgets\n\nRETRY_LIMIT is 3.\n"
    assert read.execute(file_name="text") == "é\r\n\tend"
    long = "1234567890\n" * 20_000
    (root / "long").write_text(long)
    assert read.execute(file_name="long") == long


def test_lines_are_found_with_their_numbers(root: Path) -> None:
    search = actions(root)["search_in_file"]
    found = search.execute(file_name="src/widget.py", search_term="RETRY_LIMIT")
    assert found == [(3, "RETRY_LIMIT = 3"), (4, "print(RETRY_LIMIT)")]
    assert search.execute(file_name="src/widget.py", search_term="retry_limit") == []


def test_file_actions_tell_a_model_what_each_takes(root: Path) -> None:
    by_name = actions(root)
    assert list(by_name) == ["list_files", "read_file", "search_in_file"]
    assert by_name["list_files"].parameters["properties"] == {}
    assert by_name["read_file"].parameters["required"] == ["file_name"]
    assert by_name["search_in_file"].parameters["required"] == ["file_name", "search_term"]
    assert all(action.description and action.idempotent for action in by_name.values())


def test_file_actions_with_terminal_true_are_terminal(root: Path) -> None:
    assert {a.terminal for a in actions(root).values()} == {False}
    assert {a.terminal for a in actions(root, terminal=True).values()} == {True}


@pytest.mark.parametrize(
    "name",
    (
        "src/widget.py",
        "./src/./widget.py",
        "src/../src/widget.py",
        "src//widget.py",
        "link",
        "to/widget.py",
    ),
)
def test_file_name_may_go_any_way_inside_the_folder(root: Path, name: str) -> None:
    (root / "link").symlink_to("src/widget.py")
    (root / "to").symlink_to("src")
    (root / "src" / "up").symlink_to("../src/../README.md")
    assert "RETRY_LIMIT" in actions(root)["read_file"].execute(file_name=name)
    assert "Widgets" in actions(root)["read_file"].execute(file_name="to/up")


@pytest.mark.parametrize(
    ("wanted", "suggested"),
    (
        ("README", '"README.md"'),
        ("readme.md", '"README.md"'),
        ("src/wigdet.py", '"widget.py"'),
        ("s", '"s.configuration"'),
    ),
)
def test_file_error_names_what_is_close(root: Path, wanted: str, suggested: str) -> None:
    (root / "s.configuration").write_text("")
    with pytest.raises(NoSuchFile, match="does not exist; close to it: ") as caught:
        actions(root)["read_file"].execute(file_name=wanted)
    assert str(caught.value).endswith(suggested)


def test_file_actions_look_at_the_folder_anew_each_time(root: Path) -> None:
    by_name = actions(root)
    assert "new" not in by_name["list_files"].execute()
    (root / "new").write_text("fresh")
    assert "new" in by_name["list_files"].execute()
    assert by_name["read_file"].execute(file_name="new") == "fresh"


def test_root_folder_must_be_a_folder(root: Path) -> None:
    with pytest.raises(NotAFile, match=r"the root folder .*README\.md. is not a folder"):
        file_actions(root / "README.md")
    with pytest.raises(NoSuchFile, match=r"the root folder .*nowhere. does not exist"):
        file_actions(root / "nowhere")
    with pytest.raises(NoSuchFile, match='the root folder must be a path, got ""'):
        file_actions("")
    with pytest.raises(NotAFile, match="the root folder must be the path of a folder, got 3"):
        file_actions(3)  # type: ignore[arg-type]


def test_root_folder_may_be_a_link_and_relative(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "to").symlink_to("src")
    monkeypatch.chdir(root)
    folder = Folder("to")
    monkeypatch.chdir(root / "src")
    assert folder.names() == ["widget.py"]


def test_file_search_finds_a_term_on_the_border_of_what_is_read_at_once(root: Path) -> None:
    term = "needle"
    for at in range(2**16 - len(term) - 1, 2**16 + 2):
        (root / "long").write_text("é" + "x" * (at - 2) + term + "y" * 500 + "\nneedle")
        (first, line), last = actions(root)["search_in_file"].execute(
            file_name="long", search_term=term
        )
        assert first == 1
        assert term in line
        assert line.startswith("…")
        assert line.endswith("…")
        assert len(line) <= 302
        assert last == (2, "needle")


def test_file_search_says_that_there_is_more(root: Path) -> None:
    (root / "many").write_text("term\n" * 101)
    found = actions(root)["search_in_file"].execute(file_name="many", search_term="term")
    assert found[99] == (100, "term")
    assert found[100:] == [(101, "… only 100 lines are given; more follow")]
    (root / "many").write_text("term\n" * 100)
    assert len(actions(root)["search_in_file"].execute(file_name="many", search_term="term")) == 100


def test_file_list_that_is_long_says_how_much_is_left_out(root: Path) -> None:
    (root / "many").mkdir()
    for number in range(1003):
        (root / "many" / f"{number:04}").touch()
    names = Folder(root).names("many")
    assert names[:2] == ["0000", "0001"]
    assert names[999:] == ["0999", "… 3 more are left out"]
    for number in (1002, 1001):
        (root / "many" / str(number)).unlink()
    assert Folder(root).names("many")[999:] == ["0999", "… 1 more are left out"]
    (root / "many" / "1000").unlink()
    assert Folder(root).names("many")[999:] == ["0999"]
    with pytest.raises(NotAFile, match=r'"many/0001" is a file, not a folder'):
        Folder(root).names("many/0001")


# -- writing and deleting, which the host offers ---------------------------------------------------


def test_folder_leaves_no_file_open(root: Path) -> None:
    folder = Folder(root)
    (root / "sub").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3):
        folder.write("sub/new.py", f"x = {number}\n")
        folder.read("sub/new.py")
        folder.search("sub/new.py", "x")
        folder.names("sub")
        with pytest.raises(NoSuchFile):
            folder.read("sub/none.py")
        folder.delete("sub/new.py")
    assert len(os.listdir("/proc/self/fd")) == before


def test_folder_write_replaces_a_file_as_a_whole(root: Path) -> None:
    folder = Folder(root)
    folder.write("src/new.py", "x = 'é'\n")
    assert (root / "src" / "new.py").read_text() == "x = 'é'\n"
    (root / "src" / "new.py").chmod(0o754)
    folder.write("src/new.py", "")
    assert (root / "src" / "new.py").read_text() == ""
    assert (root / "src" / "new.py").stat().st_mode & 0o777 == 0o754
    assert sorted(os.listdir(root / "src")) == ["new.py", "widget.py"]


def test_writing_through_a_link_keeps_the_link(root: Path) -> None:
    (root / "link").symlink_to("src/widget.py")
    Folder(root).write("link", "new")
    assert (root / "link").is_symlink()
    assert (root / "src" / "widget.py").read_text() == "new"


def test_deleting_a_link_keeps_what_it_points_at(root: Path) -> None:
    (root / "link").symlink_to("src/widget.py")
    folder = Folder(root)
    folder.delete("link")
    assert folder.names() == ["README.md", "src/", ".hidden"]
    assert folder.names("src") == ["widget.py"]
    folder.delete("src/widget.py")
    assert folder.names("src") == []


def test_file_names_lead_through_so_many_links_and_so_deep(root: Path) -> None:
    for number in range(41):
        (root / str(number)).symlink_to("README.md" if number == 0 else str(number - 1))
    folder = Folder(root)
    assert folder.read("39") == folder.read("README.md")
    with pytest.raises(FileError, match="too many symbolic links"):
        folder.read("40")
    deep = "d/" * 64
    os.makedirs(root / deep / "d")
    (root / deep / "x").write_text("deep")
    assert folder.read(f"{deep}x") == "deep"
    with pytest.raises(FileError, match="more than 64 folders deep"):
        folder.names(f"{deep}d/x")
    long = "x" * 255
    folder.write(long, "long")
    assert folder.read(long) == "long"


# -- schemas for small models ----------------------------------------------------------------------


def named(root: Path) -> list[list[str] | None]:
    """The file names in the schemas of the actions that take one."""
    found: list[list[str] | None] = []
    for action in file_actions(root, only_listed=True)[1:]:
        schema = action.parameters["properties"]["file_name"]
        choice = schema.get("anyOf")
        found.append(None if choice is None else [form["const"] for form in choice])
    return found


def test_file_schema_may_name_the_files_that_are_there(root: Path) -> None:
    assert named(root) == [["README.md", ".hidden"]] * 2
    by_name = actions(root, only_listed=True)
    (root / "new").write_text("fresh")
    assert {"const": "new"} in by_name["read_file"].parameters["properties"]["file_name"]["anyOf"]
    assert by_name["read_file"].parameters["required"] == ["file_name"]
    assert "anyOf" not in by_name["search_in_file"].parameters["properties"]["search_term"]
    assert list(by_name) == ["list_files", "read_file", "search_in_file"]


def test_file_schema_that_names_files_lets_a_call_name_others(root: Path) -> None:
    read = actions(root, only_listed=True)["read_file"]
    args = read.check({"file_name": "src/widget.py"})
    assert "RETRY_LIMIT" in read.execute(**args)


def test_file_schema_names_no_files_where_there_are_none_or_too_many(root: Path) -> None:
    assert named(root / "src") == [["widget.py"]] * 2
    (root / "empty").mkdir()
    assert named(root / "empty") == [None, None]
    (root / "many").mkdir()
    for number in range(200):
        (root / "many" / str(number)).touch()
    assert [len(names or ()) for names in named(root / "many")] == [200, 200]
    (root / "many" / "200").touch()
    assert named(root / "many") == [None, None]
    made = file_actions(root / "empty", only_listed=True)
    (root / "empty").rmdir()
    assert "anyOf" not in made[1].parameters["properties"]["file_name"]


def test_folders_are_listed_if_told_so(root: Path) -> None:
    list_files = actions(root, subfolders=True)["list_files"]
    assert list_files.execute(folder_name="src") == ["widget.py"]
    assert list_files.execute() == actions(root)["list_files"].execute()


def test_reading_may_ask_first(root: Path) -> None:
    asking = actions(root, access_policy=ACCESS_REQUESTED).values()
    assert {action.access_policy for action in asking} == {ACCESS_REQUESTED}


# -- the actions that change something -------------------------------------------------------------


def changing(root: Path, **options: Any) -> dict[str, Action]:
    return {action.name: action for action in changing_actions(root, **options)}


def test_file_actions_that_change_something_ask_for_approval(root: Path) -> None:
    by_name = changing(root)
    assert list(by_name) == ["write_file", "edit_file", "run_command"]
    assert {action.access_policy for action in by_name.values()} == {ACCESS_REQUESTED}
    assert all(action.description for action in by_name.values())


def test_write_file_action_writes_a_file(root: Path) -> None:
    write = changing(root)["write_file"]
    assert write.execute(file_name="src/new.txt", content="é\r\n") == "wrote 4 bytes"
    assert (root / "src" / "new.txt").read_bytes() == "é\r\n".encode()


def test_edit_file_edits_a_text_that_is_there_once(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree")
    edit = changing(root)["edit_file"]
    assert edit.execute(file_name="a.txt", old="two\r\n", new="") == "edited from line 2"
    assert edit.execute(file_name="a.txt", old="three", new="3") == "edited line 2"
    assert (root / "a.txt").read_bytes() == b"one\r\n3"


@pytest.mark.parametrize(
    ("old", "said"),
    (
        ("four", 'has "four" 0 times, so nothing was changed; read the file first'),
        ("two", 'has "two" 2 times, so nothing was changed; include more of the surrounding text'),
        ("aa", 'has "aa" 2 times'),
        ("", "the text to replace is empty"),
        ("\x1b]0;t\x07", r'has "\x1b]0;t\x07" 0 times'),
    ),
)
def test_edit_file_that_is_not_clear_changes_nothing(root: Path, old: str, said: str) -> None:
    text = "two two aaa\n"
    (root / "a.txt").write_text(text)
    with pytest.raises(FileError) as caught:
        changing(root)["edit_file"].execute(file_name="a.txt", old=old, new="x")
    assert '"a.txt"' in str(caught.value)
    assert said in str(caught.value)
    assert (root / "a.txt").read_text() == text


def test_changes_stay_in_the_folder_and_below_the_size(root: Path) -> None:
    by_name = changing(root, max_bytes=10)
    (root.parent / "outside.txt").write_text("old")
    for name, args in (("write_file", {"content": "x"}), ("edit_file", {"old": "old", "new": "x"})):
        with pytest.raises(OutsideFolder):
            by_name[name].execute(file_name="../outside.txt", **args)
    with pytest.raises(FileTooLarge):
        by_name["write_file"].execute(file_name="a.txt", content="x" * 11)
    assert (root.parent / "outside.txt").read_text() == "old"


def test_edit_file_calls_at_once_lose_none(root: Path) -> None:
    names = [f"<{n}>" for n in range(30)]
    (root / "a.txt").write_text("".join(names))
    calls = [
        {"name": "edit_file", "args": {"file_name": "a.txt", "old": n, "new": ""}} for n in names
    ]
    agent = ReActAgent(
        "files",
        ScriptedModel([calls, "Done."]),
        actions=changing_actions(root),
        approver=CallbackApprover(lambda request: True),
    )
    assert agent.reply_sync("Empty it.").text == "Done."
    assert (root / "a.txt").read_text() == ""


def test_run_command_runs_in_the_folder_once_it_is_permitted(root: Path) -> None:
    asked: list[ApprovalRequest] = []
    call = {"name": "run_command", "args": {"command": "pwd; exit 3"}}
    agent = ReActAgent(
        "files",
        ScriptedModel([call]),
        actions=changing_actions(root, terminal=True),
        approver=CallbackApprover(lambda request: not asked.append(request)),
    )
    reply = agent.reply_sync("Where?")
    assert reply.value == f"{root}\n[exit code 3]"
    assert [(r.action, r.args) for r in asked] == [("run_command", call["args"])]


def test_run_command_has_a_time_limit(root: Path) -> None:
    run = changing(root, command_timeout=0.2)["run_command"]
    with pytest.raises(CommandTimeout):
        asyncio.run(run.execute(command="sleep 60"))
