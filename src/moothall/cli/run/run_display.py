"""Shows a person what happens in a run, as it happens, and its outcome."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, TextIO

from moothall import (
    BlockEnded,
    BlockStarted,
    CallEnded,
    CallStarted,
    ConclusionReached,
    DecisionMade,
    Event,
    HumanDecision,
    MissingExtra,
    ReasoningPiece,
    Reply,
    TextPiece,
)
from moothall.build import as_json, counted, escaped, json_line, json_text
from moothall.cli.recorded_runs import RecordedRun
from moothall.cli.run.outcome import exit_code, failed_actions, model_hint
from moothall.cli.screen import Screen
from moothall.journal import REASONS

MAX_LINES: Final = 12
"""How many lines are shown of a result that is not the answer."""
MAX_LINE: Final = 400
"""How many characters of such a line are shown."""
MAX_ARG: Final = 200
"""How many characters of an argument are shown; a question for permission shows all of it."""


class RunDisplay:
    """Prints each step, in colours where the terminal has them; what it prints is escaped."""

    _step_noun = "step"
    _hidden_kinds = frozenset(("message", "block_started", "block_ended"))

    def __init__(
        self,
        uncut_actions: Iterable[str] = (),
        *,
        reviews: bool = False,
        is_for_person: bool = False,
        recorded: RecordedRun | None = None,
        model: str = "the model",
        out: TextIO | None = None,
    ) -> None:
        MissingExtra.unless("showing a run (without --json)", "cli", "rich")
        self._out = sys.stdout if out is None else out
        self._screen = Screen(self._out)
        self._uncut_actions = frozenset(uncut_actions)
        self._is_reviewed = reviews
        self._is_for_person = is_for_person
        self._recorded_run = recorded
        self._has_begun = False
        self._showed_past = False  # whether the last shown event is from before this process
        self._running_actions: dict[str, str] = {}
        self._calls: dict[tuple[str | None, str], Any] = {}  # as they were shown
        self._last_call: Any = None  # the call shown last, until something else is shown
        self._finished = 0  # of ended calls
        self._partial_line = ""  # the line that a model is writing
        self._written_kind = ""
        self._answer_was_shown = False  # whether the last answer was shown as it was written
        self._model = model
        self.is_loaded: Callable[[], bool] = lambda: True
        self._is_waiting = False  # whether a run is under way

    def _print_to(self, out: TextIO) -> None:
        self._out = out
        self._screen = Screen(out)

    def begin(self) -> None:
        """Show from now on, on a terminal, what the run is waiting for and how long."""
        self._is_waiting = True
        self._screen.wait(self._status)

    def finish(self) -> None:
        """Stop showing what the run is waiting for."""
        self._is_waiting = False
        self._screen.wait(None)

    def hold(self) -> None:
        """Leave the terminal to a question until `release`."""
        self._screen.hold()

    def release(self) -> None:
        """Take the terminal back: the question is answered."""
        if self._is_waiting:
            self._screen.wait(self._status)
        self._screen.release()

    def forget_call(self, action: str) -> None:
        """Forget a call that was never executed: its question was cut off."""
        call_id = next((id for id, name in self._running_actions.items() if name == action), "")
        self._running_actions.pop(call_id, None)

    def event(self, event: Event, seconds: float | None) -> None:
        """Show an event."""
        self._screen.status("")
        try:
            self._show(event, seconds)
        finally:
            if self._is_waiting and self._is_shown(event):
                self._screen.wait(self._status)
            else:
                self._screen.renew()

    def _show(self, event: Event, seconds: float | None) -> None:
        if self._recorded_run is not None and not self._has_begun:
            self._has_begun = True
            run_id, path = self._recorded_run.run_id, self._recorded_run.journal.path
            self._line(f"run {run_id}, recorded in {path}", "dim")
            if self._recorded_run.description:
                self._line(self._recorded_run.description)
        if self._is_shown(event):
            is_past = getattr(event, "past", False)
            if is_past is not self._showed_past and event.kind != "done":
                self._showed_past = is_past
                self._line("until now:" if is_past else "from here on:", "dim")
        if event.kind == "done":
            self.finish()
            self._flush()
            self._show_end(event.reply, seconds)
        elif (handler := self._HANDLERS.get(event.kind)) is not None:
            getattr(self, handler)(event)
        elif event.line:
            self._line(event.line)

    _HANDLERS: ClassVar[dict[str, str]] = {
        "text": "_show_piece",
        "reasoning": "_show_piece",
        "call_started": "_on_call_started",
        "call_progress": "_ignore",
        "call_ended": "_on_call_ended",
        "decision": "_on_decision",
        "conclusion": "_on_conclusion",
        "block_started": "_show_block",
        "block_ended": "_show_block",
        "turn_started": "_ignore",
    }
    """The methods that show events in another way than by their lines."""

    def _show_piece(self, event: TextPiece | ReasoningPiece) -> None:
        if not self._is_reviewed:
            self._write(event.kind, event.text)

    def _on_call_started(self, event: CallStarted) -> None:
        self._flush()
        self._answer_was_shown = False
        if not event.past:
            self._running_actions[event.call_id] = event.action
        self._show_call(event)

    def _on_call_ended(self, event: CallEnded) -> None:
        self._finished += not event.past
        self._running_actions.pop(event.call_id, None)
        self._show_result(event)

    def _on_decision(self, event: DecisionMade) -> None:
        if self._is_for_person:
            self._screen.release()
        self._show_decision(event)

    def _on_conclusion(self, event: ConclusionReached) -> None:
        if self._is_for_person:
            self.hold()
        else:
            self._line(event.conclusion.summary)

    def _ignore(self, event: Event) -> None: ...

    def show_interrupted(self, seconds: float) -> None:
        """Say what was done until the run was interrupted."""
        self.finish()
        self._flush()
        shown_on = self._out
        self._print_to(sys.stderr)
        self._set_apart(shown_on)
        if self._running_actions:
            names = ", ".join(self._running_actions.values())
            self._line(f"stopped before it had ended: {names}", "yellow")
        self._line(f"until then {counted(self._finished, self._step_noun)}, {seconds:.1f} s", "dim")
        self._show_next_commands("cancelled")

    def _set_apart(self, shown_on: TextIO) -> None:
        """Print an empty line before the end, except as the first of a file of errors."""
        if self._out.isatty() or self._out is shown_on:
            self._line("")

    # -- the kinds of events -----------------------------------------------------------------------

    def _is_shown(self, event: Event) -> bool:
        if event.kind == "conclusion":
            return not self._is_for_person
        return event.kind not in self._hidden_kinds and not (
            self._is_reviewed and event.kind in ("text", "reasoning")
        )

    def _write(self, kind: str, text: str) -> None:
        """Show what a model writes, line by line as each is whole."""
        if kind != self._written_kind:
            self._flush()
            self._written_kind = kind
        *lines, self._partial_line = (self._partial_line + text).split("\n")
        for line in lines:
            self._show_writing(line)

    def _flush(self) -> None:
        if self._partial_line.strip():
            self._show_writing(self._partial_line)
        self._partial_line = ""

    def _show_writing(self, line: str) -> None:
        self._line(line.expandtabs(4), "dim italic" if self._written_kind == "reasoning" else "")
        if self._written_kind == "text":
            self._answer_was_shown = True

    def _show_call(self, event: CallStarted) -> None:
        args = ", ".join(f"{escaped(k)}={_argument(v)}" for k, v in event.args.items())
        call = (event.action, "bold cyan"), (f"({args})", "")
        self._print("→ ", "    ", *call)
        self._last_call = self._calls[event.agent, event.call_id] = call

    def _show_result(self, event: CallEnded) -> None:
        call = self._calls.pop((event.agent, event.call_id), None)
        # Calls at the same time end in any order.
        if call is not None and call is not self._last_call:
            self._print("← ", "    ", *call)
        self._last_call = None
        if event.error is not None:
            self._line(event.error, "red", "  ✗ ", "    ")
            return
        lines = _result_lines(event.result.get("result"))
        if event.action not in self._uncut_actions:
            cut_count = len(lines) - MAX_LINES
            if cut_count > 1:
                lines[MAX_LINES:] = [f"… {counted(cut_count, 'more line')}"]
            lines = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} …" for line in lines]
        for line in lines:
            self._line(line, "", "  ", "    ")

    def _show_block(self, event: BlockStarted | BlockEnded) -> None:
        """Do nothing: an agent's blocks are not shown."""

    def _show_decision(self, event: DecisionMade) -> None:
        decision = event.decision
        instruction = decision.new_instruction
        words = "; ".join(instruction) if isinstance(instruction, list) else instruction
        meaning = HumanDecision.choices[decision.action]
        if not meaning.instructs:
            words = decision.reasoning
        self._line(f"{meaning.announcement}: {words}" if words else meaning.announcement, "magenta")

    def _show_end(self, reply: Reply, seconds: float | None) -> None:
        if reply.text and not (
            self._answer_was_shown or self._is_reviewed or reply.stop_reason == "terminal"
        ):
            self._line(reply.text.expandtabs(4))
        shown_on = self._out
        if exit_code(reply):  # standard output is for the answer
            self._print_to(sys.stderr)
        self._set_apart(shown_on)
        failed_text = failed_actions(reply)
        style = "bold red" if exit_code(reply) else "bold yellow" if failed_text else "bold green"
        words = REASONS.in_words(reply.stop_reason, reply.detail)
        self._line(f"{words}; {failed_text}" if failed_text else words, style)
        if advice := model_hint(reply, self._model):
            self._line(advice)
        usage = reply.usage
        tokens = usage.input_tokens + usage.output_tokens
        duration = "" if seconds is None else f"{seconds:.1f} s, "
        self._line(
            f"{counted(len(reply.steps), 'step')}, {duration}{counted(tokens, 'token')} "
            f"({usage.input_tokens:,} in, {usage.output_tokens:,} out)",
            "dim",
        )
        self._show_next_commands(reply.stop_reason)

    def _show_next_commands(self, stop_reason: str) -> None:
        """Print how to continue the run."""
        for words, command in (
            () if self._recorded_run is None else self._recorded_run.next_commands(stop_reason)
        ):
            # In one line, so that it can be copied.
            self._screen.show(f"{words}: {escaped(command)}")

    # -- what is waited for ------------------------------------------------------------------------

    def _status(self, seconds: float) -> str:
        elapsed = f", {int(seconds)} s" if seconds >= 1 else ""
        return f"{self._activity()}{elapsed} (Ctrl-C stops it)"

    def _activity(self) -> str:
        if self._running_actions:
            verb = "are" if len(self._running_actions) > 1 else "is"
            return f"{', '.join(self._running_actions.values())} {verb} running"
        if not self.is_loaded():
            return f"loading the model {self._model}"
        return f"{self._model} is thinking"

    # -- printing ----------------------------------------------------------------------------------

    def _line(self, text: str, style: str = "", first: str = "", indent: str | None = None) -> None:
        """Print a text; a line that is too long continues below, as do the text's other lines."""
        self._print(first, first if indent is None else indent, (text, style))

    def _print(self, first: str, indent: str, *spans: tuple[str, str]) -> None:
        self._screen.show(self._screen.lines(first, *spans, indent=indent, chops=True))


def _argument(value: Any) -> str:
    text = json_line(value, escapes=True)
    return text if len(text) <= MAX_ARG else f"{text[:MAX_ARG]} … ({len(text):,} characters)"


def _result_lines(result: Any) -> list[str]:
    """Return a result as lines for a person."""
    if isinstance(result, str):
        return result.expandtabs(4).rstrip("\n").split("\n") if result.strip() else ["(nothing)"]
    if isinstance(result, list):
        if not result:
            return ["(none)"]
        if all(isinstance(item, str) for item in result):
            return ["  ".join(escaped(item) for item in result)]
        if all(_is_numbered(item) for item in result):
            return [f"line {number}: {text.expandtabs(4)}" for number, text in result]
    return [json.dumps(result) if isinstance(result, dict) else json_text(as_json(result))]


def _is_numbered(item: Any) -> bool:
    if not isinstance(item, list | tuple) or len(item) != 2:
        return False
    return isinstance(item[0], int) and isinstance(item[1], str)
