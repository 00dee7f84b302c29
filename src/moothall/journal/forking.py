"""Copies of runs: up to an entry, or with other results of steps; and runs that change hands."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from moothall.actions.approval.decision import DECISION_ENTRIES
from moothall.actions.message import MAX_ID
from moothall.foundation.arguments import check_boolean, check_integer, check_text
from moothall.foundation.database import Database
from moothall.foundation.errors import ConfigError, NoSuchRun
from moothall.foundation.jsonvalue import NotJSON, to_json
from moothall.journal.doubt import state_of
from moothall.journal.entry import (
    MAX_FIRST_ENTRIES,
    Entry,
    begin_data_of,
    parts_of,
    rekeyed_data,
)
from moothall.journal.kinds.entry_kinds import kind_at
from moothall.journal.store.backup import give_key
from moothall.journal.store.store import Store
from moothall.journal.store.wait_rows import ANSWER_ENTRY, WAIT_ENTRY
from moothall.journal.tally import Tally, search_text

_DELETE_ANSWERED: Final = "DELETE FROM waits WHERE run = ? AND key = ? AND value IS NOT NULL"


def fork_run(
    store: Store,
    run_id: str,
    new_id: str | None,
    upto: int | None,
    results: Mapping[int, Any] | None,
    permitted: bool,
) -> str:
    """Copy a run, or its beginning; return the copy's id."""
    if new_id is not None:
        check_text("a run's id", new_id)
    with store.reading() as db:  # makes no writer wait, however long the run is
        number = store.run_number(db, run_id)
        entries = [*store.read_entries(db, number, run_id)]
        key_and_task = db.execute("SELECT key, task FROM runs WHERE number = ?", (number,))
        key, task = key_and_task.fetchone()
    if upto is not None:
        check_integer("upto=", upto, 1, len(entries))
        del entries[upto:]
    if results is not None:
        entries = _with_results(entries, results)
    check_boolean("permitted=", permitted)
    if not permitted:
        entries = _without_permissions(entries)
    entries = [each for each in entries if kind_at(each.path) is None]  # it is of that run alone
    copies = [
        (entry.path, entry.kind, store.encode_data(data)[0])
        for entry, data in zip(entries, rekeyed_data(entries, key), strict=True)
    ]
    with store.writing() as db:
        store.run_number(db, run_id)  # it may have been deleted since
        exists_query = "SELECT 1 FROM runs WHERE id = ?"
        if new_id is None:
            ids = (f"{run_id[: MAX_ID - 10]}.{number}" for number in itertools.count(1))
            new_id = next(id for id in ids if not db.execute(exists_query, (id,)).fetchone())
        elif db.execute(exists_query, (new_id,)).fetchone():
            raise ConfigError(f"there is a run {new_id!r} already: give the copy another id")
        fork = db.insert(
            "INSERT INTO runs (id, kind, agent, task, thread, attributes, began, forked_from, key) "
            "SELECT ?, kind, agent, task, thread, attributes, began, id, '' FROM runs "
            "WHERE number = ?",
            (new_id, number),
        )
        give_key(db, fork)
        end = Entry.end_of(entries)
        reply = "" if end is None else end.data.get("text")
        text = search_text(task, reply if isinstance(reply, str) else "")
        store.index_text(db, fork, text)
        times = [entry.at for entry in entries]
        totals = Tally(), 0.0, 0
        state = state_of(entries)
        state = None if state == "waiting" else state  # it asks for itself when it is resumed
        store.write_entries(db, fork, (0, b""), copies, state, totals, times)
    return new_id


def hand_over_run(store: Store, db: Database, run: tuple[int, str]) -> None:
    """Let the program as it is now go on with a run, given by number and id, in its place.

    It keeps its id, what it has done and what it waits for. What a person has permitted the former
    program, and that has not ended, is asked again.
    """
    number, run_id = run
    handed_over = list[tuple[str, str, str]]()
    for path, entries in parts_of(store.read_entries(db, number, run_id)).items():
        # By step, what it has asked for last: what waits for a result has had its effect.
        last_wait = {each.data["key"]: each.data for each in entries if each.kind == WAIT_ENTRY}
        for each in entries:
            if each.kind == "ended":
                last_wait.pop(each.data.get("key"), None)
        answered = {each.data["wait"] for each in entries if each.kind == ANSWER_ENTRY}
        withdrawn = [
            data["wait"]
            for data in last_wait.values()
            if data["kind"] == "approval"
            and (
                db.execute(_DELETE_ANSWERED, (number, data["wait"])).rowcount
                or data["wait"] in answered
            )
        ]
        start = next((each for each in reversed(entries) if each.kind == "begun"), None)
        if start is not None:
            handing = {"entries": len(entries), "withdrawn": withdrawn}
            data = {**start.data, "fingerprint": None, "handed_over": handing}
            handed_over.append((path, "begun", store.encode_data(data)[0]))
    state = db.execute("SELECT state FROM runs WHERE number = ?", (number,)).fetchone()[0]
    work = Tally(), 0.0, 0
    store.write_entries(db, number, store.read_end(db, number), handed_over, state, work)
    store.notify_followers(db, [number])


def runs_after(store: Store, agent: str, thread: str | None, at: float) -> list[tuple[str, str]]:
    """Return the ids and keys of an agent's runs in a thread that began after a moment."""
    with store.reading() as db:
        return db.execute(
            "SELECT id, key FROM runs WHERE agent = ? AND coalesce(thread, '') = ? AND began > ? "
            "AND NOT deleted ORDER BY number",
            (agent, thread or "", at),
        ).fetchall()


def asking_chain(store: Store, run_id: str, runs: Container[str]) -> list[str]:
    """Return a run, and the runs for which it was begun, up to one of `runs`; empty without one."""
    chain = list[str]()
    next_run: Any = run_id
    while isinstance(next_run, str) and next_run not in runs and next_run not in chain:
        chain.append(next_run)
        next_run = None
        with suppress(NoSuchRun), store.skipping_damaged(chain[-1]):
            first_entries = store.entries_of(chain[-1], most=MAX_FIRST_ENTRIES)
            next_run = (begin_data_of(first_entries) or {}).get("asked_for")
    return chain if next_run in runs else []


def _with_results(entries: list[Entry], results: Mapping[int, Any]) -> list[Entry]:
    """Return the entries of a run up to the turn in which these steps ended, with new results.

    What came of the old result is left out: the copy does it anew. The calls of an answer do not
    depend on each other's results, so those beside a changed one stay.
    """
    if not isinstance(results, Mapping) or not results:
        raise ConfigError(
            "fork: results= must have a value for the number of each entry that it changes, such "
            f"as {{7: 3}}, got {results!r:.80}"
        )
    by_number = {each.sequence: each for each in entries}
    for number in sorted(results, key=str):
        entry = by_number.get(number) if type(number) is int else None
        if entry is None or entry.kind != "ended" or "result" not in entry.data:
            problem = "there is none" if entry is None else f"it is of the kind {entry.kind!r}"
            raise ConfigError(
                f"fork: results= takes the numbers of entries in which a step ended with a result, "
                f"got {number!r:.80}: {problem}"
            )
    ends = {number: _last_independent_number(entries, by_number[number]) for number in results}
    first = min(results)
    if (last := max(results)) > ends[first]:
        raise ConfigError(
            f"fork: results= has the entries {first} and {last}, but what follows the first is "
            "done anew, so the other has no result yet: fork the copy once more when it has"
        )
    dropped_keys = {f"post_acting.{by_number[number].data['key']}" for number in results}
    return [
        replace(each, data={**each.data, "result": _recorded_result(each, results[each.sequence])})
        if each.sequence in results
        else each
        for each in entries[: min(ends.values())]
        if each.data.get("key") not in dropped_keys
    ]


def _without_permissions(entries: list[Entry]) -> list[Entry]:
    """Return the entries of a run without the decisions about calls that have not ended."""
    ended_steps = {(each.path, each.data.get("key")) for each in entries if each.kind == "ended"}
    return [
        each
        for each in entries
        if each.kind not in DECISION_ENTRIES or (each.path, each.data.get("key")) in ended_steps
    ]


def _last_independent_number(entries: list[Entry], ended_entry: Entry) -> int:
    """Return the number of the last entry that does not depend on a step's result."""
    if "action" not in ended_entry.data.get("about", {}):
        return ended_entry.sequence
    later_entries: Iterator[Entry] = (
        each
        for each in entries[ended_entry.sequence :]
        if each.path == ended_entry.path and each.kind in ("state", "over")
    )
    end = next(later_entries, None)
    return len(entries) if end is None else end.sequence - 1


def _recorded_result(entry: Entry, value: Any) -> Any:
    """Return the recorded form of a result."""
    label, details, old_data = (
        f"fork: results[{entry.sequence}]",
        entry.data.get("about", {}),
        entry.data,
    )
    try:
        new_value = to_json(value)
    except NotJSON as error:
        raise ConfigError(f"{label} is not JSON: {error}") from error
    if "action" in details:
        return {**old_data["result"], "result": {"tool_executed": True, "result": new_value}}
    if "model" not in details:
        return new_value
    if not isinstance(new_value, str):
        raise ConfigError(f"{label} must be the text of a model's answer, got {value!r:.80}")
    return {**old_data["result"], "text": new_value, "calls": [], "finish_reason": None}
