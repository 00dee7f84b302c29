"""The catalogues of works that a command and a page offer to search, each by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class _Catalogue(NamedTuple):
    label: str
    finds: str


CATALOGUES: Final = {
    "arxiv": _Catalogue("arXiv", "preprints"),
    "crossref": _Catalogue("Crossref", "published works"),
}
"""By the name of the tool without its `search_`: `moothall.research` has `search_arxiv`."""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """Which catalogues an order searches, as its run records it."""

    arxiv: bool = False
    crossref: bool = False

    @property
    def catalogues(self) -> list[str]:
        """The names of those that are searched."""
        return [name for name in CATALOGUES if getattr(self, name)]
