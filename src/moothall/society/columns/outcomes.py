"""Outcomes, for rows: what came of what they wanted in the step before."""

from __future__ import annotations

from moothall.society.arrays import Array, np
from moothall.society.columns.row_part import RowPart
from moothall.society.kernel.wants import Want


class RowOutcomes(RowPart):
    """The part of `Rows` that has the answers to wants."""

    @property
    def is_answered(self) -> bool:
        """Whether anybody has an answer."""
        return bool(self.moment.answers)

    def answers(self, kind: type[Want]) -> tuple[Array, Array]:
        """Return the outcome of each row's last want of a kind in the step before.

        Returns:
            int8: 1 done, −1 refused, 0 there was none; and int64: what came of it
        """
        outcome = np.zeros(self.until - self.first, np.int8)
        value = np.zeros(self.until - self.first, np.int64)
        table = self.moment.answers.get(kind)
        if table is not None:
            part = table.rows_of(self.first, self.until)
            rows = table.sender[part] - self.first
            outcome[rows] = np.where(table.reason[part] == 0, 1, -1)
            value[rows] = table.value[part]
        return self.inside(outcome), self.inside(value)

    def gained(self, kind: type[Want]) -> Array | None:
        """Return the sum of what came of each row's wants of a kind in the step before.

        Returns:
            int64; None where no row had any
        """
        table = self.moment.answers.get(kind)
        if table is None:
            return None
        sums = np.zeros(self.until - self.first, np.int64)
        part = table.rows_of(self.first, self.until)
        gains = table.value[part] * (table.reason[part] == 0)
        np.add.at(sums, table.sender[part] - self.first, gains)
        return self.inside(sums)

    def refused(self, *kinds: type[Want]) -> Array | None:
        """Return which rows had a want of these kinds refused in the step before.

        Returns:
            booleans; None where no row's was
        """
        is_refused = None
        for kind in kinds:
            table = self.moment.answers.get(kind)
            if table is None:
                continue
            part = table.rows_of(self.first, self.until)
            rows = table.sender[part][table.reason[part] != 0]
            if len(rows):
                is_refused = (
                    np.zeros(self.until - self.first, bool) if is_refused is None else is_refused
                )
                is_refused[rows - self.first] = True
        return None if is_refused is None else self.inside(is_refused)

    def reason(self, kind: type[Want], row: int) -> str:
        """Return why a row's last refused want of a kind was refused; "" if none was."""
        table = self.moment.answers.get(kind)
        answers = [] if table is None else table.answers(row, self.population)
        reasons = [each.reason for each in answers if not each.done]
        return reasons[-1] if reasons else ""
