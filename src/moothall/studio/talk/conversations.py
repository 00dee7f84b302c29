"""The person's conversations with an agent: what was said now, and before the studio began.

What was said before is read from the journal of the agent, else from its memory in a file.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moothall.actions.message import BROADCAST
from moothall.agents.replies.thread import thread_of_sender
from moothall.journal.stop_reason import in_words
from moothall.studio.talk.messages import Messages, Seen

if TYPE_CHECKING:
    from moothall.journal.entry import Outline
    from moothall.journal.journal import Journal
    from moothall.spaces.you import You

ANSWERS: Final = {"say": "content", "response": "data", "error": "error"}
"""The actions that answer, each with the argument that has what it says."""
_TURNS: Final = 200
"""How many of the last turns of a conversation are shown."""
_RUNS: Final = 500
"""In how many runs of an agent conversations are looked for, the newest."""
_BEGAN_S: Final = 0.1
"""By how much a run may seem to have begun before what it answers was seen."""


@dataclass(kw_only=True)
class Turn:
    """What one of the two said.

    Attributes:
        mine: whether the person said it
        said: the text, or JSON data
        at: when, or None where only a memory has it
        run: the recorded run of it, or None
        state: `waiting`, `failed` or empty
    """

    mine: bool
    said: Any
    at: float | None = None
    run: str | None = None
    state: str = ""


class Conversations:
    """What the person has said to each agent, thread by thread, and what it replied."""

    def __init__(self, me: You, messages: Messages) -> None:
        self._me = me
        self._messages = messages
        self._since = time.time()

    def threads(self, id: str) -> dict[str, Any]:
        """Return the conversations with an agent, the newest first, and what keeps them.

        `threads` are `{thread, at}`: None for the one without a name. `kept` is `journal`, `memory`
        or None where nothing outlives the program; `here` is whether the agent is in this program.
        """
        found: dict[str | None, float | None] = {None: None}
        for seen in self._messages.newest():
            if self._is_said(seen, id):
                found.setdefault(self._thread(seen), seen.at)
        journal, memory = self._journal(id), self._memory(id)
        mine = thread_of_sender(str(self._me.id))
        if journal is not None:
            for run in journal.runs(agent=id, thread=mine, sort="-began", limit=_RUNS):
                found.setdefault(_named(run.thread, mine), run.began)
        elif memory is not None:
            for thread in memory.threads():
                if thread == mine or thread.startswith(f"{mine}/"):
                    found.setdefault(_named(thread, mine), None)
        kept = "journal" if journal is not None else "memory" if memory is not None else None
        threads = [{"thread": thread, "at": at} for thread, at in found.items()]
        return {"threads": threads, "kept": kept, "here": self._agent(id) is not None}

    def turns(self, id: str, thread: str | None) -> list[Turn]:
        """Return the last turns of a conversation, the oldest first."""
        now = self._now(id, thread)
        room = _TURNS - len(now)
        if room <= 0:
            return now[-_TURNS:]
        journal, memory = self._journal(id), self._memory(id)
        of = thread_of_sender(str(self._me.id), thread)
        if journal is not None:
            return [*self._recorded(journal, id, of, room), *now]
        if memory is not None:
            said = [each.said for each in now if each.mine]
            return [*_before(memory.thread(of)._newest(_TURNS), said), *now][-_TURNS:]
        return now

    # -- now ---------------------------------------------------------------------------------------

    def _now(self, id: str, thread: str | None) -> list[Turn]:
        """Return what was said since the studio began."""
        me = str(self._me.id)
        found: list[Turn] = []
        runs = self._runs(id, thread)
        for seen in self._messages.newest():
            head, asked = seen.head, seen.answers
            if self._is_said(seen, id) and self._thread(seen) == thread:
                waits = "waiting" if head.to == id and not seen.outcomes else ""
                said, run = seen.arguments.get("content"), runs.get(seen.number)
                found.append(Turn(mine=True, said=said, at=seen.at, run=run, state=waits))
            elif (head.sender, head.to) == (id, me) and head.action in ANSWERS:
                if asked is None:
                    is_here = head.action == "say" and thread is None
                else:
                    is_here = self._is_said(asked, id) and self._thread(asked) == thread
                if is_here:
                    run = None if asked is None else runs.get(asked.number)
                    found.append(_answer(seen, run))
            if len(found) == _TURNS:
                break
        return found[::-1]

    def _runs(self, id: str, thread: str | None) -> dict[int, str]:
        """Return the recorded runs of what was said since the studio began, by its number."""
        journal = self._journal(id)
        if journal is None:
            return {}
        of = thread_of_sender(str(self._me.id), thread)
        runs = journal.runs(agent=id, thread=of, since=self._since, sort="-began", limit=_TURNS)
        left = [each for each in runs if each.thread == of and each.forked_from is None]
        found: dict[int, str] = {}
        for seen in self._messages.newest():  # each run is of the last such words before it
            if self._is_said(seen, id) and self._thread(seen) == thread:
                said = str(seen.arguments.get("content"))
                mine = [each for each in left if said.startswith(each.task.removesuffix("…"))]
                if run := next((each for each in mine if each.began >= seen.at - _BEGAN_S), None):
                    found[seen.number] = run.id
                    left.remove(run)
            if not left or len(found) == _TURNS:
                break
        return found

    def _is_said(self, seen: Seen, id: str) -> bool:
        is_mine = seen.head.sender == str(self._me.id) and seen.head.action == "say"
        return is_mine and seen.head.to in (id, BROADCAST)

    def _thread(self, seen: Seen) -> str | None:
        named = seen.arguments.get("thread")
        return named if isinstance(named, str) and named else None

    # -- before ------------------------------------------------------------------------------------

    def _agent(self, id: str) -> Any:
        space: Any = self._me.space
        return None if space is None else space._here(id)

    def _journal(self, id: str) -> Journal | None:
        journal: Journal | None = getattr(self._agent(id), "journal", None)
        return journal

    def _memory(self, id: str) -> Any:
        memory = getattr(self._agent(id), "memory", None)
        return memory if getattr(memory, "_in_file", False) else None

    def _recorded(self, journal: Journal, id: str, thread: str, most: int) -> list[Turn]:
        """Return the turns of the runs of a thread that began before the studio."""
        runs: list[Outline] = journal.runs(
            agent=id, thread=thread, until=self._since, sort="-began", limit=_RUNS
        )
        found: list[Turn] = []
        for run in (each for each in runs if each.thread == thread):
            found[:0] = _of_run(journal, run)
            if len(found) >= most:
                break
        return found[-most:]


def _named(thread: str | None, mine: str) -> str | None:
    """Return the name of a thread of the person, as `say` takes it."""
    return thread[len(mine) + 1 :] or None if thread and thread.startswith(f"{mine}/") else None


def _answer(seen: Seen, run: str | None) -> Turn:
    said, failed = seen.arguments.get(ANSWERS[seen.head.action]), seen.head.action == "error"
    return Turn(mine=False, said=said, at=seen.at, run=run, state="failed" if failed else "")


def _of_run(journal: Journal, run: Outline) -> Iterator[Turn]:
    """Yield what a run was asked and, if it has ended, what it replied."""
    begun = next(iter(journal.entries(run.id, 0, 1)), None)
    task = run.task if begun is None else begun.data.get("task", run.task)
    yield Turn(mine=True, said=task, at=run.began, run=run.id)
    last = next(iter(journal.entries(run.id, run.entries - 1, 1)), None) if run.entries else None
    if last is None or last.kind != "over" or last.path:
        return
    reason, detail = str(last.data.get("reason")), str(last.data.get("detail") or "")
    said = last.data.get("text") or in_words(reason, detail)
    failed = not last.data.get("text")
    state = "failed" if failed else ""
    yield Turn(mine=False, said=said, at=last.at, run=run.id, state=state)


def _before(items: list[dict[str, Any]], said: list[Any]) -> list[Turn]:
    """Return the turns of a memory without its end, which was said since the studio began."""
    left = Counter(each for each in said if isinstance(each, str))
    end = len(items)
    for at in range(len(items) - 1, -1, -1):
        if items[at].get("role") != "user":
            continue
        content = items[at].get("content")
        if not isinstance(content, str) or not left[content]:
            break
        left[content] -= 1
        end = at
    return [
        Turn(mine=each["role"] == "user", said=each["content"])
        for each in items[:end]
        if each.get("role") in ("user", "assistant") and each.get("content")
    ]
