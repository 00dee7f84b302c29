"""What rows want of the world, as arrays, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moothall.errors import ConfigError
from moothall.society.arrays import np
from moothall.society.columns.column import PLACE
from moothall.society.columns.register import INT, WHO, WORD, Register
from moothall.society.kernel.wants import (
    Answer,
    Buy,
    Follow,
    Like,
    Move,
    Pay,
    Post,
    Save,
    Want,
    Work,
)


@dataclass(frozen=True, slots=True)
class Say(Want):
    """A message of rows to a citizen, delivered in the next step without settling."""

    to: str
    text: str
    topic: str = ""
    opinion: int = 0


FIELDS: Final[dict[type[Want], dict[str, str]]] = {
    Move: {"to": PLACE, "mode": WORD},
    Pay: {"to": WHO, "cents": INT, "what": WORD},
    Work: {"place": PLACE, "seconds": INT},
    Buy: {"place": PLACE, "kind": WORD, "cents": INT},
    Save: {"cents": INT},
    Post: {"text": WORD, "topic": WORD},
    Follow: {"id": WHO},
    Like: {"post": INT},
    Say: {"to": WHO, "text": WORD, "topic": WORD, "opinion": INT},
}
"""The fields of each kind of want, and what a number in them is.

`who` is the row of a citizen, −1, −2, … for the first, second, … service in id order, and from
`STRANGER` down an agent that is neither;
`place` the number of a place, −1 for none; `word` the number of a text of the population's `words`,
−1 for None.
"""
LEFT_OUT: Final[dict[str, Any]] = {"mode": None, "what": "", "topic": "", "opinion": 0}
"""The fields that may be left out, and what they then are."""

REFUSED: Final = (
    "",
    "it has too little money",
    "there is no agent of that id",
    "the place is full",
    "there is no way there",
    "it is on the way",
    "there is no such place",
    "no service there takes it",
    "the service refused it",
    "there are none left",
    "cents must be 1 or more",
)
"""Why something was refused, by the number that stands for it."""
POOR, NOBODY, FULL, NO_WAY, ON_WAY, NO_PLACE, NO_SERVICE, BY_SERVICE, NONE_LEFT, NO_CENTS = range(
    1, len(REFUSED)
)


@dataclass
class Table:
    """Wants of one kind, by sender, and their outcomes once they are settled."""

    kind: type[Want]
    sender: Any  # the row of who wants it, rising; int64
    fields: dict[str, Any]  # by name, each int64
    reason: Any = None  # 0 where it was done, else the number of `REFUSED`; int8
    value: Any = None  # what came of it; int64

    def __len__(self) -> int:
        return len(self.sender)

    def settled(self, reason: Any, value: Any = 0) -> None:
        """Record the outcome of each entry."""
        self.reason = np.broadcast_to(np.asarray(reason, np.int8), len(self)).copy()
        self.value = np.broadcast_to(np.asarray(value, np.int64), len(self)).copy()

    def done(self, entries: Any, done: Any, value: Any) -> None:
        """Record which entries a service has done, and their values."""
        self.reason[entries] = ~done * np.int8(BY_SERVICE)
        self.value[entries] = done * value

    def rows_of(self, first: int, until: int) -> slice:
        """Return the slice of entries by rows `first` … `until` − 1."""
        low, high = np.searchsorted(self.sender, [first, until])
        return slice(int(low), int(high))

    def answers(self, row: int, population: Register) -> list[Answer]:
        """Return a citizen's entries as answers."""
        part = self.rows_of(row, row + 1)
        made = []
        for at in range(part.start, part.stop):
            why = int(self.reason[at])
            value = None if why else int(self.value[at])
            made.append(Answer(self.want(at, population), not why, REFUSED[why], value))
        return made

    def want(self, at: int, population: Register) -> Any:
        """Return the want of an entry."""
        kinds = FIELDS[self.kind]
        fields = {
            name: population.decoded(kinds[name], int(values[at]))
            for name, values in self.fields.items()
        }
        return self.kind(**fields)


def joined(kind: type[Want], parts: Sequence[tuple[Any, Mapping[str, Any]]]) -> Table:
    """Return one table of the wants of shards, by sender, in each sender's order."""
    sender = np.concatenate([part[0] for part in parts])
    fields = {}
    for name in FIELDS[kind]:
        values = [part[1][name] for part in parts]
        if not any(each.shape for each in values) and len({int(each) for each in values}) == 1:
            fields[name] = np.broadcast_to(values[0], len(sender))  # one number for all
        else:
            fields[name] = np.concatenate(
                [
                    np.broadcast_to(each, len(part[0]))
                    for each, part in zip(values, parts, strict=True)
                ]
            )
    if (sender[1:] < sender[:-1]).any():
        order = np.argsort(sender, kind="stable")
        sender = sender[order]
        fields = {name: values[order] for name, values in fields.items()}
    return Table(kind, sender, fields)


def encoded(want: Want, population: Register) -> dict[str, Any] | None:
    """Return a full agent's want as arrays of a number; None if the population lacks one for it."""
    try:
        return {
            name: np.array([population.encoded(what, getattr(want, name))])
            for name, what in FIELDS[type(want)].items()
        }
    except (KeyError, ConfigError):
        return None


def checked_fields(
    kind: type[Want], given: Mapping[str, Any], count: int, population: Register
) -> dict[str, Any]:
    """Return the fields of wants of rows as int64 arrays. Raises ConfigError: one is wrong."""
    if kind not in FIELDS:
        known = ", ".join(each.__name__ for each in FIELDS)
        raise ConfigError(f"rows can want {known}, got {kind!r:.80}")
    strange = set(given) - set(FIELDS[kind])
    if strange:
        raise ConfigError(f"{kind.__name__} has no field {sorted(strange)[0]!r}")
    made = {}
    for name, what in FIELDS[kind].items():
        value = given.get(name, LEFT_OUT.get(name, given))
        if value is given:
            raise ConfigError(f"{kind.__name__} needs {name}=")
        if value is None or isinstance(value, str):
            value = population.encoded(what, value)
        array = np.asarray(value)
        if array.dtype.kind not in "iub" or array.shape not in ((), (count,)):
            raise ConfigError(
                f"{name}= of {kind.__name__} must be whole numbers, one for each of {count} rows, "
                f"got {array.dtype} of shape {array.shape}"
            )
        made[name] = array.astype(np.int64, copy=False)
    return made
