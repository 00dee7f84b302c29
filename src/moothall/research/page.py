"""A report as one self-contained HTML page: no script, no request."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any, Final

from moothall.build import SafeHTML, Words, one_line
from moothall.research.citations.exact_support import MARKED_SENTENCE
from moothall.research.reading.encodings import CONTROL
from moothall.research.reading.own_reports import GENERATOR
from moothall.research.sentences import NOTE
from moothall.research.writing.report_frame import phrase

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

    from moothall.research.findings import Citation, Passage

_STYLE: Final = """
:root { color-scheme: light dark; --ink: light-dark(#1d1d1f, #e6e6ea);
  --paper: light-dark(#fff, #17181b); --soft: light-dark(#5c5c66, #a2a2ad);
  --line: light-dark(#d8d8de, #3a3b42); --link: light-dark(#0b57a4, #8ab8f5);
  --mark: light-dark(#fff3c4, #453a12) }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 44rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: anywhere }
h1, h2, h3 { line-height: 1.25; margin: 2rem 0 .6rem }
h1 { font-size: 1.6rem; margin-top: 0 } h2 { font-size: 1.25rem } h3 { font-size: 1.05rem }
a { color: var(--link) } a.note { padding: 0 .2em; text-decoration: none; font-weight: 600 }
pre, table { overflow-x: auto; display: block } pre, code { font: .9em ui-monospace, monospace }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left }
.sources { padding: 0; list-style: none } .sources > li { margin: 1.2rem 0; padding: .2rem .6rem;
  border-left: 3px solid var(--line) } .sources > li:target { border-left-color: var(--link) }
.sources > li:target blockquote { color: var(--ink) }
.a-note:target { background: var(--mark) }
mark { background: var(--mark); color: inherit }
blockquote { margin: .4rem 0; padding: 0 0 0 .6rem; white-space: pre-wrap; color: var(--soft) }
.about, footer { color: var(--soft); font-size: .875rem } .about { margin: .3rem 0 }
footer { border-top: 1px solid var(--line); margin-top: 2.5rem }
@media print { body { max-width: none; padding: 0 } a { color: inherit } .back { display: none }
  .sources > li { break-inside: avoid } }
"""
_EXTERNAL_LINK: Final = 'rel="noopener noreferrer nofollow" target="_blank"'
LINKS: Final = ("https://", "http://")
"""How the address of a page of the web begins."""


def page(
    report: Any, *, files: bool = True, scheme: str | None = None, framed: bool = False
) -> str:
    """Return a `Report` as one HTML page; each footnote opens the stored passage further down.

    HTML and images of the report and its passages are shown as text, and only links to http and
    https are kept. A source links to a file too, unless `files` is false: a served page cannot
    open files. `scheme` is `light`, `dark` or None for that of the reader's system. `framed` is for
    a frame's `srcdoc`, in which a footnote's link would else lead to the page around it.
    """
    report.forms["html"].check_installed()
    body, foot, passages, heading = parts_of(report)
    use_counts = dict.fromkeys(sorted(passages), 0)
    markdown = _markdown_renderer(use_counts)
    content = markdown.render(body)
    linked_schemes = (*LINKS, "file:///") if files else LINKS
    sources = "".join(
        _source_html(n, passages[n], use_counts[n], linked_schemes, report.citations)
        for n in use_counts
    )
    if sources:
        sources = f'<h2>{heading}</h2>\n<ol class="sources">\n{sources}</ol>\n'
    title, topics = title_of(body), "\n".join(each.topic for each in report.objectives)
    language = Words(topics).language
    css = _STYLE.replace("light dark", scheme or "light dark")
    style = b64encode(sha256(css.encode()).digest()).decode()
    base, base_tag = ("", '<base href="about:srcdoc">\n') if framed else ("base-uri 'none'; ", "")
    document = (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; style-src 'sha256-{style}'; {base}form-action 'none'\">\n"
        f'{GENERATOR}\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"{base_tag}<title>{escape(title)}</title>\n<style>{css}</style>\n</head>\n<body>\n"
        f"<main>\n{content}{sources}</main>\n"
        f"<footer>\n{markdown.render(foot)}</footer>\n</body>\n</html>\n"
    )
    return sanitized(document)


def parts_of(report: Any) -> tuple[str, str, dict[int, Passage], str]:
    """Return a report's text, its foot, its cited passages, and the heading of its sources."""
    passages = {each.number: each.passage for each in reversed(report.citations)}
    body, line, foot = report.markdown.rpartition("\n\n---\n\n")
    if not line:
        body, foot = foot, ""
    heading = phrase("sources", " ".join(each.topic for each in report.objectives))
    if passages:  # what is made of it lists its own below, with the passages
        body = body.rpartition(f"\n\n## {heading}\n\n")[0] or body
    return body, foot, passages, heading


def title_of(body: str) -> str:
    """Return the title of a report, from its Markdown."""
    return re.sub(r"\\(.)", r"\1", body.strip().partition("\n")[0].lstrip("# "))


def sanitized(text: str) -> str:
    """Replace by U+FFFD the characters that no page may hold and that a terminal might obey."""
    return CONTROL.sub("\ufffd", text)


def _markdown_renderer(use_counts: dict[int, int]) -> MarkdownIt:
    """Return a renderer of Markdown as HTML; it counts each footnote's uses in `use_counts`."""

    def note(state: StateInline, silent: bool) -> bool:
        match = NOTE.match(state.src, state.pos)
        if match is None or int(match[1]) not in use_counts:
            return False
        if not silent:
            token = state.push("note", "", 0)
            token.meta["number"] = int(match[1])
        state.pos = match.end()
        return True

    def note_html(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
        number = tokens[at].meta["number"]
        use_counts[number] += 1
        return (
            f'<sup class="a-note" id="note-{number}-{use_counts[number]}">'
            f'<a class="note" href="#passage-{number}">{number}</a></sup>'
        )

    def link_open_html(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
        return f'<a href="{escape(tokens[at].attrs["href"])}" {_EXTERNAL_LINK}>'

    def link_close_html(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
        open_at = max(place for place in range(at) if tokens[place].type == "link_open")
        url = tokens[open_at].attrs["href"]
        link_text = "".join(each.content for each in tokens[open_at + 1 : at])
        return "</a>" if link_text == url else f'</a> <span class="about">({escape(url)})</span>'

    renderer = SafeHTML.markdown_parser()
    renderer.inline.ruler.before("link", "note", note)
    renderer.add_render_rule("note", note_html)
    renderer.add_render_rule("link_open", link_open_html)
    renderer.add_render_rule("link_close", link_close_html)
    return renderer


def _source_html(
    number: int,
    passage: Passage,
    use_count: int,
    linked_schemes: tuple[str, ...],
    citations: list[Citation],
) -> str:
    name, url = escape(passage.title or passage.url), escape(passage.url)
    if passage.url.lower().startswith(linked_schemes):
        name = f'<a href="{url}" {_EXTERNAL_LINK}>{name}</a>'
    link = f"<br>{url}" if passage.title else ""
    back_links = " ".join(
        f'<a href="#note-{number}-{n}">↩&#xFE0E;{n}</a>' for n in range(1, use_count + 1)
    )
    read_text = f"read {escape(passage.fetched_at[:10]) or 'on no known day'}"
    digest = escape(passage.sha256)
    own_citations = [
        each for each in citations if each.number == number and each.support is not None
    ]
    supports = "".join(map(_support_html, own_citations))
    return (
        f'<li id="passage-{number}"><p class="about"><b>{number}</b> <bdi>{name}</bdi>{link}</p>\n'
        f"<blockquote>{_marked_windows(passage.text, own_citations)}</blockquote>\n{supports}"
        f'<p class="about">{read_text}, sha256 <span title="{digest}">{digest[:12]}…</span>'
        f' <span class="back">{back_links}</span></p></li>\n'
    )


def _support_html(citation: Citation) -> str:
    """Return what was found of one sentence that cites a passage."""
    support = citation.support
    if support is None:
        return ""
    unread_text = "its numbers, dates and names stand here; read whether it means the same"
    reason_text = support.why or (unread_text if support.label == "not checked" else "")
    reason = f": {escape(reason_text)}" if reason_text else ""
    sentence = one_line(MARKED_SENTENCE.sub(r"\1", citation.sentence), 300)
    label = {"partly": "partly supported"}.get(support.label, support.label)
    method_words = {"exact": "word for word" if support.label == "supported" else "by exact checks"}
    judge = method_words.get(support.judge, f"by a model, {support.probability or 0:.2f}")
    return (
        f'<p class="about support"><b>{label}</b> ({judge}){reason}: {_in_quotes(sentence)}</p>\n'
    )


def _in_quotes(sentence: str) -> str:
    """Return a sentence in quotation marks, which one that quotes has already."""
    is_quoted = sentence.startswith("“") and sentence.endswith("”")
    return escape(sentence) if is_quoted else f"<q>{escape(sentence)}</q>"


def _marked_windows(text: str, citations: list[Citation]) -> str:
    """Return a passage as HTML, with the sentences that its citations rest on marked."""
    spans = []
    for window in {each.window for each in citations if each.window}:
        start = text.find(window)
        if start >= 0:
            spans.append((start, start + len(window)))
    pieces, at = [], 0
    for start, end in sorted(spans):
        if end > at:
            start = max(start, at)
            pieces.append(f"{escape(text[at:start])}<mark>{escape(text[start:end])}</mark>")
            at = end
    return "".join(pieces) + escape(text[at:])
