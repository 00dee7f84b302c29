"""The person's conversations with an agent: what was said now, and before the studio began.

What was said before is read from the journal of the agent, else from its memory in a file.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moothall import BROADCAST
from moothall.build import Thread, shorten
from moothall.journal import REASONS, RunView
from moothall.studio.talk.space_messages import SeenMessage, SpaceMessages

if TYPE_CHECKING:
    from moothall import Journal
    from moothall.journal import Entry, Outline
    from moothall.spaces import You

ANSWER_FIELDS: Final = {"say": "content", "response": "data", "error": "error"}
"""The actions that answer, each with the argument that has what it says."""
_MAX_TURNS: Final = 200
"""How many of the last turns of a conversation are shown."""
_MAX_RUNS: Final = 500
"""In how many runs of an agent conversations are looked for, the newest."""
_MAX_ENTRIES: Final = 300
"""In how many entries of a run steps are looked for, the first."""
_WIDTH: Final = 200
_START_SKEW_S: Final = 0.1
"""By how much a run may seem to have begun before what it answers was seen."""


@dataclass(kw_only=True)
class TalkTurn:
    """What one of the two said.

    Attributes:
        by_person: whether the person said it
        content: the text, or JSON data
        at: when, or None where only a memory has it
        run: the recorded run of it, or None
        state: `waiting`, `failed` or empty
        action: the action that the person called, whose arguments `content` is; empty if they wrote
        steps: what its run has called so far, a line each
        decisions: what people decided in its run so far, a line each
        author: which member of a group said it; empty for an agent
    """

    by_person: bool
    content: Any
    at: float | None = None
    run: str | None = None
    state: str = ""
    action: str = ""
    steps: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    author: str = ""


class Conversations:
    """What the person has said to each agent, thread by thread, and what it replied."""

    def __init__(self, person: You, messages: SpaceMessages) -> None:
        self._person = person
        self._messages = messages
        self._started_at = time.time()

    def threads(self, id: str) -> dict[str, Any]:
        """Return the conversations with an agent, the newest first, and what keeps them.

        `threads` are `{thread, at}`: None for the one without a name. `kept` is `journal`, `memory`
        or None where nothing outlives the program; `here` is whether the agent is in this program.
        """
        threads_found: dict[str | None, float | None] = {None: None}
        for message in self._messages.newest():
            if self._is_said(message, id):
                threads_found.setdefault(self._thread(message), message.at)
        journal, memory = self._journal(id), self._memory(id)
        own_thread = Thread.id_for(str(self._person.id))
        if journal is not None:
            for run in journal.runs(agent=id, thread=own_thread, sort="-began", limit=_MAX_RUNS):
                threads_found.setdefault(_thread_name(run.thread, own_thread), run.began)
        elif memory is not None:
            for thread in memory.threads():
                if thread == own_thread or thread.startswith(f"{own_thread}/"):
                    threads_found.setdefault(_thread_name(thread, own_thread), None)
        storage = "journal" if journal is not None else "memory" if memory is not None else None
        threads = [{"thread": thread, "at": at} for thread, at in threads_found.items()]
        is_here = id.startswith("#") or self._agent(id) is not None
        return {"threads": threads, "kept": storage, "here": is_here}

    def turns(self, id: str, thread: str | None) -> list[TalkTurn]:
        """Return the last turns of a conversation, the oldest first."""
        new = self._new_turns(id, thread)
        remaining = _MAX_TURNS - len(new)
        if remaining <= 0:
            return new[-_MAX_TURNS:]
        journal, memory = self._journal(id), self._memory(id)
        run_thread = Thread.id_for(str(self._person.id), thread)
        if journal is not None:
            return [*self._old_turns(journal, id, run_thread, remaining), *new]
        if memory is not None:
            contents = [each.content for each in new if each.by_person]
            return [*_earlier_turns(memory.thread(run_thread).newest(_MAX_TURNS), contents), *new][
                -_MAX_TURNS:
            ]
        return new

    # -- now ---------------------------------------------------------------------------------------

    def _new_turns(self, id: str, thread: str | None) -> list[TalkTurn]:
        """Return what was said since the studio began."""
        me = str(self._person.id)
        turns: list[TalkTurn] = []
        runs = self._runs_by_message(id, thread)
        for message in self._messages.newest():
            head, request = message.head, message.request
            if self._is_mine(message, id) and self._thread(message) == thread:
                state = "waiting" if head.to == id and not message.outcomes else ""
                run = runs.get(message.number)
                turn = TalkTurn(
                    by_person=True, content=message.arguments, at=message.at, state=state
                )
                if head.action == "say":
                    turn.content = message.arguments.get("content")
                else:
                    turn.action = head.action
                if run is not None:
                    turn.run = run
                    if state:
                        self._add_progress(turn, id)
                turns.append(turn)
            elif head.to == me and head.action in ANSWER_FIELDS and self._is_from(message, id):
                if request is None:
                    is_answer = head.action == "say" and thread is None
                else:
                    is_answer = self._is_mine(request, id) and self._thread(request) == thread
                if is_answer:
                    turn = _turn_of(message, None if request is None else runs.get(request.number))
                    turn.author = "" if head.sender == id else head.sender
                    self._add_progress(turn, id)
                    turns.append(turn)
            if len(turns) == _MAX_TURNS:
                break
        return turns[::-1]

    def _runs_by_message(self, id: str, thread: str | None) -> dict[int, str]:
        """Return the recorded runs of what was said since the studio began, by its number."""
        journal = self._journal(id)
        if journal is None:
            return {}
        thread_prefix = Thread.id_for(str(self._person.id), thread)
        runs = journal.runs(
            agent=id, thread=thread_prefix, since=self._started_at, sort="-began", limit=_MAX_TURNS
        )
        candidates = [
            each for each in runs if each.thread == thread_prefix and each.forked_from is None
        ]
        run_ids: dict[int, str] = {}
        for message in self._messages.newest():  # each run is of the last such words before it
            if self._is_said(message, id) and self._thread(message) == thread:
                content = str(message.arguments.get("content"))
                matching = [
                    each for each in candidates if content.startswith(each.task.removesuffix("…"))
                ]
                if run := next(
                    (each for each in matching if each.began >= message.at - _START_SKEW_S), None
                ):
                    run_ids[message.number] = run.id
                    candidates.remove(run)
            if not candidates or len(run_ids) == _MAX_TURNS:
                break
        return run_ids

    def _add_progress(self, turn: TalkTurn, id: str) -> None:
        """Say in a turn what its run of an agent has done so far."""
        journal = self._journal(id)
        if journal is None or turn.run is None:
            return
        entries = [*journal.entries(turn.run, 0, _MAX_ENTRIES)]
        calls = (each for each in entries if each.ends_step and "action" in each.subject)
        decisions = (each for each in entries if each.is_decision)
        turn.steps, turn.decisions = _lines(calls), _lines(decisions)

    def _is_from(self, message: SeenMessage, id: str) -> bool:
        """Return whether an agent said it, or any that answers what was said to a group."""
        request = message.request
        return message.head.sender == id or (request is not None and request.head.to == id)

    def _is_mine(self, message: SeenMessage, id: str) -> bool:
        """Return whether the person said it to an agent, or called an action of it alone."""
        is_call = (message.head.sender, message.head.to) == (str(self._person.id), id)
        return is_call or self._is_said(message, id)

    def _is_said(self, message: SeenMessage, id: str) -> bool:
        is_mine = message.head.sender == str(self._person.id) and message.head.action == "say"
        return is_mine and message.head.to in (id, BROADCAST)

    def _thread(self, message: SeenMessage) -> str | None:
        name = message.arguments.get("thread")
        return name if isinstance(name, str) and name else None

    # -- before ------------------------------------------------------------------------------------

    def _agent(self, id: str) -> Any:
        space: Any = self._person.space
        return None if space is None else space.agent(id)

    def _journal(self, id: str) -> Journal | None:
        journal: Journal | None = getattr(self._agent(id), "journal", None)
        return journal

    def _memory(self, id: str) -> Any:
        memory = getattr(self._agent(id), "memory", None)
        return memory if getattr(memory, "is_in_file", False) else None

    def _old_turns(self, journal: Journal, id: str, thread: str, max_turns: int) -> list[TalkTurn]:
        """Return the turns of the runs of a thread that began before the studio."""
        runs: list[Outline] = journal.runs(
            agent=id, thread=thread, until=self._started_at, sort="-began", limit=_MAX_RUNS
        )
        turns: list[TalkTurn] = []
        for run in (each for each in runs if each.thread == thread):
            turns[:0] = _turns_of_run(journal, run)
            if len(turns) >= max_turns:
                break
        return turns[-max_turns:]


def _lines(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(shorten(each.line, _WIDTH) for each in entries)


def _thread_name(thread: str | None, own_thread: str) -> str | None:
    """Return the name of a thread of the person, as `say` takes it."""
    return (
        thread[len(own_thread) + 1 :] or None
        if thread and thread.startswith(f"{own_thread}/")
        else None
    )


def _turn_of(message: SeenMessage, run: str | None) -> TalkTurn:
    content, failed = (
        message.arguments.get(ANSWER_FIELDS[message.head.action]),
        message.head.action == "error",
    )
    return TalkTurn(
        by_person=False, content=content, at=message.at, run=run, state="failed" if failed else ""
    )


def _turns_of_run(journal: Journal, run: Outline) -> Iterator[TalkTurn]:
    """Yield what a run was asked and, if it has ended, what it replied."""
    view = RunView(journal, run)
    yield TalkTurn(by_person=True, content=view.task, at=run.began, run=run.id)
    end = view.end
    if end is None:
        return
    text = end.text or REASONS.in_words(str(end.reason), end.detail)
    state = "" if end.text else "failed"
    yield TalkTurn(by_person=False, content=text, at=end.at, run=run.id, state=state)


def _earlier_turns(items: list[dict[str, Any]], contents: list[Any]) -> list[TalkTurn]:
    """Return the turns of a memory without its end, which was said since the studio began."""
    remaining = Counter(each for each in contents if isinstance(each, str))
    end = len(items)
    for index in range(len(items) - 1, -1, -1):
        if items[index].get("role") != "user":
            continue
        content = items[index].get("content")
        if not isinstance(content, str) or not remaining[content]:
            break
        remaining[content] -= 1
        end = index
    return [
        TalkTurn(by_person=each["role"] == "user", content=each["content"])
        for each in items[:end]
        if each.get("role") in ("user", "assistant") and each.get("content")
    ]
