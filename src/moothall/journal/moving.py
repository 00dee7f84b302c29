"""Moving runs: a run as lines of JSON and back."""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from moothall.foundation.arguments import check_text, is_storable
from moothall.foundation.database import Database
from moothall.foundation.errors import (
    ConfigError,
    FileError,
    JournalError,
    NoSuchFile,
    StateError,
)
from moothall.foundation.files import written_whole
from moothall.foundation.format_version import json_version_problem
from moothall.journal.attributes import attributes_json, checked_attributes
from moothall.journal.doubt import state_of
from moothall.journal.entry import begin_data_of
from moothall.journal.opening import RunOpener
from moothall.journal.stop_reason import ELSEWHERE_STATE, FINAL_REASONS, OPEN_STATES
from moothall.journal.store.backup import value_hashes
from moothall.journal.store.entry_values import hash_of, stored_json
from moothall.journal.store.shapes import fault_of
from moothall.journal.store.store import Store
from moothall.journal.store.wait_rows import (
    end_rows,
    has_late_reply,
    keep_late_reply,
    reopen_rows,
    untaken_answers,
)
from moothall.journal.tally import Tally, search_text

VERSION: Final = 1
"""The version of the lines, in the first one."""


_HEAD_SHAPE: Final = {
    "id": str,
    "kind": str,
    "agent": str,
    "task": str,
    "began": float,
    "state": (str, None),
    "thread": (str, None),
    "key": str,
    "seconds": float,
    "entries": int,
    "values": int,
    "moved?": bool,
    "late?": bool,
}
_VALUE_SHAPE: Final = {"value": str, "text?": str, "base64?": str}
_ENTRY_SHAPE: Final = {
    "path": str,
    "kind": str,
    "at": float,
    "data?": dict,
    "text?": str,
    "sum": str,
}
_MAX_CHARS: Final = 500
_MAX_KEY_CHARS: Final = 64


def file_path(path: object) -> Path:
    """Return the path that a caller gave."""
    if isinstance(path, str | os.PathLike) and str(path):
        return Path(path)
    raise ConfigError(f"path= must be the path of a file, got {path!r:.80}")


def export_run(store: Store, run_id: str, path: Path, is_moved: bool = False) -> None:
    """Write a run to a file: a line about it, then one for each of its values and entries."""
    with store.reading() as db, written_whole(path, 0o600) as temporary:
        number = store.run_number(db, run_id)
        for _ in store.read_entries(db, number, run_id):
            pass  # raises if it is damaged
        hashes = value_hashes(store, db, number)
        with temporary.open("w", encoding="utf-8", newline="\n") as out:
            for line in _export_lines(store, db, number, hashes, is_moved):
                out.write(f"{line}\n")


def move_run(store: Store, runs: RunOpener, run_id: str, path: Path) -> None:
    """Write a run to a file with which it goes on where that is imported, and not here.

    It stays here, so that nothing that has its id begins it anew.
    """
    with runs.leasing(run_id, "a process") as number:
        state = _state(store, number)
        if state == ELSEWHERE_STATE:
            raise StateError(
                f"run {run_id!r} was moved already, or is a copy: `moothall runs adopt` lets it go "
                "on here, if it does not elsewhere"
            )
        # First of all: a process that dies in between leaves no run that goes on twice.
        with store.writing() as db:
            if state == "waiting" or untaken_answers(db, number):
                raise StateError(
                    f"run {run_id!r} waits, or has an answer that it has not taken: only a run at "
                    "rest is moved. Answer it (`moothall waiting`) and resume it, or end it by "
                    "`moothall runs cancel`; a backup takes all runs along, with what they wait for"
                )
            query = "UPDATE runs SET state = ?, open = FALSE WHERE number = ?"
            db.execute(query, (ELSEWHERE_STATE, number))
            end_rows(db, number)
        try:
            export_run(store, run_id, path, is_moved=True)
        except BaseException:
            _reopen_run(store, number, run_id)
            raise


def adopt_run(store: Store, runs: RunOpener, run_id: str) -> None:
    """Let a run go on here that may go on elsewhere; do nothing to any other."""
    with runs.leasing(run_id, "a process") as number:
        if _state(store, number) == ELSEWHERE_STATE:
            _reopen_run(store, number, run_id)


def _state(store: Store, number: int) -> str | None:
    with store.reading() as db:
        row = db.execute("SELECT state FROM runs WHERE number = ?", (number,)).fetchone()
    return None if row[0] is None else str(row[0])


def _reopen_run(store: Store, number: int, run_id: str) -> None:
    """Have a run go on from its entries; one that waits for nothing yet asks when it is resumed."""
    with store.reading() as db:
        entries = [*store.read_entries(db, number, run_id)]
    with store.writing() as db:
        waits, state = reopen_rows(db, number, run_id, entries), state_of(entries)
        if state == "waiting" and not waits:
            state = None
        db.execute(
            "UPDATE runs SET state = ?, open = ? WHERE number = ?",
            (state, state in OPEN_STATES, number),
        )


def _export_lines(
    store: Store, db: Database, number: int, hashes: list[str], is_moved: bool
) -> Iterator[str]:
    names = ("id", "kind", "agent", "task", "began", "state", "thread", "key", "seconds", "last")
    row = db.execute(f"SELECT {', '.join(names)} FROM runs WHERE number = ?", (number,)).fetchone()
    columns = dict(zip(names, row, strict=True))
    head = {"moothall": "run", "format": VERSION, **columns, "entries": columns.pop("last")}
    head.pop("last", None)
    if is_moved:  # which is all that its state says here
        entries = [*store.read_entries(db, number, columns["id"])]
        head |= {"state": state_of(entries), "moved": True}
    if has_late_reply(db, number) and (is_moved or head["state"] not in FINAL_REASONS):
        head["late"] = True  # of a copy that is over, its original tells the sender
    yield stored_json({**head, "values": len(hashes)})
    for hash in hashes:
        data = store.read_value(hash, db)
        try:
            yield stored_json({"value": hash, "text": data.decode()})
        except UnicodeDecodeError:
            yield stored_json({"value": hash, "base64": base64.b64encode(data).decode()})
    for path, kind, at, data, sum in db.execute(
        "SELECT path, kind, at, data, sum FROM entries WHERE place > ? AND place < ? "
        "ORDER BY place",
        (number << 32, (number + 1) << 32),
    ):
        # As JSON, if that gives the same text again.
        is_same = stored_json(json.loads(data)) == data
        content = {"data": json.loads(data)} if is_same else {"text": data}
        yield stored_json({"path": path, "kind": kind, "at": at, **content, "sum": sum.hex()})


def import_run(store: Store, path: Path, run_id: str | None) -> str:
    """Add the run of a file that `export_run` wrote; return its id. Nothing else is believed."""
    if run_id is not None:
        check_text("a run's id", run_id)
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            return _Import(store, str(path), lines).write_run(run_id)
    except FileNotFoundError as error:
        raise NoSuchFile(f"{str(path)!r}: there is no such file") from error
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise FileError(f"{str(path)!r} is not text in UTF-8, so not an exported run") from error
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror}") from error


class _Import:
    """Reads the lines of an exported run into a journal, in one transaction."""

    def __init__(self, store: Store, name: str, lines: Iterator[str]) -> None:
        self._store = store
        self._name = name
        self._lines = lines
        self._line_number = 0

    def write_run(self, run_id: str | None) -> str:
        """Return the id of the run."""
        head = self._read_line({"moothall": str})
        self._check_head(head)
        id: str = head["id"] if run_id is None else run_id
        with self._store.writing() as db:
            if db.execute("SELECT 1 FROM runs WHERE id = ?", (id,)).fetchone():
                raise ConfigError(
                    f"there is a run {id!r} already: delete that first, or give the import "
                    "another id"
                )
            self._store.insert_values(db, dict(self._read_value() for _ in range(head["values"])))
            number = self._create_run(db, id, head)
            tally = self._write_entries(db, number, head)
            if next(self._lines, None) is not None:
                raise self._error("the file has more lines than its first one states")
            try:
                entries = [*self._store.read_entries(db, number, id)]
            except JournalError as error:
                raise FileError(
                    f"{self._name!r} is not a run as moothall records it: {error}"
                ) from error
            try:
                begin_data = begin_data_of(entries) or {}
                attributes = checked_attributes(begin_data.get("attributes") or {})
            except (ConfigError, AttributeError) as error:
                raise self._error(f"the run's attributes are damaged: {error}") from error
            db.execute(
                "UPDATE runs SET attributes = ? WHERE number = ?",
                (attributes_json(attributes), number),
            )
            if head.get("late"):
                keep_late_reply(db, id)
            text = search_text(head["task"], tally.reply or "")
            self._store.index_text(db, number, text)
        return id

    def _create_run(self, db: Database, id: str, head: dict[str, Any]) -> int:
        key = head["key"]
        if db.execute("SELECT 1 FROM runs WHERE key = ?", (key,)).fetchone():
            key = secrets.token_hex(8)  # what one tells a memory is not taken for the other's
        return db.insert(
            "INSERT INTO runs (id, kind, agent, task, thread, began, key) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (id, *(head[name] for name in ("kind", "agent", "task", "thread", "began")), key),
        )

    def _write_entries(self, db: Database, number: int, head: dict[str, Any]) -> Tally:
        """Write the entries; each has the checksum that it had."""
        tally, end = Tally(), (0, b"")
        entries: list[tuple[str, str, str]] = []
        times: list[float] = []
        for _ in range(head["entries"]):
            entry = self._read_line(_ENTRY_SHAPE)
            text = entry.get("text")
            if text is None:
                text = stored_json(entry.get("data"))
            entries.append((entry["path"], entry["kind"], text))
            times.append(float(entry["at"]))
            try:
                tally.count(entry["path"], entry["kind"], json.loads(text))
                end = self._store.end_after(end, *entries[-1], times[-1])
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise self._error(f"it is not an entry: {error}") from error
            if end[1].hex() != entry["sum"]:
                raise self._error(
                    "its checksum is wrong: the file was changed, or lines are missing"
                )
        run_work = tally, float(head["seconds"]), 0
        state = head["state"]
        if state not in FINAL_REASONS and (not head.get("moved") or state == "waiting"):
            state = ELSEWHERE_STATE
        self._store.write_entries(db, number, (0, b""), entries, state, run_work, times)
        return tally

    def _check_head(self, head: dict[str, Any]) -> None:
        if head["moothall"] != "run":
            raise self._error("it is not the first line of an exported run")
        if problem := json_version_problem(head, VERSION):
            raise FileError(f"{self._name!r} is an exported run, and {problem}")
        if fault := fault_of(head, _HEAD_SHAPE):
            raise self._error(fault)
        try:
            check_text("a run's id", head["id"])
        except ConfigError as error:
            raise self._error(str(error)) from error
        for name in ("kind", "agent", "task", "thread", "state", "key"):
            text = head[name]
            if text is not None and (len(text) > _MAX_CHARS or not is_storable(text)):
                raise self._error(f"{name} must be a text of at most {_MAX_CHARS} characters")
        if not 0 < len(head["key"]) <= _MAX_KEY_CHARS or head["state"] in ("running", ""):
            raise self._error("key or state is not one that moothall gives")
        for name in ("began", "seconds"):
            if not 0 <= head[name] < 253_000_000_000:
                raise self._error(f"{name} must be in seconds, got {head[name]!r:.80}")
        if not 0 <= head["entries"] < 2**31 or not 0 <= head["values"] < 2**31:
            raise self._error("entries and values must be counts")

    def _read_value(self) -> tuple[str, bytes]:
        line = self._read_line(_VALUE_SHAPE)
        try:
            if "base64" in line:
                data = base64.b64decode(line["base64"], validate=True)
            else:
                data = line["text"].encode("utf-8", "surrogatepass")
        except (KeyError, binascii.Error, UnicodeEncodeError) as error:
            raise self._error(f"it is not a value: {error}") from error
        if hash_of(data) != line["value"]:
            raise self._error("the value is not the one of its hash")
        return line["value"], data

    def _read_line(self, shape: dict[str, Any]) -> dict[str, Any]:
        """Return the next line as an object of this shape."""
        self._line_number += 1
        text = next(self._lines, None)
        if text is None:
            raise self._error("the file ends before it")
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._error(f"it is not JSON: {error}") from error
        fault = fault_of(line, shape)
        if fault:
            raise self._error(fault)
        return dict(line)

    def _error(self, problem: str) -> FileError:
        return FileError(
            f"{self._name!r} is not an exported run: line {self._line_number}: {problem}"
        )
