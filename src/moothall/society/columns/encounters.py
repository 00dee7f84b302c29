"""Others, for rows: who is at the same place, what is said to them and what they hear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from moothall import ConfigError
from moothall.society.arrays import Array, ArrayLike, import_package, np
from moothall.society.columns.lists import split_by_turn
from moothall.society.columns.row_part import RowPart
from moothall.society.columns.want_table import Say


class OtherCitizens(RowPart):
    """The part of `Rows` that concerns other citizens."""

    def say(
        self,
        to: ArrayLike,
        text: ArrayLike | None,
        topic: ArrayLike | None = "",
        opinion: ArrayLike = 0,
        where: ArrayLike | None = None,
    ) -> None:
        """Say something to a citizen, who hears it in the next step.

        Args:
            to: to whom, of each of these rows the row of a citizen
            text: what is said: a text of `words`, or of each the number of one
            topic: what it is about, likewise; `""` or its number for nothing
            opinion: what is thought of it, −1000 … 1000
            where: which of these rows say it, as of `want`
        """
        if np.max(to, initial=0) >= self.citizens:
            raise ConfigError(f"block {self._block}: say names a row beyond {self.citizens - 1}")
        self.want(Say, where=where, to=to, text=text, topic=topic, opinion=opinion)

    def heard(self) -> tuple[Array, Array, Array, Array, Array] | None:
        """Return what these rows were told in the step before: by receiver, in a drawn order.

        Returns:
            of each message the position of its receiver in these rows, the row of its sender, the
            number of its topic in `words` (−1 where no opinion is said), the opinion, and the
            number of its text (−1 for another text); None where nothing was said
        """
        messages = self.moment.messages
        if messages is None or not len(messages):
            return None
        inbox = messages.select(messages.rows_of(self.first, self.until))
        position = inbox.receiver - self.first
        if self._chosen is not None:
            indexes = np.full(self.until - self.first, -1)
            indexes[self._chosen] = np.arange(len(self))
            inbox, position = inbox.select(indexes[position] >= 0), indexes[position]
            position = position[position >= 0]
        if not len(position):
            return None
        return position, inbox.sender, inbox.topic, inbox.opinion, inbox.text

    def heard_in_turn(self) -> Iterator[tuple[Self, Array, Array, Array]]:
        """Yield rows that heard something, each its first message, then its second and so on.

        Yields:
            those rows, and of each message the row of its sender, the number of its topic in
            `words` (−1 where no opinion is said) and the opinion
        """
        messages = self.heard()
        if messages is None:
            return
        receivers, sender, topic, opinion, _ = messages
        for part in split_by_turn(receivers):
            for hearers in self.some(receivers[part]):
                yield hearers, sender[part], topic[part], opinion[part]

    def senders(self) -> tuple[Array, Array]:
        """Return of what these rows heard the position of the receiver, and the sender's row."""
        messages = self.heard()
        none = np.zeros(0, np.int64)
        return (none, none) if messages is None else messages[:2]

    def heard_count(self) -> Array:
        """Return how many messages each got in the step before; int64."""
        return np.bincount(self.senders()[0], minlength=len(self))

    def present(self) -> tuple[Array, Array, Callable[[Array], Array]]:
        """Return who is at the place of each, as `perceived.present`.

        Returns:
            of each how many are there, itself too (0 on the way), and where it is among them; and
            a function that gives the rows of those who are at these positions among them
        """
        places = self.moment.visible.get("place")
        if places is None:
            none = np.zeros(len(self), np.int64)
            return none, none, lambda position: none - 1
        starts, order, ranks = self.once("rows.present", lambda: _sort_by_place(places))
        place = self.part(places)
        first = starts[place]
        return starts[place + 1] - first, self.part(ranks) - first, lambda nth: order[first + nth]


def _sort_by_place(place: Array) -> tuple[Array, Array, Array]:
    """Return each place's start in the order by place, that order, and each row's rank in it."""
    placed = (place >= 0).nonzero()[0].astype(np.int32)
    places = place[placed]
    # A grid of citizens by places, turned: scipy counts, where numpy would sort.
    weights, index = np.ones(len(places), np.int8), np.arange(len(places) + 1, dtype=np.int32)
    shape = (len(places), int(places.max(initial=0)) + 1)
    grid = import_package("scipy.sparse").csr_matrix((weights, places, index), shape=shape).tocsc()
    order = placed[grid.indices]
    ranks = np.zeros(len(place), np.int32)
    ranks[order] = index[:-1]
    order = order if len(order) else np.array([-1], np.int32)  # of whom nobody is anywhere
    return np.append(grid.indptr, 0), order, ranks  # −1, nowhere, begins at 0
