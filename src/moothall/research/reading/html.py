"""Read HTML as text: the title, the text, where its sections begin, and its links."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from unicodedata import normalize
from urllib.parse import urldefrag, urljoin

from moothall.errors import MissingExtra, UnreadableDocument
from moothall.research.findings import Section
from moothall.text import error_text, shorten

LINKS = 300  # links of a page that are taken at most; those of its main part come first
_LONGEST_URL, _LONGEST_TEXT, _LONGEST_HEADING = 2000, 200, 100
_MOST, _MANY = 100_000, 5000
"""Pages with more elements are not read, or not by the fallback, whose time is quadratic."""
_SHORT = 25
"""If a page's main part has fewer characters, all text is taken, without its structure."""

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Tags of trafilatura's own form.
_PARAGRAPHS = frozenset(("p", "head", "list", "table", "quote"))
_LINES = frozenset(("item", "row", "lb"))
_SIGNS = "¶#🔗 "  # of links from a heading to itself
_GAPS = ("", " ", "\n", "\n\n")

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_IN_WORDS = re.compile("[\xad\u200b\ufb00-\ufb06]")
_REFERENCE = re.compile(r"&#(?:x0*([0-9a-f]{1,6})|0*([0-9]{1,7}));?", re.IGNORECASE)
_CHARSET = re.compile(rb"""<(?:meta|\?xml)[^>]{0,500}?(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""")
_BEYOND_ASCII = re.compile("[^\x00-\x7f\ufffd]")
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# The encodings that browsers use for these names.
_MEANT = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
# Slow, or not meant for pages.
_NOT_OF_PAGES = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7")


class Document(NamedTuple):
    """The text of a file or page; the title is empty if there is none. Links are absolute."""

    title: str
    text: str
    sections: list[Section]
    links: Sequence[tuple[str, str]] = ()  # (URL, text)


def read_html(data: bytes, charset: str | None, url: str) -> Document:
    """Return the text, sections and links of a page; `charset` is what the server states."""
    MissingExtra.unless("reading HTML", "research", "lxml", "trafilatura")
    import lxml.html

    parser = lxml.html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False
    )
    text = plain(decoded(data, charset, declared(data[:4096].lower(), _CHARSET)))
    text = text.replace("&shy;", "")
    text = _REFERENCE.sub(_unless_control, text)
    try:
        tree = lxml.html.document_fromstring(text.encode(), parser=parser)
        elements = sum(1 for _ in tree.iter())
        if elements > _MOST:
            raise ValueError(f"{elements} elements, {_MOST} are read at most")
        title = _line(tree.find("head/title"))
        anchors = list(_anchors(tree))
        main = _main(tree)
        links = _links(tree, main, url)
        _tidy(tree, main)
        body = _extracted(tree, main is not None or elements > _MANY)
        text, sections = ("", []) if body is None else _Text(anchors).of(body)
    except Exception as error:  # a malicious page can make the parsers raise anything
        raise UnreadableDocument(
            f"{url} is not HTML that can be read: {error_text(error)}"
        ) from error
    return Document(title, text, sections, links)


def decoded(data: bytes, *stated: str | None) -> str:
    """Decode a text by its BOM, or else by the first encoding that fits.

    Those that are stated come first, then UTF-8, then the default of browsers if no other is
    stated; unknown ones are skipped. UTF-8 fits despite a few wrong bytes, as of a log that was
    cut. If none fits, the first replaces what it cannot read.
    """
    if data.startswith(_BOMS):
        return data.decode("utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-16", "replace")
    codecs_of = [_codec(each) for each in (*stated, "utf-8") if each]
    charsets = (*codecs_of, "cp1252" if {*codecs_of} == {"utf-8"} else None)
    known = [each for each in charsets if each]
    for each in known:
        with suppress(UnicodeError):
            return data.decode(each)
        text = data.decode(each, "replace")
        if each == "utf-8" and len(_BEYOND_ASCII.findall(text)) > text.count("\ufffd"):
            return text
    return data.decode(known[0], "replace")


def declared(data: bytes, by: re.Pattern[bytes]) -> str | None:
    """Return the encoding that a text itself declares, or None."""
    found = by.search(data)
    return found and found[1].decode("ascii", "replace")


def plain(text: str) -> str:
    """Return a text without control characters, lone surrogates and marks of direction.

    Soft hyphens are left out and ligatures spelled out, as nobody searches for words with them.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    if not text.isascii():
        text = _IN_WORDS.sub(lambda found: normalize("NFKC", found[0]).strip("\xad\u200b"), text)
    return CONTROL.sub("", text)


def _unless_control(found: re.Match[str]) -> str:
    """Return a reference to a character; empty for a character that `plain` leaves out."""
    number = int(found[1], 16) if found[1] else int(found[2])
    return found[0] if number <= 0x10FFFF and plain(chr(number)) else ""


def _codec(charset: str) -> str | None:
    try:
        name = codecs.lookup(charset.strip("\"' ")).name.replace("_", "-")
        b" ".decode(name)  # some map bytes to bytes
    except (LookupError, UnicodeError, ValueError):
        return None
    if name in _NOT_OF_PAGES:
        return None
    # A text whose declaration can be read is not UTF-16, and no text without a BOM is.
    return "utf-8" if name.startswith(("utf-16", "utf-32")) else _MEANT.get(name, name)


def _line(element: Any, less: str = "") -> str:
    """Return the text of an element in one line, without the characters `less` at its end."""
    return "" if element is None else " ".join("".join(element.itertext()).split()).rstrip(less)


def _id(element: Any) -> str:
    return element.get("id") or element.get("name") or ""


def _anchors(tree: Any) -> Iterator[tuple[str, str, int]]:
    """Yield the headings of a page and the terms that it defines as (text, anchor, level)."""
    parents = set()
    for element in tree.iter(*_HEADINGS, "dt"):
        id = next(filter(None, map(_id, (element, *element.iter("a", "span")))), "")
        if element.tag == "dt":
            if id:
                yield _line(element, _SIGNS), id, 7
            continue
        parent, before = element.getparent(), element.getprevious()
        if not id and before is not None and before.tag in ("a", "span") and not _line(before):
            id = _id(before)
        if not id and parent not in parents and parent.tag in ("section", "div", "article"):
            id = parent.get("id") or ""
        parents.add(parent)
        yield _line(element, _SIGNS), id, int(element.tag[1])


def _main(tree: Any) -> Any:
    """Return the part of a page that is marked as the main one, if exactly one is."""
    parts = map(tree.xpath, ("//*[@role='main']", "//article", "//main"))
    return next((found[0] for found in parts if len(found) == 1), None)


def _links(tree: Any, main: Any, url: str) -> list[tuple[str, str]]:
    for meta in tree.iter("meta"):
        directives = (meta.get("content") or "").lower()
        if (meta.get("name") or "").lower() == "robots" and (
            "nofollow" in directives or "none" in directives
        ):
            return []
    base = next((each.get("href") for each in tree.iter("base") if each.get("href")), "")
    found: dict[str, str] = {}
    here = urldefrag(url).url
    for part in (tree,) if main is None else (main, tree):
        for element in part.iter("a"):
            if "nofollow" in (element.get("rel") or "").lower().split():
                continue
            try:
                to = urldefrag(urljoin(urljoin(url, base), element.get("href", "").strip())).url
            except ValueError:
                continue
            of_http = to.lower().startswith(("http://", "https://"))
            if of_http and to != here and len(to) <= _LONGEST_URL:
                text = _line(element) or element.get("title") or ""
                found[to] = found.get(to) or shorten(text, _LONGEST_TEXT)
    return list(found.items())[:LINKS]


def _tidy(tree: Any, main: Any) -> None:
    """Remove markup that misleads trafilatura about the text.

    It leaves out elements by their ids and classes, such as a heading "How do I share …", and
    elements with many links: right for a menu, wrong in the marked main part. It moves code with
    emphasis in it, such as `<code><em>NAME</em>.exe</code>`, to the paragraph's end, and joins the
    lines of code in colours. It leaves out headings in two divs, or in one and after an empty link.
    """
    for element in list(tree.iter(*_HEADINGS)):
        while (around := element.getparent()).tag == "div" and not around.attrib:
            if len(around) > 1 or _line(around) != _line(element):
                break
            around.drop_tag()
    for element in list(tree.iter("code", "pre")):
        for inside in list(element.iterdescendants("em", "span", "strong", "b", "i", "var")):
            inside.drop_tag()
    for element in list(tree.iter("a")):
        if _line(element) in ("", "¶", "#", "🔗"):
            element.drop_tree()
    if main is not None:
        for element in list(main.iter()):
            if element.tag in ("section", "dl", "dt", "dd", *_HEADINGS):
                element.attrib.pop("id", None)
            elif element.tag == "span":
                element.attrib.clear()
            elif element.tag == "a" and element.get("href"):
                element.drop_tag()


def _extracted(tree: Any, fast: bool) -> Any:
    """Return the main part as trafilatura's tree; None if it finds none."""
    import trafilatura

    config = trafilatura.settings.use_config()
    config["DEFAULT"]["MIN_EXTRACTED_SIZE"] = str(_SHORT)
    options = {"favor_recall": True, "include_comments": False, "include_formatting": True}
    found = trafilatura.bare_extraction(
        tree, output_format="xml", config=config, fast=fast, **options
    )
    body = getattr(found, "body", None)
    whole = tree.find("body")
    if whole is None or (body is not None and next(body.iter("head"), None) is not None):
        return body
    if next(whole.iter(*_HEADINGS), None) is None or next(tree.iter("article"), None) is not None:
        return body
    # Of a page without a marked main part it may take bare paragraphs: then mark the whole body.
    article = whole.makeelement("article")
    article.text, whole.text = whole.text, None
    article.extend(list(whole))
    whole.append(article)
    return _extracted(tree, True)


class _Text:
    """Turns trafilatura's tree into text, without recursion: pages may be nested to any depth."""

    def __init__(self, anchors: list[tuple[str, str, int]]) -> None:
        self.sections: list[Section] = []
        self._anchors = anchors
        self._place = 0  # of the next heading
        self._text: list[str] = []
        self._length = 0
        self._gap = self._prefix = ""  # what goes before the next text
        self._begun: Section | None = None  # begins with the next text
        self._path: list[tuple[int, str]] = []

    def of(self, body: Any) -> tuple[str, list[Section]]:
        """Return the text of an element with its descendants, and the sections."""
        from lxml.etree import iterwalk

        codes = cells = items = 0  # how many are open
        for event, element in iterwalk(body, events=("start", "end")):
            tag, rend = element.tag, element.get("rend") or ""
            code = tag == "code" and "\n" in "".join(element.itertext()).strip()
            item = tag == "item" and not rend.startswith("d")
            starts = event == "start"
            if not starts:
                cells -= tag == "cell"
                items -= item
            gap = "\n\n" if code or tag in _PARAGRAPHS else "\n" if tag in _LINES else ""
            if gap and (cells or items):
                gap = " " if cells else "\n"
            self._gap = max(self._gap, gap, key=_GAPS.index)
            codes += code if starts else -code
            if starts:
                if tag == "head" or rend.startswith("dt"):
                    self._head(_line(element, _SIGNS), rend)
                elif tag == "cell" and element.getprevious() is not None:
                    self._gap = " "
                    self._write("| ", True)
                elif item:
                    self._prefix = "- "
                cells += tag == "cell"
                items += item
                self._write(element.text or "", codes > 0)
            elif element is not body:
                self._write(element.tail or "", codes > 0)
        return "".join(self._text).rstrip(), self.sections

    def _head(self, heading: str, rend: str) -> None:
        anchor, level = "", int(rend[1:]) if re.fullmatch(r"h\d", rend) else 2
        places = range(self._place, len(self._anchors))
        place = next((each for each in places if self._anchors[each][0] == heading), None)
        if place is not None:
            _, anchor, level = self._anchors[place]
            self._place = place + 1
        elif rend.startswith("dt") or not heading:
            return
        anchor = anchor or re.sub(r"[^\w-]+", "-", heading.lower()).strip("-")
        if rend.startswith("dt"):  # only the name of a signature
            heading = re.sub(r"\(.*", "()", heading)
        heading = shorten(heading, _LONGEST_HEADING)
        self._path = [each for each in self._path if each[0] < level] + [(level, heading)]
        named = [each for of, each in self._path if of > 1] or [heading]
        self._begun = Section(0, anchor, " – ".join(named))

    def _write(self, text: str, kept: bool) -> None:
        text = text if kept else re.sub(r"\s+", " ", text)
        if self._gap or not self._text:
            text = text.lstrip("\n" if kept else " ")
        elif not kept and self._text[-1].endswith((" ", "\n")):
            text = text.lstrip(" ")
        if not text:
            return
        if self._gap and self._text:
            last = self._text[-1].rstrip()
            self._length += len(last) - len(self._text[-1]) + len(self._gap)
            self._text[-1] = last
            self._text.append(self._gap)
        if self._begun is not None:
            self._begun.start = self._length
            self.sections.append(self._begun)
        text = self._prefix + text
        self._gap = self._prefix = ""
        self._begun = None
        self._text.append(text)
        self._length += len(text)
