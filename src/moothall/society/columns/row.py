"""One citizen as a row: the rules for rows read and write its status by the names of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from moothall.society.arrays import Array, np
from moothall.society.columns.column import MONEY, PLACES, Column
from moothall.society.kernel.perception import Item, Perception, item_of
from moothall.society.kernel.wants import PLACE, Want

_UNSET: Final[Mapping[str, Any]] = {}


class Row:
    """One citizen in a step, with what `Rows` has: numbers and texts in the place of arrays.

    A column has the number that it has in rows; a place is its id, None for none, and `only` gives
    the row itself or nothing. What it wants goes by the block's `want`, what it does by its `act`.

    Args:
        block: the block whose rule runs
        begins: whether the rule comes before the step, so that its act is none of the citizen's
    """

    __slots__ = ("_block", "_city", "_fields", "_is_before", "_perceived", "_status", "broken_by")
    is_single: ClassVar[Literal[True]] = True
    has_places: ClassVar[bool] = True

    def __init__(self, block: Any, *, begins: bool = False) -> None:
        agent = block.agent
        self.broken_by: str = ""  # what has broken its plan, in words
        self._city: Any = _UNSET
        self._block = block
        self._is_before = begins
        self._status: dict[str, Any] = agent.memory.status
        self._perceived: Perception = agent.perceived
        kind = type(block)
        self._fields = _FIELDS.get(kind) or _FIELDS.setdefault(kind, _status_fields(block))

    @property
    def step(self) -> int:
        """The number of the step."""
        return self._perceived.view.step

    @property
    def seconds(self) -> int:
        """How long the step is."""
        return self._perceived.view.seconds

    @property
    def lasted(self) -> int:
        """How long the step before was."""
        return self._perceived.view.lasted

    @property
    def clock(self) -> Any:
        """When the step begins."""
        return self._perceived.view.clock

    @property
    def city(self) -> Any:
        """The places; None for none."""
        if self._city is _UNSET:  # it was not asked yet
            self._city = self._block.city
        return self._city

    @property
    def status(self) -> dict[str, Any]:
        """The status that it reads and writes."""
        return self._status

    @property
    def blocks(self) -> Sequence[Any]:
        """The citizen's blocks."""
        blocks: Sequence[object] = self._block.agent.blocks
        return blocks

    def note(self, text: str) -> None:
        """Remember an event of this step."""
        self._block.note(text)

    @property
    def item(self) -> Item | None:
        """The current item of its plan."""
        return item_of(self._status)

    # -- columns -----------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        field = self._fields.get(name)
        if field is None:
            return self._item_value(name)
        parent, key, default, codes, other_code, _ = field
        status = self._status if parent is None else self._status.get(parent) or _UNSET
        if codes is None:
            return status.get(key, default)
        return codes.get(status.get(key), other_code)

    column = __getitem__

    def _item_value(self, name: str) -> Any:
        """Return what is no value of the status itself: the place, and the plan's current item."""
        if name == "place":
            return self._perceived.place
        item = self.item
        if name == "item_do":  # an item and its act have the same code
            return 0 if item is None else self._fields["act"][3].get(item["do"], 0)
        if item is None:
            return None if name == "item_where" else 0
        return item["where" if name == "item_where" else "until"]

    def __setitem__(self, name: str, value: object) -> None:
        parent, key, default, _, _, words = self._fields[name]
        if words:
            value = words[value]
            if value is None:
                self._status.pop(key, None)
                return
            if name == "act" and not self._is_before:
                self._block.act(value)
                return
        status = self._status if parent is None else self._status.setdefault(parent, {})
        if value or key in status or default:  # what is not there is 0
            status[key] = value

    def by(self, block: Any) -> Row:
        """Return the row as another of the citizen's blocks reads it."""
        return Row(block)

    def only(self, chosen: bool) -> tuple[Row, ...]:
        """Return this row if it is chosen."""
        return (self,) if chosen else ()

    def some(self, at: Array) -> tuple[Row, ...]:
        """Return this row if a position is given."""
        return (self,) if len(at) else ()

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        seed: int = self._block.draws.words[0]
        return seed

    @property
    def ids(self) -> Array:
        """The number that stands for the citizen in draws, in an array."""
        return np.array([self._block.draws.words[1]], np.uint64)

    # -- wants, and what became of them ------------------------------------------------------------

    def want(self, kind: type[Want], /, where: bool = True, **fields: object) -> None:
        """Make a want."""
        if where:
            self._block.want(kind(**fields))

    def word(self, text: str) -> str:
        """Return what stands for a text in wants: itself."""
        return text

    @property
    def is_answered(self) -> bool:
        """Whether it has an answer."""
        return bool(self._perceived.answers)

    def answers(self, kind: type[Want]) -> tuple[int, int]:
        """Return the outcome of its last want of a kind in the step before, as `Rows` does."""
        state = value = 0
        for answer in self._perceived.answers:
            if isinstance(answer.want, kind):
                state, value = (1, answer.value or 0) if answer.done else (-1, 0)
        return state, value

    def gained(self, kind: type[Want]) -> int | None:
        """Return the sum of what came of its wants of a kind in the step before."""
        answers = [each for each in self._perceived.answers if isinstance(each.want, kind)]
        return sum(each.value or 0 for each in answers if each.done) if answers else None

    def refused(self, *kinds: type[Want]) -> bool | None:
        """Return True if a want of these kinds was refused in the step before, else None."""
        answers = self._perceived.answers
        return any(not each.done and isinstance(each.want, kinds) for each in answers) or None

    def reason(self, kind: type[Want]) -> str:
        """Return why its last refused want of a kind was refused."""
        refused = [each for each in self._perceived.answers if not each.done]
        return next((a.reason for a in reversed(refused) if isinstance(a.want, kind)), "")

    # -- others, and random numbers ----------------------------------------------------------------

    def below(self, n: int, purpose: str, draw_: int = 0) -> int:
        """Return a random number 0 … n−1."""
        number: int = self._block.draws.below(n, purpose, draw_)
        return number

    def present(self) -> tuple[int, int, Callable[[int], str]]:
        """Return how many are at its place, itself too, where it is among them, and who others are.

        The function gives the id of who is at a position among them.
        """
        present, me = self._perceived.present, self._perceived.id
        position = present.index(me) if me in present else len(present)
        return max(len(present), position + 1), position, lambda at: present[at] if present else ""

    def say(
        self, to: str, text: str, topic: str = "", opinion: int = 0, where: bool = True
    ) -> None:
        """Say something to another."""
        if where:
            self._block.say(to, text, topic, opinion)

    @property
    def _say_messages(self) -> list[dict[str, Any]]:
        messages = self._perceived.messages
        return [each for each in messages if each["action"]["name"] == "say"] if messages else []

    def heard_count(self) -> int:
        """Return how many messages it got in the step before."""
        return len(self._say_messages)

    def senders(self) -> set[str]:
        """Return who has said something to it in the step before."""
        return {each["from"] for each in self._say_messages}

    def heard_in_turn(self) -> Iterator[tuple[Row, str, str, int]]:
        """Yield of each message this row, the sender, the topic and the opinion; "": no topic."""
        for each in self._say_messages:
            topic, opinion = map(each["action"]["args"].get, ("topic", "opinion"))
            if not isinstance(topic, str) or type(opinion) is not int:
                topic, opinion = "", 0
            yield self, each["from"], topic, max(-1000, min(1000, opinion))


_Fields = dict[str, tuple[Any, ...]]
_FIELDS: Final[dict[type, _Fields]] = {}  # by the class of the block


def _status_fields(block: Any) -> _Fields:
    """Return where a status has the columns that a block's rules read and write.

    The name above it, its own, what stands for nothing, the codes of texts, that of other texts,
    and the texts.
    """
    columns: dict[str, Column] = {**MONEY, "home": PLACES["home"], **block.columns}
    fields: _Fields = {}
    for name, column in columns.items():
        *path, key = column.key or (name,)
        words = block.acts if name == "act" else column.words
        default = None if column.dtype == PLACE else column.default
        codes = {word: number for number, word in enumerate(words)} if words else None
        if not column.own:
            parent = path[0] if path else None
            fields[name] = (parent, key, default, codes, len(column.words) - 1, words)
    return fields
