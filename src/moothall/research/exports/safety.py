"""Make the Markdown of a report safe to open anywhere: no image, no raw HTML, no foreign link."""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from moothall.research.pool import normalized
from moothall.research.reading.html import CONTROL

_SUSPECT = re.compile(r"[<\]]|&[#\w]+;|https?:", re.IGNORECASE)
_PART = re.compile(
    r"(?P<code>^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\2[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(`+)(?!`)(?:[^`]|(?!\3(?!`))`+)*?\3(?!`))"
    r"|(?P<image>!\[(?P<alt>[^\[\]]*)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])?)"
    r"|(?P<link>(?<!\\)\[(?P<text>(?!\^)[^\[\]]*)\]"
    r"\([ \t\n]*<?(?P<url>[^()<>\s]*(?:\([^()<>\s]*\)[^()<>\s]*)*)>?[^()]*\))"
    r"|(?P<auto><(?P<to>[A-Za-z][\w+.-]{1,31}:[^\s<>]*|[\w.+-]+@[\w.-]+)>)"
    r"|(?P<definition>^ {0,3}\[[^\]\n]+\]:)"
    r"|(?P<html><(?=[A-Za-z/!?]))",
    re.MULTILINE | re.DOTALL,
)

_BRACKET = re.compile(r"\[(?!\^\d+\^\](?!:))")


def safe(markdown: str, urls: Collection[str]) -> str:
    """Return Markdown without images, raw HTML, definitions of links, and links but to `urls`.

    An image becomes its text, another link its text; a link to a source is shown with its host.
    """
    text = CONTROL.sub("\ufffd", markdown)
    if not _SUSPECT.search(text):
        return text
    allowed = {normalized(each) for each in urls}
    changed = _PART.sub(lambda found: _changed(found, allowed), text)
    if find_spec("markdown_it") is not None and _is_safe(changed, allowed):
        return changed
    # Whatever this is: without these characters it has no HTML, image or link.
    return _BRACKET.sub("&#91;", text.replace("<", "&lt;"))


def _changed(found: re.Match[str], allowed: Collection[str]) -> str:
    if found["code"] is not None:
        return found[0]
    if found["image"] is not None:
        return f"{found['alt']}"
    if found["link"] is not None:
        return _link(found["text"], found["url"], allowed)
    if found["auto"] is not None:
        return found[0] if normalized(found["to"]) in allowed else f"`{found['to']}`"
    return f"\\{found[0].lstrip(' ')}"


def _link(text: str, url: str, allowed: Collection[str]) -> str:
    if normalized(url) not in allowed:
        return text
    host = urlsplit(url).hostname or ""
    return f"[{text}](<{url}>)" + ("" if host in text else f" ({host})")


def _is_safe(markdown: str, allowed: Collection[str]) -> bool:
    """Return whether a parser of Markdown finds no image, raw HTML or foreign link."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    env: dict[str, Any] = {}
    for block in parser.parse(markdown, env):
        for token in (block, *(block.children or ())):
            if token.type in ("html_block", "html_inline", "image"):
                return False
            if token.type == "link_open" and normalized(str(token.attrs["href"])) not in allowed:
                return False
    return not env.get("references")
