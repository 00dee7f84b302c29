"""The tools of the web: to search it, and to read its pages and PDF documents."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from moothall.actions import Action
from moothall.foundation import tracing
from moothall.foundation.arguments import check_integer, check_seconds
from moothall.foundation.errors import (
    ConfigError,
    DefinitionError,
    MissingExtra,
    PageError,
    SearchError,
    UnreadableDocument,
)
from moothall.foundation.http import Client, HTTPError
from moothall.foundation.http.addresses import address_check
from moothall.foundation.http.network import check_allowed
from moothall.foundation.text import error_text, one_line
from moothall.foundation.threads import WORKERS
from moothall.research.findings import Resource
from moothall.research.pool import ResourcePool
from moothall.research.reading.documents import with_attached
from moothall.research.reading.encodings import decoded, is_binary, plain
from moothall.research.reading.html import Document, read_html
from moothall.research.reading.process import Reading
from moothall.research.scope import Scope, checked_site
from moothall.research.web.fetching import (
    USER_AGENT,
    Fetched,
    Fetcher,
    checked,
    status_text,
)

T = TypeVar("T")

MAX_BYTES = 20 * 2**20
_READ_S = 150.0
_SEARCH_BYTES = 4 * 2**20
_LONGEST_QUERY, _LONGEST_TEXT = 1000, 500

_PDF = "application/pdf"
_IN_A_PROCESS = {
    _PDF: "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/epub+zip": "epub",
    "application/rtf": "rtf",
    "text/rtf": "rtf",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "spreadsheet",
    "application/vnd.ms-excel": "spreadsheet",
    "application/vnd.oasis.opendocument.spreadsheet": "spreadsheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "presentation",
    "application/vnd.oasis.opendocument.text": "odt",
    "message/rfc822": "mail",
}
_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("application/json", "application/ld+json", "application/x-ndjson", "application/yaml")
_UNSAID = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")
_MARKUP = (b"<!doctype html", b"<html")


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
    address_check(allow_hosts)
    scope = _scope("search_web", site, sites, exclude, since)
    if searxng is not None:
        ask = _searxng(searxng, allow_hosts, region, timeout_s, scope.range)
    else:
        ask = _ddgs(results, region, timeout_s, scope.range)

    @tracing.searches("web")
    async def search(query: str) -> list[Resource]:
        """Search the web. Read what it finds with visit_page.

        Args:
            query: words, as one types them into a search engine
        """
        words = " ".join(plain(query).split())[:_LONGEST_QUERY]
        if not words:
            raise SearchError("search_web: the query is empty")
        listed = await ask(scope.query(words))
        return [each for each in _resources(listed) if scope.takes(each)][:results]

    return Action("search_web", search, outside=True, idempotent=True)


def _scope(
    name: str,
    site: str | None,
    sites: Iterable[str],
    exclude: Iterable[str],
    since: date | str | None,
) -> Scope:
    one = () if site is None else (checked_site(site, f"{name}: site"),)
    scope = Scope(sites, exclude, since, f"{name}: ")
    scope.sites = (*one, *scope.sites)
    return scope


def _searxng(
    searxng: str, allow_hosts: Iterable[str], region: str, timeout_s: float, range: str | None
) -> Any:
    try:
        address = checked(str(searxng)).rstrip("/").removesuffix("/search")
    except PageError as error:
        raise DefinitionError(f"search_web: searxng: {error}") from None
    client = Client(
        "search_web",
        timeout_s=timeout_s,
        max_bytes=_SEARCH_BYTES,
        max_retries=1,
        check_address=address_check([urlsplit(address).netloc, *allow_hosts]),
        extra="research",
    )
    country, _, language = region.partition("-")
    where = f"search_web: the SearXNG at {address}"
    headers = {"Accept": "application/json"}

    async def ask(query: str) -> list[Any]:
        params = {"q": query, "format": "json", "language": f"{language}-{country.upper()}"}
        if range is not None:
            params["time_range"] = range
        url = f"{address}/search?{urlencode(params)}"
        try:
            response = await client.request("GET", url, headers=headers, redirects=5)
        except HTTPError as error:
            raise SearchError(f"{where}: {error}") from None
        if not 200 <= response.status < 300:
            hint = ": switch on its JSON format (search: formats)" if response.status == 403 else ""
            raise SearchError(f"{where} answered {status_text(response.status)}{hint}")
        try:
            given = json.loads(response.content)
        except (ValueError, RecursionError):
            raise SearchError(
                f"{where} did not answer in JSON: switch on its JSON format"
            ) from None
        listed = given.get("results") if isinstance(given, dict) else None
        if not isinstance(listed, list):
            raise SearchError(f"{where} answered without a list of results")
        failed = given.get("unresponsive_engines")
        if failed and not listed:
            raise SearchError(f"{where} found nothing, as its engines failed: {_failures(failed)}")
        named = ("url", "title", "content")
        return [[each.get(name) for name in named] for each in listed if isinstance(each, dict)]

    return ask


def _failures(failed: Any) -> str:
    """Return a SearXNG's engines that failed, each with its reason, as text."""
    pairs = failed if isinstance(failed, list) else [failed]
    told = (" – ".join(map(str, each)) if isinstance(each, list) else str(each) for each in pairs)
    return one_line(plain(", ".join(told)), _LONGEST_TEXT)


def _ddgs(results: int, region: str, timeout_s: float, range: str | None) -> Any:
    MissingExtra.unless("search_web", "research", "ddgs")

    def search(query: str) -> list[Any]:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException

        engines = DDGS(timeout=max(1, int(timeout_s)))
        try:
            limit = None if range is None else range[0]  # d, w, m or y
            listed = engines.text(query, region=region, max_results=results, timelimit=limit)
        except DDGSException as error:
            if str(error) == "No results found.":
                return []
            raise SearchError(f"search_web: {error_text(error)}") from error
        return [[each.get(name) for name in ("href", "title", "body")] for each in listed]

    async def ask(query: str) -> list[Any]:
        check_allowed("https://duckduckgo.com/", "search_web")
        late = SearchError(f"search_web: no answer within {2 * timeout_s:g} s")
        return await _in_thread(lambda: search(query), 2 * timeout_s, late)

    return ask


def _resources(listed: list[Any]) -> list[Resource]:
    resources: dict[str, Resource] = {}
    for to, *texts in listed:
        with suppress(PageError):
            url = checked(str(to or ""))
            said = [one_line(plain(str(each or "")), _LONGEST_TEXT) for each in texts]
            resources.setdefault(url, Resource(url, " – ".join(filter(None, said)) or None))
    return list(resources.values())


def visit_page(
    *,
    allow_hosts: Iterable[str] = (),
    user_agent: str = USER_AGENT,
    per_host: int = 4,
    delay_s: float = 0.0,
    timeout_s: float = 30.0,
    max_bytes: int = MAX_BYTES,
    site: str | None = None,
    sites: Iterable[str] = (),
    exclude: Iterable[str] = (),
    since: date | str | None = None,
) -> Action:
    """Return a tool that reads a page of the web: its text, its sections and its links.

    It reads HTML, PDF, DOCX, EPUB, plain text, Markdown, JSON and CSV. It obeys the host's
    robots.txt (`Crawl-delay` up to 10 s) and connects to public addresses only, whatever a URL, a
    name or a redirect says. The page's links become unvisited resources. A page that was read
    before is requested with the server's validators, so that it is sent again only if it changed.

    Args:
        allow_hosts: hosts that may have any address, such as `localhost` or `localhost:8080`
        user_agent: the name that is sent to servers and looked up in robots.txt
        per_host: how many requests one host gets at the same time
        delay_s: seconds from one request to a host to the next
        timeout_s: seconds that fetching a page may take in all, with robots.txt, redirects and a
            second try, but without the pauses that `delay_s` or robots.txt ask for
        max_bytes: how large a page may be, unpacked
        site: a host: only its pages and those of hosts below it are read; links to others are
            left out
        sites: the same for several hosts
        exclude: hosts, with those below them, that are not read
        since: a day, month or year, such as `2024-05`: a page that says that it was published
            before is refused

    Raises:
        ConfigError: `allow_hosts` is not a list of hosts, or a setting is invalid
        MissingExtra: the extra `research` is not installed
    """
    MissingExtra.unless("visit_page", "research", "lxml", "trafilatura", "pypdfium2")
    scope = _scope("visit_page", site, sites, exclude, since)
    fetcher = Fetcher(
        "visit_page", allow_hosts, timeout_s, max_bytes, user_agent, per_host, delay_s, scope
    )

    async def read_page(url: str, pool: ResourcePool | None = None) -> Resource:
        """Read a page of the web, or a document that is there.

        Args:
            url: its URL, of http or https
        """
        return await _visited(fetcher, url, pool)

    return Action("visit_page", read_page, idempotent=True, outside=True, guard=("url",))


def read_pdf(
    *,
    allow_hosts: Iterable[str] = (),
    site: str | None = None,
    sites: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> Action:
    """Return a tool that reads a PDF document of the web, of 40 MiB at most, page by page.

    Its arguments and errors are those of `visit_page`.
    """
    MissingExtra.unless("read_pdf", "research", "pypdfium2")
    scope = _scope("read_pdf", site, sites, exclude, None)
    fetcher = Fetcher("read_pdf", allow_hosts, 60.0, 2 * MAX_BYTES, scope=scope)

    async def read_document(url: str, pool: ResourcePool | None = None) -> Resource:
        """Read a PDF document.

        Args:
            url: its URL, of http or https
        """
        return await _visited(fetcher, url, pool, pdf=True)

    return Action("read_pdf", read_document, idempotent=True, outside=True, guard=("url",))


async def _visited(
    fetcher: Fetcher, url: str, pool: ResourcePool | None, *, pdf: bool = False
) -> Resource:
    """Read a URL as a resource; add it and its links to the pool, if there is one."""
    pool = ResourcePool() if pool is None else pool
    page = await fetcher.fetch(url)
    kind = _kind(page)
    if pdf and kind != _PDF:
        raise PageError(f"{page.url} is not a PDF but {kind}: read it with visit_page")
    read = await _read(page, kind)
    if not read.text.strip():
        raise PageError(f"{page.url} has no text that can be read")
    if old := fetcher.scope.too_old(page.url, read.publication):
        raise PageError(old)
    if read.missing:
        pool.missing.append(f"{page.url} has {read.missing}")
    for to, description in read.links:
        if fetcher.scope.refusal(to) is None:
            pool.add(to, description or None)
    title = read.title or None
    resource = Resource(
        page.url, title, True, read.text, read.sections, page.fetched_at, read.publication
    )
    kept = pool.add(resource)
    if pool.add(url) is not kept:  # it was redirected: this URL was read, too
        pool.visit(url)
    return resource


def _kind(page: Fetched) -> str:
    """Return the content type that the server states, or else the one that the content shows."""
    start = page.data[:1024].lstrip().lower()
    if page.type == _PDF or (page.type in _UNSAID and start.startswith(b"%pdf-")):
        return _PDF
    if page.type in _IN_A_PROCESS:
        return page.type
    if page.type in _HTML or (page.type in _UNSAID and any(each in start for each in _MARKUP)):
        kind = "text/html"
    elif page.type.startswith("text/") or page.type in _TEXTS or page.type.endswith("+json"):
        kind = "text/plain"
    else:
        raise PageError(
            f"{page.url} is of the type {page.type or '(the server does not say)'}: HTML, PDF and "
            "text are read"
        )
    if is_binary(page.data[:1024], page.charset):
        raise PageError(f"{page.url} is declared as {page.type} but is binary")
    return kind


async def _read(page: Fetched, kind: str) -> Document:
    late = UnreadableDocument(f"{page.url}: reading its text took longer than {_READ_S:g} s")
    if kind in _IN_A_PROCESS:
        reading = Reading(_IN_A_PROCESS[kind], page.data)
        try:
            return await _in_thread(lambda: with_attached(reading.read()), _READ_S, late)
        except UnreadableDocument as error:
            raise late if error is late else UnreadableDocument(f"{page.url}: {error}") from error
        finally:
            reading.stop()  # if this was cancelled; else it has ended
    if kind == "text/html":
        return await _in_thread(lambda: read_html(page.data, page.charset, page.url), _READ_S, late)
    return Document("", plain(decoded(page.data, page.charset)).strip(), [])


async def _in_thread(do: Callable[[], T], seconds: float, late: Exception) -> T:
    """Run a function in a thread; if it takes too long, abandon it and raise `late`."""
    try:
        async with asyncio.timeout(seconds):
            return await WORKERS.run(asyncio.get_running_loop(), do)
    except TimeoutError:
        raise late from None
