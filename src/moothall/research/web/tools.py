"""The tools that read pages and documents of the web."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from moothall import Action, MissingExtra, PageError, UnreadableDocument
from moothall.build import WORKERS
from moothall.research.findings import Resource
from moothall.research.reading.document_kinds import by_media_type, document_kinds, has_parser
from moothall.research.reading.documents import read_document, with_attached
from moothall.research.reading.encodings import decode_text, is_binary, plain_text
from moothall.research.reading.html import Document, read_html
from moothall.research.reading.process import ProcessReading
from moothall.research.resource_pool import ResourcePool
from moothall.research.scope import Scope
from moothall.research.web.fetching import USER_AGENT, FetchedPage, Fetcher

T = TypeVar("T")

MAX_BYTES = 20 * 2**20
_READ_TIMEOUT_S = 150.0
_MAX_FORWARDS = 4
_VAGUE_TYPES = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][a-z]{2})?")  # as a part of a path
_MARKUP = (b"<!doctype html", b"<html")


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

    It reads HTML, texts, and documents such as PDF, DOCX and ODP. It obeys the host's
    robots.txt (`Crawl-delay` up to 10 s) and connects to public addresses only, whatever a URL, a
    name or a redirect says. The page's links become unvisited resources.

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
    scope = Scope(sites, exclude, since, "visit_page: ", site)
    fetcher = Fetcher(
        "visit_page", allow_hosts, timeout_s, max_bytes, user_agent, per_host, delay_s, scope
    )

    async def read_page(url: str, pool: ResourcePool | None = None) -> Resource:
        """Read a page of the web, or a document that is there.

        Args:
            url: its URL, of http or https
        """
        return await _visit(fetcher, url, pool)

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
    scope = Scope(sites, exclude, None, "read_pdf: ", site)
    fetcher = Fetcher("read_pdf", allow_hosts, 60.0, 2 * MAX_BYTES, scope=scope)

    async def read_document(url: str, pool: ResourcePool | None = None) -> Resource:
        """Read a PDF document.

        Args:
            url: its URL, of http or https
        """
        return await _visit(fetcher, url, pool, only_pdf=True)

    return Action("read_pdf", read_document, idempotent=True, outside=True, guard=("url",))


async def _visit(
    fetcher: Fetcher, url: str, pool: ResourcePool | None, *, only_pdf: bool = False
) -> Resource:
    """Read a URL as a resource; add it and its links to the pool, if there is one."""
    pool = ResourcePool() if pool is None else pool
    next_url = url
    for _ in range(_MAX_FORWARDS):
        page = await fetcher.fetch(next_url)
        kind = _media_kind(page)
        if only_pdf and kind != "pdf":
            raise PageError(f"{page.url} is not a PDF: read it with visit_page")
        document = await _read_document(page, kind)
        if not (next_url := document.forward):
            break
    else:
        raise PageError(f"{url} leads on by itself more than {_MAX_FORWARDS - 1} times")
    if not document.text.strip():
        raise PageError(f"{page.url} has no text that can be read")
    if fault := fetcher.scope.age_fault(page.url, document.publication):
        raise PageError(fault)
    if _is_elsewhere(url, page.url):
        pool.missing.append(f"{url} led to {page.url}")
    if document.missing:
        pool.missing.append(f"{page.url} has {document.missing}")
    for link, description in document.links:
        if fetcher.scope.refusal(link) is None:
            pool.add(link, description or None)
    title = document.title or None
    resource = Resource(
        page.url,
        title,
        True,
        document.text,
        document.sections,
        page.fetched_at,
        document.publication,
    )
    stored = pool.add(resource)
    if pool.add(url) is not stored:  # it was redirected: this URL was read, too
        pool.visit(url)
    return resource


def _is_elsewhere(url: str, final_url: str) -> bool:
    """Return whether a page may be another than was asked for, such as a consent or a sign-in.

    The same page at another host, or in another folder, is none: its name is in the address. One in
    another language is.
    """
    path, final_path = (
        unquote(urlsplit(each).path).casefold().rstrip("/") for each in (url, final_url)
    )
    name = path.rpartition("/")[2].partition(".")[0]
    languages = {each for each in final_path.split("/") if _LANGUAGE.fullmatch(each)}
    return bool(name) and (name not in final_path or not languages <= {*path.split("/")})


def _media_kind(page: FetchedPage) -> str:
    """Return the kind that the server states, or else the one that the content shows."""
    kind = by_media_type().get(page.type)
    if page.type in _VAGUE_TYPES:
        start = page.data[:1024].lstrip().lower()
        is_html = any(each in start for each in _MARKUP)
        kind = "pdf" if start.startswith(b"%pdf-") else "html" if is_html else None
    elif page.type.startswith("text/") or page.type.endswith("+json"):
        kind = kind or "text"
    if kind is not None and has_parser(kind):
        return kind
    if kind is None:
        kinds = ", ".join(name for name, each in document_kinds().items() if each.media_types)
        type_text = page.type or "(the server does not say)"
        raise PageError(f"{page.url} is of the type {type_text}, and what is read is text, {kinds}")
    if is_binary(page.data[:1024], page.charset):
        raise PageError(f"{page.url} is declared as {page.type} but is binary")
    return kind


async def _read_document(page: FetchedPage, kind: str) -> Document:
    timeout_error = UnreadableDocument(
        f"{page.url}: reading its text took longer than {_READ_TIMEOUT_S:g} s"
    )
    if has_parser(kind):
        reading = ProcessReading(kind, page.data)
        try:
            return await _in_thread(
                lambda: with_attached(reading.read()), _READ_TIMEOUT_S, timeout_error
            )
        except UnreadableDocument as error:
            raise (
                timeout_error
                if error is timeout_error
                else UnreadableDocument(f"{page.url}: {error}")
            ) from error
        finally:
            reading.stop()  # if this was cancelled; else it has ended
    if kind == "html":
        return await _in_thread(
            lambda: read_html(page.data, page.charset, page.url), _READ_TIMEOUT_S, timeout_error
        )
    text = decode_text(page.data, page.charset)
    if kind in ("markdown", "table"):
        file = await _in_thread(
            lambda: read_document(kind, "", text.encode(), page.url), _READ_TIMEOUT_S, timeout_error
        )
        if file is not None:
            return file
    return Document("", plain_text(text).strip(), [])


async def _in_thread(function: Callable[[], T], seconds: float, timeout_error: Exception) -> T:
    """Run a function in a thread; if it takes too long, abandon it and raise an error."""
    try:
        async with asyncio.timeout(seconds):
            return await WORKERS.run(asyncio.get_running_loop(), function)
    except TimeoutError:
        raise timeout_error from None
