"""Searching a folder: what is found, in which order, and that it is what is there now."""

from __future__ import annotations

import gzip
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from moothall import ReActAgent, ScriptedModel
from moothall.foundation.errors import (
    ConfigError,
    DefinitionError,
    FileError,
    FolderIndexError,
    SearchError,
)
from moothall.research import Researcher, search_folder
from moothall.research.findings import Resource
from moothall.research.resource_pool import ResourcePool, passages_of
from research.web_server import pdf


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of a few files about animals."""
    docs = tmp_path / "docs"
    (docs / "birds").mkdir(parents=True)
    (docs / "cats.md").write_text(
        "# Cats\n\nCats sleep most of the day.\n\n## What they eat\n\nCats are fed with fish.\n"
    )
    (docs / "dogs.txt").write_text("Dogs bark.\n\nA dog that sees cats runs after them.\n")
    (docs / "birds" / "a #1?.rst").write_text("Owls\n====\n\nOwls hunt mice at night.\n")
    return docs


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


def found(action: Any, query: str) -> list[Resource]:
    resources: list[Resource] = action.execute(query=query)
    return resources


def names(action: Any, query: str) -> list[str]:
    return [Path(each.url).name for each in found(action, query)]


def test_folder_search_leaves_out_excluded_files_before_it_counts_results(
    docs: Path, index: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(docs)
    out = tmp_path / "link" / "cats.md"
    search = search_folder(docs, index=index, results=1, exclude=[out])
    assert names(search, "What do cats eat?") == ["dogs.txt"]


def test_folder_search_finds_the_file_the_passage_and_its_heading(docs: Path, index: Path) -> None:
    search = search_folder(docs, index=index)
    assert (search.name, search.idempotent) == ("search_folder", True)
    first, second = found(search, "What are cats fed with?")
    assert first.url == (docs / "cats.md").as_uri()
    assert (first.description, first.visited) == ("Cats", True)
    assert datetime.fromisoformat(first.fetched_at or "").utcoffset() is not None
    assert second.url == (docs / "dogs.txt").as_uri()
    best = passages_of(ResourcePool([first]).get_all()[0])[0]
    assert best.url == (docs / "cats.md").as_uri() + "#what-they-eat"
    assert best.text == "## What they eat\n\nCats are fed with fish."
    assert best.title == "Cats – What they eat"
    assert passages_of(found(search, "sleep")[0])[0].title == "Cats"
    (owls,) = found(search, "mouse hunting OR mice")
    assert owls.url.endswith("/birds/a%20%231%3F.rst")
    assert found(search, "zebra") == found(search, "…") == []
    assert found(search, 'NOT "AND* (text:dogs')  # nothing in a query is syntax


def test_folder_passage_of_each_kind_of_file_is_cited_where_it_is(docs: Path, index: Path) -> None:
    (docs / "fish.pdf").write_bytes(pdf("Sharks have no bones.", "Eels have."))
    prose = "<p>Snakes shed their skin several times a year, as they grow.</p>" * 3
    (docs / "snakes.html").write_text(
        "<html><head><title>Snakes</title></head><body><article><h1>Snakes</h1>"
        f"{prose}<h2 id='food'>Food</h2><p>Snakes swallow eggs whole, as eggs are soft.</p>{prose}"
        "</article></body></html>"
    )
    (docs / "zoo.csv").write_text("animal,weight\nelephant,6000\n")
    (docs / "zoo.py").write_text("import x\n\n\ndef weigh(giraffe): ...\n")
    search = search_folder(docs, index=index)

    def cited(query: str) -> tuple[str, str]:
        best = passages_of(found(search, query)[0])[0]
        return best.url.rpartition("/")[2], best.title

    assert cited("Which of the eels have bones?") == ("fish.pdf#page=2", "fish.pdf – page 2")
    assert cited("soft eggs swallowed whole") == ("snakes.html#food", "Snakes – Food")
    assert cited("elephant") == ("zoo.csv#row-1", "zoo.csv – row 1")
    assert cited("giraffe") == ("zoo.py#L4", "zoo.py – weigh")


def test_folder_leaves_out_what_an_open_office_program_keeps_beside_a_file(
    docs: Path, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (docs / "~$plan.xlsx").write_bytes(b"\x05Ada Stone")
    assert search_folder(docs, index=index).execute(query="cats")
    assert "plan.xlsx" not in caplog.text


def test_folder_changed_file_is_found_as_it_is_now(docs: Path, index: Path) -> None:
    search = search_folder(docs, index=index)
    assert names(search, "fish") == ["cats.md"]
    (docs / "cats.md").write_text("# Cats\n\nCats like milk now.\n")
    (docs / "new.md").write_text("Fish swim.")
    assert names(search, "fish") == ["new.md"]
    assert names(search, "milk") == ["cats.md"]
    (docs / "new.md").rename(docs / "moved.md")
    (docs / "dogs.txt").unlink()
    assert names(search, "fish") == ["moved.md"]
    assert names(search, "dog") == []
    for round in "abc":  # of the same size, and perhaps at the same time by the file's clock
        (docs / "moved.md").write_text(f"word{round}")
        assert names(search, f"word{round}") == ["moved.md"]


def test_folder_index_of_an_older_version_is_filled_again(docs: Path, index: Path) -> None:
    search = search_folder(docs, index=index)
    before = found(search, "cats")
    with closing(sqlite3.connect(index)) as db, db:
        db.execute("UPDATE passages SET text = 'as it was cut once'")
        db.execute("PRAGMA user_version = 1")
    after = found(search_folder(docs, index=index), "cats")
    assert [each.content for each in after] == [each.content for each in before]


def test_folder_passages_of_a_long_text_each_name_their_line(docs: Path, index: Path) -> None:
    paragraphs = [f"Whales sing {word * 400}." for word in ("la ", "lo ", "lu ")]
    (docs / "whale.txt").write_text("\n\n".join(paragraphs))
    search = search_folder(docs, index=index)
    places = {
        Path(each.url).name: sorted((s.anchor, s.title) for s in each.sections)
        for each in found(search, "whales sing")
    }
    assert places["whale.txt"] == [("L1", "line 1"), ("L3", "line 3"), ("L5", "line 5")]


def test_results_are_bounded_and_of_several_files(docs: Path, index: Path) -> None:
    for number in range(6):
        sung = (f"{vowel}{number} " for vowel in "aeiou")  # no file has a passage of another
        paragraphs = (f"Whales sing {each * 400}." for each in sung)
        (docs / f"whale{number}.txt").write_text("\n\n".join(paragraphs))
    resources = found(search_folder(docs, index=index), "whales")
    assert [len(each.sections) for each in resources] == [3, 3, 2]
    alone = search_folder(docs, index=docs.parent / "one.db", pattern="whale0.txt")
    assert [len(each.sections) for each in found(alone, "whales")] == [5]  # as others have none
    (one,) = found(search_folder(docs, index=index, results=1), "whales")
    assert [each.start for each in one.sections] == [0]
    many = found(search_folder(docs, index=index, results=1000), "whales")
    assert [len(each.sections) for each in many] == [5] * 6  # of each file all that fit
    for resource in many:
        assert [each.text for each in passages_of(resource)] == (resource.content or "").split(
            "\n\n"
        )


def test_folder_pattern_chooses_files(docs: Path, tmp_path: Path) -> None:
    def of(pattern: str) -> set[str]:
        search = search_folder(docs, index=tmp_path / f"{len(pattern)}.db", pattern=pattern)
        return set(names(search, "cats dogs owls"))

    (docs / "cats.key").write_text("Cats in a kind of file that is not read.")
    assert of("*") == {"cats.md", "dogs.txt", "a%20%231%3F.rst"}
    assert of("*.md") == {"cats.md"}
    assert of("birds/*") == {"a%20%231%3F.rst"}
    assert of("a *") == {"a%20%231%3F.rst"}


def test_folder_heading_weighs_more_than_a_mention(docs: Path, index: Path) -> None:
    (docs / "one.md").write_text("# Misc\n\nA timeout is named here, once, beside other matters.")
    (docs / "two.md").write_text("# Timeout\n\nHow long a call may take is a number of seconds.")
    assert names(search_folder(docs, index=index), "What is the timeout?") == ["two.md", "one.md"]


def test_words_side_by_side_as_in_the_question_weigh_more(docs: Path, index: Path) -> None:
    (docs / "one.txt").write_text("A break of glass: tea is there for you.")
    (docs / "two.txt").write_text("A tea break: glass is of there for you.")
    search = search_folder(docs, index=index)
    assert names(search, "When is the tea break?") == ["two.txt", "one.txt"]
    assert names(search, "Which break? The glass?") == ["one.txt", "two.txt"]


def test_words_that_say_nothing_find_nothing_beside_others(docs: Path, index: Path) -> None:
    (docs / "all.txt").write_text("What is it that they do with which of them?")
    search = search_folder(docs, index=index)
    assert names(search, "What is it that the owls do with which of them?") == ["a%20%231%3F.rst"]
    (docs / "who.txt").write_text("The WHO counts owls.")
    assert names(search, "What does the WHO do?") == ["who.txt"]


def test_folder_file_left_out_is_logged_once(
    docs: Path, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (docs / "link.md").symlink_to(docs / "cats.md")
    (docs / "binary.txt").write_bytes(b"a\0b")
    (docs / "map.png").write_bytes(b"")
    (docs / "music.mp3").write_bytes(b"")
    search = search_folder(docs, index=index)
    for _ in range(2):
        found(search, "cats")
    (logged,) = caplog.messages
    assert "4 files are not read, or not whole: " in logged
    assert "2 × a picture, sound, film or font (map.png, music.mp3)" in logged
    assert "1 × links, which are not followed" in logged
    assert "1 × it is binary or minified" in logged
    (docs / "link.md").unlink()
    found(search, "cats")
    assert "3 files are not read" in caplog.messages[1]


def test_folder_without_text_says_why(tmp_path: Path, index: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    search = search_folder(docs, index=index)
    with pytest.raises(SearchError, match=r"docs has no text to search$"):
        found(search, "cats")
    (docs / "manual.pdf").write_bytes(b"%PDF-1.4 cut off")
    with pytest.raises(
        SearchError, match="no text to search: 1 file is not read, or not whole: 1 × the PDF is"
    ):
        found(search, "cats")
    (docs / "cats.md").write_text("Cats sleep.")
    assert names(search, "cats") == ["cats.md"]
    assert names(search, "dogs") == []


def test_scripts_without_spaces_are_searched(docs: Path, index: Path) -> None:
    (docs / "tokyo.txt").write_text("私は東京に住んでいます")
    (docs / "kyoto.txt").write_text("京の東は山です")
    assert names(search_folder(docs, index=index), "東京はどこ") == ["tokyo.txt"]


def test_words_that_nearly_all_passages_have(docs: Path, index: Path) -> None:
    """Above some thousands of passages, frequent words only add to the score of rare ones."""
    rows = (f"common {'usual' if n % 2 else 'other'} w{n} {'x' * 400}" for n in range(5000))
    (docs / "many.txt").write_text("\n\n".join(rows))
    search = search_folder(docs, index=index, results=2)
    assert "w4321 " in (found(search, "common usual w4321")[0].content or "")
    assert "usual w" in (found(search, "usual common")[0].content or "")
    assert names(search, "common") == ["many.txt"]
    assert names(search, "which") == []


def test_folder_index_is_kept_in_the_cache_folder(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOTHALL_HOME", str(tmp_path / "home"))
    before = sorted(docs.rglob("*"))
    assert names(search_folder(docs), "fish") == ["cats.md"]
    assert names(search_folder(docs, pattern="*.txt"), "cats") == ["dogs.txt"]
    assert names(search_folder(docs), "fish") == ["cats.md"]
    assert sorted(docs.rglob("*")) == before
    assert len(list((tmp_path / "home").rglob("*.db"))) == 2
    monkeypatch.setenv("MOOTHALL_HOME", str(docs / "cats.md"))
    with pytest.raises(
        FolderIndexError,
        match=r"cannot be written \(Not a directory\): set XDG_CACHE_HOME, or MOOTHALL_HOME",
    ):
        search_folder(docs)


def test_searches_at_once_find_all(docs: Path, index: Path) -> None:
    for number in range(100):
        (docs / f"n{number}.txt").write_text(f"number n{number}")
    tools = [search_folder(docs, index=index, results=100) for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: len(found(tools[n % 2], "number")), range(16)))
    assert results == [100] * 16


def test_searches_at_once_of_a_folder_whose_files_go_find_the_rest(docs: Path, index: Path) -> None:
    tools = [search_folder(docs, index=index, results=100) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        for each in range(12):
            for number in range(4):
                (docs / f"n{each}-{number}.txt").write_text(f"number n{number}")
            results = list(threads.map(lambda tool: len(found(tool, "number")), tools))
            assert results == [4, 4]
            for path in docs.glob(f"n{each}-*"):
                path.unlink()


@pytest.mark.parametrize("form", ("md", "html", "docx"))
def test_report_in_the_folder_is_no_source(tmp_path: Path, index: Path, form: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "pump.txt").write_text("The pump must be oiled every 40 days.\n")
    (docs / "garden.txt").write_text("How often the garden must be watered is not known.\n")
    asked = ["How often must the pump be oiled?"]
    first = Researcher("r", None, asked, [search_folder(docs, index=index)]).report_sync()
    (docs / f"answer.{form}").write_bytes(first.forms[form].as_file(first))
    (docs / "pump.txt").unlink()
    report = Researcher("r", None, asked, [search_folder(docs, index=index)]).report_sync()
    assert "40 days" not in report.narrative()
    assert report.notes == []


def test_folder_search_is_an_action_of_a_model(docs: Path, index: Path) -> None:
    call = {"name": "search_folder", "args": {"query": "Who hunts at night?"}}
    model = ScriptedModel([call, "Owls."])
    agent = ReActAgent("a", model, actions=[search_folder(docs, index=index)])
    assert agent.reply_sync("Who hunts at night?").text == "Owls."
    assert "Owls hunt mice at night." in str(model.received[-1])


def test_folder_wrong_arguments_are_refused(docs: Path, index: Path, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="results must be a whole number from 1 up, got 0"):
        search_folder(docs, index=index, results=0)
    with pytest.raises(DefinitionError, match="pattern must be a text, got 5"):
        search_folder(docs, index=index, pattern=5)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="index must be a path, got 5"):
        search_folder(docs, index=5)  # type: ignore[arg-type]
    for exclude in (5, "cats.md", docs / "cats.md", [5]):
        with pytest.raises(DefinitionError, match="exclude must be a list of paths, got "):
            search_folder(docs, index=index, exclude=exclude)  # type: ignore[arg-type]
    with pytest.raises(FileError, match="does not exist"):
        search_folder(tmp_path / "none", index=index)
    search_folder(docs, index=index)
    with pytest.raises(FolderIndexError, match=r"it is of the folder .*docs"):
        search_folder(docs / "birds", index=index)
    with pytest.raises(FolderIndexError, match="with pattern=None: name another file"):
        search_folder(docs, index=index, pattern="*.md")


def test_folder_that_was_made_anew_is_searched(docs: Path, index: Path) -> None:
    search = search_folder(docs, index=index)
    assert names(search, "cats")
    docs.rename(docs.with_name("older"))
    docs.mkdir()
    (docs / "lynx.md").write_text("A lynx is a cat.")
    assert names(search, "lynx") == ["lynx.md"]
    assert names(search, "dogs") == []


def test_folder_passages_of_one_file_are_a_quarter_at_most(docs: Path, index: Path) -> None:
    for name in "abcd":
        said = (f"Bears number {n}{name}. " + f"Snow is on hill {n}. " * 60 for n in range(9))
        (docs / f"{name}.txt").write_text("\n\n".join(said))
    for results, shares in ((4, [3, 1]), (16, [4, 4, 4, 4])):
        search = search_folder(docs, index=index, results=results)
        assert [len(each.sections) for each in found(search, "bears snow hill")] == shares


def test_folder_file_with_its_old_size_and_time_is_not_read_again(docs: Path, index: Path) -> None:
    cats, search = docs / "cats.md", search_folder(docs, index=index)
    os.utime(cats, (10**9, 10**9))
    assert names(search, "sleep") == ["cats.md"]
    cats.write_text(cats.read_text().replace("sleep", "snore"))
    os.utime(cats, (10**9, 10**9))
    with closing(sqlite3.connect(index)) as db, db:  # as if it was indexed days ago
        db.execute("UPDATE files SET read_ns = ?", (1_700_000_000 * 10**9,))
    assert (names(search, "snore"), names(search, "sleep")) == ([], ["cats.md"])
    assert found(search, "sleep")[0].fetched_at == "2023-11-14T22:13:20+00:00"
    os.utime(cats, (10**9, 10**9 + 1))
    assert (names(search, "snore"), names(search, "sleep")) == (["cats.md"], [])


def test_folder_file_that_was_read_as_it_was_written_is_read_again(docs: Path, index: Path) -> None:
    cats, search = docs / "cats.md", search_folder(docs, index=index)
    soon = time.time_ns() + 1_500_000_000
    os.utime(cats, ns=(soon, soon))
    assert names(search, "sleep") == ["cats.md"]
    cats.write_text(cats.read_text().replace("sleep", "snore"))
    os.utime(cats, ns=(soon, soon))
    assert (names(search, "snore"), names(search, "sleep")) == (["cats.md"], [])


def test_folder_file_is_read_once_its_extra_is_installed(
    docs: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = docs / "owls.html"
    page.write_text(
        "<article><p>Parliaments of owls convene at midnight in old barns.</p></article>"
    )
    os.utime(page, (10**9, 10**9))
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "lxml", None)
        assert names(search_folder(docs, index=index), "parliaments convene") == []
    assert names(search_folder(docs, index=index), "parliaments convene") == ["owls.html"]


def test_folder_file_whose_name_is_a_title_in_capitals_is_read_whatever_its_suffix(
    docs: Path, index: Path
) -> None:
    (docs / "README.source").write_text("The otter was patched by quilt.\n")
    (docs / "otters.source").write_text("The otter was patched by hand.\n")
    search = search_folder(docs, index=index)
    assert names(search, "How was the otter patched?") == ["README.source"]


def test_folder_packed_files_are_read_and_one_that_unpacks_to_much_is_named(
    docs: Path, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, text in (
        ("changelog.Debian.gz", "The otter was tamed in release seven."),
        ("foxes.md.gz", "# Foxes\n\nFoxes dig.\n\n## Dens\n\nFoxes raise cubs in dens.\n"),
    ):
        (docs / name).write_bytes(gzip.compress(text.encode()))
    (docs / "report.pdf.gz").write_bytes(gzip.compress(pdf("Badgers sleep in setts.")))
    (docs / "bomb.txt.gz").write_bytes(gzip.compress(b"a" * (20 * 2**20 + 1)))
    (docs / "cut.txt.gz").write_bytes(gzip.compress(b"Nobody reads this." * 100)[:-20])
    (docs / "all.tar.gz").write_bytes(gzip.compress(b"tar"))
    search = search_folder(docs, index=index)
    caplog.set_level("INFO", "moothall.research.folder")
    assert names(search, "When was the otter tamed?") == ["changelog.Debian.gz"]
    (found,) = search.execute(query="Where do foxes raise cubs?")[:1]
    assert found.sections[0].anchor == "dens"
    assert names(search, "Where do badgers sleep?")[0] == "report.pdf.gz"
    assert "it unpacks to more than 20 MiB (bomb.txt.gz)" in caplog.text
    assert "the gzip file is damaged" in caplog.text
    assert "1 × a kind that is not read, .tar.gz (all.tar.gz)" in caplog.text


def test_research_does_not_search_for_the_line_where_a_passage_is(
    tmp_path: Path, index: Path
) -> None:
    """It is no heading, as it would be of a Markdown file."""
    told = (f"The ferry {n} takes a harbour of {n} boats to the island. " * 4 for n in range(60))
    (tmp_path / "ferry.txt").write_text("\n\n".join(told))
    tool = search_folder(tmp_path, index=index)
    researcher = Researcher("r", None, ["Which captain steers the fastest ferry?"], [tool])
    researcher.report_sync()
    asked = [str(task.args["query"]) for task in researcher.done]
    assert len(asked) > 2
    assert not [query for query in asked if "line" in query]


def test_report_says_which_files_were_not_read(tmp_path: Path, index: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n\nThe office moves in May.\n")
    for name in ("talk.key", "notes.one", "old.one", "logo.png"):
        (tmp_path / name).write_bytes(b"\0")
    tool = search_folder(tmp_path, index=index)
    report = Researcher("r", None, ["What is in the slides?"], [tool]).report_sync()
    (note,) = report.notes
    for said in ("4 files are not read", ".one (notes.one, old.one)", ".key (talk.key)"):
        assert said in note
        assert said in report.markdown.replace("\\", "")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One whose parents every user may enter, whatever other sessions of pytest do to theirs."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_folder_file_that_could_not_be_read_is_read_once_it_can(open_folder: Path) -> None:
    (open_folder / "docs").mkdir()
    (open_folder / "docs" / "cats.md").write_text("Cats sleep on the roof.")
    (open_folder / "docs" / "dogs.md").write_text("Dogs bark.")
    script = """
import os, sys
os.umask(0)
from moothall.research import search_folder
docs, index = sys.argv[1:]
os.chmod(f"{docs}/cats.md", 0)
if os.geteuid() == 0:  # root reads what nobody may read
    os.setuid(65534)
search = search_folder(docs, index=index)
print(len(search.execute(query="Where do cats sleep?")))
"""
    (open_folder / "index").mkdir(mode=0o777)
    (open_folder / "index").chmod(0o777)
    where = [str(open_folder / "docs"), str(open_folder / "index" / "i.db")]
    done = subprocess.run([sys.executable, "-c", script, *where], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr
    (open_folder / "docs" / "cats.md").chmod(0o644)
    search = search_folder(where[0], index=where[1])
    assert names(search, "Where do cats sleep?") == ["cats.md"]


def test_folder_below_that_cannot_be_read_is_named_in_the_notes_of_a_report(
    open_folder: Path,
) -> None:
    (open_folder / "docs" / "closed").mkdir(parents=True)
    (open_folder / "docs" / "cats.md").write_text("Cats sleep on the roof.")
    (open_folder / "docs" / "closed" / "dogs.md").write_text("Dogs bark.")
    script = """
import os, sys
from moothall.research import Researcher, search_folder
docs, index = sys.argv[1:]
def report(index):
    tool = search_folder(docs, index=index)
    return Researcher("r", None, ["Where do cats sleep?"], [tool]).report_sync()
report(f"{index}.first")  # what it imports, root alone may read
os.chmod(f"{docs}/closed", 0)
if os.geteuid() == 0:  # root reads what nobody may read
    os.setuid(65534)
print(*report(index).notes)
"""
    (open_folder / "index").mkdir()
    (open_folder / "index").chmod(0o777)
    where = [str(open_folder / "docs"), str(open_folder / "index" / "i.db")]
    done = subprocess.run([sys.executable, "-c", script, *where], capture_output=True, text=True)
    (open_folder / "docs" / "closed").chmod(0o755)
    assert "in folders that cannot be read (closed)" in done.stdout, done.stdout + done.stderr


def test_report_title_and_link_base_are_those_that_were_given(docs: Path, index: Path) -> None:
    base = "https://wiki.example/team"
    tool = search_folder(docs, index=index, link_base=base)
    question = "What are cats fed with?"
    report = Researcher("r", None, [question], [tool], title="Pets 2026").report_sync()
    assert report.markdown.startswith("# Pets 2026\n")
    assert "file://" not in report.markdown
    (url,) = {each.passage.url.partition("#")[0] for each in report.citations}
    assert url.startswith(f"{base}/")
    for wrong in ("docs", "file:///x", "https://a b", 3):
        with pytest.raises(ConfigError, match="link_base must be an address"):
            search_folder(docs, link_base=wrong)  # type: ignore[arg-type]
