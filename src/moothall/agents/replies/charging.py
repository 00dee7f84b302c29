"""Budgets of replies: which one a reply or a member uses, and what is charged to it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from moothall.actions.message import ENCLOSING_REPLIES
from moothall.agents.caller_context import CallerContext
from moothall.agents.replies.checked_parts import check_part, members_of
from moothall.agents.replies.step import KEPT_SUFFIX
from moothall.budget.amounts import checked_amounts
from moothall.budget.bill import Bill, CallContext, charged_json
from moothall.budget.limits import RESERVABLE
from moothall.foundation.errors import BudgetExceeded, ConfigError
from moothall.foundation.threads import guard
from moothall.models.base import answer_of, stream_to
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from moothall.agents.replies.step import StepHandle
    from moothall.budget import Budget
    from moothall.journal import Entry
    from moothall.models.protocol import ReasoningPiece, TextPiece


_MAX_OFFSETS: Final = 10_000
"""How many runs an object's marks cover; those of the run set longest ago are dropped first."""


class ReplayOffsets:
    """Replay offsets of objects, such as memories and budgets, in each run.

    A memory that has the first five messages of a run gets only those from the sixth on when the
    run is resumed. Objects are compared by identity; one without weak references has no marks.
    """

    def __init__(self) -> None:
        self._lock = guard()
        self._offsets: dict[int, OrderedDict[str, int]] = {}

    def get(self, owner: Any, run: str) -> int:
        """Return an object's offset in a run; 0 if unknown."""
        offsets = self._offsets.get(id(owner))
        return 0 if offsets is None else offsets.get(run, 0)

    def set(self, owner: Any, run: str, offset: int) -> None:
        """Set an object's offset in a run."""
        offsets = self._offsets.get(id(owner))
        if offsets is None:
            try:
                finalize(owner, self._offsets.pop, id(owner), None)
            except TypeError:
                return
            offsets = self._offsets.setdefault(id(owner), OrderedDict())
        with self._lock:
            offsets[run] = offset
            offsets.move_to_end(run)
            if len(offsets) > _MAX_OFFSETS:
                offsets.popitem(last=False)


OFFSETS: Final = ReplayOffsets()
"""What models, budgets and memories know of runs."""


@dataclass(slots=True)
class Spending:
    """The recorded spending of a run."""

    answers: int = 0  # how often a model gave an answer, or failed
    # By the names of the limits; of US dollars, as far as the cost was known then.
    amounts: dict[str, Any] = field(default_factory=lambda: {each.name: 0 for each in RESERVABLE})
    unpriced: Usage = field(default_factory=Usage)  # tokens whose price was not known
    unsplit: int = 0  # tokens without a price that may be input or output

    def add(self, charged: Mapping[str, Any] | None, usage: Usage | None = None) -> None:
        """Add the cost of one model call."""
        usage = usage or Usage()
        total = usage.total
        if charged is None:
            charged = {"tokens": total, "usd": 0, "model_calls": 1}
        self.count(charged)
        tokens = charged["tokens"]
        if Decimal(charged["usd"]):
            return
        if tokens < total:
            self.unsplit += tokens
        else:
            self.unpriced = self.unpriced + usage
            self.unsplit += tokens - total

    def count(self, charged: Mapping[str, Any]) -> None:
        """Add what was charged."""
        for limit in RESERVABLE:
            amount = charged.get(limit.name, 0)
            self.amounts[limit.name] += amount if limit.is_whole_number else Decimal(amount)


def spending_of(entries: Iterable[Entry]) -> Spending:
    """Return what one agent's part in a run has spent, without calls that a budget refused."""
    spent = Spending()
    reserved: dict[str, Mapping[str, Any]] = {}  # for the steps without an end
    resumable: set[str] = set()  # steps whose calls a resumed run goes on with
    action_counts = dict[str, int]()  # by step, how often its action has begun
    interrupted = False  # the last answer was cut off, and nothing says yet that the run was too
    for entry in entries:
        data = entry.data
        details = data.get("about", {})
        if interrupted:
            spent.answers += entry.kind == "state"  # the run goes on without that answer
            interrupted = False
        if entry.kind == "started" and "part" not in data:
            if data["key"] in reserved:  # the one before was cut off
                spent.add(reserved.pop(data["key"]).get("reserved"))
            if "model" in details:
                reserved[data["key"]] = data
            elif "action" in details and "again" not in data:
                action_counts[data["key"]] = action_counts.get(data["key"], 0) + 1
        elif entry.kind == "ended" and data["key"].endswith(KEPT_SUFFIX):
            resumable.add(data["key"].removesuffix(KEPT_SUFFIX))
        elif entry.kind in ("ended", "failed") and data["key"] in reserved:
            del reserved[data["key"]]
            if data.get("cancelled") and data["key"] in resumable:
                continue
            usage = (data.get("result") or {}).get("usage")
            cost = data.get("charged")
            spent.add(cost, None if usage is None else Usage(*usage))
            # Calls that a budget refused, or that were cut off with their run, do not count.
            if cost is None or cost["model_calls"]:
                interrupted = bool(data.get("cancelled"))
                spent.answers += not interrupted
        elif entry.kind == "failed" and data.get("cancelled") and data.get("asks"):
            action_counts.pop(data["key"], None)  # its effect had not begun
        elif entry.kind == "waits" or (entry.kind in ("ended", "failed") and "action" in details):
            spent.count(data.get("charged") or {})
    for key, start in reserved.items():
        if key not in resumable:
            spent.add(start.get("reserved"))
    spent.count({"actions": sum(action_counts.values())})
    return spent


MAX_NESTED_MODEL_CALLS: Final = 500
"""How many model calls the agents beneath one reply may make together without any budget."""


def call_chain_text(replies: Iterable[Any]) -> str:
    """Return which agent called which, in words."""
    return " called ".join(f"{each.agent.id!r}" for each in replies)


def is_nested() -> bool:
    """Return whether the reply of this context was asked for by an action of another agent."""
    replies = ENCLOSING_REPLIES.get()
    return bool(replies) and replies[-1].depth > 1


def count_unbounded_call() -> None:
    """Count a model call that no budget bounds, if its agent was called by an action of another."""
    if not is_nested():
        return
    replies = ENCLOSING_REPLIES.get()
    outer_replies = [*replies[-1].outer_replies, replies[-1]]
    root = outer_replies[0]
    max_calls = getattr(root.agent, "max_nested_model_calls", None) or MAX_NESTED_MODEL_CALLS
    if root.model_calls >= max_calls:
        raise BudgetExceeded(
            f"the agents beneath one reply of agent {root.agent.id!r} have made {root.model_calls} "
            "model calls, and without a budget no more are allowed: "
            f"{call_chain_text(outer_replies)}; give agent {root.agent.id!r} a budget=, or raise "
            "its max_nested_model_calls=",
            "model_calls",
        )
    root.model_calls += 1


async def begin_call(
    step: StepHandle, budget: Budget | None, model: Any, *request: Any, args: Any = None
) -> AbstractContextManager[None]:
    """Record that a call begins and what it reserves; return the context that it is charged in.

    That may be entered again, for a second try of the same step.
    """
    if budget is None:
        await step.begins(args)
        return CallContext(step)
    bill = Bill(budget.accounts[0])
    step.charge(bill.to_json)
    try:
        reserved = charged_json(checked_amounts(begin_call, model.largest_amounts(*request)))
    except Exception:
        reserved = None  # the call itself raises the same error
    await step.begins(args, reserved)
    return CallContext(step, bill)


def with_budget(model: Any, budget: Budget | None) -> Any:
    """Return the model bound to a budget; without a budget, the model itself."""
    if budget is None:
        return model
    from moothall.models.wrappers.budgeted import BudgetedModel

    return BudgetedModel(model, budget)


async def completed(
    model: Any,
    budget: Budget | None,
    prompt: list[dict[str, Any]],
    schema: dict[str, Any] | None,
    step: StepHandle | None,
    tell: Callable[[TextPiece | ReasoningPiece], object] | None = None,
    *,
    actions: list[Any] | None = None,
    args: dict[str, Any] | None = None,
) -> Any:
    """Ask a model once its reservation is recorded; return its answer, and tell its pieces.

    `step` is None for what nothing records; `args` is what it records of the request, by default
    the messages and the schema.
    """
    if budget is None:
        count_unbounded_call()
    model = with_budget(model, budget)
    if args is None:
        args = {"messages": prompt} if schema is None else {"messages": prompt, "schema": schema}
    options: dict[str, Any] = {} if actions is None else {"actions": actions}
    charging: AbstractContextManager[None] = nullcontext()
    if step is not None:
        charging = await begin_call(step, budget, model, prompt, actions, schema, args=args)
    with charging:
        if tell is not None:
            return await stream_to(model, prompt, tell, schema=schema, **options)
        return await answer_of(model, prompt, schema=schema, **options)


def charge_spent(budget: Budget, model: Any, entries: Iterable[Entry]) -> None:
    """Charge a budget what was spent in its period, even if that is more than it allows."""
    if since := budget.period_began():
        entries = [each for each in entries if each.at >= since]
    spent = spending_of(entries)
    amounts = dict(spent.amounts)
    if spent.unsplit or spent.unpriced != Usage():
        amounts["usd"] += _price(budget, model, spent.unpriced, spent.unsplit)
    # No further call starts; the reply of a run that has ended is returned all the same.
    with suppress(BudgetExceeded):
        budget.charge(**amounts)


def _price(budget: Budget, model: Any, usage: Usage, unsplit: int) -> Decimal:
    """Return the cost, at current prices, of tokens that were recorded without a price."""
    # The record does not say which of several models it was, nor the direction: take the dearest.
    models = getattr(model, "models", ()) or [model]
    input, output = usage.input_tokens, usage.output_tokens
    highest_cost: Decimal = max(
        (
            with_budget(each, budget).cost(*counts)
            for each in models
            for counts in ((input + unsplit, output), (input, output + unsplit))
        ),
        default=Decimal(0),
    )
    return highest_cost


# -- the budget of a reply, and of a group's members -----------------------------------------------


def share_budget(owner: Any, agents: Iterable[Any], budget: Budget | None) -> None:
    """Give agents a budget; an agent that has a child of it keeps that."""
    if budget is None:
        raise ConfigError(f"agent {owner.id!r}: what was spent counts in the budget it had")
    check_part(budget, ("reserve", "deadline", "is_part_of"), "budget", owner.id)
    agents = list(agents)
    for agent in agents:
        own_budget = getattr(agent, "budget", None)
        if own_budget is not None and not own_budget.is_part_of(budget):
            raise ConfigError(
                f"{owner.id!r} and {agent.id!r} have budgets of their own: give the agent a "
                "child() of the other, or none"
            )
    for agent in agents:
        if hasattr(agent, "budget") and agent.budget is None:
            agent.budget = budget


def check_reply_budget(owner: Any, budget: Budget) -> None:
    """Refuse a reply's budget that is not part of the agent's own or not shared by its members."""
    check_part(budget, ("reserve", "deadline", "is_part_of"), "budget", owner.id)
    own_budget = getattr(owner, "budget", None)
    if own_budget is not None and not budget.is_part_of(own_budget):
        raise ConfigError(
            f"agent {owner.id!r} has a budget: give the reply a child() of it as budget="
        )
    _check_members(owner, owner, budget)


def budget_of_caller(agent: Any, handling: Any, is_nested: bool) -> Budget | None:
    """Return the budget of the caller from outside whom a reply serves, if the reply counts in it.

    An agent that another one has asked keeps a budget of its own.

    Raises:
        ConfigError: the caller called this agent, which has an unrelated budget
    """
    budget: Budget | None = CallerContext.nearest(handling, "pays")
    own_budget: Budget | None = getattr(agent, "budget", None)
    if budget is None or (own_budget is not None and own_budget.is_part_of(budget)):
        return None
    try:
        check_reply_budget(agent, budget)
    except ConfigError:
        while not handling.envelope.name:  # no message, but what carries the reply to its loop
            handling = handling.parent
        if not is_nested and handling.caller_context is not None:
            raise
        return None
    return budget


def _check_members(owner: Any, agent: Any, budget: Budget) -> None:
    for member in members_of(agent):
        own_budget = getattr(member, "budget", None)
        if own_budget is not None and not (
            own_budget.is_part_of(budget) or budget.is_part_of(own_budget)
        ):
            raise ConfigError(
                f"{owner.id!r} is given a budget for a reply, and its member {member.id!r} has one "
                "that is not a part of it: give the member none, or a child() of it"
            )
        _check_members(owner, member, budget)


def budget_of(member: Any, budget: Budget | None) -> Budget | None:
    """Return the budget that a member uses in a reply with this budget, or None."""
    own_budget: Budget | None = getattr(member, "budget", None)
    if budget is None or (own_budget is not None and own_budget.is_part_of(budget)):
        return own_budget
    return budget


def budget_in_call(agent: Any, budget: Budget | None) -> Budget | None:
    """Return the caller's budget for an agent that an action asks; None if it keeps its own."""
    agent_budget: Budget | None = getattr(agent, "budget", None)
    if agent_budget is not None and budget is not None and not budget.is_part_of(agent_budget):
        return None
    return budget


def is_spent_for_all(budget: Budget | None, agent: Any, *, late: bool) -> bool:
    """Return whether the limit that stopped an agent holds for all that share the budget."""
    if budget is None:
        return False
    if _uses_only(agent, budget):
        return True
    if late:
        return budget.remaining_seconds() == 0
    try:
        budget.check()
    except BudgetExceeded:
        return True
    return bool(budget.left.used_up())


def _uses_only(agent: Any, budget: Budget) -> bool:
    """Return whether an agent and its members use only this budget."""
    return getattr(agent, "budget", None) is budget and all(
        _uses_only(member, budget) for member in members_of(agent)
    )
