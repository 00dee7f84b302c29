"""Rows: what a block's `step_rows` is given, a part of a population in one step."""

from __future__ import annotations

from collections.abc import Sequence

from moothall import ConfigError
from moothall.society.arrays import Array, ArrayLike, np
from moothall.society.columns.lives import Lives
from moothall.society.columns.outcomes import RowOutcomes
from moothall.society.columns.turns import RowTurns
from moothall.society.kernel import draw


class Rows(Lives, RowTurns, RowOutcomes):
    """Some of a population's citizens in one step; arrays have one entry for each of them.

    `rows[name]` is a column of these citizens as it is now; `rows[name] = values` writes one that
    the block has declared. `rows.seen(name)` is a column of *all* citizens as the step before left
    it. Nobody sees what another does in this step.

    Attributes:
        index: which rows of the population these are, rising; int64
        ids: their ids as numbers; uint64
        step: the number of the step
        seconds: how long the step is, in simulated seconds
        time: seconds since midnight when it begins
        clock: when it begins
        facts: the weather and other facts that hold everywhere
        city: the places; None for none
        network: who knows whom; None for none; a block of all rows (`whole`) may set another
        layers: what each place has, by name; a block of all rows may write it
        citizens: how many citizens there are in all
        params: the parameters of the block
    """

    def seen(self, name: str) -> Array:
        """Return a column of the whole population as the step before left it, read-only.

        Money and places, which the commit stage alone writes, are seen by all.

        Raises:
            ConfigError: the column is not declared with `seen=True`
        """
        values: Array | None = self.moment.visible.get(name)
        if values is None:
            raise ConfigError(f"block {self._block}: declare column {name!r} with seen=True")
        return values

    # -- random numbers ----------------------------------------------------------------------------

    def uniform(self, purpose: str, draw_: int = 0) -> Array:
        """Return `draws.uniform` of each: float64 in [0, 1)."""
        return draw.uniforms(self.population.seed, self.ids, self.step, purpose, draw_)

    def below(self, n: ArrayLike, purpose: str, draw_: int = 0) -> Array:
        """Return `draws.below` of each: int64, 0 … n−1; `n` is a number, or one for each row."""
        return draw.draw_below(n, self.population.seed, self.ids, self.step, purpose, draw_)

    def choice(self, weights: Sequence[float], purpose: str, draw_: int = 0) -> Array:
        """Return `draws.choice` of each, all by the same weights: int64."""
        return draw.choices(weights, self.population.seed, self.ids, self.step, purpose, draw_)

    # -- others ------------------------------------------------------------------------------------

    def neighbour(self, purpose: str, draw_: int = 0) -> Array:
        """Return the row of a random neighbour of each in the network, −1 without one; int64.

        It is `perceived.neighbours[draws.below(len(perceived.neighbours), purpose)]`.
        """
        starts, neighbours = self.links()
        degree = self.part(starts[1:]) - self.part(starts[:-1])
        is_lonely = degree == 0
        links = self.below(np.where(is_lonely, 1, degree), purpose, draw_) + self.part(starts[:-1])
        rows: Array
        if not is_lonely.any():
            rows = neighbours[links]
            return rows
        rows = np.full(len(self), -1, np.int64)
        rows[~is_lonely] = neighbours[links[~is_lonely]]
        return rows

    def neighbour_sum(self, values: ArrayLike) -> Array:
        """Return for each the sum of a column of the whole population over its neighbours.

        Args:
            values: integers or booleans of all citizens, as `rows.seen` gives them

        Returns:
            int64
        """
        numbers = np.asarray(values)
        if numbers.dtype.kind not in "biu":
            raise ConfigError("neighbour_sum sums integers: sums of floats depend on their order")
        if len(numbers) != self.citizens or any(values is each for each in self._gathered.values()):
            raise ConfigError(
                f"block {self._block}: neighbour_sum takes a column of all {self.citizens:,} "
                "citizens, as rows.seen(name) gives it, not rows[name]"
            )
        starts, neighbours = self.links()
        low, high = int(starts[self.first]), int(starts[self.until])
        sums = np.zeros(high - low + 1, np.int64)
        np.cumsum(numbers[neighbours[low:high]], out=sums[1:])
        part = starts[self.first : self.until + 1] - low
        return self.inside(sums[part[1:]] - sums[part[:-1]])

    def word(self, text: str) -> int:
        """Return the number that stands for one of the words in wants."""
        return self.population.word_numbers[text]
