"""Research as it is recorded: what its program is, how a step is written down, what is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from civitas.errors import CivitasError
from civitas.journal.run import ReadPart
from civitas.jsonvalue import as_json
from civitas.models.protocol import Usage
from civitas.reasoning.read_record import ReadRecord, fingerprint
from civitas.reasoning.reply import Reply
from civitas.reasoning.state import dumped, loaded
from civitas.research.findings import Objective, Progress, Resource
from civitas.research.pool import ResourcePool
from civitas.research.report import Report, made

if TYPE_CHECKING:
    from civitas.journal import Entry
    from civitas.journal.run import RecordedPart
    from civitas.research.workbench import Workbench

KIND = "Researcher"
_CAME_TO = {
    "narrate": ("narrative", "citations", "unsupported", "uncited"),
    "evaluate": ("objectives", "generated", "remark"),
}


def program_of(researcher: Workbench) -> dict[str, Any]:
    """What a researcher does, whatever its objectives and however many iterations it may make."""
    parts: dict[str, Any] = {
        "agent": [KIND, str(researcher.id)],
        "role": researcher.role,
        "tools": sorted(
            [tool.name, tool.description, tool.parameters] for tool in researcher.tools.values()
        ),
        "steps": [type(each).__name__ for each in researcher.steps.values()],
    }
    try:
        parts["model"] = getattr(researcher.model, "name", None)
    except CivitasError:
        pass  # one that cannot be made fails where it is asked
    return fingerprint(**parts)


def step_of(researcher: Workbench, step: str, numbered: int) -> dict[str, Any]:
    """What a step came to, as JSON data; of Research and Update in short."""
    progress, results = researcher.progress, researcher.results
    if step == "plan":
        return {"tasks": as_json(researcher.tasks)}
    if step == "research":
        named = ("tool", "args", "citation", "error")
        return {"results": [{n: getattr(each, n) for n in named} for each in results]}
    if step == "update":
        found = [each for result in results for each in result.resources]
        about = ("url", "description", "visited")
        return {"resources": [{n: getattr(each, n) for n in about} for each in found]}
    data = {name: as_json(getattr(progress, name)) for name in _CAME_TO[step]}
    return data | ({"passages": as_json(progress.passages[numbered:])} if step == "narrate" else {})


def take_step(progress: Progress, data: dict[str, Any]) -> None:
    """Have progress be where a step left it that was recorded."""
    progress.usage = progress.usage + Usage(*data.get("spent", (0, 0)))
    given = loaded(Progress, data, "a recorded step")
    for name in data.keys() - {"spent", "tasks"}:
        if name == "passages":
            progress.passages.extend(given.passages)
        elif name == "objectives":
            reached = {each.topic: each.expertise for each in given.objectives}
            for each in progress.objectives:
                each.expertise = reached.get(each.topic, each.expertise)
        else:
            setattr(progress, name, getattr(given, name))


def reply_of(report: Report, run_id: str | None, error: BaseException | None = None) -> Reply:
    """A report as an agent's reply: research that ended by itself is done, whatever ended it."""
    quiet = report.stop_reason in ("max_iterations", "no_progress")
    reason = "done" if quiet else report.stop_reason
    detail = report.detail
    return Reply(report.markdown, report, [], [], report.usage, reason, detail, error, run_id)


def over(reply: Reply) -> dict[str, Any]:
    """What is recorded of a reply, beside why it ended."""
    return {"detail": reply.detail, "text": reply.text, "report": report_json(reply.value)}


def report_json(report: Report) -> dict[str, Any]:
    """A report as JSON data."""
    return {name: value for name, value in dumped(report).items() if name != "run_id"}


def replayed(part: RecordedPart) -> Reply:
    """The reply that a run ended with."""
    record = ReadRecord(part, Progress)
    assert record.over is not None
    return reply_of(_ended_with(record), part.run_id)


def _ended_with(record: ReadRecord[Progress]) -> Report:
    report = {**(record.over or {})["report"], "run_id": record.run_id}
    return loaded(Report, report, "a recorded report")


def report_so_far(run_id: str, entries: Sequence[Entry], *, under_way: bool = False) -> Report:
    """The report of a run, or what is known until now as one, by all that was recorded of it.

    What another version of civitas recorded, or something else than a researcher, is a StateError.
    """
    record = ReadRecord(ReadPart(run_id, entries), Progress)
    if record.over is not None and "report" in record.over:
        return _ended_with(record)
    begun = record.begun or {}
    progress = record.state or Progress()
    if not progress.objectives:
        topics = str(begun.get("task", "")).splitlines()
        progress.objectives = [Objective(each) for each in topics if each.strip()]
    pool = ResourcePool(progress.changes)
    for past in record.past(f"{progress.iteration + 1}."):
        if past.state == "ended" and isinstance(past.result, dict):
            step = past.key.partition(".")[2]
            if step.isdecimal():  # a task
                outcome = past.result.get("result")
                found = outcome.get("result") if isinstance(outcome, dict) else None
                resources = found.get("resources", ()) if isinstance(found, dict) else ()
                for each in resources:
                    pool.add(loaded(Resource, each, "a resource"))
            elif step in ("plan", "narrate", "evaluate"):
                take_step(progress, past.result)
    progress.stop = progress.stop or "cancelled"
    asked = any("model" in entry.data.get("about", ()) for entry in entries)
    known = pool.get_all()
    return made(progress, known, run_id, extractive=not asked, under_way=under_way)
