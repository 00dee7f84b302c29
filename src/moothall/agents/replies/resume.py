"""Resuming a run: what its objects know of it, how it ended, and recording its end."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary, finalize

from moothall.actions.approval import Later
from moothall.actions.message import MAX_ID, REPLYING
from moothall.actions.provenance import union
from moothall.agents.replies.reply import Reply, Step, Stop
from moothall.agents.replies.state import dump_state
from moothall.foundation.errors import JournalError, MoothallError
from moothall.foundation.jsonvalue import UnreadableText
from moothall.foundation.text import error_message, error_text, log_failure
from moothall.foundation.threads import guard, is_closing
from moothall.journal.entry import CHANGED, ROOT, begin_data_of
from moothall.journal.stop_reason import ANSWERED, FINAL, REASONS, cut_off
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.actions.provenance.texts import Texts
    from moothall.agents.replies.read_record import ReadRecord
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply_request import AnswerSchema, ReplyRequest
    from moothall.journal import Journal
    from moothall.journal.commits import OpenRun

logger: logging.Logger = logging.getLogger("moothall.reasoning")

_MAX_OFFSETS: Final = 10_000
"""How many runs an object's marks cover; those of the run set longest ago are dropped first."""


class ReplayOffsets:
    """Replay offsets of objects, such as memories and budgets, in each run.

    A memory that has the first five messages of a run gets only those from the sixth on when the
    run is resumed. Objects are compared by identity; one without weak references has no marks.
    """

    def __init__(self) -> None:
        self._guard = guard()
        self._offsets: dict[int, OrderedDict[str, int]] = {}

    def get(self, owner: Any, run: str) -> int:
        """Return an object's offset in a run; 0 if unknown."""
        marks = self._offsets.get(id(owner))
        return 0 if marks is None else marks.get(run, 0)

    def set(self, owner: Any, run: str, place: int) -> None:
        """Set an object's offset in a run."""
        marks = self._offsets.get(id(owner))
        if marks is None:
            try:
                finalize(owner, self._offsets.pop, id(owner), None)
            except TypeError:
                return
            marks = self._offsets.setdefault(id(owner), OrderedDict())
        with self._guard:
            marks[run] = place
            marks.move_to_end(run)
            if len(marks) > _MAX_OFFSETS:
                marks.popitem(last=False)


R = TypeVar("R", bound=Reply)


def has_ended(record: ReadRecord[Any]) -> bool:
    """Return whether a run is over for good."""
    return record.over is not None and record.over["reason"] in FINAL


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


async def run_recorded(
    record: Record[Any],
    run: Callable[[], Awaitable[R]],
    at_end: Callable[[R], Mapping[str, Any]],
    stopped: Callable[[Stop], R],
) -> R:
    """Run to the end, and record its reason and what `at_end` returns, even if it raises."""
    end_before = record.over  # of a run that is resumed
    try:
        try:
            reply = await run()
        except Stop as stop:
            reply = stopped(stop)
        except Later as later:
            log_failure(logger, f"run {record.run_id!r} stops", later)
            reply = stopped(Stop("error", str(later.misplaced), later.misplaced))
        if not (reply.stop_reason == "waiting" and _rests(record)):
            await record.end(reply.stop_reason, **at_end(reply))
    except JournalError as error:
        log_failure(logger, f"run {record.run_id!r} stops", error)
        return stopped(Stop("error", str(error), error))
    except BaseException as error:
        resumes = isinstance(error, asyncio.CancelledError) and record.run.resumes_later
        if record.over is end_before and not resumes:  # else its end is noted, and only not written
            ends = Stop("cancelled", _cut_off_reason(error, record.run.cut_off))
            record.note_end("cancelled", **at_end(stopped(ends)))
        try:
            # After KeyboardInterrupt or GeneratorExit no loop would go on with an await.
            awaits = isinstance(error, Exception | asyncio.CancelledError) and not is_closing(error)
            if awaits:
                await record.commit()
            else:
                record.commit_now(error)
        except MoothallError as lost:  # also an error of the memory: raise what stopped the run
            logger.error("run %r: its end is not kept: %s", record.run_id, lost)
        raise
    return reply


def _cut_off_reason(error: BaseException, questions: Sequence[str]) -> str:
    """Return why a run was cut off, and what it had asked a person; empty if nothing says more."""
    if isinstance(error, Exception):
        return error_text(error)
    why = error_message(error)
    return cut_off(why or REASONS.explain("cancelled"), questions) if questions else why


def _rests(record: Record[Any]) -> bool:
    """Return whether a run waits as before: nothing has happened since it was opened."""
    return record.over is not None and record.over["reason"] == "waiting" and not record.entry_count


def end_data(record: Record[Any], state: Any, name: str, reply: Reply) -> dict[str, Any]:
    """Return what is recorded of the end."""
    about = {"detail": reply.detail, "text": reply.text, "value": reply.value}
    if reply.stop_reason not in FINAL:
        # A resumed run repeats a turn that was stopped: only the end has its partial outcome.
        return {**about, name: dump_state(state)}
    record.save(state)
    return about


def overlap(remembered: list[Any], messages: list[Any]) -> int:
    """Return how many of a run's messages are at the end of a memory that has no `add_once`."""
    for count in range(len(messages), 0, -1):
        shared = min(count, len(remembered))
        if shared and remembered[-shared:] == messages[count - shared : count]:
            return count
    return 0


# -- a run that waits for another one --------------------------------------------------------------


class _Fork:
    """What a fork that is open has copied and asked, and the memories as it sees them."""

    def __init__(self, run: OpenRun) -> None:
        beginning = begin_data_of(run.past_entries.get(ROOT, ())) or {}
        self.runs = [each["key"] for each in beginning.get("copied", ())]
        self.copied: dict[str, int] = {}
        self.views: dict[int, tuple[Any, Any]] = {}  # by memory, which stays so
        self.copied_until = 0.0  # when the last of what it copies was written
        self.asked_runs = set[str]()  # the runs of the agents that it has asked
        for part in run.past_entries.values():
            for entry in part:
                before = 0
                for each in entry.data.get("copied", ()) if entry.kind == "begun" else ():
                    self.copied[each["key"]] = each["messages"] - before
                    before = each["messages"]
                    self.copied_until = max(self.copied_until, part[each["entries"] - 1].at)
                about = entry.data.get("about", {})
                self.asked_runs.add(about.get("asks", ""))
                if (once := about.get("once")) is not None:
                    key = f"{once[0]}/{once[0].rpartition('/told/')[2]}"  # what somebody was told
                    self.copied[key] = self.copied.get(key, 0) + 1


_FORKS: Final[WeakKeyDictionary[OpenRun, _Fork]] = WeakKeyDictionary()


def memory_of_fork(memory: Any, run: OpenRun) -> Any:
    """Return a memory as a fork sees it; that of a changed program goes on in its run's place."""
    view = getattr(memory, "view_of_fork", None)
    if view is None or run.id.endswith(CHANGED):
        return memory
    fork = _fork(run)
    if not fork.runs:
        return memory
    if id(memory) not in fork.views:
        fork.views[id(memory)] = memory, view(fork.runs, fork.copied, f"{run.key}/")
    return fork.views[id(memory)][1]


def memory_of_asked(memory: Any, agent: Any, request: ReplyRequest) -> Any:
    """Return a memory as an agent that a fork asks sees it: without later runs of its thread."""
    caller = REPLYING.get()[-1].outer_replies[-1].request
    view = getattr(memory, "view_of_fork", None)
    if request.recorded is None or view is None or not answers_in(agent, caller):
        return memory
    run, fork = request.recorded.run, _fork(caller.recorded.run)
    if request.record is not None or not fork.runs:
        return memory
    from moothall.journal.forking import runs_after  # no first agent needs pydantic_core

    fork.asked_runs.add(run.id)
    later_runs = runs_after(run.file, str(agent.id), request.thread, fork.copied_until)
    other_runs = [f"{key}/" for id, key in later_runs if id in fork.asked_runs and id != run.id]
    for id, key in later_runs:
        if id not in fork.asked_runs:
            narrowed = view([f"{key}/"], {}, f"{run.key}/", other_runs)
            if narrowed is not memory:
                return narrowed
    return memory


def _fork(run: OpenRun) -> _Fork:
    return _FORKS.get(run) or _FORKS.setdefault(run, _Fork(run))


def answers_in(agent: Any, caller: ReplyRequest | None) -> bool:
    """Return whether an agent's runs are in the journal of a reply that asks it."""
    journal: Any = getattr(agent, "journal", None)
    recorded = None if caller is None else caller.recorded
    if journal is None or recorded is None:
        return False
    return bool(recorded.run.file.identity == journal.file.identity)


async def answer_asker(
    journal: Journal | None,
    record: Record[Any],
    reply: Reply,
    under_way: Iterable[str],
    texts: Texts | None,
) -> None:
    """Answer the runs whose actions wait for a resumed run, once that has ended.

    Those `under_way` have asked again, and get the reply itself. `texts` are those of its thread:
    the answer comes from what that has read from outside.
    """
    is_asked = "asked_for" in (record.start or ())
    if journal is None or not is_asked or reply.stop_reason not in FINAL:
        return
    text = reply.text
    if reply.stop_reason not in ANSWERED:
        text = f"it has no answer: {reply.detail or reply.stop_reason}"
    sources = union((*reply.outside, *(() if texts is None else texts.sources)))
    give = journal.waits.answer_askers
    await asyncio.to_thread(give, [record.run_id], text, (*sources,), [*under_way])


def fork_id_of(run_id: str) -> str:
    """Return the id of the fork in which a changed program goes on with a run."""
    return f"{run_id[: MAX_ID - len(CHANGED)]}{CHANGED}"
