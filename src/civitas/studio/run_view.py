"""What pages are shown of a run: its entries in words and cut, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from civitas.approval import escaped
from civitas.errors import StateError, UnknownPrice
from civitas.journal.describe import entry_line, fault_line, is_refused
from civitas.journal.entry import Entry
from civitas.journal.run import below
from civitas.models.wrappers.prices import Prices
from civitas.orders.order import Order, of_entry
from civitas.text import shorten

_TEXT: Final = 2_000
"""The most characters of a text that a page is sent unasked."""
_WHOLE: Final = 20_000
"""The most characters of all texts of an entry together; a tenth of it is the most values."""
_DEPTH: Final = 40
_LINE: Final = 400
_PRICES: Final = Prices()
_WHERE: Final = ("you", "tools", "models")
"""Where time goes; what is under way at the same time counts once, as the first of them."""
_COUNTS: Final = ("input", "output", "tokens", "model_calls")


def shown(entry: Entry, *, whole: bool = False) -> dict[str, Any]:
    """An entry as pages are sent it: `cut` says that its data is not whole.

    Beside what the entry has: `line`, what happened in words; `spent`, what a call of a model took;
    `fault`, what went wrong; `refused`, that it was not permitted; `part`, the path of the part
    that begins with it.
    """
    told = {each: getattr(entry, each) for each in ("sequence", "path", "kind", "at", "data")}
    order = order_in(entry)
    line = entry_line(entry) if order is None else escaped(f"set up: {order.in_words}")
    told["line"] = shorten(line, _LINE)
    if not whole:
        cut = _Cut()
        told["data"] = cut.value(entry.data)
        if cut.is_cut:
            told["cut"] = True
    if spent := _spent(entry):
        told["spent"] = {**spent, "usd": None if spent["usd"] is None else _plain(spent["usd"])}
    if fault := _fault(entry):
        told["fault"] = shorten(fault, _LINE)
    if _is_refused(entry):
        told["refused"] = True
    if entry.kind == "started" and isinstance(entry.data.get("part"), str):
        told["part"] = below(entry.path, entry.data["part"])
    return told


def order_in(entry: Entry) -> Any:
    """The order that an entry holds; None if it holds none that this civitas can read."""
    try:
        return of_entry(entry)
    except StateError:
        return None


class Totals:
    """What a run came to, entry by entry: the one count of tokens, cost, calls, errors and time.

    Attributes:
        sequence: the number of the last entry that is counted
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.sequence = 0
        self._began = self._ended = 0.0
        self._count = dict.fromkeys((*_COUNTS, "unpriced", "errors", "refused"), 0)
        self._spent_s = dict.fromkeys(_WHERE, 0.0)
        self._open: dict[str, set[tuple[str, str]]] = {each: set() for each in _WHERE}
        self._reviews = False  # whether H is a person
        self._tools: set[tuple[str, str]] = set()
        self._usd = Decimal(0)
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        self.sequence = entry.sequence
        self._began = self._began or entry.at
        self._time(entry)
        self._ended = entry.at
        self._count["errors"] += bool(_fault(entry))
        self._count["refused"] += _is_refused(entry)
        if "action" in _about(entry):  # a call that goes on after a crash begins twice
            self._tools.add((entry.path, str(entry.data.get("key"))))
        if spent := _spent(entry):
            for name in _COUNTS:
                self._count[name] += spent[name]
            if spent["usd"] is None:
                self._count["unpriced"] += spent["tokens"]
            else:
                self._usd += spent["usd"]

    def to_json(self) -> dict[str, Any]:
        """The totals.

        `seconds` are from the first entry, written at `began`, to the last, and `where` they went;
        `usd` is the cost of what has a known price, and `unpriced` the tokens of the rest.
        """
        told = {"began": self._began, "seconds": self._ended - self._began, "where": self._spent_s}
        tools = len(self._tools)
        return {**told, **self._count, "usd": _plain(self._usd), "tool_calls": tools}

    def _time(self, entry: Entry) -> None:
        """Count the time since the entry before: what was under way then, or who was waited for."""
        about, key = _about(entry), (entry.path, str(entry.data.get("key")))
        where = next((each for each, keys in self._open.items() if keys), None)
        if entry.kind in ("permitted", "decided") or _is_refused(entry):
            where = "you"
        elif entry.kind == "started" and any(key in keys for keys in self._open.values()):
            where = None  # its process had ended
        if where is not None:
            self._spent_s[where] += max(entry.at - self._ended, 0.0)
        if isinstance(order := order_in(entry), Order):
            self._reviews = order.review == "me"
        if entry.kind == "started" and ("action" in about or "model" in about):
            self._open["tools" if "action" in about else "models"].add(key)
        elif entry.kind == "started" and self._reviews and not entry.path and key[1][0] == "H":
            self._open["you"].add(key)
        elif entry.kind in ("ended", "failed", "over"):
            for keys in self._open.values():
                keys.discard(key) if entry.kind != "over" else keys.clear()


def messages_before(entries: Iterable[Entry], path: str, sequence: int) -> list[Any]:
    """The messages that a part had recorded before an entry."""
    return [
        message
        for entry in entries
        if entry.path == path and entry.kind == "state" and entry.sequence < sequence
        for message in entry.data.get("appended", {}).get("messages", ())
    ]


def _plain(usd: Decimal) -> str:
    return format(usd.normalize(), "f")


def _about(entry: Entry) -> dict[str, Any]:
    about = entry.data.get("about")
    return about if isinstance(about, dict) else {}


def _spent(entry: Entry) -> dict[str, Any] | None:
    """What a model's call took that has ended; `usd` is None where no price is known.

    The reply of a member that records nothing itself counts too, as no call.
    """
    about, result = _about(entry), entry.data.get("result")
    if entry.kind not in ("ended", "failed") or "action" in about:
        return None
    if isinstance(result, dict) and isinstance(result.get("answer"), dict):  # in a society
        result = result["answer"]
    reply = result if isinstance(result, dict) else {}
    if "model" not in about and not ("stop_reason" in reply and "usage" in reply):
        return None
    charged = entry.data.get("charged") or {}
    try:
        input, output = (int(each) for each in reply.get("usage") or (0, 0))
        tokens = max(input + output, int(charged.get("tokens", 0)))
        usd: Decimal | None = Decimal(charged.get("usd", 0))
        calls = int(charged.get("model_calls", "model" in about))
    except (TypeError, ValueError, AttributeError, InvalidOperation):
        return None  # of an orchestrator of somebody's own, which means something else by it
    if tokens and not usd:
        try:
            usd = _PRICES.cost(str(about.get("model")), input, tokens - input)
        except UnknownPrice:
            usd = None
    return {"input": input, "output": output, "tokens": tokens, "model_calls": calls, "usd": usd}


def _is_refused(entry: Entry) -> bool:
    """Whether a call was not permitted."""
    return is_refused(_about(entry).get("action"), entry.data.get("result"))


def _fault(entry: Entry) -> str:
    """What went wrong in a step; empty if nothing, or if it was refused."""
    data, about = entry.data, _about(entry)
    if entry.kind == "failed":
        return "" if data.get("cancelled") else fault_line(str(data.get("error")))
    if _is_refused(entry):
        return ""
    result = data.get("result") if entry.kind == "ended" else None
    if "action" in about and isinstance(result, dict):
        result = result.get("result")
    if not isinstance(result, dict):
        return ""
    # In a society, an answer that did not come is a result.
    fault = result.get("error") if "action" in about else result.get("failed")
    return "" if fault is None or not about else fault_line(str(fault))


class _Cut:
    """Cuts what is large."""

    def __init__(self) -> None:
        self.is_cut = False
        self._chars = _WHOLE
        self._values = _WHOLE // 10

    def value(self, value: Any, depth: int = 0) -> Any:
        """A JSON value with its texts cut; of what is beyond all measure, the beginning."""
        self._values -= 1
        if isinstance(value, str):
            most = min(_TEXT, max(self._chars, 0))
            self._chars -= min(len(value), most)
            if len(value) > most:
                self.is_cut = True
                return value[:most] + " …"
        elif isinstance(value, dict):
            some = self._some(value.items(), depth)
            return {key[:_TEXT]: self.value(each, depth + 1) for key, each in some}
        elif isinstance(value, list):
            return [self.value(each, depth + 1) for each in self._some(value, depth)]
        return value

    def _some(self, items: Iterable[Any], depth: int) -> Iterable[Any]:
        for each in items:
            if self._values <= 0 or self._chars <= 0 or depth > _DEPTH:
                self.is_cut = True
                return
            yield each
