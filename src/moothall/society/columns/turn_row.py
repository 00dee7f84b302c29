"""One citizen that has turns as a row, for the rules that its blocks have for rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from moothall.society.arrays import Array, any_of, np
from moothall.society.columns.row_part import Moment
from moothall.society.columns.rows import Rows
from moothall.society.kernel.wants import AGENT_ID, TEXT, Want, field_kinds


def moment_of(view: Any, register: Any) -> Moment:
    """Return what all citizens of a register that have turns share in a step."""
    key = "own moment", register
    moment: Moment | None = view.cache.get(key)
    if moment is None:
        moment = view.cache[key] = Moment(view)
    return moment


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
    remembers = True

    def __init__(self, agent: Any, city: Any) -> None:
        status, perceived = agent.memory.status, agent.perceived
        register, view = status.register, perceived.view
        if register.is_alone:
            register.settle(agent)
        super().__init__(register, moment_of(view, register), status.row, status.row + 1, {})
        self.city, self.blocks = city, agent.blocks
        self.agent: Any = agent
        self._status, self._row = status, status.row
        self._arrays: dict[str, Array] = register.arrays
        self._perceived = perceived

    def column(self, name: str) -> Any:
        """Return the number in a column; of one with several numbers an array of one row."""
        array = self._arrays[name]
        return array.item(self._row) if array.ndim == 1 else array[self._row : self._row + 1]

    __getitem__ = column

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "act":
            dict.pop(self._status, name, None)
        elif name in self._status.not_given and any_of(value):
            self._status.show(name)
        self._arrays[name][self._row : self._row + 1] = value

    def who_remembers(self, row: int) -> Any:
        """Return the citizen."""
        return self.agent

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
        if not self._perceived.messages:
            return
        for each, sender in zip(self._say_messages, self.senders()[1], strict=True):
            topic, opinion = map(each["action"]["args"].get, ("topic", "opinion"))
            if not isinstance(topic, str) or type(opinion) is not int:
                topic, opinion = "", 0
            word = self.population.word_numbers.get(topic, -1) if topic else -1
            limited = max(-1000, min(1000, opinion))
            yield self, np.array([sender]), np.array([word]), np.array([limited])
