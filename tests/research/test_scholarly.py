"""Searching arXiv and Crossref: what their answers become, and what is asked."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from models.openai_server import Answer, Request, http
from moothall.foundation.errors import ConfigError, DefinitionError, SearchError
from moothall.research import (
    Publication,
    Researcher,
    Resource,
    search_arxiv,
    search_crossref,
)
from moothall.research.resource_pool import passages_of
from moothall.testing.model_suite import run
from research.web_server import Web

_ARXIV = 'xmlns:arxiv="http://arxiv.org/schemas/atom"'
FEED = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <link href="http://arxiv.org/api/query?search_query%3Dall%3Awaves" rel="self"/>
  <title type="html">ArXiv Query: search_query=all:waves</title>
  <id>http://arxiv.org/api/cHxbiOdZaP56ODnBPIenZhzg5f8</id>
  <total xmlns="http://a9.com/-/spec/opensearch/1.1/">1</total>
  ENTRIES
</feed>"""
ENTRY = f"""<entry>
    <id>http://arxiv.org/abs/hep-ex/0307015v1</id>
    <updated>2003-07-07T13:46:39-04:00</updated>
    <published>2003-07-07T13:46:39-04:00</published>
    <title>Multi-Electron Production at\n  High Transverse Momenta</title>
    <summary>  Multi-electron production is studied at high\n transverse momentum.\n</summary>
    <author><name>H1 Collaboration</name></author>
    <author><name>Ada Stone</name>
      <arxiv:affiliation {_ARXIV}>Somewhere</arxiv:affiliation></author>
    <arxiv:doi {_ARXIV}>10.1140/epjc/s2003-01326-x</arxiv:doi>
    <arxiv:journal_ref {_ARXIV}>Eur.Phys.J.C31:17-29,2003</arxiv:journal_ref>
    <link href="http://arxiv.org/abs/hep-ex/0307015v1" rel="alternate" type="text/html"/>
    <category term="hep-ex" scheme="http://arxiv.org/schemas/atom"/>
  </entry>"""
EVIL = """<entry><id>http://evil.example/abs/1</id><title>Evil</title></entry>"""
REFUSED = """<entry><id>http://arxiv.org/api/errors#incorrect_id_format</id><title>Error</title>
<summary>incorrect id format for 1</summary></entry>"""

WORKS = {
    "status": "ok",
    "message-type": "work-list",
    "message": {
        "total-results": 3,
        "items": [
            {
                "DOI": "10.1000/xyz123",
                "title": ["On <i>waves</i> &amp; tides of H<sub>2</sub>O below 10<sup>6</sup>"],
                "author": [
                    {
                        "given": "Ada",
                        "family": "O&apos;Stone",
                        "sequence": "first",
                        "affiliation": [],
                    },
                    {"name": "The Sea Group", "sequence": "additional"},
                ],
                "issued": {"date-parts": [[1998, 5]]},
                "container-title": ["Seas &amp; Today"],
                "abstract": "<jats:title>Abstract</jats:title><jats:p>Waves are high.</jats:p>",
                "URL": "http://evil.example/",
                "type": "journal-article",
            },
            {
                "DOI": "10.1000/none",
                "title": ["Without an abstract"],
                "issued": {"date-parts": [[None]]},
            },
            {"DOI": "not a DOI", "title": ["Wrong"]},
            {"DOI": "10.1000/untitled", "title": []},
            "junk",
        ],
    },
}


def feed(*entries: str) -> Answer:
    return http(FEED.replace("ENTRIES", "".join(entries)).encode())


def works(value: Any = WORKS) -> Answer:
    return http(json.dumps(value).encode())


def found(tool: Any, *answers: Any, query: str = "Why are waves high?", **more: Any) -> Any:
    """What a search finds, and what was asked for."""
    asked: list[dict[str, list[str]]] = []

    def answered(answer: Any) -> Any:
        def answer_to(request: Request) -> Answer:
            asked.append(parse_qs(urlsplit(request.path).query))
            return answer  # type: ignore[no-any-return]

        return answer_to

    with Web({}) as web:
        web.answers[:] = [answered(each) for each in answers]
        listed: list[Resource] = run(tool(url=f"{web.base}/api", **more).execute(query=query))
        return listed, asked


def test_arxiv_gives_abstracts_to_cite_and_pdfs_to_read() -> None:
    (abstract, pdf), asked = found(search_arxiv, feed(ENTRY, EVIL), results=5)
    assert asked == [
        {"search_query": ["all:waves AND all:high"], "max_results": ["5"], "sortBy": ["relevance"]}
    ]
    about = Publication(
        ("H1 Collaboration", "Ada Stone"),
        "2003-07-07",
        "10.1140/epjc/s2003-01326-x",
        "Eur.Phys.J.C31:17-29,2003",
    )
    assert (abstract.url, abstract.visited) == ("https://arxiv.org/abs/hep-ex/0307015v1", True)
    assert abstract.description == "Multi-Electron Production at High Transverse Momenta"
    assert abstract.content == (
        "Multi-Electron Production at High Transverse Momenta\n\n"
        "Multi-electron production is studied at high transverse momentum."
    )
    assert passages_of(abstract)[0].publication == about
    assert (pdf.url, pdf.visited) == ("https://arxiv.org/pdf/hep-ex/0307015v1", False)


def test_arxiv_is_asked_for_any_of_the_words_if_no_work_has_all() -> None:
    listed, asked = found(search_arxiv, feed(), feed(ENTRY), since="2003-06", delay_s=0.0)
    assert len(listed) == 2
    since = "AND submittedDate:[200306010000 TO 299912312359]"
    assert [each["search_query"] for each in asked] == [
        [f"(all:waves AND all:high) {since}"],
        [f"(all:waves OR all:high) {since}"],
    ]
    listed, _ = found(search_arxiv, feed(ENTRY), since="2003-08")
    assert listed == []


def test_crossref_gives_abstracts_to_cite_and_other_works_to_visit() -> None:
    (first, second), asked = found(
        search_crossref, works(), results=7, since="1998-05-01", mailto="me@example.org"
    )
    assert asked == [
        {
            "query": ["waves high"],
            "rows": ["7"],
            "filter": ["from-pub-date:1998-05-01"],
            "mailto": ["me@example.org"],
        }
    ]
    title = "On waves & tides of H2O below 10^6"
    assert (first.url, first.description) == ("https://doi.org/10.1000/xyz123", title)
    assert first.content == f"{title}\n\nAbstract Waves are high."
    assert first.publication == Publication(
        ("O'Stone, Ada", "The Sea Group"), "1998-05", "10.1000/xyz123", "Seas & Today"
    )
    assert (second.url, second.visited) == ("https://doi.org/10.1000/none", False)


@pytest.mark.parametrize(
    ("tool", "answer", "why"),
    (
        (search_arxiv, http(b"<html>busy</html>"), "did not answer with a feed"),
        (search_arxiv, http(b"busy"), "did not answer with a feed"),
        (search_arxiv, feed(REFUSED), "refused the query: incorrect id format for 1"),
        (search_arxiv, http(b"no", 403), r"answered 403 \(Forbidden\)"),
        (search_crossref, http(b"no", 404), r"answered 404 \(Not Found\)"),
        (search_crossref, http(b"{"), "answered without a list of works"),
        (search_crossref, works({"message": {"items": 3}}), "answered without a list of works"),
        (search_crossref, works([]), "answered without a list of works"),
    ),
)
def test_scholarly_answer_that_is_no_feed_or_list_is_an_error(
    tool: Any, answer: Answer, why: str
) -> None:
    with pytest.raises(SearchError, match=why):
        found(tool, answer)


def test_arxiv_feed_expands_no_entity() -> None:
    entities = '<?xml version="1.0"?><!DOCTYPE f [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    entry = ENTRY.replace("Multi-electron", "&a; Multi-electron")
    text = FEED.partition("\n")[2].replace("ENTRIES", entry)
    (abstract, _), _ = found(search_arxiv, http(f"{entities}{text}".encode()))
    assert "root:" not in (abstract.content or "")


def test_wrong_settings_of_searchers_are_said_at_once() -> None:
    for tool in (search_arxiv, search_crossref):
        for wrong in ({"results": 0}, {"since": "may"}, {"since": "2024-02-31"}, {"timeout_s": 0}):
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                tool(**wrong)
        with pytest.raises(DefinitionError, match="only http and https"):
            tool(url="ftp://a")
        assert tool().idempotent
        with pytest.raises(SearchError, match="the query is empty"):
            run(tool().execute(query=" … "))


def test_researcher_with_searchers_cites_an_abstract_with_its_authors() -> None:
    with Web({}) as web:
        web.answers[:] = [lambda _: works()] * 9
        report = Researcher(
            "r", None, ["How are waves?"], searchers=[search_crossref(url=f"{web.base}/works")]
        ).report_sync()
    assert any("Waves are high." in each.sentence for each in report.citations)
    assert "author = {O'Stone, Ada and The Sea Group}" in report.bibtex()
    assert "doi = {10.1000/xyz123}" in report.bibtex()
