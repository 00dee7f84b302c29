"""Unpack gzip files, and read EPUB and what zip files hold: within limits, without entities."""

from __future__ import annotations

import gzip
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from moothall import FileTooLarge, MissingExtra, UnreadableDocument
from moothall.build import counted
from moothall.research.findings import Section
from moothall.research.reading.encodings import plain_text
from moothall.research.reading.html import AttachedFile, Document, read_html

_MAX_MEMBERS: Final = 10_000
_MEMBER_BYTES: Final = 64 * 2**20  # of one file inside, unpacked
_ALL_BYTES: Final = 128 * 2**20  # of all that is read, unpacked
_MAX_CHAPTERS: Final = 2000
_LONGEST_MERGED: Final = 200  # characters of a cell that is repeated

# Strict OOXML names what the usual one does in other words.
_STRICT_NAMESPACE: Final = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_USUAL_NAMESPACE: Final = rb"http://schemas.openxmlformats.org/\1/2006/"
FALLBACK_TAG: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""What stands for a choice that has the same text."""
_CHOICE_TAG: Final = FALLBACK_TAG.replace("Fallback", "Choice")
_TITLE_TAG: Final = "{http://purl.org/dc/elements/1.1/}title"


def unpack_gzip(data: bytes, max_bytes: int) -> bytes:
    """Return what a gzip file holds; nothing that unpacks to more than `max_bytes`."""
    content = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while len(content) <= max_bytes and (
                piece := file.read(min(2**20, max_bytes + 1 - len(content)))
            ):
                content += piece
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableDocument(f"the gzip file is damaged: {error}") from error
    if len(content) > max_bytes:
        raise FileTooLarge(f"it unpacks to more than {max_bytes // 2**20} MiB")
    return bytes(content)


class SectionWriter:
    """The text of a document as it is put together, with its sections."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.sections: list[Section] = []
        self.length = 0

    def begin_section(self, anchor: str, title: str) -> None:
        """Begin a section here."""
        self.sections.append(Section(self.length, anchor, title))

    def write(self, text: str) -> None:
        """Add a paragraph."""
        if text := plain_text(text).strip():
            self._pieces.append(text)
            self.length += len(text) + 2

    def document(
        self, kind: str, title: str = "", missing: str = "", attached: Sequence[AttachedFile] = ()
    ) -> Document:
        """Return what was written."""
        if not self._pieces:
            raise UnreadableDocument(f"the {kind} has no text{f', {missing}' if missing else ''}")
        text = "\n\n".join(self._pieces)
        return Document(title, text, self.sections, missing=missing, attached=attached)


class RelatedPart(NamedTuple):
    """A part of a document that another part names."""

    id: str
    kind: str
    name: str


class PackedFile:
    """The files inside a zip file, unpacked within limits."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._kind = kind
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"the {kind} is damaged: {error}") from error
        self.names: set[str] = set(self._zip.namelist())
        if len(self.names) > _MAX_MEMBERS:
            raise UnreadableDocument(
                f"the {kind} has {len(self.names)} files inside, {_MAX_MEMBERS} are read at most"
            )
        self._bytes_left = _ALL_BYTES

    def read(self, name: str) -> bytes:
        """Return a file's bytes; sizes that the zip file states are not trusted."""
        if name not in self.names:
            raise UnreadableDocument(f"the {self._kind} is damaged: it has no {name[:80]!r}")
        limit = min(_MEMBER_BYTES, self._bytes_left)
        try:
            with self._zip.open(name) as member:
                data = member.read(limit + 1)
        except RuntimeError as error:
            raise UnreadableDocument(f"the {self._kind} is encrypted: {error}") from error
        except Exception as error:  # a malicious file can make the decoder raise anything
            raise UnreadableDocument(f"the {self._kind} is damaged: {error}") from error
        if len(data) > limit:
            raise UnreadableDocument(
                f"the {self._kind} unpacks to more than {limit // 2**20} MiB at {name[:80]!r}"
            )
        self._bytes_left -= len(data)
        return data

    def parse_xml(self, name: str) -> Any:
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
            tree = etree.fromstring(
                _STRICT_NAMESPACE.sub(_USUAL_NAMESPACE, self.read(name)), parser
            )
        except etree.XMLSyntaxError as error:
            raise UnreadableDocument(
                f"the {self._kind} is damaged: {name[:80]!r}: {error}"
            ) from error
        if tree.getroottree().docinfo.internalDTD is not None:
            raise UnreadableDocument(f"the {self._kind} declares entities in {name[:80]!r}")
        for each in tree.iter(FALLBACK_TAG):
            if not "".join(
                text for sibling in each.itersiblings(preceding=True) for text in sibling.itertext()
            ):
                each.tag = _CHOICE_TAG
        return tree

    def metadata_title(self, name: str) -> str:
        """Return the title that a file's metadata has; empty without one."""
        tree = self.parse_xml(name) if name in self.names else None
        title = None if tree is None else tree.findtext(f".//{_TITLE_TAG}")
        return " ".join(plain_text(title or "").split())

    def main_part_name(self, usual: str) -> str:
        """Return the name of the part of OOXML that names all others."""
        return next((e.name for e in self.related_parts("") if e.kind == "officeDocument"), usual)

    def related_parts(self, name: str) -> list[RelatedPart]:
        """Return the parts that a part of OOXML names and that are there; "" is the whole file."""
        folder, _, file = name.rpartition("/")
        relations_name = f"{folder}/_rels/{file}.rels".lstrip("/")
        parts = []
        for each in self.parse_xml(relations_name) if relations_name in self.names else ():
            target = posixpath.join("/", folder, each.get("Target") or "")
            target = posixpath.normpath(target).lstrip("/")
            if target in self.names and each.get("TargetMode") != "External":
                kind = (each.get("Type") or "").rpartition("/")[2]
                parts.append(RelatedPart(each.get("Id") or "", kind, target))
        return parts


def outermost(element: Any, *tags: str) -> Iterator[Any]:
    """Yield the elements below one that have one of the tags, and none below those."""
    for each in element:
        if each.tag in tags:
            yield each
        elif each.tag != FALLBACK_TAG:
            yield from outermost(each, *tags)


def written_rows(rows: Iterable[Iterable[tuple[str | None, int]]]) -> str:
    """Return a table's rows, of cells with the columns that each goes over, a row a line.

    A cell of None says what the one above says. What goes over several columns is said in each,
    unless it is the whole row, or long.
    """
    lines: list[str] = []
    above: list[str] = []
    for row in rows:
        texts: list[str] = []
        cells = [*row]
        for own_text, columns in cells:
            text = (above[len(texts) :] or [""])[0] if own_text is None else own_text
            is_once = len(cells) == 1 or len(text) > _LONGEST_MERGED
            texts += [text, *[text * (not is_once)] * (columns - 1)]
        above = texts
        lines.append(" | ".join(texts[:1] if len(cells) == 1 else texts))
    return "\n".join(lines)


def drawing_texts(packed: PackedFile, name: str) -> Iterator[str]:
    """Yield what the charts and diagrams of a part of OOXML say."""
    for each in packed.related_parts(name):
        if each.kind == "chart":
            yield "\n".join(_chart_texts(packed.parse_xml(each.name)))
        elif each.kind == "diagramData":
            texts = ("".join(e.itertext("{*}t")) for e in packed.parse_xml(each.name).iter("{*}p"))
            yield "\n".join(filter(str.strip, texts))


def _chart_texts(chart: Any) -> Iterator[str]:
    """Yield a chart's title, and the values of each series."""
    if (title := chart.find("{*}chart/{*}title")) is not None:
        yield "".join(title.itertext("{*}t"))
    for series in chart.iter("{*}ser"):
        name = series.findtext("{*}tx//{*}v")
        names, values = (
            {
                e.get("idx"): e.findtext("{*}v") or ""
                for a in paths
                for e in series.iterfind(f"{a}//{{*}}pt")
            }
            for paths in (("{*}cat", "{*}xVal"), ("{*}val", "{*}yVal"))
        )
        text = "; ".join(f"{names.get(at) or at}: {value}" for at, value in values.items())
        yield f"{name} – {text}" if name else text


def read_epub(data: bytes) -> Document:
    """Return a book's title and text, with a section for each chapter and heading."""
    MissingExtra.unless("reading EPUB", "research", "lxml")
    packed = PackedFile(data, "EPUB")
    if "META-INF/rights.xml" in packed.names:
        raise UnreadableDocument("the EPUB is protected against being read")
    root = packed.parse_xml("META-INF/container.xml").find(".//{*}rootfile")
    package_path = "" if root is None else root.get("full-path") or ""
    book = packed.parse_xml(package_path)
    title = packed.metadata_title(package_path)
    manifest = {each.get("id"): each for each in book.iter("{*}item")}
    writer, missing = SectionWriter(), list[str]()
    chapters = [*book.iter("{*}itemref")]
    for number, chapter in enumerate(chapters[:_MAX_CHAPTERS], 1):
        item = manifest.get(chapter.get("idref"))
        if item is None or "html" not in (item.get("media-type") or ""):
            continue
        href = unquote(item.get("href") or "")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(package_path), href))
        page_bytes = packed.read(path) if path in packed.names else b""
        try:
            page = read_html(page_bytes, None, path, is_local=True)
        except UnreadableDocument:  # such as a cover that a script shows
            missing += [path.rpartition("/")[2]] * bool(page_bytes)
            continue
        if not page.text.strip():
            continue
        anchor, start = f"chapter={number}", writer.length
        if not page.sections or page.sections[0].start > 0:
            writer.begin_section(anchor, page.title if page.title != title else "")
        for each in page.sections:
            writer.sections.append(Section(start + each.start, anchor, each.title))
        writer.write(page.text)
    faults = [f"{counted(len(missing), 'page')} not read: {', '.join(missing[:10])}"]
    faults = faults * bool(missing)
    if len(chapters) > _MAX_CHAPTERS:
        faults.append(f"chapters beyond the first {_MAX_CHAPTERS:,}")
    return writer.document("EPUB", title, "; ".join(faults))
