"""The tool that searches the web, by a search engine of the user's or by public ones."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from typing import Any

from moothall import Action, ConfigError, MissingExtra, PageError, SearchError
from moothall.build import (
    AllowedHosts,
    ServerURL,
    WorkSpan,
    call_user,
    check_integer,
    check_seconds,
    error_text,
    one_line,
)
from moothall.research.findings import Resource
from moothall.research.reading.encodings import plain_text
from moothall.research.scope import Scope
from moothall.research.web.fetching import SearchService, checked_url

_LONGEST_QUERY, _LONGEST_TEXT = 1000, 500


def search_web(
    *,
    searxng: str | None = None,
    allow_hosts: Iterable[str] = (),
    results: int = 10,
    region: str = "us-en",
    timeout_s: float = 30.0,
    site: str | None = None,
    sites: Iterable[str] = (),
    exclude: Iterable[str] = (),
    since: date | str | None = None,
) -> Action:
    """Return a tool that searches the web; its results become unvisited resources.

    It asks the given SearXNG for JSON, which must be switched on in the settings of SearXNG
    (`search: formats: [html, json]`). Without one, it asks public search engines, by `ddgs`.

    Args:
        searxng: the URL of a SearXNG, such as `http://localhost:8888`; any address is allowed
        allow_hosts: more hosts that may have any address, if the SearXNG redirects to them
        results: how many results are returned at most
        region: the country and language that results are for, such as `us-en` or `de-de`
        timeout_s: seconds that an answer may take
        site: a host: only results on it and on hosts below it are asked for and returned
        sites: the same for several hosts
        exclude: hosts, with those below them, whose results are left out
        since: a day, month or year, such as `2024-05`: results of about this time and later are
            asked for

    Raises:
        ConfigError: `allow_hosts` is not a list of hosts, or a setting is invalid
        DefinitionError: `searxng` is not an address
        MissingExtra: aiohttp is not installed, or ddgs if it is needed
    """
    check_integer("search_web: results", results)
    check_seconds("search_web: timeout_s", timeout_s)
    if not isinstance(region, str) or not re.fullmatch("[A-Za-z]{2}-[A-Za-z]{2,3}", region):
        raise ConfigError(f"search_web: region must be one such as us-en, got {region!r:.80}")
    AllowedHosts(allow_hosts)
    scope = Scope(sites, exclude, since, "search_web: ", site)
    if searxng is not None:
        ask = _searxng(searxng, allow_hosts, region, timeout_s, scope.time_range)
    else:
        ask = _ddgs(results, region, timeout_s, scope.time_range)

    @WorkSpan.searches("web")
    async def search(query: str) -> list[Resource]:
        """Search the web. Read what it finds with visit_page.

        Args:
            query: words, as one types them into a search engine
        """
        words = " ".join(plain_text(query).split())[:_LONGEST_QUERY]
        if not words:
            raise SearchError("search_web: the query is empty")
        entries = await ask(scope.query(words))
        return [each for each in _resources(entries) if scope.includes(each)][:results]

    return Action("search_web", search, outside=True, idempotent=True)


def _searxng(
    searxng: str, allow_hosts: Iterable[str], region: str, timeout_s: float, time_range: str | None
) -> Any:
    options: dict[str, Any] = {"argument": "searxng", "path": "/search", "allow_hosts": allow_hosts}
    service = SearchService("search_web", "the SearXNG", searxng, timeout_s, **options)
    country, _, language = region.partition("-")

    async def ask(query: str) -> list[Any]:
        params = {"q": query, "format": "json", "language": f"{language}-{country.upper()}"}
        if time_range is not None:
            params["time_range"] = time_range
        content = await service.ask(params, ": switch on its JSON format (search: formats)")
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            hint = "switch on its JSON format"
            raise SearchError(f"{service.label} did not answer in JSON: {hint}") from None
        entries = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(entries, list):
            raise SearchError(f"{service.label} answered without a list of results")
        failed_engines = answer.get("unresponsive_engines")
        if failed_engines and not entries:
            reasons = _failure_text(failed_engines)
            raise SearchError(f"{service.label} found nothing, as its engines failed: {reasons}")
        fields = ("url", "title", "content")
        return [[each.get(name) for name in fields] for each in entries if isinstance(each, dict)]

    return ask


def _failure_text(failed_engines: Any) -> str:
    """Return a SearXNG's engines that failed, each with its reason, as text."""
    pairs = failed_engines if isinstance(failed_engines, list) else [failed_engines]
    texts = (" – ".join(map(str, each)) if isinstance(each, list) else str(each) for each in pairs)
    return one_line(plain_text(", ".join(texts)), _LONGEST_TEXT)


def _ddgs(results: int, region: str, timeout_s: float, time_range: str | None) -> Any:
    MissingExtra.unless("search_web", "research", "ddgs")

    def search(query: str) -> list[Any]:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException

        engines = DDGS(timeout=max(1, int(timeout_s)))
        try:
            limit = None if time_range is None else time_range[0]  # d, w, m or y
            entries = engines.text(query, region=region, max_results=results, timelimit=limit)
        except DDGSException as error:
            if str(error) == "No results found.":
                return []
            raise SearchError(f"search_web: {error_text(error)}") from error
        return [[each.get(name) for name in ("href", "title", "body")] for each in entries]

    async def ask(query: str) -> list[Any]:
        ServerURL("https://duckduckgo.com/").check_allowed("search_web")
        try:
            async with asyncio.timeout(2 * timeout_s):
                return await call_user(search, query)  # type: ignore[no-any-return]
        except TimeoutError:
            raise SearchError(f"search_web: no answer within {2 * timeout_s:g} s") from None

    return ask


def _resources(entries: list[Any]) -> list[Resource]:
    resources: dict[str, Resource] = {}
    for address, *texts in entries:
        with suppress(PageError):
            url = checked_url(str(address or ""))
            descriptions = [one_line(plain_text(str(each or "")), _LONGEST_TEXT) for each in texts]
            resources.setdefault(url, Resource(url, " – ".join(filter(None, descriptions)) or None))
    return list(resources.values())
