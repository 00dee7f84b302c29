"""What a run has spent, and the words by which it is found: counted as its entries are noted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, get_type_hints

from moothall.foundation.errors import UnknownPrice
from moothall.foundation.jsonvalue import readable
from moothall.foundation.text import escaped_json

TASK_CHARS: Final = 500
"""So many characters of a task stand in the run's outline."""
_SEARCHED_CHARS: Final = 1000
"""So many characters of the task, and of the reply, are searched."""

_MAX_PER_CALL: Final = 2**40
"""A call of more tokens counts as one of so many: a database has no place for any number."""


@dataclass(frozen=True, kw_only=True)
class SpentSums:
    """What is added up of a run, and of several.

    Attributes:
        tokens: how many tokens its model calls took; a fork counts only its own
        usd: what they cost in US dollars, as far as their prices are known
        model_calls: how often a model was asked
        actions: how many calls of actions have started
        errors: how many steps have failed, or answers could not be used, since journals count them
    """

    __slots__ = ()  # a subclass has them, which has two such bases

    tokens: int = 0
    usd: float = 0.0
    model_calls: int = 0
    actions: int = 0
    errors: int = 0


SUM_COLUMNS: Final[dict[str, type[int | float]]] = get_type_hints(SpentSums)
"""The sums' types: columns of the table of runs, by which runs are sorted, and what `Tally.sums`
returns. To add one, add a field of `SpentSums` and a migration to `store/tables.py`."""

COUNTED_KINDS: Final = frozenset(("started", "ended", "failed", "over"))
"""The kinds of entries that a tally counts."""


class Tally:
    """What entries that were noted, and not yet written, add to the sums of their run."""

    __slots__ = ("actions", "errors", "model_calls", "reply", "tokens", "usd")

    def __init__(self) -> None:
        self.tokens: int = 0
        self.usd: float = 0.0
        self.model_calls: int = 0
        self.actions: int = 0
        self.errors: int = 0
        self.reply: str | None = None  # the reply, once the run is over

    def count(self, path: str, kind: str, data: dict[str, Any]) -> None:
        """Count an entry."""
        if kind == "started":
            if "action" in subject_in(data) and "again" not in data:
                self.actions += 1
        elif kind in ("ended", "failed"):
            subject = subject_in(data)
            if "model" in subject and (spent := spending_in(kind, data)):
                self.tokens += min(spent.tokens, _MAX_PER_CALL)
                self.usd += float(spent.usd or 0)
                self.model_calls += min(spent.model_calls, _MAX_PER_CALL)
            # Nearly all steps end well: this asks without a call of a function.
            try:
                result = data["result"]
                error = result["result"]["error"] if "action" in subject else result["failed"]
            except (KeyError, TypeError):
                error = None
            if error is not None or kind == "failed":
                self.errors += bool(fault_in(kind, data))
        elif kind == "state":
            self.errors += bool(fault_in(kind, data))
        elif kind == "over" and not path:
            text = data.get("text")
            self.reply = text if isinstance(text, str) else ""

    def sums(self) -> tuple[int, float, int, int, int]:
        """Return what was added up, in the order of `SUM_COLUMNS`."""
        return self.tokens, self.usd, self.model_calls, self.actions, self.errors


@dataclass(frozen=True, slots=True)
class StepSpending:
    """What a call of a model, or a member's reply, has used; `usd` is None without a price."""

    input: int
    output: int
    tokens: int
    model_calls: int
    usd: Decimal | None


def subject_in(data: dict[str, Any]) -> dict[str, Any]:
    """Return what an entry's data say that its step is about."""
    fields = data.get("about")
    return fields if type(fields) is dict else {}


def is_refused(action: Any, result: Any) -> bool:
    """Return whether the recorded result of an action's call is that it was not permitted."""
    outcome = result.get("result") if isinstance(result, dict) else None
    error = outcome.get("error") if isinstance(outcome, dict) else None
    refusal = f'"{action}" not permitted'
    return error == refusal or (isinstance(error, str) and error.startswith(f"{refusal}: "))


def fault_line(error: Any) -> str:
    """Return what went wrong, as `KIND: text`; only the kind if there is no text."""
    kind, colon, message = (error if isinstance(error, str) else escaped_json(error)).partition(":")
    if colon and not message.strip():
        return "cancelled" if kind == "CancelledError" else kind
    return kind + colon + message


def fault_in(kind: str, data: dict[str, Any]) -> str:
    """Return what went wrong in a step; empty if nothing did, or if the call was refused."""
    subject = subject_in(data)
    if kind == "state":  # what was wrong with the answer of a model
        state = data.get("state")
        return str(state.get("faults") or "") if isinstance(state, dict) else ""
    if kind == "failed":
        return "" if data.get("cancelled") else fault_line(str(data.get("error")))
    result = data.get("result") if kind == "ended" else None
    if is_refused(subject.get("action"), data.get("result")):
        return ""
    if "action" in subject and isinstance(result, dict):
        result = result.get("result")
    if not isinstance(result, dict):
        return ""
    # In a society, a missing answer is recorded as a result.
    fault = result.get("error") if "action" in subject else result.get("failed")
    return "" if fault is None or not subject else fault_line(str(fault))


def detail_in(end: str | None) -> str:
    """Return the beginning of why a run failed, by the last entry of its record; empty for none."""
    try:
        detail = json.loads(end or "{}").get("detail")
    except (ValueError, AttributeError):  # reading the run says what is wrong with it
        return ""
    return readable(detail[:TASK_CHARS]) if isinstance(detail, str) else ""


def spending_in(kind: str, data: dict[str, Any]) -> StepSpending | None:
    """Return what an entry says that a call of a model or a member's reply used, or None."""
    subject, result = subject_in(data), data.get("result")
    if kind not in ("ended", "failed") or "action" in subject:
        return None
    if isinstance(result, dict) and isinstance(result.get("answer"), dict):  # in a society
        result = result["answer"]
    reply = result if isinstance(result, dict) else {}
    if "model" not in subject and not ("stop_reason" in reply and "usage" in reply):
        return None
    charged = data.get("charged") or {}
    try:
        input, output = map(int, (reply.get("usage") or (0, 0))[:2])
        tokens = max(input + output, int(charged.get("tokens", 0)))
        usd: Decimal | None = Decimal(charged.get("usd", 0))
        model_calls = int(charged.get("model_calls", "model" in subject))
    except (TypeError, ValueError, AttributeError, InvalidOperation):
        return None  # a user's own orchestrator uses these names for something else
    if tokens and not usd:
        usd = _cost(subject.get("model"), input, tokens - input)
    return StepSpending(input, output, tokens, model_calls, usd)


_UNPRICED_MODELS: Final[set[str]] = set()
"""The names of models whose price is not known: to look each up takes long."""
_MAX_UNPRICED: Final = 1000


def _cost(model: Any, input: int, output: int) -> Decimal | None:
    """Return what a call cost by the built-in prices; None if the model's price is not known."""
    name = str(model)
    if name in _UNPRICED_MODELS:
        return None
    from moothall.models.wrappers.prices import Prices

    try:
        return Prices().cost(name, input, output)
    except UnknownPrice:
        if len(_UNPRICED_MODELS) < _MAX_UNPRICED:
            _UNPRICED_MODELS.add(name)
        return None


def search_text(task: str, reply: str) -> str:
    """Return the text in which words are looked for, without regard to case."""
    beginning = f"{task[:_SEARCHED_CHARS]}\n{reply[:_SEARCHED_CHARS]}"
    return readable(beginning).replace("\0", " ").casefold()
