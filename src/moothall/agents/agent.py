"""Agents: identity, actions, callbacks and messaging.

An agent is a class with `@action` methods.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never, Protocol, TypeVar

from moothall.actions import Action, action
from moothall.actions.approval import ApprovalRequest, Approver, approve, check_approver
from moothall.actions.approval.decision import Decision
from moothall.actions.message import address
from moothall.agents.dispatch import AgentToolbox
from moothall.agents.messaging import Messaging
from moothall.agents.workflow import block_actions, not_found, own_actions, proposed_actions
from moothall.foundation.arguments import check_boolean, check_integer, unknown_argument_error
from moothall.foundation.errors import ConfigError
from moothall.foundation.threads import ProcessBound, plain_or_async

if TYPE_CHECKING:
    from moothall.budget import Budget

logger: logging.Logger = logging.getLogger("moothall.agents")

A = TypeVar("A", bound="Agent")

STANDARD_ACTIONS = frozenset(("help", "response", "error"))
"""The actions that every agent has; `help` leaves them out."""


class Handling(Protocol):
    """A message that an agent handles."""

    @property
    def parent(self) -> Handling | None:
        """The message during whose handling the sender made this request, or None."""

    @property
    def agent(self) -> Agent | None:
        """The receiver."""

    @property
    def idempotency_key(self) -> str | None:
        """The message's idempotency key, if it came over a broker."""

    @property
    def answered_thread(self) -> str | None:
        """For an answer: the thread that sent the request; empty for the agent's own."""

    @property
    def on_event(self) -> Callable[[dict[str, Any]], None] | None:
        """Takes what its handler streams, if the sender of a request listens."""

    @property
    def outside(self) -> tuple[str, ...]:
        """The outside sources that its sender, or who had it sent, had read."""

    @property
    def within(self) -> str | None:
        """For a `say` sent within a reply: the thread of that reply."""

    @property
    def caller_context(self) -> Any:
        """What its sender gave beside it: a `CallerContext`, or None."""

    @property
    def is_request(self) -> bool:
        """Whether its sender waits for its outcome."""

    @property
    def replies(self) -> tuple[Any, ...]:
        """The replies within which it was sent, the outermost first."""

    @property
    def upward(self) -> Any:
        """The call of a reply that a request is, if it is one: an `UpwardCall`, or None."""

    def message(self) -> dict[str, Any] | None:
        """Return the message; None in a callback of the agent's own."""

    def leave_lane(self) -> None:
        """Let the next message of its conversation begin: its handler only waits."""

    def approver_of_asker(self, agent: Agent) -> Approver | None:
        """Return the approver of who asks an agent that handles it, or of who asks that one."""


CURRENT: ContextVar[Handling | None] = ContextVar("moothall_handling", default=None)
"""The message being handled, in the task or thread that handles it and those that these start."""


def leads_to(outer: Handling, handling: Handling | None) -> bool:
    """Return whether `outer` is earlier in the call chain of `handling`."""
    while handling is not None:
        handling = handling.parent
        if handling is outer:
            return True
    return False


class AnySpace(Protocol):
    """What an agent's program may do with the agent's space; `Space` documents it."""

    def add(self, agent: A, *, shared: bool = False, groups: Iterable[str] = ()) -> A:
        """Add an agent."""

    def remove(self, agent: Agent | str | int) -> None:
        """Remove an agent."""

    def agent(self, id: str) -> Agent | None:
        """Return the agent of this id that is in this process, or None."""

    def note_keeper(self, agent: Agent, sender: str) -> None:
        """Note that an agent keeps a conversation with a sender, who may leave."""

    def ids(self, group: str | None = None) -> list[str]:
        """Return the ids of the agents, or of those in a group."""

    def close(self) -> None:
        """Close the space."""


class Agent(ProcessBound, Messaging, remedy="make the agent in the function that runs there"):
    """An identity with actions, and a step, `run()`, to which its blocks belong.

    Args:
        id: 1–255 characters, not `*`, not starting with `amq.`; an int is sent as its decimal text
        name: what people call it; its id if left out
        type: what kind of agent it is, such as an `AgentType`
        toolbox: its model and its environment
        memory: what it remembers
        agent_params: its parameters; those of `ParamsType` by default, which checks a dict
        blocks: plugins: they prepare before each step of `run()`, clean up after it, and give the
            agent actions
        receive_own_broadcasts: whether it receives what it sends to `*` itself
        concurrency: how many messages without a lane, and how many lanes, it handles at a time
        approver: the approver that the default `request_permission` asks; default: the space's, or
            else that of the agent on whose behalf it acts
        deps: anything; actions find it in their `Context`
        description: what it is good for, as others are told: its card of A2A, and what a model
            reads of `say` and `as_action`

    Raises:
        InvalidId: the id is not valid
        DefinitionError: an action's signature cannot be described, or an argument is wrong
    """

    receive_own_broadcasts: bool = True
    concurrency: int = 1
    approver: Approver | None = None
    stands_for: Agent | None = None  # the agent in whose place this copy of it replies
    deps: Any = None
    description: str | None = None
    budget: Budget | None = None
    trusted: frozenset[str] = frozenset()
    """Whose words do not count as from outside."""
    is_remote: bool = False
    """Whether another agent answers for it, in another place."""
    is_untracked: bool = False
    """Whether nobody knows what it has read: its words count as from outside."""
    max_lanes: int = 16
    """How many lanes are handled side by side."""

    def __init__(
        self,
        id: str | int,
        name: str | None = None,
        type: Any = None,
        toolbox: AgentToolbox | None = None,
        memory: Any = None,
        agent_params: Any = None,
        blocks: Iterable[Any] | None = None,
        *,
        receive_own_broadcasts: bool = True,
        concurrency: int | None = None,
        approver: Approver | None = None,
        deps: Any = None,
        description: str | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise unknown_argument_error(self.__class__, unknown) or TypeError(
                f"unexpected {[*unknown]}"
            )
        address(id)
        check_boolean(f"agent {id!r}: receive_own_broadcasts=", receive_own_broadcasts)
        self.id = id
        # Only what differs from the class is stored: a city holds very many agents.
        if not receive_own_broadcasts:
            self.receive_own_broadcasts = False
        if concurrency is not None:
            check_integer(f"agent {id!r}: concurrency=", concurrency)
            if overrides(self, "find_lane") or concurrency != self.concurrency:
                self.concurrency = self.max_lanes = concurrency
        if approver is not None:
            check_approver(approver, f"agent {id!r}")
            self.approver = approver
        if deps is not None:
            self.deps = deps
        if description is not None:
            if not isinstance(description, str) or not description.strip():
                raise ConfigError(
                    f"agent {id!r}: description= must be a text, got {description!r:.80}"
                )
            self.description = description
        has_parts = not (name is type is toolbox is memory is agent_params is blocks is None)
        if has_parts or self.memory_config:
            self._take_parts(name, type, toolbox, memory, agent_params, blocks)

    # -- what others may call ----------------------------------------------------------------------

    @property
    def offers(self) -> dict[str, Action]:
        """Return what others may call: its `@action` methods, and its blocks' that state a policy.

        Help, response and error, which every agent has, are left out.
        """
        offers_by_name = self.all_offers().items()
        return {name: each for name, each in offers_by_name if name not in STANDARD_ACTIONS}

    def all_offers(self) -> dict[str, Action]:
        """Return what `offers` returns, plus help, response and error."""
        actions = own_actions(self)
        if self.description is not None and "say" in actions:
            actions["say"].description = self.description
        if self.blocks:
            block_offers = block_actions(self.blocks).items()
            actions |= {name: each for name, each in block_offers if "access_policy" in vars(each)}
        return actions

    @action(idempotent=True)
    @plain_or_async
    async def help(self, action_name: str | None = None) -> dict[str, Any]:
        """Describe the actions of this agent.

        Args:
            action_name: describe only this one

        Returns:
            the description of each action by its name
        """
        if action_name is None:
            return {name: action.help for name, action in self.offers.items()}
        if action_name not in (actions := self.all_offers()):
            raise not_found(self, action_name)
        return {action_name: actions[action_name].help}

    @action(idempotent=True)
    @plain_or_async
    async def response(self, data: Any, original_message_id: str | None = None) -> None:
        """Receive the value that an action returned. Override it to use the value.

        Args:
            data: the value
            original_message_id: the id of the message that asked for it
        """

    @action(idempotent=True)
    @plain_or_async
    async def error(self, error: str, original_message_id: str | None = None) -> None:
        """Receive what went wrong with a message that this agent sent; by default it is logged.

        Args:
            error: what went wrong
            original_message_id: the id of the message
        """
        message = self.current_message or {}
        message_note = "" if original_message_id is None else f" (message {original_message_id!r})"
        text = "agent %r got an error from %r%s: %s"
        logger.warning(text, self.id, message.get("from"), message_note, error)

    # -- messaging ---------------------------------------------------------------------------------

    @property
    def space(self) -> AnySpace | None:
        """The space that the agent is in, or None."""
        return None if self.space_mailbox is None else self.space_mailbox.space

    @property
    def current_message(self) -> dict[str, Any] | None:
        """The message being handled, in the task or thread that handles it; None without one."""
        handling = CURRENT.get()
        return None if handling is None or handling.agent is not self else handling.message()

    _current_message = current_message  # its name in programs written for earlier libraries

    def _idempotency_key(self, action: str) -> str | None:
        """Return the idempotency key of the `action` call being handled, if a broker brought it."""
        handling, message = CURRENT.get(), self.current_message
        if handling is None or message is None or message["action"]["name"] != action:
            return None
        return handling.idempotency_key

    def find_lane(self, message: dict[str, Any], handling: Handling) -> str | None:
        """Return the lane of a message to this agent, or None; called on the loop when it arrives.

        The messages of one lane are handled one at a time, in order. Up to `max_lanes` lanes run
        side by side; more lanes take turns, message by message. Messages without a lane are handled
        beside them, as many at a time as `concurrency` says.
        """
        return None

    def note_senders(self) -> None:
        """Have its space tell it when the senders of its conversations leave."""

    def sender_left(self, sender: str, within: str | None = None) -> list[str]:
        """Drop the threads of a sender that has left; return their ids."""
        return []

    def resumes(self, action: str) -> bool:
        """Return whether an action that a killed process had begun resumes when called again."""
        return False

    # -- callbacks ---------------------------------------------------------------------------------
    # Each may be `def` or `async def`; `def` ones run in a worker thread.

    def before_action(self, message: dict[str, Any]) -> Awaitable[object] | None:
        """Called before each action; an exception prevents the action and goes to the sender."""

    def after_action(
        self, message: dict[str, Any], return_value: Any, error: BaseException | None
    ) -> Awaitable[object] | None:
        """Called after each action, even if it raised or was cancelled."""

    def after_add(self) -> Awaitable[object] | None:
        """Called when the agent is in a space and may send; an exception undoes `add`."""

    def before_remove(self) -> Awaitable[object] | None:
        """Called before the agent leaves its space; it may still send and request."""

    @plain_or_async
    async def request_permission(self, proposed_message: dict[str, Any]) -> Decision:
        """Return whether an `ACCESS_REQUESTED` action may run; the default asks the approver.

        Without an approver it is refused. Only `True` permits; `Refused("…")` states a reason.
        """
        approver = self.find_approver()
        actions = proposed_actions(self, proposed_message)
        note = "; ".join(dict.fromkeys(each.origin.note for each in actions if each.origin.note))
        facts = {name: fact for each in actions for name, fact in each.facts.items()}
        request = ApprovalRequest.of(proposed_message, *self._run_of(proposed_message), note)
        if approver is None:
            advice = ": the definition of the action is new or has changed (`moothall mcp lock`)"
            reason = (
                advice if note else ": a value of the call is from outside" if request.note else ""
            )
            text = "agent %r has no approver, so it refuses%s; give it or its space an approver="
            logger.warning(text, self.id, reason)
        # A broadcast is to *: it is this agent whose action is called.
        schema = actions[0].parameters if actions else None
        request = replace(request, agent=str(self.id), facts=facts, schema=schema)
        return await approve(approver, request)

    def _run_of(self, message: dict[str, Any]) -> tuple[str | None, str | None]:
        """Return a proposed message's run, that of the call that it is, and the sender's thread."""
        handling = CURRENT.get()
        upward = None if handling is None or handling.agent is not self else handling.upward
        return None if upward is None else upward.request.run_id, message.get("from")

    def check_joining(self) -> None:
        """Refuse to be added to a space, by raising `DefinitionError`."""

    def find_approver(self) -> Approver | None:
        """Return its own approver or its space's, or else that of who requests what it does."""
        approver, handling = self.own_approver(), CURRENT.get()
        if approver is None and handling is not None and handling.is_request:
            return handling.approver_of_asker(self)
        return approver

    def own_approver(self) -> Approver | None:
        """Return its own approver, or its space's."""
        if self.approver is None and self.space_mailbox is not None:
            return self.space_mailbox.approver
        return self.approver

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'id', 'without an id')!r}>"


def overrides(agent: Agent, callback: str) -> bool:
    """Return whether an agent overrides a callback."""
    # Not by `__dict__`: once it was looked at, Python 3.11 reads an object four times as slowly.
    own_callback = getattr(agent, callback)
    return getattr(own_callback, "__func__", own_callback) is not getattr(Agent, callback)
