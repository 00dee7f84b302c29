"""Which run or value names which kept value, in the table `holders`: noted by each commit.

A value is named by its sha256 as text, or by its 32 bytes in a group of hashes. Any such text that
is the hash of a kept value counts, in any text: at worst a value is kept too long. The table has
the beginnings of hashes: with whole ones it would be half of a journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from moothall.foundation.database import Database
from moothall.journal.store.store import Store

BATCH_SIZE: Final = 100
"""So many values one statement names."""
_DIGIT_TABLE: Final = bytes(ord("x" if each in b"0123456789abcdef" else " ") for each in range(256))
_HASH_PATTERN: Final = b"x" * 64
_GROUP_BYTES: Final = 256 * 32
_NO_VALUES: Final[Mapping[str, bytes]] = MappingProxyType({})


def holder_of(run: int) -> bytes:
    """Return what stands for a run as a holder."""
    return run.to_bytes(8, "big")


def short_hash(hash: str) -> bytes:
    """Return what stands for a value in the table: nobody finds two hashes that begin alike."""
    return bytes.fromhex(hash[:32])


def hashes_in(data: object) -> list[str]:
    """Return what may be the hashes of values that a text or value names."""
    hashes: list[str] = []
    text = data.encode() if isinstance(data, str) else data
    if not isinstance(text, bytes):
        return hashes
    digits = text.translate(_DIGIT_TABLE)  # a regular expression takes ten times as long
    start = digits.find(_HASH_PATTERN)
    while start >= 0:
        end = digits.find(b" ", start)
        end = len(text) if end < 0 else end
        if end - start == len(_HASH_PATTERN):
            hashes.append(text[start:end].decode())
        start = digits.find(_HASH_PATTERN, end)
    if text is data and len(text) <= _GROUP_BYTES and len(text) % 32 == 0:
        hashes.extend(text[at : at + 32].hex() for at in range(0, len(text), 32))
    return hashes


def note_holder(
    store: Store,
    db: Database,
    holder: bytes,
    hashes: Iterable[str],
    new_values: Mapping[str, bytes] = _NO_VALUES,
) -> None:
    """Note that a holder names values, if there are such, and what these name.

    `new_values` has values that this transaction has stored.
    """
    pending = [(holder, batch) for batch in batches(hashes)]
    # No recursion: values name values to any depth.
    while pending:
        holder, batch = pending.pop()
        stored_hashes = _stored_hashes(db, [each for each in batch if each not in new_values])
        short_hashes = {
            each: short_hash(each)
            for each in batch
            if each in new_values or each in stored_hashes or store.files.has(each)
        }
        if not short_hashes:
            continue
        already_named = named_values(db, [*short_hashes.values()])
        db.executemany(
            "INSERT INTO holders VALUES (?, ?) ON CONFLICT DO NOTHING",
            [(short, holder) for short in short_hashes.values()],
        )
        for hash, short in short_hashes.items():
            if short not in already_named:  # read for the first time
                data = new_values[hash] if hash in new_values else _read_data(store, db, hash)
                pending += ((short, each) for each in batches({*hashes_in(data)} - {hash}))


def batches(hashes: Iterable[str]) -> Iterator[list[str]]:
    """Yield different hashes, as many as one statement takes."""
    distinct = [*set(hashes)]
    return (distinct[at : at + BATCH_SIZE] for at in range(0, len(distinct), BATCH_SIZE))


def placeholders(values: Sequence[object]) -> str:
    """Return the places of these values in a statement."""
    return f"({', '.join('?' * len(values)) or 'NULL'})"


def named_values(db: Database, values: list[bytes], except_holder: bytes = b"") -> set[bytes]:
    """Return which of these values something names, other than one holder."""
    query = (
        f"SELECT DISTINCT value FROM holders WHERE value IN {placeholders(values)} AND holder <> ?"
    )
    rows = db.execute(query, (*values, except_holder))
    return {value for (value,) in rows}


def _stored_hashes(db: Database, hashes: list[str]) -> set[str]:
    if not hashes:
        return set()
    rows = db.execute(f"SELECT hash FROM kept WHERE hash IN {placeholders(hashes)}", hashes)
    return {hash for (hash,) in rows}


def _read_data(store: Store, db: Database, hash: str) -> bytes | None:
    row = db.execute("SELECT data FROM kept WHERE hash = ?", (hash,)).fetchone()
    return store.files.get(hash) if row is None else row[0]


def ids_present(db: Database, ids: Iterable[str]) -> set[str]:
    """Return which of these runs the journal has."""
    present: set[str] = set()
    for batch in batches(ids):
        query = f"SELECT id FROM runs WHERE id IN {placeholders(batch)}"
        present |= {id for (id,) in db.execute(query, batch)}
    return present
