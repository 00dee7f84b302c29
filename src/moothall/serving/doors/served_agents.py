"""The agents that the doors serve, and the senders of the callers' messages."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast
from weakref import WeakSet

from moothall import (
    ACCESS_DENIED,
    ACCESS_PERMITTED,
    Action,
    ActionError,
    ActionNotFound,
    Agent,
    AgentNotFound,
    ConversationalAgent,
    DefinitionError,
    Event,
    InvalidArguments,
    MailboxFull,
    NativeSpace,
    NotPermitted,
    Question,
    RunWaiting,
)
from moothall.actions import DECISION_KINDS
from moothall.build import (
    CURRENT,
    CallerContext,
    Delivery,
    Envelope,
    Threaded,
    address,
    answer,
    call_user,
    context_value,
    guard,
)
from moothall.journal import Journal, Wait
from moothall.serving.a2a.wire import CARD_PATH
from moothall.serving.doors.asks import Caller, CallerApprover, call_on_loop
from moothall.serving.doors.callers import (
    LOCAL,
    MAX_SENDERS,
    Callers,
    Senders,
    say_policy,
    waits_of,
)
from moothall.serving.doors.checks import in_thread
from moothall.serving.doors.protocols import DOORS, TooOften, to_path

_BUSY_S: Final = 5
"""After how many seconds a caller may ask a busy server again."""
_NOT_STARTED: Final = (InvalidArguments, NotPermitted, AgentNotFound, ActionNotFound, MailboxFull)


def _check_id(id: str) -> None:
    if id.endswith(CARD_PATH):
        text = f"the doors read {CARD_PATH!r} after an id in an address as its card"
        raise DefinitionError(f"agent {id!r} cannot be served: {text}, so give it another id")


_OPEN_DOORS: Final[WeakSet[Served]] = WeakSet()
_OPEN_DOORS_LOCK: Final = guard()


class _Sender(Agent):
    """The sender of a caller's messages. It receives none."""


@dataclass(slots=True, kw_only=True, eq=False)
class _DoorCall(CallerContext):
    """What goes with the call of a door, beside the message."""

    door_call: tuple[Served, Caller]


class Served:
    """Agents that callers call from outside. Each caller has its own sender.

    Args:
        agents: agents of one space, whose approver decides; or agents in none, which are added to
            a new one, where the caller is asked
        callers: the callers, with what each may spend
        space: a space to which its owner adds the agents, and tells of each by `put`

    Raises:
        DefinitionError: there are none, some are in another space, or an id cannot be in an address
        ConfigError: an agent has a budget that the callers' is no part of
    """

    def __init__(
        self, agents: Agent | Iterable[Agent], callers: Callers | None = None, space: Any = None
    ) -> None:
        agent_list = [agents] if isinstance(agents, Agent) else list(agents)
        if (not agent_list and space is None) or not all(
            isinstance(each, Agent) for each in agent_list
        ):
            raise DefinitionError(f"doors need agents, got {agents!r:.80}")
        spaces = {id(each.space): each.space for each in agent_list}
        if len(spaces) > 1:
            raise DefinitionError("doors need agents of one space, or agents that are in none")
        self.callers: Callers = Callers() if callers is None else callers
        for each in agent_list:
            _check_id(address(each.id))
            self.callers.check(each)
        self.agents: dict[str, Agent] = {address(each.id): each for each in agent_list}
        self._space: Any = agent_list[0].space if space is None else space
        self._owns_space = self._space is None
        self._withdrawn_ids: set[str] = set()
        self.answered_runs: set[str] = set()  # whose callers go on with them: no look does
        self._running_calls: set[_DoorCall] = set()
        self._replies = set[object]()  # one for each reply under way
        self._senders: dict[str, _Sender] = {}
        self._call_counts: Counter[str] = Counter()  # calls so far, by the caller's name
        self.open()

    def open(self) -> None:
        """Serve the agents, again after a `close`; nothing if they are served."""
        with _OPEN_DOORS_LOCK:
            if self in _OPEN_DOORS:
                return
            _OPEN_DOORS.add(self)
        if self._owns_space:
            self._senders.clear()  # of the space before
            self._space = NativeSpace(approver=CallerApprover())
            try:
                for each in self.agents.values():
                    self._space.add(each)
            except BaseException:
                self._space.close()
                with _OPEN_DOORS_LOCK:
                    _OPEN_DOORS.discard(self)
                raise
        if isinstance(self._space.approver, CallerApprover):
            self._space.approver.served = self
        for each in self.agents.values():
            if isinstance(each, Threaded):
                each.watch(self._forward_event)

    @staticmethod
    def rows_here() -> list[dict[str, Any]]:
        """Return what each door of this process serves, to whom and how much."""
        with _OPEN_DOORS_LOCK:
            doors = list(_OPEN_DOORS)
        return [each.door_row() for each in doors]

    def put(self, agent: Agent) -> None:
        """Serve an agent instead of an earlier one with its id; its owner adds it to the space."""
        _check_id(address(agent.id))
        self._withdrawn_ids.discard(address(agent.id))
        old = self.agents.get(address(agent.id))
        if old is agent:
            return
        if isinstance(old, Threaded):
            old.unwatch(self._forward_event)
        self.agents[address(agent.id)] = agent
        if isinstance(agent, Threaded):
            agent.watch(self._forward_event)

    def give_up(self, id: str) -> None:
        """Serve an agent no more: to callers, it is not there."""
        self._withdrawn_ids.add(id)  # not removed: calls under way look it up at their end

    @property
    def offered(self) -> dict[str, Agent]:
        """The agents that callers may call now, by id."""
        return {id: each for id, each in [*self.agents.items()] if id not in self._withdrawn_ids}

    def door_row(self) -> dict[str, Any]:
        """Return who is served to whom, and how much, for a page."""
        callers = [*self.callers.tokens] if self.callers.tokens is not None else [LOCAL]
        return {
            "agents": [*self.offered],
            "paths": self._paths(),
            "actions": len(self.actions()),
            "callers": callers,
            "calls": dict(self._call_counts),
            "under_way": len(self._running_calls),
            **self.callers.page_data(),
        }

    def _paths(self) -> list[tuple[str, str]]:
        """Return by which protocols the agents are reached, each with its path."""
        replying_paths = [to_path(id) for id in self.replying()]
        return [(door.title, path) for door in DOORS for path in door.addresses(replying_paths)]

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._running_calls)

    def actions(self) -> Sequence[tuple[str, Action]]:
        """Return what callers may call: each agent's id, and an action that it offers."""
        return [
            (id, action)
            for id, agent in self.offered.items()
            for action in agent.offers.values()
            if action.access_policy != ACCESS_DENIED
        ]

    async def call(
        self,
        sender: str,
        to: str,
        action: str,
        args: dict[str, Any],
        caller: Caller,
        on_progress: Callable[[str], None] | None = None,
    ) -> Any:
        """Call an action for a caller, and return its value; if cancelled, cancel the action.

        `on_progress` is told the action's own progress, on the caller's loop.

        Raises:
            RunWaiting: the reply waits; `waits` says for what, and a call with its `run_id` as the
                caller's goes on once that is answered
            RequestError: the action did not return a value
            BudgetExceeded: the caller may not spend what it needs
        """
        call = {"name": action, "args": args}
        message = {"id": f"door-{secrets.token_hex(16)}", "to": to, "action": call}
        context = self._call_context(caller)
        is_reply = action == "say" and isinstance(self.agents[to], ConversationalAgent)
        # A reply counts what it does itself.
        reservation = None if context.pays is None or is_reply else context.pays.reserve(actions=1)
        if on_progress is not None:
            context.hears = partial(call_on_loop, caller.loop, on_progress)
        with reservation or nullcontext(), self._counted_sender(sender, caller, context) as agent:
            try:
                return await agent.send_request(message, None, caller_context=context)
            except _NOT_STARTED:
                if reservation is not None:
                    reservation.release()
                raise
            except ActionError as error:
                if not is_reply or error.type != RunWaiting.__name__:
                    raise
                run_waiting = RunWaiting(error.text, error.where)
                run_waiting.run_id = error.run_id or caller.run_id
                raise run_waiting from error

    def journal_of(self, agent: str) -> Journal | None:
        """Return the journal that records the replies of an agent; None without one."""
        return cast("Journal | None", getattr(self.agents.get(agent), "journal", None))

    async def waits(self, agent: str, run_id: str, sender: str | None = None) -> list[Wait]:
        """Return what a run of an agent waits for; NotPermitted if it is no run of a `sender`."""
        journal = self.journal_of(agent)
        waits: list[Wait] = await in_thread(waits_of, journal, agent, run_id, sender)
        return waits

    async def answer(self, run_id: str, answer: Callable[[], object]) -> None:
        """Give a run an answer; whoever calls this goes on with it, and then discards its id."""
        self.answered_runs.add(run_id)
        try:
            await in_thread(answer)
        except BaseException:
            self.answered_runs.discard(run_id)
            raise

    def check(self, caller: str) -> None:
        """Check that a caller may begin a call.

        Raises:
            BudgetExceeded: it has spent its budget
        """
        self.callers.budget(caller)

    @property
    def is_full(self) -> bool:
        """Whether the limit of simultaneous replies is reached."""
        limit = self.callers.max_replies
        return limit is not None and len(self._replies) >= limit

    def count_reply(self, *, is_new: bool = True) -> Callable[..., None]:
        """Count a reply until the function that is returned is called, such as by its task.

        A reply that goes on is never refused: it was let in before.

        Raises:
            TooOften: the reply is new, and the limit of simultaneous replies is reached
        """
        if is_new and self.is_full:
            text = "the server is busy: its limit of simultaneous replies is"
            raise TooOften(_BUSY_S, f"{text} {self.callers.max_replies}")
        reply = object()
        self._replies.add(reply)
        return lambda *task: self._replies.discard(reply)

    def saying(self) -> dict[str, Agent]:
        """Return the agents to which callers may say something, by id."""
        return {
            id: agent
            for id, agent in self.offered.items()
            if say_policy(agent) not in (None, ACCESS_DENIED)
        }

    def replying(self) -> dict[str, ConversationalAgent]:
        """Return those of them that reply, with threads and streams."""
        return {id: e for id, e in self.saying().items() if isinstance(e, ConversationalAgent)}

    @contextmanager
    def calling(self, sender: str, to: str, caller: Caller) -> Iterator[None]:
        """Make all that is asked of an agent in the `with` block a call of this caller.

        Raises:
            BudgetExceeded: the caller has spent its budget
        """
        context = self._call_context(caller)
        with self._counted_sender(sender, caller, context) as agent:
            delivery = Delivery(Envelope(sender, to, "say", {}), Delivery.REQUEST)
            delivery.mailbox, delivery.state = agent.space_mailbox, Delivery.RUNNING
            delivery.caller_context = context
            # As if a message were handled: what the reply leads to finds its caller by `CURRENT`.
            with context_value(CURRENT, delivery):
                yield

    @contextmanager
    def _counted_sender(self, sender: str, caller: Caller, context: _DoorCall) -> Iterator[Agent]:
        """Count a call in the `with` block, which gets its sender."""
        self._running_calls.add(context)
        self._call_counts[caller.name] += 1
        if (agent := self._senders.get(sender)) is None:
            while len(self._senders) >= MAX_SENDERS:
                self._senders.pop(next(iter(self._senders)), None)
            agent = self._senders.setdefault(sender, _Sender(sender))
        try:
            with Senders.in_space(self._space).in_use(self._space, sender):
                self._space.give_outbox(agent)
                yield agent
        finally:
            # A task that the action has left behind still has it: it asks and pays no more.
            context.open = False
            self._running_calls.discard(context)

    async def permit(self, sender: str, agent: ConversationalAgent, content: Any) -> None:
        """Ask for approval if the agent's `say` needs it; call it within `calling`.

        Raises:
            NotPermitted: it was refused
        """
        if say_policy(agent) in (ACCESS_PERMITTED, ACCESS_DENIED):
            return
        action = {"name": "say", "args": {"content": content}}
        message: Any = {"from": sender, "to": str(agent.id), "action": action}
        mailbox: Any = agent.space_mailbox
        # On the loop of its space, where its code runs otherwise, too.
        decision = await mailbox.carry(lambda: call_user(agent.request_permission, message))
        if decision is not True:
            raise DECISION_KINDS.refusal_of(f"{agent.id}.say", decision)

    async def close(self) -> None:
        """Close the space, if it was made here."""
        with _OPEN_DOORS_LOCK:
            if self not in _OPEN_DOORS:
                return
            _OPEN_DOORS.discard(self)
        # First: agents outlive the door, and would tell it of each of their events.
        for each in self.agents.values():
            if isinstance(each, Threaded):
                with suppress(KeyError):  # one that has failed is called no more
                    each.unwatch(self._forward_event)
        if self._owns_space:
            await in_thread(self._space.close)

    def _call_context(self, caller: Caller) -> _DoorCall:
        """Return what goes with a call; raise BudgetExceeded if the caller has spent its budget."""
        content = caller.content if isinstance(caller.content, list) else None
        return _DoorCall(
            door_call=(self, caller),
            asks=self._ask,
            pays=self.callers.budget(caller.name),
            run_id=caller.run_id,
            content=content,
            options=caller.options,
            holds=True,
        )

    def _caller(self) -> Caller | None:
        """Return the caller whose call led to the code that runs now, or None."""
        served, caller = CallerContext.nearest(CURRENT.get(), "door_call") or (None, None)
        return caller if served is self else None

    async def _ask(self, question: Question) -> str:
        """Ask the person behind the space's approver, which is the caller, or decides itself."""
        return await answer(self._space.approver, question)

    def _forward_event(self, event: Event) -> None:
        # Called with each event of the agents, most of which are of no call of a door.
        if self._running_calls and (caller := self._caller()) is not None:
            call_on_loop(caller.loop, caller.tell, event)
