"""A report as a page: what it shows, where its links lead, and that it obeys nothing it shows."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pytest

from moothall.foundation.errors import MissingExtra
from moothall.research import Citation, Passage, Report, support
from moothall.research.page import page as page_of

DAY = "2026-11-21T14:28:28+00:00"
ALPHA = Passage.of("https://example.org/alpha#port", "It uses port 4711.\n  Always.", DAY, "Alpha")
HOSTILE = "<script>alert(1)</script>\"' onload=x <img src=x>\x00\x1b\u202e\ud800"


def report(narrative: str, *passages: Passage, foot: str = "The foot.") -> Report:
    """A report as research makes it, which cites each passage once."""
    cited = [Citation(n, f"sentence {n}", each) for n, each in enumerate(passages, 1)]
    lines = "\n".join(f"[^{each.number}^]: a source, read on a day  " for each in cited)
    sources = f"\n\n## Sources\n\n{lines}" if cited else ""
    return Report(f"# A title\n\n{narrative}{sources}\n\n---\n\n{foot}\n", cited, "done")


class _Page(HTMLParser):
    """What a browser would find."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def links(self) -> list[str]:
        return [attrs["href"] or "" for tag, attrs in self.elements if "href" in attrs]

    @property
    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.elements if "id" in attrs]


def test_report_page_footnote_opens_the_stored_passage_which_leads_back() -> None:
    page = _Page(report("It uses port 4711. [^1^] **Always** [^1^].", ALPHA).html())
    assert page.links == [
        "#passage-1",
        "#passage-1",
        "https://example.org/alpha#port",
        "#note-1-1",
        "#note-1-2",
    ]
    assert sorted(page.ids) == ["note-1-1", "note-1-2", "passage-1"]
    assert ALPHA.text in page.text
    assert "read 2026-11-21, sha256 " + ALPHA.sha256[:12] in page.text
    assert ("span", {"title": ALPHA.sha256}) in page.elements
    # The sources stand there once, with their text; the report's own list of them is left out.
    assert page.text.count("Sources") == 1
    assert "a source, read on a day" not in page.text
    assert page.text.rstrip().endswith("The foot.")


def test_markdown_is_shown_and_code_is_left_as_it_is() -> None:
    html = report("## Part\n\n- a *b* `[^1^]`\n\n| c | d |\n| - | - |\n| 1 | 2 |", ALPHA).html()
    assert "<h1>A title</h1>" in html
    assert "<li>a <em>b</em> <code>[^1^]</code></li>" in html
    assert "<td>1</td>" in html
    assert "<title>A title</title>" in html


def test_report_page_shows_a_footnote_without_a_source() -> None:
    page = _Page(report("Who knows? [^7^]").html())
    assert page.links == []
    assert "Who knows? [^7^]" in page.text
    assert "Only this." in _Page(Report("Only this.", [], "done").html()).text


@pytest.mark.parametrize(
    ("sentence", "shown"),
    (
        ("It uses 4711.", "<q>It uses 4711.</q>"),
        ("“It uses <4711>.”", "“It uses &lt;4711&gt;.”</p>"),
    ),
)
def test_report_page_shows_a_quoting_sentence_in_one_pair_of_quotation_marks(
    sentence: str, shown: str
) -> None:
    cited = Citation(1, sentence, ALPHA, support(sentence, ALPHA.text))
    html = Report("# A title\n\nIt does. [^1^]\n", [cited], "done").html()
    assert shown in html
    assert html.count("<q>") == (sentence[0] != "“")


def test_report_page_needs_nothing_else() -> None:
    page = _Page(report("![picture](https://example.org/a.png) x [^1^]", ALPHA).html())
    assert {tag for tag, _ in page.elements} & {
        "script",
        "img",
        "link",
        "iframe",
        "object",
    } == set()
    assert not any(
        {"src", "srcset", "style", "action"} & attrs.keys() for _, attrs in page.elements
    )
    policy = [attrs["content"] for _, attrs in page.elements if "http-equiv" in attrs]
    assert policy
    assert (policy[0] or "").startswith("default-src 'none'; style-src 'sha256-")


@pytest.mark.parametrize("place", ("narrative", "foot", "title", "url", "text", "read", "sha256"))
def test_report_page_escapes_what_it_shows(place: str) -> None:
    parts = {"title": "t", "url": "https://x/", "text": "t", "read": DAY, "sha256": "0" * 64}
    narrative = foot = "x"
    if place in parts:
        parts[place] = HOSTILE
    else:
        narrative, foot = (HOSTILE, foot) if place == "narrative" else (narrative, HOSTILE)
    passage = Passage(parts["url"], parts["text"], parts["read"], parts["sha256"], parts["title"])
    html = report(f"{narrative} [^1^]", passage, foot=foot).html()
    page = _Page(html)
    assert {tag for tag, _ in page.elements} & {"script", "img"} == set()
    assert not any("onload" in attrs for _, attrs in page.elements)
    assert re.search(r"[\x00\x1b\u202e\ud800]", html) is None
    assert html.encode().decode() == html


@pytest.mark.parametrize(
    "url",
    (
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "action:count?of=1",
        "http:alert(1)",
        "//example.org/a",
    ),
)
def test_links_are_only_to_pages_and_files(url: str) -> None:
    passage = Passage.of(url, "Text.", DAY, "Title")
    narrative = f"x [^1^] [a]({url}) [b](<{url}>) <{url}>\n\n[^1^]: {url}\n[c]: {url}\n\n[c]"
    page = _Page(report(narrative, passage).html())
    assert [each for each in page.links if not each.startswith("#")] == []
    assert "Title" in page.text


def test_report_page_links_a_file_as_a_source_but_not_in_the_text() -> None:
    passage = Passage.of("file:///docs/a.md#page=3", "Text.", DAY, "A – page 3")
    page = _Page(report("x [^1^] [a](file:///etc/passwd)", passage).html())
    assert [each for each in page.links if not each.startswith("#")] == [passage.url]


def test_report_page_that_is_served_names_files_but_links_none() -> None:
    passage = Passage.of("file:///docs/a.md#page=3", "Text.", DAY, "A – page 3")
    shown = _Page(page_of(report("x [^1^]", passage, ALPHA), files=False))
    assert [each for each in shown.links if not each.startswith("#")] == [ALPHA.url]
    assert passage.url in shown.text


def test_report_page_is_light_or_dark_as_it_is_served() -> None:
    light, dark = (page_of(report("x"), scheme=each) for each in ("light", "dark"))
    assert "color-scheme: light;" in light
    assert "color-scheme: dark;" in dark
    assert "prefers-color-scheme" not in light + dark


def test_report_page_link_opens_elsewhere_and_shows_where_it_leads() -> None:
    url = "https://example.org/?a=1&b=2"
    shown = _Page(report(f"See [your bank]({url}) or <{url}>.").html())
    assert f"See your bank ({url}) or {url}." in shown.text
    links = [attrs for tag, attrs in shown.elements if tag == "a"]
    assert [each["href"] for each in links] == [url, url]
    assert all(each["target"] == "_blank" and "noopener" in str(each["rel"]) for each in links)


def test_report_page_without_markdown_names_the_missing_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(MissingExtra, match=r"moothall\[research\]"):
        report("x").html()


def test_page_quotes_the_answer_that_stands_in_bold_without_its_stars() -> None:
    said = "It uses port 4711."
    passage = Passage.of("https://a.test/", said, "2026-11-21T14:28:28+00:00")
    cited = [Citation(1, f"**{said}**", passage, support(said, said))]
    page = Report(f"# Ports\n\n**{said}**[^1^]\n", cited, "done").html()

    assert f"<q>{said}</q>" in page
    assert "**" not in page.partition("<body")[2].partition("<script")[0]
