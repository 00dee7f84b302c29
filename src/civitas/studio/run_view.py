"""What pages are shown of a run: its entries in words and cut, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from civitas.errors import UnknownPrice
from civitas.journal.describe import entry_line
from civitas.journal.entry import Entry
from civitas.journal.run import below
from civitas.models.wrappers.prices import Prices
from civitas.text import shorten

_TEXT: Final = 2_000
"""The most characters of a text that a page is sent unasked."""
_WHOLE: Final = 20_000
"""The most characters of all texts of an entry together, and ten times the most values."""
_LINE: Final = 400
_PRICES: Final = Prices()


def shown(entry: Entry) -> dict[str, Any]:
    """An entry as pages are sent it: `cut` says that its data is not whole.

    Beside what the entry has: `line`, what happened in words; `spent`, what a call of a model took;
    `fault`, what went wrong; `part`, the path of the part that begins with it.
    """
    told = whole(entry)
    cut = _Cut()
    told["data"] = cut.value(entry.data)
    if cut.is_cut:
        told["cut"] = True
    return told


def whole(entry: Entry) -> dict[str, Any]:
    """The same, with all of its data."""
    data = entry.data
    told: dict[str, Any] = {
        "sequence": entry.sequence,
        "path": entry.path,
        "kind": entry.kind,
        "at": entry.at,
        "line": shorten(entry_line(entry), _LINE),
        "data": data,
    }
    if spent := _spent(entry):
        told["spent"] = {**spent, "usd": None if spent["usd"] is None else _plain(spent["usd"])}
    if fault := _fault(entry):
        told["fault"] = shorten(fault, _LINE)
    if entry.kind == "started" and isinstance(data.get("part"), str):
        told["part"] = below(entry.path, data["part"])
    return told


class Totals:
    """What a run came to, entry by entry: the one count of tokens, cost, calls and errors.

    Attributes:
        sequence: the number of the last entry that is counted
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.sequence = 0
        self._began = self._ended = 0.0
        self._count = {"input": 0, "output": 0, "tokens": 0, "model_calls": 0, "unpriced": 0}
        self._tools: set[tuple[str, str]] = set()
        self._errors = 0
        self._usd = Decimal(0)
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        self.sequence = entry.sequence
        self._began = self._began or entry.at
        self._ended = entry.at
        data = entry.data
        self._errors += bool(_fault(entry))
        if entry.kind in ("started", "ended", "failed") and "action" in _about(data):
            self._tools.add((entry.path, str(data.get("key"))))
        if spent := _spent(entry):
            for name in ("input", "output", "tokens", "model_calls"):
                self._count[name] += spent[name]
            if spent["usd"] is None:
                self._count["unpriced"] += spent["tokens"]
            else:
                self._usd += spent["usd"]

    def to_json(self) -> dict[str, Any]:
        """The totals.

        `seconds` are from the first entry to the last; `usd` is the cost of what has a known price,
        and `unpriced` the tokens of the rest.
        """
        return {
            "seconds": self._ended - self._began,
            **self._count,
            "usd": _plain(self._usd),
            "tool_calls": len(self._tools),
            "errors": self._errors,
        }


def messages_before(entries: Iterable[Entry], path: str, sequence: int) -> list[Any]:
    """The messages that a part had recorded before an entry."""
    found: list[Any] = []
    for entry in entries:
        if entry.sequence >= sequence:
            break
        if entry.path == path and entry.kind == "state":
            found += entry.data.get("appended", {}).get("messages", ())
    return found


def _plain(usd: Decimal) -> str:
    return format(usd.normalize(), "f")


def _about(data: dict[str, Any]) -> dict[str, Any]:
    about = data.get("about")
    return about if isinstance(about, dict) else {}


def _spent(entry: Entry) -> dict[str, Any] | None:
    """What a model's call took that has ended; `usd` is None where no price is known."""
    data = entry.data
    about = _about(data)
    if entry.kind not in ("ended", "failed") or "action" in about:
        return None
    result = data.get("result")
    if isinstance(result, dict) and isinstance(result.get("answer"), dict):  # in a society
        result = result["answer"]
    usage = result.get("usage") if isinstance(result, dict) else None
    charged = data.get("charged")
    # A reply without a model is that of a member that records nothing itself.
    if "model" not in about and (usage is None or "stop_reason" not in (result or {})):
        return None
    try:
        input, output = (int(each) for each in usage or (0, 0))
        tokens, calls, usd = input + output, 1, Decimal(0)
        if isinstance(charged, dict):
            tokens = max(tokens, int(charged["tokens"]))
            calls, usd = int(charged["model_calls"]), Decimal(charged["usd"])
    except (TypeError, ValueError, KeyError, InvalidOperation):
        return None  # of an orchestrator of somebody's own, which means something else by it
    if "model" not in about:
        calls = 0
    cost = usd or _cost(about.get("model"), input, output, tokens)
    return {"input": input, "output": output, "tokens": tokens, "model_calls": calls, "usd": cost}


def _cost(model: Any, input: int, output: int, tokens: int) -> Decimal | None:
    if not tokens:
        return Decimal(0)
    try:
        return _PRICES.cost(str(model), input, output + max(0, tokens - input - output))
    except UnknownPrice:
        return None


def _fault(entry: Entry) -> str:
    """What went wrong in a step, or why a part failed; empty if nothing."""
    data = entry.data
    if entry.kind == "failed":
        return "" if data.get("cancelled") else str(data.get("error"))
    if entry.kind == "over":
        return str(data.get("detail") or "error") if data.get("reason") == "error" else ""
    result = data.get("result") if entry.kind == "ended" else None
    if not isinstance(result, dict):
        return ""
    if "action" in _about(data) and isinstance(result.get("result"), dict):
        error = result["result"].get("error")
        return "" if error is None else str(error)
    failed = result.get("failed") if "model" in _about(data) else None  # in a society
    return failed if isinstance(failed, str) else ""


class _Cut:
    """Cuts what is large."""

    def __init__(self) -> None:
        self.is_cut = False
        self._chars = _WHOLE
        self._values = _WHOLE // 10

    def value(self, value: Any) -> Any:
        """A JSON value with its texts cut; of what is beyond all measure, the beginning."""
        self._values -= 1
        if isinstance(value, str):
            most = min(_TEXT, max(self._chars, 0))
            self._chars -= min(len(value), most)
            if len(value) > most:
                self.is_cut = True
                return value[:most] + " …"
        elif isinstance(value, dict):
            return {key[:_TEXT]: self.value(each) for key, each in self._some(value.items())}
        elif isinstance(value, list):
            return [self.value(each) for each in self._some(value)]
        return value

    def _some(self, items: Iterable[Any]) -> Iterable[Any]:
        for each in items:
            if self._values <= 0 or self._chars <= 0:
                self.is_cut = True
                return
            yield each
