"""What a command and a page offer to search on the web: engines, and catalogues of works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from moothall import ConfigError, PageError


class _CatalogueOffer(NamedTuple):
    label: str
    field: str  # what a person reads beside it on a page
    help: str
    example: str = ""  # of the address that a person gives; without one, none is given


SEARCH_ENGINES: Final = {
    "searxng": _CatalogueOffer(
        "SearXNG",
        "Search engine: the SearXNG at",
        "Search the web through the SearXNG at URL.",
        "http://localhost:8888",
    ),
}
"""By the argument of `search_web` that chooses the engine; of several, the first counts."""
CATALOGUES: Final = {
    "arxiv": _CatalogueOffer(
        "arXiv", "Search arXiv for preprints", "Search arXiv for preprints, too."
    ),
    "crossref": _CatalogueOffer(
        "Crossref",
        "Search Crossref for published works",
        "Search Crossref for published works, too.",
    ),
}
"""By the name of the tool without its `search_`: `moothall.research` has `search_arxiv`."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What an order searches on the web, as its run records it."""

    search_web: bool = False
    searxng: str | None = None
    arxiv: bool = False
    crossref: bool = False
    site: str | None = None  # the host that the web is restricted to
    sites: list[str] = field(default_factory=list)  # the same, of several
    exclude: list[str] = field(default_factory=list)  # the hosts of the web that are not used
    since: str | None = None  # a day, month or year: what was published before is not used
    # Hosts of this machine or network that may be visited all the same.
    allow_hosts: list[str] = field(default_factory=list)

    @property
    def engines(self) -> dict[str, Any]:
        """The arguments of `search_web` that choose its engine: its address, or true."""
        return {name: getattr(self, name) for name in SEARCH_ENGINES}

    @property
    def web(self) -> str:
        """The web in words, by which engine; empty if it is not searched."""
        for name, value in self.engines.items():
            if value:
                return f"the web by {SEARCH_ENGINES[name].label if value is True else value}"
        return "the web" if self.search_web else ""

    @property
    def catalogues(self) -> list[str]:
        """The names of those that are searched."""
        return [name for name in CATALOGUES if getattr(self, name)]

    def check(self, prefix: str = "") -> None:
        """Raise ConfigError, with all faults, if this cannot be searched.

        Args:
            prefix: what stands before the names of options in errors, such as `--`
        """
        if faults := [*self._faults(prefix)]:
            raise ConfigError("\n".join(map(str, faults)), argument=faults[0].argument)

    def _faults(self, prefix: str) -> Iterator[ConfigError]:
        from moothall.build import AllowedHosts
        from moothall.research.scope import Scope
        from moothall.research.web.fetching import checked_url

        try:
            Scope(self.sites, self.exclude, self.since, prefix, self.site)
            if self.web:
                AllowedHosts(self.allow_hosts, f"{prefix}allow-host")
        except ConfigError as error:
            yield error
        for name, address in self.engines.items():
            try:
                if address and SEARCH_ENGINES[name].example:
                    checked_url(address)
            except PageError as error:
                yield ConfigError(f"{prefix}{name}: {error}", argument=name)
