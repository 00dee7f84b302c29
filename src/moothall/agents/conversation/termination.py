"""Conditions that end a conversation, alone and combined."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from moothall.actions.message import address
from moothall.agents.conversation.conversation_state import ConversationState
from moothall.agents.conversation.speaking_order import call_with_state
from moothall.foundation.arguments import check_function, check_integer, check_seconds
from moothall.foundation.errors import DefinitionError
from moothall.foundation.text import shorten
from moothall.foundation.threads import awaited


class Condition:
    """Checked after every turn: whether the conversation ends, and why.

    `a | b` is met when one of them is; `a & b` when each has been met since the reply began, even
    in different turns. Either side may be a plain function.

    A condition has no state of its own, so several conversations may share one. A subclass needs
    only `met`.

    Attributes:
        ids: the participants that it is about
        most_turns: how many turns there can be before it is met; None if that is not known
    """

    ids: frozenset[str] = frozenset()
    most_turns: int | None = None

    def met(self, state: ConversationState) -> Any:
        """Return why the conversation ends now, in words; None (or False) if it continues.

        May be `async`.

        Args:
            state: the state of the conversation, read-only
        """
        raise NotImplementedError

    def begin(self, data: dict[str, Any], place: str) -> None:
        """Called when a reply begins or resumes; `data` is saved, and `place` is its key there."""

    async def check(self, state: ConversationState, place: str) -> str | None:
        """Return why it is met now, in words; None if it is not."""
        verdict = await awaited(self.met(state))
        if verdict is None or verdict is False:
            return None
        if verdict is True:
            return str(self)
        if isinstance(verdict, str):
            return verdict or str(self)
        raise DefinitionError(
            f"the condition {self} gave {type(verdict).__name__}: it gives True, or a text that "
            "says why the conversation is to end, or None"
        )

    def __or__(self, other: Condition | Callable[[ConversationState], Any]) -> Condition:
        return _ConditionPair("|", self, as_condition(other))

    def __ror__(self, other: Callable[[ConversationState], Any]) -> Condition:
        return _ConditionPair("|", as_condition(other), self)

    def __and__(self, other: Condition | Callable[[ConversationState], Any]) -> Condition:
        return _ConditionPair("&", self, as_condition(other))

    def __rand__(self, other: Callable[[ConversationState], Any]) -> Condition:
        return _ConditionPair("&", as_condition(other), self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MaxTurns(Condition):
    """Ends after so many turns of the reply. Several speakers at once count one each.

    Raises:
        DefinitionError: not a positive integer
    """

    def __init__(self, turns: int) -> None:
        check_integer("MaxTurns: turns=", turns)
        self.turns = turns
        self.most_turns: int = turns

    def met(self, state: ConversationState) -> bool:
        """Return whether the reply has had that many turns."""
        return state.turns >= self.turns

    def __repr__(self) -> str:
        return f"MaxTurns({self.turns})"


class MaxTokens(Condition):
    """Ends when the reply has taken so many tokens, including those of a model that chooses.

    It is checked after each turn, so the last turn may exceed it.

    Raises:
        DefinitionError: not a positive integer
    """

    def __init__(self, tokens: int) -> None:
        check_integer("MaxTokens: tokens=", tokens)
        self.tokens = tokens

    def met(self, state: ConversationState) -> bool:
        """Return whether the reply has taken that many tokens."""
        return state.usage.total >= self.tokens

    def __repr__(self) -> str:
        return f"MaxTokens({self.tokens})"


class Said(Condition):
    """Ends when a participant has said something. The conversation's own prompt does not count.

    Args:
        what: a text, searched literally; or a pattern made by `re.compile`. It is searched in what
            the participants' models say, so avoid a pattern that may take exponential time.
        by: the id of the only participant that counts

    Raises:
        DefinitionError: an argument is not valid
    """

    def __init__(self, what: str | re.Pattern[str], *, by: str | int | None = None) -> None:
        if isinstance(what, re.Pattern):
            if not isinstance(what.pattern, str):
                raise DefinitionError("Said takes a pattern of text, not of bytes")
        elif not isinstance(what, str) or not what.strip():
            raise DefinitionError(f"Said takes a text or a compiled pattern, got {what!r:.80}")
        self.what = what
        self.by: str | None = None if by is None else address(by)
        self.ids: frozenset[str] = frozenset() if self.by is None else frozenset((self.by,))

    def met(self, state: ConversationState) -> str | None:
        """Return, in words, who said it in the last turn; None if nobody did."""
        for utterance in state.said:
            if utterance.error is not None or self.by not in (None, utterance.speaker):
                continue
            text = utterance.text
            sought_text = self.what
            if sought_text in text if isinstance(sought_text, str) else sought_text.search(text):
                return f"{self}: {utterance.speaker!r} said it"
        return None

    def __repr__(self) -> str:
        label = self.what if isinstance(self.what, str) else self.what.pattern
        return f"Said({shorten(label, 60)!r})"


class StoppedBy(Condition):
    """Ends when a participant has spoken.

    Raises:
        InvalidId: it is not an id
    """

    def __init__(self, agent_id: str | int) -> None:
        self.agent_id: str = address(agent_id)
        self.ids: frozenset[str] = frozenset((self.agent_id,))

    def met(self, state: ConversationState) -> bool:
        """Return whether the participant spoke in the last turn."""
        return any(u.speaker == self.agent_id and u.error is None for u in state.said)

    def __repr__(self) -> str:
        return f"StoppedBy({self.agent_id!r})"


class Elapsed(Condition):
    """Ends when the reply has taken so long.

    It is checked after each turn and interrupts none. Time between saving a conversation and
    resuming it does not count.

    Args:
        seconds: how long
        clock: returns seconds

    Raises:
        DefinitionError: not a positive number
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        check_seconds("Elapsed: seconds=", seconds)
        self.seconds = seconds
        self.clock = clock

    def begin(self, data: dict[str, Any], place: str) -> None:
        """Start counting from now."""
        data[f"{place}.at"] = self.clock()

    async def check(self, state: ConversationState, place: str) -> str | None:
        """Return why it is met if the reply has taken that long; else None."""
        data, now = state.kept, self.clock()
        spent = data.get(f"{place}.spent", 0.0) + now - data[f"{place}.at"]
        data[f"{place}.at"], data[f"{place}.spent"] = now, spent
        return str(self) if spent >= self.seconds else None

    def __repr__(self) -> str:
        return f"Elapsed({self.seconds})"


class _FunctionCondition(Condition):
    def __init__(self, function: Callable[[ConversationState], Any]) -> None:
        self.function = function

    async def met(self, state: ConversationState) -> Any:
        return await call_with_state(self.function, state)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", None) or type(self.function).__name__


class _ConditionPair(Condition):
    def __init__(self, sign: str, *conditions: Condition) -> None:
        self.sign = sign
        self.conditions = conditions
        self.ids = frozenset().union(*(each.ids for each in conditions))
        limits = [each.most_turns for each in conditions if each.most_turns is not None]
        if sign == "|":
            self.most_turns = min(limits, default=None)
        elif len(limits) == len(conditions):
            self.most_turns = max(limits)

    def begin(self, data: dict[str, Any], place: str) -> None:
        for number, each in enumerate(self.conditions):
            each.begin(data, f"{place}{number}")

    async def check(self, state: ConversationState, place: str) -> str | None:
        # Always check both: the second must see every turn.
        reasons = [await each.check(state, f"{place}{n}") for n, each in enumerate(self.conditions)]
        if self.sign == "|":
            return next((reason for reason in reasons if reason is not None), None)
        for number, reason in enumerate(reasons):
            if reason is not None:
                state.kept.setdefault(f"{place}{number}.met", reason)
        kept_reasons = [state.kept.get(f"{place}{number}.met") for number in range(len(reasons))]
        return None if None in kept_reasons else " and ".join(map(str, kept_reasons))

    def __repr__(self) -> str:
        return f"({f' {self.sign} '.join(map(str, self.conditions))})"


def as_condition(condition: Any) -> Condition:
    """Return a condition as it is, or a function as a condition."""
    if isinstance(condition, Condition):
        return condition
    if callable(condition) and not isinstance(condition, type):
        check_function("a condition", condition, "state")
        return _FunctionCondition(condition)
    raise DefinitionError(
        "a condition is MaxTurns, MaxTokens, Said, StoppedBy, Elapsed, some of them combined by | "
        f"and &, or a function of the conversation's state, not {condition!r:.80}"
    )
