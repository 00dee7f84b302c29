"""Read files by kind: the title, the text, and where the parts of the text begin."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from mimetypes import guess_type
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from moothall import MoothallError, UnreadableDocument
from moothall.build import counted, error_text
from moothall.research.findings import Section
from moothall.research.reading import process
from moothall.research.reading.document_kinds import by_suffix, has_parser
from moothall.research.reading.encodings import (
    declared_encoding,
    decode_text,
    is_binary,
    plain_text,
    whole_words,
)
from moothall.research.reading.html import Document, read_html
from moothall.research.reading.manual import is_manual
from moothall.research.reading.tables import sections_by_lines, table_document

PACKED_SUFFIX: Final = ".gz"
"""How the name of a file ends that holds another one."""
# After the suffix of a kind: `.rst.txt` of Sphinx, what others include, what is filled in.
_TEMPLATE_SUFFIX: Final = re.compile(
    r"\.(?:txt|inc|in|tmpl|tpl|template|j2|jinja2?|example|sample|dist)", re.IGNORECASE
)

# A page of a manual by its section: `ls.1`, `crypt.3ssl`; else, such as a log's copy, a text.
_MANUAL_SUFFIX: Final = re.compile(
    r"\.(?:[1-9](?:x|p|pm|perl|ssl|posix|t|tcl|tk|erl|edit|type|const|head|readline|ncurses|curses|"
    r"form|menu|gcc|git|caml|am|alpha|qt|gv|ldap|krb5|avr|blas|rheolef)?|man|mdoc|roff)"
)
_TITLE_CHARS: Final = 300  # characters of a heading that are kept
_MAIL_CHARS: Final = 20_000_000  # characters of a mail, beyond which no attachment is read
_ESCAPED_LETTERS: Final = re.compile(r"(?<!\\)((?:\\\\)*)((?:\\u(?!00[0-7])[0-9a-fA-F]{4})+)")
_MINIFIED_SUFFIXES: Final = (".js", ".css", ".mjs", ".svg")
_LONG_LINE_BYTES: Final = 500  # bytes; longer lines on average were not written by a person
_OUTPUT_CHARS: Final = 2000  # characters of an output in a notebook
_MAILBOX = re.compile(rb"From [^\n]{1,100}\n(?:X-Mozilla-Status|From|Return-Path|Received|Date): ")
_PAPER = re.compile(rb"<article[\s>](?=.*<article-meta[\s>])", re.DOTALL)
_DECLARED_ENCODING = re.compile(rb"(?:coding|charset|encoding)[ \t]*[:=][ \t]*[\"']?([\w.-]+)")

_MARKDOWN_HEADING = re.compile(
    r"^ {0,3}(?:"
    r"(?P<fence>`{3,}|~{3,})[^\n]*"
    r"|(?P<level>#{1,6})(?:[ \t]+(?P<title>[^\n]*))?"
    r"|(?P<above>[^\s#>|*+`~-][^\n]*+)\n {0,3}(?P<below>=+|-+)[ \t]*)$",
    re.MULTILINE,
)
# Code between fences, up to the end if the last one is never closed.
_FENCED_CODE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}(?![^\n`]*`)|~{3,})[^\n]*+"
    r"(?:\n(?! {0,3}(?P=fence))[^\n]*+)*+(?:\n[^\n]*+|\Z)",
    re.MULTILINE,
)
# Comments and struck-out text, but not within code; no comment begins within another one. It begins
# with one of three characters, which Python finds fast; alternatives are tried at each character.
_UNSEEN_MARKUP = re.compile(
    r"[`<~](?:(?<=`)(?P<code>`*[^`\n]+`+)|(?<=<)!--(?:(?!<!--).)*?-->"
    r"|(?<=~)(?<!~~)~(?![~\s])[^~\n]+~~(?!~)"
    r"|(?<=<)(?P<struck>del|s|strike)>[^<]*</(?P=struck)>)",
    re.DOTALL | re.IGNORECASE,
)
_LINK = re.compile(
    r"(`[^`\n]+`)|!?\[((?:[^\[\]\n]|\n(?![ \t]*\n))*)\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)"
    r"|(?<=\S)\[\^[\w-]+\](?!:)|^\[\^[\w-]+\]:[ \t]*",
    re.M,
)
# HTML in Markdown, which viewers do not show; `<option>` and `<source>` are more often names.
_INLINE_HTML: Final = re.compile(
    r"(`+[^`\n]+`+)|<sup>(?P<raised>[-+\u2212]?\d{1,9})</sup>"
    r"|</?(?P<tag>a|abbr|b|big|blockquote|br|center|cite|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|i|"
    r"img|ins|kbd|li|mark|ol|p|picture|pre|samp|small|span|strong|sub|summary|sup|table|tbody|td|th|"
    r"thead|tr|tt|u|ul)(?:\s[^<>\n]*)?/?>",
    re.IGNORECASE,
)
_BREAKING_TAGS: Final = frozenset(("br", "dd", "dt", "hr", "li", "p", "td", "th", "tr"))
_NESTED_LINKS: Final = 2  # links of a badge: `[![Built](a.svg)](b)`
# Keys with values, and what is indented below: no text between two rules.
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?=(?:[ \t]*(?:#.*)?\n)*[\w\"'])"
    r"(?:(?!---[ \t]*\n)(?:[ \t#}\])-].*|[\w\"'][\w\"' -]*+:.*|)\n)*+"
    r"(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)
_FRONT_TITLE = re.compile(r"^title:[ \t]*(.+)$", re.MULTILINE)
_MARKUP = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|[*`]+|<[^>]{1,200}>")
_UNDERLINED_TITLE = re.compile(
    r"^(?P<over>(?P<mark>[!-/:-@\[-`{-~])(?P=mark){2,}[ \t]*\n)?"
    r"[ \t]*(?P<title>\S[^\n]*)\n(?P<under>([!-/:-@\[-`{-~])\5{2,})[ \t]*$",
    re.MULTILINE,
)
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*")
_PYTHON_DEFINITION = re.compile(
    r"^(?:@[^\n]*\n){0,20}(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)", re.MULTILINE
)


def kind_of(name: str) -> str | None:
    """Return a file's kind by its name, such as `manual.html.in.gz`; None if it is not read."""
    if name.lower().endswith(PACKED_SUFFIX):
        name = name[: -len(PACKED_SUFFIX)]
    suffixes = PurePosixPath(name).suffixes[-2:]
    if suffixes and _TEMPLATE_SUFFIX.fullmatch(suffixes[-1]) and suffixes[0].lower() in by_suffix():
        suffixes = suffixes[:1]
    if not suffixes or (suffixes[-1][1:].isdecimal() and len(suffixes[-1]) > 2):  # app.log.12
        return "text"
    if _MANUAL_SUFFIX.fullmatch(suffixes[-1]):
        return "manual"
    stem = name.partition(".")[0]  # README.source and COPYING.LIB are texts
    is_titled = stem.isalpha() and stem.isupper() and guess_type(name)[0] is None
    return by_suffix().get(suffixes[-1].lower(), "text" if is_titled else None)


def read_document(kind: str, name: str, data: bytes, url: str) -> Document | None:
    """Read a file of a kind of `kind_of`; None if it is binary or minified; parsers may raise."""
    if kind == "text" and _MAILBOX.match(data):  # such as Thunderbird's `Inbox`
        kind = "mail"
    if name.lower().endswith(".xml") and _PAPER.search(data[:4000]):
        kind = "paper"
    if has_parser(kind) and kind != "manual":
        document = process.ProcessReading(kind, data).read()
        return with_attached(document) if document.attached else document
    if is_binary(data):
        return None
    if name.endswith(_MINIFIED_SUFFIXES) and len(data) > _LONG_LINE_BYTES * (data.count(b"\n") + 1):
        return None
    if kind == "html":
        page = read_html(data, None, url, is_local=True)
        return page._replace(text=whole_words(page.text))
    declarations = () if _is_utf_8(data) else (declared_encoding(data[:1024], _DECLARED_ENCODING),)
    text = plain_text(decode_text(data, *declarations))
    if kind == "notebook":
        return _notebook_document(text)
    if name.lower().endswith((".json", ".jsonl", ".properties")):
        text = _ESCAPED_LETTERS.sub(_unescaped_letters, text)
    if kind == "manual" and is_manual(text):
        return process.ProcessReading(kind, text.encode()).read()
    if kind == "markdown":
        return _markdown_document(_without_links(text))
    if kind == "rest":
        return _plain_document(text)
    if kind == "table":
        # Of a quote that is never closed the rest of the file would be one value.
        with suppress(csv.Error):
            return table_document(text, "\t" if name.lower().endswith(".tsv") else None)
    if kind == "text":
        return Document("", whole_words(text), [])
    if kind == "python":
        return Document("", text, [Section(0, "L1"), *_definitions(text)])
    return Document("", text, sections_by_lines(text))


def with_attached(document: Document) -> Document:
    """Return a mail with the text of the attached files that can be read; the others are named."""
    text, sections, not_read = document.text, [*document.sections], []
    for name, data in document.attached:
        file, kind = None, kind_of(name)
        with suppress(MoothallError):
            file = read_document(kind, name, data, "") if kind and len(text) < _MAIL_CHARS else None
        if file is None:
            not_read.append(name)
            continue
        text += "\n\n"
        for each in file.sections or [Section(0, "")]:
            anchor = f"attachment={quote(name)}&{each.anchor}".rstrip("&")
            title = " – ".join(filter(None, (name, file.title, each.title)))
            sections.append(Section(len(text) + each.start, anchor, title))
        text += file.text
    missing = [document.missing] if document.missing else []
    if not_read:
        names = ", ".join(not_read[:10]) + ", …" * (len(not_read) > 10)
        missing.append(f"{counted(len(not_read), 'attachment')} not read: {names}")
    return document._replace(text=text, sections=sections, missing="; ".join(missing), attached=())


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unescaped_letters(match: re.Match[str]) -> str:
    """Return letters that are written as escapes, beyond ASCII; others as they are."""
    units = b"".join(int(each, 16).to_bytes(2, "big") for each in match[2].split("\\u")[1:])
    text = units.decode("utf-16-be", "replace")
    return match[0] if text.isascii() else match[1] + plain_text(text)


def _notebook_document(text: str) -> Document:
    """Return a notebook as Markdown: its texts, its code, and what that printed."""
    try:
        notebook = json.loads(text)
        # Those of the third format have worksheets.
        worksheets = (notebook,) if "cells" in notebook else notebook["worksheets"]
        cells: list[Any] = [cell for sheet in worksheets for cell in sheet["cells"]]
        language = str(
            notebook.get("metadata", {}).get("language_info", {}).get("name") or "python"
        )
        cut_outputs = list[str]()
        parts = [each for cell in cells for each in _cell_texts(cell, language, cut_outputs)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableDocument(f"the notebook is damaged: {error_text(error)}") from error
    missing = f"{counted(len(cut_outputs), 'output')} beyond the first {_OUTPUT_CHARS:,} characters"
    document = _markdown_document("\n\n".join(filter(None, parts)) + "\n")
    return document._replace(missing=missing * bool(cut_outputs))


def _cell_texts(cell: dict[str, Any], language: str, cut_outputs: list[str]) -> Iterator[str]:
    """Yield what a cell says, as Markdown; what is cut off of its outputs goes to `cut_outputs`."""
    source = plain_text(_joined_lines(cell.get("source") or cell.get("input"))).strip("\n")
    if cell.get("cell_type") != "code":
        yield _without_links(source) if cell.get("cell_type") == "markdown" else source
        return
    if source:
        yield _in_fence(source, re.sub(r"\W", "", language))
    for output in cell.get("outputs") or ():
        data = output.get("data") or {}
        printout = output.get("text") or data.get("text/plain") or output.get("evalue")
        if not printout and (page := _joined_lines(data.get("text/html"))):
            printout = read_html(
                page.encode(errors="replace"), "utf-8", "output", is_local=True
            ).text
        if output_text := plain_text(_joined_lines(printout)).strip("\n"):
            cut_outputs += [output_text[_OUTPUT_CHARS:]] * (len(output_text) > _OUTPUT_CHARS)
            yield _in_fence(output_text[:_OUTPUT_CHARS], "")


def _joined_lines(source: Any) -> str:
    return source if isinstance(source, str) else "".join(map(str, source or ()))


def _in_fence(text: str, language: str) -> str:
    return f"```{language}\n{text.replace('```', '~~~')}\n```"


class _DocumentHeading(NamedTuple):
    start: int
    level: int
    title: str


def _document_by_headings(
    text: str, headings: Iterable[_DocumentHeading], anchors: Iterator[str]
) -> Document:
    """Return a document with a section for each heading; its title is the first heading."""
    title = ""
    parents: list[_DocumentHeading] = []
    sections: list[Section] = []
    for heading, anchor in zip(headings, anchors, strict=False):
        if not sections:
            title = heading.title
        while parents and parents[-1].level >= heading.level:
            parents.pop()
        parents.append(heading)
        path = " – ".join(each.title for each in parents if each.title != title)
        sections.append(Section(heading.start, anchor, path))
    return Document(title, text, sections)


def _without_links(text: str) -> str:
    """Return Markdown with its links as texts, without what viewers hide; code as written."""
    pieces, at = [], 0
    for fence in _FENCED_CODE.finditer(text):
        pieces += [_readable_markdown(text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join((*pieces, _readable_markdown(text[at:])))


def _readable_markdown(text: str) -> str:
    """Return Markdown between code as read: links as texts, no comments or footnote marks."""
    lines = _UNSEEN_MARKUP.sub(_code_alone, text).splitlines(keepends=True)
    text = "".join(
        _INLINE_HTML.sub(_visible_text, e) if "<" in e and not e.startswith(("    ", "\t")) else e
        for e in lines
    )
    # No link goes over an empty line, and to look for one at each character takes long.
    return "\n\n".join(_linked_texts(each) if "[" in each else each for each in text.split("\n\n"))


def _code_alone(match: re.Match[str]) -> str:
    return match[0] if match["code"] else ""


def _linked_texts(text: str) -> str:
    for _ in range(_NESTED_LINKS):
        text = _LINK.sub(r"\1\2", text)
    return text


def _visible_text(match: re.Match[str]) -> str:
    """Return what is seen of an element of HTML in Markdown; code spans as written."""
    if match["raised"]:
        return f"^{match['raised']}"
    return match[1] or (" " if match["tag"].lower() in _BREAKING_TAGS else "")


def _markdown_document(text: str) -> Document:
    front = _FRONT_MATTER.match(text, 0, 20_000)
    front_title = _FRONT_TITLE.search(text, 0, front.end()) if front else None
    text = text[front.end() :] if front else text
    headings, fence = [], ""
    for match in _MARKDOWN_HEADING.finditer(text):
        mark = match["fence"]
        if mark and (not fence or mark.startswith(fence)):
            fence = "" if fence else mark
        elif not fence and not mark:
            title = match["title"] or match["above"] or ""
            title = _MARKUP.sub(r"\1", title.strip()[:_TITLE_CHARS].rstrip("#").strip())
            level = len(match["level"] or "") or (1 if match["below"][0] == "=" else 2)
            headings.append(_DocumentHeading(match.start(), level, title))
    document = _document_by_headings(text, headings, _github_anchors(headings))
    first = next((each.title for each in headings if each.level == 1), document.title)
    if first.lower() in ("contents", "table of contents"):
        first = ""
    return document._replace(title=front_title[1].strip("\"' ") if front_title else first)


def _github_anchors(headings: list[_DocumentHeading]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for heading in headings:
        anchor = re.sub(r"[^\w\- ]", "", heading.title.lower()).replace(" ", "-")
        counts[anchor] += 1
        yield anchor if counts[anchor] == 1 else f"{anchor}-{counts[anchor] - 1}"


def _plain_document(text: str) -> Document:
    headings: list[_DocumentHeading] = []
    styles: list[tuple[str, bool]] = []
    for match in _UNDERLINED_TITLE.finditer(text):
        title, underline = match["title"].strip()[:_TITLE_CHARS], match["under"]
        if len(underline) < min(len(title), 4) or _ADORNMENT.fullmatch(match["title"]):
            continue
        style = (underline[0], match["over"] is not None)
        if style not in styles:
            styles.append(style)
        headings.append(_DocumentHeading(match.start(), styles.index(style), title))
    anchors = (re.sub(r"[^a-z0-9]+", "-", each.title.lower()).strip("-") for each in headings)
    return _document_by_headings(text, headings, anchors)


def _definitions(text: str) -> Iterator[Section]:
    """Yield a section for each function and class of a program in Python, from its line."""
    line, at = 1, 0
    for match in _PYTHON_DEFINITION.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        yield Section(at, f"L{line}", match[1])
