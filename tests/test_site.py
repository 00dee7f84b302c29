"""The site of the documentation: built strictly, asks no other host, has each public name."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import moothall

ROOT = Path(__file__).resolve().parent.parent
# What a browser fetches by itself when it shows a page, as against what a reader may click on.
FETCHED = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}


class Fetched(HTMLParser):
    """The addresses that a page fetches, and the ids of its parts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if tag in FETCHED and name in {"src", "href", "data", "srcset"} and value:
                self.addresses.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.xdist_group("site")]


def test_site_pages_ask_no_other_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        away = [a for a in Fetched(page.read_text()).addresses if re.match(r"(\w+:)?//", a)]
        assert away == [], page
    for style in site.rglob("*.css"):
        text = style.read_text()
        assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:\w+:)?//[^)]*", text) == [], style


def test_site_reference_has_every_public_name(site: Path) -> None:
    ids = set().union(*(Fetched(p.read_text()).ids for p in (site / "reference").glob("*.html")))
    missing = []
    for name in set(moothall.__all__) - {"__version__"}:
        thing = getattr(moothall, name)
        found = {name.lower()}  # a value has a heading
        if inspect.isclass(thing) or inspect.isroutine(thing):
            full = re.compile(rf"moothall\.(\w+\.)+{thing.__qualname__}")
            found = {each for each in ids if full.fullmatch(each)}
        missing += [name] if ids.isdisjoint(found) else []
    assert missing == []


def test_site_reference_says_of_a_value_what_it_is_and_no_address_in_memory(site: Path) -> None:
    pages = {page.stem: page.read_text() for page in (site / "reference").glob("*.html")}
    assert [name for name, text in pages.items() if " at 0x" in text] == []
    assert "The message being handled, in the task or thread" in pages["moothall-build"]
    assert "All that <code>fetch</code> knows by name" in pages["moothall-models"]


def test_llms_txt_lists_every_page_of_the_table_of_contents(site: Path) -> None:
    text = (site / "llms.txt").read_text()
    assert text.startswith("# moothall\n\n> ")
    listed = re.findall(r"^- \[.+\]\((.+)\)$", text, re.MULTILINE)
    assert {"agents.html", "howto/errors.html", "reference/index.html"} <= set(listed)
    assert [each for each in listed if not (site / each).is_file()] == []


def test_site_search_knows_the_pages(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    for words in ("In doubt", "ReActAgent", "Come from another framework"):
        assert words in index
