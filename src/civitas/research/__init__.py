"""Research: plan, research, update, narrate, evaluate, until the objectives are understood."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Citation": "findings",
    "Evaluate": "steps",
    "Findings": "findings",
    "Narrate": "steps",
    "Narrative": "findings",
    "Objective": "findings",
    "Passage": "findings",
    "Plan": "steps",
    "Report": "report",
    "Research": "steps",
    "ResearchResult": "findings",
    "ResearchTask": "findings",
    "Researcher": "researcher",
    "Resource": "findings",
    "ResourcePool": "pool",
    "Section": "findings",
    "Update": "steps",
    "read_pdf": "web.pages",
    "search_folder": "folder.search",
    "search_web": "web.search",
    "visit_page": "web.pages",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas.research' has no attribute {name!r}")
    return getattr(importlib.import_module(f"civitas.research.{home}"), name)
