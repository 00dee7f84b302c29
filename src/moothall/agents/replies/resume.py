"""The record of a run of one's own, how a run ended, and memories as a fork sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import MISSING, fields
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from moothall.actions.approval import Later
from moothall.actions.message import ENCLOSING_REPLIES
from moothall.agents.replies.record import Record, StepCall
from moothall.agents.replies.reply import Reply, Step, Stop
from moothall.agents.replies.state import dump_state
from moothall.agents.replies.step import unrecorded_step
from moothall.foundation.errors import (
    ConfigError,
    JournalError,
    NoSuchRun,
    RequestCancelled,
    StateError,
)
from moothall.foundation.jsonvalue import UnreadableText
from moothall.foundation.threads import take_back_cancel
from moothall.journal.attributes import Tags, checked_attributes
from moothall.journal.entry import ROOT, begin_data_of, parts_of
from moothall.journal.stop_reason import FINAL_REASONS
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.read_record import ReadRecord
    from moothall.agents.replies.reply_request import AnswerSchema, ReplyRequest
    from moothall.journal import Entry, Journal, RunPart
    from moothall.journal.commits import OpenRun

S = TypeVar("S")
T = TypeVar("T")


def reply_at_end(
    record: ReadRecord[Any],
    schema: AnswerSchema | None,
    messages: list[Any],
    steps: list[Step],
    usage: Usage,
) -> Reply:
    """Return the reply that a run ended with, its value as the requested type."""
    end = record.over
    assert end is not None
    text, value, reason = end["text"], end["value"], end["reason"]
    if schema is not None and reason == "done":
        with suppress(UnreadableText):  # from a terminal action, or by another schema
            value = schema.read(text)
    parts = (text, value, messages, steps, usage)
    return Reply(*parts, reason, end["detail"], None, record.run_id)


def end_data(record: Record[Any], state: Any, name: str, reply: Reply) -> dict[str, Any]:
    """Return what is recorded of the end."""
    end_fields = {"detail": reply.detail, "text": reply.text, "value": reply.value}
    if reply.stop_reason not in FINAL_REASONS:
        # A resumed run repeats a turn that was stopped: only the end has its partial outcome.
        return {**end_fields, name: dump_state(state)}
    record.save(state)
    return end_fields


def overlap(remembered: list[Any], messages: list[Any]) -> int:
    """Return how many of a run's messages are at the end of a memory that has no `add_once`."""
    for count in range(len(messages), 0, -1):
        shared = min(count, len(remembered))
        if shared and remembered[-shared:] == messages[count - shared : count]:
            return count
    return 0


# -- memories as a fork sees them ------------------------------------------------------------------


class _Fork:
    """What a fork that is open has copied and asked, and the memories as it sees them."""

    def __init__(self, past_entries: Mapping[str, Sequence[Entry]]) -> None:
        beginning = begin_data_of(past_entries.get(ROOT, ())) or {}
        self.runs = [each["key"] for each in beginning.get("copied", ())]
        self.copied: dict[str, int] = {}
        self.views: dict[int, tuple[Any, Any]] = {}  # by memory, which stays so
        self.copied_until = 0.0  # when the last of what it copies was written
        self.asked_runs = set[str]()  # the runs of the agents that it has asked
        for entries in past_entries.values() if self.runs else ():
            for entry in entries:
                count_before = 0
                for each in entry.data.get("copied", ()) if entry.kind == "begun" else ():
                    self.copied[each["key"]] = each["messages"] - count_before
                    count_before = each["messages"]
                    self.copied_until = max(self.copied_until, entries[each["entries"] - 1].at)
                data = entry.data.get("about", {})
                self.asked_runs.add(data.get("asks", ""))
                if (once := data.get("once")) is not None:
                    key = f"{once[0]}/{once[0].rpartition('/told/')[2]}"  # what somebody was told
                    self.copied[key] = self.copied.get(key, 0) + 1


_FORKS: Final[WeakKeyDictionary[OpenRun, _Fork]] = WeakKeyDictionary()


def memory_of_fork(memory: Any, run: OpenRun) -> Any:
    """Return a memory as a fork sees it."""
    view = getattr(memory, "view_of_fork", None)
    if view is None:
        return memory
    fork = _get_fork(run)
    if not fork.runs:
        return memory
    if id(memory) not in fork.views:
        fork.views[id(memory)] = memory, view(fork.runs, fork.copied, f"{run.key}/")
    return fork.views[id(memory)][1]


def memory_of_asked(memory: Any, agent: Any, request: ReplyRequest) -> Any:
    """Return a memory as an agent sees it that a fork has asked: without later runs of its thread.

    The agent may be a member of the one that was asked, or be asked by that one in turn.
    """
    view = getattr(memory, "view_of_fork", None)
    if request.recorded is None or view is None:
        return memory
    run, agent_id, thread = request.recorded.run, str(agent.id), request.thread
    fork: _Fork | None = None
    for each in reversed(ENCLOSING_REPLIES.get()[-1].outer_replies):
        asking_record = None if each.request is None else each.request.recorded
        if asking_record is not None and asking_record.run is run:  # its group
            agent_id, thread = str(each.agent.id), each.request.thread
        elif asking_record is not None and asking_record.run.file.identity == run.file.identity:
            fork = _get_fork(asking_record.run)
            fork.asked_runs.add(run.id)
            if fork.runs:
                break
    if fork is None:
        fork = _asking_fork(run)
    if fork is None or not fork.runs:
        return memory
    from moothall.journal.forking import (  # no first agent needs pydantic_core
        asking_chain,
        runs_after,
    )

    later_runs = runs_after(run.file, agent_id, thread, fork.copied_until)
    for id, _ in later_runs:  # those that it has asked in an earlier process, too
        fork.asked_runs.update(asking_chain(run.file, id, fork.asked_runs))
    other_runs = [f"{key}/" for id, key in later_runs if id in fork.asked_runs and id != run.id]
    for id, key in later_runs:
        if id not in fork.asked_runs:
            narrowed = view([f"{key}/"], {}, f"{run.key}/", other_runs)
            if narrowed is not memory:
                return narrowed
    return memory


def _get_fork(run: OpenRun) -> _Fork:
    return _FORKS.get(run) or _FORKS.setdefault(run, _Fork(run.past_entries))


def _asking_fork(run: OpenRun) -> _Fork | None:
    """Return the fork for which a run was begun that is resumed by itself; None without one."""
    file, visited = run.file, {run.id}
    asker = (begin_data_of(run.past_entries.get(ROOT, ())) or {}).get("asked_for")
    while isinstance(asker, str) and asker not in visited:
        visited.add(asker)
        parts: dict[str, list[Entry]] = {}
        with suppress(NoSuchRun), file.skipping_damaged(asker):
            parts = parts_of(file.entries_of(asker))
        fork = _Fork(parts)
        if fork.runs:
            fork.asked_runs |= visited
            return fork
        asker = (begin_data_of(parts.get(ROOT, ())) or {}).get("asked_for")
    return None


def shares_journal(agent: Any, caller: ReplyRequest | None) -> bool:
    """Return whether an agent's runs are in the journal of a reply that asks it."""
    journal: Any = getattr(agent, "journal", None)
    recorded = None if caller is None else caller.recorded
    if journal is None or recorded is None:
        return False
    return bool(recorded.run.file.identity == journal.file.identity)


# -- a run of one's own ----------------------------------------------------------------------------


class _NullRecord(Record[S]):
    """The record of a run without a journal: steps are called, and nothing is kept."""

    key = ""
    run: Any = SimpleNamespace(
        resumes_later=False,
        waiting_runs=(),
        cancelled_questions=(),
        past_entries={},
        add_waiting_calls=lambda count: None,
        work=SimpleNamespace(cancel_cause="", pause_cause="", is_let_go_on=False),
    )

    def __init__(self) -> None:
        self.state = self.start = self._end = self.at_end = None
        self.received = []
        self.members = {}
        self.past_steps = {}
        self._counts = {}
        self._entries = []

    async def perform(self, key: str, call: StepCall[T], *options: Any) -> T:
        result = await call(unrecorded_step(key))
        if isinstance(result, Later):
            raise ConfigError(f"step {key!r} returned a Later, which needs a journal to wait in")
        return result

    def note(self, kind: str, data: Any) -> None:
        pass

    def note_end(self, reason: str, **about: Any) -> None:
        pass

    def save(self, state: S, **earlier: tuple[int, str]) -> None:
        pass

    def member(self, name: str, agent: str, **about: Any) -> RunPart | None:
        return None

    def keep(self, data: bytes) -> str:
        return sha256(data).hexdigest()

    def after_commit(self, done: Callable[[], None]) -> None:
        done()

    async def commit(self, upto: int | None = None) -> None:
        pass

    def commit_now(self, cause: BaseException | None = None) -> None:
        pass


NULL_RECORD: Final[Record[Any]] = _NullRecord()
"""The record of every run without a journal."""


@asynccontextmanager
async def recorded(
    journal: Journal | None,
    run_id: str,
    kind: str,
    agent: str,
    state: type[S],
    *,
    task: str = "",
    program: Mapping[str, Any] | None = None,
    tags: Tags | None = None,
) -> AsyncIterator[Record[S]]:
    """Open the record of a run of your own orchestrator, new or resumed.

    A run that has ended has `record.is_over`: return `record.over["text"]`, do nothing again.

    Args:
        journal: the journal; None records nothing
        run_id: the run's id
        kind: the name of the orchestrator
        agent: the id of the agent that runs it
        state: the dataclass of its state, with a default for each field
        task: its task, as people see it in `moothall runs`; one that resumes the run may leave it
            out, or have the same
        program: what else must be equal for a program to resume the run, as JSON data by name;
            a `task` in it is compared in the place of the one that people see
        tags: texts by name, or names, by which people find a new run, as those of `reply`

    Raises:
        ConfigError: the tags are not valid
        RunHeld: the run is in use elsewhere
        RunMismatch: another program began it
        JournalError: the journal cannot be used, or is damaged
    """
    if journal is None:
        yield NULL_RECORD
        return
    for each in fields(cast(Any, state)):
        if each.default is MISSING and each.default_factory is MISSING:
            raise StateError(f"{state.__name__}.{each.name} must have a default: it begins so")
    attributes = checked_attributes({"tags": tags})
    part = await journal.begin(run_id, kind, agent, task, **attributes)
    try:
        record = Record(part, state)
        parts = {**({"task": task} if task else {}), **(program or {})}
        about = {"task": task, **({"attributes": attributes} if attributes else {})}
        record.begin(kind, agent, record.fingerprint(**parts), **about)
        try:
            yield record
        except BaseException as error:
            if isinstance(error, Exception):
                await record.rest()
            if isinstance(error, Stop):
                record.note_wait(error)
            cause = part.run.work.cancel_cause
            if cause and part.run.state is None:  # it does not use `run_to_end`
                record.note_end("cancelled", detail=cause)
            with suppress(JournalError):  # raise what stopped the run instead
                record.commit_now(error)
            if cause and isinstance(error, asyncio.CancelledError) and take_back_cancel():
                raise RequestCancelled(f"{cause}; run {run_id!r} can be resumed") from None
            raise
        await record.commit()
    finally:
        part.close()
