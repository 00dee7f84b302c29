"""Read papers in JATS, as PubMed Central gives them: the text that a reader sees."""

from __future__ import annotations

import re
from typing import Any, Final

from moothall import MissingExtra, UnreadableDocument
from moothall.research.reading.html import Document, read_html

_TAGS: Final = {
    "list": "ul", "list-item": "li", "italic": "i", "bold": "b", "monospace": "code",
    "preformat": "pre", "disp-quote": "blockquote", "ref": "p", "label": "span", "caption": "div",
    "fig": "div", "table-wrap": "div", "article-title": "span", "ext-link": "span", "uri": "span",
    "break": "br", "def-list": "dl", "term": "dt", "def": "dd", "fn": "div", "ack": "div",
}  # fmt: skip
_LEFT_OUT: Final = ("tex-math", "object-id", "permissions", "graphic", "media", "alt-text")
_NOTE: Final = re.compile(r"\W*(?:\d{1,3}|[a-z])?\W*")  # the mark of a note; names are read


def read_jats(data: bytes) -> Document:
    """Return a paper's title, abstract and body, with a section for each of its own."""
    MissingExtra.unless("reading papers", "research", "lxml")
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, recover=True,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    article = etree.fromstring(data, parser)
    if article is None:
        raise UnreadableDocument("the paper is damaged: it is no XML")
    article = next(article.iter("article"), article)  # of a collection, the first one
    for element in [*article.iter()]:
        element.tag = _html_tag(element)
    title = _line(article.find(".//article-meta/title-group/span"))
    page = etree.Element("html")
    etree.SubElement(etree.SubElement(page, "head"), "title").text = title
    main = etree.SubElement(etree.SubElement(page, "body"), "main")
    etree.SubElement(main, "h1").text = title
    authors = article.iterfind(".//article-meta/contrib-group/contrib/name")
    names = (" ".join(map(_line, [*each][::-1])) for each in authors)  # the family's comes first
    etree.SubElement(main, "p").text = ", ".join(names)
    for each in article.iterfind(".//ref//*"):
        each.tail = f"{each.tail or ''} "
    for each in (*article.iterfind(".//article-meta/abstract"), *article.iterfind("./body")):
        main.append(each)
    for each in article.iterfind("./back/*"):
        main.append(each)
    for element in [*main.iter("xref", *_LEFT_OUT)]:
        if element.tag != "xref" or _NOTE.fullmatch("".join(element.itertext())):
            element.text, element[:] = None, []
    for each in [*main.iter("body", "abstract", "sec", "xref", *_LEFT_OUT)]:
        each.tag = "span" if each.tag in ("xref", *_LEFT_OUT) else "section"
    text = etree.tostring(page, encoding="utf-8", method="html")
    return read_html(text, "utf-8", "the paper", is_local=True)


def _html_tag(element: Any) -> Any:
    """Return the tag of HTML for an element, without its namespace."""
    tag = element.tag.rpartition("}")[2]
    if tag == "list" and element.get("list-type") in ("order", "alpha-lower", "roman-lower"):
        return "ol"
    if tag == "title":
        depth = sum(each.tag in ("sec", "abstract", "back") for each in element.iterancestors())
        return f"h{min(depth + 1, 6)}" if depth else "b"
    return _TAGS.get(tag, tag)


def _line(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())
