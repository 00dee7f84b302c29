"""Finds A2A tasks: those of this process, and the runs in the agents' journals."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import re
import secrets
from collections.abc import Iterator
from typing import Any, Final

from moothall.a2a.wire import (
    ANY_STATE,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    TERMINAL,
    WORKING,
    Fault,
    message_of,
    seconds,
    text_part,
)
from moothall.agent import Agent
from moothall.doors.a2a_tasks import IN_DOUBT, Task, artifact_of, status_json, task_json
from moothall.doors.callers import LOCAL, TOKEN
from moothall.doors.served import Served
from moothall.errors import JournalError, NoSuchRun, StateError
from moothall.journal import Journal, Outline
from moothall.jsonvalue import json_text
from moothall.reasoning.conversational import ConversationalAgent
from moothall.reasoning.recorded_agent import asked_in
from moothall.reasoning.reply import gives
from moothall.text import escaped, log_failure
from moothall.threads import WORKERS

logger: logging.Logger = logging.getLogger("moothall.doors")

ONE_FOR_ALL: Final = "shared"
"""The `contextId` of an agent that has one conversation with all callers."""
_MOST_LIVE, _MOST_OF_ONE, _MOST_ENDED = 1000, 100, 1000
_ID: Final = re.compile(r"a2a-([0-9a-f]{24})([0-9a-f]{16})")
_SENDER: Final = re.compile(r"a2a(-[0-9a-zA-Z_.:-]{1,45})?")


def _id_of(nonce: str, agent: str, sender: str) -> str:
    """Return the id of a task; the id tells whose task it is, in the journal too."""
    owner = hashlib.sha256(f"{nonce}\n{sender}\n{agent}".encode(errors="surrogatepass"))
    return f"a2a-{nonce}{owner.hexdigest()[:16]}"


def _is_of(id: str, agent: str, sender: str) -> bool:
    found = _ID.fullmatch(id)
    return found is not None and _id_of(found[1], agent, sender) == id


def is_task(run_id: str) -> bool:
    """Return whether a run is a task, which resumes when the doors open."""
    return _ID.fullmatch(run_id) is not None


class Tasks:
    """The tasks of all callers.

    Args:
        served: the agents
        has_token: whether callers send a token
    """

    def __init__(self, served: Served, has_token: bool) -> None:
        self._served = served
        self._has_token = has_token
        self._tasks: dict[str, Task] = {}

    # -- beginning and ending ----------------------------------------------------------------------

    def start(self, agent: str, sender: str, context: str, text: str) -> Task:
        """Begin a task of a caller.

        Raises:
            Fault: the caller, or all callers together, have too many
            BudgetExceeded: the caller has spent its budget
        """
        self._served.check(self._caller(sender))
        live = [each for each in self._tasks.values() if each.state not in TERMINAL]
        mine = sum(each.sender == sender for each in live)
        if len(live) >= _MOST_LIVE or mine >= _MOST_OF_ONE:
            raise Fault("INTERNAL_ERROR", "too many tasks are under way: wait until one has ended")
        shared = bool(getattr(self._served.agents[agent], "shared", False))
        if shared and context not in ("", ONE_FOR_ALL):
            why = "this agent has one conversation with all callers: leave contextId out"
            raise Fault("INVALID_PARAMS", why)
        context = ONE_FOR_ALL if shared else context or secrets.token_hex(16)
        return self._begin(
            _id_of(secrets.token_hex(12), agent, sender), agent, sender, context, text
        )

    def _begin(self, id: str, agent: str, sender: str, context: str, text: str) -> Task:
        say = self._served.agents[agent].offers["say"]
        in_thread = context != ONE_FOR_ALL and "thread" in say.parameters.get("properties", {})
        caller = self._caller(sender)
        task = self._tasks[id] = Task(id, agent, sender, context, text, in_thread, caller)
        task.work = asyncio.create_task(task.run(self._served))
        task.work.add_done_callback(lambda work: self._over(task))
        ended = [each for each in self._tasks.values() if each.state in TERMINAL]
        for each in ended[: max(0, len(ended) - _MOST_ENDED)]:
            del self._tasks[each.id]
        return task

    def _caller(self, sender: str) -> str:
        """Return the caller of a sender: the name of its token."""
        if not self._has_token:
            return LOCAL
        return sender.removeprefix("a2a").removeprefix("-") or TOKEN

    def _over(self, task: Task) -> None:
        """Drop a task whose run is in doubt; from now on its state is read from the journal."""
        if task.state not in TERMINAL:
            self._tasks.pop(task.id, None)

    async def resume(self) -> None:
        """Resume the tasks whose process was killed."""
        for id, agent in self._served.agents.items():
            if _journal_of(agent) is None:
                continue
            try:
                stopped = await _in_thread(self._stopped, id, agent)
            except JournalError as error:
                log_failure(logger, f"agent {id!r}: its tasks do not go on", error)
                continue
            for run, sender, context, text in stopped:
                self._begin(run, id, sender, context, text)

    def _stopped(self, id: str, agent: Agent) -> list[tuple[str, str, str, str]]:
        journal = _journal_of(agent)
        assert journal is not None
        found = []
        for run in journal.runs():
            if (
                run.state not in ("stopped", "in_doubt")
                or run.agent != id
                or not _ID.fullmatch(run.id)
                or (run.state == "in_doubt" and journal.in_doubt(run.id))
            ):
                continue
            entries = [*journal.entries(run.id)]
            sender, _, context = (run.thread or "").partition("/")
            if run.thread is None:
                sender, context = _asked_by(entries), ONE_FOR_ALL
            if not context or not _SENDER.fullmatch(sender) or not _is_of(run.id, id, sender):
                continue
            if (asked := asked_in(entries)) is not None:
                found.append((run.id, sender, context, _text_of(asked, run, sender)))
        return found

    async def close(self) -> None:
        """Cancel the running tasks; the next process resumes those that a journal records."""
        live = [each for each in self._tasks.values() if each.work and not each.work.done()]
        for task in live:
            journal = _journal_of(self._served.agents[task.agent])
            if journal is not None:
                task.left = True
                journal._leave(task.id)
        work = [each.work for each in live if each.work is not None]
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    # -- finding -----------------------------------------------------------------------------------

    def live(self, agent: str, sender: str, id: str) -> Task | None:
        """Return a caller's task of this process, or None."""
        task = self._tasks.get(id)
        return task if task is not None and _is_of(id, agent, sender) else None

    async def get(
        self, agent: str, sender: str, id: str, history: int | None = None
    ) -> dict[str, Any]:
        """Return a caller's task in the protocol's form.

        Raises:
            Fault: the caller has no such task
        """
        task = self.live(agent, sender, id)
        if task is not None:
            return task.to_json(history)
        found = await self.outline(agent, sender, id)
        made: dict[str, Any] = await _in_thread(self._recorded, agent, sender, found, history, True)
        return made

    async def outline(self, agent: str, sender: str, id: str) -> Outline:
        """Return the run of a caller's task that is not of this process.

        Raises:
            Fault: the caller has no such task
        """
        journal = _journal_of(self._served.agents[agent])
        if journal is not None and _is_of(id, agent, sender):
            try:
                found: Outline = await _in_thread(journal.run, id)
                if found.agent == agent:
                    return found
            except NoSuchRun:
                pass
        raise Fault("TASK_NOT_FOUND", "there is no such task")

    async def updates(self, agent: str, id: str) -> None:
        """Wait until no process works on a task of the journal any more."""
        journal = _journal_of(self._served.agents[agent])
        assert journal is not None
        async for _ in journal.follow(id):
            pass

    async def list(self, agent: str, sender: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a page of a caller's tasks; the tasks that changed last come first."""
        after = _cursor(params.get("pageToken") or "")
        since = seconds(params["statusTimestampAfter"]) if "statusTimestampAfter" in params else 0.0
        status = params.get("status", ANY_STATE[0])
        live = [
            (each.changed, each.id, each.context, each.state, each)
            for each in self._tasks.values()
            if _is_of(each.id, agent, sender)
        ]
        known = {each[1] for each in live}
        found = [*live, *await _in_thread(lambda: [*self._of_journal(agent, sender, known)])]
        wanted = sorted(
            (
                each
                for each in found
                if params.get("contextId") in (None, "", each[2])
                and status in (*ANY_STATE, each[3])
                and each[0] >= since
            ),
            key=lambda each: (-each[0], each[1]),
        )
        size = params.get("pageSize", 50)
        rest = [each for each in wanted if after is None or (-each[0], each[1]) > after]
        page, history = rest[:size], params.get("historyLength", 0)
        artifacts = params.get("includeArtifacts", False)
        tasks = []
        for each in page:
            if isinstance(each[4], Task):
                tasks.append(each[4].to_json(history, artifacts))
            else:
                args = (agent, sender, each[4], history, artifacts)
                tasks.append(await _in_thread(self._recorded, *args))
        token = _token(page[-1][0], page[-1][1]) if len(rest) > size else ""
        sizes = {"pageSize": len(page), "totalSize": len(wanted)}
        return {"tasks": tasks, "nextPageToken": token, **sizes}

    def _of_journal(
        self, agent: str, sender: str, known: set[str]
    ) -> Iterator[tuple[float, str, str, str, Outline]]:
        journal = _journal_of(self._served.agents[agent])
        for run in () if journal is None else journal.runs():
            if run.agent == agent and run.id not in known and _is_of(run.id, agent, sender):
                yield run.changed, run.id, _context_of(run, sender), self._state_of(run), run

    def _state_of(self, run: Outline) -> str:
        """Return how far a task of the journal is."""
        if run.state in ("running", "stopped"):
            return WORKING
        if run.state == "waiting":
            return WORKING if run.held else INPUT_REQUIRED
        if run.state == "in_doubt":
            journal = _journal_of(self._served.agents[run.agent])
            last = journal.entries(run.id, run.entries - 1) if journal is not None else []
            is_cancelled = bool(last) and last[-1].data.get("reason") == "cancelled"
            return CANCELED if is_cancelled else INPUT_REQUIRED
        if run.state == "cancelled":
            return CANCELED
        return COMPLETED if gives(self._served.agents[run.agent], run.state) else FAILED

    def _recorded(
        self, agent: str, sender: str, run: Outline, history: int | None, artifacts: bool
    ) -> dict[str, Any]:
        """Return a task of the journal in the protocol's form."""
        journal = _journal_of(self._served.agents[agent])
        assert journal is not None
        state, context = self._state_of(run), _context_of(run, sender)
        entries = journal.entries(run.id)
        asked = asked_in(entries)
        text, made, note = run.task if asked is None else _text_of(asked, run, sender), [], ""
        try:
            reply = journal.replay(run.id) if state in TERMINAL else None
        except StateError:
            reply = None
        if state == COMPLETED and reply is not None:
            made = [artifact_of(reply.text, reply.value, reply.blocks)] if artifacts else []
        elif state == INPUT_REQUIRED:
            waits = "; ".join(map(str, journal.waiting(run.id)))
            note = f"waiting for {waits}" if run.state == "waiting" else IN_DOUBT
        elif state == FAILED:
            note = f"the run has no reply ({run.state})"
            note += f": {reply.detail}" if reply is not None and reply.detail else ""
        elif state == CANCELED:
            note = "the task was cancelled"
        parts = [text_part(note)] if note else []
        status = status_json(run.id, context, state, run.changed, parts)
        messages = [message_of("USER", f"{run.id}-0", run.id, context, [text_part(text)])]
        return task_json(run.id, context, status, made, messages, history)


def _journal_of(agent: Agent) -> Journal | None:
    if not isinstance(agent, ConversationalAgent) or not agent._resumes("say"):
        return None
    found: Journal | None = getattr(agent, "journal", None)
    return found


def _asked_by(entries: list[Any]) -> str:
    """Return the sender who asked for a run."""
    begun: Any = next((each.data for each in entries if not each.path and each.kind == "begun"), {})
    return str(begun.get("asked_by", ""))


def _text_of(asked: dict[str, Any], run: Outline, sender: str) -> str:
    """Return the text of a caller's request, without the marks around it."""
    text = json_text(asked["text"])
    if run.thread is not None:
        return text
    mark = f"{escaped(sender)}: "
    return "\n".join(line.removeprefix(mark) for line in text.splitlines())


def _context_of(run: Outline, sender: str) -> str:
    return ONE_FOR_ALL if run.thread is None else run.thread.removeprefix(f"{sender}/")


def _in_thread(function: Any, *args: Any) -> asyncio.Future[Any]:
    return WORKERS.run(asyncio.get_running_loop(), function, *args)


def _token(changed: float, id: str) -> str:
    return base64.urlsafe_b64encode(f"{changed!r} {id}".encode()).decode()


def _cursor(token: str) -> tuple[float, str] | None:
    """Return the place after which a page begins; None for the first page."""
    if not token:
        return None
    try:
        changed, _, id = base64.urlsafe_b64decode(token.encode()).decode().partition(" ")
        if not _ID.fullmatch(id):
            raise ValueError
        return -float(changed), id
    except (ValueError, binascii.Error):
        raise Fault("INVALID_PARAMS", "pageToken must be one that this server returned") from None
