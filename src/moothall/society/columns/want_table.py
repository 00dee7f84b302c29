"""What rows want of the world, as arrays, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Annotated, Any, Final

from moothall import ConfigError
from moothall.society.arrays import Array, WholeNumber, np
from moothall.society.columns.register import Register
from moothall.society.kernel import wants
from moothall.society.kernel.wants import AGENT_ID, TEXT, WANTS, Answer, Want, field_kinds


@dataclass(frozen=True, slots=True)
class Say(Want):
    """A message of rows to a citizen, delivered in the next step without settling."""

    to: Annotated[str, AGENT_ID]
    text: str
    topic: str = ""
    opinion: int = 0


REFUSAL_REASONS: Final = (
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
TOO_POOR, NO_AGENT, PLACE_FULL, NO_WAY, ON_WAY = range(1, 6)
NO_PLACE, NO_SERVICE, SERVICE_REFUSED, NONE_LEFT, NO_CENTS = range(6, len(REFUSAL_REASONS))


@dataclass
class Table:
    """Wants of one kind, by sender, and their outcomes once they are settled."""

    kind: type[Want]
    sender: Array  # the row of who wants it, rising; int64
    fields: dict[str, Array]  # by name, each int64
    reason: Any = None  # 0 where it was done, else the number of `REFUSAL_REASONS`; int8
    value: Any = None  # what came of it; int64
    has_value: bool = False  # whether anything did; 0 stands for nothing

    def __len__(self) -> int:
        return len(self.sender)

    def set_outcomes(self, reason: WholeNumber, value: Array | None = None) -> None:
        """Record the outcome of each entry."""
        self.reason, self.value = np.empty(len(self), np.int8), np.empty(len(self), np.int64)
        self.has_value = value is not None
        self.reason[...], self.value[...] = reason, value if self.has_value else 0

    def done(self, entries: Array, is_done: Array, value: Array | None = None) -> None:
        """Record which entries a service has done, and their values, if they have any."""
        self.reason[entries] = ~is_done * np.int8(SERVICE_REFUSED)
        if value is not None:
            self.value[entries], self.has_value = is_done * value, True

    def rows_of(self, first: int, until: int) -> slice:
        """Return the slice of entries by rows `first` … `until` − 1."""
        low, high = np.searchsorted(self.sender, [first, until])
        return slice(int(low), int(high))

    def answers(self, row: int, population: Register) -> list[Answer]:
        """Return a citizen's entries as answers."""
        part = self.rows_of(row, row + 1)
        entries = range(part.start, part.stop)
        return [self.answer(index, self.want(index, population), population) for index in entries]

    def answer(self, index: int, want: Want, population: Register) -> Answer:
        """Return the answer to an entry, which stands for a want."""
        reason_code = int(self.reason[index])
        value = int(self.value[index]) if self.has_value and not reason_code else None
        words = _reason_in_words(reason_code, want, int(self.sender[index]), population)
        return Answer(want, not reason_code, words, value)

    def want(self, index: int, population: Register) -> Want:
        """Return the want of an entry."""
        kinds = field_kinds(self.kind)
        fields = {
            name: population.decode(kinds[name], int(values[index]))
            for name, values in self.fields.items()
        }
        return self.kind(**fields)


def _reason_in_words(reason_code: int, want: Want, row: int, population: Register) -> str:
    """Return why a want of a row was refused; of a move in words of its own."""
    if isinstance(want, wants.Move) and reason_code in (PLACE_FULL, NO_WAY, ON_WAY):
        place, to = (
            population.decode(wants.PLACE, int(population.arrays[name][row]))
            for name in ("place", "moving_to")
        )
        words = {PLACE_FULL: f"{want.to} is full", ON_WAY: f"on the way to {to}"}
        try:
            if reason_code == NO_WAY and place is not None:
                population.city.seconds(place, want.to, want.mode)
        except ConfigError as error:  # there is no such mode
            return str(error)
        return words.get(reason_code, f"there is no way from {place} to {want.to}")
    return REFUSAL_REASONS[reason_code]


def join_wants(kind: type[Want], parts: Sequence[tuple[Array, Mapping[str, Array]]]) -> Table:
    """Return one table of the wants of shards, by sender, in each sender's order."""
    sender = np.concatenate([part[0] for part in parts])
    fields = {}
    for name in field_kinds(kind):
        values = [part[1][name] for part in parts]
        if not any(each.shape for each in values) and len({int(each) for each in values}) == 1:
            fields[name] = _repeat_view(values[0], len(sender))
        else:
            pairs = zip(values, parts, strict=True)
            widened = [
                each if each.shape else _repeat_view(each, len(part[0])) for each, part in pairs
            ]
            fields[name] = np.concatenate(widened)
    if (sender[1:] < sender[:-1]).any():
        order = np.argsort(sender, kind="stable")
        sender = sender[order]
        fields = {name: values[order] for name, values in fields.items()}
    return Table(kind, sender, fields)


def _repeat_view(number: Array, count: int) -> Array:
    """Return a number so many times without room for each, far sooner than `broadcast_to` does."""
    return np.ndarray((count,), number.dtype, number, 0, (0,))


def encode_want(want: Want, population: Register, *, texts: bool = True) -> list[int] | None:
    """Return the numbers of an agent's want, without `texts`; None if there is none for it."""
    try:
        return [
            population.encode(kind, getattr(want, name)) if texts or kind != TEXT else -1
            for name, kind in field_kinds(type(want)).items()
        ]
    except (KeyError, ConfigError):
        return None


def checked_fields(
    kind: type[Want], values: Mapping[str, object], count: int, population: Register
) -> dict[str, Array]:
    """Return the fields of wants of rows as int64 arrays. Raises ConfigError: one is wrong."""
    if not (isinstance(kind, type) and issubclass(kind, Want)) or kind is Want:
        raise ConfigError(f"rows can want {', '.join(WANTS)}, or a kind of yours; got {kind!r:.80}")
    kinds = field_kinds(kind)
    unknown = set(values) - set(kinds)
    if unknown:
        raise ConfigError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
    arrays = {}
    for name, field_kind in kinds.items():
        value = values.get(name, values)
        if value is values and (value := kind.__dataclass_fields__[name].default) is MISSING:
            raise ConfigError(f"{kind.__name__} needs {name}=")
        if value is None or isinstance(value, str):
            value = population.encode(field_kind, value)
        array = np.asarray(value)
        if array.dtype.kind not in "iub" or array.shape not in ((), (count,)):
            raise ConfigError(
                f"{name}= of {kind.__name__} must be whole numbers, one for each of {count} rows, "
                f"got {array.dtype} of shape {array.shape}"
            )
        arrays[name] = array.astype(np.int64, copy=False)
    return arrays
