"""The progress of a research run, computed from its entries, as a page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from moothall.journal.entry import ROOT, Entry, Outline
from moothall.orders.order import ResearchOrder, of_entry
from moothall.research.report import ENDED
from moothall.studio.run_view import Totals, told_of
from moothall.text import printable, shorten

STEPS: Final = ("plan", "research", "update", "narrate", "evaluate")
_CHARS: Final = 2_000
_RESOURCES: Final = 500
"""The most resources that are listed: those found last."""
_OPEN: Final = ("waiting", "running")


def research_view(outline: Outline, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the progress of a research run as JSON data; `entries` are all its entries so far.

    `step` and `asking` (the model that is being asked) are None unless the run is under way. `over`
    says why it ended. `found` and `read` count all resources; only the last ones are listed.
    """
    view = _View()
    for entry in entries:
        view.take(entry)
    told, runs = view.told, outline.under_way
    if not runs:
        view.tasks_left("not done", None)
        told["step"] = None
    resources = list(view.resources.values())
    return told | {
        "run": told_of(outline),
        "last": entries[-1].sequence if entries else 0,
        "done": told["iteration"] - 1,
        "asking": next(iter(view.asking.values()), None) if runs else None,
        "objectives": list(view.objectives.values()),
        "tasks": list(view.tasks.values()),
        "resources": resources[-_RESOURCES:],
        "found": len(resources),
        "read": sum(each["visited"] for each in resources),
        "totals": Totals(entries).to_json(),
    }


class _View:
    """The data for a page, built up entry by entry."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {
            "order": None,
            "iteration": 1,
            "step": "plan",
            "generated": [],
            "narrative": None,
            "remarks": [],
            "heard": [],
            "over": None,
        }
        self.objectives: dict[str, dict[str, Any]] = {}
        self.tasks: dict[tuple[int, int], dict[str, Any]] = {}  # by iteration and number
        self.resources: dict[str, dict[str, Any]] = {}
        self.asking: dict[str, str] = {}

    def take(self, entry: Entry) -> None:
        """Add one entry."""
        told, kind, data = self.told, entry.kind, entry.data
        order = of_entry(entry)
        if isinstance(order, ResearchOrder):
            told["order"] = asdict(order) | {"where": order.where}
            self._want(order.objectives)
        if entry.path != ROOT:
            return
        told["over"] = None
        if kind == "begun" and not self.objectives:
            self._want(str(data["task"]).splitlines())
        elif kind == "heard":
            told["heard"].append(_cut(data["content"]))
        elif kind == "state":
            told |= {"iteration": data["state"]["iteration"] + 1, "step": "plan"}
            self.tasks_left("failed", "it could not be called: its arguments are wrong")
        elif kind == "over":
            reason = (data.get("report") or {}).get("stop_reason") or data["reason"]
            detail = "" if reason == "cancelled" else _cut(data.get("detail") or "")
            words = ENDED.get(reason, reason)
            told["over"] = {"reason": reason, "words": words, "detail": detail}
        elif kind in ("started", "ended", "failed"):
            about = data.get("about", {})
            if "model" in about:
                self._asked(kind, data, about)
            elif "action" in about:
                self._task(kind, data, about)
            elif kind == "ended" and isinstance(data.get("result"), dict):
                self._ended(entry.sequence, data["key"], data["result"])

    def tasks_left(self, state: str, why: str | None) -> None:
        """Set the state and error of tasks that neither ended nor failed."""
        for task in self.tasks.values():
            if task["state"] in _OPEN:
                task |= {"state": state, "error": why}

    def _want(self, topics: Sequence[str]) -> None:
        for topic in filter(str.strip, topics):
            self._objective(topic)

    def _objective(self, topic: str) -> dict[str, Any]:
        new = {"topic": topic, "expertise": 0.0, "reached": []}
        return self.objectives.setdefault(topic, new)

    def _asked(self, kind: str, data: dict[str, Any], about: dict[str, Any]) -> None:
        """Note that the model is asked or has answered."""
        if kind != "started":
            self.asking.pop(data["key"], None)
            return
        self.asking[data["key"]] = str(about["model"] or "the model")
        step = data["key"].split(".")[1:2]
        self.told["step"] = next((each for each in STEPS if step == [each]), self.told["step"])

    def _task(self, kind: str, data: dict[str, Any], about: dict[str, Any]) -> None:
        number = int(str(about["id"]).rpartition("_")[2])
        task = self.tasks.get((self.told["iteration"], number))
        if task is None:
            return
        self.told["step"] = "research"
        if kind == "started":
            task["state"] = "running"
        elif kind == "failed":
            task |= {"state": "failed", "error": _cut(data["error"])}
        else:
            outcome = (data.get("result") or {}).get("result") or {}
            error = outcome.get("error")
            task |= {"state": "ended" if error is None else "failed", "error": _cut(error)}
            found = outcome.get("result")
            self._found(task, found.get("resources", ()) if isinstance(found, dict) else ())
        if not any(each["state"] in _OPEN for each in self.tasks.values()):
            self.told["step"] = "narrate"  # Update takes no time

    def _found(self, task: dict[str, Any], resources: Sequence[dict[str, Any]]) -> None:
        task["found"], task["read"] = len(resources), sum(bool(r["visited"]) for r in resources)
        for each in resources:
            known = self.resources.pop(each["url"], {"title": "", "visited": False})
            self.resources[each["url"]] = {
                "url": _cut(each["url"]),
                "title": _cut(each.get("description") or known["title"], 300),
                "visited": bool(each["visited"]) or known["visited"],
            }

    def _ended(self, at: int, key: str, result: dict[str, Any]) -> None:
        """Note the result of a step of the iteration."""
        before, _, step = key.partition(".")
        if step not in ("plan", "narrate", "evaluate"):
            return
        iteration, told = int(before), self.told
        if step == "plan":
            told["step"] = "research"
            for number, each in enumerate(result["tasks"], 1):
                self.tasks[iteration, number] = {
                    "iteration": iteration,
                    "tool": each["tool"],
                    "args": {name: _cut(value) for name, value in each["args"].items()},
                    "why": _cut(each["reasoning"]),
                    "state": "waiting",
                    "error": None,
                    "found": 0,
                    "read": 0,
                }
        elif step == "narrate":
            told["step"] = "evaluate"
            told["narrative"] = {
                "at": at,
                "iteration": iteration,
                "empty": not result["narrative"].strip(),
                "citations": len(result["citations"]),
                "unsupported": [[_cut(said), _cut(why)] for said, why in result["unsupported"]],
                "uncited": result["uncited"],
            }
        else:
            for each in result["objectives"]:
                objective = self._objective(each["topic"])
                objective["expertise"] = each["expertise"]
                objective["reached"].append(each["expertise"])
            told["generated"] = result["generated"]
            if result["remark"]:
                told["remarks"].append({"iteration": iteration, "text": _cut(result["remark"])})


def _cut(value: Any, chars: int = _CHARS) -> Any:
    return printable(shorten(value, chars)) if isinstance(value, str) else value
