"""The report of a run as far as it is recorded: for whoever looks on, in whatever process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from civitas.journal.run import ReadPart
from civitas.reasoning.read_record import ReadRecord
from civitas.reasoning.state import loaded
from civitas.research.findings import Objective, Progress, Resource
from civitas.research.recording import report_of_json, take_step
from civitas.research.report import Report, made
from civitas.research.researcher import Researcher

if TYPE_CHECKING:
    from civitas.journal import Entry


def report_so_far(run_id: str, entries: Sequence[Entry], *, under_way: bool = False) -> Report:
    """The report of a run, or what is known until now as one, by all that was recorded of it.

    What another version of civitas recorded, or something else than a researcher, is a StateError.
    """
    record = ReadRecord(ReadPart(run_id, entries), Progress)
    if record.over is not None and "report" in record.over:
        return report_of_json(record.over["report"], run_id)
    begun = record.begun or {}
    progress = record.state or Progress()
    if not progress.objectives:
        topics = str(begun.get("task", "")).splitlines()
        progress.objectives = [Objective(each) for each in topics if each.strip()]
    researcher = Researcher(str(begun.get("agent", "researcher")), None, progress.objectives)
    researcher._begin_anew(progress)
    researcher.run_id = run_id
    for past in record.past(f"{researcher.iteration}."):
        if past.state == "ended" and isinstance(past.result, dict):
            step = past.key.partition(".")[2]
            if step.isdecimal():  # a task
                outcome = past.result.get("result")
                found = outcome.get("result") if isinstance(outcome, dict) else None
                resources = found.get("resources", ()) if isinstance(found, dict) else ()
                for each in resources:
                    researcher.resources.add(loaded(Resource, each, "a resource"))
            elif step in ("plan", "narrate", "evaluate"):
                take_step(researcher, past.result)
    if progress.stop is None:
        progress.stop = "cancelled"
    asked = any("model" in entry.data.get("about", ()) for entry in entries)
    return made(researcher, extractive=not asked, under_way=under_way)
