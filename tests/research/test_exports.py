"""A report as a Word document, and its sources as BibTeX and CSL-JSON."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

import docx
import pytest

from moothall.foundation.errors import DefinitionError, FileError
from moothall.research import Citation, Passage, Publication, Report, Resource, Section
from moothall.research.reading.documents import read_document
from moothall.research.resource_pool import passages_of
from research.test_page import ALPHA, DAY, HOSTILE, report

STONE = Passage.of(
    "https://doi.org/10.1000/18{2}",
    "Waves are high.",
    DAY,
    "Waves & tides: 50 % of {all} – 2. Height",
    Publication(("Stone, Ada", "Sand and Sons", "Juan de la Cruz"), "1998-05", "", "Seas_Today"),
)


def relations(written: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(written)) as file:
        return file.read("word/_rels/document.xml.rels").decode()


def test_report_becomes_a_word_document_with_its_passages(tmp_path: Path) -> None:
    text = (
        "It uses port 4711. [^1^]\n\n## More\n\n- **one** `f()`\n  - two\n\n1. three\n\n> said\n\n"
        "```sh\nls  -l\n```\n\n| a | b |\n|---|---|\n| *c* [^1^] | d |\n"
    )
    made = report(text, ALPHA)
    written = made.docx(tmp_path / "r.docx")
    assert (tmp_path / "r.docx").read_bytes() == written
    opened = docx.Document(io.BytesIO(written))
    styled = [(each.style and each.style.name, each.text) for each in opened.paragraphs]
    for each in (
        ("Heading 1", "A title"),
        ("Normal", "It uses port 4711. 1"),
        ("Heading 2", "More"),
        ("List Bullet", "one f()"),
        ("List Bullet 2", "two"),
        ("List Number", "three"),
        ("Quote", "said"),
        ("Normal", "ls  -l"),
        ("Heading 2", "Sources"),
        ("Quote", "It uses port 4711.\n  Always."),
        ("Normal", "The foot."),
    ):
        assert each in styled
    assert [[cell.text for cell in row.cells] for row in opened.tables[0].rows] == [
        ["a", "b"],
        ["c 1", "d"],
    ]
    body = opened.element.xml
    assert body.count('w:anchor="passage-1"') == 2
    assert 'w:name="passage-1"' in body
    assert ALPHA.sha256 in body
    assert opened.core_properties.title == "A title"
    document = read_document("docx", "r.docx", written, "file:///r.docx")
    assert document is not None
    assert document.title == "A title"
    with pytest.raises(FileError, match="cannot be written"):
        made.docx(tmp_path)
    with pytest.raises(DefinitionError, match="path must be a path, got 5"):
        made.docx(5)  # type: ignore[arg-type]


def test_word_document_links_to_its_sources_alone_and_has_no_image() -> None:
    text = "[Click](https://evil.example/x) ![i](https://evil.example/i.png) <img src=x> [^1^]"
    hostile = Passage.of("javascript:alert(1)", HOSTILE, DAY, HOSTILE)
    written = report(text, ALPHA, hostile).docx()
    external = re.findall(r'Target="([^"]*)" TargetMode="External"', relations(written))
    assert external == ["https://example.org/alpha#port"]
    with zipfile.ZipFile(io.BytesIO(written)) as file:
        assert not [each for each in file.namelist() if "media/" in each or "vba" in each]
    words = "\n".join(each.text for each in docx.Document(io.BytesIO(written)).paragraphs)
    assert "Click (https://evil.example/x)" in words
    assert "<img src=x>" in words
    assert not re.search("[\x00\x1b\u202e]", words)


def test_sources_become_bibtex_each_once() -> None:
    again = Passage.of("https://example.org/alpha#other", "It is fast.", DAY, "Alpha")
    assert report("x", STONE, ALPHA, again).bibtex() == (
        "@article{stone1998waves,\n"
        "  title = {{Waves \\& tides: 50 \\% of \\textbraceleft{}all\\textbraceright{}}},\n"
        "  author = {Stone, Ada and {Sand and Sons} and Juan de la Cruz},\n"
        "  journal = {Seas\\_Today},\n"
        "  year = {1998},\n"
        "  month = {5},\n"
        "  doi = {10.1000/18%7B2%7D},\n"
        "  url = {https://doi.org/10.1000/18%7B2%7D},\n"
        "  urldate = {2026-11-21},\n"
        "  note = {Accessed 2026-11-21},\n"
        "}\n\n"
        "@misc{exampleorg2026alpha,\n"
        "  title = {{Alpha}},\n"
        "  url = {https://example.org/alpha},\n"
        "  urldate = {2026-11-21},\n"
        "  note = {Accessed 2026-11-21},\n"
        "}\n"
    )


def test_work_at_several_addresses_is_one_source() -> None:
    page = Passage.of("https://sea.test/w", "It is so.", DAY, "W", Publication(doi="10.1000/AB"))
    same = Passage.of("https://doi.org/10.1000/ab", "It is so.", DAY, "W")
    secure = Passage.of("https://www.example.org/alpha", "It is fast.", DAY, "Alpha")
    plain = Passage.of("http://example.org/alpha", "It is fast.", DAY, "Alpha")
    assert report("x", page, same, secure, plain).bibtex().count("\n@") == 1


def test_source_title_with_a_dash_is_whole() -> None:
    war = Resource(
        "https://war.test/", "1914 – 1918: The Great War", True, "In short.\n\nIt began in July."
    )
    war.sections = [Section(0), Section(11, "causes", "Causes")]
    first, second = passages_of(war)
    assert second.title == "1914 – 1918: The Great War – Causes"
    for passage in (first, second):
        assert "title = {{1914 – 1918: The Great War}}" in report("x", passage).bibtex()


def test_bibtex_title_cannot_leave_its_field() -> None:
    for title in ("a}, note = {b", "\\input{/etc/passwd}", "x\n@misc{y,", HOSTILE):
        evil = Passage.of(
            "https://example.org/}a\n@b{", "t", DAY, title, Publication((title,), "9")
        )
        written = report("x", evil).bibtex()
        assert len(re.findall(r"^@", written, re.MULTILINE)) == 1
        assert "\\input" not in written
        for line in written.splitlines()[1:-1]:  # each is one field, and closes what it opens
            assert re.match(r"  \w+ = \{", line)
            depths = [line[:at].count("{") - line[:at].count("}") for at in range(len(line))]
            assert min(depths[line.index("{") + 1 : -1]) > 0


def test_sources_become_csl_json_each_once() -> None:
    first, second = json.loads(report("x", STONE, ALPHA).csl_json())
    assert first == {
        "id": "stone1998waves",
        "type": "article-journal",
        "title": "Waves & tides: 50 % of {all}",
        "URL": "https://doi.org/10.1000/18{2}",
        "author": [
            {"family": "Stone", "given": "Ada"},
            {"literal": "Sand and Sons"},
            {"literal": "Juan de la Cruz"},
        ],
        "issued": {"date-parts": [[1998, 5]]},
        "accessed": {"date-parts": [[2026, 11, 21]]},
        "DOI": "10.1000/18{2}",
        "container-title": "Seas_Today",
    }
    assert (second["type"], second["title"]) == ("webpage", "Alpha")
    empty = Report("# Nothing\n", [], "done")
    assert (empty.bibtex(), json.loads(empty.csl_json())) == ("", [])
    assert Citation(1, "x", ALPHA).passage.publication is None
