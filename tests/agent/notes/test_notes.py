"""Notes: files that a person can read, an index in the prompt, and four actions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent.notes.bank import call, results
from moothall import ConfigError, Conversation, MaxTurns, Notes, ReActAgent, ScriptedModel


def keeper(notes: Notes, *answers: Any, **options: Any) -> ReActAgent:
    return ReActAgent("keeper", ScriptedModel([*answers, "Done."]), blocks=[notes], **options)


def system_of(agent: ReActAgent) -> str:
    model: Any = agent.model
    first = model.received[0][0]
    assert first["role"] == "system"
    return str(first["content"])


def note(name: str, text: str) -> Any:
    return call("note", name=name, text=text)


def test_note_is_read_in_a_later_conversation_and_listed_in_its_prompt(tmp_path: Path) -> None:
    first = keeper(Notes(tmp_path), note("annas-size", "# Anna\nShe wears 38."))
    assert results(first.reply_sync("Go.", thread="ada")) == ["noted: annas-size"]
    later = keeper(
        Notes(tmp_path), call("read_note", name="annas-size"), call("find_notes", words="wears")
    )
    reply = later.reply_sync("What size?", thread="ada")
    assert "- annas-size: Anna" in system_of(later)
    assert results(reply) == [
        "# Anna\nShe wears 38.",
        [{"name": "annas-size", "line": "She wears 38."}],
    ]


def test_note_is_a_markdown_file_with_the_origin_of_its_text(tmp_path: Path) -> None:
    keeper(Notes(tmp_path), note("size", "Anna wears 38.")).reply_sync("Go.", thread="ada")
    (file,) = tmp_path.rglob("*.md")
    assert file == tmp_path / "ada" / "size.md"
    head, _, text = file.read_text().removeprefix("---\n").partition("---\n")
    assert text == "\nAnna wears 38.\n"
    assert 'from: "own"\nthread: "ada"\nwritten: "20' in head


def test_note_has_the_separators_of_lines_that_were_written(tmp_path: Path) -> None:
    text = "38\u2028or 39\x0c(40 in winter)"
    keeper(Notes(tmp_path), note("size", text)).reply_sync("Go.", thread="ada")
    later = keeper(Notes(tmp_path), call("read_note", name="size"))
    assert results(later.reply_sync("What size?", thread="ada")) == [text]


def test_note_is_replaced_and_forgotten(tmp_path: Path) -> None:
    agent = keeper(
        Notes(tmp_path),
        note("size", "38"),
        note("Size.md", "39"),
        call("read_note", name="size"),
        call("forget_note", name="size"),
        call("forget_note", name="size"),
        call("read_note", name="size"),
    )
    reply = agent.reply_sync("Go.")
    assert results(reply)[:5] == [
        *("noted: size", "replaced: size", "39", "forgotten: size"),
        "no note 'size'",
    ]
    assert "there is no note 'size'" in results(reply)[5]
    assert list(tmp_path.rglob("*.md")) == []


def test_note_repeated_after_a_kill_says_the_same_and_changes_nothing(tmp_path: Path) -> None:
    def twice(text: str) -> list[str]:
        return results(
            keeper(Notes(tmp_path), note("size", text), note("size", text)).reply_sync("Go.")
        )

    assert twice("38") == ["noted: size", "noted: size"]
    assert twice("39") == ["replaced: size", "replaced: size"]
    (file,) = tmp_path.rglob("*.md")
    before = file.read_text()
    assert twice("39") == ["replaced: size", "replaced: size"]
    assert file.read_text() == before


def test_notes_are_each_conversations_own_unless_they_are_shared(tmp_path: Path) -> None:
    def by_user(context: Any) -> str:
        return f"user {context.deps}"

    for by, seen in (("thread", False), ("shared", True), (by_user, True)):
        folder = tmp_path / str(seen) / str(callable(by))
        notes = Notes(folder, by=by)
        keeper(notes, note("size", "38")).reply_sync("Go.", thread="ada", deps=7)
        other = keeper(notes, call("read_note", name="size"))
        reply = other.reply_sync("Go.", thread="bob", deps=7)
        assert ("- size: 38" in system_of(other)) is seen
        assert (results(reply) == ["38"]) is seen
    stranger = keeper(notes, call("read_note", name="size"))
    assert "there is no note" in results(stranger.reply_sync("Go.", thread="ada", deps=8))[0]


@pytest.mark.parametrize(
    ("one", "other"),
    (
        ("Ada", "ada"),
        ("a/b", "a%2Fb"),
        ("..", "."),
        ("a", "a/"),
        ("x" * 250, "x" * 251),
        ("ä", "a"),
    ),
)
def test_threads_never_share_a_folder_and_none_leads_out(
    tmp_path: Path, one: str, other: str
) -> None:
    notes = Notes(tmp_path / "notes")
    keeper(notes, note("n", one)).reply_sync("Go.", thread=one)
    keeper(notes, note("n", other)).reply_sync("Go.", thread=other)
    for thread in (one, other):
        agent = keeper(notes, call("read_note", name="n"))
        assert results(agent.reply_sync("Go.", thread=thread)) == [thread]
    folders = {str(each.parent).casefold() for each in tmp_path.rglob("*.md")}
    assert len(folders) == 2
    assert {each.name for each in tmp_path.iterdir()} == {"notes"}


@pytest.mark.parametrize(
    "name",
    (
        "../x",
        "a/b",
        "/etc/x",
        "",
        ".",
        "..",
        "-a",
        "a--b",
        "a.b",
        "x" * 61,
        "a\0b",
        "a\u202eb",
        "😀",
    ),
)
def test_note_name_cannot_lead_to_a_file_elsewhere(tmp_path: Path, name: str) -> None:
    agent = keeper(
        Notes(tmp_path / "notes"),
        note(name, "x"),
        call("read_note", name=name),
        call("forget_note", name=name),
    )
    errors = results(agent.reply_sync("Go."))
    assert all("the name of a note is" in each for each in errors)
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize("name", ("पता-अन्ना", "ที่อยู่", "முகவரி", "Übung 2"))
def test_note_name_may_be_of_any_script(tmp_path: Path, name: str) -> None:
    agent = keeper(Notes(tmp_path), note(name, "x"), call("read_note", name=name))
    assert results(agent.reply_sync("Go."))[1] == "x"
    assert len(list(tmp_path.rglob("*.md"))) == 1


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    theirs = tmp_path / "notes" / "bob"
    theirs.mkdir(parents=True)
    (theirs / "bobs.md").write_text("bob's")
    mine = tmp_path / "notes" / "ada"
    mine.mkdir()
    (mine / "out.md").symlink_to(tmp_path / "secret.md")
    (mine / "over.md").symlink_to(theirs / "bobs.md")
    (tmp_path / "notes" / "eve").symlink_to(theirs)
    calls = [call("read_note", name=name) for name in ("out", "over")]
    calls += [note("out", "x"), call("forget_note", name="over"), call("find_notes", words="bob")]
    reply = keeper(Notes(tmp_path / "notes"), *calls).reply_sync("Go.", thread="ada")
    assert ["is a link" in str(each) for each in results(reply)] == [True] * 4 + [False]
    assert results(reply)[4] == []
    reply = keeper(Notes(tmp_path / "notes"), call("read_note", name="bobs")).reply_sync(
        "Go.", thread="eve"
    )
    assert reply.stop_reason == "error" or "is a link" in results(reply)[0]
    assert (tmp_path / "secret.md").read_text() == "secret"


def test_texts_that_are_no_notes_are_refused(tmp_path: Path) -> None:
    agent = keeper(Notes(tmp_path), note("a", " \n"), note("b", "x" * 20_001))
    first, second = results(agent.reply_sync("Go."))
    assert "must not be empty" in first
    assert "20,000" in second


def test_notes_by_the_thousand_cost_under_five_hundred_tokens(tmp_path: Path) -> None:
    notes = Notes(tmp_path, by="shared")
    keeper(notes, note("first", "The first one.")).reply_sync("Go.")
    for number in range(999):
        (tmp_path / f"note-{number}.md").write_text(
            f"What is known of customer {number}, at length"
        )
        os.utime(tmp_path / f"note-{number}.md", (number, number))
    trusting = Notes(tmp_path, by="shared", trusted=True)
    agent = keeper(trusting, call("find_notes", words="customer 17"))
    reply = agent.reply_sync("Go.")
    said = system_of(agent)
    assert len(said) < 1500
    assert "- first: The first one.\n- note-998: What is known" in said
    listed = said.count("\n- ")
    assert f"\nThe newest of them are listed; {1000 - listed} more notes can be found." in said
    assert results(reply)[0][0]["name"] == "note-17"
    assert len(results(reply)[0]) == 10  # at most


def test_files_that_are_no_notes_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("no note by its name")
    (tmp_path / "x.txt").write_text("x")
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe")
    (tmp_path / "huge.md").write_text("x" * 3_000_000)
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "marked.md").write_text("# From an editor\n", encoding="utf-8-sig")
    os.mkfifo(tmp_path / "pipe.md")
    names = ("bad", "marked")
    calls = [call("find_notes", words="x"), *(call("read_note", name=name) for name in names)]
    reply = keeper(Notes(tmp_path, by="shared"), *calls).reply_sync("Go.")
    assert results(reply)[0] == []
    assert reply.steps[1].error is not None
    assert results(reply)[2] == "# From an editor"


@pytest.mark.parametrize(
    ("options", "said"),
    (
        ({"by": "user"}, 'must be "thread", "shared" or a function'),
        ({"by": lambda: "x"}, "by="),
        ({"trusted": "yes"}, "trusted="),
        ({"folder": 3}, "folder="),
        ({"folder": ""}, "folder="),
        ({"folder": __file__}, "folder= must be the path of a folder, got .*(a file)"),
    ),
)
def test_wrong_arguments_are_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Notes(**{"folder": tmp_path, **options})


def test_notes_stand_among_the_actions_as_well_and_in_members_of_a_group(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    answers = [note("size", "38"), "Noted."]
    members = [
        ReActAgent("ann", ScriptedModel(answers), actions=[notes]),
        ReActAgent("bob", ScriptedModel([call("read_note", name="size"), "38."]), blocks=[notes]),
    ]
    talk = Conversation(members, id="talk", until=MaxTurns(2))
    reply = talk.reply_sync("What size?", thread="ada")
    assert reply.text == "38."
    assert "- size: 38" in system_of(members[1])
    assert [each.parent.name for each in tmp_path.rglob("*.md")] == ["ada"]
