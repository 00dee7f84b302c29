"""Ten questions of research: five over `docs`, five over manual pages of this machine.

A report is right if it has the text that answers its question; the texts were fixed before the
first run. The same questions are asked without a model. A footnote stands if its passage supports
its sentence by the report's own check. Every second question is shut.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.minds.mind import Outcomes
from moothall import Researcher
from moothall.models import Model
from moothall.research import search_folder

DOCS = Path(__file__).parents[2] / "docs"
MANUAL = Path("/usr/share/man/man1")
PAGES = ("comm", "du", "mktemp", "nice", "nohup", "shuf", "split", "tee", "timeout", "xargs")
QUESTIONS = [
    (DOCS, "Which environment variable gives the key of a remote model?", "MOOTHALL_KEY"),
    (DOCS, "How many events does the stream of a citizen with a model keep?", "200"),
    (MANUAL, "With which status does timeout exit if the command times out?", "124"),
    (MANUAL, "How many lines does each piece have that split makes by default?", "1000"),
    (DOCS, "How many requests long may a call chain be?", "32"),
    (DOCS, "How many tokens does get_memories return at most?", "8192"),
    (MANUAL, "To which file does nohup append the output of a command?", "nohup.out"),
    (MANUAL, "Which niceness is the most favorable to a process?", "-20"),
    (DOCS, "Which exception is raised if a call chain is too long?", "HopLimitExceeded"),
    (MANUAL, "With which status does xargs exit if the command is not found?", "127"),
]


def asked(model: Model | None, place: Path, question: str, says: str) -> dict[str, Any]:
    """What research reports, in one iteration with four passages for each search."""
    with tempfile.TemporaryDirectory() as folder:
        if place == MANUAL:
            for name in PAGES:
                packed = (MANUAL / f"{name}.1.gz").read_bytes()
                Path(folder, f"{name}.1").write_bytes(gzip.decompress(packed))
            place = Path(folder)
        report = Researcher(
            "r",
            model,
            objectives=[question],
            tools=[search_folder(place, results=4)],
            iterations=1,
        ).report_sync()
    said = report.markdown.partition("\n## Sources")[0]
    return {
        "right": says in said,
        "footnotes": len(report.citations) + len(report.unsupported),
        "stand": len(report.citations),
        "text": said[:1500],
        "notes": report.notes,
        "expertise": [each.expertise for each in report.objectives],
    }


def run(model: Model | None, outcomes: Outcomes, count: int, shut: bool) -> Any:
    """The outcomes of some questions."""
    part = "research" if model is not None else "research, no model"
    return [
        outcomes.of(part, each[1], lambda e=each: asked(model, *e))
        for each in QUESTIONS[shut::2][:count]
    ]
