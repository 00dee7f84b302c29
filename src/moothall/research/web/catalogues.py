"""What a command and a page offer to search on the web: engines, and catalogues of works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple


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
