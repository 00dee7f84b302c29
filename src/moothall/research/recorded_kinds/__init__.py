"""What the records of a researcher have: checked where a journal is read."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from moothall import Call
from moothall.build import counted
from moothall.journal import RunKind


class _ReportResourceData(TypedDict):
    url: str
    description: NotRequired[str | None]


class _ReportResourcesData(TypedDict):
    resources: list[_ReportResourceData]


class _ReportFoundData(TypedDict):
    error: NotRequired[Any]
    result: NotRequired[_ReportResourcesData | list[Any] | str | float | bool | None]


class _ReportOutcomeData(TypedDict):
    args: dict[str, Any] | str | None
    result: _ReportFoundData


class _ReportCallEndData(TypedDict):
    result: _ReportOutcomeData


class _ReportSpentData(TypedDict):
    spent: NotRequired[list[int]]
    notes: NotRequired[list[str]]


class _ReportTaskData(TypedDict):
    tool: str
    args: dict[str, Any]
    reasoning: NotRequired[str]


class _ReportPlanData(_ReportSpentData):
    tasks: list[_ReportTaskData]


class _ReportResultData(TypedDict):
    tool: str
    args: dict[str, Any]
    error: str | None


class _ReportResearchData(_ReportSpentData):
    results: list[_ReportResultData]


class _ReportNarrativeData(_ReportSpentData):
    narrative: str
    citations: list[Any]
    unsupported: list[Any]


class _ReportObjectiveData(TypedDict):
    topic: str
    expertise: Annotated[float, Field(ge=0, le=1)]


class _ReportEvaluationData(_ReportSpentData):
    objectives: list[_ReportObjectiveData]
    generated: list[_ReportObjectiveData]
    remark: str


class _ReportPlanEndData(TypedDict):
    result: _ReportPlanData


class _ReportResearchEndData(TypedDict):
    result: _ReportResearchData


class _ReportNarrativeEndData(TypedDict):
    result: _ReportNarrativeData


class _ReportEvaluationEndData(TypedDict):
    result: _ReportEvaluationData


class _ReportStepEndData(TypedDict):
    result: _ReportSpentData


class _ReportReportEndData(TypedDict):
    text: str
    detail: str
    report: NotRequired[dict[str, Any]]


class _ReportRequestData(TypedDict):
    task: str | list[Any]
    thread: str | None


def _step_in_words(data: dict[str, Any]) -> str:
    result, (iteration, _, step) = data.get("result"), str(data["key"]).partition(".")
    if not isinstance(result, dict) or "spent" not in result or "about" in data:
        return ""
    if "tasks" in result:
        calls = [Call("", each["tool"], each["args"]).line for each in result["tasks"]]
        outcome = "; ".join(calls) or "no task is left"
    elif "narrative" in result:
        outcome = f"{counted(len(result['citations']), 'citation')}"
        outcome += f", {counted(len(result['unsupported']), 'sentence')} unsupported"
    elif "objectives" in result:
        objectives = [f"{each['expertise']:.2f} {each['topic']}" for each in result["objectives"]]
        outcome = "; ".join(filter(None, [*objectives, result["remark"]]))
    else:
        return ""
    return f"iteration {iteration}, {step}: {outcome}"


def _found_in_words(result: dict[str, Any]) -> str:
    if result.keys() != {"value", "resources"}:
        return ""
    resources = [str(each.get("description") or each["url"]) for each in result["resources"]]
    return f"{counted(len(resources), 'resource')}: {'; '.join(resources)}"


RunKind(
    "Researcher",
    {
        "begun": _ReportRequestData,
        "call": _ReportCallEndData,
        "plan": _ReportPlanEndData,
        "research": _ReportResearchEndData,
        "narrate": _ReportNarrativeEndData,
        "evaluate": _ReportEvaluationEndData,
        "step": _ReportStepEndData,
        "over": _ReportReportEndData,
    },
    ("text",),
    "moothall.research.recording",
    has_numbered_steps=True,
    words={"ended": _step_in_words, "call": _found_in_words},
    nouns={"done": "task"},
).register()
