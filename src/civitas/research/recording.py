"""Research as it is recorded: what its program is, how a step is written down, what is replayed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from civitas.errors import CivitasError
from civitas.jsonvalue import as_json
from civitas.models.protocol import Usage
from civitas.reasoning.read_record import ReadRecord, fingerprint
from civitas.reasoning.reply import Reply
from civitas.reasoning.state import dumped, loaded, usage_json
from civitas.research.findings import Progress, ResearchTask
from civitas.research.report import Report

if TYPE_CHECKING:
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


def take_step(researcher: Workbench, data: dict[str, Any]) -> None:
    """Have a researcher be where a step left it that was recorded."""
    progress, data = researcher.progress, dict(data)
    progress.usage = progress.usage + Usage(*data.pop("spent", (0, 0)))
    researcher.tasks = [ResearchTask(**each) for each in data.pop("tasks", ())] or researcher.tasks
    given = loaded(Progress, data, "a recorded step")
    for name in data:
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
    """A report as JSON data, with each passage once."""
    passages = list(dict.fromkeys(each.passage for each in report.citations))
    data = dumped(report) | {"passages": as_json(passages), "usage": usage_json(report.usage)}
    data["citations"] = [
        [each.number, each.sentence, passages.index(each.passage)] for each in report.citations
    ]
    del data["run_id"]
    return data


def report_of_json(given: dict[str, Any], run_id: str) -> Report:
    """A report, as it was recorded."""
    citations = [
        {"number": number, "sentence": sentence, "passage": given["passages"][at]}
        for number, sentence, at in given["citations"]
    ]
    usage = asdict(Usage(*given["usage"]))
    more = {"citations": citations, "usage": usage, "run_id": run_id}
    return loaded(Report, given | more, "a recorded report")


def replayed(part: RecordedPart) -> Reply:
    """The reply that a run ended with."""
    record = ReadRecord(part, Progress)
    assert record.over is not None
    report = report_of_json(record.over["report"], part.run_id)
    return reply_of(report, part.run_id)
