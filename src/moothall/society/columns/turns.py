"""Turns, for rows: who acts before whom in a step, where they act one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from moothall import ConfigError
from moothall.society.arrays import Array, ArrayLike, np
from moothall.society.columns.row_part import RowPart


class RowTurns(RowPart):
    """The part of `Rows` by which citizens act one after the other within a step."""

    def order(self, purpose: str) -> Array:
        """Return the positions of these rows in a drawn order, each order as likely as another.

        A block that goes through them one by one, and keeps what each does where the next sees
        it, does what other frameworks call random activation.

        Args:
            purpose: of the draw

        Returns:
            int64

        Raises:
            ConfigError: the block does not say `whole = True`
        """
        self._check_whole("order")
        return np.argsort(self.integer(purpose), kind="stable")

    def turns(
        self, purpose: str | None, links: tuple[ArrayLike, ArrayLike] | None = None
    ) -> Iterator[Array]:
        """Give the positions of these rows by turns, as if each acted alone in a drawn order.

        No two rows of a turn are linked, and each row comes after those linked to it that come
        before it in the order. So, if what a row does concerns only itself and those to whom it is
        linked, a turn acts at once and comes to the same as its rows would one after the other.

        Args:
            purpose: of the draw of the order, as of `order`; None for the order of ids
            links: who concerns whom, as compressed rows over all citizens: starts and neighbours;
                those of the network if left out

        Yields:
            int64, rising; each row is in one turn

        Raises:
            ConfigError: the block does not say `whole = True`, or there is no network
        """
        self._check_whole("turns")
        count, citizen_count = len(self), self.citizens
        rank = np.arange(count)
        if purpose is not None:
            rank[self.order(purpose)] = np.arange(count)
        starts, neighbours = (
            np.asarray(each) for each in (self.links() if links is None else links)
        )
        if len(starts) != citizen_count + 1 or len(neighbours) != starts[-1]:
            raise ConfigError(
                f"block {self._block}: links must be starts and neighbours of all "
                f"{citizen_count:,} citizens, got {len(starts):,} starts and {len(neighbours):,} "
                "neighbours"
            )
        row, other = np.repeat(np.arange(citizen_count), np.diff(starts)), neighbours
        if count < citizen_count:
            position = np.full(citizen_count + 1, -1)  # the last: of −1, which is nobody
            position[self.index] = np.arange(count)
            row, other = position[row], position[other]
        is_link = (row != other) & (np.minimum(row, other) >= 0)
        row, other = row[is_link], other[is_link]
        is_first = rank[row] < rank[other]
        first, second = np.where(is_first, row, other), np.where(is_first, other, row)
        return _split_by_turn(rank, first, second)


def _split_by_turn(rank: Array, first: Array, second: Array) -> Iterator[Array]:
    """Give who waits for nobody, then who waits only for those, and so on."""
    # A loop over the links: arrays for each turn take several times as long.
    turns = [0] * len(rank)
    order = np.argsort(rank[first])
    for row, other in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if turns[other] <= turns[row]:
            turns[other] = turns[row] + 1
    rows = np.argsort(turns, kind="stable")
    ends = np.cumsum(np.bincount(turns)).tolist()
    return (rows[begin:end] for begin, end in zip([0, *ends], ends, strict=False))
