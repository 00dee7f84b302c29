"""Records of research: the program's fingerprint, the data of a step, and replay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moothall import ConfigError, MoothallError, Reply, Usage
from moothall.build import Record, as_json, load_state
from moothall.journal import Entry
from moothall.research.findings import Objective, Progress, ResearchTask
from moothall.research.report import Report, end_in_words, report_of
from moothall.research.resource_pool import ResourcePool
from moothall.research.tool_calls import result_of

if TYPE_CHECKING:
    from moothall.research.researcher_protocol import ResearcherProtocol
    from moothall.research.workbench import Workbench

_RESULT_FIELDS = {
    "narrate": (
        *("narrative", "citations", "supports", "unsupported", "uncited", "unjudged", "outline"),
        "contradictions",
    ),
    "evaluate": ("objectives", "generated", "remark", "estimated", "unanswered"),
}


def fingerprint_of(researcher: ResearcherProtocol) -> dict[str, Any]:
    """Return the fingerprint of a researcher, without its objectives and iterations."""
    parts: dict[str, Any] = {
        "agent": [Report.run_kind, str(researcher.id)],
        "role": researcher.role,
        "tools": sorted(
            [tool.name, tool.description, tool.parameters] for tool in researcher.tools.values()
        ),
        "steps": [type(each).__name__ for each in researcher.steps.values()],
    }
    try:
        parts["model"] = getattr(researcher.model, "name", None)
    except MoothallError:
        pass  # a model that cannot be made fails when it is asked
    steps = ("plan", "narrate", "evaluate")
    if any(researcher.model_of(each) is not researcher.model for each in steps):
        names = [getattr(researcher.model_of(each), "name", None) for each in steps]
        parts["models"] = names
    if any(researcher.style.style_options().values()):
        parts["style"] = as_json(researcher.style)
    if researcher.outline:
        parts["outline"] = researcher.outline
    return Record.fingerprint(**parts)


def is_of_any_step(steps: Collection[str], entry: Entry) -> bool:
    """Return whether an entry is of one of these steps; a key is `1.plan.2`."""
    return entry.key.split(".")[1:2] in [[each] for each in steps]


def step_data(bench: Workbench, step: str, progress_before: Progress) -> dict[str, Any]:
    """Return the result of a step as JSON data; that of Research and Update abridged."""
    progress, results = bench.progress, bench.results
    extra_data: dict[str, Any] = {}
    if notes := progress.notes[len(progress_before.notes) :]:
        extra_data["notes"] = notes
    if progress.used != progress_before.used:
        no_usage = Usage()
        spent = {
            name: each - progress_before.used.get(name, no_usage)
            for name, each in progress.used.items()
        }
        extra_data["used"] = {name: as_json(each) for name, each in spent.items() if each.total}
    if step == "plan":
        if progress.outline:
            extra_data["outline"] = as_json(progress.outline)
        if bench.is_cut:
            extra_data["is_cut"] = True
        return {"tasks": as_json(bench.tasks), **extra_data}
    if step == "research":
        names = ("tool", "args", "citation", "error")
        return {"results": [{n: getattr(each, n) for n in names} for each in results]}
    if step == "update":
        resources = [each for result in results for each in result.resources]
        fields = ("url", "description", "visited")
        return {"resources": [{n: getattr(each, n) for n in fields} for each in resources]}
    data = {name: as_json(getattr(progress, name)) for name in _RESULT_FIELDS[step]} | extra_data
    if step == "narrate":
        data["passages"] = as_json(progress.passages[len(progress_before.passages) :])
    return data


def apply_step(progress: Progress, data: dict[str, Any]) -> None:
    """Apply the data of a recorded step to the progress."""
    progress.usage = progress.usage + Usage(*data.get("spent", (0, 0)))
    recorded = load_state(Progress, data, "a recorded step")
    for name in data.keys() - {"spent", "tasks", "is_cut"}:
        if name in ("passages", "notes"):
            getattr(progress, name).extend(getattr(recorded, name))
        elif name == "used":
            for model, usage in recorded.used.items():
                progress.used[model] = progress.used.get(model, Usage()) + usage
        elif name == "objectives":
            expertise_by_topic = {each.topic: each.expertise for each in recorded.objectives}
            for each in progress.objectives:
                each.expertise = expertise_by_topic.get(each.topic, each.expertise)
        else:
            setattr(progress, name, getattr(recorded, name))


def reply_of(report: Report, run_id: str | None, error: BaseException | None = None) -> Reply:
    """Return a report as an agent's reply; `max_iterations` and `no_progress` become `done`."""
    reason = "done" if report.stop_reason in Report.completed else report.stop_reason
    text, detail = report.markdown, report.detail
    return Reply(text, report, [], [], report.usage, reason, detail, error, run_id)


def end_data(reply: Reply) -> dict[str, Any]:
    """Return what is recorded of a reply, beside its stop reason."""
    return {"detail": reply.detail, "text": reply.text, "report": reply.value.to_json()}


def why_ended(entry: Entry) -> str:
    """Return why research ended, in words, from the entry of its end; empty if it was done."""
    report = entry.data.get("report") or {}
    reason = str(report.get("stop_reason", entry.reason))
    detail = "" if reason in Report.completed else entry.detail
    return end_in_words(reason, detail).partition(": ")[2]


def replayed_reply(run_id: str, entries: Iterable[Entry]) -> Reply:
    """Return the reply that a run ended with; one that was cut off has the report so far."""
    return reply_of(report_so_far(run_id, [*entries]), run_id)


def reply_at_end(record: Record[Progress]) -> Reply:
    """Return the reply of a run that is over."""
    assert record.over is not None
    return reply_of(_report_at_end(record.over, record.run_id), record.run_id)


def _report_at_end(end: dict[str, Any], run_id: str) -> Report:
    return load_state(Report, {**end["report"], "run_id": run_id}, "a recorded report")


def report_so_far(run_id: str, entries: Sequence[Entry], *, under_way: bool = False) -> Report:
    """Return the report of a run, or if it has none yet, one of all that was recorded.

    Raises StateError if no researcher, or another version of moothall, recorded the run;
    ConfigError if the id is no text, or the entries are none of a journal's.
    """
    if not isinstance(run_id, str):
        raise ConfigError(f"report_so_far: run_id must be a text, got {run_id!r:.80}")
    if not isinstance(entries, Sequence) or not all(isinstance(each, Entry) for each in entries):
        got = f"got {entries!r:.80}: Journal.entries has those of a run"
        raise ConfigError(f"report_so_far: entries must be a list of entries, {got}")
    record = Record.read(run_id, entries, Progress)
    if record.over is not None and "report" in record.over:
        return _report_at_end(record.over, run_id)
    start = record.start or {}
    progress = record.state or Progress()
    if not progress.objectives:
        topics = str(start.get("task", "")).splitlines()
        progress.objectives = [Objective(each) for each in topics if each.strip()]
    pool = ResourcePool(progress.changes)
    for past_step in record.past(f"{progress.iteration + 1}."):
        if past_step.state == "ended" and isinstance(past_step.result, dict):
            step = past_step.key.partition(".")[2]
            if step.isdecimal():  # a task
                tool, args = str(past_step.about.get("action")), past_step.result.get("args", {})
                result = result_of(ResearchTask(tool, args, ""), past_step.result.get("result"))
                progress.note_faults([result])
                for each in result.resources:
                    pool.add(each)
            elif step in ("plan", "narrate", "evaluate"):
                apply_step(progress, past_step.result)
    if record.over is not None:  # it was cancelled after it was cut off
        progress.detail = record.over["detail"]
    progress.stop = progress.stop or "cancelled"
    program = start.get("fingerprint", {})
    steps = str(program.get("steps", ""))  # hashed if it is long
    has_own_steps = steps.startswith("[") and '"Narrate"' not in steps
    has_model = any("model" in entry.subject for entry in entries)
    extractive = not (has_own_steps or has_model) and program.get("model") == "null"
    return report_of(progress, pool.get_all(), run_id, extractive=extractive, under_way=under_way)
