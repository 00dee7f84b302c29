"""The tools that read the web: pages and PDF documents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from civitas.action import Action
from civitas.errors import MissingExtra, PageError, UnreadableDocument
from civitas.research.findings import Resource
from civitas.research.pool import ResourcePool
from civitas.research.reading.documents import read_pdf_bytes
from civitas.research.reading.html import Html, decoded, plain, read_html
from civitas.research.web.fetching import USER_AGENT, Fetched, Fetcher
from civitas.threads import WORKERS

MAX_BYTES = 20 * 2**20
_READ_S = 150.0

_PDF = "application/pdf"
_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("application/json", "application/ld+json", "application/x-ndjson", "application/yaml")
_UNSAID = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")
_MARKUP = (b"<!doctype html", b"<html")


def visit_page(
    *,
    allow_hosts: Iterable[str] = (),
    user_agent: str = USER_AGENT,
    per_host: int = 4,
    delay_s: float = 0.0,
    timeout_s: float = 30.0,
    max_bytes: int = MAX_BYTES,
) -> Action:
    """A tool that reads a page of the web: its text, its sections and its links.

    It reads HTML, PDF, plain text, Markdown, JSON and CSV. It does what the host's robots.txt says
    (`Crawl-delay` up to 10 s), and connects to public addresses only, whatever a URL, a name or a
    redirect says. The page's links become resources that were not visited yet. A page that was read
    before is asked for with the server's validators, so that it is sent again only if it changed.

    Args:
        allow_hosts: hosts that may have any address, such as `localhost` or `localhost:8080`
        user_agent: what servers and robots.txt are told
        per_host: how many requests there may be at once to one host
        delay_s: seconds from one request to a host to the next
        timeout_s: seconds that an answer may take, to its end
        max_bytes: how large a page may be, unpacked

    Raises:
        ConfigError: `allow_hosts` is not a list of hosts, or a setting is not what it may be
        MissingExtra: the extra `research` is not installed
    """
    MissingExtra.unless("visit_page", "research", "lxml", "trafilatura", "pypdf")
    fetcher = Fetcher(
        "visit_page", allow_hosts, timeout_s, max_bytes, user_agent, per_host, delay_s
    )

    async def read_page(url: str, pool: ResourcePool) -> Resource:
        """Read a page of the web, or a document that is there.

        Args:
            url: its URL, of http or https
        """
        return await _visited(fetcher, url, pool)

    return Action("visit_page", read_page, idempotent=True)


def read_pdf(*, allow_hosts: Iterable[str] = ()) -> Action:
    """A tool that reads a PDF document of the web, of 40 MiB at most: its text, page by page.

    Its argument and errors are those of `visit_page`.
    """
    MissingExtra.unless("read_pdf", "research", "pypdf")
    fetcher = Fetcher("read_pdf", allow_hosts, 60.0, 2 * MAX_BYTES)

    async def read_document(url: str, pool: ResourcePool) -> Resource:
        """Read a PDF document.

        Args:
            url: its URL, of http or https
        """
        return await _visited(fetcher, url, pool, pdf=True)

    return Action("read_pdf", read_document, idempotent=True)


async def _visited(
    fetcher: Fetcher, url: str, pool: ResourcePool, *, pdf: bool = False
) -> Resource:
    """The resource of a URL; its links go into the pool."""
    page = await fetcher.fetch(url)
    kind = _kind(page)
    if pdf and kind != _PDF:
        raise PageError(f"{page.url} is no PDF but {kind}: read it with visit_page")
    title, text, sections, links = await _in_thread(page, kind)
    if not text.strip():
        raise PageError(f"{page.url} has no text that can be read")
    for to, description in links:
        pool.add(to, description or None)
    resource = Resource(page.url, title or None, True, text, sections, page.fetched_at)
    kept = pool.add(resource)
    if pool.add(url) is not kept:  # it was redirected: nobody need go there again
        pool.visit(url)
    return resource


def _kind(page: Fetched) -> str:
    """The content type, by what the server says, or else by how the content begins."""
    start = page.data[:1024].lstrip().lower()
    if page.type == _PDF or (page.type in _UNSAID and start.startswith(b"%pdf-")):
        return _PDF
    if page.type in _HTML or (page.type in _UNSAID and any(each in start for each in _MARKUP)):
        kind = "text/html"
    elif page.type.startswith("text/") or page.type in _TEXTS or page.type.endswith("+json"):
        kind = "text/plain"
    else:
        raise PageError(
            f"{page.url} is of the type {page.type or '(the server does not say)'}: HTML, PDF and "
            "text are read"
        )
    if b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PageError(f"{page.url} is said to be {page.type} and is binary")
    return kind


def _read(page: Fetched, kind: str) -> Html:
    if kind == _PDF:
        try:
            return *read_pdf_bytes(page.data), []
        except UnreadableDocument as error:
            raise UnreadableDocument(f"{page.url}: {error}") from error
    if kind == "text/html":
        return read_html(page.data, page.charset, page.url)
    return "", plain(decoded(page.data, page.charset)).strip(), [], []


async def _in_thread(page: Fetched, kind: str) -> Html:
    """What a page says, read in a thread; one that takes too long is left behind."""
    try:
        async with asyncio.timeout(_READ_S):
            return await WORKERS.run(asyncio.get_running_loop(), lambda: _read(page, kind))
    except TimeoutError:
        raise UnreadableDocument(
            f"{page.url}: reading its text took longer than {_READ_S:g} s"
        ) from None
