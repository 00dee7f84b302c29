"""Research as a person sees it: iterations, tasks and how they ended, how far each objective is."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from civitas.cli.run.json_lines import JSONLines
from civitas.cli.run.show import MAX_LINE, Shown, exit_code, one_or_more
from civitas.journal.describe import call_line
from civitas.reasoning.events import BlockEnded, BlockStarted, CallEnded, CallStarted, Done, Event
from civitas.reasoning.reply import Reply, StopReason
from civitas.reasoning.resume import ENDED
from civitas.research.report import ENDED as WORDS
from civitas.research.report import Report

if TYPE_CHECKING:
    from civitas.cli.options import Recorded

_BAR: Final = 20
_AT_WORK: Final = {
    "plan": "planning",
    "research": "researching",
    "update": "adding what was found",
    "narrate": "writing",
    "evaluate": "evaluating",
}


class ResearchShown(Shown):
    """Prints what research does, on standard error: standard output is for the report.

    Args:
        iterations: how many there may be; None where that is not known
        recorded: the run, where it is in a journal
        may_be_recorded: whether it could have been, so that it would go on after a stop
        to: another stream to print on
        whole: whether the report is printed there too

    Attributes:
        report: the report, once it is there
    """

    _noun = "task"
    _unseen = frozenset(("message", "text", "reasoning"))

    def __init__(
        self,
        iterations: int | None = None,
        recorded: Recorded | None = None,
        *,
        may_be_recorded: bool = False,
        to: TextIO | None = None,
        whole: bool = False,
    ) -> None:
        super().__init__(recorded=recorded, to=to or sys.stderr)
        self.report: Report | None = None
        self._iterations = iterations
        self._may_be_recorded = may_be_recorded
        self._whole_report = whole
        self._working = "beginning"
        self._began: float | None = None
        self._stopped: StopReason | str | None = None
        self._called: dict[str, CallStarted] = {}
        self._told: set[str] = set()  # the tasks of this iteration whose end was shown

    def begin(self) -> None:
        """Show from now on, on a terminal, what is at work and for how long it all has taken."""
        super().begin()
        self._began = self._since

    def event(self, event: Event, seconds: float | None) -> None:
        """Show an event."""
        if isinstance(event, Done):
            self.report = event.reply.value
        super().event(event, seconds)

    def _counts_from(self) -> float:
        return self._since if self._began is None else self._began

    def _at_work(self) -> str:
        open = list(self._open.values())
        names = ", ".join(
            f"{n} × {name}" for name in dict.fromkeys(open) if (n := open.count(name))
        )
        return f"{self._working}{f': {names}' if names else ''}".replace("1 × ", "")

    # -- the kinds of events -----------------------------------------------------------------------

    def _block(self, event: BlockStarted | BlockEnded) -> None:
        if isinstance(event, BlockStarted):
            of = "" if self._iterations is None else f" of {max(self._iterations, event.iteration)}"
            if event.block == "plan":
                self._told.clear()
                self._line(f"iteration {event.iteration}{of}", "bold")
            what = _AT_WORK.get(event.block, event.block)
            self._working = f"iteration {event.iteration}{of}, {what}"
            return
        data = event.result
        if event.block == "plan":
            count = len(data["tasks"])
            self._line(
                f"  plan: {one_or_more(count, 'task')}" if count else "  plan: no task is left"
            )
        elif event.block == "research":
            for task in data["results"]:  # what could not be called had no start
                if task["error"] is not None and _key(task["tool"], task["args"]) not in self._told:
                    self._task(task["tool"], task["args"], task["error"], [])
        elif event.block == "narrate":
            wrong = len(data["unsupported"])
            marked = f", {one_or_more(wrong, 'sentence')} marked [unsupported]" if wrong else ""
            self._line(f"  report: {one_or_more(len(data['citations']), 'citation')}{marked}")
        elif event.block == "evaluate":
            if data["remark"]:
                self._line(_cut(data["remark"]), "dim", "  remark: ", "    ")
            for objective in data["objectives"]:
                self._bar(objective["expertise"], objective["topic"])
            for objective in data["generated"]:
                self._line(_cut(objective["topic"]), "dim", "  also: ", "    ")

    def _bar(self, expertise: float, topic: str) -> None:
        from rich.text import Text

        from civitas.approval import escaped

        full = round(expertise * _BAR)
        text = Text()
        text.append("■" * full, "green")
        text.append("·" * (_BAR - full), "dim")
        text.append(f"  {expertise:.2f}  {escaped(_cut(topic))}")
        self._print(text, "  ", "    ")

    def _call(self, event: CallStarted) -> None:
        self._called[event.call_id] = event

    def _result(self, event: CallEnded) -> None:
        self._ended += not event.past
        self._open.pop(event.call_id, None)
        call = self._called.pop(event.call_id, None)
        found = event.result.get("result")
        resources = found.get("resources", []) if isinstance(found, dict) else []
        self._task(event.action, call.args if call else {}, event.error, resources)

    def _task(self, tool: str, args: Any, error: str | None, resources: list[Any]) -> None:
        self._told.add(_key(tool, args))
        failed = error is not None
        first = "  ✗ " if failed else "  ✓ "
        self._line(_cut(call_line(tool, args)), "red" if failed else "cyan", first, "    ")
        self._line(_cut(error if error is not None else _found(resources)), "", "    ", "      ")

    def _end(self, reply: Reply, seconds: float | None) -> None:
        report: Report = reply.value
        if self._whole_report:
            self._line("")
            self._line(report.markdown.expandtabs(4).rstrip())
        words = f"{'stopped' if exit_code(reply) else 'done'}: {WORDS[report.stop_reason]}"
        detail = f" ({report.detail})" if report.detail else ""
        if report.stop_reason == "error":
            words, detail = "failed", f": {report.detail}"
        self._line("")
        self._line(words + detail, "bold red" if exit_code(reply) else "bold green")
        took = "" if seconds is None else f"{seconds:.1f} s, "
        tokens = report.usage.input_tokens + report.usage.output_tokens
        self._line(
            f"{one_or_more(report.iterations, 'iteration')}, {took}{one_or_more(tokens, 'token')}",
            "dim",
        )
        self._ways(reply.stop_reason)

    def written(self) -> None:
        """Say how to go on, below the report."""
        if self._stopped is not None:
            self._say_ways(self._stopped)

    def _ways(self, stop_reason: StopReason | str) -> None:
        self._stopped = stop_reason
        if self._whole_report:
            self._say_ways(stop_reason)

    def _say_ways(self, stop_reason: StopReason | str) -> None:
        super()._ways(stop_reason)
        if self._recorded is None and self._may_be_recorded and stop_reason not in ENDED:
            self._line("with --journal FILE it would be recorded, and could go on from here")


class ResearchLines(JSONLines):
    """What happens in research as lines of JSON.

    Attributes:
        report: the report, once it is there
    """

    report: Report | None = None

    def written(self) -> None:
        """Nothing: how to go on is said where the run ends."""

    def event(self, event: Event, seconds: float | None) -> None:
        """Print an event."""
        if isinstance(event, Done):
            self.report = event.reply.value
        super().event(event, seconds)


def _found(resources: list[Any]) -> str:
    """What a task has read and found, by name."""
    read = [each for each in resources if each.get("visited")]
    names = [each.get("description") or each.get("url") for each in read or resources]
    said = [f"{len(read)} read"] if read else []
    said += [f"{len(resources) - len(read)} found"] if len(resources) > len(read) else []
    return f"{', '.join(said)}: {'; '.join(map(str, names))}" if said else "nothing found"


def _key(tool: str, args: Any) -> str:
    return json.dumps([tool, args], sort_keys=True)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} …"
