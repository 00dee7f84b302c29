"""The tool that searches the web: by a SearXNG that somebody runs, or by `ddgs`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from civitas.action import Action
from civitas.errors import DefinitionError, MissingExtra, PageError, SearchError
from civitas.http import Client, HTTPError
from civitas.network import check_allowed
from civitas.research.findings import Resource, positive
from civitas.research.pool import ResourcePool
from civitas.research.reading.html import plain
from civitas.research.web.addresses import address_check
from civitas.research.web.fetching import checked, status_text
from civitas.text import error_text, one_line
from civitas.threads import WORKERS

_MAX_BYTES = 4 * 2**20
_LONGEST_QUERY, _LONGEST_TEXT = 1000, 500


def search_web(
    *,
    searxng: str | None = None,
    allow_hosts: Iterable[str] = (),
    results: int = 10,
    region: str = "us-en",
    timeout_s: float = 30.0,
) -> Action:
    """A tool that searches the web: what it finds become resources that were not visited yet.

    It asks a SearXNG whose address is given, by its JSON format, which must be switched on in its
    settings (`search: formats: [html, json]`); without one, public search engines, by `ddgs`.

    Args:
        searxng: the address of a SearXNG, such as `http://localhost:8888`; it may be of any kind
        allow_hosts: more hosts that may have any address, where the SearXNG redirects to one
        results: how many are given at most
        region: the country and language that results are for, such as `us-en` or `de-de`
        timeout_s: seconds that an answer may take

    Raises:
        ConfigError: `allow_hosts` is not a list of hosts
        DefinitionError: `results` is not a positive number, or `searxng` is not an address
        MissingExtra: aiohttp is not installed, or ddgs where it is needed
    """
    positive(results, "search_web: results")
    address_check(allow_hosts)
    if searxng is not None:
        ask = _searxng(searxng, allow_hosts, region, timeout_s)
    else:
        MissingExtra.unless("search_web", "research", "ddgs")
        ask = partial(_ask_ddgs, results=results, region=region, timeout_s=timeout_s)

    async def search(query: str, pool: ResourcePool) -> list[Resource]:
        """Search the web. Read what it finds with visit_page.

        Args:
            query: words, as one types them into a search engine
        """
        words = " ".join(plain(query).split())[:_LONGEST_QUERY]
        if not words:
            raise SearchError("search_web: the query is empty")
        found = _resources(await ask(words))[:results]
        for each in found:
            pool.add(each)
        return found

    return Action("search_web", search, idempotent=True)


def _searxng(searxng: str, allow_hosts: Iterable[str], region: str, timeout_s: float) -> Any:
    """What asks a SearXNG."""
    try:
        address = checked(searxng).rstrip("/").removesuffix("/search")
    except PageError as error:
        raise DefinitionError(f"search_web: searxng: {error}") from None
    client = Client(
        "search_web",
        timeout_s=timeout_s,
        max_bytes=_MAX_BYTES,
        max_retries=1,
        check_address=address_check([urlsplit(address).netloc, *allow_hosts]),
        extra="research",
    )
    country, _, language = region.partition("-")
    return partial(_ask_searxng, client, address, f"{language}-{country.upper()}")


async def _ask_searxng(client: Client, address: str, language: str, query: str) -> list[Any]:
    where = f"search_web: the SearXNG at {address}"
    told = urlencode({"q": query, "format": "json", "language": language})
    try:
        response = await client.request(
            "GET", f"{address}/search?{told}", headers={"Accept": "application/json"}, redirects=5
        )
    except HTTPError as error:
        raise SearchError(f"{where}: {error}") from None
    if not 200 <= response.status < 300:
        hint = ": switch on its JSON format (search: formats)" if response.status == 403 else ""
        raise SearchError(f"{where} answered {status_text(response.status)}{hint}")
    try:
        given = json.loads(response.content)
    except (ValueError, RecursionError):
        raise SearchError(f"{where} did not answer in JSON: switch on its JSON format") from None
    listed = given.get("results") if isinstance(given, dict) else None
    if not isinstance(listed, list):
        raise SearchError(f"{where} answered without a list of results")
    return [(x.get("url"), x.get("title"), x.get("content")) for x in listed if isinstance(x, dict)]


async def _ask_ddgs(query: str, *, results: int, region: str, timeout_s: float) -> list[Any]:
    check_allowed("https://duckduckgo.com/", "search_web")

    def ask() -> list[Any]:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException

        engines = DDGS(timeout=max(1, int(timeout_s)))
        try:
            found = engines.text(query, region=region, max_results=results)
        except DDGSException as error:
            raise SearchError(f"search_web: {error_text(error)}") from error
        return [(each.get("href"), each.get("title"), each.get("body")) for each in found]

    try:
        async with asyncio.timeout(2 * timeout_s):
            return await WORKERS.run(asyncio.get_running_loop(), ask)
    except TimeoutError:
        raise SearchError(f"search_web: no answer within {2 * timeout_s:g} s") from None


def _resources(listed: list[Any]) -> list[Resource]:
    """What can be visited of what a search engine says."""
    found: dict[str, Resource] = {}
    for to, *texts in listed:
        with suppress(PageError):
            url = checked(str(to or ""))
            said = [one_line(plain(str(each or "")), _LONGEST_TEXT) for each in texts]
            found.setdefault(url, Resource(url, " – ".join(filter(None, said)) or None))
    return list(found.values())
