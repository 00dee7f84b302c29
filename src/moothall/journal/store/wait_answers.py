"""Answers to what runs wait for, each given to one call."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from moothall.actions.approval.later import is_reserved_key
from moothall.foundation.database import Database
from moothall.foundation.errors import NotPermitted, StateError
from moothall.foundation.text import cut, escaped
from moothall.journal.stop_reason import ELSEWHERE_STATE, FINAL_REASONS
from moothall.journal.store.entry_values import stored_json
from moothall.journal.store.store import Store
from moothall.journal.store.wait_rows import WaitOutcome, answer_json, sorted_json
from moothall.journal.wait_kinds import WAIT_KINDS, moment_text
from moothall.models.protocol import call_line

_MAX_EARLY_ANSWERS: Final = 100
"""So many answers of a run are kept before they are asked for."""
_EXCERPT_CHARS: Final = 200


def give_answer(
    store: Store, db: Database, run: tuple[int, str], key: str, value: Any, outcome: WaitOutcome
) -> None:
    """Keep the answer to a wait, once; the same answer again changes nothing.

    `run` is its number and id; `key` that of a wait, or a name under which one call waits;
    `outcome` says who gives the value, and where it is from.
    """
    number, run_id = run
    answerer, now = outcome.by, time.time()
    rows = db.execute(
        "SELECT key, kind, place, until, value, decided_by, answered, taken FROM waits "
        "WHERE run = ? AND (key = ? OR name = ?) ORDER BY since, key",
        (number, key, key),
    ).fetchall()
    text = answer_json((rows[0][1] if rows else "") or "result", key, value)
    if not rows:
        _keep_early(db, run, key, (text, answerer, now))
        return
    # Of several calls that have asked under one name, the key of its own says which it is for.
    is_repeated = any(
        row[4] is not None and sorted_json(row[4]) == sorted_json(text) for row in rows
    )
    open_rows = [row for row in rows if row[4] is None and not (row[7] or _is_late(row, now))]
    if len(open_rows) > 1 or (open_rows and is_repeated):
        calls = (f"{row[0]} of {_call_text(store, db, row[2])}" for row in open_rows)
        raise StateError(
            f"run {run_id!r}: several calls have asked for {key!r}, and an answer is given to one "
            f"of them: answer by the key of the call that it is for: {', or '.join(calls)}"
        )
    wait_key, kind, place, until, earlier_value, earlier_answerer, answered_at, _ = (
        open_rows[0] if open_rows else rows[-1]
    )
    if earlier_value is not None:
        # Who answers again may not know that the first answer arrived.
        if is_repeated:
            return
        author_note = "" if earlier_answerer is None else f" by {escaped(earlier_answerer)}"
        raise StateError(
            f"run {run_id!r}: {key!r} was answered{author_note} at {moment_text(answered_at)} with "
            f"{cut(earlier_value, _EXCERPT_CHARS)}, and not with "
            f"{cut(text, _EXCERPT_CHARS)}: the first answer counts"
        )
    if not open_rows:
        problem = "the run has gone on"
        if (state := _state(db, number)) in (*FINAL_REASONS, "cancelled"):
            problem = f"the run is {state}"
        elif state == ELSEWHERE_STATE:
            problem = "the run is elsewhere: answer it in the journal in which it goes on"
        if until is not None and until <= now:
            problem = f"it was over at {moment_text(until)}"
        raise StateError(f"run {run_id!r}: {key!r} cannot be answered any more: {problem}")
    wait_data = store.data_at(db, place)
    WAIT_KINDS[kind or "result"].check_fit(run_id, json.loads(text), wait_data)
    names = tuple(wait_data.get("who", ()))
    if names and answerer not in names:
        raise NotPermitted(
            f"run {run_id!r}: {key!r} may be answered by {' or '.join(map(escaped, names))}, "
            f"and not by {'somebody without a name' if answerer is None else escaped(answerer)}"
        )
    sources = stored_json([*outcome.sources]) if outcome.sources else None
    db.execute(
        "UPDATE waits SET value = ?, decided_by = ?, answered = ?, due = ?, sources = ? "
        "WHERE run = ? AND key = ?",
        (text, answerer, now, now, sources, number, wait_key),
    )


def _is_late(row: Sequence[Any], now: float) -> bool:
    _, kind, _, until, *_ = row
    return until is not None and kind != "moment" and bool(now >= until)


def _call_text(store: Store, db: Database, place: int) -> str:
    wait_data = store.data_at(db, place)
    return cut(call_line(wait_data.get("action", ""), wait_data.get("args")), _EXCERPT_CHARS)


def _state(db: Database, number: int) -> Any:
    return db.execute("SELECT state FROM runs WHERE number = ?", (number,)).fetchone()[0]


def _keep_early(
    db: Database, run: tuple[int, str], key: str, row: tuple[str, str | None, float]
) -> None:
    """Keep an answer to a `Later` that has not come yet."""
    number, run_id = run
    if is_reserved_key(key):
        raise StateError(
            f"run {run_id!r} waits for nothing under the key {key!r}; `moothall waiting` lists "
            "what waits"
        )
    state = _state(db, number)
    if state is not None and state not in ("waiting", "in_doubt"):
        raise StateError(f"run {run_id!r} is over ({state}): {key!r} cannot be answered")
    early_query = "SELECT count(*) FROM waits WHERE run = ? AND place = 0 AND value IS NOT NULL"
    if db.execute(early_query, (number,)).fetchone()[0] >= _MAX_EARLY_ANSWERS:
        raise StateError(
            f"run {run_id!r} has {_MAX_EARLY_ANSWERS} answers already that it has not asked for"
        )
    db.execute(
        "INSERT INTO waits (run, key, name, kind, agent, thread, path, step, place, since, value, "
        "decided_by, answered) VALUES (?, ?, ?, '', '', '', '', '', 0, ?, ?, ?, ?)",
        (number, key, key, row[2], *row),
    )
