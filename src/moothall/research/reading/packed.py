"""Unpack gzip files, and read DOCX and EPUB, XML in a zip file: within limits, without entities."""

from __future__ import annotations

import gzip
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from moothall.errors import FileTooLarge, MissingExtra, UnreadableDocument
from moothall.research.findings import Section
from moothall.research.reading.html import Document, plain, read_html

_MEMBERS: Final = 10_000
_MEMBER_BYTES: Final = 64 * 2**20  # of one file inside, unpacked
_ALL_BYTES: Final = 128 * 2**20  # of all that is read, unpacked
_CHAPTERS: Final = 2000
_LONGEST_HEADING: Final = 200

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_WHITE: Final = frozenset(("FFFFFF", "FEFEFE", "FDFDFD"))
_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_NOT_WRITTEN: Final = frozenset(
    (f"{_W}del", f"{_W}moveFrom", f"{_W}rPr", f"{_W}pPr", f"{_W}instrText", _FALLBACK)
)


def unpacked(data: bytes, most: int) -> bytes:
    """Return what a gzip file holds; nothing that unpacks to more than `most` bytes."""
    made = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while len(made) <= most and (piece := file.read(min(2**20, most + 1 - len(made)))):
                made += piece
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableDocument(f"the gzip file is damaged: {error}") from error
    if len(made) > most:
        raise FileTooLarge(f"it unpacks to more than {most // 2**20} MiB")
    return bytes(made)


class Packed:
    """The files inside a zip file, unpacked within limits."""

    def __init__(self, data: bytes, what: str) -> None:
        self._what = what
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"the {what} is damaged: {error}") from error
        self.names: set[str] = set(self._zip.namelist())
        if len(self.names) > _MEMBERS:
            raise UnreadableDocument(
                f"the {what} has {len(self.names)} files inside, {_MEMBERS} are read at most"
            )
        self._left = _ALL_BYTES

    def read(self, name: str) -> bytes:
        """Return a file's bytes; sizes that the zip file states are not trusted."""
        if name not in self.names:
            raise UnreadableDocument(f"the {self._what} is damaged: it has no {name[:80]!r}")
        most = min(_MEMBER_BYTES, self._left)
        try:
            with self._zip.open(name) as member:
                data = member.read(most + 1)
        except RuntimeError as error:
            raise UnreadableDocument(f"the {self._what} is encrypted: {error}") from error
        except Exception as error:  # a malicious file can make the decoder raise anything
            raise UnreadableDocument(f"the {self._what} is damaged: {error}") from error
        if len(data) > most:
            raise UnreadableDocument(
                f"the {self._what} unpacks to more than {most // 2**20} MiB at {name[:80]!r}"
            )
        self._left -= len(data)
        return data

    def tree(self, name: str) -> Any:
        """Return a file's XML, with no entity expanded and nothing loaded."""
        from lxml import etree

        parser = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            remove_comments=True,
            remove_pis=True,
        )
        try:
            tree = etree.fromstring(self.read(name), parser)
        except etree.XMLSyntaxError as error:
            raise UnreadableDocument(
                f"the {self._what} is damaged: {name[:80]!r}: {error}"
            ) from error
        if tree.getroottree().docinfo.internalDTD is not None:
            raise UnreadableDocument(f"the {self._what} declares entities in {name[:80]!r}")
        return tree


# -- DOCX ------------------------------------------------------------------------------------------


def read_docx(data: bytes) -> Document:
    """Return a Word document's title and text, with a section for each heading.

    What it hides or has deleted is left out, and so are comments, headers and footers.
    """
    MissingExtra.unless("reading DOCX", "research", "lxml")
    packed = Packed(data, "DOCX")
    levels = _levels(packed)
    body = packed.tree("word/document.xml").find(f"{_W}body")
    written: list[str] = []
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    title, length, number = "", 0, 0
    notes = [packed.tree(each) for each in _notes(packed)]
    for block in [*(() if body is None else body), *(each for note in notes for each in note)]:
        if block.tag == f"{_W}tbl":
            text = "\n".join(_rows(block))
        else:
            text = "\n".join(filter(None, map(_paragraph, block.iter(f"{_W}p"))))
        text = plain(text).strip()
        if not text:
            continue
        level = _level(block, levels) if block.tag == f"{_W}p" else None
        if level is not None:
            heading = " ".join(text.split())[:_LONGEST_HEADING]
            number += 1
            path = [each for each in path if each[0] < level] + [(level, heading)]
            title = title or heading
            named = " – ".join(each for _, each in path if each != title)
            sections.append(Section(length, f"heading={number}", named))
        written.append(text)
        length += len(text) + 2
    if not written:
        raise UnreadableDocument("the DOCX has no text")
    return Document(_core_title(packed) or title, "\n\n".join(written), sections)


def _notes(packed: Packed) -> list[str]:
    names = ("word/footnotes.xml", "word/endnotes.xml")
    return [each for each in names if each in packed.names]


def _core_title(packed: Packed) -> str:
    if "docProps/core.xml" not in packed.names:
        return ""
    found = packed.tree("docProps/core.xml").find("{http://purl.org/dc/elements/1.1/}title")
    return "" if found is None else " ".join(plain(found.text or "").split())


def _levels(packed: Packed) -> dict[str, int]:
    """Return the styles that are headings, by id, with their levels."""
    if "word/styles.xml" not in packed.names:
        return {}
    levels = {}
    for style in packed.tree("word/styles.xml").iter(f"{_W}style"):
        name = style.find(f"{_W}name")
        said = "" if name is None else name.get(f"{_W}val") or ""
        if found := _HEADING.fullmatch(said):
            levels[style.get(f"{_W}styleId") or ""] = int(found[1])
        elif said.lower() == "title":
            levels[style.get(f"{_W}styleId") or ""] = 0
    return levels


def _level(paragraph: Any, levels: dict[str, int]) -> int | None:
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    outline = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
    if outline is not None and (outline.get(f"{_W}val") or "").isdecimal():
        level = int(outline.get(f"{_W}val")[:2]) + 1
        return level if level < 10 else None
    return None if style is None else levels.get(style.get(f"{_W}val") or "")


def _rows(table: Any) -> Iterator[str]:
    for row in table.iter(f"{_W}tr"):
        cells = (
            " ".join(" ".join(map(_paragraph, cell.iter(f"{_W}p"))).split())
            for cell in row.iterchildren(f"{_W}tc")
        )
        yield " | ".join(cells)


def _paragraph(paragraph: Any) -> str:
    """Return the text of a paragraph, without what is deleted or hidden; text boxes come alone."""
    from lxml.etree import iterwalk

    written: list[str] = []
    walk = iterwalk(paragraph, events=("start",))
    for _, element in walk:
        tag = element.tag
        inner = tag == f"{_W}p" and element is not paragraph
        if tag in _NOT_WRITTEN or inner or (tag == f"{_W}r" and _is_hidden(element)):
            walk.skip_subtree()
        elif tag == f"{_W}t":
            written.append(element.text or "")
        elif tag in (f"{_W}tab", f"{_W}br", f"{_W}cr"):
            written.append("\n" if tag != f"{_W}tab" else "\t")
    text = "".join(written)
    listed = paragraph.find(f"{_W}pPr/{_W}numPr") is not None
    return f"- {text}" if listed and text.strip() else text


def _is_hidden(run: Any) -> bool:
    about = run.find(f"{_W}rPr")
    if about is None:
        return False
    vanish, color, size = (about.find(f"{_W}{name}") for name in ("vanish", "color", "sz"))
    if vanish is not None and vanish.get(f"{_W}val") not in ("0", "false", "off"):
        return True
    white = color is not None and (color.get(f"{_W}val") or "").upper() in _WHITE
    if white and about.find(f"{_W}shd") is None and about.find(f"{_W}highlight") is None:
        return True
    return size is not None and size.get(f"{_W}val") in ("0", "1", "2")


# -- EPUB ------------------------------------------------------------------------------------------


def read_epub(data: bytes) -> Document:
    """Return a book's title and text, with a section for each chapter and heading."""
    MissingExtra.unless("reading EPUB", "research", "lxml")
    packed = Packed(data, "EPUB")
    if "META-INF/rights.xml" in packed.names:
        raise UnreadableDocument("the EPUB is protected against being read")
    root = packed.tree("META-INF/container.xml").find(".//{*}rootfile")
    home = "" if root is None else root.get("full-path") or ""
    book = packed.tree(home)
    named = book.find(".//{http://purl.org/dc/elements/1.1/}title")
    title = "" if named is None else " ".join(plain(named.text or "").split())
    manifest = {each.get("id"): each for each in book.iter("{*}item")}
    written: list[str] = []
    sections: list[Section] = []
    length = 0
    for number, chapter in enumerate(list(book.iter("{*}itemref"))[:_CHAPTERS], 1):
        item = manifest.get(chapter.get("idref"))
        if item is None or "html" not in (item.get("media-type") or ""):
            continue
        inside = unquote(item.get("href") or "")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(home), inside))
        if path not in packed.names:
            continue
        page = read_html(packed.read(path), None, path, local=True)
        text = page.text.strip("\n")
        if not text.strip():
            continue
        anchor = f"chapter={number}"
        if not page.sections or page.sections[0].start > 0:
            sections.append(Section(length, anchor, page.title if page.title != title else ""))
        sections += [Section(length + each.start, anchor, each.title) for each in page.sections]
        written.append(text)
        length += len(text) + 2
    if not written:
        raise UnreadableDocument("the EPUB has no text")
    return Document(title, "\n\n".join(written), sections)
