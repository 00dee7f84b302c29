"""Which sources are used: the sites, those that are excluded, and since when."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Final
from urllib.parse import urlsplit

from moothall import ConfigError
from moothall.research.findings import Publication, Resource

DAY_PATTERN: Final = re.compile(
    r"([12]\d{3})(?:[-/](0[1-9]|1[0-2])(?:[-/](0[1-9]|[12]\d|3[01]))?)?(?!\d)", re.ASCII
)
"""A day, month or year: its parts as ISO 8601 has them."""
DOI_PATTERN: Final = re.compile(r"10\.[0-9]{4,9}/\S+")
_RANGES: Final = (("day", 1), ("week", 7), ("month", 31), ("year", 366))


class Scope:
    """The sources of the web that are used, by hosts and day; `site` is one more of the sites."""

    def __init__(
        self,
        sites: Iterable[str] = (),
        exclude: Iterable[str] = (),
        since: date | str | None = None,
        prefix: str = "",
        site: str | None = None,
    ) -> None:
        own_site = () if site is None else (_checked_site(site, f"{prefix}site", "site"),)
        self.sites: tuple[str, ...] = (*own_site, *_hosts(sites, prefix, "sites"))
        self.exclude: tuple[str, ...] = _hosts(exclude, prefix, "exclude")
        if isinstance(since, date):
            since = since.isoformat()[:10]
        is_day = isinstance(since, str) and DAY_PATTERN.fullmatch(since) and "/" not in since
        if not (since is None or is_day):
            text = f"{prefix}since must be a day such as 2024-05-01, got {since!r:.80}"
            raise ConfigError(text, argument="since")
        self.since = since
        try:
            self._first_day = date.fromisoformat(f"{since or '2000'}-01-01"[:10])
        except ValueError as error:
            text = f"{prefix}since: {error}, got {since!r}"
            raise ConfigError(text, argument="since") from None

    def __bool__(self) -> bool:
        return bool(self.sites or self.exclude or self.since)

    def refusal(self, url: str) -> str | None:
        """Return why a URL is not used; None if it is, or is not of the web."""
        if not url.lower().startswith(("http://", "https://")):
            return None
        if self.sites and not any(is_on(url, each) for each in self.sites):
            return f"{url} is not on {' or '.join(self.sites)}, which is all that is read"
        site = next((each for each in self.exclude if is_on(url, each)), None)
        return None if site is None else f"{url} is on {site}, which is excluded"

    def age_fault(self, url: str, publication: Publication | None) -> str | None:
        """Return why a work is too old; None if it is not, or has no known date."""
        published = "" if publication is None else publication.published
        if self.since is None or not published or published >= self.since[: len(published)]:
            return None
        when = f"on {published}" if published[7:] else f"in {published}"
        return f"{url} was published {when}, before {self.since}"

    def includes(self, resource: Resource) -> bool:
        """Return whether a resource is used."""
        url, publication = resource.url, resource.publication
        return self.refusal(url) is None and self.age_fault(url, publication) is None

    def query(self, words: str) -> str:
        """Return a query for a search engine with the operators of the sites."""
        sites = " OR ".join(f"site:{each}" for each in self.sites)
        parts = [words, f"({sites})" if len(self.sites) > 1 else sites]
        return " ".join(filter(None, [*parts, *(f"-site:{each}" for each in self.exclude)]))

    @property
    def time_range(self) -> str | None:
        """The shortest range of time that covers all since `since`, as search engines name it."""
        if self.since is None:
            return None
        days = (datetime.now(UTC).date() - self._first_day).days
        return next((name for name, most in _RANGES if days <= most), None)


def _checked_site(site: object, label: str, argument: str) -> str:
    """Return a site as it was given; anything but a host raises ConfigError."""
    if not isinstance(site, str) or not re.fullmatch(r"[^\s/:*]+", site):
        text = f"{label} must be a host such as docs.python.org, got {site!r}"
        raise ConfigError(text, argument=argument)
    return site


def is_on(url: str, site: str) -> bool:
    """Return whether a URL is on a site: a host and the hosts below it."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return f".{host}".endswith(f".{site.lower().strip('.')}")


def _hosts(hosts: Iterable[str], prefix: str, argument: str) -> tuple[str, ...]:
    label = f"{prefix}{argument}"
    if isinstance(hosts, str) or not isinstance(hosts, Iterable):
        text = f"{label} must be a list of hosts, got {hosts!r:.80}"
        raise ConfigError(text, argument=argument)
    return tuple(_checked_site(each, f"{label}: each", argument) for each in hosts)
