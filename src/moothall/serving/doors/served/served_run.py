"""A run that a caller waits for: how far it is, what it tells and asks, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from moothall import Done, Event, JournalError, NoSuchRun, NotPermitted, Reply, RunMismatch
from moothall.build import one_line
from moothall.journal import REASONS, Outline, RunView
from moothall.serving.doors.asks import RESTING, Ask, Caller, OpenAsks, asks_of
from moothall.serving.doors.protocols import caller_text, ended_text
from moothall.serving.doors.served.last_items import LastItems

if TYPE_CHECKING:
    from moothall.journal import Wait
    from moothall.serving.doors.served_agents import Served

Content: TypeAlias = str | list[dict[str, Any]]
"""What a caller says: a text, or blocks."""
Work: TypeAlias = Callable[["ServedRun", Caller], Awaitable[Any]]
"""Has an agent reply to the caller of a run, and returns a message's value, or a `Reply`."""
ENDS: Final = frozenset(("done", "failed", "refused", "cancelled"))
PAUSES: Final = frozenset(("asking", "at_rest"))
_MAX_UNREAD: Final = 10_000
"""How many items a follower may be behind before it is told nothing more."""
_SLOW_UNREAD: Final = 100
"""How many, before a reply that can wait for it does."""
_LOOK_S: Final = 0.05


class RunRefused(Exception):
    """A door cannot do what a caller wants of a run; `reason` is a word for its protocol's error.

    `unknown`: the caller has no such run. `full`: too many are under way. `unexpected`: it takes
    no answer now. `not_cancelable`: it does not end.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class CallerRequest:
    """Who asks which agent for what: `context` is the conversation that its client names."""

    id: str
    agent: str
    sender: str
    caller: str
    context: str = ""
    content: Content = ""
    options: dict[str, Any] | None = None  # what it says of the reply
    can_answer: bool = True  # whether it can be asked while its request is under way
    is_reply: bool = True  # else another action of the agent is called


@dataclass(frozen=True)
class RunState:
    """How far a run is, at a moment.

    Attributes:
        name: `new`, `working`; `asking` its caller in this process; `at_rest` in its journal; or
            how it ended: `done`, `failed`, `refused`, `cancelled`
        text: what it does now, or why it has ended so
        asks: what it asks its caller, by key
        waits: what it waits for in its journal
        is_elsewhere: whether another process works on it
        at: since when, in seconds since 1970
    """

    name: str
    text: str = ""
    asks: Mapping[str, Ask] = field(default_factory=dict)
    waits: Sequence[Wait] = ()
    is_elsewhere: bool = False
    at: float = field(default_factory=time.time)

    @property
    def is_over(self) -> bool:
        """Whether nothing comes after it."""
        return self.name in ENDS

    @property
    def is_paused(self) -> bool:
        """Whether somebody has to answer first."""
        return self.name in PAUSES


class RunEvent(NamedTuple):
    """An event of a run's reply, or of a reply that it asked for."""

    event: Event | str  # a text is the progress of an action that is called itself
    is_own: bool


class RunQuestions(NamedTuple):
    """What a run asks its caller, and has asked, by key."""

    open_asks: Mapping[str, Ask]
    answered_asks: Mapping[str, Ask]  # what the caller has answered
    late_keys: Collection[str]  # of what needs no answer any more


class Follower(asyncio.Queue[RunState | RunEvent | None]):
    """The items of a run, from when it was made on; a wait for the next one may be cancelled."""

    def __init__(self, followers: set[Follower]) -> None:
        super().__init__()
        self._followers = followers
        followers.add(self)

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> RunState | RunEvent:
        if (item := await self.get()) is None:
            raise StopAsyncIteration
        return item

    def tell(self, item: RunState | RunEvent | None) -> None:
        """Tell an item, or by None that no more come."""
        # Its client does not read: its connection ends, before the server's memory does.
        is_last = item is None or self.qsize() >= _MAX_UNREAD
        if is_last:
            self._followers.discard(self)
        self.put_nowait(None if is_last else item)

    async def aclose(self) -> None:
        """Read no more."""
        self._followers.discard(self)


class ServedRun:
    """A run that a caller waits for: of this process, or as its journal has it.

    Args:
        request: who asks for what
        state: how far it is
        door_data: what its door keeps of it
        view: it in its journal; None while it is of this process
        ask_s: after how many seconds a question to its caller counts as not answered
    """

    def __init__(
        self,
        request: CallerRequest,
        state: RunState,
        door_data: Any = None,
        view: RunView | None = None,
        ask_s: float | None = None,
    ) -> None:
        self.request: CallerRequest = request
        self.state: RunState = state
        self.door_data: Any = door_data
        self.view: RunView | None = view
        self.reply: Reply | None = None  # the agent's, once it has ended
        self.value: Any = None  # what a message to the agent returns, if it is done
        self.error: Exception | None = None  # why it has not ended with a reply
        self.task: asyncio.Task[None] | None = None  # its work in this process
        self.has_begun: bool = False  # whether its run has begun, which a journal keeps
        self.is_handed_over: bool = False  # whether the next process goes on with it
        self.has_client: bool = False  # whether a request of its client waits for it
        self.open_asks: OpenAsks = OpenAsks(self._show_asks, ask_s)
        self.answer_token: str = ""  # that of the last answer here
        self._followers: set[Follower] = set()

    @property
    def id(self) -> str:
        """Its id, by which its caller knows it."""
        return self.request.id

    @property
    def ids(self) -> tuple[str, str, str]:
        """Its agent, its sender and its id, by which it is found."""
        return self.request.agent, self.request.sender, self.request.id

    def is_of(self, agent: str, sender: str) -> bool:
        """Return whether it is a sender's, and of this agent."""
        return self.ids[:2] == (agent, sender)

    @property
    def is_in_doubt(self) -> bool:
        """Whether a person decides about a call that was cut off, of it or of one it waits for."""
        is_own = self.view is not None and self.view.outline.state == "in_doubt"
        return is_own or any(each.kind == "doubt" for each in self.state.waits)

    @property
    def is_worked_on(self) -> bool:
        """Whether this process works on it."""
        return self.task is not None and not self.task.done()

    @property
    def goes_on(self) -> bool:
        """Whether it goes on by itself or once it is answered, or is done."""
        is_cut_off = self.state.name == "working" and not self.state.is_elsewhere
        is_stuck = self.view is not None and (is_cut_off or self.is_in_doubt)
        return not is_stuck and self.state.name not in ("failed", "refused", "cancelled")

    @property
    def changed_run(self) -> str:
        """The run whose program has changed, it or one that it waits for; empty without one."""
        error = self.error  # a message's is caused by it
        for each in (error, None if error is None else error.__cause__):
            if isinstance(each, RunMismatch):
                return each.run_id
        return self.id if getattr(error, "type", "") == "RunMismatch" else ""

    # -- following ---------------------------------------------------------------------------------

    def follow(self) -> Follower:
        """Return what happens to it from this call on, until its work here has ended."""
        # Not a generator: when its first item is asked for, a quick agent has ended.
        follower = Follower(self._followers)
        if not self.is_worked_on:
            follower.tell(None)
        return follower

    async def until(self, names: Collection[str]) -> None:
        """Wait until it is in one of these states, or its work here has ended."""
        async with aclosing(self.follow()) as items:
            while self.state.name not in names:
                if await anext(items, None) is None:
                    return

    async def until_read(self) -> None:
        """Wait while a follower is far behind: its client reads slowly."""
        while any(each.qsize() > _SLOW_UNREAD for each in self._followers):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    def tell(self, item: RunState | RunEvent | None) -> None:
        """Tell all followers an item, or by None that no more come: its work has ended."""
        for each in [*self._followers]:
            each.tell(item)

    def _set(self, name: str, text: str = "", **fields: Any) -> None:
        self.state = RunState(name, text, **fields)
        if name in ENDS and isinstance(self.request.content, list):
            self.request = replace(self.request, content="")  # an ended run keeps no files
        self.tell(self.state)

    # -- working -----------------------------------------------------------------------------------

    async def go(self, served: Served, work: Work) -> None:
        """Have the agent reply; what comes of it becomes the state here, and nowhere else."""
        request = self.request
        terms = (request.caller, request.content, request.options)
        run_id = request.id if request.is_reply else None
        asking = self.open_asks if request.can_answer else None
        caller = Caller(asyncio.get_running_loop(), asking, self.take, run_id, *terms)
        try:
            self.value = await work(self, caller)
            if isinstance(self.value, Reply):
                self.reply = self.value
            else:
                await asyncio.sleep(0)  # the events before it wait in this loop already
            await self._end(served)
        except asyncio.CancelledError:
            if not self.is_handed_over:
                self._set("cancelled")
            if self.task is None:  # it is the client's request that was cancelled
                raise
        except NotPermitted as error:
            self.error = error
            self._set("refused", str(error))
        except Exception as error:  # also of an agent of the user's own
            self.error = error
            await asyncio.sleep(0)  # as above: the event that has the reason
            await self._end(served)

    async def _end(self, served: Served) -> None:
        error, reply = self.error, self.reply
        reason = "" if reply is None else reply.stop_reason
        kind = "" if error is None else getattr(error, "type", type(error).__name__)
        if reason in RESTING or kind == "RunMismatch":
            await self._rest(served)
        elif error is None and self._has_answer(served):
            self._set("done")
        elif kind == "RunHeld":  # another process has resumed it
            self._set("working", is_elsewhere=True)
        elif kind == "RequestCancelled" and reason == "cancelled":  # by a request to its run
            self._set("cancelled")
        elif error is not None and reason in ("", "error", *REASONS.answered):
            self._set("failed", caller_text(error, self.id))
        elif reply is not None:
            self._set("failed", ended_text(reply, self.id))

    def _has_answer(self, served: Served) -> bool:
        if not isinstance(self.value, Reply):
            return True
        agent, reply = served.agents[self.request.agent], self.value
        return Reply.gives_text(agent, reply.stop_reason, reply.text)

    async def _rest(self, served: Served) -> None:
        """Say what it waits for; if the journal does not tell, that it waits."""
        try:
            waits = await served.waits(self.request.agent, self.id)
        except NoSuchRun as error:
            self._set("failed", caller_text(error, self.id))
        except JournalError:  # it rests all the same
            self._set("at_rest", REASONS.in_words("waiting"))
        else:
            asks = asks_of(waits, served.callers.permits(self.request.caller))
            self._set("at_rest", asks=asks, waits=waits)

    def take(self, event: Any) -> None:
        """Take an event of its reply, or of one that it asked for."""
        is_own = event.run_id == self.id and event.agent == self.request.agent
        if is_own:
            # A hook that fails before the run ends it, too.
            is_failure = isinstance(event, Done) and event.reply.stop_reason == "error"
            self.has_begun |= not is_failure
            if self.state.name == "new":
                self._set("working")
            if isinstance(event, Done):
                self.reply = event.reply
        self.tell(RunEvent(event, is_own))
        is_past, is_told = getattr(event, "past", False), event.kind in _TOLD_AS_EVENTS
        if event.progress and not (is_past or is_told or self.open_asks.open):
            self._set("working", one_line(event.progress, 300))

    def _show_asks(self, _: Ask) -> None:
        if not self.state.is_over:
            asks = {**self.open_asks.open}
            self._set("asking" if asks else "working", asks=asks)


class ClientWait:
    """Notes in its `with` block that a client waits for a run, and then that it has it."""

    def __init__(self, run: ServedRun, delivered: LastItems[str, None]) -> None:
        self._run, self._delivered = run, delivered

    def __enter__(self) -> None:
        self._run.has_client = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._run.has_client = False
        if kind is not asyncio.CancelledError:  # else it has left
            self._delivered.keep(self._run.id, None)


_TOLD_AS_EVENTS: Final = ("text", "call_ended", "done")
"""What is no progress: an answer's own words, and what follows from a call."""


def state_name_of(run: Outline, agent: Any, journal: Any) -> str:
    """Return how far a run of a journal is, as the name of its `RunState`."""
    if run.state in ("running", "stopped") or (run.state in Outline.parked and run.held):
        return "working"
    if run.state == "in_doubt":
        return "cancelled" if RunView(journal, run).was_cancelled else "at_rest"
    if run.state in (*Outline.parked, "cancelled"):
        return "cancelled" if run.state == "cancelled" else "at_rest"
    return "done" if Reply.gives_text(agent, run.state) else "failed"


def recorded_run(
    request: CallerRequest, view: RunView, agent: Any, may_permit: bool, door_data: Any = None
) -> ServedRun:
    """Return a run as its journal has it; it reads the file.

    `agent` has the journal; `may_permit` says whether its caller may permit calls.
    """
    run = view.outline
    name, text = state_name_of(run, agent, agent.journal), ""
    reply = view.reply if name in ENDS else None
    # A cancelled call may be in doubt, too.
    waits = view.all_waits if run.state in RESTING and not run.held else []
    if name == "failed":
        text = f"the run has no reply ({run.state})"
        text = text if reply is None else ended_text(reply, request.id, logs=False)
    is_elsewhere = name == "working" and run.state != "stopped"
    state = RunState(name, text, asks_of(waits, may_permit), waits, is_elsewhere, run.changed)
    served_run = ServedRun(request, state, door_data, view)
    served_run.reply, served_run.value = reply, None if reply is None else reply.text
    return served_run
