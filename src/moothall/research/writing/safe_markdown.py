"""Markdown of a model that any viewer may show: no image, no HTML, no link to what was not cited.

What a hostile page makes a model write must neither load anything, nor lead anywhere, nor look
like something else. No parser is asked, as each viewer has its own: what could begin an image, a
link or HTML is broken wherever it stands, but in fenced code, and what is kept is written anew.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from moothall.research.reading.encodings import plain_text
from moothall.research.resource_pool import normalized_url

_CHARACTER_REFERENCE: Final = re.compile(r"&(?:#[xX]?[0-9a-fA-F]{1,8}|[A-Za-z]{2,30});?")
FENCE: Final = re.compile(r"(`{3,}|~{3,})([^\n`]*)")
# Viewers draw these, with links and pictures in them.
_DRAWN_LANGUAGES: Final = frozenset(
    ("mermaid", "geojson", "topojson", "stl", "html", "svg", "math", "plantuml", "dot", "graphviz")
)
_SCRIPT: Final = re.compile(
    r"<(script|style|iframe|object|svg|math|noscript|template)\b[^>]{0,1000}>.{0,2000}?</\1\s*>",
    re.DOTALL | re.IGNORECASE,
)
_COMMENT: Final = re.compile(
    r"<!--.{0,500}?-->|<\?.{0,500}?\?>|<!\[CDATA\[.{0,500}?\]\]>", re.DOTALL
)
# Of 10^6.
_RAISED_TEXT: Final = re.compile(r"<sup>\s*([-+\u2212]?\d{1,9}|[a-z])\s*</sup>", re.IGNORECASE)
_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ELEMENTS: Final = (
    "a|abbr|address|area|article|aside|audio|b|base|bdi|bdo|big|blockquote|body|br|button|canvas|"
    "caption|center|cite|code|col|colgroup|dd|del|details|dfn|dialog|div|dl|dt|em|embed|fieldset|"
    "figcaption|figure|font|footer|form|frame|frameset|h[1-6]|head|header|hr|html|i|iframe|img|"
    "input|ins|kbd|label|legend|li|link|main|map|mark|marquee|math|meta|meter|nav|noscript|object|"
    "ol|optgroup|option|output|p|param|picture|pre|progress|q|rp|rt|ruby|s|samp|script|section|"
    "select|small|source|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|template|"
    "textarea|tfoot|th|thead|time|title|tr|track|tt|u|ul|var|video|wbr"
)
_TAG: Final = re.compile(
    rf"</?(?:{_ELEMENTS})(?:[\s/]*|[\s/][^<>=]{{0,1000}}=[^<>]*)>|<!doctype[^<>]*>", re.IGNORECASE
)
_SURE_TAG: Final = re.compile(
    rf"</(?:{_ELEMENTS})\s*>|<(?:{_ELEMENTS})\s[^<>=]{{0,1000}}=", re.IGNORECASE
)
_TAG_OPENING: Final = re.compile(r"<(?=[A-Za-z/!?])")
_ESCAPE: Final = r"\\[!-/:-@\[-`{-~]"
_CODE: Final = r"(?<!`)(?P<tick>`+)(?!`)(?P<content>[^\n]{1,400}?)(?<!`)(?P=tick)(?!`)"
_URL: Final = r"(?:https?|ftp|file)://[^\s<>\"`|\\^{}\[\]]+"
_PIECE: Final = re.compile(
    rf"""(?P<escape>{_ESCAPE})
    |(?P<code>{_CODE})
    |(?P<note>!?\[\^\d{{1,4}}\^\](?!\())
    |(?P<image>!)?\[(?P<text>[^\[\]\n]*(?:\[[^\[\]\n]*\][^\[\]\n]*)*)\]
      \(\s*(?:<(?P<angled>[^<>\n]*)>|(?P<to>[^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*))
      (?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\)
    |<(?P<auto>[A-Za-z][A-Za-z0-9+.-]{{1,31}}:[^\s<>]*|[^\s<>@]+@[^\s<>@]+)>
    |(?P<bare>{_URL}|\bwww\.[^\s<>\"`|\\\[\]]+)""",
    re.VERBOSE | re.IGNORECASE,
)
_CODE_SPAN: Final = re.compile(rf"{_ESCAPE}|{_CODE}|<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*>")
_SENTENCE_ENDS: Final = ".,;:!?*_~'\"”’»)"  # ends a sentence rather than an address
_LINK_DEFINITION: Final = re.compile(r"^([\s>*+\-\d.)]*\[[^\]]*|[^\[\n]*)\]:", re.MULTILINE)


def visible_text(text: str) -> str:
    """Return a text without characters that are not seen, or turn its direction."""

    def keep_visible(reference: re.Match[str]) -> str:
        character = html.unescape(reference[0])
        return reference[0] if plain_text(character) == character else ""

    return plain_text(_CHARACTER_REFERENCE.sub(keep_visible, text))


def has_html(text: str) -> bool:
    """Return whether a text has HTML; `<PORT>` is not HTML, nor is code: `<div>`."""
    bare = re.sub(_CODE, "", text)
    return bool(_SURE_TAG.search(bare) or "<!" in bare or "<?" in bare)


def safe_markdown(markdown: str, cited: Iterable[str] = (), *, shows_hosts: bool = True) -> str:
    """Return Markdown whose only links are `cited`; with `shows_hosts`, followed by their host."""
    addresses = frozenset(map(normalized_url, cited))
    lines: list[str] = []
    text: list[str] = []
    fence = ""
    for line in visible_text(markdown).split("\n"):
        # One that is indented, or in a list, may end where ours does not.
        match = FENCE.match(line)
        if fence:
            lines.append(line)
            if re.fullmatch(rf" {{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*", line):
                fence = ""
        elif match and (match[1][0] == "~" or "`" not in line[len(match[1]) :]):
            lines += [_safe_text("\n".join(text), addresses, shows_hosts)] if text else []
            fence, text = match[1], []
            language = match[2].strip().lower()
            has_language = (
                re.fullmatch(r"[a-z0-9+#.-]{1,20}", language) and language not in _DRAWN_LANGUAGES
            )
            lines.append(match[1] + (language if has_language else ""))
        else:
            text.append(line)
    lines += [_safe_text("\n".join(text), addresses, shows_hosts)] if text else []
    lines += [fence] if fence else []  # what follows the text is no code
    return "\n".join(lines)


def _safe_text(text: str, addresses: frozenset[str], shows_hosts: bool) -> str:
    kept_pieces: list[str] = []  # what is written anew, in place of which a mark stands meanwhile

    def keep(piece_text: str) -> str:
        kept_pieces.append(piece_text)
        return f"\0{len(kept_pieces) - 1}\0"

    def rewrite(match: re.Match[str]) -> str:
        if match["escape"] or match["note"]:
            return keep(match[0])
        if match["code"]:
            # A viewer may see other spans than these: nothing in them may be alive outside.
            return keep(match["tick"] + _inert_code(match["content"]) + match["tick"])
        if match["auto"]:
            return keep(_safe_address(match["auto"], addresses, angled=True))
        if match["bare"]:
            url = match["bare"].rstrip(_SENTENCE_ENDS)
            if url.count("(") > url.count(")") and match["bare"][len(url) :].startswith(")"):
                url += ")"
            return keep(_safe_address(url, addresses)) + match["bare"][len(url) :]
        link_text = _PIECE.sub(rewrite, match["text"])
        url = match["angled"] if match["angled"] is not None else match["to"]
        if match["image"] or not _is_cited(url, addresses):
            return link_text
        host = urlsplit(url).netloc or urlsplit(url).path.rpartition("/")[2]
        to = f"]({url.replace('(', '%28').replace(')', '%29')})"
        is_shown = (
            not shows_hosts or host in link_text or text.startswith(f" ({host})", match.end())
        )
        return keep("[") + link_text + keep(to if is_shown else f"{to} ({host})")

    text = _without_tags(text.replace("\0", ""))
    text = _PIECE.sub(rewrite, text)
    text = _TAG_OPENING.sub(r"\\<", text)
    text = text.replace("](", "] (").replace("][", "] [").replace("![", r"!\[")
    text = _LINK_DEFINITION.sub(r"\1]\\:", text)
    while "\0" in text:  # a link's text may hold what was kept
        text = re.sub("\0(\\d+)\0", lambda mark: kept_pieces[int(mark[1])], text)
    return text


def _without_tags(text: str) -> str:
    """Return a text without HTML; what stands in code spans is left for them."""
    while True:
        pieces, at = [], 0
        for span in _CODE_SPAN.finditer(text):
            pieces += [_without_markup(text[at : span.start()]), span[0]]
            at = span.end()
        pieces.append(_without_markup(text[at:]))
        shorter = "".join(pieces)
        if shorter == text:
            return text
        text = shorter


def _without_markup(text: str) -> str:
    text = _COMMENT.sub("", _SCRIPT.sub("", text))
    return _TAG.sub("", _BREAK.sub(" ", _RAISED_TEXT.sub(r"^\1", text)))


def _inert_code(code: str) -> str:
    code = _TAG_OPENING.sub("< ", code)
    return code.replace("](", "] (").replace("][", "] [").replace("![", "! [").replace("]:", "] :")


def _is_cited(url: str, addresses: frozenset[str]) -> bool:
    is_plain = re.match(r"(?:https?|file)://", url, re.IGNORECASE) and url.isprintable()
    return bool(is_plain) and normalized_url(url) in addresses


def _safe_address(url: str, addresses: frozenset[str], *, angled: bool = False) -> str:
    """Return an address in a text: a link if it is cited, else as code, which is no link."""
    if _is_cited(url, addresses):
        return f"<{url}>" if angled else url
    return f"`{url}`" if "`" not in url else url.replace(":", r"\:")
