"""What pages show of a run: its entries, cut and in words, its cost, and its page behind a link."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from datetime import datetime
from decimal import Decimal
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from moothall import MoothallError
from moothall.build import escaped, shorten
from moothall.journal import REASONS, Entry, Outline, RunShares
from moothall.studio.orders.order import order_line
from moothall.studio.page import read_html, report_page

if TYPE_CHECKING:
    from fastapi import Response

    from moothall.journal import Journal

_MAX_TEXT: Final = 2_000
"""The most characters of a text in an entry that is not sent whole."""
_MAX_VALUES: Final = 100
"""The most values of a list or object in such an entry."""
_MAX_DEPTH: Final = 41
_MAX_LINE_CHARS: Final = 400
_OUTLINE_KEYS: Final = tuple(each.name for each in fields(Outline))
_LEFT_WAITING: Final = ("waiting", "answered", "awaited")
_COMES_BY_ITSELF: Final = {"result", "moment"}
"""The kinds of waits that no person at the page ends."""
_USAGE_FIELDS: Final = ("input", "output", "tokens", "model_calls")
LINK: Final = re.compile(r"/shared/[\w-]{43}/.{1,500}")
"""Matches the path of a link."""
_MAX_SHARED_ENTRIES: Final = 5_000
"""The most entries that the page shows: the first."""
_SHARED_PAGE: Final = read_html("shared")
_NOTHING_HTML: Final = (
    "<h1>This link opens nothing</h1><p>It was withdrawn, its time is over, or it is not whole. "
    "Ask whoever gave it to you.</p>"
)


def entry_row(entry: Entry, *, uncut: bool = False) -> dict[str, Any]:
    """Return an entry for pages: in words, cut unless `uncut`, with what it spent and its fault."""
    row = {each: getattr(entry, each) for each in ("sequence", "path", "kind", "at", "data")}
    row["line"] = shorten(order_line(entry), _MAX_LINE_CHARS)
    if not uncut:
        row["data"] = cut_value(data := entry.shown_data)
        if row["data"] != data:
            row["cut"] = True
    if spent := entry.spent:
        row["spent"] = {**asdict(spent), "usd": _usd_text(spent.usd)}
    if fault := entry.fault:
        row["fault"] = shorten(fault, _MAX_LINE_CHARS)
    if entry.reason is not None:
        row["why"] = REASONS.explain(entry.reason, entry.detail)
    if origins := entry.origins:
        row["origins"] = {
            name: [asdict(each) for each in name_origins] for name, name_origins in origins.items()
        }
    if sources := entry.sources:
        row["outside"] = sources
    if entry.is_refused:
        row["refused"] = True
    if entry.part is not None:
        row["part"] = entry.part
    return row


def outline_row(outline: Outline) -> dict[str, Any]:
    """Return an outline for pages, where a run that waits for a person runs, and has a card.

    `here` is whether it can be stopped: whoever works on it, or if it waits or was cut off.
    """
    row = {name: getattr(outline, name) for name in _OUTLINE_KEYS}  # asdict copies deep, and slowly
    row["attributes"] = ", ".join(outline.attributes_in_words().values())
    row["here"] = outline.under_way or outline.state in (*Outline.parked, "stopped")
    return row | ({"state": "running"} if outline.under_way else {})


def is_left_waiting(outline: Outline) -> bool:
    """Return whether a run waits in the journal, and no process works on it."""
    return outline.state in _LEFT_WAITING and not outline.held


def with_waits_marked(outlines: list[Outline], journal: Journal) -> list[Outline]:
    """Return outlines where those that wait for no person say for what.

    `answered` is the state of one that has all it waited for, and goes on in its program; `awaited`
    that of one that waits for a result or a moment alone.
    """
    if not any(is_left_waiting(each) for each in outlines):
        return outlines
    kinds: dict[str, set[str]] = {}
    for wait in journal.waiting():
        kinds.setdefault(wait.run, set()).add(wait.kind)
    marked = []
    for each in outlines:
        if is_left_waiting(each):
            own_kinds = kinds.get(each.id, set())
            is_awaited = bool(own_kinds) and own_kinds <= _COMES_BY_ITSELF
            state = "awaited" if is_awaited else "waiting" if own_kinds else "answered"
            each = each if each.state == state else replace(each, state=state)
        marked.append(each)
    return marked


class Totals:
    """The totals of a run, added entry by entry: tokens, cost, calls, errors and time."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.sequence: int = 0  # of the last counted entry
        self._first_at = self._last_at = self._seconds = 0.0
        self._is_at_rest = False  # from an end until the run is resumed, no time counts
        self._counts = dict.fromkeys((*_USAGE_FIELDS, "unpriced", "errors", "refused"), 0)
        self._tools: set[tuple[str, str]] = set()
        self._usd = Decimal(0)
        self._by_model: dict[tuple[str, int], tuple[int, int, Decimal | None]] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        self.sequence = entry.sequence
        self._first_at = self._first_at or entry.at
        is_decided = entry.decides_doubt  # by a person, while no process works on it
        if self._last_at and not self._is_at_rest and not is_decided:
            self._seconds += max(entry.at - self._last_at, 0.0)
        self._last_at = entry.at
        self._is_at_rest = is_decided or (entry.reason is not None and not entry.path)
        self._counts["errors"] += bool(entry.fault)
        self._counts["refused"] += entry.is_refused
        if "action" in entry.subject:  # a call resumed after a crash starts twice
            self._tools.add((entry.path, entry.key))
        if spent := entry.spent:
            for name in _USAGE_FIELDS:
                self._counts[name] += getattr(spent, name)
            if spent.usd is None:
                self._counts["unpriced"] += spent.tokens
            else:
                self._usd += spent.usd
            if (model := entry.subject.get("model")) is not None:
                key = (str(model), int(entry.at // 3600))
                calls, tokens, usd = self._by_model.get(key, (0, 0, None))
                usd = usd if spent.usd is None else (usd or Decimal(0)) + spent.usd
                self._by_model[key] = (calls + spent.model_calls, tokens + spent.tokens, usd)

    def by_model(self) -> list[dict[str, Any]]:
        """Return what calls of models spent: `{model, at, calls, tokens, usd}` of each hour.

        `usd` is None if the price of none of them is known.
        """
        return [
            {
                "model": name,
                "at": 3600 * hour,
                "calls": calls,
                "tokens": tokens,
                "usd": _usd_text(usd),
            }
            for (name, hour), (calls, tokens, usd) in self._by_model.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the totals; `unpriced` counts the tokens without a known price."""
        row = {"began": self._first_at, "seconds": self._seconds}
        tools = len(self._tools)
        return {**row, **self._counts, "usd": _usd_text(self._usd), "tool_calls": tools}


def _usd_text(usd: Decimal | None) -> str | None:
    return None if usd is None else format(usd.normalize(), "f")


def cut_value(value: Any, max_items: int = _MAX_VALUES, depth: int = _MAX_DEPTH) -> Any:
    """Return a JSON value with long texts, collections of over `max_items` and deep ones cut."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + " …"
    if not isinstance(value, dict | list):
        return value
    kept_items: Iterable[Any] = islice(value, max_items if depth > 0 else 0)
    if isinstance(value, dict):
        return {key[:_MAX_TEXT]: cut_value(value[key], max_items, depth - 1) for key in kept_items}
    return [cut_value(each, max_items, depth - 1) for each in kept_items]


def link_path(run_id: str, token: str) -> str:
    """Return the path of a link to a run, below the studio's address."""
    return f"shared/{token}/{quote(run_id, safe='')}"


def shared_page(journal: Journal, run_id: str, token: str) -> Response:
    """Return the page of the run that a link opens; what opens nothing is told so in one way."""
    try:
        if RunShares(journal).opens(run_id, token):
            return report_page(_SHARED_PAGE.format(body=_shared_body(journal, run_id)))
    except MoothallError:  # its text, such as the journal's path, is for nobody outside
        pass
    answer = report_page(_SHARED_PAGE.format(body=_NOTHING_HTML))
    answer.status_code = 404
    return answer


def _shared_body(journal: Journal, run_id: str) -> str:
    outline, entries = journal.run(run_id), journal.entries(run_id, 0, _MAX_SHARED_ENTRIES)
    totals = Totals(entries).to_json()
    facts = (
        f"{outline.kind} {outline.agent}",
        outline.state,
        f"began {datetime.fromtimestamp(outline.began):%Y-%m-%d %H:%M}",
        f"{totals['seconds']:.1f} s",
        f"{totals['tokens']:,} tokens",
        f"{totals['model_calls']:,} calls of models",
        f"{totals['tool_calls']:,} of tools",
    )
    end = next(
        (each for each in reversed(entries) if each.reason is not None and not each.path), None
    )
    reply = "" if end is None else end.data.get("value") or end.data.get("text") or ""
    text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False, indent=1)
    steps = []
    for each in entries:
        if each.kind != "state" and not each.path.startswith("@"):  # of its work alone
            row = entry_row(each)
            data = json.dumps(row["data"], ensure_ascii=False, indent=1, default=str)
            steps.append(
                f"<li><details><summary>{_safe(row['line'])}</summary><pre>{_safe(data)}</pre>"
                "</details></li>"
            )
    return (
        f"<h1>{_safe(outline.task or '(no task)')}</h1><p>{_safe(' · '.join(facts))}</p>"
        f"<pre>{_safe(text)}</pre><h2>Steps</h2><ol>{''.join(steps)}</ol>"
    )


def _safe(text: str) -> str:
    """Return a text in HTML; what would turn a line around, or is not seen, by its number."""
    return escape(escaped(text, lines=True))
