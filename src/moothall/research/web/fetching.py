"""Fetching pages politely: addresses, robots.txt, a rate for each host, redirects."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from functools import partial
from http.client import responses
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple
from urllib.parse import urldefrag, urlencode, urljoin, urlsplit
from urllib.request import Request
from weakref import WeakKeyDictionary

from moothall import ConfigError, DefinitionError, PageError, SearchError
from moothall.build import (
    AllowedHosts,
    HTTPClient,
    HTTPError,
    HTTPResponse,
    check_integer,
    check_seconds,
    excerpt,
    guard,
    one_line,
)
from moothall.research.scope import Scope
from moothall.research.web.robots import Robots

USER_AGENT = "moothall (an agent that researches)"
MAX_REDIRECTS = 10
_LONGEST_URL = 4000
_ROBOTS_BYTES = 2**20
_ROBOTS_KEPT_S, _FAILED_ROBOTS_KEPT_S = 3600.0, 60.0
_LONGEST_DELAY_S = 10.0
_SEARCH_BYTES = 4 * 2**20
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5"


class FetchedPage(NamedTuple):
    """A server's answer, after redirects; the type is empty if the server does not state one."""

    url: str
    data: bytes
    type: str
    charset: str | None
    fetched_at: str


@dataclass
class _HostState:
    """The state of a server in one event loop."""

    slots: asyncio.Semaphore
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_request_s: float = 0.0  # no request starts before this time
    robots: Robots | str = ""  # or why it could not be read
    robots_until_s: float = -1.0  # robots.txt is not read again before this time


class _CookieSource:
    """A response as a jar of cookies reads it."""

    def __init__(self, response: HTTPResponse) -> None:
        self._headers = Message()
        for name, value in response.headers.items():
            self._headers.add_header(name, value)

    def info(self) -> Message:
        """Return the headers."""
        return self._headers


class Fetcher:
    """Fetches pages; see `visit_page` for its arguments."""

    def __init__(
        self,
        name: str,
        allow_hosts: Iterable[str],
        timeout_s: float,
        max_bytes: int,
        user_agent: str = USER_AGENT,
        per_host: int = 4,
        delay_s: float = 0.0,
        scope: Scope | None = None,
    ) -> None:
        check_seconds(f"{name}: timeout_s", timeout_s)
        check_seconds(f"{name}: delay_s", delay_s, zero=True)
        check_integer(f"{name}: max_bytes", max_bytes)
        check_integer(f"{name}: per_host", per_host)
        if not isinstance(user_agent, str) or not re.match(r"\s*[^\s/]", user_agent):
            raise ConfigError(f"{name}: user_agent must have a name, got {user_agent!r:.80}")
        if not (user_agent.isprintable() and user_agent.isascii()):  # it is a header
            raise ConfigError(f"{name}: user_agent must be ASCII in one line, got {user_agent!r}")
        check_address = AllowedHosts(allow_hosts).check
        make_client = partial(
            HTTPClient, name, timeout_s=timeout_s, check_address=check_address, extra="research"
        )
        self._client = make_client(max_bytes=max_bytes, max_retries=1)
        self._robots_client = make_client(max_bytes=_ROBOTS_BYTES, max_retries=0)
        self._user_agent = user_agent
        self._robot_name = user_agent.partition("/")[0].split()[0]  # our name in robots.txt
        self._per_host = per_host
        self._delay_s = float(delay_s)
        self._timeout_s = timeout_s
        self.scope: Scope = scope or Scope()
        self._lock = guard()
        # Locks and semaphores belong to the loop that waits on them.
        self._hosts: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _HostState]]
        self._hosts = WeakKeyDictionary()

    async def fetch(self, url: str) -> FetchedPage:
        """Fetch a URL within the time limit."""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._fetch(url, limit)
        except TimeoutError:
            if not limit.expired():
                raise
            reason = f"{excerpt(url)} was not read within {self._timeout_s:g} s (timeout_s)"
            raise PageError(reason) from None

    async def _fetch(self, url: str, limit: asyncio.Timeout) -> FetchedPage:
        """Fetch a URL; each redirect is checked like the first URL.

        Cookies go back to their own host until the page is there: many want theirs back at once.
        """
        visited: list[str] = []
        requests: set[tuple[str, str]] = set()  # with the cookies
        cookies = CookieJar(DefaultCookiePolicy(strict_domain=True))
        url = checked_url(url)
        while len(visited) <= MAX_REDIRECTS:
            if refusal := self.scope.refusal(url):
                raise PageError(refusal)
            request = Request(url)
            cookies.add_cookie_header(request)
            cookie = request.get_header("Cookie") or ""
            if (url, cookie) in requests:
                raise PageError(
                    f"{visited[0]} redirects in a circle: {' → '.join([*visited[-3:], url])}"
                )
            visited.append(url)
            requests.add((url, cookie))
            response = await self._get(url, limit, cookie)
            cookies.extract_cookies(_CookieSource(response), request)  # type: ignore[arg-type]
            location = response.headers.get("location")
            if 300 <= response.status < 400 and location:
                url = checked_url(location, url)
                continue
            if not 200 <= response.status < 300:
                raise PageError(f"{url} answered {status_text(response.status)}")
            media_type, charset = _content_type(response.headers.get("content-type", ""))
            now = datetime.now(UTC).isoformat(timespec="seconds")
            return FetchedPage(url, response.content, media_type, charset, now)
        raise PageError(f"{visited[0]} redirects more than {MAX_REDIRECTS} times")

    async def _get(self, url: str, limit: asyncio.Timeout, cookie: str) -> HTTPResponse:
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc.lower()}"
        loop = asyncio.get_running_loop()
        with self._lock:
            hosts = self._hosts.setdefault(loop, {})
        host = hosts.setdefault(site, _HostState(asyncio.Semaphore(self._per_host)))
        crawl_delay_s = await self._check_robots(url, site, host)
        delay_s = max(self._delay_s, crawl_delay_s)
        headers = {"User-Agent": self._user_agent, "Accept": _ACCEPT}
        headers |= {"Cookie": cookie} if cookie else {}
        now = loop.time()
        begin = max(now, host.next_request_s)
        host.next_request_s = begin + delay_s
        limit.reschedule((limit.when() or now) + begin - now)  # a pause is nobody's delay
        await asyncio.sleep(begin - now)
        async with host.slots:
            try:
                return await self._client.request("GET", url, headers=headers)
            except HTTPError as error:
                prefix = "" if url[:80] in str(error) else f"{url}: "
                raise PageError(f"{prefix}{error}") from None

    async def _check_robots(self, url: str, site: str, host: _HostState) -> float:
        """Check a URL by robots.txt (PageError if refused); return the seconds between requests."""
        loop = asyncio.get_running_loop()
        async with host.lock:
            if host.robots_until_s < loop.time():
                host.robots = await self._read_robots(f"{site}/robots.txt")
                failed = isinstance(host.robots, str)
                host.robots_until_s = loop.time() + (
                    _FAILED_ROBOTS_KEPT_S if failed else _ROBOTS_KEPT_S
                )
        if isinstance(host.robots, str):
            raise PageError(f"{url} is not read: {host.robots}; try again in a minute")
        if not host.robots.allows(url):
            raise PageError(f"{url} is not read: the robots.txt of its host forbids it")
        return min(host.robots.delay_s, _LONGEST_DELAY_S)

    async def _read_robots(self, url: str) -> Robots | str:
        """Return a robots.txt, or why nothing may be read; without one, all may be read."""
        headers = {"User-Agent": self._user_agent}
        try:
            response = await self._robots_client.request("GET", url, headers=headers, redirects=5)
        except HTTPError as error:
            return f"{url} cannot be read ({error})"
        if response.status >= 500:
            return f"{url} answered {status_text(response.status)}"
        rules = response.content.decode("utf-8-sig", "replace") if response.status < 300 else ""
        return Robots(rules, self._robot_name)


def checked_url(url: str, base: str = "") -> str:
    """Return an http or https URL without its fragment; raise PageError for anything else."""
    try:
        parts = urlsplit(urldefrag(urljoin(base, url)).url)
        if parts.scheme not in ("http", "https"):
            raise PageError(f"only http and https are read, got {excerpt(url)}")
        if len(url) > _LONGEST_URL:
            raise PageError(f"a URL has at most {_LONGEST_URL} characters, got {len(url)}")
        # Characters that parsers interpret differently.
        is_odd = any(c.isspace() or not c.isprintable() or c in "\\@" for c in parts.netloc)
        if not parts.hostname or is_odd or parts.port == 0:
            raise PageError(f"{excerpt(url)} does not name a host that can be read")
    except ValueError:
        raise PageError(f"{excerpt(url)} is not a URL") from None
    return parts.geturl()


def status_text(status: int) -> str:
    """Return a status in words."""
    return f"{status} ({responses[status]})" if status in responses else str(status)


class SearchService:
    """An interface of searches, asked by GET; a failure raises SearchError."""

    def __init__(
        self,
        name: str,
        title: str,
        url: str,
        timeout_s: float,
        delay_s: float = 0.0,
        *,
        argument: str = "url",
        path: str = "",
        allow_hosts: Iterable[str] = (),
    ) -> None:
        try:
            url = checked_url(str(url)).rstrip("/")
        except PageError as error:
            raise DefinitionError(f"{name}: {argument}: {error}") from None
        check_seconds(f"{name}: timeout_s", timeout_s)
        check_seconds(f"{name}: delay_s", delay_s, zero=True)
        self._delay_s = float(delay_s)
        self._url = f"{url.removesuffix(path)}{path}"
        self.label: str = f"{name}: {title} at {url.removesuffix(path)}"
        self._next_s: dict[asyncio.AbstractEventLoop, float] = {}
        self._client = HTTPClient(
            name,
            timeout_s=timeout_s,
            max_bytes=_SEARCH_BYTES,
            max_retries=1,
            check_address=AllowedHosts([urlsplit(url).netloc, *allow_hosts]).check,
            extra="research",
        )

    async def ask(self, params: Mapping[str, str], hint_of_403: str = "") -> bytes:
        """Return what is answered; a refusal (403) is explained by the hint."""
        loop = asyncio.get_running_loop()
        begin = max(loop.time(), self._next_s.get(loop, 0.0))
        self._next_s = {loop: begin + self._delay_s}
        await asyncio.sleep(begin - loop.time())
        url = f"{self._url}{'&' if '?' in self._url else '?'}{urlencode(params)}"
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json,*/*;q=0.5"}
        try:
            response = await self._client.request("GET", url, headers=headers, redirects=5)
        except HTTPError as error:
            raise SearchError(f"{self.label}: {error}") from None
        if not 200 <= response.status < 300:
            hint = hint_of_403 * (response.status == 403)
            raise SearchError(f"{self.label} answered {status_text(response.status)}{hint}")
        return response.content


def _content_type(header: str) -> tuple[str, str | None]:
    kind, _, rest = header.partition(";")
    charset = re.search(r"(?:^|;)\s*charset\s*=\s*([^;]*)", rest, re.IGNORECASE)
    return one_line(kind.strip().lower(), 80), charset and charset[1].strip("\"' ")
