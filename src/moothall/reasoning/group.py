"""Groups of agents: what one of them says, checks of their parts, and one budget for all."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from moothall.action import Action
from moothall.agent import CURRENT, Agent
from moothall.budget.limits import used_up
from moothall.errors import BudgetExceeded, ConfigError, DefinitionError, ModelError
from moothall.spaces.delivery import PAYERS, of_chain
from moothall.text import cut, escaped_json
from moothall.threads import is_async

if TYPE_CHECKING:
    from moothall.budget import Budget
    from moothall.memory.memory import AnyMemory
    from moothall.reasoning.reply_request import ReplyRequest


Content: TypeAlias = str | list[dict[str, Any]]
"""A text, or blocks of content."""

MAX_ERROR: Final = 500
"""How many characters of an error others read."""

_PLAIN = re.compile(r"[\w .@/+-]+")


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one speaker said in a turn.

    Attributes:
        number: counted from 1 over the whole conversation
        speaker: a participant's id; None for a text from outside
        content: a text, or blocks of content
        error: why the participant gave no answer; None if it gave one
    """

    number: int
    speaker: str | None
    content: Content
    error: str | None = None

    @property
    def text(self) -> str:
        """Return the content as text; of blocks, the text in them."""
        if isinstance(self.content, str):
            return self.content
        texts = (block.get("text") for block in self.content if isinstance(block, dict))
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def size(self) -> int:
        """Return about how many characters it has."""
        body = len(self.content) if isinstance(self.content, str) else len(repr(self.content))
        return body + len(self.error or "")

    def heard(self, ids: Iterable[str] = ()) -> Content:
        """Return the content for another participant, with the speaker's name at the beginning.

        Everything after the name is that speaker's: each utterance is a message of its own. A text
        from outside that begins like an utterance of one of the participants, `ids`, is marked.
        """
        if self.speaker is None:
            text, names = self.content, tuple(f"{shown(id)}:" for id in ids)
            if isinstance(text, str) and text.lstrip().startswith(names):
                return f"(from outside the conversation) {text}"
            return text
        name = shown(self.speaker)
        if self.error is not None:
            return f"({name} gave no answer: {cut(self.error, MAX_ERROR)})"
        if isinstance(self.content, str):
            return f"{name}: {self.content}"
        return [{"type": "text", "text": f"{name}:"}, *self.content]

    def message(self, ids: Iterable[str] = ()) -> dict[str, Any]:
        """Return the chat message that another participant observes."""
        message: dict[str, Any] = {"role": "user", "content": self.heard(ids)}
        if self.speaker is not None:
            message["name"] = self.speaker
        return message


def shown(id: str) -> str:
    """Return an id as it precedes an utterance; in quotes if it is ambiguous."""
    if _PLAIN.fullmatch(id) and id == id.strip() and id.isprintable():
        return id
    return escaped_json(id)


class Participant(Protocol):
    """What a group needs of a member; `Conversational` has what it may take beside."""

    @property
    def id(self) -> str | int:
        """Its id."""
        ...

    @property
    def reply(self) -> Callable[..., Any]:
        """Answers with a `Reply`, `async` or not."""
        ...

    @property
    def observe(self) -> Callable[..., Any]:
        """Hears what others say, `async` or not."""
        ...


def check_part(part: object, names: tuple[str, ...], what: str, id: object) -> None:
    """Refuse an object without these attributes early; it would fail during a reply."""
    missing = [name for name in names if not hasattr(part, name)]
    if missing or isinstance(part, type):
        given = f"the class {part.__name__}" if isinstance(part, type) else repr(part)[:80]
        raise DefinitionError(
            f"agent {id!r}: {what}= needs an object with {', '.join(names)}, not {given}"
        )


MemoryPart: TypeAlias = "AnyMemory | Callable[[str | None], AnyMemory] | str | os.PathLike[str]"
"""What `memory=` takes: a memory, a function of a thread's id, or the path of a file."""


def makes_memories(memory: Any) -> bool:
    """Return whether it is a function of a thread's id rather than a memory."""
    return callable(memory) and not hasattr(memory, "add_memory") and not isinstance(memory, type)


def memory_part(memory: Any, id: object) -> Any:
    """Return a given memory, checked; of a path, the memory in that file."""
    if isinstance(memory, str | os.PathLike):
        from moothall.memory.sqlite import SQLiteMemory

        return SQLiteMemory(memory)
    if not makes_memories(memory):
        check_memory_part(memory, "memory", id)
    return memory


def check_memory_part(memory: object, what: str, id: object) -> None:
    """Refuse what is not a memory, and one with async methods: nothing would await them."""
    check_part(memory, ("add_memory", "get_memories"), what, id)
    for name in ("add_memory", "get_memories"):
        if is_async(getattr(memory, name)):
            its = f"{name} of a {type(memory).__name__} is async"
            raise DefinitionError(f"agent {id!r}: {what}= needs plain methods, and {its}")


def has_threads(memory: Any) -> bool:
    """Return whether a given memory serves several threads."""
    return makes_memories(memory) or callable(getattr(memory, "thread", None))


def memory_of_thread(given: Any, thread: str | None, id: object) -> Any:
    """Return the memory of a thread: a part of the given one, or what the given function makes."""
    if makes_memories(given):
        made: Any = given(thread)
        check_memory_part(made, "what the function of memory", id)
        return made
    if thread is None:
        return given
    if not has_threads(given):
        raise DefinitionError(
            f"agent {id!r}: thread= needs a memory with threads, such as SQLiteMemory, a function "
            f"of the thread's id that makes one, or none given at all; {type(given).__name__} has "
            "no thread(id)"
        )
    return given.thread(thread)


def check_model(model: object, id: object) -> None:
    """Refuse what is neither a model nor the name of one, without importing or loading a model."""
    if not isinstance(model, str):
        check_part(model, ("complete",), "model", id)
        return
    from moothall.models.names import check_name

    try:
        check_name(model)
    except ModelError as error:
        raise type(error)(f"agent {id!r}: {error}") from None


def check_actions(actions: Iterable[Any], id: object) -> None:
    """Refuse actions that no model could be told of: early, and by their names."""
    for each in actions:
        # A parameter's type is looked up now, not when it was defined: it may have come later.
        if isinstance(each, Action) and (each._parameters is None or each._description is None):
            try:
                _ = each.signature
            except DefinitionError as error:
                raise DefinitionError(f'agent {id!r} cannot use "{each.name}": {error}') from error


def share_budget(owner: Any, agents: Iterable[Any], budget: Budget | None) -> None:
    """Give agents a budget; an agent that has a child of it keeps that."""
    if budget is None:
        raise ConfigError(f"agent {owner.id!r}: what was spent counts in the budget it had")
    check_part(budget, ("reserve", "deadline", "is_part_of"), "budget", owner.id)
    agents = list(agents)
    for agent in agents:
        had = getattr(agent, "budget", None)
        if had is not None and not had.is_part_of(budget):
            raise ConfigError(
                f"{owner.id!r} and {agent.id!r} have budgets of their own: give the agent a "
                "child() of the other, or none"
            )
    for agent in agents:
        if getattr(agent, "budget", budget) is None:
            agent.budget = budget


def check_reply_budget(owner: Any, budget: Budget) -> None:
    """Refuse a reply's budget that is not part of the agent's own or not shared by its members."""
    check_part(budget, ("reserve", "deadline", "is_part_of"), "budget", owner.id)
    had = getattr(owner, "budget", None)
    if had is not None and not budget.is_part_of(had):
        raise ConfigError(
            f"agent {owner.id!r} has a budget: give the reply a child() of it as budget="
        )
    _check_members(owner, owner, budget)


def budget_of_caller(agent: Any) -> Budget | None:
    """Return the budget of the caller from outside whom a reply serves, if the reply counts in it.

    An agent that another one asks keeps a budget of its own.

    Raises:
        ConfigError: the caller called this agent, which has an unrelated budget
    """
    handling: Any = CURRENT.get()
    found = of_chain(PAYERS, handling)
    had: Budget | None = getattr(agent, "budget", None)
    if found is None or (had is not None and had.is_part_of(found)):
        return None
    try:
        check_reply_budget(agent, found)
    except ConfigError:
        if handling.envelope.id in PAYERS:
            raise
        return None
    return found


def _check_members(owner: Any, of: Any, budget: Budget) -> None:
    for member in getattr(of, "_member_agents", ()):
        had = getattr(member, "budget", None)
        if had is not None and not (had.is_part_of(budget) or budget.is_part_of(had)):
            raise ConfigError(
                f"{owner.id!r} is given a budget for a reply, and its member {member.id!r} has one "
                "that is not a part of it: give the member none, or a child() of it"
            )
        _check_members(owner, member, budget)


def options_for(member: Any, request: ReplyRequest) -> dict[str, Any]:
    """Return the thread, and the deps and the budget, if it takes them, for a member."""
    options = {"thread": request.thread, "deps": request.deps}
    if budget_of(member, request.budget) is request.budget:
        options["budget"] = request.budget
    return {
        name: value
        for name, value in options.items()
        if value is not None and takes(member.reply, name)
    }


def budget_of(member: Any, budget: Budget | None) -> Budget | None:
    """Return the budget that a member uses in a reply with this budget, or None."""
    had: Budget | None = getattr(member, "budget", None)
    return had if budget is None or (had is not None and had.is_part_of(budget)) else budget


def in_thread(function: Any, thread: str | None) -> dict[str, Any]:
    """Return the argument `thread` for a member's `observe` or `interrupt`, if it takes one."""
    # An empty text means the member's own thread, so that no other reply is interrupted.
    if getattr(function, "__name__", "") == "interrupt" and isinstance(
        getattr(function, "__self__", None), Agent
    ):
        thread = thread or ""
    return {"thread": thread} if thread is not None and takes(function, "thread") else {}


def takes(function: Any, parameter: str) -> bool:
    """Return whether a function has a parameter of that name."""
    try:
        return parameter in _parameters(getattr(function, "__func__", function))
    except (TypeError, ValueError):
        return False


@lru_cache(maxsize=1000)
def _parameters(function: Any) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def members_without_threads(members: Iterable[Any]) -> str | None:
    """Return which member cannot keep threads apart, and why, in words; None if all can."""
    for member in members:
        own = getattr(member, "_one_thread_only", None)
        if own is not None:
            why = None if member.shared else own()
            if why is not None:
                return f"{member.id!r}: {why}"
        elif not takes(member.reply, "thread") or not takes(member.observe, "thread"):
            return f"reply and observe of {member.id!r} take no thread="
    return None


def is_spent_for_all(budget: Budget | None, agent: Any, *, late: bool) -> bool:
    """Return whether the limit that stopped an agent holds for all that share the budget."""
    if budget is None:
        return False
    if _has_no_own(agent, budget):
        return True
    if late:
        return budget.remaining_seconds() == 0
    try:
        budget.check()
    except BudgetExceeded:
        return True
    return bool(used_up(budget.left))


def _has_no_own(agent: Any, budget: Budget) -> bool:
    """Return whether an agent and its members use only this budget."""
    return getattr(agent, "budget", None) is budget and all(
        _has_no_own(member, budget) for member in getattr(agent, "_member_agents", ())
    )
