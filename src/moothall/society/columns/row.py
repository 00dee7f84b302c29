"""One citizen that has turns: its columns, of which its status is a view, and itself as a row."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from moothall.society.arrays import Array, any_of, np
from moothall.society.columns.column import PLACES, Column
from moothall.society.columns.register import Register, is_number
from moothall.society.columns.row_part import Moment
from moothall.society.columns.rows import Rows
from moothall.society.columns.status import ColumnKey, Layout, Status, StatusPart, layout_of
from moothall.society.kernel.draw import id_words, number_or_text
from moothall.society.kernel.wants import AGENT_ID, TEXT, Want, field_kinds

_COMMIT_KEYS: Final = ("money", "place", "moving")  # what the commit stage writes into the status


@functools.lru_cache(maxsize=64)
def _vocabulary(words: tuple[str, ...]) -> tuple[list[str], dict[str, int]]:
    return list(words), {word: number for number, word in enumerate(words)}


class OwnColumns(Register):
    """The columns of one citizen; without a city, each name is a place."""

    remembers: bool = True
    arrays: dict[str, Array]
    declared: dict[str, Column]
    words: list[str]
    word_numbers: dict[str, int]

    def __init__(self, agent: Any, city: Any, blocks: tuple[Any, ...]) -> None:
        super().__init__(id_words([number_or_text(str(agent.id))]), city, blocks, 0, None)
        modes = [mode for b in blocks if (mode := getattr(b.params, "mode", None)) is not None]
        self.words, self.word_numbers = _vocabulary(tuple(dict.fromkeys([*self.words, *modes])))
        acts = max((getattr(each, "acts", ()) for each in blocks), key=len)
        self.declared |= {**PLACES, "act": replace(self.declared["act"], words=acts)}
        self.arrays |= {name: column.new_array(1) for name, column in PLACES.items()}
        layout = layout_of(self)
        self.layout: Layout = {k: v for k, v in layout.items() if k not in _COMMIT_KEYS}
        self._belong_to(agent)

    def _belong_to(self, agent: Any) -> None:
        self.names: list[str] = [] if is_number(str(agent.id)) else [str(agent.id)]
        self.handles: dict[int, Any] = {0: agent}

    def is_for(self, city: Any, blocks: Sequence[Any]) -> bool:
        """Return whether these are the columns of citizens of a city with these blocks."""
        kinds = [[(type(each), each.params) for each in some] for some in (self.blocks, blocks)]
        return self.city is city and kinds[0] == kinds[1]

    def for_agent(self, agent: Any) -> OwnColumns:
        """Return columns of the same kind for another citizen."""
        columns = copy.copy(self)
        columns.ids = id_words([number_or_text(str(agent.id))])
        columns.arrays = {name: array.copy() for name, array in self.arrays.items()}
        columns.strangers = []
        columns._belong_to(agent)
        return columns

    def empty(self) -> None:
        """Have what citizens begin with."""
        for name, column in self.declared.items():
            self.arrays[name][...] = column.new_array(1)

    def place_number(self, place: str | None) -> int:
        """Return the number of a place, −1 for None."""
        is_new = isinstance(place, str) and place not in self.place_numbers
        if is_new and self.city is None:
            self.places: tuple[str, ...] = (*self.places, str(place))
            self.place_numbers: Mapping[str, int] = {p: n for n, p in enumerate(self.places)}
        return super().place_number(place)

    def settle(self, status: Mapping[str, Any], place: str | None) -> None:
        """Take what the commit stage has written into a status, and where the citizen is."""
        arrays, moving = self.arrays, status.get("moving") or {}
        arrays["money"][0] = status.get("money", 0)
        for name, each in (("place", place), ("moving_to", moving.get("to"))):
            is_known = self.city is None or each in self.place_numbers
            arrays[name][0] = self.place_number(each) if is_known else -1


class OwnStatus(Status):
    """The status of a citizen that has turns: a view of its columns, which nobody else has."""

    __slots__ = ("not_given",)
    register: OwnColumns
    stuck_by: str
    not_given: set[str]  # the columns that it had no value for: shown once they have another

    def __init__(self, values: Mapping[str, Any], register: OwnColumns) -> None:
        super().__init__(register, register.layout, 0)
        self.take_extras(values)

    def has_places_of(self, city: Any) -> bool:
        """Return whether its columns have numbers for the places of a city, which they use then."""
        own_city = self.register.city
        if not hasattr(city, "ids") or city is own_city:
            return True
        if own_city is not None and tuple(city.ids()) == self.register.places:
            self.register.city = city
            return True
        return False

    def move_to(self, register: OwnColumns) -> None:
        """Have other columns with the same values."""
        values = self.plain()
        self.register, self._layout = register, register.layout
        self.take_extras(values)

    def extras(self) -> dict[str, Any]:
        """Return all: nobody else writes down its columns."""
        return self.plain()

    def take_extras(self, extras: Mapping[str, Any]) -> None:
        """Have these values, and no others. Raises ConfigError: one does not fit its column."""
        register = self.register
        register.empty()
        register.pull(self.row, extras)
        self.not_given = {
            name
            for name, column in register.declared.items()
            if not column.own and column.of_status(name, extras, lambda _: 0) is None
        }
        super().take_extras({})
        self.keep_beside(extras)
        self.stuck_by = extras.get("stuck") or ""

    def read(self, entry: Any, path: tuple[str, ...]) -> Any:
        """Return the value of a key; None for none."""
        if isinstance(entry, ColumnKey) and entry.name in self.not_given:
            number = self.register.arrays[entry.name].item(0)
            if number == (-1 if entry.column.default is None else entry.column.default):
                raise KeyError(path[-1])
        return super().read(entry, path)

    def write(self, entry: Any, path: tuple[str, ...], value: Any) -> None:
        """Write the value of a key; None for none. Raises ConfigError: it does not fit."""
        if isinstance(entry, ColumnKey):
            self.not_given.discard(entry.name)
            if entry.column.words:
                value = self._known_word(entry, path, value)
        super().write(entry, path, value)

    def _known_word(self, entry: ColumnKey, path: tuple[str, ...], word: Any) -> Any:
        """Return a word of a column; another, such as an act of one's own, hides it in the dict."""
        part: StatusPart = self
        for key in path[:-1]:
            part = part[key]
        dict.pop(part, path[-1], None)
        if word is None or word in entry.column.words:
            return word
        dict.__setitem__(part, path[-1], word)
        return "idle" if entry.name == "act" else entry.column.words[-1]


class Row(Rows):
    """One citizen as a row: numbers in the place of arrays of one, where that is faster.

    What it perceives it has from its perception; what it wants goes by the block's `want`, and what
    it says by its `say`.

    Attributes:
        block: the block whose rule runs
    """

    block: Any
    city: Any
    blocks: tuple[Any, ...]

    def __init__(self, agent: Any, city: Any) -> None:
        status, perceived = agent.memory.status, agent.perceived
        register, view = status.register, perceived.view
        register.seed = agent.draws.words[0]
        if isinstance(status, OwnStatus):
            register.settle(status, perceived.place)
        key = "own moment", id(register.words), id(register.place_numbers)
        if (moment := view.cache.get(key)) is None:
            moment = view.cache[key] = Moment(view)
        super().__init__(register, moment, status.row, status.row + 1, {})
        self.city, self.blocks = city, agent.blocks
        self.agent: Any = agent
        self._status, self._row = status, status.row
        self._arrays: dict[str, Array] = register.arrays
        self._perceived = perceived
        self.not_given: set[str] = getattr(status, "not_given", set())

    def column(self, name: str) -> Any:
        """Return the number in a column; of one with several numbers an array of one row."""
        array = self._arrays[name]
        return array.item(self._row) if array.ndim == 1 else array[self._row : self._row + 1]

    __getitem__ = column

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "act":
            dict.pop(self._status, name, None)
        elif name in self.not_given and any_of(value):
            self.not_given.discard(name)
        self._arrays[name][self._row : self._row + 1] = value

    def write_back(self) -> None:
        """Do nothing: what is written is there at once."""

    def only(self, chosen: Any) -> Iterator[Row]:
        """Yield this row if it is chosen."""
        if any_of(chosen):
            yield self

    def some(self, at: Array) -> Iterator[Row]:
        """Yield this row if a position is given."""
        if len(at):
            yield self

    # -- wants, and what became of them ------------------------------------------------------------

    def _value(self, content: str, number: Any) -> Any:
        if number is None or isinstance(number, str):
            return number
        return self.population.decode(content, int(np.ravel(number)[0]))

    def want(self, kind: type[Want], /, where: Any = True, **fields: Any) -> None:
        """Make a want."""
        if any_of(where):
            kinds = field_kinds(kind)
            self.block.want(kind(**{k: self._value(kinds[k], v) for k, v in fields.items()}))

    @property
    def is_answered(self) -> bool:
        """Whether it has an answer."""
        return bool(self._perceived.answers)

    def answers(self, kind: type[Want]) -> tuple[Any, Any]:
        """Return the outcome of its last want of a kind in the step before, as `Rows` does."""
        state = value = 0
        for answer in self._perceived.answers:
            if isinstance(answer.want, kind):
                state, value = (1, answer.value or 0) if answer.done else (-1, 0)
        return state, value

    def gained(self, kind: type[Want]) -> Any:
        """Return the sum of what came of its wants of a kind in the step before."""
        answers = [each for each in self._perceived.answers if isinstance(each.want, kind)]
        return sum(each.value or 0 for each in answers if each.done) if answers else None

    def refused(self, *kinds: type[Want]) -> Any:
        """Return True if a want of these kinds was refused in the step before, else None."""
        answers = self._perceived.answers
        return any(not each.done and isinstance(each.want, kinds) for each in answers) or None

    def reason(self, kind: type[Want], row: int) -> str:
        """Return why its last refused want of a kind was refused; "" if none was."""
        refused = [each for each in self._perceived.answers if not each.done]
        return next((a.reason for a in reversed(refused) if isinstance(a.want, kind)), "")

    # -- others, and random numbers ----------------------------------------------------------------

    def below(self, n: Any, purpose: str, draw_: Any = 0) -> Any:
        """Return a random number 0 … n−1."""
        if type(n) is type(draw_) is int:
            return self.agent.draws.below(n, purpose, draw_)
        return super().below(n, purpose, draw_)

    def present(self) -> tuple[Any, Any, Callable[[Any], Any]]:
        """Return how many are at its place, itself too, where it is among them, and who others are.

        The function gives the number of who is at a position among them.
        """
        present, me = self._perceived.present, self._perceived.id
        position = present.index(me) if me in present else len(present)
        number_of = self.population.number_of
        count = max(len(present), position + 1)
        return (
            count,
            position,
            lambda at: np.array(
                [number_of(present[each]) if present else -1 for each in np.ravel(at).tolist()]
            ),
        )

    def say(self, to: Any, text: Any, topic: Any = "", opinion: Any = 0, where: Any = True) -> None:
        """Say something to another."""
        if any_of(where):
            words = [self._value(TEXT, text), self._value(TEXT, topic)]
            self.block.say(self._value(AGENT_ID, to), *words, int(np.ravel(opinion)[0]))

    @property
    def _say_messages(self) -> list[dict[str, Any]]:
        messages = self._perceived.messages
        return [each for each in messages if each["action"]["name"] == "say"] if messages else []

    def heard_count(self) -> Any:
        """Return how many messages it got in the step before."""
        return len(self._say_messages)

    def senders(self) -> tuple[Array, Array]:
        """Return of what it heard 0, and the sender's number."""
        numbers = [self.population.number_of(each["from"]) for each in self._say_messages]
        return np.zeros(len(numbers), np.int64), np.array(numbers, np.int64)

    def heard_in_turn(self) -> Iterator[tuple[Row, Array, Array, Array]]:
        """Yield of each message this row, and the numbers of sender, topic and opinion."""
        for each, sender in zip(self._say_messages, self.senders()[1], strict=True):
            topic, opinion = map(each["action"]["args"].get, ("topic", "opinion"))
            if not isinstance(topic, str) or type(opinion) is not int:
                topic, opinion = "", 0
            word = self.population.word_numbers.get(topic, -1) if topic else -1
            limited = max(-1000, min(1000, opinion))
            yield self, np.array([sender]), np.array([word]), np.array([limited])
