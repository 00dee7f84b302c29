"""One run of a journal, typed: what it was asked, what it waits for, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from moothall.actions.approval.decision import DECISION_KINDS, ChangedArgs
from moothall.actions.provenance.marks import with_marks, without_marks
from moothall.foundation.errors import NoSuchRun, StateError
from moothall.foundation.jsonvalue import read_json
from moothall.journal.doubt import Doubt
from moothall.journal.entry import (
    MAX_FIRST_ENTRIES,
    Entry,
    Outline,
    begin_data_of,
    read_list,
    reply_of,
)
from moothall.journal.kinds.feedback import CASE_FILE, FEEDBACK, Feedback
from moothall.models.protocol import ModelReply

if TYPE_CHECKING:
    from moothall.journal.journal import Journal
    from moothall.journal.wait_kinds import Wait


OWN_CALL_KEY: Final = re.compile(r"(.+/)?[^/]+-[0-9a-f]{6}\.\d+")
"""Of a call that a program of another framework makes by itself, not as a model asks."""
_CALL_KEY: Final = re.compile(rf"(.+/)?\d+\.\d+(~\d+)?|{OWN_CALL_KEY.pattern}")
_NUMBER: Final = re.compile(r"(?:^|[@/.~])(\d+)(?=$|[/.~])")


class RunRequest(NamedTuple):
    """What a run's reply was asked for, as `reply` takes it."""

    text: Any
    schema: Any
    thread: str | None


@dataclass(slots=True)
class RecordedCall:
    """A call of an action in a run.

    Attributes:
        path: the part of the run whose agent made it; empty for the run's own
        key: the key of its step, such as `2.0`: the first call of the second answer, or `n@3/1.0`
        action: the action's name
        asked_args: the arguments that the model gave
        result: what came of it, as its environment gave it; None if nothing is recorded
        decision: what was decided when it was asked about; None if that is not recorded
        sources: where what it has read comes from
        statements: what a person has answered in it
        permitted_values: the keys of guarded values from outside that somebody has permitted
        part: the path of the part in which an agent that it asked has replied; empty without one
        run: the id of the run in which that agent has replied, if it was one of its own; else empty
        was_executed: whether its action was executed, and has ended
        raised: what a tool of another framework raised, as JSON data; None if nothing
    """

    path: str
    key: str
    action: str
    asked_args: Any = None
    result: dict[str, Any] | None = None
    decision: Any = None
    sources: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    permitted_values: tuple[str, ...] = ()
    part: str = ""
    run: str = ""
    was_executed: bool = False
    raised: Any = None

    @property
    def place(self) -> tuple[int, ...]:
        """The number of its answer, and its place there; before it those of parts around it."""
        return (*map(int, _NUMBER.findall(self.key)),)


class RecordedAnswer(NamedTuple):
    """An answer of a model in a run."""

    sequence: int  # of its entry, by which `RunView.prompt` has what the model was given
    reply: Any  # the answer, a `ModelReply`
    model: str  # the model's name; empty if it has none
    key: str = ""  # of its step
    of_program: Any = None  # of a program of another framework: its own answer, or its failure


class RunView:
    """One run, read from its journal: each part when it is first asked for, once.

    It shows the run as it was then, and does not change. Lists of runs need none: `Journal.runs`
    has their outlines.

    Args:
        journal: the journal
        run: the run's id, or its outline

    Attributes:
        outline: the run, in short

    Raises:
        NoSuchRun: there is no run of that id; also when a part of a deleted run is read
        JournalError: the file cannot be read, or is damaged
    """

    def __init__(self, journal: Journal, run: str | Outline) -> None:
        self._journal = journal
        self.outline: Outline = run if isinstance(run, Outline) else journal.run(run)

    @cached_property
    def entries(self) -> list[Entry]:
        """All entries, for what shows or counts each."""
        return self._journal.entries(self.outline.id)

    def _first_entries(self, most: int) -> list[Entry]:
        if "entries" in vars(self):
            return self.entries[:most]
        return self._journal.entries(self.outline.id, most=most)

    # -- how it began ------------------------------------------------------------------------------

    @cached_property
    def _begin_data(self) -> dict[str, Any]:
        return begin_data_of(self._first_entries(MAX_FIRST_ENTRIES)) or {}

    @property
    def request(self) -> RunRequest | None:
        """What its reply was asked for; None before it began, and of a program's own orchestrator.

        The text may be a list of blocks.
        """
        start = self._begin_data
        if "given" not in start:
            return None
        text = start["task"] if start["given"] is None else start["given"]
        return RunRequest(text, start["schema"], start["thread"])

    @property
    def task(self) -> Any:
        """All that it was asked, as its agent was told: a text, or a list of blocks."""
        return self._begin_data.get("task", self.outline.task)

    @property
    def asked_by(self) -> str:
        """The id of who asked its agent by a message; empty if nobody did."""
        return str(self._begin_data.get("asked_by", ""))

    @property
    def sender_fields(self) -> dict[str, str]:
        """Who asked its agent by a message, and within which thread of theirs, as it is kept."""
        start = self._begin_data
        return {name: start[name] for name in ("asked_by", "asked_within") if name in start}

    def begun_with(self, name: str) -> Any:
        """Return what was kept with its beginning under a name, as by a door; None without it."""
        return self._begin_data.get(name)

    # -- how far it is -----------------------------------------------------------------------------

    @cached_property
    def waits(self) -> list[Wait]:
        """What it waits for now."""
        return self._journal.waiting(self.outline.id)

    @property
    def all_waits(self) -> list[Wait]:
        """What it waits for now; in the place of a run that it has asked for, what that waits for.

        Such is the run of its own of an agent that a call of it has asked.
        """
        waits: dict[str, list[Wait]] = {}

        def asked_now(view: RunView) -> list[str]:
            run_waits = waits[view.outline.id] = self._journal.waiting(view.outline.id)
            return [each.key for each in run_waits if each.kind == "result"]

        self._with_asked(asked_now)
        return [
            each
            for run_waits in waits.values()
            for each in run_waits
            if each.kind != "result" or not waits.get(each.key)
        ]

    def with_asked(self) -> list[RunView]:
        """Return it and the runs that it has asked for and has waited for, and so on."""
        return self._with_asked(lambda view: view.calls_by_wait)

    def _with_asked(self, asked_ids: Callable[[RunView], Iterable[str]]) -> list[RunView]:
        views = [self]
        for view in views:
            for id in asked_ids(view):
                with suppress(NoSuchRun):  # it is no run, or was deleted
                    asked_view = RunView(self._journal, id)
                    is_new = all(each.outline.id != id for each in views)
                    # The key of another result may be the id of a run.
                    if is_new and asked_view.begun_with("asked_for") == view.outline.id:
                        views.append(asked_view)
        return views

    @cached_property
    def calls_by_wait(self) -> Mapping[str, str]:
        """The id of the call of each wait that it has ever had, by its key; empty without one."""
        waits = (each.data for each in self.entries if each.kind == "waits")
        return {each.get("name") or each["wait"]: each.get("call", "") for each in waits}

    @cached_property
    def is_in_doubt(self) -> bool:
        """Whether a person has to decide about a call that was cut off."""
        return bool(Doubt.among(self.entries))

    @cached_property
    def inputs(self) -> list[Any]:
        """What it was told while it ran, by `Record.hear`."""
        return [each.data for each in self.entries if each.kind == "heard"]

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that its own agent has saved, as its memory keeps them."""
        state = Entry.state_in(self.entries) or {}
        return with_marks(state.get("messages", ()), state.get("marks", ()))

    @cached_property
    def calls(self) -> list[RecordedCall]:
        """The calls of actions in all its parts, by part, answer and place."""
        calls: dict[tuple[str, str], RecordedCall] = {}
        parts: dict[tuple[str, str], str] = {}
        for entry in self.entries:
            data = entry.data
            if entry.part is not None:
                parts[entry.path, entry.key.partition("/")[0]] = entry.part
                continue
            if entry.is_decision:
                name, asked_args = data.get("action"), data.get("was", data.get("asked"))
            else:
                name, asked_args = entry.subject.get("action"), entry.args
            if not isinstance(name, str) or _CALL_KEY.fullmatch(entry.key) is None:
                continue
            place = (entry.path, entry.key)
            call = calls.setdefault(place, RecordedCall(*place, name, asked_args))
            if entry.is_decision:
                call.decision, call.asked_args = DECISION_KINDS.read_entry(data), asked_args
                if data.get("was") is not None:
                    call.decision = ChangedArgs(data["args"])
            else:
                call.permitted_values = tuple(data.get("allowed", call.permitted_values))
                call.run = str(entry.subject.get("asks", call.run))
                if entry.kind == "ended":
                    self._note_result(call, entry)
        for place, path in parts.items():
            if place in calls:
                calls[place].part = path
        return sorted(calls.values(), key=lambda each: (each.path, each.place))

    def asked_run(self, call: RecordedCall) -> RunView | None:
        """Return the run of its own in which an agent that a call asked has replied.

        None if there is none, if it has not ended, or if it was deleted.
        """
        try:
            view = RunView(self._journal, call.run) if call.run else None
        except NoSuchRun:
            return None
        return view if view is not None and view.end is not None else None

    @staticmethod
    def _note_result(call: RecordedCall, entry: Entry) -> None:
        data = entry.data["result"]
        call.asked_args, call.result = data.get("was", data["args"]), dict(data["result"])
        call.raised = data.get("raised")
        call.was_executed = not (entry.is_refused or data.get("refused"))
        provenance = data.get("provenance") or {}
        call.sources = tuple(provenance.get("sources", ()))
        call.statements = tuple(provenance.get("said", ()))

    @cached_property
    def answers(self) -> Mapping[str, list[RecordedAnswer]]:
        """The answers of models by the part of the run, in order."""
        answers: dict[str, list[RecordedAnswer]] = {}
        for entry in self.entries:
            is_number = entry.key.rpartition("/")[2].isdigit()
            if entry.kind == "ended" and is_number and "model" in entry.subject:
                reply, name = ModelReply.of_json(entry.result), entry.subject["model"] or ""
                program = {n: entry.result[n] for n in ("theirs", "failed") if n in entry.result}
                answer = RecordedAnswer(entry.sequence, reply, name, entry.key, program)
                answers.setdefault(entry.path, []).append(answer)
        return answers

    def results(self, path: str = "") -> dict[str, Any]:
        """Return what steps of a part ended with that are no calls, by their keys."""
        ends = (each for each in self.entries if each.path == path and each.kind == "ended")
        return {
            each.key: each.result
            for each in ends
            if "action" not in each.subject or not _CALL_KEY.fullmatch(each.key)
        }

    def messages_before(self, path: str = "") -> list[dict[str, Any]]:
        """Return the messages of earlier runs that a part began with, with their marks."""
        for entry in self.entries:
            if entry.path == path and entry.kind == "begun" and entry.data.get("conversation"):
                return read_list(entry.data["conversation"], self._journal.kept)
            if entry.path != path or "prompt" not in entry.data:
                continue
            prompt = entry.data["prompt"]
            messages = [] if "before" not in prompt else read_json(prompt["before"])
            if "earlier" in prompt:
                messages += read_list(prompt["earlier"], self._journal.kept)
            return messages[int(bool(messages) and messages[0].get("role") == "system") :]
        return []

    def prompt(self, sequence: int, path: str = "") -> dict[str, Any] | None:
        """Return what a model was given for its answer; None where that is not known.

        Args:
            sequence: the number of the answer's entry, or of its failure
            path: the part of the run that the entry belongs to

        Returns:
            `messages`, `tools` and `schema`.
        """
        run_messages: list[Any] = []
        messages_before: list[Any] = []
        tools_and_schema: dict[str, Any] = {}
        for entry in self._first_entries(max(0, sequence)):
            if entry.path != path:
                continue
            run_messages += map(without_marks, entry.added.get("messages", ()))
            prompt = entry.data.get("prompt")
            if prompt is not None:
                if "before" in prompt:
                    messages_before = read_json(prompt["before"])
                if "earlier" in prompt:
                    messages_before += read_list(prompt["earlier"], self._journal.kept)
                if "gone" in prompt:
                    gone_start = int(messages_before[0].get("role") == "system")
                    del messages_before[gone_start : gone_start + prompt["gone"]]
                if "tools" in prompt:
                    tools = read_json(prompt["tools"])
                    tools_and_schema = {"tools": tools, "schema": prompt["schema"]}
            if entry.sequence == sequence:
                if prompt is None:
                    return None
                messages_after = read_json(prompt.get("after", "[]"))
                messages = [*messages_before, *run_messages[slice(*prompt["own"])], *messages_after]
                return {"messages": [*map(without_marks, messages)], **tools_and_schema}
        return None

    # -- how it ended ------------------------------------------------------------------------------

    @cached_property
    def end(self) -> Entry | None:
        """How it ended; None if it has not, or something was done after it."""
        last: list[Entry] = []
        if "entries" not in vars(self):
            last = self._journal.entries(self.outline.id, max(0, self.outline.entries - 1))
        return Entry.end_of(last if last and not last[-1].path else self.entries)

    @property
    def end_text(self) -> str:
        """What it replied at its end; empty before that, and if it has failed."""
        return "" if self.end is None else self.end.text

    @property
    def was_cancelled(self) -> bool:
        """Whether somebody has cancelled it, even if a call of it is in doubt."""
        return self.end is not None and self.end.reason == "cancelled"

    @cached_property
    def feedback(self) -> list[Feedback]:
        """What people and graders have said of it by `Journal.feedback`, in order."""
        entries = (each for each in self.entries if each.path == FEEDBACK.path)
        return [Feedback.read(cast(Any, each.data), each.at) for each in entries]

    @cached_property
    def case_files(self) -> list[str]:
        """The files of cases that have it, as `Dataset.to_file` has noted."""
        notes = (each.data for each in self.entries if each.path == CASE_FILE.path)
        return [file for data in notes for file in data["files"]]

    @cached_property
    def reply(self) -> Any:
        """Its reply, as `Journal.replay` returns it; None if it cannot be had.

        Its process was killed before its end, or another version of moothall has recorded it.
        """
        try:
            return reply_of(self.outline.id, self.entries)
        except StateError:
            return None
