"""What a run that could go on waits for, asked for by no call of it: an operator, or agents.

Each row has its text as the step, since no entry says it.
"""

from __future__ import annotations

import json
import time
from typing import Final

from moothall.foundation.database import Database

OPERATOR: Final = "operator"
"""The kind of wait for who decides whether, and how, a run goes on."""
DEATHS_KEY: Final = "operator:deaths"
"""The key of a run whose process ends each time that it goes on."""
PROGRAM_KEY: Final = "operator:program"
"""The key of a run whose program has changed."""
AGENTS: Final = "agents"
"""The kind of wait for agents that a run may call; its row has their names as the text."""
AGENTS_KEY: Final = "agents:away"
KINDS: Final = (OPERATOR, AGENTS)
_TEXTS: Final = {
    PROGRAM_KEY: "its program has changed: restore it, answer 'fork' to have it go on by the "
    "program as it is now, or 'cancel' ({})",
    DEATHS_KEY: "its process has ended {} times at the same step: answer 'resume' to have it go on "
    "once more, or 'cancel'",
}

_ASK: Final = (
    "INSERT INTO waits (run, key, kind, agent, thread, path, step, place, since, remind, due) "
    "SELECT number, ?, ?, agent, coalesce(thread, ''), '', ?, "
    "(number << 32) + last, ?, ?, ? FROM runs WHERE number = ? "
    # Asked again, it is told again; while it is open, only its text may be another.
    "ON CONFLICT (run, key) DO UPDATE SET step = excluded.step, place = excluded.place, "
    + ", ".join(
        f"{each} = CASE WHEN waits.taken OR waits.value IS NOT NULL THEN excluded.{each} "
        f"ELSE waits.{each} END"
        for each in ("since", "remind")
    )
    + ", taken = FALSE, value = NULL, due = excluded.due, decided_by = NULL, answered = NULL"
)
_SELECT_ANSWER: Final = "SELECT value FROM waits WHERE run = ? AND key = ? AND NOT taken"
IS_MISMATCH_SQL: Final = (
    "(coalesce(state, 'waiting') = 'waiting' AND EXISTS (SELECT 1 FROM waits q "
    f"WHERE q.run = number AND q.key = '{PROGRAM_KEY}' AND NOT q.taken AND q.value IS NULL))"
)
"""The condition that a run could go on, but for its program, which has changed."""


def ask_operator(db: Database, run: int, key: str, cause: object) -> None:
    """Have somebody decide about a run: what has changed, or how often its process has ended."""
    db.execute(_ASK, (key, OPERATOR, _TEXTS[key].format(cause), time.time(), 0.0, None, run))


def wait_for_agents(db: Database, run: int, names: str) -> None:
    """Have a run say for which agents it waits: it can go on at any time, and nobody is told."""
    if not names:
        end_asking(db, run, AGENTS_KEY)
        return
    now = time.time()
    db.execute(_ASK, (AGENTS_KEY, AGENTS, names, now, None, now, run))


def operator_decided(db: Database, run: int, key: str) -> str | None:
    """Return what somebody has decided about a run; None without that, or by another key."""
    row = db.execute(_SELECT_ANSWER, (run, key)).fetchone()
    is_ours = row is not None and row[0] is not None and key in (DEATHS_KEY, PROGRAM_KEY)
    return str(json.loads(row[0])) if is_ours else None


def end_asking(db: Database, run: int, key: str) -> None:
    """Have nobody decide about a run any more."""
    db.execute("UPDATE waits SET taken = TRUE WHERE run = ? AND key = ?", (run, key))
