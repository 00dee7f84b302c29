"""A tool that is kept on one site of the web."""

from __future__ import annotations

import asyncio

import pytest

from civitas import Action, Resource, ResourcePool
from civitas.errors import InvalidArguments
from civitas.research.narrowing import only_site

HERE, BELOW, AWAY = "https://site.test/a", "https://docs.site.test/b", "https://evilsite.test/c"


async def read(url: str, pool: ResourcePool) -> Resource:
    """Read a page, which links to others; /moved leads to another host."""
    for each in (BELOW, AWAY):
        pool.add(each)
    return Resource(AWAY if url.endswith("/moved") else url, "A page", True, "Text.")


def test_pages_and_links_of_other_hosts_are_left_out() -> None:
    tool, pool = only_site(Action("read", read), "Site.test"), ResourcePool()
    page = asyncio.run(tool.execute(url=HERE, pool=pool))
    assert page.url == HERE
    assert [each.url for each in pool.get_all()] == [BELOW]


@pytest.mark.parametrize(
    ("url", "fault"),
    (
        (AWAY, "is not on site.test"),
        ("https://site.test.evil.test/", "is not on site.test"),
        ("https://site.test@evil.test/", "is not on site.test"),
        ("http://[", "is not on site.test"),
        ("https://site.test/moved", "leads away from site.test, to 'https://evilsite.test/c'"),
    ),
)
def test_a_page_of_another_host_is_refused(url: str, fault: str) -> None:
    tool = only_site(Action("read", read), "site.test")
    with pytest.raises(InvalidArguments, match=fault):
        asyncio.run(tool.execute(url=url, pool=ResourcePool()))


def test_a_search_asks_for_the_site_and_leaves_others_out() -> None:
    asked = []

    async def search(query: str) -> list[Resource]:
        """Search."""
        asked.append(query)
        return [Resource(url) for url in (HERE, BELOW, AWAY)]

    found = asyncio.run(only_site(Action("search", search), "site.test").execute(query="what"))
    assert [each.url for each in found] == [HERE, BELOW]
    assert asked == ["what site:site.test"]
