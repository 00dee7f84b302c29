"""Pages, a search and a reader for tests, and what a scripted model says about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from moothall import Action, action
from moothall.research import Resource, ResourcePool

PAGES = {
    "http://web.test/alpha": (
        "The alpha protocol",
        "The alpha protocol was written in 1998 by Ada Stone. It uses port 4711. "
        "It never encrypts its messages.",
    ),
    "http://web.test/beta": (
        "The beta protocol",
        "The beta protocol replaced alpha in 2004. Beta encrypts every message with a key of "
        "128 bits.",
    ),
}


def tools(note: Callable[[str], None] = lambda what: None) -> list[Action]:
    """A search that finds both pages, and a reader."""

    @action(idempotent=True)
    async def search(query: str) -> list[Resource]:
        """Search the web.

        Args:
            query: words
        """
        note(f"search {query}"[:20])
        return [Resource(url, title) for url, (title, _) in PAGES.items()]

    @action(idempotent=True)
    async def read(url: str, pool: ResourcePool) -> Resource:
        """Read a page.

        Args:
            url: where it is
        """
        note(f"read {url[-5:]}")
        if url not in PAGES:
            raise LookupError(f"404 for {url}")
        assert pool.find(url) is not None
        return Resource(url, PAGES[url][0], True, PAGES[url][1])

    return [Action.of(search), Action.of(read)]


def plan(*tasks: tuple[str, dict[str, Any]]) -> str:
    """A plan, as a model writes it."""
    made = [{"tool": tool, "args": args, "reasoning": "it helps"} for tool, args in tasks]
    return json.dumps({"tasks": made})


def evaluation(
    expertise: dict[str, float], generated: tuple[str, ...] = (), remark: str = "Go on."
) -> str:
    """An evaluation, as a model writes it."""
    return json.dumps(
        {
            "objectives": [{"topic": t, "expertise": e} for t, e in expertise.items()],
            "generated_objectives": list(generated),
            "remark": remark,
        }
    )


ALPHA, BETA = PAGES
SCRIPT = [
    plan(("search", {"query": "alpha"})),
    evaluation({"alpha": 0.1}, ("encryption of alpha",), "Read both pages."),
    plan(("read", {"url": ALPHA}), ("read", {"url": BETA})),
    "The alpha protocol uses port 4711.[^1^] It was written in 1999.[^1^] "
    "Beta encrypts every message.[^2^] Gamma is the best.[^9^]",
    evaluation({"alpha": 0.95}),
]
"""What a model says in a run of two iterations."""


def verdicts(*labels: str, why: str = "another port", passages: tuple[int, ...] = ()) -> str:
    """What a judging model answers: a verdict for each sentence, in order."""
    each = {"why": why, "passages": passages, "probability": 0.9}
    numbered = enumerate(labels, 1)
    return json.dumps(
        {"verdicts": [{"sentence": n, "label": label, **each} for n, label in numbered]}
    )
