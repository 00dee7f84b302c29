"""What a run has spent, and the words by which it is found: counted as its entries are noted."""

from __future__ import annotations

from typing import Any, Final

from moothall.errors import UnknownPrice
from moothall.jsonvalue import readable

TASK_CHARS: Final = 500
"""So many characters of a task stand in the run's outline."""
_SEARCHED_CHARS: Final = 1000
"""So many characters of the task, and of the reply, are searched."""

_MOST_OF_A_CALL: Final = 2**40
"""A call of more tokens counts as one of so many: a database has no place for any number."""


class Tally:
    """What entries that were noted, and not yet written, add to the sums of their run."""

    __slots__ = ("actions", "model_calls", "said", "tokens", "usd")

    def __init__(self) -> None:
        self.tokens: int = 0
        self.usd: float = 0.0
        self.model_calls: int = 0
        self.actions: int = 0
        self.said: str | None = None  # the reply, once the run is over

    def count(self, path: str, kind: str, data: dict[str, Any]) -> None:
        """Count an entry."""
        if kind == "started":
            if "action" in _about(data):
                self.actions += 1
        elif kind in ("ended", "failed"):
            if "model" in _about(data):
                self._count_call(data)
        elif kind == "over" and not path:
            text = data.get("text")
            self.said = text if isinstance(text, str) else ""

    def _count_call(self, data: dict[str, Any]) -> None:
        try:
            result = data.get("result")
            if isinstance(result, dict):
                result = result.get("answer", result)  # in a society
            usage = result.get("usage") if isinstance(result, dict) else None
            input, output = (0, 0) if usage is None else usage[:2]
            charged = data.get("charged") or {}
            tokens = min(max(input + output, charged.get("tokens", 0)), _MOST_OF_A_CALL)
            usd = float(charged.get("usd", 0))
            calls = min(charged.get("model_calls", 1), _MOST_OF_A_CALL)
            if tokens and not usd:
                usd = _price(data["about"]["model"], input, tokens - input)
            self.tokens += tokens
            self.usd += usd
            self.model_calls += calls
        except (TypeError, ValueError, AttributeError):
            pass  # a user's own orchestrator uses these names for something else

    def sums(self) -> tuple[int, float, int, int]:
        """Return the tokens, US dollars, model calls and actions."""
        return self.tokens, self.usd, self.model_calls, self.actions


_UNPRICED: Final[set[Any]] = set()
"""The names of models whose price is not known: to look each up takes long."""
_MOST_MODELS: Final = 1000


def _about(data: dict[str, Any]) -> dict[str, Any]:
    about = data.get("about")
    return about if isinstance(about, dict) else {}


def _price(model: Any, input: int, output: int) -> float:
    """Return what a call cost by the built-in prices; 0 if the model's price is not known."""
    if model in _UNPRICED:
        return 0.0
    from moothall.models.wrappers.prices import Prices

    try:
        return float(Prices().cost(str(model), input, output))
    except UnknownPrice:
        if len(_UNPRICED) < _MOST_MODELS:
            _UNPRICED.add(model)
        return 0.0


def searched(task: str, said: str) -> str:
    """Return the text in which words are looked for, without regard to case."""
    begin = f"{task[:_SEARCHED_CHARS]}\n{said[:_SEARCHED_CHARS]}"
    return readable(begin).replace("\0", " ").casefold()
