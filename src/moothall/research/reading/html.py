"""Read HTML as text: the title, the text, where its sections begin, and its links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from html import unescape
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urldefrag, urljoin

from moothall import MissingExtra, UnreadableDocument
from moothall.build import error_text, shorten
from moothall.research.findings import Publication, Section
from moothall.research.reading.encodings import declared_encoding, decode_text, plain_text
from moothall.research.reading.flow import (
    HEADINGS,
    LINK_SIGNS,
    Anchors,
    flow_text,
    mark_script_numbers,
    show_formulas,
    write_formulas,
    write_merged_cells,
)
from moothall.research.reading.hidden_text import drop_hidden
from moothall.research.scope import DAY_PATTERN, DOI_PATTERN

MAX_LINKS = 300  # links of a page that are taken at most; those of its main part come first
_LONGEST_URL, _LONGEST_TEXT = 2000, 200
_MAX_ELEMENTS, _MANY_ELEMENTS = 100_000, 5000
"""Pages with more elements are not read, or not by the fallback, whose time is quadratic."""
_MAX_LOCAL_ELEMENTS = 1_000_000
_SHORT_CHARS, _LITTLE_CHARS = 25, 200
"""With fewer characters, a page's main part is not the text, and scripts write the text."""

# Tags of trafilatura's own form.
_HTML_TAGS = {"list": "ul", "row": "tr", "cell": "td", "lb": "br", "quote": "blockquote"}
_MARGIN_TAGS = ("head", "nav", "aside", "header", "footer", "script", "style")
_EMPTY_ROOT = "//*[@id='root' or @id='app' or @id='__next' or @id='__nuxt' or @id='___gatsby']"

# What names the authors, the day, the DOI and the journal.
_META_NAMES = (
    "citation_author dc.creator dcterms.creator author article:author",
    "citation_publication_date citation_date dc.date dcterms.issued dc.date.issued "
    "article:published_time date",
    "citation_doi dc.identifier dcterms.identifier",
    "citation_journal_title og:site_name",
)
_MAX_AUTHORS = 50

_REFRESH = re.compile(r"\s*\d(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"'\s]+)", re.IGNORECASE)
_CHARACTER_REFERENCE = re.compile(r"&#(?:x0*([0-9a-f]{1,6})|0*([0-9]{1,7}));?", re.IGNORECASE)
# In its data for search engines, as JSON or as attributes.
_NOT_FREE = re.compile(
    r"isAccessibleForFree[\"']?\s*(?::|[^<>]{0,40}content\s*=)\s*[\"']?false", re.IGNORECASE
)
_CHARSET = re.compile(rb"""<(?:meta|\?xml)[^>]{0,500}?(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""")


AttachedFile: TypeAlias = tuple[str, bytes]
"""The name of a file that another one holds, and its bytes."""


class Document(NamedTuple):
    """The text of a file or page; the title may be empty. Links are absolute.

    `missing` says which parts could not be read, `forward` the address to which a page of the web
    leads on by itself.
    """

    title: str
    text: str
    sections: list[Section]
    links: Sequence[tuple[str, str]] = ()  # (URL, text)
    publication: Publication | None = None
    missing: str = ""
    attached: Sequence[AttachedFile] = ()
    forward: str = ""


def is_title_of(title: str, text: str) -> bool:
    """Return whether a title that a file states is its own, not of the template or the program."""
    words = re.findall(r"\w+", title.casefold())
    return 2 * sum(each in text.casefold() for each in words) >= len(words) > 0


def read_html(data: bytes, charset: str | None, url: str, *, is_local: bool = False) -> Document:
    """Return a page's text, sections and links; a local file is read by its structure alone."""
    MissingExtra.unless("reading HTML", "research", "lxml", *(() if is_local else ("trafilatura",)))
    subject = "it" if is_local else url  # a folder's files are named beside their fault
    text = plain_text(decode_text(data, charset, declared_encoding(data[:4096].lower(), _CHARSET)))
    text = text.replace("&shy;", "")
    text = _CHARACTER_REFERENCE.sub(_readable_reference, text)
    try:
        tree, is_deep, missing = _parse_page(text)
        if not is_local and (forward := _forward_url(tree, url)):
            return Document("", "", [], forward=forward)
        element_count = int(tree.xpath("count(//*)"))
        if element_count > (limit := _MAX_LOCAL_ELEMENTS if is_local else _MAX_ELEMENTS):
            raise ValueError(f"{element_count} elements, {limit} are read at most")
        show_formulas(tree)
        drop_hidden(tree)
        write_formulas(tree)
        mark_script_numbers(tree)
        write_merged_cells(tree)
        title = _text_line(tree.find("head/title"))
        anchors, main = _page_anchors(tree), _main_part(tree)
        publication = _publication(tree)
        if _NOT_FREE.search(text):
            missing = "; ".join(filter(None, (missing, "parts that are not free, as it says")))
        links = [] if is_local else _page_links(tree, main, url)
        text, sections = _read_tree(tree, main, anchors, is_local or is_deep, element_count)
        needs_script = len(text) < _LITTLE_CHARS and _needs_script(tree, text)
    except Exception as error:  # a malicious page can make the parsers raise anything
        raise UnreadableDocument(
            f"{subject} is not HTML that can be read: {error_text(error)}"
        ) from error
    if needs_script:
        raise UnreadableDocument(
            f"{subject} needs JavaScript: scripts write its text, and they are not run, so it was "
            "not read"
        )
    return Document(title, text, sections, links, publication, missing)


def _parse_page(text: str) -> tuple[Any, bool, str]:
    """Return the tree of a page, whether it is nested deeply, and what of it is missing."""
    import lxml.html

    for is_deep in (False, True):
        parser = lxml.html.HTMLParser(
            encoding="utf-8",
            remove_comments=True,
            remove_pis=True,
            collect_ids=False,
            huge_tree=is_deep,
        )
        tree = lxml.html.document_fromstring(text.encode(), parser=parser)
        if all(each.type_name != "ERR_RESOURCE_LIMIT" for each in parser.error_log):
            return tree, is_deep, ""
    return tree, True, "a part that is nested too deeply to be read"


def _read_tree(
    tree: Any, main: Any, anchors: Anchors, by_structure: bool, element_count: int
) -> tuple[str, list[Section]]:
    """Return the text of a page, and its sections."""
    page_body = tree.find("body")
    page_body = tree if page_body is None else page_body
    text = ""
    sections: list[Section] = []
    if not by_structure:
        _tidy(tree)
        body = _extract_main(tree, element_count > _MANY_ELEMENTS)
        headings = {} if body is None else _match_anchors(body, anchors)
        if body is not None and (headings or not _loses_headings(body, anchors)):
            text, sections = flow_text(body, headings, is_main=True)
    if len(text) < _SHORT_CHARS and main is not None:
        text, sections = flow_text(main, anchors, is_main=True)
    if len(text) < _SHORT_CHARS:
        result = flow_text(page_body, anchors, is_main=False)
        if len(result[0]) < _SHORT_CHARS:
            result = flow_text(page_body, anchors, is_main=True)
        text, sections = result if len(result[0]) > len(text) else (text, sections)
    return text, sections


def _needs_script(tree: Any, text: str) -> bool:
    """Return whether scripts seem to write the text of a page, of which little is there."""
    if next(tree.iter("script"), None) is None:
        return False
    asks_for_script = any(
        "javascript" in _text_line(each).lower() for each in tree.iter("noscript")
    )
    return (
        not text or asks_for_script or any(not _text_line(each) for each in tree.xpath(_EMPTY_ROOT))
    )


def _readable_reference(match: re.Match[str]) -> str:
    """Return a reference to a character; what is read of one that is not read as it is."""
    number = int(match[1], 16) if match[1] else int(match[2])
    readable = plain_text(unescape(f"&#{number};")) if number <= 0x10FFFF else ""
    return match[0] if readable == chr(min(number, 0x10FFFF)) else readable


def _text_line(element: Any, end_chars: str = "") -> str:
    """Return the text of an element in one line, without `end_chars` at its end."""
    return (
        "" if element is None else " ".join("".join(element.itertext()).split()).rstrip(end_chars)
    )


def _id_of(element: Any) -> str:
    return element.get("id") or element.get("name") or ""


def _page_anchors(tree: Any) -> Anchors:
    """Return the headings of a page, and the terms that it defines and names."""
    parents = set()
    anchors: Anchors = {}
    for element in tree.iter(*HEADINGS, "dt"):
        id = next(filter(None, map(_id_of, (element, *element.iter("a", "span")))), "")
        if element.tag == "dt":
            if id:
                anchors[element] = (_text_line(element, LINK_SIGNS), id, 7)
            continue
        parent, previous = element.getparent(), element.getprevious()
        if (
            not id
            and previous is not None
            and previous.tag in ("a", "span")
            and not _text_line(previous)
        ):
            id = _id_of(previous)
        if not id and parent not in parents and parent.tag in ("section", "div", "article"):
            id = parent.get("id") or ""
        parents.add(parent)
        anchors[element] = (_text_line(element, LINK_SIGNS), id, int(element.tag[1]))
    return anchors


def _main_part(tree: Any) -> Any:
    """Return the one part marked as main, if it is no article beside more text than its own."""
    for path in ("//*[@role='main']", "//article", "//main"):
        elements = tree.xpath(path)
        if len(elements) == 1 and (
            path != "//article" or 2 * _text_length(elements[0]) >= _text_length(tree)
        ):
            return elements[0]
    return None


def _text_length(element: Any) -> int:
    """Return how much text an element has, without what stands in margins of it."""
    from lxml import etree

    copy = deepcopy(element)
    etree.strip_elements(copy, *_MARGIN_TAGS, with_tail=False)
    return len(_text_line(copy))


def _persons(names: str) -> list[str]:
    """Return the persons of `Ada Stone, Bo Reed and Cy Hill`; `Stone, Ada` is one."""
    persons = [each.strip() for each in re.split(r",|\band\b|&", names)]
    return persons if all(" " in each for each in persons) else [names]


def _publication(tree: Any) -> Publication | None:
    """Return what a page states of its authors, date and DOI; None if it states nothing."""
    metadata: dict[str, list[str]] = {}
    for meta in tree.iter("meta"):
        name = (meta.get("name") or meta.get("property") or "").lower()
        content = shorten(" ".join((meta.get("content") or "").split()), _LONGEST_TEXT)
        if name and content and "://" not in content:
            metadata.setdefault(name, []).append(content)
    values = [
        [value for name in names.split() for value in metadata.get(name, ())]
        for names in _META_NAMES[1:]
    ]
    dates, dois, journals = values
    # Pages name the same persons in several forms: one is taken.
    name = next((each for each in _META_NAMES[0].split() if each in metadata), "")
    authors = metadata.get(name, [])
    if name.endswith("author") and name != "citation_author":  # that has one, `Family, Given`
        authors = [person for each in authors for person in _persons(each)]
    day = next(filter(None, map(DAY_PATTERN.match, dates)), None)
    doi = next(filter(None, map(DOI_PATTERN.search, dois)), None)
    if not authors and day is None and doi is None:
        return None
    published = "" if day is None else day[0].replace("/", "-")
    journal = journals[0] if journals else ""
    return Publication(tuple(authors[:_MAX_AUTHORS]), published, doi[0] if doi else "", journal)


def _forward_url(tree: Any, url: str) -> str:
    """Return the address to which a page goes on by itself within ten seconds; else nothing."""
    for meta in tree.iterfind("head/meta"):  # not within noscript
        match = _REFRESH.match(meta.get("content") or "")
        if match and (meta.get("http-equiv") or "").strip().lower() == "refresh":
            target = urldefrag(urljoin(url, match[1])).url
            return target if target.startswith(("http://", "https://")) and target != url else ""
    return ""


def _page_links(tree: Any, main: Any, url: str) -> list[tuple[str, str]]:
    for meta in tree.iter("meta"):
        directives = (meta.get("content") or "").lower()
        if (meta.get("name") or "").lower() == "robots" and (
            "nofollow" in directives or "none" in directives
        ):
            return []
    base = next((each.get("href") for each in tree.iter("base") if each.get("href")), "")
    links: dict[str, str] = {}
    own_url = urldefrag(url).url
    for part in (tree,) if main is None else (main, tree):
        for element in part.iter("a"):
            if "nofollow" in (element.get("rel") or "").lower().split():
                continue
            try:
                target = urldefrag(urljoin(urljoin(url, base), element.get("href", "").strip())).url
            except ValueError:
                continue
            is_http = target.lower().startswith(("http://", "https://"))
            if is_http and target != own_url and len(target) <= _LONGEST_URL:
                text = _text_line(element) or element.get("title") or ""
                links[target] = links.get(target) or shorten(text, _LONGEST_TEXT)
    return list(links.items())[:MAX_LINKS]


def _tidy(tree: Any) -> None:
    """Remove what misleads trafilatura: emphasis in code, divs of headings, classes of words."""
    for element in list(tree.iter(*HEADINGS)):
        while (parent := element.getparent()).tag == "div" and not parent.attrib:
            if len(parent) > 1 or _text_line(parent) != _text_line(element):
                break
            parent.drop_tag()
    for element in list(tree.iter("code", "pre")):
        for inline in list(element.iterdescendants("em", "span", "strong", "b", "i", "var")):
            inline.drop_tag()
    for element in tree.xpath("//p[@style] | //span[@class or @style]"):  # hidden ones are gone
        element.attrib.pop("class" if element.tag == "span" else "style", None)
    for element in list(tree.iter("a")):
        if _text_line(element) in ("", "¶", "#", "🔗"):
            element.drop_tree()


def _extract_main(tree: Any, is_fast: bool) -> Any:
    """Return the main part that trafilatura finds, as HTML again; None if it finds none."""
    import trafilatura

    config = trafilatura.settings.use_config()
    config["DEFAULT"]["MIN_EXTRACTED_SIZE"] = str(_SHORT_CHARS)
    options = {"favor_recall": True, "include_comments": False, "include_formatting": True}
    extracted = trafilatura.bare_extraction(
        tree, output_format="xml", config=config, fast=is_fast, **options
    )
    body = getattr(extracted, "body", None)
    if body is not None:
        _to_html(body)
    return body


def _loses_headings(body: Any, anchors: Anchors) -> bool:
    """Return whether a body without headings has what stands below several headings of the page."""
    text = _text_line(body)
    texts_below = (
        _text_line(following)[:_SHORT_CHARS]
        for e in anchors
        if (following := e.getnext()) is not None
    )
    return sum(bool(each) and each in text for each in texts_below) > 1


def _to_html(body: Any) -> None:
    """Rename the tags of trafilatura's own form."""
    for element in body.iter():
        tag, rend = element.tag, element.get("rend") or ""
        if tag == "head":
            element.tag = rend if rend in HEADINGS else "h2"
        elif tag == "item":
            element.tag = rend[:2] if rend[:2] in ("dt", "dd") else "li"
        elif tag == "code":
            element.tag = "pre" if "\n" in "".join(element.itertext()).strip() else "code"
        else:
            element.tag = "ol" if (tag, rend) == ("list", "ol") else _HTML_TAGS.get(tag, tag)


def _match_anchors(body: Any, anchors: Anchors) -> Anchors:
    """Return the headings of an extracted body, with the anchors that they had in the page."""
    page_anchors, start = [*anchors.values()], 0
    matches: Anchors = {}
    for element in body.iter(*HEADINGS, "dt"):
        heading = _text_line(element, LINK_SIGNS)
        at = next(
            (at for at in range(start, len(page_anchors)) if page_anchors[at][0] == heading), None
        )
        if at is not None:
            matches[element], start = page_anchors[at], at + 1
        elif element.tag != "dt" and heading:
            matches[element] = (heading, "", int(element.tag[1]))
    return matches
