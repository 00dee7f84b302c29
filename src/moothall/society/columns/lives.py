"""Births and deaths of rows, as a step asks for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from moothall import ConfigError
from moothall.build import excerpt, nearest
from moothall.society.arrays import Array, ArrayLike, np
from moothall.society.columns.column import COMMIT_COLUMNS, Column
from moothall.society.columns.encounters import OtherCitizens

_NOT_GIVEN_AT_BIRTH = frozenset(COMMIT_COLUMNS) - {"place"}


@dataclass
class Changes:
    """What the rows of a step have asked for: births and deaths, appended by several threads."""

    # Births begin with their block and call in this chunk: so their order is the same for all
    # chunks.

    births: list[tuple[str, int, Array, dict[str, Array]]] = field(default_factory=list)
    deaths: list[tuple[Array, Array]] = field(default_factory=list)


class Lives(OtherCitizens):
    """The part of `Rows` by which rows come and leave."""

    _calls = 0

    def add(self, where: ArrayLike | None = None, /, **columns: ArrayLike) -> None:
        """Let each of these rows, or some of them, have a child: a new citizen of the next step.

        Children have new ids, above all that there have been, in the order of blocks, calls and
        parents. A child has no money. Its other columns have their defaults, but those given. Where
        its place is full, it is not born.

        Args:
            where: which of the rows: booleans, or rising positions, which may be there more than
                once; all if left out
            columns: values of the children's columns: one for all, or one for each of *these* rows,
                the parents

        Raises:
            ConfigError: there is no such column, or a value does not fit; or the citizens of this
                population cannot change: it has a network, or runs on several processes
        """
        changes = self._changes()
        positions = np.arange(len(self)) if where is None else self._positions(where)
        declared: dict[str, Column] = self.population.declared
        values: dict[str, Array] = {}
        for name, value in columns.items():
            if name not in declared or name in _NOT_GIVEN_AT_BIRTH:
                near = nearest(name, set(declared) - _NOT_GIVEN_AT_BIRTH)
                reason = (
                    "only the commit stage sets it"
                    if name in _NOT_GIVEN_AT_BIRTH
                    else f"none is there{near}"
                )
                raise ConfigError(f"block {self._block}: add: column {name!r}: {reason}")
            shape = (len(self), *self.population.arrays[name].shape[1:])
            values[name] = self._one_per_row(f"add: {name}", value, shape, "row")[positions]
        call, self._calls = self._calls, self._calls + 1
        changes.births.append((self._block, call, self.index[positions], values))

    def remove(self, where: ArrayLike | None = None, /, heirs: ArrayLike | None = None) -> None:
        """Let these rows, or some of them, leave for good after this step: they die, or move away.

        What they want in this step is still settled. Their ids are never used again.

        Args:
            where: which of the rows: booleans, or positions; all if left out
            heirs: who has their money and savings: rows of the population that stay, one, or one
                for each that leaves

        Raises:
            ConfigError: as of `add`
        """
        changes = self._changes()
        positions = np.arange(len(self)) if where is None else self._positions(where)
        heir_rows = self._one_per_row(
            "remove: heirs", -1 if heirs is None else heirs, (len(positions),), "of them"
        )
        if heir_rows.dtype.kind not in "iu":
            reason = f"heirs must be rows, whole numbers, got {excerpt(heirs)}"
            raise ConfigError(f"block {self._block}: remove: {reason}")
        changes.deaths.append((self.index[positions], heir_rows.copy()))

    def _one_per_row(self, label: str, value: ArrayLike, shape: tuple[int, ...], per: str) -> Array:
        """Return numbers or booleans, one for each. Raises ConfigError: they are others."""
        try:
            actual, values = excerpt(value), np.asarray(value)
            if values.dtype.kind in "biuf":
                actual = str(values.shape)
                return np.broadcast_to(values, shape)
        except ValueError:  # also of a list whose entries have unequal lengths
            pass
        rule = f"must be one number, or {shape[0]}, one for each {per}, got {actual}"
        raise ConfigError(f"block {self._block}: {label} {rule}")

    def _changes(self) -> Changes:
        changes: Changes | None = getattr(self.population, "changes", None)
        fixed_by = self.population.fixed_by
        if changes is None or fixed_by:
            raise ConfigError(
                f"block {self._block}: the citizens of this population cannot change: {fixed_by}"
            )
        return changes
