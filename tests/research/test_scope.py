"""Which sources are used: sites, hosts that are excluded, and since when."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from models.openai_server import Request
from moothall import Resource, ResourcePool, action
from moothall.foundation.errors import ConfigError, PageError
from moothall.research import Publication, Researcher, search_web, visit_page
from moothall.testing.model_suite import run
from research.test_search_web import FOUND, answer
from research.web_server import Web, html

TODAY = datetime.now(UTC).date()


@pytest.mark.parametrize(
    ("more", "query", "range"),
    (
        ({"sites": ["a.example", "c.example"]}, "apples (site:a.example OR site:c.example)", None),
        ({"site": "a.example"}, "apples site:a.example", None),
        ({"exclude": ["b.example", "d.example"]}, "apples -site:b.example -site:d.example", None),
        ({"since": TODAY}, "apples", "day"),
        ({"since": (TODAY - timedelta(days=20)).isoformat()}, "apples", "month"),
        ({"since": "1999"}, "apples", None),
    ),
)
def test_scope_of_a_search_is_asked_for(more: Any, query: str, range: str | None) -> None:
    asked: list[dict[str, list[str]]] = []

    def answered(request: Request) -> Any:
        asked.append(parse_qs(urlsplit(request.path).query))
        return answer(FOUND)

    with Web({}) as web:
        web.answers[:] = [answered]
        found = run(search_web(searxng=web.base, **more).execute(query="apples"))
    hosts = {each.url.split("/")[2] for each in found}
    assert hosts == ({"a.example", "b.example"} if query == "apples" else {"a.example"})
    assert asked[0]["q"] == [query]
    assert asked[0].get("time_range") == (range and [range])


def test_pages_outside_are_not_read_and_links_to_them_left_out() -> None:
    links = "<a href=https://docs.example/a>a</a><a href=https://evil.example/b>b</a>"
    old = '<meta name=date content="2019-03-01">'
    text = "<main><p>Apples are round, and they grow on trees.</p></main>"
    with Web(
        {"/a": html(f"<body>{text}{links}</body>"), "/old": html(f"<head>{old}</head>{text}")}
    ) as web:
        pool = ResourcePool()
        web.visit("/a", pool, sites=["127.0.0.1", "docs.example"])
        assert [each.url for each in pool.get_unvisited()] == ["https://docs.example/a"]
        pool = ResourcePool()
        web.visit("/a", pool, exclude=["evil.example"], since="2020")
        assert [each.url for each in pool.get_unvisited()] == ["https://docs.example/a"]
        with pytest.raises(PageError, match=r"/a is on 127\.0\.0\.1, which is excluded"):
            web.visit("/a", exclude=["127.0.0.1"])
        with pytest.raises(PageError, match=r"/a is not on b\.example or c\.example, which is all"):
            web.visit("/a", sites=["b.example", "c.example"])
        with pytest.raises(PageError, match="/old was published on 2019-03-01, before 2019-03-02"):
            web.visit("/old", since="2019-03-02")
        assert web.visit("/old", since="2019-03").publication == Publication((), "2019-03-01")


def test_researcher_keeps_to_its_sites_whatever_its_tools_find() -> None:
    read: list[str] = []
    works = {"docs.example": "2024", "evil.example": "", "a.docs.example": "2001"}

    @action(idempotent=True)
    async def search(query: str, pool: ResourcePool) -> list[Resource]:
        """Search.

        Args:
            query: words
        """
        pool.add("https://evil.example/pool")
        return [
            Resource(f"https://{host}/x", "apples", publication=Publication((), day))
            for host, day in works.items()
        ]

    @action(idempotent=True)
    async def read_page(url: str) -> Resource:
        """Read.

        Args:
            url: where
        """
        read.append(url)
        return Resource(url, "Apples", True, "Apples are round.")

    researcher = Researcher(
        "r",
        None,
        ["How are apples?"],
        [search, read_page],
        sites=["docs.example"],
        exclude=["b.docs.example"],
        since=date(2020, 1, 1),
    )
    report = researcher.report_sync()
    assert read == ["https://docs.example/x"]
    assert [each.url for each in researcher.resources.get_all()] == ["https://docs.example/x"]
    assert [each.passage.url for each in report.citations] == ["https://docs.example/x"]
    with pytest.raises(PageError, match=r"not on docs\.example"):
        run(researcher.tools["read_page"].execute(url="https://evil.example/"))


@pytest.mark.parametrize(
    "wrong",
    (
        *({"sites": "a.example"}, {"sites": ["http://a"]}, {"exclude": [3]}, {"exclude": 3}),
        *({"since": "yesterday"}, {"since": "2024-13"}, {"since": 2024}, {"since": "2023-02-30"}),
    ),
)
def test_scope_that_is_wrong_is_said_at_once(wrong: dict[str, Any]) -> None:
    name = next(iter(wrong))
    with pytest.raises(ConfigError, match=f"search_web: {name}"):
        search_web(searxng="http://localhost", **wrong)
    with pytest.raises(ConfigError, match=f"visit_page: {name}"):
        visit_page(**wrong)
    with pytest.raises(ConfigError, match=f"agent 'r': {name}"):
        Researcher("r", None, ["x"], [visit_page()], **wrong)
