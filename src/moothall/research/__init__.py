"""Research: plan, research, update, narrate, evaluate, until the objectives are understood."""

from __future__ import annotations

from moothall.text import lazily

_NAMES = {
    "asking": "ask ask_async",
    "citations.support": "support",
    "findings": "Citation Findings Heading Narrative Objective Passage Publication "
    "ResearchResult ResearchTask Resource Section Support",
    "folder.index": "search_folder",
    "pool": "ResourcePool",
    "report": "Report",
    "researcher": "Researcher",
    "steps": "Evaluate Narrate Plan Research Update",
    "web.scholarly": "search_arxiv search_crossref",
    "writing.review": "ProposedPlan",
    "web.tools": "read_pdf search_web visit_page",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazily(__name__, _HOME)
