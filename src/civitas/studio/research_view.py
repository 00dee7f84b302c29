"""What the entries of a research run say of how far it is, as a page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from civitas.journal.entry import ROOT, Entry, Outline
from civitas.orders.order import ResearchOrder, of_entry
from civitas.reasoning.charging import spending
from civitas.research.report import ENDED
from civitas.text import printable, shorten

STEPS: Final = ("plan", "research", "update", "narrate", "evaluate")
_CHARS: Final = 2_000
_RESOURCES: Final = 500
"""So many resources are shown at most, the last that were found."""


def research_view(outline: Outline, entries: Sequence[Entry]) -> dict[str, Any]:
    """How far a research run is, of what was recorded of it from the first entry on, as JSON data.

    `step` and `asking`, the model that is asked now, are None where nobody works on it; `over` says
    why it has ended. `found` and `read` are of all resources, of which the last are listed.
    """
    view = _View()
    for entry in entries:
        view.take(entry)
    return view.told(outline, entries)


class _View:
    def __init__(self) -> None:
        self._order: ResearchOrder | None = None
        self._objectives: dict[str, list[float]] = {}
        self._generated: list[dict[str, Any]] = []
        self._iteration = 1
        self._step = "plan"
        self._tasks: list[dict[str, Any]] = []
        self._resources: dict[str, dict[str, Any]] = {}
        self._narrative: dict[str, Any] | None = None
        self._remarks: list[dict[str, Any]] = []
        self._heard: list[str] = []
        self._asking: dict[str, str] = {}
        self._over: dict[str, Any] | None = None
        self._at: float | None = None
        self._seconds = 0.0

    def take(self, entry: Entry) -> None:
        """Take one entry."""
        order = of_entry(entry)
        if isinstance(order, ResearchOrder):
            self._order = order
            self._want(order.objectives)
        if entry.path != ROOT:
            return
        # Between the end of a run and its going on nothing was done.
        if self._at is not None and self._over is None:
            self._seconds += max(entry.at - self._at, 0.0)
        self._at, self._over = entry.at, None
        kind, data = entry.kind, entry.data
        if kind == "begun" and not self._objectives:
            self._want(str(data["task"]).splitlines())
        elif kind == "heard":
            self._heard.append(_cut(data["content"]))
        elif kind == "state":
            self._iteration, self._step = data["state"]["iteration"] + 1, "plan"
            self._tasks_left("failed", "it could not be called: its arguments are wrong")
        elif kind == "over":
            self._end(data)
        elif kind in ("started", "ended", "failed"):
            about = data.get("about", {})
            if "model" in about:
                self._asked(kind, data, about)
            elif "action" in about:
                self._task(kind, data, about)
            elif kind == "ended":
                self._ended(entry)

    def told(self, outline: Outline, entries: Sequence[Entry]) -> dict[str, Any]:
        """What a page is told."""
        runs = outline.state == "running"
        if not runs:
            self._tasks_left("not done", "")
        spent = spending(each for each in entries if each.path == ROOT and each.kind != "heard")
        resources = list(self._resources.values())
        return {
            "run": asdict(outline),
            "last": entries[-1].sequence if entries else 0,
            "order": None if self._order is None else asdict(self._order),
            "iteration": self._iteration,
            "done": self._iteration - 1,
            "step": self._step if runs else None,
            "asking": next(iter(self._asking.values()), None) if runs else None,
            "objectives": [
                {"topic": topic, "expertise": (reached or [0.0])[-1], "reached": reached}
                for topic, reached in self._objectives.items()
            ],
            "generated": self._generated,
            "tasks": self._tasks,
            "resources": resources[-_RESOURCES:],
            "found": len(resources),
            "read": sum(each["visited"] for each in resources),
            "narrative": self._narrative,
            "remarks": self._remarks,
            "heard": self._heard,
            "spent": {
                "tokens": spent.tokens,
                "usd": float(spent.usd),
                "model_calls": spent.model_calls,
                "actions": spent.actions,
            },
            "seconds": round(self._seconds, 1),
            "over": self._over,
        }

    # -- the kinds of entries ----------------------------------------------------------------------

    def _want(self, topics: Sequence[str]) -> None:
        for topic in topics:
            if topic.strip():
                self._objectives.setdefault(topic, [])

    def _asked(self, kind: str, data: dict[str, Any], about: dict[str, Any]) -> None:
        """The model is asked, or has answered."""
        if kind == "started":
            self._asking[data["key"]] = str(about["model"] or "the model")
            self._step = next((s for s in STEPS if data["key"].split(".")[1:2] == [s]), self._step)
        else:
            self._asking.pop(data["key"], None)

    def _task(self, kind: str, data: dict[str, Any], about: dict[str, Any]) -> None:
        number = int(str(about["id"]).rpartition("_")[2])
        task = next(
            (t for t in self._tasks if t["iteration"] == self._iteration and t["number"] == number),
            None,
        )
        if task is None:
            return
        self._step = "research"
        if kind == "started":
            task["state"] = "running"
        elif kind == "failed":
            task |= {"state": "failed", "error": _cut(data["error"])}
        else:
            outcome = (data.get("result") or {}).get("result") or {}
            error = outcome.get("error")
            task["state"] = "ended" if error is None else "failed"
            task["error"] = None if error is None else _cut(error)
            found = outcome.get("result")
            self._found(task, found.get("resources", ()) if isinstance(found, dict) else ())
        if not any(t["state"] in ("waiting", "running") for t in self._tasks):
            self._step = "narrate"  # Update takes no time

    def _found(self, task: dict[str, Any], resources: Sequence[dict[str, Any]]) -> None:
        task["found"], task["read"] = len(resources), sum(bool(r["visited"]) for r in resources)
        for each in resources:
            known = self._resources.pop(each["url"], {"title": "", "visited": False})
            self._resources[each["url"]] = {
                "url": _cut(each["url"]),
                "title": _cut(each.get("description") or known["title"], 300),
                "visited": bool(each["visited"]) or known["visited"],
            }

    def _ended(self, entry: Entry) -> None:
        """A step of the iteration has ended."""
        iteration, _, step = str(entry.data["key"]).partition(".")
        result = entry.data.get("result")
        if not isinstance(result, dict):
            return
        if step == "plan":
            self._step = "research"
            self._tasks += [
                {
                    "iteration": int(iteration),
                    "number": number,
                    "tool": each["tool"],
                    "args": {name: _cut(value) for name, value in each["args"].items()},
                    "why": _cut(each["reasoning"]),
                    "state": "waiting",
                    "error": None,
                    "found": 0,
                    "read": 0,
                }
                for number, each in enumerate(result["tasks"], 1)
            ]
        elif step == "narrate":
            self._step = "evaluate"
            self._narrative = {
                "at": entry.sequence,
                "iteration": int(iteration),
                "empty": not result["narrative"].strip(),
                "citations": len(result["citations"]),
                "unsupported": [[_cut(said), _cut(why)] for said, why in result["unsupported"]],
                "uncited": result["uncited"],
            }
        elif step == "evaluate":
            for each in result["objectives"]:
                self._objectives.setdefault(each["topic"], []).append(each["expertise"])
            self._generated = result["generated"]
            if result["remark"]:
                self._remarks.append({"iteration": int(iteration), "text": _cut(result["remark"])})

    def _end(self, data: dict[str, Any]) -> None:
        report = data.get("report") or {}
        reason = report.get("stop_reason") or data["reason"]
        detail = data.get("detail") or ""
        self._over = {"reason": reason, "words": ENDED.get(reason, reason), "detail": _cut(detail)}

    def _tasks_left(self, state: str, why: str) -> None:
        """What becomes of tasks that neither ended nor failed."""
        for task in self._tasks:
            if task["state"] in ("waiting", "running"):
                task |= {"state": state, "error": why or None}


def _cut(value: Any, chars: int = _CHARS) -> Any:
    return printable(shorten(value, chars)) if isinstance(value, str) else value
